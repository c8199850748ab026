"""Trainings: their epochs, what arms come to, and what that costs."""

from dpscale.formulas.figure import Figure
from dpscale.tables.column import (
    EPOCH_NUMBER,
    GPU_SECONDS,
    PERCENT,
    POINTS,
    REASON,
    SECONDS,
    SEED,
    STATUS,
    TEST_ACCURACY,
    THROUGHPUT,
    column,
)
from dpscale.tables.row import ArmPoint

COMPARED_WITH = column("Baseline", "The arm that this one is compared with.")
SEEDS = column("Seeds", "Seeds that were trained.")
DIVERGED = column("Diverged", "Seeds whose loss was not finite.")
TRAINING_LOSS = column("Training loss", "Mean cross-entropy of an epoch.")
TRAINING_ACCURACY = column("Training accuracy", "Share of right answers over an epoch's images.", PERCENT)
TEST_LOSS = column("Test loss", "Mean cross-entropy over all test images.")
EPOCH_OF_ARM = column("Epoch time", "Time of a training epoch.", SECONDS)


class TrainingRow(ArmPoint):
    """Every epoch of every arm and seed: loss and accuracy in training and test, learning rate and time."""

    seed: int = SEED
    epoch: int = EPOCH_NUMBER
    status: str = STATUS
    steps: int | None = column("Steps", "Of the epoch.")
    learning_rate: float = column("Learning rate", "Of the last step.")
    training_loss: float = TRAINING_LOSS
    training_accuracy: float = TRAINING_ACCURACY
    test_loss: float = TEST_LOSS
    test_accuracy: float = TEST_ACCURACY
    epoch_s: float = EPOCH_OF_ARM
    images_per_s: float = THROUGHPUT
    gpu_s: float = GPU_SECONDS


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
    """Results of every arm after its last epoch, with intervals over seeds, against the baseline and against the
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
    test_accuracy_difference: Figure = column("Less the baseline's", "Of mean test accuracies.", POINTS).shown
    compared_with: str = COMPARED_WITH.shown
    without_remedies: str = column("Without remedies", "The arm that has none and is the same.")
    test_accuracy_gain: Figure = column("Less that without remedies", "Of mean test accuracies.", POINTS).shown
    target_accuracy: float = column("Target", "A test accuracy.", PERCENT)
    time_to_target_s: float = column("Time to the target", "Of training, mean over seeds.", SECONDS).shown
    epoch_s: float = EPOCH_OF_ARM.shown
    gpu_s: float = GPU_SECONDS.shown
