"""One worker of a training cell."""

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import Optimizer
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from dpscale.measure.ranks import gather_objects
from dpscale.measure.worker.epoch_timer import EpochTimer
from dpscale.measure.worker.step_worker import CapturedStep, StepWorker
from dpscale.measure.workload.batches import Step, order_of_epoch, samples_per_rank
from dpscale.measure.workload.dataset import TEST_ARRAYS, TRAIN_ARRAYS
from dpscale.measure.workload.images import Crops, DeviceImages, ImageBatch, normalised, random_seed
from dpscale.measure.workload.recipe import (
    ParameterGroup,
    build_optimiser,
    parameter_groups,
    rate_of_step,
)
from dpscale.records.files import JsonRecord
from dpscale.schemas.settings import TrainingSettings

TEST_BATCH = 100
# Steps before the clock starts, at most an epoch's. The first steps of a process load kernels, let DDP rebuild its
# buckets, open NCCL's channels and fill the allocator's cache.
WARM_UP_STEPS = 10

State = dict[str, Any]  # of a training, as torch has it: tensors, numbers, text, lists and mappings
# A batch's forward pass, backward pass and update of the weights; returns the logits and the loss of every image.
Update = Callable[[ImageBatch], tuple[Tensor, Tensor]]


@dataclass
class Trained:
    """The plain network of an arm, the network as its strategy wraps it, its optimiser, how a batch updates them, and
    the network's average."""

    plain: nn.Module
    network: nn.Module
    optimiser: Optimizer
    update: Update
    average: AveragedModel | None

    @property
    def tested(self) -> nn.Module:
        return self.plain if self.average is None else self.average

    def state(self) -> State:
        """Return a copy of all that a step changes."""
        average = None if self.average is None else self.average.state_dict()
        networks = {"network": self.plain.state_dict(), "average": average}
        return copy.deepcopy({**networks, "optimiser": self.optimiser.state_dict()})

    def restore(self, state: State) -> None:
        """Put everything back to an earlier `state` in place: a CUDA graph reads and writes these very tensors."""
        self.plain.load_state_dict(state["network"])
        if self.average is not None:
            self.average.load_state_dict(state["average"])
        parameters = [parameter for group in self.optimiser.param_groups for parameter in group["params"]]
        for number, parameter in enumerate(parameters):
            before = state["optimiser"]["state"].get(number, {})
            for name, value in self.optimiser.state[parameter].items():
                if isinstance(value, Tensor):
                    # Momentum that did not exist yet is as good as zero.
                    value.copy_(before[name]) if name in before else value.zero_()
                else:
                    self.optimiser.state[parameter][name] = before.get(name, 0)


class Figures:
    """Sums over the steps of an epoch on one rank. They stay on the device until its end, so that no step waits."""

    def __init__(self) -> None:
        self._losses: list[Tensor] = []
        self._correct: list[Tensor] = []

    def add(self, logits: Tensor, labels: Tensor, losses: Tensor, real: int, smoothed: bool) -> None:
        """Count the first `real` images of a step. The others are the sampler's padding."""
        logits, labels, losses = logits.detach()[:real], labels[:real], losses.detach()[:real]
        plain = functional.cross_entropy(logits, labels, reduction="none") if smoothed else losses
        self._losses.append(plain.sum())
        self._correct.append((logits.argmax(dim=1) == labels).sum())

    def read(self) -> list[float]:
        """Return the sums of cross-entropy and of right answers in the epoch."""
        return [float(torch.stack(sums).double().sum()) for sums in (self._losses, self._correct)]


class TrainingWorker(StepWorker):
    """Trains an arm epoch by epoch, and tests after every epoch."""

    settings_type = TrainingSettings
    settings: TrainingSettings

    def __init__(self, job: JsonRecord, rank: int):
        super().__init__(job, rank)
        self.epochs: list[JsonRecord] = []
        self.steps = -(-samples_per_rank(self.settings.epoch_images, self.workers) // self.batch)
        self._stream = torch.cuda.Stream(self.device) if self.settings.cuda_graph else None

    def results(self) -> JsonRecord:
        return {"diverged": self.diverged, "epochs": self.epochs}

    @property
    def diverged(self) -> bool:
        return bool(self.epochs) and self.epochs[-1]["training_loss"] is None

    def measure(self) -> None:
        """Fill `epochs`."""
        self.phase = "copying the images to the device"
        images = self.read_images()
        trained = self._prepare_training()
        timer = EpochTimer(self.devices, self.workers)
        self.phase = "warm-up"
        if self._stream is not None:
            self._capture(trained, self._stream)
        self._warm_up(timer, trained, images["training"])
        if self.settings.compile != "none":
            # Tests have batches of their own, and the average's weights: they are not worth compiling for.
            torch.compiler.set_stance("eager_on_recompile")
        for epoch in range(self.settings.epochs):
            self.phase = f"epoch {epoch + 1}"
            self._train_epoch(timer, trained, images, epoch)
            if self.rank == 0:
                self._report_epoch()
            if self.diverged:
                break

    def read_images(self) -> dict[str, DeviceImages]:
        """Copy to the device the `training` images, and those to `test` with."""
        images, labels, *test = (np.load(self.dataset / name) for name in (*TRAIN_ARRAYS, *TEST_ARRAYS))
        return {
            "training": DeviceImages(images, labels, self.device),
            "test": DeviceImages(test[0], test[1], self.device),
        }

    def _prepare_training(self) -> Trained:
        """Build network, average and optimiser."""
        plain = self.build_network()
        if self.settings.zero_init_residual:
            # Every residual branch starts at zero, by the weight of its last batch-norm (Goyal et al. 2017, 5.1).
            for module in plain.modules():
                if isinstance(last := getattr(module, "bn2", None), nn.BatchNorm2d):
                    nn.init.zeros_(last.weight)
        if self.settings.sync_batch_norm:
            plain = nn.SyncBatchNorm.convert_sync_batchnorm(plain)
        decay = self.settings.averaging_decay
        average = AveragedModel(plain, multi_avg_fn=get_ema_multi_avg_fn(decay), use_buffers=True) if decay else None
        optimiser = build_optimiser(self.settings, parameter_groups(self.settings, plain.named_parameters()))
        with torch.cuda.stream(self._stream) if self._stream else nullcontext():
            network = self.parallelised(plain)
        return Trained(plain, network, optimiser, self._update(network, optimiser), average)

    def _capture(self, trained: Trained, stream: torch.cuda.Stream) -> None:
        """Put the update of a full batch in a CUDA graph, and undo the changes of the steps for that."""
        before = trained.state()
        for group in trained.optimiser.param_groups:
            group["lr"] = torch.tensor(float(group["lr"]), device=self.device)  # which the graph reads in every step
        trained.update = CapturedStep(trained.update, self.made_up_batch(self.batch), self.device, stream)
        trained.restore(before)

    def _warm_up(self, timer: EpochTimer, trained: Trained, training: DeviceImages) -> None:
        """Run the first epoch's first steps and its last, which may be smaller, and undo all that they changed.

        Weights, batch-norm statistics, optimiser, averaged weights and torch's random numbers are then as they were.
        """
        numbers = [*range(min(WARM_UP_STEPS, self.steps) - 1), self.steps - 1]
        step = self._step(trained, Figures(), epoch=0)
        state = trained.state()
        with torch.random.fork_rng(self.devices):
            timer.time(step, self._batches(training, 0, numbers), len(numbers))
        trained.restore(state)
        trained.optimiser.zero_grad()

    def _train_epoch(self, timer: EpochTimer, trained: Trained, images: Mapping[str, DeviceImages], epoch: int) -> None:
        """Train one epoch, counted from 0, test after it, and store the results."""
        arm = self.settings
        figures = Figures()
        step = self._step(trained, figures, epoch)
        timed = timer.time(step, self._batches(images["training"], epoch, range(self.steps)), self.steps)
        ranks = gather_objects(figures.read(), self.workers)
        loss, accuracy = (sum(sums) / arm.epoch_images for sums in zip(*ranks, strict=True))
        finite = math.isfinite(loss)
        test_loss, test_accuracy = None, None
        if finite and self.rank == 0:
            test_loss, test_accuracy = self._test(trained.tested, images["test"])
        self.epochs.append(
            {
                "epoch": epoch + 1,
                "global_batch": arm.global_batch,
                "steps": self.steps,
                "learning_rate": rate_of_step(arm, epoch, self.steps - 1, self.steps),
                "training_loss": loss if finite else None,
                "training_accuracy": accuracy if finite else None,
                "test_loss": test_loss,
                "test_accuracy": test_accuracy,
                "epoch_s": timed.epoch_s,
                "images_per_s": len(images["training"]) / timed.epoch_s,
                "gpu_s": timed.epoch_s * arm.gpus,
            }
        )

    def _batches(self, images: DeviceImages, epoch: int, numbers: Sequence[int]) -> Iterator[ImageBatch]:
        """Yield this rank's batches of an epoch with these numbers, drawn, cut and normalised on the device. The last
        one may be smaller."""
        crops = Crops.draw(len(images), self.seed, epoch, self.device)
        batches = self._order_of(epoch).to(self.device).split(self.batch)
        for number in numbers:
            chosen = batches[number]
            yield normalised(images.cut(chosen, crops), self.memory_format), images.labels[chosen]

    def _order_of(self, epoch: int) -> Tensor:
        """Return the images that this rank takes in an epoch, in order, padded as DistributedSampler does."""
        seed = random_seed(self.seed, "order") + (epoch if self.settings.set_epoch else 0)
        return order_of_epoch(self.settings.epoch_images, self.rank, self.workers, seed)

    def _update(self, network: nn.Module, optimiser: Optimizer) -> Update:
        """Return forward, backward and update in one, all by the arm's recipe. It waits for nothing."""
        arm = self.settings
        update = self.update_of(network, optimiser)
        outputs: list[tuple[Tensor, Tensor]] = []  # logits and losses of every micro-batch

        def loss(batch: ImageBatch) -> Tensor:
            images, labels = batch
            logits = network(images)
            losses = functional.cross_entropy(logits, labels, reduction="none", label_smoothing=arm.label_smoothing)
            outputs.append((logits.detach(), losses.detach()))
            return losses.mean()

        def make(batch: ImageBatch) -> tuple[Tensor, Tensor]:
            outputs.clear()
            update.make_gradients(batch, loss)
            if arm.gradient_clipping:
                update.unscale()
                nn.utils.clip_grad_norm_(network.parameters(), arm.gradient_clipping)
            update.step()
            if len(outputs) == 1:
                return outputs[0]
            logits, losses = map(torch.cat, zip(*outputs, strict=True))
            return logits, losses

        return make

    def _step(self, trained: Trained, figures: Figures, epoch: int) -> Step:
        """Return the step of an epoch: the update at its learning rate, and the sums of its figures. It waits for
        nothing."""
        arm = self.settings
        numbers = iter(range(self.steps))
        # Without the sampler's padding, which is at the end of this rank's share.
        real = len(range(self.rank, arm.epoch_images, self.workers))

        def step(images: ImageBatch) -> None:
            number = next(numbers)
            for group in trained.optimiser.param_groups:
                _set_rate(group, rate_of_step(arm, epoch, number, self.steps) * group["rate_factor"])
            logits, losses = trained.update(images)
            if trained.average is not None:
                trained.average.update_parameters(trained.plain)
            figures.add(logits, images[1], losses, min(self.batch, real - number * self.batch), arm.label_smoothing > 0)

        return step

    def _test(self, network: nn.Module, images: DeviceImages) -> tuple[float | None, float | None]:
        """Return mean loss and accuracy on images as they are, with rank 0's batch-norm statistics, which are kept."""
        network.eval()
        loss, correct = torch.zeros((), device=self.device), torch.zeros((), device=self.device)
        with torch.inference_mode():
            for start in range(0, len(images), TEST_BATCH):
                chosen = slice(start, start + TEST_BATCH)
                logits = network(normalised(images.plain(chosen), self.memory_format))
                loss += functional.cross_entropy(logits, images.labels[chosen], reduction="sum")
                correct += (logits.argmax(dim=1) == images.labels[chosen]).sum()
        network.train()
        mean = float(loss) / len(images)
        return (mean if math.isfinite(mean) else None), float(correct) / len(images)

    def _report_epoch(self) -> None:
        last = self.epochs[-1]
        figures = "diverged" if self.diverged else f"test accuracy {last['test_accuracy']:.4f}"
        self.report(f"epoch {last['epoch']} of {self.settings.epochs}: {last['epoch_s']:.3f} s, {figures}")


def _set_rate(group: ParameterGroup, rate: float) -> None:
    if isinstance(group["lr"], Tensor):  # within reach of a CUDA graph
        group["lr"].fill_(rate)
    else:
        group["lr"] = rate


WORKER = TrainingWorker
