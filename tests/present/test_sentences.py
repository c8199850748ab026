"""Every recorded page is read in short sentences, and is a small file."""

from pathlib import Path
from statistics import median

import pytest

from recorded import RECORDED, recorded_page
from sentences import sentences_of, words_of

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("results", "config"), RECORDED.items())
def test_sentences_are_short_and_the_page_is_small(root: Path, results: str, config: str) -> None:
    page = recorded_page(root, results, config)
    lengths = {sentence: words_of(sentence) for sentence in sentences_of(page)}
    assert len(lengths) > 100
    assert {sentence: length for sentence, length in lengths.items() if length > 40} == {}
    assert median(lengths.values()) <= 25
    assert not [sentence for sentence in lengths if "[no interval" in sentence or "capped" in sentence]
    assert len(page.encode()) < 400_000


def test_what_counts_as_a_sentence() -> None:
    page = "<li>One is <b>1.5</b> s [1, 2]. Is it? <details><p>No.</p></details></li><td>None.</td><p>Two &amp; a</p>"
    assert sentences_of(page) == ["One is 1.5 s [1, 2].", "Is it?", "Two & a"]
    assert [words_of(sentence) for sentence in sentences_of(page)] == [5, 2, 2]
