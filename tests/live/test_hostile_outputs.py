"""Files that root's commands write where another user can put links, fifos and files of its own."""

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

from perfpy.capture.control import Control
from perfpy.capture.runtimes.rewriting import append_section
from perfpy.capture.runtimes.store_names import store_names
from perfpy.capture.session.output import RecordOutput
from perfpy.capture.session.threaded_output import FolderOutput, RingFilesOutput
from perfpy.cli.output.output_files import whole_file, write_text
from perfpy.errors import BadPerfDataError, OutputFailedError
from perfpy.perfdata.header import KEPT_FILES
from perfpy.perfdata.reader import PerfData
from perfpy.perfdata.writer import FileWriter, WrittenEvent
from perfpy.untrusted import destinations
from perfpy.untrusted import destinations as folders
from tests.builders.other_users import GID, UID, child, needs_root
from tests.builders.perfdata import PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfpy.untrusted.destinations import FileDestination

pytestmark = [needs_root, pytest.mark.live]

CHECKOUT = Path(__file__).resolve().parents[2]
SECRET = "of root's"


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file of root's, in which nothing may be written."""
    path = tmp_path / "victim"
    path.write_text(SECRET)
    path.chmod(0o600)
    return path


def link(path: Path, target: Path) -> None:
    """A link of the other user."""
    path.symlink_to(target)
    os.chown(path, UID, GID, follow_symlinks=False)


def file(path: Path, mode: int = 0o666, text: str = "") -> Path:
    """A file of the other user."""
    path.write_text(text)
    os.chown(path, UID, GID)
    path.chmod(mode)
    return path


def perfpy(folder: Path, *words: str, umask: int = 0o022) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "perfpy", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT), "HOME": str(folder)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        umask=umask,
    )


def recording() -> bytes:
    """A recording with room for stored files."""
    built = PerfDataBuilder([usual_attr(0x187)])
    built.sample(time=1000, pid=7, tid=7, ip=0x1000)
    built.features[KEPT_FILES] = b""
    return built.file()


# -- record -o ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [RecordOutput, FileWriter])
def test_a_recording_is_not_written_through_another_users_link(make: Callable[[str], object], theirs: Path, victim: Path):
    victim.write_text("")  # what is not empty would be renamed first
    for target in (victim, victim.with_name("new")):
        link(theirs / "perf.data", target)
        with pytest.raises(OutputFailedError, match=f"a link of user {UID}"):
            make(str(theirs / "perf.data"))
        (theirs / "perf.data").unlink()
    assert not victim.with_name("new").exists()


def test_links_of_our_own_are_followed(theirs: Path, tmp_path: Path):
    (tmp_path / "perf.data").symlink_to("elsewhere")
    FileWriter(str(tmp_path / "perf.data")).close()
    assert (tmp_path / "elsewhere").stat().st_mode & 0o777 == 0o600
    FileWriter(str(tmp_path / "perf.data")).close()
    FileWriter("/dev/null").close()


def test_a_recording_is_not_written_into_another_users_file(theirs: Path):
    """Who owns the file can read what root records."""
    opened = file(theirs / "perf.data").open()
    writer = FileWriter(str(theirs / "perf.data"))
    state = os.fstat(writer.fd)
    assert (state.st_uid, stat.S_IMODE(state.st_mode)) == (0, 0o600)
    assert not os.path.samestat(state, os.fstat(opened.fileno()))
    opened.close()
    writer.close()
    os.mkfifo(theirs / "fifo")
    os.chown(theirs / "fifo", UID, GID)
    with pytest.raises(OutputFailedError, match=f"belongs to user {UID}"):
        FileWriter(str(theirs / "fifo"))


def test_another_name_of_a_file_is_not_written(tmp_path: Path, victim: Path):
    victim.write_text("")
    os.link(victim, tmp_path / "perf.data")
    writer = FileWriter(str(tmp_path / "perf.data"))
    writer.begin([WrittenEvent(usual_attr(), ())], {})
    writer.close()
    assert victim.read_text() == ""


def test_a_race_for_the_name_of_a_recording_is_lost_by_the_link(theirs: Path, victim: Path):
    """The user puts a link to root's file there again and again, while root records there again and again."""

    def work() -> None:
        number = 0
        while True:
            number += 1
            with contextlib.suppress(OSError):
                os.symlink(victim, f"{theirs}/link-{number}")
                os.rename(f"{theirs}/link-{number}", theirs / "perf.data")

    outcomes = set()
    with child(work=work):
        end = time.monotonic() + 1
        while time.monotonic() < end:
            try:
                FileWriter(str(theirs / "perf.data")).close()
                os.unlink(theirs / "perf.data")
                outcomes.add("own")
            except OutputFailedError:
                outcomes.add("refused")
            except FileNotFoundError:
                continue
    assert "refused" in outcomes
    assert victim.read_text() == SECRET


# -- folders of --threads and --kcore -----------------------------------------------------------------------------


def test_a_folder_that_is_exchanged_gets_no_files(theirs: Path, victim: Path, monkeypatch: pytest.MonkeyPatch):
    """Its owner moves the new folder away, and leaves one with links there."""
    real = folders.new_folder
    path = theirs / "perf.data"

    def exchanged(destination: FileDestination) -> object:
        folder = real(destination)
        path.rename(theirs / "moved")
        path.mkdir()
        for part in ("data", "data.0"):
            link(path / part, victim)
        return folder

    monkeypatch.setattr("perfpy.capture.session.threaded_output.new_folder", exchanged)
    output = RingFilesOutput(str(path))
    output.open_files(1)
    output.begin([WrittenEvent(usual_attr(), ())], {})
    output.abandon()
    assert victim.read_text() == SECRET
    assert sorted(os.listdir(theirs / "moved")) == ["data", "data.0"]
    assert sorted(os.listdir(path)) == ["data", "data.0"], "not ours to remove"


def test_a_folder_with_files_in_it_is_not_ours(theirs: Path, victim: Path, monkeypatch: pytest.MonkeyPatch):
    real = os.mkdir

    def exchanged(name: str, mode: int = 0o777, *, dir_fd: int | None = None) -> None:
        real(name, mode, dir_fd=dir_fd)
        link(theirs / name / "data", victim)

    monkeypatch.setattr(os, "mkdir", exchanged)
    with pytest.raises(OutputFailedError, match="another folder has its name"):
        FolderOutput(str(theirs / "perf.data"))


# -- what is added to a finished recording ------------------------------------------------------------------------


def test_nothing_is_appended_to_a_file_that_took_the_recordings_name(theirs: Path, victim: Path):
    path = theirs / "perf.data"
    path.write_bytes(recording())
    with PerfData(str(path)) as data:
        path.unlink()
        path.write_text("another file")
        with pytest.raises(OutputFailedError, match="another file has its name"):
            append_section(str(path), data, b"section")
        path.unlink()
        link(path, victim)
        with pytest.raises(OutputFailedError, match=f"a link of user {UID}"):
            append_section(str(path), data, b"section")
    assert victim.read_text() == SECRET


def test_names_are_not_kept_in_another_users_recording(theirs: Path):
    """It could name processes whose perf maps only root can read."""
    path = theirs / "perf.data"
    path.write_bytes(recording())
    os.chown(path, UID, GID)
    with pytest.raises(BadPerfDataError, match="belongs neither to you nor to root"):
        store_names(str(path), 0.0)


def test_a_killed_recorders_file_is_completed_if_it_is_its_own(theirs: Path):
    path = theirs / "perf.data"
    path.write_bytes(recording())
    os.chown(path, UID, GID)
    with pytest.raises(ValueError, match="owned by another user, or hard-linked"):
        FileWriter.resume(str(path))


# -- results of other commands ------------------------------------------------------------------------------------


def test_a_result_is_not_written_through_another_users_link(theirs: Path, victim: Path):
    link(theirs / "out.json", victim)
    for words in (["stat", "-o", "out.json", "--", "true"], ["list", "--json", "-o", "out.json"]):
        result = perfpy(theirs, *words)
        assert result.returncode != 0
        assert f"a link of user {UID}" in result.stderr
    with pytest.raises(OutputFailedError, match=f"a link of user {UID}"):
        write_text(str(theirs / "out.json"), ["text"])
    assert victim.read_text() == SECRET


def test_no_name_leads_to_a_file_before_its_owner_is_restored(theirs: Path, victim: Path):
    """The new file is given to the owner of the old one at last; until then, its names are not used again."""
    path = file(theirs / "out.json", mode=0o4666, text="old")
    with whole_file(str(path)) as unfinished:
        (name,) = set(os.listdir(theirs)) - {"out.json"}
        state = os.stat(theirs / name)
        assert (state.st_uid, stat.S_IMODE(state.st_mode)) == (0, 0o600)
        (theirs / name).unlink()
        link(theirs / name, victim)
        unfinished.write(b"new")
    assert victim.read_text() == SECRET


def test_the_owner_and_the_mode_of_a_result_stay_but_for_set_user_id(theirs: Path):
    path = file(theirs / "out.json", mode=0o4664, text="old")
    write_text(str(path), ["new"])
    state = path.stat()
    assert (path.read_text(), state.st_uid, state.st_gid, stat.S_IMODE(state.st_mode)) == ("new", UID, GID, 0o664)
    assert os.listdir(theirs) == ["out.json"]


def test_a_file_that_is_written_in_place_is_the_one_that_was_looked_at(theirs: Path, victim: Path, monkeypatch: pytest.MonkeyPatch):
    path = file(theirs / "out.json", text="old")
    monkeypatch.setattr(destinations, "_replacement", lambda *_: None)  # as in a folder that permits no new files
    with whole_file(str(path)) as inside:
        path.rename(theirs / "moved")
        link(path, victim)
        inside.write(b"new")
    assert ((theirs / "moved").read_text(), victim.read_text()) == ("new", SECRET)


# -- --control ----------------------------------------------------------------------------------------------------


def test_answers_are_written_into_fifos_only_and_through_no_links(theirs: Path, victim: Path, tmp_path: Path):
    os.mkfifo(tmp_path / "of_root")
    os.mkfifo(theirs / "fifo")
    link(theirs / "link", tmp_path / "of_root")
    for text, reason in (
        (f"fifo:{victim}", "not a fifo"),
        (f"fifo:{theirs}/fifo,{victim}", "not a fifo"),
        ("fifo:/dev/null", "not a fifo"),
        (f"fifo:{theirs}/fifo,{theirs}/link", f"a link of user {UID}"),
    ):
        with pytest.raises(OutputFailedError, match=reason):
            Control(text)


def test_a_flood_of_commands_neither_holds_a_recording_up_nor_reaches_the_terminal(theirs: Path, tmp_path: Path):
    """Garbage without an end, in a fifo of the other user; the recording ends when its command does."""
    fifo = theirs / "fifo"
    os.mkfifo(fifo)
    os.chown(fifo, UID, GID)

    def work() -> None:
        out = os.open(fifo, os.O_RDWR)
        while True:
            os.write(out, b"enable \x1b]0;title\x07\n" * 10 + b"x" * 3000)

    with child(work=work):
        began = time.monotonic()
        words = ["record", "-o", "perf.data", "-e", "cpu-clock", f"--control=fifo:{fifo}", "--", "sleep", "1"]
        result = perfpy(tmp_path, *words)
        assert time.monotonic() - began < 30
    assert result.returncode == 0, result.stderr[-2000:]
    assert (tmp_path / "perf.data").exists()


# -- modes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("umask", [0o000, 0o077])
@pytest.mark.parametrize("options", [[], ["--threads"], ["--switch-output=1s"], *([["--kcore"]] if Path("/proc/kcore").exists() else [])])
def test_other_users_cannot_read_a_recording_for_any_umask(umask: int, options: list[str], tmp_path: Path):
    result = perfpy(tmp_path, "record", "-o", "perf.data", "-e", "cpu-clock", *options, "--", "sleep", "0.2", umask=umask)
    assert result.returncode == 0, result.stderr
    paths = [path for path in tmp_path.rglob("*") if not path.is_symlink() and path.name != "elf"]
    assert any(path.name.startswith("perf.data") for path in paths)
    assert [str(path) for path in paths if path.stat().st_mode & 0o077 and path.parent.stat().st_mode & 0o077] == []


# -- tables of perfpy export --------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_tables_in_a_folder_of_another_user_follow_no_links(theirs: Path, victim: Path):
    """The other user plants links with the names of the tables, of unfinished ones and of their folders."""
    pytest.importorskip("pyarrow")
    (theirs / "perf.data").write_bytes(recording())
    command = [sys.executable, "-m", "perfpy", "export", "-f", "-i", str(theirs / "perf.data"), "--parquet"]
    subprocess.run([*command, str(theirs / "first")], check=True, capture_output=True, timeout=60)
    names = [path.relative_to(theirs / "first") for path in (theirs / "first").rglob("*") if path.is_file()]
    (theirs / "second").mkdir()
    for name in names:
        (theirs / "second" / name).parent.mkdir(parents=True, exist_ok=True)
        link(theirs / "second" / name, victim)
        link(theirs / "second" / f"{name}.unfinished", victim)
    subprocess.run([*command, str(theirs / "second")], check=True, capture_output=True, timeout=60)
    assert victim.read_text() == SECRET
    (theirs / "third").mkdir()
    (theirs / "outside").mkdir()
    for folder in {name.parts[0] for name in names if len(name.parts) > 1}:
        link(theirs / "third" / folder, theirs / "outside")
    process = subprocess.run([*command, str(theirs / "third")], check=False, capture_output=True, text=True, timeout=60)
    assert (process.returncode, os.listdir(theirs / "outside")) == (255, [])
    assert len(process.stderr.splitlines()) == 1
