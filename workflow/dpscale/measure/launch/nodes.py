"""The launchers of a cell that spans nodes: one on every node. They meet, agree on the cell, and end together.

Node 0 listens, and all others connect to it. The connections stay open until the cell has ended: where a launcher, its
node or the network between them goes away, the others know it. No cell goes on with fewer nodes. Free of torch.
"""

import json
import os
import re
import socket
import struct
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fcntl import ioctl
from itertools import cycle
from types import TracebackType
from typing import Any, Self

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
# Where a port is in use, node 0 takes the one so far from it, and the others look for it there.
NEXT_PORT = PORTS // 3
# How long node 0 may take to greet a launcher that has connected.
GREET_S = 3.0
_SIOCGIFADDR = 0x8915  # <linux/sockios.h>

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
    def ports(self) -> list[int]:
        """`port`, and those to meet at where it is in use."""
        return [self.port, *(port_of_job(self.port - FIRST_PORT + step) for step in (NEXT_PORT, 2 * NEXT_PORT))]

    @property
    def rendezvous(self) -> str:
        return f"{self.host}:{self.port}"

    @classmethod
    def of(cls, nodes: int, rank: int | None, rendezvous: str | None, environment: Mapping[str, str]) -> "NodePlace":
        """Take the place from the command line, otherwise from Slurm. Raises MeasurementError where it is not
        complete."""
        if rank is None and rendezvous is None:
            return cls._from_slurm(nodes, environment)
        if nodes == 1 or rank is None or rendezvous is None:
            raise MeasurementError("--nodes (2 or more), --node-rank and --rendezvous go together")
        if rank >= nodes:
            raise MeasurementError(f"--node-rank {rank}: ranks of {nodes} nodes are 0 to {nodes - 1}")
        host, _, port = rendezvous.rpartition(":")
        if not host or not port.isdigit():
            raise MeasurementError(f"--rendezvous {rendezvous}: must be host:port, the first node's")
        return cls(nodes, rank, host, int(port))

    @classmethod
    def _from_slurm(cls, nodes: int, environment: Mapping[str, str]) -> "NodePlace":
        """Take the place from Slurm's step, which has one launcher per node."""
        in_step = "SLURM_STEP_NUM_TASKS" in environment
        if not in_step and nodes > 1:
            raise MeasurementError(f"--nodes {nodes} needs --node-rank and --rendezvous, or srun with a task per node")
        launchers, nodes_of_step = (int(environment.get(f"SLURM_STEP_NUM_{unit}", 1)) for unit in ("TASKS", "NODES"))
        if (launchers, nodes_of_step) != (nodes, nodes):
            raise MeasurementError(
                f"Slurm started {launchers} launchers on {nodes_of_step} nodes, the cell needs one on each of {nodes}. "
                f"With srun: --nodes={nodes} --ntasks={nodes}"
            )
        if nodes == 1:
            return cls()
        host = first_host(environment["SLURM_STEP_NODELIST"])
        if not _resolves(host):  # srun runs on the first node of the job
            host = environment["SLURM_LAUNCH_NODE_IPADDR"]
        return cls(nodes, int(environment["SLURM_NODEID"]), host, port_of_job(int(environment["SLURM_JOB_ID"])))


ONE_NODE = NodePlace()


def first_host(nodes: str) -> str:
    """Return the first host of a list as Slurm writes it: `gn[08-11,14]` is gn08, `a1,b[2-3]` is a1."""
    first = re.match(r"(?:[^,\[]|\[[^\]]*\])+", nodes)
    return re.sub(r"\[(\w+)[^\]]*\]", r"\1", first[0]) if first else ""


def port_of_job(job_id: int) -> int:
    """Return a port that two jobs on one node do not share: PORTS jobs in a row have different ones."""
    return FIRST_PORT + job_id % PORTS


class OtherNodeError(MeasurementError):
    """Another node has failed or is gone. The message names it."""


@dataclass
class Member:
    """A launcher at the other end of a connection."""

    rank: int
    connection: socket.socket
    host: str = ""
    environment: dict[str, str] = field(default_factory=dict)
    unread: bytes = b""
    is_silent: bool = False
    """It sends nothing more. It may still listen."""

    @property
    def name(self) -> str:
        return f"node {self.rank} ({self.host})"

    def send(self, message: Message) -> None:
        self.connection.sendall(json.dumps(message).encode() + b"\n")

    def receive(self, timeout_s: float) -> Message | None:
        """Return the next message, None where there is none yet. Raises OtherNodeError where the other end is gone."""
        self.connection.settimeout(max(timeout_s, 1e-4))
        try:
            while b"\n" not in self.unread:
                received = self.connection.recv(65536)
                if not received:
                    raise OtherNodeError(f"{self.name} has gone")
                self.unread += received
        except TimeoutError as error:
            # The kernel says the same of a connection whose other end does not answer any more.
            if error.errno:
                raise OtherNodeError(f"{self.name} does not answer: {error.strerror}") from error
            return None
        except OSError as error:
            raise OtherNodeError(f"{self.name} has gone: {error.strerror}") from error
        line, _, self.unread = self.unread.partition(b"\n")
        message: Message = json.loads(line)
        return message


class NodeTeam:
    """The launchers of a cell. Used as a context: on leaving it, the others learn how this one ended.

    `identity` has the values that must be alike on every node, and `environment` those that may differ. With one node
    there is nobody to meet.
    """

    def __init__(self, place: NodePlace, identity: JsonRecord, environment: Mapping[str, str]):
        self.place = place
        self.store = ""
        self.listening: socket.socket | None = None
        self._hello: Message = {
            "rank": place.rank,
            "host": environment.get("SLURMD_NODENAME") or socket.gethostname(),
            "identity": json.loads(json.dumps({"nodes": place.nodes, **identity})),
            "environment": dict(environment),
        }
        self._members: list[Member] = []
        self._interface: str | None = None

    def __enter__(self) -> Self:
        try:
            if self.place.nodes > 1:
                self._lead() if self.leads else self._join()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.send(end=None if error is None else self._reason(error))
        for member in self._members:
            member.connection.close()
        if self.listening is not None:
            self.listening.close()

    @property
    def leads(self) -> bool:
        """Whether this launcher writes the record."""
        return self.place.rank == 0

    @property
    def name(self) -> str:
        return f"node {self.place.rank} ({self._hello['host']})"

    @property
    def environments(self) -> list[dict[str, str]]:
        """The variables of every node, in their order; on node 0."""
        return [self._hello["environment"], *(member.environment for member in self._members)]

    def ranks(self, workers: int) -> range:
        """Return the ranks of this node's share of so many workers."""
        share = workers // self.place.nodes
        return range(self.place.rank * share, (self.place.rank + 1) * share)

    def for_workers(self) -> JsonRecord:
        """Return the entries of the workers' job about the nodes; none where there is one node."""
        if self.place.nodes == 1:
            return {}
        descriptor = None if self.listening is None else self.listening.fileno()
        return {"team": {"nodes": self.place.nodes, "store": self.store, "listening": descriptor}}

    @property
    def variables(self) -> dict[str, str]:
        """The variables that workers need beside those of this process: gloo would take the interface of the host's
        name, which may lead to this host alone."""
        if "GLOO_SOCKET_IFNAME" in os.environ or self._interface is None:
            return {}
        return {"GLOO_SOCKET_IFNAME": self._interface}

    def poll(self) -> Message | None:
        """Return a message of another launcher, None where there is none yet: to node 0 an outcome, from node 0 that
        the cell has ended well. Raises OtherNodeError where one is gone or has failed."""
        messages = (self._message_of(member, 0.0) for member in self._talking_members())
        return next(filter(None, messages), None)

    def send(self, **message: Any) -> None:
        """Send a message to node 0, and from there to all others.

        It is an `outcome` that a worker here has left; or the `end` of this launcher: the reason why it failed, or None
        where the cell has its outcome, and workers are needed no more.
        """
        for member in self._members:
            with suppress(OSError):  # it is gone, and others notice that themselves
                member.connection.settimeout(ANSWER_S)
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
        while (members := self._talking_members()) and time.monotonic() < until:
            for member in members:
                try:
                    message = self._message_of(member, POLL_S)
                except OtherNodeError as error:
                    failures.append(str(error))
                    continue
                if message:
                    return dict(message.get("outcome", {}))
        raise OtherNodeError("; ".join(failures) if self.leads else failures[-1]) from failure

    def _message_of(self, member: Member, timeout_s: float) -> Message | None:
        """Return the next message of a launcher, as `poll` does. It sends nothing after its end."""
        try:
            message = member.receive(timeout_s)
        except OtherNodeError:
            member.is_silent = True
            raise
        if message is None or "outcome" in message:
            return message
        member.is_silent = True
        if message["end"] is not None:
            raise OtherNodeError(message["end"])
        return None if self.leads else message

    def _talking_members(self) -> list[Member]:
        return [member for member in self._members if not member.is_silent]

    def _reason(self, error: BaseException) -> str:
        """Return the words in which the others learn of an error on this node."""
        if isinstance(error, OtherNodeError):
            return str(error)
        return f"{self.name}: {error}" if isinstance(error, DpscaleError) else f"{self.name} was stopped"

    def _lead(self) -> None:
        """Wait for all others, and let them know where the workers meet."""
        with self._listen(*self.place.ports) as door:
            until = time.monotonic() + MEET_S
            while len(self._members) < self.place.nodes - 1:
                door.settimeout(max(until - time.monotonic(), 1e-3))
                try:
                    connection, _ = door.accept()
                except TimeoutError as error:
                    raise MeasurementError(
                        f"after {MEET_S:g} s {len(self._members) + 1} of {self.place.nodes} nodes have met at "
                        f"{self.place.rendezvous}: is it reachable from all of them?"
                    ) from error
                self._admit(_watched(connection))
        self._members.sort(key=lambda member: member.rank)
        self.listening = self._listen(0)
        port = self.listening.getsockname()[1]
        self._interface = interface_of(self._members[0].connection.getsockname()[0])
        for member in self._members:
            member.send({"store_port": port})
        self.store = f"127.0.0.1:{port}"

    def _admit(self, connection: socket.socket) -> None:
        """Take a launcher that has come. Raises MeasurementError where it does not run this very cell."""
        member = Member(-1, connection)
        try:
            member.send(self._greeting)
            hello = member.receive(ANSWER_S)
        except (OtherNodeError, OSError, ValueError):
            hello = None
        if not isinstance(hello, dict) or "identity" not in hello:  # another program
            connection.close()
            return
        member.rank, member.host, member.environment = hello["rank"], hello["host"], hello["environment"]
        self._members.append(member)
        expected, identity = self._hello["identity"], hello["identity"]
        differing = [
            f"{key} is {identity.get(key)} there, {expected.get(key)} on node 0"
            for key in expected | identity
            if expected.get(key) != identity.get(key)
        ]
        if differing:
            raise MeasurementError(f"{member.name} does not run the same cell: {'; '.join(differing)}")
        if [launcher.rank for launcher in self._members].count(member.rank) > 1 or member.rank == 0:
            raise MeasurementError(f"{member.name}: two launchers say that they are node {member.rank}")

    def _join(self) -> None:
        """Connect to node 0, and learn where the workers meet."""
        leader = self._connect()
        self._members.append(leader)
        leader.send(self._hello)
        answer = leader.receive(MEET_S + ANSWER_S)
        if answer is None:
            raise MeasurementError(f"{leader.name} did not answer within {MEET_S:g} s")
        if "end" in answer:
            raise OtherNodeError(str(answer["end"]))
        self.store = f"{leader.connection.getpeername()[0]}:{answer['store_port']}"
        self._interface = interface_of(leader.connection.getsockname()[0])

    @property
    def _greeting(self) -> Message:
        """The message by which others recognise node 0 of this cell: another program may listen at its port."""
        return {"meets_at": self.place.port}

    def _connect(self) -> Member:
        until = time.monotonic() + MEET_S
        for port in cycle(self.place.ports):
            try:
                return self._greet(port)
            except (OSError, OtherNodeError, ValueError) as error:
                if time.monotonic() + TRY_AGAIN_S > until:
                    raise MeasurementError(
                        f"{self.name} did not reach node 0 at {self.place.rendezvous} within {MEET_S:g} s: {error}"
                    ) from error
                time.sleep(TRY_AGAIN_S)
        raise AssertionError

    def _greet(self, port: int) -> Member:
        """Connect to node 0 at this port. Raises OSError, OtherNodeError or ValueError where it is not there."""
        connection = _watched(socket.create_connection((self.place.host, port), timeout=GREET_S))
        leader = Member(0, connection, self.place.host)
        try:
            if leader.receive(GREET_S) == self._greeting:
                return leader
            raise ValueError(f"port {port} is in use by another program")
        except BaseException:
            connection.close()
            raise

    def _listen(self, *ports: int) -> socket.socket:
        """Listen on the first of these ports that is free."""
        for port in ports:
            try:
                return socket.create_server(("", port), backlog=self.place.nodes * 64)
            except OSError as error:
                if port == ports[-1]:
                    raise MeasurementError(f"{self.name} cannot listen on port {port}: {error.strerror}") from error
        raise AssertionError


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
    """Return the network interface that has an IPv4 address, None where none has."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with suppress(OSError):  # it has no such address
                answer = ioctl(probe.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()))
                if socket.inet_ntoa(answer[20:24]) == address:
                    return name
    return None


def _watched(connection: socket.socket) -> socket.socket:
    """Let the kernel notice that the other end is gone, also where its connection was not closed."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, PROBE_AFTER_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_EVERY_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, PROBES)
    # While something is sent and not acknowledged, the kernel does not probe: it would send it again for a quarter of
    # an hour.
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * (PROBE_AFTER_S + PROBES * PROBE_EVERY_S))
    return connection


def _resolves(host: str) -> bool:
    try:
        return bool(socket.getaddrinfo(host, None))
    except OSError:
        return False
