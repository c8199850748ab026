"""Put the records of a study into one file per run and kind, a line each; or take them apart again.

    python bench/one_file_per_run.py results/recorded-two-gpus
    python bench/one_file_per_run.py --apart results/recorded-two-gpus

`cells/run-3.jsonl` then has what `cells/<strategy>/gpus-<n>/batch-<b>/run-3.json` had, every value as it was, and
tables are the same. A record is read alone with

    grep '"ddp","gpus":2,"batch_per_gpu":32,' results/recorded-two-gpus/cells/run-3.jsonl | python -m json.tool
"""

import json
from pathlib import Path

import click

from dpscale.plan.cells import CollectivesCell, CommunicationCell, TimingCell, TrainingCell, VariantCell

# By the first folder of a record's path.
PATTERNS = {
    kind.path_pattern.partition("/")[0]: kind.path_pattern
    for kind in (TimingCell, VariantCell, CommunicationCell, CollectivesCell, TrainingCell)
}


@click.command()
@click.option("--apart", is_flag=True, help="Write every record into a file of its own again.")
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
def main(folder: Path, apart: bool) -> None:
    (take_apart if apart else put_together)(folder)


def put_together(folder: Path) -> None:
    for name in PATTERNS:
        for path in sorted((folder / name).glob("*/**/*.json"), key=natural):
            of_run = folder / name / f"{path.stem}.jsonl"
            with of_run.open("a") as file:
                file.write(json.dumps(json.loads(path.read_text()), separators=(",", ":")) + "\n")
            path.unlink()
            for parent in path.relative_to(folder / name).parents:
                if parent != Path() and not any((folder / name / parent).iterdir()):
                    (folder / name / parent).rmdir()


def take_apart(folder: Path) -> None:
    for name, pattern in PATTERNS.items():
        for of_run in sorted((folder / name).glob("*.jsonl")):
            for line in of_run.read_text().splitlines():
                record = json.loads(line)
                path = folder / f"{pattern.format(**record['cell'])}.json"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(record, indent=1) + "\n")
            of_run.unlink()


def natural(path: Path) -> list[tuple[str, int]]:
    """Return what sorts `batch-128` behind `batch-32`."""
    words = (part.rpartition("-") for part in path.with_suffix("").parts)
    return [(word, int(number)) if number.isdigit() else (word + number, 0) for word, _, number in words]


if __name__ == "__main__":
    main()
