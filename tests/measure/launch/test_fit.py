"""The search for the largest batch, on made-up memory: within six tries, and told where none fits."""

from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from command_line import dpscale
from dpscale.errors import MeasurementError
from dpscale.measure.launch import fit
from dpscale.measure.launch.fit import TRIES, Try, largest_of, rounded, search
from json_records import read_json
from record_factory import where_and_when

GB = 1e9


class Memory:
    """A GPU: a network of `fixed` bytes, so many per sample, workspace that small batches have too, and fragments that
    nobody can use."""

    def __init__(self, sample: float, fixed: float = GB):
        self.sample, self.limit, self.fixed = sample, 80 * GB, fixed
        self.tried: list[int] = []

    def attempt(self, batch: int) -> Try:
        self.tried.append(batch)
        peak = self.fixed + min(batch, 256) * 2e6 + batch * self.sample
        fits = peak <= self.limit * 0.99
        rate = 1000 * batch / (batch + 10)
        return Try(batch, self.limit, peak if fits else None, rate if fits else None, 1.0)


@pytest.mark.parametrize("to_power", [False, True])
@pytest.mark.parametrize("sample", [1e6, 5e6, 50e6, 200e6, 900e6, 10e9, 60e9])
def test_the_largest_batch_is_found_within_six_tries(sample: float, to_power: bool) -> None:
    memory = Memory(sample)
    tries = search(memory.attempt, to_power)
    largest = largest_of(tries).batch_per_gpu
    assert memory.tried.index(largest) < TRIES and largest == rounded(largest, to_power)
    # Fragments are 1 % here, which no slope tells.
    one_more = largest * 2 if to_power else max(largest + fit.MULTIPLE, 1.03 * largest)
    assert not memory.attempt(int(one_more)).fits


@pytest.mark.parametrize(("to_power", "largest"), [(False, 48), (True, 32)])
def test_no_batch_is_larger_than_an_epoch(to_power: bool, largest: int) -> None:
    memory = Memory(5e6)
    assert largest_of(search(memory.attempt, to_power, at_most=50)).batch_per_gpu == largest
    assert max(memory.tried) == largest


@pytest.mark.parametrize(
    ("fixed", "taken", "message"),
    [
        (90 * GB, 0, r"a batch of 1 does not fit in 80\.0 GB"),
        (GB, 2 * GB, r"taken by others meanwhile: 80\.0 GB were free at first, 78\.0 GB at batch 128"),
    ],
)
def test_a_search_that_finds_nothing_says_why(fixed: float, taken: float, message: str) -> None:
    memory = Memory(5e6, fixed=fixed)

    def attempt(batch: int) -> Try:
        result = memory.attempt(batch)
        memory.limit -= taken
        return result

    with pytest.raises(MeasurementError, match=message):
        search(attempt, to_power=False)


def command(folder: Path, monkeypatch: pytest.MonkeyPatch, gpus: int) -> CompletedProcess[str]:
    monkeypatch.setattr(fit, "gpus_there", lambda _: gpus)
    monkeypatch.setattr(fit, "require_given", lambda *_: None)
    monkeypatch.setattr(fit, "Workers", MadeUpWorkers)
    monkeypatch.setattr(fit, "provenance", lambda: where_and_when(1, 1)["provenance"])
    return dpscale("fit", "--workload", "cifar_resnet18", "--json", folder / "fit.json")


class MadeUpWorkers(AbstractContextManager["MadeUpWorkers"]):
    """They say what `Memory` does."""

    def __init__(self, module: str, job: dict[str, Any], *_: int):
        self.tried = Memory(5e6).attempt(job["configuration"][2])

    def __exit__(self, *_: object) -> None:
        pass

    def outcome(self, timeout_s: float, end_with_parent: bool) -> dict[str, Any]:
        tried = asdict(self.tried)
        step_s = self.tried.batch_per_gpu / self.tried.images_per_s if self.tried.images_per_s else None
        return {**tried, "step_s": step_s, **where_and_when(1, 1)}


def test_the_command_prints_a_table_and_writes_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = command(tmp_path, monkeypatch, 1)
    assert done.returncode == 0, done.stderr
    record = read_json("fit", tmp_path / "fit.json")
    assert (record["largest"], record["too_large"], record["enough"]) == (8192, 16384, 512)
    assert "8,192       42.47" in done.stdout and "too large" in done.stdout


def test_without_a_gpu_there_is_no_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = command(tmp_path, monkeypatch, gpus=0)
    assert done.returncode == 1 and "the largest batch needs a CUDA GPU" in done.stderr
    assert not (tmp_path / "fit.json").exists()
