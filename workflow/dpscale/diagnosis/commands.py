"""The commands of the diagnosis. Each loads only what it needs."""

import json
import sys
from pathlib import Path

import click

from dpscale.options import FILE
from dpscale.records.failures import RECORD_WRITTEN


def say(sentence: str) -> None:
    """Say something beside the answer."""
    click.echo(f"dpscale: {sentence}", err=True)


def _require_places(out: Path | None, kind: str, page: Path | None = None) -> None:
    """Raise RecordError where a record or a page could not be written after minutes of measuring."""
    from dpscale.records.files import RECORD_BEGIN, claim_space, require_replaceable

    for path, begin in ((out, RECORD_BEGIN.format(kind)), (page, "<!DOCTYPE html>")):
        if path:
            require_replaceable(path, begin)
            claim_space(path.parent).close()


ABOVE_ZERO = click.FloatRange(min=0, min_open=True)
first_step_within_option = click.option(
    "--first-step-within",
    type=ABOVE_ZERO,
    default=180.0,
    show_default=True,
    help="Seconds after which a script without an optimiser step is no training; torch.compile may take minutes.",
)
json_option = click.option("--json", "out", type=FILE, help="The JSON record to write.")


@click.command()
@click.argument("command", nargs=-1, type=click.UNPROCESSED, required=True, metavar="-- COMMAND ...")
@click.option(
    "--minutes",
    type=ABOVE_ZERO,
    default=3.0,
    help="Of measuring, beside a script's starts.",
)
@first_step_within_option
@click.option("--page", type=FILE, help="The HTML page to write.")
@json_option
def diagnose(
    command: tuple[str, ...],
    minutes: float,
    first_step_within: float,
    page: Path | None,
    out: Path | None,
) -> None:
    """Find out why training is not faster on more GPUs, or on one: causes, what each costs, and what to change.

    \b
        dpscale diagnose -- torchrun --nproc-per-node 2 train.py --its options
        dpscale diagnose --page why.html -- python train.py

    The command is run as it is, several times, and ended when enough is seen. While it trains, blocks of steps get one
    change each, which is undone afterwards: no allreduce, no loader, no garbage collection, a switch off. So what it
    trains for these minutes is to be thrown away: weights drift, and checkpoints that it writes are of such a run. Give
    it another output folder. Trackers (W&B, MLflow) are set offline. The script's environment needs torch alone, 2.4 or
    newer; dpscale can have one of its own.
    """
    from dpscale.diagnosis import launcher
    from dpscale.diagnosis.diagnose import diagnose_script, render, text
    from dpscale.diagnosis.script import ScriptError
    from dpscale.records.files import decoded, write_record, write_text
    from dpscale.records.script import ScriptRecord

    _require_places(out, "script", page)
    try:
        record = launcher.diagnose_script(command, minutes, first_step_within, say)
    except ScriptError as error:
        say(str(error))
        sys.exit(error.code)
    if out:
        write_record("script", out, record)
    script = decoded(ScriptRecord, json.dumps(record).encode())
    answer = diagnose_script(script)
    click.echo(f"\n{text(answer)}")  # a progress bar may have left its line open
    if out:
        click.echo(f"\n{RECORD_WRITTEN}{out}")
    if page:
        write_text(page, render(answer))
        click.echo(f"page: {page}")


@click.command()
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="-- COMMAND_A --- COMMAND_B")
@click.option("--minutes", type=ABOVE_ZERO, default=2.0, help="Of blocks, beside the scripts' starts.")
@first_step_within_option
@json_option
def versus(words: tuple[str, ...], minutes: float, first_step_within: float, out: Path | None) -> None:
    """Find out which of two versions of a training script has the faster step, and by how much.

    \b
        dpscale versus -- python train.py --- python train.py --compile
        dpscale versus -- torchrun --nproc-per-node 2 old.py --- torchrun --nproc-per-node 2 new.py

    Both are started, as they are, and blocks of their steps take turns: so hours and neighbours are the same for both.
    Where only one of them fits into memory, whole runs take turns. What they train for these minutes is to be thrown
    away, and both are there at once: give them output folders of their own.
    """
    border = words.index("---") if "---" in words else len(words)
    a, b = words[:border], words[border + 1 :]
    if not (a and b):
        raise click.UsageError("give two commands: -- COMMAND_A --- COMMAND_B")
    import msgspec

    from dpscale.diagnosis.versus import answer, compare_scripts
    from dpscale.records.files import write_record

    _require_places(out, "versus")
    record = compare_scripts({"A": a, "B": b}, minutes, first_step_within, say)
    click.echo(answer(record))
    if out:
        write_record("versus", out, msgspec.to_builtins(record))
        click.echo(f"\n{RECORD_WRITTEN}{out}")
