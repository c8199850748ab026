"""The account of steps inside a script: parts exclude each other, and add up to the step."""

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import nn

from dpscale.diagnosis.attach import calls
from dpscale.diagnosis.attach.hooks import (
    ACCOUNT,
    NOW,
    OWN,
    Networks,
    NotedStep,
    StepParts,
    holds,
    outermost,
    put,
    take_out,
)
from dpscale.diagnosis.attach.steps import mean_parts


def slept(seconds: float) -> float:
    """Sleep, and return how long that took: longer on a busy machine."""
    began = time.perf_counter()
    time.sleep(seconds)
    return time.perf_counter() - began


def test_parts_exclude_each_other_and_add_up_to_the_step() -> None:
    kept = StepParts()
    kept.start(None)
    kept.record()
    began, slept_s = time.perf_counter(), []
    for _ in range(3):
        kept.begin("forward")
        forward_s = slept(0.01)
        kept.begin("garbage collection")
        collection_s = slept(0.02)
        kept.end("garbage collection")
        kept.end("forward")
        slept_s.append((forward_s, collection_s, slept(0.005)))
        kept.step_ended()
    whole_s = time.perf_counter() - began
    steps = [step.parts for step in kept.steps()]
    assert [set(step) for step in steps] == [{"forward", "garbage collection", OWN}] * 3
    assert sum(sum(step.values()) for step in steps) == pytest.approx(whole_s, rel=0.01)
    for step, times_s in zip(steps, slept_s, strict=True):
        in_parts = [step[name] for name in ("forward", "garbage collection", OWN)]
        assert all(part_s >= slept_part_s for part_s, slept_part_s in zip(in_parts, times_s, strict=True))
        assert sum(in_parts) < sum(times_s) + whole_s - sum(map(sum, slept_s)) + 1e-6


def test_parts_of_the_divided_steps_stand_for_all_of_them() -> None:
    steps = [NotedStep(4.0, {}), NotedStep(3.0, {"forward": 1.0, OWN: 2.0}), NotedStep(5.0, {"forward": 3.0, OWN: 2.0})]
    assert mean_parts(steps) == {"forward": 2.0, OWN: 2.0}
    assert mean_parts(steps[:1]) == mean_parts([]) == {}


def test_a_part_that_never_ended_ends_with_the_one_around_it() -> None:
    kept = StepParts()
    kept.start(None)
    kept.begin("forward")
    kept.begin("logging")
    kept.end("forward")
    kept.end("optimiser")  # never begun
    assert kept.open == [OWN]


def test_another_thread_begins_no_part() -> None:
    kept = StepParts()
    kept.start(None)
    other = threading.Thread(target=kept.begin, args=["forward"])
    other.start()
    other.join()
    assert kept.open == [OWN]


def test_the_networks_of_an_optimiser_are_the_outermost_that_hold_its_parameters() -> None:
    inner = nn.Linear(2, 2)
    network, average = nn.Sequential(inner, nn.ReLU()), nn.Linear(2, 2)
    trained = {id(parameter) for parameter in inner.parameters()}
    assert outermost(trained) == [network]
    assert not holds(average, trained)


def test_where_the_outermost_is_never_called_the_passes_of_those_inside_it_are_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Trainer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.networks = nn.ModuleList([nn.Linear(2, 2)])

        def training_step(self) -> Any:
            return self.networks[0](torch.ones(1, 2)).sum()

    trainer = Trainer()
    monkeypatch.setattr(ACCOUNT, "open", [OWN])
    networks = Networks(list(trainer.parameters()))
    ACCOUNT.start(None)
    for _ in range(3):
        ACCOUNT.record()
        trainer.training_step()
        ACCOUNT.step_ended()
        networks.settle()
    ((_, step),) = ACCOUNT.steps()
    networks.take_out()
    assert set(step) == {OWN, "forward"}


def test_passes_collections_and_prints_are_parts(monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    network = nn.Linear(2, 2)
    networks = Networks(list(network.parameters()))
    monkeypatch.setattr(ACCOUNT, "open", [OWN])
    ACCOUNT.start(None)
    put(calls.PLACES)
    try:
        ACCOUNT.record()
        network(torch.ones(1, 2)).sum().backward()
        print("a number")
        ACCOUNT.step_ended()
        with torch.no_grad():
            network.eval()(torch.ones(1, 2))
        ACCOUNT.step_ended()
        first, second = (step.parts for step in ACCOUNT.steps())
    finally:
        NOW.border, NOW.evaluates = "", False
        take_out()
        networks.take_out()
    assert set(first) == {OWN, "forward", "backward", "logging"}
    assert set(second) == {OWN, "evaluation"}
    assert capsys.readouterr().out == "a number\n"


def passes(steps: Sequence[Callable[..., Any]], monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """Return the kinds of passes in each of these steps of a network, which begins as it trains."""
    network: Any = nn.Sequential(nn.Linear(2, 2))
    networks = Networks(list(network.parameters()))
    monkeypatch.setattr(ACCOUNT, "open", [OWN])
    monkeypatch.setattr(NOW, "border", "")
    ACCOUNT.start(None)
    put(calls.PLACES)
    try:
        ACCOUNT.record()
        for step in steps:
            step(network)
            ACCOUNT.step_ended()
            NOW.border, NOW.evaluates = "", False
        return [set(step.parts) - {OWN} for step in ACCOUNT.steps()]
    finally:
        take_out()
        networks.take_out()


def validated(network: Any) -> None:
    network.eval()
    network(torch.ones(1, 2))
    network.train()


@torch.no_grad()
def rolled_out(network: Any) -> None:
    network(torch.ones(1, 2))


@torch.no_grad()
def validated_in_training_mode(network: Any) -> None:
    NOW.evaluates = True  # another loader than that of training was read
    network(torch.ones(1, 2))


def attacked(network: Any) -> None:
    network.eval()
    network(torch.ones(1, 2, requires_grad=True))
    network.train()


def trained_in_evaluation_mode(network: Any) -> None:
    network.eval()
    network(torch.ones(1, 2))


def test_a_pass_with_gradients_that_nobody_asks_for_validates(monkeypatch: pytest.MonkeyPatch) -> None:
    """An attack asks for those of inputs; a network that evaluates in every step is trained like that."""
    steps = [validated, attacked, nn.Module.eval, trained_in_evaluation_mode]
    assert passes(steps, monkeypatch) == [{"evaluation"}, {"forward"}, set(), {"forward"}]


def test_a_pass_without_gradients_of_a_network_in_training_makes_what_it_trains_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert passes([rolled_out, validated_in_training_mode], monkeypatch) == [{"forward"}, {"evaluation"}]


def test_a_pass_in_which_the_mode_changes_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    def changed(network: Any) -> None:
        handle = network[0].register_forward_hook(lambda *_call: network.eval() and None)
        network(torch.ones(1, 2))
        handle.remove()

    passes([changed], monkeypatch)
    assert ACCOUNT.open == [OWN]


def test_rows_of_a_batch_are_shared_in_containers_of_any_kind() -> None:
    class Output(dict[str, Any]):
        pass

    batch: list[Any] = [
        torch.arange(6),
        {"mask": torch.ones(6, 2), "scale": torch.tensor(2.0)},
        (3, Output(x=torch.zeros(6))),
    ]
    rows, inner, (number, output) = calls._with_rows(batch, 6, lambda tensor: tensor[:2])
    assert rows.tolist() == [0, 1]
    assert (inner["mask"].shape, inner["scale"].item(), number) == ((2, 2), 2.0, 3)
    assert type(output) is Output and len(output["x"]) == 2
    assert len(batch[0]) == 6
