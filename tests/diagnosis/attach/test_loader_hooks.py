"""The DataLoader's hooks: which samples a rank sees, and batches kept without the script noticing."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from weakref import ref

import pandas as pd
import pytest
import torch
from torch.utils.data import DataLoader, Dataset, DistributedSampler, IterableDataset, Subset, TensorDataset

from dpscale.diagnosis.attach import loader
from dpscale.diagnosis.attach.hooks import ACCOUNT, NOW, put
from dpscale.diagnosis.attach.loader import KEPT, Loading


@pytest.fixture(autouse=True)
def hooked(monkeypatch: pytest.MonkeyPatch) -> Loading:
    """Hooks for the length of a test, with nothing seen yet."""
    for owner, name, _ in loader.PLACES:
        monkeypatch.setattr(owner, name, getattr(owner, name))
    loading = Loading()
    monkeypatch.setattr(loader, "LOADING", loading)
    monkeypatch.setattr(NOW, "step", 0)
    put(loader.PLACES)
    return loading


def numbers(count: int = 64, **options: Any) -> DataLoader[Any]:
    return DataLoader(TensorDataset(torch.arange(float(count)).reshape(count, 1)), batch_size=4, **options)


def train(batches: Iterator[Any], steps: int) -> list[Any]:
    """Takes so many batches, as a script does that steps after each."""
    taken = []
    for _ in range(steps):
        taken.append(next(batches)[0].flatten().tolist())
        NOW.step += 1
    return taken


def test_batches_are_kept_in_turns_and_an_epoch_stays_as_long_as_it_was(hooked: Loading) -> None:
    data = numbers()
    epoch = iter(data)
    before = train(epoch, 2)
    hooked.keeping = True
    kept = train(epoch, KEPT + 5)
    hooked.release()
    after = train(epoch, 16 - 2 - KEPT - 5)
    assert kept[:KEPT] == [[4.0 * n, 4.0 * n + 1, 4.0 * n + 2, 4.0 * n + 3] for n in range(2, 2 + KEPT)]
    assert {tuple(batch) for batch in kept[KEPT:]} <= {tuple(batch) for batch in kept[:KEPT]}
    assert after[0] == [24.0, 25.0, 26.0, 27.0]
    assert before[0][0] == 0
    with pytest.raises(StopIteration):
        next(epoch)
    assert len(list(data)) == 16


class Threaded(TensorDataset):
    """Items that a worker makes for a while, beside threads that only wait."""

    def __getitem__(self, number: Any) -> Any:
        if threading.active_count() <= 8:
            for _ in range(8):
                threading.Thread(target=time.sleep, args=[60], daemon=True).start()
        until = time.process_time() + 0.02
        while time.process_time() < until:
            pass
        return self.tensors[0][number], self.tensors[0][number]


@pytest.mark.processes
def test_threads_of_a_worker_that_wait_do_not_compute(hooked: Loading) -> None:
    epoch: Any = iter(DataLoader(Threaded(torch.zeros(64, 1)), num_workers=1))
    train(epoch, 20)
    (source,) = hooked.of_training()
    (worker,) = epoch._workers
    assert len(list(Path(f"/proc/{worker.pid}/task").iterdir())) > 8
    assert source.threads_in_worker() == 1


@pytest.mark.parametrize(("ticks", "threads"), [([9], 1), ([9, 5], 1), ([9, 5, 8], 3), ([], None)])
def test_a_thread_that_sends_batches_does_not_compute(
    ticks: list[int], threads: int | None, hooked: Loading, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(iter(numbers()), 4)
    (source,) = hooked.of_training()
    source.iterator = lambda: SimpleNamespace(_workers=[SimpleNamespace(pid=1)])
    monkeypatch.setattr(loader, "_ticks_of_threads", lambda _pid: ticks)
    assert source.threads_in_worker() == threads


@pytest.mark.processes
def test_epochs_that_start_workers_are_told_apart(hooked: Loading) -> None:
    for options in ({}, {"num_workers": 1, "persistent_workers": True}, {"num_workers": 1}):
        list(numbers(**options))
    (seconds,) = hooked.worker_starts
    assert 0 < seconds < NOW.spent["loader start"]


def test_what_a_thread_of_the_script_reads_ahead_is_no_wait_of_a_step(
    hooked: Loading, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor are its batches kept: it may read one while those of a block are given up."""
    monkeypatch.setattr(ACCOUNT, "thread", threading.get_ident())
    epoch = iter(numbers())
    train(epoch, 4)
    waited_s, hooked.keeping = hooked.seconds, True
    ahead = threading.Thread(target=train, args=[epoch, 4])
    ahead.start()
    ahead.join()
    assert hooked.seconds == waited_s > 0
    assert not hooked.of_training()[0].kept and hooked.unkept


def test_a_script_may_take_entries_out_of_a_kept_batch(hooked: Loading) -> None:
    samples: Any = [{"x": torch.ones(2), "y": 1}] * 64
    data = DataLoader(samples, batch_size=4)
    hooked.keeping = True
    for batch in data:
        assert batch.pop("x").sum() == 8
        batch.pop("y")
        NOW.step += 1


def test_a_batch_that_the_script_writes_to_is_kept_no_longer(hooked: Loading) -> None:
    epoch = iter(numbers())
    hooked.keeping = True
    seen = []
    for _ in range(12):
        (batch,) = next(epoch)
        seen.append(batch.flatten().tolist()[0])
        batch.add_(1000)
        NOW.step += 1
    assert seen == [4.0 * n for n in range(12)]
    assert hooked.unkept


def sketch(data: DataLoader[Any], loading: Loading) -> set[str]:
    loading.sources.clear()
    NOW.step = 0
    for _ in data:
        NOW.step += 1
    return set(loading.report()["loader"]["hashes"])


@pytest.mark.parametrize(("divided", "share"), [(True, 0), (False, 2048)])
def test_ranks_that_share_samples_share_hashes(divided: bool, share: int, hooked: Loading) -> None:
    data = TensorDataset(torch.zeros(2048, 1))
    sketches = []
    for rank in (0, 1):
        sampler: Any = DistributedSampler(data, num_replicas=2, rank=rank) if divided else None
        sketches.append(sketch(DataLoader(data, 16, sampler=sampler, shuffle=not divided), hooked))
    assert len(sketches[0]) == 512
    assert len(sketches[0] & sketches[1]) == min(share, 512)


class Part(Dataset[Any]):
    """A part of a dataset as scripts write it."""

    def __init__(self, data: Any, numbers: Any) -> None:
        self.data, self.numbers = data, numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, number: int) -> Any:
        return self.data[self.numbers[number]]


def cut(data: Any, numbers: Any) -> Any:
    return TensorDataset(torch.arange(float(len(data)))[numbers])


def in_an_array(data: Any, numbers: Any) -> Any:
    return Part(data, torch.tensor(numbers).numpy())


def numbers_of_an_array(data: Any, numbers: Any) -> Any:
    return Part(data, list(torch.tensor(numbers).numpy()))


def of_a_table(data: Any, numbers: Any) -> Any:
    return Part(data, pd.DataFrame({"number": numbers}).iloc[:, 0])


@pytest.mark.parametrize("part", [Part, Subset, cut, in_an_array, numbers_of_an_array, of_a_table])
@pytest.mark.parametrize("divided", [True, False])
def test_the_same_indices_in_parts_of_a_dataset_are_other_samples(part: Any, divided: bool, hooked: Loading) -> None:
    data, numbers = TensorDataset(torch.zeros(2048, 1)), torch.randperm(2048).tolist()
    parts = [part(data, numbers[rank * divided :: 2]) for rank in (0, 1)]
    first, second = (sketch(DataLoader(part, 16), hooked) for part in parts)
    assert len(first & second) == (0 if divided else 512)


def test_a_dataset_that_cannot_be_looked_into_is_told_by_its_class() -> None:
    class Closed:
        __slots__ = ()

        def __len__(self) -> int:
            raise RuntimeError

    around: list[Any] = []
    around.append(around)
    closed, other, itself = (loader.hash_of_dataset(value) for value in (Closed(), object(), around))
    assert closed == loader.hash_of_dataset(Closed())
    assert len({closed, other, itself}) == 3


class Stream(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        yield from torch.arange(64.0).reshape(64, 1)


def test_samples_of_a_stream_are_told_by_their_contents(hooked: Loading) -> None:
    hashes = sketch(DataLoader(Stream(), batch_size=4), hooked)
    assert len(hashes) == 64
    assert hashes == sketch(DataLoader(Stream(), batch_size=8), hooked)


def test_a_stream_whose_length_raises_an_error_of_its_own_is_trained_on(hooked: Loading) -> None:
    class Endless(Stream):
        def __len__(self) -> int:
            raise NotImplementedError

    assert len(sketch(DataLoader(Endless(), batch_size=4), hooked)) == 64


def test_the_loader_of_training_is_one_though_it_is_made_anew_and_another_validates(hooked: Loading) -> None:
    validation = numbers(16)
    for _ in range(3):
        train(iter(numbers()), 16)
        list(validation)
    (source,) = hooked.of_training()
    assert (source.epochs, source.steps, len(source.hashes)) == (3, 48, 64)


def test_another_loader_that_is_read_without_gradients_validates(hooked: Loading, monkeypatch: Any) -> None:
    monkeypatch.setattr(NOW, "evaluates", False)
    train(iter(numbers()), 16)
    validation = iter(numbers(16))
    next(validation)
    assert not NOW.evaluates
    with torch.no_grad():
        next(validation)
    assert NOW.evaluates


def test_a_loader_is_not_kept_alive() -> None:
    data = numbers()
    seen = ref(data)
    train(iter(data), 16)
    del data
    assert seen() is None
