"""Whole tables: what is wrong in them is named, and what is right is not accused.

`bench/audit_made_up.py` does the same with hundreds that are made up.
"""

from collections.abc import Mapping
from pathlib import Path
from random import Random

import pytest
from bench.made_up_tables import FAULTS, HONEST, HONEST_KINDS, Formula, Times, made_up, named

from command_line import dpscale
from dpscale.audit.audit import audit, is_faulty
from dpscale.audit.own_table import read_table

# Whole audits, again and again.
pytestmark = pytest.mark.slow

TABLES = 4
GIVEN = "# images: 50000\n# network: ResNet-18 for 32x32 images"
TIMES = {
    (32, 1): 104.02, (32, 2): 71.34, (32, 4): 40.19, (128, 1): 61.87, (128, 2): 40.66, (128, 4): 22.93,
    (512, 1): 48.31, (512, 2): 29.41, (512, 4): 16.07,
}  # fmt: skip
RANDOM = Random(7)
OF_ANOTHER_TABLE = {place: time * RANDOM.uniform(1.04, 1.12) for place, time in TIMES.items()}
EXACT = {place: time + RANDOM.uniform(0.0001, 0.0099) for place, time in TIMES.items()}


@pytest.mark.parametrize("kind", [*HONEST_KINDS, *FAULTS, "mistaken", "outside"])
def test_what_is_wrong_is_named_and_what_is_right_is_not(tmp_path: Path, kind: str) -> None:
    for number in range(TABLES):
        table = made_up(Random(f"test {number}"), kind)
        (tmp_path / "t.csv").write_text(table.text)
        (study,) = read_table(tmp_path / "t.csv")
        record = audit(study)
        assert named(table, record) == (True, set()), table.text
        assert is_faulty(record) == bool(table.wrong)


def written(columns: Mapping[str, Formula], times: Times = TIMES, decimals: int = 2) -> str:
    """A CSV file with these columns, and times to two decimals."""
    lines = [GIVEN, ",".join(["Batch", "GPUs", "Epoch time (s)", *columns])]
    for (batch, gpus), time in times.items():
        figures = [f"{formula(times, batch, gpus):.{decimals}f}" if gpus > 1 else "" for formula in columns.values()]
        lines.append(",".join([str(batch), str(gpus), f"{time:.2f}", *figures]))
    return "\n".join(lines)


def audited(folder: Path, text: str, *options: object) -> tuple[int, str]:
    """Exit status, and what is said below the title, its first sentence first."""
    (folder / "t.csv").write_text(text)
    done = dpscale("audit", folder / "t.csv", *options)
    assert done.stderr == ""
    return done.returncode, " ".join(done.stdout.partition("\n")[2].split())


INVENTED: Mapping[str, Mapping[str, Formula]] = {
    "negative": {"Communication (s)": lambda t, b, n: t[b, n] - t[b, 1]},
    "negative bandwidth": {"Bandwidth (GB/s)": lambda t, b, n: -HONEST["Bandwidth (GB/s)"](t, b, n)},
    "over the number of GPUs before": {"Speedup": lambda t, b, n: t[b, n // 2] / t[b, n]},
    "efficiency": {"Efficiency (%)": lambda t, b, n: 1.3 * HONEST["Efficiency (%)"](t, b, n)},
}


@pytest.mark.parametrize("name", INVENTED)
@pytest.mark.parametrize("beside", [{}, HONEST], ids=["alone", "beside honest columns"])
def test_what_the_times_do_not_give_does_not_pass(tmp_path: Path, name: str, beside: Mapping[str, Formula]) -> None:
    status, sentence = audited(tmp_path, written({**beside, **INVENTED[name]}))
    assert (status, "the times give" in sentence) == (1, True)


@pytest.mark.parametrize(
    "text",
    [
        written(HONEST),
        # Times to two decimals whose further digits were left out, and speedups of all their digits.
        written({"Speedup": lambda t, b, n: EXACT[b, 1] / EXACT[b, n]}, decimals=3),
        written({"Communication share (%)": lambda t, b, n: 100 * (1 - t[b, 1] / n / t[b, n])}),
        written(HONEST).replace("Communication (s)", '"Communication\n(s)"'),
        "# gpu: Voodoo 3\n" + written(HONEST),
        # What was measured, and the rest of the time.
        written(
            {
                "Compute (s)": lambda t, b, n: OF_ANOTHER_TABLE[b, 1] / n,
                "Communication (s)": lambda t, b, n: t[b, n] - round(OF_ANOTHER_TABLE[b, 1] / n, 2),
            }
        ),
    ],
    ids=["as defined", "times cut", "share", "line break", "unknown GPU", "measured"],
)
def test_honest_tables_are_not_accused(tmp_path: Path, text: str) -> None:
    status, sentence = audited(tmp_path, text)
    assert status == 0, sentence


def test_what_was_assumed_caps_the_impossible_and_saying_it_lifts_that(tmp_path: Path) -> None:
    fast = "# gpu: T4\n" + written({}, {place: time / 12 for place, time in TIMES.items()}).removeprefix(GIVEN)
    status, sentence = audited(tmp_path, fast)
    assert status == 0
    assert "assuming 11,173,962 parameters (ResNet-18 for 32x32 images) and float32 arithmetic" in sentence
    known_gpu, unknown_gpu = f"# images: 50000\n{fast}", f"# images: 50000\n{fast.replace('T4', 'Voodoo 3')}"
    options = ["--network", "32x32", "--precision", "float32"]
    status, sentence = audited(tmp_path, known_gpu, *options)
    assert (status, "time that the GPU cannot reach" in sentence) == (1, True)
    assert audited(tmp_path, known_gpu, "--network", "torchvision", "--precision", "float32")[0] == 0
    assert audited(tmp_path, unknown_gpu, *options)[0] == 0


def test_a_right_time_beside_a_wrong_one_is_not_accused(tmp_path: Path) -> None:
    status, sentence = audited(tmp_path, written(HONEST).replace("128,1,61.87", "128,1,81.87"))
    assert status == 1
    assert sentence.startswith("Batch 128, 2 GPUs: speedup 1.52; the times give 2.01. 4 more in question.")
    assert "wrong: epoch time" not in sentence
