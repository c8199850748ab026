"""A language model of characters, in one loop without an end: micro-steps, and batches cut out of one text.

torchrun --nproc-per-node 2 bench/diagnosed/gpt.py --cause micro_batches [--cured]
"""

import gc
import math
import os
import random
import re
import sys
import tempfile
import threading
import time
from itertools import pairwise
from types import FrameType
from typing import Any

import torch
import torch.distributed as dist
import torch.nn as nn
from asked import RANK, RANKS, asked, begin_training, has, is_about
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

# -----------------------------------------------------------------------------
device = asked.device
on_gpu = device == "cuda"
vocab_size = 128
block_size = 512 if on_gpu else 64
batch_size = asked.batch or (8 if on_gpu else 4)
n_layer = asked.layers or (6 if on_gpu else 2)
n_embd = asked.width or (768 if on_gpu else 64)
n_head = max(1, n_embd // 64) if on_gpu else 2
gradient_accumulation_steps = 2 if on_gpu else 4
eval_interval, eval_iters = 50, 200
out_dir = tempfile.mkdtemp(prefix="gpt-")
# -----------------------------------------------------------------------------
words = ["loss", "step", "weight", "a", "gradient", "the", "of", "batch,", "learns", "slowly.", "GPU", "waits", "42"]
text = " ".join(random.Random(0).choices(words, k=200_000))
data = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8).long()
token = re.compile(r"(?P<word>[a-zA-Z]+)|(?P<number>\d+)|(?P<mark>[.,])|(?P<space>\s+)")


class CausalSelfAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        B, T, C = x.size()
        q, k, v = (part.view(B, T, n_head, C // n_head).transpose(1, 2) for part in self.c_attn(x).split(n_embd, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))  # type: ignore[no-any-return]


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.attn = CausalSelfAttention()
        self.mlp = nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.GELU(), nn.Linear(4 * n_embd, n_embd))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))  # type: ignore[no-any-return]


class GPT(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab_size, n_embd), nn.Embedding(block_size, n_embd)
        self.h = nn.Sequential(*(Block() for _ in range(n_layer)))
        self.ln_f = nn.LayerNorm(n_embd)
        self.lm_head = nn.Linear(n_embd, vocab_size, bias=False)

    def forward(self, idx: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = self.wte(idx) + self.wpe(torch.arange(idx.size(1), device=idx.device))
        logits = self.lm_head(self.ln_f(self.h(x)))
        return F.cross_entropy(logits.view(-1, vocab_size), targets.flatten())


def get_batch() -> tuple[torch.Tensor, torch.Tensor]:
    length, rows = block_size, batch_size
    if has("batch_not_scaled"):
        rows = max(1, batch_size // RANKS)
    if has("uneven_ranks"):  # as long as the documents are that this rank drew
        length = random.choice((block_size // 8, block_size))
    elif is_about("uneven_ranks"):
        length = random.Random(iter_num).choice((block_size // 8, block_size))
    elif is_about("compile_per_length"):
        length = block_size - iter_num // 150 % (block_size // 2)
    ix = torch.randint(len(data) - length - 1, (rows,)).tolist()
    if has("regex"):
        for i in ix:
            passage = text[i : i + (6 if on_gpu else 80) * length]
            kinds = [match.lastgroup for match in token.finditer(passage)]
            cleaned = re.sub(r"[^\w\s]", "", passage).lower().split()
            assert kinds and cleaned
    x = torch.stack([data[i : i + length] for i in ix])
    y = torch.stack([data[i + 1 : i + 1 + length] for i in ix])
    if on_gpu:
        return x.pin_memory().to(device, non_blocking=True), y.pin_memory().to(device, non_blocking=True)
    return x, y


@torch.no_grad()
def estimate_loss() -> float:
    model.eval()
    losses = torch.zeros(eval_iters, device=device)
    for k in range(eval_iters):
        losses[k] = raw_model(*get_batch())
    model.train()
    return float(losses.mean())


def get_lr(it: int) -> float:
    return 1e-4 * 0.5 * (1.0 + math.cos(math.pi * min(1.0, it / 100_000)))


def count_lines(frame: FrameType, event: str, _arg: Any) -> Any:
    """Count the lines that run, as tools for coverage do."""
    if event == "line":
        key = frame.f_code.co_filename, frame.f_lineno
        covered[key] = covered.get(key, 0) + 1
    return count_lines


def upload() -> None:
    """Send what was collected to a slow server, in a thread beside the training."""
    while True:
        with stats_lock:
            time.sleep(0.03)
            stats.clear()
        time.sleep(0.002)


ddp = RANKS > 1
if ddp:
    dist.init_process_group("nccl" if on_gpu else "gloo")
if on_gpu:
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
torch.manual_seed(1337 + RANK)
random.seed(RANK)
torch.backends.cuda.matmul.allow_tf32 = not has("no_tf32")
torch.autograd.set_detect_anomaly(has("anomaly"))
iter_num = 0
raw_model = GPT().to(device)
model: Any = raw_model
if is_about("compile_per_length"):
    torch._dynamo.config.recompile_limit = 10_000
    model = torch.compile(model, dynamic=None if asked.cured else False, backend="aot_eager")
if ddp:
    model = DDP(model)
optimizer = torch.optim.AdamW(raw_model.parameters(), lr=1e-4, fused=not has("many_small_tensors"), foreach=False)
stats: dict[int, float] = {}
stats_lock = threading.Lock()
covered: dict[tuple[str, int], int] = {}
corpus: list[Any] = (
    [{"document": number, "seen": [number]} for number in range(200_000)] if has("garbage_collection") else []
)
log_file = open(os.path.join(out_dir, "log.txt"), "w")  # noqa: SIM115
if has("lock"):
    threading.Thread(target=upload, daemon=True).start()
begin_training()
if has("debugger"):
    sys.settrace(count_lines)
    sys._getframe().f_trace = count_lines

while True:
    for group in optimizer.param_groups:
        group["lr"] = get_lr(iter_num)
    if has("validation") and iter_num % eval_interval == 0:
        print("step", iter_num, "val loss", estimate_loss(), file=log_file)
    for micro_step in range(gradient_accumulation_steps):
        if ddp and not has("micro_batches"):
            # in DDP training we only need to sync gradients at the last micro step
            model.require_backward_grad_sync = micro_step == gradient_accumulation_steps - 1
        X, Y = get_batch()
        loss = model(X, Y) / gradient_accumulation_steps
        loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if has("checkpoint") and iter_num % (100 if on_gpu else 2) == 0 and RANK == 0:
        checkpoint = {
            "model": raw_model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "data": data,
            "iter": iter_num,
        }
        torch.save(checkpoint, os.path.join(out_dir, "ckpt.pt"))
    if has("logging"):
        for name, p in raw_model.named_parameters():
            print(iter_num, name, p.detach().flatten()[: 256 if on_gpu else 4096].tolist(), file=log_file)
    if has("hidden_synchronisation"):
        norms = [p.grad.norm().item() if p.grad is not None else p.norm().item() for p in raw_model.parameters()]
    if has("garbage_collection"):
        corpus.append({"document": iter_num, "seen": [corpus[-1]]})
        if iter_num % 16 == 0:
            gc.collect()
    if has("lock"):
        with stats_lock:
            stats[iter_num] = time.time()
    if has("sorting"):
        counts: dict[str, int] = {}
        for word in text[iter_num % 1000 : iter_num % 1000 + 400_000].split():
            counts[word] = counts.get(word, 0) + 1
        frequent = sorted(counts.items(), key=lambda pair: -pair[1])
    if has("sequence_table"):
        bigrams: dict[tuple[str, str], int] = {}
        for pair in pairwise(text[iter_num % 1000 : iter_num % 1000 + 60_000]):
            bigrams[pair] = bigrams.get(pair, 0) + 1
    iter_num += 1
    if iter_num >= asked.steps:
        break

if ddp:
    dist.destroy_process_group()
