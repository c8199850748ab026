"""The commands of audits. Each loads only what it needs."""

from pathlib import Path

import click

from dpscale.options import FILE, FOLDER
from dpscale.vocabulary.chips import PRECISIONS


@click.command()
@click.argument("published", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option("--out", type=FOLDER, help="Folder to write <id>.json to, one per study.")
@click.option("--page", "pages", type=FOLDER, help="Folder to write <id>.html to, one small page per file.")
@click.option("--summary", type=FILE, help="CSV file to write a row per file to.")
@click.option("--network", help="Network, where a table does not say: a part of a name in networks.yaml.")
@click.option("--precision", type=click.Choice(PRECISIONS), help="Arithmetic, where a table does not say.")
@click.option("--gpu", help="Model of the GPUs, where a table does not say.")
def audit(
    published: tuple[Path, ...],
    out: Path | None,
    pages: Path | None,
    summary: Path | None,
    **assumed: str | None,
) -> None:
    """Find which conventions give PUBLISHED figures, what the figures should be, and which of them cannot be.

    A file is YAML as in config/published, or has your own tables, as CSV, Excel, Markdown, a notebook, HTML, LaTeX or
    text; a folder stands for all of these in it:

    \b
        dpscale audit table.csv --page /tmp/audit
        dpscale audit submissions/ --summary /tmp/audit.csv
        dpscale audit config/published/*.yaml --out /tmp/audit

    The exit status is 0 where nothing is wrong, 1 where a figure of a table is impossible, wrong or not explained, and
    2 where a file could not be read; the others are audited all the same. config/README.md explains all. Needs no GPU
    and no torch.
    """
    from dpscale.audit.audit import audit_files

    given = {name: value for name, value in assumed.items() if value}
    if status := audit_files(published, out, pages, summary, given):
        raise click.exceptions.Exit(status)
