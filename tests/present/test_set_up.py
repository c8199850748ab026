"""The facts of an environment: its links as they are called, and what they were measured to carry."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from page_tables import (
    GPU,
    empty,
    environment_row,
    key,
    study,
    tables,
)

from dpscale.present.findings.set_up import environment_facts, study_facts
from dpscale.present.text.words import Terms
from dpscale.tables.tables import Tables


def values(settings: Mapping[str, Any], data: Tables, terms: Terms = GPU) -> Mapping[str, str]:
    return study_facts(settings, data.records, data.bandwidth, terms)


def test_what_is_known_of_an_environment() -> None:
    row = {**environment_row(), "cpu_cores": "64", "variables": "NCCL_NVLS_ENABLE=0"}
    assert environment_facts(tables(environments=[row]).environments, GPU) == {
        "Environment A": {
            "GPU": "NVIDIA H200",
            "Links": "NVLink, 18 links, via switch",
            "CPU": "Intel Xeon Platinum 8468, 64 cores",
            "Software": "torch 2.11.0+cu130, cuda 13.0, cudnn 9.13.0, nccl 2.28.9, driver 580.65.06",
            "Variables": "NCCL_NVLS_ENABLE=0",
            "Hosts": "gpu-node-07",
        }
    }, "without the letter of the only one"


def test_the_set_up_is_that_of_the_study() -> None:
    data = tables(bandwidth=[{**key("ddp", 4, 32), "parameters": 11_173_962}])
    facts = values(study(precision="bfloat16"), data)
    assert facts["Network"] == "ResNet-18 for 32×32 images, K = 11,173,962 parameters"
    assert facts["Precision"] == "bfloat16, contiguous"
    assert facts["Optimiser"].startswith("SGD, learning rate 0.1, momentum 0.9, weight decay 0.0005")
    assert facts["Planned"] == "3 runs per configuration, each of 1 epoch to warm up and 2 timed"
    assert "Workload" not in facts
    assert "parameters" not in values(study(), empty())["Network"]


def test_the_set_up_of_a_file_names_it_and_says_samples() -> None:
    digits = "0123456789ab"
    of_file = study(workload="private/folder/gpt.py", workload_sha256=digits + "c" * 52, dataset={"images": 4096})
    facts = values(of_file, empty(), replace(GPU, own_workload=True))
    assert facts["Dataset"] == "that of gpt.py, 4,096 samples per epoch"
    assert facts["Workload"] == f"gpt.py, SHA-256 {digits}"
    assert facts["Optimiser"].startswith("that of gpt.py, or where it has none SGD, learning rate")
    assert "samples on the host" in facts["Settings"]
    assert "private" not in str(facts)
