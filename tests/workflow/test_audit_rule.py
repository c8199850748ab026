"""Other people's figures in a real workflow: made when they changed, and never a reason to measure.

On a partial page: test_reruns.py.
"""

import os

from project import Project

FILES = [f"config/published/study-{letter}.yaml" for letter in "ad"]
AUDITED = {"audit": 1, "tables": 1, "report": 1, "all": 1}


def test_figures_are_audited_where_they_the_code_or_the_outcome_are_others(project: Project) -> None:
    """rsync and mv put a file in the place of another and keep its time."""
    project.change_study(published=FILES)
    assert project.run("--until", "tables") == {"study": 1, "audit": 1, "tables": 1}
    results = project.folder / "results/tiny"
    assert {path.stem for path in (results / "audit").iterdir()} == {"study-a", "study-d"}
    assert "study-a,speedup,32,2,1.40," in (results / "tables/audit.csv").read_text()

    file = project.folder / FILES[0]
    times = file.stat()
    file.write_text(file.read_text().replace("2: 1.40", "2: 1.41"))
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert project.run() == AUDITED
    assert "speedup 1.41; the times give 1.40" in project.audit_page.read_text()
    assert "27.9 against 26.9 s" in project.audit_page.read_text()
    assert project.planned() == {}

    lost = results / "audit/study-d.json"
    content = lost.read_text()
    lost.write_text("{")
    assert project.planned() == AUDITED
    lost.write_text(content)
    conventions = project.folder / "workflow/dpscale/audit/conventions.py"
    code = conventions.read_text()
    conventions.write_text(f"{code}\n# edited\n")
    assert project.planned() == AUDITED
    conventions.write_text(code)

    project.change_study(published=FILES[:1])
    assert project.run("--until", "tables") == {"study": 1, "tables": 1}
    assert "study-d," not in (results / "tables/audit.csv").read_text()
