"""A counter's control page: its count and times, read without a system call where the CPU allows it.

What enters: the mapped page, and what can read a PMU register from user space.
What leaves: a Reading, or the reason why only read(2) can tell the count.
Layout and protocol: struct perf_event_mmap_page in include/uapi/linux/perf_event.h.
"""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING, Final

from perfpy.abi.readings import Reading, UserReading, unpack_signed
from perfpy.kernel.ring import CAP_USER_TIME_SHORT, capability
from perfpy.kernel.user_code import NoMachineCode, PageCode

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


_NOT_ALLOWED: Final = "the kernel does not allow this counter to be read from user space (cap_user_rdpmc is not set)"
_IN_NO_REGISTER: Final = "the counter is not in a register of the PMU now (index is 0)"
_KEEPS_CHANGING: Final = "the kernel keeps changing the counter's page"
_NO_CLOCK: Final = "the counter shares the PMU, and the kernel does not tell how the CPU's clock becomes its time"
_NOT_OURS: Final = "it counts another thread, or was mapped before this process was forked: its registers cannot be seen from here"
#: by what the machine code returns
_REASONS: Final = ("", _NOT_ALLOWED, _IN_NO_REGISTER, _KEEPS_CHANGING, _NO_CLOCK, _NOT_OURS)


class CounterUnreadable(Exception):
    """The page does not tell the count; its text says why."""


class UserPage:
    """The page of one counter.

    buffer: the mapping, or a page like it.
    """

    def __init__(self, buffer: mmap.mmap | memoryview | bytearray) -> None:
        self.buffer = buffer
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
        raise CounterUnreadable(_KEEPS_CHANGING)

    def _read_once(self, read_register: ReadRegister | None, read_clock: ReadClock | None) -> Reading:
        capabilities = self._u64[_CAPABILITIES_U64]
        if not capabilities & _CAP_DEPRECATED or not capabilities & _CAP_USER_RDPMC:
            raise CounterUnreadable(_NOT_ALLOWED)
        index = self._u32[_INDEX_U32]
        if not index:
            raise CounterUnreadable(_IN_NO_REGISTER)
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

    @property
    def width(self) -> int:
        """The bits of the PMU's registers."""
        return self._u16[_PMC_WIDTH_U16]

    def close(self) -> None:
        """Let go of the page; unmaps it where it is a mapping."""
        for view in (self._u16, self._u32, self._s64, self._u64, self._page):
            view.release()
        if not isinstance(self.buffer, memoryview | bytearray):
            self.buffer.close()


def _signed(value: int, width: int) -> int:
    """The lowest `width` bits as a signed number: a register counts up to its overflow from a negative start."""
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) & 1 else value


class CodeReader:
    """Reads a counter of the calling thread by machine code, from its page.

    page: it; read: the counter's read(), for the times when the page does not
    tell the count. read_page: the code, which returns what read(2) would, or
    b""; least: a count below it is to be put right. Raises CounterUnreadable
    where no machine code can be.
    """

    def __init__(self, page: UserPage, read: Callable[[], Reading], code: bytes = b"") -> None:
        try:
            self._code = PageCode(page.buffer, code)
        except NoMachineCode as reason:
            raise CounterUnreadable(str(reason)) from None
        self._page = page
        self._read = read
        self._wrapped_at = -1
        self.read_page: Callable[[], bytes] = self._code.read
        self.least = read().value
        _readers.add(self)

    def read(self) -> UserReading:
        """The count now, by a system call where the page does not tell."""
        data = self.read_page()
        if not data:
            return self.fallen_back()
        value, enabled, running = unpack_signed(data)
        return UserReading(value if value >= self.least else self._unwrapped(value), enabled, running)

    def fallen_back(self) -> UserReading:
        """After a call of read_page() that found nothing: what read() says, and why it was asked."""
        return UserReading.of_read(self._read(), _REASONS[self._code.why_not])

    def _unwrapped(self, value: int) -> int:
        """Less than there was before: the counter was set to 0, or its page counts from a register that was not sign-extended.

        The kernel writes such a page where it was mapped, or the counter set to 0, after a read() in the same turn on the CPU.
        """
        lock = self._code.lock
        wrapped = value + (1 << self._page.width)
        if lock == self._wrapped_at:
            return wrapped
        if wrapped - self._read().value < 1 << (self._page.width - 1):
            self._wrapped_at = lock
            return wrapped
        self.least = 0
        return value

    def leave(self) -> None:
        """After a fork, in the child, which has no such page: it would die of reading it."""
        self._code.leave()

    def close(self) -> None:
        """Let go of the page."""
        self.read_page = bytes
        self._code.close()


_readers: Final[weakref.WeakSet[CodeReader]] = weakref.WeakSet()


def _leave_all() -> None:
    for reader in _readers:
        reader.leave()


os.register_at_fork(after_in_child=_leave_all)
