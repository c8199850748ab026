"""The command that makes tables of records. It loads only what it needs."""

from pathlib import Path

import click

from dpscale.options import FILE, FOLDER, read_records, read_study, study_argument
from dpscale.terminal import tell


@click.command()
@study_argument
@click.option("--results", type=FOLDER, required=True, help="Folder that holds the study's cells/.")
@click.option("--out", type=FOLDER, required=True, help="Folder to write the CSV tables to.")
@click.option("--source", type=FILE, help="The study file that the study was made of, for commands that name it.")
def tables(study_file: Path, results: Path, out: Path, source: Path | None) -> None:
    """Compute every table of a study from its records, as CSV, and the answer, as JSON. Needs no GPU and no torch."""
    from dpscale.analyse.answer.answer import FILE, answer_json, answer_of
    from dpscale.analyse.tables import build_tables
    from dpscale.audit.published import collect_audits
    from dpscale.present.findings.answer import in_words
    from dpscale.present.text.words import Terms
    from dpscale.records.files import write_text
    from dpscale.tables.row import written
    from dpscale.tables.tables import TABLES

    study = read_study(study_file)
    study.source = str(source or study_file)
    collected = read_records(study, results)
    built = build_tables(study, collected, collect_audits(results, study["published"]))
    for name, kind in TABLES.items():
        write_text(out / f"{name}.csv", written(kind, getattr(built, name)))
    answer = answer_of(built)
    write_text(out / FILE, answer_json(answer, in_words(answer, Terms.of(study.values, built))))
    tell(f"{len(collected.records)} records, {len(TABLES)} tables: {out}")
