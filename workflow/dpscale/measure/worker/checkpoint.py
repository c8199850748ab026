"""The state of a training: taken, put back, and kept on disk after every epoch, from which it goes on when it was
interrupted. A file is written completely or not at all, and read without running code."""

import io
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.swa_utils import AveragedModel

from dpscale.errors import MeasurementError
from dpscale.measure.workload.images import ImageBatch
from dpscale.records.files import JsonRecord, write_bytes

State = dict[str, Any]  # of a training, as torch saves it: tensors, numbers, text, lists and mappings
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
        average = None if self.average is None else self.average.state_dict()
        return {"network": self.plain.state_dict(), "optimiser": self.optimiser.state_dict(), "average": average}

    def restore(self, state: State) -> None:
        self.plain.load_state_dict(state["network"])
        self.optimiser.load_state_dict(state["optimiser"])
        if self.average is not None:
            self.average.load_state_dict(state["average"])

    def restore_in_place(self, state: State) -> None:
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


@dataclass(frozen=True)
class Checkpoint:
    """The file beside an arm's record from which an interrupted training continues.

    `identity` is everything that the training's figures depend on: a file of another identity is refused. What a file
    does not name has the value in `defaults`.
    """

    path: Path
    identity: JsonRecord
    defaults: JsonRecord

    def read(self, device: torch.device) -> State | None:
        """Return the state that was last saved, its tensors on the CPU, and put torch's random numbers back to it. None
        where nothing was saved.

        Raises MeasurementError where the file is damaged or of another identity; it is left as it is.
        """
        try:
            saved = torch.load(self.path, map_location="cpu", weights_only=True)
            identity, state = saved["identity"], saved["state"]
        except FileNotFoundError:
            return None
        except (RuntimeError, EOFError, OSError, KeyError, TypeError, ValueError, pickle.UnpicklingError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise MeasurementError(f"{self.path}: is no checkpoint, or damaged ({reason}). Delete it") from error
        identity = {**identity, **self.defaults, **identity}  # the keys of the file first
        differing = [
            f"{key} is {identity.get(key)}, here it is {self.identity.get(key)}"
            for key in identity | self.identity
            if identity.get(key) != self.identity.get(key)
        ]
        if differing:
            raise MeasurementError(
                f"{self.path}: is of another training: {'; '.join(differing)}. Delete it, or move it away"
            )
        torch.set_rng_state(state["random"]["cpu"])
        if device.type == "cuda":
            torch.cuda.set_rng_state(state["random"]["cuda"], device)
        return dict(state)

    def write(self, state: State, device: torch.device) -> None:
        """Save `state` and torch's random numbers. Raises RecordError."""
        random = {"cpu": torch.get_rng_state()}
        if device.type == "cuda":
            random["cuda"] = torch.cuda.get_rng_state(device)
        buffer = io.BytesIO()
        torch.save({"identity": self.identity, "state": {**state, "random": random}}, buffer)
        write_bytes(self.path, buffer.getvalue())
