"""What is said of where a step's time goes by a study without a ladder."""

from typing import Any

import pytest
from page_tables import GPU, around, bare_page, place, plain_page, speedup_row, tables

from dpscale.present.findings.steps import witnesses
from dpscale.tables.tables import Tables


def communication(longer_ms: float = 3.0, batch: int = 128, spread: float = 0.01, **more: Any) -> dict[str, Any]:
    at = {"strategy": "ddp", "gpus": 4, "batch_per_gpu": batch, "global_batch": 4 * batch, "environment": "A"}
    of = {"scope": "compute", "status": "ok", "full_steps_per_epoch": 97}
    return {**at, **of, **around("communication_step_s", longer_ms / 1e3, spread), **more}


def said(*rows: dict[str, Any]) -> str:
    data: Tables = tables(speedup=[speedup_row(3.5, 2.0, **place(batch=128))], communication=list(rows))
    return witnesses(data.communication, data.answer, GPU)


LONGER = "With ddp on 4 GPUs at batch 128 per GPU, a step takes 3.00 ms [2.97, 3.03] longer than on 1 GPU alone (E1)."
REST = "So a part is not the messages: it is overhead of the host, GPUs that wait, or transfers that take longer"


@pytest.mark.parametrize(
    ("rows", "sentences"),
    [
        ([], []),
        ([communication()], []),  # what is inferred by subtraction has no witness
        (
            [communication(ablation_step_s=0.001, logger_exposed_step_s=0.002, isolated_step_s=0.0005)],
            [
                LONGER,
                "Without its allreduce it is 1.00 ms shorter (E2).",
                "By DDP's own clock, 2.00 ms of the exchange lie after the backward pass (E4).",
                "Its messages take 0.500 ms with nothing else running (E5).",
                f"{REST} beside compute.",
            ],
        ),
        ([communication(isolated_step_s=0.004)], [LONGER, "Its messages take 4.00 ms with nothing else running (E5)."]),
        (
            [communication(9.0, batch=512, isolated_step_s=0.001), communication(isolated_step_s=0.004)],
            [LONGER, "Its messages take 4.00 ms with nothing else running (E5)."],
        ),
        ([communication(isolated_step_s=0.004, full_steps_per_epoch=9)], []),
    ],
    ids=["nothing", "no witness", "all", "no more than messages", "the answer's batch", "few steps"],
)
def test_what_witnesses_say(rows: list[dict[str, Any]], sentences: list[str]) -> None:
    assert said(*rows) == " ".join(sentences)


def test_where_the_answers_step_has_none_another_one_speaks() -> None:
    text = said(communication(9.0, batch=512, isolated_step_s=0.001), communication())
    assert text.startswith("With ddp on 4 GPUs at batch 512 per GPU, a step takes 9.00 ms")


@pytest.mark.slow
def test_the_page_without_a_ladder_says_what_is_known() -> None:
    page = plain_page()
    assert "Without its allreduce it is" in page and "No ladder was measured" in page
    assert "Without its allreduce" not in bare_page() and "No ladder was measured" in bare_page()
