"""The JSON Schemas of this folder: loading, validating, and filling in defaults."""

import difflib
from collections.abc import Iterable, Mapping
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
    NetworkSettings,
    record_settings_schema,
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


@cache
def _settings_validator(kind: str) -> Any:
    return jsonschema_rs.validator_for(record_settings_schema(kind))


def settings_violations(kind: str, settings: NetworkSettings) -> list[str]:
    """Return a line for each way in which these are not settings of a `kind` of record; none when they are."""
    values = settings.to_json()
    return [_describe(kind, error, values) for error in _settings_validator(kind).iter_errors(values)]


def violations(name: str, instance: Any) -> list[str]:
    """Return a line for each way in which `instance` violates the schema `name`; none when it is valid."""
    validator = _validator(name)
    try:
        if validator.is_valid(instance):
            return []
        return [_describe(name, error, instance) for error in validator.iter_errors(instance)]
    except (TypeError, ValueError) as error:
        return [f"holds what JSON cannot: {error}. Put names and dates into quotes"]


def with_defaults(schema: JsonSchema, values: JsonValues) -> dict[str, Any]:
    """Return `values` with every key that `schema` gives a default for, at every depth of nested objects, named by the
    user or by the schema.

    Whole numbers written as 2.0, which JSON Schema allows, become integers.
    """
    filled = dict(values)
    for key, node in schema.get("properties", {}).items():
        if key not in filled and "default" in node:
            filled[key] = node["default"]
        if key in filled:
            filled[key] = _with_integers(node, filled[key])
    named_by_user = schema.get("additionalProperties")
    if isinstance(named_by_user, dict):
        for key in filled.keys() - schema.get("properties", {}).keys():
            filled[key] = _with_integers(named_by_user, filled[key])
    return filled


def _with_integers(node: JsonSchema, value: Any) -> Any:
    if isinstance(value, Mapping):
        return with_defaults(node, value)
    if isinstance(value, list):
        return [_with_integers(node.get("items", {}), item) for item in value]
    return int(value) if isinstance(value, float) and "integer" in node.get("type", ()) else value


def _describe(name: str, error: Any, instance: Any) -> str:
    path, value = "", instance
    for key in error.instance_path:
        # The validator gives a key that is a number as a number, like a place in a list.
        path += f"[{key}]" if isinstance(value, list) else f".{key}"
        value = value[key] if isinstance(value, list) else value[str(key)]
    where = path.lstrip(".") or "top level"
    return f"{where}: {error.message}{_hint(name, error, value)}"


def _hint(name: str, error: Any, value: Any) -> str:
    if error.kind.name == "additionalProperties":
        node = load_schema(name)
        for key in list(error.schema_path)[:-1]:
            node = node[key]
        return _did_you_mean(set(value) - set(node["properties"]), node["properties"])
    if error.kind.name in ("type", "pattern") and isinstance(value, str) and _is_number(value):
        number = float(value)
        return f" (YAML reads {value} as text: write it as {int(number) if number.is_integer() else number})"
    return ""


def _did_you_mean(unknown: set[str], keys: Iterable[str]) -> str:
    guesses = [match for key in sorted(map(str, unknown)) for match in difflib.get_close_matches(key, keys, n=1)]
    return f" (did you mean {', '.join(guesses)}?)" if guesses else f" (known keys: {', '.join(keys)})"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
