"""The diagnosis: why a training script, unchanged, is not faster."""
