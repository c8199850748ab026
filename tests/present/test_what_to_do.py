"""What to do, in words."""

from typing import Any

import pytest
from page_tables import GPU, around, bare_page, key, plain_page

from dpscale.analyse.answer import advice as problems
from dpscale.present.findings.advice import advices
from dpscale.tables.answer import AdviceRow


def row(problem: str, **more: Any) -> dict[str, Any]:
    saved = {**around("saving", 0.5, 0.1), **around("saving_gpu_s", 0.8, 0.1)}
    return {**key("ddp", 4, 512), "problem": problem, "used_s": 2.0, "better_s": 1.0, **saved, **more}


TIMES = "1.00 s per epoch, not 2.00 s,"


@pytest.mark.parametrize(
    ("of", "what", "saving"),
    [
        (row(problems.FEWER), "Use 1 GPU, not 4", "80 % [72, 88] fewer GPU-seconds"),
        (row(problems.STRATEGY, used="dp", better="ddp"), "Use ddp, not dp, on 4 GPUs", "50 % [45, 55] less time"),
        (
            row(problems.BATCH, used="512", better="2048"),
            "Use batch 2,048 per GPU, not 512, if accuracy allows it",
            "50 % [45, 55] less time",
        ),
        (
            row(problems.VARIANT, better="graph", on_gpus=1, saving_low=None, saving_high=None),
            "Try the settings of the variant graph on 4 GPUs",
            "about 50 % less time",
        ),
        (
            row(problems.VARIANT, better="graph", on_gpus=4),
            "Use the settings of the variant graph",
            "50 % [45, 55] less time",
        ),
        (
            row(problems.ONE_GPU, used="base", better="graph"),
            "Use 1 GPU with the settings of the variant graph, not 4 with base",
            "80 % [72, 88] fewer GPU-seconds",
        ),
    ],
    ids=[problems.FEWER, problems.STRATEGY, problems.BATCH, "a variant on fewer", problems.VARIANT, problems.ONE_GPU],
)
def test_every_problem_has_its_words(of: dict[str, Any], what: str, saving: str) -> None:
    (found,) = advices([AdviceRow.read(of)], GPU)
    where = "on 1 GPU " if what.startswith("Try") else ""
    assert (found.what, found.saving) == (what, f"{where}{TIMES} {saving}")


@pytest.mark.slow
def test_the_page_has_what_to_do_linked_to_its_evidence() -> None:
    page = plain_page()
    (listed,) = [part.split("</ol>")[0] for part in page.split('<ol class="advice">')[1:]]
    assert "Use batch 512 per GPU, not 128" in listed and 'href="#times"' in listed
    assert 'id="table-causes"' in page
    nothing = bare_page()
    assert "Nothing that was measured shows what to do otherwise." in nothing
    assert 'id="table-causes"' not in nothing
