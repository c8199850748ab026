"""From study to cells: a pure function, so most of it is tested as properties."""

import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpscale.errors import StudyError
from dpscale.plan.cells import Configuration
from dpscale.plan.plan import batches_per_gpu, plan, runnable_plan
from dpscale.plan.study import Study

studies = st.fixed_dictionaries(
    {
        "study": st.just("s"),
        "device": st.sampled_from(["cuda", "cpu"]),
        "gpus": st.lists(st.sampled_from([2, 3, 4, 8]), unique=True, min_size=1).map(lambda gpus: [1, *gpus]),
        "strategies": st.lists(st.sampled_from(["dp", "ddp"]), unique=True, min_size=1).map(lambda s: ["single", *s]),
        "batch_per_gpu": st.lists(st.integers(1, 5000), unique=True, min_size=1, max_size=5)
        | st.fixed_dictionaries({"start": st.integers(1, 500), "factor": st.integers(2, 8), "until": st.just("oom")}),
        "strong_scaling_global_batch": st.lists(st.integers(1, 40).map(lambda n: 24 * n), unique=True, max_size=3),
        "gpus_available": st.none() | st.integers(0, 8),
        "runs": st.integers(1, 4),
        "dataset": st.fixed_dictionaries({"images": st.integers(1, 50_000)}),
    }
)

COPIES = {"reducer": "copies", "broadcast_buffers": False}


@given(studies)
def test_every_configuration_of_the_grid_is_measured_or_listed_with_a_reason(values: dict[str, Any]) -> None:
    study = Study(values)
    planned = plan(study)
    measured = set(planned.configurations)
    not_run = {item.configuration: item.reason for item in planned.not_run}
    assert not measured & set(not_run)
    assert all(not_run.values())
    batches = batches_per_gpu(study["batch_per_gpu"], study.epoch_images)
    for gpus in study["gpus"]:
        for strategy in ["single"] if gpus == 1 else [s for s in study["strategies"] if s != "single"]:
            strong = [b // gpus for b in study["strong_scaling_global_batch"]]
            for batch in {*batches, *strong}:
                assert (Configuration(strategy, gpus, batch) in measured) != (
                    Configuration(strategy, gpus, batch) in not_run
                )


def test_steps_are_taken_apart_at_the_batches_that_are_named() -> None:
    values = {"study": "s", "gpus": [1, 2], "strategies": ["single", "ddp"], "batch_per_gpu": [32, 128, 512]}
    planned = plan(Study({**values, "communication": {"runs": 2, "batch_per_gpu": [32, 512]}}))
    assert [(cell.configuration.batch_per_gpu, cell.run) for cell in planned.communication] == [
        (32, 1), (512, 1), (32, 2), (512, 2),
    ]  # fmt: skip
    assert len(planned.collectives) == 2
    assert {cell.configuration.batch_per_gpu for cell in planned.timing} == {32, 128, 512}


@given(studies, st.integers(0, 2))
def test_communication_is_measured_wherever_several_gpus_train(values: dict[str, Any], runs: int) -> None:
    planned = plan(Study({**values, "communication": {"runs": runs}}))
    parallel = {configuration for configuration in planned.configurations if configuration.gpus > 1}
    assert len(planned.communication) == runs * len(parallel)
    assert {cell.configuration for cell in planned.communication} == (parallel if runs else set())
    assert {cell.gpus for cell in planned.collectives} == (
        {configuration.gpus for configuration in parallel} if runs else set()
    )


@given(studies)
def test_cells_are_unique_can_be_measured_here_and_run_1_of_all_comes_before_run_2_of_any(
    values: dict[str, Any],
) -> None:
    study = Study(values)
    cells = plan(study).timing
    assert len({cell.path for cell in cells}) == len(cells)
    assert [cell.run for cell in cells] == sorted(cell.run for cell in cells)
    for configuration in plan(study).configurations:
        assert configuration.global_batch <= study.epoch_images
        assert (configuration.strategy == "single") == (configuration.gpus == 1)
        if study["device"] == "cpu":
            assert configuration.strategy != "dp"
        elif study["gpus_available"] is not None:
            assert configuration.gpus <= study["gpus_available"]


@given(st.integers(1, 500), st.integers(2, 8), st.integers(1, 50_000))
def test_a_series_until_oom_ends_with_the_first_batch_above_the_dataset(start: int, factor: int, images: int) -> None:
    series = batches_per_gpu({"start": start, "factor": factor, "until": "oom"}, images)
    assert series[0] == start
    assert all(b == a * factor for a, b in pairwise(series))
    assert series[-1] > images
    assert all(batch <= images for batch in series[:-1])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, '"study" is a required property'),
        ({"study": "Two Words"}, "study:"),
        ({"study": "s", "bacth_per_gpu": [32]}, "did you mean batch_per_gpu?"),
        ({"study": "s", "batch_per_gpu": [0]}, "batch_per_gpu[0]: 0 is less than the minimum of 1"),
        ({"study": "s", "batch_per_gpu": ["many"]}, 'batch_per_gpu[0]: "many" is not of type "integer"'),
        ({"study": "s", "batch_per_gpu": ["1e3"]}, "YAML reads 1e3 as text: write it as 1000)"),
        ({"study": "s", "batch_per_gpu": [32, 32]}, "batch_per_gpu: [32,32] has non-unique elements"),
        ({"study": "s", "strategies": ["horovod"]}, "strategies[0]"),
        ({"study": datetime.date(2026, 1, 1)}, "holds what JSON cannot"),
        ({"study": "s", "dataset": {"images": "5e4"}}, "YAML reads 5e4 as text: write it as 50000)"),
        ({"study": "s", "optimiser": {"learning_rate": "5e-4"}}, "YAML reads 5e-4 as text: write it as 0.0005"),
        ({"study": "s", "gpus": [2, 4]}, "strategies: single needs a number of GPUs in gpus that is 1"),
        ({"study": "s", "gpus": [1]}, "strategies: dp needs a number of GPUs in gpus that is more than 1"),
        ({"study": "s", "gpus": [1, 2], "strategies": ["ddp"]}, "gpus: 1 needs the strategy single"),
        ({"study": "s", "strong_scaling_global_batch": [30]}, "30 does not divide by 4 GPUs"),
        ({"study": "s", "network": {"name": "torchvision_resnet18", "width": 32}}, "network.width"),
        (
            {"study": "s", "cuda_graph": True},
            "cuda_graph: a captured step cannot be taken apart; set communication.runs",
        ),
        ({"study": "s", "precision": "bfloat16-pure"}, "precision: steps are taken apart with float32 weights; set"),
        ({"study": "s", "images_on": "device"}, "images_on: steps are taken apart with images on the host"),
        (
            {"study": "s", "ddp": {"gradient_dtype": "bfloat16"}},
            "ddp.gradient_dtype: steps are taken apart with float32",
        ),
        ({"study": "s", "ddp": {"reducer": "copies"}}, "ddp.reducer: copies sends no buffers: set ddp.broadcast_buff"),
        ({"study": "s", "ddp": COPIES}, "ddp.reducer: steps are taken apart with torch's reducer"),
        ({"study": "s", "ddp": COPIES, "device": "cpu"}, "ddp.reducer: a CPU has no engines that copy"),
        ({"study": "s", "cuda_graph": True, "device": "cpu"}, "cuda_graph: a CUDA graph needs CUDA GPUs"),
        (
            {"study": "s", "images_on": "device", "device": "cpu"},
            "images_on: on a CPU there is no memory but the host's",
        ),
    ],
)
def test_a_bad_study_gives_one_clear_line(values: dict[Any, Any], message: str) -> None:
    with pytest.raises(StudyError) as error:
        Study(values, source="my.yaml")
    assert str(error.value).startswith("my.yaml: ")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"batch_per_gpu": [60_000]}, "global batch 60000 > 50000 images"),
        ({"gpus_available": 0}, "needs 1 GPU, 0 here"),
        # What the machine lacks comes first.
        (
            {"gpus_available": 0, "batch_per_gpu": {"start": 32, "factor": 4, "until": "oom"}},
            "needs 1 GPU, 0 here; needs 2",
        ),
        ({"device": "cpu", "gpus": [2], "strategies": ["dp"]}, "not emulated"),
    ],
)
def test_a_study_of_which_nothing_can_run_is_an_error_with_the_reasons(values: dict[str, Any], reason: str) -> None:
    with pytest.raises(StudyError, match=r"nothing can be run here.*" + reason):
        runnable_plan(Study({"study": "s", "batch_per_gpu": [32], **values}))


def test_whole_numbers_may_be_written_with_a_point() -> None:
    study = Study({"study": "s", "runs": 2.0, "batch_per_gpu": [32.0], "dataset": {"images": 50000.0}})
    assert plan(study) == plan(Study({"study": "s", "runs": 2, "batch_per_gpu": [32]}))
    assert {type(cell.configuration.batch_per_gpu) for cell in plan(study).timing} == {int}
    assert "--epoch-images 50000 " in study.settings.options()


def test_a_file_that_is_no_study(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="cannot be read: No such file"):
        Study.read(tmp_path / "none.yaml")
    (tmp_path / "bad.yaml").write_text("study: [")
    with pytest.raises(StudyError, match="is not YAML"):
        Study.read(tmp_path / "bad.yaml")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"compile": "default"}, "compile does not go with DataParallel"),
        ({"cuda_graph": True, "communication": {"runs": 0}}, "cuda_graph does not go with DataParallel"),
        (
            {"strategies": ["single", "ddp", "fsdp"], "memory_format": "channels_last"},
            "memory_format does not go with",
        ),
    ],
)
def test_what_needs_a_process_per_gpu_leaves_dataparallel_out_with_a_reason(
    changes: dict[str, Any], reason: str
) -> None:
    planned = plan(Study({"study": "s", "gpus": [1, 2], "batch_per_gpu": [32], **changes}))
    assert {configuration.strategy for configuration in planned.configurations} == {"single", "ddp"}
    (left_out,) = planned.not_run
    at_fault = "fsdp" if "strategies" in changes else "dp"
    assert (left_out.configuration, left_out.state) == (Configuration(at_fault, 2, 32), "not available")
    assert left_out.reason.startswith(reason)


COPIES = {"reducer": "copies", "broadcast_buffers": False}
NODES_OF_4 = {
    "study": "s",
    "runs": 1,
    "gpus": [1, 4, 8],
    "gpus_per_node": 4,
    "batch_per_gpu": [32],
    "communication": {"runs": 1},
}


def test_more_gpus_than_a_node_has_are_spread_over_several() -> None:
    arm = {"strategy": "ddp", "gpus": 8, "batch_per_gpu": 32}
    planned = plan(Study({**NODES_OF_4, "training": {"seeds": 1, "arms": {"wide": arm}}}))
    assert [cell.coordinates["nodes"] for cell in planned.training] == [2]
    assert {(point.strategy, point.gpus): point.nodes for point in planned.configurations} == {
        ("single", 1): 1,
        ("ddp", 4): 1,
        ("dp", 4): 1,
        ("ddp", 8): 2,
    }
    assert {cell.gpus: cell.nodes for cell in planned.collectives} == {4: 1, 8: 2}
    (refused,) = planned.not_run
    assert (refused.configuration.strategy, refused.configuration.gpus) == ("dp", 8)
    assert refused.state == "not available"
    assert "needs all its GPUs on one node" in refused.reason


@pytest.mark.parametrize(
    ("changes", "state", "reason"),
    [
        ({"nodes_available": 1}, "not run", "needs 2 nodes, 1 here"),
        ({"gpus": [1, 5]}, "not available", "5 GPUs do not fill 2 nodes evenly"),
        (
            {"ddp": COPIES, "communication": {"runs": 0}},
            "not available",
            "copies reach the GPUs of one node: use torch's reducer",
        ),
    ],
)
def test_cells_that_cannot_have_their_nodes_are_named(changes: dict[str, Any], state: str, reason: str) -> None:
    study = Study({**NODES_OF_4, "strategies": ["single", "ddp"], **changes})
    (item,) = plan(study).not_run
    assert (item.state, item.reason) == (state, reason)
    assert plan(study.on_any_machine()).not_run == (() if state == "not run" else (item,))
