"""The memory of a recorded process, for perfpy.interpreters.cpython."""

from __future__ import annotations

from perfpy.capture.runtimes.hotspot.process_memory import ProcessMemory
from perfpy.interpreters.cpython.memory import UnreadableMemoryError


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
