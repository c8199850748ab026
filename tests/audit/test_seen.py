"""What an outside test saw: tables that passed and should not, honest ones that were accused, and what was refused."""

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random

import pytest

from command_line import dpscale
from dpscale.formulas.ring import ring_allreduce_bytes
from published_factory import PARAMETERS

IMAGES = 50_000
TIMES = {
    (32, 1): 104.02, (32, 2): 71.34, (32, 4): 40.19, (128, 1): 61.87, (128, 2): 40.66, (128, 4): 22.93,
    (512, 1): 48.31, (512, 2): 29.41, (512, 4): 16.07,
}  # fmt: skip
Times = Mapping[tuple[int, int], float]
Column = Callable[[Times, int, int], float]


def speedup(t: Times, b: int, n: int) -> float:
    return t[b, 1] / t[b, n]


def compute(t: Times, b: int, n: int) -> float:
    return t[b, 1] / n


def communication(t: Times, b: int, n: int) -> float:
    return t[b, n] - t[b, 1] / n


def bandwidth(t: Times, b: int, n: int) -> float:
    volume = ring_allreduce_bytes(n, 4 * PARAMETERS) * math.ceil(IMAGES / (n * b))
    return volume / communication(t, b, n) / 1e9


def efficiency(t: Times, b: int, n: int) -> float:
    return 100 * speedup(t, b, n) / n


HONEST: Mapping[str, Column] = {
    "Speedup": speedup, "Compute (s)": compute, "Communication (s)": communication, "Bandwidth (GB/s)": bandwidth,
    "Throughput (images/s)": lambda t, b, n: IMAGES / t[b, n], "Efficiency (%)": efficiency,
}  # fmt: skip


def table(
    columns: Mapping[str, Column],
    times: Times = TIMES,
    head: str = "Epoch time (s)",
    shown: str = "{:.2f}",
    unit: float = 1,
) -> str:
    """A CSV file with numbers to two decimals."""
    rows = [["Batch", "GPUs", head, *columns]]
    for (batch, gpus), time in times.items():
        figures = [shown.format(of(times, batch, gpus)) if gpus > 1 else "" for of in columns.values()]
        rows.append([str(batch), str(gpus), f"{time / unit:.2f}", *figures])
    return "".join(f"{','.join(row)}\n" for row in rows)


def audited(folder: Path, text: str, *options: object, name: str = "t.csv") -> tuple[int, str]:
    """Exit status, and what is said below the title, its first sentence first."""
    path = folder / name
    path.write_text(text)
    done = dpscale("audit", path, *options)
    assert len(done.stderr.splitlines()) <= 1
    return done.returncode, " ".join(done.stdout.partition("\n")[2].split())


random = Random(7)
OTHER = {place: time * random.uniform(1.04, 1.12) for place, time in TIMES.items()}
INVENTED = {
    "throughput": {"Throughput (images/s)": lambda t, b, n: random.uniform(300, 3000)},
    "compute": {"Compute (s)": lambda t, b, n: random.uniform(5, 50)},
    "communication": {"Communication (s)": lambda t, b, n: random.uniform(1, 30)},
    "bandwidth": {"Bandwidth (GB/s)": lambda t, b, n: random.uniform(0.5, 20)},
    "images": {"Throughput (images/s)": lambda t, b, n: 44_000 / t[b, n]},
    "too large": {"Bandwidth (GB/s)": lambda t, b, n: 5.3 * bandwidth(t, b, n)},
    "negative": {"Communication (s)": lambda t, b, n: t[b, n] - t[b, 1]},
    "negative bandwidth": {"Bandwidth (GB/s)": lambda t, b, n: -bandwidth(t, b, n)},
    "circular": {
        "Compute (s)": lambda t, b, n: compute(OTHER, b, n),
        "Communication (s)": lambda t, b, n: t[b, n] - round(compute(OTHER, b, n), 2),
    },
    "over two": {"Speedup": lambda t, b, n: t[b, 2] / t[b, n]},
    "over the one before": {"Speedup": lambda t, b, n: t[b, n // 2] / t[b, n]},
    "efficiency": {"Efficiency (%)": lambda t, b, n: 1.3 * efficiency(t, b, n)},
}


@pytest.mark.parametrize("name", INVENTED)
@pytest.mark.parametrize("beside", [{}, HONEST], ids=["alone", "beside honest columns"])
def test_what_the_times_do_not_give_does_not_pass(tmp_path: Path, name: str, beside: Mapping[str, Column]) -> None:
    status, sentence = audited(tmp_path, table({**beside, **INVENTED[name]}))
    assert status == 1
    assert sentence.startswith("Batch 32, 2 GPUs: ") or name == "over the one before"
    assert "your times give" in sentence


def test_steps_under_the_heading_of_batches_do_not_pass(tmp_path: Path) -> None:
    text = table({"Speedup": speedup})
    for batch, steps in ((32, 1563), (128, 391), (512, 98)):
        text = text.replace(f"\n{batch},", f"\n{steps},")
    status, sentence = audited(tmp_path, text)
    assert (status, "the batch is a number of steps (an epoch has 98 steps at a batch of 512)" in sentence) == (1, True)


def with_decimals_cut(column: Column) -> Column:
    return lambda t, b, n: math.floor(100 * column(t, b, n)) / 100


EXACT = {place: time + random.uniform(0.0001, 0.0099) for place, time in TIMES.items()}
NOISY = {place: time * random.uniform(0.8, 1.2) for place, time in TIMES.items()}
HONEST_TABLES = {
    "as defined": table(HONEST),
    "digits cut": table({name: with_decimals_cut(column) for name, column in HONEST.items()}),
    # To three decimals, from times to more than the two that are printed, without rounding.
    "times cut": table({"Speedup": lambda t, b, n: speedup(EXACT, b, n)}, shown="{:.3f}"),
    "minutes": table(HONEST, head="Epoch time (min)", unit=60),
    "mean of ratios": table({"Speedup": lambda t, b, n: speedup(t, b, n) * random.uniform(0.985, 1.015)}),
    "noise": table(HONEST, NOISY),
    "AMP, which is not said": "# gpu: T4\n" + table(HONEST, {place: time / 5 for place, time in TIMES.items()}),
    "ms per step": table({"Compute (ms/step)": lambda t, b, n: 1000 * compute(t, b, n) * n * b / IMAGES}),
    "share": table({"Communication share (%)": lambda t, b, n: 100 * communication(t, b, n) / t[b, n]}),
    "line break": table(HONEST).replace("Communication (s)", '"Communication\n(s)"'),
    "unknown GPU": "# gpu: Voodoo 3\n" + table(HONEST),
}  # fmt: skip


@pytest.mark.parametrize("name", HONEST_TABLES)
def test_honest_tables_are_not_accused(tmp_path: Path, name: str) -> None:
    status, sentence = audited(tmp_path, HONEST_TABLES[name])
    assert (status, sentence) == (0, sentence)


def test_what_was_assumed_caps_the_impossible_and_saying_it_lifts_that(tmp_path: Path) -> None:
    fast = "# gpu: T4\n" + table({}, {place: time / 12 for place, time in TIMES.items()})
    status, sentence = audited(tmp_path, fast)
    assert status == 0
    assert "assuming 11,173,962 parameters (ResNet-18 for 32x32 images) and float32 arithmetic" in sentence
    said = ["--network", "32x32", "--precision", "float32"]
    status, sentence = audited(tmp_path, f"# images: 50000\n{fast}", *said)
    assert (status, "time that the GPU cannot reach" in sentence) == (1, True)
    assert audited(tmp_path, f"# images: 50000\n{fast}", "--network", "torchvision", "--precision", "float32")[0] == 0
    assert audited(tmp_path, fast.replace("T4", "Voodoo 3"), *said)[0] == 0
    peak = f"# images: 50000\n{fast.replace('T4', 'Voodoo 3')}"
    assert audited(tmp_path, peak, *said, "--peak", 8.1)[0] == 1


def test_a_right_time_beside_a_wrong_one_is_not_accused(tmp_path: Path) -> None:
    status, sentence = audited(tmp_path, table(HONEST).replace("128,1,61.87", "128,1,81.87"))
    assert status == 1
    assert sentence.startswith("Batch 128, 2 GPUs: speedup 1.52; your times give 2.01. 3 more figures are in ")
    assert "epoch time" not in sentence.partition(" more figures")[2]


STRATEGIES = "Strategy,Batch,GPUs,Epoch time (s),Speedup\nsingle,32,1,104.02,1.00\n"


def test_strategies_and_runs_are_studies_of_their_own(tmp_path: Path) -> None:
    dp, ddp = "DP,32,2,90.00,{}\nDP,32,4,80.00,1.30\n", "DDP,32,2,71.34,1.46\nDDP,32,4,40.19,2.59\n"
    assert audited(tmp_path, STRATEGIES + dp.format("1.16") + ddp)[0] == 0
    status, sentence = audited(tmp_path, STRATEGIES + dp.format("2.31") + ddp)
    assert status == 1
    assert sentence.startswith("Batch 32, 2 GPUs: speedup 2.31; your times give 1.16. 1 of 2 figures are explained.")
    runs = "Run,Batch,GPUs,Time (s),Speedup\n1,32,1,9.00,1.00\n1,32,2,5.00,1.80\n2,32,1,8.00,1.00\n2,32,2,5.00,1.60\n"
    assert audited(tmp_path, runs)[0] == 0
    assert audited(tmp_path, runs.replace("1.60", "1.80"))[0] == 1


def test_throughput_or_times_of_steps_stand_for_times(tmp_path: Path) -> None:
    rates = "Batch,GPUs,images/s,Speedup\n32,1,500,1.00\n32,2,900,{}\n32,4,1600,3.20\n"
    steps = "Batch,GPUs,Step time (ms),Speedup\n32,1,14.70,1.00\n32,2,15.10,{}\n32,4,16.00,3.68\n"
    for text, right in ((rates, "1.80"), (steps, "1.95")):
        assert audited(tmp_path, text.format(right))[0] == 0
        status, sentence = audited(tmp_path, text.format("2.44"))
        assert (status, f"your times give {right}" in sentence) == (1, True)
