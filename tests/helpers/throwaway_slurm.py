"""A real Slurm on this machine, all of it in one folder, that goes away without a trace.

The daemons are those of the Debian packages; the GPUs are character devices that nobody opens.
"""

import os
import random
import re
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil

PROGRAMS = ("munged", "mariadbd", "slurmdbd", "slurmctld", "slurmd", "sbatch")
# Without them the system's tables are made in 0.3 s; mariadb-install-db adds help texts,
# and started for root it changes the owner of the system MariaDB's PAM helper.
SYSTEM_TABLES = [
    Path("/usr/share/mysql/mysql_system_tables.sql"),
    Path("/usr/share/mysql/mysql_system_tables_data.sql"),
]
MARIADB = [
    "mariadbd",
    "--no-defaults",
    "--user=root",
    "--innodb-log-file-size=4M",
    "--innodb-buffer-pool-size=16M",
    "--innodb-autoextend-increment=1",
    # Nothing of a test need outlive a loss of power; on a busy disk Slurm's tables otherwise take seconds.
    "--innodb-flush-method=nosync",
    "--innodb-file-per-table=0",
    "--debug-no-sync",
]

START_LIMIT_S = 40
STOP_LIMIT_S = 30

SLURM_CONF = """\
ClusterName=throwaway
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[slurmctld]}
SlurmUser=root
SlurmdUser=root
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/%n.pid
MailProg=/bin/true

ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
KillWait=5
MinJobAge=3600
# The nodes have the processors and the memory written here, whatever this machine has.
SlurmdParameters=config_overrides

SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
DefMemPerCPU=2000
# Jobs of tests wait for nothing but their resources.
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1

AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={ports[slurmdbd]}
# Here the socket stands for itself; without it slurmdbd is spoken to by the system's munge.
AccountingStoragePass={folder}/munge.socket
AccountingStorageTRES=gres/gpu
JobAcctGatherType=jobacct_gather/linux

GresTypes=gpu
{nodes}
{configuration}
PartitionName=all Nodes=ALL Default=YES DefaultTime=60 MaxTime=INFINITE
"""

# root has an account of its own by default, which a job without an account gets: the partition does not take it,
# and says so when the job is submitted. Otherwise the job would wait for ever.
ACCOUNTS_ENFORCED = """\
AccountingStorageEnforce=associations
EnforcePartLimits=ALL
PartitionName=DEFAULT AllowAccounts=physics"""

SLURMDBD_CONF = """\
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={ports[slurmdbd]}
SlurmUser=root
AuthInfo=socket={folder}/munge.socket
PidFile={folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
"""


class SlurmError(Exception):
    """The cluster does not do what it should; says what, with the end of the daemon's log."""


def missing_requirement() -> str | None:
    """Why a cluster cannot be started here, or None."""
    if missing := [program for program in PROGRAMS if shutil.which(program) is None]:
        return f"not installed: {', '.join(missing)} (make test-slurm installs them)"
    if os.geteuid() != 0:
        return "a throwaway Slurm is started by root only: its daemons run jobs and its GPUs are made with mknod"
    return None


class ThrowawaySlurm:
    """A cluster of nodes that are all this machine, every one with its GPUs of one type.

    A job may ask for the accounts `physics` and `root`. `configuration` is more for slurm.conf; with
    `ACCOUNTS_ENFORCED`, physics must be asked for by name.
    """

    def __init__(
        self,
        folder: Path,
        nodes: dict[str, tuple[str, int]] | None = None,
        configuration: str = "",
    ):
        self.folder = folder.resolve()
        self.nodes = nodes or {"gn1": ("v100", 4), "gn2": ("v100", 4)}
        self.configuration = configuration
        self.daemons: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> "ThrowawaySlurm":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def environment(self) -> dict[str, str]:
        """The variable by which a client program finds this cluster."""
        return {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def run(self, *command: str, **options: Any) -> subprocess.CompletedProcess[str]:
        """Run a client program, or any other, for this cluster; what it printed is captured."""
        environment = {**os.environ, **self.environment, **options.pop("env", {})}
        return subprocess.run(command, env=environment, capture_output=True, text=True, **options)

    def job_numbers(self) -> list[str]:
        """Return the numbers of all jobs that the controller remembers."""
        return self._answer("squeue", "--noheader", "--states=all", "--format=%i").split()

    def job(self, number: int | str) -> dict[str, str]:
        """Everything the controller knows of one job, by Slurm's own names."""
        line = self._answer("scontrol", "show", "job", "--oneliner", str(number))
        return dict(re.findall(r"([A-Za-z][A-Za-z/:_]*)=(.*?)(?= [A-Za-z][A-Za-z/:_]*=|\s*$)", line))

    def start(self) -> None:
        try:
            self._write()
            self._start_accounting()
            self.start_controller()
            self._start_nodes()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Kill every daemon, every job and whatever else of the cluster is still running."""
        limit = time.monotonic() + STOP_LIMIT_S
        while left := processes_of(self.folder):
            if time.monotonic() > limit:
                raise SlurmError(f"still running after SIGKILL: {left}")
            signal_all(left, signal.SIGKILL)
            time.sleep(0.05)
        for daemon in self.daemons.values():
            daemon.wait()
        self.daemons.clear()

    def kill_node(self, node: str) -> None:
        """End a node as if its power went off: its daemon and all of its jobs say nothing to anybody."""
        parents = {process.pid: process.info["ppid"] for process in self.processes_on(node)}
        processes = {*parents, *parents.values(), self.daemons[node].pid}
        # All of them stand still first: none may see another one's end.
        for ending in (signal.SIGSTOP, signal.SIGKILL):
            signal_all(processes, ending)
        del self.daemons[node]

    def call_down(self, node: str) -> None:
        """Have Slurm give a node up now: by itself it does so after SlurmdTimeout."""
        self._answer("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=silent")

    def processes_on(self, node: str) -> list[psutil.Process]:
        """Return the processes of the jobs on a node, with what `info` says of each, which may have ended since.

        Another cluster on this machine may have a node of the same name.
        """
        in_cluster = processes_of(self.folder)
        return [
            process
            for process in psutil.process_iter(["environ", "ppid", "cmdline"])
            if process.pid in in_cluster and (process.info["environ"] or {}).get("SLURMD_NODENAME") == node
        ]

    def start_controller(self) -> None:
        self._start("slurmctld", "slurmctld", "-D")
        self._await_ready("slurmctld", lambda: self._answer("scontrol", "ping"))
        # The accounting knows where the controller is only after the controller has registered with it.
        registered = ["sacctmgr", "--noheader", "--parsable2", "show", "cluster", "format=controlport"]
        self._await_ready("slurmctld", lambda: self._answer(*registered).strip() not in ("", "0"))
        # Nodes that were there before tell it so at once; otherwise it asks them seconds later.
        signal_all([self.daemons[node].pid for node in self.nodes if node in self.daemons], signal.SIGHUP)

    @contextmanager
    def away(self) -> Iterator[None]:
        """Controller and accounting are not there meanwhile."""
        for name in ("slurmctld", "slurmdbd"):
            daemon = self.daemons.pop(name)
            daemon.terminate()
            daemon.wait()
        yield
        self._start_slurmdbd()
        self.start_controller()

    def forget_jobs(self) -> None:
        """Have the controller start without what it knew of jobs; the accounting still does."""
        controller = self.daemons.pop("slurmctld")
        controller.terminate()
        controller.wait()
        for file in (self.folder / "state").glob("job_state*"):
            file.unlink()
        self.start_controller()

    def manage(self, *words: str) -> None:
        """Have sacctmgr change accounts, limits and QOS."""
        self._answer("sacctmgr", "--immediate", *words)

    def _answer(self, *command: str) -> str:
        done = self.run(*command)
        if done.returncode != 0:
            raise SlurmError(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr}")
        return done.stdout

    def _write(self) -> None:
        for name in ("database", "logs", "state", *(f"spool/{node}" for node in self.nodes)):
            (self.folder / name).mkdir(parents=True)
        write_secret(self.folder / "munge.key", secrets.token_hex(512))
        ports = dict(zip(["slurmctld", "slurmdbd", *self.nodes], free_ports(2 + len(self.nodes)), strict=True))
        write_secret(self.folder / "slurmdbd.conf", SLURMDBD_CONF.format(folder=self.folder, ports=ports))
        host = socket.gethostname().split(".")[0]
        nodes = [
            f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[node]} "
            f"CPUs=8 RealMemory=20000 Gres=gpu:{kind}:{gpus}"
            for node, (kind, gpus) in self.nodes.items()
        ]
        slurm_conf = SLURM_CONF.format(
            folder=self.folder,
            host=host,
            ports=ports,
            nodes="\n".join(nodes),
            configuration=self.configuration,
        )
        (self.folder / "slurm.conf").write_text(slurm_conf)
        self._write_gpus()

    def _write_gpus(self) -> None:
        """Slurm sets CUDA_VISIBLE_DEVICES for character devices only; /dev/null's numbers harm nobody."""
        lines = []
        for node, (kind, gpus) in self.nodes.items():
            for gpu in range(gpus):
                os.mknod(self.folder / f"{node}-nvidia{gpu}", 0o20666, os.makedev(1, 3))
            lines.append(f"NodeName={node} Name=gpu Type={kind} File={self.folder}/{node}-nvidia[0-{gpus - 1}]\n")
        (self.folder / "gres.conf").write_text("".join(lines))

    def _start_accounting(self) -> None:
        # Forced, because munged dislikes folders that only one user can enter, and pytest's are.
        files = [f"--{kind}-file={self.folder}/munge.{kind}" for kind in ("key", "seed", "pid", "log")]
        self._start("munged", "munged", "--foreground", "--force", f"--socket={self.folder}/munge.socket", *files)
        self._await_ready("munged", (self.folder / "munge.socket").is_socket)
        self._start_database()
        self._start_slurmdbd()
        for entry in (["cluster", "throwaway"], ["account", "physics"], ["user", "root", "account=physics"]):
            self._answer("sacctmgr", "--immediate", "add", *entry)

    def _start_slurmdbd(self) -> None:
        # MariaDB knows root by the socket's other end; nothing of it listens on the network.
        self._start("slurmdbd", "slurmdbd", "-D", MYSQL_UNIX_PORT=str(self.folder / "mariadb.socket"))
        self._await_ready("slurmdbd", lambda: self._answer("sacctmgr", "list", "qos"))

    def _start_database(self) -> None:
        mariadb = [*MARIADB, f"--datadir={self.folder}/database", f"--tmpdir={self.folder}/database"]
        tables = "".join(path.read_text() for path in SYSTEM_TABLES)
        statements = f"create database mysql;\nuse mysql;\nset @auth_root_socket='root';\n{tables}"
        done = self.run(*mariadb, "--bootstrap", input=statements)
        if done.returncode != 0:
            raise SlurmError(f"MariaDB could not make its tables: {done.stderr[-2000:]}")
        files = [f"--socket={self.folder}/mariadb.socket", f"--pid-file={self.folder}/mariadb.pid"]
        self._start("mariadbd", *mariadb, "--skip-networking", "--innodb-flush-log-at-trx-commit=0", *files)
        self._await_ready("mariadbd", (self.folder / "mariadb.socket").is_socket)

    def _start_nodes(self) -> None:
        for node in self.nodes:
            self._start(node, "slurmd", "-D", "-N", node)
        for node in self.nodes:
            self._await_ready(node, partial(self._is_idle, node))

    def _is_idle(self, node: str) -> bool:
        return self._answer("sinfo", "--noheader", "--nodes", node, "--format", "%T").strip() == "idle"

    def _start(self, name: str, *command: str, **environment: str) -> subprocess.Popen[bytes]:
        """Sessions of their own keep Ctrl-C from the daemons: they are stopped in order."""
        environment = {**os.environ, **self.environment, **environment}
        with self._log(name).open("ab") as log:
            self.daemons[name] = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        return self.daemons[name]

    def _await_ready(self, name: str, is_ready: Callable[[], object]) -> None:
        """Until is_ready returns something true; an error in it means that it is not ready yet."""
        limit = time.monotonic() + START_LIMIT_S
        while problem := problem_of(is_ready):
            ended = self.daemons[name].poll()
            if ended is not None or time.monotonic() > limit:
                state = f"is not ready after {START_LIMIT_S} s" if ended is None else f"ended with code {ended}"
                log = self._log(name).read_text()[-3000:]
                raise SlurmError(f"{name} {state} ({problem}); its log ends with:\n{log}")
            time.sleep(0.05)

    def _log(self, name: str) -> Path:
        return self.folder / "logs" / f"{name}.log"


def problem_of(is_ready: Callable[[], object]) -> str | None:
    try:
        return None if is_ready() else "not ready"
    except SlurmError as error:
        return str(error)


def write_secret(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)


def free_ports(count: int) -> list[int]:
    """Below the range from which connections get theirs, so that none is taken before its daemon listens."""
    # Below those at which cells on several nodes meet. Tests that run beside these take others: between the look at a
    # port and the start of the daemon that gets it, somebody else could have taken it.
    lowest = 10_000 + 1_000 * (int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % 5)
    ports: set[int] = set()
    while len(ports) < count:
        port = random.SystemRandom().randrange(lowest, lowest + 1_000)
        with closing(socket.socket()) as probe, suppress(OSError):
            probe.bind(("", port))
            ports.add(port)
    return list(ports)


def processes_of(folder: Path) -> set[int]:
    """Return the processes that name the folder in their command line or environment, and those they started."""
    named = re.compile(re.escape(str(folder)) + r"(?![\w.-])")
    running = {process.pid: process.info for process in psutil.process_iter(["ppid", "cmdline", "environ"])}
    running.pop(os.getpid(), None)
    # Where a process ends meanwhile, or is nobody's business, nothing is known of it.
    in_cluster = {
        pid
        for pid, info in running.items()
        if named.search(" ".join([*(info["cmdline"] or ()), *(info["environ"] or {}).values()]))
    }
    while started := {pid for pid, info in running.items() if info["ppid"] in in_cluster} - in_cluster:
        in_cluster |= started
    return in_cluster


def signal_all(processes: Iterable[int], number: signal.Signals) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, number)
