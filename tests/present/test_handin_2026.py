"""The questions beside the assignment's: where they are there, and what their tables hold.

`test_sentences` has what they say of recorded studies.
"""

from page_tables import GPU, speedup_row, study, tables, times_row, with_steps

from dpscale.present.handin_questions import Section
from dpscale.present.handin_report import report
from rows import Entries, key, known

LADDER = {"single": 1.0, "ddp-naive": 1.5, "ddp-flat": 1.2, "ddp": 0.9}


def memory_row(strategy: str, gpus: int, megabytes: float, variant: str = "base") -> Entries:
    parts = dict.fromkeys(("weights_bytes", "gradients_bytes", "optimiser_bytes"), 1e6)
    return {
        **key(strategy, gpus, 32),
        "variant": variant,
        **parts,
        "saved_bytes": (megabytes - 3) * 1e6,
        "gathered_bytes": 0,
    }


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


def test_every_exchange_stands_beside_one_device() -> None:
    section = sections_of(times=[timed(name, epoch_s) for name, epoch_s in LADDER.items()])["exchange"]
    ((gpus, batch, *steps),) = cells_of(section)
    assert (gpus, batch) == ("2", "32")
    assert [float(step.split()[0]) for step in steps] == [10.0, 15.0, 12.0, 9.0]


def test_memory_of_a_variant_is_beside_that_of_its_strategy_without_it() -> None:
    variant = {**key("single", 1, 32), "variant": "checkpointed", "status": "ok", **known("faster", 0.5)}
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


def test_networks_are_said_at_the_smallest_batch() -> None:
    network = {"status": "ok", "variant": "base", "gradient_bytes": 8e6, **known("communication_step_s", 0.002)}
    rows = [
        {**with_steps(strategy="ddp", gpus=2, batch=batch), **network, **known("speedup", speedup)}
        for batch, speedup in ((64, 1.9), (32, 1.5))
    ]
    (said,) = sections_of(times=[timed("single", 1.0)], networks=rows)["networks"].paragraphs["Measured"]
    assert "1.5" in said
