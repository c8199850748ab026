"""The worker of a collectives cell whose allreduce adds nothing up."""

import torch.distributed as dist

from dpscale.measure.worker.collectives import CollectivesWorker

dist.all_reduce = lambda tensor: None
WORKER = CollectivesWorker
