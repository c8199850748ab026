"""Every function that makes a sentence has a test with data that make the sentence false, or change it.

The functions are read from the code of `present` and `compare`: one that has a text of three words or more makes a
sentence, unless it is listed as one that only names what is drawn, in what unit. Sentences of the audits of published
studies are made in `audit`, and held to their own tests there.
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from page_tables import ARMS, GPU, audited, bare_page, estimates_row, h200_with_steps, study, tables

from dpscale.present.charts import communication as communication_charts
from dpscale.present.study import page as page_module
from dpscale.present.study.page import render

FOLDER = Path(page_module.__file__).parents[1]
# Of comparisons, the modules that show them.
COMPARE = [
    FOLDER.with_name("compare") / f"{name}.py"
    for name in ("charts", "forest", "page", "sentences", "views", "warnings")
]
HERE = Path(__file__).parent
WORD = re.compile(r"[A-Za-zµ]{2,}")
WORDS_OF_A_SENTENCE = 3

# They name what stands in a table, a chart or a column, for whatever data.
NAMES = {
    "assignment": {"_times_and_speedup", "_communication", "_large_batches", "_cell"},
    "cells": {"notes"},
    "grid": {"by_batch", "_sheet"},
    "report": {"report", "_facts"},
    "answer": {"_table"},
    "timing": {"epoch_time", "efficiency", "speedup"},
    "communication": {"ladders", "steps_beside_one", "steps", "_estimates_of", "bus_bandwidth"},
    "commands": {"report", "handin"},
    "compare.charts": {"speeds", "_times", "_forests"},
    "compare.sentences": {"_place"},
    "compare.views": {"groups", "environments", "only_in_one", "_effect"},
    "coverage": {"_job"},
    "environment_facts": {"environment_facts"},
    "general": {"general"},
    "svg": {"_marks", "_way"},
    "training": {"_arm", "test_accuracy", "_panels", "_frontier"},
    "variants": {"epochs_on_one", "epochs", "kernels"},
    "views": {"bus_bandwidth", "collectives"},
    "words": {"batch", "at_batch"},
}  # fmt: skip

SPEAKS = "test_findings.py::test_finding_speaks_only_where_it_is_true"
SOUND = "test_cautions.py::test_sound_data_need_no_caution"
FEW_STEPS = "test_findings.py::test_epochs_of_few_steps_are_no_headline"
WITNESS = "test_findings.py::test_a_profiler_that_changes_the_step_is_no_witness"
OF_VARIANTS = "test_variant_findings.py::test_a_finding_speaks_only_where_it_is_true"
OF_TRAINING = "test_training_findings.py::test_a_finding_speaks_only_where_it_is_true"
ADVISED = "test_what_to_do.py::test_every_problem_has_its_words"
ANSWER = "test_answer.py::test_what_the_first_screen_says"

# By module and function, the tests with data that make it false.
FALSE_BY: dict[str, dict[str, tuple[str, ...]]] = {
    "advice": dict.fromkeys(
        ("advices", "_saving", "_fewer", "_strategy", "_batch", "_variant", "_one_device"), (ADVISED,)
    ),
    "answer": dict.fromkeys(
        (
            "sentences", "_why_unknown", "_gains", "_how_sure", "_verdict", "notes", "_loading", "_batches", "_drift",
            "reason", "text", "_worth",
        ),
        (ANSWER,),
    ),
    "assignment": {
        "_bandwidth": ("test_assignment.py::test_only_of_data_parallel_it_is_said_that_it_runs_no_allreduce",),
    },
    "report": {
        "_lacking": ("test_handin.py::test_a_study_of_other_batches_shows_its_own_and_says_which_are_lacking",),
        "_to_say": ("test_handin.py::test_what_only_the_writer_can_say_is_asked",),
    },
    "sentences": {
        name: tuple(f"test_assignment_sentences.py::test_{test}" for test in tests)
        for name, tests in {
            "of_speedup": (
                "formulas_are_true_of_the_digits_that_they_print",
                "nothing_measured_has_nothing_to_explain",
            ),
            "of_communication": (
                "formulas_are_true_of_the_digits_that_they_print",
                "intervals_that_hold_zero_are_counted",
            ),
            "of_bandwidth": (
                "formulas_are_true_of_the_digits_that_they_print",
                "what_is_not_resolvable_is_counted",
            ),
            "_trend": ("the_trend_needs_intervals_that_are_apart", "a_batch_alone_has_no_trend"),
            "_change": ("the_trend_needs_intervals_that_are_apart",),
            "_paid_per_step": ("fewer_steps_are_a_cause_only_where_the_share_falls",),
            "_loading": ("loading_is_said_as_it_was_measured",),
            "_few_steps": ("batches_of_few_steps_are_named",),
            "_of_messages": (
                "messages_explain_communication_where_they_were_timed",
                "a_ladder_explains_it_better",
            ),
            "_below_the_links": ("links_that_carry_more_are_a_cause",),
            "_of_known_bandwidth": ("nothing_measured_has_nothing_to_explain",),
        }.items()
    },
    "cautions": {
        **dict.fromkeys(
            (
                "_synthetic", "_older_versions", "_memorised", "_few_seeds", "_no_records", "_missing", "_rejected",
                "_several_environments", "_single_run", "_runs_without_baseline", "_outliers", "_wide_intervals",
                "_no_baseline", "_throttled", "_several_sets_of_gpus", "_dirty", "_several_commits",
            ),
            (SOUND,),
        ),
        "_differences": ("test_cautions.py::test_caution_is_given[mixed hardware]",),
        "_two_runs": ("test_cautions.py::test_three_runs_are_not_called_two",),
        "_drifted": (SOUND, "test_cautions.py::test_a_baseline_that_became_faster_is_not_said_to_have_become_slower"),
        "_slowed": ("test_cautions.py::test_quiet_clocks_need_no_caution",),
        "_stolen": ("test_cautions.py::test_quiet_clocks_need_no_caution",),
        "_other_processes": ("test_cautions.py::test_quiet_clocks_need_no_caution",),
    },
    "timing": {
        "_shortest_epoch": (
            "test_charts.py::test_shortest_epoch_stands_beside_that_of_one_device",
            "test_charts.py::test_epochs_of_few_steps_are_in_no_heading",
        ),
        "_best_efficiency": ("test_charts.py::test_efficiency_names_the_best_and_the_same_with_loading",),
    },
    "communication": {
        "estimates_agree": (f"{SPEAKS}[estimates_agree]", f"{WITNESS}[estimates_agree]"),
        "subtraction_is_not_communication": (f"{SPEAKS}[subtraction_is_not_communication]", WITNESS),
        "communication_is_waiting": (f"{SPEAKS}[communication_is_waiting]", WITNESS),
        "host_leaves_devices_idle": (
            f"{SPEAKS}[host_leaves_devices_idle]",
            "test_findings.py::test_idle_shares_of_a_changed_step_are_not_told",
        ),
        "parts_make_the_step": (
            f"{SPEAKS}[parts_make_the_step]",
            "test_findings.py::test_parts_that_make_the_step_are_said_to",
        ),
        "profiler_left_out": ("test_findings.py::test_what_the_profiler_leaves_out_is_counted",),
        **{
            name: (f"{SPEAKS}[{name}]",)
            for name in (
                "profiler_slows", "measuring_communication_costs",
            )
        },
        "_step_beside_one": ("test_communication_charts.py::test_without_one_device_no_step_stands_beside_it",),
        "largest_shares": ("test_communication_charts.py::test_parts_of_a_step_are_shares_with_its_time_beside_them",),
        "_ladder": ("test_communication_charts.py::test_a_step_that_takes_no_longer_than_alone_has_no_largest_part",),
        "_furthest_apart": (
            "test_communication_charts.py::test_estimates_are_named_where_they_are_furthest_apart",
            "test_communication_charts.py::test_estimates_that_may_be_zero_are_not_named",
        ),
        "_best_bandwidth": ("test_communication_charts.py::test_bandwidth_sets_the_best_step_beside_the_links",),
    },
    "forecast": dict.fromkeys(
        ("forecast_said", "_test", "_outcome"),
        ("test_findings.py::test_a_forecast_follows_its_test_or_is_not_made",),
    ),
    "compare.page": {
        "_described": ("../compare/test_comparison_page.py::test_page_names_both_what_differs_and_what_one_alone_has",),
        "point": ("../compare/test_comparison_page.py::test_studies_of_different_batches_have_nothing_in_common",),
    },
    "compare.sentences": {
        "_tally": ("../compare/test_comparison_page.py::test_of_the_same_nothing_is_claimed",),
        **{
            name: tuple(f"../compare/test_comparison_sentences.py::test_{test}" for test in tests)
            for name, tests in {
                "_told": ("a_group_is_told_as_it_is",),
                "_why_not": ("without_a_common_group_nothing_is_compared",),
                "answers": ("without_a_common_group_nothing_is_compared",),
                "_answer": ("every_scope_has_an_answer_of_its_own", "without_an_interval_nothing_is_known"),
                "guard": (
                    "where_all_is_within_what_is_tolerated_nothing_is_undecided",
                    "where_nobody_asked_nothing_is_said_to_be_tolerated",
                ),
            }.items()
        },
    },
    "compare.warnings": {
        name: (f"../compare/test_comparison_page.py::test_{test}",)
        for name, test in {
            "_settings_that_differ": "settings_that_may_differ_are_said_first_and_those_of_several_once",
            "_other_images": "other_images_are_a_warning",
            "_of_study": "records_that_both_studies_have_are_a_warning",
        }.items()
    },
    "compare.forest": {
        "chart_of_forests": (
            "../compare/test_comparison_forest.py::test_every_group_is_drawn_and_told_in_words",
        ),
    },
    "coverage": {"_reason": ("test_render.py::test_every_state_is_a_word_with_its_reason",)},
    "environment_facts": {
        "setup": ("test_environment_facts.py::test_the_set_up_of_a_file_names_it_and_says_samples",),
        "commit": ("test_render.py::test_header_says_what_where_when_and_by_which_code",),
    },
    "chart": {
        "chart_of_lines": ("test_every_sentence.py::test_a_figure_that_shows_everything_says_nothing",),
        "chart_of": ("test_every_sentence.py::test_a_figure_that_shows_everything_says_nothing",),
    },
    "scaling": {
        **{
            name: (f"{SPEAKS}[{name}]", f"{FEW_STEPS}[{name}]")
            for name in (
                "more_devices_slower", "largest_communication_share", "bandwidth_not_resolvable", "two_ways_disagree",
                "faster_than_ideal", "strong_scaling",
            )
        },
        "best_batches": (f"{SPEAKS}[best_batches]",),
        "strategies_compared": (
            f"{SPEAKS}[ddp_against_dp]",
            f"{SPEAKS}[ddp_against_dp_with_loading]",
            "test_findings.py::test_the_slower_strategy_may_be_ddp",
            "test_findings.py::test_strategies_of_different_environments_are_not_compared",
        ),
        "_loaders": (f"{SPEAKS}[ddp_against_dp]",),
        "loader_hides_speedup": (f"{SPEAKS}[loader_hides_speedup]",),
        "memory_ends": (
            f"{SPEAKS}[memory_ends]",
            "test_findings.py::test_memory_ends_only_where_every_larger_batch_of_the_environment_ran_out",
        ),
    },
    "page": {
        **{
            name: (f"test_diagnosis_words.py::test_{test}",)
            for name, test in {
                "_short": "a_step_that_is_not_efficient_without_a_cause_is_not_called_right",
                "_title": "the_title_says_what_was_asked",
                "text": "smaller_costs_stand_in_one_place_with_their_notes",
            }.items()
        },
        "_by_chance": ("test_findings.py::test_intervals_are_counted_once_and_said_on_the_page",),
    },
    "training": {
        "_best_end": ("test_training_charts.py::test_the_heading_names_the_best_arm_and_the_baseline",),
        "_best_ends": ("test_variant_page.py::test_one_best_arm_is_no_range",),
        **{
            name: (f"{OF_TRAINING}[{name}]",)
            for name in (
                "large_batch_costs", "comparisons_at_once", "divergence", "order_without_set_epoch", "fast_twins",
                "statistics_of_workers", "pareto_best_arms", "best_at_a_batch",
            )
        },
        **{
            name: tuple(f"test_training_findings.py::test_{test}" for test in tests)
            for name, tests in {
                "training_findings": ("arms_trained_on_noise_support_no_comparison_but_show_what_is_shared",),
                "recipe_on_more_devices": ("a_recipe_is_carried_over_only_by_arms_that_have_it",),
                "_carried_over": ("a_recipe_may_carry_over_or_cost_one_figure_and_help_the_other",),
                "against_the_baseline": (
                    "an_arm_is_more_accurate_than_the_baseline_only_beyond_its_interval",
                    "a_tuned_arm_is_held_against_the_tuned_baseline_alone",
                ),
                "remedies": ("tuned_against_untuned_is_said_and_equals_are_not_called_so",),
                "_recovery": ("what_is_recovered_of_a_loss_that_may_be_none_has_no_number",),
                "_search_of": ("tuned_against_untuned_is_said_and_equals_are_not_called_so",),
                "_loss_without_set_epoch": ("a_loss_that_the_same_order_changes_is_not_called_equal",),
                "_kept": ("statistics_that_are_not_one_workers_in_every_epoch_are_not_called_so",),
            }.items()
        },
    },
    "variants": {
        "_fastest_epoch": ("test_variant_page.py::test_the_heading_names_base_and_the_fastest",),
        "beside_the_public_best": (
            "test_variant_findings.py::test_the_most_images_per_second_stand_beside_the_public_best",
        ),
        **dict.fromkeys(
            (
                "fastest_on_one", "one_as_fast_as_more", "slower_variants", "runs_differ_less",
                "communication_weighs_more", "preparation_pays", "preparation_never_pays", "nearest_to_the_limit",
            ),
            (OF_VARIANTS, "test_variant_findings.py::test_few_steps_two_runs_or_one_carry_no_finding"),
        ),
        "profiling_distorts": (OF_VARIANTS,),
        "_faster_at": (OF_VARIANTS,),
        "_one_beside": ("test_variant_findings.py::test_one_gpu_is_as_fast_as_more_only_where_it_is",),
    },
    "words": {
        "dates": ("test_render.py::test_header_says_what_where_when_and_by_which_code",),
    },
    "numbers": {"bounds_of": ("test_words.py::test_multiples",)},
}  # fmt: skip


def texts(function: ast.FunctionDef) -> Iterator[str]:
    """The texts of a function but its docstring, with {} for what is filled in."""
    parts = {id(part) for text in ast.walk(function) if isinstance(text, ast.JoinedStr) for part in text.values}
    docstring = ast.get_docstring(function, clean=False)
    for node in ast.walk(function):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
        elif isinstance(node, ast.Constant) and id(node) not in parts and node.value != docstring:
            yield str(node.value)


def is_sentence(text: str) -> bool:
    """Three words or more, apart: names of columns are joined by underscores, and the page's own CSS is no text."""
    apart = [word for word in text.replace("{}", " ").split() if "_" not in word]
    return sum(1 for word in apart if WORD.search(word)) >= WORDS_OF_A_SENTENCE


def modules() -> list[Path]:
    return sorted([*FOLDER.rglob("*.py"), *COMPARE])


def name_of(module: Path) -> str:
    """That of its file; of comparisons with their room."""
    return f"compare.{module.stem}" if module.parent.name == "compare" else module.stem


def sentences() -> dict[tuple[str, str], str]:
    """Every function of these rooms that makes a sentence, with its longest one."""
    found = {}
    for path in modules():
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef):
                made = [text for text in texts(function) if is_sentence(text)]
                if made:
                    found[name_of(path), function.name] = max(made, key=len)
    return found


def mapped() -> dict[tuple[str, str], tuple[str, ...]]:
    return {(module, name): tests for module, some in FALSE_BY.items() for name, tests in some.items()}


def names() -> set[tuple[str, str]]:
    return {(module, name) for module, some in NAMES.items() for name in some}


def test_every_sentence_has_a_test_that_makes_it_false() -> None:
    assert sorted(set(sentences()) - set(mapped()) - names()) == []


def test_no_test_is_named_for_a_sentence_that_is_no_more() -> None:
    functions = {
        (name_of(path), node.name)
        for path in modules()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef)
    }
    assert sorted((set(mapped()) | names()) - functions) == []


@pytest.mark.parametrize("test", sorted({test for tests in mapped().values() for test in tests}))
def test_a_named_test_exists(test: str) -> None:
    file, _, name = test.partition("::")
    function, _, case = name.rstrip("]").partition("[")
    assert function in functions_of(file)
    assert case in (HERE / file).read_text()


@cache
def functions_of(file: str) -> set[str]:
    code = (HERE / file).read_text()
    return {node.name for node in ast.walk(ast.parse(code)) if isinstance(node, ast.FunctionDef)}


def test_a_figure_that_shows_everything_says_nothing() -> None:
    shared: dict[str, Any] = {"strategy": "ddp", "gpus": 4}
    rows = [estimates_row(0.1, ablation_step_s=0.5, batch=batch, **shared) for batch in (32, 128)]
    assert communication_charts.estimates(tables(communication=rows).communication, GPU).not_drawn == []


@pytest.mark.slow
def test_a_page_with_everything_says_of_nothing_that_it_is_missing(root: Path) -> None:
    """The sentences in place of what there is not, as the template has them."""
    template = (FOLDER / "template/page.html.j2").read_text()
    in_place = [text.strip() for text in re.findall(r"{% else %}\n<p>([^<{]{12,})", template)]
    assert len(in_place) > 8
    full = render(study(training={"arms": ARMS}), audited(root, h200_with_steps()))
    assert [text for text in in_place if text in full] == []
    assert len([text for text in in_place if text in bare_page()]) > 6


@pytest.mark.parametrize(
    ("text", "is_one"),
    [("{} of {} are slower than one", True), ("batch_per_gpu", False), ("a {} b", False), ("on {} at batch {}", True)],
)
def test_what_counts_as_a_sentence(text: str, is_one: bool) -> None:
    assert is_sentence(text) == is_one
