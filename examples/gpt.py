"""A small GPT in plain torch on made-up tokens: 50 million parameters, causal attention.

A workload for dpscale: `dpscale time --workload examples/gpt.py ...`, or `workload: examples/gpt.py` in a study. Change
the constants to make it another size.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import Optimizer
from torch.utils.data import Dataset

VOCABULARY = 32_000
CONTEXT = 512
LAYERS = 10
WIDTH = 512
HEADS = 8
SAMPLES = 8_192


class Tokens(Dataset[Tensor]):
    """Sequences of random tokens, one more than the network reads. The same index is always the same sequence."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> Tensor:
        generator = torch.Generator().manual_seed(index)
        return torch.randint(0, VOCABULARY, (CONTEXT + 1,), generator=generator)


class Block(nn.Module):
    """Attention to earlier tokens, then two linear layers; each beside a path that skips it."""

    def __init__(self) -> None:
        super().__init__()
        self.norm_of_attention = nn.LayerNorm(WIDTH)
        self.queries_keys_values = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)
        self.norm_of_layers = nn.LayerNorm(WIDTH)
        self.layers = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: Tensor) -> Tensor:
        batch, tokens, _ = x.shape
        heads = self.queries_keys_values(self.norm_of_attention(x)).view(batch, tokens, 3, HEADS, WIDTH // HEADS)
        queries, keys, values = heads.permute(2, 0, 3, 1, 4).unbind()
        attended = functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, tokens, WIDTH))
        mixed: Tensor = self.layers(self.norm_of_layers(x))
        return x + mixed


class Gpt(nn.Module):
    """Maps tokens (batch, tokens) to the logits of each next token (batch, tokens, VOCABULARY)."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(WIDTH)
        self.logits = nn.Linear(WIDTH, VOCABULARY, bias=False)
        for embedding in (self.tokens, self.places):
            nn.init.normal_(embedding.weight, std=0.02)
        self.logits.weight = self.tokens.weight  # one matrix for both

    def forward(self, tokens: Tensor) -> Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        logits: Tensor = self.logits(self.norm(self.blocks(self.tokens(tokens) + self.places(places))))
        return logits


def network() -> nn.Module:
    return Gpt()


def dataset() -> Dataset[Tensor]:
    return Tokens()


def loss(network: nn.Module, batch: Tensor) -> Tensor:
    """Cross-entropy of every next token."""
    logits = network(batch[:, :-1])
    return functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())


def optimiser(parameters: list[nn.Parameter]) -> Optimizer:
    return torch.optim.AdamW(parameters, lr=3e-4, weight_decay=0.1)
