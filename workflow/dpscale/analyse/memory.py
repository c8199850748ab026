"""Rows of the memory of a training step, beside what formulas expect."""

from collections.abc import Iterator, Mapping
from math import nan

from dpscale.analyse.points import point_fields
from dpscale.formulas.memory import States, states_of
from dpscale.plan.cells import AnyCell, Configuration, StepCell, VariantCell
from dpscale.plan.study import BASE
from dpscale.records.kinds import Record, StepMemory, TimingRecord
from dpscale.schemas.settings import BUILT_IN, TimingSettings
from dpscale.strategies.known import BASELINE, strategy
from dpscale.strategies.strategy import NetworkFacts
from dpscale.tables.memory import MemoryRow
from dpscale.tables.row import grouped


def memory_rows(
    study: TimingSettings, records: Mapping[AnyCell, Record], network: NetworkFacts | None
) -> Iterator[MemoryRow]:
    """Yield a row for every configuration whose records look at memory, under every variant and with every network. It
    is of the rank, of all runs, that needs most. `network` has the facts of that in the settings of the `study`."""
    looked_at = [
        (cell, record)
        for cell, record in records.items()
        if isinstance(cell, StepCell) and isinstance(record, TimingRecord) and record.memory
    ]
    of_baseline = grouped(
        (item for item in looked_at if item[0].configuration.strategy == BASELINE), lambda item: item[1].environment
    )
    places = grouped(looked_at, lambda item: (_variant(item[0]), item[0].configuration, item[1].environment))
    for (variant, configuration, environment), measured in places.items():
        memory = max((rank for _, record in measured for rank in record.memory), key=_total)
        settings = measured[0][1].settings
        on_one_gpu = [rank for _, record in of_baseline.get(environment, ()) for rank in record.memory]
        facts = network if settings.same_network(study) else None
        expected = expected_states(configuration, settings, facts, on_one_gpu) if facts else None
        held = memory.allocated
        yield MemoryRow(
            **point_fields(configuration, environment),
            variant=variant,
            weights_bytes=memory.weights_bytes,
            gradients_bytes=memory.gradients_bytes,
            optimiser_bytes=memory.optimiser_bytes,
            expected_bytes=expected.total if expected else nan,
            off=_states(memory) / expected.total - 1 if expected else nan,
            saved_bytes=nan if _saves_in_threads(configuration) else memory.saved_bytes,
            gathered_bytes=_gathered_bytes(memory, configuration, settings),
            held_bytes=held.built_bytes + held.gradients_bytes + held.optimiser_bytes if held else nan,
            activations_bytes=held.activations_bytes if held else nan,
            peak_bytes=held.peak_bytes if held else nan,
        )


def expected_states(
    configuration: Configuration, settings: TimingSettings, network: NetworkFacts, on_one_gpu: list[StepMemory]
) -> States | None:
    """Return what weights, gradients and momenta take by their number. The optimiser of a workload's file keeps as much
    for every weight as it keeps on one GPU; None where nothing was measured there."""
    if settings.workload == BUILT_IN:
        states_per_weight = 1.0 if settings.momentum else 0.0
    elif on_one_gpu:
        states_per_weight = on_one_gpu[0].optimiser_bytes / on_one_gpu[0].gradients_bytes
    else:
        return None
    row = strategy(configuration.strategy)
    replicas = settings.fsdp_replicas if row.own_settings == "fsdp" else 1
    # Numbers of two bytes, for all weights and buffers.
    size = 0.5 if settings.precision == "bfloat16-pure" else 1.0
    return states_of(
        size * network.gradient_bytes,
        size * network.buffer_bytes,
        states_per_weight,
        row.shards,
        configuration.gpus // replicas,
    )


def _saves_in_threads(configuration: Configuration) -> bool:
    """Return whether threads make the forward passes, whose saved tensors the thread that looks does not see."""
    return configuration.gpus > 1 and not strategy(configuration.strategy).has_process_per_gpu


def _gathered_bytes(memory: StepMemory, configuration: Configuration, settings: TimingSettings) -> float:
    """Return the weights that stay whole after the forward pass: those of all that share them, each with as many as it
    has gradients."""
    is_sharded = strategy(configuration.strategy).own_settings == "fsdp"
    if not is_sharded or settings.fsdp_reshard_after_forward:
        return 0.0
    return memory.gradients_bytes * configuration.gpus / settings.fsdp_replicas


def _variant(cell: StepCell) -> str:
    return cell.variant if isinstance(cell, VariantCell) else BASE


def _states(memory: StepMemory) -> int:
    return memory.weights_bytes + memory.gradients_bytes + memory.optimiser_bytes


def _total(memory: StepMemory) -> float:
    return memory.allocated.peak_bytes if memory.allocated else _states(memory) + memory.saved_bytes
