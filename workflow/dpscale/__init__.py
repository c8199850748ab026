"""What more GPUs really buy in data-parallel training, and what eats the rest."""

__version__ = "0.1.0"
