"""The facts of environments and studies, as pages list them. The snapshot has the words."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from page_tables import GPU, empty, environment_row, key, study, tables
from syrupy.assertion import SnapshotAssertion

from dpscale.present.findings.set_up import environment_facts, study_facts
from dpscale.present.text.words import Terms
from dpscale.tables.tables import Tables


def facts(data: Tables, terms: Terms = GPU, **settings: object) -> Mapping[str, str]:
    return study_facts(study(**settings), data.records, data.bandwidth, terms)


ENVIRONMENT = {**environment_row(), "cpu_cores": "64", "variables": "NCCL_NVLS_ENABLE=0"}
MEASURED = tables(bandwidth=[{**key("ddp", 4, 32), "parameters": 11_173_962}], environments=[ENVIRONMENT])
SETTINGS = {"workload": "private/folder/gpt.py", "workload_sha256": "0c" * 32, "dataset": {"images": 4096}}
OF_FILE = facts(empty(), replace(GPU, own_workload=True), **SETTINGS)
CASES = {
    "an environment": environment_facts(MEASURED.environments, GPU),
    "a study": facts(MEASURED, precision="bfloat16"),
    "a study of a file": OF_FILE,
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_known_is_listed(case: str, snapshot: SnapshotAssertion) -> None:
    assert dict(CASES[case]) == snapshot


def test_what_is_not_known_or_private_is_not_listed() -> None:
    assert "parameters" not in facts(empty())["Network"]
    assert "private" not in str(OF_FILE)


def test_text_of_records_is_no_heading() -> None:
    odd = tables(environments=[{**ENVIRONMENT, "links": "# Cause", "variables": "A=1\n# Hosts\nB=2"}])
    (facts_of_odd,) = environment_facts(odd.environments, GPU).values()
    assert facts_of_odd["Links"] == "# Cause"
    assert facts_of_odd["Variables"].startswith("A=1") and facts_of_odd["Variables"].endswith("B=2")
    assert [*facts_of_odd] == [*CASES["an environment"]["Environment A"]]
