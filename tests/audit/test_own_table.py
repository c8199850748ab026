"""Tables as people write them: read with their digits and units, or refused with the cell that cannot be read."""

from pathlib import Path

import openpyxl
import pytest

from dpscale.audit.audit import audit, is_faulty
from dpscale.audit.own_table import read_table
from dpscale.audit.published import GLOBAL, UNSTATED, Published, Spot
from dpscale.audit.verdicts import OF_OTHER_RUNS

TABLES = Path(__file__).parent / "tables"


def written(tmp_path: Path, text: str, name: str = "t.csv") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


# What is read of each, with its digits: a quantity by batch x GPUs, and what else the table says.
READ = {
    "decimal-commas.csv": """
epoch_s: 32x1 25.86, 32x2 36.93, 32x4 27.25, 128x1 14.73, 128x2 17.59, 128x4 14.82
speedup: 32x1 1.00, 32x2 0.70, 32x4 0.95, 128x1 1.00, 128x2 0.84, 128x4 0.99
communication_s: 32x2 24.00, 32x4 20.785, 128x2 10.225, 128x4 11.1375
""",
    "units-in-brackets.csv": """
epoch_s: 128x1 17.37, 128x2 20.04, 128x4 19.99, 512x1 18.57, 512x2 11.35, 512x4 9.88
compute_s: 128x2 8.685, 128x4 4.3425, 512x2 9.285, 512x4 4.6425
communication_s: 128x2 11.355, 128x4 15.6475, 512x2 2.065, 512x4 5.2375
bandwidth: 128x2 0.771, 128x4 0.420, 512x2 1.06, 512x4 0.320
stated: GB/s, RTX 8000
assumed: float32 arithmetic
""",
    "merged-heads.csv": """
epoch_s: 32x1 23.44, 32x2 60.17, 32x4 70.33, 128x1 17.37, 128x2 20.04, 128x4 19.99, 512x1 18.57, 512x2 11.35, 512x4 9.88
speedup: 32x2 0.39, 32x4 0.33, 128x2 0.87, 128x4 0.87, 512x2 1.64, 512x4 1.88
stated: per_gpu
""",
    "missing-cells.csv": """
epoch_s: 32x1 23.550, 32x2 16.164, 32x4 9.060, 128x1 18.311, 128x4 5.023
speedup: 32x2 1.457, 128x4 3.645
communication_s: 32x2 4.389, 32x4 3.172, 128x4 0.445
""",
    "out-of-memory.markdown": """
epoch_s: 2048x1 19.658, 2048x2 10.112
speedup: 2048x1 1, 2048x2 1.944
stated: A40, float32
""",
    # A dash is a missing cell, and an empty batch is that of the row above.
    "dashes.markdown": """
epoch_s: 32x1 38, 32x2 67, 32x4 121, 128x1 16, 128x2 18, 128x4 30
speedup: 32x2 0.567, 32x4 0.314, 128x2 0.889, 128x4 0.533
""",
    # And milliseconds.
    "percent-signs.csv": """
epoch_s: 32x1 23550 ms, 32x2 16164 ms, 32x4 9060 ms, 128x1 18311 ms, 128x2 9849 ms, 128x4 5023 ms
speedup: 32x1 100 %, 32x2 146 %, 32x4 260 %, 128x1 100 %, 128x2 186 %, 128x4 365 %
efficiency: 32x1 100 %, 32x2 73 %, 32x4 65 %, 128x1 100 %, 128x2 93 %, 128x4 91 %
""",
    "thin-spaces.csv": """
epoch_s: 8192x1 2761.8, 8192x2 1984.5, 8192x4 1079.3
images_per_s: 8192x1 18.104, 8192x2 25.195, 8192x4 46.326
left out: Rates times times are about 50,000 images per epoch, which were not given
""",
    # And a global batch.
    "units-in-cells.markdown": """
epoch_s: 128x1 17.37, 128x2 12.26, 128x4 6.79
speedup: 128x1 1.00, 128x2 1.42, 128x4 2.56
bandwidth: 128x2 4.88, 128x4 10.7
stated: global, GB/s
""",
    # A second of 1,562.5 steps is more than one of a thousand.
    "step-times.csv": """
epoch_s: 32x1 14.7 ms/step, 32x2 15.1 ms/step
speedup: 32x1 1.0, 32x2 1.95
""",
    "lab-report.tex": """
epoch_s: 32x1 104.02, 32x2 71.34, 32x4 40.19, 128x1 61.87, 128x2 40.66, 128x4 22.93
speedup: 32x2 1.46, 32x4 2.59, 128x2 1.52, 128x4 2.70
stated: T4
assumed: float32 arithmetic
left out: Left out, as there are no figures by numbers of GPUs: table 1 (Setting | Value)
""",
}


def shown(study: Published) -> str:
    """The study as a text, less what is assumed of every table here."""
    lines = {
        name: [f"{batch}x{gpus} {number}" for (batch, gpus), number in table.items()]
        for name, table in {"epoch_s": study.epoch_s, **study.quantities}.items()
    }
    stated = (study.batch, study.bandwidth_unit, study.gpu, study.precision)
    lines["stated"] = [str(value) for value in stated if value not in (None, UNSTATED)]
    lines["assumed"] = [words for name, words in study.assumed.items() if name not in ("images", "network")]
    lines["left out"] = [*study.left_out]
    return "".join(f"\n{name}: {', '.join(values)}" for name, values in lines.items() if values) + "\n"


@pytest.mark.parametrize("name", READ)
def test_a_table_as_people_write_it(name: str) -> None:
    (study,) = read_table(TABLES / name)
    assert shown(study) == READ[name]


def test_what_is_not_given_is_assumed_and_said(tmp_path: Path) -> None:
    (study,) = read_table(written(tmp_path, "batch,gpus,time\n32,1,9.0\n32,2,5.0\n"))
    assert (study.dataset_images, study.parameters_trained) == (50_000, 11_173_962)
    assert {*study.assumed.values()} == {
        "50,000 training images per epoch (CIFAR-10)",
        "11,173,962 parameters (ResNet-18 for 32x32 images)",
    }
    given = "# images: 1,281,167\n# parameters: 25557032\n# batch: global\n"
    (study,) = read_table(written(tmp_path, f"{given}batch,gpus,time (s)\n32,1,9.0\n32,2,5.0\n"))
    assert (study.dataset_images, study.parameters_trained, study.batch) == (1_281_167, 25_557_032, GLOBAL)
    assert not study.assumed


@pytest.mark.parametrize(
    ("head", "printed", "low", "high"),
    [
        # Half of a hundredth of a minute is 0.3 s.
        ("time (min)", "0.31", 18.3, 18.9),
        ("time (h)", "0.1", 180, 540),
        ("step time (ms)", "10", 9.5e-3 * 50_000 / 32, 10.5e-3 * 50_000 / 32),
        ("images/s", "1000", 50_000 / 1000.5, 50_000 / 999.5),
    ],
)
def test_the_interval_of_a_number_is_converted(
    tmp_path: Path, head: str, printed: str, low: float, high: float
) -> None:
    (study,) = read_table(written(tmp_path, f"batch,gpus,{head}\n32,1,{printed}\n"))
    ((_, time),) = study.epoch_s.items()
    assert (time.interval.low, time.interval.high) == pytest.approx((low, high))


def test_a_column_that_is_not_understood_is_left_out(tmp_path: Path) -> None:
    (study,) = read_table(written(tmp_path, "batch,gpus,time (s),bandwidth (parsec/s),mood\n32,2,1.9,3,good\n"))
    assert study.left_out == ["The column mood is left out", "The column bandwidth (parsec/s) is left out"]
    assert study.quantities == {}


def test_a_workbook_is_read_as_it_shows_its_numbers(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    for row in (["Batch", "GPUs", "Time (s)", "Efficiency"], [32, 1, 9.0, None], [32, 2, 5.0, 0.9]):
        book.active.append(row)
    book.active["C2"].number_format = "0.00"
    book.active["D3"].number_format = "0.0%"
    book.save(tmp_path / "t.xlsx")
    (study,) = read_table(tmp_path / "t.xlsx")
    assert shown(study) == "\nepoch_s: 32x1 9.00, 32x2 5\nefficiency: 32x2 90.0 %\n"


NOTE = "# † other runs: the times are of other machines\n"
ROWS = "batch,gpus,time (s),speedup\n32,1,9.0,\n32,2,5.0,1.20† [1.1; 1.3]\n128,1,8.0,\n128,2,5.0,1.60\n"
STATES = """batch,gpus,time (s),time state,speedup,speedup state
32,1,9.0,,,\n32,2,5.0,,1.20,† other runs\n128,1,8.0,,,\n128,2,5.0,,1.60,
"""


@pytest.mark.parametrize("rows", [ROWS, STATES], ids=["behind the figure", "in a column of states"])
def test_figures_with_this_projects_mark_are_not_held_against_the_times(tmp_path: Path, rows: str) -> None:
    (study,) = read_table(written(tmp_path, NOTE + rows))
    assert shown(study).startswith("\nepoch_s: 32x1 9.0, 32x2 5.0, 128x1 8.0, 128x2 5.0\nspeedup: 128x2 1.60\n")
    assert {name: [*table] for name, table in study.of_other_runs.items()} == {"speedup": [Spot(32, 2)]}
    record = audit(study)
    assert not is_faulty(record)
    (cell,) = (cell for cell in record.cells if cell["verdict"] == "not checkable")
    assert (cell["published"], cell["why"], cell["corrected"]) == ("1.20", OF_OTHER_RUNS, None)
    assert any("1 figure of other runs" in str(row["sentence"]) for row in record.findings)


def test_the_same_sign_without_the_note_is_a_footnote_like_any_other(tmp_path: Path) -> None:
    (study,) = read_table(written(tmp_path, ROWS))
    assert not study.of_other_runs
    assert is_faulty(audit(study)), "9.0 / 5.0 is not 1.20"


def test_nothing_is_lost_without_a_word(tmp_path: Path) -> None:
    table = "| model | GPUs | time (s) | speedup |\n|---|---|---|---|\n"
    rows = "| A | 1 | {0}.0 | |\n| A | 2 | 5.0 | 1.80 |\n| B | 1 | 7.0 | |\n| B | 2 | 4.0 | |\n| C | 1 | 3.0 | |\n"
    text = "".join(f"Times\n\n{table}{rows.format(first)}\n" for first in (9, 8, 7))
    studies = read_table(
        written(tmp_path, f"{text}Times\n\n{table}| A | 1 | 6.0 | |\n| A | 1 | 5.0 | |\n", "t.markdown")
    )
    assert len({study.id for study in studies}) == len(studies) == 3
    notes = " ".join(studies[0].left_out)
    assert "with nothing to check: B, Times / B and Times / B" in notes and "Groups of one GPU alone: C" in notes
    assert "Left out, as there are several figures for each cell: table 4 (model | GPUs" in notes
