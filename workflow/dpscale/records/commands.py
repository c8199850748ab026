"""The command that says how far a study is. It loads only what it needs."""

from pathlib import Path

import click

from dpscale.options import FILE, FOLDER, read_study


@click.command("plan")
@click.argument("study_file", metavar="STUDY", type=FILE)
@click.option("--results", type=FOLDER, show_default="results/<study>", help="Folder that holds the study's records.")
@click.option("--cells", "list_cells", is_flag=True, help="List every cell with its state too.")
def plan_study(study_file: Path, results: Path | None, list_cells: bool) -> None:
    """Print what of a STUDY is measured, what is not, and what measuring it will cost. It starts nothing.

    \b
        dpscale plan config/config.yaml
        dpscale plan config/config.yaml --cells | grep failed

    A cell is `done`, or it has a record of an `older version` of the measurement, or none: it is `missing`, it has
    `failed`, it is `unfinished` (killed, or still running), or its record is `rejected` because it is damaged or of
    other settings. The next run measures all but those that are done.

    A cell to come takes as long as those of its kind that are done took on average, on each of its GPUs. Where none of
    its kind is done, its cost is unknown. Needs no GPU and no torch.
    """
    from dpscale.plan.plan import plan
    from dpscale.records.collect import states_of
    from dpscale.records.progress import cell_lines, summary

    study = read_study(study_file)
    folder = results or study.results
    planned = plan(study)
    states = list(states_of(planned.all_cells, study.settings, folder))
    for line in summary(study, planned, states):
        click.echo(line)
    if list_cells:
        click.echo()
        for line in cell_lines(planned, states):
            click.echo(line)
