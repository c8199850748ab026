"""A cell on several nodes, with workers that measure nothing: each node is a process of this machine."""

import os
import signal
import socket
import struct
import subprocess
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import pynvml
import pytest

from cases import cases
from dpscale.errors import MeasurementError
from dpscale.measure.launch import nodes as module
from dpscale.measure.launch.cells import require_given
from dpscale.measure.launch.nodes import (
    NodePlace,
    NodeTeam,
    interface_of,
    node_differences,
    port_of_job,
)
from dpscale.measure.watch import nvml
from json_records import read_json
from processes import OWN_JOB, alive, started_by, workers_of
from project import wait_for
from stub_cell import start_stub

SLURM = {
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_STEP_NUM_NODES": "2",
    "SLURM_LAUNCH_NODE_IPADDR": "10.0.0.8",
    "SLURM_NODEID": "1",
    "SLURM_JOB_ID": "47110815",
}


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> list[NodePlace]:
    for name, value in OWN_JOB.items():
        monkeypatch.setenv(name, value)
    with socket.create_server(("", 0)) as probe:
        return [NodePlace(2, rank, "localhost", probe.getsockname()[1]) for rank in range(2)]


Started = tuple[subprocess.Popen[str], subprocess.Popen[str]]


@pytest.fixture
def started(tmp_path: Path, places: list[NodePlace], request: pytest.FixtureRequest) -> Iterator[Started]:
    """The launchers of both nodes, with the behaviour that the test asks for. None of their workers stays."""
    first, second = (start_stub(tmp_path / "r.json", request.param, place=place, batch=16) for place in places)
    yield first, second
    family = {pid for process in (first, second) for pid in started_by(process.pid)}
    for process in (first, second):
        process.kill()
        process.wait()
    wait_for(lambda: not alive(family))


def error_of(process: subprocess.Popen[str]) -> str:
    _, errors = process.communicate(timeout=240)
    assert process.returncode == 1, errors
    (line,) = [line for line in errors.splitlines() if line.startswith("Error: ")]
    return line


@pytest.mark.processes
@pytest.mark.parametrize("started", ["finish"], indirect=True)
def test_node_0_writes_one_record_with_every_node(started: Started, tmp_path: Path) -> None:
    errors = "".join(process.communicate(timeout=240)[1] for process in started)
    assert [process.returncode for process in started] == [0, 0], errors
    record = read_json("timing", tmp_path / "r.json")
    assert record["cell"] == {"strategy": "ddp", "gpus": 4, "batch_per_gpu": 16, "nodes": 2, "run": 1}
    assert [sorted(node) for node in record["nodes"]] == [["environment", "hardware", "software"]] * 2
    assert record["nodes_differ"] == []
    assert [path.name for path in tmp_path.iterdir()] == ["r.json"]


@pytest.mark.processes
@pytest.mark.parametrize("started", ["oom"], indirect=True)
def test_out_of_memory_on_another_node_is_the_outcome(started: Started, tmp_path: Path) -> None:
    assert [process.wait(240) for process in started] == [0, 0]
    assert read_json("timing", tmp_path / "r.json")["oom"]["rank"] == 2


@pytest.mark.processes
@pytest.mark.parametrize("started", ["wait"], indirect=True)
def test_a_worker_that_dies_on_one_node_ends_both_and_both_say_where(started: Started, tmp_path: Path) -> None:
    wait_for(lambda: all(len(workers_of(process.pid)) == 2 for process in started))
    os.kill(workers_of(started[1].pid)[3], signal.SIGKILL)
    host = socket.gethostname()
    for process in started:
        assert f"node 1 ({host}): worker 3 of 4 was killed by SIGKILL" in error_of(process)
    assert not list(tmp_path.iterdir())


@pytest.mark.processes
@pytest.mark.parametrize("started", ["wait"], indirect=True)
@pytest.mark.parametrize("killed", [0, 1])
def test_a_node_that_is_gone_ends_the_other(started: Started, killed: int, tmp_path: Path) -> None:
    wait_for(lambda: all(len(workers_of(process.pid)) == 2 for process in started))
    started[killed].kill()
    error = error_of(started[1 - killed])
    assert f"Error: node {killed} " in error
    assert "has gone" in error
    assert not list(tmp_path.iterdir())


@pytest.mark.processes
@pytest.mark.parametrize(
    ("ranks", "batches", "error"),
    [
        ((0, 1), (16, 32), "does not run the same cell: cell is"),
        ((0, 1, 1), (16, 16, 16), "the launchers say that they are nodes [0, 1, 1]"),
    ],
)
def test_launchers_that_do_not_fit_together_measure_nothing(
    tmp_path: Path, places: list[NodePlace], ranks: tuple[int, ...], batches: tuple[int, ...], error: str
) -> None:
    started = [
        start_stub(tmp_path / "r.json", "finish", place=replace(places[0], nodes=len(ranks), rank=rank), batch=batch)
        for rank, batch in zip(ranks, batches, strict=True)
    ]
    for process in started:
        assert error in error_of(process)
    assert not list(tmp_path.iterdir())


def test_no_cell_runs_without_a_node_that_never_comes(monkeypatch: pytest.MonkeyPatch, places: list[NodePlace]) -> None:
    monkeypatch.setattr(module, "MEET_S", 0.5)
    for place, error in zip(places, (r"1 of 2 nodes have met at localhost:\d+", "did not reach node 0"), strict=True):
        with pytest.raises(MeasurementError, match=error), NodeTeam(place, {}, {}):
            pass


def framed(text: str) -> bytes:
    """A message as launchers send it."""
    return struct.pack("!i", len(text)) + text.encode()


FORGED = '{"rank": 1, "host": "gn2", "identity": {"nodes": 2}, "environment": {}, "proof": "%s"}'


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.0\r\n\r\n", framed('{"identity": {}}'), framed("[]"), framed("[" * 100_000 + "]" * 100_000),
        framed("no JSON"), framed("{}")[:-1], framed(FORGED % "guessed"), b"",
    ],
    ids=["HTTP", "half a hello", "a list", "nested", "no JSON", "cut off", "another job's", "nothing"],
)  # fmt: skip
def test_whoever_is_no_launcher_of_the_job_is_refused_and_the_cell_goes_on(
    monkeypatch: pytest.MonkeyPatch, places: list[NodePlace], sent: bytes
) -> None:
    monkeypatch.setattr(module, "ANSWER_S", 1.0)
    monkeypatch.setenv(module.SECRET, "only of this job")
    stranger = socket.socket()

    def come() -> None:
        wait_for(lambda: not stranger.connect_ex(("localhost", places[0].port)))
        stranger.sendall(sent)
        with NodeTeam(places[1], {"cell": 1}, {}):
            pass

    coming = Thread(target=come)
    coming.start()
    with NodeTeam(places[0], {"cell": 1}, {}) as team:
        assert len(team.environments) == 2
    coming.join()
    stranger.close()


def test_the_place_is_that_of_the_command_line_or_of_slurms_step() -> None:
    assert NodePlace.of(2, 1, "gn1:15000", SLURM) == NodePlace(2, 1, "gn1", 15000)
    assert NodePlace.of(2, None, None, SLURM) == NodePlace(2, 1, "10.0.0.8", port_of_job(47110815))
    with pytest.raises(MeasurementError, match="2, 2 and gn1:1 are not the place of a node"):
        NodePlace.of(2, 2, "gn1:1", {})
    with pytest.raises(MeasurementError, match="2 launchers on 2 nodes, the cell needs one on each of 1"):
        NodePlace.of(1, None, None, SLURM)


def test_the_interface_of_an_address() -> None:
    assert interface_of("127.0.0.1") == "lo"
    assert interface_of("192.0.2.1") is None


def test_nodes_that_differ_are_named_but_for_what_always_differs() -> None:
    def node(torch: str, **variables: str) -> dict[str, Any]:
        hardware = {"device_model": "H100", "cpu_model": "x", "cpu_cores": 4, "links": []}
        return {"hardware": hardware, "software": {"torch": torch}, "environment": variables}

    assert node_differences([node("2.14", SLURMD_NODENAME="a"), node("2.14", SLURMD_NODENAME="b")]) == []
    assert node_differences([node("2.14"), node("2.13")]) == ["torch: 2.14 on 0; 2.13 on 1"]
    assert node_differences([node("2.14", NCCL_IB_DISABLE="1"), node("2.14")])[0].startswith("variables: ")


@pytest.mark.parametrize(("available", "visible", "error"), cases(__file__, "gpus"))
def test_too_few_gpus_are_an_error_before_torch_is_loaded(
    monkeypatch: pytest.MonkeyPatch, available: int | None, visible: str | None, error: str
) -> None:
    """Torch raises it later where the library knows nothing (None)."""
    monkeypatch.setattr(nvml, "is_there", lambda: available is not None)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: available)
    monkeypatch.setattr(nvml, "_OTHER_DEVICES", ["/dev/null"])
    with pytest.raises(MeasurementError, match=error) if error else nullcontext():
        require_given(2, {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible})
