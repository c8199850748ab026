"""The ways to train on several GPUs. A strategy is a folder: all that needs no torch is in its `__init__`, its wrapper
and its rungs are in `in_torch`. `known` lists the strategies."""
