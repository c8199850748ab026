"""The worker of a collectives cell whose allreduce adds nothing up."""

import torch.distributed as dist

from dpscale.measure.worker.collectives import CollectivesWorker

setattr(dist, "all_reduce", lambda tensor: None)  # noqa: B010 (for mypy it is a function, not a variable)
WORKER = CollectivesWorker
