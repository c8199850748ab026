"""Which cells share a job."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from dpscale.scheduler.sharing import Size, spread

ONE, TWO = "gpu:v100:1", "gpu:v100:2"


@given(st.integers(0, 40), st.integers(0, 40), st.integers(1, 12))
def test_every_cell_is_in_one_job_of_its_size_and_run_that_holds_no_more(small: int, large: int, most: int) -> None:
    cells: dict[str, Size] = {f"small-{number}": (1 + number % 3, 1, ONE, 1) for number in range(small)}
    cells |= {f"large-{number}": (1 + number % 3, 1, TWO, 2) for number in range(large)}
    jobs = spread(cells, most)
    assert sorted(cell for job in jobs for cell in job) == sorted(cells)
    assert all(len({cells[cell] for cell in job}) == 1 for job in jobs)
    runs = [cells[job[0]][0] for job in jobs]
    assert runs == sorted(runs)
    fewest = sum(-(-alike // most) for alike in Counter(cells.values()).values())
    assert len(jobs) == fewest
    assert all(len(job) <= most for job in jobs)


def test_the_order_is_random_and_the_same_each_time() -> None:
    cells: dict[str, Size] = {f"batch-{number:02}": (1, 1, ONE, 1) for number in range(30)}
    jobs = spread(cells, 10)
    assert jobs == spread(dict(reversed(cells.items())), 10)
    assert all(job != sorted(job) for job in jobs)
    assert [len(set(job) & set(sorted(cells)[:10])) for job in jobs] != [10, 0, 0]
