"""The JSON Schemas of this folder: loading, validating, and filling in defaults."""

import difflib
import re
from collections import Counter
from collections.abc import Mapping
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import jsonschema_rs
import yaml

from dpscale.errors import DpscaleError
from dpscale.regular_files import read_bytes
from dpscale.schemas.settings import (
    ARM,
    JsonSchema,
    JsonValues,
    required_of_arm,
    study_settings_schemas,
)
from dpscale.strategies.known import STRATEGIES
from dpscale.vocabulary import own_yaml

# Of a file that people write, at most: bytes, values, how deep these are nested, and how large a number is.
MOST_BYTES = 200_000
MOST_VALUES = 100_000
DEEPEST = 30
LARGEST = 10**15
# Problems of a file that are told, and characters of each.
MOST_PROBLEMS, LONGEST_PROBLEM = 5, 300
# No file has them in its name, and no text in UTF-8 the latter.
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
# What PyYAML raises of a text that is not of its type.
_NO_SUCH_VALUE = (ValueError, LookupError, AttributeError, OverflowError)


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


class StrictLoader(yaml.SafeLoader):
    """Refuses, as no YAML, a key that is there twice, and a text that is no number, date or flag though marked as one,
    such as `0x_` or `2024-13-45`."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        keys = Counter(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
        if twice := [key for key, number in keys.items() if number > 1]:
            raise yaml.composer.ComposerError(None, None, f"{twice[0]} is there twice", node.start_mark)
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except _NO_SUCH_VALUE as error:
            problem = f"no {node.tag.rpartition(':')[2]}"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark) from error


def read_yaml(path: Path, fault: type[DpscaleError], loader: type[yaml.SafeLoader] = StrictLoader) -> Any:
    """Return the content of a YAML file; an empty one is an empty mapping. Raises `fault` where it cannot be read."""
    try:
        values = yaml.load(read_bytes(path, MOST_BYTES).decode(), loader)
    except OSError as error:
        raise fault(f"{path}: cannot be read: {error.strerror}") from error
    except RecursionError as error:
        raise fault(f"{path}: is nested too deeply") from error
    except (yaml.YAMLError, ValueError) as error:  # a date that is none, digits without an end
        raise fault(f"{path}: is not YAML: {' '.join(str(error).split())}") from error
    return values if values is not None else {}


@cache
def _validator(name: str) -> Any:
    return jsonschema_rs.validator_for(load_schema(name))


def violations(name: str, instance: Any) -> list[str]:
    """Return a line for each way in which `instance` violates the schema `name`, the first ones alone; none when it is
    valid."""
    if problem := _beyond_limits(instance):
        return [problem]
    try:
        errors = islice(_validator(name).iter_errors(instance), MOST_PROBLEMS)
        return [_describe(name, error, instance) for error in errors]
    except (TypeError, ValueError) as error:
        return [f"holds what JSON cannot: {error}. Put names and dates into quotes"]


def _beyond_limits(instance: Any) -> str:
    """Return what no such file holds; empty where nothing is. A name in YAML may stand for more values than there is
    time for."""
    values: list[tuple[str, int, Any]] = [("top level", 0, instance)]
    number = 0
    while values:
        where, depth, value = values.pop()
        number += 1
        if number > MOST_VALUES or depth > DEEPEST:
            return f"{where}: more than {MOST_VALUES:,} values, or nested more than {DEEPEST} deep"
        if isinstance(value, Mapping):
            values += [(key[:40] if isinstance(key, str) else where, depth + 1, item) for key, item in value.items()]
            values += [(where, depth + 1, key) for key in value]
        elif isinstance(value, list):
            values += [(where, depth + 1, item) for item in value]
        elif isinstance(value, int | float) and abs(value) > LARGEST:
            return f"{where}: a number beyond {LARGEST:.0e}"
        elif isinstance(value, str) and _NO_TEXT.search(value):
            return f"{where}: a character that no name has"
    return ""


def with_defaults(schema: JsonSchema, values: JsonValues) -> JsonValues:
    """Return `values` with every key that `schema` gives a default for, at every depth of nested objects, named by the
    user or by the schema."""
    nodes = schema.get("properties", {})
    defaults = {key: node["default"] for key, node in nodes.items() if "default" in node}
    filled = {**defaults, **values}
    for key, value in filled.items():
        if isinstance(value, Mapping):
            filled[key] = with_defaults(nodes.get(key) or schema["additionalProperties"], value)
        else:
            filled[key] = _whole(value)
    return filled


def _whole(value: Any) -> Any:
    """Return a value, with 2 in place of 2.0: a schema takes both for whole numbers, and Python does not."""
    if isinstance(value, list):
        return [_whole(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _describe(name: str, error: Any, instance: Any) -> str:
    path, value = "", instance
    for key in error.instance_path:
        # The validator gives a key that is a number as a number, like a place in a list.
        path += f"[{key}]" if isinstance(value, list) else f".{key}"
        value = value[key] if isinstance(value, list) else value[str(key)]
    where = path.lstrip(".") or "top level"
    message, half = error.message, LONGEST_PROBLEM // 2
    if len(message) > LONGEST_PROBLEM:
        message = f"{message[:half]} … {message[-half:]}"  # what is wrong stands at its end
    return f"{where}: {message}{_hint(name, error, value)}"


def _hint(name: str, error: Any, value: Any) -> str:
    """Return the keys that were perhaps meant where some are unknown."""
    if error.kind.name != "additionalProperties":
        return ""
    node = load_schema(name)
    for key in list(error.schema_path)[:-1]:
        node = node[key]
    keys = node["properties"]
    unknown = sorted(str(key) for key in value if key not in keys)[:MOST_PROBLEMS]
    guesses = [match for key in unknown for match in difflib.get_close_matches(key, keys, n=1)]
    return f" (did you mean {', '.join(guesses)}?)" if guesses else f" (known keys: {', '.join(keys)})"
