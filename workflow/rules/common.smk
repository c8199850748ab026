# The study, its plan, and which of its results are to be made again. No CUDA call and no torch here: this is read on
# login nodes and on GPU nodes alike, and must come out the same.

import argparse
import gc
import os.path
import shlex
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(workflow.basedir) / "workflow"))

from dpscale.analyse.names import TABLES
from dpscale.errors import DpscaleError
from dpscale.measure import MEASUREMENT_VERSIONS
from dpscale.present.standalone import heading_of
from dpscale import cluster, published, rerun, slurm, study
from dpscale.study import (
    CELL_PATH,
    COLLECTIVES_PATH,
    COMMUNICATION_PATH,
    TRAINING_PATH,
    CollectivesSettings,
    Configuration,
    NetworkSettings,
    Study,
    TrainingSettings,
    runnable_plan,
)
from snakemake.exceptions import WorkflowError
from snakemake.settings.enums import RerunTrigger

# Ten thousand jobs are millions of objects that all live to the end: at its default the garbage collector goes through
# them again and again.
gc.set_threshold(50_000, 50, 50)

# The package's command of the same environment as Snakemake itself, also where that is not activated.
shell.prefix(f"set -euo pipefail; export PATH={shlex.quote(str(Path(sys.executable).parent))}:$PATH; ")

STUDY_SOURCES = [os.path.relpath(path) for path in workflow.config_settings.configfiles] or ["config/config.yaml"]

try:
    STUDY = Study(config, source=" and ".join(STUDY_SOURCES))
    PLAN = runnable_plan(STUDY)
    PUBLISHED = published.read_all(STUDY["published"])
    CLUSTER = cluster.Cluster.read(Path(os.path.relpath(Path(workflow.basedir) / "config/cluster.yaml")))
except DpscaleError as error:
    raise WorkflowError(str(error))

RESULTS = STUDY.results
STUDY_FILE = RESULTS / study.STUDY_FILE
MANIFEST = RESULTS / study.DATASET_MANIFEST
NETWORK = RESULTS / study.NETWORK_FACTS
DATASET = MANIFEST.parent
RECORD = f"{RESULTS}/{CELL_PATH}.json"
COMMUNICATION_RECORD = f"{RESULTS}/{COMMUNICATION_PATH}.json"
COLLECTIVES_RECORD = f"{RESULTS}/{COLLECTIVES_PATH}.json"
TRAINING_RECORD = f"{RESULTS}/{TRAINING_PATH}.json"
RECORDS = [f"{RESULTS}/{cell.path}" for cell in PLAN.all_cells]
# The rules whose jobs measure.
CELL_RULES = {cell.rule for cell in PLAN.all_cells}
AUDITS = [RESULTS / published.AUDIT_PATH.format(id=id) for id in PUBLISHED]
TABLE_FILES = [RESULTS / f"tables/{name}.csv" for name in TABLES]
PAGE = STUDY.page
CHARTS = RESULTS / "charts"
PACKAGE = Path(workflow.basedir) / "workflow/dpscale"

# What the jobs ask for that make tables and page: CPU jobs.
PAGE_JOB = {**CLUSTER.cpu_options(), "mem_mb": 2000, "runtime": 10}

# What the jobs ask for that measure; each adds CPUs and memory.
CELL_JOB = {
    **CLUSTER.cell_options(STUDY.settings),
    "measuring": 1,
    "gres": lambda wildcards: CLUSTER.gres(STUDY.settings, gpus_of(wildcards)),
    "runtime": lambda wildcards, attempt: cluster.runtime_min(STUDY["cell_timeout_s"], attempt),
    "timeout_s": lambda wildcards, attempt: str(cluster.timeout_s(STUDY["cell_timeout_s"], attempt)),
}

# Two measurements must never share a machine. A cluster's profile, where every job has GPUs of its own, lifts this.
if "measuring" not in workflow.global_resources:
    workflow.register_resource("measuring", 1)

# What is missing, or there but not of this study. Records of the latter kind are renamed when the run starts, never
# deleted.
OUTDATED = rerun.find_outdated(STUDY, PLAN, RESULTS) if workflow.is_main_process else rerun.Outdated()
for reason in OUTDATED.reasons:
    print(f"to be measured again: {reason}", file=sys.stderr)


onstart:
    jobs = list(workflow.dag.needrun_jobs())
    if workflow.executor_plugin.name == "slurm":
        ask_slurm(jobs)
        seconds = workflow.remote_execution_settings.seconds_between_status_checks
        slurm.ask_steadily(workflow.executor_plugin.executor, seconds)
    measured = {str(path) for job in jobs for path in job.output}
    for aside in OUTDATED.set_aside(measured if not workflow.touch else set()):
        print(f"set aside: {aside}", file=sys.stderr)


onerror:
    print(
        f"\nWhat was measured is kept. Tables and page from it, with the log of every cell that failed:\n"
        f"  {partial_command()}\nThe same command as before measures only what is missing.",
        file=sys.stderr,
    )


def ask_slurm(jobs):
    """Stop before anything is submitted where an earlier run is still going, or where Slurm will not run a job."""
    cells = [job for job in jobs if job.rule.name in CELL_RULES]
    attempts = 1 + workflow.execution_settings.retries
    try:
        if cells:
            slurm.require_no_running_jobs(Path.cwd(), workflow.executor_settings.jobname_prefix)
            require_still_missing()
            last_min = cluster.runtime_min(STUDY["cell_timeout_s"], attempts)
            slurm.require_time(cells[0].resources.get("slurm_partition"), last_min, attempts)
        slurm.require_possible(
            [(" ".join([str(job), *job.wildcards]), job.resources) for job in jobs if not job.is_local]
        )
    except DpscaleError as error:
        raise WorkflowError(str(error))


def require_still_missing():
    """Stop where jobs of a killed run wrote records after this run was planned: it would measure those again."""
    if any(path.exists() for path in OUTDATED.missing_records):
        raise WorkflowError("jobs of an earlier run have just finished: the same command again counts what they wrote")


def partial_command():
    """The command for the page of this study from what there is, with the profile and the study of this run."""
    options = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    options.add_argument("--profile")
    options.add_argument("--configfile", "--configfiles", nargs="+", default=[])
    options.add_argument("--config", "-C", nargs="*", default=[])
    given, _ = options.parse_known_args(sys.argv[1:])
    program = "snakemake" if shutil.which("snakemake") else os.path.relpath(Path(sys.executable).with_name("snakemake"))
    where = ["--profile", given.profile] if given.profile else ["--cores", "1"]
    files = ["--configfile", *given.configfile] if given.configfile else []
    changes = ["--config", *given.config] if given.config else []
    return shlex.join([program, *where, "partial", *files, *changes])


def of_this_study(*paths):
    """Input files of a rule that collects results; those that are missing or not of this study are made.

    What is to be made is decided by the results themselves and by file times, not by Snakemake's own memory of
    earlier runs: results may come from another machine, and an edited rule or a re-made dataset is no reason to
    measure a cell again. Missing records are named too: Snakemake alone would not miss a record whose page stands.
    """
    workflow.dag_settings.rerun_triggers = {RerunTrigger.MTIME}
    workflow.dag.forcefiles.update(OUTDATED.paths)
    return paths


def gpus_of(wildcards):
    return STUDY.arms[wildcards.arm].gpus if hasattr(wildcards, "arm") else int(wildcards.gpus)


def configuration(wildcards):
    return Configuration(wildcards.strategy, int(wildcards.gpus), int(wildcards.batch))


def only_to_measure(source, record):
    """`source` as the only input of cells with `record`s: its time never counts. Where it is to be made, it is made
    for the cells that are to be measured, and is no input of the others.

    Then it is no `ancient` one: Snakemake would hold back a cell whose ancient input is being made, to be measured or
    not.
    """
    if source.exists() and str(source) not in OUTDATED.paths:
        return ancient(source)
    finished = set(RECORDS) - OUTDATED.paths if workflow.is_main_process else set()
    return lambda wildcards: [] if record.format(**wildcards) in finished else source


def chart_labels(wildcards):
    """One label: with two, and two charts, Snakemake's report would take the second for a switch."""
    return {"Chart": f"{wildcards.chart}: {heading_of(CHARTS / f'{wildcards.chart}.svg')}"}


def sources(*patterns):
    """Files of the package whose change makes a table or the page out of date; never a measurement."""
    return sorted(os.path.relpath(path) for pattern in patterns for path in PACKAGE.glob(pattern))


wildcard_constraints:
    strategy="single|dp|ddp",
    gpus=r"\d+",
    batch=r"\d+",
    run=r"\d+",
    arm="[a-z0-9][a-z0-9_-]*",
    seed=r"\d+",


localrules:
    study,
    all,
