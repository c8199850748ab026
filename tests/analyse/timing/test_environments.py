"""Which records may be pooled: every property that can change a number tells environments apart, and no other does."""

from collections.abc import Callable
from typing import Any

import pytest

from cases import cases
from dpscale.analyse.records import environments_of
from dpscale.plan.cells import AnyCell, CollectivesCell, Configuration, TimingCell
from dpscale.plan.study import Study
from record_factory import collectives_record, on_server, timing_record, typed_records

STUDY = Study({"study": "s", "gpus": [1, 2, 4], "batch_per_gpu": [64], "scopes": ["compute"], "runs": 9})
LINKS = cases(__file__, "links")
NVLINK = LINKS["NVLink"]

Record = dict[str, Any]
Change = Callable[[Record], None]


def timing(gpus: int, run: int, *links: dict[str, Any], change: Change | None = None) -> tuple[AnyCell, Record]:
    """A run on the GPUs of a server of its own, that has as many as needed and these links between them."""
    cell = TimingCell(Configuration("single" if gpus == 1 else "ddp", gpus, 64), run)
    record = on_server(timing_record(cell, STUDY.settings, [1.0]), run)
    record["hardware"]["links"] = [{"gpus": [0, 1], **link} for link in links]
    if change:
        change(record)
    return cell, record


def letters(*records: tuple[AnyCell, Record]) -> str:
    """Return the letter of the environment of every record."""
    environments = environments_of(typed_records(dict(records)))
    letter_of = {cell: letter for letter, cells in environments.items() for cell in cells}
    return "".join(letter_of[cell] for cell, _ in records)


def setting(*path: str) -> Change:
    """A change of one entry of a record; the last of `path` is its value."""

    def change(record: Record) -> None:
        *names, last, value = path
        for name in names:
            record = record[name]
        record[last] = value

    return change


APART, ALIKE = ({name: setting(*path) for name, path in cases(__file__, table).items()} for table in ("apart", "alike"))


@pytest.mark.parametrize("change", APART.values(), ids=APART)
@pytest.mark.parametrize("gpus", [1, 2])
def test_what_can_change_a_number_tells_records_apart(change: Change, gpus: int) -> None:
    without_effect = gpus == 1 and change is APART["NCCL's variables"]
    assert letters(timing(gpus, 1), timing(gpus, 2, change=change)) == ("AA" if without_effect else "AB")


@pytest.mark.parametrize("change", ALIKE.values(), ids=ALIKE)
def test_what_cannot_change_a_number_does_not(change: Change) -> None:
    assert letters(timing(2, 1, NVLINK), timing(2, 2, NVLINK, change=change)) == "AA"


def test_one_gpu_joins_the_environment_of_its_machine_whatever_nccl_is_told() -> None:
    """Of two that differ in nothing else it joins the one that has its GPU, or the first; so with links."""
    ring = timing(2, 2, NVLINK, change=APART["NCCL's variables"])
    assert letters(timing(2, 1, NVLINK), ring, timing(1, 1, change=APART["NCCL's variables"])) == "ABA"
    cell, record = timing(1, 1)
    assert letters(timing(2, 1, NVLINK), ring, (cell, on_server(record, 2))) == "ABB"


@pytest.mark.parametrize(("places", "expected"), cases(__file__, "linked"))
def test_links_tell_records_apart_where_they_were_read(places: list[list[Any]], expected: str) -> None:
    assert letters(*(timing(gpus, run, *(LINKS[name] for name in links)) for gpus, run, *links in places)) == expected


def test_collectives_move_no_images_and_join_what_is_like_them_otherwise() -> None:
    cell = CollectivesCell(2, 1)
    record = on_server(collectives_record(cell, STUDY.settings), 2)
    other_images = timing(2, 2, change=APART["images"])
    assert letters((cell, record), timing(2, 1), other_images) == "BAB", "its own GPUs', not the first's"
    record["software"]["nccl"] = "2.30.0"
    assert letters((cell, record), timing(2, 2)) == "BA"
