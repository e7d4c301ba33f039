"""Folders and files that perfpy writes where others may write."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import socket
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from perfpy.cli.output.output_files import write_bytes, write_text
from perfpy.errors import OutputFailedError
from perfpy.perfdata.writer import FileWriter
from perfpy.untrusted import destinations
from perfpy.untrusted import destinations as folders
from perfpy.untrusted.destinations import (
    FileDestination,
    ForeignFolderError,
    create_named,
    inherited_descriptor,
    new_folder,
    open_named,
    own,
    shared_folder,
    temporary_folder,
    trusted_program,
)
from tests.builders.other_users import GID, UID, needs_root

if TYPE_CHECKING:
    from collections.abc import Iterator


# Folders that are written into are ours alone, and so is what is made in them.


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("no_umask")
def test_new_folders_are_private(tmp_path: Path):
    with folders.own(str(tmp_path / "a" / "b")) as folder, folder.inner("c", "d") as inner:
        os.close(inner.create("file"))
    assert [mode(tmp_path / name) for name in ("a", "a/b", "a/b/c", "a/b/c/d", "a/b/c/d/file")] == [0o700] * 4 + [0o600]


@pytest.mark.parametrize("bits", [0o777, 0o1777, 0o702])
def test_a_folder_into_which_others_may_write_is_refused(tmp_path: Path, bits: int):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(bits)
    with pytest.raises(ForeignFolderError, match="others may write"):
        folders.own(str(tmp_path / "cache"))


def test_a_folder_below_a_writable_one_is_refused(tmp_path: Path):
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(ForeignFolderError, match="all may write"):
        folders.own(str(tmp_path / "open" / "cache"))


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("perfpy.untrusted.destinations.os.geteuid", lambda: 12345)
    with pytest.raises(ForeignFolderError, match=r"belongs to user|below a folder of user"):
        folders.own(str(tmp_path))


def test_no_link_inside_is_followed(tmp_path: Path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "cache" / "usr").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "cache" / "file").symlink_to(tmp_path / "elsewhere" / "file")
    with folders.own(str(tmp_path / "cache")) as cache:
        with pytest.raises(OSError, match=r"Not a directory|Too many levels"):
            cache.inner("usr", "bin")
        with pytest.raises(FileExistsError):
            cache.create("file")
    assert not os.listdir(tmp_path / "elsewhere")


def test_a_link_to_the_folder_itself_is_the_users_own(tmp_path: Path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "cache").symlink_to(tmp_path / "disk")
    with folders.own(str(tmp_path / "cache")) as cache:
        assert not cache.has("x")


def test_folders_above_the_home_are_not_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "open" / "home").mkdir(parents=True)
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "open" / "home").chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path / "open" / "home"))
    with folders.own(str(tmp_path / "open" / "home" / ".debug")):
        (tmp_path / "open" / "home").chmod(0o777)
    with pytest.raises(ForeignFolderError, match="all may write"):
        folders.own(str(tmp_path / "open" / "home" / ".debug"))


@pytest.fixture
def foreign_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of another user, with a link of that user to a folder of ours."""
    home = tmp_path / "home"
    home.mkdir()
    (tmp_path / "ours").mkdir(mode=0o700)
    (home / "link").symlink_to(tmp_path / "ours")
    for path in (home, home / "link"):
        os.chown(path, UID, GID, follow_symlinks=False)
    monkeypatch.setenv("HOME", str(home))
    return home


@needs_root
@pytest.mark.parametrize("name", [".cache/perfpy", ".debug", "link/perfpy", "link"])
def test_nothing_is_written_into_another_users_home(foreign_home: Path, name: str):
    with pytest.raises(ForeignFolderError, match=f"of user {UID}"):
        own(str(foreign_home / name))
    assert [path.name for path in foreign_home.iterdir()] == ["link"]
    assert [*(foreign_home.parent / "ours").iterdir()] == []


@needs_root
def test_another_users_link_in_the_own_home_is_not_followed(foreign_home: Path):
    os.chown(foreign_home, 0, 0)
    with pytest.raises(ForeignFolderError, match=f"of user {UID}"):
        own(str(foreign_home / "link" / "perfpy"))
    assert [*(foreign_home.parent / "ours").iterdir()] == []


def test_own_links_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (tmp_path / ".cache").symlink_to("elsewhere")
    with own(str(tmp_path / ".cache" / "perfpy" / "inner")):
        assert (tmp_path / "elsewhere" / "perfpy" / "inner").is_dir()


def test_a_folder_in_the_current_folder_is_created(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with own("cache/inner") as folder:
        os.close(folder.create("file"))
    assert (tmp_path / "cache" / "inner" / "file").exists()


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o775])
def test_a_program_is_trusted_unless_others_can_write_to_its_folder(tmp_path: Path, mode: int):
    (tmp_path / "program").write_text("")
    folder = tmp_path / "open" / "bin"
    folder.mkdir(parents=True)
    (folder / "program").write_text("")
    if mode == 0o775:
        os.chown(tmp_path / "open", -1, GID) if os.geteuid() == 0 else pytest.skip("needs root, to give a folder to a group")
    (tmp_path / "open").chmod(mode)
    with pytest.raises(ForeignFolderError, match=f"others may write to {tmp_path}/open"):
        trusted_program(str(folder / "program"))
    assert trusted_program("/bin/sh") == os.path.realpath("/bin/sh")


KILLED = """
import os, sys
from perfpy.untrusted.destinations import temporary_folder
with temporary_folder("perfpy-test-") as folder:
    open(f"{folder}/perf.data", "w").close()
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_a_temporary_folder_of_a_killed_process_is_removed_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    (tmp_path / "kept").mkdir()
    (tmp_path / "perfpy-test-link").symlink_to("kept")
    (tmp_path / "kept" / "perf.data").write_text("")
    with subprocess.Popen([sys.executable, "-c", KILLED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        left = Path(process.stdout.readline().strip())
        with temporary_folder("perfpy-test-") as folder:
            assert (left / "perf.data").exists(), "its process runs"
        assert not Path(folder).exists()
        process.kill()
    assert left.exists()
    with temporary_folder("perfpy-test-") as folder:
        assert not left.exists()
        assert os.stat(folder).st_mode & 0o777 == 0o700
    assert sorted(os.listdir(tmp_path)) == ["kept", "perfpy-test-link"]
    assert os.listdir(tmp_path / "kept") == ["perf.data"]


# What options name for writing: descriptors, devices, fifos, links and folders.


CHECKOUT = Path(__file__).resolve().parents[3]


def read_all(fd: int) -> bytes:
    return b"".join(iter(lambda: os.read(fd, 1 << 16), b""))


# -- descriptors and devices --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "number"),
    [("/dev/stdin", 0), ("/dev/stdout", 1), ("/dev/stderr", 2), ("/dev/fd/63", 63), ("/proc/self/fd/7", 7)]
    + [(path, -1) for path in ("/dev/null", "/dev/fd/", "/dev/fd/x", "/dev/fd/12345678901", "/proc/7/fd/1", "out", "/dev/fd/1/x")],
)
def test_names_of_inherited_descriptors(path: str, number: int):
    assert inherited_descriptor(path) == number


@pytest.mark.parametrize("form", ["/dev/fd/{}", "/proc/self/fd/{}"])
def test_a_result_goes_to_an_inherited_pipe(form: str):
    reader, writer = os.pipe()
    try:
        write_text(form.format(writer), ["text"])
        os.write(writer, b"and more")  # the descriptor stays open
        os.close(writer)
        assert read_all(reader) == b"textand more"
    finally:
        os.close(reader)


@pytest.mark.parametrize("path", ["/dev/stdout", "/dev/fd/1", "link"])
def test_standard_output_is_continued_where_it_is(path: str, tmp_path: Path):
    """A file to which the shell has redirected it is neither truncated nor replaced."""
    (tmp_path / "link").symlink_to("/dev/stdout")
    code = f"""
import os
from perfpy.cli.output.output_files import write_text
os.write(1, b"before ")
write_text({path!r}, ["text"])
os.write(1, b" after")
"""
    with open(tmp_path / "out", "wb") as out:
        subprocess.run([sys.executable, "-c", code], check=True, stdout=out, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(CHECKOUT)})
    assert (tmp_path / "out").read_text() == "before text after"


def test_a_result_goes_to_the_open_file_of_a_descriptor(tmp_path: Path):
    with open(tmp_path / "named", "wb") as file:
        (tmp_path / "named").unlink()
        write_bytes(f"/dev/fd/{file.fileno()}", b"text", quiet=True)
        assert os.fstat(file.fileno()).st_size == 4


def test_a_closed_descriptor_is_reported():
    with pytest.raises(OutputFailedError, match="cannot write /dev/fd/987: Bad file descriptor"):
        write_text("/dev/fd/987", ["text"])


def test_devices_take_results_and_recordings():
    write_text("/dev/null", ["text"])
    os.close(open_named("/dev/null", os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
    FileWriter("/dev/null").close()
    with pytest.raises(OutputFailedError, match="cannot write /dev/full: No space left on device"):
        write_text("/dev/full", ["text"])
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_fifo_of_our_own_waits_for_its_reader(tmp_path: Path):
    path = tmp_path / "fifo"
    os.mkfifo(path)
    received = []
    thread = threading.Thread(target=lambda: received.append(path.read_bytes()), daemon=True)
    threading.Timer(0.2, thread.start).start()
    write_bytes(str(path), b"text" * 100_000, quiet=True)
    thread.join(10)
    assert received == [b"text" * 100_000]


def test_a_socket_takes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as one:
        one.bind("socket")
        for write in (lambda: write_text("socket", ["text"]), lambda: FileWriter("socket")):
            with pytest.raises(OutputFailedError, match="a socket"):
                write()


@pytest.mark.parametrize("path", ["", ".", "..", "folder", "folder/", "new/", "/"])
def test_a_folder_takes_no_result(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    for write in (lambda: write_text(path, ["text"]), lambda: FileWriter(path)):
        with pytest.raises(OutputFailedError, match="Is a directory"):
            write()
    assert os.listdir(tmp_path) == ["folder"]


@pytest.mark.parametrize("has_proc", [True, False])
def test_a_file_that_was_exchanged_is_not_opened_without_proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, has_proc: bool):
    """With /proc, the file that was looked at is opened; without, the other one is refused."""
    path = tmp_path / "out"
    path.write_text("old")
    if not has_proc:
        monkeypatch.setattr(destinations, "_O_PATH", 0)
        monkeypatch.setattr(destinations, "_FOLDER", os.O_RDONLY | os.O_DIRECTORY)
    with FileDestination(str(path)) as destination:
        path.rename(tmp_path / "moved")
        path.write_text("another")
        if has_proc:
            os.close(destination.open(os.O_WRONLY | os.O_TRUNC))
        else:
            with pytest.raises(PermissionError, match="another file has its name now"):
                destination.open(os.O_WRONLY | os.O_TRUNC)
    assert (path.read_text(), (tmp_path / "moved").read_text()) == ("another", "" if has_proc else "old")


def test_everything_works_without_o_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """As on macOS."""
    monkeypatch.setattr(destinations, "_O_PATH", 0)
    monkeypatch.setattr(destinations, "_FOLDER", os.O_RDONLY | os.O_DIRECTORY)
    (tmp_path / "link").symlink_to("real")
    for text in ("one", "two"):
        write_text(str(tmp_path / "link"), [text])
        assert (tmp_path / "real").read_text() == text
    FileWriter(str(tmp_path / "perf.data")).close()
    write_text("/dev/null", ["text"])
    os.close(open_named(str(tmp_path / "real"), os.O_WRONLY | os.O_APPEND))


# -- links --------------------------------------------------------------------------------------------------------


def test_links_of_our_own_are_followed_from_their_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "a/b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    Path("first").symlink_to("a/second")
    Path("a/second").symlink_to("b/third")
    Path("a/b/third").symlink_to(tmp_path / "real")
    for number in range(2):
        write_text("first", [str(number)])
        assert Path("real").read_text() == str(number)
    assert sorted(os.listdir()) == ["a", "first", "real"]


def test_a_circle_of_links_is_reported(tmp_path: Path):
    (tmp_path / "one").symlink_to("two")
    (tmp_path / "two").symlink_to("one")
    with pytest.raises(OutputFailedError, match="Too many levels of symbolic links"):
        write_text(str(tmp_path / "one"), ["text"])


def test_a_missing_folder_is_reported(tmp_path: Path):
    with pytest.raises(OutputFailedError, match="No such file or directory"):
        write_text(str(tmp_path / "none/out"), ["text"])


# -- streams ------------------------------------------------------------------------------------------------------


def test_streams_truncate_or_append(tmp_path: Path):
    path = tmp_path / "out"
    for flags, expected in ((os.O_TRUNC, "x"), (os.O_APPEND, "xx"), (os.O_TRUNC, "x")):
        fd = open_named(str(path), os.O_WRONLY | os.O_CREAT | flags, 0o666)
        os.write(fd, b"x")
        os.close(fd)
        assert path.read_text() == expected
    with pytest.raises(FileNotFoundError):
        open_named(str(tmp_path / "none"), os.O_WRONLY)


def test_a_stream_appends_to_a_file_that_was_created_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Two commands with --append begin the same file at once."""
    path, real = tmp_path / "log", os.open

    def raced(name: str, flags: int, *args: int, **options: int) -> int:
        if flags & os.O_EXCL and not path.exists():
            path.write_text("first ")
        return real(name, flags, *args, **options)

    monkeypatch.setattr(os, "open", raced)
    fd = open_named(str(path), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.write(fd, b"second")
    os.close(fd)
    assert path.read_text() == "first second"


def test_a_recording_takes_a_name_that_was_created_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path, real = tmp_path / "perf.data", os.open

    def raced(name: str, flags: int, *args: int, **options: int) -> int:
        if flags & os.O_EXCL and not path.exists():
            path.write_text("another one")
        return real(name, flags, *args, **options)

    monkeypatch.setattr(os, "open", raced)
    os.close(create_named(str(path)))
    assert path.read_text() == ""


# -- results ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_modes_of_new_files(umask: int, tmp_path: Path):
    before = os.umask(umask)
    try:
        write_text(str(tmp_path / "out"), ["text"])
        os.close(open_named(str(tmp_path / "stream"), os.O_WRONLY | os.O_CREAT, 0o666))
        FileWriter(str(tmp_path / "perf.data")).close()
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == {"out": 0o666 & ~umask, "stream": 0o666 & ~umask, "perf.data": 0o600}


def test_a_long_name_has_room_for_that_of_the_unfinished_file(tmp_path: Path):
    path = tmp_path / ("ä" * 127)
    for text in ("one", "two"):
        write_text(str(path), [text])
        assert path.read_text() == text
    assert os.listdir(tmp_path) == [path.name]


def test_hard_links_in_a_folder_of_our_own_stay(tmp_path: Path):
    tmp_path.chmod(0o755)
    (tmp_path / "one").write_text("old and long")
    os.link(tmp_path / "one", tmp_path / "two")
    write_text(str(tmp_path / "one"), ["new"])
    assert (tmp_path / "two").read_text() == "new"


def test_hard_links_where_others_can_make_them_are_replaced(tmp_path: Path):
    tmp_path.chmod(0o1777)
    (tmp_path / "one").write_text("old")
    os.link(tmp_path / "one", tmp_path / "two")
    write_text(str(tmp_path / "one"), ["new"])
    assert ((tmp_path / "one").read_text(), (tmp_path / "two").read_text()) == ("new", "old")
    os.link(tmp_path / "two", tmp_path / "three")
    with pytest.raises(PermissionError, match="it has hard links"):
        open_named(str(tmp_path / "two"), os.O_WRONLY | os.O_TRUNC)


@contextlib.contextmanager
def size_limit(size: int) -> Iterator[None]:
    """Files end at a size, as on a full disk; Python ignores the signal."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_keeps_the_old_file(tmp_path: Path):
    path = tmp_path / "out"
    path.write_text("old")
    with size_limit(4096), pytest.raises(OutputFailedError, match="File too large"):
        write_bytes(str(path), bytes(100_000), quiet=True)
    assert (os.listdir(tmp_path), path.read_text()) == (["out"], "old")


def test_a_mounted_file_is_written_in_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Its name cannot be given to another file (EBUSY)."""
    path = tmp_path / "out"
    path.write_text("old and longer")
    inode = path.stat().st_ino

    def busy(_: object) -> None:
        raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))

    monkeypatch.setattr(destinations.UnfinishedFile, "put", busy)
    write_text(str(path), ["new"])
    assert (os.listdir(tmp_path), path.read_text(), path.stat().st_ino) == (["out"], "new", inode)


def test_the_group_of_a_folder_is_kept(tmp_path: Path):
    """A folder with set-group-id gives its group to files."""
    groups = [group for group in (*os.getgroups(), os.getegid() + 5 if os.geteuid() == 0 else os.getegid()) if group != os.getegid()]
    if not groups:
        pytest.skip("needs a second group")
    os.chown(tmp_path, -1, groups[0])
    tmp_path.chmod(0o2755)
    for _ in range(2):
        write_text(str(tmp_path / "out"), ["text"])
        assert (tmp_path / "out").stat().st_gid == groups[0]


def test_no_descriptor_stays_open(tmp_path: Path):
    before = os.listdir("/proc/self/fd")
    write_text(str(tmp_path / "out"), ["text"])
    write_text(str(tmp_path / "out"), ["text"])
    for path in (str(tmp_path), f"{tmp_path}/none/out"):
        with pytest.raises(OutputFailedError):
            write_text(path, ["text"])
    os.close(open_named(str(tmp_path / "out"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
    FileWriter(str(tmp_path / "perf.data")).close()
    FileWriter(str(tmp_path / "perf.data")).close()
    assert os.listdir("/proc/self/fd") == before


# -- folders ------------------------------------------------------------------------------------------------------


def test_a_new_folder_is_made_in_the_folder_that_was_opened(tmp_path: Path):
    (tmp_path / "a").mkdir()
    with FileDestination(str(tmp_path / "a/new"), follow=False) as destination:
        (tmp_path / "a").rename(tmp_path / "moved")
        new_folder(destination).close()
        assert os.listdir(tmp_path / "moved") == ["new"]
        with pytest.raises(FileExistsError):
            new_folder(destination)


def test_a_shared_folder_and_those_above_it_are_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for path in ("a/b/c", "a/b/c/", "a", ".", str(tmp_path / "x/y")):
        with shared_folder(path) as folder:
            assert os.path.samestat(os.fstat(folder.fd), os.stat(path))
    Path("link").symlink_to("a")
    with shared_folder("link") as folder:
        assert os.path.samestat(os.fstat(folder.fd), os.stat("a"))
    Path("file").touch()
    with pytest.raises(OSError, match="Not a directory"):
        shared_folder("file")


def test_no_shared_folder_is_another_users_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "link").symlink_to("/")
    monkeypatch.setattr(destinations, "trusted_file_owners", lambda: (4_000_000,))
    with pytest.raises(PermissionError, match="a link of user"):
        shared_folder(str(tmp_path / "link"))
