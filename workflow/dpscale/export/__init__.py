"""A study as runs of experiment trackers: Weights & Biases, MLflow, TensorBoard."""
