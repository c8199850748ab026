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
    RESTS_ON,
    SPEEDUP,
    STATUS,
    STEP,
    THROUGHPUT,
)
from dpscale.tables.row import Row


class HeldOutRow(Row):
    """Steps of ddp that were measured, as they are predicted from fewer GPUs alone: the test of the forecast."""

    environment: str = ENVIRONMENT
    gpus: int = GPUS.shown
    fewer_gpus: int = column("Predicted from", "The next smaller number of devices.").shown
    batch_per_gpu: int = BATCH.shown
    step_s: float = STEP.but(label="Predicted step", definition="By the model.").shown
    rests_on: str = RESTS_ON
    measured_step_s: Figure = STEP.but(label="Measured step").shown
    relative_error: float = column("Error", "Predicted over measured step, less 1.", PERCENT, digits=2).shown
    unchanged_relative_error: float = column(
        "Error of the step on fewer {devices} unchanged",
        "Step on fewer devices over the measured one, less 1.",
        PERCENT,
        digits=2,
    ).shown


class ForecastRow(Row):
    """Steps of ddp on twice the devices that were measured, or the reason why the data do not allow a forecast."""

    environment: str = ENVIRONMENT
    status: str = STATUS
    reason: str = REASON
    gpus: int = GPUS.shown
    batch_per_gpu: int = BATCH.shown
    global_batch: int = GLOBAL_BATCH
    step_s: float = STEP.but(label="Predicted step", definition="By the model.").shown
    images_per_s: float = THROUGHPUT.but(definition="N·b / t(N,b).").shown
    speedup: float = SPEEDUP.but(definition="N·t(1,b) / t(N,b).").shown
    efficiency: float = EFFICIENCY.shown
