# Gradient accumulation with mixed precision. Every micro-batch is synchronised, as in many scripts that grew.
import os
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Numbers(Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, i):
        generator = torch.Generator().manual_seed(i)
        return {"x": torch.randn(128, generator=generator), "y": torch.tensor(i % 4)}


def main(accumulate=4, steps=100000):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.distributed.init_process_group(backend="nccl" if device == "cuda" else "gloo")
    if device == "cuda":
        device = f"cuda:{os.environ['LOCAL_RANK']}"
        torch.cuda.set_device(device)
    kind = device.split(":")[0]

    net = nn.Sequential(nn.Linear(128, 256), nn.GELU(), nn.Linear(256, 4)).to(device)
    net = nn.parallel.DistributedDataParallel(net)
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: 1 / (1 + s / 1000))
    scaler = torch.amp.GradScaler(kind, enabled=kind == "cuda")
    data = DataLoader(Numbers(), batch_size=16, shuffle=True, num_workers=int(os.environ.get("WORKERS", 1)))

    done = 0
    while done < steps:
        for i, batch in enumerate(data):
            x, y = batch.pop("x").to(device), batch.pop("y").to(device)
            with torch.autocast(kind, dtype=torch.float16 if kind == "cuda" else torch.bfloat16):
                loss = nn.functional.cross_entropy(net(x), y) / accumulate
            scaler.scale(loss).backward()
            if (i + 1) % accumulate:
                continue
            scaler.unscale_(opt)
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            scaler.step(opt)
            scaler.update()
            opt.zero_grad(set_to_none=True)
            sched.step()
            done += 1
            if done % 50 == 0:
                print("step", done, "loss", loss.item(), file=sys.stderr)


if __name__ == "__main__":
    main()
