"""How often a command ends in a traceback, or gives no answer, where one of its files is not what it should be.

    python -m bench.fuzz --inputs 10000 --seed 1

A small finished study has a record of every kind, logs, tables and published figures. An input is one of its files with
something wrong in it: a piece cut out, doubled or replaced by what no file has, another kind of file in its place. The
commands that read it are then called as they are. Prints a table by kind; every fault is printed as it is seen.
"""

import argparse
import json
import multiprocessing
import os
import re
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir, contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "workflow"), str(ROOT / "tests/helpers")]

import yaml  # noqa: E402
from click.testing import CliRunner  # noqa: E402

from dpscale.cli import main as dpscale  # noqa: E402
from dpscale.plan.cells import VariantCell  # noqa: E402
from dpscale.plan.plan import plan  # noqa: E402
from dpscale.plan.study import Study  # noqa: E402
from record_factory import any_record, network_facts, write  # noqa: E402

# Processor time after which a command has given no answer; a command that only waits has longer, as machines are busy.
ANSWER_S, WAITING_S = 5.0, 30.0
MOST_MEMORY_BYTES = 4_000_000_000
ARM = {"strategy": "ddp", "gpus": 2, "batch_per_gpu": 64, "epochs": 2}
STUDY: dict[str, Any] = {
    "study": "fuzz",
    "gpus": [1, 2],
    "strategies": ["single", "ddp"],
    "batch_per_gpu": [32, 64],
    "runs": 2,
    "communication": {"runs": 1, "batch_per_gpu": [32]},
    "variants": {"half": {"precision": "bfloat16", "batch_per_gpu": [32], "runs": 1}},
    "training": {"arms": {"small": ARM, "late": {**ARM, "learning_rate": 0.4}}, "baseline": "small", "seeds": 1},
}
STUDY_FILE, RESULTS, ELSEWHERE = Path("config/fuzz.yaml"), Path("results/fuzz"), Path("elsewhere/fuzz")
ON_STUDY = [str(STUDY_FILE)]
TABLES = ["tables", *ON_STUDY, "--results", str(RESULTS), "--out", "out/tables"]
PLAN = ["plan", str(STUDY_FILE), "--json"]
BOTH = ["--results", str(RESULTS), "--results", str(ELSEWHERE)]
COMPARE = ["compare", *ON_STUDY, *ON_STUDY, *BOTH, "--json", "--out", "out/compared.html"]
LOG = """measuring
Traceback (most recent call last):
RuntimeError: no link
Error: rank 1 failed; see its traceback above
"""
# Figures in every format that is a text; two more are written below.
PUBLISHED = [
    "config/published/study-a.yaml",
    *(f"tests/audit/tables/seeds/study-{name}" for name in ("a.ipynb", "b.markdown", "c.txt", "d.html")),
    *(f"tests/audit/tables/small/{name}" for name in ("t14-wrapped.tex", "t15-list.rst")),
]
AUDITED = """Batch,GPUs,Epoch time (s),Speedup,Bandwidth (GB/s)
32,1,25.86,1.00,
32,2,36.93,1.40,0.0018
32,4,27.25,3.80,0.0031
"""

# What stands in place of a value, in any file.
NO_VALUE: Sequence[Any] = (
    None, True, -1, 0, 1e300, -1e300, 1e-300, 10**18, "1" + "0" * 400, "9" * 5_000, "NaN", "inf", "-inf", "two", "",
    " ", "2024-13-45", "2026-11-27", "12026-01-01T00:00:00+00:00", "0x_", "0b_", "!!float abc", "!!timestamp x",
    "1:99:99", "a\0b", "\ud800", "\u202e", "x" * 300, "{braces}", "../../up", "/dev/zero", [], {}, [[]], {"": {}},
    [1e300, 1e-300], ["a", 1, None],
)  # fmt: skip
# What stands in place of a piece of text.
NO_TEXT = (
    "[" * 3_000, '{"a":' * 3_000, "- " * 3_000, "&a [*a]", "<<: ", "\0", "\t", "\r", '"', "'", ",", ";", ": ", "}", "|",
    "\n\n", "\ufeff", "\u202e", "\x1b[31m", "9" * 5_000, "1e400", "-0", "1.2.3 GB/s", "((((" * 80, "-" * 2_000,
)  # fmt: skip


# How commands end, from good to bad.
WORDS = ("read", "refused", "several lines", "no answer", "traceback")


class NoAnswerError(BaseException):
    """A command took too long. No `except Exception` may hide it."""


@dataclass
class Outcome:
    """How the commands on an input ended; `fault` is the traceback, or what had no answer."""

    word: str
    fault: str = ""


@dataclass(frozen=True)
class Kind:
    """Inputs of a kind: the files to change and what then reads them."""

    name: str
    files: Callable[[Path], Sequence[Path]]
    commands: Callable[[Path], Sequence[Sequence[str]]]


def files(*patterns: str) -> Callable[[Path], Sequence[Path]]:
    """Return what finds the files of a project with such paths."""
    return lambda project: sorted(path for pattern in patterns for path in project.glob(pattern))


ON_TABLES = [
    ["handin", *ON_STUDY, "--tables", "tables", "--out", "out/handin"],
    ["report", *ON_STUDY, "--tables", "tables", "--out", "out/page.html"],
]
RECORDS = files("results/fuzz/*/**/*.json", "results/fuzz/network.json")
KINDS = (
    Kind("records", RECORDS, lambda path: [PLAN, TABLES]),
    Kind("compared records", RECORDS, lambda path: [["summary", *ON_STUDY], COMPARE]),
    Kind("logs", files("results/fuzz/logs/**/*.log"), lambda path: [PLAN]),
    Kind("study files", files("config/fuzz.yaml"), lambda path: [PLAN]),
    Kind("tables", files("tables/*.csv"), lambda path: ON_TABLES),
    Kind("published files", files("published/*"), lambda path: [["audit", str(path), "--out", "out/audit"]]),
)


def make_project(folder: Path) -> None:
    """Fill a folder with the finished study: its file, records, logs and tables, and published figures."""
    (folder / "published").mkdir(parents=True)
    (folder / "config").mkdir()
    (folder / STUDY_FILE).write_text(yaml.safe_dump(STUDY))
    study = Study(STUDY)
    results = folder / RESULTS
    for cell in plan(study).all_cells:
        settings = cell.settings if isinstance(cell, VariantCell) else study.settings
        for place, job, times_s in ((RESULTS, "1", [1.0, 1.1]), (ELSEWHERE, "2", [0.5, 0.6])):
            record = any_record(cell, settings, times_s)
            record["provenance"]["job_id"] = job  # of no record of the other place
            write(folder / place, cell, record)
    (results / "network.json").write_text(json.dumps(network_facts(study.settings)))
    for path in sorted(results.glob("communication/**/*.json")):
        path.unlink()
        log = results / "logs" / path.relative_to(results).with_suffix(".log")
        log.parent.mkdir(parents=True)
        log.write_text(LOG)
    for file in PUBLISHED:
        shutil.copy(ROOT / file, folder / "published")
    (folder / "published/table.csv").write_text(AUDITED)
    rows = [line.split(",") for line in AUDITED.splitlines()]
    rows.insert(1, ["--"] * 5)
    (folder / "published/table.markdown").write_text("".join(f"| {' | '.join(row)} |\n" for row in rows))
    with chdir(folder):
        done = CliRunner().invoke(dpscale, [*TABLES[:-1], "tables"])
    assert done.exit_code == 0, done.output


def changed(random: Random, text: str) -> str:
    """Return a text with a piece of it cut out, doubled or replaced."""
    first = random.randrange(len(text) + 1)
    last = min(len(text), first + random.choice((0, 1, 5, 50, 1_000)))
    words = [match.span() for match in re.finditer(r"[\w.+-]+", text)]
    if words and random.random() < 0.6:
        first, last = random.choice(words)
    value = random.choice(NO_VALUE)
    word = value if isinstance(value, str) else json.dumps(value)
    pieces = (word, word, random.choice(NO_TEXT), "", text[first:last] * 2, text[:50])
    return text[:first] + random.choice(pieces) + (text[last:] if random.random() < 0.95 else "")


def changed_values(random: Random, values: Any) -> Any:
    """Return the contents of a JSON file with something else at one place."""
    if isinstance(values, dict | list) and values and random.random() < 0.9:
        copy: Any = values.copy()
        key = random.choice([*copy]) if isinstance(copy, dict) else random.randrange(len(copy))
        if random.random() < 0.1:
            copy.pop(key)
        elif isinstance(copy, list) and random.random() < 0.1:
            copy *= random.choice((0, 2, 1_000))
        else:
            copy[key] = changed_values(random, copy[key])
        return copy
    if isinstance(values, int | float) and random.random() < 0.3:
        return values * random.choice((-1, 0, 0.5, 1e6, 1e-9, 1e200))
    return random.choice(NO_VALUE)


def replaced(random: Random, path: Path) -> None:
    """Put something that is no such file in the place of one."""
    path.unlink()
    match random.randrange(6):
        case 0:
            os.mkfifo(path)
        case 1:
            path.symlink_to("/dev/zero")
        case 2:
            path.mkdir()
        case 3:
            path.symlink_to(path)
        case 4:
            path.write_bytes(b"[" + b"1.5," * 8_000_000 + b"1]")
        case 5:
            path.write_bytes(random.randbytes(2_000))


def spoil(random: Random, path: Path) -> None:
    """Make something wrong in a file, or of it."""
    text = path.read_text()
    if random.random() < 0.02:
        replaced(random, path)
    elif path.suffix in (".json", ".yaml") and random.random() < 0.6:
        values = changed_values(random, yaml.safe_load(text) if path.suffix == ".yaml" else json.loads(text))
        path.write_text(json.dumps(values) if path.suffix == ".json" else yaml.safe_dump(values))
    else:
        for _ in range(random.choice((1, 1, 1, 2, 5))):
            text = changed(random, text)
        path.write_bytes(text.encode(random.choice(("utf-8",) * 19 + ("utf-16",)), "surrogatepass"))


@contextmanager
def limited() -> Iterator[None]:
    """Raise NoAnswerError where what is done takes too long."""

    def stop(signal_number: int, frame: object) -> None:
        raise NoAnswerError

    for number in (signal.SIGPROF, signal.SIGALRM):
        signal.signal(number, stop)
    signal.setitimer(signal.ITIMER_PROF, ANSWER_S)
    signal.setitimer(signal.ITIMER_REAL, WAITING_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)


def outcome_of(command: Sequence[str]) -> Outcome:
    """Call a command in this folder."""
    started_s = time.process_time()
    try:
        with limited():
            done = CliRunner().invoke(dpscale, command)
    except NoAnswerError as error:
        return Outcome("no answer", f"{command[0]}: stopped at {place_of(error)}")
    if done.exception and not isinstance(done.exception, SystemExit):
        return Outcome("traceback", f"{command[0]}: {done.exception!r:.200} at {place_of(done.exception)}")
    if time.process_time() - started_s > ANSWER_S:
        return Outcome("no answer", f"{command[0]}: {time.process_time() - started_s:.0f} s")
    if done.exit_code and len(done.stderr.splitlines()) > 1 and "Usage:" not in done.stderr:
        return Outcome("several lines", f"{command[0]}: {done.stderr[:300]}")
    return Outcome("refused" if done.exit_code else "read")


def place_of(error: BaseException) -> str:
    """Return where in the package something was raised: `plan.py:30 > study.py:67`."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/dpscale/" in frame.filename]
    return " > ".join(f"{Path(frame.filename).name}:{frame.lineno}" for frame in frames[-3:])


def tried(kind: Kind, random: Random, project: Path) -> Outcome:
    """Spoil a file of the project, call the commands that read it, and put it right again."""
    path = random.choice(kind.files(project))
    original, before = path.read_bytes(), listing(project)
    spoil(random, path)
    with chdir(project):
        outcomes = [outcome_of(command) for command in kind.commands(path)]
    if path.is_dir() and not path.is_symlink():
        path.rmdir()
    path.unlink(missing_ok=True)
    shutil.rmtree(project / "out", ignore_errors=True)
    path.write_bytes(original)
    if others := listing(project) - before:
        outcomes.append(Outcome("traceback", f"wrote {sorted(map(str, others))}"))
    outcome = max(outcomes, key=lambda outcome: WORDS.index(outcome.word))
    return Outcome(outcome.word, outcome.fault and f"{path.relative_to(project)}: {outcome.fault}")


def listing(project: Path) -> set[Path]:
    """Return every file of the project but those that commands are told to write."""
    return {path for path in project.rglob("*") if "out" not in path.parts}


def try_inputs(outcomes: Connection, seed: int, numbers: Sequence[int]) -> None:
    """Send the outcome of the inputs of these numbers, kinds in turn, as soon as each is known."""
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY_BYTES, MOST_MEMORY_BYTES))
    with tempfile.TemporaryDirectory(prefix="dpscale-fuzz-") as folder:
        project = Path(folder).resolve() / "project"
        make_project(project)
        for number in numbers:
            outcomes.send(tried(KINDS[number % len(KINDS)], Random(f"{seed} {number}"), project))


def count(seed: int, numbers: Sequence[int]) -> Counter[tuple[str, str]]:
    """Try the inputs of these numbers in a process of their own; in another one after an input that ended it. Return
    how many there are by kind and outcome, and print faults as they are seen."""
    counts: Counter[tuple[str, str]] = Counter()
    context = multiprocessing.get_context("spawn")
    while numbers:
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=try_inputs, args=(sender, seed, numbers))
        process.start()
        sender.close()
        is_alive = True
        while numbers and is_alive:
            outcome = Outcome("no answer", "the process died, or hangs")
            is_alive = receiver.poll(4 * WAITING_S)
            with suppress(EOFError):
                outcome = receiver.recv() if is_alive else outcome
            is_alive = outcome.fault != "the process died, or hangs"
            number, *numbers = numbers
            counts[KINDS[number % len(KINDS)].name, outcome.word] += 1
            if outcome.fault:
                print(f"{outcome.word}: input {number}: {outcome.fault}", flush=True)
        process.kill()
        process.join()
    return counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--first", type=int, default=0, help="number of the first input")
    options = parser.parse_args()
    ends = [options.first + options.inputs * part // options.processes for part in range(options.processes + 1)]
    parts = [range(first, last) for first, last in pairwise(ends)]
    with ThreadPoolExecutor(options.processes) as pool:
        counts = sum(pool.map(count, [options.seed] * len(parts), parts), Counter[tuple[str, str]]())
    print(f"{'kind':18}{'inputs':>8}" + "".join(f"{word:>15}" for word in WORDS))
    for kind in KINDS:
        numbers = [counts[kind.name, word] for word in WORDS]
        print(f"{kind.name:18}{sum(numbers):8}" + "".join(f"{number:15}" for number in numbers))


if __name__ == "__main__":
    main()
