"""Variants: named sets of settings that are measured beside the study's own."""

from typing import Any

import pytest

from dpscale.errors import StudyError
from dpscale.plan.cells import Configuration, VariantCell
from dpscale.plan.plan import plan
from dpscale.plan.study import Study

GRAPH = {"cuda_graph": True, "batch_per_gpu": [32], "gpus": [1, 2], "runs": 1}
VALUES: dict[str, Any] = {"study": "s", "gpus": [1, 2], "batch_per_gpu": [32, 128], "runs": 2}


def study(**variants: Any) -> Study:
    return Study({**VALUES, "variants": variants})


def cells(found: Study) -> list[VariantCell]:
    return list(plan(found).variants)


def test_a_variant_has_its_own_settings_and_otherwise_the_studys() -> None:
    found = study(half={"precision": "bfloat16", "memory_format": "channels_last", "loader_workers": 5})
    settings, own = found.settings, found.variants["half"].settings
    changed = {name for name in settings.names() if getattr(settings, name) != getattr(own, name)}
    assert changed == {"precision", "memory_format", "loader_workers"}
    assert (own.precision, own.loader_workers) == ("bfloat16", 5)


def test_a_variant_is_measured_where_the_study_is_and_where_it_says() -> None:
    everywhere = cells(study(half={"precision": "bfloat16"}))
    assert {cell.configuration for cell in everywhere} == set(plan(study()).configurations)
    assert [cell.run for cell in everywhere] == [1] * 6 + [2] * 6
    named = cells(study(graph=GRAPH))
    assert {cell.configuration for cell in named} == {Configuration("single", 1, 32), Configuration("ddp", 2, 32)}
    assert {cell.path for cell in named} == {
        "variants/graph/single/gpus-1/batch-32/run-1.json",
        "variants/graph/ddp/gpus-2/batch-32/run-1.json",
    }


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ({"gpus": [1]}, {("single", 1)}),
        ({"strategies": ["ddp"]}, {("ddp", 2)}),
        ({"strategies": ["single", "dp"]}, {("single", 1), ("dp", 2)}),
    ],
)
def test_what_a_variant_leaves_out_goes_with_what_it_names(where: Any, expected: set[tuple[str, int]]) -> None:
    found = cells(study(half={"precision": "bfloat16", **where}))
    assert {(cell.configuration.strategy, cell.gpus) for cell in found} == expected


@pytest.mark.parametrize(
    ("variants", "message"),
    [
        ({"same": {"precision": "float32"}}, "study: variants.same: its settings are the study's own"),
        (
            {"views": {"ddp_gradient_as_bucket_view": True, "strategies": ["fsdp"], "gpus": [2]}},
            "variants.views: fsdp has no ddp_gradient_as_bucket_view, which is ddp's",
        ),
        ({"base": {"precision": "bfloat16"}}, "study: variants.base: is what tables call the study's own settings"),
        ({"fast": {"learning_rate": 1}}, "variants.fast"),
        ({"Fast": {"compile": "default"}}, "variants"),
        ({"fast": {"compile": "often"}}, "variants.fast.compile"),
    ],
)
def test_a_variant_that_cannot_be_is_one_line(variants: Any, message: str) -> None:
    with pytest.raises(StudyError) as caught:
        study(**variants)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
