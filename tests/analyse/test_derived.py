"""What follows from tables: derived columns and tables, from rows whose figures are known."""

from typing import Any

import pytest

from old_tables import COLUMNS, with_derived

AT = {"gpus": 4, "batch_per_gpu": 32, "global_batch": 128, "environment": "A"}


def derived(**rows: list[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    return with_derived({name: rows.get(name, []) for name in COLUMNS})


def interval(name: str, value: float, half: float) -> dict[str, Any]:
    return {name: value, f"{name}_low": value - half, f"{name}_high": value + half}


def timed(strategy: str, epoch_s: float, scope: str = "compute", status: str = "ok", **more: Any) -> dict[str, Any]:
    place = {"strategy": strategy, **AT, "scope": scope, "status": status, "reason": "", "runs": 3, "n": 15}
    place["full_steps_per_epoch"] = 24
    return {**place, **interval("epoch_s", epoch_s, 0.1), **more}


def gained(speedup: float, scope: str = "compute", **more: Any) -> dict[str, Any]:
    place = {"strategy": "ddp", **AT, "scope": scope, "status": "ok", "scaling": "weak", "full_steps_per_epoch": 24}
    return {**place, **interval("speedup", speedup, 0.1), **interval("efficiency", speedup / 4, 0.025), **more}


def test_width_of_an_interval_is_a_share() -> None:
    (row,) = derived(times=[timed("ddp", 2.0)])["times"]
    assert row["interval_width"] == pytest.approx(0.1)
    (row,) = derived(times=[timed("ddp", 2.0, epoch_s_low=None)])["times"]
    assert "interval_width" not in row


def test_efficiency_and_what_is_lost() -> None:
    (row,) = derived(speedup=[gained(3.0) | interval("speedup_from_steps", 3.2, 0.4)])["speedup"]
    assert row["efficiency_lost"] == pytest.approx(0.25)
    assert row["efficiency_from_steps"] == pytest.approx(0.8)
    assert (row["efficiency_from_steps_low"], row["efficiency_from_steps_high"]) == pytest.approx((0.7, 0.9))
    assert row["steps_disagree_by"] == pytest.approx(1 - 3.0 / 3.2)


def estimated(**ms: float) -> dict[str, Any]:
    row: dict[str, Any] = {"strategy": "ddp", **AT, "scope": "compute", "status": "ok"}
    for name, value in ms.items():
        row |= interval(name, value, abs(value) / 10)
    return row


def test_estimates_are_compared_where_they_are_above_zero() -> None:
    (row,) = derived(communication=[estimated(communication_step_s=8.0, isolated_step_s=0.5, ablation_step_s=-1.0)])[
        "communication"
    ]
    assert row["estimates_apart"] == pytest.approx(16)
    (row,) = derived(communication=[estimated(ablation_step_s=-1.0)])["communication"]
    assert "estimates_apart" not in row


def test_waiting_and_profiling_are_differences() -> None:
    figures = {"communication_step_s": 9.0, "profiler_step_s": 4.0, "profiler_least_step_s": 1.0}
    (row,) = derived(communication=[estimated(**figures, profiled_step_s=12.0, training_step_s=10.0)])["communication"]
    assert row["beyond_profiler_s"] == pytest.approx(5)
    assert row["waiting_step_s"] == pytest.approx(3)
    assert row["profiler_slows_by"] == pytest.approx(0.2)
    (row,) = derived(communication=[{**estimated(**figures), "profiler": "distorts"}])["communication"]
    assert not {"beyond_profiler_s", "waiting_step_s"} & set(row)


def step(device: int, communication_s: float, idle_s: float, phase: str = "all") -> dict[str, Any]:
    parts = {"compute_s": 10 - communication_s - idle_s, "communication_s": communication_s, "copy_s": 0.0}
    place = {"strategy": "ddp", **AT, "device": device, "phase": phase}
    return {**place, **parts, "idle_s": idle_s, "parts_s": 10.0, "difference": 0.0}


@pytest.mark.parametrize("state", ["distorts", "artefact"])
def test_a_step_that_the_profiler_changes_has_no_shares(state: str) -> None:
    (whole,) = derived(steps=[{**step(0, 3.0, 2.0), "profiler": state}])["steps"]
    assert "idle_share" not in whole


def test_shares_of_a_step_are_of_the_whole_step_alone() -> None:
    whole, phase = derived(steps=[step(0, 3.0, 2.0), step(0, 3.0, 2.0, "forward")])["steps"]
    assert (whole["compute_share"], whole["communication_share"], whole["idle_share"]) == pytest.approx((0.5, 0.3, 0.2))
    assert "idle_share" not in phase


def test_scopes_stand_side_by_side_where_both_were_measured() -> None:
    times = [timed("ddp", 2.0), timed("ddp", 3.0, "end_to_end"), timed("dp", 2.5)]
    (row,) = derived(times=times, speedup=[gained(3.0), gained(1.5, "end_to_end")])["scopes"]
    assert (row["strategy"], row["epoch_s"], row["end_to_end_epoch_s"]) == ("ddp", 2.0, 3.0)
    assert "loader_s" not in row, "no run timed both"
    assert row["speedup_ratio"] == pytest.approx(2)


def test_what_loading_adds_is_told_run_by_run() -> None:
    """Runs differ by a factor of two, and loading takes a second of each."""
    times = [timed("ddp", 2.0), timed("ddp", 3.0, "end_to_end")]
    runs = [
        {**timed("ddp", epoch_s + (scope == "end_to_end"), scope), "run": run}
        for run, epoch_s in ((1, 2.0), (2, 3.0), (3, 4.0), (4, 9.0))
        for scope in ("compute", "end_to_end")
        if (run, scope) != (4, "end_to_end")
    ]
    (row,) = derived(times=times, runs=runs)["scopes"]
    assert (row["loader_s"], row["loader_s_low"], row["loader_s_high"]) == pytest.approx((1, 1, 1))
    assert row["loading_ratio"] == pytest.approx((3 / 2 * 4 / 3 * 5 / 4) ** (1 / 3))
    (row,) = derived(times=times, runs=runs[:4])["scopes"]
    assert row["ranges"] == "loader_s; loading_ratio"


def test_strategies_are_compared_in_the_same_place_alone() -> None:
    times = [timed("dp", 3.0), timed("ddp", 2.0), timed("dp", 9.0, "end_to_end"), timed("single", 8.0)]
    (pair,) = derived(times=times)["strategy_pairs"]
    assert (pair["strategy"], pair["other_strategy"], pair["ratio"]) == ("ddp", "dp", 1.5)


def copied(rate: float, gpus: int = 4) -> dict[str, Any]:
    return {"operation": "peer_copy", "gpus": gpus, "environment": "A", "message_bytes": 64, "bus_bandwidth_gb_s": rate}


def test_copies_are_told_by_their_median_and_range() -> None:
    (row,) = derived(collectives=[copied(3.0), copied(1.0), copied(8.0), copied(6.0)])["peer_copies"]
    ends = (row["bus_bandwidth_gb_s_low"], row["bus_bandwidth_gb_s"], row["bus_bandwidth_gb_s_high"])
    assert (row["directions"], *ends) == (4, 1.0, 4.5, 8.0)


def record(kind: str, host: str = "a", **more: Any) -> dict[str, Any]:
    return {"kind": kind, "host": host, "gpus": 2, "gpu_s": 10.0, "environment": "A", **more}


def test_costs_are_told_by_what_was_measured() -> None:
    records = [record("timing"), record("collectives"), record("communication"), record("timing")]
    costs = {row["measured"]: (row["records"], row["gpu_s"]) for row in derived(records=records)["costs"]}
    assert costs == {"timing": (2, 20.0), "communication": (2, 20.0)}


def test_records_are_counted_by_what_measured_them() -> None:
    records = [
        record("timing", started_at="2", finished_at="3", job_id=7, throttle_reasons="heat", other_processes=1),
        record("timing", started_at="1", finished_at="2", job_id=8, other_processes=0),
        record("timing", host="b"),
    ]
    both, other = derived(records=records)["origins"]
    assert (both["records"], both["first"], both["last"], both["jobs"]) == (2, "1", "3", "7; 8")
    assert (both["throttled"], both["disturbed"]) == (1, 1)
    assert (other["records"], other.get("first")) == (1, None)


def test_absences_are_counted_once_per_configuration_the_most_frequent_first() -> None:
    gone = [
        timed("ddp", 1.0, "end_to_end", "capped"),
        timed("dp", 1.0, status="oom"),
        timed("ddp", 1.0, status="oom"),
        timed("ddp", 1.0, "end_to_end", "oom"),
    ]
    found = [(row["status"], row["configurations"]) for row in derived(times=gone)["absences"]]
    assert found == [("oom", 2), ("capped", 1)]


def test_claims_are_counted_of_those_that_were_asked() -> None:
    rows = [gained(0.5), gained(3.0), gained(0.4, speedup_low=None), gained(0.5, scaling="strong")]
    counts = {row["what"]: (row["number"], row["of"]) for row in derived(speedup=rows)["counts"]}
    assert counts["more devices are slower"] == (1, 2)


def test_a_configuration_in_two_scopes_was_run_once() -> None:
    rows = [timed("ddp", 2.0, runs=1), timed("ddp", 3.0, "end_to_end", runs=1), timed("dp", 2.0, runs=2)]
    counts = {row["what"]: (row["number"], row["of"]) for row in derived(times=rows)["counts"]}
    assert counts["a single run"] == (1, 2)


def test_devices_and_commits_are_told_by_their_names() -> None:
    records = [
        record("timing", gpu_uuids="GPU-a1; GPU-b2", git_commit="1" * 40),
        record("timing", gpu_uuids="GPU-b2; GPU-c3", git_commit="2" * 40),
    ]
    counts = {row["what"]: (row["number"], row["of"]) for row in derived(records=records)["counts"]}
    assert counts["devices used"] == (3, 2)
    assert counts["commits used"] == (2, 2)


@pytest.mark.parametrize(("steps", "is_headline"), [(9, False), (10, True), (None, None)])
def test_an_epoch_of_ten_full_steps_is_headline_material(steps: int | None, is_headline: bool | None) -> None:
    row = {**gained(3.0), "runs": 3, "full_steps_per_epoch": steps}
    for name in ("times", "speedup", "communication", "bandwidth"):
        (found,) = derived(**{name: [row]})[name]
        assert found.get("is_headline") is is_headline, name


@pytest.mark.parametrize(
    ("low", "high", "more", "state"),
    [
        (0.51, 0.6, {}, "worth it"),
        (0.4, 0.49, {}, "not"),
        (0.45, 0.55, {}, "undecided"),
        (0.5, 0.6, {}, "undecided"),
        (0.51, 0.6, {"ranges": "efficiency"}, "undecided"),
        (None, None, {}, "undecided"),
    ],
)
def test_more_devices_are_worth_it_only_beyond_their_interval(
    low: float | None, high: float | None, more: dict[str, str], state: str
) -> None:
    row = gained(2.2) | {"efficiency_low": low, "efficiency_high": high} | more
    assert derived(speedup=[row])["speedup"][0]["worth"] == state


def test_strategies_that_are_compared_with_loading_have_their_loader_processes() -> None:
    rows = [timed("ddp", 1.0, "end_to_end", loader_processes=8), timed("dp", 2.0, "end_to_end", loader_processes=2)]
    (pair,) = derived(times=rows)["strategy_pairs"]
    assert (pair["loader_processes"], pair["other_loader_processes"], pair["is_headline"]) == (8, 2, True)


def test_estimates_of_a_profiler_that_distorts_are_not_compared() -> None:
    row = {**estimated(isolated_step_s=0.5, profiler_step_s=5.0), "profiler": "distorts"}
    assert derived(communication=[row])["communication"][0]["estimates_apart"] == pytest.approx(1)
    row["profiler"] = "ok"
    assert derived(communication=[row])["communication"][0]["estimates_apart"] == pytest.approx(10)
