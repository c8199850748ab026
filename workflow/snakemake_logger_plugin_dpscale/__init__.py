"""Snakemake looks for its loggers in packages of this name: `snakemake --logger dpscale`. It loads all of them,
whichever one is asked for, before it reads a study file."""

from dpscale.scheduler.logger import LogHandler
from dpscale.scheduler.snakemake import read_studies_as_data

__all__ = ["LogHandler"]

read_studies_as_data()
