"""A copy of the project whose studies are run with `snakemake --profile slurm` on a throwaway cluster."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import yaml

from project import Project
from throwaway_slurm import ThrowawaySlurm

SRUN = """\
#!/bin/sh
# Snakemake takes SLURM_CONF out of the environment of srun: clusters keep their configuration in /etc.
SLURM_CONF={configuration} exec /usr/bin/srun "$@"
"""


# As often as a test likes; the profile as it is has a test of its own.
LOOK_OFTEN = ["--slurm-init-seconds-before-status-checks", "1", "--seconds-between-status-checks", "1"]


GPU_JOBS = {"rehearsal": True, "gpu_jobs": {"gpu_type": "v100"}}
OF_TWO = {**GPU_JOBS, "gpus_per_node": 2}
IMAGES = {"source": "synthetic", "images": 256, "loader_workers": 0}


class SlurmProject(Project):
    """The tiny study (or any other, in study.yaml), one Slurm job a cell."""

    slurm: ThrowawaySlurm
    hurried = True

    @classmethod
    def on(cls, slurm: ThrowawaySlurm, source: Project, folder: Path) -> Self:
        project = cls(source.copy(folder).folder)
        project.slurm = slurm
        programs = folder / "bin"
        programs.mkdir()
        (programs / "srun").write_text(SRUN.format(configuration=slurm.environment["SLURM_CONF"]))
        (programs / "srun").chmod(0o755)
        return project

    @classmethod
    def on_nodes(cls, slurm: ThrowawaySlurm, source: Project, folder: Path, **study: Any) -> Self:
        """A study of one run on nodes of two GPUs each."""
        project = cls.on(slurm, source, folder)
        project.change_study(**{"runs": 1, "dataset": IMAGES, **study})
        project.configure_cluster(**OF_TWO)
        return project

    def command(self, *arguments: str) -> list[str]:
        hurry = LOOK_OFTEN if self.hurried else []
        snakemake = [sys.executable, "-m", "snakemake", "--profile", "slurm"]
        return [*snakemake, *hurry, *arguments, "--configfile", "study.yaml"]

    def snakemake(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Its jobs are forked as well, so none of them may be cancelled: that would end only the process that asked for
        the fork. The profile has the terminal say less than the log."""
        done = super().snakemake(*arguments) if self.hurried else self.command_line(*arguments)
        if not {"-n", "--unlock"} & set(arguments):
            done.stdout += self.full_log()
        return done

    @property
    def environment(self) -> dict[str, str]:
        environment = {**super().environment, **self.slurm.environment}
        return {**environment, "PATH": f"{self.folder / 'bin'}:{environment['PATH']}"}

    @property
    def output(self) -> str:
        return self.log.read_text() + self.full_log()

    def configure_cluster(self, **values: Any) -> None:
        (self.folder / "config/cluster.yaml").write_text(yaml.safe_dump(values))

    def jobs(self, rule: str = "") -> list[dict[str, str]]:
        """Return what Slurm knows of the jobs of a rule, or of all, that this folder submitted; oldest first."""
        jobs = map(self.slurm.job, self.slurm.job_numbers())
        submitted = [job for job in jobs if job["WorkDir"] == str(self.folder) and f"rule_{rule}" in job["Comment"]]
        return sorted(submitted, key=lambda job: int(job["JobId"]))

    def alive(self) -> list[dict[str, str]]:
        return [job for job in self.jobs() if job["JobState"] in ("PENDING", "RUNNING", "COMPLETING")]

    def hosts(self, job: dict[str, str]) -> list[str]:
        """The nodes of a job, in its order."""
        return self.slurm.run("scontrol", "show", "hostnames", job["NodeList"]).stdout.split()


def read(record: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(record.read_text())
    return content


@contextmanager
def changed_configuration(slurm: ThrowawaySlurm, old: str, new: str) -> Iterator[None]:
    path = slurm.folder / "slurm.conf"
    text = path.read_text()
    assert old in text
    try:
        path.write_text(text.replace(old, new))
        assert slurm.run("scontrol", "reconfigure").returncode == 0
        yield
    finally:
        path.write_text(text)
        assert slurm.run("scontrol", "reconfigure").returncode == 0
