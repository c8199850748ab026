"""What jobs ask a cluster for, Slurm, and Snakemake. Free of torch: this is read on login nodes."""
