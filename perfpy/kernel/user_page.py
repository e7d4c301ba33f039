"""A counter's control page: its count and times, read without a system call where the CPU allows it.

What enters: the mapped page, and what can read a PMU register from user space.
What leaves: a Reading, or the reason why only read(2) can tell the count.
Layout and protocol: struct perf_event_mmap_page in include/uapi/linux/perf_event.h.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.abi.readings import Reading
from perfpy.kernel.ring import CAP_USER_TIME_SHORT, capability

if TYPE_CHECKING:
    import mmap
    from collections.abc import Callable

    ReadRegister = Callable[[int], int]
    ReadClock = Callable[[], int]

# offsets in the page, in units of each field's size
_LOCK_U32: Final = 2
_INDEX_U32: Final = 3
_OFFSET_S64: Final = 2
_ENABLED_U64: Final = 3
_RUNNING_U64: Final = 4
_CAPABILITIES_U64: Final = 5
_PMC_WIDTH_U16: Final = 24
_TIME_SHIFT_U16: Final = 25
_TIME_MULT_U32: Final = 13
_TIME_OFFSET_U64: Final = 7
_TIME_CYCLES_U64: Final = 10
_TIME_MASK_U64: Final = 11

_PAGE_FIELDS: Final = 96  # bytes up to the end of time_mask
_U64: Final = (1 << 64) - 1
_TRIES: Final = 100

_CAP_DEPRECATED: Final = capability(1)  # set by every kernel whose other capabilities mean what they say
_CAP_USER_RDPMC: Final = capability(2)
_CAP_USER_TIME: Final = capability(3)


class CounterUnreadable(Exception):
    """The page does not tell the count; its text says why."""


class UserReading(NamedTuple):
    """What Counter.read_user() found: the reading, and why it took a system call ("": it did not)."""

    reading: Reading
    why_read: str

    @property
    def from_page(self) -> bool:
        """Whether the mapped page told the count."""
        return not self.why_read


class UserPage:
    """The page of one counter.

    buffer: the mapping, or a page like it.
    """

    def __init__(self, buffer: mmap.mmap | memoryview | bytearray) -> None:
        self._buffer = buffer
        self._page = memoryview(buffer)[:_PAGE_FIELDS]
        self._u16 = self._page.cast("H")
        self._u32 = self._page.cast("I")
        self._s64 = self._page.cast("q")
        self._u64 = self._page.cast("Q")

    def read(self, read_register: ReadRegister | None = None, read_clock: ReadClock | None = None) -> Reading:
        """The count, exact at this moment. Raises CounterUnreadable.

        read_register: what reads PMU register n from user space (rdpmc and its like); read_clock: the CPU's
        time stamp counter, for counters that share the PMU; None where nothing does.

        The kernel makes `lock` odd while it writes, and another number when it has written: what was read
        in between is read again. Each access is a call of the interpreter, which no compiler moves, and
        the CPU that writes the page is the one on which this task runs, so that no barrier is needed.
        """
        for _ in range(_TRIES):
            before = self._u32[_LOCK_U32]
            if not before & 1:
                reading = self._read_once(read_register, read_clock)
                if self._u32[_LOCK_U32] == before:
                    return reading
        raise CounterUnreadable("the kernel keeps changing the counter's page")

    def _read_once(self, read_register: ReadRegister | None, read_clock: ReadClock | None) -> Reading:
        capabilities = self._u64[_CAPABILITIES_U64]
        if not capabilities & _CAP_DEPRECATED or not capabilities & _CAP_USER_RDPMC:
            raise CounterUnreadable("the kernel does not allow this counter to be read from user space (cap_user_rdpmc is not set)")
        index = self._u32[_INDEX_U32]
        if not index:
            raise CounterUnreadable("the counter is not in a register of the PMU now (index is 0)")
        if read_register is None:
            raise CounterUnreadable("a register of the PMU is read by a machine instruction, which Python does not have")
        register = _signed(read_register(index - 1), self._u16[_PMC_WIDTH_U16])
        enabled, running = self._u64[_ENABLED_U64], self._u64[_RUNNING_U64]
        if enabled != running:
            since = self._time_since_update(capabilities, read_clock)
            enabled, running = (enabled + since) & _U64, (running + since) & _U64
        return Reading((self._s64[_OFFSET_S64] + register) & _U64, enabled, running)

    def _time_since_update(self, capabilities: int, read_clock: ReadClock | None) -> int:
        """How many ns the counter has been enabled, and running, since the kernel wrote the page."""
        if not capabilities & _CAP_USER_TIME or read_clock is None:
            reason = "the counter shares the PMU; how long it has missed is told by the CPU's clock, which Python cannot read"
            raise CounterUnreadable(reason)
        cycles = read_clock()
        if capabilities & CAP_USER_TIME_SHORT:
            start = self._u64[_TIME_CYCLES_U64]
            cycles = start + ((cycles - start) & self._u64[_TIME_MASK_U64])
        scaled = (cycles * self._u32[_TIME_MULT_U32]) >> self._u16[_TIME_SHIFT_U16]
        return (self._u64[_TIME_OFFSET_U64] + scaled) & _U64

    def close(self) -> None:
        """Let go of the page; unmaps it where it is a mapping."""
        for view in (self._u16, self._u32, self._s64, self._u64, self._page):
            view.release()
        if not isinstance(self._buffer, memoryview | bytearray):
            self._buffer.close()


def _signed(value: int, width: int) -> int:
    """The lowest `width` bits as a signed number: a register counts up to its overflow from a negative start."""
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) & 1 else value
