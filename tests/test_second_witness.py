"""README's first table once more, from the records to the last digit, by a script that knows nothing of the package."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.processes


def witness(root: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    # Without site-packages: neither dpscale nor anything that it is made of can be imported.
    command = [sys.executable, "-I", "-S", root / "bench/second_witness.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def test_the_package_cannot_be_imported_there() -> None:
    done = subprocess.run([sys.executable, "-I", "-S", "-c", "import dpscale"], capture_output=True, check=False)
    assert b"No module named 'dpscale'" in done.stderr


def test_readme_says_what_a_second_computation_says(root: Path) -> None:
    done = witness(root)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("All agree to the last digit printed\n")
    checked = [line for line in done.stdout.splitlines() if ", 2 H100, batch " in line]
    assert len(checked) == 8 and not any("not checked" in line for line in checked)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("| 1.83 [1.57, 2.12] |", "| 1.84 [1.57, 2.12] |"),
        ("| 1.83 [1.57, 2.12] |", "| 1.83 [1.57, 2.11] |"),
        ("| 1.83 [1.57, 2.12] |", "| – |"),
        ("| 2.31 [1.74, 3.07] |", "| 2.32 [1.74, 3.07] |"),
        ("as fast as 1 [1.36, 1.50]", "as fast as 1 [1.37, 1.50]"),
        ("3.77 [3.37, 4.22]", "3.77 [3.37, 4.23]"),
    ],
)
def test_a_digit_that_is_off_is_found(root: Path, tmp_path: Path, right: str, wrong: str) -> None:
    text = (root / "README.md").read_text()
    assert right in text
    (tmp_path / "README.md").write_text(text.replace(right, wrong, 1))
    done = witness(root, tmp_path / "README.md")
    assert done.returncode == 1 and "Differ by more than rounding: 1" in done.stdout
    assert done.stdout.count("DIFFERS") == 1
