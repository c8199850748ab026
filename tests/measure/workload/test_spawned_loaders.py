"""A user's file in processes of a DataLoader that are not forked, and so know of it by name alone."""

import os
import subprocess
from pathlib import Path

import pytest

import warm
from workload_file import SAMPLES, written

pytestmark = pytest.mark.processes

# Collates with a function, and makes items with a class, of the file; both need a module beside it.
MORE = """
from beside_the_workload import ONE

class Vectors(Vectors):
    def __getitem__(self, index):
        return torch.full((2,), float(index + ONE))

def collate(items):
    return {"x": torch.stack(items), "threads": [torch.get_num_threads()] * ONE}
"""
LOAD = """
import multiprocessing
import sys
from pathlib import Path

multiprocessing.set_start_method("spawn", force=True)

from dpscale.measure.workload.from_file import fault_of
from dpscale.measure.workload.from_file import load_workload
from dpscale.measure.workload.loading import LoadedEpochs, samples_of_epoch

workload = load_workload(Path(sys.argv[1]))
samples = samples_of_epoch(workload, int(sys.argv[2]))
epoch = LoadedEpochs(samples, (0, 1, 5), 2, False, workload.collate)
try:
    print(sorted(number for batch in epoch for number, _ in batch["x"].tolist()))
except Exception as error:
    sys.exit(str(fault_of(error, workload.path)))
"""


def loaded(path: Path, samples: int) -> subprocess.CompletedProcess[str]:
    return warm.python(["-c", LOAD, str(path), str(samples)], path.parent.parent, os.environ)


def test_they_find_classes_and_functions_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "beside_the_workload.py").write_text("ONE = 1\n")
    done = loaded(written(tmp_path, MORE), SAMPLES - 1)
    assert done.returncode == 0, done.stdout
    assert len(done.stdout.split()) == SAMPLES - 1


def test_what_they_cannot_be_sent_is_told(tmp_path: Path) -> None:
    local = """
def dataset():
    class Local(Vectors):
        pass
    return Local()
"""
    done = loaded(written(tmp_path, local), SAMPLES)
    assert done.returncode == 1
    assert "define its classes and functions at the top level of the file" in done.stdout
