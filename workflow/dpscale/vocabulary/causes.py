"""Why more GPUs may not make a training step faster: plain data. Every cause once, every step that is timed, and what
can be tried at once.

`measure/attach/` measures, `analyse/answer/causes.py` and `analyse/diagnosis/seen.py` find the cause,
`present/diagnosis/page.py` says it. To add a cause: a row here, its finder there, and a case of it among those of the
tests (`tests/analyse/diagnosis/`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Cause:
    """A cause: its name in records and tests, what it is called, what it is in one sentence, what to change, and the
    line of code to write.

    `least_share` is the part of the step below which it is not named as the reason. `section` is that of a study's page
    which has the evidence, where a study can tell it. What it costs is a part of what the causes `within` cost, and is
    not counted there again. One that `comes_first` is certain whatever was timed, and changes what all else means.
    """

    name: str
    label: str
    sentence: str
    change: str
    on_cpu: str = ""
    """What to change where workers are processes on a CPU, if that is something else."""
    code: str = ""
    least_share: float = 0.10
    section: str = ""
    within: tuple[str, ...] = ()
    comes_first: bool = False

    def change_on(self, device: str) -> str:
        """What to change, on a `GPU` or with a `worker`."""
        return self.on_cpu if device == "worker" and self.on_cpu else self.change


_EXCHANGE = ("slow_link", "heavy_gradients", "gloo_with_cuda", "link_switched_off", "interface")
_HOST = ("small_batch",)


_CAUSES = (
    Cause(
        "started_twice",
        "started more than once",
        "The same program runs several times beside itself, and each run trains alone.",
        "Start the program once: a launcher such as torchrun starts one process per GPU, and each must join the same "
        "process group.",
        code='torch.distributed.init_process_group("nccl")',
        comes_first=True,
    ),
    Cause(
        "data_parallel",
        "DataParallel",
        "One process drives all GPUs, copies the weights to them in every step, and adds up gradients on one of them.",
        "Use DistributedDataParallel, with one process per GPU: torchrun --nproc-per-node N.",
        code="model = DistributedDataParallel(model, device_ids=[local_rank])",
        section="speedup",
    ),
    Cause(
        "slow_loader",
        "slow loader",
        "The steps wait for batches: loading takes longer than training on them.",
        "Use more loader workers, or make an item cheaper: decode once, store fewer and larger files, augment on the "
        "GPU.",
        on_cpu="Use more loader workers, or make an item cheaper: decode once, store fewer and larger files.",
        code="DataLoader(..., num_workers=4, persistent_workers=True, pin_memory=True)",
        section="speedup",
    ),
    Cause(
        "loading_disturbs",
        "loading disturbs the step",
        "Batches are there in time, and the step takes longer all the same: loading shares cores and the interpreter "
        "with it.",
        "Ask for more cores, or do less per item; or let the step need less of the host: a CUDA graph, or compile.",
        on_cpu="Ask for more cores, or do less per item.",
        section="speedup",
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
        on_cpu="Use a larger batch per worker.",
        least_share=0.15,
        section="speedup",
    ),
    Cause(
        "batch_not_scaled",
        "batch not scaled",
        "The global batch stayed the same on more GPUs, so every GPU has a smaller one, on which it is less efficient.",
        "Keep the batch per GPU, so that the global batch grows with the GPUs, and adapt the learning rate.",
        on_cpu="Keep the batch per worker: the global batch grows with the workers. Adapt the learning rate.",
    ),
    Cause(
        "slow_link",
        "slow link",
        "The gradients travel over a link that is much slower than what these devices can have.",
        "Let NCCL use NVLink, peer-to-peer or shared memory: unset NCCL_P2P_DISABLE and NCCL_SHM_DISABLE, and look at "
        "`nvidia-smi topo -m` and the log of NCCL_DEBUG=INFO. Between nodes use InfiniBand.",
        on_cpu="Let gloo use the fastest network between the nodes: GLOO_SOCKET_IFNAME names its interface.",
        section="communication",
    ),
    Cause(
        "heavy_gradients",
        "heavy gradients",
        "The link gives what it should, and the gradients are large beside the work of a step.",
        "Do more work per exchange: a larger batch per GPU, accumulated gradients (no_sync), or gradients in bfloat16.",
        on_cpu="Do more work per exchange: a larger batch per worker, or accumulated gradients (no_sync).",
        code="model.register_comm_hook(None, default_hooks.bf16_compress_hook)",
        section="communication",
    ),
    Cause(
        "slow_device",
        "slow or shared device",
        "One device is slower than the others, which wait for it in every step.",
        "Look for another process on it (nvidia-smi, top) and at its clocks and temperature; or leave it out.",
        on_cpu="Look for other processes on its cores (top), or leave them out.",
        section="communication",
    ),
    Cause(
        "hidden_synchronisation",
        "hidden synchronisation",
        "The step asks the device for a number, and the host waits for it with nothing queued.",
        "Keep the number on the device (detach it), and read it once in many steps.",
        code="total += loss.detach()  # and total.item() every 100 steps",
        within=_HOST,
    ),
    Cause(
        "work_not_divided",
        "work not divided",
        "Every rank goes through the same samples, so that more of them do the same work more often.",
        "Give each rank its part of the samples.",
        code="DataLoader(..., sampler=DistributedSampler(dataset))",
        comes_first=True,
    ),
    Cause(
        "fixed_steps",
        "fixed total of steps",
        "The script makes as many steps on more GPUs as on one, each over more samples: the work grew with the GPUs.",
        "Divide the number of steps by the number of ranks, and adapt the learning rate.",
        code="max_steps = total_samples // (batch_per_gpu * world_size)",
        comes_first=True,
    ),
    Cause(
        "buffers",
        "buffers broadcast in every step",
        "DDP sends all buffers from rank 0 before each forward pass.",
        "Switch that off; with BatchNorm each rank then keeps its own statistics, and rank 0's are saved.",
        code="DistributedDataParallel(model, broadcast_buffers=False)",
        within=_EXCHANGE,
    ),
    Cause(
        "micro_batches",
        "every micro-batch synchronised",
        "Gradients are accumulated over several backward passes, and all of them are exchanged each time.",
        "Exchange them in the last backward pass alone.",
        code="with model.no_sync() if not is_last else nullcontext(): loss.backward()",
        within=_EXCHANGE,
    ),
    Cause(
        "scalars",
        "collectives of the script itself",
        "The script exchanges numbers itself, in many steps, and every rank waits for the others each time.",
        "Add them up on the device, and exchange the sum once an epoch.",
        code="total += loss.detach()  # one dist.all_reduce(total) an epoch",
    ),
    Cause(
        "unused_search",
        "search for unused parameters",
        "DDP goes through the whole graph in every step to find parameters without a gradient.",
        "Switch it off where all parameters are used, or tell DDP that the graph stays the same.",
        code="DistributedDataParallel(model, find_unused_parameters=False)",
        within=_EXCHANGE,
    ),
    Cause(
        "sharding",
        "sharded without need",
        "Parameters or the optimiser's state are sharded and gathered in every step, though one device holds them.",
        "Use plain DDP.",
        code="model = DistributedDataParallel(model, device_ids=[local_rank])",
    ),
    Cause(
        "gloo_with_cuda",
        "gloo with GPUs",
        "Gradients of GPUs are exchanged by gloo: through the memory of the host.",
        "Use NCCL.",
        code='torch.distributed.init_process_group("nccl")',
    ),
    Cause(
        "link_switched_off",
        "a fast link is switched off",
        "A variable of the environment keeps NCCL from its fast paths.",
        "Unset it, and look at the log of NCCL_DEBUG=INFO.",
        code="unset NCCL_P2P_DISABLE NCCL_SHM_DISABLE NCCL_IB_DISABLE",
    ),
    Cause(
        "interface",
        "a network interface is prescribed",
        "A variable names the interface that ranks talk over, and their exchange takes long.",
        "Name the fast interface (ip -br link, ethtool), or unset the variable.",
        code="unset NCCL_SOCKET_IFNAME GLOO_SOCKET_IFNAME",
    ),
    Cause(
        "uneven_ranks",
        "now one rank is late, now another",
        "In each step all wait for the slowest rank, which is another one each time: their batches differ in work.",
        "Give ranks batches of equal work: sort by length into buckets, or limit lengths or tokens per batch.",
    ),
    Cause(
        "loader_of_one_rank",
        "loader of one rank",
        "One rank waits longer for its batches than the others, which wait for it.",
        "Give all ranks the same share of samples, cores and disk; look at what that rank reads.",
    ),
    Cause(
        "workers_restarted",
        "workers restarted in every epoch",
        "The loader starts its processes anew for every epoch, and the step waits until the first batch is there.",
        "Keep them from epoch to epoch.",
        code="DataLoader(..., persistent_workers=True)",
        within=("slow_loader", "loading_disturbs"),
    ),
    Cause(
        "few_batches",
        "too few batches for the workers",
        "An epoch has about as few batches as there are workers: each builds one whole batch while the step waits.",
        "Use fewer workers, longer epochs, or smaller batches.",
        code="DataLoader(..., num_workers=2, persistent_workers=True)",
        within=("slow_loader", "loading_disturbs"),
    ),
    Cause(
        "validation",
        "validation",
        "All GPUs wait while the script validates.",
        "Validate less often, on fewer samples, or on all ranks at once.",
        code="if epoch % 5 == 0: validate(model)",
    ),
    Cause(
        "checkpoint",
        "checkpoints",
        "All GPUs wait while the script writes a checkpoint.",
        "Write less often, or in another thread from a copy in host memory.",
        code="torch.distributed.checkpoint.async_save(state)",
    ),
    Cause(
        "logging",
        "logging",
        "The steps wait while the script logs.",
        "Log once in many steps, and no histograms.",
        code="if step % 100 == 0: log(...)",
        within=_HOST,
    ),
    Cause(
        "own_code",
        "the script's own code between the steps",
        "Between the steps the script does something else for long, and the devices wait.",
        "Do it less often, or in another process.",
        within=_HOST,
    ),
    Cause(
        "anomaly",
        "anomaly detection",
        "Autograd keeps a traceback of every operation and looks for NaN in every gradient.",
        "Switch it off once the fault is found.",
        code="torch.autograd.set_detect_anomaly(False)",
        within=_HOST,
    ),
    Cause(
        "deterministic",
        "deterministic algorithms",
        "Only algorithms that give the same bits each time are used, and they are slower.",
        "Switch that off where the bits do not matter.",
        code="torch.use_deterministic_algorithms(False)",
    ),
    Cause(
        "no_tf32",
        "float32 without TF32",
        "Matrix products are computed in full float32, past the tensor cores.",
        "Allow TF32, or compute in bfloat16.",
        code='torch.set_float32_matmul_precision("high")',
    ),
    Cause(
        "float64",
        "float64",
        "The network computes in float64: half as fast or far slower than float32.",
        "Use float32; NumPy's arrays are float64 unless they are converted.",
        code="model.float(); x = x.float()",
    ),
    Cause(
        "compile_per_length",
        "compiled again and again",
        "The network is compiled anew for every new shape of a batch.",
        "Compile for changing shapes, or pad to a few sizes.",
        code="model = torch.compile(model, dynamic=True)",
    ),
    Cause(
        "cudnn_search",
        "cuDNN searches again and again",
        "With cudnn.benchmark, cuDNN tries all its algorithms for every new size of the images.",
        "Switch it off, or give all images one size.",
        code="torch.backends.cudnn.benchmark = False",
        within=("slow_loader", "loading_disturbs", *_HOST),
    ),
    Cause(
        "allocator_emptied",
        "memory given back in every step",
        "The script empties CUDA's cache in many steps, and all memory is allocated anew.",
        "Leave it to the allocator.",
        code="# torch.cuda.empty_cache()",
        within=_HOST,
    ),
    Cause(
        "debugger",
        "a debugger or blocking launches",
        "A debugger, a tracer or CUDA_LAUNCH_BLOCKING=1 makes every step wait.",
        "Run without.",
        code="unset CUDA_LAUNCH_BLOCKING",
        comes_first=True,
    ),
    Cause(
        "many_small_tensors",
        "optimiser of many small tensors",
        "The optimiser goes through its parameters one by one, with some operations for each.",
        "Let one operation update all of them.",
        code="torch.optim.AdamW(model.parameters(), fused=True)",
        within=_HOST,
    ),
    Cause(
        "garbage_collection",
        "garbage collection",
        "Python stops the steps to look through all its objects, and the ranks do so at different times.",
        "Freeze what stays, and collect at fixed steps on all ranks alike.",
        code="gc.collect(); gc.freeze(); gc.disable()",
        within=_HOST,
    ),
    Cause(
        "threads",
        "more threads than cores",
        "The threads of all ranks and loader workers together are more than there are cores.",
        "Give each rank its share of the cores, and each worker one thread.",
        code="torch.set_num_threads(1)  # in worker_init_fn; OMP_NUM_THREADS=cores // ranks",
        within=("slow_loader", "loading_disturbs"),
    ),
    Cause(
        "other_work",
        "other work on the machine",
        "Other processes use the cores or the GPU of this training.",
        "End them, or move the training (top, nvidia-smi): what else is told here was measured beside them.",
        comes_first=True,
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
    "alone_reference": "as many samples in the global batch on one {device}",
    "as_it_is": "the step as it is",
    "batch_kept": "the same with one batch kept, no loader",
    "no_allreduce": "the same without allreduce",
    "own_pace": "the same without allreduce and loader, the slowest {device} of each step",
    "no_buffers": "the same without sending buffers",
    "accumulated": "the same, micro-batches not synchronised",
    "no_waiting": "the same without waiting for numbers",
    "gc_off": "the same without garbage collection",
    "anomaly_off": "the same without anomaly detection",
    "deterministic_off": "the same with any algorithms",
    "precision": "the same in TF32",
    "autocast_bfloat16": "the same computing in bfloat16",
    "cudnn_benchmark_off": "the same without cuDNN's search",
    "fused_optimiser": "the same with the optimiser in one operation",
})  # fmt: skip

# What can be changed at once and timed, by name.
REMEDIES: Mapping[str, str] = MappingProxyType({
    "all_cores": "all cores of the machine",
    "cuda_graph": "the step in a CUDA graph",
    "bfloat16": "computing in bfloat16",
    "without_device": "all devices as fast as the fastest",
    "one_launch": "one launch of all processes",
    "in_time": "batches that are there in time",
    "switched_off": "the same step without it",
    "float32": "float32",
    "none_of_it": "a step that has none of it",
    "divided": "each rank its own part",
})  # fmt: skip
