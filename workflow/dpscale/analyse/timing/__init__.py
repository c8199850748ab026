"""What records of timing say: epochs and steps, speedups block by block, runs, environments, and what was measured."""
