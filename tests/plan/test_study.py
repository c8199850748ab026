"""A study file: what follows from what it leaves out, and what is refused in one line before any GPU is used."""

import datetime
from pathlib import Path
from typing import Any

import pytest

from dpscale.errors import StudyError
from dpscale.plan.study import Study

ARM = {"strategy": "ddp", "gpus": 4, "batch_per_gpu": 512}
COPIES = {"reducer": "copies", "broadcast_buffers": False}


def refusal(values: dict[Any, Any]) -> str:
    with pytest.raises(StudyError) as error:
        Study({"study": "s", **values}, source="my.yaml")
    file, line = str(error.value).split(": ", 1)
    assert file == "my.yaml" and "\n" not in line
    return line


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ({"batch_per_gpu": [0]}, "batch_per_gpu[0]: 0 is less than the minimum of 1"),
        ({"study": datetime.date(2026, 1, 1)}, "holds what JSON cannot"),
        ({"gpus": [2, 4]}, "strategies: single needs a number of GPUs in gpus that is 1"),
        ({"gpus": [1]}, "strategies: dp needs a number of GPUs in gpus that is more than 1"),
        ({"gpus": [1, 2], "strategies": ["ddp"]}, "gpus: 1 needs the strategy single"),
        ({"cuda_graph": True}, "cuda_graph: a captured step cannot be taken apart; set communication.runs"),
        ({"precision": "bfloat16-pure"}, "precision: "),
        ({"ddp": {"reducer": "copies"}}, "ddp.reducer: copies sends no buffers"),
        ({"ddp": COPIES, "device": "cpu"}, "ddp.reducer: a CPU has no engines that copy"),
        ({"cuda_graph": True, "device": "cpu"}, "cuda_graph: a CUDA graph needs CUDA GPUs"),
        ({"training": {"arms": {"a": ARM}, "baseline": "b"}}, "training.baseline: there is no arm b"),
        ({"variants": {"base": {"precision": "bfloat16"}}}, "variants.base: is what tables call"),
        ({"variants": {"fast": {"learning_rate": 1}}}, "variants.fast"),
    ],
)
def test_a_bad_study_is_one_line_that_begins_with_the_key(values: dict[Any, Any], line: str) -> None:
    assert refusal(values).startswith(line)


@pytest.mark.parametrize(
    ("values", "hint"),
    [
        ({"bacth_per_gpu": [32]}, "did you mean batch_per_gpu?"),
        ({"training": {"arms": {"a": {**ARM, "label_smoothin": 0.1}}}}, "did you mean label_smoothing?"),
    ],
)
def test_a_slip_of_the_pen_has_a_hint(values: dict[str, Any], hint: str) -> None:
    assert hint in refusal(values)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"strategy": "single"}, "gpus"),
        ({"schedule": "one_cycle"}, "schedule"),
        ({"schedule": "step"}, "schedule"),
        ({"batch_growth_epochs": [1, 2], "batch_growth_factor": 5}, "batch_growth_epochs"),
        ({"validation_images": 48_000}, "validation_images"),
        ({"strategy": "fsdp"}, "strategy"),
        ({"strategy": "dp", "sync_batch_norm": True}, "sync_batch_norm"),
        ({"cuda_graph": True}, "cuda_graph"),
        ({"compile": "default", "batch_growth_epochs": [2]}, "compile"),
        ({"optimiser": "lars", "fused_optimiser": True}, "fused_optimiser"),
    ],
)
def test_an_arm_that_makes_no_sense_is_named_with_its_key(changes: dict[str, Any], key: str) -> None:
    assert refusal({"training": {"arms": {"a": {**ARM, **changes}}}}).startswith(f"training.arms.a.{key}: ")


def test_a_file_that_is_no_study(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="cannot be read: No such file"):
        Study.read(tmp_path / "none.yaml")
    (tmp_path / "bad.yaml").write_text("study: [")
    with pytest.raises(StudyError, match="is not YAML"):
        Study.read(tmp_path / "bad.yaml")


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
