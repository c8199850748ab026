"""What weights, gradients and momenta take on a GPU."""

import pytest

from dpscale.formulas.memory import states_of


@pytest.mark.parametrize(
    ("shards", "expected"),
    [
        (set(), (1040, 1000, 2000)),
        ({"optimiser"}, (1040, 1000, 500)),
        ({"weights", "gradients", "optimiser"}, (290, 250, 500)),
    ],
    ids=["whole", "zero1", "fsdp"],
)
def test_what_is_sharded_is_divided_and_buffers_are_not(shards: set[str], expected: tuple[float, ...]) -> None:
    """250 weights of four bytes, 40 bytes of buffers, two numbers that the optimiser keeps for a weight, 4 GPUs."""
    states = states_of(1000, 40, 2, shards, 4)
    assert states == expected
    assert states.total == sum(expected)
