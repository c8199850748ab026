"""Questions to Slurm before anything is submitted: is an earlier run still going on, and can Slurm run these jobs?"""

import getpass
import math
import shlex
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path

from dpscale.errors import ClusterError
from dpscale.scheduler.cluster import PROCESS_MB, SHELL_PREFIX, START_MIN, Cluster
from dpscale.schemas.settings import TimingSettings
from dpscale.terminal import tell

# The demands of a job, by the names of Snakemake's executor for Slurm, and as options of sbatch.
SBATCH_OPTIONS = {
    "slurm_account": "--account",
    "slurm_partition": "--partition",
    "constraint": "--constraint",
    "qos": "--qos",
    "nodes": "--nodes",
    "tasks": "--ntasks",
    "gres": "--gres",
    "cpus_per_task": "--cpus-per-task",
    "mem_mb": "--mem",
    "runtime": "--time",
}
ANSWER_S = 60


def require_no_running_jobs(folder: Path, name_prefix: str) -> None:
    """Raise ClusterError where jobs of an earlier run in `folder` are queued or running, or Slurm does not answer.

    That happens after Snakemake was killed: its jobs go on, and the same cells would be measured twice at once.
    """
    done = _run("squeue", f"--user={getpass.getuser()}", "--noheader", "--format=%i|%T|%Z|%j")
    if done.returncode != 0:
        raise ClusterError(f"Slurm does not say which jobs there are: {done.stderr.strip()}. Try again later")
    jobs = [line.split("|", 3) for line in done.stdout.splitlines()]
    alive = {
        number: state.lower()
        for number, state, workdir, name in jobs
        if Path(workdir) == folder and name.startswith(f"{name_prefix}_")
    }
    if alive:
        states = ", ".join(f"{number} {state}" for number, state in alive.items())
        raise ClusterError(
            f"jobs of an earlier run (or of another study's, going on now) in this folder are still there: {states}. "
            "Wait until they have ended, then run again: what they finish is kept. "
            f"Or cancel them first: scancel {' '.join(alive)}"
        )


def require_possible(jobs: Iterable[tuple[str, Mapping[str, object]]]) -> None:
    """Raise ClusterError where Slurm refuses what one of the `jobs` asks for. Nothing is submitted.

    `jobs` are names with what each asks for (the keys of SBATCH_OPTIONS, and `slurm_extra`); equal demands are
    tried once.
    """
    names: dict[tuple[str, ...], str] = {}
    for name, resources in jobs:
        names.setdefault(sbatch_options(resources), name)
    refusals = [(name, options, answer) for options, name in names.items() if (answer := _refusal(options))]
    if refusals:
        lines = [f"{name}: sbatch {shlex.join(options)}: {answer}" for name, options, answer in refusals]
        raise ClusterError(
            "Slurm will not run these jobs; nothing was submitted.\n  "
            + "\n  ".join(lines)
            + f"\nThis cluster offers:\n  {_offer()}\n"
            "Correct config/cluster.yaml (account, qos, reservation, GPU type, partition, constraint), or the study's "
            "gpus."
        )


def require_time(partition: str | None, minutes: int, attempts: int) -> None:
    """Raise ClusterError where a cell's last attempt asks for more minutes than `partition` (None: the default) gives.

    Under Slurm's default settings such a job is accepted, and then waits forever.
    """
    for line in _ask("sinfo", "--noheader", "--format=%P|%l").splitlines():
        name, limit = line.split("|")
        is_asked_for = name.endswith("*") if partition is None else name.rstrip("*") == partition
        if is_asked_for and minutes > limit_min(limit):
            raise ClusterError(
                f"attempt {attempts} of a job would ask for {minutes} min; partition {name.rstrip('*')} gives {limit} "
                "(days-hours:minutes:seconds). Lower cell_timeout_s in the study or cells_per_job in "
                "config/cluster.yaml, or name another partition there"
            )


def state_in_accounting(number: str) -> str:
    """Return the state of a job as the accounting has it, such as `CANCELLED`; empty where it has none."""
    state = _ask("sacct", "-X", "--noheader", "--parsable2", f"--jobs={number}", "--format=State")
    return state.strip().partition(" ")[0]  # CANCELLED by 1000


def reasons_to_wait(name: str) -> dict[str, str]:
    """Return why jobs of this name wait, in Slurm's words, each with the first expected start; `N/A` where unknown."""
    asked = _ask("squeue", f"--name={name}", "--states=PENDING", "--noheader", "--format=%S|%r")
    return {reason: start for start, reason in (line.split("|") for line in sorted(asked.splitlines(), reverse=True))}


def run_small_job(cluster: Cluster, settings: TimingSettings, command: str) -> int:
    """Run a command of dpscale in a job of one GPU that asks for what cells do, and return its exit code."""
    smallest = {"gres": cluster.gres(settings, 1), "cpus_per_task": 1, "mem_mb": PROCESS_MB, "runtime": START_MIN}
    options = sbatch_options({**cluster.cell_options(settings), **smallest})
    tell(f"waiting for a small job: srun {shlex.join(options)}")
    return subprocess.run(["srun", *options, "bash", "-c", f"{SHELL_PREFIX}{cluster.prefix}{command}"]).returncode


def limit_min(limit: str) -> float:
    """Return the minutes of a time limit as Slurm writes it: `infinite`, `30:00`, `12:00:00`, `7-00:00:00`."""
    if not limit[:1].isdigit():
        return math.inf
    days, _, clock = limit.rpartition("-")
    seconds = 0
    for digits in clock.split(":"):
        seconds = 60 * seconds + int(digits)
    return int(days or 0) * 24 * 60 + seconds / 60


def sbatch_options(resources: Mapping[str, object]) -> tuple[str, ...]:
    """Return the demands of a job as options of sbatch."""
    options = [f"{option}={resources[name]}" for name, option in SBATCH_OPTIONS.items() if resources.get(name)]
    return (*options, *shlex.split(str(resources.get("slurm_extra") or "")))


def _refusal(options: Iterable[str]) -> str | None:
    """Return Slurm's error message where it would refuse a job with these options, otherwise None."""
    done = _run("sbatch", "--test-only", *options, "--wrap=true")
    if done.returncode == 0:
        return None
    errors = [line.removeprefix("sbatch: error: ") for line in done.stderr.splitlines() if line.strip()]
    return "; ".join(errors) or f"exit code {done.returncode}"


def _offer() -> str:
    """Return partitions with their time limits, nodes and GPUs, and the user's accounts, as far as Slurm lists them."""
    offered = "partition %R: %D nodes, %c cores, %m MB, GPUs %G, features %f, at most %l"
    partitions = _ask("sinfo", "--noheader", f"--format={offered}")
    mine = ["show", "associations", f"user={getpass.getuser()}", "format=account,qos"]
    accounts = _ask("sacctmgr", "--noheader", "--parsable2", *mine)
    return "\n  ".join([*partitions.splitlines(), "your accounts, each with its QOS:", *accounts.splitlines()])


def _ask(*command: str) -> str:
    """Return the output of a command; empty where it fails: a question without an answer is no reason to stop."""
    try:
        done = _run(*command)
    except ClusterError:
        return ""
    return done.stdout if done.returncode == 0 else ""


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a command. Raises ClusterError where the program is missing or does not answer."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ClusterError(
            f"{error}. Use --profile slurm on a cluster's login node, and while Slurm answers"
        ) from error
