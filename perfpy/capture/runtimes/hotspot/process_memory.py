"""The memory of another process.

What enters: a pid, addresses. What leaves: bytes, numbers. What it holds is another's: nothing that is read there may be
believed to end, to fit or to lead anywhere.
"""

from __future__ import annotations

import contextlib
import errno
import os
from typing import Final

_END: Final = 1 << 47  # of what can be mapped


class ProcessMemory:
    """Open until it is closed; another process that gets the same pid later is not read. Raises OSError where it may not be."""

    def __init__(self, pid: int) -> None:
        self._fd = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        """Let go of it."""
        with contextlib.suppress(OSError):
            os.close(self._fd)

    def some(self, address: int, most: int) -> bytes:
        """As many bytes as there are, up to so many."""
        if not 0 < address < _END:
            return b""
        try:
            return os.pread(self._fd, most, address)
        except OSError:
            return b""

    def read(self, address: int, size: int) -> bytes:
        """So many bytes. Raises OSError where there are fewer."""
        data = self.some(address, size)
        if len(data) < size:
            raise OSError(errno.EFAULT, "no such memory")
        return data

    def number(self, address: int, size: int = 8, *, signed: bool = False) -> int:
        """A number of so many bytes, in this machine's order."""
        return int.from_bytes(self.read(address, size), "little", signed=signed)

    def text(self, address: int, most: int = 256) -> str:
        """Text that ends with NUL."""
        return self.some(address, most).partition(b"\0")[0].decode("utf-8", "replace")
