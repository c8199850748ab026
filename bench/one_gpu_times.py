"""The table of one-GPU epoch times that `dpscale audit` compares published ones with, from recorded results.

    python bench/one_gpu_times.py results/recorded* > workflow/dpscale/vocabulary/one_gpu_times.yaml

Reads timing records of one GPU, and measures nothing.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple
from itertools import groupby
from pathlib import Path
from statistics import median

from dpscale.audit.physics import Reference, Work
from dpscale.records.files import read_record
from dpscale.vocabulary.chips import chip_named

HEAD = """\
# One-GPU epoch times of recorded studies: medians in seconds, one per run and per scope, shortest first.
# Made by bench/one_gpu_times.py; a test compares it with the records.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("results", nargs="+", type=Path)
    print(table(parser.parse_args().results), end="")


def table(folders: Sequence[Path]) -> str:
    """The table in YAML, with a line per study, work and batch. Raises RecordError."""
    times = sorted((time for folder in folders for time in references_of_records(folder)), key=astuple)
    lines = [HEAD]
    for work, found in groupby(times, key=_work):
        seconds = ", ".join(f"{time.seconds:.3f}" for time in found)
        lines.append(f"- {{{work}, seconds: [{seconds}]}}")
    return "\n".join(lines) + "\n"


def references_of_records(results: Path) -> Iterator[Reference]:
    """The one-GPU times of a measured study, from the records in its folder. Raises RecordError."""
    for path in sorted(results.glob("cells/single/gpus-1/batch-*/run-*.json")):
        record = read_record("timing", path)
        chip, network, settings = chip_named(record["hardware"]["device_model"]), record["network"], record["settings"]
        if record["status"] == "ok" and chip and network:
            of = network["parameters"], settings["epoch_images"], settings["precision"], record["cell"]["batch_per_gpu"]
            for scope in record["scopes"].values():
                yield Reference(f"{results.name}, measured", Work(chip.name, *of), median(scope["epoch_s"]), True)


def _work(time: Reference) -> str:
    """What a time is of, as YAML's text."""
    source = time.source.removesuffix(", measured")
    return ", ".join(f"{name}: {value}" for name, value in {"source": source, **asdict(time.work)}.items())


if __name__ == "__main__":
    main()
