"""The tables of the section on variants: which rows and columns of the study's tables each of them shows."""

from collections.abc import Sequence

from dpscale.present.study.views import keys, mfu
from dpscale.present.text.numbers import ABSENT, whole
from dpscale.present.text.view import ShownColumn, View, point, shown_columns, view_of
from dpscale.present.text.words import Terms, ok
from dpscale.tables.variants import KernelsRow, OneGpuRow, VariantsRow
from dpscale.vocabulary.states import NEVER, UNDECIDED


def variants(rows: Sequence[VariantsRow], terms: Terms) -> View:
    caption = "Every variant beside the study's own settings (base)"
    cells = {"mfu": mfu, "pays_from_epochs": pays}
    variant, *others = shown_columns(VariantsRow, "variants", terms, cells=cells)
    columns = [variant, *keys(VariantsRow, rows, terms), *others]
    return view_of("variants", caption, rows, columns, all_rows=rows)


def costs(rows: Sequence[VariantsRow], terms: Terms) -> View:
    """What an epoch costs, by number of devices and variant."""
    variant, *others = shown_columns(VariantsRow, "variant_costs", terms)
    columns = [variant, *point(VariantsRow, rows, terms), *others]
    caption = f"{terms.heading} × variant: what an epoch costs"
    return view_of("variant_costs", caption, ok(rows), columns, "variants")


def limits(rows: Sequence[VariantsRow], terms: Terms) -> View:
    """The limit of the device and the share of it that is reached, where a record says what the device can do."""
    variant, *others = shown_columns(VariantsRow, "variant_limits", terms)
    columns = [variant, *point(VariantsRow, rows, terms), *others]
    known = [row for row in rows if row.limit_images_per_s.is_known]
    caption = f"Every variant beside the limit of its {terms.device}, without communication"
    return view_of("variant_limits", caption, known, columns, "variants")


def one_gpu(rows: Sequence[OneGpuRow], terms: Terms) -> View:
    caption = (
        f"The fastest variant on 1 {terms.device} beside every variant on more, at the same batch per {terms.device}"
    )
    variant, *others = shown_columns(OneGpuRow, "one_gpu", terms)
    more = ShownColumn[OneGpuRow]("Variant on more", lambda row: row.other_variant, is_number=False)
    columns = [variant, *point(OneGpuRow, rows, terms), more, *others]
    return view_of("one_gpu", caption, rows, columns, all_rows=rows)


def kernels(rows: Sequence[KernelsRow], terms: Terms) -> View:
    caption = f"What fills a profiled step of 1 {terms.device}, in shares of it: a witness, no headline"
    variant, *others = shown_columns(KernelsRow, "kernels", terms)
    columns = [variant, *point(KernelsRow, rows, terms, without=("strategy", "gpus")), *others]
    return view_of("kernels", caption, rows, columns, all_rows=rows)


def pays(row: VariantsRow) -> str:
    """`17 [16, 18]`: whole epochs; `never` where no epoch saves time; undecided where the interval cannot tell."""
    if row.pays in (NEVER, UNDECIDED):
        return row.pays
    epochs = row.pays_from_epochs
    return f"{whole(epochs.value)} [{whole(epochs.low)}, {whole(epochs.high)}]" if epochs.is_known else ABSENT
