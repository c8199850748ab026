"""The launchers of a cell that spans nodes: one on every node. They meet, agree on the cell, and end together.

Node 0 listens, and all others connect to it. A launcher proves by a secret that it is of the same job; whoever else
connects is refused. The connections stay open until the cell has ended: where a launcher, its node or the network
between them goes away, the others know it. No cell goes on with fewer nodes. Free of torch.
"""

import hmac
import json
import os
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, Self

import msgspec
import psutil

from dpscale.errors import DpscaleError, MeasurementError
from dpscale.records.files import JsonRecord

# How long the launchers wait for each other: on every node they are started together.
MEET_S = 45.0
TRY_AGAIN_S = 0.2
POLL_S = 0.02
# How long node 0 waits, when one node has failed, for messages of the others: one failure makes others.
ANSWER_S = 2.0
# A node that disappears is noticed after these probes.
PROBE_AFTER_S, PROBE_EVERY_S, PROBES = 5, 5, 4
# Below the range from which connections get their ports.
FIRST_PORT, PORTS = 15_000, 15_000
# What another program sends, which looks for open ports, says that it is longer.
LONGEST_MESSAGE = 2**28
# The variable with the secret of a job. It stands on no command line, which everybody on a node can read.
SECRET = "DPSCALE_SECRET"

# Variables that differ from node to node in every job.
OF_ONE_NODE = ("SLURMD_NODENAME", "CUDA_VISIBLE_DEVICES")

Message = JsonRecord


@dataclass(frozen=True)
class NodePlace:
    """The place of this launcher: node `rank`, from 0, of `nodes`. Node 0 listens at `host` and `port`."""

    nodes: int = 1
    rank: int = 0
    host: str = ""
    port: int = 0

    @property
    def rendezvous(self) -> str:
        return f"{self.host}:{self.port}"

    @classmethod
    def of(cls, nodes: int, rank: int | None, rendezvous: str | None, environment: Mapping[str, str]) -> "NodePlace":
        """Take the place from the command line, otherwise from Slurm. Raises MeasurementError where it is not
        complete."""
        if rank is None and rendezvous is None:
            return cls._from_slurm(nodes, environment)
        host, _, port = (rendezvous or "").rpartition(":")
        if rank is None or rank >= nodes or not host or not port.isdigit():
            raise MeasurementError(
                "--nodes, --node-rank (from 0) and --rendezvous (host:port of node 0) go together: "
                f"{nodes}, {rank} and {rendezvous} are not the place of a node"
            )
        return cls(nodes, rank, host, int(port))

    @classmethod
    def _from_slurm(cls, nodes: int, environment: Mapping[str, str]) -> "NodePlace":
        """Take the place from Slurm's step, which has one launcher per node."""
        launchers, nodes_of_step = (int(environment.get(f"SLURM_STEP_NUM_{unit}", 1)) for unit in ("TASKS", "NODES"))
        if (launchers, nodes_of_step) != (nodes, nodes):
            raise MeasurementError(
                f"there are {launchers} launchers on {nodes_of_step} nodes, the cell needs one on each of {nodes}: "
                f"srun --nodes={nodes} --ntasks={nodes}; without Slurm, --node-rank and --rendezvous"
            )
        if nodes == 1:
            return cls()
        # srun runs on the first node of the job.
        host, port = environment["SLURM_LAUNCH_NODE_IPADDR"], port_of_job(int(environment["SLURM_JOB_ID"]))
        return cls(nodes, int(environment["SLURM_NODEID"]), host, port)


ONE_NODE = NodePlace()


def port_of_job(job_id: int) -> int:
    """Return a port that two jobs on one node do not share: PORTS jobs in a row have different ones."""
    return FIRST_PORT + job_id % PORTS


class Hello(msgspec.Struct, forbid_unknown_fields=True):
    """The first message of a launcher: its node, what it is to measure, its variables, and the proof of its job."""

    rank: int
    host: str
    identity: dict[str, Any]
    environment: dict[str, str]
    proof: str


class OtherNodeError(MeasurementError):
    """Another node has failed or is gone. The message names it."""


@dataclass
class Member:
    """A launcher at the other end of a connection."""

    connection: Connection
    rank: int
    host: str
    environment: Mapping[str, str]
    has_ended: bool = False

    @property
    def name(self) -> str:
        return f"node {self.rank} ({self.host})"

    def receive(self, timeout_s: float) -> Message | None:
        """Return the next message, None where there is none yet. Raises OtherNodeError where the other end is gone, or
        says that it has failed."""
        try:
            if not self.connection.poll(timeout_s):
                return None
            message: Message = msgspec.json.decode(self.connection.recv_bytes(LONGEST_MESSAGE), type=Message)
        except (OSError, EOFError, msgspec.DecodeError, RecursionError) as error:
            message = {"end": ": ".join(filter(None, [f"{self.name} has gone", str(error)]))}
        self.has_ended = "end" in message
        if message.get("end"):
            raise OtherNodeError(message["end"])
        return message

    def send(self, message: Message) -> None:
        self.connection.send_bytes(json.dumps(message).encode())


class NodeTeam:
    """The launchers of a cell. Used as a context: on leaving it, the others learn how this one ended.

    `identity` has the values that must be alike on every node, and `environment` those that may differ. With one node
    there is nobody to meet.
    """

    def __init__(self, place: NodePlace, identity: JsonRecord, environment: Mapping[str, str]):
        self.place = place
        secret = os.environ.get(SECRET, "").encode()
        self._hello = Hello(
            rank=place.rank,
            host=environment.get("SLURMD_NODENAME") or socket.gethostname(),
            identity=json.loads(json.dumps({"nodes": place.nodes, **identity})),
            environment=dict(environment),
            proof=hmac.digest(secret, place.rendezvous.encode(), "sha256").hex(),
        )
        self._members: list[Member] = []
        self._address_of_node_0 = "127.0.0.1"
        self._interface: str | None = None

    def __enter__(self) -> Self:
        try:
            if self.place.nodes > 1:
                self._lead() if self.leads else self._join()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self.send(end=None if error is None else self._reason(error))
        for member in self._members:
            member.connection.close()

    @property
    def leads(self) -> bool:
        """Whether this launcher writes the record."""
        return self.place.rank == 0

    @property
    def name(self) -> str:
        return f"node {self.place.rank} ({self._hello.host})"

    @property
    def environments(self) -> list[Mapping[str, str]]:
        """The variables of every node, in their order; on node 0."""
        return [self._hello.environment, *(member.environment for member in self._members)]

    def ranks(self, workers: int) -> range:
        """Return the ranks of this node's share of so many workers."""
        share = workers // self.place.nodes
        return range(self.place.rank * share, (self.place.rank + 1) * share)

    def for_workers(self) -> JsonRecord:
        """Return the entries of the workers' job about the nodes; none where there is one node. Workers meet where
        their launchers have met."""
        if self.place.nodes == 1:
            return {}
        return {"team": {"nodes": self.place.nodes, "host": self._address_of_node_0, "port": self.place.port}}

    @property
    def variables(self) -> dict[str, str]:
        """The variables that workers need beside those of this process: gloo would take the interface of the host's
        name, which may lead to this host alone."""
        if "GLOO_SOCKET_IFNAME" in os.environ or self._interface is None:
            return {}
        return {"GLOO_SOCKET_IFNAME": self._interface}

    def poll(self, timeout_s: float = 0.0) -> Message | None:
        """Return a message of another launcher, None where there is none yet: to node 0 an outcome, from node 0 that
        the cell has ended well. Raises OtherNodeError where one is gone or has failed."""
        messages = (member.receive(timeout_s) for member in self._members if not member.has_ended)
        return next(filter(None, messages), None)

    def send(self, **message: Any) -> None:
        """Send a message to node 0, and from there to all others.

        It is an `outcome` that a worker here has left; or the `end` of this launcher: the reason why it failed, or None
        where the cell has its outcome, and workers are needed no more.
        """
        for member in self._members:
            with suppress(OSError):  # it is gone, and others notice that themselves
                member.send(message)

    def ask_others(self, failure: MeasurementError) -> JsonRecord:
        """Ask the others whether the cell has an outcome all the same, and return it: one failure makes others.

        Node 0 may learn of an outcome on another node; the others, that node 0 has it already, and ended, which made a
        worker fail here. Raises MeasurementError with all failures in one otherwise.
        """
        if self.place.nodes == 1:
            raise failure
        failures = [self._reason(failure)]
        if not self.leads:
            self.send(end=failures[0])
        until = time.monotonic() + ANSWER_S * (1 if self.leads else 2)
        while not all(member.has_ended for member in self._members) and time.monotonic() < until:
            try:
                if message := self.poll(POLL_S):
                    return dict(message.get("outcome", {}))
            except OtherNodeError as error:
                failures.append(str(error))
        raise OtherNodeError("; ".join(failures) if self.leads else failures[-1]) from failure

    def _reason(self, error: BaseException) -> str:
        """Return the words in which the others learn of an error on this node."""
        if isinstance(error, OtherNodeError):
            return str(error)
        return f"{self.name}: {error}" if isinstance(error, DpscaleError) else f"{self.name} was stopped"

    def _lead(self) -> None:
        """Wait for all others, and let them know when they are there."""
        try:
            door = socket.create_server(("", self.place.port), backlog=self.place.nodes * 64)
        except OSError as error:
            raise MeasurementError(f"{self.name} cannot listen on port {self.place.port}: {error.strerror}") from error
        with door:
            until = time.monotonic() + MEET_S
            while len(self._members) < self.place.nodes - 1:
                door.settimeout(max(until - time.monotonic(), 1e-3))
                try:
                    self._admit(door.accept()[0])
                except TimeoutError as error:
                    raise MeasurementError(
                        f"after {MEET_S:g} s {len(self._members) + 1} of {self.place.nodes} nodes have met at "
                        f"{self.place.rendezvous}: is it reachable from all of them?"
                    ) from error
        self._members.sort(key=lambda member: member.rank)
        ranks = [0, *(member.rank for member in self._members)]
        if ranks != list(range(self.place.nodes)):
            raise MeasurementError(f"the launchers say that they are nodes {ranks}")
        self.send(met=True)

    def _admit(self, connection: socket.socket) -> None:
        """Take a launcher that has come. Raises MeasurementError where it does not run this very cell."""
        with connection.dup() as door:
            _wait_at_most(door, ANSWER_S)
            member = self._member(connection, -1, "")
            try:
                hello = msgspec.convert(member.receive(ANSWER_S), Hello)
                is_of_this_job = hmac.compare_digest(hello.proof, self._hello.proof)
            except (OtherNodeError, msgspec.ValidationError, TypeError):  # another program
                is_of_this_job = False
            _wait_at_most(door, 0)
        if not is_of_this_job:
            member.connection.close()
            return
        member.rank, member.host, member.environment = hello.rank, hello.host, hello.environment
        self._members.append(member)
        expected, identity = self._hello.identity, hello.identity
        differing = [
            f"{key} is {identity.get(key)} there, {expected.get(key)} on node 0"
            for key in expected | identity
            if expected.get(key) != identity.get(key)
        ]
        if differing:
            raise MeasurementError(f"{member.name} does not run the same cell: {'; '.join(differing)}")

    def _join(self) -> None:
        """Connect to node 0, and wait until all others have, too."""
        connection = self._connect()
        self._address_of_node_0 = connection.getpeername()[0]
        node_0 = self._member(connection, 0, self.place.host)
        self._members.append(node_0)
        node_0.send(msgspec.to_builtins(self._hello))
        if node_0.receive(MEET_S + ANSWER_S) is None:
            raise MeasurementError(f"{node_0.name} did not answer within {MEET_S:g} s")

    def _connect(self) -> socket.socket:
        until = time.monotonic() + MEET_S
        while True:
            try:
                return socket.create_connection((self.place.host, self.place.port), timeout=MEET_S)
            except OSError as error:
                if time.monotonic() + TRY_AGAIN_S > until:
                    raise MeasurementError(
                        f"{self.name} did not reach node 0 at {self.place.rendezvous} within {MEET_S:g} s: {error}"
                    ) from error
                time.sleep(TRY_AGAIN_S)

    def _member(self, connection: socket.socket, rank: int, host: str) -> Member:
        """Return the launcher at the other end, and let the kernel notice when it is gone, also where its connection
        was not closed."""
        connection.setblocking(True)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, PROBE_AFTER_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_EVERY_S)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES)
        # While something is sent and not acknowledged, the kernel does not probe: it would send it again for a quarter
        # of an hour.
        gone_after_s = PROBE_AFTER_S + PROBES * PROBE_EVERY_S
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * gone_after_s)
        self._interface = interface_of(connection.getsockname()[0])
        return Member(Connection(connection.detach()), rank, host, {})


def _wait_at_most(connection: socket.socket, seconds: float) -> None:
    """Let whoever reads from a connection wait so long for the rest of a message; 0 is without end."""
    wait = struct.pack("ll", int(seconds), int(seconds % 1 * 1e6))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, wait)


ALONE = NodeTeam(ONE_NODE, {}, {})


def node_differences(nodes: Sequence[JsonRecord]) -> list[str]:
    """Name the hardware, software and variables that are not the same on all nodes."""
    views = [
        {
            **{name: node["hardware"][name] for name in ("device_model", "cpu_model", "cpu_cores")},
            "links": [link["kind"] for link in node["hardware"]["links"]],
            **node["software"],
            "variables": {name: value for name, value in node["environment"].items() if name not in OF_ONE_NODE},
        }
        for node in nodes
    ]
    return [
        f"{name}: {'; '.join(f'{view[name]} on {rank}' for rank, view in enumerate(views))}"
        for name in views[0]
        if any(view[name] != views[0][name] for view in views)
    ]


def interface_of(address: str) -> str | None:
    """Return the network interface that has an address, None where none has."""
    interfaces = psutil.net_if_addrs().items()
    return next((name for name, places in interfaces if address in (place.address for place in places)), None)
