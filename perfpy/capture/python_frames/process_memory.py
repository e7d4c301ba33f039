"""The memory of a recorded process, as perfpy.interpreters.cpython reads it.

What enters: a pid. What leaves: bytes, or UnreadableMemoryError.
"""

from __future__ import annotations

from perfpy.capture.runtimes.hotspot.process_memory import ProcessMemory
from perfpy.interpreters.cpython.memory import UnreadableMemoryError


class InterpreterMemory:
    """Open until it is closed; another process that gets the same pid later is not read. Raises OSError where it may not be."""

    def __init__(self, pid: int) -> None:
        self._memory = ProcessMemory(pid)
        self.close = self._memory.close

    def read(self, address: int, size: int) -> bytes:
        """Return exactly `size` bytes. Raises UnreadableMemoryError where there are fewer."""
        data = self._memory.some(address, size)
        if len(data) < size:
            raise UnreadableMemoryError
        return data
