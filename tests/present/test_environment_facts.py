"""The facts of an environment: its links as they are called, and what they were measured to carry."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from page_tables import (
    GPU,
    SEVERAL,
    absent_row,
    around,
    bandwidth_row,
    empty,
    environment_row,
    study,
    tables,
    times_row,
)

from dpscale.present.study.environment_facts import EnvironmentFacts, Fact, environment_facts, setup
from dpscale.present.study.page import render
from dpscale.present.text.words import Terms
from dpscale.tables.tables import Tables


def collective(operation: str, gpus: int, message_bytes: int, rate: float, **more: Any) -> dict[str, Any]:
    rates = around("bus_bandwidth_gb_s", rate)
    return {"operation": operation, "gpus": gpus, "message_bytes": message_bytes, "environment": "A", **rates, **more}


def facts_of(data: Tables, terms: Terms = GPU) -> list[EnvironmentFacts]:
    return environment_facts(data.environments, data.collectives, data.peer_copies, terms)


def set_up(settings: Mapping[str, Any], data: Tables, terms: Terms = GPU) -> dict[str, str]:
    return values(setup(settings, data.times, data.bandwidth, terms))


def values(facts: Iterable[Fact]) -> dict[str, str]:
    return {fact.name: fact.value for fact in facts}


def test_links_are_named_and_measured() -> None:
    copies = [
        collective("peer_copy", 4, 2**28, rate, source=source, target=target)
        for source, target, rate in ((0, 1, 380.0), (1, 0, 388.0), (0, 2, 390.0))
    ]
    fewer = collective("peer_copy", 2, 2**28, 100.0, source=0, target=1)
    reduced = [collective("allreduce", 4, size, rate) for size, rate in ((4096, 0.5), (2**30, 354.0))]
    (found,) = facts_of(tables(collectives=[*copies, fewer, *reduced]))
    facts = values(found.facts)
    assert facts["Links"] == "NVLink, 18 links, via switch"
    assert facts["Copies from one to another"] == "388 GB/s (380 to 390 in 3 directions, 4 GPUs, 256 MiB)"
    assert facts["Allreduce, largest message"] == "354 GB/s bus bandwidth (4 GPUs, 1,024 MiB)"
    assert "nccl 2.28.9" in facts["Software"]
    assert "Environment" not in facts


def test_what_was_not_measured_is_left_out() -> None:
    (found,) = facts_of(tables(environments=[{**environment_row(), "links": None}]))
    assert [fact.name for fact in found.facts] == ["GPU", "CPU", "Software", "Hosts"]
    assert facts_of(empty()) == []


def test_measurements_of_another_environment_are_not_taken() -> None:
    data = tables(
        environments=[environment_row("A"), environment_row("B")],
        collectives=[collective("allreduce", 4, 4096, 0.5, environment="B")],
    )
    first, second = ({fact.name for fact in found.facts} for found in facts_of(data, SEVERAL))
    assert "Allreduce, largest message" in second - first


def test_the_set_up_is_that_of_the_study() -> None:
    place: dict[str, Any] = {"strategy": "ddp", "gpus": 4, "batch": 32}
    timed = {**times_row(1.0, **place, scope="end_to_end"), "loader_processes": 8}
    data = tables(bandwidth=[bandwidth_row(0.1, **place)], times=[timed])
    facts = set_up(study(precision="bfloat16"), data)
    assert facts["Network"] == "ResNet-18 for 32×32 images, K = 11,173,962 parameters"
    assert facts["Precision"] == "bfloat16, contiguous"
    assert facts["Optimiser"].startswith("SGD, learning rate 0.1, momentum 0.9, weight decay 0.0005")
    assert facts["Loader"].endswith("per process; in total 8 with ddp on 4 GPUs")
    assert facts["Clock"].startswith("3 runs per configuration, each of 1 epoch to warm up")


@pytest.mark.parametrize(
    ("runs", "says"), [([], "6 runs"), ([6, 6], "6 runs"), ([3, 4, 6], "3 to 6 of 6 runs"), ([4], "4 of 6 runs")]
)
def test_the_set_up_counts_the_runs_that_are_there(runs: list[int], says: str) -> None:
    batches = (32, 128, 512)
    timed = [
        {**times_row(1.0, strategy="ddp", gpus=4, batch=batch), "runs": number}
        for number, batch in zip(runs, batches, strict=False)
    ]
    lacking = absent_row("missing", "run 1 missing", strategy="dp", gpus=4, batch=32)
    facts = set_up(study(runs=6), tables(times=[*timed, lacking]))
    assert facts["Clock"].startswith(f"{says} per configuration, ")


def test_the_set_up_of_a_file_names_it_and_says_samples() -> None:
    digits = "0123456789ab"
    of_file = study(workload="private/folder/gpt.py", workload_sha256=digits + "c" * 52, dataset={"images": 4096})
    data = tables(bandwidth=[bandwidth_row(0.1, strategy="ddp", gpus=4, batch=32)])
    facts = set_up(of_file, data, replace(GPU, own_workload=True))
    assert facts["Dataset"] == "that of gpt.py, 4,096 samples per epoch"
    assert facts["Network"].startswith("gpt.py, K = ")
    assert facts["Workload"] == f"gpt.py, SHA-256 {digits}"
    assert facts["Optimiser"].startswith("that of gpt.py, or where it has none SGD, learning rate")
    assert "samples on the host" in facts["Settings"]
    assert "private" not in str(facts)
    assert "Workload" not in set_up(study(), data)
    page = render(of_file, data)
    assert "4,096 samples per epoch" in page
    assert "samples per epoch" not in render(study(), data)


def test_what_no_table_says_of_the_set_up_is_left_out() -> None:
    facts = set_up(study(), empty())
    assert "parameters" not in facts["Network"]
    assert "in total" not in facts["Loader"]


def test_cores_and_variables_are_facts_where_they_are_known() -> None:
    row = {**environment_row(), "cpu_cores": "64", "variables": "NCCL_NVLS_ENABLE=0"}
    (found,) = facts_of(tables(environments=[row]))
    facts = values(found.facts)
    assert facts["CPU"].endswith(", 64 cores")
    assert facts["Variables"] == "NCCL_NVLS_ENABLE=0"
