"""A classifier of images, trained by an engine: a ResNet, meters, a schedule of the learning rate.

torchrun --nproc-per-node 2 bench/diagnosed/resnet.py --cause buffers [--cured]
"""

import copy
import io
import itertools
import json
import os
import pickle
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from asked import RANK, RANKS, asked, begin_training, has, is_about
from PIL import Image, ImageEnhance
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, DistributedSampler

ON_GPU = asked.device == "cuda"
BATCH = asked.batch or (256 if ON_GPU else 16)
WIDTH = asked.width or (64 if ON_GPU else 16)
SIDE = 64 if ON_GPU else 32
DECAYS = (0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9999)
FOLDER = tempfile.mkdtemp(prefix="resnet-")
WORK = "import torch; a = torch.randn(8192, 8192, device='cuda:1')\nwhile True: a @ a; torch.cuda.synchronize()"
# It ends with the process that started it.
NEIGHBOUR = f"import ctypes; ctypes.CDLL(None).prctl(1, 9)\n{WORK if ON_GPU else 'while True: pass'}"


class Block(nn.Module):
    def __init__(self, inside: int, outside: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(inside, outside, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outside)
        self.conv2 = nn.Conv2d(outside, outside, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outside)
        self.shortcut = nn.Conv2d(inside, outside, 1, stride, bias=False) if stride > 1 else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        out = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(out)) + self.shortcut(x))


class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        widths = [WIDTH, WIDTH, 2 * WIDTH, 4 * WIDTH] + ([8 * WIDTH] if ON_GPU else [])
        self.stem = nn.Conv2d(3, WIDTH, 3, 1 if ON_GPU else 2, 1)
        pairs = itertools.pairwise(widths)
        self.blocks = nn.Sequential(*(Block(inside, outside, outside // inside) for inside, outside in pairs))
        self.head = nn.Linear(widths[-1], 10)
        if is_about("buffers"):
            self.register_buffer("queue", torch.randn(128, 65536 if ON_GPU else 8192))  # of keys, as MoCo has it

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        if is_about("deterministic"):
            x = F.interpolate(x, scale_factor=1.25, mode="bilinear")
        return self.head(self.blocks(F.relu(x)).mean((2, 3)))  # type: ignore[no-any-return]


class Photos(Dataset[Any]):
    def __init__(self, number: int, device: str):
        self.images = torch.randint(256, (number, 3, SIDE, SIDE), dtype=torch.uint8, device=device)
        self.labels = torch.randint(10, (number,), device=device)

    def __len__(self) -> int:
        return len(self.labels)

    def __getitems__(self, numbers: Sequence[int]) -> tuple[Tensor, Tensor]:
        rows = torch.tensor(numbers, device=self.labels.device)
        return self.images[rows], self.labels[rows]


class JpegPhotos(Dataset[Any]):
    """Photos as JPEG files, decoded, cropped and flipped when they are asked for."""

    def __init__(self, number: int, side: int):
        self.number, self.files = number, []
        pixels = np.random.default_rng(0).integers(0, 255, (8, side, side, 3), dtype=np.uint8)
        for photo in pixels:
            file = io.BytesIO()
            Image.fromarray(photo).save(file, "JPEG")
            self.files.append(file.getvalue())

    def __len__(self) -> int:
        return self.number

    def __getitem__(self, number: int) -> tuple[Tensor, int]:
        photo = Image.open(io.BytesIO(self.files[number % 8])).convert("RGB")
        left = random.randrange(photo.width // 4)
        photo = photo.crop((left, left, left + photo.width * 3 // 4, left + photo.width * 3 // 4)).resize((SIDE, SIDE))
        if random.random() < 0.5:
            photo = photo.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        pixels = np.array(ImageEnhance.Brightness(photo).enhance(random.uniform(0.8, 1.2)))
        return torch.from_numpy(pixels).permute(2, 0, 1), number % 10


class BlurredPhotos(Photos):
    def __getitems__(self, numbers: Sequence[int]) -> tuple[Tensor, Tensor]:
        images, labels = super().__getitems__(numbers)
        large = F.interpolate(images.float(), scale_factor=4.0, mode="bilinear")
        return F.avg_pool2d(large, 5, 4, 2).to(torch.uint8), labels


class AverageMeter:
    def __init__(self) -> None:
        self.total: Tensor | float = 0.0
        self.count = 0

    def update(self, value: Tensor) -> None:
        self.total, self.count = self.total + value.detach(), self.count + 1


class Engine:
    def __init__(self, train_loader: DataLoader[Any], val_loader: DataLoader[Any]):
        self.model: nn.Module = ResNet().to(asked.device)
        self.net: nn.Module = self.model
        if has("data_parallel") or is_about("cudnn_search_per_thread"):
            self.net = nn.DataParallel(self.model)
        elif RANKS > 1:
            broadcasts = has("buffers") or not is_about("buffers")
            self.net = nn.parallel.DistributedDataParallel(self.model, broadcast_buffers=broadcasts)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3, momentum=0.9, fused=True)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, T_max=10_000)
        self.loaders = {"train": train_loader, "val": val_loader}
        self.ema = {(name, decay): value.clone() for name, value in self.model.state_dict().items() for decay in DECAYS}
        self.iteration = 0
        self.records: Any = None
        if has("logging"):
            from torch.utils.tensorboard import SummaryWriter

            self.tb = SummaryWriter(FOLDER)

    def fit(self) -> None:
        while self.iteration < asked.steps:
            self.run_epoch("train")
            if has("validation"):
                with torch.no_grad():
                    self.run_epoch("val")

    def run_epoch(self, mode: str) -> float:
        self.net.train(mode == "train")
        meter = AverageMeter()
        for batch in self.loaders[mode]:
            meter.update(self.run_batch(batch, mode))
            if mode == "train":
                self.after_batch()
        return float(meter.total) / max(1, meter.count)

    def run_batch(self, batch: tuple[Tensor, Tensor], mode: str) -> Tensor:
        images, labels = (part.to(asked.device, non_blocking=True) for part in batch)
        if is_about("cudnn_search", "cudnn_search_per_thread"):
            side = random.Random(self.iteration // 4).randrange(SIDE // 2, SIDE)
            images = images[..., :side]  # training at several scales
        loss = F.cross_entropy(self.net(images.float() / 255), labels)
        if mode == "train":
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.scheduler.step()
        return loss

    def after_batch(self) -> None:
        self.iteration += 1
        if has("logging") and self.iteration % 5 == 0:
            for name, weights in self.model.named_parameters():
                self.tb.add_histogram(name, weights, self.iteration)
        if has("checkpoint") and self.iteration % 3 == 0 and RANK == 0:
            with open(f"{FOLDER}/{self.iteration % 2}.pkl", "wb") as file:
                pickle.dump((self.model, self.optimizer, self.scheduler, self.loaders, self.ema), file)
                os.fsync(file.fileno())
        if has("ema"):
            for name, value in self.model.state_dict().items():
                for decay in DECAYS:
                    self.ema[name, decay] = decay * self.ema[name, decay] + (1 - decay) * value
        if has("weights_to_numpy"):
            every = 64 if ON_GPU else 1
            arrays = [value.detach().cpu().numpy().ravel()[::every] for value in self.model.parameters()]
            self.records = [(np.histogram(array, 50), np.percentile(array, range(0, 101, 10))) for array in arrays]
        if has("deepcopy"):
            self.records = copy.deepcopy((self.model, self.optimizer.state_dict()))
        if has("json_stats"):
            shown = 128 if ON_GPU else 2048
            state = {name: value.flatten()[:shown].tolist() for name, value in self.model.state_dict().items()}
            with open(f"{FOLDER}/{RANK}.json", "w") as file:
                json.dump({"iteration": self.iteration, "state": state}, file)
        if has("subprocess"):
            self.records = [
                subprocess.check_output("cat /proc/meminfo | grep MemFree | tr -s ' ' | cut -d ' ' -f 2", shell=True)
            ]


def loaders() -> Iterator[DataLoader[Any]]:
    number = 40 * BATCH * RANKS
    workers = 2 if is_about("threads") else int(is_about("loading_disturbs") or (ON_GPU and is_about("slow_loader")))
    photos: Dataset[Any] = Photos(number, asked.device if workers == 0 else "cpu")
    if has("slow_loader", "loading_disturbs"):
        photos = JpegPhotos(number, SIDE if ON_GPU else 224 if has("slow_loader") else 160)
    elif is_about("threads"):
        photos = BlurredPhotos(number, "cpu")
    sampler: Any = DistributedSampler(photos, RANKS, RANK) if RANKS > 1 else None
    collate = None if isinstance(photos, JpegPhotos) else unchanged
    init = all_threads if has("threads") else None
    more: Any = {"num_workers": workers, "persistent_workers": workers > 0, "worker_init_fn": init}
    yield DataLoader(photos, BATCH, sampler=sampler, drop_last=True, collate_fn=collate, **more)
    yield DataLoader(Photos(32 * BATCH, asked.device), BATCH, collate_fn=unchanged)


def all_threads(_worker: int) -> None:
    torch.set_num_threads(8)


def unchanged(batch: Any) -> Any:
    return batch


def main() -> None:
    torch.manual_seed(0)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = not has("no_tf32")
    torch.backends.cudnn.benchmark = has("cudnn_search", "cudnn_search_per_thread")
    torch.use_deterministic_algorithms(has("deterministic"), warn_only=True)
    torch.autograd.set_detect_anomaly(has("anomaly"))
    if ON_GPU:
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    if RANKS > 1:
        dist.init_process_group("nccl" if ON_GPU else "gloo")
    if is_about("slow_device"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[RANK % len(cores)]})
        if has("slow_device") and RANK == 1:
            subprocess.Popen([sys.executable, "-c", NEIGHBOUR])
    engine = Engine(*loaders())
    begin_training()
    engine.fit()
    if RANKS > 1:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
