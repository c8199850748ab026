# The study, its plan, and which of its results are to be made again. No CUDA call and no torch here: this is read on
# login nodes and on GPU nodes alike, and must come out the same.

import gc
import os.path
import sys
from pathlib import Path

sys.path.insert(0, str(Path(workflow.basedir) / "workflow"))

from dpscale.analyse.names import TABLES
from dpscale.errors import StudyError
from dpscale.measure import MEASUREMENT_VERSION
from dpscale.measure.dataset import MANIFEST
from dpscale import rerun
from dpscale.study import CELL_PATH, Study, runnable_plan
from snakemake.exceptions import WorkflowError
from snakemake.settings.enums import RerunTrigger

# Ten thousand jobs are millions of objects that all live to the end: at its default the garbage collector goes through
# them again and again.
gc.set_threshold(50_000, 50, 50)

# The package's command of the same environment as Snakemake itself, also where that is not activated.
shell.prefix(f"set -euo pipefail; export PATH={Path(sys.executable).parent}:$PATH; ")

STUDY_SOURCES = [os.path.relpath(path) for path in workflow.config_settings.configfiles] or ["config/config.yaml"]

try:
    STUDY = Study(config, source=" and ".join(STUDY_SOURCES))
    PLAN = runnable_plan(STUDY)
except StudyError as error:
    raise WorkflowError(str(error))

RESULTS = STUDY.results
STUDY_FILE = RESULTS / rerun.STUDY_FILE
DATASET = RESULTS / rerun.DATASET
RECORD = f"{RESULTS}/{CELL_PATH}.json"
RECORDS = [f"{RESULTS}/{cell.path}" for cell in PLAN.cells]
TABLE_FILES = [RESULTS / f"tables/{name}.csv" for name in TABLES]
PAGE = STUDY.page
PACKAGE = Path(workflow.basedir) / "workflow/dpscale"

# Two measurements must never share a machine. A cluster's profile, where every job has GPUs of its own, lifts this.
if "measuring" not in workflow.global_resources:
    workflow.register_resource("measuring", 1)

# What is missing, or there but not of this study. Records of the latter kind are renamed when the run starts, never
# deleted.
OUTDATED = rerun.find_outdated(STUDY, PLAN, RESULTS) if workflow.is_main_process else rerun.Outdated()
for reason in OUTDATED.reasons:
    print(f"to be measured again: {reason}", file=sys.stderr)


onstart:
    measured = {str(path) for job in workflow.dag.needrun_jobs() for path in job.output}
    for aside in OUTDATED.set_aside(measured if not workflow.touch else set()):
        print(f"set aside: {aside}", file=sys.stderr)


def of_this_study(*paths):
    """Input files of a rule that collects results; those that are missing or not of this study are made.

    What is to be made is decided by the results themselves and by file times, not by Snakemake's own memory of
    earlier runs: results may come from another machine, and an edited rule or a re-made dataset is no reason to
    measure a cell again. Missing records are named too: Snakemake alone would not miss a record whose page stands.
    """
    workflow.dag_settings.rerun_triggers = {RerunTrigger.MTIME}
    workflow.dag.forcefiles.update(OUTDATED.paths)
    return paths


def dataset_for_cells():
    """The only input of a cell; its time never counts. A dataset that is gone is made for cells that need it."""
    manifest = DATASET / MANIFEST
    if manifest.exists():
        return ancient(manifest)
    finished = set(RECORDS) - OUTDATED.paths if workflow.is_main_process else set()
    return lambda wildcards: [] if RECORD.format(**wildcards) in finished else ancient(manifest)


def sources(*patterns):
    """Files of the package whose change makes a table or the page out of date; never a measurement."""
    return sorted(os.path.relpath(path) for pattern in patterns for path in PACKAGE.glob(pattern))


wildcard_constraints:
    strategy="single|dp|ddp",
    gpus=r"\d+",
    batch=r"\d+",
    run=r"\d+",


localrules:
    study,
    all,
