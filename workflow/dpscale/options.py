"""Options that commands of several rooms share, and reading the study, records and tables that a command is about."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dpscale.errors import RecordError
from dpscale.plan.study import Study
from dpscale.scheduler.cluster import Cluster
from dpscale.schemas.settings import JsonSchema
from dpscale.schemas.validation import load_schema
from dpscale.terminal import tell

if TYPE_CHECKING:
    from dpscale.records.collect import Collected

CLUSTER_FILE = Path("config/cluster.yaml")

FOLDER = click.Path(file_okay=False, path_type=Path)
FILE = click.Path(dir_okay=False, path_type=Path)


class StudyFile(click.Path):
    """A study file, or the name of one in config/."""

    name = "study"

    def __init__(self) -> None:
        super().__init__(dir_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        named = Path("config", f"{value}.yaml")
        return super().convert(named if named.exists() and not Path(value).exists() else value, param, ctx)


STUDY = StudyFile()
study_argument = click.argument("study_file", metavar="STUDY", type=STUDY)


def schema_node(*path: str) -> JsonSchema:
    """Return the schema of a study's key: its type, allowed values, default and description."""
    node: JsonSchema = load_schema("study")
    for key in path:
        node = node["properties"][key] if "properties" in node else node["additionalProperties"]
    return node


def read_study(path: Path) -> Study:
    """Read a study from a file, on the nodes of this folder's cluster."""
    study, cluster = Study.read(path), read_cluster()
    return cluster.laid_out(study) if cluster else study


def read_cluster() -> Cluster | None:
    """Read this folder's cluster, if it has one."""
    return Cluster.read(CLUSTER_FILE) if CLUSTER_FILE.exists() else None


def read_records(study: Study, results: Path) -> "Collected":
    """Read the records of a study. Prints which files are not used, and why. Raises RecordError without the folder."""
    from dpscale.plan.plan import expected_cells
    from dpscale.records.collect import collect

    if not results.is_dir():
        raise RecordError(f"{results}: there is no such folder of results. To measure the study: make report")
    collected = collect(results, expected_cells(study), study.settings)
    for reason in filter(None, [*collected.rejected.values(), collected.network_problem]):
        tell(f"not used: {reason}", err=True)
    return collected
