"""The commands of the diagnosis. Each loads only what it needs."""

import json
import sys
from pathlib import Path
from typing import Any

import click

from dpscale.measure.options import BUILT_IN_NETWORKS, setting_options, settings_of_workload
from dpscale.options import FILE
from dpscale.records.failures import RECORD_WRITTEN
from dpscale.schemas.settings import TimingSettings


@click.command()
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND ...]")
@click.option(
    "--minutes",
    type=click.FloatRange(min=0, min_open=True),
    default=3.0,
    help="Of measuring, beside a script's starts.",
)
@click.option(
    "--first-step-within",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
    help="Seconds after which a script without an optimiser step is no training.",
)
@click.option("--page", type=FILE, help="The HTML page to write.")
@click.option("--json", "out", type=FILE, help="The JSON record to write.")
@click.option(
    "--workload",
    help="In place of a command: your Python file with the functions network, dataset and loss, which is run with your "
    f"rights, in a plain loop; or {' or '.join(BUILT_IN_NETWORKS)}, on made-up images. All options below are of it.",
)
@click.option("--gpus", type=click.IntRange(min=1), default=2, help="GPUs (on cpu: worker processes).")
@click.option("--batch-per-gpu", type=click.IntRange(min=1), help="Samples per GPU and step.")
@click.option(
    "--global-batch",
    type=click.IntRange(min=1),
    help="Samples per step over all GPUs, where you kept them when you added GPUs. In place of --batch-per-gpu.",
)
@click.option("--strategy", type=click.Choice(["dp", "ddp"]), default="ddp", help="Not used with one GPU.")
@setting_options(TimingSettings, "loader_workers", "device", "precision")
def diagnose(
    command: tuple[str, ...],
    minutes: float,
    first_step_within: float,
    page: Path | None,
    out: Path | None,
    workload: str | None,
    gpus: int,
    **asked: Any,
) -> None:
    """Find out why training is not faster on more GPUs, or on one: causes, what each costs, and what to change.

    \b
        dpscale diagnose -- torchrun --nproc-per-node 2 train.py --its options
        dpscale diagnose --page why.html -- python train.py
        dpscale diagnose --workload my_training.py --gpus 2 --batch-per-gpu 64

    The command is run as it is, several times, and ended when enough is seen. While it trains, blocks of steps get one
    change each, which is undone afterwards: no allreduce, no loader, no garbage collection, a switch off. So what it
    trains for these minutes is to be thrown away: weights drift, and checkpoints that it writes are of such a run. Give
    it another output folder. Trackers (W&B, MLflow) are set offline. The script's environment needs torch alone, 2.4 or
    newer; dpscale can have one of its own.
    """
    if bool(command) == bool(workload):
        raise click.UsageError("give either a command behind -- or a --workload")
    from dpscale.diagnosis import launcher
    from dpscale.diagnosis import page as pages
    from dpscale.diagnosis.diagnose import diagnose_script
    from dpscale.records.files import decoded, write_record, write_text
    from dpscale.records.script import ScriptRecord

    if workload:
        from dpscale.diagnosis.loop import loop_command  # it measures here, which a command elsewhere need not

        settings = settings_of_workload(workload) | {
            name: asked.pop(name) for name in ("loader_workers", "device", "precision")
        }
        command = tuple(loop_command({"settings": settings, "step": asked}, gpus))
    try:
        record = launcher.diagnose_script(
            command, minutes, first_step_within, lambda text: click.echo(f"dpscale: {text}", err=True)
        )
    except launcher.ScriptError as error:
        if not workload:  # the loop has said it in a line
            click.echo(f"dpscale: {error}", err=True)
        sys.exit(error.code)
    if workload:
        record["command"] = ["dpscale", *sys.argv[1:]]
    if out:
        write_record("script", out, record)
    script = decoded(ScriptRecord, json.dumps(record).encode())
    answer = diagnose_script(script)
    click.echo(pages.text(answer, script))
    if out:
        click.echo(f"\n{RECORD_WRITTEN}{out}")
    if page:
        write_text(page, pages.render(answer, script))
        click.echo(f"page: {page}")


@click.command(hidden=True)
@click.argument("asked")
@click.option("--num-processes", type=int, required=True)
def loop(asked: str, num_processes: int) -> None:
    """Train as `dpscale diagnose --workload` runs it as a script: `asked` is JSON."""
    from dpscale.diagnosis.loop import train_in_loop

    train_in_loop(json.loads(asked), num_processes)
