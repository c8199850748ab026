"""The tables of the section on variants: which rows and columns of the study's tables each of them shows."""

import pandas as pd

from dpscale.present import words
from dpscale.present.view import View, column_of, environment, point, shown_columns, text, view_of
from dpscale.present.views import keys, mfu
from dpscale.present.words import Row, Terms
from dpscale.vocabulary import quantities
from dpscale.vocabulary.states import NEVER, UNDECIDED


def variants(table: pd.DataFrame, terms: Terms) -> View:
    caption = "Every variant beside the study's own settings (base)"
    cells = {"mfu": mfu, "pays_from_epochs": pays}
    variant, *others = shown_columns("variants", terms, cells=cells)
    return view_of("variants", caption, table, [variant, *keys(table, terms), *others])


def costs(table: pd.DataFrame, terms: Terms) -> View:
    """What an epoch costs, by number of devices and variant."""
    caption = f"{terms.heading} × variant: what an epoch costs"
    variant, *others = shown_columns("variants", terms, "variant_costs")
    columns = [variant, *point(table, terms), *others]
    return view_of("variant_costs", caption, words.ok(table), columns, source="variants")


def limits(table: pd.DataFrame, terms: Terms) -> View:
    """The limit of the device and the share of it that is reached, where a record says what the device can do."""
    caption = f"Every variant beside the limit of its {terms.device}, without communication"
    variant, *others = shown_columns("variants", terms, "variant_limits")
    known = table.dropna(subset=["limit_images_per_s"])
    return view_of("variant_limits", caption, known, [variant, *point(table, terms), *others], source="variants")


def one_gpu(table: pd.DataFrame, terms: Terms) -> View:
    caption = (
        f"The fastest variant on 1 {terms.device} beside every variant on more, at the same batch per {terms.device}"
    )
    variant, *others = shown_columns("one_gpu", terms)
    more = text("Variant on more", "other_variant")
    return view_of("one_gpu", caption, table, [variant, *point(table, terms), more, *others])


def kernels(table: pd.DataFrame, terms: Terms) -> View:
    caption = f"What fills a profiled step of 1 {terms.device}, in shares of it: a witness, no headline"
    variant, *others = shown_columns("kernels", terms)
    columns = [variant, *environment(terms), column_of(quantities.BATCH, terms), *others]
    return view_of("kernels", caption, table, columns)


def pays(row: Row) -> str:
    """`17 [16, 18]`: whole epochs; `never` where no epoch saves time; undecided where the interval cannot tell."""
    if row["pays"] in (NEVER, UNDECIDED):
        return str(row["pays"])
    if not words.is_known(row["pays_from_epochs"]):
        return words.ABSENT
    value, low, high = (words.whole(row[f"pays_from_epochs{end}"]) for end in ("", "_low", "_high"))
    return f"{value} [{low}, {high}]"
