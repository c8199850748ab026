"""Why a study's devices are not faster: which cause it is, what it costs, and the data with which it is none."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from cases import cases
from dpscale.analyse.causes_of_study import causes_rows
from dpscale.formulas.figure import Figure
from dpscale.tables.answer import CausesRow
from rows import Entries, apart, key, known, read_tables


def place(strategy: str = "ddp", gpus: int = 4, batch: int = 32) -> Entries:
    return {**key(strategy, gpus, batch), "is_headline": True, "status": "ok"}


def timed(step_ms: float, scope: str = "compute", spread: float | None = 0.01, **where: Any) -> Entries:
    """A row of times.csv: so many ms per step of its own batch, and a step per epoch."""
    row = place(**where)
    rate = known("images_per_s", row["global_batch"] / step_ms * 1e3, spread)
    return {**row, **rate, "scope": scope, "epoch_s": step_ms / 1e3, "loader_processes": 8}


def loading(more_ms: float, times: float, spread: float | None = 0.01, strategy: str = "ddp") -> Entries:
    """The table of scopes: so much longer, and so many times as long, is an epoch with loading."""
    figures = {**known("loader_s", more_ms / 1e3, spread), **known("loading_ratio", times, spread)}
    return {"scopes": [place(strategy) | figures]}


def gain(efficiency: float = 0.95, spread: float | None = 0.01, **where: Any) -> Entries:
    return {**place(**where), "scope": "compute", "scaling": "weak", **known("efficiency", efficiency, spread)}


def causes(*times: Entries, gains: list[Entries] | None = None, **rows: list[Entries]) -> list[CausesRow]:
    """The rows of a study with these times, with loading where it has any; ddp on 4 GPUs at batch 32 has a speedup
    unless said otherwise."""
    every = causes_rows(read_tables({"times": times, "speedup": gains or [gain()], **rows}))
    return [row for row in every if row.scope == every[-1].scope]


def first(*times: Entries, **rows: Any) -> CausesRow:
    return causes(*times, **rows)[0]


def ms(figure: Figure) -> float | None:
    return round(figure.value * 1e3, 3) if figure.is_known else None


def link(bus_gb_s: float = 300.0, allreduce_ms: float = 5.0) -> dict[str, list[Entries]]:
    """The tables of a link between 4 GPUs, over which a copy reaches 380 GB/s."""
    shared = {"operation": "allreduce", "gpus": 4, "environment": "A"}
    return {
        "collectives": [
            {**shared, "message_bytes": 44, **known("time_s", allreduce_ms / 1e3), **known("bus_bandwidth_gb_s", 9.0)},
            {**shared, "message_bytes": 4096, **known("time_s", 0.1), **known("bus_bandwidth_gb_s", bus_gb_s)},
            {**shared, "operation": "peer_copy", **known("bus_bandwidth_gb_s", 380.0)},
        ],
        "bandwidth": [{**place(), "scope": "compute", "gradient_bytes": 44}],
    }


def ladder(host_ms: float, allreduce_ms: float, **more: Any) -> dict[str, list[Entries]]:
    """The last two rungs: what they add to the step."""
    host, allreduce = known("difference_s", host_ms / 1e3), known("difference_s", allreduce_ms / 1e3)
    return {
        "ladder": [
            {**place(), "rung": "no_op_hook", "order": 1, "adds": "host", **known("step_s", 0.02), **host, **more},
            {**place(), "rung": "training", "order": 2, "adds": "allreduce", **known("step_s", 0.02), **allreduce},
        ]
    }


@pytest.mark.parametrize(
    ("efficiency", "spread", "cause"),
    cases(__file__, "nothing"),
)
def test_nothing_is_wrong_only_where_the_interval_says_so(efficiency: float, spread: float | None, cause: str) -> None:
    row = first(timed(10.0), gains=[gain(efficiency, spread)])
    assert (row.cause, row.is_reason, row.order, row.efficiency.value) == (cause, False, 0, efficiency)
    assert [end * 1e3 for end in row.whole_s.interval] == pytest.approx([9.901, 10.101], abs=1e-3)


LOADED = timed(25.0, "end_to_end")
BY_DP = {"gains": [gain(0.3, strategy="dp")]}
# What makes the tables of a study from words in a file of cases.
TABLES_OF: Mapping[str, Callable[..., dict[str, list[Entries]]]] = {
    "loading": loading,
    "link": link,
    "ladder": ladder,
    "gain": lambda **where: {"gains": [gain(**where)]},
    "ablated": lambda step_s: {"communication": [{**place(), "scope": "compute", **known("ablation_step_s", step_s)}]},
}


@pytest.mark.parametrize("case", cases(__file__, "first"))
def test_the_first_cause_and_what_it_costs(case: Entries) -> None:
    rows: dict[str, list[Entries]] = {}
    for name, words in case.get("tables", {}).items():
        rows |= TABLES_OF[name](**words) if name in TABLES_OF else {name: words}
    row = first(*(timed(**words) for words in case["times"]), **rows)
    cost_ms, spread = case.get("cost_ms"), case["times"][0].get("spread", 0.01)
    assert (row.cause, ms(row.cost_s), row.is_reason) == (case["cause"], cost_ms, cost_ms is not None)
    if cost_ms:
        assert row.share.value == pytest.approx(cost_ms / 1e3 / row.whole_s.value)
        assert row.cost_s.has_interval == (spread is not None)


def test_loading_is_judged_by_the_runs_that_timed_both() -> None:
    """Runs that differ by far more than loading costs still say what it costs, since each has both times."""
    epochs = timed(10.0, spread=0.5), timed(12.5, "end_to_end", spread=0.5)
    times = [{**row, "epoch_s": 10 * row["epoch_s"]} for row in epochs]  # of ten steps
    row = first(*times, scopes=[place() | known("loader_s", 0.025, 0.1) | known("loading_ratio", 1.25, 0.02)])
    assert (row.cause, row.is_reason, ms(row.cost_s)) == ("slow_loader", True, 2.5)
    assert row.cost_s.interval == pytest.approx((2.25e-3, 2.75e-3))
    assert [row.share.value, row.share.low] == pytest.approx([0.2, 2.25 / 12.5]), "of the step beside it"
    assert row.efficiency.value == pytest.approx(0.76)
    assert row.efficiency.low == pytest.approx(0.76 * (1 - math.hypot(0.01, 0.02)), rel=0.001), "as if independent"


def test_reasons_stand_in_the_order_of_their_costs_before_smaller_ones() -> None:
    by_dp = timed(30.0, strategy="dp"), timed(70.0, "end_to_end", strategy="dp"), timed(10.0)
    rows = causes(*by_dp, **BY_DP, **loading(40.0, 70 / 30, strategy="dp"))
    assert [(row.cause, row.is_reason, row.order) for row in rows] == [
        ("slow_loader", True, 0), ("data_parallel", True, 1),
    ]  # fmt: skip
    rows = causes(timed(10.0), LOADED, **loading(15.0, 2.5), **ladder(0.0, 0.2), **link())
    assert [(row.cause, row.is_reason) for row in rows] == [("slow_loader", True), ("heavy_gradients", False)]


def test_a_step_without_loading_has_causes_of_its_own() -> None:
    tables = read_tables({"times": [timed(10.0), LOADED], "speedup": [gain(0.95)], **loading(15.0, 2.5)})
    in_memory, loaded = causes_rows(tables)
    assert (in_memory.scope, in_memory.cause, ms(in_memory.whole_s)) == ("compute", "nothing", 10.0)
    assert (loaded.scope, loaded.cause, ms(loaded.whole_s)) == ("end_to_end", "slow_loader", 25.0)
    assert [in_memory.efficiency.value, loaded.efficiency.value] == pytest.approx([0.95, 0.38])


@pytest.mark.parametrize(
    ("steps", "spread", "cause", "is_by_steps"),
    cases(__file__, "surest"),
)
def test_the_surest_efficiency_counts(steps: float, spread: float | None, cause: str, is_by_steps: bool) -> None:
    """The interval by epochs reaches 100 %."""
    row = first(timed(10.0), gains=[{**gain(0.92, 0.1), **known("speedup_from_steps", 4 * steps, spread)}])
    assert (row.cause, row.is_by_steps) == (cause, is_by_steps)
    assert row.efficiency.value == pytest.approx(steps if is_by_steps else 0.92)


@pytest.mark.parametrize(("runs", "cause"), cases(__file__, "losses"))
def test_a_loss_in_every_run_is_one_whatever_their_interval(runs: tuple[float, ...], cause: str) -> None:
    tables = read_tables({"times": [timed(10.0)], "speedup": [gain(0.19, 9.0)]})
    (row,) = tables.speedup
    row = replace(row, efficiency=replace(row.efficiency, blocks=apart(dict(enumerate(runs)))))
    assert [row.cause for row in causes_rows(replace(tables, speedup=[row]))] == [cause]


@pytest.mark.parametrize(
    ("host_ms", "allreduce_ms", "part", "part_ms"),
    cases(__file__, "parts"),
)
def test_where_no_cause_stands_out_the_largest_part_is_named(
    host_ms: float, allreduce_ms: float, part: str, part_ms: float | None
) -> None:
    row = first(timed(10.0), gains=[gain(0.5)], **ladder(host_ms, allreduce_ms))
    assert (row.cause, row.part, ms(row.part_s)) == ("unknown", part, part_ms)


@pytest.mark.parametrize(
    "changed",
    cases(__file__, "silent"),
)
def test_configurations_that_do_not_speak_have_no_row(changed: Entries) -> None:
    assert causes_rows(read_tables({"times": [timed(10.0)], "speedup": [{**gain(), **changed}]})) == []
