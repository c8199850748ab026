"""The columns of every table's file: plain data, for those who only pass files on too. It loads no pandas."""

from collections.abc import Mapping
from types import MappingProxyType

from dpscale.audit import tables as published_audits
from dpscale.vocabulary.quantities import TABLES as DESCRIBED

COLUMNS: Mapping[str, list[str]] = MappingProxyType({
    **{name: [end for column in columns for end in column.names] for name, columns in DESCRIBED.items()},
    **published_audits.COLUMNS,
})  # fmt: skip
TABLES = tuple(COLUMNS)

# Columns to read back as text: version 12.10 is not 12.1, and a column without any entry is no column of numbers.
TEXT_COLUMNS: Mapping[str, type] = MappingProxyType(dict.fromkeys(
    (
        *("environment", "status", "reason", "driver", "cuda", "cudnn", "nccl", "torch", "torchvision", "python"),
        *("git_commit", "job_id", "dataset_sha256", "log", "peak_source", "use", "algorithm"),
        *("beats_unchanged", "backward_from", "fitted_on_gpus"),
        *("path", "host", "hosts", "device_model", "cpu_model", "cpu_cores", "links", "gpu_uuids", "throttle_reasons"),
        *("measurement_versions", "older_measurements", "variables", "ranges", "outliers"),
        *("block", "baseline", "has_drifted", "is_outlier", "profiler", "rung", "adds"),
        *("is_headline", "worth", "slowed_by"),
        *("variant", "other_variant", "is_fastest", "pays", "as_fast", "by_time", "by_gpu_s", "by_energy"),
        *("cause", "is_reason", "is_told", "remedy", "not_seen", "changes", "captured_variant", "graph_variant"),
        *("problem", "used", "better", "saves", "evidence"),
        *("arm", "remedies", "faster_by", "without_remedies", "tuned_on", "recovered_status", "jobs", "first", "last"),
        *published_audits.TEXT_COLUMNS,
    ),
    str,
))  # fmt: skip

# Words in tables that the page looks for: the phase of steps.csv that is a device's whole step; the kinds of rows of
# forecast.csv, and those of them that nothing was measured for; the status of a bandwidth that the communication time
# does not tell; what is said of a profiler that made the step longer, or that shows more exposed communication than
# there is room for in the step.
WHOLE_STEP = "all"
HELD_OUT, EXTRAPOLATED, SCENARIO = "held out", "extrapolated", "scenario"
NOT_MEASURED = (EXTRAPOLATED, SCENARIO)
NOT_RESOLVABLE = "not resolvable"
DISTORTED, ARTEFACT = "distorts", "artefact"
# Whether what is prepared before the clock pays; whether one device is as fast as several; whether a trade of time
# against accuracy is beaten by another.
PAYS, NEVER = "yes", "never"
HOLDS, DOES_NOT = "holds", "does not"
BEST, BEATEN = "best", "beaten"
# In place of a status: what a study has not asked for.
NOT_PLANNED = "not planned"
# Whether more devices are worth it.
WORTH_IT, NOT_WORTH_IT, UNDECIDED = "worth it", "not", "undecided"
