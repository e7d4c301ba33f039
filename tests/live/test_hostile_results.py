"""Root's results in a folder of another user, who exchanges folders, and puts fifos, hard links and mounts there."""

from __future__ import annotations

import contextlib
import os
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from perfpy.capture.session.output import RecordOutput
from perfpy.cli.output.output_files import write_bytes, write_text
from perfpy.errors import OutputFailedError
from perfpy.perfdata.writer import FileWriter
from perfpy.untrusted.destinations import open_named
from tests.builders.other_users import GID, UID, child, needs_root
from tests.builders.perfdata import simple_recording

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = [needs_root, pytest.mark.live]

CHECKOUT = Path(__file__).resolve().parents[2]
SECRET = "of root's"
SECONDS = 1.5  # of an attack


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file of root's, in which nothing may be written."""
    path = tmp_path / "victim"
    path.write_text(SECRET)
    path.chmod(0o600)
    return path


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "r.data"
    path.write_bytes(simple_recording().file())
    return path


def fifo(path: Path) -> Path:
    """A fifo of the other user."""
    os.mkfifo(path)
    os.chown(path, UID, GID)
    path.chmod(0o666)
    return path


@contextlib.contextmanager
def reader(path: Path) -> Iterator[int]:
    """A reader of a fifo, which waits for nobody."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield fd
    finally:
        os.close(fd)


def perfpy(folder: Path, *words: str, umask: int = 0o022) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "perfpy", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), "HOME": str(folder)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        umask=umask,
    )


def stream(path: str) -> None:
    with open(path, "w", opener=lambda name, flags: open_named(name, flags, 0o666)) as file:
        file.write("new")


def record(path: str) -> None:
    FileWriter(path).close()


WRITERS: list[Callable[[str], None]] = [lambda path: write_text(path, ["new"]), stream, record]


# -- folders and links that are exchanged -------------------------------------------------------------------------


@pytest.mark.parametrize("write", WRITERS, ids=["result", "stream", "recording"])
@pytest.mark.parametrize("first", ["fifo", "file", "nothing"])
def test_a_folder_that_is_exchanged_for_another_one_leads_to_no_file_of_root(
    first: str, write: Callable[[str], None], theirs: Path, victim: Path
):
    """The user exchanges a folder with a harmless file of the result's name for one with a link to root's file, without end."""
    (theirs / "d1").mkdir()
    (theirs / "d2").mkdir()
    if first == "fifo":
        fifo(theirs / "d1/out")
    elif first == "file":
        (theirs / "d1/out").write_text("old")
    for folder in ("d1", "d2"):
        os.chown(theirs / folder, UID, GID)
    (theirs / "d2/out").symlink_to(victim)
    os.chown(theirs / "d2/out", UID, GID, follow_symlinks=False)

    def work() -> None:
        while True:
            for folder in ("d1", "d2"):
                with contextlib.suppress(OSError):
                    os.symlink(folder, theirs / "next")
                os.rename(theirs / "next", theirs / "dir")

    outcomes = set()
    with child(work=work), contextlib.ExitStack() as opened:
        if first == "fifo":
            opened.enter_context(reader(theirs / "d1/out"))
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            try:
                write(str(theirs / "dir/out"))
                outcomes.add("written")
            except OutputFailedError as error:
                outcomes.add(error.reason)
            except OSError as error:
                outcomes.add(str(error.strerror))
            assert victim.read_text() == SECRET
            if first == "nothing":
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(theirs / "d1/out")
    assert f"a link of user {UID}" in outcomes
    assert (f"a fifo that belongs to user {UID}" if first == "fifo" else "written") in outcomes


@pytest.mark.parametrize("write", WRITERS, ids=["result", "stream", "recording"])
def test_a_name_that_is_exchanged_for_a_link_leads_to_no_file_of_root(write: Callable[[str], None], theirs: Path, victim: Path):
    def work() -> None:
        while True:
            for make in (os.mkfifo, lambda path: os.symlink(victim, path), lambda path: Path(path).touch()):
                with contextlib.suppress(OSError):
                    make(f"{theirs}/next")
                    os.rename(f"{theirs}/next", theirs / "out")

    with child(work=work):
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            with contextlib.suppress(OutputFailedError, OSError):
                write(str(theirs / "out"))
            assert victim.read_text() == SECRET


# -- fifos and devices --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("write", WRITERS, ids=["result", "stream", "recording"])
@pytest.mark.parametrize("has_reader", [False, True])
def test_another_users_fifo_neither_takes_a_result_nor_blocks(write: Callable[[str], None], theirs: Path, *, has_reader: bool):
    path = fifo(theirs / "out")
    with reader(path) if has_reader else contextlib.nullcontext(-1) as fd:
        with pytest.raises((OutputFailedError, PermissionError), match=f"a fifo that belongs to user {UID}"):
            write(str(path))
        assert fd < 0 or os.read(fd, 100) == b""


@pytest.mark.parametrize(
    "words",
    [
        ["report", "-i", "r.data", "--json", "out"],
        ["report", "-i", "r.data", "--folded", "out"],
        ["report", "-i", "r.data", "--html", "out"],
        ["view", "-i", "r.data", "--no-browser", "-o", "out"],
        ["inject", "-i", "r.data", "-o", "out"],
        ["data", "convert", "--force", "-i", "r.data", "--to-json", "out"],
        ["list", "--json", "-o", "out"],
        ["stat", "-o", "out", "-e", "task-clock", "--", "true"],
        ["stat", "record", "-o", "out", "-e", "task-clock", "--", "true"],
        ["record", "-o", "out", "-e", "cpu-clock", "--", "true"],
        ["trace", "-o", "out", "--", "true"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_no_command_writes_into_another_users_fifo(words: list[str], theirs: Path, recording: Path):
    os.link(recording, theirs / "r.data")
    with reader(fifo(theirs / "out")) as fd:
        result = perfpy(theirs, *words)
        assert os.read(fd, 100) == b""
    assert result.returncode not in (0, 1), result.stderr
    (line,) = [line for line in result.stderr.splitlines() if "belongs to user" in line]
    assert f"a fifo that belongs to user {UID}" in line


def test_a_device_of_another_user_takes_no_result(theirs: Path):
    main, other = os.openpty()
    os.fchown(other, UID, GID)
    try:
        with pytest.raises(OutputFailedError, match=f"a device that belongs to user {UID}"):
            write_text(os.ttyname(other), ["text"])
    finally:
        os.close(main)
        os.close(other)


# -- hard links ---------------------------------------------------------------------------------------------------


def test_a_hard_link_to_a_file_of_root_is_replaced_by_a_result(theirs: Path, victim: Path):
    """Users can make such links if fs.protected_hardlinks is 0."""
    os.link(victim, theirs / "out")
    write_bytes(str(theirs / "out"), b"new", quiet=True)
    assert (victim.read_text(), (theirs / "out").read_text()) == (SECRET, "new")
    assert ((theirs / "out").stat().st_uid, victim.stat().st_nlink) == (0, 1)


def test_a_hard_link_to_a_file_of_root_is_no_stream(theirs: Path, victim: Path):
    os.link(victim, theirs / "out")
    for words in (["-o"], ["--append", "-o"]):
        result = perfpy(theirs, "stat", *words, "out", "-e", "task-clock", "--", "true")
        assert result.returncode == 255
        assert "cannot write out: it has hard links" in result.stderr
    assert victim.read_text() == SECRET


def test_a_result_is_given_to_no_third_user(theirs: Path, tmp_path: Path):
    """A hard link to a file of a third user would choose the owner of the result."""
    third = tmp_path / "third"
    third.write_text("old")
    os.chown(third, UID + 7, GID)
    os.link(third, theirs / "out")
    write_text(str(theirs / "out"), ["new"])
    assert ((theirs / "out").stat().st_uid, third.read_text()) == (0, "old")


# -- recordings that are renamed and removed ----------------------------------------------------------------------


def test_old_recordings_are_renamed_in_the_folder_that_was_opened(theirs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The user exchanges the folder while root's recording begins, at every call that takes a name."""
    mine = tmp_path / "mine"
    for folder in (theirs / "d1", mine):
        folder.mkdir()
        (folder / "perf.data").write_text("recorded")
        (folder / "perf.data.old").mkdir()
        (folder / "perf.data.old/data").write_text("older")
    (mine / "perf.data.old/precious").write_text(SECRET)
    os.chown(theirs / "d1", UID, GID)
    (theirs / "dir").symlink_to("d1")
    real = os.open
    calls = []

    def exchanging(path: str, *args: object, **options: object) -> int:
        fd = real(path, *args, **options)  # type: ignore[arg-type]
        calls.append(path)
        (theirs / "dir").unlink()
        (theirs / "dir").symlink_to(mine)
        return fd

    monkeypatch.setattr(os, "open", exchanging)
    output = RecordOutput(str(theirs / "dir/perf.data"))
    output.abandon()
    monkeypatch.undo()
    assert calls
    assert sorted(path.name for path in mine.iterdir()) == ["perf.data", "perf.data.old"]
    assert ((mine / "perf.data").read_text(), (mine / "perf.data.old/precious").read_text()) == ("recorded", SECRET)
    assert (theirs / "d1/perf.data").read_text() == "recorded"


def test_names_with_times_are_made_and_removed_in_the_folder_that_was_opened(theirs: Path, tmp_path: Path):
    """As with --switch-output and --switch-max-files."""
    (theirs / "d1").mkdir()
    (theirs / "dir").symlink_to("d1")
    output = RecordOutput(str(theirs / "dir/perf.data"))
    output.writer.close()
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "perf.data").write_text(SECRET)
    (theirs / "dir").unlink()
    (theirs / "dir").symlink_to(mine)
    name = Path(output.stamp()).name
    assert (os.listdir(theirs / "d1"), os.listdir(mine)) == ([name], ["perf.data"])
    (mine / name).write_text(SECRET)
    output.remove(f"{theirs}/dir/{name}")
    assert (os.listdir(theirs / "d1"), sorted(os.listdir(mine))) == ([], ["perf.data", name])


# -- archives -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_an_archive_is_only_for_its_owner(umask: int, tmp_path: Path, recording: Path):
    """It has the kernel's symbols and addresses, which the cache keeps at 0600."""
    result = perfpy(tmp_path, "archive", str(recording), umask=umask)
    assert result.returncode == 0, result.stderr
    assert stat.S_IMODE((tmp_path / "r.data.tar.bz2").stat().st_mode) == 0o600
