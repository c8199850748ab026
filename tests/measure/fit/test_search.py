"""The search for the largest batch, on made-up memory: within six tries, and told where none fits."""

import json
from pathlib import Path
from typing import Any

import pytest

from command_line import dpscale
from dpscale.errors import MeasurementError
from dpscale.measure.fit import search as fit
from dpscale.measure.fit.search import TRIES, Try, as_fast, largest_of, rounded, search
from dpscale.records.files import read_record
from record_factory import where_and_when

GB = 1e9


class Memory:
    """A GPU: a network of `fixed` bytes, so many a sample, workspace that small batches have too, and fragments that
    nobody can use."""

    def __init__(self, sample: float, limit: float = 80 * GB, fixed: float = GB, fragments: float = 0.01):
        self.sample, self.limit, self.fixed, self.fragments = sample, limit, fixed, fragments
        self.tried: list[int] = []

    def attempt(self, batch: int) -> Try:
        self.tried.append(batch)
        peak = self.fixed + min(batch, 256) * 2e6 + batch * self.sample
        fits = peak <= self.limit * (1 - self.fragments)
        rate = 1000 * batch / (batch + 10)
        return Try(batch, self.limit, peak if fits else None, rate if fits else None, 1.0)


@pytest.mark.parametrize("to_power", [False, True])
@pytest.mark.parametrize("sample", [1e6, 5e6, 50e6, 200e6, 900e6, 10e9, 60e9])
def test_the_largest_batch_is_found_within_six_tries(sample: float, to_power: bool) -> None:
    memory = Memory(sample)
    tries = search(memory.attempt, to_power)
    largest = largest_of(tries).batch_per_gpu
    too_large = min((one.batch_per_gpu for one in tries if not one.fits), default=None)
    found_after = memory.tried.index(largest) + 1
    assert found_after <= TRIES and largest == rounded(largest, to_power)
    # Fragments are 1 % here, which no slope tells.
    one_more = largest * 2 if to_power else max(largest + fit.MULTIPLE, 1.03 * largest)
    assert not memory.attempt(int(one_more)).fits
    assert too_large is None or too_large > largest
    assert as_fast(tries)[0].batch_per_gpu <= largest


def test_halves_are_tried_as_long_as_they_are_as_fast() -> None:
    memory = Memory(5e6)
    tries = search(memory.attempt, to_power=True)
    assert (largest_of(tries).batch_per_gpu, as_fast(tries)[0].batch_per_gpu) == (8192, 512)
    assert [one.batch_per_gpu for one in tries if one.fits][-6:] == [256, 512, 1024, 2048, 4096, 8192]


def test_not_even_one_sample_fits() -> None:
    memory = Memory(GB, fixed=90 * GB)
    with pytest.raises(MeasurementError, match=r"a batch of 1 does not fit in 80\.0 GB"):
        search(memory.attempt, to_power=False)
    assert memory.tried == [32, 4, 1]


def test_memory_that_others_take_meanwhile_ends_the_search() -> None:
    memory = Memory(5e6)

    def attempt(batch: int) -> Try:
        memory.limit -= 2 * GB
        return memory.attempt(batch)

    with pytest.raises(MeasurementError, match=r"taken by others meanwhile: 78\.0 GB were free at first, 76\.0 GB"):
        search(attempt, to_power=False)


def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpus: int, outcomes: Any, *more: object) -> Any:
    monkeypatch.setattr(fit, "gpus_there", lambda _: gpus)
    monkeypatch.setattr(fit, "require_given", lambda *_: None)
    monkeypatch.setattr(fit, "Workers", outcomes)
    return dpscale("fit", "--workload", "cifar_resnet18", *more, "--json", tmp_path / "fit.json")


class MadeUpWorkers:
    """They say what `Memory` does."""

    def __init__(self, module: str, job: dict[str, Any], *_: int):
        self.batch = job["configuration"][2]
        assert json.dumps(job) and job["settings"]["epoch_images"] >= self.batch

    def __enter__(self) -> "MadeUpWorkers":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def outcome(self, timeout_s: float, end_with_parent: bool) -> dict[str, Any]:
        tried = Memory(5e6).attempt(self.batch)
        step_s = self.batch / tried.images_per_s if tried.images_per_s else None
        known = {"limit_bytes": tried.limit_bytes, "peak_bytes": tried.peak_bytes, "step_s": step_s}
        return {**known, **where_and_when(1, 1)}


def test_the_command_prints_a_table_and_writes_a_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = command(tmp_path, monkeypatch, 1, MadeUpWorkers, "--power-of-two")
    assert done.returncode == 0, done.stderr
    record = read_record("fit", tmp_path / "fit.json")
    assert (record["largest"], record["too_large"], record["enough"]) == (8192, 16384, 512)
    assert "8,192       42.47" in done.stdout and "too large" in done.stdout
    assert "largest that fits: 8,192; 16,384 does not fit" in done.stdout
    assert "smallest within 2 % of the best throughput: 512" in done.stdout


@pytest.mark.parametrize(
    ("gpus", "more", "message"),
    [
        (0, [], "the largest batch needs a CUDA GPU"),
        (2, ["--strategy", "fsdp"], "fsdp does not go with 1 GPUs"),
        (2, ["--strategy", "fsdp", "--gpus", 2, "--memory-format", "channels_last"], "memory_format does not go with"),
    ],
)
def test_what_cannot_be_searched_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpus: int, more: list[object], message: str
) -> None:
    done = command(tmp_path, monkeypatch, gpus, None, *more)
    assert done.returncode == 1 and message in done.stderr
    assert not (tmp_path / "fit.json").exists()
