"""Steps of a script, and its statements to which samples of its stack belong."""

import ast
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from torch import nn

from dpscale.diagnosis.attach import calls as of_calls
from dpscale.diagnosis.attach import steps as of_steps
from dpscale.diagnosis.attach.hooks import NOW, OWN, NotedStep, StepParts, shown, user_lines
from dpscale.diagnosis.attach.schedule import Turn
from dpscale.diagnosis.attach.steps import Sample, Sampler, StepClock, beside_training, deepest, kind_of, sample_of

SCRIPT = """\
def average(mean, net):
    for name in mean:
        mean[name] *= 0.99


def train(loader):
    for batch in loader:
        net(batch)
        optimiser.step()
        average(mean, net)
        if batch:
            for row in batch:
                words = row.split()
        optimiser.step(
        )
    with open(path):
        save(path)


for epoch in range(9):
    train(loader)
    check(net)
"""
TRAINING = (9, 14, 21)  # lines of stacks at which it trains


@pytest.mark.parametrize(
    ("stack", "statements"),
    [
        ([3, 10, 21], [10, 2]),  # a function that is called from the training, and its loop
        ([3, 9, 21], [2]),  # a function in a line that trains
        ([13, 21], [12]),  # a loop beside the training
        ([13, 13, 21], [12]),  # and a comprehension in it, which has a frame of its own
        ([8, 21], [8]),
        ([15, 21], [15]),  # around the optimiser: the innermost line itself
        ([17, 21], [17]),  # `with` alone does nothing
        ([22], [22]),
        ([3], [3]),  # called from nowhere that trains
    ],
)
def test_a_stack_belongs_to_a_statement_beside_the_training(
    stack: list[int], statements: list[int], tmp_path: Path
) -> None:
    file = tmp_path / "train.py"
    file.write_text(SCRIPT)
    training = {(str(file), number) for number in TRAINING}
    place = beside_training([(str(file), number) for number in stack], training)
    assert place == tuple((str(file), number) for number in statements)


def test_a_file_that_cannot_be_read_keeps_its_line() -> None:
    assert beside_training([("<gone>", 3)], ()) == (("<gone>", 3),)
    assert beside_training([], ()) == ()


def test_a_generator_that_has_yielded_meanwhile_is_no_sample() -> None:
    """Its frame has no callers, so no line of the script."""
    sampler = Sampler(sys.getswitchinterval())
    walking: Any = ast.walk(ast.parse("pass"))
    next(walking)
    sampler.look(walking.gi_frame)
    assert not sampler.latest
    sampler.look(sys._getframe())
    assert len(sampler.latest) == 1


def test_an_instruction_without_a_line_is_of_the_line_before_it() -> None:
    """Every Python gives none to the end of a `with` that an error leaves."""
    code = compile("first = 1\nwith first:\n    second = 2\n", "/train.py", "exec")
    without = max(start for start, _, line in code.co_lines() if line is None)
    frame: Any = SimpleNamespace(f_code=code, f_lineno=None, f_lasti=without, f_back=None, f_globals={})
    ((_, number),) = user_lines(frame, 3)
    assert number in (2, 3)


@pytest.mark.parametrize(
    ("at_borders", "of_account", "counted"),
    [(range(10), 0, range(10)), ([0], 0, range(1, 10)), ([0, 7], 5, [1, 2, 3, 4, 5, 6, 8, 9])],
)
def test_samples_count_in_steps_that_a_block_counts(
    at_borders: Sequence[int], of_account: int, counted: Sequence[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where something begins in every step that otherwise stands between steps, such as validation; and in steps
    of a GPU beyond those that the account tells."""
    account = SimpleNamespace(steps=lambda: [NotedStep(0.01, {})] * of_account)
    monkeypatch.setattr(of_steps, "ACCOUNT", account)
    monkeypatch.setattr(NOW, "step", 30)
    sampler = Sampler(sys.getswitchinterval())
    clock = StepClock(of_account > 0, sampler, with_pauses=False)
    clock.times, clock.loading = [0.01] * 10, [0.0] * 11
    clock.known = [(0.0, "evaluation" if step in at_borders else "", {"gc": 0.0}) for step in range(10)]
    sampler.latest.extend((step, Sample(OWN, OWN, (("train.py", step),))) for step in range(5, 31))
    clock.block(Turn("timing", 0, "as_it_is", 0, 10), 0.1)
    assert [sample.lines[0][1] - 20 for sample in sampler.steady] == list(counted)


def test_the_place_is_the_innermost_statement_with_nearly_all_of_the_time() -> None:
    call, loop, first, second = (("train.py", number) for number in (10, 2, 5, 6))
    assert deepest(Counter({(call, loop): 9, (call,): 1})) == loop
    assert deepest(Counter({(call, loop, first): 5, (call, loop, second): 5})) == loop
    assert deepest(Counter({(call, first): 5, (call, second): 5})) == call
    assert deepest(Counter({(): 3})) is None


def test_libraries_tell_kinds_by_their_modules_and_not_by_words() -> None:
    kinds = [
        kind_of(name) for name in ("logging.handlers", "torch.optim.adam", "catalogue", "logging_of_mine", "pickle")
    ]
    assert kinds == ["logging", "optimiser", "", "", "checkpoint"]
    assert [kind_of("torch._functorch.vmap"), kind_of("torch.autograd.graph")] == ["forward", "backward"]


@pytest.mark.parametrize(("with_pauses", "steps", "seconds"), [(False, 9, 0.09), (True, 10, 0.49)])
def test_pauses_are_no_steps_of_a_block_unless_scripts_are_compared(
    with_pauses: bool, steps: int, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_steps, "ACCOUNT", StepParts())  # without an account of parts
    clock = StepClock(False, None, with_pauses)
    clock.times, clock.loading, clock.limit = [*[0.01] * 9, 0.4], [0.0] * 11, 0.03
    block = clock.block(Turn("timing", 0, "as_it_is", 0, 10), 0.49)
    assert (block["steps"], block["seconds"]) == (steps, pytest.approx(seconds))


@pytest.mark.parametrize(
    ("times", "counted"),
    [
        ([0.06, 40.0], 1),
        ([0.065, 1.45, 0.06, 39.0], 2),
        ([0.06, 0.24, 0.06, 0.24], 4),  # steps of two kinds: none is a pause
        ([0.06, 0.06, 0.06, 0.24], 4),  # nor in a block without what makes the others as long
        ([0.06] * 9 + [40.0], 9),
    ],
)
def test_a_pause_in_a_block_of_few_steps_is_no_step_of_it(
    times: list[float], counted: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(of_steps, "ACCOUNT", StepParts())
    clock = StepClock(False, None, with_pauses=False)
    clock.times, clock.loading = times, [0.0] * (len(times) + 1)
    clock.limit = 3 * (0.15 if counted == 4 else 0.06)
    block = clock.block(Turn("timing", 0, "as_it_is", 0, len(times)), sum(times))
    assert block["steps"] == counted
    assert block["seconds"] == pytest.approx(sum(sorted(times)[:counted]))


@pytest.mark.parametrize(
    ("cycle", "border", "paused"),
    [
        ([13, 13, 67], "", 67),
        ([13, 13, 30], "checkpoint", 30),  # no longer than three steps, and no step of the block either
        ([13, 13, 13.5], "epoch", None),  # no longer than others are
        ([1, 4, 1, 4], "", None),
        ([10] * 9 + [50], "", 50),
    ],
)
def test_what_a_block_leaves_out_is_noted(
    cycle: list[float], border: str, paused: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the time of a step that is long every now and then would be in no sentence."""
    monkeypatch.setattr(of_steps, "ACCOUNT", StepParts())
    clock = StepClock(False, Sampler(sys.getswitchinterval()), with_pauses=False)
    clock.times, clock.loading = cycle * 4, [0.0] * (4 * len(cycle) + 1)
    clock.known = [(0.0, border if seconds == cycle[-1] else "", {"gc": 0.0}) for seconds in clock.times]
    clock.end_as_it_is(sum(clock.times), warm_up=True)
    block = clock.block(Turn("timing", 0, "as_it_is", 0, 4 * len(cycle)), sum(clock.times))
    assert [gap["seconds"] for gap, _ in clock.gaps] == ([paused] * 4 if paused else [])
    kept = [seconds for seconds in cycle if not (seconds == cycle[-1] and (border or paused))]
    assert block["seconds"] == pytest.approx(4 * sum(kept))


def test_a_wait_for_workers_that_finish_together_is_no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four workers that are too slow let every fourth step wait, and the others not at all."""
    monkeypatch.setattr(of_steps, "ACCOUNT", StepParts())
    clock = StepClock(False, Sampler(sys.getswitchinterval()), with_pauses=False)
    waits = [0.0, 0.0, 0.0, 0.26] * 3
    clock.times, clock.loading = [0.02 + wait_s for wait_s in waits], [sum(waits[:step]) for step in range(13)]
    clock.known = [(0.0, "", {"gc": 0.0})] * 12
    clock.end_as_it_is(sum(clock.times), warm_up=True)
    block = clock.block(Turn("timing", 0, "as_it_is", 0, 12), sum(clock.times))
    assert (block["steps"], clock.gaps) == (12, [])
    assert block["loading_s"] == pytest.approx(sum(waits))


def test_a_pause_has_its_parts_by_kind() -> None:
    line, other = ("train.py", 3), ("train.py", 4)
    validation, own = Sample("own", "evaluation", (line,)), Sample("own", "own", (other,))
    places = Sampler(sys.getswitchinterval()).places(Counter({validation: 3, own: 1}))
    assert [(place["kind"], place["line"], place["share"]) for place in places] == [
        ("evaluation", 3, 0.75), ("own", 4, 0.25),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("kinds", "told"),
    [
        ({"own": 3, "forward": 2}, {OWN: 1.0}),  # a rollout computes with the network in between
        ({"forward": 3, "own": 2}, {OWN: 1.0}),  # it trains nothing there
        ({"evaluation": 3, "own": 2, "loading": 1}, {"evaluation": 1.0}),
        ({"evaluation": 2, "own": 1, "logging": 1}, {"evaluation": 0.75, "logging": 0.25}),
    ],
)
def test_a_loop_of_a_pause_is_what_most_of_it_is(kinds: dict[str, int], told: dict[str, float], tmp_path: Path) -> None:
    file = tmp_path / "train.py"
    file.write_text(SCRIPT)
    sampler = Sampler(sys.getswitchinterval())
    stacks = [Sample("forward", "forward", ((str(file), number),)) for number in (3, *TRAINING)]
    sampler.latest.extend((1, sample) for sample in (*stacks, Sample(OWN, "forward", ((str(file), 8),))))
    sampler.count({1})
    # The loop calls a function that the training calls too.
    samples = Counter({Sample(OWN, name, ((str(file), 3), (str(file), 13))): n for name, n in kinds.items()})
    places = sampler.places(samples)
    assert {place["kind"]: place["share"] for place in places} == told
    assert {place["inside"] for place in places} == {"called from line 12: for row in batch:"}
    late_steps = Counter(Sample(OWN, kind, ((str(file), line),)) for kind, line in [("backward", 9), ("forward", 8)])
    assert {place["kind"] for place in sampler.places(late_steps)} == {"backward", "forward"}


def test_code_between_two_passes_of_evaluation_validates() -> None:
    """But not what follows once a network is to train again, such as the work of the next epoch."""
    kinds, network = [], nn.Sequential(nn.Linear(1, 1))
    for mode in (False, True):
        of_calls._train(network, mode)
        kinds.append(sample_of(sys._getframe()).kind)
    NOW.border = ""
    assert kinds == ["evaluation", OWN]


def test_a_teacher_and_a_layer_that_are_to_evaluate_in_every_step_validate_nothing() -> None:
    teacher = nn.Sequential(nn.Linear(1, 1)).eval()
    for module in (teacher, nn.BatchNorm1d(1)):
        of_calls._train(module, False)
        assert (sample_of(sys._getframe()).kind, NOW.border) == (OWN, "")


def test_files_are_named_from_the_folder_of_the_script_or_from_home(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys.modules["__main__"], "__file__", str(tmp_path / "train/run.py"), raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    names = {"train/run.py": "run.py", "train/models/net.py": "models/net.py", "lib.py": "~/lib.py", "/x.py": "/x.py"}
    assert [shown((str(tmp_path / file), 1))["file"] for file in names] == list(names.values())
