"""Processes that are forked from one which has loaded Snakemake and torch: loading them takes longer than what a test
asks of them. That one has loaded nothing of the project, which tests change.
"""

import multiprocessing

WARM = multiprocessing.get_context("forkserver")
WARM.set_forkserver_preload(["snakemake.cli", "torch.distributed", "torch._dynamo"])
