"""Processes of another user that want root's files, or files of root's in other places: `record --jit -p` by root."""

from __future__ import annotations

import os
import signal
import socket
import stat
import struct
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from perfpy.abi import records
from perfpy.capture.runtimes import attaching, cpython_attach
from perfpy.capture.runtimes.cpython_attach import ScriptFolder
from perfpy.capture.runtimes.store_names import PerfMaps
from perfpy.errors import PerfError
from perfpy.symbols import dso, perf_map
from perfpy.symbols.jitdump import read_dump
from perfpy.untrusted import process_files
from tests.builders.other_users import GID, UID, child, needs_root

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = needs_root

SECRET = b"1000 10 secret_of_root\n"
NOT_A_FOLDER = "No such file|Not a directory|Too many levels"


@pytest.fixture
def tmp_path(reachable: Path) -> Path:
    """Instead of pytest's, which other users cannot reach."""
    return reachable


@pytest.fixture
def open_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as /tmp is, where new temporary folders are made."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    folder.chmod(0o1777)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    path.write_bytes(SECRET)
    path.chmod(0o600)
    return path


def attempts(folder: Path, victim: Path, moved: Path) -> None:
    """Do to a folder what its owner may do: answer, exchange the lines, leave a link in its place."""
    for action in (
        lambda path: os.symlink(victim, f"{path}/1.answer"),
        lambda path: os.symlink(victim, f"{path}/2.py"),
        lambda path: os.mkdir(f"{path}/3.py"),
        os.listdir,
        lambda path: os.chmod(path, 0o777),
        lambda path: os.rename(path, moved),
    ):
        for path in folder.glob("perfpy-*"):
            with suppress(OSError):
                action(path)
                os.close(os.open(moved.parent / f"done-{time.monotonic_ns()}", os.O_CREAT | os.O_WRONLY, 0o644))


def test_attaching_gives_no_file_to_the_user(open_folder: Path, secret: Path, tmp_path: Path):
    """As hostile2's programs do: answer by a link, exchange the lines, move the folder and leave a link there."""
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    os.chown(theirs, UID, GID)
    asker = tmp_path / "python3.14"
    asker.write_text("#!/bin/sh\nsleep 0.3\n")
    asker.chmod(0o755)

    def work() -> None:
        while True:
            attempts(open_folder, secret, theirs / "moved")

    with child(work=work) as pid, pytest.MonkeyPatch.context() as patched:
        patched.setattr(cpython_attach, "_PATIENCE", 0.3)
        switch = cpython_attach.Trampolines(pid, str(asker))
        switch.on()
        assert switch.late
        (folder,) = open_folder.iterdir()
        assert {(path.stat().st_uid, stat.S_IMODE(path.stat().st_mode)) for path in folder.iterdir()} == {(0, 0o644), (0, 0o622)}
        assert (folder.stat().st_uid, stat.S_IMODE(folder.stat().st_mode)) == (0, 0o711)
        switch.off()
    assert [path.name for path in theirs.iterdir()] == []
    assert (secret.stat().st_uid, secret.read_bytes()) == (0, SECRET)


def test_an_answer_of_another_user_is_read_up_to_a_length(open_folder: Path):
    with child() as idle:
        folder = ScriptFolder(idle)
        assert folder.is_seen(folder.write("pass"))
        with folder.answer() as answer:
            assert answer.read(0.01) is None

            def work() -> None:
                os.write(os.open(answer.path, os.O_WRONLY), b"x" * 10_000)

            with child(work=work):
                assert answer.read(5) == "x" * 1000
        folder.remove()
    assert [*open_folder.iterdir()] == []


def test_lines_that_a_process_cannot_find_are_not_sent(open_folder: Path, tmp_path: Path):
    container = tmp_path / "root"
    (container / "tmp").mkdir(parents=True)
    with child(container) as pid, pytest.raises(cpython_attach.NoNamesError, match="in a container with other files"):
        cpython_attach.Trampolines(pid, "/bin/false").on()
    os.chmod(open_folder, 0o700)
    with child() as pid, pytest.raises(cpython_attach.NoNamesError, match="set TMPDIR to a folder that all users can enter"):
        cpython_attach.Trampolines(pid, "/bin/false").on()


def test_an_interpreter_in_a_folder_of_the_process_is_not_run(tmp_path: Path):
    """Its file may be root's, but the folder decides what is run, and which libraries it finds."""
    theirs = tmp_path / "bin"
    theirs.mkdir()
    (theirs / "python3.14").write_bytes(b"#!/bin/sh\n")
    (theirs / "python3.14").chmod(0o755)
    os.chown(theirs, UID, GID)
    with pytest.raises(cpython_attach.NoNamesError, match=rf"does not belong to root or you \({theirs} belongs to user {UID}"):
        cpython_attach._program(os.getpid(), cpython_attach.RunningPython((3, 14), str(theirs / "python3.14"), is_program=True))


@pytest.fixture
def mapped() -> Iterator[tuple[int, Path]]:
    """A process of another user, and where its perf map is expected."""
    with child() as pid:
        path = Path(f"/tmp/perf-{pid}.map")
        yield pid, path
        path.unlink(missing_ok=True)


def kept(pid: int) -> dict[str, bytes]:
    maps = PerfMaps(0.0, {})
    maps.pids.add(pid)
    return dict(maps.files())


def test_a_map_of_the_processs_user_is_kept(mapped: tuple[int, Path]):
    pid, path = mapped
    path.write_bytes(b"1000 10 name\n")
    os.chown(path, UID, GID)
    path.chmod(0o600)
    assert kept(pid) == {str(path): b"1000 10 name\n"}
    assert len(perf_map.load(str(path), process_files.trusted_owners(pid), pid).symbols) == 1


def test_a_map_of_roots_is_kept_if_the_processs_user_may_read_it(mapped: tuple[int, Path]):
    pid, path = mapped
    path.write_bytes(b"1000 10 name\n")
    path.chmod(0o644)
    assert kept(pid) == {str(path): b"1000 10 name\n"}
    path.chmod(0o600)
    assert kept(pid) == {}


def test_a_map_of_roots_is_read_when_another_process_has_its_number(mapped: tuple[int, Path]):
    pid, path = mapped
    path.write_bytes(b"1000 10 name\n")
    path.chmod(0o600)
    with pytest.raises(PermissionError):
        perf_map.load(str(path), process_files.trusted_owners(pid), pid)
    os.utime(path, (0, 0))
    assert len(perf_map.load(str(path), process_files.trusted_owners(pid), pid).symbols) == 1


def test_a_link_of_roots_to_a_map_is_followed(mapped: tuple[int, Path], open_folder: Path):
    pid, path = mapped
    (open_folder / "map").write_bytes(b"1000 10 name\n")
    os.chown(open_folder / "map", UID, GID)
    path.symlink_to(open_folder / "map")
    assert kept(pid) == {str(path): b"1000 10 name\n"}


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_a_link_is_no_map(mapped: tuple[int, Path], secret: Path, open_folder: Path, mode: int):
    pid, path = mapped
    secret.chmod(mode)
    path.symlink_to(secret)
    os.chown(path, UID, GID, follow_symlinks=False)
    assert kept(pid) == {}
    with pytest.raises(OSError, match="a link of user"):
        perf_map.load(str(path), process_files.trusted_owners(pid), pid)


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_another_name_of_a_file_of_roots_is_no_map(mapped: tuple[int, Path], mode: int):
    """Hard links to files of others are allowed where fs.protected_hardlinks is 0."""
    pid, path = mapped
    other = path.with_suffix(".other")
    other.write_bytes(SECRET)
    other.chmod(mode)
    try:
        os.link(other, path)
        assert kept(pid) == {}
        with pytest.raises(PermissionError):
            perf_map.load(str(path), process_files.trusted_owners(pid), pid)
    finally:
        other.unlink()


@pytest.fixture
def container(tmp_path: Path, open_folder: Path, secret: Path) -> Path:
    """The root of a container in which all that may be a link is one, to where the host has files of root's."""
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "host").mkdir()
    (root / "tmp").symlink_to(tmp_path / "host")
    return root


def test_maps_of_containers_are_found_in_their_root_only(container: Path, tmp_path: Path):
    with child(container, own_mounts=True) as pid:
        (tmp_path / "host" / f"perf-{pid}.map").write_bytes(SECRET)
        assert kept(pid) == {}
        (container / "tmp").unlink()
        (container / "tmp").mkdir()
        (container / "tmp" / f"perf-{pid}.map").write_bytes(b"1000 10 name\n")
        assert kept(pid) == {f"/tmp/perf-{pid}.map": b"1000 10 name\n"}


def test_a_mount_over_a_map_is_read_with_the_rights_of_the_user(open_folder: Path, secret: Path, tmp_path: Path):
    """In a user namespace of one's own, files of root's can be mounted: their owner tells nothing."""
    with child(tmp_path, own_mounts=True) as pid:
        path = open_folder / f"perf-{pid}.map"
        secret.rename(path)
        assert kept(pid) == {}
        path.chmod(0o644)
        assert kept(pid) == {f"/tmp/perf-{pid}.map": SECRET}


def test_a_jvm_is_attached_in_its_root_only(container: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    results: list[str] = []
    real = os.open

    def noted(path: str, *rest: int, **more: int) -> int:
        results.append(str(path))
        return real(path, *rest, **more)

    monkeypatch.setattr(dso, "catches", lambda pid, number: True)
    monkeypatch.setattr(os, "open", noted)
    with child(container) as pid, pytest.raises(OSError, match=NOT_A_FOLDER):
        attaching.write_perf_map(pid)
    assert not [path for path in results if ".attach" in path]
    assert [*(tmp_path / "host").iterdir()] == []


def jvm() -> None:
    """Listen when told to, if it is told by a file of our own, and answer peers of our own user."""

    def listen(*_: object) -> None:
        assert os.stat(f"/tmp/.attach_pid{os.getpid()}").st_uid == UID
        server = socket.socket(socket.AF_UNIX)
        server.bind(f"/tmp/.java_pid{os.getpid()}")
        server.listen()
        connection, _peer = server.accept()
        uid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[1]
        connection.recv(100)
        connection.sendall(b"0\n" if uid == UID else f"1\nuser {uid}".encode())
        connection.close()

    signal.signal(signal.SIGQUIT, listen)
    while True:
        signal.pause()


def test_a_jvm_of_another_user_in_a_container_is_attached_as_that_user(tmp_path: Path, open_folder: Path):
    with child(tmp_path, work=jvm) as pid:
        end = time.monotonic() + 5
        while not dso.catches(pid, signal.SIGQUIT) and time.monotonic() < end:
            time.sleep(0.01)
        attaching.write_perf_map(pid)
        assert [path.name for path in open_folder.iterdir()] == [f".java_pid{pid}"]


def test_a_socket_is_not_exchanged_for_a_link(tmp_path: Path, open_folder: Path):
    with child(tmp_path) as pid, socket.socket(socket.AF_UNIX) as roots:
        roots.bind(str(tmp_path / "roots"))
        (open_folder / f".java_pid{pid}").symlink_to("/roots")
        with pytest.raises(PermissionError, match="another user's"):
            attaching.write_perf_map(pid)


def test_dumps_of_containers_are_read_in_their_root_with_the_rights_of_their_user(container: Path, secret: Path):
    (container / "jit-1.dump").symlink_to(secret)
    with child(container, own_mounts=True) as pid:
        for name in ("/jit-1.dump", str(secret)):
            record = records.Mmap2(
                pid=pid, tid=pid, addr=0, len=4096, pgoff=0, maj=0, min=0, ino=0, ino_generation=0, prot=5, flags=2, filename=name, misc=2
            )
            with pytest.raises(PerfError, match=r"No such file|Permission denied|a symbolic link"):
                read_dump(record)
