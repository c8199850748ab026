"""The GPT of gpt.py with 96 million parameters: ten blocks as wide as those of GPT-2's smallest."""

import sys
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

gpt = import_module("gpt")
vars(gpt).update(LAYERS=10, WIDTH=768, HEADS=12)
network, dataset, loss, optimiser = gpt.network, gpt.dataset, gpt.loss, gpt.optimiser
