"""From study to cells: a pure function, so most of it is tested as properties; and the times that are
expected of jobs."""

from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import cases
from dpscale.errors import StudyError
from dpscale.options import read_study
from dpscale.plan.cells import Configuration
from dpscale.plan.expected import expected_s
from dpscale.plan.plan import batches_per_gpu, plan, runnable_plan
from dpscale.plan.study import Study
from dpscale.records.collect import DONE, states_of
from dpscale.records.progress import seconds_of
from dpscale.vocabulary.chips import chip_named

Values = dict[str, Any]  # of a study file

studies = st.fixed_dictionaries(
    {
        "study": st.just("s"),
        "device": st.sampled_from(["cuda", "cpu"]),
        "gpus": st.lists(st.sampled_from([2, 3, 4, 8]), unique=True, min_size=1).map(lambda gpus: [1, *gpus]),
        "strategies": st.lists(st.sampled_from(["dp", "ddp"]), unique=True, min_size=1).map(lambda s: ["single", *s]),
        "batch_per_gpu": st.lists(st.integers(1, 5000), unique=True, min_size=1, max_size=5)
        | st.fixed_dictionaries({"start": st.integers(1, 500), "factor": st.integers(2, 8), "until": st.just("oom")}),
        "strong_scaling_global_batch": st.lists(st.integers(1, 40).map(lambda n: 24 * n), unique=True, max_size=3),
        "gpus_available": st.none() | st.integers(0, 8),
        "runs": st.integers(1, 4),
        "communication": st.fixed_dictionaries({"runs": st.integers(0, 2)}),
        "dataset": st.fixed_dictionaries({"images": st.integers(1, 50_000)}),
    }
)
ARM = {"strategy": "ddp", "gpus": 4, "batch_per_gpu": 512}


@given(studies)
def test_every_configuration_of_the_grid_is_measured_or_listed_with_a_reason(values: Values) -> None:
    study = Study(values)
    planned = plan(study)
    assert all(reason for _, reason in planned.not_run.values())
    batches = batches_per_gpu(study["batch_per_gpu"], study.epoch_images)
    grid = {
        Configuration(strategy, gpus, batch)
        for gpus in study["gpus"]
        for strategy in (["single"] if gpus == 1 else [s for s in study["strategies"] if s != "single"])
        for batch in {*batches, *(b // gpus for b in study["strong_scaling_global_batch"])}
    }
    assert sorted([*planned.configurations, *planned.not_run]) == sorted(grid), "each once"


@given(studies)
def test_cells_are_unique_can_be_measured_here_and_run_1_of_all_comes_before_run_2_of_any(
    values: Values,
) -> None:
    study = Study(values)
    planned = plan(study)
    assert len({cell.path for cell in planned.all_cells}) == len(planned.all_cells)
    assert [cell.run for cell in planned.timing] == sorted(cell.run for cell in planned.timing)
    assert len(planned.timing) == study["runs"] * len(planned.configurations)
    for configuration in planned.configurations:
        assert configuration.global_batch <= study.epoch_images
        assert (configuration.strategy == "single") == (configuration.gpus == 1)
        if study["device"] == "cpu":
            assert configuration.strategy != "dp"
        elif study["gpus_available"] is not None:
            assert configuration.gpus <= study["gpus_available"]


@given(studies)
def test_steps_are_taken_apart_wherever_several_gpus_train_at_the_batches_that_are_named(
    values: Values,
) -> None:
    study = Study(values)
    one_batch = batches_per_gpu(study["batch_per_gpu"], study.epoch_images)[:1]
    at_one_batch = {**values["communication"], "batch_per_gpu": one_batch}
    for named, batches in ((values["communication"], None), (at_one_batch, one_batch)):
        planned, runs = plan(Study({**values, "communication": named})), named["runs"]
        parallel = {configuration for configuration in planned.configurations if configuration.gpus > 1 and runs}
        apart = {point for point in parallel if batches is None or point.batch_per_gpu in batches}
        assert {cell.configuration for cell in planned.communication} == apart
        assert len(planned.communication) == runs * len(apart)
        assert {cell.gpus for cell in planned.collectives} == {configuration.gpus for configuration in parallel}


@pytest.mark.parametrize(
    ("values", "reason"),
    cases(__file__, "nothing_runs"),
)
def test_a_study_of_which_nothing_can_run_is_an_error_with_the_reasons(values: Values, reason: str) -> None:
    with pytest.raises(StudyError, match=r"nothing can be run here.*" + reason):
        runnable_plan(Study({"study": "s", "batch_per_gpu": [32], **values}))


NODES_OF_4: Values = {
    "study": "s", "runs": 1, "gpus": [1, 4, 8], "gpus_per_node": 4, "batch_per_gpu": [32], "communication": {"runs": 1},
}  # fmt: skip


def test_more_gpus_than_a_node_has_are_spread_over_several() -> None:
    planned = plan(Study({**NODES_OF_4, "training": {"seeds": 1, "arms": {"wide": {**ARM, "gpus": 8}}}}))
    assert [cell.coordinates["nodes"] for cell in planned.training] == [2]
    nodes = {(point.strategy, point.gpus): point.nodes for point in planned.configurations}
    assert nodes == {("single", 1): 1, ("ddp", 4): 1, ("dp", 4): 1, ("ddp", 8): 2}
    assert {cell.gpus: cell.nodes for cell in planned.collectives} == {4: 1, 8: 2}
    ((refused, (_, reason)),) = planned.not_run.items()
    assert (refused.strategy, refused.gpus) == ("dp", 8)
    assert "needs all its GPUs on one node" in reason


@pytest.mark.parametrize(
    ("values", "state", "reason"),
    cases(__file__, "not_run"),
)
def test_what_cannot_be_measured_is_not_run_and_says_why(values: Values, state: str, reason: str) -> None:
    study = Study({"strategies": ["single", "ddp"], **values, "batch_per_gpu": [32]})
    ((item_state, item_reason),) = plan(study).not_run.values()
    assert item_state == state and item_reason.startswith(reason)
    assert bool(plan(study.on_any_machine()).not_run) == (state != "not run")


def test_seed_1_of_every_arm_comes_first_and_an_arm_may_have_seeds_of_its_own() -> None:
    arms = {"few": {**ARM, "seeds": 1}, "many": {**ARM, "seeds": 3}, "usual": ARM}
    cells = plan(Study({"study": "s", "training": {"arms": arms, "seeds": 2}})).training
    assert [(cell.seed, cell.arm) for cell in cells] == [
        (1, "few"), (1, "many"), (1, "usual"), (2, "many"), (2, "usual"), (3, "many"),
    ]  # fmt: skip
    assert cells[1].path == "training/many/seed-1.json"
    assert cells[1].labels == {"arm": "many", "seed": 1, **ARM}
    assert cells[0].settings == cells[2].settings, "seeds are no setting"


@pytest.mark.parametrize(
    ("where", "expected"),
    cases(__file__, "variants"),
)
def test_a_variant_is_measured_where_the_study_is_and_where_it_says(
    where: Values, expected: list[list[str | int]]
) -> None:
    small: Values = {"study": "s", "gpus": [1, 2], "batch_per_gpu": [32, 128], "runs": 2}
    cells = plan(Study({**small, "variants": {"half": {"precision": "bfloat16", **where}}})).variants
    measured = {(cell.configuration.strategy, cell.gpus) for cell in cells}
    assert measured == set(map(tuple, expected))
    assert [cell.run for cell in cells] == [1] * 2 * len(expected) + [2] * 2 * len(expected)


STUDY = Study({"study": "s", "gpus": [1, 2], "batch_per_gpu": [512], "baseline": "own_cells", "scopes": ["compute"]})


@pytest.mark.parametrize("name", ["recorded-two-gpus", "recorded-h200-2", "recorded-h200-4", "recorded-strategies"])
def test_jobs_on_record_took_about_what_is_expected(name: str, root: Path) -> None:
    """Kind by kind; settings of variants change more than the formula knows."""
    study = read_study(root / f"config/{name}.yaml").on_any_machine()
    seconds: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for state in states_of(plan(study).all_cells, study.settings, root / "results" / name):
        if state.state == DONE and state.record is not None:
            facts = getattr(state.record, "hardware", None)
            chip = chip_named(facts.device_model.split(" and ")[0]) if facts else None
            settings = state.cell.settings_under(study.settings)
            expected = expected_s(state.cell, settings, chip)
            if not settings.same_network(study.settings):
                assert expected is None
                continue
            assert expected is not None
            seconds[state.cell.kind].append((expected, seconds_of(state.record)))
    assert seconds
    for kind, pairs in seconds.items():
        ratio = sum(expected for expected, _ in pairs) / sum(took for _, took in pairs)
        assert 0.67 < ratio < 1.5, (kind, ratio)


@pytest.mark.parametrize("change", cases(__file__, "unlike"))
def test_nothing_is_expected_of_what_no_job_on_record_is_like(change: dict[str, object]) -> None:
    study = Study({**STUDY.values, "training": {"arms": {}}, **change})
    assert {expected_s(cell, study.settings) for cell in plan(study).timing} == {None}
