"""The command that exports a study. It loads only what it needs."""

from importlib import import_module
from pathlib import Path

import click

from dpscale.errors import DpscaleError
from dpscale.options import FILE, FOLDER, read_records, read_study, read_tables


@click.command("export")
@click.argument("study_file", metavar="STUDY", type=FILE)
@click.option("--to", "tracker", type=click.Choice(["wandb", "mlflow", "tensorboard"]), required=True)
@click.option(
    "--results", type=FOLDER, show_default="results/<study>", help="Folder of the study's records and tables/."
)
@click.option(
    "--out", type=FOLDER, show_default="<results>/exports/<tracker>", help="Folder to write to. Not with --uri."
)
@click.option("--uri", help="MLflow alone: address of a tracking server, or of another store, in place of a folder.")
def export_study(study_file: Path, tracker: str, results: Path | None, out: Path | None, uri: str | None) -> None:
    """Give a measured STUDY to an experiment tracker: Weights & Biases, MLflow or TensorBoard.

    \b
        dpscale export config/mine.yaml --to wandb          # offline; send it later with: wandb sync
        dpscale export config/mine.yaml --to mlflow --uri http://127.0.0.1:5000
        dpscale export config/mine.yaml --to tensorboard --out /tmp/events

    There is one run per timing cell, per cell of a variant and per training: settings, the history of its epochs (of a
    training also of its steps), and the figures that the tables say of it. One more run, `study`, holds the tables and
    the page as files; TensorBoard keeps no files.

    A second export doubles nothing: the same record is the same run. Each tracker is an extra of the package, for
    example pip install 'dpscale[wandb]'. docs/exports.md has more. Needs no GPU and no torch.
    """
    if uri is not None and (tracker != "mlflow" or out is not None):
        raise click.UsageError("--uri goes with --to mlflow, and without --out")
    module = import_module(f"dpscale.export.to_{tracker}")  # before reading: a missing tracker is reported at once

    from dpscale.export.runs import runs_of

    study = read_study(study_file)
    folder = results or study.results
    tables = sorted((folder / "tables").glob("*.*"))
    files = [*tables, study.page] if study.page.exists() else tables
    runs = list(runs_of(study, read_records(study, folder), read_tables(folder / "tables"), files))
    if not runs:
        raise DpscaleError(f"{folder}: no records of timing cells or trainings there")
    place = out or folder / "exports" / tracker
    look = module.export(runs, place, **({} if uri is None else {"uri": uri}))
    click.echo(f"{len(runs)} runs: {uri or place}\n{look}")
    if not study.page.exists():
        click.echo(f"without the page: {study.page} is not there", err=True)
