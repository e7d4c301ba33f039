"""What is opened is a regular file of an owner who counts."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest

from perfpy.symbols.files.elf import BadElfError, ElfFile
from perfpy.untrusted.files import ForeignFileError, NotRegularFileError, open_regular, read_named, read_regular, regular_fd, stream_fd

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
        read_regular("/proc/self/maps", limit=4)


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
