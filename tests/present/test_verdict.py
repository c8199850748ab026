"""The verdict, for several kinds of data: what it answers, with which numbers, and what it says eats the rest."""

from typing import Any

import pytest
from page_tables import (
    absent_row,
    around,
    empty,
    environment_row,
    h200,
    key,
    record_row,
    speedup_row,
    study,
    tables,
    times_row,
)

from dpscale.present.page import render
from dpscale.present.verdict import verdict
from dpscale.present.words import Tables, Terms

GPU = Terms(device="GPU", several_environments=False, synthetic=False)
WORKER = Terms(device="worker", several_environments=False, synthetic=True)


def at(strategy: str = "ddp", gpus: int = 4, batch: int = 32, **more: Any) -> dict[str, Any]:
    return {"strategy": strategy, "gpus": gpus, "batch": batch, **more}


def speedups(*values: float, strategy: str = "ddp", gpus: int = 4, **more: Any) -> list[dict[str, Any]]:
    """Weak speedups at batches 32, 128, 512 and so on, known to 1 %."""
    return [
        speedup_row(value, 2.0, **at(strategy, gpus, 32 * 4**number, **more)) for number, value in enumerate(values)
    ]


def profiled(gpu_idle_ms: tuple[float, ...], communication_ms: float = 3.0, **where: Any) -> list[dict[str, Any]]:
    """Whole steps of 10 ms, one a GPU; what is neither idle nor communication is compute."""
    return [
        {
            **key(**at(**where)), "device": device, "phase": "all", "idle_s": idle_ms * 1e-3,
            "communication_s": communication_ms * 1e-3, "parts_s": 10e-3,
        }
        for device, idle_ms in enumerate(gpu_idle_ms)
    ]  # fmt: skip


def waiting(exposed_ms: float, least_ms: float, **where: Any) -> dict[str, Any]:
    estimates = {"profiler_exposed_step_s": exposed_ms, "profiler_least_exposed_step_s": least_ms}
    row: dict[str, Any] = {**key(**at(**where)), "status": "ok"}
    for name, milliseconds in estimates.items():
        row |= around(name, milliseconds * 1e-3)
    return row


CASES: dict[str, tuple[Tables, str, list[str]]] = {
    "at every batch": (
        tables(speedup=speedups(3.2, 3.6, 3.9)),
        "4 GPUs are worth it with ddp at every batch measured",
        ["3.200× [3.168, 3.232] as fast as on 1 GPU at batch 32 per GPU", "3.900× [3.861, 3.939] at 512"],
    ),
    "at every batch of which something is known": (
        tables(speedup=[*speedups(3.2, 3.6), {**speedups(1, 1, 0.5)[2], "ranges": "speedup; efficiency"}]),
        "4 GPUs are worth it with ddp at every batch that has an interval",
        ["3.600× [3.564, 3.636] at 128"],
    ),
    "ranges of two runs": (
        tables(records=[record_row(**at())], speedup=[{**speedups(3.2)[0], "ranges": "speedup; efficiency"}]),
        "Not known yet",
        ["No speedup has an interval: that takes at least 3 runs"],
    ),
    "at the only batch": (
        tables(speedup=speedups(3.2)),
        "4 GPUs are worth it with ddp at batch 32 per GPU",
        ["An epoch is 3.200× [3.168, 3.232] as fast as on 1 GPU at batch 32 per GPU."],
    ),
    "from a batch on": (
        tables(speedup=speedups(0.6, 0.8, 2.4, 3.8)),
        "4 GPUs are worth it with ddp from batch 512 per GPU on",
        ["2.400× [2.376, 2.424] as fast", "3.800×", "but 0.800× [0.792, 0.808] at 128"],
    ),
    "at some batches": (
        tables(speedup=speedups(3.2, 1.5, 3.8, 1.2)),
        "4 GPUs are worth it with ddp at batch 32, 512 per GPU",
        ["3.800×"],
    ),
    "faster, yet not worth it": (
        tables(speedup=speedups(0.9, 1.4, 1.9)),
        "4 GPUs are faster than 1 with ddp, but not worth it",
        ["The best of 4 GPUs is 1.900× [1.881, 1.919] the speed of 1, with ddp at batch 512", "efficiency of 47.5 %"],
    ),
    "never faster": (
        tables(speedup=speedups(0.4, 0.9, strategy="dp")),
        "4 GPUs are not worth it",
        ["0.900× [0.891, 0.909] the speed of 1, with dp at batch 128 per GPU"],
    ),
    "2 GPUs where 4 are too many": (
        tables(speedup=[*speedups(1.9, gpus=2), *speedups(1.5, gpus=4)]),
        "2 GPUs are worth it with ddp at batch 32 per GPU",
        ["1.900×"],
    ),
    "two strategies": (
        tables(speedup=[*speedups(3.2, 3.8), *speedups(0.6, 3.0, strategy="dp")]),
        "4 GPUs are worth it with ddp at every batch measured",
        ["; dp pays from batch 128 per GPU on."],
    ),
    "a strategy that never pays": (
        tables(speedup=[*speedups(3.2, 3.8), *speedups(0.6, 0.9, strategy="dp")]),
        "4 GPUs are worth it with ddp at every batch measured",
        ["; dp pays at no batch."],
    ),
    "end-to-end alone": (
        tables(speedup=speedups(3.2, scope="end_to_end")),
        "4 GPUs are worth it with ddp at batch 32 per GPU",
        ["3.200×"],
    ),
    "nothing measured": (empty(), "Not known yet", ["Nothing has been measured"]),
    "no baseline": (
        tables(records=[record_row(**at())], speedup=[absent_row("no baseline", "T(1,32) is missing", **at())]),
        "Not known yet",
        ["measured together with its baseline on 1 GPU"],
    ),
    "no interval": (
        tables(records=[record_row(**at())], speedup=[{**speedups(3.2)[0], "speedup_low": None}]),
        "Not known yet",
        ["No speedup has an interval"],
    ),
}


@pytest.mark.parametrize(("data", "answer", "parts"), CASES.values(), ids=CASES)
def test_verdict(data: Tables, answer: str, parts: list[str]) -> None:
    found = verdict(data, GPU)
    assert found.answer == answer
    assert [part for part in parts if part not in found.sentence] == []
    assert found.rest == "", "no step was taken apart"
    kind = {"Not known yet": "unknown"}.get(answer, "not-worth" if "not worth it" in answer else "worth")
    assert found.kind == kind


def test_an_interval_that_reaches_below_half_is_not_worth_it() -> None:
    wide = tables(speedup=[speedup_row(2.1, 2.0, spread=0.06, **at())])
    assert verdict(wide, GPU).answer == "4 GPUs are faster than 1 with ddp, but not worth it"


def test_strong_scaling_alone_gives_no_verdict() -> None:
    strong = tables(records=[record_row(**at())], speedup=speedups(3.2, scaling="strong"))
    assert verdict(strong, GPU).answer == "Not known yet"


def test_what_eats_the_rest_is_named_largest_first_where_least_is_gained() -> None:
    data = tables(
        speedup=speedups(3.2, 3.8),
        times=[{**times_row(2.5, **at()), "step_s": 6.6e-3}],
        steps=[*profiled((2.0, 2.2)), *profiled((9.0, 9.0), batch=128)],
        communication=[waiting(3.0, 0.3)],
    )
    rest = verdict(data, GPU).rest
    assert "at batch 32 per GPU, 20.0 % of the GPUs' time is lost" in rest
    assert "mostly waiting for the slowest GPU: 27.0 % of a step (profiling changes this step from 6.60 ms to" in rest
    assert rest.index("idle until the host has work for them 21.0 %") < rest.index("transfer between GPUs 3.00 %")


def test_idle_time_can_be_what_eats_the_rest() -> None:
    data = tables(speedup=speedups(1.9, strategy="dp"), steps=profiled((7.0, 7.0), 0.5, strategy="dp"))
    rest = verdict(data, GPU).rest
    assert "mostly GPUs idle until the host has work for them: 70.0 % of a step; transfer between GPUs 5.00 %." in rest
    assert "waiting" not in rest, "only ddp's collectives tell waiting from transfer"


def test_where_nothing_is_lost_nothing_eats_the_rest() -> None:
    assert verdict(tables(speedup=speedups(4.1), steps=profiled((1.0,))), GPU).rest == ""


def test_communication_that_is_all_hidden_is_no_transfer() -> None:
    data = tables(speedup=speedups(3.2), steps=profiled((1.0,), 0.0), communication=[waiting(0.0, 0.0)])
    assert "transfer between GPUs 0 %" in verdict(data, GPU).rest


def test_a_loader_that_takes_the_gain_is_named() -> None:
    slow, fast = speedups(1.1, scope="end_to_end"), speedups(3.19, scope="end_to_end")
    rest = verdict(tables(speedup=[*speedups(3.2), *slow]), GPU).rest
    assert rest == ("With the DataLoader in the clock, 3.200× [3.168, 3.232] at batch 32 become 1.100× [1.089, 1.111].")
    assert verdict(tables(speedup=[*speedups(3.2), *fast]), GPU).rest == ""


def test_workers_are_no_gpus() -> None:
    found = verdict(tables(speedup=speedups(1.2, gpus=2)), WORKER)
    assert found.answer == "2 workers are worth it with ddp at batch 32 per worker"
    assert "no measure of accelerators" in found.sentence
    assert "GPU" not in found.answer + found.sentence + found.rest


def test_synthetic_images_are_named_beside_the_verdict() -> None:
    page = render(study(dataset={"source": "synthetic"}), tables(speedup=speedups(3.2)))
    answer = page[page.index('<p class="answer">') :]
    assert "Synthetic images." in answer[: answer.index("</p>")]


def test_environments_are_not_mixed() -> None:
    several = Terms(device="GPU", several_environments=True, synthetic=False)
    rows = [*speedups(3.2, environment="A"), *speedups(0.5, strategy="dp", environment="B")]
    found = verdict(tables(speedup=rows, environments=[environment_row("A"), environment_row("B")]), several)
    assert "in environment A" in found.sentence
    assert "dp" not in found.sentence.split()


def test_reference_figures() -> None:
    found = verdict(h200(), GPU)
    assert found.answer == "4 GPUs are worth it with ddp at every batch measured"
    assert "dp pays from batch 512 per GPU on" in found.sentence
    assert "become 1.010×" in found.rest
