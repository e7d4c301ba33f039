"""The memory of another process. Its contents are untrusted: sizes, ends and pointers must be checked."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING, Final, TypeVar

from perfpy.interpreters.objects import UnreadableMemoryError

if TYPE_CHECKING:
    from collections.abc import Callable

_Reader = TypeVar("_Reader")
_END: Final = 1 << 47  # of mappable addresses


class ProcessMemory:
    """The memory of a process until it is closed; a later process with the same pid is not read. Raises OSError without permission."""

    def __init__(self, pid: int) -> None:
        self._fd = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        """Close the file."""
        with contextlib.suppress(OSError):
            os.close(self._fd)

    def some(self, address: int, most: int) -> bytes:
        """Return the available bytes, at most `most`."""
        if not 0 < address < _END:
            return b""
        try:
            return os.pread(self._fd, most, address)
        except OSError:
            return b""

    def read(self, address: int, size: int) -> bytes:
        """Return `size` bytes. Raises OSError if there are fewer."""
        data = self.some(address, size)
        if len(data) < size:
            raise OSError(errno.EFAULT, "no such memory")
        return data

    def number(self, address: int, size: int = 8, *, signed: bool = False) -> int:
        """Return a number of `size` bytes, in little-endian order."""
        return int.from_bytes(self.read(address, size), "little", signed=signed)

    def text(self, address: int, most: int = 256) -> str:
        """Return text that ends with NUL."""
        return self.some(address, most).partition(b"\0")[0].decode("utf-8", "replace")


def with_memory(pid: int, make: Callable[[ProcessMemory], _Reader]) -> _Reader:
    """Open the memory of a process, and return what is made with it, which closes it; if that fails, it is closed. Raises OSError."""
    memory = ProcessMemory(pid)
    try:
        return make(memory)
    except BaseException:
        memory.close()
        raise


# The memory of a recorded process, for perfpy.interpreters.cpython.


class InterpreterMemory:
    """The open memory of a process; a later process with the same pid is not read. Raises OSError without permission."""

    def __init__(self, pid: int) -> None:
        self._memory = ProcessMemory(pid)
        self.close = self._memory.close

    def read(self, address: int, size: int) -> bytes:
        """Return exactly `size` bytes. Raises UnreadableMemoryError if fewer are readable."""
        data = self._memory.some(address, size)
        if len(data) < size:
            raise UnreadableMemoryError
        return data
