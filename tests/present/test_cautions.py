"""Every caution, with data that call for it and data that do not."""

from typing import Any

import pytest
from page_tables import (
    block_row,
    environment_row,
    missing_row,
    record_row,
    speedup_row,
    study,
    tables,
    times_row,
)

from dpscale.present.findings.cautions import first_cautions, other_cautions
from dpscale.present.text.words import Terms
from dpscale.records.versions import OLDER, VERSIONS
from dpscale.tables.tables import Tables
from rows import known

AT: dict[str, Any] = {"strategy": "ddp", "gpus": 2, "batch": 32}
SOUND = {"times": [times_row(5.04, **AT)], "records": [record_row(**AT)]}


def with_record(**changes: Any) -> Tables:
    return tables(**{**SOUND, "records": [record_row(**AT), {**record_row(2, **AT), **changes}]})


def said(given: Tables, **settings: Any) -> list[str]:
    terms = Terms.of(study(**settings), given)
    return [*first_cautions(given, terms), *other_cautions(given, terms)]


SLOWED: dict[int, dict[str, Any]] = {2: {"slowed_s": 0.0}, 3: {"slowed_s": 1.25, "slowed_by": "power"}}
SLOW = {"strategy": "ddp", "gpus": 2, "batch_per_gpu": 32, "rung": "together", "slowest": "rank 1 on gn2"}

CASES = {
    "synthetic": (with_record(synthetic=True), "synthetic"),
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
    "environments": (
        tables(**SOUND, environments=[environment_row("A"), environment_row("B")]),
        "2 environments (A, B)",
    ),
    "older versions": (
        tables(
            **SOUND, environments=[environment_row("A"), {**environment_row("B"), "older_measurements": "timing 1"}]
        ),
        "Records in environment B are of older versions of this program. Timing 1: one GPU alone was timed in jobs of "
        "its own, not in the parallel ones.",
    ),
    "cores": (
        tables(**SOUND, environments=[{**environment_row(), "cpu_cores": "16; 64; 8"}]),
        "Jobs with 8, 16 and 64 cores are pooled. Where steps wait for the host, times may differ for that, those of 1",
    ),
    "single run": (
        tables(**{**SOUND, "times": [{**SOUND["times"][0], "runs": 1}]}),
        "1 of 1 configuration was measured in one run.",
    ),
    "one server": (
        tables(**{**SOUND, "times": [{**SOUND["times"][0], "rests_on": "one machine: epoch_s"}]}),
        "1 of 1 configuration was measured on one server.",
    ),
    "borrowed": (
        tables(
            **SOUND,
            speedup=[
                {**speedup_row(1.8, 2.0, **{**AT, "batch": batch}), "borrowed_from": others}
                for batch, others in ((32, 21), (128, 23), (512, 0))
            ],
        ),
        "The intervals of 2 of 3 speedups rest on two servers, and the spread of 21 to 23 other configurations.",
    ),
    "drift": (
        tables(**SOUND, blocks=[block_row("run 1", -0.034, **AT), block_row("run 2", 0.01, **AT)]),
        "while the run went on, at most by 3.40 % (run 1 of ddp on 2 GPUs at batch 32 per GPU, compute scope). No run "
        "is left out.",
    ),
    "other processes": (with_record(other_processes=2), "seen on the GPUs in 1 of 2 runs"),
    "slowed": (
        tables(
            **{**SOUND, "records": [record_row(**AT), *({**record_row(run, **AT), **SLOWED[run]} for run in SLOWED)]}
        ),
        "1 of 2 runs hit a limit of the clocks (power) inside timed epochs, for at most 1.25 s.",
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


def test_one_number_of_cores_needs_no_caution() -> None:
    assert said(tables(**SOUND, environments=[{**environment_row(), "cpu_cores": "64"}])) == []


def test_every_older_version_says_what_it_means() -> None:
    readable = {f"{kind} {version}" for kind, known in VERSIONS.items() for version in known.still_readable}
    assert readable == set(OLDER)


def test_quiet_clocks_need_no_caution() -> None:
    quiet = {**record_row(**AT), "slowed_s": 0.0, "other_processes": 0}
    assert said(tables(**{**SOUND, "records": [quiet]})) == []
