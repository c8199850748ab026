"""Every caution, with data that call for it and data that do not."""

from typing import Any

import pytest
from page_tables import (
    absent_row,
    arm_row,
    block_row,
    environment_row,
    epoch_row,
    missing_row,
    record_row,
    run_row,
    speedup_row,
    study,
    tables,
    times_row,
)

from dpscale.present.findings.cautions import cautions
from dpscale.present.text.words import Terms
from dpscale.tables.tables import Tables
from rows import known

AT: dict[str, Any] = {"strategy": "ddp", "gpus": 2, "batch": 32}
SOUND = {"times": [times_row(5.04, **AT)], "records": [record_row(**AT)]}


def with_record(**changes: Any) -> Tables:
    return tables(**{**SOUND, "records": [record_row(**AT), {**record_row(2, **AT), **changes}]})


def said(given: Tables, **settings: Any) -> list[str]:
    return cautions(given, Terms.of(study(**settings), given))


LOST = {"status": "no baseline", "reason": "of OOM"}
SLOWED: dict[int, dict[str, Any]] = {2: {"slowed_s": 0.0}, 3: {"slowed_s": 1.25, "slowed_by": "power"}}
SLOW = {"strategy": "ddp", "gpus": 2, "batch_per_gpu": 32, "rung": "no_op_hook", "slowest": "rank 1 on gn2"}
STOLEN = {2: 0.005, 3: 0.034}

CASES = {
    "synthetic": (with_record(synthetic=True), "synthetic"),
    "no record": (tables(), "Nothing has been measured"),
    "missing": (
        tables(
            **SOUND,
            missing=[missing_row(**{**AT, "gpus": 4}), missing_row("failed", **{**AT, "gpus": 8})],
            rejected=[{"path": "a.json", "reason": "is damaged"}],
        ),
        "2 cells without a record that can be used (1 failed, 1 rejected).",
    ),
    "slow device": (
        tables(**SOUND, ladder=[{**SLOW, **known("uneven_s", 0.01), **known("step_s", 0.02)}]),
        "One GPU is slow in 1 of 1 configuration: rank 1 on gn2 needs 10.0 ms more for a step",
    ),
    "rejected": (tables(**SOUND, rejected=[{"path": "a.json", "reason": "is damaged"}]), "1 record could not be used."),
    "environments": (
        tables(**SOUND, environments=[environment_row("A"), environment_row("B")]),
        "2 environments (A, B)",
    ),
    "older versions": (
        tables(
            **SOUND, environments=[environment_row("A"), {**environment_row("B"), "older_measurements": "timing 1"}]
        ),
        "made records of environment B (timing 1)",
    ),
    "single run": (
        tables(**{**SOUND, "times": [{**SOUND["times"][0], "runs": 1}]}),
        "1 of 1 configuration was measured in one run.",
    ),
    "one server": (
        tables(**{**SOUND, "times": [{**SOUND["times"][0], "one_machine": "epoch_s"}]}),
        "1 of 1 configuration was measured on one server.",
    ),
    "wide interval": (
        tables(**{**SOUND, "times": [*SOUND["times"], times_row(3.0, spread=0.06, **AT | {"batch": 64})]}),
        "wider than 10 % of the value. The widest is 3.00 s [2.82, 3.18]",
    ),
    "no baseline": (
        tables(**SOUND, speedup=[absent_row("no baseline", "T(1,32) is missing", **AT), speedup_row(1.9, 9.6, **AT)]),
        "1 of 2 speedups was missing for want of a time of 1 GPU. Why: T(1,32) is missing.",
    ),
    "a run without a baseline": (
        tables(
            **SOUND,
            blocks=[
                block_row("run 1", **AT),
                {**block_row("run 2", **AT), "status": "no baseline", "reason": "of OOM"},
            ],
        ),
        "1 of 2 runs was left out of speedups: no time of 1 GPU belongs to it. Why: of OOM.",
    ),
    "drift": (
        tables(**SOUND, blocks=[block_row("run 1", -0.034, **AT), block_row("run 2", 0.01, **AT)]),
        "In 1 of 2 runs, 1 GPU alone changed its speed by more than 2 % while the run went on, at most by 3.40 %.",
    ),
    "outlier": (
        tables(**SOUND, runs=[run_row(1, 0.5, **AT), run_row(2, -9.5, **AT), run_row(3, None, **AT)]),
        "1 of 2 runs was more than 8 robust deviations off the median of the configuration.",
    ),
    "other GPUs": (
        with_record(gpu_uuids="GPU-00000002; GPU-00000003"),
        "used 4 GPUs in all, each at most 2.",
    ),
    "mixed hardware": (
        tables(**SOUND, environments=[environment_row("A"), {**environment_row("B"), "device_model": "NVIDIA A100"}]),
        "differ in: device.",
    ),
    "throttled": (
        with_record(throttle_reasons="software power cap"),
        "slowed the clocks in 1 of 2 runs, for an unknown time: software power cap.",
    ),
    "other processes": (with_record(other_processes=2), "seen on the GPUs in 1 of 2 runs"),
    "slowed": (
        tables(
            **{**SOUND, "records": [record_row(**AT), *({**record_row(run, **AT), **SLOWED[run]} for run in SLOWED)]}
        ),
        "1 of 2 runs hit a limit of the clocks (power) inside timed epochs, for at most 1.25 s.",
    ),
    "stolen cores": (
        tables(**{**SOUND, "records": [{**record_row(run, **AT), "stolen_share": STOLEN[run]} for run in STOLEN]}),
        "more than 1 % of the cores inside timed epochs of 1 of 2 runs, at most 3.40 %.",
    ),
    "dirty": (with_record(git_dirty=True), "1 of 2 runs was made with uncommitted changes."),
    "memorised": (
        tables(**{**SOUND, "records": [{**record_row(**AT), "synthetic": True}]}, training=[epoch_row("a", 1, 1, 0.1)]),
        "Arms were trained on noise",
    ),
    "few seeds": (
        tables(**SOUND, training_summary=[arm_row("a", 0.5, seeds=2), arm_row("b", 0.5), arm_row("c", 0.5, seeds=0)]),
        "1 of 2 arms was trained with fewer than 3 seeds.",
    ),
}


@pytest.mark.parametrize(("data", "part"), CASES.values(), ids=CASES)
def test_caution_is_given(data: Tables, part: str) -> None:
    assert [sentence for sentence in said(data) if part in sentence]


def test_sound_data_need_no_caution() -> None:
    assert said(tables(**SOUND)) == []


def test_synthetic_study_is_labelled_before_anything_is_measured() -> None:
    found = said(tables(**SOUND), dataset={"source": "synthetic"})
    assert any("synthetic" in sentence for sentence in found)


def test_quiet_clocks_need_no_caution() -> None:
    quiet = {**record_row(**AT), "throttle_reasons": "x", "slowed_s": 0.0, "stolen_share": 0.01, "other_processes": 0}
    assert said(tables(**{**SOUND, "records": [quiet]})) == []
