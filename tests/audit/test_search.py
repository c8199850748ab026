"""The search: what was derived under a convention is found again, and chance is not sold."""

from dpscale.audit.search import CHANCE_LIMIT, ColumnSearch, search
from published_factory import published


def of_one(quantity: str, epoch_s: str, printed: str) -> ColumnSearch:
    return search(published(epoch_s, {quantity: printed}), quantity)


def test_a_fit_on_one_rough_cell_is_not_sold_as_found() -> None:
    found = of_one("bandwidth", "32x1 25.86, 32x2 36.93", "32x2 0.0018")
    assert (found.best, found.near, found.unsure) == (None, None, None)
    assert found.chance > CHANCE_LIMIT
