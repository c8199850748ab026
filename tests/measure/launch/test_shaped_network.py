"""Nodes with a network of their own between them, of a known rate: what is measured, and what follows when it goes."""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dpscale.measure.launch.nodes import PROBE_AFTER_S, PROBE_EVERY_S, PROBES, NodePlace
from processes import workers_of
from shaped_network import ShapedNetwork, missing_requirement
from stub_cell import helpers_for_workers, stub_words

RATE_MBIT = 200
MESSAGE_BYTES = 8 * 2**20
PORT = 15_000
COLLECTIVES = """
import sys
from pathlib import Path
from dpscale.measure.launch.cells import Run, measure
from dpscale.measure.launch.nodes import NodePlace
from dpscale.plan.cells import CollectivesCell
from dpscale.schemas.settings import CollectivesSettings
cell, settings = CollectivesCell(2, 1, nodes=2), CollectivesSettings.from_json({"device": "cpu"})
job = {"gpus": 2, "nodes": 2, "messages": [("allreduce", int(sys.argv[4]))] * 4}
run = Run(120, False, Path(sys.argv[3]), NodePlace.of(2, int(sys.argv[1]), sys.argv[2], {}))
measure("dpscale.measure.worker.collectives", cell, settings, job, 2, 2, run)
"""

pytestmark = pytest.mark.processes


@pytest.fixture
def network() -> Iterator[ShapedNetwork]:
    if reason := missing_requirement():
        pytest.skip(reason)
    with ShapedNetwork(2, RATE_MBIT) as network:
        yield network


@pytest.mark.alone
def test_allreduce_between_nodes_gives_back_the_rate_of_their_link(network: ShapedNetwork, tmp_path: Path) -> None:
    out = tmp_path / "r.json"
    place = f"{network.address(0)}:{PORT}"
    command = [sys.executable, "-c", COLLECTIVES]
    started = [network.start(rank, [*command, str(rank), place, str(out), str(MESSAGE_BYTES)]) for rank in range(2)]
    assert [process.wait(120) for process in started] == [0, 0]
    # The link bounds every repeat. What else runs on this machine only adds time, and leaves one of many alone.
    fastest_s = min(min(item["seconds"]) for item in json.loads(out.read_text())["collectives"])
    assert MESSAGE_BYTES / fastest_s / 1e9 == pytest.approx(network.carried_gb_s, rel=0.1)


def test_a_node_that_loses_the_network_without_a_word_ends_all(network: ShapedNetwork, tmp_path: Path) -> None:
    places = [NodePlace(2, rank, network.address(0), PORT) for rank in range(2)]
    words = [stub_words(tmp_path / "r.json", "wait", place=place) for place in places]
    with helpers_for_workers():
        started = [network.start(rank, words[rank], stderr=subprocess.PIPE) for rank in range(2)]
    try:
        while not any(workers_of(process.pid) for process in started):
            pass  # at once: what the launchers have just said is not acknowledged yet
        network.cut(1)
        cut = time.monotonic()
        for process in started:
            _, errors = process.communicate(timeout=60)
            assert process.returncode == 1
            assert "does not answer" in errors or "has gone" in errors
        assert time.monotonic() - cut < PROBE_AFTER_S + PROBE_EVERY_S * (PROBES + 1) + 10
    finally:
        for process in started:
            process.kill()
    assert not list(tmp_path.iterdir())
