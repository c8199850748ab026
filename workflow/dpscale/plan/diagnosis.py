"""What a diagnosis is asked about: no cell of a study. Pure, and free of torch."""

from dataclasses import dataclass
from typing import Any, ClassVar

from dpscale.errors import MeasurementError
from dpscale.plan.cells import Configuration
from dpscale.strategies.known import BASELINE
from dpscale.strategies.known import strategy as strategy_of


@dataclass(frozen=True)
class Diagnosed:
    """A step as it is trained: on so many GPUs, with so many loader workers per process, and whether its batch came
    from a global batch that was kept."""

    kind: ClassVar[str] = "diagnosis"

    configuration: Configuration
    loader_workers: int
    global_batch_held: bool

    @classmethod
    def of(
        cls, strategy: str, gpus: int, batch_per_gpu: int | None, global_batch: int | None, loader_workers: int
    ) -> "Diagnosed":
        """Raises MeasurementError where not exactly one of the batches is given, or it does not fill the GPUs evenly.

        On one GPU the strategy is the plain module, whatever `strategy` says.
        """
        if (batch_per_gpu is None) == (global_batch is None):
            raise MeasurementError("give either --batch-per-gpu or --global-batch")
        if global_batch is not None and global_batch % gpus:
            raise MeasurementError(f"a global batch of {global_batch} does not fill {gpus} GPUs evenly")
        batch = batch_per_gpu if batch_per_gpu is not None else (global_batch or 0) // gpus
        chosen = strategy if gpus > 1 else BASELINE
        return cls(Configuration(chosen, gpus, batch), loader_workers, global_batch is not None and gpus > 1)

    def require_measurable(self, device: str) -> None:
        """Raise MeasurementError where the strategy needs another device."""
        row = strategy_of(self.configuration.strategy)
        if row.needs_cuda and device == "cpu":
            raise MeasurementError(f"{row.label} needs CUDA GPUs; it is not emulated on a CPU")

    @property
    def coordinates(self) -> dict[str, Any]:
        """The question as the record names it."""
        return {
            **self.configuration.coordinates,
            "loader_workers": self.loader_workers,
            "global_batch_held": self.global_batch_held,
        }
