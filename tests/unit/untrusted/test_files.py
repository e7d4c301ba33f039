"""What is opened is a regular file of an owner who counts."""

from __future__ import annotations

import os
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from perfpy.symbols.files.elf import BadElfError, ElfFile
from perfpy.untrusted import files
from perfpy.untrusted.files import (
    ForeignFileError,
    NotRegularFileError,
    open_judged,
    open_regular,
    read_named,
    read_regular,
    regular_fd,
    require_regular,
    stream_fd,
    trusted_file_owners,
)
from perfpy.untrusted.paths import in_process
from tests.builders.opened_files import watch_opens
from tests.builders.other_users import child

if TYPE_CHECKING:
    from pathlib import Path

NOBODY = 65534


@pytest.fixture
def fifo(tmp_path: Path) -> str:
    os.mkfifo(tmp_path / "fifo")
    return str(tmp_path / "fifo")


def test_a_fifo_does_not_block(fifo: str):
    with pytest.raises(NotRegularFileError):
        regular_fd(fifo)
    with pytest.raises(NotRegularFileError):
        read_named(fifo, limit=9)


@pytest.mark.parametrize("path", ["/dev/null", "/dev/zero", "/tmp"])
def test_devices_and_folders_are_refused(path: str):
    with pytest.raises(NotRegularFileError):
        open_regular(path)


def sparse(path: Path, size: int, *, head: bytes = b"", written: int = 0) -> Path:
    """A file of which only the beginning is on the disk."""
    with open(path, "wb") as file:
        file.write(head + os.urandom(written))
        file.truncate(size)
    if not path.stat().st_blocks or path.stat().st_blocks * 512 > size // 2:
        pytest.skip("no holes on this file system")
    return path


def test_files_of_holes_are_refused_where_their_size_bounds_the_work(tmp_path: Path):
    """A file of a terabyte costs its owner nothing."""
    with pytest.raises(OSError, match="a sparse file"):
        open_regular(str(sparse(tmp_path / "map", 1 << 30, head=b"x")), limit=1 << 40)
    with pytest.raises(BadElfError, match=r"/program: a sparse file: 1048576 MB, nearly all of them holes"):
        ElfFile(str(sparse(tmp_path / "program", 1 << 40, head=b"\x7fELF")))
    with open_regular(str(sparse(tmp_path / "small", 16 << 20, head=b"x")), limit=1 << 40) as file:
        assert file.read(1) == b"x"
    with open_regular(str(sparse(tmp_path / "half", 48 << 20, written=1 << 20)), limit=1 << 40):
        pass


def test_descriptors_are_closed_after_errors(fifo: str, tmp_path: Path):
    (tmp_path / "file").write_bytes(b"12345")
    before = os.listdir("/proc/self/fd")
    for path, keywords in ((fifo, {}), (str(tmp_path / "file"), {"owners": (NOBODY,)}), (str(tmp_path / "file"), {"limit": 4})):
        with pytest.raises(OSError, match=r"not a regular|belongs to|larger"):
            open_regular(path, **keywords)
    assert os.listdir("/proc/self/fd") == before


def test_files_and_links_of_others_are_refused(tmp_path: Path):
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to("file")
    for name in ("file", "link"):
        assert read_regular(str(tmp_path / name), owners=(os.getuid(),), limit=9) == b"x"
        with pytest.raises(ForeignFileError, match=r"belongs to|a link of"):
            read_regular(str(tmp_path / name), owners=(NOBODY,), limit=9)


def test_no_more_is_read_than_the_limit(tmp_path: Path):
    (tmp_path / "file").write_bytes(b"12345")
    assert read_regular(str(tmp_path / "file"), limit=5) == b"12345"
    with pytest.raises(OSError, match="larger than"):
        read_regular(str(tmp_path / "file"), limit=4)
    with pytest.raises(OSError, match="larger than"):  # its size is 0 until it is read
        read_regular("/proc/self/maps", limit=4, of_kernel=True)


def test_an_inherited_pipe_is_read():
    read, write = os.pipe()
    os.write(write, b"names")
    os.close(write)
    assert read_named(f"/dev/fd/{read}", limit=9) == b"names"
    os.close(read)


def test_dev_null_is_an_empty_file():
    assert read_named("/dev/null", limit=9) == b""


def test_a_fifo_waits_for_its_writer_until_a_timeout(fifo: str, monkeypatch: pytest.MonkeyPatch):
    def write() -> None:
        with open(fifo, "wb") as out:
            out.write(b"data")

    writer = threading.Timer(0.1, write)
    writer.start()
    fd = stream_fd(fifo)
    assert (os.read(fd, 9), os.get_blocking(fd)) == (b"data", True)
    os.close(fd)
    writer.join()
    monkeypatch.setattr("perfpy.untrusted.files._WRITER_SECONDS", 0)
    with pytest.raises(TimeoutError):
        stream_fd(fifo)


def test_devices_are_refused_as_streams():
    with pytest.raises(NotRegularFileError):
        stream_fd("/dev/zero")
    os.close(stream_fd("/dev/null"))


# -- what is not regular is never opened --------------------------------------------------------------------------


@pytest.fixture
def ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """With O_PATH and /proc, without /proc, without both as on macOS."""
    if request.param == "no O_PATH":
        monkeypatch.setattr(files, "_NODE", 0)
    elif request.param == "no /proc":
        real = os.open

        def without_proc(path: str, *args: object, **named: object) -> int:
            if str(path).startswith("/proc/self/fd/"):
                raise FileNotFoundError(2, "No such file or directory", path)
            return real(path, *args, **named)  # type: ignore[arg-type]

        monkeypatch.setattr(os, "open", without_proc)
    return str(request.param)


every_way = pytest.mark.parametrize("ways", ["O_PATH", "no /proc", "no O_PATH"], indirect=True)


@every_way
@pytest.mark.parametrize("is_link", [False, True])
def test_fifos_devices_and_sockets_are_not_opened(tmp_path: Path, fifo: str, is_link: bool, ways: str):
    """Opening has effects: the writer of a FIFO goes on, a watchdog starts."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
        terminal, device = os.openpty()
        paths = [fifo, str(tmp_path / "socket"), os.ttyname(device)]
        os.close(device)
        names = paths
        if is_link:
            names = [str(tmp_path / f"link{index}") for index in range(len(paths))]
            for name, path in zip(names, paths, strict=True):
                os.symlink(path, name)
        with watch_opens(*paths) as opened:
            for name in names:
                for follow in (True, False):
                    with pytest.raises(OSError, match=r"not a regular file|a symbolic link"):
                        regular_fd(name, follow=follow)
                with pytest.raises(NotRegularFileError):
                    regular_fd(name, owners=trusted_file_owners())
        os.close(terminal)
    assert opened == [], ways


@every_way
def test_a_regular_file_is_opened_once_through_links(tmp_path: Path, ways: str):
    (tmp_path / "file").write_bytes(b"content")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "second").symlink_to(tmp_path / "link")
    for name, owners in (("file", None), ("second", None), ("second", trusted_file_owners())):
        with watch_opens(tmp_path / "file") as opened, open_regular(str(tmp_path / name), owners=owners) as file:
            assert file.read() == b"content"
        assert opened == [str(tmp_path / "file")], ways
    with pytest.raises(ForeignFileError, match="a symbolic link"):
        regular_fd(str(tmp_path / "link"), follow=False)
    (tmp_path / "gone").symlink_to("nothing")
    for name in ("gone", "none"):
        with pytest.raises(FileNotFoundError):
            regular_fd(str(tmp_path / name))


@every_way
def test_no_device_is_opened_as_a_recording(tmp_path: Path, ways: str):
    """A user puts a link with the usual name of a recording where root runs `perfpy report`."""
    terminal, device = os.openpty()
    path = os.ttyname(device)
    os.close(device)
    (tmp_path / "perf.data").symlink_to(path)
    with watch_opens(path) as opened, pytest.raises(NotRegularFileError, match="a device"):
        stream_fd(str(tmp_path / "perf.data"))
    os.close(terminal)
    assert opened == [], ways


@every_way
@pytest.mark.parametrize("path", ["/proc/self/status", "/sys/kernel/notes", "/proc/kmsg"])
def test_the_kernels_own_files_are_refused(path: str, tmp_path: Path, ways: str):
    """Reading /proc/kmsg removes the messages, which the machine's log then lacks."""
    if not os.access(path, os.R_OK):
        pytest.skip(f"{path} is unreadable")
    (tmp_path / "link").symlink_to(path)
    for name in (path, str(tmp_path / "link")):
        with pytest.raises(NotRegularFileError, match="a file of the kernel"):
            regular_fd(name)
    os.close(regular_fd(path, of_kernel=True))


def test_files_without_a_disk_are_no_files_of_the_kernel():
    """A memfd has no device and no blocks, as files of /proc."""
    fd = os.memfd_create("program")
    os.close(regular_fd(f"/proc/self/fd/{fd}"))
    os.close(fd)


def test_a_file_that_is_replaced_after_the_check_is_not_used(tmp_path: Path, fifo: str):
    """With O_PATH, the file that was checked is opened. Without, another file is refused."""
    path = tmp_path / "file"

    def replace(state: os.stat_result, node: int) -> None:
        require_regular(state, str(path), node)
        if os.path.lexists(tmp_path / "next"):
            os.rename(tmp_path / "next", path)

    for is_old in (True, False):
        path.write_bytes(b"checked")
        (tmp_path / "next").write_bytes(b"another")
        with pytest.MonkeyPatch.context() as patch:
            if is_old:
                patch.setattr(files, "_NODE", 0)
                with pytest.raises(OSError, match="replaced while it was opened"):
                    open_judged(str(path), replace)
            else:
                fd = open_judged(str(path), replace)
                assert fd is not None
                assert os.read(fd, 9) == b"checked"
                os.close(fd)


def test_links_of_a_process_lead_to_its_own_files(tmp_path: Path):
    """A link of root in a container, to a path that the host has as well."""
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (root / "etc" / "hostname").write_text("inside")
    (root / "map").symlink_to("/etc/hostname")
    if os.geteuid():
        pytest.skip("needs root, to change the root")
    with child(root, uid=0, gid=0) as pid, open_regular(in_process(pid, "/map"), owners=trusted_file_owners()) as file:
        assert file.read() == b"inside"
