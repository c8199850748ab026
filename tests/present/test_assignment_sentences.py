"""What explains the tables to hand in: every sentence against the tables' CSV, and data that make it false or other."""

import re
from typing import Any

import pandas as pd
import pytest
from page_tables import around, h200, table

from dpscale.present.assignment_sentences import of_bandwidth, of_communication, of_speedup
from dpscale.present.words import Terms

GPU = Terms(device="GPU", several_environments=False, synthetic=False)
DDP = {"strategy": "ddp", "gpus": 4}


@pytest.fixture
def data() -> dict[str, pd.DataFrame]:
    """As they come back from their CSV files, to change."""
    return {name: frame.copy() for name, frame in h200().items()}


def sentence(sentences: list[str], start: str) -> str:
    (found,) = (each for each in sentences if each.startswith(start))
    return found


def starts(sentences: list[str]) -> list[str]:
    return [re.split(r"[ :,]", each)[0] for each in sentences]


def change(table: pd.DataFrame, where: dict[str, Any], **values: Any) -> None:
    """Write `values` into the rows in which the columns of `where` have these entries."""
    rows = pd.Series(True, index=table.index)
    for name, entry in where.items():
        rows &= table[name] == entry
    assert rows.any()
    for name, entry in values.items():
        table[name] = table[name].astype(object)
        table.loc[rows, name] = entry


def row(table: pd.DataFrame, **where: Any) -> pd.Series:
    """The only row in which these columns have these entries."""
    found = table
    for name, entry in where.items():
        found = found[found[name] == entry]
    (only,) = (found.iloc[place] for place in range(len(found)))
    return only


def figures(text: str) -> list[float]:
    """The numbers of a text with their units, in their order."""
    found = re.findall(r"(−?[\d,]+(?:\.\d+)?)(?: (?:s|ms|%|GB/s|MB)(?![\w/])|×)", text)
    return [float(number.replace(",", "").replace("−", "-")) for number in found]


def test_the_formula_of_the_speedup_has_the_numbers_of_its_row(data: dict[str, pd.DataFrame]) -> None:
    text = sentence(of_speedup(data, "compute", GPU), "Formula")
    at = row(data["speedup"], **DDP, batch_per_gpu=512, scope="compute", scaling="weak")
    assert "with ddp on 4 GPUs at batch 512 per GPU" in text
    assert figures(text) == pytest.approx(
        [at["baseline_epoch_s"], at["epoch_s"], at["speedup"], 100 * at["efficiency"]], rel=2e-3
    )
    first, second, quotient, _ = figures(text)
    assert first / second == pytest.approx(quotient, abs=0.01), "the sum can be done again with what is printed"


def test_the_formula_of_communication_has_the_numbers_of_its_row(data: dict[str, pd.DataFrame]) -> None:
    text = sentence(of_communication(data, GPU), "Formula")
    at = row(data["communication"], **DDP, batch_per_gpu=512)
    assert figures(text) == pytest.approx(
        [at["epoch_s"], at["compute_s"], at["communication_s"], 100 * at["communication_share"]], rel=5e-3
    )


def test_the_formula_of_bandwidth_has_the_numbers_of_its_row(data: dict[str, pd.DataFrame]) -> None:
    text = sentence(of_bandwidth(data, GPU), "Formula")
    at = row(data["bandwidth"], **DDP, batch_per_gpu=512)
    megabytes, seconds, gigabytes = figures(text)
    assert [megabytes, seconds, gigabytes] == pytest.approx(
        [at["allreduce_bytes_per_step"] / 1e6, at["communication_s"], at["bandwidth_gb_s"]], rel=2e-3
    )
    assert f" × {at['steps_per_epoch']:,.0f} / " in text
    assert megabytes * at["steps_per_epoch"] / seconds / 1e3 == pytest.approx(gigabytes, rel=5e-3)


def test_the_trend_needs_intervals_that_are_apart(data: dict[str, pd.DataFrame]) -> None:
    def trend() -> str:
        return sentence(of_speedup(data, "compute", GPU), "Trend")

    first, last = (
        row(data["speedup"], **DDP, batch_per_gpu=batch, scope="compute", scaling="weak") for batch in (32, 512)
    )
    assert last["speedup_low"] > first["speedup_high"]
    assert (
        f"with ddp it rises from {first['speedup']:.2f}× [{first['speedup_low']:.2f}, {first['speedup_high']:.2f}] at "
        f"batch 32 to {last['speedup']:.2f}×"
    ) in trend()
    at = {**DDP, "batch_per_gpu": 512, "scope": "compute", "scaling": "weak"}
    change(data["speedup"], at, **around("speedup", 1.5))
    assert "with ddp it falls from" in trend()
    change(data["speedup"], at, speedup_low=1.0, speedup_high=4.0)
    assert "with ddp it shows no difference, from" in trend()
    change(data["speedup"], at, ranges="speedup")
    assert trend().endswith("with too few runs to tell whether it changes.")


@pytest.mark.parametrize(("value", "called"), [(6.0, "highest"), (0.5, "lowest")])
def test_the_trend_names_a_batch_beyond_both_ends(data: dict[str, pd.DataFrame], value: float, called: str) -> None:
    between = {**DDP, "batch_per_gpu": 128, "scope": "compute", "scaling": "weak"}
    assert "est at 128" not in sentence(of_speedup(data, "compute", GPU), "Trend")
    change(data["speedup"], between, **around("speedup", value))
    assert f", and is {called} at 128, with {value:.2f}× [" in sentence(of_speedup(data, "compute", GPU), "Trend")
    change(data["speedup"], between, speedup_low=0.1, speedup_high=9.0)
    assert "est at 128" not in sentence(of_speedup(data, "compute", GPU), "Trend")


def test_a_batch_alone_has_no_trend(data: dict[str, pd.DataFrame]) -> None:
    only = {
        name: frame[frame["batch_per_gpu"] == 512] if "batch_per_gpu" in frame else frame
        for name, frame in data.items()
    }
    assert "Trend" not in starts(of_speedup(only, "compute", GPU))


def test_fewer_steps_are_a_cause_only_where_the_share_falls(data: dict[str, pd.DataFrame]) -> None:
    text = sentence(of_speedup(data, "compute", GPU), "Cause")
    ends = [row(data["communication"], **DDP, batch_per_gpu=batch) for batch in (32, 512)]
    steps = [row(data["times"], **DDP, batch_per_gpu=batch, scope="compute")["steps_per_epoch"] for batch in (32, 512)]
    assert f"fewer steps, {steps[0]:.0f} at batch 32 and {steps[1]:.0f} at 512" in text
    assert figures(text) == pytest.approx([100 * end["communication_share"] for end in ends], rel=5e-3)
    few_runs = {**data, "speedup": data["speedup"].assign(ranges="speedup")}
    assert "Cause" not in starts(of_speedup(few_runs, "compute", GPU))
    change(data["communication"], {**DDP, "batch_per_gpu": 512}, communication_share=0.9)
    assert "Cause" not in starts(of_speedup(data, "compute", GPU))
    change(data["communication"], {**DDP, "batch_per_gpu": 512}, communication_share=-0.01)
    assert "Cause" not in starts(of_speedup(data, "compute", GPU))


def test_loading_is_said_as_it_was_measured(data: dict[str, pd.DataFrame]) -> None:
    text = sentence(of_speedup(data, "compute", GPU), "Mind")
    at = row(data["speedup"], **DDP, batch_per_gpu=512, scope="end_to_end", scaling="weak")
    assert f"a speedup of {at['speedup']:.4f}× [{at['speedup_low']:.4f}, " in text, "its low end is above 1"
    alone = {**data, "speedup": data["speedup"][data["speedup"]["scope"] == "compute"]}
    assert "it was not measured" in sentence(of_speedup(alone, "compute", GPU), "Mind")
    assert sentence(of_speedup(data, "end_to_end", GPU), "Mind") == "Mind: the DataLoader is in these times."


def test_batches_of_few_steps_are_named(data: dict[str, pd.DataFrame]) -> None:
    assert sentence(of_speedup(data, "compute", GPU), "On 4 GPUs").endswith(
        "fewer than 10 full steps at batch 2,048 and 8,192: such speedups say little."
    )
    small = {**data, "speedup": data["speedup"][data["speedup"]["batch_per_gpu"] < 1000]}
    assert "On" not in starts(of_speedup(small, "compute", GPU))


def test_messages_explain_communication_where_they_were_timed(data: dict[str, pd.DataFrame]) -> None:
    at = {**DDP, "batch_per_gpu": 32}
    assert "Cause" not in starts(of_communication(data, GPU))
    change(data["communication"], at, **around("communication_step_s", 0.002), isolated_step_s=0.0003)
    text = sentence(of_communication(data, GPU), "Cause")
    assert figures(text) == [2.0, 0.3] and "The rest is overhead of the host" in text
    change(data["communication"], at, isolated_step_s=0.003)
    assert "The rest" not in sentence(of_communication(data, GPU), "Cause")


def test_a_ladder_explains_it_better(data: dict[str, pd.DataFrame]) -> None:
    change(data["communication"], {**DDP, "batch_per_gpu": 32}, isolated_step_s=0.0003)
    data["ladder"] = table(
        "ladder",
        [rung("alone", 0, 0.0, None), rung("no_sync", 1, 0.001, "host work"), rung("full", 2, 0.004, "waiting")],
    )
    text = sentence(of_communication(data, GPU), "Cause")
    assert "most is waiting by the ladder, which has 4.000 ms" in text and "(E5)" not in text
    change(data["ladder"], {"order": 1}, **around("difference_s", 0.008))
    assert "most is host work by the ladder, which has 8.00 ms" in sentence(of_communication(data, GPU), "Cause")


def rung(name: str, order: int, difference_s: float, adds: str | None) -> dict[str, Any]:
    return {
        **DDP, "batch_per_gpu": 32, "global_batch": 128, "environment": "A", "rung": name, "order": order, "adds": adds,
        **around("difference_s", difference_s),
    }  # fmt: skip


def test_intervals_that_hold_zero_are_named(data: dict[str, pd.DataFrame]) -> None:
    text = of_communication(data, GPU)[-1]
    communication = data["communication"]
    holding = communication[
        (communication["communication_s_low"] <= 0) & (communication["is_headline"].astype(str) == "True")
    ]
    assert len(holding)
    for _, each in holding.iterrows():
        assert f"{each['strategy']} on {each['gpus']} GPUs" in text and f"{each['batch_per_gpu']:,}" in text
    change(communication, {"scope": "compute"}, communication_s_low=0.001)
    assert (
        of_communication(data, GPU)[-1] == "Mind: inferred by subtraction, this holds every overhead of the host too."
    )


def test_links_that_carry_more_are_a_cause(data: dict[str, pd.DataFrame]) -> None:
    change(data["bandwidth"], {"gpus": 4}, bus_bandwidth_gb_s=300.0)
    text = sentence(of_bandwidth(data, GPU), "Cause")
    assert "reaches a bus bandwidth of 300 GB/s. The communication time holds more than transfers" in text
    change(data["bandwidth"], {"gpus": 4}, bus_bandwidth_gb_s=1.0)
    assert sentence(of_bandwidth(data, GPU), "Cause").endswith("a bus bandwidth of 1.00 GB/s.")
    change(data["bandwidth"], {"gpus": 4}, bus_bandwidth_gb_s=None)
    assert "Cause" not in starts(of_bandwidth(data, GPU))


def test_what_is_not_resolvable_is_named(data: dict[str, pd.DataFrame]) -> None:
    text = sentence(of_bandwidth(data, GPU), "Not resolvable")
    unresolved = data["bandwidth"][data["bandwidth"]["status"] == "not resolvable"]
    named = set(re.findall(r"\bd?dp on \d GPUs", text))
    assert named == {
        f"{each['strategy']} on {each['gpus']} GPUs"
        for _, each in unresolved.iterrows()
        if str(each["is_headline"]) == "True"
    }
    resolved = {**data, "bandwidth": data["bandwidth"][data["bandwidth"]["status"] == "ok"]}
    assert "Not" not in starts(of_bandwidth(resolved, GPU))


def test_nothing_measured_has_nothing_to_explain(data: dict[str, pd.DataFrame]) -> None:
    none = {name: frame.head(0) for name, frame in data.items()}
    assert [*of_speedup(none, "compute", GPU), *of_communication(none, GPU), *of_bandwidth(none, GPU)] == []
