"""What models predict."""

from dpscale.formulas.figure import Figure
from dpscale.tables.column import IMAGES, MICROSECONDS, MILLISECONDS, PERCENT, PLAIN, SECONDS, column
from dpscale.tables.quantities import (
    ALGORITHM,
    BANDWIDTH,
    BATCH,
    EFFICIENCY,
    ENVIRONMENT,
    ERROR,
    GLOBAL_BATCH,
    GPUS,
    NODES,
    REASON,
    RECORD_KIND,
    SCOPE,
    SPEEDUP,
    STATUS,
    STEP,
    STRATEGY,
    THROUGHPUT,
)
from dpscale.tables.row import Row


class LawsRow(Row):
    """Amdahl's, Gustafson's and the universal scalability law, fitted to the weak speedups, and how well the points
    tell their parameters.
    """

    strategy: str = STRATEGY
    scope: str = SCOPE
    environment: str = ENVIRONMENT
    batch_per_gpu: int = BATCH
    law: str = column("Law", PLAIN, "Of scaling.", "Forecast")
    parameter: str = column("Parameter", PLAIN, "Of the law.", "Forecast")
    value: Figure = column("Value", PLAIN, "Of the parameter.", "Forecast")
    points: int | None = column("Points", PLAIN, "Speedups that it is fitted to.", "Forecast")
    degrees_of_freedom: int | None = column("Degrees of freedom", PLAIN, "Points less parameters.", "Forecast")
    worst_relative_error: float = ERROR
    statement: str = column("What the points can tell", PLAIN, "How well the law describes them.", "Forecast").on(
        "laws"
    )


class PublishedScalingRow(Row):
    """Laws of scaling on trainings that others published: fitted on one node, asked for more nodes, with their errors
    beside that of an unchanged efficiency.
    """

    status: str = STATUS
    reason: str = REASON
    title: str = column("Training", PLAIN, "What others trained, and on what.", "Forecast")
    study: str = column("Study", PLAIN, "Of others, by the name of its file.", "Forecast").on("published_scaling")
    batch_per_gpu: int = BATCH.but(label="Batch per GPU").on("published_scaling")
    law: str = column("Law", PLAIN, "Of scaling; `unchanged`: efficiency stays as it is on a node.", "Forecast").on(
        "published_scaling"
    )
    fitted_on_gpus: str = column("Fitted on", PLAIN, "GPUs of a node, that the law is fitted to.", "Forecast")
    gpus: int = GPUS.but(label="GPUs").on("published_scaling")
    nodes: int | None = NODES.but(definition="Nodes that the GPUs fill.", section="Forecast").on("published_scaling")
    training_s: float = column("Published time", SECONDS, "Time of a whole training.", "Forecast", digits=6).on(
        "published_scaling"
    )
    predicted_training_s: float = column("Predicted time", SECONDS, "By the law.", "Forecast", digits=6).on(
        "published_scaling"
    )
    relative_error: float = column("Error", PERCENT, "Predicted over published time, less 1.", "Forecast", digits=3).on(
        "published_scaling"
    )
    beats_unchanged: str = column(
        "Better than unchanged",
        PLAIN,
        "Whether the law's error is smaller than that of an unchanged efficiency.",
        "Forecast",
    ).on("published_scaling")


class AllreduceModelsRow(Row):
    """Latency and bandwidth of a link as the measured allreduces give them, for every algorithm, with the errors of
    the fit.
    """

    environment: str = ENVIRONMENT
    status: str = STATUS
    reason: str = REASON
    algorithm: str = ALGORITHM.but(label="Algorithm").on("allreduce_models")
    gpus: int = GPUS.on("allreduce_models")
    latency_s: Figure = column("Latency", MICROSECONDS, "Of an allreduce of no bytes, by the model.", "Forecast").on(
        "allreduce_models"
    )
    base_latency_s: Figure = column("Base latency", MICROSECONDS, "The part of it that no device adds to.", "Forecast")
    bandwidth_gb_s: Figure = BANDWIDTH.but(definition="β of the fitted link.", section="Forecast").on(
        "allreduce_models"
    )
    median_relative_error: float = column(
        "Median error",
        PERCENT,
        "Median relative error of the model at the sizes measured on N devices.",
        "Forecast",
        digits=2,
    ).on("allreduce_models")
    lowest_relative_error: float = column(
        "Lowest error",
        PERCENT,
        "Lowest relative error of the model at the sizes measured on N devices.",
        "Forecast",
        digits=2,
    ).on("allreduce_models")
    highest_relative_error: float = column(
        "Highest error",
        PERCENT,
        "Highest relative error of the model at the sizes measured on N devices.",
        "Forecast",
        digits=2,
    ).on("allreduce_models")
    worst_relative_error: float = ERROR


class ForecastRow(Row):
    """Steps on more GPUs than were measured, and the forecast's score: the most GPUs that were measured, predicted
    from fewer.
    """

    kind: str = RECORD_KIND.but(
        definition="`held out`: predicted and measured. `extrapolated`: predicted, by links that were measured. "
        "`scenario`: predicted, by links that were not.",
        section="Forecast",
    ).on("forecast")
    environment: str = ENVIRONMENT
    status: str = STATUS
    reason: str = REASON
    gpus: int = GPUS
    batch_per_gpu: int = BATCH
    global_batch: int = GLOBAL_BATCH
    nodes: int | None = NODES.but(definition="Nodes that the devices fill.", section="Forecast").on("forecast")
    calibrated_on_gpus: int | None = column("Calibrated on", PLAIN, "Devices whose step gave the overhead.", "Forecast")
    algorithm: str = ALGORITHM.on("held_out", "forecast")
    compute_s: float = column("Compute", MILLISECONDS, "t(1,b).", "Forecast").on("held_out")
    overhead_s: float = column("Overhead", MILLISECONDS, "What fewer devices have beyond the model.", "Forecast").on(
        "held_out"
    )
    exposed_s: float = column("Exposed communication", MILLISECONDS, "By the model of the overlap.", "Forecast").on(
        "held_out", "forecast"
    )
    hidden_s: float = column("Hidden communication", MILLISECONDS, "By the same model.", "Forecast")
    step_s: Figure = STEP.but(label="Predicted step", section="Forecast").on("held_out", "forecast")
    measured_step_s: Figure = column("Measured step", MILLISECONDS, "t(N,b) of runs with a baseline.", "Forecast").on(
        "held_out"
    )
    relative_error: Figure = column("Error", PERCENT, "Predicted over measured step, less 1.", "Forecast").on(
        "held_out"
    )
    within_tolerance: bool | None = column("Within tolerance", PLAIN, "Whether the error is small enough.", "Forecast")
    carried_over_relative_error: float = column(
        "Error of the step on fewer {devices} unchanged",
        PERCENT,
        "Step on fewer devices over the measured one, less 1.",
        "Forecast",
        digits=2,
    ).on("held_out")
    beats_unchanged: str = column(
        "Better than unchanged",
        PLAIN,
        "Whether the model's error is smaller than that of the step on fewer devices.",
        "Forecast",
    ).on("held_out")
    images_per_s: Figure = THROUGHPUT
    speedup: Figure = SPEEDUP.on("forecast")
    efficiency: Figure = EFFICIENCY.on("forecast")
    gpus_at_most: int | None = column(
        "{Devices} at most", PLAIN, "N of the largest step that D images make.", "Forecast"
    )


class CriticalBatchRow(Row):
    """The batch per GPU from which on communication hides behind the backward pass, predicted and as profiled."""

    environment: str = ENVIRONMENT
    status: str = STATUS
    reason: str = REASON
    gpus: int = GPUS
    algorithm: str = ALGORITHM
    batch_per_gpu: Figure = column(
        "Predicted", IMAGES, "Batch from which on communication hides behind backward.", "Forecast"
    ).on("critical_batch")
    backward_from: str = column(
        "Backward pass from", PLAIN, "What says how long the device's backward takes.", "Forecast"
    ).on("critical_batch")
    profiled: int | None = column("Profiled", PLAIN, "Batches whose steps profiling does not change.", "Forecast")
    measured_batch_per_gpu: int | None = column(
        "Smallest such batch by the profiler", IMAGES, "By the measured overlap.", "Forecast"
    ).on("critical_batch")
