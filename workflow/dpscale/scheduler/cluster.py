"""What a job asks a cluster's scheduler for: pure functions of the cell, the study and config/cluster.yaml.

Free of torch: this is read on login nodes.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpscale.errors import ClusterError
from dpscale.plan.cells import Configuration
from dpscale.plan.plan import plan
from dpscale.plan.study import Study
from dpscale.schemas.settings import BUILT_IN, TimingSettings, TrainingSettings
from dpscale.schemas.validation import load_schema, read_yaml, violations, with_defaults
from dpscale.strategies.known import strategy

# Host memory, in MB of 10^6 bytes. A process that trains holds Python, torch and, on a GPU, CUDA's context and
# libraries; a DataLoader's process holds Python and torch.
PROCESS_MB = 4000
LOADER_PROCESS_MB = 500
# 3 x 32 x 32 float32: the epoch of the compute scope lies in (pinned) host memory.
IMAGE_MB = 3 * 32 * 32 * 4 / 1e6
# 3 x 40 x 40 of 8 bits: an image with the padding that crops are cut out of.
PADDED_IMAGE_MB = 3 * 40 * 40 / 1e6
# Activations and gradients of ResNet-18 (width 64, float32): results/recorded has 4.8 to 6.7 MB an image from batch
# 128 on, as peak memory over batch. On a CPU they are host memory.
ACTIVATIONS_MB_PER_IMAGE = 7
FULL_WIDTH = 64

# In addition to the cell's own time limit: starting Snakemake twice in the job, a container, torch from a network disk.
START_MIN = 10


class Cluster:
    """A validated config/cluster.yaml with every default filled in. Raises ClusterError; `source` names it there."""

    def __init__(self, values: Mapping[str, Any], source: str = "cluster"):
        problems = violations("cluster", values)
        if problems:
            raise ClusterError(f"{source}: {'; '.join(problems)}. See config/README.md for every key.")
        self.values = with_defaults(load_schema("cluster"), values)

    @classmethod
    def read(cls, path: Path) -> "Cluster":
        """The cluster in a YAML file. Raises ClusterError, also where the file cannot be read."""
        return cls(read_yaml(path, ClusterError), source=str(path))

    @property
    def command_prefix(self) -> str:
        """What to put before a command that needs torch. Ends with a blank where it is not empty."""
        prefix = str(self.values["command_prefix"]).strip()
        return f"{prefix} " if prefix else ""

    @property
    def cells_per_job(self) -> int:
        """How many cells may share a job."""
        return int(self.values["cells_per_job"])

    def holds_gpus(self, settings: TimingSettings) -> bool:
        """Whether the cells of a study are jobs that hold GPUs."""
        return settings.device == "cuda" or bool(self.values["rehearsal"])

    def cell_options(self, settings: TimingSettings) -> dict[str, str | int]:
        """Options of the jobs of all cells of a study, by the names of Snakemake's executor for Slurm."""
        return self._options("gpu_jobs" if self.holds_gpus(settings) else "cpu_jobs")

    def cpu_options(self) -> dict[str, str | int]:
        """Options of the jobs that never hold a GPU."""
        return self._options("cpu_jobs")

    def laid_out(self, study: Study) -> Study:
        """The study on this cluster's nodes; unchanged where it names the GPUs of a node, or where no cell has more."""
        per_node = self.values["gpus_per_node"]
        if per_node is None or study["gpus_per_node"] is not None or study.most_gpus <= per_node:
            return study
        return study.changed(gpus_per_node=per_node)

    def gres(self, settings: TimingSettings, gpus: int) -> str:
        """The `gpus` of a cell's job on every node of the job, `gpu:v100:2`. Empty without GPUs."""
        if not self.holds_gpus(settings):
            return ""
        gpu_type = self.values["gpu_jobs"]["gpu_type"]
        return ":".join(["gpu", *([gpu_type] if gpu_type else []), str(gpus)])

    def _options(self, kind: str) -> dict[str, str | int]:
        jobs = self.values[kind]
        reservation = self.values["reservation"]
        extra = ["--exclusive"] * bool(jobs.get("exclusive"))
        extra += [f"--reservation={reservation}"] if reservation else []
        options = {
            "slurm_account": self.values["account"],
            "slurm_partition": jobs["partition"],
            "constraint": jobs["constraint"],
            "qos": self.values["qos"],
            "slurm_extra": " ".join(extra),
        }
        # One node: a job must never be spread over two unawares. The cluster chooses the options that are left out.
        return {"nodes": 1, **{name: value for name, value in options.items() if value}}


def on_one_node(study: Study) -> Study:
    """The study where no job can have several nodes: what was measured on several stays, nothing is added to it."""
    spanning = [cell for cell in plan(study).all_cells if cell.nodes > 1]
    if all((study.results / cell.path).exists() for cell in spanning):
        return study
    return study.changed(nodes_available=1)


# What a job of several nodes asks for beside `nodes`, by the names of Snakemake's executor for Slurm. With `mpi` it
# leaves starting the tasks to the job's own srun, which starts one launcher on every node; otherwise it would start the
# job in a step of its own on one node. It refuses `tasks_per_node: 1`, and would make `tasks` tasks per GPU. A resource
# that is None is not there.
def mpi(nodes: int) -> str | None:
    return "srun" if nodes > 1 else None


def tasks(nodes: int) -> int | None:
    return nodes if nodes > 1 else None


def tasks_per_gpu(nodes: int) -> int | None:
    return 0 if nodes > 1 else None


def launcher(nodes: int, cpus_per_task: int, shares_job: bool = False) -> str:
    """What starts the command of a cell: nothing where it has its job's one node, otherwise srun, once on every node.

    srun takes the cores per task of no variable since Slurm 22.05. One launcher that fails ends all. Ends with a blank
    where it is not empty.
    """
    if nodes == 1 and not shares_job:
        return ""
    return (
        f"srun --nodes={nodes} --ntasks={nodes} --cpus-per-task={cpus_per_task} --kill-on-bad-exit=1 --wait=10 --quiet "
    )


def nodes_option(nodes: int) -> str:
    """The option that tells a cell's command its nodes. Begins with a blank where it is not empty."""
    return f" --nodes {nodes}" if nodes > 1 else ""


def training_processes(configuration: Configuration) -> int:
    """Processes that train a configuration together."""
    return strategy(configuration.strategy).processes(configuration.gpus)


def cpus(settings: TimingSettings, configuration: Configuration) -> int:
    """On every node: a core per thread that feeds a GPU, or per worker on a CPU, and one per DataLoader process."""
    return configuration.gpus_per_node + _loader_processes(settings, configuration)


def memory_mb(settings: TimingSettings, configuration: Configuration, attempt: int) -> int:
    """Host memory of a cell's job on every node, in MB, `attempt` times what is expected: a job that runs out of it is
    retried. The first node has all images of an epoch: its first GPU trains alone too."""
    expected_mb = (
        _processes_per_node(configuration) * PROCESS_MB
        + _loader_processes(settings, configuration) * LOADER_PROCESS_MB
        + _batches_mb(settings, configuration)
    )
    if settings.device == "cpu":
        expected_mb += configuration.global_batch * ACTIVATIONS_MB_PER_IMAGE * settings.width / FULL_WIDTH
    return attempt * math.ceil(expected_mb)


def _batches_mb(settings: TimingSettings, configuration: Configuration) -> float:
    """What the batches of an epoch take on a node: those of a workload's file have a limit for every process."""
    if settings.workload == BUILT_IN:
        return settings.epoch_images * IMAGE_MB
    return _processes_per_node(configuration) * settings.batch_memory_gb * 1e3


def training_memory_mb(arm: TrainingSettings, nodes: int, attempt: int) -> int:
    """Host memory of a job that trains an arm, on every node, in MB: every process reads all images, in 8 bits; none
    loads any."""
    processes = _processes_per_node(Configuration.of_arm(arm, nodes))
    expected_mb = processes * (PROCESS_MB + arm.epoch_images * PADDED_IMAGE_MB)
    if arm.device == "cpu":
        expected_mb += arm.last_global_batch * ACTIVATIONS_MB_PER_IMAGE * arm.width / FULL_WIDTH
    return attempt * math.ceil(expected_mb)


def collectives_memory_mb(gpus: int, attempt: int) -> int:
    """Host memory of a job that times collectives on so many GPUs of every node, in MB: messages are small beside a
    process with torch."""
    return attempt * gpus * PROCESS_MB


def timeout_s(cell_timeout_s: float, attempt: int) -> float:
    """The time limit of a cell, in seconds: the study's, times the number of the attempt."""
    return attempt * cell_timeout_s


def runtime_min(cell_timeout_s: float, attempt: int) -> int:
    """The time limit of a cell's job, in minutes. It is above the cell's own limit, whose error message says more."""
    return math.ceil(timeout_s(cell_timeout_s, attempt) / 60) + START_MIN


def _processes_per_node(configuration: Configuration) -> int:
    return training_processes(configuration) // configuration.nodes


def _loader_processes(settings: TimingSettings, configuration: Configuration) -> int:
    """On every node."""
    if "end_to_end" not in settings.scopes:
        return 0
    return _processes_per_node(configuration) * settings.loader_workers
