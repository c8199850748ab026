"""Variants of a study: the same GPUs under other settings, beside each other and beside the limit of a GPU."""
