"""The command that says how far a study is. It loads only what it needs."""

import json
from pathlib import Path

import click

from dpscale.options import FOLDER, read_study, study_argument
from dpscale.terminal import tell


@click.command("plan")
@study_argument
@click.option("--results", type=FOLDER, show_default="results/<study>", help="Folder that holds the study's records.")
@click.option("--gpu", metavar="MODEL", help='GPU to expect times of, such as "RTX 8000". Default: the one here.')
@click.option("--json", "is_json", is_flag=True, help="Print every cell with its state and its reason, for programs.")
def plan_study(study_file: Path, results: Path | None, gpu: str | None, is_json: bool) -> None:
    """Print what of a STUDY is measured, what is not, and what measuring it will cost. It starts nothing.

    \b
        dpscale plan config/config.yaml
        dpscale plan config/assignment.yaml --gpu "RTX 8000"
        dpscale plan config/config.yaml --json | jq '.[] | select(.state == "failed")'

    A cell is `done`, or it has a record of an `older version` of the measurement, or none: it is `missing`, it has
    `failed`, it is `unfinished` (killed, or still running), or its record is `rejected` because it is damaged or of
    other settings. The next run measures all but those that are done.

    A cell to come takes as long as those of its kind that are done took on average, on each of its GPUs. Where none of
    its kind is done, its time is expected: of what such jobs took on an H100, and of the data sheets of both GPUs.
    Where nothing is known of it, as of another network, its cost is unknown. Needs no GPU and no torch.
    """
    from dpscale.measure.watch.nvml import model_here
    from dpscale.plan.plan import plan
    from dpscale.records.collect import states_of
    from dpscale.records.progress import summary
    from dpscale.vocabulary.chips import chip_named, chips

    study = read_study(study_file)
    folder = results or study.results
    planned = plan(study)
    states = list(states_of(planned.all_cells, study.settings, folder))
    if gpu and not chip_named(gpu):
        raise click.UsageError(f"--gpu: {gpu} is none of {', '.join(chip.name for chip in chips())}")
    if is_json:
        cells = [{"path": state.cell.path, "state": state.state, "reason": state.reason} for state in states]
        click.echo(json.dumps(cells, indent=2))
        return
    for line in summary(study, planned, states, gpu or model_here()):
        tell(line)
