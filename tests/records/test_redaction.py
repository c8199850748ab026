"""What is private is taken out of texts, and what says what happened stays."""

import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dpscale.records.redaction import HOME, USER, public_code, public_command, redacted

HOME_OF_ROOT = "/root"
# Made here, so that nobody takes them for real ones.
MADE = {
    "<root>": HOME_OF_ROOT,
    "<github>": "ghp_" + "a1B2" * 9,
    "<github pat>": "github_pat_" + "A1_b" * 10,
    "<hugging face>": "hf_" + "AbCd" * 8,
}
Case = dict[str, Any]


def cases() -> Case:
    """Return the texts of redaction.yaml by their kind."""
    text = Path(__file__).with_name("redaction.yaml").read_text()
    for name, value in MADE.items():
        text = text.replace(name, value)
    kinds: Case = yaml.safe_load(text)
    return kinds


CASES = cases()
NAMES = st.text(alphabet="abcdefghijklmnopqrstuvwxyz0123456789_-", min_size=3, max_size=16).map("a{}".format)
WORDS = st.text(alphabet="abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", min_size=1, max_size=40)


@pytest.mark.parametrize("case", CASES["lines"], ids=str)
def test_what_is_private_is_a_word_in_brackets(case: Case) -> None:
    assert redacted(case["line"]) == case["shown"]


@pytest.mark.parametrize("line", CASES["harmless"])
def test_what_says_what_happened_stays(line: str) -> None:
    assert redacted(line, home="/home/alice") == line


def test_the_name_of_who_runs_this_is_taken_out_as_a_word() -> None:
    line = "open /gpfs/people/alice/x and /fast/alice/y, /gpfs/people/alice2/z: alice's job on alice-laptop, malice"
    shown = "open [home]/x and /fast/[user]/y, /gpfs/people/alice2/z: [user]'s job on [user]-laptop, malice"
    assert redacted(line, home="/gpfs/people/alice/") == shown
    assert redacted("user user@host", home="/home/user") == "[user] [user]@host"


@pytest.mark.parametrize("home", ["", "/", HOME_OF_ROOT, "~"])
def test_a_home_that_is_nobodys_hides_no_other_path(home: str) -> None:
    line = f"/usr/lib{HOME_OF_ROOT}/x ~/y"
    assert redacted(line, home) == line


@given(name=NAMES, folder=st.sampled_from(["/home", "/Users", "/gpfs/u/home", "/scratch", "/mnt/scratch"]), file=WORDS)
def test_no_user_name_is_left_in_a_path(name: str, folder: str, file: str) -> None:
    for line in (f"{folder}/{name}/{file}", f"at '{folder}/{name}': {file}", f"x={folder}/{name}:{folder}/{name}"):
        assert f"/{name}" not in redacted(line)
        assert HOME in redacted(line) or USER in redacted(line)


def test_a_long_line_takes_no_longer_than_it_is_long() -> None:
    began_s = time.process_time()
    for piece in ("a:", "--key", "token", "/home", "x@", "~", "'/", "eyJ", "://a:"):
        redacted("https://" + piece * 20_000, home="/home/alice")
    assert time.process_time() - began_s < 5


@pytest.fixture(autouse=True)
def of_alice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/gpfs/people/alice")


@pytest.mark.parametrize("case", CASES["commands"], ids=str)
def test_a_record_holds_nothing_private_of_a_command(case: Case) -> None:
    assert public_command(case["line"]) == case["shown"]


@pytest.mark.parametrize("case", CASES["code"], ids=str)
def test_a_record_holds_nothing_private_of_a_line(case: Case) -> None:
    assert public_code(case["line"]) == case["shown"]
