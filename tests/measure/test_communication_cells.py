"""Communication and collectives cells in real processes on the CPU, and the facts of the network they rest on."""

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from torch.profiler import ProfilerActivity, profile, record_function

from dpscale.analyse.estimators import from_steps, isolated_step_s, links_of
from dpscale.records.files import read_record
from project import Project

pytestmark = pytest.mark.processes

IMAGES = 256
NETWORK = ["--width", "4"]
TRAINING = f"--device cpu --dataset-source synthetic --epoch-images {IMAGES}".split()


def dpscale(*arguments: object, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "dpscale", *map(str, arguments)], capture_output=True, text=True, **options
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("communication")
    assert dpscale("dataset", "--source", "synthetic", "--images", IMAGES, "--out", folder / "dataset").returncode == 0
    assert dpscale("network", *NETWORK, "--out", folder / "network.json").returncode == 0
    return folder


@pytest.fixture(scope="module")
def facts(folder: Path) -> dict[str, Any]:
    return read_record("network", folder / "network.json")


@pytest.fixture(scope="module")
def steps(folder: Path) -> dict[str, Any]:
    done = take_apart(folder, "ddp")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"record: {folder / 'ddp.json'}"
    return read_record("communication", folder / "ddp.json")


@pytest.fixture(scope="module")
def collectives(folder: Path) -> dict[str, Any]:
    done = time_collectives(folder, folder / "collectives.json")
    assert done.returncode == 0, done.stderr
    assert "FutureWarning" not in done.stderr
    return read_record("collectives", folder / "collectives.json")


def take_apart(folder: Path, strategy: str, batch: int = 64) -> subprocess.CompletedProcess[str]:
    cell = ["--strategy", strategy, "--gpus", 2, "--batch-per-gpu", batch, "--dataset", folder / "dataset"]
    return dpscale("communication", *cell, *NETWORK, *TRAINING, "--out", folder / f"{strategy}.json")


def time_collectives(folder: Path, out: Path, *more: str, **options: Any) -> subprocess.CompletedProcess[str]:
    cell = ["--gpus", 2, "--device", "cpu", "--network-facts", folder / "network.json"]
    return dpscale("collectives", *cell, *(more or NETWORK), "--out", out, **options)


def test_the_reference_network_has_the_facts_of_the_method(tmp_path: Path) -> None:
    assert dpscale("network", "--out", tmp_path / "network.json").returncode == 0
    facts = read_record("network", tmp_path / "network.json")
    assert facts["parameters"] == 11_173_962
    assert facts["gradient_bytes"] == 44_695_848
    assert facts["tensors"] == 62
    assert facts["buffer_bytes"] == 38_560
    assert facts["flop_per_image"]["forward"] == pytest.approx(1.1108e9, rel=1e-4)
    assert facts["flop_per_image"]["forward_backward"] == pytest.approx(3.3290e9, rel=1e-4)
    assert [bucket["bytes"] for bucket in facts["ddp_buckets"]] == [9_461_800, 26_494_976, 8_739_072]
    assert sum(facts["dp_reduce_bytes"]) == facts["gradient_bytes"]
    assert sum(facts["dp_broadcast_bytes"]) == facts["gradient_bytes"] + facts["buffer_bytes"]
    assert max(facts["dp_broadcast_bytes"]) <= 10 * 2**20


def test_gradients_are_ready_in_order(facts: dict[str, Any]) -> None:
    shares = [bucket["ready_share"] for bucket in facts["ddp_buckets"]]
    assert shares == sorted(shares)
    assert shares[-1] == 1


def test_steps_take_turns_with_and_without_communication(steps: dict[str, Any]) -> None:
    variants = steps["steps"]["variants"]
    assert set(variants) == {"training", "no_op_hook", "no_sync"}
    assert {len(blocks["step_s"]) for blocks in variants.values()} == {6}
    for blocks in variants.values():
        # The median step by one clock, the mean step by the other.
        for median_s, mean_s in zip(blocks["step_s"], blocks["block_step_s"], strict=True):
            assert 0.3 * mean_s < median_s < 1.5 * mean_s
    assert steps["profile"] is None, "there is no GPU"
    assert set(from_steps([steps], "")) == {
        "training_step_s", "ablation_step_s", "no_sync_step_s", "logger_step_s", "logger_exposed_step_s",
    }  # fmt: skip


def test_ddps_logger_reduces_the_buckets_that_the_facts_predict(steps: dict[str, Any], facts: dict[str, Any]) -> None:
    logged = steps["ddp_logger"]
    assert logged["bucket_bytes"] == [bucket["bytes"] for bucket in facts["ddp_buckets"]]
    for whole_s, overlap_s in zip(logged["communication_s"], logged["overlap_s"], strict=True):
        assert whole_s > 0
        assert overlap_s >= 0


def test_dp_cannot_be_taken_apart_on_a_cpu(folder: Path) -> None:
    done = take_apart(folder, "dp")
    assert done.returncode == 1
    assert "dp is not available on a CPU" in done.stderr
    assert not (folder / "dp.json").exists()


def test_collectives_of_every_size_the_network_needs(collectives: dict[str, Any], facts: dict[str, Any]) -> None:
    found = {(result["operation"], result["bytes"]) for result in collectives["collectives"]}
    series = {4 * 2**10 * 4**power for power in range(8)}
    for operation in ("allreduce", "broadcast", "reduce", "reduce_scatter", "all_gather"):
        assert series <= {size for name, size in found if name == operation}
    assert ("allreduce", facts["gradient_bytes"]) in found
    assert {("broadcast", size) for size in facts["dp_broadcast_bytes"]} <= found
    assert all(3 <= len(result["seconds"]) <= 10 for result in collectives["collectives"])
    assert collectives["peer_copies"] == []


def test_larger_messages_take_longer(collectives: dict[str, Any]) -> None:
    seconds = {(r["operation"], r["bytes"]): min(r["seconds"]) for r in collectives["collectives"]}
    for operation in ("allreduce", "broadcast", "reduce", "reduce_scatter", "all_gather"):
        assert seconds[operation, 64 * 2**20] > seconds[operation, 4 * 2**10]


def test_the_isolated_step_is_the_sum_of_its_messages(collectives: dict[str, Any], facts: dict[str, Any]) -> None:
    links = links_of([collectives], "")
    isolated = isolated_step_s("ddp", 2, 64, facts, links)
    assert isolated
    alone = [links.collectives["allreduce", bucket["bytes"]].value for bucket in facts["ddp_buckets"]]
    assert isolated.value == pytest.approx(sum(alone))
    assert isolated_step_s("dp", 2, 64, facts, links) is None, "copies between GPUs were not measured here"


def test_collectives_of_another_network_are_refused(folder: Path, tmp_path: Path) -> None:
    done = time_collectives(folder, tmp_path / "collectives.json", "--width", "8")
    assert done.returncode == 1
    assert "is of another network. Make it with: dpscale network" in done.stderr


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("lambda: dist.all_reduce(self.inputs)", "lambda: None"),
        ("lambda: ALL_GATHER(self.outputs, self.inputs)", "lambda: self.outputs.copy_(self.inputs.repeat(2))"),
    ],
)
def test_a_collective_that_gives_a_wrong_result_is_an_error(
    root: Path, folder: Path, tmp_path: Path, right: str, wrong: str
) -> None:
    project = Project.create(root, tmp_path / "project")
    worker = project.folder / "workflow/dpscale/measure/worker/collectives.py"
    text = worker.read_text()
    assert right in text
    worker.write_text(text.replace(right, wrong))
    done = time_collectives(folder, tmp_path / "collectives.json", cwd=project.folder, env=project.environment)
    assert done.returncode == 1
    assert "gave a wrong result" in done.stderr
    assert not (tmp_path / "collectives.json").exists()


def test_the_profilers_clock_is_the_hosts(tmp_path: Path) -> None:
    """Phases are marked with one, kernels with the other."""
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        before_ns = time.time_ns()
        with record_function("here"):
            time.sleep(0.01)
        after_ns = time.time_ns()
    profiler.export_chrome_trace(str(tmp_path / "trace.json"))
    trace = json.loads((tmp_path / "trace.json").read_text())
    (event,) = (event for event in trace["traceEvents"] if event.get("name") == "here")
    start_ns = trace["baseTimeNanoseconds"] + event["ts"] * 1e3
    tolerance_ns = 1e5  # the profiler converts the processor's counter
    assert before_ns - tolerance_ns <= start_ns
    assert start_ns + event["dur"] * 1e3 <= after_ns + tolerance_ns
