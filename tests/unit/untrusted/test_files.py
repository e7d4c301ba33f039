"""Other users' files, read and mapped."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest

from perfpy.symbols.files.elf import BadElfError, ElfFile
from perfpy.untrusted import files
from perfpy.untrusted.files import (
    ForeignFileError,
    NotRegularFileError,
    in_process,
    open_judged,
    open_regular,
    read_named,
    read_regular,
    regular_fd,
    require_regular,
    stream_fd,
    trusted_file_owners,
)
from tests.builders.elf import Elf
from tests.builders.opened_files import watch_opens
from tests.builders.other_users import child
from tests.builders.perfdata import PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    from pathlib import Path


# What is opened is a regular file of an owner who counts.


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


# Files that are truncated while a command reads them: a recording ends the command with a line, the rest of other files is zeros.


SIZE = 4096
STACKS = 1 << 13 | 1 << 12 | 1 << 5 | 0x187  # STACK_USER, REGS_USER, CALLCHAIN; IP, TID, TIME, CPU, PERIOD
# the file is cut after a chunk of it was mapped
CUT = """
import os, sys
from perfpy.perfdata.source import ByteSource
mapped = ByteSource.map_bytes
def and_cut(source, offset, size):
    found = mapped(source, offset, size)
    os.truncate(source.path, 4096)
    return found
ByteSource.map_bytes = and_cut
from perfpy.cli import main
sys.exit(main())
"""
# another file is
OTHER = """
import mmap, os, sys
from perfpy.untrusted.mapped_files import unwatch, watch
whole, cut = (os.open(name, os.O_RDWR) for name in sys.argv[1:3])
watch(whole, "whole")
if sys.argv[3] == "unwatched":
    watch(cut, "cut")
    unwatch(cut)
    unwatch(whole)
memory = mmap.mmap(cut, 0)
os.ftruncate(cut, 0)
memory[0]
"""


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    built = PerfDataBuilder([usual_attr(STACKS, sample_regs_user=0x1C0, sample_stack_user=SIZE)])
    for time in range(20):
        registers: dict[str, Any] = {"user_regs": [0, 0x7000, 0x1000], "user_regs_abi": 2}
        built.sample(time=1000 + time, pid=7, tid=7, ip=0x1000, misc=2, callchain=[], user_stack=bytes(SIZE), **registers)
    path = tmp_path / "perf.data"
    path.write_bytes(built.file())
    return path


def ran(program: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("command", [["script"], ["report", "--stdio"]])
def test_a_recording_truncated_during_reading_is_reported_in_a_line(recording: Path, command: list[str]):
    result = ran(CUT, *command, "-i", str(recording))
    assert (result.returncode, result.stderr) == (255, f"{recording}: the file was cut while it was read\n")


@pytest.mark.parametrize("how", ["other", "unwatched"])
def test_other_bus_errors_keep_their_effect(tmp_path: Path, how: str):
    for name in ("whole", "cut"):
        (tmp_path / name).write_bytes(bytes(1 << 13))
    result = ran(OTHER, str(tmp_path / "whole"), str(tmp_path / "cut"), how)
    assert (result.returncode, result.stderr) == (-signal.SIGBUS, "")


# a library of another user is, after it was mapped
GUARDED = """
import gc, mmap, os, sys
from perfpy.untrusted.mapped_files import map_file
fd = os.open(sys.argv[1], os.O_RDWR)
calls = []
mapped = map_file(fd, lambda: calls.append(1))
os.ftruncate(fd, 5000)
print(set(mapped[:5000]), set(mapped[8192:]), len(mapped), len(calls))
if sys.argv[2] == "freed":
    start = mapped._start
    del mapped
    os.ftruncate(fd, 1 << 14)
    other = mmap.mmap(fd, 0)
    os.ftruncate(fd, 0)
    other[0]
"""


def test_the_missing_part_of_a_guarded_file_is_zeros(tmp_path: Path):
    (tmp_path / "library").write_bytes(b"x" * (1 << 14))
    result = ran(GUARDED, str(tmp_path / "library"), "kept")
    assert (result.returncode, result.stderr, result.stdout) == (0, "", "{120} {0} 16384 1\n")


def test_a_mapping_is_guarded_while_it_exists(tmp_path: Path):
    (tmp_path / "library").write_bytes(b"x" * (1 << 14))
    assert ran(GUARDED, str(tmp_path / "library"), "freed").returncode == -signal.SIGBUS


ELF = """
import os, shutil, sys
from perfpy.symbols.files.elf import ElfFile
file = ElfFile(sys.argv[1])
os.truncate(sys.argv[1], 4096)
print(*sorted(set(bytes(file.data(file.section("content"))))), file.flaws)
"""


def test_a_library_truncated_during_reading_is_reported_as_a_flaw(tmp_path: Path):
    library = tmp_path / "library.so"
    library.write_bytes(Elf().section("content", b"x" * (1 << 14)).build())
    result = ran(ELF, str(library))
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "0 120 ['truncated while it was read']\n"
