"""Arrays beyond the memory limit are stored in a file, unchanged."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import numpy as np
import pytest

from perfpy.analysis.aggregate import overflow
from perfpy.analysis.aggregate.overflow import VARIABLE, Overflow, ScratchFile, memory_for, memory_limit
from perfpy.errors import OutputFailedError, UsageError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("text", "size"), [("1", 1), ("64K", 64 << 10), ("500M", 500 << 20), ("2g", 2 << 30), ("1GiB", 1 << 30), ("3MB", 3 << 20)]
)
def test_the_variable_sets_the_limit(text: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, text)
    assert memory_limit() == size
    assert memory_for(1) == size


@pytest.mark.parametrize("text", ["much", "0", "-1", "1.5G", "2 furlongs", "9" * 30])
def test_an_invalid_limit_is_refused(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(UsageError, match="write 500M or 2G"):
        memory_limit()


def test_without_the_variable_the_limit_is_a_share_of_available_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    files = {"/proc/meminfo": "MemTotal: 9999999 kB\nMemAvailable:    1048576 kB\n", "/proc/self/cgroup": "0::/box\n"}
    monkeypatch.setattr(overflow, "_read", lambda path: files.get(path, ""))
    assert memory_limit() == 256 << 20
    files |= {"/sys/fs/cgroup/box/memory.max": f"{512 << 20}\n", "/sys/fs/cgroup/box/memory.current": f"{128 << 20}\n"}
    assert memory_limit() == 96 << 20
    files["/sys/fs/cgroup/box/memory.max"] = "max\n"
    assert memory_limit() == 256 << 20
    files["/proc/meminfo"] = f"MemAvailable: {1 << 40} kB\n"
    assert memory_limit() == 512 << 20
    assert memory_for(1) is None


def test_arrays_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    file = ScratchFile()
    first, second = file.write(np.arange(5, dtype=np.uint8)), file.write(np.arange(7, dtype=np.int64))
    joined = file.append_joined((np.full(count, count, np.uint16) for count in (2, 0, 3)), np.uint16)
    place = file.keep({"a": np.arange(3)})
    assert file.map_array(first).tolist() == [0, 1, 2, 3, 4]
    assert file.read(second, 2, 5).tolist() == [2, 3, 4]
    assert joined.tolist() == [2, 2, 3, 3, 3]
    assert file.load(place)["a"].tolist() == [0, 1, 2]
    assert file.map_array(file.write(np.zeros(0))).tolist() == []
    assert not list(tmp_path.iterdir())  # it has no name


def test_arrays_are_in_memory_as_long_as_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "100")
    overflow = Overflow()
    few, many = np.arange(10), np.arange(20)
    assert overflow.keep(few) is few
    assert isinstance(overflow.keep(many).base, np.memmap)
    assert overflow.keep(many).tolist() == many.tolist()
    assert isinstance(overflow.store_joined([few, few], 20, np.int64).base, np.memmap)
    assert overflow.store_joined([few[:2]], 2, np.int64).base is None


def test_a_full_disk_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    file = ScratchFile()

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(OutputFailedError) as caught:
        file.write(np.arange(3))
    beginning = f"cannot write {tmp_path}: No space left on device; the distinct samples do not fit into memory; "
    assert str(caught.value) == f"{beginning}set TMPDIR to a folder with more space, or raise {VARIABLE}"


def test_a_folder_that_is_not_there_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "gone"))
    with pytest.raises(OutputFailedError, match="No such file or directory; the distinct samples do not fit"):
        ScratchFile()
