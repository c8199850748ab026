"""`snakemake --profile slurm` on a real Slurm: the tiny study, and everything that can go wrong with it.

Its workers measure nothing, but for those of test_nodes_on_slurm.py.
"""

from slurm_project import GPU_JOBS, SlurmProject, read


def test_two_deleted_records_are_two_jobs_that_ask_for_what_the_profile_says(project: SlurmProject) -> None:
    project.configure_cluster(**GPU_JOBS, account="physics", command_prefix="env NCCL_DEBUG=WARN")
    project.change_study(cell_timeout_s=1200)
    records = [project.record(), project.record("single", 1, run=2)]
    for record in records:
        record.unlink()
    assert project.run() == {"study": 1, "time": 2, "tables": 1, "report": 1, "all": 1}
    assert all(read(record)["provenance"]["environment"]["NCCL_DEBUG"] == "WARN" for record in records)
    cells = project.jobs("time")
    assert sorted(read(record)["provenance"]["job_id"] for record in records) == [job["JobId"] for job in cells]
    assert sorted(job["TresPerNode"] for job in cells) == ["gres:gpu:v100:1", "gres:gpu:v100:2"]
    for job in cells:
        assert job["NumNodes"] == "1"
        assert job["TimeLimit"] == "00:30:00"  # 20 minutes of the cell's own, 10 to start
        gpus = int(job["TresPerNode"][-1])
        assert job["NumCPUs"] == str(gpus)
        # Processes, and 128 images of the epoch.
        assert job["MinMemoryNode"] == {1: "4002M", 2: "8002M"}[gpus]
    # The page and the tables are made by jobs without GPUs, and nothing is left to do.
    later = project.jobs()[2:]
    assert [job["Comment"].strip() for job in later] == ["rule_tables", "rule_report"]
    assert all("TresPerNode" not in job for job in later)
    for job in project.jobs():
        assert job["Account"] == "physics"
        assert job["JobName"].startswith("dpscale_")
        assert job["Requeue"] == "0"
    assert project.planned() == {}


def test_a_cell_that_fails_is_tried_with_more_then_named_and_later_measured_alone(project: SlurmProject) -> None:
    """Slow ddp workers and a short limit: the single cells are measured, the ddp cells run out of time twice."""
    project.change_study(batch_per_gpu=[32], cell_timeout_s=5, runs=1)
    project.endless("ddp")
    done = project.snakemake("--jobs", "1")
    assert done.returncode != 0
    measured = project.folder.glob("results/tiny/cells/*/*/batch-32/*")
    assert [path.parts[-4] for path in measured] == ["single"]
    failed = [job for job in project.jobs("time") if job["JobState"] == "FAILED"]
    assert [job["TimeLimit"] for job in failed] == ["00:11:00", "00:11:00"]
    assert [job["MinMemoryNode"] for job in failed] == ["8002M", "16004M"]
    assert "snakemake partial --profile slurm" in done.stdout

    assert project.run("partial") == {"partial": 1}
    page = project.page.read_text()
    assert "This page is partial: 1 measurement without a record that can be used" in page
    assert "Error: stopped after 10 s (cell_timeout_s): 2 of 2 workers were still running" in page

    project.endless_no_more()
    project.change_study(batch_per_gpu=[32], cell_timeout_s=600, runs=1)
    assert project.run() == {"study": 1, "time": 1, "tables": 1, "report": 1, "all": 1}
    assert not project.page_is_partial()
