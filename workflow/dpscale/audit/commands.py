"""The commands of audits. Each loads only what it needs."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dpscale.options import FILE, FOLDER
from dpscale.vocabulary.chips import PRECISIONS

if TYPE_CHECKING:
    from dpscale.audit.reading.histories import Axis


@click.command()
@click.argument("published", type=click.Path(path_type=Path), nargs=-1, required=True)
@click.option("--out", type=FOLDER, help="Folder to write <id>.json to, one per study.")
@click.option("--page", "pages", type=FOLDER, help="Folder to write <id>.html to, one small page per file.")
@click.option("--summary", type=FILE, help="CSV file to write a row per file to.")
@click.option("--network", help="Network, where a file does not say: a part of a name in networks.yaml.")
@click.option("--precision", type=click.Choice(PRECISIONS), help="Arithmetic, where a file does not say.")
@click.option("--gpu", help="Model of the GPUs, where a file does not say.")
@click.option("--peak", type=float, help="TFLOP/s of one GPU, where its model is not known.")
@click.option(
    "--beside",
    type=click.Path(exists=True, path_type=Path),
    multiple=True,
    help="Published file, or folder of results, to compare one-GPU times with. Can be given several times.",
)
def audit(
    published: tuple[Path, ...],
    out: Path | None,
    pages: Path | None,
    summary: Path | None,
    network: str | None,
    precision: str | None,
    gpu: str | None,
    peak: float | None,
    beside: tuple[Path, ...],
) -> None:
    """Find which conventions give PUBLISHED figures, what the figures should be, and which of them cannot be.

    A file is YAML as in config/published, or your own table as CSV, Markdown, LaTeX, HTML or Excel; a folder stands for
    all of these in it:

    \b
        dpscale audit table.csv --page /tmp/audit
        dpscale audit submissions/ --summary /tmp/audit.csv
        dpscale audit config/published/*.yaml --out /tmp/audit

    The exit status is 0 where nothing is wrong, 1 where a figure of a table is impossible, wrong or not explained, and
    2 where a file could not be read; the others are audited all the same. config/README.md explains all. Needs no GPU
    and no torch.
    """
    from dpscale.audit.files import Options, audit_files

    said = {"network": network, "precision": precision, "gpu": gpu, "peak_tflop_s": peak and str(peak)}
    given = {name: str(value) for name, value in said.items() if value}
    status = audit_files(
        published, Options(out, pages, summary, beside, given), click.echo, lambda why: click.echo(why, err=True)
    )
    if status:
        raise click.exceptions.Exit(status)


@click.command("import")
@click.option(
    "--run",
    "runs",
    type=(click.IntRange(min=1), click.IntRange(min=1), FILE),
    multiple=True,
    required=True,
    metavar="BATCH GPUS FILE",
    help="Batch per GPU, GPUs, and the CSV file of the run's history; FILE::NAME for one of several runs in a file.",
)
@click.option(
    "--axis",
    type=click.Choice(["step", "epoch"]),
    required=True,
    help="What the numbers in the files count: training steps, or epochs.",
)
@click.option("--images", type=click.IntRange(min=1), required=True, help="Training images in an epoch.")
@click.option("--parameters", type=click.IntRange(min=1), help="Parameters of the network, for bandwidths.")
@click.option("--title", required=True, help="What the study is, in one line.")
@click.option("--out", type=FILE, required=True, help="The file to write, <id>.yaml.")
def import_histories(
    runs: tuple[tuple[int, int, Path], ...], axis: "Axis", images: int, parameters: int | None, title: str, out: Path
) -> None:
    """Turn run histories of experiment trackers into a published-study file for `dpscale audit`.

    \b
        dpscale import --axis epoch --images 50000 --title "Our runs" --out ours.yaml \\
            --run 128 1 one-gpu.csv --run 128 4 four-gpus.csv
        dpscale audit ours.yaml --out /tmp/audit

    A history is a CSV file with a time stamp per step or epoch: what TensorBoard, MLflow and Weights & Biases download
    from a chart, or the history of a W&B run. The epoch time is the median time from one epoch's end to the next, so
    evaluation and checkpoints count. The first epoch has no start in most histories, and is left out. Files may be of
    several repeats: their epoch times are averaged. docs/exports.md says where each tracker has the download.
    """
    from dpscale.audit.reading.histories import epoch_times, named, published_file
    from dpscale.audit.reading.published import Published, Spot
    from dpscale.records.files import write_text

    found = [epoch_times(named(file, axis), Spot(batch, gpus), images, axis) for batch, gpus, file in runs]
    write_text(out, published_file(out.stem, title, images, parameters, found))
    study = Published.read(out)
    for place, epoch_s in study.epoch_s.items():
        click.echo(f"batch {place.batch_per_gpu} per GPU on {place.gpus} GPUs: {epoch_s} s per epoch")
    click.echo(f"published study: {out}")
