"""Read a counter's count and times from its control page, without a system call, where the CPU allows it.

Layout and protocol: struct perf_event_mmap_page in include/uapi/linux/perf_event.h.
"""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING, Final

from perfpy.abi.readings import Reading, UserReading, unpack_signed
from perfpy.kernel.ring import CAP_USER_TIME_SHORT, capability
from perfpy.kernel.user_code import NoMachineCodeError, PageCode

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

_CAP_DEPRECATED: Final = capability(1)  # set by every kernel whose other capability bits are reliable
_CAP_USER_RDPMC: Final = capability(2)
_CAP_USER_TIME: Final = capability(3)


_NOT_ALLOWED: Final = "the kernel does not allow this counter to be read from user space (cap_user_rdpmc is not set)"
_IN_NO_REGISTER: Final = "the counter is not in a register of the PMU now (index is 0)"
_KEEPS_CHANGING: Final = "the kernel keeps changing the counter's page"
_NO_CLOCK: Final = "the counter is multiplexed, and the kernel publishes no conversion from the CPU's clock"
_NOT_OURS: Final = "it counts another thread, or this process was forked after the mapping; its registers are out of reach"
#: by the return value of the machine code
_REASONS: Final = ("", _NOT_ALLOWED, _IN_NO_REGISTER, _KEEPS_CHANGING, _NO_CLOCK, _NOT_OURS)


class CounterUnreadableError(Exception):
    """The page cannot be used; the text has the reason."""


class UserPage:
    """The page of one counter. `buffer` is the mapping, or a page of the same layout."""

    def __init__(self, buffer: mmap.mmap | memoryview | bytearray) -> None:
        self.buffer = buffer
        self._page = memoryview(buffer)[:_PAGE_FIELDS]
        self._u16 = self._page.cast("H")
        self._u32 = self._page.cast("I")
        self._s64 = self._page.cast("q")
        self._u64 = self._page.cast("Q")

    def read(self, read_register: ReadRegister | None = None, read_clock: ReadClock | None = None) -> Reading:
        """Return the count at this moment. Raises CounterUnreadableError.

        Args:
            read_register: reads PMU register n from user space (rdpmc); None if impossible
            read_clock: reads the CPU's time stamp counter, for multiplexed counters; None if impossible

        The kernel makes `lock` odd while it writes, and increments it when it is done. Values read in between are read again. Each access
        is a call of the interpreter, which no compiler reorders, and the CPU that writes the page is the one that runs this task, so no
        barrier is needed.
        """
        for _ in range(_TRIES):
            before = self._u32[_LOCK_U32]
            if not before & 1:
                reading = self._read_once(read_register, read_clock)
                if self._u32[_LOCK_U32] == before:
                    return reading
        raise CounterUnreadableError(_KEEPS_CHANGING)

    def _read_once(self, read_register: ReadRegister | None, read_clock: ReadClock | None) -> Reading:
        capabilities = self._u64[_CAPABILITIES_U64]
        if not capabilities & _CAP_DEPRECATED or not capabilities & _CAP_USER_RDPMC:
            raise CounterUnreadableError(_NOT_ALLOWED)
        index = self._u32[_INDEX_U32]
        if not index:
            raise CounterUnreadableError(_IN_NO_REGISTER)
        if read_register is None:
            raise CounterUnreadableError("Python has no instruction that reads a PMU register")
        register = _sign_extend(read_register(index - 1), self._u16[_PMC_WIDTH_U16])
        enabled, running = self._u64[_ENABLED_U64], self._u64[_RUNNING_U64]
        if enabled != running:
            since = self._time_since_update(capabilities, read_clock)
            enabled, running = (enabled + since) & _U64, (running + since) & _U64
        return Reading((self._s64[_OFFSET_S64] + register) & _U64, enabled, running)

    def _time_since_update(self, capabilities: int, read_clock: ReadClock | None) -> int:
        """Return the ns that the counter has been enabled, and running, since the kernel wrote the page."""
        if not capabilities & _CAP_USER_TIME or read_clock is None:
            reason = "the counter is multiplexed, and Python cannot read the CPU's clock for its times"
            raise CounterUnreadableError(reason)
        cycles = read_clock()
        if capabilities & CAP_USER_TIME_SHORT:
            start = self._u64[_TIME_CYCLES_U64]
            cycles = start + ((cycles - start) & self._u64[_TIME_MASK_U64])
        scaled = (cycles * self._u32[_TIME_MULT_U32]) >> self._u16[_TIME_SHIFT_U16]
        return (self._u64[_TIME_OFFSET_U64] + scaled) & _U64

    @property
    def width(self) -> int:
        """The number of bits of the PMU's registers."""
        return self._u16[_PMC_WIDTH_U16]

    def close(self) -> None:
        """Release the page; unmap it if it is a mapping."""
        for view in (self._u16, self._u32, self._s64, self._u64, self._page):
            view.release()
        if not isinstance(self.buffer, memoryview | bytearray):
            self.buffer.close()


def _sign_extend(value: int, width: int) -> int:
    """Return the lowest `width` bits as a signed number: a register counts up to its overflow from a negative start."""
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) & 1 else value


class CodeReader:
    """Reads a counter of the calling thread from its page by machine code. Raises CounterUnreadableError if that is impossible.

    Attributes:
        read_page: the code; returns the bytes of read(2), or b""
        least: a lower count has wrapped and needs correction
    """

    def __init__(self, page: UserPage, read: Callable[[], Reading], code: bytes = b"") -> None:
        try:
            self._code = PageCode(page.buffer, code)
        except NoMachineCodeError as reason:
            raise CounterUnreadableError(str(reason)) from None
        self._page = page
        self._read = read
        self._wrapped_at = -1
        self.read_page: Callable[[], bytes] = self._code.read
        self.least = read().value
        _readers.add(self)

    def read(self) -> UserReading:
        """Return the count, by a system call if the page cannot be used."""
        data = self.read_page()
        if not data:
            return self.read_by_syscall()
        value, enabled, running = unpack_signed(data)
        return UserReading(value if value >= self.least else self._correct_wrap(value), enabled, running)

    def read_by_syscall(self) -> UserReading:
        """Return the count by read(), with the reason why read_page() returned nothing."""
        return UserReading.of_read(self._read(), _REASONS[self._code.why_not])

    def _correct_wrap(self, value: int) -> int:
        """Correct a count below the last one: the counter was reset, or its page counts from a register without sign extension.

        The kernel writes a page of the latter kind if it was mapped, or the counter reset, after a read() in the same time slice.
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
        """Stop reading in the child of a fork, which would crash: it does not have the page."""
        self._code.leave()

    def close(self) -> None:
        """Release the page."""
        self.read_page = bytes
        self._code.close()


_readers: Final[weakref.WeakSet[CodeReader]] = weakref.WeakSet()


def _leave_all() -> None:
    for reader in _readers:
        reader.leave()


os.register_at_fork(after_in_child=_leave_all)
