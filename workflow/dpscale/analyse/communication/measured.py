"""What was measured of communication itself, and the estimates of a point's communication side by side."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from dpscale.analyse.communication.collectives import Links, links_of
from dpscale.analyse.communication.estimators import from_steps, isolated_step_s, profiler_state
from dpscale.analyse.timing.points import Comparison
from dpscale.formulas import scaling
from dpscale.formulas.figure import UNKNOWN, Figure
from dpscale.plan.cells import AnyCell, CollectivesCell, CommunicationCell, Configuration
from dpscale.records.files import Record
from dpscale.strategies.strategy import Facts
from dpscale.tables.communication import CommunicationRow

Place = tuple[Configuration, str]  # and the letter of the environment


@dataclass(frozen=True)
class Measurements:
    """What was measured of communication itself, by place: records of steps, and links by the number of GPUs."""

    steps: Mapping[Place, Sequence[Record]]
    links: Mapping[tuple[int, str], Links]
    network: Facts | None

    @classmethod
    def of(cls, records: Mapping[AnyCell, Record], network: Facts | None) -> "Measurements":
        steps: dict[Place, list[Record]] = defaultdict(list)
        collectives: dict[tuple[int, str], list[Record]] = defaultdict(list)
        for cell, record in records.items():
            if isinstance(cell, CommunicationCell):
                steps[cell.configuration, record["environment"]].append(record)
            elif isinstance(cell, CollectivesCell):
                collectives[cell.gpus, record["environment"]].append(record)
        links = {place: links_of(swept, place[1]) for place, swept in collectives.items()}
        return cls(steps, links, network)


def communication_row(compared: Comparison, measured: Measurements) -> CommunicationRow:
    """E1 of an epoch, and every estimate of a step that was measured or can be inferred. Compute and communication
    add up to the epoch."""
    point = compared.point
    records = measured.steps.get((point.configuration, point.environment), ())
    row = replace(
        from_steps(records),
        **compared.fields,
        drift=compared.drift,
        drifted=compared.drifted,
        profiler=profiler_state(records),
        isolated_step_s=_isolated_step_s(compared, measured),
    )
    if not compared.blocks:
        return row
    return replace(
        row,
        communication_s=compared.communication,
        communication_step_s=compared.communication_step,
        epoch_s=compared.epoch.value,
        compute_s=scaling.compute_s(compared.scale.epoch.value, row.gpus),
        communication_share=compared.communication.value / compared.epoch.value,
        step_s=compared.step.value,
    )


def _isolated_step_s(compared: Comparison, measured: Measurements) -> Figure:
    configuration = compared.point.configuration
    links = measured.links.get((configuration.gpus, compared.point.environment))
    if links is None or measured.network is None:
        return UNKNOWN
    return isolated_step_s(
        configuration.strategy, configuration.gpus, configuration.batch_per_gpu, measured.network, links
    )
