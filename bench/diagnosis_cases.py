"""The cases of `bench/diagnose_scripts.py`: causes in scripts of `bench/diagnosed`, and which answer is right.

A cause that the vocabulary does not have is a line of the script: right is the line, told as the script's own code.
"""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dpscale.analyse.causes import FoundCause
from dpscale.diagnosis.diagnose import Diagnosis
from dpscale.vocabulary.causes import NOTHING

SCRIPTS = Path(__file__).with_name("diagnosed")
OWN_CODE = "own_code"
# What no finder knows: each is a block of a script, `if has("ema"):`.
LINES = (
    "python_loop", "slow_metric", "item_norms", "hashes", "sleep",
    "ema", "weights_to_numpy", "deepcopy", "json_stats", "subprocess",
    "regex", "lock", "sorting", "sequence_table",
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A cause in a script, the script's options, and what it is started by.

    `also` are other causes that are as right an answer. Without the cause the script has the options `off`, if they are
    others, or so many processes; then its step is another one, and what it saves is not compared. `healthy` is what is
    true of it then, too.
    """

    script: str
    cause: str
    options: str = ""
    also: Sequence[str] = ()
    healthy: Sequence[str] = ()
    off: str | None = None
    prefix: str = ""
    """Words before the command that starts it, with {core}."""
    variables: str = ""
    """Of the environment; {folder} is that of the scripts."""
    processes: int = 2
    processes_off: int | None = None
    gpus: int = 1
    times_minutes: float = 1.0
    """It is measured for so many times the minutes."""
    busy_beside: int = 0
    """Processes of somebody else that never rest."""
    saves: bool = True
    """Whether the cure makes a step shorter."""
    shows_processes: bool = False
    """Whether the command says how many processes it starts, so that it is run on one device too."""

    @property
    def path(self) -> Path:
        return SCRIPTS / f"{self.script}.py"

    @property
    def answer(self) -> str:
        """The cause that is right to name first."""
        return OWN_CODE if self.cause in LINES else self.cause

    @property
    def script_off(self) -> str:
        """What tells its script without the cause from others: cases that have it in common need one run of it."""
        options = self.options if self.off is None else self.off
        has_own_cure = self.cause in _causes_in_calls(ast.parse(self.path.read_text()), "is_about")
        parts = (self.script, options, self.cause if has_own_cure else "", self.processes_off or self.processes)
        return " ".join(map(str, (*parts, self.gpus, self.shows_processes)))

    @property
    def is_same_off(self) -> bool:
        """Whether its step without the cause is the same one, but for the cause."""
        return self.saves and self.off is None and self.processes_off is None


def on_cpu() -> Iterator[Case]:
    """Yield the cases of two CPU workers each."""
    narrow = "--batch 96 --width 32 --layers 150"
    for script in ("mlp", "resnet", "gpt"):
        yield Case(script, NOTHING.name)
        yield Case(script, "validation")
        yield Case(script, "checkpoint")
        yield Case(script, "logging")
    yield Case("mlp", "slow_loader")
    yield Case("mlp", "loader_of_one_rank")
    yield Case("mlp", "workers_restarted")
    yield Case("mlp", "few_batches", also=("workers_restarted",))
    yield Case("mlp", "work_not_divided", saves=False)
    yield Case("mlp", "started_twice", saves=False)
    yield Case("mlp", "fixed_steps", "--steps 300", saves=False, shows_processes=True, times_minutes=2)
    yield Case("mlp", "heavy_gradients", "--batch 32 --width 1024", off="")
    yield Case("mlp", "interface", "--batch 32 --width 1024", off="", variables="GLOO_SOCKET_IFNAME=lo")
    yield Case("mlp", "small_messages", "--batch 4 --width 16 --layers 2", off="")
    yield Case("mlp", "scalars")
    yield Case("mlp", "own_exchange", narrow)
    yield Case("mlp", "unused_search", narrow)
    yield Case("mlp", "sharding", "--batch 512 --layers 8")
    yield Case("mlp", "many_small_tensors", narrow)
    yield Case("mlp", "float64")
    yield Case("mlp", "garbage_collection")
    yield Case("mlp", "too_few_cores", prefix="taskset -c {core}")
    yield Case("resnet", "slow_loader")
    yield Case("resnet", "loading_disturbs", also=("slow_loader",))
    yield Case("resnet", "threads")
    yield Case("resnet", "slow_device")
    yield Case("resnet", "buffers")
    yield Case("resnet", "anomaly")
    yield Case("resnet", "other_work", busy_beside=2)
    yield Case("gpt", "micro_batches", "--batch 1 --width 128")
    yield Case("gpt", "uneven_ranks")
    yield Case("gpt", "batch_not_scaled", "--batch 2 --width 16 --layers 12", saves=False, shows_processes=True)
    yield Case("gpt", "anomaly")
    yield Case("gpt", "compile_per_length")
    yield Case("gpt", "debugger", "--batch 1 --width 16 --layers 12")
    yield Case("gpt", "garbage_collection")
    for cause in ("python_loop", "slow_metric", "item_norms", "hashes", "sleep"):
        yield Case("mlp", cause)
    for cause in ("ema", "weights_to_numpy", "deepcopy", "json_stats", "subprocess"):
        yield Case("resnet", cause)
    for cause in ("regex", "lock", "sorting", "sequence_table"):
        yield Case("gpt", cause)


def on_gpu() -> Iterator[Case]:
    """Yield the cases of one GPU each, then those of two."""
    small = "--batch 1 --width 64 --layers 12"
    for script in ("mlp", "resnet", "gpt"):
        yield Case(script, NOTHING.name, processes=1)
    for script, *causes in (
        ("mlp", "float64", "no_tf32", "allocator_emptied", "logging", "garbage_collection"),
        ("mlp", "python_loop", "slow_metric", "hashes", "sleep"),
        ("resnet", "slow_loader", "cudnn_search", "validation", "deterministic"),
        ("resnet", "ema", "weights_to_numpy", "json_stats", "subprocess"),
        ("gpt", "hidden_synchronisation", "no_tf32", "checkpoint", "logging", "compile_per_length", "anomaly"),
        ("gpt", "regex", "lock", "sorting", "sequence_table"),
    ):
        yield from (Case(script, cause, processes=1) for cause in causes)
    yield Case("gpt", "small_batch", small, also=("many_small_tensors",), off="", processes=1)
    yield Case("gpt", "many_small_tensors", small, ("small_batch",), ("small_batch",), processes=1)
    yield Case("gpt", "debugger", variables="CUDA_LAUNCH_BLOCKING=1", processes=1, saves=False)
    heavy = "--batch 512"
    slow = "NCCL_CONF_FILE={folder}/slow_link.conf"
    for case in (
        *(Case(script, NOTHING.name) for script in ("mlp", "resnet", "gpt")),
        Case("mlp", "heavy_gradients", heavy, off=""),
        Case("mlp", "gloo_with_cuda", heavy),
        Case("mlp", "link_switched_off", heavy, variables="NCCL_P2P_DISABLE=1 NCCL_SHM_DISABLE=1"),
        Case("mlp", "slow_link", heavy, variables=slow),
        Case("mlp", "interface", heavy, variables=f"{slow} NCCL_SOCKET_IFNAME=lo"),
        Case("mlp", "sharding", heavy),
        Case("mlp", "scalars"),
        Case("mlp", "work_not_divided", saves=False),
        Case("mlp", "unused_search", "--batch 512 --width 64 --layers 200", healthy=("small_batch",)),
        Case("resnet", "buffers"),
        Case("resnet", "slow_device"),
        Case("resnet", "data_parallel", processes=1, processes_off=2),
        Case("resnet", "cudnn_search_per_thread", also=("data_parallel",), healthy=("data_parallel",), processes=1),
        Case("gpt", "micro_batches"),
        Case("gpt", "uneven_ranks"),
        Case("gpt", "batch_not_scaled", "--batch 2", saves=False, shows_processes=True),
    ):
        yield Case(**{**vars(case), "gpus": 2})


CASES = {"cpu": tuple(on_cpu()), "cuda": tuple(on_gpu())}


def injected_lines(case: Case) -> list[tuple[int, int]]:
    """Return the first and the last lines of the blocks that the cause of a case brings into its script.

    Those are the blocks under `if has(CAUSE):`, and the functions of the script that are called nowhere else.
    """
    tree = ast.parse(case.path.read_text())
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    conditions = [node for node in ast.walk(tree) if isinstance(node, ast.If)]
    blocks = [condition for condition in conditions if case.cause in _causes_in_calls(condition.test, "has")]
    inside = [name for block in blocks for statement in block.body for name in _names(statement)]
    everywhere = list(_names(tree))
    own = [functions[name] for name in inside if name in functions and everywhere.count(name) == inside.count(name)]
    spans = [(block.body[0].lineno, block.body[-1].end_lineno) for block in blocks]
    spans += [(function.lineno, function.end_lineno) for function in own]
    return [(first, last or first) for first, last in spans]


def _causes_in_calls(tree: ast.AST, function: str) -> set[object]:
    """Return the causes that a script asks a function for: `has("ema")`."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == function]
    return {word.value for call in calls for word in call.args if isinstance(word, ast.Constant)}


def _names(tree: ast.AST) -> Iterator[str]:
    """Yield the names that are read in it, with those of attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


def first_place(reason: FoundCause) -> str:
    """Return the place that a reason names first: `train.py, line 7: loss.item()`."""
    return next((note for note in reason.notes if ", line " in note), "")


def is_right(case: Case, reason: FoundCause) -> bool:
    """Tell whether a reason is what the case has: its cause, or, where no finder knows that, its line, named first."""
    if case.cause not in LINES:
        return reason.cause.name in (case.cause, *case.also)
    file, _, rest = first_place(reason).partition(", line ")
    number = rest.partition(":")[0]
    is_here = Path(file).name == case.path.name and number.isdecimal()
    return (
        reason.cause.name == OWN_CODE
        and is_here
        and any(first <= int(number) <= last for first, last in injected_lines(case))
    )


def account_deviation(diagnosis: Diagnosis) -> float:
    """Return how far the parts of a step are from adding up to it: the largest deviation, as a share of the step."""
    total_s = sum(part.seconds.value for part in diagnosis.parts)
    return abs(total_s / diagnosis.whole_s.value - 1)
