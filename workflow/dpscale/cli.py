"""The command line: one command per rule. Each stands in the room that does its work, and loads only what it needs, so
that all of them start at once."""

import gc
from typing import Any

import click

from dpscale import __version__
from dpscale.analyse import commands as analyse
from dpscale.audit import commands as audit
from dpscale.compare import commands as compare
from dpscale.diagnosis import commands as diagnosis
from dpscale.errors import DpscaleError
from dpscale.measure import commands as measure
from dpscale.present import commands as present
from dpscale.records import commands as records
from dpscale.terminal import with_names

ROOMS = (measure, records, analyse, present, audit, diagnosis, compare)

# What the extra `measure` of pyproject.toml brings.
OF_MEASURE = ("torch", "torchvision", "PIL", "pynvml")


class OneLineErrors(click.Group):
    """Errors that a user can correct end the program with one line, not with a traceback."""

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except DpscaleError as error:
            raise click.ClickException(with_names(str(error))) from error
        except ModuleNotFoundError as error:
            if error.name not in OF_MEASURE:
                raise
            extra = "dpscale[measure]"
            raise click.ClickException(
                f"this command needs {error.name}, which the extra {extra} brings: pip install '{extra}'"
            ) from error


@click.group(cls=OneLineErrors, context_settings={"show_default": True, "max_content_width": 110})
@click.version_option(__version__)
def main() -> None:
    """Measure how much faster data-parallel training gets with more GPUs, and where the rest of the time goes.

    Snakemake calls these commands, one per rule. You can call each of them by hand in the same way. To see the
    command of any cell: snakemake -n -p
    """
    # Ten thousand records are millions of objects that are all needed until the end. With its default thresholds the
    # garbage collector would visit them again and again.
    gc.set_threshold(50_000, 50, 50)


for room in ROOMS:
    for command in vars(room).values():
        if isinstance(command, click.Command):
            main.add_command(command)
