"""The search for the largest batch, on made-up memory: within six tries, and told where none fits."""

from contextlib import AbstractContextManager
from dataclasses import asdict
from subprocess import CompletedProcess
from typing import Any

import pytest

from command_line import dpscale
from dpscale.errors import MeasurementError
from dpscale.measure.launch import fit
from dpscale.measure.launch.fit import TRIES, Try, largest_of, search

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
        return Try(batch, self.limit, peak if fits else None, rate if fits else None)


@pytest.mark.parametrize("sample", [1e6, 5e6, 50e6, 200e6, 900e6, 10e9, 60e9])
def test_the_largest_batch_is_found_within_six_tries(sample: float) -> None:
    memory = Memory(sample)
    largest = largest_of(search(memory.attempt)).batch_per_gpu
    assert memory.tried.index(largest) < TRIES
    assert not memory.attempt(2 * largest).fits


def test_no_batch_is_larger_than_an_epoch() -> None:
    memory = Memory(5e6)
    assert largest_of(search(memory.attempt, at_most=50)).batch_per_gpu == max(memory.tried) == 32


def test_where_nothing_fits_the_search_says_so() -> None:
    with pytest.raises(MeasurementError, match=r"a batch of 1 does not fit in 80\.0 GB"):
        search(Memory(5e6, fixed=90 * GB).attempt)


def command(monkeypatch: pytest.MonkeyPatch, gpus: int) -> CompletedProcess[str]:
    monkeypatch.setattr(fit, "gpus_there", lambda _: gpus)
    monkeypatch.setattr(fit, "require_given", lambda *_: None)
    monkeypatch.setattr(fit, "Workers", MadeUpWorkers)
    return dpscale("fit")


class MadeUpWorkers(AbstractContextManager["MadeUpWorkers"]):
    """They say what `Memory` does."""

    def __init__(self, module: str, job: dict[str, Any], *_: int):
        self.tried = Memory(5e6).attempt(job["configuration"][2])

    def __exit__(self, *_: object) -> None:
        pass

    def outcome(self, timeout_s: float, end_with_parent: bool) -> dict[str, Any]:
        step_s = self.tried.batch_per_gpu / self.tried.images_per_s if self.tried.images_per_s else None
        return {**asdict(self.tried), "step_s": step_s}


def test_the_command_prints_a_table_and_the_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    done = command(monkeypatch, 1)
    assert done.returncode == 0, done.stderr
    assert "8,192       42.47" in done.stdout and "too large" in done.stdout
    assert "largest that fits: 8,192; 16,384 does not fit" in done.stdout
    assert "best throughput: 512" in done.stdout


def test_without_a_gpu_there_is_no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    done = command(monkeypatch, gpus=0)
    assert done.returncode == 1 and "the largest batch needs a CUDA GPU" in done.stderr
