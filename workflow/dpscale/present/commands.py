"""The commands that show the tables of a study. Each loads only what it needs."""

from pathlib import Path

import click

from dpscale.errors import DpscaleError
from dpscale.options import FILE, FOLDER, read_study, read_tables, study_option
from dpscale.plan.study import Study
from dpscale.terminal import say


@click.command()
@study_option
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

    study, tables = Study.read(study_file), read_tables(tables_folder)
    audit_page = study.audit_page(out)
    terms = Terms.of(study.values, tables)
    charts = charts_of(study.values, tables, terms)
    recorded = "recorded.html" if out.with_name("recorded.html").exists() else ""  # which `make report` made before
    audits = audit_page.name if audit_page else ""
    write_text(out, render(study.values, tables, audits, charts, recorded))
    if audit_page:
        write_text(audit_page, render_studies(study.values, tables, out.name))
    if charts_folder:
        write_charts(charts.values(), charts_folder)
    click.echo(f"page: {out}")


@click.command()
@study_option
def summary(study_file: Path) -> None:
    """Print the answer of a study that was run in this folder, and where its page is."""
    from dpscale.analyse.answer.answer import answer_of
    from dpscale.present.findings.answer import first_screen
    from dpscale.present.text.words import Terms

    study = read_study(study_file)
    tables = read_tables(study.results / "tables")
    terms = Terms.of(study.values, tables)
    say(first_screen(answer_of(tables), terms).on_terminal)
    say(f"The page: {study.page.resolve()}")


@click.command()
@study_option
@click.option(
    "--tables", "tables_folder", type=FOLDER, help="Folder that `dpscale tables` wrote; by default that of the study."
)
@click.option("--out", type=FOLDER, default=Path("handin"), help="Folder for report.tex, report.md and tables.csv.")
def handin(study_file: Path, tables_folder: Path | None, out: Path) -> None:
    """Write a report to edit and hand in: the assignment's tables, and what they say, in LaTeX, Markdown and CSV."""
    from dpscale.present.handin_report import report as report_of
    from dpscale.present.handin_report import write
    from dpscale.present.text.words import Terms

    study = Study.read(study_file)
    folder = tables_folder or study.results / "tables"
    if not (folder / "times.csv").exists():
        raise DpscaleError(f"{folder}: no tables there. Make them with: make assignment CONFIG={study_file}")
    tables = read_tables(folder)
    made = report_of(study.values, tables, Terms.of(study.values, tables))
    if not made.sheets:
        raise DpscaleError(f"{study_file}: nothing was measured on several devices, so there is no table to hand in")
    write(made, out)
    for sentence in made.lacking:
        click.echo(sentence)
    click.echo(f"to edit and hand in: {out}/report.tex, {out}/report.md; the numbers: {out}/tables.csv")
