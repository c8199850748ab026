"""Several studies: the point that all share, the figures of each there, and each against the first one."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import pytest

from dpscale.analyse.comparison import Side, compare
from dpscale.analyse.comparison_studies import Overview, overview
from dpscale.errors import ComparisonError
from dpscale.plan.cells import AnyCell
from dpscale.plan.study import Study
from dpscale.vocabulary.states import NOT_PLANNED
from two_studies import Change, side, slower, study

# Whole studies, again and again.
pytestmark = pytest.mark.slow


def small(**changes: Any) -> Study:
    return study(**{"communication": {"runs": 0}, "training": {}, "batch_per_gpu": [128, 512], **changes})


def on_an_h100(cell: AnyCell, record: dict[str, Any]) -> None:
    slower(1.3)(cell, record)
    record["hardware"]["device_model"] = "NVIDIA H100"
    record["hardware"]["host"] = "other"


@pytest.fixture(scope="module")
def three() -> Sequence[Side]:
    """As it is; of two GPUs at most on another machine; and at other batches, with one run."""
    return [
        side("first", None, small()),
        side("h100", on_an_h100, small(gpus=[1, 2])),
        side("once", slower(2), small(batch_per_gpu=[32, 128], runs=1)),
    ]


@pytest.fixture(scope="module")
def found(three: Sequence[Side]) -> Overview:
    return overview(three, (), 0.05)


def test_there_is_a_row_per_study_with_its_machine(found: Overview) -> None:
    rows = found.tables["compared_studies"].set_index("study")
    assert list(rows.index) == ["first", "h100", "once"]
    assert rows["device_model"].to_dict() == {"first": "NVIDIA H200", "h100": "NVIDIA H100", "once": "NVIDIA H200"}
    assert rows["gpus"].to_dict() == {"first": 4, "h100": 2, "once": 4}
    assert rows.loc["h100", "hosts"] == "other"


def test_figures_are_of_the_largest_point_that_all_share(found: Overview) -> None:
    rows = found.tables["compared_figures"]
    points = rows[["strategy", "gpus", "batch_per_gpu", "scope"]].drop_duplicates().to_dict("records")
    assert [tuple(point.values()) for point in points] == [("single", 1, 128, "compute"), ("ddp", 2, 128, "compute")]
    assert list(rows["study"]) == ["first", "first", "h100", "h100", "once", "once"]


def test_figures_are_those_of_each_study_s_own_tables(found: Overview, three: Sequence[Side]) -> None:
    for side_ in three:
        rows = found.tables["compared_figures"]
        (row,) = rows[(rows["study"] == side_.name) & (rows["strategy"] == "ddp")].to_dict("records")
        times = one_row(side_.tables["times"])
        assert all(row[name] == times[name] for name in ("epoch_s", "images_per_s"))
        speedup = one_row(side_.tables["speedup"][side_.tables["speedup"]["scaling"] == "weak"])
        assert (row["speedup"], row["efficiency"]) == (speedup["speedup"], speedup["efficiency"])
        assert pd.isna(row["images_per_s_low"]) == (side_.name == "once")


def one_row(table: pd.DataFrame) -> dict[Any, Any]:
    (row,) = table[
        (table["strategy"] == "ddp") & (table["gpus"] == 2) & (table["batch_per_gpu"] == 128)
    ].to_dict("records")  # fmt: skip
    return dict(row)


def test_every_study_is_held_against_the_first_one_as_two_studies_are(found: Overview, three: Sequence[Side]) -> None:
    groups = found.tables["compared_groups"]
    for other in three[1:]:
        of_two = compare(three[0], other, (), 0.05).tables["compared_groups"]
        assert groups[groups["study"] == other.name].to_csv(index=False) == of_two.to_csv(index=False)
    assert set(groups["study"]) == {"h100", "once"}


def test_a_batch_with_steps_enough_speaks_before_a_larger_one() -> None:
    """At 8,192 images an epoch has three steps on two GPUs."""
    values: dict[str, Any] = {"batch_per_gpu": [128, 512], "gpus": [1, 2], "strategies": ["single", "ddp"]}
    sides = [side(name, change, small(**values)) for name, change in (("a", None), ("b", slower(1.1)))]
    for one in sides:
        times = one.tables["times"]
        times["is_headline"] = times["batch_per_gpu"] < 512
    figures = overview([*sides, side("c", slower(1.2), small(**values))]).tables["compared_figures"]
    assert set(figures["batch_per_gpu"]) == {128}


def test_a_study_that_lacks_one_gpu_at_that_batch_has_no_figure_of_it() -> None:
    def without_memory(cell: AnyCell, record: dict[str, Any]) -> None:
        if record["kind"] == "timing" and record["cell"]["strategy"] == "single":
            record |= {"status": "oom", "scopes": {}, "oom": {"rank": 0, "phase": "warm-up", "message": "CUDA"}}

    changes: list[Change | None] = [None, slower(1.1), without_memory]
    figures = overview([side(str(n), change, small()) for n, change in enumerate(changes)]).tables["compared_figures"]
    assert figures[(figures["study"] == "2") & (figures["strategy"] == "single")]["status"].tolist() == ["oom"]
    assert figures[figures["study"] == "2"]["speedup"].isna().all()


def test_a_scope_that_one_study_alone_has_is_not_planned_in_others() -> None:
    both = small(scopes=["compute", "end_to_end"], gpus=[1, 2])
    sides = [side("a", None, both), *(side(name, slower(1.1), small(gpus=[1, 2])) for name in "bc")]
    figures = overview(sides, ("scopes",)).tables["compared_figures"]
    loading = figures[figures["scope"] == "end_to_end"]
    assert loading.groupby("study")["status"].unique().map(list).to_dict() == {
        "a": ["ok"], "b": [NOT_PLANNED], "c": [NOT_PLANNED],
    }  # fmt: skip


def test_without_a_point_in_common_there_is_no_figure() -> None:
    sides = [side(str(batch), slower(1), small(batch_per_gpu=[batch])) for batch in (32, 128, 512)]
    assert overview(sides).tables["compared_figures"].empty


def test_settings_of_any_other_study_may_not_differ() -> None:
    sides = [side("a", None, small()), side("b", None, small()), side("c", None, small(precision="bfloat16"))]
    with pytest.raises(ComparisonError, match="precision is float32 and bfloat16"):
        overview(sides)
    differing = overview(sides, ("precision",)).differing
    assert {name: [setting.name for setting in found] for name, found in differing.items()} == {
        "b": [], "c": ["precision"],
    }  # fmt: skip
