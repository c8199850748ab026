"""The variants that are on record: docs/results.md and docs/method.md have their numbers."""

import re
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import pytest

from dpscale.tables.variants import VariantsRow
from json_records import read_json
from recorded import in_documents, recorded_tables

BATCHES = (32, 128, 512, 2048)
FASTEST = "switches"
# What the fastest variant reached in other measurements of this step on an H200, in images/s.
AT_LEAST = {32: 20_000, 2048: 92_000}


@pytest.fixture(scope="module")
def h200(root: Path) -> Sequence[VariantsRow]:
    return recorded_tables(root, "recorded-h200-4").variants


@pytest.fixture(scope="module")
def h100(root: Path) -> Sequence[VariantsRow]:
    return recorded_tables(root, "recorded-two-gpus").variants


def row(rows: Sequence[VariantsRow], variant: str, batch: int, gpus: int = 1) -> VariantsRow:
    """Of the compute scope."""
    wanted = (variant, gpus, "compute", batch)
    (found,) = (row for row in rows if (row.variant, row.gpus, row.scope, row.batch_per_gpu) == wanted)
    return found


def said_of(root: Path) -> str:
    return (root / "docs/results.md").read_text()


def test_the_results_has_what_one_gpu_gives(root: Path, h200: Sequence[VariantsRow]) -> None:
    rows = re.findall(r"^\| ([\d,]+) \| ([^|]+) \| ([\d,]+) \| ([\d.]+) × \| ([\d.]+) % \|$", said_of(root), re.M)
    told = {int(batch.replace(",", "")): rest for batch, *rest in rows}
    assert set(told) == set(BATCHES)
    for batch, (base, fastest, times, share) in told.items():
        before, best = row(h200, "base", batch), row(h200, FASTEST, batch)
        assert best.is_fastest
        assert base == in_documents(before.images_per_s, 0)
        assert fastest == f"{best.images_per_s.value:,.0f}"
        assert times == f"{best.images_per_s.value / before.images_per_s.value:.1f}"
        assert share == f"{100 * best.mfu_measured.value:.0f}"


def test_the_results_says_on_how_many_cores_the_steps_of_one_h200_ran(root: Path) -> None:
    def cores(folder: str) -> list[int]:
        records = (root / "results/recorded-h200-4").glob(f"{folder}/single/gpus-1/batch-32/run-*.json")
        return sorted(read_json("timing", path)["hardware"]["cpu_cores"] for path in records)

    assert cores("cells") == [16, 64, 64]
    assert "on three others, one with 16 cores and two with 64:" in " ".join(said_of(root).split())


@pytest.mark.parametrize(("batch", "images_per_s"), AT_LEAST.items())
def test_the_fastest_variant_is_near_the_limit(h200: Sequence[VariantsRow], batch: int, images_per_s: int) -> None:
    assert row(h200, FASTEST, batch).images_per_s.value >= images_per_s


def test_the_results_has_what_runs_differ_by(root: Path, h200: Sequence[VariantsRow]) -> None:
    eager, captured = (row(h200, variant, 32) for variant in ("base", "graph"))
    assert eager.runs == captured.runs == 3
    said = " ".join(said_of(root).split())
    percents = tuple(f"{100 * found.run_deviation:.2g} %" for found in (eager, captured))
    assert "by {} as they are, and by {} in a CUDA graph".format(*percents) in said


def test_a_graph_makes_ddp_faster_on_three_machines(h100: Sequence[VariantsRow]) -> None:
    captured = row(h100, "graph", 32, gpus=2)
    assert captured.runs == 3
    assert captured.faster_units == 3
    assert captured.faster.low > 1


def test_the_method_has_how_far_loading_on_the_device_is_from_none(root: Path, method: str) -> None:
    scopes = read_json("timing", root / "results/recorded-end-to-end/h200.json")["scopes"]
    compute_s, end_to_end_s = (median(scopes[scope]["epoch_s"]) for scope in ("compute", "end_to_end"))
    assert end_to_end_s < 1.05 * compute_s
    said = " ".join(method.split())
    told = f"{end_to_end_s:.4f} s against {compute_s:.4f} s, {100 * (end_to_end_s / compute_s - 1):.2f} % longer"
    assert told in said
    assert f"of {len(scopes['compute']['epoch_s'])} epochs each" in said
    single_epochs = [
        read_json("timing", path)["scopes"]
        for path in (root / "results/recorded-h200-4/variants/on-device/single/gpus-1/batch-2048").glob("run-*.json")
    ]
    longer = [of["end_to_end"]["epoch_s"][0] / of["compute"]["epoch_s"][0] - 1 for of in single_epochs]
    assert f"differed by {100 * min(longer):.0f} to {100 * max(longer):.0f} % in this way" in said
