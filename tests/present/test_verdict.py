"""The verdict, for several kinds of data: what it answers, with which numbers, and what it says eats the rest."""

from typing import Any

import pytest
from page_tables import (
    GPU,
    SEVERAL,
    absent_row,
    empty,
    environment_row,
    h200,
    key,
    place,
    record_row,
    speedup_row,
    study,
    tables,
    times_row,
)

from dpscale.present.findings.verdict import Verdict, verdict
from dpscale.present.study.page import render
from dpscale.present.text.words import Terms
from dpscale.tables.tables import Tables

WORKER = Terms(device="worker", several_environments=False, synthetic=True)


def told(given: Tables, terms: Terms = GPU) -> Verdict:
    return verdict(given, terms)


def speedups(*values: float, strategy: str = "ddp", gpus: int = 4, **more: Any) -> list[dict[str, Any]]:
    """Weak speedups at batches 32, 128, 512 and so on, known to 1 %."""
    return [
        speedup_row(value, 2.0, **place(strategy, gpus, 32 * 4**number, **more)) for number, value in enumerate(values)
    ]


def ladder(*added_ms: float, spread_ms: float = 0.1, runs: int = 3, **where: Any) -> Any:
    """Rows of a ladder that starts at 10 ms alone; every rung's difference is known to `spread_ms` by `runs` runs."""
    coordinates = {name: value for name, value in key(**place(**where)).items() if name != "scope"}
    rows, reached_ms = [], 0.0
    for order, part_ms in enumerate((10.0, *added_ms)):
        reached_ms += part_ms
        row = {
            **coordinates, "rung": f"rung {order}", "order": order, "step_s": reached_ms / 1e3, "repeatability": 0.012,
            "share": part_ms / (10.0 + sum(added_ms)), "runs": runs, "beyond_alone_s": (reached_ms - 10.0) / 1e3,
        }  # fmt: skip
        if order:
            row |= {"adds": ["contention", "DDP's host work", "allreduce, waiting"][order - 1]}
            row |= {"difference_s": part_ms / 1e3}
            if runs > 1:
                row |= {"difference_s_low": (part_ms - spread_ms) / 1e3}
                row |= {"difference_s_high": (part_ms + spread_ms) / 1e3}
        rows.append(row)
    return rows


GAP = {**absent_row("no baseline", "", **place(batch=128)), "scaling": "weak"}
NOT_SHOWN = "not shown (fewer than 10 full steps per epoch)"
WIDE = speedup_row(2.1, 2.0, spread=0.06, **place(batch=128))

CASES: dict[str, tuple[Any, str, str, list[str]]] = {
    "at every batch": (
        tables(speedup=speedups(3.2, 3.6, 3.9)),
        "worth",
        "Yes: 4 GPUs are worth it with ddp at batches 32 to 512 per GPU, without loading",
        ["3.20× [3.17, 3.23] as fast as on 1 GPU at batch 32 per GPU", "3.90× [3.86, 3.94] at 512"],
    ),
    "at the only batch": (
        tables(speedup=speedups(3.2)),
        "worth",
        "Yes: 4 GPUs are worth it with ddp at batch 32 per GPU, without loading",
        ["An epoch is 3.20× [3.17, 3.23] as fast as on 1 GPU at batch 32 per GPU."],
    ),
    "undecided at one": (
        tables(speedup=[{**speedups(3.2)[0], "ranges": "speedup; efficiency"}, *speedups(1.0, 3.6, 3.9)[1:]]),
        "worth",
        "Yes: 4 GPUs are worth it with ddp at batches 128 and 512 per GPU, without loading; 32: undecided",
        ["but 3.20× [range of two runs: 3.17 to 3.23] at 32"],
    ),
    "not at small ones, not shown at large ones": (
        tables(speedup=speedups(0.6, 0.8, 2.4, 3.8, 3.9)),
        "worth",
        "Yes: 4 GPUs are worth it with ddp at batch 512 per GPU, without loading; 32 and 128: not worth it; "
        f"2,048 and 8,192: {NOT_SHOWN}",
        ["2.40× [2.38, 2.42] as fast", "but 0.80× [0.79, 0.81] at 128"],
    ),
    "not shown at all": (
        tables(speedup=speedups(1.0, 1.0, 1.0, 3.8)[3:]),
        "unknown",
        f"Not known: whether 4 GPUs are worth it with ddp, without loading; 2,048: {NOT_SHOWN}",
        ["No epoch of a batch has 10 full steps"],
    ),
    "at some batches": (
        tables(speedup=speedups(3.2, 1.5, 3.8)),
        "worth",
        "Yes: 4 GPUs are worth it with ddp at batches 32 and 512 per GPU, without loading; 128: not worth it",
        ["3.80×"],
    ),
    "no baseline between": (
        tables(speedup=[*speedups(3.2), GAP, *speedups(1.0, 1.0, 3.8)[2:]]),
        "worth",
        "Yes: 4 GPUs are worth it with ddp at batches 32 and 512 per GPU, without loading; 128: no baseline",
        [],
    ),
    "faster, yet not worth it": (
        tables(speedup=speedups(0.9, 1.4, 1.9)),
        "not-worth",
        "No: 4 GPUs are not worth it with ddp at batches 32 to 512 per GPU, without loading",
        ["The best of ddp on 4 GPUs is 1.90× [1.88, 1.92] the speed of 1 at batch 512", "efficiency of 47.5 %"],
    ),
    "an interval that holds half": (
        tables(speedup=[*speedups(0.9), WIDE]),
        "unknown",
        "Undecided: whether 4 GPUs are worth it with ddp at batch 128 per GPU, without loading; 32: not worth it",
        ["The best of ddp on 4 GPUs is 2.10× [1.97, 2.23]"],
    ),
    "no interval": (
        tables(
            records=[record_row(**place())], speedup=[{**speedups(3.2)[0], "speedup_low": None, "efficiency_low": None}]
        ),
        "unknown",
        "Undecided: whether 4 GPUs are worth it with ddp at batch 32 per GPU, without loading",
        ["3.20× [no interval]"],
    ),
    "2 GPUs where 4 are too many": (
        tables(speedup=[*speedups(1.9, gpus=2), *speedups(1.5, gpus=4)]),
        "worth",
        "Yes: 2 GPUs are worth it with ddp at batch 32 per GPU, without loading",
        ["1.90×"],
    ),
    "two strategies": (
        tables(speedup=[*speedups(3.2, 3.8), *speedups(0.6, 3.0, strategy="dp")]),
        "worth",
        "Yes: 4 GPUs are worth it with ddp at batches 32 and 128 per GPU, without loading",
        [" 4 GPUs are worth it with dp at batch 128 per GPU, without loading; 32: not worth it."],
    ),
    "undecided with one strategy alone": (
        tables(speedup=[*speedups(3.2, 3.8), WIDE | {"strategy": "dp"}, *speedups(1.0, 1.0, 3.7, strategy="dp")[2:]]),
        "worth",
        "Yes: 4 GPUs are worth it with ddp at batches 32 and 128 per GPU, without loading",
        [" 4 GPUs are worth it with dp at batch 512 per GPU, without loading; 128: undecided."],
    ),
    "a strategy that never pays": (
        tables(speedup=[*speedups(3.2, 3.8), *speedups(0.6, 0.9, strategy="dp")]),
        "worth",
        "Yes: 4 GPUs are worth it with ddp at batches 32 and 128 per GPU, without loading",
        [" 4 GPUs are not worth it with dp at batches 32 and 128 per GPU, without loading."],
    ),
    "strong scaling alone": (
        tables(records=[record_row(**place())], speedup=speedups(3.2, scaling="strong")),
        "unknown",
        "Not known yet",
        [],
    ),
    "nothing measured": (empty(), "unknown", "Not known yet", ["Nothing has been measured"]),
    "no baseline": (
        tables(records=[record_row(**place())], speedup=[absent_row("no baseline", "T(1,32) is missing", **place())]),
        "unknown",
        "Not known yet",
        ["measured together with its baseline on 1 GPU"],
    ),
}


@pytest.mark.parametrize(("data", "kind", "answer", "parts"), CASES.values(), ids=CASES)
def test_verdict(data: Any, kind: str, answer: str, parts: list[str]) -> None:
    found = told(data)
    assert (found.kind, found.answer) == (kind, answer)
    assert [part for part in parts if part not in found.sentence] == []
    assert "%" not in found.rest, "nothing was measured by intervention"
    assert found.loading in ("Loading was not measured.", "")


def loaded(epoch_s: float, number: int | None, **where: Any) -> dict[str, Any]:
    return {**times_row(epoch_s, **place(scope="end_to_end", **where)), "loader_processes": number}


def test_the_answer_with_loading_has_states_of_its_own_and_names_who_loads() -> None:
    data = tables(
        speedup=[*speedups(3.2, 3.6), *speedups(1.2, 3.0, scope="end_to_end")],
        times=[loaded(2.0, 8), loaded(3.0, 2, strategy="single", gpus=1)],
    )
    found = told(data)
    assert found.answer == "Yes: 4 GPUs are worth it with ddp at batches 32 and 128 per GPU, without loading"
    assert found.loading == (
        "4 GPUs are worth it with ddp at batch 128 per GPU, with loading; 32: not worth it. "
        "DataLoader processes in total: ddp 8, single 2."
    )


def test_strategies_that_are_compared_with_loading_alone_are_named_with_their_loader_processes() -> None:
    rows = [*speedups(3.2, scope="end_to_end"), *speedups(1.2, strategy="dp", scope="end_to_end")]
    found = told(tables(speedup=rows, times=[loaded(2.0, 8), loaded(2.0, 2, strategy="dp")]))
    assert found.answer == "Yes: 4 GPUs are worth it with ddp at batch 32 per GPU, with loading"
    assert "with dp at batch 32 per GPU, with loading. DataLoader processes in total: ddp 8, dp 2." in found.sentence
    assert found.loading == "Without loading nothing was measured."


def test_loading_of_another_strategy_is_no_answer() -> None:
    rows = [*speedups(3.2), *speedups(1.2, strategy="dp", scope="end_to_end")]
    assert told(tables(speedup=rows)).loading == "Loading was not measured."


def test_the_largest_rung_says_where_the_time_goes_where_least_is_gained() -> None:
    data = tables(speedup=speedups(3.2, 3.8), ladder=[*ladder(1.0, 2.0, 7.0), *ladder(9.0, 1.0, 1.0, batch=128)])
    assert told(data).rest == (
        "Where ddp gains least, at batch 32 per GPU on 4 GPUs, a step takes 10.0 ms longer than on 1 GPU alone. Of "
        "that 7.00 ms [6.90, 7.10] are allreduce, waiting."
    )


@pytest.mark.parametrize(
    ("rungs", "says"),
    [
        (ladder(3.0, spread_ms=4.0), "Of that 3.0 ms [−1.0, 7.0] is contention, not told from zero."),
        (ladder(3.0, runs=1), "Of that 3.00 ms is contention, of one process, whose steps repeat to 1.2 %."),
        (ladder(8.0, -3.0), "is contention. Other changes take time away."),
        (ladder(-1.0, 0.5), "the ladder of one change at a time shows no loss against 1 GPU alone."),
    ],
)
def test_a_rung_is_called_as_sure_as_it_is(rungs: Any, says: str) -> None:
    rest = told(tables(speedup=speedups(3.2), ladder=rungs)).rest
    assert rest.endswith(says), rest


def test_a_ladder_of_another_batch_is_called_that() -> None:
    rest = told(tables(speedup=speedups(3.2, 3.8), ladder=ladder(9.0, batch=128))).rest
    assert rest.startswith("Where ddp gains least of the batches with a ladder, at batch 128 per GPU on 4 GPUs")


def test_without_a_ladder_the_profiler_is_not_asked() -> None:
    step = {"device": 0, "phase": "all", "idle_s": 9e-3, "communication_s": 1e-4, "parts_s": 1e-2, "profiler": "ok"}
    data = tables(speedup=speedups(1.9), steps=[{**key(**place()), **step}])
    assert told(data).rest == "Where the time goes was not measured by intervention."


def test_where_nothing_is_lost_nothing_is_explained() -> None:
    assert told(tables(speedup=speedups(4.1), ladder=ladder(9.0))).rest == ""


def test_a_loader_that_takes_the_gain_is_named() -> None:
    slow, fast = speedups(1.1, scope="end_to_end"), speedups(3.19, scope="end_to_end")
    times = [times_row(2.0, **place(scope=scope)) for scope in ("compute", "end_to_end")]
    rest = told(tables(speedup=[*speedups(3.2), *slow], times=times)).rest
    assert "Including data loading, the speedup at batch 32 is 1.10× [1.09, 1.11], not 3.20× [3.17, 3.23]." in rest
    assert "Including" not in told(tables(speedup=[*speedups(3.2), *fast], times=times)).rest


def test_workers_are_no_gpus() -> None:
    found = told(tables(speedup=speedups(1.2, gpus=2)), WORKER)
    assert found.answer == "Yes: 2 workers are worth it with ddp at batch 32 per worker, without loading"
    assert "no measure of accelerators" in found.sentence
    assert "GPU" not in found.answer + found.sentence + found.rest


def test_synthetic_images_are_named_beside_the_told() -> None:
    page = render(study(dataset={"source": "synthetic"}), tables(speedup=speedups(3.2)))
    answer = page[page.index('<p class="answer">') :]
    assert "Synthetic images." in answer[: answer.index("</p>")]


def test_environments_are_not_mixed() -> None:
    rows = [*speedups(3.2, environment="A"), *speedups(0.5, strategy="dp", environment="B")]
    found = told(tables(speedup=rows, environments=[environment_row("A"), environment_row("B")]), SEVERAL)
    assert "in environment A" in found.sentence
    assert "dp" not in found.sentence.split()


def test_reference_figures() -> None:
    found = told(h200())
    assert found.answer == (
        f"Yes: 4 GPUs are worth it with ddp at batches 32 to 512 per GPU, without loading; 2,048 and 8,192: {NOT_SHOWN}"
    )
    assert (
        "4 GPUs are worth it with dp at batch 512 per GPU, without loading; 32 and 128: not worth it" in found.sentence
    )
    assert "Including data loading, the speedup at batch 512 is" in found.rest


def test_both_scopes_are_told_together_where_their_states_are_the_same() -> None:
    both = [*speedups(3.2, 3.6), *speedups(2.8, 2.9, scope="end_to_end")]
    found = told(tables(speedup=both))
    assert found.answer == "Yes: 4 GPUs are worth it with ddp at batches 32 and 128 per GPU, with and without loading"
    assert found.loading == ""
    assert found.series is not None and found.series.strategy == "ddp"
    assert told(empty()).series is None
