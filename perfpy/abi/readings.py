"""Decode the result of read() on a counter, and scale multiplexed counts.

Layout: struct read_format in include/uapi/linux/perf_event.h.
"""

from __future__ import annotations

import struct
from _operator import itemgetter

from perfpy.abi.flags import ReadFormat

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from typing import Any, Final


class Reading(tuple[int | None, ...]):
    """One counter's reading. Times are nanoseconds; a field that the read_format lacks is None.

    >>> import perfpy
    >>> reading = perfpy.Reading(500, enabled=1000, running=500)
    >>> reading.value, reading.scaled
    (500, 1000.0)
    """

    __slots__ = ()

    value: int = property(itemgetter(0))  # type: ignore[assignment]
    enabled: int | None = property(itemgetter(1))  # type: ignore[assignment]
    running: int | None = property(itemgetter(2))  # type: ignore[assignment]

    def __new__(
        cls, value: int, enabled: int | None = None, running: int | None = None, id: int | None = None, lost: int | None = None
    ) -> Reading:
        """Make a tuple of all five fields, or of three if id and lost are None."""
        return tuple.__new__(cls, (value, enabled, running) if id is lost is None else (value, enabled, running, id, lost))

    @property
    def id(self) -> int | None:
        """The counter's number in records and group reads."""
        return self[3] if len(self) > _WORDS else None

    @property
    def lost(self) -> int | None:
        """The number of samples dropped because the ring buffer was full."""
        return self[4] if len(self) > _WORDS else None

    def __repr__(self) -> str:
        return f"Reading(value={self.value}, enabled={self.enabled}, running={self.running}, id={self.id}, lost={self.lost})"

    @property
    def scaled(self) -> float:
        """The count, extrapolated from the running time to the enabled time; 0 if the counter never ran."""
        if self.enabled is None or self.running is None or self.running >= self.enabled:
            return float(self.value)
        return self.value * self.enabled / self.running if self.running else 0.0

    @property
    def share(self) -> float:
        """The fraction of the enabled time, 0 to 1, in which the counter ran."""
        if not self.enabled or self.running is None:
            return 1.0 if self.enabled is None else 0.0
        return min(1.0, self.running / self.enabled)


class UserReading(Reading):
    """The result of Counter.read_user(): a reading, and the reason for a system call.

    >>> import perfpy
    >>> with perfpy.Counter.open("page-faults:u") as counter:
    ...     reading = counter.read_user()
    >>> reading.from_page or reading.why_read != ""
    True
    """

    __slots__ = ()

    @classmethod
    def of_read(cls, reading: Reading, why_read: str) -> UserReading:
        """Return the reading of a system call, with the reason for it."""
        values: Any = (*reading, why_read) if len(reading) > _WORDS else (*reading, None, None, why_read)
        return tuple.__new__(cls, values)

    @property
    def why_read(self) -> str:
        """The reason for a system call; "" if there was none."""
        return "" if self.from_page else str(self[-1])

    @property
    def from_page(self) -> bool:
        """Whether the count comes from the mapped page."""
        return len(self) == _WORDS

    def __repr__(self) -> str:
        return f"UserReading(value={self.value}, enabled={self.enabled}, running={self.running}, why_read={self.why_read!r})"


_ENABLED: Final = ReadFormat.TOTAL_TIME_ENABLED
_RUNNING: Final = ReadFormat.TOTAL_TIME_RUNNING
_ID: Final = ReadFormat.ID
_GROUP: Final = ReadFormat.GROUP
_LOST: Final = ReadFormat.LOST
_WORDS: Final = 3
TIMES_SIZE: Final = 8 * _WORDS  # of a read with both times and nothing else


#: fields of a read with both times and nothing else, for tuple.__new__(Reading, unpack_times(data))
unpack_times: Final = struct.Struct("=3Q").unpack
#: the same for a count that may be negative before its correction
unpack_signed: Final = struct.Struct("=q2Q").unpack


def read_size(read_format: int, members: int = 1) -> int:
    """Return the size of a read in bytes. With GROUP, `members` is the number of events in the group."""
    times = bool(read_format & _ENABLED) + bool(read_format & _RUNNING)
    each = 1 + bool(read_format & _ID) + bool(read_format & _LOST)
    return 8 * (1 + times + members * each) if read_format & _GROUP else 8 * (times + each)


def decode_read(data: bytes, read_format: int, endian: str = "<") -> list[Reading]:
    """Return all readings in `data`: one, or with GROUP one for each member, leader first.

    Raises ValueError if `data` is too short for read_format. A pinned counter that lost the PMU reads as 0 bytes.
    """
    if read_format == _ENABLED | _RUNNING and len(data) >= TIMES_SIZE:  # the common format of counting, read many times a second
        return [Reading(*struct.unpack_from(endian + "3Q", data))]
    group = bool(read_format & _GROUP)
    if len(data) < read_size(read_format, 0 if group else 1):
        raise ValueError(f"read of {len(data)} bytes, read_format {int(read_format):#x} needs {read_size(read_format)}")
    values = iter(struct.unpack(f"{endian}{len(data) // 8}Q", data[: len(data) // 8 * 8]))
    count = next(values) if group else 1
    if len(data) < read_size(read_format, count):
        raise ValueError(f"read of {len(data)} bytes, a group of {count} needs {read_size(read_format, count)}")
    value = None if group else next(values)
    enabled = next(values) if read_format & _ENABLED else None
    running = next(values) if read_format & _RUNNING else None
    readings = []
    for _ in range(count):
        counted = next(values) if value is None else value
        ident = next(values) if read_format & _ID else None
        lost = next(values) if read_format & _LOST else None
        readings.append(Reading(counted, enabled, running, ident, lost))
    return readings


def encode_read(readings: list[Reading], read_format: int, endian: str = "<") -> bytes:
    """Encode; the mirror of decode_read()."""
    first = readings[0]
    times = [t or 0 for t, bit in ((first.enabled, _ENABLED), (first.running, _RUNNING)) if read_format & bit]
    each = [[r.value, *([r.id or 0] if read_format & _ID else []), *([r.lost or 0] if read_format & _LOST else [])] for r in readings]
    grouped = read_format & _GROUP
    words = [len(readings), *times, *(v for member in each for v in member)] if grouped else [each[0][0], *times, *each[0][1:]]
    return struct.pack(f"{endian}{len(words)}Q", *words)
