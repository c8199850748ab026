"""Everything that reaches into Snakemake's internals, but for its executor for Slurm (executor.py).

Snakemake promises none of it, so pyproject.toml limits the versions of Snakemake and of its executor for Slurm.
"""

import atexit
import fcntl
import os
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from snakemake.common import configfile
from snakemake.settings import types
from snakemake.settings.enums import RerunTrigger

from dpscale.errors import ClusterError, StudyError
from dpscale.measure.parent import PRELOADED
from dpscale.records.outdated import Outdated
from dpscale.records.temporary import TemporaryFolder
from dpscale.scheduler import slurm
from dpscale.scheduler.cluster import Cluster, runtime_min
from dpscale.schemas.validation import read_yaml
from dpscale.terminal import say, with_names

if TYPE_CHECKING:
    from snakemake.jobs import Job
    from snakemake.workflow import Workflow


def read_studies_as_data() -> None:
    """Have Snakemake read study files as dpscale does. It would run Python in them, below the key `__use_yte__`, before
    it has read the Snakefile; so the package that Snakemake looks for loggers in calls this. A file that cannot be read
    ends the process with one line."""

    def load(path: str | Path) -> Any:
        try:
            values = read_yaml(Path(path), StudyError)
        except StudyError as error:
            sys.exit(f"Error: {with_names(str(error))}")
        if not isinstance(values, dict):
            sys.exit(f"Error: {path}: is no study: it has no keys")
        return values

    configfile.load_configfile = types.load_configfile = load


def measure_one_at_a_time(workflow: "Workflow") -> None:
    """Never let two measurements share a machine. On a cluster every job has its own GPUs, so the profile for Slurm
    sets a higher limit."""
    if "measuring" not in workflow.global_resources:
        workflow.register_resource("measuring", 1)


def ignore_clocks() -> None:
    """Never take a new output for wrong because an input is dated later, by a clock that is ahead."""

    from snakemake.dag import DAG  # which can be imported in a process of Snakemake alone

    async def accept(*_: object) -> None:
        pass

    DAG.check_output_mtime = accept


def never_incomplete(paths: Collection[str]) -> None:
    """Never take the files at `paths` for incomplete, whose run was killed before Snakemake had noted their end: they
    are whole where they exist."""

    from snakemake.dag import DAG

    marked = DAG.incomplete_files

    async def incomplete_files(dag: Any) -> list[Any]:
        return [file for file in await marked(dag) if str(file) not in paths]

    DAG.incomplete_files = incomplete_files


def keep_what_is_made(workflow: "Workflow") -> None:
    """Never delete a file because its job failed, in this process and in jobs: records are complete or not there, and
    Slurm may end a job after it wrote one. When a run starts: its settings are not known before."""
    workflow.execution_settings.keep_incomplete = True


def has_several_nodes(workflow: "Workflow") -> bool:
    """Return whether a job can have several nodes, which the profile for Slurm says: when the Snakefile is read,
    Snakemake has not chosen how to run jobs yet. A job that is already on the cluster plans nothing."""
    return not workflow.is_main_process or "spanning_nodes" in workflow.global_resources


def decide_by_results(workflow: "Workflow", outdated: Outdated) -> None:
    """Let the results and file times decide what is made, not what Snakemake stored of earlier runs.

    Results may come from another machine, and an edited rule or a new copy of the dataset is no reason to measure a
    cell again. Missing records are named too: Snakemake alone does not notice a missing record whose page exists.
    """
    workflow.dag_settings.rerun_triggers = {RerunTrigger.MTIME}
    workflow.dag.forcefiles.update(outdated.paths)


def preload(workflow: "Workflow", cells: int, device: str) -> None:
    """Load torch once for all cells of this run on a CPU, where this machine measures more than one."""
    if device != "cpu" or cells < 2 or workflow.executor_plugin.name != "local":
        return
    folder = TemporaryFolder()
    atexit.register(folder.cleanup)
    path = str(Path(folder.name, "workers"))
    command = [sys.executable, "-m", "dpscale.measure.worker.preloaded", path]
    subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.environ[PRELOADED] = path


def schedule_when_jobs_end(workflow: "Workflow") -> None:
    """Let Snakemake look for jobs to start when one has ended, and at no other time.

    With its default limit of 100 jobs a second, every look orders another one a second later, whatever is ordered
    already: after 20 jobs there are 20 looks a second, each with a solver in a process of its own. What is submitted
    at once is limited all the same: by the profile's `jobs`.
    """
    workflow.scheduler.job_rate_limiter = None


def jobs_to_run(workflow: "Workflow") -> list["Job"]:
    """Return the jobs that this run is going to start."""
    return list(workflow.dag.needrun_jobs())


def prepare_slurm(
    workflow: "Workflow",
    jobs: Iterable["Job"],
    cell_rules: Collection[str],
    cell_timeout_s: float,
    outdated: Outdated,
    cluster: Cluster,
) -> None:
    """Raise ClusterError before anything is submitted to Slurm if an earlier run is still going on, or if Slurm cannot
    run a job; then have Snakemake's executor wait for what passes, and share jobs. Without Slurm do nothing."""
    if workflow.executor_plugin.name != "slurm":
        return
    submitted = [job for job in jobs if not job.is_local]
    attempts = 1 + workflow.execution_settings.retries
    if cells := [job for job in submitted if job.rule.name in cell_rules]:
        slurm.require_no_running_jobs(Path.cwd(), workflow.executor_settings.jobname_prefix)
        # Jobs of a killed run may have written records after this run was planned: it would measure those again.
        if any(path.exists() for path in outdated.missing_records):
            raise ClusterError(
                "jobs of an earlier run have just finished: the same command again counts what they wrote"
            )
        last_min = cluster.cells_per_job * runtime_min(cell_timeout_s, attempts)
        slurm.require_time(cells[0].resources.get("slurm_partition"), last_min, attempts)
    slurm.require_possible((" ".join([str(job), *job.wildcards]), dict(job.resources.items())) for job in submitted)
    if submitted:
        _take_over_executor(workflow.scheduler, submitted[0], cell_rules, cluster.cells_per_job)


def _take_over_executor(scheduler: Any, job: "Job", cell_rules: Collection[str], cells_per_job: int) -> None:
    # They bring the executor, which runs without Slurm do not need.
    from dpscale.scheduler.executor import PatientExecutor, SharingExecutor

    executor = scheduler.get_executor(job)
    if cells_per_job == 1:
        PatientExecutor.take_over(executor, cell_rules=cell_rules)
        return
    # Snakemake counts every cell as a job.
    most_jobs, scheduler.resources["_nodes"] = scheduler.resources["_nodes"], sys.maxsize
    SharingExecutor.take_over(executor, cell_rules=cell_rules, cells_per_job=cells_per_job, most_jobs=most_jobs)


def partial_command(arguments: Sequence[str]) -> str:
    """Return the command for a page from what there is, as that of a run with `arguments`."""
    program = "snakemake" if shutil.which("snakemake") else os.path.relpath(Path(sys.executable).with_name("snakemake"))
    return shlex.join([program, "partial", *arguments])


# One run at a time in a folder, and no lock of a run that is gone. Snakemake's own lock is a list of files, which stays
# where its process is killed. So every run holds a file of its own besides, which the kernel frees with the process.
HERE = f" on {socket.gethostname()}"
HELD = Path(".snakemake/dpscale.lock")
SNAKEMAKES = Path(".snakemake/locks")


def lock_until_the_process_ends() -> None:
    """Have Snakemake's lock end with its process. A dry run takes none."""
    from snakemake.persistence import PersistenceBase  # which can be imported in a process of Snakemake alone

    snakemakes_lock = PersistenceBase.lock

    @contextmanager
    def lock(persistence: Any) -> Iterator[None]:
        with _held() as killed:
            if persistence.locked:
                _take_over(killed)
            with snakemakes_lock(persistence):
                yield

    PersistenceBase.lock = lock


@contextmanager
def _held() -> Iterator[str]:
    """Hold this folder. Gives the run that held it last and was killed, `process 12 on login-1`; empty where none was,
    or where the file system cannot tell. Ends this process where another run holds it."""
    with HELD.open("a+") as file:
        file.seek(0)
        holder = file.read()
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            sys.exit(f"Error: another run holds this folder ({holder}): wait until it has ended, or use another clone")
        except OSError:
            yield ""
            return
        file.truncate(0)
        file.write(f"process {os.getpid()}{HERE}")
        file.flush()
        try:
            yield holder
        finally:
            file.truncate(0)


def _take_over(killed: str) -> None:
    """Remove Snakemake's lock of a run on this machine that is gone. Ends this process where that is not known."""
    if not killed.endswith(HERE):
        sys.exit(
            f"Error: a run holds this folder, or was killed ({killed or 'where is not known'}). Where it is gone: "
            "make unlock, or the same command with --unlock"
        )
    say(f"the lock of a run that was killed is taken over: {killed}", sys.stderr)
    for file in SNAKEMAKES.glob("*.lock"):
        file.unlink()
