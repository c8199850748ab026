"""What it is trained on: datasets, batches, augmentation."""
