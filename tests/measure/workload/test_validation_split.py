"""Training images that are held out: which, and that it is always the same ones."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dpscale.measure.workload.dataset import split_images


@given(st.lists(st.integers(0, 4), min_size=1, max_size=200), st.data())
def test_every_image_is_trained_on_or_held_out_and_classes_stay_balanced(
    classes: list[int], data: st.DataObject
) -> None:
    labels = np.array(classes)
    count = data.draw(st.integers(0, len(labels)))
    trained_on, held_out = split_images(labels, count)
    assert len(held_out) == count
    assert sorted([*trained_on, *held_out]) == list(range(len(labels)))
    taken, there = (np.bincount(part, minlength=5) for part in (labels[held_out], labels))
    assert all(taken[label] >= min(there[label], max(taken) - 1) for label in range(5))
