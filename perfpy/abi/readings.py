"""read() of a counter -> Reading values, with the scaling of multiplexed counts.

What enters: the bytes that read(2) returns for an event, or that a READ
record or a sample carries. What leaves: one Reading a counter.
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
    """One counter's reading; times are nanoseconds, None where the read_format leaves a field out.

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
        """A tuple of all five, or of three where the other two are None."""
        return tuple.__new__(cls, (value, enabled, running) if id is lost is None else (value, enabled, running, id, lost))

    @property
    def id(self) -> int | None:
        """The counter's number in records and group reads."""
        return self[3] if len(self) > _WORDS else None

    @property
    def lost(self) -> int | None:
        """Samples that found no room in the ring."""
        return self[4] if len(self) > _WORDS else None

    def __repr__(self) -> str:
        return f"Reading(value={self.value}, enabled={self.enabled}, running={self.running}, id={self.id}, lost={self.lost})"

    @property
    def scaled(self) -> float:
        """The count for the whole time enabled, estimated from the time it was on the PMU; 0 when it never was."""
        if self.enabled is None or self.running is None or self.running >= self.enabled:
            return float(self.value)
        return self.value * self.enabled / self.running if self.running else 0.0

    @property
    def share(self) -> float:
        """The part of its enabled time, 0 to 1, in which the counter was on the PMU."""
        if not self.enabled or self.running is None:
            return 1.0 if self.enabled is None else 0.0
        return min(1.0, self.running / self.enabled)


class UserReading(Reading):
    """What Counter.read_user() found: a reading, and why it took a system call.

    >>> import perfpy
    >>> with perfpy.Counter.open("page-faults:u") as counter:
    ...     reading = counter.read_user()
    >>> reading.from_page or reading.why_read != ""
    True
    """

    __slots__ = ()

    @classmethod
    def of_read(cls, reading: Reading, why_read: str) -> UserReading:
        """One that read() made, and why."""
        values: Any = (*reading, why_read) if len(reading) > _WORDS else (*reading, None, None, why_read)
        return tuple.__new__(cls, values)

    @property
    def why_read(self) -> str:
        """Why it took a system call; "": it did not."""
        return "" if self.from_page else str(self[-1])

    @property
    def from_page(self) -> bool:
        """Whether the mapped page told the count."""
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


#: a read with both times and nothing else as Reading takes it: tuple.__new__(Reading, unpack_times(data))
unpack_times: Final = struct.Struct("=3Q").unpack
#: the same of a count that may be below 0 before it is put right
unpack_signed: Final = struct.Struct("=q2Q").unpack


def read_size(read_format: int, members: int = 1) -> int:
    """Bytes that a read returns: `members` is the number of events in the group (with GROUP)."""
    times = bool(read_format & _ENABLED) + bool(read_format & _RUNNING)
    each = 1 + bool(read_format & _ID) + bool(read_format & _LOST)
    return 8 * (1 + times + members * each) if read_format & _GROUP else 8 * (times + each)


def decode_read(data: bytes, read_format: int, endian: str = "<") -> list[Reading]:
    """All readings in `data`: one, or with GROUP one a member, leader first.

    Raises ValueError when `data` is shorter than read_format says (a pinned
    counter that is not on the PMU reads as 0 bytes).
    """
    if read_format == _ENABLED | _RUNNING and len(data) >= TIMES_SIZE:  # what counting asks for, many times a second
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
    """The mirror of decode_read()."""
    first = readings[0]
    times = [t or 0 for t, bit in ((first.enabled, _ENABLED), (first.running, _RUNNING)) if read_format & bit]
    each = [[r.value, *([r.id or 0] if read_format & _ID else []), *([r.lost or 0] if read_format & _LOST else [])] for r in readings]
    grouped = read_format & _GROUP
    words = [len(readings), *times, *(v for member in each for v in member)] if grouped else [each[0][0], *times, *each[0][1:]]
    return struct.pack(f"{endian}{len(words)}Q", *words)
