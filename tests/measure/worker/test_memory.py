"""The memory of a step: what its tensors add up to is what the network, its settings and its strategy say."""

from pathlib import Path
from typing import Any

import pytest

from dpscale.formulas.memory import states_of
from dpscale.measure.worker.timing import TimingWorker
from dpscale.measure.workload.networks import CifarResNet18, network_size
from dpscale.strategies.known import strategy
from warm_workers import outcome_of

pytestmark = [pytest.mark.processes, pytest.mark.slow]

IMAGES = 64
BATCH, WIDTH = 8, 4


def memory_of(dataset: Path, strategy_name: str, gpus: int, **settings: Any) -> list[dict[str, Any]]:
    job = {
        "configuration": [strategy_name, gpus, BATCH], "seed": 1, "dataset": str(dataset), "timeout_s": 300,
        "baseline_at_global_batch": False,
        "settings": {
            "device": "cpu", "width": WIDTH, "dataset_source": "synthetic", "epoch_images": IMAGES,
            "scopes": ["compute"], "loader_workers": 0, "timed_epochs": 1, "baseline": "own_cells", **settings,
        },
    }  # fmt: skip
    memory: list[dict[str, Any]] = outcome_of(TimingWorker, job)["memory"]
    return memory


@pytest.mark.parametrize(("name", "gpus"), [("single", 1), ("ddp", 2), ("zero1", 2), ("fsdp", 2)])
def test_weights_gradients_and_momenta_are_as_large_as_the_formula_says(dataset: Path, name: str, gpus: int) -> None:
    network = CifarResNet18(WIDTH)
    buffers = sum(buffer.nbytes for buffer in network.buffers())
    expected = states_of(network_size(network)["gradient_bytes"], buffers, 1, strategy(name).shards, gpus)
    ranks = memory_of(dataset, name, gpus)
    assert len(ranks) == gpus
    for part in ("weights", "gradients", "optimiser"):
        # Shards of few weights are padded; zero1's are of whole weights.
        assert max(rank[f"{part}_bytes"] for rank in ranks) == pytest.approx(getattr(expected, part), rel=0.05)


def test_activations_shrink_by_what_settings_leave_out(dataset: Path) -> None:
    """The last stage of four is computed again from its input, and a micro-batch is a quarter of the batch."""
    whole, accumulated, checkpointed = (
        memory_of(dataset, "single", 1, **settings)[0]["saved_bytes"]
        for settings in ({}, {"accumulate": 4}, {"checkpoint_activations": "blocks"})
    )
    assert accumulated == pytest.approx(whole / 4, rel=0.2)  # of two images, whose logits and labels count too
    assert checkpointed < whole / 3
