"""What a record says of the code's repository, and that asking for it changes nothing there."""

import os
import subprocess
from pathlib import Path

import pytest

from dpscale.measure.launch.cells import git_state

pytestmark = pytest.mark.processes


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "--quiet")
    (tmp_path / "code.py").write_text("one = 1\n")
    git(tmp_path, "add", "code.py")
    git(tmp_path, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "--message", "first")
    return tmp_path


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", "-C", folder, *arguments], capture_output=True, text=True, check=True).stdout.strip()


def test_a_changed_file_makes_the_commit_dirty(repository: Path) -> None:
    commit = git(repository, "rev-parse", "HEAD")
    assert git_state(repository) == (commit, False)
    (repository / "code.py").write_text("one = 2\n")
    assert git_state(repository) == (commit, True)


def test_asking_takes_no_lock(repository: Path) -> None:
    """A cell that is killed while git holds a lock would leave it behind. Git takes one to store the new time of a file
    that is otherwise as it was."""
    index = repository / ".git/index"
    os.utime(repository / "code.py", (1, 1))
    before = index.read_bytes()
    assert git_state(repository)[1] is False
    assert index.read_bytes() == before
    git(repository, "status")
    assert index.read_bytes() != before, "git itself does store it"
