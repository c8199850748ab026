"""Faults that a user is told in one line."""


class DpscaleError(Exception):
    """A fault that the user can understand and mend. The message says what, where, and what to do."""


class StudyError(DpscaleError):
    """A study that cannot be planned."""


class ClusterError(DpscaleError):
    """A cluster that is described wrongly, or that will not run the jobs asked of it."""


class RecordError(DpscaleError):
    """A record that is damaged or not a record."""


class TableError(DpscaleError):
    """A table's file that is not as it was written."""


class DatasetError(DpscaleError):
    """Images that are missing, damaged or not what the study asks for."""


class WorkloadError(DpscaleError):
    """A user's own network, data or loss that cannot be trained as it is written."""


class MeasurementError(DpscaleError):
    """A measurement that could not be made. It leaves no record."""


class PublishedError(DpscaleError):
    """A file of published figures that is not valid."""


class ComparisonError(DpscaleError):
    """Two studies whose numbers cannot be compared."""


class StrategyError(DpscaleError):
    """A strategy that is not known, or not known to what was asked."""
