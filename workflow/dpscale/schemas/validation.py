"""The JSON Schemas of this folder: loading, validating, and filling in defaults."""

import difflib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import yaml

from dpscale.errors import DpscaleError
from dpscale.schemas.settings import (
    ARM,
    JsonSchema,
    JsonValues,
    required_of_arm,
    study_settings_schemas,
)
from dpscale.strategies.known import STRATEGIES
from dpscale.vocabulary import own_yaml


@cache
def load_schema(name: str) -> JsonSchema:
    """Return the schema `<name>.schema.yaml`, with the names of strategies and with the settings."""
    schema: JsonSchema = own_yaml(__file__, f"{name}.schema.yaml")
    definitions = dict(schema.get("$defs", {}))
    definitions["strategy"] = {"enum": list(STRATEGIES)}
    if name == "study":
        _add_settings(schema)
    return {**schema, "$defs": definitions}


def _add_settings(study: JsonSchema) -> None:
    """Put every setting into the study's schema, which holds the objects that they stand in."""
    for path, schema in study_settings_schemas().items():
        node = study
        for key in path[:-1]:
            node = node["properties"][key] if key in node.get("properties", {}) else node["additionalProperties"]
        node.setdefault("properties", {})[path[-1]] = schema
        if path[:-1] == ARM:
            node["required"] = required_of_arm()


def read_yaml(path: Path, fault: type[DpscaleError], loader: type[yaml.SafeLoader] = yaml.SafeLoader) -> Any:
    """Return the content of a YAML file; an empty one is an empty mapping. Raises `fault` where it cannot be read."""
    try:
        values = yaml.load(path.read_text(), loader)
    except OSError as error:
        raise fault(f"{path}: cannot be read: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise fault(f"{path}: is not YAML: {' '.join(str(error).split())}") from error
    return values if values is not None else {}


@cache
def _validator(name: str) -> Any:
    return jsonschema_rs.validator_for(load_schema(name))


def violations(name: str, instance: Any) -> list[str]:
    """Return a line for each way in which `instance` violates the schema `name`; none when it is valid."""
    try:
        return [_describe(name, error, instance) for error in _validator(name).iter_errors(instance)]
    except (TypeError, ValueError) as error:
        return [f"holds what JSON cannot: {error}. Put names and dates into quotes"]


def with_defaults(schema: JsonSchema, values: JsonValues) -> JsonValues:
    """Return `values` with every key that `schema` gives a default for, at every depth of nested objects, named by the
    user or by the schema."""
    nodes = schema.get("properties", {})
    defaults = {key: node["default"] for key, node in nodes.items() if "default" in node}
    filled = {**defaults, **values}
    for key, value in filled.items():
        if isinstance(value, Mapping):
            filled[key] = with_defaults(nodes.get(key) or schema["additionalProperties"], value)
    return filled


def _describe(name: str, error: Any, instance: Any) -> str:
    path, value = "", instance
    for key in error.instance_path:
        # The validator gives a key that is a number as a number, like a place in a list.
        path += f"[{key}]" if isinstance(value, list) else f".{key}"
        value = value[key] if isinstance(value, list) else value[str(key)]
    where = path.lstrip(".") or "top level"
    return f"{where}: {error.message}{_hint(name, error, value)}"


def _hint(name: str, error: Any, value: Any) -> str:
    """Return the keys that were perhaps meant where some are unknown."""
    if error.kind.name != "additionalProperties":
        return ""
    node = load_schema(name)
    for key in list(error.schema_path)[:-1]:
        node = node[key]
    known, unknown = node["properties"], sorted(str(key) for key in value if key not in node["properties"])
    guesses = [match for key in unknown for match in difflib.get_close_matches(key, known, n=1)]
    return f" (did you mean {', '.join(guesses)}?)" if guesses else f" (known keys: {', '.join(known)})"
