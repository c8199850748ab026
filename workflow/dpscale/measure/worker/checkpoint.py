"""The state of a training after an epoch, on disk: written completely or not at all, and read without running code."""

import io
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from dpscale.errors import MeasurementError
from dpscale.records.files import write_bytes


@dataclass(frozen=True)
class Checkpoint:
    """The file beside an arm's record from which an interrupted training continues.

    `identity` is everything that the training's figures depend on: a file of another identity is refused. What a file
    does not name has the value in `defaults`.
    """

    path: Path
    identity: dict[str, Any]
    defaults: dict[str, Any]

    def read(self, device: torch.device) -> dict[str, Any] | None:
        """What was last saved, its tensors on the CPU; None where nothing was.

        Raises MeasurementError where the file is damaged or of another identity; it is left as it is.
        """
        try:
            saved = torch.load(self.path, map_location="cpu", weights_only=True)
            found, state = saved["identity"], saved["state"]
        except FileNotFoundError:
            return None
        except (RuntimeError, EOFError, OSError, KeyError, TypeError, ValueError, pickle.UnpicklingError) as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise MeasurementError(f"{self.path}: is no checkpoint, or damaged ({reason}). Delete it") from error
        found = {**found, **self.defaults, **found}  # the keys of the file first
        differing = [
            f"{key} is {found.get(key)}, here it is {self.identity.get(key)}"
            for key in found | self.identity
            if found.get(key) != self.identity.get(key)
        ]
        if differing:
            raise MeasurementError(
                f"{self.path}: is of another training: {'; '.join(differing)}. Delete it, or move it away"
            )
        torch.set_rng_state(state["random"]["cpu"])
        if device.type == "cuda":
            torch.cuda.set_rng_state(state["random"]["cuda"], device)
        return dict(state)

    def write(self, state: Mapping[str, Any], device: torch.device) -> None:
        """Save `state` (tensors, numbers, text, lists and mappings) and torch's random numbers. Raises RecordError."""
        random = {"cpu": torch.get_rng_state()}
        if device.type == "cuda":
            random["cuda"] = torch.cuda.get_rng_state(device)
        buffer = io.BytesIO()
        torch.save({"identity": self.identity, "state": {**state, "random": random}}, buffer)
        write_bytes(self.path, buffer.getvalue())
