"""The command that compares studies. It loads only what it needs."""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from dpscale.options import FILE, FOLDER, read_records, read_study
from dpscale.plan.study import Study
from dpscale.schemas.settings import SETTINGS


def share(context: click.Context, parameter: click.Parameter, value: str | None) -> float:
    """A share that is written in percent: 5% is 0.05. NaN where there is none."""
    if value is None:
        return math.nan
    percent = re.fullmatch(r"(\d+(?:\.\d+)?)%", value)
    if not percent:
        raise click.BadParameter(f"{value} is no share. Write it in percent, such as 5%", context, parameter)
    return float(percent[1]) / 100


@click.command()
@click.argument("study_files", metavar="FIRST SECOND [MORE]...", type=FILE, nargs=-1, required=True)
@click.option(
    "--results",
    type=FOLDER,
    multiple=True,
    show_default="results/<study> of each",
    help="Folder of the records of a study. Given once per study, in their order.",
)
@click.option(
    "--differing",
    "may_differ",
    type=click.Choice(sorted({name for settings in SETTINGS.values() for name in settings.names()})),
    multiple=True,
    metavar="SETTING",
    help="A setting that may differ, because it is what you compare. Can be given several times.",
)
@click.option(
    "--fail-slower",
    "tolerance",
    callback=share,
    metavar="PERCENT",
    help="End with exit status 1 if a strategy on so many GPUs is slower by more than this, such as 5%, with its "
    "whole 95 % interval: over all batches, or at one of them.",
)
@click.option("--tables", "tables_folder", type=FOLDER, help="Folder to write the compared figures to, as CSV.")
@click.option("--out", type=FILE, required=True, help="The HTML page to write.")
@click.pass_context
def compare(
    context: click.Context,
    study_files: tuple[Path, ...],
    results: tuple[Path, ...],
    may_differ: tuple[str, ...],
    tolerance: float,
    tables_folder: Path | None,
    out: Path,
) -> None:
    """Compare SECOND with FIRST: two machines, or before and after a change. Writes one HTML page.

    The studies are files, as YAML or JSON, whose cells were measured. They can be the same file with the records of
    two machines. With MORE studies each is compared with FIRST. Needs no GPU and no torch:

    \b
        dpscale compare config/before.yaml config/after.yaml --out /tmp/compared.html
        dpscale compare config/mine.yaml config/mine.yaml --results here/mine --results there/mine --out /tmp/c.html
        dpscale compare config/before.yaml config/after.yaml --fail-slower 5% --out /tmp/compared.html

    Studies that differ in a setting that can change a number are refused, and every such setting is named. Where you
    want to see that difference, name it: --differing precision --differing memory_format. Hardware and software may
    differ between the studies. The records of one study must come from one environment. Studies that share a record
    are refused: the same file in both is no evidence of a difference.

    With --fail-slower, exit status 1 says that a strategy on so many GPUs became slower by more than that, over all
    batches or at one of them, beyond its 95 % interval. Where the interval holds that limit, or there is none, it is
    undecided: that is said, and is no failure.
    """
    from dpscale.compare.comparison import compare as compare_sides
    from dpscale.compare.groups import BEYOND
    from dpscale.compare.page import render, summary
    from dpscale.compare.studies import refuse_other_settings, sides
    from dpscale.records.files import write_text

    if len(study_files) == 1:
        raise click.UsageError("name two studies or more")
    if results and len(results) != len(study_files):
        raise click.UsageError("give --results once per study, in their order, or not at all")
    studies = _named([read_study(file) for file in study_files])
    refuse_other_settings(studies, may_differ)  # before reading any record
    folders = results or [study.results for study in studies.values()]
    records = [read_records(study, folder) for study, folder in zip(studies.values(), folders, strict=True)]
    found = compare_sides(sides(studies, records), may_differ, tolerance)
    if tables_folder:
        for name, text in found.files().items():
            write_text(tables_folder / name, text)
    write_text(out, render(found))
    for sentence in summary(found):
        click.echo(sentence)
    click.echo(f"page: {out}")
    if any(group.beyond_tolerance == BEYOND for group in found.groups):
        context.exit(1)


def _named(studies: Sequence[Study]) -> Mapping[str, Study]:
    """The studies by their names, which are numbered where some are the same."""
    names = {study.name: study for study in studies}
    return names if len(names) == len(studies) else {f"{of.name} ({n})": of for n, of in enumerate(studies, 1)}
