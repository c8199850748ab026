"""Batches as trees of tensors."""

from collections import OrderedDict
from typing import Any, NamedTuple

import pytest
import torch

from dpscale.measure.workload.batches import (
    first,
    in_host_memory,
    length,
    mapped,
    shares,
    size_bytes,
    tensors,
    to_device,
)

CPU = torch.device("cpu")


class Pair(NamedTuple):
    left: Any
    right: Any


IMAGES, LABELS = torch.arange(6 * 3 * 4 * 4.0).view(6, 3, 4, 4), torch.arange(6)


@pytest.mark.parametrize(
    "batch",
    [
        IMAGES,
        {"x": IMAGES, "more": [LABELS, ("name", 3)]},
        Pair(IMAGES, {"y": LABELS}),
        OrderedDict(x=IMAGES, y=None),
    ],
    ids=lambda tree: type(tree).__name__,
)
def test_a_tree_keeps_its_form(batch: Any) -> None:
    copied = mapped(lambda tensor: tensor + 1, batch)
    assert type(copied) is type(batch)
    assert all(torch.equal(a, b + 1) for a, b in zip(tensors(copied), tensors(batch), strict=True))
    assert len(tensors(batch)) == str(batch).count("tensor(")
    assert length(batch) == 6
    assert size_bytes(batch) == sum(tensor.nbytes for tensor in tensors(batch)) > 0


@pytest.mark.parametrize("place", [to_device, in_host_memory])
def test_only_tensors_of_images_get_their_layout(place: Any) -> None:
    where = {"device": CPU} if place is to_device else {"pinned": False}
    images, labels, masks = place((IMAGES, LABELS, IMAGES > 3), **where, memory_format=torch.channels_last)
    assert images.is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(images, IMAGES) and torch.equal(labels, LABELS)
    assert masks.is_contiguous()


def test_batches_of_a_loaders_processes_are_copied_out_of_shared_memory() -> None:
    shared = LABELS.clone().share_memory_()
    kept, copied = in_host_memory([LABELS, shared], False, torch.contiguous_format)
    assert kept is LABELS
    assert torch.equal(copied, shared) and not copied.is_shared()


def test_only_tensors_that_count_samples_are_cut() -> None:
    scale, weights = torch.tensor(2.0), torch.ones(9)
    cut = first({"x": IMAGES, "y": LABELS, "scale": scale, "weights": weights}, 2)
    assert (len(cut["x"]), cut["y"].tolist(), cut["scale"], len(cut["weights"])) == (2, [0, 1], scale, 9)


@pytest.mark.parametrize("parts", [1, 2, 3, 4])
def test_shares_are_those_of_chunk(parts: int) -> None:
    cut = [labels.tolist() for _, labels in shares((IMAGES, LABELS), parts) if len(labels)]
    assert cut == [share.tolist() for share in LABELS.chunk(parts)]
