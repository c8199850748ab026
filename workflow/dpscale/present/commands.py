"""The commands that show the tables of a study. Each loads only what it needs."""

from pathlib import Path

import click

from dpscale.options import FILE, FOLDER, read_study, read_tables, study_option
from dpscale.plan.study import Study


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
    from dpscale.present.charts.files import write_charts
    from dpscale.present.study.charts import charts_of
    from dpscale.present.study.page import render
    from dpscale.present.text.words import Terms
    from dpscale.records.files import write_text

    study, tables = Study.read(study_file), read_tables(tables_folder)
    audit_page = study.audit_page(out)
    terms = Terms.of(study.values, tables)
    charts = charts_of(study.values, tables, terms)
    write_text(out, render(study.values, tables, audit_page.name if audit_page else "", charts))
    if audit_page:
        write_text(audit_page, render_studies(study.values, tables, out.name))
    if charts_folder:
        write_charts(charts.values(), terms.data_note, charts_folder)
    click.echo(f"page: {out}")


@click.command()
@study_option
def summary(study_file: Path) -> None:
    """Print the main figures of a study that was run in this folder, and where its page is."""
    from dpscale.present.findings.summary import summary as summarise

    study = read_study(study_file)
    click.echo(summarise(read_tables(study.results / "tables")))
    click.echo(f"\nThe page: {study.page.resolve()}")
