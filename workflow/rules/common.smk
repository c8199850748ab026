# The study, its plan, and which of its results are to be made again. No CUDA call and no torch here: this is read on
# login nodes and on GPU nodes alike, and must come out the same.

import gc
import os.path
import shlex
import sys
from pathlib import Path
from xml.etree import ElementTree

sys.path.insert(0, str(Path(workflow.basedir) / "workflow"))

from dpscale.tables.row import read_rows
from dpscale.tables.tables import TABLES
from dpscale.audit.published import AUDIT_PATH, outdated_audits, read_all
from dpscale.errors import DpscaleError
from dpscale.measure.watch.nvml import model_here
from dpscale.plan import cells
from dpscale.plan.cells import Configuration
from dpscale.plan.plan import runnable_plan
from dpscale.plan.study import DATASET_MANIFEST, NETWORK_FACTS, STUDY_FILE, Study
from dpscale.records.collect import paths_of_own_files
from dpscale.records.outdated import Outdated, find_outdated
from dpscale.records.progress import Progress
from dpscale.scheduler import cluster
from dpscale.scheduler.snakemake import lock_until_the_process_ends
from dpscale.scheduler.logger import follow
from dpscale.scheduler.snakemake import (
    decide_by_results,
    ignore_clocks,
    jobs_to_run,
    keep_what_is_made,
    measure_one_at_a_time,
    never_incomplete,
    partial_command,
    preload,
    has_several_nodes,
    prepare_slurm,
    schedule_when_jobs_end,
)
from dpscale.schemas.settings import BUILT_IN, CollectivesSettings, NetworkSettings, StepSettings
from dpscale.strategies.known import STRATEGIES
from dpscale.terminal import tell, with_names
from snakemake.exceptions import WorkflowError
from snakemake.logging import logger

# Ten thousand jobs are millions of objects that are all needed until the end. With its default thresholds the garbage
# collector would visit them again and again.
gc.set_threshold(50_000, 50, 50)

shell.prefix(cluster.SHELL_PREFIX)

STUDY_SOURCES = [os.path.relpath(path) for path in workflow.config_settings.configfiles] or ["config/config.yaml"]

try:
    CLUSTER = cluster.Cluster.read(Path(os.path.relpath(Path(workflow.basedir) / "config/cluster.yaml")))
    STUDY = CLUSTER.laid_out(Study(config, source=" and ".join(STUDY_SOURCES)))
    if not has_several_nodes(workflow):
        STUDY = cluster.on_one_node(STUDY)
    PLAN = runnable_plan(STUDY)
    PUBLISHED = read_all(STUDY["published"])
except DpscaleError as error:
    sys.exit(f"Error: {with_names(str(error))}")  # one line; a WorkflowError would begin with this file and its line

RESULTS = STUDY.results
STUDY_JSON = RESULTS / STUDY_FILE
MANIFEST = RESULTS / DATASET_MANIFEST
NETWORK = RESULTS / NETWORK_FACTS
DATASET = MANIFEST.parent
IMAGES = f"--dataset {shlex.quote(str(DATASET))}" if STUDY.settings.workload == BUILT_IN else ""
TIMING_RECORD = f"{RESULTS}/{cells.TimingCell.path_pattern}.json"
VARIANT_RECORD = f"{RESULTS}/{cells.VariantCell.path_pattern}.json"
COMMUNICATION_RECORD = f"{RESULTS}/{cells.CommunicationCell.path_pattern}.json"
COLLECTIVES_RECORD = f"{RESULTS}/{cells.CollectivesCell.path_pattern}.json"
TRAINING_RECORD = f"{RESULTS}/{cells.TrainingCell.path_pattern}.json"
# All but those that a recorded study keeps in the files of its runs.
RECORDS = [f"{RESULTS}/{path}" for path in paths_of_own_files(RESULTS, PLAN.all_cells, STUDY.settings)]
# The rules whose jobs measure.
CELL_RULES = {cell.rule for cell in PLAN.all_cells}
AUDITS = [RESULTS / AUDIT_PATH.format(id=study.id) for study in PUBLISHED.values()]
TABLE_FILES = [RESULTS / f"tables/{name}.csv" for name in TABLES]
PAGE = STUDY.page
AUDIT_PAGE = STUDY.audit_page(PAGE) or []
CHARTS = RESULTS / "charts"
PACKAGE = Path(workflow.basedir) / "workflow/dpscale"

# Resources of the jobs that make tables and page: CPU jobs.
PAGE_JOB = {**CLUSTER.cpu_options(), "mem_mb": lambda wildcards, attempt: 2000 * attempt, "runtime": 10}


def gpus_of(wildcards):
    return STUDY.arms[wildcards.arm].gpus if hasattr(wildcards, "arm") else int(wildcards.gpus)


def nodes_of(wildcards):
    return STUDY.nodes_of(gpus_of(wildcards))


def gpus_per_node_of(wildcards):
    return gpus_of(wildcards) // nodes_of(wildcards)


# Resources of the jobs that measure; each adds CPUs and memory, per node.
CELL_JOB = {
    **CLUSTER.cell_options(STUDY.settings),
    "measuring": 1,
    "nodes": nodes_of,
    # Of several nodes. With `mpi` the executor leaves starting the tasks to the job's own srun, which starts one launcher
    # on every node; otherwise it would start the job in a step of its own on one node. It refuses `tasks_per_node: 1`, and
    # would make `tasks` tasks per GPU. A resource that is None is not there.
    "mpi": lambda wildcards: "srun" if nodes_of(wildcards) > 1 else None,
    "tasks": lambda wildcards: nodes_of(wildcards) if nodes_of(wildcards) > 1 else None,
    "tasks_per_gpu": lambda wildcards: 0 if nodes_of(wildcards) > 1 else None,
    "gres": lambda wildcards: CLUSTER.gres(STUDY.settings, gpus_per_node_of(wildcards)),
    "runtime": lambda wildcards, attempt: cluster.runtime_min(STUDY["cell_timeout_s"], attempt),
    "timeout_s": lambda wildcards, attempt: str(cluster.timeout_s(STUDY["cell_timeout_s"], attempt)),
}

SHARE_JOBS = CLUSTER.cells_per_job > 1 and has_several_nodes(workflow)

# The begin of the commands that measure.
CELL_PARAMS = {
    "launcher": lambda wildcards, resources: cluster.launcher(nodes_of(wildcards), resources.cpus_per_task, SHARE_JOBS),
    "prefix": CLUSTER.prefix,
    "nodes": lambda wildcards: f" --nodes {nodes_of(wildcards)}" if nodes_of(wildcards) > 1 else "",
}

measure_one_at_a_time(workflow)
ignore_clocks()
never_incomplete(set(RECORDS))
lock_until_the_process_ends()

# Results that are missing, or that are not of this study. Such records are renamed when the run starts, never deleted.
OUTDATED = Outdated()
if workflow.is_main_process:
    OUTDATED = find_outdated(STUDY, PLAN, RESULTS, also=outdated_audits(STUDY["published"], RESULTS))
for reason in OUTDATED.reasons:
    tell(f"to be measured again: {reason}", err=True)


onstart:
    keep_what_is_made(workflow)
    jobs = jobs_to_run(workflow)
    try:
        prepare_slurm(workflow, jobs, CELL_RULES, STUDY["cell_timeout_s"], OUTDATED, CLUSTER)
    except DpscaleError as error:
        raise WorkflowError(str(error))
    measured = {str(path) for job in jobs for path in job.output}
    for aside in OUTDATED.set_aside(measured if not workflow.touch else set()):
        tell(f"set aside: {aside}", err=True)
    schedule_when_jobs_end(workflow)
    preload(workflow, sum(job.rule.name in CELL_RULES for job in jobs), STUDY["device"])
    begun = [cell for cell in PLAN.all_cells if str(RESULTS / cell.path) in measured]
    gpu = CLUSTER.gpu_jobs.gpu_type if has_several_nodes(workflow) else model_here()
    follow(workflow, Progress(STUDY, RESULTS, begun, gpu))


onsuccess:
    if {job.rule.name for job in workflow.dag.needrun_jobs(exclude_finished=False)} & {"report", "partial"}:
        from dpscale.present.findings.cautions import slow_servers

        for sentence in slow_servers(read_rows(TABLES["servers"], RESULTS / "tables/servers.csv")):
            tell(sentence, err=True)
        tell(f"page: {PAGE}", err=True)


onerror:
    logger.error(
        f"What was measured is kept. Tables and page from it, with the log of every cell that failed:\n"
        f"  {partial_command(sys.argv[1:])}\nThe same command as before measures only what is missing."
    )


def of_this_study(*paths):
    """Input files of a rule that collects results; those that are missing or not of this study are made."""
    decide_by_results(workflow, OUTDATED)
    return paths


def configuration(wildcards):
    place = wildcards.strategy, int(wildcards.gpus), int(wildcards.batch_per_gpu)
    return Configuration(*place, nodes_of(wildcards))


def settings_of(wildcards):
    return STUDY.variants[wildcards.variant].settings


def is_in_strong_series(wildcards):
    return configuration(wildcards).global_batch in STUDY["strong_scaling_global_batch"]


def only_to_measure(source, record):
    """`source` as the only input of cells with a `record`: its file time is ignored. Where it is to be made, it is an
    input of the cells that are to be measured, and of no others.

    It is then not `ancient`: Snakemake would make every cell wait whose ancient input is being made, also the finished
    ones.
    """
    if source.exists() and str(source) not in OUTDATED.paths:
        return ancient(source)
    finished = set(RECORDS) - OUTDATED.paths if workflow.is_main_process else set()
    return lambda wildcards: [] if record.format(**wildcards) in finished else source


def only_with_images(record):
    """The images as the input of cells with a `record`. A workload's file has its own samples."""
    return only_to_measure(MANIFEST, record) if STUDY.settings.workload == BUILT_IN else []


def chart_labels(wildcards):
    """One label: with two labels, and two charts, Snakemake's report would make a toggle of the second."""
    heading = ElementTree.parse(CHARTS / f"{wildcards.chart}.svg").getroot().get("aria-label")
    return {"Chart": f"{wildcards.chart}: {heading}"}


def code_of(*folders):
    """Every file in these folders of the package. A change makes tables or page out of date, never a measurement."""
    files = (path for folder in folders for path in (PACKAGE / folder).rglob("*") if path.is_file())
    return sorted(os.path.relpath(path) for path in files if "__pycache__" not in path.parts)


wildcard_constraints:
    strategy="|".join(STRATEGIES),
    gpus=r"\d+",
    batch_per_gpu=r"\d+",
    run=r"\d+",
    variant="[a-z0-9][a-z0-9_+-]*",
    arm="[a-z0-9][a-z0-9_-]*",
    seed=r"\d+",


localrules:
    study,
    all,
