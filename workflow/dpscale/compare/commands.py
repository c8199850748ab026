"""The command that compares studies. It loads only what it needs."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from dpscale.options import FILE, FOLDER, STUDY, read_records, read_study
from dpscale.plan.study import Study
from dpscale.terminal import tell


def share(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    """Return the share that is written in percent: 5% is 0.05. None where there is none."""
    if value is None:
        return None
    percent = re.fullmatch(r"(\d+(?:\.\d+)?)%", value)
    if not percent:
        raise click.BadParameter(f"{value} is no share. Write it in percent, such as 5%", context, parameter)
    return float(percent[1]) / 100


@click.command()
@click.argument("study_files", metavar="FIRST SECOND [MORE]...", type=STUDY, nargs=-1, required=True)
@click.option(
    "--results",
    type=FOLDER,
    multiple=True,
    show_default="results/<study> of each",
    help="Folder of the records of a study. Given once per study, in their order.",
)
@click.option(
    "--fail-slower",
    "limit",
    callback=share,
    metavar="PERCENT",
    help="End with exit status 1 where a study is slower than the first by more than this, such as 5%, with its whole "
    "95 % interval.",
)
@click.option("--json", "is_json", is_flag=True, help="Print every ratio of two epoch times, for programs.")
@click.option("--out", type=FILE, required=True, help="The HTML page to write.")
@click.pass_context
def compare(
    context: click.Context,
    study_files: tuple[Path, ...],
    results: tuple[Path, ...],
    limit: float | None,
    is_json: bool,
    out: Path,
) -> None:
    """Compare SECOND with FIRST: two machines, or before and after a change. Writes one HTML page.

    The studies are files, as YAML or JSON, whose cells were measured. They can be the same file with the records of
    two machines. With MORE studies each is compared with FIRST. Needs no GPU and no torch:

    \b
        dpscale compare config/before.yaml config/after.yaml --out /tmp/compared.html
        dpscale compare config/mine.yaml config/mine.yaml --results here/mine --results there/mine --out /tmp/c.html
        dpscale compare config/before.yaml config/after.yaml --fail-slower 5% --out /tmp/compared.html

    Settings, hardware and software may differ: what differs is named for every study. The records of one study must
    come from one environment. Studies that share a record are refused: the same file in both is no evidence of a
    difference.

    With --fail-slower, a ratio whose interval holds the limit, or that has no interval, is undecided: that is printed,
    and is no failure.
    """
    from dpscale.compare.comparison import ComparedStudies, render, studies_of
    from dpscale.records.files import write_text

    if len(study_files) == 1:
        raise click.UsageError("name two studies or more")
    if results and len(results) != len(study_files):
        raise click.UsageError("give --results once per study, in their order, or not at all")
    studies = _named([read_study(file) for file in study_files])
    folders = results or [study.results for study in studies.values()]
    records = [read_records(study, folder) for study, folder in zip(studies.values(), folders, strict=True)]
    comparison = ComparedStudies(studies_of(studies, records))
    write_text(out, render(comparison, limit))
    if is_json:
        click.echo(json.dumps([row.as_json for row in comparison.rows], indent=2))
    else:
        tell("\n".join([*comparison.lines(limit), f"page: {out}"]))
    if limit is not None and comparison.slower_than(limit):
        context.exit(1)


def _named(studies: Sequence[Study]) -> Mapping[str, Study]:
    """Return the studies by their names, which are numbered where some are the same."""
    names = {study.name: study for study in studies}
    if len(names) == len(studies):
        return names
    return {f"{study.name} ({number})": study for number, study in enumerate(studies, 1)}
