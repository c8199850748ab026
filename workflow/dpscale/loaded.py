"""A measured study in Python: its tables as pandas frames, its answer in words, its charts. Free of torch."""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from dpscale.errors import DpscaleError
from dpscale.options import read_records, read_study
from dpscale.plan.study import STUDY_FILE, Study
from dpscale.tables.row import frame
from dpscale.tables.tables import TABLES, Tables

if TYPE_CHECKING:
    import pandas as pd

    from dpscale.present.charts.picture import Chart


class LoadedStudy:
    """The results of a study. Every table is an attribute, such as `speedup`: a frame with a row per configuration,
    whose `attrs["units"]` has the unit of every column."""

    def __init__(self, study: Study, results: Path):
        self.study = study
        self.results = results

    @cached_property
    def tables(self) -> Tables:
        """The tables from their files, or made of the records where there are no files. Without both: DpscaleError."""
        from dpscale.analyse.tables import build_tables

        folder = self.results / "tables"
        return (
            Tables.read(folder) if folder.is_dir() else build_tables(self.study, read_records(self.study, self.results))
        )

    @property
    def answer(self) -> str:
        """The answer of the study: what each number of devices gives, why not more, and what to do."""
        from dpscale.analyse.answer.answer import answer_of
        from dpscale.present.findings.answer import first_screen
        from dpscale.present.text.words import Terms

        return first_screen(answer_of(self.tables), Terms.of(self.study.values, self.tables)).on_terminal

    def figure(self, name: str) -> "Chart":
        """Return a chart of the page, which a notebook shows. Raises DpscaleError where none has this name."""
        if name not in self._charts:
            raise DpscaleError(f"no chart is called {name}, but {', '.join(self._charts)}")
        return self._charts[name]

    @cached_property
    def _charts(self) -> "dict[str, Chart]":
        from dpscale.present.charts.charts import charts_of
        from dpscale.present.text.words import Terms

        return charts_of(self.study.values, self.tables, Terms.of(self.study.values, self.tables))

    def __getattr__(self, name: str) -> "pd.DataFrame":
        if name not in TABLES:
            raise AttributeError(f"a study has no {name}; its tables: {', '.join(TABLES)}")
        kind = TABLES[name]
        table = frame(kind, getattr(self.tables, name))
        table.attrs["units"] = {name: column.unit.stored for column in kind.columns().values() for name in column.names}
        return table

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *TABLES]


def load(name: str | Path) -> LoadedStudy:
    """Return the study of a name (`recorded`), a study file, or a folder of results. Raises DpscaleError without one.

    Names are those of config/<name>.yaml and results/<name>, here or in the clone that this package stands in.
    """
    for root in (Path(), Path(__file__).parents[2]):
        path, stated = root / name, root / "config" / f"{Path(name).name}.yaml"
        if path.is_dir():
            file = path / STUDY_FILE if (path / STUDY_FILE).exists() else stated
            return LoadedStudy(read_study(file), path)
        for file in filter(Path.is_file, (path, stated)):
            study = read_study(file)
            return LoadedStudy(study, root / study.results)
    raise DpscaleError(f"{name}: no study of this name in config/, no study file and no folder of results")
