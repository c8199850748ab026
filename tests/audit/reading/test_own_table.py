"""Tables as people write them: read with their digits and units, or refused with the cell that cannot be read."""

from decimal import Decimal
from pathlib import Path

import pytest

from dpscale.audit.reading.own_table import read_table
from dpscale.audit.reading.published import GLOBAL, PER_GPU, UNSTATED, Place, Published
from dpscale.errors import PublishedError

TABLES = Path(__file__).parent / "tables"


def read(name: str) -> Published:
    return read_table(TABLES / name)


def shown(study: Published, quantity: str) -> dict[tuple[int, int], str]:
    """The printed numbers of a quantity, with their digits."""
    table = study.epoch_s if quantity == "epoch_s" else study.quantities[quantity]
    return {tuple(place): str(number) for place, number in table.items()}  # type: ignore[misc]


def written(tmp_path: Path, text: str, name: str = "t.csv") -> Path:
    path = tmp_path / name
    path.write_text(text)
    return path


def test_decimal_commas() -> None:
    study = read("decimal-commas.csv")
    assert shown(study, "epoch_s")[32, 1] == "25.86"
    assert shown(study, "communication_s") == {
        (32, 2): "24.00", (32, 4): "20.785", (128, 2): "10.225", (128, 4): "11.1375",
    }  # fmt: skip
    assert shown(study, "speedup")[128, 4] == "0.99"


def test_units_in_brackets_and_lines_above_the_table() -> None:
    study = read("units-in-brackets.csv")
    assert (study.gpu, study.year, study.bandwidth_unit) == ("RTX 8000", 2022, "GB/s")
    assert shown(study, "bandwidth") == {(128, 2): "0.771", (128, 4): "0.420", (512, 2): "1.06", (512, 4): "0.320"}
    assert shown(study, "compute_s")[512, 4] == "4.6425"


def test_merged_heads() -> None:
    study = read("merged-heads.csv")
    assert study.batch == PER_GPU
    assert shown(study, "epoch_s")[512, 4] == "9.88"
    assert shown(study, "speedup") == {
        (32, 2): "0.39", (32, 4): "0.33", (128, 2): "0.87", (128, 4): "0.87", (512, 2): "1.64", (512, 4): "1.88",
    }  # fmt: skip


def test_missing_cells_are_no_numbers() -> None:
    study = read("missing-cells.csv")
    assert Place(128, 2) not in study.epoch_s
    assert shown(study, "speedup") == {(32, 2): "1.457", (128, 4): "3.645"}
    assert shown(study, "communication_s") == {(32, 2): "4.389", (32, 4): "3.172", (128, 4): "0.445"}


def test_out_of_memory_is_said() -> None:
    study = read("out-of-memory.markdown")
    assert [tuple(cell.values()) for cell in study.unmeasured] == [
        (8192, 1, "out of memory"),
        (8192, 2, "out of memory"),
    ]
    assert (study.gpu, study.precision) == ("A40", "float32")
    assert shown(study, "speedup") == {(2048, 1): "1", (2048, 2): "1.944"}


def test_a_dash_is_a_missing_cell_and_an_empty_batch_is_that_above() -> None:
    study = read("dashes.markdown")
    assert shown(study, "epoch_s") == {
        (32, 1): "38", (32, 2): "67", (32, 4): "121", (128, 1): "16", (128, 2): "18", (128, 4): "30",
    }  # fmt: skip
    assert shown(study, "speedup") == {(32, 2): "0.567", (32, 4): "0.314", (128, 2): "0.889", (128, 4): "0.533"}
    assert study.batch == UNSTATED


def test_percent_signs_and_milliseconds() -> None:
    study = read("percent-signs.csv")
    assert shown(study, "epoch_s")[32, 2] == "16.164"
    assert shown(study, "speedup")[128, 4] == "3.65"
    assert "the column Efficiency is not used" in study.assumed


def test_thin_spaces() -> None:
    study = read("thin-spaces.csv")
    assert shown(study, "epoch_s") == {(8192, 1): "2761.8", (8192, 2): "1984.5", (8192, 4): "1079.3"}
    assert shown(study, "images_per_s")[8192, 4] == "46.326"


def test_units_in_cells_and_a_global_batch() -> None:
    study = read("units-in-cells.markdown")
    assert study.batch == GLOBAL
    assert shown(study, "bandwidth") == {(128, 2): "4.88", (128, 4): "10.7"}
    assert not any("seconds" in assumed for assumed in study.assumed)


def test_what_is_not_given_is_assumed_and_said(tmp_path: Path) -> None:
    study = read_table(written(tmp_path, "batch,gpus,time\n32,1,9.0\n32,2,5.0\n"))
    assert (study.dataset_images, study.parameters_trained) == (50_000, 11_173_962)
    assert study.assumed == [
        "time is in seconds",
        "50,000 training images per epoch (CIFAR-10)",
        "11,173,962 parameters (ResNet-18 for 32x32 images)",
    ]
    given = "# images: 1,281,167\n# parameters: 25557032\n# batch: global\n"
    study = read_table(written(tmp_path, f"{given}batch,gpus,time (s)\n32,1,9.0\n32,2,5.0\n"))
    assert (study.dataset_images, study.parameters_trained, study.batch) == (1_281_167, 25_557_032, GLOBAL)
    assert study.assumed == []


def test_minutes_are_known_no_better_in_seconds(tmp_path: Path) -> None:
    study = read_table(written(tmp_path, "batch,gpus,time (min)\n32,1,1.25\n32,2,0.75\n"))
    # Half of a hundredth of a minute is 0.3 s.
    assert study.epoch_s == {Place(32, 1): Decimal("75"), Place(32, 2): Decimal("45")}


REFUSED = {
    "ambiguous-commas.csv": "row 2, column time (s): 25,860 may be 25.860 or 25860: write it without a comma",
    "step-times.csv": "column step time (ms): times of a step are not read; write times of an epoch",
    "twice.csv": "row 4, column time (s): batch 32 on 2 GPUs is there twice",
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_that_cannot_be_read_names_the_cell(name: str) -> None:
    with pytest.raises(PublishedError) as error:
        read(name)
    assert str(error.value) == f"{TABLES / name}: {REFUSED[name]}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("batch,gpus,time (s)\n32,1,12..5\n", "row 2, column time (s): 12..5 is not a number"),
        ("batch,gpus,time (s)\n32,1,≈12\n", "row 2, column time (s): ≈12 is not a number"),
        ("batch,gpus,time (s)\n32,1,0\n", "row 2, column time (s): 0 is not above zero"),
        ("batch,gpus,time (s)\n32,1,-3\n", "row 2, column time (s): -3 is not above zero"),
        ("batch,gpus,time (s)\nsmall,1,3\n", "row 2, column batch: small is not a whole number"),
        ("batch,gpus,time (s)\n32,1.5,3\n", "row 2, column gpus: 1.5 is not a whole number"),
        ("batch,gpus,time (s)\n,1,3\n", "row 2: the batch is missing"),
        ("batch,gpus,time (s)\n32,1,3,4\n", "row 2 has 4 cells, the head has 3"),
        ("batch,gpus,time (s)\n32,1,3000 ms\n", "row 2, column time (s): 3000 ms is not in the unit of its column, s"),
        ("batch,gpus,time (s),time (s)\n32,1,3,4\n", "column time (s): another column is epoch_s too"),
        ("batch,time (s)\n32,3\n", "no column says the number of GPUs"),
        ("gpus,time (s)\n1,3\n", "names no batch, or no figure"),
        ("batch,gpus,speedup\n32,2,1.9\n", "no column holds epoch times"),
        ("batch,gpus,time (s),bandwidth (parsec/s)\n32,2,1.9,3\n", "the unit parsec/s is none of GB/s"),
        ("batch,gpus,time (fortnights)\n32,2,1.9\n", "the unit fortnights is none of s, ms, min, h"),
        ("# gpu: Voodoo 3\nbatch,gpus,time (s)\n32,2,1.9\n", "gpu: Voodoo 3 is not in the table of GPUs"),
        ("# precision: double\nbatch,gpus,time (s)\n32,2,1.9\n", "precision: double is none of float32"),
        ("# batch: large\nbatch,gpus,time (s)\n32,2,1.9\n", "batch: large is neither `per GPU` nor `global`"),
        ("# images: many\nbatch,gpus,time (s)\n32,2,1.9\n", "dataset_images: many is not a number"),
        ("", "has no table"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(PublishedError) as error:
        read_table(path)
    assert str(error.value).startswith(f"{path}: ")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_another_encoding_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes("Batch;GPUs;Zeit für eine Epoche (s)\n".encode("latin-1"))
    with pytest.raises(PublishedError, match="is not UTF-8"):
        read_table(path)
