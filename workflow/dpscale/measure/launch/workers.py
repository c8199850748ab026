"""Start a cell's workers, watch them, and leave none running. Free of torch, so that it starts at once.

One measurement at a time: two that share a machine would slow each other down, and nobody would see it.
"""

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from dpscale.errors import MeasurementError
from dpscale.measure.launch.nodes import ALONE, POLL_S, NodeTeam
from dpscale.measure.parent import NUMBER, OUTCOME, PARENT_PID, PRELOADED
from dpscale.records.files import JsonRecord
from dpscale.records.temporary import TemporaryFolder

_ENDINGS = (signal.SIGTERM, signal.SIGHUP)
WAIT_S = 0.2
ENDED = "stopped: the process that started this cell has ended"


@contextmanager
def machine_alone(end_with_parent: bool) -> Iterator[None]:
    """Hold this machine, or what a job of Slurm has of it, as long as the context lasts; wait while another process
    holds it.

    The lock is a socket with a name of Linux's own: it leaves no file, has no rights to be set, and ends with its
    process. A container with a network of its own has its own, too. Raises MeasurementError where, with
    `end_with_parent`, the process that started this one has ended meanwhile.
    """
    parent = os.getppid()
    with socket.socket(socket.AF_UNIX) as lock:
        for attempt in itertools.count():
            try:
                lock.bind(f"\0dpscale-measuring-{os.environ.get('SLURM_JOB_ID', '')}")
                break
            except OSError:
                if end_with_parent and os.getppid() != parent:
                    raise MeasurementError(ENDED) from None
            if not attempt:
                print("waiting: another process measures on this machine", file=sys.stderr, flush=True)
            time.sleep(WAIT_S)
        yield


class Workers:
    """Processes running `python -m dpscale.measure.worker <module> <job file> <rank>`, each in its own session.

    They are `count` on all nodes of the `team` together, of which this node has its share, with `gpus` GPUs.

    Used as a context: on leaving it, for whatever reason, every worker and everything it started is killed. A worker
    whose parent has ended is killed too (`end_with_parent`), so that even SIGKILL leaves nothing on a GPU.
    """

    def __init__(self, module: str, job: Mapping[str, object], count: int, gpus: int, team: NodeTeam = ALONE):
        self._parent_pid = os.getppid()
        self._folder = TemporaryFolder()
        self.folder = Path(self._folder.name)
        self._job_file = self.folder / "job.json"
        self._team = team
        self._job_file.write_text(json.dumps({**job, "folder": str(self.folder), **team.for_workers()}))
        self._module = module
        self._count = count
        self._gpus = gpus
        self._environment = {**os.environ, **team.variables, PARENT_PID: str(os.getpid()), **_first_gpus(gpus)}
        self._processes: list[subprocess.Popen[bytes] | ForkedWorker] = []

    def __enter__(self) -> "Workers":
        for ending in _ENDINGS:
            signal.signal(ending, _exit_on_signal)
        for rank in self._team.ranks(self._count):
            self._processes.append(self._begun(rank))
        return self

    def _begun(self, rank: int) -> "subprocess.Popen[bytes] | ForkedWorker":
        """On a CPU by the process that has loaded torch, where there is one."""
        arguments = self._module, str(self._job_file), str(rank)
        path = os.environ.get(PRELOADED)
        if path and not self._gpus and self._team.place.nodes == 1:
            request = self.folder / f"fork-{rank}.json"
            asked = {"arguments": arguments, "environment": self._environment, "folder": str(Path.cwd())}
            request.write_text(json.dumps(asked))
            if forked := ForkedWorker.begin(path, request):
                return forked
        return subprocess.Popen(
            [sys.executable, "-m", "dpscale.measure.worker", *arguments],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )

    def __exit__(self, *error: object) -> None:
        for process in self._processes:
            if process.poll() is None:
                with suppress(ProcessLookupError):  # it ended meanwhile
                    os.killpg(process.pid, signal.SIGKILL)
        for process in self._processes:
            process.wait()
        self._folder.cleanup()

    def outcome(self, timeout_s: float, end_with_parent: bool) -> JsonRecord:
        """Return the outcome as soon as one worker has written it, which ends the cell.

        Nothing waits for the workers to shut down CUDA and NCCL, which takes seconds; and where one of them ran out of
        memory, the others wait for it forever. On all nodes but node 0 the outcome is empty, and there when node 0 has
        it.

        Raises MeasurementError where a worker ends first or reports that it cannot measure, where they are not done
        after `timeout_s` seconds, where another node has failed, and, with `end_with_parent`, where the process that
        started this one has ended.
        """
        try:
            outcome = self._first_outcome(timeout_s, end_with_parent)
        except MeasurementError as error:
            outcome = self._team.ask_others(error)
        if outcome.get("status") == "failed":
            raise MeasurementError(outcome["message"])
        return outcome

    def _first_outcome(self, timeout_s: float, end_with_parent: bool) -> JsonRecord:
        deadline = time.monotonic() + timeout_s
        ranks = self._team.ranks(self._count)
        has_reported = False
        while True:
            if (self.folder / OUTCOME).exists() and not has_reported:
                outcome: JsonRecord = json.loads((self.folder / OUTCOME).read_text())
                if self._team.leads:
                    self._team.send(end=None)
                    return outcome
                self._team.send(outcome=outcome)
                has_reported = True
            if message := self._team.poll():
                self._team.send(end=None)
                return dict(message.get("outcome", {}))
            codes = [process.poll() for process in self._processes]
            for rank, code in zip(ranks, codes, strict=True):
                if code and not has_reported:
                    raise MeasurementError(f"worker {rank} of {self._count} {_describe(code)}; see its traceback above")
            if time.monotonic() > deadline:
                raise MeasurementError(
                    f"stopped after {timeout_s:g} s (cell_timeout_s): "
                    f"{codes.count(None)} of {len(codes)} workers were still running"
                )
            if end_with_parent and os.getppid() != self._parent_pid:
                raise MeasurementError(ENDED)
            time.sleep(POLL_S)


class ForkedWorker:
    """A worker that measure/worker/preloaded.py has forked, with what is needed of `subprocess.Popen`."""

    def __init__(self, connection: socket.socket, pid: int):
        self._connection = connection
        self.pid = pid
        self._code: int | None = None

    @classmethod
    def begin(cls, path: str, request: Path) -> "ForkedWorker | None":
        """The worker of a request, with this process's output; None where nobody answers at the socket `path`."""
        connection = socket.socket(socket.AF_UNIX)
        with suppress(OSError):
            connection.connect(path)
            socket.send_fds(connection, [str(request).encode()], [sys.stdout.fileno(), sys.stderr.fileno()])
            if answer := connection.recv(NUMBER.size, socket.MSG_WAITALL):
                return cls(connection, NUMBER.unpack(answer)[0])
        connection.close()
        return None

    def poll(self) -> int | None:
        with suppress(BlockingIOError):
            self._receive(socket.MSG_DONTWAIT)
        return self._code

    def wait(self) -> None:
        self._receive(0)
        self._connection.close()

    def _receive(self, flags: int) -> None:
        if self._code is None:
            answer = self._connection.recv(NUMBER.size, flags)
            # Nothing comes where that process was killed: its workers are, too.
            self._code = NUMBER.unpack(answer)[0] if answer else -signal.SIGKILL


def _first_gpus(gpus: int) -> dict[str, str]:
    """Hide all but the first `gpus` of the GPUs that this process may use. None are hidden for a CPU cell."""
    if not gpus:
        return {}
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = [str(index) for index in range(gpus)] if visible is None else visible.split(",")[:gpus]
    return {"CUDA_VISIBLE_DEVICES": ",".join(names)}


def _describe(code: int) -> str:
    if code < 0:
        name = signal.Signals(-code).name
        hint = " (out of host memory?)" if -code == signal.SIGKILL else ""
        return f"was killed by {name}{hint}"
    return f"ended with exit code {code}"


def _exit_on_signal(number: int, _frame: FrameType | None) -> None:
    for ending in _ENDINGS:  # Slurm sends it twice: the second must not interrupt what the first one started
        signal.signal(ending, signal.SIG_IGN)
    # Not through sys.stderr, which the signal may have interrupted.
    os.write(sys.stderr.fileno(), f"Error: stopped by {signal.Signals(number).name}\n".encode())
    raise SystemExit(128 + number)
