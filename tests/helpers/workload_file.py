"""A tiny workload of a user, as the text of its file; what is added to the text replaces what it defines."""

from pathlib import Path

SAMPLES = 24

WORKLOAD = f"""
import torch
from torch import nn
from torch.utils.data import Dataset

class Vectors(Dataset):
    def __len__(self):
        return {SAMPLES}

    def __getitem__(self, index):
        return {{"x": torch.full((4,), index / 10), "y": index % 2}}

def network():
    return nn.Linear(4, 2)

def dataset():
    return Vectors()

def loss(network, batch):
    return nn.functional.cross_entropy(network(batch["x"]), batch["y"])
"""

# Parameters without a part in the loss.
HALF_USED = """
class Half(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.unused = nn.Linear(4, 2), nn.Linear(4, 2)

    def forward(self, x):
        return self.used(x)

def network():
    return Half()
"""


def written(folder: Path, more: str = "") -> Path:
    """The workload's file in `folder`."""
    path = folder / "mine.py"
    path.write_text(WORKLOAD + more)
    return path
