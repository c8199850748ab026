"""Why more GPUs may not make a training step faster: plain data. Every cause once, every step that is timed, and what
can be tried at once.

`measure/attach/` measures, `analyse/causes/causes.py` and `diagnosis/finders.py` find the cause,
`diagnosis/page.py` says it. To add a cause: an entry in
`causes.yaml`, its finder there, and a case of it among those of the
tests (`tests/diagnosis/`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from dpscale.vocabulary.own_yaml import own_yaml


@dataclass(frozen=True)
class Cause:
    """A cause: its name in records and tests, what it is called, what it is in one sentence, what to change, and the
    line of code to write.

    `least_share` is the part of the step below which it is not named as the reason. `section` is that of a study's page
    which has the evidence, where a study can tell it. What it costs is a part of what the causes `within` cost, and is
    not counted there again. One that `comes_first` is certain whatever was timed, and changes what all else means.
    """

    name: str
    label: str
    sentence: str
    change: str
    on_cpu: Mapping[str, Any] = field(default_factory=dict)
    """Which of these words are others where workers are processes on a CPU."""
    code: str = ""
    least_share: float = 0.10
    section: str = ""
    within: Sequence[str] = ()
    comes_first: bool = False

    def on(self, device: str) -> "Cause":
        """In the words for a `GPU` or a `worker`."""
        return replace(self, **self.on_cpu) if device == "worker" else self


_TABLE = own_yaml(__file__, "causes.yaml")
CAUSES: Mapping[str, Cause] = MappingProxyType({one["name"]: Cause(**one) for one in _TABLE["causes"]})
NOTHING, NO_CERTAIN_LOSS, UNKNOWN = _NO_CAUSE = [Cause(**one) for one in _TABLE["no_cause"]]
_ANSWERS = {**CAUSES, **{one.name: one for one in _NO_CAUSE}}

# The steps that are timed, and what can be changed at once, by name.
PROBES: Mapping[str, str] = MappingProxyType(_TABLE["probes"])
REMEDIES: Mapping[str, str] = MappingProxyType(_TABLE["remedies"])


def cause(name: str) -> Cause:
    """The cause of this name. Raises KeyError where there is none."""
    return _ANSWERS[name]
