"""The ways to train on several GPUs. A strategy owns what it is, in a folder of its own: what is known of it without
torch in the folder's `__init__`, its wrapper and its rungs in `in_torch`. `known` lists them."""
