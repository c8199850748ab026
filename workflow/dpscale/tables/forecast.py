"""The forecast of more GPUs, and the steps that it was tested on."""

from dpscale.formulas.figure import Figure
from dpscale.tables.column import PERCENT, column
from dpscale.tables.quantities import (
    BATCH,
    EFFICIENCY,
    ENVIRONMENT,
    GLOBAL_BATCH,
    GPUS,
    REASON,
    SPEEDUP,
    STATUS,
    STEP,
    THROUGHPUT,
)
from dpscale.tables.row import Row


class HeldOutRow(Row):
    """Steps of ddp that were measured, as they are predicted from fewer GPUs alone: the test of the forecast."""

    environment: str = ENVIRONMENT
    gpus: int = GPUS.on("held_out")
    fewer_gpus: int = column("Predicted from", "The next smaller number of devices.").on("held_out")
    batch_per_gpu: int = BATCH.on("held_out")
    step_s: float = STEP.but(label="Predicted step", definition="By the model.").on("held_out")
    measured_step_s: Figure = STEP.but(label="Measured step").on("held_out")
    relative_error: float = column("Error", "Predicted over measured step, less 1.", PERCENT, digits=2).on("held_out")
    unchanged_relative_error: float = column(
        "Error of the step on fewer {devices} unchanged",
        "Step on fewer devices over the measured one, less 1.",
        PERCENT,
        digits=2,
    ).on("held_out")


class ForecastRow(Row):
    """Steps of ddp on twice the devices that were measured, or the reason why the data do not allow a forecast."""

    environment: str = ENVIRONMENT
    status: str = STATUS
    reason: str = REASON
    gpus: int = GPUS.on("forecast")
    batch_per_gpu: int = BATCH.on("forecast")
    global_batch: int = GLOBAL_BATCH
    step_s: float = STEP.but(label="Predicted step", definition="By the model.").on("forecast")
    images_per_s: float = THROUGHPUT.but(definition="N·b / t(N,b).").on("forecast")
    speedup: float = SPEEDUP.but(definition="N·t(1,b) / t(N,b).").on("forecast")
    efficiency: float = EFFICIENCY.on("forecast")
