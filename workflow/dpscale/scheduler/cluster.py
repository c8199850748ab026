"""What a job asks a cluster's scheduler for: pure functions of the cell, the study and config/cluster.yaml.

Free of torch: this is read on login nodes.
"""

import math
import shlex
import sys
from pathlib import Path

import msgspec

from dpscale.errors import ClusterError
from dpscale.plan.cells import Configuration
from dpscale.plan.plan import plan
from dpscale.plan.study import Study
from dpscale.schemas.settings import BUILT_IN, JsonValues, TimingSettings
from dpscale.schemas.validation import load_schema, read_yaml, violations, with_defaults
from dpscale.strategies.known import strategy

# Host memory, in MB of 10^6 bytes. A process that trains holds Python, torch and, on a GPU, CUDA's context and
# libraries; a DataLoader's process holds Python and torch.
PROCESS_MB = 4000
LOADER_PROCESS_MB = 500
# 3 x 32 x 32 float32: the epoch of the compute scope lies in (pinned) host memory.
IMAGE_MB = 3 * 32 * 32 * 4 / 1e6

# In addition to the cell's own time limit: starting Snakemake twice in the job, a container, torch from a network disk.
START_MIN = 10

# A command begins with it, so that the `dpscale` of the environment that Snakemake runs in is found, also where that is
# not activated; and so that the nodes of a cell know each other by a secret, which stands on no command line.
SHELL_PREFIX = (
    f"set -euo pipefail; export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH "
    r"DPSCALE_SECRET=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n'); "
)


class Jobs(msgspec.Struct, frozen=True):
    """Options that jobs with GPUs, or those without, have beside those of all jobs."""

    partition: str | None
    constraint: str | None
    exclusive: bool = False
    gpu_type: str | None = None


class Cluster(msgspec.Struct, frozen=True):
    """A validated config/cluster.yaml with every default filled in; cluster.schema.yaml describes the keys."""

    account: str | None
    qos: str | None
    reservation: str | None
    command_prefix: str
    rehearsal: bool
    gpus_per_node: int | None
    cells_per_job: int
    gpu_jobs: Jobs
    cpu_jobs: Jobs

    @classmethod
    def of(cls, values: JsonValues, source: str = "cluster") -> "Cluster":
        """Return the cluster that is described by `values`. Raises ClusterError; `source` names the file in it."""
        if problems := violations("cluster", values):
            raise ClusterError(f"{source}: {'; '.join(problems)}. See config/README.md for every key.")
        return msgspec.convert(with_defaults(load_schema("cluster"), values), cls)

    @classmethod
    def read(cls, path: Path) -> "Cluster":
        """Read the cluster from a YAML file. Raises ClusterError, also where the file cannot be read."""
        return cls.of(read_yaml(path, ClusterError), source=str(path))

    @property
    def prefix(self) -> str:
        """The text before a command that needs torch. Ends with a blank where it is not empty."""
        return f"{self.command_prefix.strip()} ".lstrip()

    def holds_gpus(self, settings: TimingSettings) -> bool:
        """Return whether the cells of a study are jobs that hold GPUs."""
        return settings.device == "cuda" or self.rehearsal

    def cell_options(self, settings: TimingSettings) -> dict[str, str | int]:
        """Return the options of the jobs of all cells of a study, by the names of Snakemake's executor for Slurm."""
        return self._options(self.gpu_jobs if self.holds_gpus(settings) else self.cpu_jobs)

    def cpu_options(self) -> dict[str, str | int]:
        """Return the options of the jobs that never hold a GPU."""
        return self._options(self.cpu_jobs)

    def laid_out(self, study: Study) -> Study:
        """Return the study on this cluster's nodes; as it is where it names the GPUs of a node or no cell has more."""
        if self.gpus_per_node is None or study["gpus_per_node"] is not None or study.most_gpus <= self.gpus_per_node:
            return study
        return study.changed(gpus_per_node=self.gpus_per_node)

    def gres(self, settings: TimingSettings, gpus: int) -> str:
        """Return the `gpus` of a cell's job on every node of the job, `gpu:v100:2`. Empty without GPUs."""
        if not self.holds_gpus(settings):
            return ""
        return ":".join(filter(None, ["gpu", self.gpu_jobs.gpu_type, str(gpus)]))

    def _options(self, jobs: Jobs) -> dict[str, str | int]:
        extra = ["--exclusive"] * jobs.exclusive
        extra += [f"--reservation={self.reservation}"] if self.reservation else []
        options = {
            "slurm_account": self.account,
            "slurm_partition": jobs.partition,
            "constraint": jobs.constraint,
            "qos": self.qos,
            "slurm_extra": " ".join(extra),
        }
        # One node: a job must never be spread over two unawares. The cluster chooses the options that are left out.
        return {"nodes": 1, **{name: value for name, value in options.items() if value}}


def on_one_node(study: Study) -> Study:
    """Return the study where no job can have several nodes: what was measured on several stays, nothing is added."""
    spanning = [cell for cell in plan(study).all_cells if cell.nodes > 1]
    if all((study.results / cell.path).exists() for cell in spanning):
        return study
    return study.changed(nodes_available=1)


def launcher(nodes: int, cpus_per_task: int, shares_job: bool = False) -> str:
    """Return what starts the command of a cell once on every node, srun; empty where it has its job's one node.

    srun takes the cores per task of no variable since Slurm 22.05. One launcher that fails ends all. Ends with a blank
    where it is not empty.
    """
    if nodes == 1 and not shares_job:
        return ""
    return (
        f"srun --nodes={nodes} --ntasks={nodes} --cpus-per-task={cpus_per_task} --kill-on-bad-exit=1 --wait=10 --quiet "
    )


def cpus(settings: TimingSettings, configuration: Configuration) -> int:
    """Return the cores of a cell's job on every node: one per thread that feeds a GPU, or per worker on a CPU, and one
    per DataLoader process."""
    return configuration.gpus_per_node + _loader_processes(settings, configuration)


def memory_mb(settings: TimingSettings, configuration: Configuration, attempt: int) -> int:
    """Return the host memory of a cell's job on every node, in MB, `attempt` times what is expected: a job that runs
    out of it is retried. The first node has all images of an epoch: its first GPU trains alone too."""
    processes = _processes_per_node(configuration)
    expected_mb: float = processes * PROCESS_MB + _loader_processes(settings, configuration) * LOADER_PROCESS_MB
    if settings.workload == BUILT_IN:
        expected_mb += settings.epoch_images * IMAGE_MB
    else:
        expected_mb += processes * settings.batch_memory_gb * 1e3
    return attempt * math.ceil(expected_mb)


def processes_mb(gpus: int, attempt: int) -> int:
    """Return the host memory of a job that trains, or times collectives, on so many GPUs of every node, in MB: images
    in 8 bits and messages are small beside a process with torch."""
    return attempt * gpus * PROCESS_MB


def timeout_s(cell_timeout_s: float, attempt: int) -> float:
    """Return the time limit of a cell, in seconds: the study's, times the number of the attempt."""
    return attempt * cell_timeout_s


def runtime_min(cell_timeout_s: float, attempt: int) -> int:
    """Return the time limit of a cell's job, in minutes, above the cell's own limit, whose error message says more."""
    return math.ceil(timeout_s(cell_timeout_s, attempt) / 60) + START_MIN


def _processes_per_node(configuration: Configuration) -> int:
    return strategy(configuration.strategy).processes(configuration.gpus) // configuration.nodes


def _loader_processes(settings: TimingSettings, configuration: Configuration) -> int:
    """Return the number of DataLoader processes on every node."""
    if "end_to_end" not in settings.scopes:
        return 0
    return _processes_per_node(configuration) * settings.loader_workers
