"""Causes of slow training steps on several GPUs, as plain data: every cause once, every step that is timed, and what
can be tried at once.

`diagnosis/attach/` measures, `analyse/causes.py` and `diagnosis/finders.py` find the cause, `diagnosis/diagnose.py`
says it. To add a cause: an entry in `causes.yaml`, its finder there, and a case in the tests (`tests/diagnosis/`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypedDict

from dpscale.vocabulary import own_yaml


class WordsOnCpu(TypedDict, total=False):
    """The words of a cause that differ where workers are processes on a CPU."""

    sentence: str
    change: str


@dataclass(frozen=True)
class Cause:
    """A cause: its name in records and tests, its label, one sentence that describes it, what to change, and the line
    of code to write.

    Below `least_share` of the step it is not named as the reason. `section` is the section of a study's page with the
    evidence, where a study can tell it. Its cost is within the cost of the causes `within`, and is not counted there
    again. A cause that `comes_first` is certain whatever was timed, and changes the meaning of everything else.

    In a script it is what a `probe` does without, an `event` (records.script.ProcessEvents), or a `part` of the step.
    """

    name: str
    label: str
    sentence: str
    change: str
    on_cpu: WordsOnCpu = field(default_factory=WordsOnCpu)
    code: str = ""
    least_share: float = 0.10
    section: str = ""
    within: Sequence[str] = ()
    comes_first: bool = False
    probe: str = ""
    event: str = ""
    part: str = ""

    def on(self, device: str) -> "Cause":
        """Return the cause in the words for a `GPU` or a `worker`."""
        return replace(self, **self.on_cpu) if device == "worker" else self


_TABLE = own_yaml(__file__, "causes.yaml")
CAUSES: Mapping[str, Cause] = {entry["name"]: Cause(**entry) for entry in _TABLE["causes"]}
NOTHING, NO_CERTAIN_LOSS, UNKNOWN = _NO_CAUSE = [Cause(**entry) for entry in _TABLE["no_cause"]]
ANSWERS = {**CAUSES, **{answer.name: answer for answer in _NO_CAUSE}}

# The steps that are timed, what can be changed at once, what is measured beside, and the parts of a step, by name.
PROBES: Mapping[str, str] = _TABLE["probes"]
REMEDIES: Mapping[str, str] = _TABLE["remedies"]
MEASURES: Mapping[str, str] = _TABLE["measures"]
PARTS: Mapping[str, str] = _TABLE["parts"]


def cause(name: str) -> Cause:
    """Return the cause of this name. Raises KeyError where there is none."""
    return ANSWERS[name]
