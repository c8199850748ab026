"""Trainings: their epochs, what arms come to, and what that costs."""

from dpscale.formulas.figure import Figure
from dpscale.tables.column import PERCENT, PLAIN, POINTS, SECONDS, column
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
    STRATEGY,
    SYNC_BATCH_NORM,
    TEST_ACCURACY,
    TEST_LOSS,
    THROUGHPUT,
    TRAINING_ACCURACY,
    TRAINING_LOSS,
)
from dpscale.tables.row import ArmPoint, Row


class TrainingRow(ArmPoint):
    """Every epoch of every arm and seed: loss and accuracy in training and test, learning rate, time and energy."""

    seed: int = SEED
    epoch: int = EPOCH_NUMBER
    status: str = STATUS
    steps: int | None = column("Steps", PLAIN, "Of the epoch.", "Training")
    learning_rate: float = column("Learning rate", PLAIN, "Of the last step.", "Training")
    training_loss: float = TRAINING_LOSS
    training_accuracy: float = TRAINING_ACCURACY
    test_loss: float = TEST_LOSS
    test_accuracy: float = TEST_ACCURACY
    validation_loss: float = column("Validation loss", PLAIN, "Of images that are held out.", "Training")
    validation_accuracy: float = column("Validation accuracy", PERCENT, "Share of them right.", "Training")
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

    epochs: int | None = column("Epochs", PLAIN, "Epochs of a training.", "Training").on("training_summary")
    remedies: str = column(
        "Remedies", PLAIN, "Settings of learning that are not as they are by default.", "Training"
    ).on("training_summary")
    faster_by: str = column(
        "Faster by", PLAIN, "Settings of speed that are not as they are by default.", "Training"
    ).on("training_summary")
    tuned_trials: int | None = column(
        "Trials of the search", PLAIN, "Of the search that found the recipe.", "Training"
    ).on("training_summary")
    tuned_on: str = column("Recipe chosen on", PLAIN, "Empty where no recipe was searched.", "Training").on(
        "training_summary"
    )
    is_baseline: bool | None = column("Is the baseline", PLAIN, "Whether the study says so.", "Training")
    status: str = STATUS
    reason: str = REASON
    seeds: int | None = SEEDS.on("training_summary")
    diverged: int | None = DIVERGED
    training_loss: Figure = TRAINING_LOSS.on("training_summary")
    training_accuracy: Figure = TRAINING_ACCURACY.on("training_summary")
    test_loss: Figure = TEST_LOSS.on("training_summary")
    test_accuracy: Figure = TEST_ACCURACY.on("training_summary")
    test_accuracy_spread: float = column(
        "Its standard deviation over seeds", POINTS, "Of the test accuracy.", "Training", digits=2
    ).on("training_summary")
    training_accuracy_difference: Figure = column(
        "Training accuracy less the baseline's", POINTS, "Of means.", "Training"
    )
    test_accuracy_difference: Figure = column("Less the baseline's", POINTS, "Of mean test accuracies.", "Training").on(
        "training_summary"
    )
    compared_with: str = COMPARED_WITH.on("training_summary")
    without_remedies: str = column("Without remedies", PLAIN, "The arm that has none and is the same.", "Training")
    test_accuracy_gain: Figure = column(
        "Less that without remedies", POINTS, "Of mean test accuracies.", "Training"
    ).on("training_summary")
    training_loss_change: Figure = column("Training loss less that without remedies", PLAIN, "Of means.", "Training")
    recovered: Figure = column(
        "Lost accuracy recovered",
        PERCENT,
        "The gain, over what the same arm without remedies lost against the baseline.",
        "Training",
    ).on("training_summary")
    recovered_status: str = column("Recovered", PLAIN, "Whether the loss can be told from zero.", "Training")
    target_accuracy: float = column("Target", PERCENT, "A test accuracy.", "Training")
    time_to_target_s: float = column("Time to the target", SECONDS, "Of training, mean over seeds.", "Training").on(
        "training_summary"
    )
    gpu_s_to_target: float = column(
        "{device}-seconds to the target", PLAIN, "The same times the devices.", "Training"
    ).on("training_summary")
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
    worker: int = column("{device}", PLAIN, "Number of the worker.", "Training").on("training_evidence")
    checksum: int | None = column("Checksum", PLAIN, "Of the order of samples.", "Training")
    seen_before: float = SEEN_BEFORE.on("training_evidence")
    same_place: float = SAME_PLACE.on("training_evidence")
    statistics_kept: bool | None = column(
        "Its statistics are tested", PLAIN, "Whether the network that is tested has them.", "Training"
    ).on("training_evidence")
    statistics_difference: float = column(
        "Running means apart, standard deviations",
        PLAIN,
        "Largest difference of running means between workers.",
        "Training",
        digits=3,
    ).on("training_evidence")


class TrainingOrderRow(Row):
    """Orders of samples with and without ``set_epoch``: how many repeat the epoch before, and the mean shares of
    images.
    """

    strategy: str = STRATEGY
    set_epoch: bool | None = SET_EPOCH
    orders: int | None = column("Orders", PLAIN, "Of workers and epochs but the first.", "Training")
    repeated: int | None = column("Repeated", PLAIN, "Orders that are that of the epoch before.", "Training")
    seen_before: float = SEEN_BEFORE.but(definition="Mean over orders.")
    same_place: float = SAME_PLACE.but(definition="Mean over orders.")


class FrontierRow(ArmPoint):
    """Test accuracy after the training against seconds, GPU-seconds and energy, for every arm that came to its end,
    and which arms no other one beats.
    """

    seeds: int | None = SEEDS.on("frontier")
    test_accuracy: Figure = TEST_ACCURACY.on("frontier")
    training_s: Figure = column("Training time", SECONDS, "All epochs together, without tests.", "Frontier").on(
        "frontier"
    )
    gpu_s: Figure = GPU_SECONDS.but(definition="The same times the devices.", section="Frontier").on("frontier")
    energy_j: Figure = ENERGY.but(definition="Of all epochs, by the GPUs' own counters.", section="Frontier").on(
        "frontier"
    )
    by_time: str = column(
        "By seconds",
        PLAIN,
        "`best`: no arm has means at least as good in cost and accuracy. `beaten`: another one costs less and "
        "ends higher, by the intervals of both. `undecided`: neither.",
        "Frontier",
    ).on("frontier")
    by_gpu_s: str = column(
        "By {device}-seconds",
        PLAIN,
        "`best`: no arm has means at least as good in cost and accuracy. `beaten`: another one costs less and "
        "ends higher, by the intervals of both. `undecided`: neither.",
        "Frontier",
    ).on("frontier")
    by_energy: str = column(
        "By energy",
        PLAIN,
        "`best`: no arm has means at least as good in cost and accuracy. `beaten`: another one costs less and "
        "ends higher, by the intervals of both. `undecided`: neither.",
        "Frontier",
    ).on("frontier")


class TwinsRow(ArmPoint):
    """Trainings beside their twins, which differ in settings of speed alone: test accuracy and training time, seed by
    seed.
    """

    twin: str = column("Slow twin", PLAIN, "The arm that differs in settings of speed alone.", "Frontier").on("twins")
    twin_accuracy_difference: Figure = column(
        "Test accuracy less that of the twin", POINTS, "Of means over seeds, after the last epoch.", "Frontier"
    ).on("twins")
    twin_time_ratio: Figure = column(
        "Training time over that of the twin",
        PLAIN,
        "Of geometric means over seeds, all epochs together, without tests.",
        "Frontier",
    ).on("twins")
    pairs: int | None = column("Pairs", PLAIN, "Seeds compared pair by pair; 0 is Welch's.", "Frontier").on("twins")
