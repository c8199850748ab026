"""What Snakemake adds to Slurm: 50 cells that measure nothing, one and ten per job of the profile, against plain jobs.

python bench/slurm_overhead.py [repeats]    On a throwaway Slurm of its own, in turn; needs root and Debian's packages.
"""

import shlex
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests/helpers"))  # the cluster is the tests'

from dpscale.plan.cells import TimingCell  # noqa: E402
from dpscale.plan.plan import plan  # noqa: E402
from dpscale.plan.study import Study  # noqa: E402
from dpscale.scheduler import cluster  # noqa: E402
from project import STUDY, Project, wait_for  # noqa: E402
from slurm_project import SlurmProject  # noqa: E402
from throwaway_slurm import ThrowawaySlurm, missing_requirement  # noqa: E402

CHANGES = {"strategies": ["single"], "gpus": [1], "batch_per_gpu": list(range(1, 11)), "runs": 5}
PER_JOB = (1, 10)
# Python runs it when it starts.
COUNTED = """
import sys
if "snakemake" in sys.orig_argv[:3]:
    with open({path!r}, "a") as starts:
        starts.write("1")
"""


def main(repeats: int) -> None:
    if reason := missing_requirement():
        sys.exit(f"slurm_overhead: {reason}")
    study = Study({**STUDY, **CHANGES})
    cells = plan(study).timing
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        (folder / "slurm").mkdir()
        with ThrowawaySlurm(folder / "slurm") as slurm:
            project = SlurmProject.on(slurm, Project.create(ROOT, folder / "source"), folder / "project")
            project.hurried = False
            project.configure_cluster(rehearsal=True)
            project.change_study(**CHANGES)
            project.run("--until", "dataset", "study")
            starts = project.folder / "starts.txt"
            (project.folder / "workflow/sitecustomize.py").write_text(COUNTED.format(path=str(starts)))
            plain_s: list[float] = []
            profile_s: dict[int, list[float]] = {per_job: [] for per_job in PER_JOB}
            for _ in range(repeats):
                plain_s.append(seconds_of_plain_jobs(project, study, cells))
                for per_job, taken_s in profile_s.items():
                    project.configure_cluster(rehearsal=True, cells_per_job=per_job)
                    before = len(project.jobs("time"))
                    starts.write_text("")
                    taken_s.append(seconds_of_the_profile(project, cells))
                    jobs, started = len(project.jobs("time")) - before, len(starts.read_text())
                    print(f"{per_job} per job: {jobs} jobs, Snakemake started {started} times, {taken_s[-1]:.1f} s")
    print(f"{len(cells)} cells, median of {repeats}")
    print(f"plain sbatch jobs                        {median(plain_s):6.1f} s")
    for per_job, taken_s in profile_s.items():
        ratio = median(taken_s) / median(plain_s)
        print(f"snakemake --profile slurm, {per_job:2} per job    {median(taken_s):6.1f} s  {ratio:5.2f} times")


def seconds_of_plain_jobs(project: SlurmProject, study: Study, cells: tuple[TimingCell, ...]) -> float:
    """From the first sbatch to the end of the last job."""
    started = time.monotonic()
    sbatch = [["sbatch", "--parsable", *job(project, study, cell)] for cell in cells]
    numbers = [project.slurm.run(*command, cwd=project.folder).stdout.strip() for command in sbatch]
    wait_for(lambda: {project.slurm.job(number)["JobState"] for number in numbers} == {"COMPLETED"}, timeout_s=600)
    taken_s = time.monotonic() - started
    remove(project, cells)
    return taken_s


def job(project: SlurmProject, study: Study, cell: TimingCell) -> list[str]:
    configuration = cell.configuration
    command = (
        f"dpscale time --strategy {configuration.strategy} --gpus {configuration.gpus}"
        f" --batch-per-gpu {configuration.batch_per_gpu} --run {cell.run}"
        f" --dataset results/tiny/dataset {study.settings.options()} --out results/tiny/{cell.path}"
    )
    asked = [
        f"--gres=gpu:{configuration.gpus}",
        f"--cpus-per-task={cluster.cpus(study.settings, configuration)}",
        f"--mem={cluster.memory_mb(study.settings, configuration, 1)}",
    ]
    path = f"{Path(sys.executable).parent}:$PATH"
    environment = f"export PATH={path} PYTHONPATH={shlex.quote(project.environment['PYTHONPATH'])}"
    return [*asked, "--nodes=1", "--comment=plain", "--output=/dev/null", "--wrap", f"{environment}; {command}"]


def seconds_of_the_profile(project: SlurmProject, cells: tuple[TimingCell, ...]) -> float:
    """From the start of Snakemake to its end."""
    started = time.monotonic()
    done = project.snakemake("--until", "time")
    taken_s = time.monotonic() - started
    assert done.returncode == 0, done.stdout
    remove(project, cells)
    return taken_s


def remove(project: SlurmProject, cells: tuple[TimingCell, ...]) -> None:
    for cell in cells:
        (project.folder / "results/tiny" / cell.path).unlink()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
