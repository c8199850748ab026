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

_VERDICT = (
    "`best`: no arm has means at least as good in cost and accuracy. `beaten`: another one costs less and ends higher, "
    "by the intervals of both. `undecided`: neither."
)


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
    epoch: int = EPOCH_NUMBER.shown
    seeds: int | None = SEEDS.shown
    diverged: int | None = DIVERGED.shown
    training_loss: Figure = TRAINING_LOSS.shown
    test_accuracy: Figure = TEST_ACCURACY.shown
    epoch_s: float = EPOCH_OF_ARM.shown


class TrainingSummaryRow(ArmPoint):
    """What every arm comes to after its last epoch, with intervals over seeds, against the baseline and against the
    same arm without remedies.
    """

    epochs: int | None = column("Epochs", "Epochs of a training.").shown
    remedies: str = column("Remedies", "Settings of learning that are not as they are by default.").shown
    lacks: str = column("Lacks", "What every training should have, and this one has not.").shown
    faster_by: str = column("Faster by", "Settings of speed that are not as they are by default.").shown
    tuned_trials: int | None = column("Trials of the search", "Of the search that found the recipe.").shown
    tuned_on: str = column("Recipe chosen on", "Empty where no recipe was searched.").shown
    is_baseline: bool | None = column("Is the baseline", "Whether the study says so.")
    status: str = STATUS
    reason: str = REASON
    seeds: int | None = SEEDS.shown
    diverged: int | None = DIVERGED
    training_loss: Figure = TRAINING_LOSS.shown
    training_accuracy: Figure = TRAINING_ACCURACY.shown
    test_loss: Figure = TEST_LOSS.shown
    test_accuracy: Figure = TEST_ACCURACY.shown
    test_accuracy_spread: float = column(
        "Its standard deviation over seeds", "Of the test accuracy.", POINTS, digits=2
    ).shown
    test_accuracy_difference: Figure = column("Less the baseline's", "Of mean test accuracies.", POINTS).shown
    compared_with: str = COMPARED_WITH.shown
    without_remedies: str = column("Without remedies", "The arm that has none and is the same.")
    test_accuracy_gain: Figure = column("Less that without remedies", "Of mean test accuracies.", POINTS).shown
    recovered: Figure = column(
        "Lost accuracy recovered",
        "The gain, over what the same arm without remedies lost against the baseline.",
        PERCENT,
    ).shown
    recovered_status: str = column("Recovered", "Whether the loss can be told from zero.")
    target_accuracy: float = column("Target", "A test accuracy.", PERCENT)
    time_to_target_s: float = column("Time to the target", "Of training, mean over seeds.", SECONDS).shown
    gpu_s_to_target: float = column("{device}-seconds to the target", "The same times the devices.").shown
    epoch_s: float = EPOCH_OF_ARM.shown
    images_per_s: float = THROUGHPUT
    gpu_s: float = GPU_SECONDS.shown
    energy_j: float = ENERGY.shown


class TrainingEvidenceRow(ArmPoint):
    """What the workers of every arm share: the order of samples and the batch-norm statistics, by seed, epoch and
    worker.
    """

    set_epoch: bool | None = SET_EPOCH.shown
    sync_batch_norm: bool | None = SYNC_BATCH_NORM.shown
    seed: int = SEED
    epoch: int = EPOCH_NUMBER
    worker: int = column("{device}", "Number of the worker.").shown
    checksum: int | None = column("Checksum", "Of the order of samples.")
    seen_before: float = SEEN_BEFORE.shown
    same_place: float = SAME_PLACE.shown
    statistics_kept: bool | None = column(
        "Its statistics are tested", "Whether the network that is tested has them."
    ).shown
    statistics_difference: float = column(
        "Running means apart, standard deviations", "Largest difference of running means between workers.", digits=3
    ).shown


class FrontierRow(ArmPoint):
    """Test accuracy after the training against seconds, GPU-seconds and energy, for every arm that came to its end,
    and which arms no other one beats.
    """

    seeds: int | None = SEEDS.shown
    test_accuracy: Figure = TEST_ACCURACY.shown
    training_s: Figure = column("Training time", "All epochs together, without tests.", SECONDS).shown
    gpu_s: Figure = GPU_SECONDS.but(definition="The same times the devices.").shown
    energy_j: Figure = ENERGY.but(definition="Of all epochs, by the GPUs' own counters.").shown
    by_time: str = column("By seconds", _VERDICT).shown
    by_gpu_s: str = column("By {device}-seconds", _VERDICT).shown
    by_energy: str = column("By energy", _VERDICT).shown


class TwinsRow(ArmPoint):
    """Trainings beside their twins, which differ in settings of speed alone: test accuracy and training time, seed by
    seed.
    """

    twin: str = column("Slow twin", "The arm that differs in settings of speed alone.").shown
    twin_accuracy_difference: Figure = column(
        "Test accuracy less that of the twin", "Of means over seeds, after the last epoch.", POINTS
    ).shown
    twin_time_ratio: Figure = column(
        "Training time over that of the twin", "Of geometric means over seeds, all epochs together, without tests."
    ).shown
    pairs: int | None = column("Pairs", "Seeds compared pair by pair; 0 is Welch's.").shown
