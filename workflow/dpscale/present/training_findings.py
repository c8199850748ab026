"""What the data say of training with large batches: what it costs, which remedies recover it, what workers share.

As in `findings`. A difference counts where its 95 % interval over seeds carries it: it is then larger than the seeds'
spread explains. A recipe that was searched is called tuned, and what it is compared with is called untuned where no
recipe was searched for that.
"""

import re
from collections.abc import Sequence

import pandas as pd

from dpscale.analyse.claims import is_true
from dpscale.present import words
from dpscale.present.finding import Finding, asked, count, extreme, holding, percent, with_interval, with_unit
from dpscale.present.words import Row, Tables, Terms
from dpscale.vocabulary.quantities import POINTS, SECONDS
from dpscale.vocabulary.states import BEATEN, BEST, NOT_RESOLVABLE


def large_batch_costs(tables: Tables, terms: Terms) -> Finding | None:
    """Arms of a larger batch without remedies whose test accuracy lies wholly below the baseline's."""
    plain = with_interval(_on_photographs(tables, terms), "test_accuracy_difference")
    plain = plain[plain["remedies"].isna() | (plain["remedies"] == "")]
    parts: list[str] = []
    rows: list[Row] = []
    for baseline in words.rows(words.ok(_baselines(tables))):
        worse = plain[
            (plain["environment"] == baseline["environment"])
            & (plain["compared_with"] == baseline["arm"])
            & (plain["global_batch"] > baseline["global_batch"])
            & (plain["test_accuracy_difference_high"] < 0)
        ]
        if worse.empty:
            continue
        named = "; ".join(
            f"{_accuracy(row)} with {_arm(row, terms)}, {_points(row, 'test_accuracy_difference')}"
            f"{_tuning(row, baseline)}"
            for row in words.rows(worse.sort_values(["global_batch", "arm"]))
        )
        rows += [baseline, *words.rows(worse)]
        parts.append(
            f"against the baseline {baseline['arm']} (global batch {int(baseline['global_batch']):,}, "
            f"{_accuracy(baseline)}) test accuracy after the last epoch is {named}"
        )
    if not parts:
        return None
    return _of_arms(f"A larger batch without a remedy loses accuracy: {'; '.join(parts)}.", rows)


def fast_twins(tables: Tables, terms: Terms) -> Finding | None:
    """Whether a training with a faster step ends where its slow twin does, and what time it takes."""
    twins = tables["twins"].dropna(subset=["twin_accuracy_difference_low"])
    if terms.synthetic or twins.empty:
        return None
    rows = words.rows(twins.sort_values(["global_batch", "arm"]))
    named = [
        f"{_arm(row, terms)} ends {_points(row, 'twin_accuracy_difference')} from {row['twin']}, {_twin_verdict(row)}, "
        f"in {words.estimate(row, 'twin_time_ratio')} of its time"
        for row in rows
    ]
    sentence = f"The same training with a faster step, by the test accuracy of its seeds: {'; '.join(named)}."
    return Finding(sentence, "twins", len(rows), [str(row["arm"]) for row in rows])


def _twin_verdict(row: Row) -> str:
    if row["twin_accuracy_difference_low"] > 0:
        return "higher beyond the seeds' spread"
    below = row["twin_accuracy_difference_high"] < 0
    return "lower beyond the seeds' spread" if below else "no difference with these seeds"


def recipe_on_more_devices(tables: Tables, terms: Terms) -> Finding | None:
    """Whether devices may be added at the baseline's batch per device with nothing else changed."""
    summary = words.ok(_on_photographs(tables, terms)).dropna(subset=["training_accuracy_difference_low"])
    parts: list[str] = []
    rows: list[Row] = []
    for baseline in words.rows(_baselines(tables)):
        same = summary[
            (summary["environment"] == baseline["environment"])
            & (summary["compared_with"] == baseline["arm"])
            & (summary["epochs"] == baseline["epochs"])
            & (summary["batch_per_gpu"] == baseline["batch_per_gpu"])
            & (summary["gpus"] > baseline["gpus"])
            & (summary["remedies"].fillna("") == (baseline["remedies"] if words.is_known(baseline["remedies"]) else ""))
        ]
        rows += [baseline, *words.rows(same)] if len(same) else []
        parts += [
            f"{row['arm']}, {row['strategy']} on {terms.count(int(row['gpus']))}, ends with training accuracy "
            f"{_points(row, 'training_accuracy_difference')} and test accuracy "
            f"{_points(row, 'test_accuracy_difference')} from those of {baseline['arm']}, {_carried_over(row)}"
            for row in words.rows(same)
        ]
    if not parts:
        return None
    return _of_arms(
        f"The baseline's recipe on more {terms.devices} at its batch per {terms.device}: {'; '.join(parts)}.", rows
    )


def _carried_over(row: Row) -> str:
    names = ("training_accuracy_difference", "test_accuracy_difference")
    less = any(row[f"{name}_high"] < 0 for name in names)
    more = any(row[f"{name}_low"] > 0 for name in names)
    if less:
        return "one less and one more beyond the seeds' spread" if more else "less beyond the seeds' spread"
    return "more beyond the seeds' spread" if more else "no difference with these seeds"


def remedies_that_help(tables: Tables, terms: Terms) -> Finding | None:
    """Arms whose test accuracy lies wholly above that of the same arm without remedies."""
    return _remedies("a remedy helps", "more accurate than without, beyond the seeds' spread", tables, terms)


def remedies_within_the_spread(tables: Tables, terms: Terms) -> Finding | None:
    """Arms that cannot be told from the same arm without remedies."""
    return _remedies("a remedy shows no difference", "no different from those without, with these seeds", tables, terms)


def remedies_that_harm(tables: Tables, terms: Terms) -> Finding | None:
    """Arms whose test accuracy lies wholly below that of the same arm without remedies."""
    return _remedies("a remedy harms", "less accurate than without, beyond the seeds' spread", tables, terms)


def _remedies(claim: str, outcome: str, tables: Tables, terms: Terms) -> Finding | None:
    """What a claim of arms with remedies holds for; nothing where they were trained on noise."""
    arms = [] if terms.synthetic else holding(tables, claim)
    if not arms:
        return None
    counted = count(tables, claim)
    verb = "is" if counted.number == 1 else "are"
    sentence = f"{counted.among('arm')} with remedies {verb} {outcome}: {_gains(arms, terms)}."
    return _of_arms(sentence, arms)


def against_the_baseline(tables: Tables, terms: Terms) -> Finding | None:
    """Where a batch loses accuracy without remedies: the arms with remedies that do not lie below their baseline."""
    summary = words.ok(with_interval(_on_photographs(tables, terms), "test_accuracy_difference"))
    rivals = summary[summary["recovered"].notna() & (summary["test_accuracy_difference_high"] >= 0)]
    if rivals.empty:
        return None
    order = ["environment", "global_batch", "test_accuracy"]
    level = [
        (row, _compared_with(row, tables))
        for row in words.rows(rivals.sort_values(order, ascending=[True, True, False]))
    ]
    parts = [
        f"{_arm(row, terms)}, {_accuracy(row)}, is {_points(row, 'test_accuracy_difference')} from "
        f"{baseline['arm']} ({_accuracy(baseline)}), {_above_or_level(row)}{_tuning(row, baseline)}"
        for row, baseline in level
    ]
    return _of_arms(
        f"Arms with remedies that do not end below their baseline: {'; '.join(parts)}.",
        _once([row for pair in level for row in reversed(pair)]),
    )


def _above_or_level(row: Row) -> str:
    above = row["test_accuracy_difference_low"] > 0
    return "more accurate beyond the seeds' spread" if above else "no difference with these seeds"


def pareto_best_arms(tables: Tables, terms: Terms) -> Finding | None:
    """The arms that no other one beats in seconds and test accuracy, and those that one surely beats."""
    known = tables["frontier"].dropna(subset=["training_s"])
    if terms.synthetic or len(known) < 2:
        return None
    parts = []
    for _, arms in known.groupby("environment"):
        best = words.rows(arms[arms["by_time"] == BEST].sort_values("training_s"))
        beaten = words.rows(arms[arms["by_time"] == BEATEN].sort_values("training_s"))
        named = [
            f"{row['arm']} ({_accuracy(row)} in {words.measured(row['training_s'], SECONDS)}{_also_best(row, terms)})"
            for row in best
        ]
        surely = (
            f"; beaten, by the intervals of both: {words.listed([str(row['arm']) for row in beaten])}" if beaten else ""
        )
        where = terms.environment(best[0])
        parts.append(f"Pareto-best{where} by training time, from means over seeds: {'; '.join(named)}{surely}")
    arms_of = [str(row["arm"]) for row in words.rows(known)]
    return Finding(f"{'. '.join(parts)}.", "frontier", len(known), arms_of)


def _also_best(row: Row, terms: Terms) -> str:
    """`, also by GPU-seconds and by energy`."""
    also = {"by_gpu_s": f"by {terms.device}-seconds", "by_energy": "by energy"}
    named = [name for column, name in also.items() if row[column] == BEST]
    return f"; also {' and '.join(named)}" if named else ""


def best_at_a_batch(tables: Tables, terms: Terms) -> Finding | None:
    """The highest mean of the arms with remedies at every global batch, and what it recovers of what the batch lost."""
    compared = words.ok(_on_photographs(tables, terms)).dropna(subset=["test_accuracy", "recovered_status"])
    parts: list[str] = []
    rows: list[Row] = []
    for _, arms in compared.groupby(["environment", "global_batch"]):
        best = extreme(arms, "test_accuracy", largest=True)
        rows.append(best)
        parts.append(
            f"at {int(best['global_batch']):,} it is {best['arm']}{terms.environment(best)}, the highest of "
            f"{words.plural(len(arms), 'arm')}, with {_accuracy(best)}: {_recovery(best, _compared_with(best, tables))}"
        )
    return _of_arms(f"The best mean of a global batch with remedies: {'; '.join(parts)}.", rows) if parts else None


def _recovery(row: Row, baseline: Row) -> str:
    """What it recovers, with its interval, or that nobody can tell."""
    if not words.is_known(row["recovered"]):
        return f"what it recovers is {NOT_RESOLVABLE}, since what the batch lost is not told from zero"
    return (
        f"{_points(row, 'test_accuracy_difference')} from {baseline['arm']}, it recovers {with_unit(row, 'recovered')} "
        f"of the accuracy that the batch lost{_tuning(row, baseline)}"
    )


def _tuning(row: Row, other: Row) -> str:
    """`, tuned (80 trials, chosen on test accuracy) against an untuned b128`; nothing where neither was searched."""
    mine, others = _search_of(row), _search_of(other)
    if not mine and not others:
        return ""
    return f", {mine or 'untuned'} against {others or 'an untuned'} {other['arm']}"


def _search_of(row: Row) -> str:
    if not words.is_known(row["tuned_trials"]):
        return ""
    return f"tuned ({words.plural(int(row['tuned_trials']), 'trial')}, chosen on {row['tuned_on']})"


def comparisons_at_once(tables: Tables, terms: Terms) -> Finding | None:
    """How many differences between arms are tested: some of many look real by chance."""
    claims = {
        "an arm is less accurate than the baseline": "with the baseline",
        "a remedy helps": "with the same arm without",
    }
    counted = {against: count(tables, claim).of for claim, against in claims.items()}
    if terms.synthetic or not any(counted.values()):
        return None
    named = " and ".join(f"{words.plural(number, 'time')} {against}" for against, number in counted.items())
    rows = [row for claim in claims for row in asked(tables, claim)]
    return _of_arms(
        f"Test accuracy of arms is compared {named}, each time with a 95 % interval of its own: of 20 comparisons of "
        "arms that are equal, one is expected to show a difference.",
        _once(rows),
    )


def divergence(tables: Tables, terms: Terms) -> Finding | None:
    """Arms whose loss did not stay finite."""
    diverged = holding(tables, "an arm diverged")
    if not diverged:
        return None
    named = "; ".join(f"{_arm(row, terms)}: {row['reason']}" for row in diverged)
    number = words.plural(count(tables, "an arm diverged").number, "arm")
    return _of_arms(f"The loss did not stay finite for {number}: {named}.", diverged)


def order_without_set_epoch(tables: Tables, terms: Terms) -> Finding | None:
    """What set_epoch changes for the order of samples: measured, of all epochs but the first."""
    orders = tables["training_order"]
    of_ddp = {is_true(row["set_epoch"]): row for row in words.rows(orders[orders["strategy"] == "ddp"])}
    without, remedied = of_ddp.get(False), of_ddp.get(True)
    if without is None or not without["repeated"]:
        return None
    sentence = (
        "Without set_epoch, workers of ddp took the same images in the same order as in the epoch before in "
        f"{without['repeated']:,} of {without['orders']:,} orders"
    )
    if remedied is not None:
        sentence += (
            f"; with it, {percent(remedied['same_place'])} of the images stood at the same place, and a worker had "
            f"had {percent(remedied['seen_before'])} of its images in the epoch before"
        )
    evidence = tables["training_evidence"].dropna(subset=["same_place"])
    rests_on = evidence[evidence["strategy"] == "ddp"]
    return _of_evidence(f"{sentence}.{_loss_without_set_epoch(tables, terms)}", rests_on)


def _loss_without_set_epoch(tables: Tables, terms: Terms) -> str:
    """What the same order in every epoch does to the loss, of arms that differ from another in that alone."""
    summary = tables["training_summary"].dropna(subset=["training_loss_change"])
    alone = summary[summary["remedies"] == "set_epoch off"]
    named = [
        f"{words.estimate(row, 'training_loss')} with {row['arm']}{terms.environment(row)}, "
        f"{words.estimate(row, 'training_loss_change')} from that of {row['without_remedies']}{_or_level(row)}"
        for row in words.rows(alone)
    ]
    return f" The training loss after the last epoch is then {'; '.join(named)}." if named else ""


def _or_level(row: Row) -> str:
    """Whether the interval of a change has zero in it."""
    level = row["training_loss_change_low"] <= 0 <= row["training_loss_change_high"]
    return ", no difference with these seeds" if level else ""


def statistics_of_workers(tables: Tables, terms: Terms) -> Finding | None:
    """Whether workers share batch-norm's running statistics: whose are in the network that is tested."""
    known = tables["training_evidence"].dropna(subset=["statistics_kept"])
    if known.empty:
        return None
    known = known.assign(shared=words.are_true(known["sync_batch_norm"]), kept=words.are_true(known["statistics_kept"]))
    parts = []
    for (strategy, shared), rows in known.groupby(["strategy", "shared"]):
        epochs = rows.groupby(["arm", "environment", "seed", "epoch"], dropna=False)
        kept = {tuple(sorted(epoch[epoch["kept"]]["worker"])) for _, epoch in epochs}
        which = "all workers are equal" if rows["kept"].all() else _kept(kept, terms)
        name = f"{strategy} with SyncBatchNorm" if shared else str(strategy)
        most = extreme(rows, "statistics_difference", largest=True)["statistics_difference"]
        apart = f"{words.figure(most, 2)} standard deviations apart at most"
        parts.append(f"of {name} {which} (running means {apart})")
    return _of_evidence(f"Batch-norm's running statistics after an epoch: {'; '.join(parts)}.", known)


def _of_arms(sentence: str, arms: Sequence[Row]) -> Finding:
    """Arms are named in the sentence; their recipes, which are long, are what it rests on."""
    recipes = [
        f"{row['arm']}: {row['remedies']}" if words.text(row["remedies"]) != words.ABSENT else row["arm"]
        for row in arms
    ]
    return Finding(sentence, "training_summary", len(arms), recipes)


def _of_evidence(sentence: str, rows: pd.DataFrame) -> Finding:
    return Finding(sentence, "training_evidence", len(rows), [str(arm) for arm in dict.fromkeys(rows["arm"])])


def _kept(found: set[tuple[int, ...]], terms: Terms) -> str:
    """Whose statistics are tested, of what was found in each epoch."""
    if len(found) > 1:
        return "not the same workers' are tested in every epoch"
    (workers,) = found
    named = words.listed([str(worker) for worker in workers])
    return (
        f"only those of {terms.device} {named} are tested, the others' are lost"
        if workers
        else "none is kept as it was"
    )


def _on_photographs(tables: Tables, terms: Terms) -> pd.DataFrame:
    """What arms come to, none where they were trained on noise: accuracies are then chance."""
    summary = tables["training_summary"]
    return summary.head(0) if terms.synthetic else summary


def _is_baseline(summary: pd.DataFrame) -> pd.Series:
    return words.are_true(summary["is_baseline"])


def _baselines(tables: Tables) -> pd.DataFrame:
    """The baseline in every environment in which it was trained."""
    summary = tables["training_summary"]
    return summary[_is_baseline(summary)]


def _compared_with(row: Row, tables: Tables) -> Row:
    """The arm that this one is compared with."""
    summary = tables["training_summary"]
    (found,) = words.rows(
        summary[(summary["arm"] == row["compared_with"]) & (summary["environment"] == row["environment"])]
    )
    return found


def _once(arms: Sequence[Row]) -> list[Row]:
    return list({(row["arm"], row["environment"]): row for row in arms}.values())


def _gains(arms: Sequence[Row], terms: Terms) -> str:
    ordered = sorted(arms, key=lambda row: row["test_accuracy_gain"], reverse=True)
    ordered.sort(key=lambda row: row["global_batch"])
    return "; ".join(f"{_arm(row, terms)}, {_points(row, 'test_accuracy_gain')}{_searched(row)}" for row in ordered)


def _searched(row: Row) -> str:
    """`, tuned (80 trials, chosen on test accuracy)`: the same arm without remedies never is."""
    return f", {search}" if (search := _search_of(row)) else ""


def _arm(row: Row, terms: Terms) -> str:
    return f"{row['arm']} at global batch {int(row['global_batch']):,}{terms.environment(row)}"


def _accuracy(row: Row) -> str:
    return with_unit(row, "test_accuracy")


def _points(row: Row, name: str) -> str:
    """`31.2 points [28.8, 33.6]`, `1 point [−26, 28]`."""
    return re.sub(rf"^({words.MINUS}?1) points", r"\1 point", words.estimate(row, name, POINTS, with_unit=True))
