"""The answer about a script that was run as it is: which cause it is and what it costs, by made-up processes."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest

from dpscale.analyse.causes import FoundCause
from dpscale.diagnosis import finders
from dpscale.diagnosis.account import CAUSE_OF_PART, NO_EXCHANGE, OWN
from dpscale.diagnosis.diagnose import Diagnosis, diagnose_script, text
from dpscale.vocabulary.causes import CAUSES
from script_factory import HEALTHY, process, script_record, statement

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


def late(*times_ms: float) -> dict[str, Any]:
    """Steps without exchange that take these times in turn."""
    return {**SLOW_EXCHANGE, **{name: list(times_ms) for name in NO_EXCHANGE}}


NAN = float("nan")
LOADED = {**HEALTHY, "as_it_is": 20.3, "no_allreduce": 20.2}
SLOWER = {**HEALTHY, "as_it_is": 1010.4, "batch_kept": 1010.3}
LATE = {**HEALTHY, "as_it_is": 30.4, "batch_kept": 30.3, "no_allreduce": 30.2, "batch_kept_no_allreduce": 30.1}
# Causes that a probe switches off, and with them 4 ms of a step.
SWITCHED_OFF = {
    "buffers": "no_buffers", "anomaly": "anomaly_off", "deterministic": "deterministic_off", "no_tf32": "precision",
    "many_small_tensors": "fused_optimiser", "allocator_emptied": "no_emptying",
    "hidden_synchronisation": "no_waiting", "garbage_collection": "gc_off",
}  # fmt: skip
# What is found of the two ranks, its cost in ms, and how both differ from healthy ones, or each of them.
CASES: list[tuple[Any, ...]] = [
    *((name, 4.0, {"steps_ms": {**HEALTHY, probe: 6.4}}) for name, probe in SWITCHED_OFF.items()),
    # An optimiser costs no more than its part takes, whatever blocks differ by.
    ("many_small_tensors", 2.0, {"steps_ms": {**HEALTHY, "fused_optimiser": 6.4}, "parts_ms": {"optimiser": 2.0}}),
    ("micro_batches", 8.0, {"steps_ms": {**SLOW_EXCHANGE, "accumulated": 12.4}}),
    ("unused_search", 5.0, {"switches": {"search_s": 2.0}}),
    ("threads", 10.0, {"loading_ms": 10.0, "steps_ms": {**LOADED, "gc_off": 20.3},
                       "loader": {**LOADER, "hashes": [], "threads_in_worker": 8}}),
    ("data_parallel", 6.0, {"strategy": "dp", "devices": 2, "steps_ms": {**HEALTHY, "share_on_one_device": 4.4}}),
    ("small_messages", 5.6, {"gradient_bytes": 20_000, "world_size": 4, "exchanges_per_step": 4,
                             "steps_ms": SLOW_EXCHANGE}),
    ("garbage_collection", 10.0, {"events": {"gc": {"count": 27, "seconds": 20.0, "longest_s": 1.0}}}),
    ("compile_per_length", 15.0, {"events": {"compile": {"count": 30, "seconds": 30.0}}}),
    ("cudnn_search", 10.0, {"events": {"cudnn_search": {"count": 33, "seconds": 20.0}},
                            "switches": {"cudnn_benchmark": True}, **ON_GPU}),
    ("slow_loader", 10.0, {"loading_ms": 10.0, "steps_ms": LOADED}),
    ("loading_disturbs", 10.0, {"steps_ms": LOADED}),
    ("heavy_gradients", 10.2, {"steps_ms": SLOW_EXCHANGE}),
    ("slow_link", 1000.2, {"steps_ms": SLOWER, "world_size": 4}),
    # Two workers of one machine have no link that is so slow.
    ("heavy_gradients", 801.0, {"steps_ms": {**SLOWER, "gc_off": 1010.4}}),
    ("interface", 10.2, {"steps_ms": SLOW_EXCHANGE, "environment": {"GLOO_SOCKET_IFNAME": "eth1"}}),
    ("link_switched_off", 10.2, {"steps_ms": SLOW_EXCHANGE, "environment": {"NCCL_P2P_DISABLE": "1"}, **ON_GPU}),
    ("gloo_with_cuda", 10.2, {"steps_ms": SLOW_EXCHANGE, **ON_GPU, "backend": "gloo"}),
    ("slow_device", 20.0, {}, {"steps_ms": LATE}),
    ("uneven_ranks", 5.0, {"steps_ms": late(10, 20)}, {"steps_ms": late(20, 10)}),
    ("loader_of_one_rank", 11.9, {"loading_ms": 12.0, "steps_ms": {**HEALTHY, "as_it_is": 20.3}},
     {"steps_ms": {**HEALTHY, "as_it_is": 20.3}}),
    ("workers_restarted", 10.0, {"events": {"worker_start": {"count": 50, "seconds": 20.0}}}),
    ("few_batches", 10.0, {"gaps": [gap("", what="loader start")],
                           "events": {"worker_start": {"count": 1, "seconds": 20.01}},
                           "loader": {**LOADER, "hashes": [], "batches": 5, "workers": 16}}),
    ("validation", 10.0, {"gaps": [gap("check(model)", kind="evaluation")]}),
    ("checkpoint", 10.0, {"gaps": [gap("torch.save(model.state_dict(), path)", what="checkpoint")]}),
    ("own_code", 10.0, {"gaps": [gap("plot(losses)", kind="own")]}),
    # A line that is a part of other steps too is told once.
    ("own_code", 10.0, {"gaps": [gap("plot()", kind="own")], "parts_ms": {"own": 2.0},
                        "lines": [statement("plot()", 500)]}),
    # The first rank waits in the exchange for the second, whose line is told.
    ("checkpoint", 10.0, {"gaps": [gap("loss.backward()", kind="backward")]},
     {"gaps": [gap("save(model)", kind="checkpoint")]}),
    ("logging", 5.2, {"parts_ms": {"logging": 5.2}}),
    ("own_code", 5.2, {"parts_ms": {"own": 5.2}, "lines": [statement("update(average, net)", 500)]}),
    ("logging", 5.2, {"parts_ms": {"own": 5.2}, "lines": [statement("log(loss)", 500, "logging")]}),
    ("sharding", 5.0, {"optimiser": {"class": "ZeroRedundancyOptimizer"},
                       "parts_ms": {"collectives": 5.0}}),
    # A rank's own pace is without them.
    ("scalars", 5.0, {"steps_ms": {**HEALTHY, "no_allreduce": 5.1, "batch_kept_no_allreduce": 5.0},
                      "parts_ms": {"collectives": 5.0},
                      "collectives": [{**LINE, "code": "all_reduce(x)", "calls": 800, "seconds": 2.0}]}),
    ("own_exchange", 5.0, {"strategy": "other", "steps_ms": {"as_it_is": 10.4},
                           "parts_ms": {"collectives": 5.0},
                      "collectives": [{**LINE, "code": "gather(w.grad)", "calls": 27200, "seconds": 2.0}]}),
    ("work_not_divided", NAN, {"loader": LOADER}),
    ("started_twice", NAN, {"world_size": 1, "strategy": "single", "machine": {"numbers_of_cores": [0, 1]}}),
    ("float64", NAN, {"dtypes": {"float64": 10_000_000}}),
    ("small_batch", 9.36, {"profile": {"busy_share": 0.1, "kernels_per_step": 6260}, **ON_GPU}),
    ("too_few_cores", NAN, {"machine": {"cores_usable": 1, "busy_share": 0.97}}),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_a_cause_is_the_first_reason_with_what_it_costs(case: tuple[Any, ...]) -> None:
    name, cost_ms, *changes = case
    diagnosis = answer(*changes)
    assert diagnosis.first.name == name
    assert [reason.cause.name for reason in diagnosis.reasons].count(name) == 1
    assert diagnosis.reasons[0].cost_s.value * 1e3 == pytest.approx(cost_ms, rel=0.03, nan_ok=True)
    assert diagnosis.slowed.value == pytest.approx(0)  # the run without hooks is the same


def test_a_healthy_script_has_no_reason() -> None:
    healthy = answer({}, one={"steps_ms": {"as_it_is": 10.0}})
    assert healthy.reasons == []
    assert healthy.is_efficient
    assert healthy.speedup.value == pytest.approx(2 * 10 / 10.4, rel=1e-3)
    assert sum(row.seconds.value for row in healthy.parts) == pytest.approx(healthy.whole_s.value, rel=1e-3)
    assert text(healthy).endswith("exchange of gradients that is waited for"), "no caution"


def test_every_cause_has_a_case() -> None:
    with_cases_below = {"debugger", "batch_not_scaled", "fixed_steps", "other_work", "cudnn_search_per_thread"}
    assert {case[0] for case in CASES} | with_cases_below == set(CAUSES)


ALONE = {"loader": None, "steps_ms": {"as_it_is": 12.0}}
ENDED = {"ended_by": "script"}


@pytest.mark.parametrize(
    ("first", "changes", "one"),
    [
        ("debugger", {"environment": {"CUDA_LAUNCH_BLOCKING": "1"}}, None),
        ("debugger", {"switches": {"debugger": True}}, None),
        # As many batches for one alone, as many steps, or the batch of both together.
        ("work_not_divided", {}, {"loader": LOADER}),
        ("fixed_steps", ENDED, {**ENDED, "loader": None}),
        ("nothing", ENDED, {**ENDED, "steps": 4000, "loader": None}),
        ("batch_not_scaled", {}, {**ALONE, "batch": 16}),
        # A larger batch on one device is as much work.
        ("batch_not_scaled", ENDED, {**ENDED, "batch": 16, "loader": None}),
        ("started_twice", {"world_size": 1, "gpu": "a", **ON_GPU}, None),
        # What is certain comes first, and what is smaller than two equal blocks differ by is no reason.
        ("work_not_divided", {"loader": LOADER, "steps_ms": {**HEALTHY, "anomaly_off": 1.0}}, None),
        ("nothing", {"gaps": [gap("loss.backward()", kind="backward")]}, None),
        # Words of a line say nothing.
        ("own_code", {"parts_ms": {"own": 5.2}, "lines": [statement("print_log(lognormvariate())", 900)]}, None),
        ("nothing", {"gaps": [gap("f(x)", what="gc")]}, None),
        ("heavy_gradients", {"environment": {"NCCL_P2P_DISABLE": "1"}, "steps_ms": SLOW_EXCHANGE}, None),
        ("nothing", {"optimiser": {"class": "ZeroRedundancyOptimizer"}}, None),
        # So few bytes take no such time: the ranks wait for a core.
        ("nothing", {"gradient_bytes": 473_000, "steps_ms": {**SLOW_EXCHANGE, "as_it_is": 13.0, "batch_kept": 12.9}},
         None),
    ],
)  # fmt: skip
def test_the_cause_that_is_named_first(first: str, changes: dict[str, Any], one: dict[str, Any] | None) -> None:
    diagnosis = answer(changes, one=one)
    assert diagnosis.first.name == first, [(cause.cause.name, cause.share.value) for cause in diagnosis.reasons]


def test_runs_on_devices_of_their_own_or_in_the_same_memory_are_not_started_twice() -> None:
    on_cores = [{"machine": {"numbers_of_cores": [core]}} for core in range(2)]
    in_the_same_memory = [{"machine": {"numbers_of_cores": [0]}, "strategy": "other"}]
    for of_rank in ([{"gpu": name, **ON_GPU} for name in "ab"], on_cores, in_the_same_memory):
        diagnosis = answer(*({"strategy": "single", **changes, "world_size": 1} for changes in of_rank))
        assert "started_twice" not in {cause.cause.name for cause in diagnosis.reasons}


def test_work_that_is_not_divided_costs_what_one_device_takes_for_it_less_its_part() -> None:
    """The exchange of gradients has a cost of its own."""
    diagnosis = answer({"loader": LOADER}, one={"loader": LOADER, "steps_ms": {"as_it_is": 8.0}})
    assert diagnosis.first.name == "work_not_divided"
    assert diagnosis.reasons[0].cost_s.value * 1e3 == pytest.approx(4.0, rel=0.01)


def test_other_work_has_no_cost_and_what_was_measured_keeps_its_own() -> None:
    """Nobody measured whether all of a step waits for cores. Each rank needs one."""
    assert answer({}, other_cores=13.0).first.name == "nothing"
    diagnosis = answer({"steps_ms": {**HEALTHY, "anomaly_off": 4.4}}, other_cores=15.0)
    other_work, anomaly = found(diagnosis, "other_work"), found(diagnosis, "anomaly")
    assert not (other_work.cost_s.is_known or other_work.share.is_known or other_work.remedies)
    assert anomaly.is_reason and anomaly.cost_s.value * 1e3 == pytest.approx(6.0, rel=0.03)


def test_own_code_and_what_a_library_does_in_it_share_the_time_by_their_samples() -> None:
    lines = [
        statement("log(loss)", 300, "logging"),
        statement("save(net)", 200, "checkpoint", line=8),
        statement("update(average, net)", 500, line=9),
    ]
    diagnosis = answer({"parts_ms": {"own": 6.0}, "lines": lines})
    for name, cost_ms in {"logging": 1.8, "checkpoint": 1.2, "own_code": 3.0}.items():
        assert 1e3 * found(diagnosis, name).cost_s.value == pytest.approx(cost_ms, rel=0.01)
    assert sum(row.seconds.value for row in diagnosis.parts) == pytest.approx(diagnosis.whole_s.value, rel=1e-3)


@pytest.mark.parametrize("direction", [1, -1])
def test_parts_that_cost_the_same_stand_in_the_order_of_the_table(
    direction: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = list(CAUSE_OF_PART.items())[::direction]
    monkeypatch.setattr(finders, "CAUSE_OF_PART", dict(table))
    diagnosis = answer({"parts_ms": {"logging": 2.0, "evaluation": 2.0, "checkpoint": 2.0}})
    causes = [reason.cause.name for reason in diagnosis.reasons]
    assert causes == [cause for part, cause in table if part != OWN]


def test_data_parallel_has_its_search_for_itself() -> None:
    """Each is measured: the switch off, and the module alone on one device."""
    steps_ms = {"as_it_is": 900.0, "cudnn_benchmark_off": 50.0, "share_on_one_device": 8.0, "one_device": 15.0}
    line = {"file": "main.py", "line": 74, "code": "cudnn.benchmark = True"}
    switches = {"cudnn_benchmark": True, "cudnn_benchmark_line": line}
    rank = process(0, 1, steps_ms, strategy="dp", devices=2, switches=switches, **{**ON_GPU, "backend": None})
    diagnosis = diagnose_script(script_record(rank))
    search, data_parallel = diagnosis.reasons
    assert search.cause.name == "cudnn_search_per_thread"
    assert search.notes == ["main.py, line 74: cudnn.benchmark = True"]
    assert search.cost_s.value == pytest.approx(0.85, rel=1e-3)
    assert data_parallel.cause.name == "data_parallel"
    assert data_parallel.cost_s.value == pytest.approx(0.042, rel=1e-2)
    assert diagnosis.speedup.value == pytest.approx(15 / 900, rel=1e-3)
    assert "2 GPUs take 60 times as long as 1" in text(diagnosis)


def test_what_data_parallel_costs_has_no_wait_for_the_loader() -> None:
    """A shorter step waits longer for a batch. Some equal steps as they are differ by more than all else takes."""
    waits_ms = {"as_it_is": 0.0, "cudnn_benchmark_off": 5.0, "share_on_one_device": 38.0}
    steps_ms = {"as_it_is": 900.0, "cudnn_benchmark_off": 55.0, "share_on_one_device": 46.0, "one_device": 50.0}
    rank = process(0, 1, steps_ms, strategy="dp", devices=2, switches={"cudnn_benchmark": True}, **ON_GPU)
    for block in rank["blocks"]:
        wait_s = waits_ms.get(block["probe"], 0.0) / 1e3
        block["parts"] |= {"loading": wait_s, "backward": block["parts"]["backward"] - wait_s}
        block["seconds"] *= 1 + 0.1 * (block["probe"] == "as_it_is_again")
    diagnosis = diagnose_script(script_record(rank))
    assert found(diagnosis, "data_parallel").is_reason
    assert found(diagnosis, "data_parallel").cost_s.value == pytest.approx(0.042, rel=1e-2)


def test_a_pause_of_two_kinds_is_two_causes() -> None:
    pauses = [gap("check(net)", kind="evaluation", share=0.75), gap("plot(net)", kind="own", share=0.25)]
    diagnosis = answer({"gaps": pauses})
    validation, own_code = found(diagnosis, "validation"), found(diagnosis, "own_code")
    assert validation.cost_s.value == pytest.approx(3 * own_code.cost_s.value)


def test_what_is_short_beside_a_step_takes_its_share_of_the_samples() -> None:
    """The step with it holds a usual step too, whose samples are none of it."""
    of_four_steps = {"kind": "evaluation", "seconds": 0.0416, "share": 0.75}
    pauses = [gap("check(net)", **{**of_four_steps, "after_step": step}) for step in range(100)]
    assert found(answer({"gaps": pauses}), "validation").cost_s.value * 2000 == pytest.approx(3.12, rel=1e-2)


def test_pauses_of_few_samples_are_bounded_together() -> None:
    """A sample of two may be validation by chance, or none of them."""
    of_three_steps = {"kind": "evaluation", "seconds": 0.0312}
    shares = [1.0, 0.5, 0.5, 0.0] * 25
    pauses = [gap("check(net)", **of_three_steps, share=share, after_step=at) for at, share in enumerate(shares)]
    assert found(answer({"gaps": pauses}), "validation").cost_s.value * 2000 == pytest.approx(1.56, rel=1e-2)


def test_a_rank_that_does_something_else_in_its_steps_is_no_slow_device() -> None:
    together_ms = {"as_it_is": 30.4, "batch_kept": 30.3, "gc_off": 30.4}
    copies = {"parts_ms": {"own": 20.0}, "lines": [statement("copy.deepcopy(net)", 500)]}
    diagnosis = answer({"steps_ms": {**HEALTHY, **together_ms}}, {"steps_ms": {**LATE, **together_ms}, **copies})
    assert [reason.cause.name for reason in diagnosis.reasons] == ["own_code"]
    assert sum(row.seconds.value for row in diagnosis.parts) == pytest.approx(diagnosis.whole_s.value, rel=1e-3)


def test_an_exchange_of_numbers_between_steps_is_no_part_of_them() -> None:
    once_an_epoch = [{**LINE, "code": "all_reduce(total)", "calls": 8, "seconds": 2.0}]
    assert answer({"collectives": once_an_epoch}).first.name == "nothing"


def test_validation_that_searches_too_is_evidence_of_the_search() -> None:
    steps_ms = {"as_it_is": 900.0, "cudnn_benchmark_off": 50.0, "share_on_one_device": 8.0}
    pause = gap("for x in test:", border="evaluation", kind="evaluation")
    rank = process(0, 1, steps_ms, strategy="dp", devices=2, gaps=[pause], **ON_GPU)
    assert found(diagnose_script(script_record(rank)), "validation").share.value == pytest.approx(0.011, rel=0.1)
    searching = diagnose_script(script_record({**rank, "switches": {"cudnn_benchmark": True}}))
    assert "validation" not in {cause.cause.name for cause in (*searching.reasons, *searching.smaller)}
    assert "validation in these steps, which searches too: 20" in text(searching)


def test_what_logs_beside_validation_is_logging() -> None:
    """Where most of a pause is spent tells its cause."""
    pause = gap("writer.add_histogram(name, parameter)", border="evaluation", kind="logging")
    assert answer({"gaps": [pause]}).first.name == "logging"


def test_launching_costs_nothing_of_the_exchange_of_shards() -> None:
    """Both together are no more than the step."""
    parts_ms = {"forward": 3.0, "collectives": 0.0}
    changes = {
        "strategy": "fsdp",
        "steps_ms": {"as_it_is": 20.0, "shards_kept": 12.0},
        "parts_ms": parts_ms,
        "profile": {"busy_share": 0.1, "kernels_per_step": 700},
        "collectives": [{**LINE, "code": "loss = model(x)", "calls": 3200, "seconds": 4.0}],
    }
    diagnosis = answer({**ON_GPU, **changes})
    shares = {name: found(diagnosis, name).share.value for name in ("small_batch", "sharding")}
    assert shares == {"small_batch": pytest.approx(0.5, abs=0.01), "sharding": pytest.approx(0.4, abs=0.01)}


def test_ranks_that_load_in_blocks_without_allreduce_are_compared_as_they_are() -> None:
    """Of long steps not every probe has its time: some blocks are without the loader, others without allreduce."""
    steps_ms = {"as_it_is": 30.4, "batch_kept": 20.4, "no_allreduce": 25.2}
    diagnosis = answer({"steps_ms": steps_ms, "loading_ms": 8.0}, {"steps_ms": {**steps_ms, "no_allreduce": 23.2}})
    assert found(diagnosis, "heavy_gradients").cost_s.value == pytest.approx(5.2e-3, rel=0.03)
    parts = {part.name: 1e3 * part.seconds.value for part in diagnosis.parts}
    assert parts["other_ranks"] == pytest.approx(1.0, rel=0.03)
    assert sum(parts.values()) == pytest.approx(30.4, rel=0.01)


def test_ranks_wait_for_the_slowest_no_longer_than_their_passes_take() -> None:
    in_turn = [dict.fromkeys(NO_EXCHANGE, times_ms) for times_ms in ([4, 12], [12, 4])]
    diagnosis = answer(*({"steps_ms": {**HEALTHY, **without_ms}} for without_ms in in_turn))
    assert sum(row.seconds.value for row in diagnosis.parts) == pytest.approx(diagnosis.whole_s.value, rel=1e-3)
    assert min(row.seconds.value for row in diagnosis.parts) >= 0


def test_what_an_exchange_costs_at_most_is_beside_the_collectives_of_the_script() -> None:
    """Both are in the difference of blocks, and each is told."""
    steps_ms = {**HEALTHY, "as_it_is": 20.4, "batch_kept": 20.3, "gc_off": 20.4}
    changes = {"gradient_bytes": 20_000, "exchanges_per_step": 4, "steps_ms": steps_ms}
    alone = found(answer(changes), "small_messages").cost_s.value
    for own_ms in (1.0, 5.0):
        both = answer({**changes, "parts_ms": {"collectives": own_ms}})
        assert found(both, "scalars").cost_s.value == pytest.approx(own_ms / 1e3, rel=0.01)
        assert found(both, "small_messages").cost_s.value == pytest.approx(alone, rel=0.05)


def test_what_waits_for_a_core_is_no_measured_saving_of_an_exchange() -> None:
    assert not found(answer({"gradient_bytes": 20_000, "steps_ms": SLOW_EXCHANGE}), "small_messages").remedies


def found(diagnosis: Diagnosis, name: str) -> FoundCause:
    (finding,) = [cause for cause in (*diagnosis.reasons, *diagnosis.smaller) if cause.cause.name == name]
    return finding


@pytest.mark.parametrize(("cores", "shown"), [(6, "workers_needed"), (4, "cores_of_process")])
def test_workers_that_would_keep_up_are_told_where_there_are_cores_for_them(cores: int, shown: str) -> None:
    """Two ranks share the cores, and two workers would keep up with each."""
    of_machine = {"machine": {"numbers_of_cores": list(range(cores))}, "loader": {**LOADER, "workers": 0, "hashes": []}}
    loads = answer({"loading_ms": 12.0, "steps_ms": {**LOADED, "as_it_is": 22.3, "no_allreduce": 22.2}, **of_machine})
    evidence = {row.name: row.figure.value for row in found(loads, "slow_loader").evidence}
    assert evidence.get(shown) == 2 and len({"workers_needed", "cores_of_process"} & set(evidence)) == 1


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


def longer(
    probe: str, factor: float, rounds: int, changes: Mapping[str, Any] = MappingProxyType({}), **steps_ms: float
) -> Diagnosis:
    """Of two ranks whose steps take so many times as long in the first rounds of a probe."""
    ranks = [process(rank, steps_ms={**HEALTHY, **steps_ms}, **changes) for rank in range(2)]
    for block in (block for rank in ranks for block in rank["blocks"]):
        if block["probe"] == probe and block["round"] < rounds:
            block["step_s"] = [factor * seconds for seconds in block["step_s"]]
    return diagnose_script(script_record(*ranks))


@pytest.mark.parametrize("factor", [1.5, 2])
def test_a_cost_whose_rounds_do_not_agree_is_no_reason(factor: float) -> None:
    diagnosis = longer("anomaly_off", factor, 3, anomaly_off=6.4)
    assert found(diagnosis, "anomaly").share.value > 0.3
    assert diagnosis.first.name == "nothing"


def test_a_difference_no_larger_than_that_of_equal_blocks_is_no_reason() -> None:
    assert longer("as_it_is_again", 1, 9, anomaly_off=8.4).first.name == "anomaly"
    assert longer("as_it_is_again", 2.5, 9, anomaly_off=8.4).first.name == "nothing"


@pytest.mark.parametrize(("workers", "is_reason"), [(0, True), (2, False)])  # another rank's wait may hide theirs
def test_clocks_tell_what_ranks_load_themselves_where_blocks_do_not(workers: int, is_reason: bool) -> None:
    changes = {"parts_ms": {"loading": 2.0}, "loading_ms": 2.0, "loader": {**LOADER, "workers": workers, "hashes": []}}
    scattered = longer("as_it_is_again", 1.3, 9, changes, batch_kept=9.9, batch_kept_no_allreduce=9.5)
    assert found(scattered, "slow_loader").is_reason == is_reason
    assert found(scattered, "slow_loader").cost_s.value == pytest.approx(0.002, rel=0.05)


def test_a_script_that_is_only_watched_is_answered_from_what_was_seen() -> None:
    changes = {
        "status": "observed", "why": "FSDP", "strategy": "fsdp", "steps_ms": {"as_it_is": 10.0},
        "parts_ms": {"collectives": 5.0},
    }  # fmt: skip
    diagnosis = answer(changes)
    assert diagnosis.first.name == "sharding"
    assert "\nNothing was changed in its steps, only watched: FSDP." in text(diagnosis)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"world_size": 8}, "Of 8 ranks 2 are on this machine"),
        ({"optimiser": {"class": "Adam", "count": 2}}, "It has 2 optimisers"),
        ({"loader": None}, "No DataLoader was seen"),
        ({"loader": {"iterable": True}}, "Its dataset is iterable"),
        ({"ended_by": "script"}, "The script ended by itself after 2000 steps"),
    ],
)
def test_what_a_reader_has_to_know_is_said(changes: dict[str, Any], sentence: str) -> None:
    assert f"\n{sentence}" in text(answer(changes))


def test_what_clocks_tell_in_each_step_needs_no_rounds() -> None:
    rank = process(0, 1, parts_ms={"evaluation": 3.0})
    rank["blocks"] = [block for block in rank["blocks"] if block["round"] == 0]
    diagnosis = diagnose_script(script_record(rank))
    assert diagnosis.first.name == "validation"
    assert diagnosis.reasons[0].cost_s.value == pytest.approx(3e-3, rel=0.03)


@pytest.mark.parametrize("has_kept", [True, False])
def test_a_wait_for_batches_is_told_by_its_clock_where_no_block_without_it_does(has_kept: bool) -> None:
    """Blocks of a busy machine differ by more; batches that a script changes in place are not kept."""
    steps_ms = {"as_it_is": 10.4, **({"batch_kept": [6.4]} if has_kept else {})}
    rank = process(0, 1, steps_ms, parts_ms={"loading": 4.0}, loading_ms=4.0)
    for block in rank["blocks"]:
        if block["probe"] == "batch_kept" and block["round"] % 2:
            block["step_s"] = [3 * step_s for step_s in block["step_s"]]
    diagnosis = diagnose_script(script_record(rank))
    slow_loader = diagnosis.reasons[0]
    assert slow_loader.cause.name == "slow_loader"
    assert diagnosis.efficiency.value == pytest.approx(6.4 / 10.4, rel=0.01)
    assert slow_loader.cost_s.value == pytest.approx(4e-3, rel=0.03)


def test_lines_of_a_cause_are_those_that_have_most_of_their_time() -> None:
    rollout = [gap("for step in range(128):", kind="own", share=0.9, line=192, after_step=step) for step in (9, 25)]
    others = [gap("clip(net)", kind="own", share=0.05, line=200 + step, after_step=step) for step in (8, 9)]
    own_code = found(answer({"gaps": [*others, *rollout]}), "own_code")
    assert own_code.notes == ["train.py, line 192: for step in range(128):"]
    passes, saved = statement("net(x)", 900, "evaluation"), statement("save(net)", 5, "evaluation", line=8)
    validation = found(answer({"parts_ms": {"evaluation": 5.2}, "lines": [passes, saved]}), "validation")
    assert validation.notes == ["train.py, line 7: net(x)"]


def test_what_nobody_would_change_anything_for_is_not_told() -> None:
    diagnosis = answer({"parts_ms": {"logging": 0.01, "checkpoint": 0.2}})
    assert {cause.cause.name for cause in diagnosis.smaller} & {"logging", "checkpoint"} == {"checkpoint"}
