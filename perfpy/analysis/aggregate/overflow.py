"""Arrays that do not fit into memory, in a file that has no name and ends with the process.

What enters: arrays, one after the other. What leaves: the same arrays, mapped
from the file where they are large. How much memory there is for what grows with
the number of distinct samples says PERFPY_MEMORY, or else the machine.
"""

from __future__ import annotations

import os
import pickle
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.startup import NamedTuple
from perfpy.errors import OutputFailedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from io import FileIO

    from numpy.typing import NDArray

#: how much memory what is distinct in recordings may take: 500M, 2G
VARIABLE: Final = "PERFPY_MEMORY"
_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SHARE: Final = 4  # of the memory that is available: one part of so many
_LEAST: Final = 64 << 20
_MOST: Final = 512 << 20  # merging what is in files takes no longer than looking for it in large tables
_MANY_SAMPLES: Final = 100_000
_LITTLE: Final = 32 << 20  # bytes
_UNKNOWN: Final = 4 << 30  # where the system does not say
_CGROUP: Final = ("memory.max", "memory.current")


def memory_limit() -> int:
    """In bytes. Raises UsageError when the variable does not say a size."""
    text = os.environ.get(VARIABLE, "")
    if not text:
        return min(max(_LEAST, _available() // _SHARE), _MOST)
    found = re.fullmatch(r"([0-9]{1,15})([KMGT]?)(i?B)?", text.strip(), re.IGNORECASE)
    if found is None or not int(found[1]):
        raise UsageError(f"{VARIABLE}={text}: not a size; write 500M or 2G")
    return int(found[1]) * _UNITS[found[2].upper()]


def memory_for(samples: int) -> int | None:
    """In bytes, for folding so many samples; None where they fit into any."""
    return memory_limit() if samples >= _MANY_SAMPLES or VARIABLE in os.environ else None


def _available() -> int:
    """The memory that may be used: of the machine, of this cgroup, of this process."""
    found = re.search(r"MemAvailable:\s+(\d+) kB", _read("/proc/meminfo"))
    limits = [int(found[1]) << 10] if found else []
    cgroup = re.search(r"^0::(/.*)$", _read("/proc/self/cgroup"), re.MULTILINE)
    if cgroup:
        most, used = (_read(f"/sys/fs/cgroup{cgroup[1]}/{name}").strip() for name in _CGROUP)
        limits += [max(int(most) - int(used), 0)] if most.isdigit() and used.isdigit() else []
    try:
        import resource  # not on every system
    except ImportError:
        return min(limits, default=_UNKNOWN)
    most_addresses = resource.getrlimit(resource.RLIMIT_AS)[0]
    return min([*limits, *([most_addresses] if most_addresses != resource.RLIM_INFINITY else [])], default=_UNKNOWN)


def _read(path: str) -> str:
    try:
        return Path(path).read_text()
    except OSError:
        return ""


class Stored(NamedTuple):
    """Where an array is in the file: the offset in bytes, what it is of, how many."""

    offset: int
    dtype: np.dtype[Any]
    size: int


class ScratchFile:
    """Holds arrays. It is in TMPDIR, or else in /var/tmp, which is a disk where /tmp is memory."""

    def __init__(self) -> None:
        import tempfile  # only when something does not fit

        self.folder = os.environ.get("TMPDIR") or ("/var/tmp" if os.access("/var/tmp", os.W_OK) else tempfile.gettempdir())
        try:
            self._file: FileIO = tempfile.TemporaryFile(prefix="perfpy-", dir=self.folder, buffering=0)  # noqa: SIM115  # as long as this
        except OSError as error:
            raise self._failed(error) from None
        self._end = 0

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()  # what is mapped of it stays

    def write(self, values: NDArray[Any]) -> Stored:
        """Put an array behind the others. Raises OutputFailedError when the disk is full."""
        stored = Stored(self._end, values.dtype, len(values))
        self._write(np.ascontiguousarray(values).data.cast("B") if len(values) else b"")
        return stored

    def _write(self, data: memoryview | bytes) -> None:
        begin = self._end
        self._end += len(data) + -len(data) % np.dtype(np.int64).itemsize
        done = 0
        try:
            while done < len(data):
                done += os.pwrite(self._file.fileno(), data[done:], begin + done)
        except OSError as error:
            raise self._failed(error) from None

    def _failed(self, error: OSError) -> OutputFailedError:
        remedy = f"set TMPDIR to a folder with more room, or {VARIABLE} to more memory"
        return OutputFailedError(self.folder, f"{error.strerror}, and what was read does not fit into memory", remedy=remedy)

    def read(self, stored: Stored, begin: int, end: int) -> NDArray[Any]:
        """Some of an array, in memory."""
        size = stored.dtype.itemsize
        return np.frombuffer(self._bytes(stored.offset + begin * size, (end - begin) * size), stored.dtype)

    def _bytes(self, offset: int, size: int) -> bytearray:
        data = bytearray(size)
        view, done = memoryview(data), 0
        while done < size:
            count = os.preadv(self._file.fileno(), [view[done:]], offset + done)
            if not count:
                raise OutputFailedError(self.folder, "a file for what does not fit into memory has become shorter")
            done += count
        return data

    def mapped(self, stored: Stored) -> NDArray[Any]:
        """An array, which the system reads when it is looked at."""
        if not stored.size:
            return np.zeros(0, stored.dtype)
        return np.asarray(np.memmap(self._file, stored.dtype, "r", stored.offset, (stored.size,)))

    def append(self, parts: Iterable[NDArray[Any]], dtype: Any) -> Stored:
        """Put one array there of several; nothing else is to be written meanwhile."""
        begin, count = self._end, 0
        for part in parts:
            self._end = begin + count * part.itemsize  # without a gap
            self._write(np.ascontiguousarray(part, dtype).data.cast("B") if len(part) else b"")
            count += len(part)
        return Stored(begin, np.dtype(dtype), count)

    def joined(self, parts: Iterable[NDArray[Any]], dtype: Any) -> NDArray[Any]:
        """The same, as `mapped`."""
        return self.mapped(self.append(parts, dtype))

    def keep(self, value: object) -> tuple[int, int]:
        """Put anything there; `kept` gives it back in this process or one that was forked off it, or off which it was."""
        data = pickle.dumps(value, protocol=5)
        span = self._end, len(data)
        self._write(data)
        return span

    def kept(self, span: tuple[int, int]) -> Any:
        """What `keep` was given: by this program alone, as nobody else can open the file."""
        return pickle.loads(self._bytes(*span))


class Overflow:
    """Keeps arrays in memory while there is room for them, and beyond that in a file."""

    def __init__(self) -> None:
        self._kept, self._room = 0, -1  # bytes; -1: not asked for yet
        self._file: ScratchFile | None = None

    def _fits(self, size: int) -> bool:
        """Whether there is room for so many bytes more, which is taken then."""
        if self._room < 0:
            if self._kept + size < _LITTLE and VARIABLE not in os.environ:
                self._kept += size
                return True
            self._room = memory_limit()
        fits = self._kept + size <= self._room
        self._kept += size * fits
        return fits

    def _scratch(self) -> ScratchFile:
        if self._file is None:
            self._file = ScratchFile()
        return self._file

    def keep(self, values: NDArray[Any]) -> NDArray[Any]:
        """An array."""
        if self._fits(values.nbytes):
            return values
        file = self._scratch()
        return file.mapped(file.write(values))

    def joined(self, parts: Iterable[NDArray[Any]], count: int, dtype: Any) -> NDArray[Any]:
        """One array of several, which have so many elements together."""
        if not self._fits(count * np.dtype(dtype).itemsize):
            return self._scratch().joined(parts, dtype)
        whole, done = np.empty(count, dtype), 0
        for part in parts:
            whole[done : done + len(part)] = part
            done += len(part)
        return whole
