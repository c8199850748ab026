"""Trainings: their epochs, what arms come to, and what that costs."""

from dpscale.formulas.figure import Figure
from dpscale.tables.column import PERCENT, POINTS, SECONDS, column
from dpscale.tables.quantities import (
    COMPARED_WITH,
    DIVERGED,
    ENERGY,
    EPOCH_NUMBER,
    EPOCH_OF_ARM,
    GPU_SECONDS,
    REASON,
    SAME_PLACE,
    SEED,
    SEEDS,
    SEEN_BEFORE,
    SET_EPOCH,
    STATUS,
    SYNC_BATCH_NORM,
    TEST_ACCURACY,
    TEST_LOSS,
    THROUGHPUT,
    TRAINING_ACCURACY,
    TRAINING_LOSS,
)
from dpscale.tables.row import ArmPoint


class TrainingRow(ArmPoint):
    """Every epoch of every arm and seed: loss and accuracy in training and test, learning rate, time and energy."""

    seed: int = SEED
    epoch: int = EPOCH_NUMBER
    status: str = STATUS
    steps: int | None = column("Steps", "Of the epoch.")
    learning_rate: float = column("Learning rate", "Of the last step.")
    training_loss: float = TRAINING_LOSS
    training_accuracy: float = TRAINING_ACCURACY
    test_loss: float = TEST_LOSS
    test_accuracy: float = TEST_ACCURACY
    validation_loss: float = column("Validation loss", "Of images that are held out.")
    validation_accuracy: float = column("Validation accuracy", "Share of them right.", PERCENT)
    epoch_s: float = EPOCH_OF_ARM
    images_per_s: float = THROUGHPUT
    gpu_s: float = GPU_SECONDS
    energy_j: float = ENERGY


class TrainingCurvesRow(ArmPoint):
    """Every epoch of every arm: the mean over seeds, with the least and the most of all seeds."""

    compared_with: str = COMPARED_WITH
    epoch: int = EPOCH_NUMBER.on("training")
    seeds: int | None = SEEDS.on("training")
    diverged: int | None = DIVERGED.on("training")
    training_loss: Figure = TRAINING_LOSS.on("training")
    test_accuracy: Figure = TEST_ACCURACY.on("training")
    epoch_s: float = EPOCH_OF_ARM.on("training")


class TrainingSummaryRow(ArmPoint):
    """What every arm comes to after its last epoch, with intervals over seeds, against the baseline and against the
    same arm without remedies.
    """

    epochs: int | None = column("Epochs", "Epochs of a training.").on("training_summary")
    remedies: str = column("Remedies", "Settings of learning that are not as they are by default.").on(
        "training_summary"
    )
    faster_by: str = column("Faster by", "Settings of speed that are not as they are by default.").on(
        "training_summary"
    )
    tuned_trials: int | None = column("Trials of the search", "Of the search that found the recipe.").on(
        "training_summary"
    )
    tuned_on: str = column("Recipe chosen on", "Empty where no recipe was searched.").on("training_summary")
    is_baseline: bool | None = column("Is the baseline", "Whether the study says so.")
    status: str = STATUS
    reason: str = REASON
    seeds: int | None = SEEDS.on("training_summary")
    diverged: int | None = DIVERGED
    training_loss: Figure = TRAINING_LOSS.on("training_summary")
    training_accuracy: Figure = TRAINING_ACCURACY.on("training_summary")
    test_loss: Figure = TEST_LOSS.on("training_summary")
    test_accuracy: Figure = TEST_ACCURACY.on("training_summary")
    test_accuracy_spread: float = column(
        "Its standard deviation over seeds", "Of the test accuracy.", POINTS, digits=2
    ).on("training_summary")
    test_accuracy_difference: Figure = column("Less the baseline's", "Of mean test accuracies.", POINTS).on(
        "training_summary"
    )
    compared_with: str = COMPARED_WITH.on("training_summary")
    without_remedies: str = column("Without remedies", "The arm that has none and is the same.")
    test_accuracy_gain: Figure = column("Less that without remedies", "Of mean test accuracies.", POINTS).on(
        "training_summary"
    )
    recovered: Figure = column(
        "Lost accuracy recovered",
        "The gain, over what the same arm without remedies lost against the baseline.",
        PERCENT,
    ).on("training_summary")
    recovered_status: str = column("Recovered", "Whether the loss can be told from zero.")
    target_accuracy: float = column("Target", "A test accuracy.", PERCENT)
    time_to_target_s: float = column("Time to the target", "Of training, mean over seeds.", SECONDS).on(
        "training_summary"
    )
    gpu_s_to_target: float = column("{device}-seconds to the target", "The same times the devices.").on(
        "training_summary"
    )
    epoch_s: float = EPOCH_OF_ARM.on("training_summary")
    images_per_s: float = THROUGHPUT
    gpu_s: float = GPU_SECONDS.on("training_summary")
    energy_j: float = ENERGY.on("training_summary")


class TrainingEvidenceRow(ArmPoint):
    """What the workers of every arm share: the order of samples and the batch-norm statistics, by seed, epoch and
    worker.
    """

    set_epoch: bool | None = SET_EPOCH.on("training_evidence")
    sync_batch_norm: bool | None = SYNC_BATCH_NORM.on("training_evidence")
    seed: int = SEED
    epoch: int = EPOCH_NUMBER
    worker: int = column("{device}", "Number of the worker.").on("training_evidence")
    checksum: int | None = column("Checksum", "Of the order of samples.")
    seen_before: float = SEEN_BEFORE.on("training_evidence")
    same_place: float = SAME_PLACE.on("training_evidence")
    statistics_kept: bool | None = column(
        "Its statistics are tested", "Whether the network that is tested has them."
    ).on("training_evidence")
    statistics_difference: float = column(
        "Running means apart, standard deviations", "Largest difference of running means between workers.", digits=3
    ).on("training_evidence")


class FrontierRow(ArmPoint):
    """Test accuracy after the training against seconds, GPU-seconds and energy, for every arm that came to its end,
    and which arms no other one beats.
    """

    seeds: int | None = SEEDS.on("frontier")
    test_accuracy: Figure = TEST_ACCURACY.on("frontier")
    training_s: Figure = column("Training time", "All epochs together, without tests.", SECONDS).on("frontier")
    gpu_s: Figure = GPU_SECONDS.but(definition="The same times the devices.").on("frontier")
    energy_j: Figure = ENERGY.but(definition="Of all epochs, by the GPUs' own counters.").on("frontier")
    by_time: str = column(
        "By seconds",
        "`best`: no arm has means at least as good in cost and accuracy. `beaten`: another one costs less and "
        "ends higher, by the intervals of both. `undecided`: neither.",
    ).on("frontier")
    by_gpu_s: str = column(
        "By {device}-seconds",
        "`best`: no arm has means at least as good in cost and accuracy. `beaten`: another one costs less and "
        "ends higher, by the intervals of both. `undecided`: neither.",
    ).on("frontier")
    by_energy: str = column(
        "By energy",
        "`best`: no arm has means at least as good in cost and accuracy. `beaten`: another one costs less and "
        "ends higher, by the intervals of both. `undecided`: neither.",
    ).on("frontier")


class TwinsRow(ArmPoint):
    """Trainings beside their twins, which differ in settings of speed alone: test accuracy and training time, seed by
    seed.
    """

    twin: str = column("Slow twin", "The arm that differs in settings of speed alone.").on("twins")
    twin_accuracy_difference: Figure = column(
        "Test accuracy less that of the twin", "Of means over seeds, after the last epoch.", POINTS
    ).on("twins")
    twin_time_ratio: Figure = column(
        "Training time over that of the twin", "Of geometric means over seeds, all epochs together, without tests."
    ).on("twins")
    pairs: int | None = column("Pairs", "Seeds compared pair by pair; 0 is Welch's.").on("twins")
