"""The export command: a tracker that is not installed is named in one line, and no other command asks for one."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dpscale.export
from command_line import dpscale as call
from exported_study import Measured

TRACKERS = ("wandb", "mlflow", "tensorboard")


class NotInstalled:
    """Finds every module but those of one package, as where that is not installed."""

    def __init__(self, package: str):
        self._package = package

    def find_spec(self, name: str, *_: object) -> None:
        if name.partition(".")[0] == self._package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@pytest.mark.parametrize("tracker", TRACKERS)
def test_a_tracker_that_is_not_installed_is_named_with_its_extra(
    measured: Measured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tracker: str
) -> None:
    monkeypatch.delitem(sys.modules, f"dpscale.export.to_{tracker}", raising=False)
    for name in [name for name in sys.modules if name.partition(".")[0] == tracker]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delattr(dpscale.export, f"to_{tracker}", raising=False)
    monkeypatch.setattr(sys, "meta_path", [NotInstalled(tracker), *sys.meta_path])
    done = call("export", "study.json", "--to", tracker, "--out", tmp_path, folder=measured.folder)
    assert done.returncode == 1
    assert done.stderr.startswith(f"Error: this command needs {tracker}, which the extra dpscale[{tracker}] brings:")


def test_an_address_goes_with_mlflow_alone(measured: Measured) -> None:
    done = call("export", "study.json", "--to", "wandb", "--uri", "http://127.0.0.1:1", folder=measured.folder)
    assert done.returncode == 2
    assert "--uri goes with --to mlflow" in done.stderr


def test_without_tables_there_is_nothing_to_export(measured: Measured, tmp_path: Path) -> None:
    done = call("export", "study.json", "--to", "tensorboard", "--results", tmp_path, folder=measured.folder)
    assert done.returncode == 1
    assert "no tables there" in done.stderr


LOADED_BY = """
import sys
from click.testing import CliRunner
from dpscale.cli import main
done = CliRunner().invoke(main, sys.argv[1:], catch_exceptions=False)
assert done.exit_code == 0, done.output
print(*{"wandb", "mlflow", "tensorboard", "torch", "pandas"}.intersection(sys.modules))
"""


@pytest.mark.processes
@pytest.mark.parametrize(
    ("command", "loaded"), [("watch study.json --once", ""), ("export study.json --to tensorboard", "tensorboard")]
)
def test_a_command_loads_no_tracker_but_its_own(measured: Measured, tmp_path: Path, command: str, loaded: str) -> None:
    shutil.copytree(measured.folder, tmp_path, dirs_exist_ok=True)
    words = [sys.executable, "-c", LOADED_BY, *command.split()]
    done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path, check=True)
    assert done.stdout.splitlines()[-1] == loaded
