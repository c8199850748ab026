"""Nodes on one machine: network namespaces on a bridge, every link with a rate that the kernel's token bucket keeps."""

import os
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import ip_network

# Of the bytes that the token bucket counts, a full frame of 1514 carries these of a message: Ethernet, IPv4 and TCP
# with time stamps take the others.
PAYLOAD_SHARE = 1448 / 1514
# As much as the largest packet that is handed to a link: smaller ones would cut it up.
BURST_BYTES = 128_000

NETWORK = "10.213.7.0/24"


def missing_requirement() -> str | None:
    """Why there can be no such network here, or None."""
    if missing := [program for program in ("ip", "tc") if shutil.which(program) is None]:
        return f"not installed: {', '.join(missing)} (apt-get install iproute2)"
    if subprocess.run(["unshare", "--net", "true"], capture_output=True).returncode != 0:
        return "this user, kernel or container makes no network namespaces"
    return None


class ShapedNetwork:
    """`nodes` namespaces whose links carry `rate_mbit` each way. Used as a context; nothing of it stays."""

    def __init__(self, nodes: int, rate_mbit: int):
        self.nodes = nodes
        self.rate_mbit = rate_mbit
        self._name = f"dp{os.getpid()}"  # with what is added, within the 15 characters that a link's name may have

    @property
    def carried_gb_s(self) -> float:
        """Return the rate of messages that a link can carry, in GB/s."""
        return self.rate_mbit * 1e6 / 8 * PAYLOAD_SHARE / 1e9

    def __enter__(self) -> "ShapedNetwork":
        try:
            _run("ip", "link", "add", self._name, "type", "bridge")
            _run("ip", "link", "set", self._name, "up")
            for node in range(self.nodes):
                self._connect(node)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for node in range(self.nodes):
            with suppress(subprocess.CalledProcessError):  # it was not made
                _run("ip", "netns", "del", self._space(node))
        with suppress(subprocess.CalledProcessError):
            _run("ip", "link", "del", self._name)

    def address(self, node: int) -> str:
        return str(ip_network(NETWORK)[node + 1])

    def start(self, node: int, command: Sequence[str], **options: object) -> subprocess.Popen[str]:
        """A program on one of the nodes."""
        words = ["ip", "netns", "exec", self._space(node), *command]
        return subprocess.Popen(words, text=True, **options)  # type: ignore[call-overload, no-any-return]

    def cut(self, node: int) -> None:
        """Take a node off the network without a word."""
        _run("ip", "link", "set", f"{self._name}p{node}", "down")

    def _space(self, node: int) -> str:
        return f"{self._name}-{node}"

    def _connect(self, node: int) -> None:
        space, outer = self._space(node), f"{self._name}p{node}"
        _run("ip", "netns", "add", space)
        _run("ip", "link", "add", outer, "type", "veth", "peer", "name", "net0", "netns", space)
        _run("ip", "link", "set", outer, "master", self._name, "up")
        inside = ["ip", "-n", space]
        _run(*inside, "addr", "add", f"{self.address(node)}/24", "dev", "net0")
        for link in ("lo", "net0"):
            _run(*inside, "link", "set", link, "up")
        # BBR, which some hosts prefer, sends next to nothing for 200 ms every 10 s. By route, for a container may not
        # write to /proc/sys.
        _run(*inside, "route", "replace", NETWORK, "dev", "net0", "congctl", "reno")
        self._shape([], outer)
        self._shape(["ip", "netns", "exec", space], "net0")

    def _shape(self, where: Sequence[str], link: str) -> None:
        rate = ["rate", f"{self.rate_mbit}mbit", "burst", str(BURST_BYTES), "latency", "50ms"]
        _run(*where, "tc", "qdisc", "add", "dev", link, "root", "tbf", *rate)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
