"""Kill runs of the laptop's study at random moments: nothing that was measured is lost, and nothing is left behind.

python bench/kills.py [kills] [seed]    In a copy of the project; every run goes on where the last one was killed.

Half of the kills are of Snakemake alone, as an out-of-memory killer would; the others are of all its processes at once.
After each, every record must be whole and, byte for byte, what it was. The next run, which takes the lock of the killed
one, may make only those that are missing. When all are there, they are removed and it begins again. A last run goes on
until its end: then no process, no half-written file and no temporary folder of any run is left.
"""

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "workflow"), str(ROOT / "tests/helpers")]

from dpscale.records.files import read_record  # noqa: E402
from dpscale.records.kinds import RECORDS  # noqa: E402
from dpscale.records.temporary import OLD_S  # noqa: E402
from processes import alive, started_by  # noqa: E402
from project import wait_for  # noqa: E402

LONGEST_S = 60.0  # from the start of a run to its kill
GONE_S = 60.0  # in which workers of a killed run end by themselves
KINDS = {"cells": "timing", "communication": "communication", "collectives": "collectives"}


def main(kills: int, seed: int) -> None:
    draw, outcomes = random.Random(seed), Counter[str]()
    with tempfile.TemporaryDirectory(prefix="kills-") as name:
        folder = Path(name)
        for part in ("workflow", "config"):
            shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "Snakefile", folder)
        temporary = folder / "tmp"
        temporary.mkdir()
        study = yaml.safe_load((folder / "config/laptop.yaml").read_text())
        (folder / "study.yaml").write_text(yaml.safe_dump({**study, "study": "killed"}))
        before: dict[Path, str] = {}
        for number in range(kills):
            alone = draw.random() < 0.5
            ended = run_and_kill(folder, draw.uniform(1, LONGEST_S), alone)
            records = checksums(folder)
            outcomes["ended by itself" if ended else "Snakemake killed" if alone else "all killed"] += 1
            lost = [path for path, digest in before.items() if records.get(path) != digest]
            assert not lost, f"kill {number}: lost or changed: {lost}"
            outcomes["records kept"] += len(before)
            outcomes["records made"] += len(records) - len(before)
            print(f"kill {number + 1} of {kills}: {len(records)} records, {len(records) - len(before)} new", flush=True)
            before = records
            if ended:
                shutil.rmtree(folder / "results")
                before = {}
        outcomes["temporary folders of killed runs"] = len([*temporary.iterdir()])
        time.sleep(OLD_S)
        assert run_and_kill(folder, 600, alone=True), "the last run takes more than 600 s"
        records = checksums(folder)
        assert not [path for path, digest in before.items() if records.get(path) != digest], "the last run changed some"
        left = [*folder.rglob("*.partial"), *temporary.iterdir()]
        left = [path for path in left if not path.name.startswith("torchinductor_")]  # one cache of torch for all runs
        assert not left, f"left behind: {left}"
    print(", ".join(f"{name}: {number}" for name, number in outcomes.items()))


def run_and_kill(folder: Path, seconds: float, alone: bool) -> bool:
    """Run Snakemake as `make report` does, and kill it after so many seconds; return whether it had ended before. No
    process of it stays."""
    environment = {"PYTHONPATH": str(folder / "workflow"), "CUDA_VISIBLE_DEVICES": "", "TMPDIR": str(folder / "tmp")}
    run = subprocess.Popen(
        [sys.executable, "-m", "dpscale.run", "study.yaml", "", "", "", "summary"],
        cwd=folder, env={**os.environ, **environment}, start_new_session=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    until = time.monotonic() + seconds
    while run.poll() is None and time.monotonic() < until:
        time.sleep(0.05)
    if run.poll() is not None:
        assert run.returncode == 0, f"Snakemake ended with {run.returncode}"
        return True
    family = started_by(run.pid)
    if alone:
        run.kill()
    else:
        os.killpg(run.pid, signal.SIGKILL)
        for pid in family:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    run.wait()
    wait_for(lambda: not alive(family), timeout_s=GONE_S)
    return False


def checksums(folder: Path) -> dict[Path, str]:
    """Return the checksum of every record, each of which must be valid."""
    records = {}
    for part, kind in KINDS.items():
        for path in sorted((folder / "results/killed" / part).rglob("*.json")):
            read_record(RECORDS[kind], path)
            records[path] = sha256(path.read_bytes()).hexdigest()
    return records


if __name__ == "__main__":
    words = dict(enumerate(sys.argv))
    main(int(words.get(1, 50)), int(words.get(2, 0)))
