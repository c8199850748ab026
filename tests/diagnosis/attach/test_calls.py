"""Calls that are counted by their line, and answered at once by an intervention; GPUs are not needed for that."""

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any
from weakref import ref

import pytest
import torch

from dpscale.diagnosis.attach.calls import ASKED, Calls, Events, Numbers, copied
from dpscale.diagnosis.attach.hooks import NOW, put, take_out
from dpscale.diagnosis.attach.loader import LOADING
from dpscale.diagnosis.attach.probes import PROBES, Optimisers, Scene, offered


@pytest.fixture(autouse=True)
def counting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within the counted steps of a block as it is; tensors seem to be on a GPU."""
    monkeypatch.setattr(NOW, "counting", True)
    monkeypatch.setattr(NOW, "as_it_is", True)
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)


@pytest.mark.parametrize("shapes_change", [True, False])
def test_batches_whose_shapes_change_have_their_own_numbers(
    shapes_change: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A length of another batch would not fit: the script would fail."""
    monkeypatch.setattr(LOADING, "shapes_change", lambda: shapes_change)
    monkeypatch.setattr(ASKED, "count", 9)
    assert ("no_waiting" in offered(Scene([], True, 1, 1.0))) != shapes_change


def test_a_number_is_answered_with_the_last_true_one_of_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.Tensor, "tolist", torch.Tensor.tolist)
    numbers = Numbers()
    put([(torch.Tensor, "tolist", numbers.hook)])
    answers = []
    for step in range(4):
        numbers.left_out = step in (1, 2)
        answers.append(torch.tensor([float(step)]).tolist())
        answers[-1].append(9.0)  # the script's own list
    assert answers == [[0.0, 9.0], [0.0, 9.0], [0.0, 9.0], [3.0, 9.0]]
    (row,) = numbers.report()
    assert (row["code"], row["calls"]) == ("answers.append(torch.tensor([float(step)]).tolist())", 2)
    monkeypatch.setattr(NOW, "counting", False)
    numbers.left_out = True
    assert torch.tensor([7.0]).tolist() == [7.0]


@pytest.mark.parametrize("answer", [1.5, [], [1.0, 2.0], [[1.0], [2.0]]])
def test_a_script_may_write_into_its_answer(answer: Any) -> None:
    kept = copied(answer)
    assert kept == answer
    if isinstance(kept, list):
        (kept[0] if kept and isinstance(kept[0], list) else kept).append(9.0)
        assert kept != answer


def test_calls_are_counted_by_line_and_left_out_while_an_intervention_says_so() -> None:
    real, calls = type("Real", (), {"save": abs}), Calls(answer="left out")
    module: Any = type("Module", (real,), {})
    put([(module, "save missing", calls.hook)])
    told = []
    for calls.left_out in (False, True, False):
        told.append(module.save(-1))
    assert told == [1, "left out", 1]
    (row,) = calls.report()
    assert (row["code"], row["calls"], calls.count) == ("told.append(module.save(-1))", 2, 3)
    take_out()
    assert module.save is abs
    assert "save" not in vars(module)


def test_interventions_leave_nothing_behind() -> None:
    """The interventions that can be begun on a CPU, on switches that are on."""
    network = torch.nn.Linear(2, 2)
    optimiser = torch.optim.Adam(network.parameters(), foreach=False)
    network(torch.ones(1, 2)).sum().backward()
    optimiser.step()
    scene = Scene([optimiser], False, 1, 1.0)
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.set_anomaly_enabled(True, False)
    try:
        before = state(optimiser)
        for probe in PROBES.values():
            with ExitStack() as undo:
                probe.begin(scene, undo)
            assert state(optimiser) == before
    finally:
        torch.use_deterministic_algorithms(False)
        torch.set_anomaly_enabled(False)


def test_a_collection_while_the_last_steps_are_profiled_is_none_of_the_script() -> None:
    """The profiler loads modules."""
    events = Events()
    for events.profiling in (False, True):
        events.collected("start", {"generation": 2})
        events.collected("stop", {"generation": 2})
    assert events.report()["gc"]["count"] == 1


def test_steps_in_which_the_script_profiles_are_counted() -> None:
    events = Events()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        events.stepped(0.01)
    events.stepped(0.01)
    assert (events.profiled_steps, events.steps) == (1, 2)


def test_what_cudnn_may_do_is_no_switch_of_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)
    assert "deterministic_off" not in offered(Scene([], False, 1, 1.0))


def state(optimiser: torch.optim.Optimizer) -> object:
    switches = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
        torch.is_anomaly_enabled(),
        torch.is_anomaly_check_nan_enabled(),
        torch.is_autocast_enabled("cuda"),
        torch.get_autocast_dtype("cuda"),
        torch.backends.cuda.matmul.allow_tf32,
        torch.backends.cudnn.allow_tf32,
        torch.backends.cudnn.benchmark,
    )
    groups = [{name: group[name] for name in ("fused", "foreach")} for group in optimiser.param_groups]
    return switches, groups, [str(state["step"].device) for state in optimiser.state.values()]


def test_an_optimiser_that_takes_the_place_of_one_that_is_gone_is_known() -> None:
    """Python gives a new object the address of an old one: by it alone nobody would step."""

    class Stepped:
        param_groups: Sequence[Any] = ()

    optimisers, second = Optimisers(Stepped()), Stepped()
    optimisers.main, optimisers.refs, optimisers.calls = id(second), {id(second): ref(Stepped())}, {id(second): 1}
    assert not optimisers.ends_step(second, learning=True)
    assert optimisers.ends_step(second, learning=False)
    optimisers.choose()
    assert optimisers.living() == [second]
