"""Keep arrays beyond the memory limit in an unnamed temporary file, mapped on use.

PERFPY_MEMORY is the limit for data that grow with the number of distinct samples; the default depends on the machine.
"""

from __future__ import annotations

import os
import pickle
import re
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.startup import NamedTuple
from perfpy.errors import OutputFailedError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from io import FileIO

    from numpy.typing import NDArray

#: the limit of memory for distinct samples: 500M, 2G
VARIABLE: Final = "PERFPY_MEMORY"
_UNITS: Final = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SHARE: Final = 4  # a quarter of the available memory
_LEAST: Final = 64 << 20
_MOST: Final = 512 << 20  # above it, merging from files is as fast as searching large tables
_MANY_SAMPLES: Final = 100_000
_LITTLE: Final = 32 << 20  # bytes
_UNKNOWN: Final = 4 << 30  # if the system does not report it
_CGROUP: Final = ("memory.max", "memory.current")


def memory_limit() -> int:
    """Return the limit in bytes. Raises UsageError if the variable is not a size."""
    text = os.environ.get(VARIABLE, "")
    if not text:
        return min(max(_LEAST, _available() // _SHARE), _MOST)
    match = re.fullmatch(r"([0-9]{1,15})([KMGT]?)(i?B)?", text.strip(), re.IGNORECASE)
    if match is None or not int(match[1]):
        raise UsageError(f"{VARIABLE}={text}: not a size; write 500M or 2G")
    return int(match[1]) * _UNITS[match[2].upper()]


def memory_for(samples: int) -> int | None:
    """Return the limit in bytes for folding this number of samples; None if they fit anyway."""
    return memory_limit() if samples >= _MANY_SAMPLES or VARIABLE in os.environ else None


def _available() -> int:
    """Return the available memory: of the machine, of this cgroup, of this process."""
    match = re.search(r"MemAvailable:\s+(\d+) kB", _read("/proc/meminfo"))
    limits = [int(match[1]) << 10] if match else []
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
        with open(path) as file:
            return file.read()
    except OSError:
        return ""


class Stored(NamedTuple):
    """The position of an array in the file: offset in bytes, type, number of elements."""

    offset: int
    dtype: np.dtype[Any]
    size: int


class ScratchFile:
    """A temporary file of arrays, in TMPDIR, or else in /var/tmp, which is on disk even if /tmp is in memory."""

    def __init__(self) -> None:
        import tempfile  # only when something does not fit

        self.folder = os.environ.get("TMPDIR") or ("/var/tmp" if os.access("/var/tmp", os.W_OK) else tempfile.gettempdir())
        try:
            self._file: FileIO = tempfile.TemporaryFile(prefix="perfpy-", dir=self.folder, buffering=0)  # noqa: SIM115  # open as long as this object
        except OSError as error:
            raise self._failure(error) from None
        self._end = 0

    def __del__(self) -> None:
        if hasattr(self, "_file"):
            self._file.close()  # mapped arrays stay valid

    def write(self, values: NDArray[Any]) -> Stored:
        """Append an array. Raises OutputFailedError if the disk is full."""
        stored = Stored(self._end, values.dtype, len(values))
        self._write(np.ascontiguousarray(values).data.cast("B") if len(values) else b"")
        return stored

    def _write(self, data: memoryview | bytes) -> None:
        begin = self._end
        self._end += len(data) + -len(data) % np.dtype(np.int64).itemsize
        written = 0
        try:
            while written < len(data):
                written += os.pwrite(self._file.fileno(), data[written:], begin + written)
        except OSError as error:
            raise self._failure(error) from None

    def _failure(self, error: OSError) -> OutputFailedError:
        remedy = f"set TMPDIR to a folder with more space, or raise {VARIABLE}"
        return OutputFailedError(self.folder, f"{error.strerror}; the distinct samples do not fit into memory", remedy=remedy)

    def read(self, stored: Stored, begin: int, end: int) -> NDArray[Any]:
        """Return a range of an array, in memory."""
        size = stored.dtype.itemsize
        return np.frombuffer(self._bytes(stored.offset + begin * size, (end - begin) * size), stored.dtype)

    def _bytes(self, offset: int, size: int) -> bytearray:
        data = bytearray(size)
        view, filled = memoryview(data), 0
        while filled < size:
            count = os.preadv(self._file.fileno(), [view[filled:]], offset + filled)
            if not count:
                raise OutputFailedError(self.folder, "a temporary file was truncated")
            filled += count
        return data

    def map_array(self, stored: Stored) -> NDArray[Any]:
        """Return an array as a memory mapping."""
        if not stored.size:
            return np.zeros(0, stored.dtype)
        return np.asarray(np.memmap(self._file, stored.dtype, "r", stored.offset, (stored.size,)))

    def append(self, parts: Iterable[NDArray[Any]], dtype: Any) -> Stored:
        """Append one array made of several; nothing else may be written meanwhile."""
        begin, count = self._end, 0
        for part in parts:
            self._end = begin + count * part.itemsize  # without a gap
            self._write(np.ascontiguousarray(part, dtype).data.cast("B") if len(part) else b"")
            count += len(part)
        return Stored(begin, np.dtype(dtype), count)

    def append_joined(self, parts: Iterable[NDArray[Any]], dtype: Any) -> NDArray[Any]:
        """Append one array made of several, and return it as a memory mapping."""
        return self.map_array(self.append(parts, dtype))

    def keep(self, value: object) -> tuple[int, int]:
        """Append any object, for `kept` in this process, its parent or a forked child."""
        data = pickle.dumps(value, protocol=5)
        span = self._end, len(data)
        self._write(data)
        return span

    def load(self, span: tuple[int, int]) -> Any:
        """Return an object that `keep` wrote: only this program can open the file."""
        return pickle.loads(self._bytes(*span))


class Overflow:
    """Storage for arrays: in memory up to the limit, then in a file."""

    def __init__(self) -> None:
        self._used_bytes, self._room = 0, -1  # bytes; -1: not yet determined
        self._file: ScratchFile | None = None

    def _fits(self, size: int) -> bool:
        """Reserve memory; return whether it was available."""
        if self._room < 0:
            if self._used_bytes + size < _LITTLE and VARIABLE not in os.environ:
                self._used_bytes += size
                return True
            self._room = memory_limit()
        fits = self._used_bytes + size <= self._room
        self._used_bytes += size * fits
        return fits

    def _scratch(self) -> ScratchFile:
        if self._file is None:
            self._file = ScratchFile()
        return self._file

    def keep(self, values: NDArray[Any]) -> NDArray[Any]:
        """Store an array."""
        if self._fits(values.nbytes):
            return values
        file = self._scratch()
        return file.map_array(file.write(values))

    def store_joined(self, parts: Iterable[NDArray[Any]], count: int, dtype: Any) -> NDArray[Any]:
        """Store one array made of several with `count` elements in all."""
        if not self._fits(count * np.dtype(dtype).itemsize):
            return self._scratch().append_joined(parts, dtype)
        result, filled = np.empty(count, dtype), 0
        for part in parts:
            result[filled : filled + len(part)] = part
            filled += len(part)
        return result
