"""Which records may be pooled and compared: those of one environment, that is of the same device model, the same
images, the same software that computes and communicates, and, of every kind, one version of the measurement."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from dpscale.plan.cells import AnyCell
from dpscale.records.files import Record
from dpscale.records.versions import VERSIONS
from dpscale.vocabulary.quantities import SOFTWARE

# NVML numbers the versions of NVLink without gaps (nvml.h, NVML_NVLINK_VERSION_*).
NVLINK_VERSIONS = {1: "1.0", 2: "2.0", 3: "2.2", 4: "3.0", 5: "3.1", 6: "4.0", 7: "5.0", 8: "6.0"}


def environment_letters(records: Mapping[AnyCell, Record]) -> dict[AnyCell, str]:
    """The letter of every record's environment; A is the one that was measured first.

    Collectives move no images: theirs is the first environment that is like it in everything else.
    """
    newest = _newest_versions(records.values())
    letters: dict[tuple[str, ...], str] = {}
    chosen: dict[AnyCell, str] = {}
    for cell, record in sorted(records.items(), key=lambda item: ("dataset" not in item[1], item[1]["started_at"])):
        version = record["measurement_version"]
        older = "" if version == newest[record["kind"]] else f"version {version}"
        description = (*(str(value) for value in _describe(record).values()), older)
        if "dataset" not in record:
            alike = (known for known in letters if known[1:] == description[1:])
            description = next(alike, description)
        chosen[cell] = letters.setdefault(description, _letter(len(letters)))
    return chosen


def _newest_versions(records: Iterable[Record]) -> dict[str, int]:
    """The newest version of every kind of measurement among these records."""
    newest: dict[str, int] = {}
    for record in records:
        kind, version = record["kind"], record["measurement_version"]
        newest[kind] = max(version, newest.get(kind, version))
    return newest


def rows(records: Mapping[AnyCell, Record], letters: Mapping[AnyCell, str]) -> list[dict[str, Any]]:
    """A row for every environment: what it is, and where it was found."""
    members: dict[str, list[Record]] = defaultdict(list)
    for cell, letter in letters.items():
        members[letter].append(records[cell])
    return [
        {
            "environment": letter,
            **_describe(some[0]),
            "cpu_model": joined(record["hardware"]["cpu_model"] for record in some),
            "links": joined(_describe_link(link) for record in some for link in record["hardware"]["links"]),
            "hosts": joined(record["hardware"]["host"] for record in some),
            "records": len(some),
            "measurement_versions": joined(map(_version, some)),
            "older_measurements": joined(_version(record) for record in some if _is_older(record)),
        }
        for letter, some in members.items()
    ]


def _version(record: Record) -> str:
    return f"{record['kind']} {record['measurement_version']}"


def _is_older(record: Record) -> bool:
    return bool(record["measurement_version"] != VERSIONS[record["kind"]].current)


def joined(texts: Iterable[str | None]) -> str | None:
    """All different texts in one, None where there is none."""
    return "; ".join(sorted({text for text in texts if text})) or None


def _describe(record: Record) -> dict[str, Any]:
    return {
        "dataset_sha256": record["dataset"]["sha256"] if "dataset" in record else None,
        "device_model": record["hardware"]["device_model"],
        **{name: record["software"][name] for name in SOFTWARE},
    }


def _letter(number: int) -> str:
    """A ... Z, AA, AB ... for 0, 1, 2 ..."""
    letters = ""
    number += 1
    while number:
        number, rest = divmod(number - 1, 26)
        letters = chr(ord("A") + rest) + letters
    return letters


def _describe_link(link: Mapping[str, Any]) -> str:
    if link["kind"] != "NVLink":
        return " ".join(str(part) for part in (link["kind"] or "link unknown", link["topology"]) if part)
    if link["nvlink_version"] is None:
        return "NVLink (details hidden)"
    through = " through a switch" if link["via_switch"] else ""
    return f"{link['nvlink_links']} links of NVLink {NVLINK_VERSIONS.get(link['nvlink_version'], '?')}{through}"
