"""The answer about a script that was run as it is: which cause it is and what it costs, by made-up processes."""

from typing import Any

import pytest

from dpscale.analyse.causes import FoundCause
from dpscale.diagnosis.diagnose import NO_EXCHANGE, Diagnosis, diagnose_script
from dpscale.vocabulary.causes import CAUSES
from script_factory import HEALTHY, process, script_record

LOADER = {"workers": 2, "batches": 100, "samples": 1600, "hashes": ["a", "b", "c"]}
ON_GPU = {"device": "cuda", "device_model": "NVIDIA H100 80GB HBM3", "backend": "nccl"}
SLOW_EXCHANGE = {**HEALTHY, "as_it_is": 20.4, "batch_kept": 20.3, "gc_off": 20.4}
LINE = {"file": "train.py", "line": 7}


def gap(code: str, **more: Any) -> dict[str, Any]:
    return {"seconds": 20.01, "after_step": 9, "code": code, "what": "script", **LINE, **more}


def answer(*changes: dict[str, Any], one: dict[str, Any] | None = None, other_cores: float = 0.0) -> Diagnosis:
    """Of two ranks, each with its changes; of one change, both alike."""
    ranks = [process(rank, **(changes[rank % len(changes)])) for rank in range(2)]
    record = script_record(*ranks, one=[process(0, 1, **one)] if one else [], other_cores=other_cores)
    return diagnose_script(record)


def both(**changed: Any) -> tuple[dict[str, Any], ...]:
    return (changed,)


def probes(**steps_ms: Any) -> tuple[dict[str, Any], ...]:
    return both(steps_ms={**HEALTHY, **steps_ms})


def late(*times_ms: float) -> dict[str, Any]:
    """Steps without exchange that take these times in turn."""
    return {name: list(times_ms) for name in NO_EXCHANGE}


# Causes that a probe switches off, and with them 4 ms of a step.
SWITCHED_OFF = [
    ("buffers", "no_buffers"), ("anomaly", "anomaly_off"), ("deterministic", "deterministic_off"),
    ("no_tf32", "precision"), ("many_small_tensors", "fused_optimiser"), ("allocator_emptied", "no_emptying"),
    ("hidden_synchronisation", "no_waiting"), ("garbage_collection", "gc_off"),
]  # fmt: skip
# What is found of the two ranks, and its cost in ms.
CASES: list[tuple[str, tuple[dict[str, Any], ...], float]] = [
    *((name, probes(**{probe: 6.4}), 4.0) for name, probe in SWITCHED_OFF),
    ("micro_batches", both(steps_ms={**SLOW_EXCHANGE, "accumulated": 12.4}), 8.0),
    ("unused_search", both(switches={"search_s": 2.0}), 5.0),
    ("threads", both(loading_ms=10.0, steps_ms={**HEALTHY, "as_it_is": 20.3, "no_allreduce": 20.2, "gc_off": 20.3},
                     loader={**LOADER, "hashes": [], "threads_in_worker": 8}), 10.0),
    ("data_parallel", both(strategy="dp", devices=2), float("nan")),
    ("garbage_collection", both(events={"gc": {"count": 27, "seconds": 20.0, "longest_s": 1.0}}), 10.0),
    ("compile_per_length", both(events={"compile": {"count": 30, "seconds": 30.0}}), 15.0),
    ("cudnn_search", both(events={"cudnn_search": {"count": 33, "seconds": 20.0}},
                          switches={"cudnn_benchmark": True}, **ON_GPU), 10.0),
    ("slow_loader", both(loading_ms=10.0, steps_ms={**HEALTHY, "as_it_is": 20.3, "no_allreduce": 20.2}), 10.0),
    ("loading_disturbs", probes(as_it_is=20.3, no_allreduce=20.2), 10.0),
    ("heavy_gradients", both(steps_ms=SLOW_EXCHANGE), 10.2),
    ("slow_link", both(steps_ms={**HEALTHY, "as_it_is": 1010.4, "batch_kept": 1010.3}, world_size=4), 1000.2),
    # Two workers of one machine have no link that is so slow.
    ("heavy_gradients", both(steps_ms={**HEALTHY, "as_it_is": 1010.4, "batch_kept": 1010.3, "gc_off": 1010.4}), 801.0),
    ("interface", both(steps_ms=SLOW_EXCHANGE, environment={"GLOO_SOCKET_IFNAME": "eth1"}), 10.2),
    ("link_switched_off", both(steps_ms=SLOW_EXCHANGE, environment={"NCCL_P2P_DISABLE": "1"}, **ON_GPU), 10.2),
    ("gloo_with_cuda", both(steps_ms=SLOW_EXCHANGE, **{**ON_GPU, "backend": "gloo"}), 10.2),
    ("slow_device", ({}, {"steps_ms": {**HEALTHY, "as_it_is": 30.4, "batch_kept": 30.3, "no_allreduce": 30.2,
                                       "batch_kept_no_allreduce": 30.1}}), 20.0),
    ("uneven_ranks", ({"steps_ms": {**SLOW_EXCHANGE, **late(10, 20)}},
                      {"steps_ms": {**SLOW_EXCHANGE, **late(20, 10)}}), 5.0),
    ("loader_of_one_rank", ({"loading_ms": 12.0, "steps_ms": {**HEALTHY, "as_it_is": 20.3}},
                            {"steps_ms": {**HEALTHY, "as_it_is": 20.3}}), 11.9),
    ("workers_restarted", both(events={"worker_start": {"count": 50, "seconds": 20.0}}), 10.0),
    ("few_batches", both(gaps=[gap("", what="loader start")], events={"worker_start": {"count": 1, "seconds": 20.01}},
                         loader={**LOADER, "hashes": [], "batches": 5, "workers": 16}), 10.0),
    ("validation", both(gaps=[gap("model(x)", border="evaluation")]), 10.0),
    ("validation", both(gaps=[gap("model(x)", inside="train.validate")]), 10.0),
    ("checkpoint", both(gaps=[gap("torch.save(model.state_dict(), path)", what="checkpoint")]), 10.0),
    ("own_code", both(gaps=[gap("plot(losses)")]), 10.0),
    # The first rank waits in the exchange for the second, whose line is told.
    ("checkpoint", ({"gaps": [gap("loss.backward()")]}, {"gaps": [gap("save(model)")]}), 10.0),
    ("logging", both(lines=[{**LINE, "code": "writer.add_histogram(name, p.grad)", "share": 0.5}]), 5.2),
    ("sharding", both(optimiser={"class": "ZeroRedundancyOptimizer"}, collectives=[
        {"calls": 800, "seconds": 2.0}]), 5.0),
    # A rank's own pace is without them.
    ("scalars", both(steps_ms={**HEALTHY, "no_allreduce": 5.1, "batch_kept_no_allreduce": 5.0}, collectives=[
        {**LINE, "code": "all_reduce(x)", "calls": 800, "seconds": 2.0}]), 5.0),
    ("work_not_divided", both(loader=LOADER), 5.2),
    ("started_twice", both(world_size=1, strategy="single"), 5.2),
    ("float64", both(dtypes={"float64": 10_000_000}), 5.05),
    ("small_batch", both(profile={"busy_share": 0.1, "kernels_per_step": 6260}, **ON_GPU), 9.06),
    ("too_few_cores", both(machine={"cores_usable": 1, "busy_share": 0.97}), 5.2),
]  # fmt: skip


@pytest.mark.parametrize(("name", "changes", "cost_ms"), CASES, ids=[case[0] for case in CASES])
def test_a_cause_is_the_first_reason_with_what_it_costs(
    name: str, changes: tuple[dict[str, Any], ...], cost_ms: float
) -> None:
    diagnosis = answer(*changes)
    assert diagnosis.first.name == name
    assert diagnosis.reasons[0].cost_s.value * 1e3 == pytest.approx(cost_ms, rel=0.03, nan_ok=True)
    assert diagnosis.slowed.value == pytest.approx(0)  # the run without hooks is the same


def test_a_healthy_script_has_no_reason() -> None:
    healthy = answer({}, one={"steps_ms": {"as_it_is": 10.0}})
    assert healthy.reasons == []
    assert healthy.is_efficient
    assert healthy.speedup.value == pytest.approx(2 * 10 / 10.4, rel=1e-3)
    assert sum(row.seconds.value for row in healthy.parts) == pytest.approx(healthy.whole_s.value, rel=1e-3)
    assert healthy.cautions == []


def test_every_cause_has_a_case() -> None:
    with_cases_below = {"debugger", "batch_not_scaled", "fixed_steps", "other_work"}
    assert {case[0] for case in CASES} | with_cases_below == set(CAUSES)


@pytest.mark.parametrize(
    ("changes", "one", "other_cores", "first"),
    [
        ({"environment": {"CUDA_LAUNCH_BLOCKING": "1"}}, None, 0.0, "debugger"),
        ({"switches": {"debugger": True}}, None, 0.0, "debugger"),
        # As many batches for one alone, as many steps, or the batch of both together.
        ({}, {"loader": LOADER}, 0.0, "work_not_divided"),
        ({"ended_by": "script"}, {"ended_by": "script", "loader": None}, 0.0, "fixed_steps"),
        ({"ended_by": "script"}, {"ended_by": "script", "steps": 4000, "loader": None}, 0.0, "nothing"),
        ({}, {"batch": 16, "loader": None, "steps_ms": {"as_it_is": 12.0}}, 0.0, "batch_not_scaled"),
        ({"machine": {"cores_usable": 16, "same_command": 1}}, None, 0.0, "started_twice"),
        ({}, None, 15.0, "other_work"),
        ({}, None, 13.0, "nothing"),
        # What is certain comes first, and what is smaller than two equal blocks differ by is no reason.
        ({"loader": LOADER, "steps_ms": {**HEALTHY, "anomaly_off": 1.0}}, None, 0.0, "work_not_divided"),
        ({"gaps": [gap("loss.backward()")]}, None, 0.0, "nothing"),
        ({"gaps": [gap("f(x)", what="gc")]}, None, 0.0, "nothing"),
        ({"environment": {"NCCL_P2P_DISABLE": "1"}, "steps_ms": SLOW_EXCHANGE}, None, 0.0, "heavy_gradients"),
        ({"optimiser": {"class": "ZeroRedundancyOptimizer"}}, None, 0.0, "nothing"),
        # So few bytes take no such time: the ranks wait for a core.
        ({"gradient_bytes": 20_000, "steps_ms": SLOW_EXCHANGE}, None, 0.0, "nothing"),
    ],
)
def test_the_cause_that_is_named_first(
    changes: dict[str, Any], one: dict[str, Any] | None, other_cores: float, first: str
) -> None:
    diagnosis = answer(changes, one=one, other_cores=other_cores)
    assert diagnosis.first.name == first, [(cause.cause.name, cause.share.value) for cause in diagnosis.reasons]


def test_other_work_has_no_cost_and_what_was_measured_keeps_its_own() -> None:
    """Nobody measured whether all of a step waits for cores."""
    diagnosis = answer({"steps_ms": {**HEALTHY, "anomaly_off": 4.4}}, other_cores=15.0)
    other_work, anomaly = found(diagnosis, "other_work"), found(diagnosis, "anomaly")
    assert not (other_work.cost_s.is_known or other_work.share.is_known or other_work.remedies)
    assert anomaly.is_reason and anomaly.cost_s.value * 1e3 == pytest.approx(6.0, rel=0.03)


def found(diagnosis: Diagnosis, name: str) -> FoundCause:
    (finding,) = [cause for cause in (*diagnosis.reasons, *diagnosis.smaller) if cause.cause.name == name]
    return finding


def test_ranks_that_are_bound_to_a_core_each_have_enough() -> None:
    bound = [{"machine": {"cores_usable": 1, "numbers_of_cores": [rank], "busy_share": 0.97}} for rank in range(2)]
    assert answer(*bound).first.name == "nothing"
    assert answer(bound[0]).first.name == "too_few_cores"


def test_a_cause_below_its_least_share_is_no_reason() -> None:
    """Launching is told by a part of the step that is larger than that of other causes."""
    profile = {"busy_share": 0.4, "kernels_per_step": 6260}
    diagnosis = answer({"steps_ms": SLOW_EXCHANGE, "profile": profile, **ON_GPU})
    assert found(diagnosis, "small_batch").share.value == pytest.approx(0.095, abs=0.01)
    assert [reason.cause.name for reason in diagnosis.reasons] == ["slow_link"]


@pytest.mark.parametrize("longer", [1.5, 2])
def test_a_cost_whose_rounds_do_not_agree_is_no_reason(longer: float) -> None:
    ranks = [process(rank, steps_ms={**HEALTHY, "anomaly_off": 6.4}) for rank in range(2)]
    for rank in ranks:
        for block in rank["blocks"]:
            if block["probe"] == "anomaly_off" and block["round"] < 3:
                block["step_s"] = [longer * seconds for seconds in block["step_s"]]
    diagnosis = diagnose_script(script_record(*ranks))
    assert found(diagnosis, "anomaly").share.value > 0.3
    assert diagnosis.first.name == "nothing"


def test_a_difference_no_larger_than_that_of_equal_blocks_is_no_reason() -> None:
    ranks = [process(rank, steps_ms={**HEALTHY, "anomaly_off": 8.4}) for rank in range(2)]
    assert diagnose_script(script_record(*ranks)).first.name == "anomaly"
    for rank in ranks:
        for block in rank["blocks"]:
            if block["probe"] == "as_it_is_again":
                block["step_s"] = [2.5 * seconds for seconds in block["step_s"]]
    assert diagnose_script(script_record(*ranks)).first.name == "nothing"


def test_a_script_that_is_only_watched_is_answered_from_what_was_seen() -> None:
    changes = {
        "status": "observed", "why": "FSDP", "strategy": "fsdp", "steps_ms": {"as_it_is": 10.0},
        "collectives": [{"calls": 9, "seconds": 2.0}],
    }  # fmt: skip
    diagnosis = answer(changes)
    assert diagnosis.first.name == "sharding"
    assert "Nothing was changed in its steps, only watched: FSDP." in diagnosis.cautions


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"world_size": 8}, "Of 8 ranks 2 are on this machine"),
        ({"optimiser": {"class": "Adam", "count": 2}}, "It has 2 optimisers"),
        ({"loader": None}, "No DataLoader was seen"),
        ({"loader": {"iterable": True}}, "Its dataset is iterable"),
        ({"ended_by": "script"}, "ended by itself after 2000 steps"),
    ],
)
def test_what_a_reader_has_to_know_is_said(changes: dict[str, Any], sentence: str) -> None:
    assert any(sentence in caution for caution in answer(changes).cautions)
