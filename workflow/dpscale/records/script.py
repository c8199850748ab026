"""The record of a script that was run as it is: what its processes saw from inside (`diagnosis.attach`), and what
was seen from outside; and that of two scripts whose steps took turns. Times are in seconds, sizes in bytes.

A process leaves out what it did not look for, and None is what it could not find out. Both are the field's default.
"""

from collections.abc import Sequence
from typing import Annotated, Literal, dataclass_transform

from msgspec import Meta, Struct

NotNegative = Annotated[float, Meta(ge=0)]
Count = Annotated[int, Meta(ge=0)]


@dataclass_transform(frozen_default=True)
class _ScriptPart(Struct, frozen=True, forbid_unknown_fields=True):
    """Has no other keys, and is frozen, as all that inherit from it."""


class Optimiser(_ScriptPart, rename={"name": "class"}):
    """The first optimiser of a process, and how many it has."""

    name: str = ""
    count: int = 1


class Loader(_ScriptPart):
    """The DataLoader that most steps took a batch of."""

    workers: int = 0
    batches: int | None = None  # Of an epoch.
    samples: int | None = None
    iterable: bool = False
    threads_in_worker: int | None = None
    hashes: list[str] = []  # The smallest of those of samples in the first epoch.


class ProbeBlock(_ScriptPart):
    """A block of steps with one intervention (`dpscale.vocabulary.causes.PROBES`)."""

    round: Count
    probe: str
    steps: Annotated[int, Meta(ge=1)]  # Those that count: at which no epoch, evaluation or checkpoint began.
    seconds: float  # Of those steps.
    loading_s: float  # Of these, waiting for the loader.
    step_s: list[float]  # Of every one of the steps.
    parts: dict[str, float] = {}  # Seconds of a step by part (`vocabulary.causes.PARTS`), on average of usual ones.


class Line(_ScriptPart, kw_only=True):
    """A line of the script. A call from elsewhere has none."""

    file: str = ""
    line: int = 0
    code: str = ""


class LineTime(Line, kw_only=True):
    """Calls from a line of the script over the counted steps."""

    calls: int = 0
    seconds: float = 0.0


class StatementTime(Line, kw_only=True):
    """A statement in which the training thread was seen in steps as they are."""

    part: str  # Of the step, as hooks tell it.
    kind: str  # The same; of own code what the frames of libraries show, and `waiting` for a number of the GPU.
    samples: int
    inside: str = ""  # The line of the training that calls it, where it is called.


class Pause(Line, kw_only=True, rename={"event": "what"}):
    """A part of a pause, of one kind, with the statement of the script that was most often seen in it."""

    seconds: float
    after_step: int
    event: Literal["gc", "loader start", "checkpoint", "compile", "script"]  # It took at least half of the pause.
    border: Literal["epoch", "evaluation", "checkpoint"] | None = None
    kind: str = ""  # Of the statement (StatementTime).
    share: float = 1.0  # Of the pause's samples that are of this kind.
    inside: str = ""  # The line of the training that calls it, where it is called.


class Event(_ScriptPart):
    """All events of a kind since the warm-up."""

    count: int = 0
    seconds: float = 0.0
    longest_s: float | None = None


class ProcessEvents(_ScriptPart):
    """Events since the warm-up, by their kind."""

    gc: Event = Event()
    compile: Event = Event()
    worker_start: Event = Event()
    cudnn_search: Event = Event()


class Switches(_ScriptPart):
    """Switches of torch and of Python as they were at the end, or were seen to be on."""

    autocast: bool = False
    cudnn_benchmark: bool = False
    cudnn_benchmark_line: Line = Line()  # That switched it on.
    debugger: bool = False
    search_s: float = 0.0  # For unused parameters, over the counted steps.
    tf32: bool | None = None


class Machine(_ScriptPart):
    """The cores of the machine, and their use."""

    cores: int | None = None
    cores_usable: int | None = None
    numbers_of_cores: list[int] = []  # Those that the process may use.
    busy_share: float | None = None  # Of these.


class KernelProfile(_ScriptPart):
    """Kernels of a few steps on the GPU."""

    busy_share: float
    kernels_per_step: float


class Process(_ScriptPart):
    """A process of the script that made an optimiser step."""

    host: str
    pid: int
    rank: Count
    world_size: Annotated[int, Meta(ge=1)]
    status: Literal["measured", "observed", "few steps"]  # With interventions; without; or too short for either.
    steps: Count
    counted_steps: Count  # Steps without an intervention, over which calls are counted.
    blocks: list[ProbeBlock]
    wall_s: NotNegative  # From its first step.
    ended_by: Literal["time", "script"]  # When enough was measured, or by itself.
    device: Literal["cuda", "cpu"]
    backend: str | None = None
    python: str = ""
    torch: str = ""
    environment: dict[str, str] = {}  # Variables that change an exchange or launches.
    device_model: str | None = None
    device_bytes: int | None = None  # Of its memory.
    devices: int = 0  # GPUs that the process sees.
    gpu: str | None = None  # The one that it trains on: its UUID, or its name in CUDA_VISIBLE_DEVICES.
    strategy: Literal["ddp", "dp", "fsdp", "deepspeed", "other", "single"] | None = None
    optimiser: Optimiser | None = None
    parameter_bytes: float = 0
    gradient_bytes: float = 0
    dtypes: dict[str, float] = {}  # Elements of parameters by type.
    why: str | None = None  # It is only observed.
    warm_up_s: float | None = None  # Of `wall_s`.
    warm_up_steps: int = 0  # Of `steps`.
    micro_batches_per_step: int | None = None
    exchanges_per_step: int | None = None  # Micro-batches whose gradients are exchanged.
    batch: int | None = None
    loader: Loader | None = None
    collectives: list[LineTime] = []
    waits: list[LineTime] = []
    emptyings: list[LineTime] = []
    lines: list[StatementTime] = []
    gaps: list[Pause] = []
    events: ProcessEvents = ProcessEvents()
    switches: Switches = Switches()
    machine: Machine = Machine()
    flops_per_step: float | None = None
    profile: KernelProfile | None = None

    @property
    def loading(self) -> Loader:
        """Its loader, or one without workers where none was seen."""
        return self.loader or Loader()


class Stranger(_ScriptPart, kw_only=True, rename={"memory_bytes": "bytes"}):
    """A process of somebody else on a GPU."""

    pid: int
    name: str = ""  # Its program and its script; nothing where it is not seen here.
    memory_bytes: int | None = None


class ScriptRun(_ScriptPart, rename={"purpose": "what"}):
    """A run of the script."""

    # With interventions; with a clock of steps alone; or on one device.
    purpose: Literal["diagnosed", "paced", "one"]
    code: int | None  # Of the command; None where it was ended from outside.
    to_first_step_s: NotNegative
    wall_s: NotNegative
    other_cores: float  # Cores that were busy with other processes, on average.
    others_on_gpu: list[Stranger] | None  # Other processes on the GPUs that it used.
    processes: list[Process]


class ScriptRecord(_ScriptPart):
    """A script that was run as it is."""

    kind: Literal["script"]
    measurement_version: int  # Version of the measuring code.
    command: Annotated[list[str], Meta(min_length=1)]
    minutes: Annotated[float, Meta(gt=0)]  # Asked for, of all runs together, from each run's first step.
    started_at: str  # UTC, ISO 8601, as `finished_at`.
    finished_at: str
    dpscale_version: str
    one_unknown: str | None  # Why it was not run on one device beside; None where it was, or trains on one.
    runs: Annotated[list[ScriptRun], Meta(min_length=1)]  # In their order.

    @property
    def diagnosed(self) -> ScriptRun:
        """The run with interventions."""
        return next(run for run in self.runs if run.purpose == "diagnosed")

    def ranks(self, purpose: str) -> list[Process]:
        """Return the processes that trained in runs of a purpose, without those that made few steps beside others."""
        return trained([process for run in self.runs if run.purpose == purpose for process in run.processes])


def trained(processes: Sequence[Process]) -> list[Process]:
    """Return the processes that trained, without those that made few steps beside others."""
    return [process for process in processes if process.status != "few steps"] or list(processes)


def devices_of(ranks: Sequence[Process]) -> int:
    """Return the number of devices that train together: those of DataParallel's one process, or one of each rank."""
    return ranks[0].devices or 1 if ranks[0].strategy == "dp" else len(ranks)


class VersusBlock(Struct, frozen=True, forbid_unknown_fields=True):
    """Steps of one script without a step of the other: a block of both, or a whole run."""

    pair: int  # The block of A and the block of B that are neighbours have the same.
    script: Literal["A", "B"]
    steps: Annotated[int, Meta(ge=1)]
    seconds: Annotated[float, Meta(gt=0)]  # Of these steps. Pauses and steps at which an epoch began are none of them.
    samples: float | None  # Per step, of all ranks. None without a DataLoader.


class VersusRecord(Struct, frozen=True, forbid_unknown_fields=True):
    """Two scripts, A and B, whose steps took turns."""

    kind: Literal["versus"]
    measurement_version: int  # Version of the measuring code.
    commands: tuple[list[str], list[str]]  # Of A and of B.
    minutes: float  # Asked for, of all blocks together.
    started_at: str  # UTC, ISO 8601, as `finished_at`.
    finished_at: str
    dpscale_version: str
    turns: Literal["blocks", "runs"]  # Both were there and blocks took turns; or whole runs did, one at a time.
    why: str | None  # Whole runs took turns, or blocks ended before their time. None where neither.
    blocks: Annotated[list[VersusBlock], Meta(min_length=2)]  # In their order; a pair has both of its blocks.
