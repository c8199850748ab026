"""A study file: what follows from what it leaves out, and what is refused in one line before any GPU is used."""

from pathlib import Path
from typing import Any

import pytest

from cases import cases
from dpscale.errors import StudyError
from dpscale.plan.plan import plan
from dpscale.plan.study import Study

ARM = {"strategy": "ddp", "gpus": 4, "batch_per_gpu": 512}


def refusal(values: dict[Any, Any]) -> str:
    with pytest.raises(StudyError) as error:
        Study({"study": "s", **values}, source="my.yaml")
    file, line = str(error.value).split(": ", 1)
    assert file == "my.yaml" and "\n" not in line
    return line


@pytest.mark.parametrize(
    ("values", "line"),
    cases(__file__, "refused"),
)
def test_a_bad_study_is_one_line_that_begins_with_the_key(values: dict[Any, Any], line: str) -> None:
    assert refusal(values).startswith(line)


@pytest.mark.parametrize(
    ("values", "hint"),
    cases(__file__, "hints"),
)
def test_a_slip_of_the_pen_has_a_hint(values: dict[str, Any], hint: str) -> None:
    assert hint in refusal(values)


def test_a_file_that_is_no_study(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="cannot be read: No such file"):
        Study.read(tmp_path / "none.yaml")
    (tmp_path / "bad.yaml").write_text("study: [")
    with pytest.raises(StudyError, match="is not YAML"):
        Study.read(tmp_path / "bad.yaml")


@pytest.mark.parametrize(
    ("text", "line"),
    [
        *cases(__file__, "hostile"),
        (f"runs: {'9' * 5_000}", "is not YAML: no int"),
        (f"runs: {'9' * 4_000}", "runs: a number beyond 1e+15"),
        (f"runs: {'[' * 3_000}", "is nested too deeply"),
        (f"gpus: [{', '.join(map(str, range(1, 60)))}]", "gpus: "),
        (f"study: {'a' * 300}", "study: "),
        (f"published: [{'a, ' * 100_000}]", "cannot be read: it has more than 0.2 MB"),
    ],
)
def test_a_hostile_file_is_one_line_at_once(tmp_path: Path, text: str, line: str) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(text if text.startswith("study") else f"study: s\nbatch_per_gpu: [32]\n{text}")
    with pytest.raises(StudyError) as error:
        plan(Study.read(path))
    message = str(error.value)
    assert message.startswith(f"{path}: {line}") and "\n" not in message and len(message) < 700


def test_what_a_name_stands_for_may_be_changed_where_it_is_used(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text("""study: s
training:
  arms:
    first: &first {strategy: ddp, gpus: 2, batch_per_gpu: 64}
    second: {<<: *first, gpus: 4}
""")
    assert [arm.gpus for arm in Study.read(path).arms.values()] == [2, 4]


def test_settings_that_an_arm_leaves_out_are_the_studys() -> None:
    arms = {"a": {**ARM, "learning_rate": 0.4, "weight_decay": 0.0}, "b": ARM, "c": {**ARM, "optimiser": "lamb"}}
    half: dict[str, Any] = {"ddp": {"gradient_dtype": "bfloat16"}, "communication": {"runs": 0}}
    study = Study({"study": "s", "training": {"arms": arms}, "optimiser": {"momentum": 0.8}, **half})
    a, b, c = study.arms.values()
    assert (a.learning_rate, a.weight_decay, a.momentum) == (0.4, 0.0, 0.8)
    assert (b.learning_rate, b.weight_decay) == (0.1, 0.0005)
    assert c.momentum == 0
    assert {arm.ddp_gradient_dtype for arm in (a, b, c)} == {"bfloat16"}


def test_a_variant_has_its_own_settings_and_otherwise_the_studys() -> None:
    changes = {"precision": "bfloat16", "memory_format": "channels_last", "loader_workers": 5}
    study = Study({"study": "s", "variants": {"half": changes}})
    settings, varied = study.settings, study.variants["half"].settings
    assert varied.to_json() == {**settings.to_json(), **changes}
