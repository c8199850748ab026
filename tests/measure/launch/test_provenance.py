"""What a record says of where it comes from: what can change its number, and nothing private."""

import sys
from pathlib import Path

import pytest

from stub_cell import measure_stub

SECRET, HOME = "planted", "/home/planteduser"
VARIABLES = {
    "TORCH_TOKEN": SECRET, "CUDA_API_KEY": SECRET, "NCCL_AUTH": SECRET, "CUDA_VISIBLE_DEVICES_OF": SECRET,
    "NCCL_NET_PLUGIN": f"https://me:{SECRET}@host/x", "NCCL_TOPO_FILE": f"{HOME}/topology.xml", "HOME": HOME,
}  # fmt: skip
COMMAND = f"dpscale time --wandb-key {SECRET} --password={SECRET} --db postgres://me:{SECRET}@host/x --out {HOME}/x"


@pytest.mark.processes
def test_no_secret_that_is_planted_reaches_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", COMMAND.split())
    origin = measure_stub(tmp_path / "run-1.json")["provenance"]
    assert SECRET not in (tmp_path / "run-1.json").read_text()
    assert "--wandb-key" in origin["command"]
    assert origin["environment"]["NCCL_TOPO_FILE"] == "[home]/topology.xml"
