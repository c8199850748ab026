"""Why more GPUs may not make a training step faster: plain data. Every cause once, every step that is timed, and what
can be tried at once.

`measure/worker/diagnosis.py` measures, `analyse/answer/causes.py` finds the cause, `present/diagnosis/page.py` says it.
To add a cause: a row here, its finder there, and a case among the injected ones of the tests.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Cause:
    """A cause: its name in records and tests, what it is called, what it is in one sentence, and what to change.

    `least_share` is the part of the step below which it is not named as the reason. `section` is that of a study's page
    which has the evidence, where a study can tell it.
    """

    name: str
    label: str
    sentence: str
    change: str
    least_share: float = 0.10
    section: str = ""


_CAUSES = (
    Cause(
        "started_twice",
        "started more than once",
        "The same program runs several times beside itself, and each run trains alone.",
        "Start the program once: a launcher such as torchrun starts one process per GPU, and each must join the same "
        "process group. `dpscale diagnose` starts its own processes: call it without a launcher.",
    ),
    Cause(
        "data_parallel",
        "DataParallel",
        "One process drives all GPUs, copies the weights to them in every step, and adds up gradients on one of them.",
        "Use DistributedDataParallel, with one process per GPU.",
        section="speedup",
    ),
    Cause(
        "slow_loader",
        "slow loader",
        "The steps wait for batches: loading takes longer than training on them.",
        "Use more loader workers, or make an item cheaper: decode once, store fewer and larger files, augment on the "
        "GPU.",
        section="speedup",
    ),
    Cause(
        "loading_disturbs",
        "loading disturbs the step",
        "Batches are there in time, and the step takes longer all the same: loading shares cores and the interpreter "
        "with it.",
        "Ask for more cores, or do less per item; or let the step need less of the host: a CUDA graph, or compile.",
        section="speedup",
    ),
    Cause(
        "too_many_workers",
        "too many loader workers",
        "Starting the loader's processes, and their work on the same cores, take time from the training.",
        "Use fewer loader workers, or keep them from epoch to epoch (persistent_workers=True).",
    ),
    Cause(
        "too_few_cores",
        "too few cores",
        "More processes compute than there are cores for them.",
        "Ask for more cores per task (Slurm: --cpus-per-task), and bind each rank to cores of its own.",
    ),
    Cause(
        "small_batch",
        "small batch, launch-bound",
        "A step this small takes as long as launching its operations: its time hardly depends on the batch.",
        "Use a larger batch per GPU; or capture the step in a CUDA graph, or compile it.",
        least_share=0.15,
        section="speedup",
    ),
    Cause(
        "batch_not_scaled",
        "batch not scaled",
        "The global batch stayed the same on more GPUs, so every GPU has a smaller one, on which it is less efficient.",
        "Keep the batch per GPU, so that the global batch grows with the GPUs, and adapt the learning rate.",
    ),
    Cause(
        "slow_link",
        "slow link",
        "The gradients travel over a link that is much slower than what these devices can have.",
        "Let NCCL use NVLink, peer-to-peer or shared memory: unset NCCL_P2P_DISABLE and NCCL_SHM_DISABLE, and look at "
        "`nvidia-smi topo -m` and the log of NCCL_DEBUG=INFO. Between nodes use InfiniBand.",
        section="communication",
    ),
    Cause(
        "heavy_gradients",
        "heavy gradients",
        "The link gives what it should, and the gradients are large beside the work of a step.",
        "Do more work per exchange: a larger batch per GPU, accumulated gradients (no_sync), or gradients in bfloat16.",
        section="communication",
    ),
    Cause(
        "slow_device",
        "slow or shared device",
        "One device is slower than the others, which wait for it in every step.",
        "Look for another process on it (nvidia-smi, top) and at its clocks and temperature; or leave it out.",
    ),
    Cause(
        "hidden_synchronisation",
        "hidden synchronisation",
        "The step asks the device for a number, and the host waits for it with nothing queued.",
        "Keep the number on the device (detach it), and read it once in many steps.",
    ),
)
CAUSES: Mapping[str, Cause] = MappingProxyType({cause.name: cause for cause in _CAUSES})
# What is found where no cause takes its least share: nothing is lost, surely; it is not sure that anything is; or it is
# not known where the loss is from.
NOTHING = Cause("nothing", "nothing wrong", "Nothing is wrong.", "Nothing.")
NO_CERTAIN_LOSS = Cause("no_certain_loss", "no certain loss", "It is not sure that anything is lost.", "Nothing.")
UNKNOWN = Cause("unknown", "no cause stands out", "What several devices lose has no cause that was found.", "Nothing.")

_ANSWERS = {**CAUSES, **{one.name: one for one in (NOTHING, NO_CERTAIN_LOSS, UNKNOWN)}}


def cause(name: str) -> Cause:
    """The cause of this name. Raises KeyError where there is none."""
    return _ANSWERS[name]


# The steps that are timed, by their names in records, in the words of texts. {devices} are GPUs or workers.
PROBES: Mapping[str, str] = MappingProxyType({
    "alone": "the plain step on one {device} alone",
    "together": "plain steps on all {devices} at once, nothing shared",
    "no_op_hook": "the whole DDP step without its allreduce",
    "training": "the whole DDP step, batches in memory",
    "dp": "the whole DataParallel step, batches in memory",
    "alone_reference": "as many samples in the global batch on one {device}",
    "alone_large": "as many samples in a larger batch on one {device}",
    "training_scaled": "the whole DDP step at a larger batch per {device}",
    "alone_graph": "the plain step on one {device} as a CUDA graph",
    "training_graph": "the whole DDP step as a CUDA graph",
    "bfloat16": "the whole step in bfloat16, batches in memory",
    "bfloat16_gradients": "the whole DDP step with gradients sent in bfloat16",
    "alone_unsynchronised": "the plain step on one {device} without waiting for numbers",
    "training_unsynchronised": "the whole step without waiting for numbers",
    "loader": "the loader alone",
    "end_to_end": "loader and step together",
    "end_to_end_fewer": "loader and step together, fewer loader workers",
    "end_to_end_more": "loader and step together, more loader workers",
    "end_to_end_all_cores": "loader and step together, on all cores of the machine",
    "end_to_end_unpinned": "loader and step together, batches in memory that is not pinned",
})  # fmt: skip

# What can be changed at once and timed, by name.
REMEDIES: Mapping[str, str] = MappingProxyType({
    "ddp": "DDP in place of DataParallel",
    "more_workers": "{loader_workers} loader workers per process",
    "fewer_workers": "{loader_workers} loader workers per process",
    "all_cores": "all cores of the machine",
    "larger_batch": "a batch of {batch_per_gpu:,} per {device}",
    "cuda_graph": "the step in a CUDA graph",
    "bfloat16": "computing in bfloat16",
    "bfloat16_gradients": "gradients sent in bfloat16",
    "pinned_memory": "pinned memory, which is on here",
    "no_waiting": "the same step without waiting for numbers",
    "full_link": "a link as fast as a plain copy",
    "without_device": "all devices as fast as the fastest",
    "one_launch": "one launch of all processes",
})  # fmt: skip
