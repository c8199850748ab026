"""What is trained: a network, its data and its loss, as plain functions."""
