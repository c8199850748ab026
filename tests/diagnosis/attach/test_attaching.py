"""How hooks come into a process and leave it: the script's own errors, ends and settings stay its own."""

import subprocess
import sys
from pathlib import Path

import pytest

from attached import SITE, run_attached

pytestmark = pytest.mark.processes

LOOP = """
import sys, torch
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for step in range({steps}):
    optimizer.zero_grad()
    net(torch.ones(2, 4)).sum().backward()
    {between}
    optimizer.step()
print("the end")
"""


def looped(folder: Path, steps: str = "10**9", between: str = "pass") -> list[str]:
    (folder / "script.py").write_text(LOOP.format(steps=steps, between=between))
    return ["script.py"]


@pytest.mark.parametrize(("memory", "strategy"), [("pass", "single"), ("net.share_memory()", "other")])
def test_a_network_in_memory_of_several_processes_is_not_trained_by_one(
    memory: str, strategy: str, tmp_path: Path
) -> None:
    (process,) = run_attached(tmp_path, looped(tmp_path, between=memory), minutes=0.01).processes
    assert process["strategy"] == strategy


def test_a_script_that_ends_early_leaves_what_there_is(tmp_path: Path) -> None:
    run = run_attached(tmp_path, looped(tmp_path, "7"), minutes=5)
    assert (run.code, run.output) == (0, "the end\n")
    (process,) = run.processes
    assert (process["status"], process["steps"], process["blocks"]) == ("few steps", 7, [])


def test_a_script_that_fails_keeps_its_error(tmp_path: Path) -> None:
    run = run_attached(tmp_path, looped(tmp_path, "99", "assert step < 50, 'mine'"), minutes=5)
    assert run.code == 1
    assert run.output.endswith("AssertionError: mine\n")
    assert "diagnosis/attach" not in run.output
    assert run.processes[0]["steps"] == 50


def test_a_script_that_catches_every_exception_ends_all_the_same(tmp_path: Path) -> None:
    run = run_attached(tmp_path, looped(tmp_path, between="try: optimizer.step()\n    except: pass\n    continue"))
    assert (run.code, run.processes[0]["status"]) == (0, "measured")


def test_a_process_that_trains_nothing_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("import torch; print(torch.ones(2).sum().item())")
    run = run_attached(tmp_path, ["script.py"])
    assert (run.code, run.output, run.files) == (0, "2.0\n", ["job.json"])


def test_the_users_own_sitecustomize_runs_first(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own/sitecustomize.py").write_text("import sys; sys.argv.append('own'); print('own runs')")
    command = looped(tmp_path, "3", "pass")
    run = run_attached(tmp_path, command, environment={"PYTHONPATH": str(tmp_path / "own")})
    assert run.output == "own runs\nthe end\n"
    assert len(run.processes) == 1


def test_a_script_that_leaves_at_once_or_empties_its_environment_is_measured_all_the_same(tmp_path: Path) -> None:
    command = looped(tmp_path, "60", "step == 59 and __import__('os')._exit(0)")
    script = tmp_path / "script.py"
    script.write_text(f"import os; os.environ.clear()\n{script.read_text()}")
    run = run_attached(tmp_path, command, minutes=5)
    assert run.code == 0, run.output
    assert run.processes[0]["steps"] == 59


def test_own_code_at_instructions_without_a_line_is_found(tmp_path: Path) -> None:
    """Such as the jump at the end of this loop in Python 3.11, where samples are taken."""
    loop = "for n in range(10**5):\n        if n % 2:\n            if n % 3:\n                rest = n"
    run = run_attached(tmp_path, looped(tmp_path, between=loop))
    assert run.code == 0, run.output
    most = max(run.processes[0]["lines"], key=lambda line: line["samples"])
    assert most["kind"] == "own"
    assert most["code"] in loop


def test_a_script_that_asks_autograd_for_gradients_has_its_operations_counted(tmp_path: Path) -> None:
    """Of leaves, as for a penalty or an equation: hooks at modules would make that fail."""
    asks = "x = torch.ones(2, 4, requires_grad=True); torch.autograd.grad(net(x).sum(), x)"
    run = run_attached(tmp_path, looped(tmp_path, between=asks))
    assert run.code == 0, run.output
    assert run.processes[0]["flops_per_step"] > 0


def test_for_the_pace_alone_optimisers_are_all_that_is_hooked(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    plain = "torch.autograd.backward.__module__ == 'torch.autograd' and torch.save.__code__.co_filename"
    run = run_attached(tmp_path, looped(tmp_path, between=f"assert 'serialization' in ({plain})"), mode="pace")
    assert run.code == 0, run.output
    (process,) = run.processes
    assert set(run.probes()) == {"as_it_is", "as_it_is_again"}
    assert "switches" not in process


def test_two_optimisers_make_one_step(tmp_path: Path) -> None:
    """A GAN has three steps of one to each of the other."""
    second = "globals().setdefault('other', torch.optim.Adam(net.parameters()))"
    run = run_attached(tmp_path, looped(tmp_path, between=f"if step % 3 == 0: {second}.step()"))
    (process,) = run.processes
    assert process["optimiser"]["class"] == "Adam"
    assert process["micro_batches_per_step"] == 3
    assert process["status"] == "measured"


def test_processes_that_are_no_ranks_are_watched_only(tmp_path: Path) -> None:
    (tmp_path / "both.py").write_text(
        "import subprocess, sys\nruns = [subprocess.Popen([sys.executable, 'script.py']) for _ in range(2)]\n"
        "sys.exit(max(run.wait() for run in runs))"
    )
    looped(tmp_path)
    run = run_attached(tmp_path, ["both.py"])
    assert run.code == 0, run.output
    whys = {process["why"] for process in run.processes}
    assert whys == {"several processes that are no ranks"}


def test_what_goes_into_a_script_imports_nothing_but_torch() -> None:
    imports = subprocess.run(
        ["grep", "-rhoE", r"^ *(from|import) [a-z_.]+", str(SITE.parent)], capture_output=True, text=True, check=True
    )
    names = {line.split()[1].split(".")[0] for line in imports.stdout.splitlines()} - {""}
    assert names <= {*sys.stdlib_module_names, "torch"}
