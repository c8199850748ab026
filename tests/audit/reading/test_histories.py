"""`dpscale import`: histories as trackers download them, and the published study that they make."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from command_line import dpscale, must
from dpscale.audit.reading.histories import Axis, epoch_times, named
from dpscale.audit.reading.published import Published, Spot
from dpscale.errors import PublishedError

# Of epochs of so many seconds each.
ENDS_S = (1654943296.2150, 1654943314.3150, 1654943332.6150, 1654943350.8150)
EPOCHS_S = [18.1, 18.3, 18.2]
ONE_GPU = Spot(128, 1)


def tensorboard(path: Path, ends_s: tuple[float, ...] = ENDS_S) -> Path:
    rows = [f"{end_s:.4f},{epoch},{60 + epoch}" for epoch, end_s in enumerate(ends_s)]
    path.write_text("\n".join(["Wall time,Step,Value", *rows]) + "\n")
    return path


def mlflow(path: Path) -> Path:
    """A chart of two metrics, with two runs; the second one twice as fast. Milliseconds."""
    lines = ["Run,Run ID,metric,step,timestamp,value"]
    for run, factor in (("one", 1.0), ("two", 0.5)):
        for metric, later_s in (("loss", 0.0), ("accuracy", 0.25)):
            for epoch, end_s in enumerate(ENDS_S):
                stamp = 1000 * (ENDS_S[0] + factor * (end_s - ENDS_S[0]) + later_s)
                lines.append(f"{run},id-{run},{metric},{epoch},{stamp:.0f},0.5")
    path.write_text("\n".join(lines))
    return path


def wandb_history(path: Path) -> Path:
    """Ten rows per epoch, logged every five of 50 steps; the last row of an epoch at its end. `epoch` stands on all."""
    lines = ["_step,_runtime,_timestamp,epoch,loss"]
    for epoch, (begin_s, end_s) in enumerate(pairwise(ENDS_S)):
        for row in range(1, 11):
            at_s = begin_s + (end_s - begin_s) * row / 10
            lines.append(f"{50 * epoch + 5 * row},{at_s - ENDS_S[0]:.4f},{at_s:.4f},{epoch},0.5")
    path.write_text("\n".join(lines))
    return path


def wandb_chart(path: Path) -> Path:
    """The chart of _timestamp over the step, with two runs of different length."""
    lines = ['"Step","one - _timestamp","one - _timestamp__MIN","two - _timestamp"']
    lines += [f'"{epoch}","{end_s:.4f}","{end_s:.4f}",""' for epoch, end_s in enumerate(ENDS_S)]
    lines += [f'"{epoch}","","","{1000 + epoch}"' for epoch in range(3)]
    path.write_text("\n".join(lines))
    return path


def times(file: str, axis: Axis = "epoch", place: Spot = ONE_GPU, images: int = 50_000) -> list[float]:
    found = epoch_times(named(Path(file), axis), place, images, axis)
    return [round(seconds, 3) for seconds in found.epoch_s]


@pytest.mark.parametrize(
    ("make", "run", "expected"),
    [
        (tensorboard, "", EPOCHS_S),
        (mlflow, "::id-one", EPOCHS_S),  # of two metrics at one step the later time stamp is the step's
        (mlflow, "::id-two", [9.05, 9.15, 9.1]),
        (wandb_history, "", EPOCHS_S[1:]),
        (wandb_chart, "::one", EPOCHS_S),
        (wandb_chart, "::two", [1.0, 1.0]),
    ],
)
def test_a_file_of_a_tracker(tmp_path: Path, make: Callable[[Path], Path], run: str, expected: list[float]) -> None:
    assert times(f"{make(tmp_path / 'x.csv')}{run}") == expected


def test_the_steps_of_a_wandb_run_tell_its_epochs_too(tmp_path: Path) -> None:
    """50 of 1,000 images on two GPUs at batch 10 are an epoch."""
    assert times(str(wandb_history(tmp_path / "w.csv")), "step", Spot(10, 2), 1000) == EPOCHS_S[1:]


@pytest.mark.parametrize(
    ("lines", "axis", "expected"),
    [
        # MLflow's older form.
        (["run_id,key,value,step,timestamp", *(f"ab12,loss,0.5,{n},{1000 * end_s:.0f}" for n, end_s in
                                               enumerate(ENDS_S))], "epoch", EPOCHS_S),
        # Logged every 7 of 100 steps, at 0.5 s each: an epoch's end is interpolated.
        (["Wall time,Step,Value", *(f"{1000 + 0.5 * n},{n},1" for n in range(0, 400, 7))], "step", [50.0] * 3),
        # Epochs in fractions.
        (["_step,_timestamp,epoch", *(f"{n},{1000 + 0.5 * n},{n / 100}" for n in range(0, 301, 30))], "epoch",
         [50.0] * 3),
    ],
)  # fmt: skip
def test_other_forms(tmp_path: Path, lines: list[str], axis: Axis, expected: list[float]) -> None:
    (tmp_path / "x.csv").write_text("\n".join(lines))
    assert times(str(tmp_path / "x.csv"), axis, Spot(10, 1), 1000) == expected


def test_a_run_of_several_must_be_named(tmp_path: Path) -> None:
    file = mlflow(tmp_path / "m.csv")
    with pytest.raises(PublishedError, match=r"m.csv: has several runs. Name one: .*m.csv::id-one, .*m.csv::id-two"):
        times(str(file))
    with pytest.raises(PublishedError, match=r"m.csv: has no run other, but id-one, id-two"):
        times(f"{file}::other")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "has no rows"),
        ("epoch,loss\n1,2\n", "its columns are epoch, loss. A history is the CSV of a TensorBoard chart"),
        ("Wall time,Step,Value\nyesterday,1,2\n", "yesterday is no number"),
        ("Wall time,Step,Value\n,1,2\n", "has no time stamps"),
        ("Wall time,Step,Value\n1,0,60\n", "no epoch has both its start and its end in the history, 0 to 0"),
        ("Wall time,Step,Value\n100,1,0\n100,2,0\n101,3,0\n101,4,0\n", "too rough"),
    ],
)
def test_what_is_no_history_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "x.csv").write_text(text)
    with pytest.raises(PublishedError, match=reason):
        times(str(tmp_path / "x.csv"))


def test_histories_become_a_published_study_that_can_be_audited(tmp_path: Path) -> None:
    """Repeats are averaged, and no digit is printed that the time stamps do not tell."""
    one, slower = tensorboard(tmp_path / "one.csv"), tuple(2 * end_s for end_s in ENDS_S)
    again, both = tensorboard(tmp_path / "again.csv", slower), mlflow(tmp_path / "both.csv")
    runs = [("128", "1", one), ("128", "1", again), ("128", "2", f"{both}::id-two"), ("256", "2", f"{both}::id-one")]
    options = [word for run in runs for word in ("--run", *run)]
    out = tmp_path / "our-runs.yaml"
    described = ("--images", 50_000, "--parameters", 11_173_962, "--title", 'Our "runs": two GPUs')
    printed = must("import", "--axis", "epoch", *described, "--out", out, *options)
    assert "batch 128 per GPU on 2 GPUs: 9.10 s per epoch" in printed
    study = Published.read(out)
    assert (study.id, study.title) == ("our-runs", 'Our "runs": two GPUs')
    assert {tuple(place): str(time) for place, time in study.epoch_s.items()} == {
        (128, 1): "27.300",  # the mean of 18.2 and 36.4
        (128, 2): "9.10",  # of milliseconds: a difference is known to hundredths
        (256, 2): "18.20",
    }
    must("audit", out, "--out", tmp_path)
    assert '"value": 3.0' in (tmp_path / "our-runs.json").read_text(), "27.3 / 9.1"


def test_a_history_that_cannot_be_read_is_told_in_one_line(tmp_path: Path) -> None:
    described = ("--images", 50_000, "--title", "Ours", "--out", tmp_path / "ours.yaml")
    done = dpscale("import", "--axis", "epoch", *described, "--run", 128, 1, tmp_path / "none.csv")
    assert done.returncode == 1
    assert done.stderr.startswith(f"Error: {tmp_path}/none.csv: cannot be read:")
    assert not (tmp_path / "ours.yaml").exists()
