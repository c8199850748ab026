"""`make report` and `make assignment` in one process: count the GPUs, run Snakemake, and show what came out.

`python -m dpscale.run <study or ''> <study on GPUs> <runs or ''> <command> <options>` runs the first study; where none
is named, the second one, or without a GPU the laptop's. A number of runs stands for the study's own `runs`. Then comes
`dpscale <command> --study <study> <options>`.
"""

import sys
from collections.abc import Mapping
from pathlib import Path

from dpscale.measure.watch.nvml import count_gpus

LAPTOP = "config/laptop.yaml"


def main(chosen: str, on_gpus: str, runs: str, command: str, *options: str) -> None:
    gpus = count_gpus()
    study = chosen or (on_gpus if gpus else LAPTOP)
    if not Path(study).is_file():
        sys.exit(f"Error: {study}: there is no such study file")
    print(f"{gpus} CUDA GPUs here; the study is {study}", flush=True)
    _snakemake(study, {"gpus_available": str(gpus), **({"runs": runs} if runs else {})})

    from dpscale.cli import main as dpscale

    dpscale([command, "--study", study, *options])


def _snakemake(study: str, changes: Mapping[str, str]) -> None:
    """Run Snakemake, and end this process where that fails. `changes` stand for keys of the study file."""
    from snakemake import cli

    how = ["--cores", "all", "--keep-going", "--rerun-incomplete", "--logger", "dpscale"]
    sys.argv = [cli.__file__, *how, "--configfile", study, "--config"]
    sys.argv += [f"{key}={value}" for key, value in changes.items()]
    try:
        cli.main()
    except SystemExit as end:
        if end.code:
            raise


if __name__ == "__main__":
    main(*sys.argv[1:])
