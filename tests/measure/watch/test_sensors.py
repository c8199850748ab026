"""Observations of GPUs and hosts during an epoch."""

from dpscale.measure.watch.sensors import GpuEvents, HostLoad, Observation, _reasons


def test_nodes_are_joined_with_all_gpus_and_the_busiest_host() -> None:
    gpus = [GpuEvents(["power cap"], {"power": 0.5}), GpuEvents(None, None)]
    first = Observation(10, gpus[:1], HostLoad(1.5, 0.0), None)
    second = Observation(9, gpus[1:], HostLoad(0.5, 0.25), 1)
    assert Observation.of_nodes([first, second]) == Observation(9, gpus, HostLoad(1.5, 0.25), 1)


def test_reasons_are_known_where_every_sample_has_them() -> None:
    assert _reasons([["power cap"], [], ["thermal", "power cap"]]) == ["power cap", "thermal"]
    assert _reasons([["power cap"], None]) is _reasons([]) is None
