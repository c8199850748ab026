"""torchrun --nproc-per-node 2 workload_loop.py FILE BATCH WORKERS: a plain loop with DDP over the network, dataset and
loss of a file; on one thread each, with a learning rate so small that nothing diverges."""

import importlib
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler

file, batch, workers = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
sys.path.insert(0, str(file.parent))
workload = importlib.import_module(file.stem)

torch.set_num_threads(1)
is_parallel = int(os.environ.get("WORLD_SIZE", "1")) > 1
if is_parallel:
    dist.init_process_group("gloo")
torch.manual_seed(0)
dataset = workload.dataset()
sampler = DistributedSampler(dataset) if is_parallel else None
loader = DataLoader(dataset, batch, sampler=sampler, num_workers=workers, drop_last=True)
network = DDP(workload.network()) if is_parallel else workload.network()
optimizer = torch.optim.SGD(network.parameters(), lr=1e-6)

while True:
    for images in loader:
        optimizer.zero_grad()
        workload.loss(network, images).backward()
        optimizer.step()
