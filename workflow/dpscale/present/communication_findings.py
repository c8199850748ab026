"""What the data say of communication: how its estimates agree, and how good the forecast is. As in `findings`."""

import pandas as pd

from dpscale.analyse.names import HELD_OUT, WHOLE_STEP
from dpscale.present import words
from dpscale.present.phrases import Finding, extreme, finding, percent, with_interval
from dpscale.present.words import Row, Tables, Words

_MS = 1e3
# Where ablation and profiler are held to agree: by docs/method.md both measure exposed communication.
AGREEMENT_BATCH = 512
AGREEMENT = 0.15
SUM_OF_PARTS = 0.03
FORECAST_BATCH = 128
MOSTLY = 0.5


def estimates_agree(tables: Tables, say: Words) -> Finding | None:
    """ddp at large batches: exposed communication by ablation (E2) against the profiler's (E3)."""
    compared = with_interval(with_interval(tables["communication"], "ablation_step_s"), "profiler_exposed_step_s")
    compared = compared[compared["batch_per_gpu"] >= AGREEMENT_BATCH]
    if compared.empty:
        return None
    apart = [row for row in words.rows(compared) if not _agree(row)]
    limit = f"within their intervals or {percent(AGREEMENT)}"
    from_batch = f"ddp from batch {AGREEMENT_BATCH} per {say.device} on"
    if not apart:
        return finding(
            f"Exposed communication by ablation (E2) and by the profiler (E3) agree {limit} in all "
            f"{words.plural(len(compared), 'configuration')} of {from_batch}.",
            "estimates",
            words.rows(compared),
            say,
        )
    named = "; ".join(
        f"{_ms(row, 'ablation_step_s')} against {_ms(row, 'profiler_exposed_step_s')} a step, with {say.point(row)}"
        for row in apart
    )
    return finding(
        f"Exposed communication by ablation (E2) and by the profiler (E3) do not agree {limit} in "
        f"{len(apart)} of {words.plural(len(compared), 'configuration')} of {from_batch}: {named}.",
        "estimates",
        apart,
        say,
    )


def _agree(row: Row) -> bool:
    one, other = row["ablation_step_s"], row["profiler_exposed_step_s"]
    overlap = (
        row["ablation_step_s_low"] <= row["profiler_exposed_step_s_high"]
        and row["profiler_exposed_step_s_low"] <= row["ablation_step_s_high"]
    )
    return bool(overlap or abs(one - other) <= AGREEMENT * abs(other))


def subtraction_is_not_communication(tables: Tables, say: Words) -> Finding | None:
    """Where the profiler sees wholly less communication than subtraction says: the largest such share."""
    table = tables["communication"]
    compared = with_interval(with_interval(table, "communication_step_s"), "profiler_step_s")
    less = compared[compared["profiler_step_s_high"] < compared["communication_step_s_low"]]
    if less.empty:
        return None
    most = extreme(less.assign(left=less["communication_step_s"] - less["profiler_step_s"]), "left", largest=True)
    return finding(
        "What subtraction (E1) calls communication is mostly something else where the host is slow: with "
        f"{say.point(most)} it says {_ms(most, 'communication_step_s')} of a step of "
        f"{words.figure(most['step_s'] * _MS)} ms; NCCL's kernels and copies between {say.devices} take "
        f"{_ms(most, 'profiler_step_s')} (E3).",
        "estimates",
        words.rows(less),
        say,
    )


def communication_is_waiting(tables: Tables, say: Words) -> Finding | None:
    """ddp's configuration in which collectives last longest beyond those of the device that waited least."""
    compared = with_interval(with_interval(tables["communication"], "profiler_step_s"), "profiler_least_step_s")
    longer = compared[compared["profiler_least_step_s_high"] < compared["profiler_step_s_low"]]
    if longer.empty:
        return None
    most = extreme(
        longer.assign(waits=longer["profiler_step_s"] - longer["profiler_least_step_s"]), "waits", largest=True
    )
    alone: str = ""
    if words.is_known(most["isolated_step_s"]):
        alone = f"; the same messages with nothing else running take {_ms(most, 'isolated_step_s')} (E5)"
    return finding(
        f"In {len(longer)} of {words.plural(len(compared), 'configuration')} of ddp, {say.devices} wait for each other "
        f"inside their collectives, most with {say.point(most)}: {_ms(most, 'profiler_step_s')} of a step on the mean "
        f"{say.device}, {_ms(most, 'profiler_least_step_s')} on the one that waited least{alone}.",
        "estimates",
        words.rows(longer),
        say,
    )


def host_leaves_devices_idle(tables: Tables, say: Words) -> Finding | None:
    """The profiled step with the largest share in which the first device has nothing to do."""
    whole = _whole_steps(tables)
    first = whole[whole["device"] == 0]
    if first.empty:
        return None
    shares = first.assign(share=first["idle_s"] / first["parts_s"])
    most = extreme(shares, "share", largest=True)
    if most["share"] < MOSTLY:
        return None
    return finding(
        f"{say.device} 0 waits for the host during {percent(most['share'])} of a profiled step, and communicates "
        f"without computing during {percent(most['communication_s'] / most['parts_s'])} of it, with {say.point(most)}.",
        "steps",
        [most],
        say,
    )


def parts_make_the_step(tables: Tables, say: Words) -> Finding | None:
    """Whether the profiled parts of every step add up to the step by the host's clock."""
    whole = _whole_steps(tables)
    if whole.empty:
        return None
    off = whole.assign(off=whole["difference"].abs())
    most = extreme(off, "off", largest=True)
    beyond = int((off["off"] > SUM_OF_PARTS).sum())
    where = f"at most {percent(most['off'])} off, with {say.point(most)}, {say.device} {int(most['device'])}"
    if beyond:
        return finding(
            f"In {beyond:,} of {words.plural(len(whole), 'profiled step')} the parts do not add up to the step by the "
            f"host's clock within {percent(SUM_OF_PARTS)}: {where}.",
            "steps",
            words.rows(whole),
            say,
        )
    return finding(
        f"The parts of all {words.plural(len(whole), 'profiled step')} add up to the step by the host's clock within "
        f"{percent(SUM_OF_PARTS)}: {where}.",
        "steps",
        words.rows(whole),
        say,
    )


def profiler_slows(tables: Tables, say: Words) -> Finding | None:
    """How much longer a step takes while it is profiled, where that is more than its parts may be off."""
    table = tables["communication"].dropna(subset=["profiled_step_s", "training_step_s"])
    slowed = table.assign(ratio=table["profiled_step_s"] / table["training_step_s"] - 1)
    slowed = slowed[slowed["ratio"] > SUM_OF_PARTS]
    if slowed.empty:
        return None
    most = extreme(slowed, "ratio", largest=True)
    return finding(
        f"Profiling itself slows {len(slowed):,} of {words.plural(len(table), 'configuration')} by more than "
        f"{percent(SUM_OF_PARTS)}, by {percent(most['ratio'])} at most, with {say.point(most)}. The devices' own work "
        "is timed by their clocks; what is added is idle time.",
        "estimates",
        words.rows(slowed),
        say,
    )


def forecast_scored(tables: Tables, say: Words) -> Finding | None:
    """How well steps on the most devices are predicted from fewer, and what no model at all would have given."""
    table = tables["forecast"]
    scored = table[(table["kind"] == HELD_OUT) & (table["status"] == "ok")]
    scored = scored[scored["batch_per_gpu"] >= FORECAST_BATCH]
    if scored.empty:
        return None
    off = scored.assign(off=scored["relative_error"].abs())
    most = extreme(off, "off", largest=True)
    missed = off[~pd.Series(words.is_true(off["within_tolerance"]), index=off.index)]
    naive = percent(scored["carried_over_relative_error"].abs().max())
    worst = f"{percent(most['off'])} at batch {int(most['batch_per_gpu']):,}{say.environment(most)}"
    verdict = (
        f"is within 10 % of the measured one at every batch from {FORECAST_BATCH} on"
        if missed.empty
        else f"is off by more than 10 % at {len(missed):,} of {words.plural(len(scored), 'batch', 'batches')}"
    )
    return finding(
        f"ddp's step on {say.count(int(most['gpus']))}, predicted from fewer {say.devices} alone, {verdict}; the "
        f"largest error is {worst}. Taking the step of {say.count(int(most['calibrated_on_gpus']))} unchanged would be "
        f"off by up to {naive}: a score tests the model of communication only as far as it beats that.",
        "held_out",
        words.rows(scored),
        say,
    )


def critical_batch_checked(tables: Tables, say: Words) -> Finding | None:
    """From which batch on communication hides behind backward, by the model and by the profiler."""
    table = tables["critical_batch"]
    checked = table[(table["status"] == "ok") & (table["profiled"] > 0)]
    if checked.empty:
        return None
    most = extreme(checked, "gpus", largest=True)
    seen = most["measured_batch_per_gpu"]
    by_profiler: str = f"first at batch {int(seen):,}" if words.is_known(seen) else "at no batch that was measured"
    sentence = (
        f"{most['reason']} So says the model of the overlap; the profiler, on the {say.device} that waited least, sees "
        f"it {by_profiler}."
    )
    return Finding(sentence, "critical_batch", 1, [f"ddp on {say.count(int(most['gpus']))}"])


def measuring_communication_costs(tables: Tables, say: Words) -> Finding | None:
    """What the measurements of communication cost, beside the timing cells."""
    records = tables["records"]
    cost_s = records.groupby("kind")["gpu_s"].sum()
    measured = [kind for kind in ("collectives", "communication") if kind in cost_s]
    if "timing" not in cost_s or not measured:
        return None
    more_s = cost_s[measured].sum()
    sentence = (
        f"Measuring communication took {words.figure(more_s, 3)} {say.device}-seconds, the timing cells "
        f"{words.figure(cost_s['timing'], 3)}."
    )
    kinds = ["timing", *measured]
    return Finding(sentence, "records", int(records["kind"].isin(kinds).sum()), [f"{kind} cells" for kind in kinds])


def _whole_steps(tables: Tables) -> pd.DataFrame:
    steps = tables["steps"]
    return steps[steps["phase"] == WHOLE_STEP]


def _ms(row: Row, name: str) -> str:
    return words.estimate(row, name, _MS, " ms")
