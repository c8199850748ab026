"""Augmentation on the device: the transforms of docs/method.md in distribution, the same whoever does it."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.utils.data import DistributedSampler

from dpscale.measure.workload.batches import order_of_epoch
from dpscale.measure.workload.images import (
    SEEDS_APART,
    STREAMS,
    Crops,
    DeviceEpochs,
    DeviceImages,
    normalised,
    random_seed,
)

CPU = torch.device("cpu")
IMAGES = 24


@pytest.fixture(scope="module")
def pixels() -> np.ndarray:
    return np.random.default_rng(1).integers(1, 256, (IMAGES, 32, 32, 3), dtype=np.uint8)


def device_images(pixels: np.ndarray) -> DeviceImages:
    return DeviceImages(pixels, np.arange(IMAGES), CPU)


@given(st.integers(1, 2**15), st.integers(0, 400))
def test_every_image_is_a_crop_of_its_padded_original_possibly_flipped(seed: int, epoch: int) -> None:
    pixels = np.random.default_rng(seed).integers(1, 256, (IMAGES, 32, 32, 3), dtype=np.uint8)
    crops = Crops.draw(IMAGES, seed, epoch, CPU)
    chosen = torch.randperm(IMAGES)[:7]
    cut = device_images(pixels).cut(chosen, crops).numpy()
    padded = np.pad(pixels, ((0, 0), (4, 4), (4, 4), (0, 0)))
    for index, image in zip(chosen.tolist(), cut, strict=True):
        row, column = int(crops.rows[index]), int(crops.columns[index])
        expected = padded[index, row : row + 32, column : column + 32]
        if crops.flipped[index]:
            expected = expected[:, ::-1]
        np.testing.assert_array_equal(image, expected.transpose(2, 0, 1))


def test_offsets_are_even_and_half_of_the_images_are_flipped() -> None:
    """90,000 draws: a share of 1/9 has a standard error of 0.1 %, a share of a half one of 0.17 %."""
    crops = Crops.draw(90_000, 1, 0, CPU)
    for offsets in (crops.rows, crops.columns):
        shares = torch.bincount(offsets, minlength=9) / 90_000
        assert len(shares) == 9
        np.testing.assert_allclose(shares.numpy(), 1 / 9, atol=0.005)
    assert float(crops.flipped.double().mean()) == pytest.approx(0.5, abs=0.008)


def test_crops_are_fresh_every_epoch_and_seed_and_the_same_for_the_same() -> None:
    drawn = {key: Crops.draw(IMAGES, *key, CPU) for key in [(1, 0), (1, 1), (2, 0)]}
    assert len({str(crops.rows.tolist()) for crops in drawn.values()}) == 3
    assert torch.equal(drawn[1, 0].columns, Crops.draw(IMAGES, 1, 0, CPU).columns)


def test_no_two_trainings_epochs_or_streams_draw_from_one_seed() -> None:
    """Tried with the first and the last seeds, with as many epochs as there can be."""
    seeds = [1, 2, 3, 2**15 - 2, 2**15 - 1]
    ranges = sorted(random_seed(seed, stream) for seed in seeds for stream in STREAMS)
    assert all(later - earlier >= SEEDS_APART for earlier, later in pairwise(ranges))
    assert ranges[0] > 2**15, "weights are drawn with the seed itself"
    assert ranges[-1] + SEEDS_APART <= 2**32, "torch's generator on the CPU takes no more bits"


@given(st.integers(5, 60), st.integers(1, 5), st.integers(0, 2**31), st.integers(0, 3))
def test_the_order_of_an_epoch_is_distributed_samplers(images: int, workers: int, seed: int, epoch: int) -> None:
    for rank in range(workers):
        sampler: DistributedSampler[int] = DistributedSampler(range(images), workers, rank, seed=seed)  # type: ignore[arg-type]
        sampler.set_epoch(epoch)
        assert order_of_epoch(images, rank, workers, seed + epoch).tolist() == list(sampler)


@pytest.mark.parametrize(("workers", "together"), [(1, 1000), (2, 10), (5, 1)])
def test_epochs_on_a_device_are_samplers_shares_cut_and_normalised(
    pixels: np.ndarray, monkeypatch: pytest.MonkeyPatch, workers: int, together: int
) -> None:
    """However many images are prepared at once, and whichever the rank: an image has one crop per epoch."""
    monkeypatch.setattr("dpscale.measure.workload.images.PREPARED_TOGETHER", together)
    images = device_images(pixels)
    layout = torch.channels_last
    ranks = [DeviceEpochs(images, rank, workers, 4, layout, seed=3) for rank in range(workers)]
    orders = []
    for epoch in range(2):
        crops = Crops.draw(IMAGES, 3, epoch, CPU)
        seen: list[int] = []
        for epochs in ranks:
            batches = list(epochs)
            assert len(batches) == len(epochs)
            assert [len(labels) for _, labels in batches[:-1]] == [4] * (len(batches) - 1)
            for batch, labels in batches:
                assert batch.is_contiguous(memory_format=layout)
                assert torch.equal(batch, normalised(images.cut(labels, crops), layout))
                seen += labels.tolist()
        assert set(seen) == set(range(IMAGES))
        assert len(seen) == -(-IMAGES // workers) * workers
        orders.append(seen)
    assert orders[0] != orders[1]
