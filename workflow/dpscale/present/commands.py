"""The commands that show the tables of a study. Each loads only what it needs."""

from pathlib import Path

import click

from dpscale.errors import DpscaleError
from dpscale.options import FILE, FOLDER, read_study, study_argument
from dpscale.plan.study import Study
from dpscale.terminal import say, tell


@click.command()
@study_argument
@click.option("--tables", "tables_folder", type=FOLDER, required=True, help="Folder that `dpscale tables` wrote.")
@click.option("--out", type=FILE, required=True, help="The HTML page to write.")
@click.option("--charts", "charts_folder", type=FOLDER, help="Folder to write the charts of the page to, as SVG files.")
def report(study_file: Path, tables_folder: Path, out: Path, charts_folder: Path | None) -> None:
    """Render the page of a study from its tables: one HTML file that needs no other file.

    Where the study names figures that others published, their page stands beside it, as <page>-audit.html.
    """
    from dpscale.audit.page import render_studies
    from dpscale.present.charts.charts import charts_of
    from dpscale.present.charts.picture import write_charts
    from dpscale.present.page import render
    from dpscale.present.text.words import Terms
    from dpscale.records.files import write_text
    from dpscale.tables.tables import Tables

    study, tables = Study.read(study_file), Tables.read(tables_folder)
    audit_page = study.audit_page(out)
    terms = Terms.of(study.values, tables)
    charts = charts_of(study.values, tables, terms)
    write_text(out, render(study.values, tables, audit_page.name if audit_page else "", charts))
    if audit_page:
        write_text(audit_page, render_studies(study.values, tables, out.name))
    if charts_folder:
        write_charts(charts.values(), charts_folder)
    tell(f"page: {out}")


@click.command()
@study_argument
@click.option("--json", "is_json", is_flag=True, help="Print what answer.json holds, for programs.")
def summary(study_file: Path, is_json: bool) -> None:
    """Print the answer of a study that was run in this folder, and where its page is.

    \b
        dpscale summary quick
        dpscale summary config/mine.yaml --json | jq .devices

    Where its tables were not made yet, they are made of its records for this answer.
    """
    from dpscale.analyse.answer.answer import answer_json, answer_of
    from dpscale.loaded import LoadedStudy
    from dpscale.present.findings.answer import first_screen, in_words
    from dpscale.present.text.words import Terms

    study = read_study(study_file)
    tables = LoadedStudy(study, study.results).tables
    terms, answer = Terms.of(study.values, tables), answer_of(tables)
    if is_json:
        click.echo(answer_json(answer, in_words(answer, terms)), nl=False)
        return
    say(first_screen(answer, terms).on_terminal)
    page, make = study.page, f"make report CONFIG={study_file}"
    say(f"The page: {page.resolve()}" if page.exists() else f"To make its page: {make}")


@click.command()
@study_argument
@click.option(
    "--tables",
    "tables_folder",
    type=FOLDER,
    help="Folder that `dpscale tables` wrote; by default the study's, made of its records where there is none.",
)
@click.option("--out", type=FOLDER, default=Path("handin"), help="Folder for report.tex, report.md and tables.csv.")
def handin(study_file: Path, tables_folder: Path | None, out: Path) -> None:
    """Write a report to edit and hand in: the assignment's tables, and what they say, in LaTeX, Markdown and CSV."""
    from dpscale.loaded import LoadedStudy
    from dpscale.present.handin_report import report as report_of
    from dpscale.present.handin_report import write
    from dpscale.present.text.words import Terms
    from dpscale.tables.tables import Tables

    study = read_study(study_file)
    tables = Tables.read(tables_folder) if tables_folder else LoadedStudy(study, study.results).tables
    handed_in = report_of(study.values, tables, Terms.of(study.values, tables))
    if not handed_in.sheets:
        measure = f"make assignment CONFIG={study_file}"
        raise DpscaleError(f"{study_file}: nothing was measured on several devices to hand in. Measure it: {measure}")
    tex, markdown, numbers = write(handed_in, out)
    for sentence in handed_in.lacking:
        tell(sentence)
    for place in (tex, markdown, numbers):
        if ".new" in place.stem:
            tell(f"{place.name.replace('.new', '')} was edited, and is kept: the new one is {place}")
    tell(f"to edit and hand in: {tex}, {markdown}; the numbers: {numbers}")
