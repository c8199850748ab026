"""The questions beside the assignment's: where they are there, and which rows they are of."""

from typing import Any

from page_tables import GPU, speedup_row, study, tables, times_row, with_steps

from dpscale.present.handin_questions import Section
from dpscale.present.handin_report import report
from rows import Entries, known

LADDER = {"single": 1.0, "ddp-naive": 1.5, "ddp-flat": 1.2, "ddp": 0.9}


def memory_row(strategy: str, gpus: int, megabytes: float, variant: str = "base", **more: Any) -> Entries:
    place = {"strategy": strategy, "gpus": gpus, "batch_per_gpu": 32, "global_batch": gpus * 32, "environment": "A"}
    parts = dict.fromkeys(("weights_bytes", "gradients_bytes", "optimiser_bytes"), 1e6)
    return {**place, "variant": variant, **parts, "saved_bytes": (megabytes - 3) * 1e6, "gathered_bytes": 0, **more}


def timed(strategy: str, epoch_s: float) -> Entries:
    row = times_row(epoch_s, strategy=strategy, gpus=1 if strategy == "single" else 2, batch=32)
    return {**row, **known("step_s", epoch_s / 100)}


def sections_of(**rows: list[Entries]) -> dict[str, Section]:
    speedups = [speedup_row(1.8, 1.0, strategy="ddp", gpus=2, batch=32)]
    return {section.name: section for section in report(study(), tables(speedup=speedups, **rows), GPU).sections}


def cells_of(section: Section) -> list[list[str]]:
    assert section.table is not None
    return [list(row) for row in section.table.cells]


def test_a_study_of_the_assignment_alone_has_its_questions_alone() -> None:
    rows = [timed(name, LADDER[name]) for name in ("single", "ddp")]
    memory = [memory_row("single", 1, 9.0), memory_row("ddp", 2, 9.0)]
    assert {"exchange", "memory"}.isdisjoint(sections_of(times=rows, memory=memory))


def test_every_exchange_stands_beside_one_device_and_the_one_before_it() -> None:
    exchange = sections_of(times=[timed(name, epoch_s) for name, epoch_s in LADDER.items()])["exchange"]
    ((gpus, batch, *steps),) = cells_of(exchange)
    assert (gpus, batch) == ("2", "32")
    assert [float(step.split()[0]) for step in steps] == [10.0, 15.0, 12.0, 9.0]
    assert [("surely faster" in line, "ddp-naive" in line) for line in exchange.paragraphs["Measured"]] == [
        (True, True), (True, False),
    ]  # fmt: skip


def test_exchanges_whose_times_overlap_are_not_told_apart() -> None:
    rows = [{**timed(name, epoch_s), **known("epoch_s", epoch_s, 0.5)} for name, epoch_s in LADDER.items()]
    (first, second) = sections_of(times=rows)["exchange"].paragraphs["Measured"]
    assert "no difference is sure" in first and "no difference is sure" in second


def test_memory_of_a_variant_is_beside_that_of_its_strategy_without_it() -> None:
    place = {"strategy": "single", "gpus": 1, "batch_per_gpu": 32, "global_batch": 32, "environment": "A"}
    variant = {**place, "scope": "compute", "variant": "checkpointed", "status": "ok", **known("faster", 0.5)}
    rows = [
        memory_row("single", 1, 13.0), memory_row("single", 1, 5.2, "checkpointed"),
        memory_row("zero1", 2, 12.0), memory_row("ddp", 2, 13.0),
    ]  # fmt: skip
    memory = sections_of(times=[timed("single", 1.0)], memory=rows, variants=[variant])["memory"]
    by_name = {name: cells for name, *cells in cells_of(memory)}
    assert list(by_name) == ["single on 1 GPU", "single on 1 GPU, checkpointed", "zero1 on 2 GPUs", "ddp on 2 GPUs"]
    *_, together, share, longer = by_name["single on 1 GPU, checkpointed"]
    assert (float(together), float(share), float(longer.split()[0])) == (5.2, 40.0, 2.0)
    assert by_name["ddp on 2 GPUs"][-2:] == ["–", "–"]
    assert "checkpointed" in memory.paragraphs["Least"][0]
    assert memory.picture is not None


def test_memory_is_shown_at_the_batch_that_most_configurations_have() -> None:
    rows = [memory_row("ddp", 2, 13.0), memory_row("fsdp", 2, 9.0), memory_row("ddp", 2, 99.0, batch_per_gpu=64)]
    memory = sections_of(times=[timed("single", 1.0)], memory=rows)["memory"]
    assert [name for name, *_ in cells_of(memory)] == ["fsdp on 2 GPUs", "ddp on 2 GPUs"]


def test_networks_are_said_at_the_smallest_batch_and_are_no_way_to_save_memory() -> None:
    def network(name: str, batch: int, speedup: float) -> Entries:
        row = with_steps(strategy="ddp", gpus=2, batch=batch)
        return {
            **row, "status": "ok", "variant": name, "gradient_bytes": 8e6, **known("speedup", speedup),
            **known("communication_step_s", 0.002),
        }  # fmt: skip

    rows = [network("base", 32, 1.5), network("wide", 32, 1.75), network("wide", 64, 1.9)]
    memory = [memory_row("ddp", 2, 13.0), memory_row("fsdp", 2, 9.0), memory_row("ddp", 2, 40.0, "wide")]
    found = sections_of(times=[timed("single", 1.0)], networks=rows, memory=memory)
    assert [("1.75" in said, "8.000 MB" in said) for said in found["networks"].paragraphs["Measured"]] == [
        (False, True), (True, True),
    ]  # fmt: skip
    assert all("wide" not in name for name, *_ in cells_of(found["memory"]))
