# The study, its plan, and what of its results is out of date. No CUDA call and no torch here: this is read on
# login nodes and on GPU nodes alike, and must come out the same.

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(workflow.basedir) / "workflow"))
# The package's command of the same environment as Snakemake itself, also where that is not activated.
os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"

from dpscale.errors import StudyError
from dpscale.measure import MEASUREMENT_VERSION
from dpscale.rerun import Outdated, find_outdated
from dpscale.study import Cell, Configuration, Study, runnable_plan
from snakemake.exceptions import WorkflowError

try:
    STUDY = Study(config, source="study")
    PLAN = runnable_plan(STUDY)
except StudyError as error:
    raise WorkflowError(str(error))

RESULTS = Path("results") / STUDY.name
PAGE = f"report/{STUDY.name}.html"
STUDY_FILE = RESULTS / "study.json"
PACKAGE = Path(workflow.basedir) / "workflow/dpscale"

# Two measurements must never share a machine. A cluster's profile, where every job has GPUs of its own, lifts this.
if "measuring" not in workflow.global_resources:
    workflow.register_resource("measuring", 1)

# Results that are there but not of this study are made again, whatever Snakemake's own records say: results may
# come from another machine, or from before a setting changed. Records among them are renamed when the run starts.
OUTDATED = find_outdated(STUDY, PLAN, RESULTS) if workflow.is_main_process else Outdated()
for reason in OUTDATED.reasons:
    print(f"to be measured again: {reason}", file=sys.stderr)


def of_this_study(*paths):
    """Input files that a job needs; those that are not of this study are marked to be made again."""
    workflow.dag.forcefiles.update(OUTDATED.paths & {str(path) for path in paths})
    return paths


onstart:
    for aside in OUTDATED.set_aside():
        print(f"set aside: {aside}", file=sys.stderr)


def cell_of(wildcards):
    configuration = Configuration(wildcards.strategy, int(wildcards.gpus), int(wildcards.batch))
    return Cell(configuration, int(wildcards.run))


def sources(*folders):
    """Files of the package whose change makes a table or the page out of date; never a measurement."""
    return sorted(
        str(path) for folder in folders for path in (PACKAGE / folder).rglob("*") if path.suffix in {".py", ".j2", ".css"}
    )


wildcard_constraints:
    strategy="single|dp|ddp",
    gpus=r"\d+",
    batch=r"\d+",
    run=r"\d+",


localrules:
    study,
    all,


rule study:
    # The whole study with every default, for the commands that need all of it.
    output:
        STUDY_FILE,
    params:
        study=STUDY.to_json(),
    log:
        RESULTS / "logs/study.log",
    shell:
        "printf '%s\\n' {params.study:q} > {output} 2> {log}"
