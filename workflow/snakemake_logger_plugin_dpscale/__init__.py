"""Snakemake looks for its loggers in packages of this name: `snakemake --logger dpscale`."""

from dpscale.scheduler.logger import LogHandler

__all__ = ["LogHandler"]
