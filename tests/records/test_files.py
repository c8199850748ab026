"""Files: what dpscale did not write is kept, what is special is written to, and rights are the user's; and temporary
folders, which go with a later process where theirs was killed."""

import os
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from dpscale.errors import RecordError
from dpscale.records.files import write_bytes, write_text
from dpscale.records.temporary import TemporaryFolder

PAGE = "<!DOCTYPE html>\n<meta content=\"default-src 'none'; style-src 'sha256-{}'\">"
CHART = '<svg role="img" aria-label="{}"></svg>'
TABLE = "strategy,gpus,{}\nddp,2,3\n"
RECORD = '{{\n "kind": "timing",\n "measurement_version": {}\n}}\n'
OURS = [PAGE, CHART, TABLE, RECORD]
OTHERS = ["study: mine\n", "print('train')\n", "<svg/>", "<!DOCTYPE html>\n", "gpus,epoch_s\n"]


@pytest.mark.parametrize("content", OURS)
def test_what_dpscale_wrote_is_replaced_and_nothing_else(content: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    for present in ("", content.format(1)):
        path.write_text(present)
        write_text(path, content.format(2))
        assert path.read_text() == content.format(2)
    for present in {*OURS, *OTHERS} - {content}:
        path.write_text(present)
        with pytest.raises(RecordError, match="file: holds something else, which is kept"):
            write_text(path, content)
        assert path.read_text() == present
    path.unlink()
    path.symlink_to("/proc/self/mem")  # a file that cannot be read
    with pytest.raises(RecordError, match="kept"):
        write_text(path, content)


def test_a_name_that_no_file_can_have_is_said(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="x: cannot be written: File name too long"):
        write_text(tmp_path / ("x" * 256), PAGE)


def test_rights_are_those_that_the_user_wants(tmp_path: Path) -> None:
    path = tmp_path / ("ä" * 125)  # as long as a name can be
    before = os.umask(0o077)
    try:
        for mode in (0o600, 0o640):
            write_text(path, PAGE)
            assert stat.S_IMODE(path.stat().st_mode) == mode
            path.chmod(0o640)
    finally:
        os.umask(before)


def test_a_link_stays_one_and_a_pipe_is_written_to(tmp_path: Path) -> None:
    link, pipe = tmp_path / "link", tmp_path / "pipe"
    link.symlink_to("target")
    write_text(link, PAGE)
    assert link.is_symlink() and (tmp_path / "target").read_text() == PAGE
    os.mkfifo(pipe)
    read: list[bytes] = []
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_bytes(pipe, b"all of it")
    reader.join()
    assert read == [b"all of it"] and pipe.is_fifo()


def test_standard_output_goes_on_where_it_stands(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "stdout").symlink_to("/proc/self/fd/1")
    for text in ("before ", "after"):
        write_text(tmp_path / "stdout", text)
    assert (tmp_path / "stdout").is_symlink()
    assert capfd.readouterr().out == "before after"


HOLDER = "from dpscale.records.temporary import TemporaryFolder as T; folder = T(); print(flush=True); input()"


@pytest.mark.processes
def test_a_later_process_deletes_what_a_killed_one_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    (tmp_path / "dpscale-of-somebody").mkdir()
    words = [sys.executable, "-c", HOLDER]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout and process.stdout.readline()
        (held,) = tmp_path.glob("dpscale-run-*")
        os.utime(held, (1, 1))
        with TemporaryFolder():
            assert held.exists()
        process.kill()
    with TemporaryFolder() as folder:
        assert {path.name for path in tmp_path.iterdir()} == {Path(folder).name, "dpscale-of-somebody"}
    assert [path.name for path in tmp_path.iterdir()] == ["dpscale-of-somebody"]
