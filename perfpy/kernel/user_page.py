"""Read a counter's count and times from its control page, without a system call, where the CPU allows it.

Layout and protocol: struct perf_event_mmap_page in include/uapi/linux/perf_event.h.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import sys
import weakref
from typing import TYPE_CHECKING, Final

from perfpy.abi.attr import Reading, UserReading, unpack_signed
from perfpy.kernel.ring import CAP_USER_TIME_SHORT, capability

if TYPE_CHECKING:
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


# Machine code that reads a counter of the calling thread from its mapped page, which pure Python cannot do. To the interpreter it is a
# builtin function without arguments, which returns count and times as bytes, as read(2) does. The code follows the protocol of struct
# perf_event_mmap_page in include/uapi/linux/perf_event.h. Its source is in tests/builders/user_code, where a test assembles it again.

_PAGE_ADDRESS: Final = b"\x11" * 8
_FOUND_ADDRESS: Final = b"\x22" * 8
_MAKE_BYTES: Final = b"\x33" * 8
_METH_NOARGS: Final = 4
_LOCK, _WHY_NOT, _THREAD = 3, 4, 5
_POINTER_SIZE: Final = 8
_PY_BUFFER_WORDS: Final = 16  # larger than struct Py_buffer, whose first word is the address

CODE: Final = {
    "x86_64": bytes.fromhex(
        "48bf111111111111111148be222222222222222264488b042500000000488b56284885d20f84e00000004839d00f850501000041bb640000"
        "00448b470841f7c0010000000f85c9000000448b4f284489c883e00683f8060f85c60000008b4f0c85c90f84c2000000ffc90f3348c1e220"
        "4809d0b940000000662b4f3048d3e048d3f848034710488906488b4718488b572048894608488956104839d0745841f6c1080f8489000000"
        "0f3148c1e2204809d041f6c120740e4c8b57504c29d0482347584c01d00fb74f324889c248d3ea4989d249d3e24c29d0448b5734490fafc2"
        "48d3e8490fafd24801d0480347384801460848014610443b470875174c8946184889f7be18000000eb3c48894628e920ffffff41ffcb0f85"
        "1dffffffb803000000eb1ab801000000eb13b802000000eb0cb804000000eb05b805000000488946204889f731f648b83333333333333333"
        "ffe0"
    ),
    "aarch64": bytes.fromhex(
        "80120058a112005849d03bd52a1440f9aa0f00b43f010aebe11000548b0c8052020840b9420f0037bf3903d5031440f964047f929f1800f1"
        "210f0054040c40b9240f0034840400519f7c0071c80e005485000010a50c048bdf3f03d5a0001fd606e83bd53e00001426e83bd53c000014"
        "46e83bd53a00001466e83bd53800001486e83bd536000014a6e83bd534000014c6e83bd532000014e6e83bd53000001406e93bd52e000014"
        "26e93bd52c00001446e93bd52a00001466e93bd52800001486e93bd526000014a6e93bd524000014c6e93bd522000014e6e93bd520000014"
        "06ea3bd51e00001426ea3bd51c00001446ea3bd51a00001466ea3bd51800001486ea3bd516000014a6ea3bd514000014c6ea3bd512000014"
        "e6ea3bd51000001406eb3bd50e00001426eb3bd50c00001446eb3bd50a00001466eb3bd50800001486eb3bd506000014a6eb3bd504000014"
        "c6eb3bd502000014069d3bd50460407907088052e400044bc620c49ac628c49a070840f9c600078b260000f9060c40f9071040f9df0007eb"
        "c002005403051836df3f03d544e03bd5c3002836052840f9082c40f9840005cb8400088a8400058b05644079083440b98924c59a2a21c59a"
        "84000acb847c089b8424c59a2411089b091c40f98400098bc600048be700048b269c00a9bf3903d5040840b99f00026be1000054220c00f9"
        "e00301aa010380d211000014291400f985ffff176b05007181f0ff54620080d208000014220080d206000014420080d204000014820080d2"
        "02000014a20080d2221000f9e00301aa010080d2f000005800021fd61f2003d5111111111111111122222222222222223333333333333333"
    ),
}


class NoMachineCodeError(Exception):
    """There is no code for this machine, or it may not run; the text has the reason."""


class _MethodDefinition(ctypes.Structure):
    """struct PyMethodDef, the interpreter's description of a builtin function."""

    _fields_ = (("name", ctypes.c_char_p), ("code", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


class PageCode:
    """The code for one page. Raises NoMachineCodeError.

    Attributes:
        buffer: the page, held until close()
        read: returns count (signed), enabled and running; b"" if the page cannot be used, and why_not has the reason. The first thread
            that calls it is the only one that may.
    """

    def __init__(self, buffer: object, code: bytes = b"") -> None:
        code = code or CODE.get(os.uname().machine, b"")
        if not code or ctypes.sizeof(ctypes.c_void_p) != _POINTER_SIZE or sys.implementation.name != "cpython":
            raise NoMachineCodeError(f"perfpy has no machine code that reads counters on {os.uname().machine} in {sys.implementation.name}")
        self._registers = (ctypes.c_uint64 * 6)()
        self._buffer = _HeldBuffer(buffer)
        make_bytes = ctypes.cast(ctypes.pythonapi.PyBytes_FromStringAndSize, ctypes.c_void_p).value or 0
        addresses = {_PAGE_ADDRESS: self._buffer.address, _FOUND_ADDRESS: ctypes.addressof(self._registers), _MAKE_BYTES: make_bytes}
        for mark, address in addresses.items():
            code = code.replace(mark, address.to_bytes(_POINTER_SIZE, "little"), 1)
        self._memory = _executable(code)
        self._definition = _MethodDefinition(b"read_page", self._memory.address, _METH_NOARGS, None)
        self.read: Callable[[], bytes] = _new_function(ctypes.byref(self._definition), None, None)

    @property
    def lock(self) -> int:
        """The page's lock at the last read."""
        return self._registers[_LOCK]

    @property
    def why_not(self) -> int:
        """The reason why the last call returned nothing, as a number of the source."""
        return self._registers[_WHY_NOT]

    def leave(self) -> None:
        """Forbid reading in the child of a fork, where the page is not mapped."""
        self._registers[_THREAD] = 1

    def close(self) -> None:
        """Release the page and the code; `read` must not be called any more."""
        self.read = bytes
        self._buffer.release()
        self._memory.release()


_libc: Final = ctypes.CDLL(None, use_errno=True)
_new_function: Final = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(
    ("PyCFunction_NewEx", ctypes.pythonapi)
)


class _HeldBuffer:
    """A buffer held at its address until release()."""

    def __init__(self, buffer: object) -> None:
        self._view = (ctypes.c_void_p * _PY_BUFFER_WORDS)()
        ctypes.pythonapi.PyObject_GetBuffer(ctypes.py_object(buffer), ctypes.byref(self._view), 0)
        self.address: int = self._view[0] or 0

    def release(self) -> None:
        ctypes.pythonapi.PyBuffer_Release(ctypes.byref(self._view))  # safe to call again


def _executable(code: bytes) -> _HeldBuffer:
    """Return memory with this code, first writable, then executable, never both."""
    size = mmap.PAGESIZE
    memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE)
    memory.write(code)
    held = _HeldBuffer(memory)
    if _libc.mprotect(ctypes.c_void_p(held.address), ctypes.c_size_t(size), mmap.PROT_READ | mmap.PROT_EXEC):
        held.release()
        raise NoMachineCodeError(f"this process may not run machine code of its own ({os.strerror(ctypes.get_errno())})")
    return held
