"""Read the goroutines of a Go program from its memory: what each waits for, its stack, and the go statement that started it.

The runtime has all goroutines in runtime.allgs. Its structures differ by version, so their layout comes from the program's DWARF
(GoProgram in perfpy.capture.unwinding.observed_states). Go keeps frame pointers on amd64, so that the stack of a parked goroutine is a list
in its memory. Names and numbers are those of Go's src/runtime/runtime2.go.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.interpreters.objects import UnreadableMemoryError, is_pointer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.interpreters.objects import Memory


#: states of a goroutine; the names of the runtime's are _Grunnable and so on
RUNNABLE, RUNNING, IN_SYSTEM_CALL, WAITING = range(1, 5)
_SCAN: Final = 0x1000  # the garbage collector reads its stack
_MOST_GOROUTINES: Final = 4096
_MOST_FRAMES: Final = 32
_LARGEST: Final = 4096  # bytes of struct g
_LONGEST_REASON: Final = 64
_SLICE: Final = struct.Struct("<QQ")
_STRING: Final = struct.Struct("<QQ")


class GoLayout(NamedTuple):
    """Where things are: addresses in the process, and offsets in struct g.

    Attributes:
        allgs: the address of runtime.allgs.
        reasons: that of runtime.waitReasonStrings, 0 if it is unknown.
        pc, bp: offsets of the registers of a parked goroutine.
        status, reason, creator, start: offsets of atomicstatus, waitreason, gopc and startpc.
    """

    allgs: int
    reasons: int
    pc: int
    bp: int
    status: int
    reason: int
    creator: int
    start: int


class Goroutine(NamedTuple):
    """A goroutine.

    Attributes:
        status: RUNNABLE, RUNNING, IN_SYSTEM_CALL or WAITING.
        reason: the runtime's text of what it waits for; "" if it does not wait.
        addresses: of its stack, innermost first; empty if it runs.
        creator: an address in the go statement that started it, 0 for the first goroutine.
        start: the function that it began with.
    """

    status: int
    reason: str
    addresses: tuple[int, ...]
    creator: int
    start: int


class GoProcess:
    """The goroutines of one process."""

    def __init__(self, memory: Memory, layout: GoLayout) -> None:
        self._memory = memory
        self._layout = layout
        self._reasons: dict[int, str] = {}
        offsets = (layout.pc, layout.bp, layout.status, layout.reason, layout.creator, layout.start)
        self._size = max(offsets) + 8
        if not 0 < self._size <= _LARGEST:
            raise ValueError(f"a goroutine's structure of {self._size} bytes")

    def goroutines(self) -> list[Goroutine]:
        """Return the goroutines that have not ended. Raises UnreadableMemoryError."""
        first, count = _SLICE.unpack(self._memory.read(self._layout.allgs, _SLICE.size))
        if not is_pointer(first):
            return []
        pointers = self._memory.read(first, 8 * min(count, _MOST_GOROUTINES))
        return [goroutine for (address,) in struct.iter_unpack("<Q", pointers) if (goroutine := self._goroutine(address))]

    def _goroutine(self, address: int) -> Goroutine | None:
        if not is_pointer(address):
            return None
        layout = self._layout
        data = self._memory.read(address, self._size)
        (status,) = struct.unpack_from("<I", data, layout.status)
        status &= ~_SCAN
        if not RUNNABLE <= status <= WAITING:
            return None
        pc, bp, creator, start = (
            struct.unpack_from("<Q", data, offset)[0] for offset in (layout.pc, layout.bp, layout.creator, layout.start)
        )
        addresses = () if status in (RUNNING, IN_SYSTEM_CALL) else (pc, *self._callers(bp))
        reason = self._reason(data[layout.reason]) if status == WAITING else ""
        return Goroutine(status, reason, addresses, creator, start)

    def _callers(self, bp: int) -> Iterator[int]:
        """Yield the return addresses of a stack, from a frame pointer on."""
        for _ in range(_MOST_FRAMES):
            if not is_pointer(bp):
                return
            try:
                outer, address = struct.unpack("<QQ", self._memory.read(bp, 16))
            except UnreadableMemoryError:
                return
            if not address:
                return
            yield address
            if outer <= bp:  # stacks grow downwards
                return
            bp = outer

    def _reason(self, number: int) -> str:
        if number not in self._reasons:
            self._reasons[number] = ""
            if self._layout.reasons:
                try:
                    text, size = _STRING.unpack(self._memory.read(self._layout.reasons + _STRING.size * number, _STRING.size))
                    if 0 < size <= _LONGEST_REASON:
                        self._reasons[number] = self._memory.read(text, size).decode("utf-8", "replace")
                except UnreadableMemoryError:
                    pass
        return self._reasons[number]
