"""Runs as TensorBoard's event files: one folder per run, one file in it.

A file is written whole under a name that is always the same. So a second export replaces the first, and the same runs
are the same bytes.
"""

from collections.abc import Iterator, Mapping, Sequence
from io import BytesIO
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.types_pb2 import DT_STRING
from tensorboard.plugins.text.metadata import create_summary_metadata as text_metadata
from tensorboard.summary.writer.record_writer import RecordWriter

from dpscale.export.runs import Scalar, TrackedRun
from dpscale.records.files import write_bytes

# TensorBoard looks for `tfevents` in the name.
EVENT_FILE = "events.out.tfevents.dpscale"
_FORMAT = "brain.Event:2"


def export(runs: Sequence[TrackedRun], place: Path) -> str:
    """Write the runs under the folder `place`, and return how to look at them."""
    for run in runs:
        write_bytes(place / run.key / EVENT_FILE, _file(run))
    return f"Look at them: tensorboard --logdir {place}"


def _file(run: TrackedRun) -> bytes:
    content = BytesIO()
    writer = RecordWriter(content)
    for event in _events(run):
        writer.write(event.SerializeToString())
    return content.getvalue()


def _events(run: TrackedRun) -> Iterator[Event]:
    yield Event(wall_time=run.started_s, file_version=_FORMAT)
    yield _event(run.started_s, _text("settings", _as_markdown(run.config)))
    for curve in run.curves:
        for number, clock_s, value in curve.points:
            yield _event(clock_s, Summary.Value(tag=curve.name, simple_value=value), number)
    for name, value in run.figures.items():
        yield _event(run.finished_s, Summary.Value(tag=name, simple_value=value))


def _event(clock_s: float, value: Summary.Value, step: int = 0) -> Event:
    return Event(wall_time=clock_s, step=step, summary=Summary(value=[value]))


def _text(tag: str, markdown: str) -> Summary.Value:
    metadata: SummaryMetadata = text_metadata(tag, "")
    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])
    tensor = TensorProto(dtype=DT_STRING, string_val=[markdown.encode()], tensor_shape=shape)
    return Summary.Value(tag=tag, metadata=metadata, tensor=tensor)


def _as_markdown(config: Mapping[str, Scalar]) -> str:
    rows = [f"| {name} | {'' if value is None else value} |" for name, value in config.items()]
    return "\n".join(["| setting | value |", "|---|---|", *rows])
