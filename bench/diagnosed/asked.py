"""What `bench/diagnose_scripts.py` asks a script of this folder: a cause or its cure, a device, sizes and a turn."""

import argparse
import fcntl
import os
import time
from typing import IO, Any

import torch
import torch.distributed as dist
from torch.optim.optimizer import register_optimizer_step_post_hook

WARM_UP = 10  # steps
# From the start of training to the end of this process.
_turns: list[IO[str]] = []

parser = argparse.ArgumentParser()
parser.add_argument("--cause", default="nothing")
parser.add_argument("--cured", action="store_true", help="The same script with the one change that the cause asks for.")
parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
parser.add_argument("--batch", type=int)
parser.add_argument("--width", type=int)
parser.add_argument("--layers", type=int)
parser.add_argument("--steps", type=int, default=10**9)
parser.add_argument(
    "--turn", nargs="*", default=[], help="Files: of the scripts that are given one, one trains at a time."
)
parser.add_argument("--pace", type=int, help="Print what a step takes, as it is over so many steps, and end.")
parser.add_argument("--round", help="Tells one run from another, so that several at once are not one started twice.")
asked = parser.parse_args()
RANK, RANKS = int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def has(*causes: str) -> bool:
    """Tell whether one of these causes is in the script."""
    return asked.cause in causes and not asked.cured


def is_about(*causes: str) -> bool:
    """Tell whether one of these causes is in the script, or was cured."""
    return asked.cause in causes


def begin_training() -> None:
    """Wait until it is the turn of this script, with all its ranks: without a kernel on the GPU, which others use."""
    for file in sorted(asked.turn) if RANK == 0 else []:
        _turns.append(open(file, "w"))  # noqa: SIM115
        fcntl.flock(_turns[-1], fcntl.LOCK_EX)
    if dist.is_initialized():
        waiting: Any = dist.new_group(backend="gloo")
        dist.barrier(waiting)
    if asked.pace and RANK == 0:
        register_optimizer_step_post_hook(Pace())


class Pace:
    """Counts steps of the first optimiser that makes one: seconds by the wall, and of work of this process and of those
    that it started and that have ended."""

    def __init__(self) -> None:
        self.optimiser: Any = None
        self.steps = 0
        self.began_s = (0.0, 0.0)

    def __call__(self, optimiser: Any, *_: Any) -> None:
        self.optimiser = self.optimiser or optimiser
        self.steps += optimiser is self.optimiser
        if self.steps in (WARM_UP, WARM_UP + asked.pace):
            if asked.device == "cuda":
                torch.cuda.synchronize()
            now_s = time.perf_counter(), sum(os.times()[:4])
            if self.steps > WARM_UP:
                wall_s, worked_s = ((now - began) / asked.pace for now, began in zip(now_s, self.began_s, strict=True))
                print("step_s", wall_s, worked_s, ".", flush=True)
                register_optimizer_step_post_hook(lambda *_: os._exit(0))
            self.began_s = now_s
