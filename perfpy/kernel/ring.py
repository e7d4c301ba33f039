"""The ring buffer of a sampling counter: one control page, then 2^n pages of records.

Records are handed out as memoryview slices, without a copy. Layout: struct perf_event_mmap_page in include/uapi/linux/perf_event.h.

A forward ring is read from tail to head. The kernel stops writing at the tail and counts the lost records. A backward ring
(attr.write_backward, mapped read-only) is never full: the kernel writes each record in front of the last one and overwrites the oldest.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import struct
import sys
from collections import deque
from errno import EINVAL, ENOMEM, EOPNOTSUPP, EPERM

from perfpy.abi.light_types import NamedTuple
from perfpy.errors import KernelRefusedError, UsageError

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Final

    from perfpy.abi.attr import EventAttr
    from perfpy.abi.records import KernelRecord
    from perfpy.abi.ring_records import RingSample

PAGE_SIZE: Final = mmap.PAGESIZE

# offsets in struct perf_event_mmap_page
_CAPABILITIES: Final = 40  # u64; bit 3 cap_user_time, bit 4 cap_user_time_zero, bit 5 cap_user_time_short
_CLOCK: Final = struct.Struct("=HIQQ")  # time_shift, time_mult, time_offset, time_zero at 50
_CLOCK_AT: Final = 50
_CYCLES: Final = struct.Struct("=QQ")  # time_cycles, time_mask at 80
_CYCLES_AT: Final = 80
_DATA_HEAD: Final = 1024
_DATA_TAIL: Final = 1032
_AUX_HEAD: Final = 1056
_AUX_TAIL: Final = 1064
_AUX_OFFSET: Final = 1072


def capability(number: int) -> int:
    """Return a bit of the capabilities. C compilers start bit fields at the most significant bit on big-endian machines."""
    return 1 << (number if sys.byteorder == "little" else 63 - number)


_CAP_USER_TIME_ZERO: Final = capability(4)
CAP_USER_TIME_SHORT: Final = capability(5)

_RECORD_SIZE_AT: Final = 6  # in perf_event_header

_MLOCK_SETTING: Final = "/proc/sys/kernel/perf_event_mlock_kb"


class Clock(NamedTuple):
    """The conversion from the CPU's cycle counter to perf's time, from the control page."""

    time_shift: int
    time_mult: int
    time_zero: int
    time_cycles: int
    time_mask: int
    zero: bool
    short: bool


class Ring:
    """The records of one mapped counter.

    Args:
        buffer: the mapping, control page first; its length is (1 + 2^n) pages
        backward: whether the counter was opened with write_backward

    Iterating takes the available records out one by one, decoded; newest first if backward. pending() and consume() give their bytes
    without a copy.

    >>> import perfpy
    >>> with perfpy.Counter.open("page-faults:u", sample_period=1, sample_type=perfpy.SampleType.ADDR) as counter:
    ...     ring = counter.ring(pages=1)
    ...     pages = bytearray(b"x") * (1 << 26)
    ...     kinds = {type(record).__name__ for record in ring}
    >>> kinds
    {'RingSample'}
    """

    def __init__(self, buffer: mmap.mmap | bytearray, *, backward: bool = False, page_size: int = PAGE_SIZE) -> None:
        view = memoryview(buffer)
        if len(view) <= page_size or (len(view) - page_size) & (len(view) - page_size - 1):
            raise ValueError(f"a ring of {len(view) - page_size} bytes of data, must be a power of two")
        self._buffer = buffer
        self.control = view[:page_size]
        self._data = view[page_size:]
        self._head = self.control[_DATA_HEAD : _DATA_HEAD + 8].cast("Q")
        self._tail = self.control[_DATA_TAIL : _DATA_TAIL + 8].cast("Q")
        self._mask = len(self._data) - 1
        self.backward = backward
        self._last_head = 0  # the head at the last read
        self._writers: Callable[[], Mapping[int, EventAttr]] | None = None
        self._pending_records: deque[KernelRecord | RingSample] = deque()

    def __iter__(self) -> Iterator[KernelRecord | RingSample]:
        """Yield the available records. A loop that breaks leaves its remaining records for the next one."""
        if not self._pending_records:
            data = b"".join(self.pending())
            self.consume()
            if data:
                from perfpy.abi.ring_records import RingDecoder  # numpy, only for users who want decoded records

                if self._writers is None:
                    raise UsageError("this ring has no attrs for its records; iterate over the result of Counter.ring()")
                self._pending_records.extend(RingDecoder(self._writers(), "<" if sys.byteorder == "little" else ">").decode(data))
        while self._pending_records:
            yield self._pending_records.popleft()

    def set_writers(self, writers: Callable[[], Mapping[int, EventAttr]]) -> None:
        """Set the function that returns the attrs of the counters writing here, by id."""
        self._writers = writers

    @classmethod
    def map(cls, fd: int, pages: int, *, backward: bool = False) -> Ring:
        """Map the ring of counter `fd` with `pages` pages of data (a power of two).

        Raises KernelRefusedError, with perf_event_mlock_kb as the remedy if the user may not lock this much memory.
        """
        prot = mmap.PROT_READ if backward else mmap.PROT_READ | mmap.PROT_WRITE
        try:
            return cls(mmap.mmap(fd, (pages + 1) * PAGE_SIZE, mmap.MAP_SHARED, prot), backward=backward)
        except OSError as error:
            raise _explain_refusal(error.errno or 0, pages) from None

    @property
    def size(self) -> int:
        """The size of the data in bytes."""
        return self._mask + 1

    def pending(self) -> tuple[memoryview, ...]:
        """Return the unread records as one slice, or two if they wrap around; () if there are none.

        The slices point into the ring and stay valid until consume(): write or copy them before.
        """
        if self.backward:
            return self._pending_backward()
        # The system call (or the interpreter's own loop) before this line orders the
        # load of the head before the loads of the data.
        start, end = self._tail[0], self._head[0]
        self._last_head = end
        return _slices(self._data, start, end) if start != end else ()

    def consume(self) -> None:
        """Return the space of the last pending() to the kernel."""
        if not self.backward:
            self._tail[0] = self._last_head

    def _pending_backward(self) -> tuple[memoryview, ...]:
        """Return the records from the newest (at the head) back to the oldest complete one not yet handed out."""
        head = self._head[0]
        if head == self._last_head:
            return ()
        limit = min((self._last_head - head) & 0xFFFFFFFFFFFFFFFF, self.size)
        end = 0
        while end < limit:
            offset = (head + end + _RECORD_SIZE_AT) & self._mask
            size = int.from_bytes(self._data[offset : offset + 2], sys.byteorder)
            if not size or end + size > limit:  # never written, or partly overwritten
                break
            end += size
        self._last_head = head
        return _slices(self._data, head, head + end) if end else ()

    def clock(self) -> Clock:
        """Return the time conversion in the control page."""
        (capabilities,) = struct.unpack_from("=Q", self.control, _CAPABILITIES)
        shift, mult, _, zero = _CLOCK.unpack_from(self.control, _CLOCK_AT)
        cycles, mask = _CYCLES.unpack_from(self.control, _CYCLES_AT)
        return Clock(
            shift,
            mult,
            zero,
            cycles,
            mask,
            zero=bool(capabilities & _CAP_USER_TIME_ZERO),
            short=bool(capabilities & CAP_USER_TIME_SHORT),
        )

    def close(self) -> None:
        """Unmap the ring, or leave that to the last slice still in use."""
        with contextlib.suppress(BufferError):
            for view in (self._head, self._tail, self.control, self._data):
                view.release()
            if isinstance(self._buffer, mmap.mmap):
                self._buffer.close()


class AuxArea:
    """The AUX area of a counter: bytes that hardware writes, read between aux_tail and aux_head.

    `ring` is the counter's data ring, whose control page holds the positions.
    """

    def __init__(self, ring: Ring, buffer: mmap.mmap | bytearray) -> None:
        control = ring.control
        self._buffer = buffer
        self._data = memoryview(buffer)
        self._head = control[_AUX_HEAD : _AUX_HEAD + 8].cast("Q")
        self._tail = control[_AUX_TAIL : _AUX_TAIL + 8].cast("Q")
        self._last_head = 0

    @classmethod
    def map(cls, fd: int, ring: Ring, pages: int, *, overwrite: bool = False) -> AuxArea:
        """Map `pages` pages (a power of two) after the data ring. Raises KernelRefusedError, and UsageError for a backward ring.

        overwrite: whether new data overwrite the oldest ones; otherwise the hardware stops at data that were not consumed.
        """
        if ring.backward:
            raise UsageError("a backward ring has no AUX area, because its control page is only read")
        offset = ring.size + PAGE_SIZE
        struct.pack_into("=QQ", ring.control, _AUX_OFFSET, offset, pages * PAGE_SIZE)
        protection = mmap.PROT_READ if overwrite else mmap.PROT_READ | mmap.PROT_WRITE
        try:
            area = mmap.mmap(fd, pages * PAGE_SIZE, mmap.MAP_SHARED, protection, offset=offset)
        except OSError as error:
            raise _explain_refusal(error.errno or 0, pages) from None
        return cls(ring, area)

    @property
    def size(self) -> int:
        """The size of the area in bytes."""
        return len(self._data)

    @property
    def head(self) -> int:
        """The position of the next byte: the number of bytes written, or, of some tracers that overwrite, an offset in the area."""
        return self._head[0]

    @property
    def position(self) -> int:
        """The number of bytes read so far."""
        return self._tail[0]

    def pending(self) -> tuple[memoryview, ...]:
        """Return the unread trace as one slice, or two if it wraps around; () if there is none."""
        self._last_head = self.head
        return self.between(self._tail[0], self._last_head)

    def between(self, start: int, end: int) -> tuple[memoryview, ...]:
        """Return the bytes between two positions, at most `size` apart, as one slice or two; () if they are equal."""
        return _slices(self._data, start, end) if start != end else ()

    def copy(self, start: int, end: int) -> bytes:
        """Return a copy of the bytes between two positions."""
        return b"".join(self.between(start, end))

    def consume(self) -> None:
        """Return the space of the last pending() to the kernel."""
        self._tail[0] = self._last_head

    def close(self) -> None:
        """Unmap the area."""
        for view in (self._head, self._tail, self._data):
            view.release()
        if isinstance(self._buffer, mmap.mmap):
            self._buffer.close()


def _slices(data: memoryview, start: int, end: int) -> tuple[memoryview, ...]:
    """Return the bytes from counter `start` to counter `end` of a ring whose size is a power of two."""
    mask = len(data) - 1
    first, last = start & mask, end & mask
    if first < last:
        return (data[first:last],)
    return (data[first:], data[:last]) if last else (data[first:],)


def _explain_refusal(errno: int, pages: int) -> KernelRefusedError:
    """Return the reason why a ring could not be mapped; for users, mostly the limit on locked memory."""
    if errno == ENOMEM:
        return KernelRefusedError("mmap", errno, cause=f"no memory for a ring of {pages} pages per counter", remedy="use fewer pages (-m)")
    if errno == EPERM:
        try:
            with open(_MLOCK_SETTING) as file:
                allowed = file.read().strip()
        except OSError:
            allowed = "?"
        return KernelRefusedError(
            "mmap",
            errno,
            cause=f"a ring of {pages} pages per counter is more memory than this user may lock ({allowed} KiB per CPU)",
            remedy="use fewer pages (-m), raise sysctl kernel.perf_event_mlock_kb, or run with CAP_IPC_LOCK",
        )
    if errno == EOPNOTSUPP:
        remedy = "use an event of intel_pt, arm_spe, cs_etm or a similar PMU"
        return KernelRefusedError("mmap", errno, cause="the PMU of this event writes no AUX data", remedy=remedy)
    if errno == EINVAL:
        return KernelRefusedError("mmap", errno, cause=f"the kernel does not map a ring of {pages} pages", remedy="use a power of two")
    return KernelRefusedError("mmap", errno, cause=os.strerror(errno))
