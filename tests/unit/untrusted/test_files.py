"""What is opened is a regular file of an owner who counts."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

import pytest

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


def test_descriptors_are_closed_after_errors(fifo: str, tmp_path: Path):
    (tmp_path / "file").write_bytes(b"12345")
    before = os.listdir("/proc/self/fd")
    for path, named in ((fifo, {}), (str(tmp_path / "file"), {"owners": (NOBODY,)}), (str(tmp_path / "file"), {"limit": 4})):
        with pytest.raises(OSError, match=r"not a regular|belongs to|larger"):
            open_regular(path, **named)
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
