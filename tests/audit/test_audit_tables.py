"""The tables of audits: one row a study, quantity and cell."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from dpscale.analyse.tables import build_tables
from dpscale.audit import tables as audits
from dpscale.audit.audit import audit
from dpscale.audit.published import AUDIT_PATH, Published, collect_audits
from dpscale.errors import RecordError
from dpscale.plan.study import Study
from dpscale.records.collect import Collected
from dpscale.records.files import write_record
from published_factory import written


@pytest.fixture(scope="module")
def tables(root: Path) -> Mapping[str, pd.DataFrame]:
    records = [audit(Published.read(root / f"config/published/study-{letter}.yaml")) for letter in "abcd"]
    return build_tables(Study({"study": "s"}), Collected({}, {}, {}), records)


def row(table: pd.DataFrame, **where: Any) -> pd.Series:
    found = table
    for name, value in where.items():
        found = found[found[name] == value]
    assert len(found) == 1
    return found.iloc[0]


def test_a_row_says_all_of_a_cell(tables: Mapping[str, pd.DataFrame]) -> None:
    cell = row(tables["audit"], study="study-a", quantity="bandwidth", batch_per_gpu=128, gpus=4)
    assert (cell["published"], cell["published_unit"], cell["unit"]) == ("0.0058", "GB/s", "GB/s")
    assert (cell["verdict"], bool(cell["agrees"])) == ("reproduced except", False)
    assert cell["recomputed_low"] < cell["recomputed"] < cell["recomputed_high"]
    assert cell["recomputed"] == pytest.approx(0.005865, abs=1e-6)
    assert cell["corrected"] == pytest.approx(0.5903, abs=1e-4)
    assert cell["warnings"].split("; ") == [
        "unit is not that of the label",
        "bandwidth is not what it is called",
        "cell that its column's convention does not give",
    ]


def test_no_cell_is_there_twice(tables: Mapping[str, pd.DataFrame]) -> None:
    table = tables["audit"]
    assert not table.duplicated(["study", *audits.KEYS]).any()
    assert table["batch_per_gpu"].dtype == table["global_batch"].dtype == "Int64"


def test_a_cell_of_strong_scaling_has_a_global_batch_and_every_other_one_a_batch_per_gpu(
    tables: Mapping[str, pd.DataFrame],
) -> None:
    table = tables["audit"]
    is_strong = table["quantity"].isin(["strong_scaling_epoch_s", "speedup_strong"])
    assert is_strong.any()
    assert (table["global_batch"].notna() == is_strong).all()
    assert (table["batch_per_gpu"].isna() == is_strong).all()
    place = {"study": "study-c", "global_batch": 32, "gpus": 4}
    assert row(table, quantity="strong_scaling_epoch_s", **place)["published"] == "241.768"
    assert row(table, quantity="speedup_strong", **place)["corrected"] == pytest.approx(271.984 / 241.768)


def test_the_second_definition_of_speedup_has_the_same_correction(tables: Mapping[str, pd.DataFrame]) -> None:
    place = {"study": "study-b", "batch_per_gpu": 32, "gpus": 4}
    both = [row(tables["audit"], quantity=name, **place)["corrected"] for name in ("speedup", "speedup_alternative")]
    assert both[0] == both[1] == pytest.approx(38 / 121)


def test_what_was_not_published_is_corrected_too(tables: Mapping[str, pd.DataFrame]) -> None:
    cell = row(tables["audit"], study="study-b", quantity="bandwidth", batch_per_gpu=2048, gpus=2)
    assert cell.isna()["published"]
    assert cell["corrected"] == pytest.approx(44_695_848 * 13 / 3.5e9, rel=1e-6)


def test_every_quantity_has_its_finding_and_its_numbers(tables: Mapping[str, pd.DataFrame]) -> None:
    finding = row(tables["audit_findings"], study="study-c", quantity="bandwidth")
    assert finding[["supporting_cells", "independent_cells", "conventions_fitting"]].tolist() == [6, 6, 1]
    assert finding["conventions_tried"] > 2_000


def test_every_warning_stands_in_its_cell(tables: Mapping[str, pd.DataFrame]) -> None:
    for warning in tables["audit_warnings"].itertuples():
        place = {name: getattr(warning, name) for name in ("study", *audits.KEYS) if pd.notna(getattr(warning, name))}
        assert warning.check in row(tables["audit"], **place)["warnings"]


def test_columns_are_declared() -> None:
    assert {name for rows in audits.rows([]).values() for name in rows} == set()
    assert list(audits.rows([])) == list(audits.COLUMNS)


def test_an_audit_of_another_version_of_its_file_is_not_used(tmp_path: Path) -> None:
    path = written(tmp_path / "s.yaml")
    with pytest.raises(RecordError, match=r"audit/made-up\.json: cannot be read"):
        collect_audits(tmp_path, [str(path)])
    record = audit(Published.read(path))
    write_record("audit", tmp_path / AUDIT_PATH.format(id="made-up"), record)
    assert collect_audits(tmp_path, [str(path)]) == [record]
    written(path, title="Another")
    with pytest.raises(RecordError, match="another version of its published file"):
        collect_audits(tmp_path, [str(path)])
