"""Two studies side by side: nothing is told of the same, what differs by how much, and what may not is refused."""

import math
import re
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dpscale.analyse.comparison import (
    NO_INTERVAL,
    NOT_APART,
    SUBJECTS,
    Side,
    compare,
    differing_settings,
    refuse_other_settings,
)
from dpscale.analyse.tables import build_tables
from dpscale.errors import ComparisonError
from dpscale.formulas.statistics import (
    Bounded,
    bounded_difference,
    bounded_ratio,
    derive,
    estimate_of_blocks,
    welch_difference,
)
from dpscale.plan.cells import AnyCell
from dpscale.plan.study import Study
from dpscale.records.collect import Collected
from dpscale.schemas.settings import TimingSettings
from two_studies import ACCURACIES, ARMS, compared, side, slower, study

# Whole studies, again and again.
pytestmark = pytest.mark.slow

values = st.floats(0.01, 100)
parts = st.floats(0, 0.9)
bounded = st.builds(
    lambda value, below, above: Bounded(
        np.array([value]), np.array([value * (1 - below)]), np.array([value * (1 + above)])
    ),
    values, parts, parts,
)  # fmt: skip


def ends(figure: Bounded) -> list[float]:
    return [float(figure.value[0]), float(figure.low[0]), float(figure.high[0])]


@given(bounded, bounded)
def test_ratio_and_difference_turn_around_with_their_sides(first: Bounded, second: Bounded) -> None:
    value, low, high = ends(bounded_ratio(first, second))
    assert low <= value <= high
    assert ends(bounded_ratio(second, first)) == pytest.approx([1 / value, 1 / high, 1 / low])
    value, low, high = ends(bounded_difference(first, second))
    assert low <= value <= high
    assert ends(bounded_difference(second, first)) == pytest.approx([-value, -high, -low])


@given(bounded, bounded, st.floats(0.01, 100))
def test_a_ratio_does_not_depend_on_the_unit(first: Bounded, second: Bounded, unit: float) -> None:
    assert ends(bounded_ratio(first, second)) == pytest.approx(
        ends(bounded_ratio(first.map(lambda x: x * unit), second.map(lambda x: x * unit)))
    )


def test_of_symmetric_intervals_squares_add_up() -> None:
    """1.96 standard deviations to either side of normal variables, whose variances add."""
    first, second = (Bounded(*np.array([[value], [value - half], [value + half]])) for value, half in ((7, 3), (5, 4)))
    assert ends(bounded_difference(first, second)) == [2, -3, 7]


def test_without_a_limit_above_zero_there_is_no_ratio() -> None:
    first, second = (Bounded(*np.array([[1.0], [low], [2.0]])) for low in (0.5, -0.1))
    assert math.isnan(bounded_ratio(first, second).high[0])


@pytest.mark.parametrize("seed", range(5))
def test_the_interval_of_a_ratio_is_that_of_independent_draws(seed: int) -> None:
    """A second way to the same interval: draws from both distributions, divided, where the tables hold limits alone."""
    generator = np.random.default_rng(seed)
    first, second = (
        estimate_of_blocks(dict(zip("abcdefgh", mean * generator.lognormal(0, 0.05, 8), strict=True)), f"{mean} {seed}")
        for mean in (2.0, 3.0)
    )  # fmt: skip
    low, high = derive(lambda a, b: a / b, first, second).interval
    limits = [Bounded(*(np.array([x]) for x in (estimate.value, *estimate.interval))) for estimate in (first, second)]
    found = bounded_ratio(*limits)
    assert [found.low[0], found.high[0]] == pytest.approx([low, high], abs=0.15 * (high - low))


def rows(table: pd.DataFrame, **where: Any) -> pd.DataFrame:
    return table[(table[list(where)] == pd.Series(where)).all(axis=1)]


def test_nothing_is_told_of_a_study_and_itself() -> None:
    tables = compared(slower(1)).tables
    for name, subject in SUBJECTS.items():
        table = tables[name]
        assert len(table)
        assert (table[subject.column] == subject.unchanged).all()
        assert set(table["outcome"]) == {NOT_APART}


@pytest.mark.parametrize("factor", [0.2, 0.94, 1.06, math.pi])
def test_a_study_that_is_k_times_slower_is_one_over_k_times_as_fast(factor: float) -> None:
    tables = compared(slower(factor)).tables
    times = tables["compared_times"]
    assert times["ratio"].to_numpy() == pytest.approx(1 / factor)
    assert ((times["ratio_low"] <= times["ratio"]) & (times["ratio"] <= times["ratio_high"])).all()
    assert set(times["outcome"]) == {"slower" if factor > 1 else "faster"}
    assert tables["compared_speedup"]["ratio"].to_numpy() == pytest.approx(1)
    assert set(tables["compared_speedup"]["outcome"]) == {NOT_APART}


def test_the_second_study_is_the_one_that_changed() -> None:
    tables = compared(slower(1.2, "ddp")).tables
    ddp = rows(tables["compared_times"], strategy="ddp", gpus=2, batch_per_gpu=512, quantity="epoch_s").iloc[0]
    assert (ddp["first"], ddp["second"]) == pytest.approx((1.18, 1.2 * 1.18))
    assert ddp["outcome"] == "slower"
    speedup = rows(tables["compared_speedup"], strategy="ddp", gpus=2, batch_per_gpu=512).iloc[0]
    assert (speedup["ratio"], speedup["outcome"]) == (pytest.approx(1 / 1.2), "lower")
    others = tables["compared_times"][tables["compared_times"]["strategy"] != "ddp"]
    assert set(others["outcome"]) == {NOT_APART}


def test_communication_is_compared_by_differences() -> None:
    table = compared(slower(1.2, "ddp")).tables["compared_communication"]
    e1 = rows(table, strategy="ddp", gpus=4, batch_per_gpu=512, quantity="communication_step_s").iloc[0]
    assert e1["difference"] == pytest.approx(0.2 * 0.591 * 4 * 512 / 50_000, rel=1e-6)
    assert e1["outcome"] == "longer"
    assert set(rows(table, quantity="ablation_step_s")["strategy"]) == {"ddp"}, "dp has no hook to leave out"
    assert set(rows(table, quantity="isolated_step_s")["outcome"]) == {NOT_APART}


def test_faster_links_have_more_bandwidth() -> None:
    def change(cell: AnyCell, record: dict[str, Any]) -> None:
        for result in record.get("collectives", []):
            result["seconds"] = [seconds / 1.5 for seconds in result["seconds"]]

    table = compared(change).tables["compared_collectives"]
    is_copy = table["operation"] == "peer_copy"
    assert table[~is_copy]["ratio"].to_numpy() == pytest.approx(1.5)
    assert set(table[~is_copy]["outcome"]) == {"higher"}
    assert set(table[is_copy]["outcome"]) == {NOT_APART}
    assert table[is_copy][["source", "target"]].notna().all(axis=None)


def test_arms_are_compared_over_seeds() -> None:
    def change(cell: AnyCell, record: dict[str, Any]) -> None:
        if cell.coordinates.get("arm") == "large":
            for epoch in record["epochs"]:
                epoch["test_accuracy"] += 0.15

    table = compared(change).tables["compared_training"]
    large = rows(table, arm="large", quantity="test_accuracy").iloc[0]
    welch = welch_difference([accuracy + 0.15 for accuracy in ACCURACIES["large"]], ACCURACIES["large"])
    assert [large[f"difference{end}"] for end in ("", "_low", "_high")] == pytest.approx(
        [welch.value, welch.low, welch.high]
    )
    assert large["outcome"] == "higher"
    assert rows(table, arm="small", quantity="test_accuracy").iloc[0]["outcome"] == NOT_APART


def test_an_arm_whose_seeds_did_not_all_end_well_is_not_compared() -> None:
    def change(cell: AnyCell, record: dict[str, Any]) -> None:
        if cell.coordinates.get("arm") == "large" and cell.coordinates["seed"] == 2:
            record["diverged"] = True

    row = rows(compared(change).tables["compared_training"], arm="large", quantity="test_accuracy").iloc[0]
    assert row["second_status"] == "diverged"
    assert "1 of 3 seeds diverged" in row["second_reason"]
    assert pd.isna(row["difference"])
    assert pd.isna(row["outcome"])


def test_what_one_study_alone_has_is_listed_with_its_state() -> None:
    def out_of_memory(cell: AnyCell, record: dict[str, Any]) -> None:
        if record["kind"] == "timing" and record["cell"]["strategy"] == "dp" and record["cell"]["batch_per_gpu"] == 32:
            record |= {"status": "oom", "scopes": {}, "oom": {"rank": 0, "phase": "warm-up", "message": "CUDA"}}

    tables = compared(out_of_memory, study(batch_per_gpu=[32, 128])).tables
    times = rows(tables["compared_times"], quantity="epoch_s")
    alone = times[times["outcome"].isna()]
    assert set(alone[alone["batch_per_gpu"] == 512]["second_status"]) == {"not planned"}
    assert set(alone[alone["batch_per_gpu"] == 32]["second_status"]) == {"oom"}
    assert set(alone[alone["batch_per_gpu"] == 32]["second_reason"]) == {"out of memory in warm-up"}
    assert len(alone) == 5 + 2
    assert len(times) == 15


def test_a_single_timing_is_not_called_faster() -> None:
    def once(cell: AnyCell, record: dict[str, Any]) -> None:
        for scope in record.get("scopes", {}).values():
            scope |= {"epoch_s": [0.001], "step_s_median": [0.001]}

    table = compared(once, study(runs=1)).tables["compared_times"]
    assert set(table["outcome"]) == {NO_INTERVAL}
    assert table["ratio"].notna().all()


# A change of the study for every setting: the key's path, and a value that is not its default.
CHANGES = {
    "device": (("device",), "cpu"),
    "network": (("network", "name"), "torchvision_resnet18"),
    "width": (("network", "width"), 32),
    "precision": (("precision",), "bfloat16"),
    "memory_format": (("memory_format",), "channels_last"),
    "learning_rate": (("optimiser", "learning_rate"), 0.2),
    "momentum": (("optimiser", "momentum"), 0.5),
    "weight_decay": (("optimiser", "weight_decay"), 0.001),
    "dataset_source": (("dataset", "source"), "synthetic"),
    "epoch_images": (("dataset", "images"), 40_000),
    "scopes": (("scopes",), ["end_to_end"]),
    "warmup_epochs": (("epochs", "warmup"), 2),
    "timed_epochs": (("epochs", "timed"), 4),
    "baseline": (("baseline",), "own_cells"),
    "loader_workers": (("dataset", "loader_workers"), 5),
    "batch_memory_gb": (("dataset", "batch_memory_gb"), 3),
    "compile": (("compile",), "default"),
    "fused_optimiser": (("optimiser", "fused"), True),
    "ddp_bucket_mb": (("ddp", "bucket_mb"), 10),
    "ddp_gradient_as_bucket_view": (("ddp", "gradient_as_bucket_view"), True),
    "ddp_broadcast_buffers": (("ddp", "broadcast_buffers"), False),
    "cuda_graph": (("cuda_graph",), True),
    "cudnn_benchmark": (("cudnn_benchmark",), True),
    "images_on": (("images_on",), "device"),
    "ddp_gradient_dtype": (("ddp", "gradient_dtype"), "bfloat16"),
}

# What a study with a workload's file has; it has other settings with it.
OF_A_FILE = {"workload", "workload_sha256"}
# Changes that no study can have together, and one that a study with arms has only with another.
TOGETHER_REFUSED = ({"network", "width"}, {"device", "cuda_graph"}, {"device", "images_on"})
ALONE_REFUSED, ITS_OTHER = "cuda_graph", "fused_optimiser"


def with_changes(names: Iterable[str]) -> Study:
    """A study with these changes. It takes no steps apart: some settings do not go with that."""
    changed: dict[str, Any] = {"communication": {"runs": 0}}
    for name in names:
        path, value = CHANGES[name]
        node = changed
        for key in path[:-1]:
            node = node.setdefault(key, {})
        node[path[-1]] = value
    return study(**changed)


@settings(max_examples=50)
@given(st.sets(st.sampled_from(sorted(CHANGES)), min_size=1), st.sets(st.sampled_from(sorted(CHANGES))))
def test_every_setting_that_differs_and_may_not_is_named_with_both_values(
    changed: set[str], may_differ: set[str]
) -> None:
    assume(not any(pair <= changed for pair in TOGETHER_REFUSED))
    assume(ALONE_REFUSED not in changed or ITS_OTHER in changed)
    first, second = study(), with_changes(changed)
    refused = changed - may_differ
    if not refused:
        (differing,) = refuse_other_settings([first, second], may_differ)
        assert {difference.setting for difference in differing} == changed
        return
    with pytest.raises(ComparisonError) as caught:
        refuse_other_settings([first, second], may_differ)
    message = str(caught.value)
    assert "\n" not in message
    named = re.findall(r"[:;] (\w+) is (\S+) and (\S+?)(?=;|\. )", message)
    old, new = (of.settings.to_json() for of in (first, second))
    assert {name: (of_first, of_second) for name, of_first, of_second in named} == {
        name: tuple("+".join(value) if isinstance(value, list) else str(value) for value in (old[name], new[name]))
        for name in refused
    }
    assert set(re.findall(r"--differing (\w+)", message)) == refused


def test_settings_of_several_studies_are_named_at_once() -> None:
    studies = [
        study(),
        study(dataset={"loader_workers": 3}),
        study(precision="bfloat16"),
        study(precision="float32-strict", dataset={"loader_workers": 3}),
    ]
    with pytest.raises(ComparisonError) as caught:
        refuse_other_settings(studies, [])
    workers = studies[0].settings.loader_workers
    assert f": loader_workers is {workers} and 3; precision is float32 and bfloat16 and float32-strict. " in str(
        caught.value
    )
    assert str(caught.value).endswith(": --differing loader_workers --differing precision")
    allowed = refuse_other_settings(studies, ["loader_workers", "precision"])
    assert [[difference.setting for difference in of_one] for of_one in allowed] == [
        ["loader_workers"], ["precision"], ["precision", "loader_workers"],
    ]  # fmt: skip


def test_studies_that_differ_are_compared_only_where_they_may() -> None:
    first, second = side(), Side("b", with_changes(["precision"]), side().tables)
    with pytest.raises(ComparisonError, match=r"--differing precision$"):
        compare(first, second)
    with pytest.raises(ComparisonError, match=r"--differing precision$"):
        compare(first, second, ["momentum"])
    assert [difference.setting for difference in compare(first, second, ["precision"]).differing] == ["precision"]


def test_every_setting_is_tried() -> None:
    assert set(CHANGES) | OF_A_FILE == set(TimingSettings.names())


def test_a_study_of_a_file_is_no_study_of_the_built_in_workload() -> None:
    """It has no arms, and four settings follow from its file."""
    of_file = Study({"study": "b", "workload": "b.py", "workload_sha256": "b" * 64, "dataset": {"images": 64}})
    built_in = Study({"study": "a", "dataset": {"images": 64}})
    with pytest.raises(ComparisonError) as caught:
        refuse_other_settings([built_in, of_file], [])
    named = set(re.findall(r"--differing (\w+)", str(caught.value)))
    assert named == {*OF_A_FILE, "network", "dataset_source"}


def test_a_setting_of_an_arm_alone_is_named_with_the_arm() -> None:
    other = study(training={"arms": {**ARMS, "large": {**ARMS["large"], "warmup_epochs": 1}}, "baseline": "small"})
    (setting,) = differing_settings(study(), other)
    assert (setting.name, setting.first, setting.second) == ("warmup_epochs of arm large", 0, 1)


def test_what_arms_take_of_the_study_is_named_once() -> None:
    assert [setting.name for setting in differing_settings(study(), with_changes(["learning_rate"]))] == [
        "learning_rate"
    ]


def test_an_arm_that_one_study_lacks_differs_in_nothing() -> None:
    assert differing_settings(study(), study(training={"arms": {"small": ARMS["small"]}})) == []


def test_several_environments_are_never_pooled() -> None:
    def change(cell: AnyCell, record: dict[str, Any]) -> None:
        if cell.coordinates.get("run") == 2:
            record["software"]["nccl"] = "2.30.0"

    with pytest.raises(ComparisonError, match=r"after: its records are of 2 environments.*differ in nccl\."):
        compared(change)


def test_a_study_without_a_record_is_refused() -> None:
    empty = Side("empty", study(), build_tables(study(), Collected({}, {}, {})))
    with pytest.raises(ComparisonError, match="empty: nothing was measured"):
        compare(side(), empty)


def test_hardware_and_software_may_differ_and_are_named() -> None:
    def change(cell: AnyCell, record: dict[str, Any]) -> None:
        record["software"]["nccl"] = "2.30.0"
        record["hardware"]["device_model"] = "NVIDIA H100"

    table = compared(change).tables["compared_environments"].set_index("property")
    assert list(table[table["differs"] == True].index) == ["device_model", "nccl"]  # noqa: E712
    assert tuple(table.loc["nccl", ["first", "second"]]) == ("2.28.9", "2.30.0")
