"""The steps of a script: how long each took, which were pauses, and, by samples of the training thread, in which lines
of the script the time went."""

from __future__ import annotations

import ast
import functools
import linecache
import statistics
import sys
import threading
import time
from collections import Counter, defaultdict, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain, takewhile
from types import FrameType
from typing import Any, NamedTuple

from .calls import EVENTS, EXCHANGED, NETWORK, compiled
from .hooks import ACCOUNT, NOW, OWN, Json, Line, NotedStep, of_script, shown, user_lines
from .loader import LOADING
from .schedule import Turn

clock = time.perf_counter
LONG = 3.0  # times a usual step: a pause
# On a CPU a usual step is as long as this part of them at most: what is longer in every third step is a pause, what is
# in every second one is not.
USUAL = 0.6
# What is left out of a block is in its pauses, but for what is no more than noise of a usual step.
BEYOND_NOISE = 1.1
LOOK_EVERY_S = 0.02
MOST_LINES = 6  # of a stack that are kept, the innermost first
TRAINING = ("loading", "copy", "forward", "backward", "optimiser")  # parts whose lines train
ELSEWHERE_OWN = (*TRAINING, "waiting")  # kinds that are the script's own code in other lines
OF_LOOP = (*ELSEWHERE_OWN, OWN, "evaluation")  # kinds that make one loop together
# Kinds that belong to validation while a network evaluates.
OF_EVALUATION = (OWN, "waiting", "loading", "copy", "forward")
NEARLY_ALL = 0.8  # of the time of a statement is inside one of those in it
FRAMES = (ast.If, ast.With, ast.Try)  # statements around others that do nothing themselves
# Libraries whose frames, inside a line of the script, say what the line does.
KINDS = {
    "logging": (
        "logging", "wandb", "mlflow", "neptune", "comet_ml", "clearml", "aim", "tensorboard", "tensorboardX",
        "torch.utils.tensorboard", "lightning.pytorch.loggers", "pytorch_lightning.loggers", "tqdm", "rich",
    ),
    "checkpoint": ("pickle", "safetensors", "torch.serialization", "torch.distributed.checkpoint"),
    "optimiser": ("torch.optim", "torch.amp.grad_scaler"),
    "forward": ("torch.nn.functional", "torch._functorch", "torch.distributions"),
    "backward": ("torch.autograd.graph",),
}  # fmt: skip
_KIND_OF = {library: kind for kind, libraries in KINDS.items() for library in libraries}


def kind_of(module: str) -> str:
    """Return the part that a library's module belongs to; nothing of other libraries."""
    while module:
        if module in _KIND_OF:
            return _KIND_OF[module]
        module = module.rpartition(".")[0]
    return ""


class StepClock:
    """Seconds of steps: of the turn that runs, and of all as they are."""

    def __init__(self, on_gpu: bool, sampler: Any, with_pauses: bool) -> None:
        self.on_gpu, self.sampler, self.with_pauses = on_gpu, sampler, with_pauses
        self.since = clock()
        self.counted_steps, self.counted_s = 0, 0.0  # of blocks as they are
        # Of turns as they are: seconds, those without pauses, and what each step takes beside its wait for a batch.
        self.recent: deque[tuple[float, float, list[float]]] = deque(maxlen=6)
        self.limit = self.pace_s = float("inf")  # of a pause, and of a step as it is
        self.step_s = 0.0  # without pauses
        self.gaps: list[tuple[Json, Any]] = []  # with their samples
        self.compiled_s = compiled()[1]
        self.begin(0)

    def begin(self, steps: int) -> None:
        """A turn, or the part of it that counts."""
        self.left = steps
        self.times: list[float] = []
        # Of each step that counts: its seconds if the host's clock tells a pause, else 0; its border; what it spent.
        self.known: list[tuple[float, str, dict[str, float]]] = []
        self.loading = [LOADING.seconds]
        self.exchanged_s = EXCHANGED.seconds
        # Of a GPU: the work that is queued, since a step that waits for it is no pause.
        self.ahead_s = 0.0
        self.excess_s = 0.0  # that is no part of the block: pauses on a GPU; in a rank's own pace, waits for others
        self.since = clock()

    def stepped(self, turn: Turn, may_be_pause: bool) -> None:
        now = clock()
        seconds, self.since = now - self.since, now
        exchanged, self.exchanged_s = EXCHANGED.seconds - self.exchanged_s, EXCHANGED.seconds
        if NETWORK.no_allreduce and not self.on_gpu:
            self.excess_s += exchanged
            seconds -= exchanged
        self.left -= 1
        NOW.step += 1
        ACCOUNT.step_ended()
        self.times.append(seconds)
        self.loading.append(LOADING.seconds)
        compiled_s, self.compiled_s = self.compiled_s, compiled()[1]
        NOW.spent["compile"] += self.compiled_s - compiled_s
        if self.sampler:
            NETWORK.stepped()
            EVENTS.stepped(seconds)
        own_s = seconds - self.ahead_s
        if not NOW.border:
            own_s -= self.loading[-1] - self.loading[-2]
        is_pause = may_be_pause and own_s > self.limit
        # A copy: a collection that begins meanwhile adds to it.
        known = (seconds - self.ahead_s if is_pause else 0.0, NOW.border, dict(NOW.spent))
        if NOW.counting:
            self.known.append(known)
        elif is_pause and turn.phase == "timing":
            self._note_pause(NOW.step - 1, *known)
        if self.on_gpu:
            self.excess_s += max(0.0, known[0] - self.step_s)
            self.ahead_s = max(0.0, self.ahead_s + self.step_s - seconds)
        NOW.border, NOW.evaluates = "", False
        NOW.spent.clear()

    def _note_pause(self, step: int, seconds: float, border: str, spent: Mapping[str, float]) -> None:
        """Note a pause, named after what is known to have taken most of it, where that is half."""
        if self.sampler:
            longest_s, name = max((spent_s, name) for name, spent_s in spent.items())
            cause = name if longest_s >= 0.5 * seconds else "script"
            gap = {"seconds": round(seconds, 5), "after_step": step, "what": cause, "border": border or None}
            self.gaps.append((gap, self.sampler.of_step(step)))

    def _note_pauses(self, times: Sequence[float], left_out: Collection[int]) -> None:
        """Note what is left out of the steps of a block, by these times; of steps without one what the host's clock
        tells."""
        noise_s = BEYOND_NOISE * statistics.median(
            [time for step, time in enumerate(times) if step not in left_out] or [0]
        )
        for step, (pause_s, border, spent) in enumerate(self.known):
            if step < len(times):
                pause_s = times[step] if step in left_out and times[step] > noise_s else 0.0
            if pause_s:
                self._note_pause(NOW.step - len(self.known) + step, pause_s, border, spent)

    def end_as_it_is(self, seconds: float, warm_up: bool) -> None:
        """End a turn without an intervention; in the warm-up its steps tell the pace alone."""
        if not warm_up:
            self.counted_steps += len(self.times)
            self.counted_s += seconds - self.excess_s
        self.recent.append((seconds, seconds - self.excess_s, self._beside_waits(self.times)))
        times = sorted(chain(*(times for _, _, times in self.recent)))
        self.pace_s = sum(all_s for all_s, _, _ in self.recent) / len(times)
        self.step_s = sum(steps_s for _, steps_s, _ in self.recent) / len(times)
        # The host's clock does not tell the steps of a GPU one by one, and pauses in a mean would hide pauses.
        self.limit = LONG * (self.step_s if self.on_gpu else times[int(USUAL * len(times))])

    def _beside_waits(self, times: Sequence[float], borders: Collection[int] = ()) -> list[float]:
        """Return what steps take beside their waits for batches, but for those in which an epoch begins: workers that
        finish together let one step in so many wait for all of them, and that is no pause."""
        waits = [self.loading[step + 1] - self.loading[step] for step in range(len(times))]
        return [max(0.0, time - (0.0 if step in borders else waits[step])) for step, time in enumerate(times)]

    def block(self, turn: Turn, seconds: float) -> Json:
        """Steps at borders (an epoch begins, validation, a checkpoint) and pauses are left out, unless most are such;
        what they take longer than a usual step is noted. A step is a pause by the pace of the script as it is, also in
        blocks with an intervention: what makes one step in four longer is in all of them, or in none.

        Of a GPU the account tells the steps, whose time the host's clock does not: of the first steps alone, where
        there are many. Without an account, what pauses took is left out. Of a CPU pauses count `with_pauses` alone.
        Parts are of the steps that are no pause.
        """
        noted, times, in_all_s = ACCOUNT.steps(), self.times, seconds - self.excess_s
        if self.on_gpu and noted:
            times = [step.seconds for step in noted]
            in_all_s = sum(times)
        steps = range(len(times))
        borders = {step for step, (_, border, _) in enumerate(self.known[: len(times)]) if border}
        own_s = self._beside_waits(times, borders)
        tells_pauses = noted or not (self.on_gpu or self.with_pauses)
        long_s = float("inf")
        if tells_pauses:
            long_s = max(LONG * statistics.median_low(own_s), self.limit)
        pauses = {step for step in steps if own_s[step] > long_s}
        left_out = pauses if self.on_gpu and not noted else pauses | borders
        if 2 * len(left_out) >= len(times):
            left_out = pauses if 2 * len(pauses) <= len(times) else set()
        counted = [step for step in steps if step not in left_out]
        self._note_pauses(times if tells_pauses else [], left_out)
        if self.sampler:
            untold = [step for step in range(len(times), len(self.known)) if not self.known[step][1]]
            since = NOW.step - len(self.known)
            self.sampler.count({since + step for step in (*counted, *untold)})
        usual = [step for step in counted if step < len(noted) and own_s[step] <= long_s]
        parts = mean_parts([noted[step] for step in usual])
        if "no_allreduce" in turn.probe and not self.on_gpu:  # a rank's own pace is without them
            parts.pop("collectives", None)
        return {
            "round": turn.round,
            "probe": turn.probe,
            "steps": len(counted),
            "seconds": in_all_s - sum(times[step] for step in left_out),
            "loading_s": sum(self.loading[step + 1] - self.loading[step] for step in counted),
            "step_s": [round(times[step], 6) for step in counted],
            "parts": parts,
        }


def mean_parts(steps: Sequence[NotedStep]) -> dict[str, float]:
    """Return the mean seconds of each part: its share of those steps that were divided, of the mean step."""
    divided = [step for step in steps if step.parts]
    scale = sum(step.seconds for step in steps) / len(steps) / sum(step.seconds for step in divided) if divided else 0.0
    names = dict.fromkeys(chain(*(step.parts for step in divided)))
    return {name: round(scale * sum(step.parts.get(name, 0.0) for step in divided), 7) for name in names}


class Sample(NamedTuple):
    """The part that the thread was in, its kind, and the stack of the script's own lines, the innermost first.

    The kind is the part, where hooks tell one; of own code it is what a library's frames show, if they do.
    """

    part: str
    kind: str
    lines: tuple[Line, ...]


def sample_of(frame: FrameType) -> Sample:
    """Return what a thread with this innermost frame does."""
    part = ACCOUNT.open[-1]
    kind = "waiting" if ACCOUNT.waits else _kind_of_line(frame) if part == OWN else part
    if NOW.evaluates and kind in OF_EVALUATION:
        kind = "evaluation"
    return Sample(part, kind, user_lines(frame, MOST_LINES))


def _kind_of_line(frame: FrameType | None) -> str:
    """Return what kind of work a line of the script is, by the frames of libraries inside it."""
    while frame is not None and not of_script(frame.f_code.co_filename):
        if frame.f_code.co_name == "_call_impl":
            return "forward"
        if kind := kind_of(frame.f_globals.get("__name__", "")):
            return kind
        frame = frame.f_back
    return OWN


class Sampler:
    """Looks 50 times a second at the thread that makes it."""

    def __init__(self, switch_s: float) -> None:
        self._watched = threading.get_ident()
        self._switch_s, self._switch_before_s = switch_s, sys.getswitchinterval()
        self.latest: deque[tuple[int, Sample]] = deque(maxlen=10_000)  # with their step
        self.steady: Counter[Sample] = Counter()  # of counted steps
        self.training: set[Line] = set()  # lines that train, told by hooks or by a library's frames

    def start(self) -> None:
        """Begin. A thread that computes in Python is seen after `switch_s` at the latest, and not in its next call."""
        self.stopped = False
        sys.setswitchinterval(self._switch_s)
        self._watching = threading.Thread(target=self._watch, name="dpscale", daemon=True)
        self._watching.start()

    def stop(self) -> None:
        """End. No sample is added to those that are read after it."""
        self.stopped = True
        self._watching.join()
        sys.setswitchinterval(self._switch_before_s)

    def _watch(self) -> None:
        while not self.stopped:
            self.look(sys._current_frames().get(self._watched))
            time.sleep(LOOK_EVERY_S)

    def look(self, frame: FrameType | None) -> None:
        """Take a sample of the thread's innermost frame. A generator that yields meanwhile has lost its callers."""
        sample = sample_of(frame) if frame is not None else None
        if sample and sample.lines:
            self.latest.append((NOW.step, sample))

    def count(self, steps: Collection[int]) -> None:
        """Count the samples of these steps, of the latest ones."""
        counted = [sample for step, sample in list(self.latest) if step in steps]
        self.steady.update(counted)
        trains = [sample for sample in counted if {sample.part, sample.kind}.intersection(TRAINING)]
        self.training.update(line for sample in trains for line in sample.lines)

    def of_step(self, step: int) -> Counter[Sample]:
        """Return the samples of a step, of the latest ones."""
        since = takewhile(lambda sample: sample[0] >= step, reversed(list(self.latest)))
        return Counter(sample for number, sample in since if number == step)

    def places(self, samples: Counter[Sample]) -> list[Json]:
        """Return each kind of these samples with its share of them, and the statement of it most often seen.

        A loop beside the training is what most of it is, but for what is logged or saved in it: a rollout computes with
        the network in between. What would be training elsewhere is the script's own code there.
        """
        loops = {sample: loop_of(beside_training(sample.lines, self.training)) for sample in samples}
        kinds: defaultdict[Line | None, Counter[str]] = defaultdict(Counter)
        for sample, count in samples.items():
            if sample.kind in OF_LOOP:
                kinds[loops[sample]][sample.kind] += count
        merged = Counter[Sample]()
        for sample, count in samples.items():
            kind = sample.kind
            if kind in OF_LOOP and loops[sample] not in self.training:
                ((kind, _),) = kinds[loops[sample]].most_common(1)
                kind = OWN if kind in ELSEWHERE_OWN else kind
            merged[sample._replace(kind=kind)] += count
        places = dict[str, Json]()
        for row in self.statements(merged):
            place = {name: value for name, value in row.items() if name not in ("part", "samples")}
            of_kind = places.setdefault(row["kind"], {**place, "share": 0.0})
            of_kind["share"] += row["samples"] / sum(samples.values())
        return list(places.values()) or [{}]

    def statements(self, samples: Counter[Sample]) -> list[Json]:
        """Return the statements in which samples were taken, those that have most of them first."""
        groups: dict[tuple[str, str, Line | None], Counter[tuple[Line, ...]]] = {}
        for sample, count in samples.items():
            stack = beside_training(sample.lines, self.training)
            groups.setdefault((sample.part, sample.kind, next(iter(stack), None)), Counter())[stack] += count
        rows = []
        for (part, kind, line), stacks in groups.items():
            place = deepest(stacks)
            caller = f"called from line {line[1]}: {shown(line)['code']}" if line and place != line else ""
            seen = {"part": part, "kind": kind, "samples": sum(stacks.values()), "inside": caller}
            rows.append({**shown(place), **seen})
        return sorted(rows, key=lambda row: -row["samples"])[:40]


def beside_training(lines: Sequence[Line], training: Collection[Line]) -> tuple[Line, ...]:
    """Return the statement to which a stack's time belongs, and those inside it, the outermost first.

    It is the largest statement without lines that train, such as a loop beside the training and not around it, in the
    outermost function that trains and has one: those further in may be called from elsewhere too. Or it is the largest
    one of a function that is called in a line that trains. Without any it is that of the innermost line.
    """
    place: list[Line] = []
    for depth, (file, number) in list(enumerate(lines))[::-1]:
        function, *statements = statements_around(file, number)
        trains = [line for name, line in training if name == file]
        if any(_spans(function, line) for line in trains):
            beside = _largest([part for part in statements if not any(_spans(part, line) for line in trains)])
            place = [(file, beside)] if beside else []
            for name, line in lines[:depth][::-1]:
                around = statements_around(name, line)
                if around[0] is not function and (largest := _largest(around[1:])):  # no comprehension in it
                    place.append((name, largest))
            if beside:
                break
    return tuple(place or lines[:1])


def loop_of(stack: Sequence[Line]) -> Line | None:
    """Return the outermost loop of these statements, or the innermost statement. None without any."""
    for file, number in stack:
        around = statements_around(file, number)
        if any(isinstance(part, (ast.For, ast.While)) and part.lineno == number for part in around):
            return file, number
    return stack[-1] if stack else None


def _largest(statements: Sequence[Any]) -> int:
    """Return the line of the outermost statement that does something itself. 0 without one."""
    return next((part.lineno for part in statements if not isinstance(part, FRAMES)), 0)


def deepest(stacks: Counter[tuple[Line, ...]]) -> Line | None:
    """Return the innermost statement in which nearly all of the time is spent."""
    place, in_all = None, sum(stacks.values())
    for depth in range(MOST_LINES):
        inner = Counter[Line]()
        for stack, count in stacks.items():
            if len(stack) > depth:
                inner[stack[depth]] += count
        line, count = inner.most_common(1)[0] if inner else (None, 0)
        if count < NEARLY_ALL * in_all:
            break
        place = line
        stacks = Counter({stack: count for stack, count in stacks.items() if stack[depth : depth + 1] == (line,)})
    return place


def _spans(node: Any, line: int) -> bool:
    return getattr(node, "lineno", 0) <= line <= getattr(node, "end_lineno", line)  # all of a file


@functools.lru_cache(maxsize=1000)
def statements_around(file: str, line: int) -> Sequence[Any]:
    """Return the innermost function around a line, or the whole file, and the statements in it around the line, the
    outermost first."""
    around: list[Any] = [_parsed(file)]
    while inner := next((node for node in _statements_in(around[-1]) if _spans(node, line)), None):
        around = [inner] if isinstance(inner, (ast.FunctionDef, ast.AsyncFunctionDef)) else [*around, inner]
    return around


def _statements_in(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the statements directly in a node, also those of `else`, `except` and `case`."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child
        elif not isinstance(child, ast.expr):
            yield from _statements_in(child)


@functools.lru_cache(maxsize=100)
def _parsed(file: str) -> ast.Module:
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return ast.Module([], [])
