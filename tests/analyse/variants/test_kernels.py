"""Classes of kernels, from names that torch's profiler gives on CUDA, and their shares of a profiled step."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

import variant_study
from dpscale.analyse.tables import build_tables
from dpscale.analyse.variants.kernels import (
    BATCH_NORM,
    CLASSES,
    CONVOLUTION,
    COPY,
    ELEMENT_WISE,
    IDLE,
    OTHER,
    kernel_class,
    shares,
)
from dpscale.tables.variants import KernelsRow

NAMES = {
    # cuDNN, CUTLASS and cuBLAS.
    "sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x64": CONVOLUTION,
    "void implicit_convolve_sgemm<float, float, 1024, 5, 5, 3, 3, 3, 1, false, false, true>": CONVOLUTION,
    "void cudnn::cnn::conv2d_grouped_direct_kernel<false, true, false, false, 0, 0>": CONVOLUTION,
    "ampere_sgemm_64x32_sliced1x4_tn": CONVOLUTION,
    "nvjet_tst_192x192_64x4_2x1_v_bz_coopB_TNN": CONVOLUTION,
    "triton_tem_fused_convolution_1": CONVOLUTION,
    # Batch-norm, of cuDNN, of torch, and as a reduction of Inductor.
    "void cudnn::bn_fw_tr_1C11_singleread<float, 512, true, 1, 2, 0>": BATCH_NORM,
    "void at::native::batch_norm_backward_reduce_channels_last_kernel<4, c10::BFloat16, float, float>": BATCH_NORM,
    "triton_red_fused__native_batch_norm_legit_functional_0": BATCH_NORM,
    "triton_per_fused__native_batch_norm_legit_functional_convolution_backward_5": BATCH_NORM,
    # Element-wise, fused or not, and optimisers.
    "triton_poi_fused__native_batch_norm_legit_functional_relu_4": ELEMENT_WISE,
    "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::arra": ELEMENT_WISE,
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::(anonymous namespace)"
    "::FusedOptimizerTensorListMetadata<3>": ELEMENT_WISE,
    # Copies, casts and layouts.
    "Memcpy HtoD (Pinned -> Device)": COPY,
    "Memset (Device)": COPY,
    "void nhwcAddPaddingKernel<__nv_bfloat16, __nv_bfloat16, float, true, (cudnnKernelDataType_t)0>": COPY,
    "void cudnn::engines_precompiled::nchwToNhwcKernel<float, __half, float, false, true>": COPY,
    "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)": COPY,
    # What is none of these.
    "void at::native::(anonymous namespace)::avg_pool2d_backward_out_cuda_frame_nhwc<c10::BFloat16, float": OTHER,
    "void at::native::(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d<float, float, long>": OTHER,
    "triton_per_fused_convolution_backward_sum_3": OTHER,
    "void at::native::index_kernel_impl<at::native::convert_something>": OTHER,
}


@pytest.mark.parametrize(("name", "expected"), NAMES.items())
def test_a_name_says_the_class(name: str, expected: str) -> None:
    assert kernel_class(name) == expected


def profile(step_s: float, busy_s: float, **seconds: float) -> dict[str, Any]:
    named = {kind: next(name for name, of in NAMES.items() if of == kind) for kind in CLASSES}
    kernels = [{"name": named[kind], "calls": 1, "total_s": spent} for kind, spent in seconds.items()]
    return {"steps": 10, "step_s": step_s, "busy_s": busy_s, "kernels": kernels}


def test_shares_are_of_the_step_and_idle_is_the_rest() -> None:
    found = shares(profile(10e-3, 8e-3, convolution=5e-3, batch_norm=1e-3, element_wise=2e-3))
    assert found == pytest.approx(
        {"convolution": 0.5, "batch_norm": 0.1, "element_wise": 0.2, "copy": 0.0, "other": 0.0, IDLE: 0.2}
    )


def test_kernels_at_the_same_time_share_the_busy_time() -> None:
    """A copy that lasts as long as the convolution under it makes the GPU no busier."""
    found = shares(profile(10e-3, 5e-3, convolution=5e-3, copy=5e-3))
    assert (found["convolution"], found["copy"], found[IDLE]) == pytest.approx((0.25, 0.25, 0.5))


def kernels(changed: Callable[[Mapping[str, Any]], Mapping[str, Any]] = lambda record: record) -> Sequence[KernelsRow]:
    measured = variant_study.collected()
    records = {cell: dict(changed(record)) for cell, record in measured.records.items()}
    return build_tables(variant_study.study(), replace(measured, records=records)).kernels


def test_the_table_has_a_row_per_variant_and_batch_on_one_gpu() -> None:
    rows = kernels()
    assert {(row.profiler_slows_by > 0.05, row.profiler) for row in rows} == {(True, "distorts"), (False, "ok")}
    found = {(row.variant, row.batch_per_gpu): row for row in rows}
    assert len(found) == 5 * len(variant_study.BATCHES)
    assert {row.gpus for row in found.values()} == {1}
    for row in found.values():
        assert sum(getattr(row, f"{kind}_share").value for kind in (*CLASSES, IDLE)) == pytest.approx(1)
    base = found["base", 2048]
    assert base.copy_share.value == pytest.approx(0.18 * 0.998 / 1.01, rel=1e-3)
    assert found["cuda_graph", 32].idle_share.value == pytest.approx(1 - 0.998 / 1.002, abs=1e-3)
