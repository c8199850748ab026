"""Every caution, with data that call for it and data that do not; and the facts of environments and studies.

The snapshot has the words.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from page_tables import GPU, block_row, empty, environment_row, missing_row, record_row, study, tables, times_row
from syrupy.assertion import SnapshotAssertion

from dpscale.present.findings.cautions import first_cautions, other_cautions
from dpscale.present.findings.set_up import environment_facts, study_facts
from dpscale.present.text.words import Terms
from dpscale.records import OLDER, VERSIONS
from dpscale.tables.tables import Tables
from rows import Entries, key, known

AT: Entries = {"strategy": "ddp", "gpus": 2, "batch": 32}
TIMES = times_row(5.04, **AT)
SLOW = {"strategy": "ddp", "gpus": 2, "batch_per_gpu": 32, "rung": "together", "slowest": "rank 1 on gn2"}

SERVER = {"server": 2, "host": "gn2", "gpu_uuids": "GPU-1; GPU-2; GPU-3", "configurations": 22}


def sound(**changed: list[Entries]) -> Tables:
    """A study that calls for no caution, but for these tables."""
    return tables(**{"times": [TIMES], "records": [record_row(**AT)], **changed})


def records(**changed: Any) -> Tables:
    """Three runs: of two it is known what the clocks did, and one of these has other values."""
    quiet = {**record_row(2, **AT), "slowed_s": 0.0}
    return sound(records=[record_row(**AT), quiet, {**quiet, "path": "run-3.json", "run": 3, **changed}])


def said(data: Tables, **settings: Any) -> list[str]:
    terms = Terms.of(study(**settings), data)
    return [*first_cautions(data, terms), *other_cautions(data, terms)]


CASES = {
    "synthetic": records(synthetic=True),
    "missing": sound(missing=[missing_row(**AT)]),
    "slow device": sound(ladder=[{**SLOW, **known("uneven_s", 0.01), **known("step_s", 0.02)}]),
    "slow server": sound(servers=[{**SERVER, **known("times_as_long", 2.0)}]),
    "slow node": sound(servers=[{**SERVER, **known("times_as_long", 2.0), "is_of_scheduler": True}]),
    "environments": sound(environments=[environment_row("A"), environment_row("B")]),
    "older versions": sound(environments=[{**environment_row(), "measurement_versions": "timing 1"}]),
    "cores": sound(environments=[{**environment_row(), "cpu_cores": "16; 64; 8"}]),
    "single run": sound(times=[{**TIMES, "runs": 1}]),
    "one server": sound(times=[{**TIMES, "rests_on": "one machine: epoch_s"}]),
    "drift": sound(blocks=[block_row("run 1", -0.034, **AT), block_row("run 2", 0.01, **AT)]),
    "other processes": records(other_processes=2),
    "slowed": records(slowed_s=1.25),
    "stalled": records(stalled_s=12.5),
    "skipped updates": records(skipped_updates=3),
    "hot": records(hot_devices="GPU-eb86bf1f"),
}
SOUND = {
    "nothing": sound(),
    "quiet": records(),
    "an even server": sound(ladder=[{**SLOW, **known("uneven_s", 0.003), **known("step_s", 0.02)}]),
    "a server like the others": sound(servers=[{**SERVER, **known("times_as_long", 1.05)}]),
    "no drift": sound(blocks=[block_row("run 1", -0.019, **AT)]),
}


@pytest.mark.parametrize("case", CASES)
def test_data_call_for_one_caution(case: str, snapshot: SnapshotAssertion) -> None:
    (caution,) = said(CASES[case])
    assert caution == snapshot


@pytest.mark.parametrize("case", SOUND)
def test_sound_data_call_for_none(case: str) -> None:
    assert said(SOUND[case]) == []


def test_every_older_version_says_what_it_means() -> None:
    readable = {f"{kind} {version}" for kind, versions in VERSIONS.items() for version in versions.still_readable}
    assert readable == set(OLDER)


def facts(data: Tables, terms: Terms = GPU, **settings: object) -> Mapping[str, str]:
    return study_facts(study(**settings), data.records, data.bandwidth, terms)


ENVIRONMENT = {**environment_row(), "cpu_cores": "64", "variables": "NCCL_NVLS_ENABLE=0"}
MEASURED = tables(bandwidth=[{**key("ddp", 4, 32), "parameters": 11_173_962}], environments=[ENVIRONMENT])
SETTINGS = {"workload": "private/folder/gpt.py", "workload_sha256": "0c" * 32, "dataset": {"images": 4096}}
OF_FILE = facts(empty(), replace(GPU, own_workload=True), **SETTINGS)
FACTS = {
    "an environment": environment_facts(MEASURED.environments, GPU),
    "a study": facts(MEASURED, precision="bfloat16"),
    "a study of a file": OF_FILE,
}


@pytest.mark.parametrize("case", FACTS)
def test_what_is_known_is_listed(case: str, snapshot: SnapshotAssertion) -> None:
    assert dict(FACTS[case]) == snapshot


def test_what_is_not_known_or_private_is_not_listed() -> None:
    assert "parameters" not in facts(empty())["Network"]
    assert "private" not in str(OF_FILE)
