"""`dpscale` with fewer and shorter blocks, as `python -c` runs it: where it is not looked at how long a step takes."""

QUICK = """
from functools import partial
from dpscale.cli import main
from dpscale.measure.worker import communication
from dpscale.strategies.ddp import in_torch
from warm_workers import warm_workers

in_torch.SETTLES_STEPS = 3
communication.CPU_BLOCK_S = communication.WITNESS_S = 0.02
communication.random_orders = partial(communication.random_orders, rounds=1)
with warm_workers():
    main()
"""
