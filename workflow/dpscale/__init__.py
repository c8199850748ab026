"""What more GPUs really buy in data-parallel training, and where the time goes."""

__version__ = "0.1.0"
