"""`make report` and `make assignment` in one process: count the GPUs, run Snakemake, and show what came out.

`python -m dpscale.run <study or ''> <study on GPUs> <study without a GPU or ''> <runs or ''> <command> <options>` runs
the first study; where none is named, the second one, or without a GPU the third. A number of runs stands for the
study's own `runs`. Then comes `dpscale <command> <study> <options>`.
"""

import sys
import tempfile

from dpscale.measure.watch.nvml import count_gpus
from dpscale.records.temporary import TemporaryFolder

NO_GPU = (
    "Error: no GPU here. On a cluster: snakemake --profile slurm --configfile {study} (docs/cluster.md). "
    "To try it on this CPU: make assignment CONFIG=config/laptop.yaml"
)


def main(chosen: str, on_gpus: str, without_gpu: str, runs: str, command: str, *options: str) -> None:
    gpus = count_gpus()
    study = chosen or (on_gpus if gpus else without_gpu)
    if not study:
        sys.exit(NO_GPU.format(study=on_gpus))
    print(f"{gpus} CUDA GPUs here; the study is {study}", flush=True)
    with TemporaryFolder() as folder:
        tempfile.tempdir = folder  # Snakemake's own, too, which a killed run leaves
        _snakemake("--configfile", study, "--config", f"gpus_available={gpus}", *([f"runs={runs}"] if runs else []))
    tempfile.tempdir = None

    from dpscale.cli import main as dpscale

    dpscale([command, study, *options])


def _snakemake(*words: str) -> None:
    """Run Snakemake, and end this process where that fails."""
    from snakemake import cli

    sys.argv = [cli.__file__, "--cores", "all", "--keep-going", "--rerun-incomplete", "--logger", "dpscale", *words]
    try:
        cli.main()
    except SystemExit as end:
        if end.code:
            raise


if __name__ == "__main__":
    main(*sys.argv[1:])
