"""EventAttr: encode and decode perf_event_attr from one field table, for the system call and the file.

Any ABI size and both byte orders are supported. Layout: struct perf_event_attr in include/uapi/linux/perf_event.h.
"""

from __future__ import annotations

import _struct as struct  # struct itself is one more module to load
from _operator import and_, attrgetter, itemgetter, lshift

from perfpy.abi.flags import ATTR_SIZE_VER0, ATTR_SIZE_VER8, PerfType, ReadFormat, SampleType, SoftwareId
from perfpy.abi.light_types import NamedTuple

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any, Final


#: name, offset and struct code of every field except the bit field at offset 40
FIELDS: Final[tuple[tuple[str, int, str], ...]] = (
    ("type", 0, "I"),
    ("size", 4, "I"),
    ("config", 8, "Q"),
    ("sample_period", 16, "Q"),  # or sample_freq, when freq is set
    ("sample_type", 24, "Q"),
    ("read_format", 32, "Q"),
    ("wakeup_events", 48, "I"),  # or wakeup_watermark, when watermark is set
    ("bp_type", 52, "I"),
    ("config1", 56, "Q"),  # or bp_addr, kprobe_func, uprobe_path
    ("config2", 64, "Q"),  # or bp_len, kprobe_addr, probe_offset
    ("branch_sample_type", 72, "Q"),
    ("sample_regs_user", 80, "Q"),
    ("sample_stack_user", 88, "I"),
    ("clockid", 92, "i"),
    ("sample_regs_intr", 96, "Q"),
    ("aux_watermark", 104, "I"),
    ("sample_max_stack", 108, "H"),
    ("reserved_2", 110, "H"),
    ("aux_sample_size", 112, "I"),
    ("aux_action", 116, "I"),  # aux_start_paused, aux_pause, aux_resume in bits 0-2
    ("sig_data", 120, "Q"),
    ("config3", 128, "Q"),
    ("config4", 136, "Q"),
)

#: name and width of each part of the bit field at offset 40, from the lowest bit
FLAG_BITS: Final[tuple[tuple[str, int], ...]] = (
    ("disabled", 1),
    ("inherit", 1),
    ("pinned", 1),
    ("exclusive", 1),
    ("exclude_user", 1),
    ("exclude_kernel", 1),
    ("exclude_hv", 1),
    ("exclude_idle", 1),
    ("mmap", 1),
    ("comm", 1),
    ("freq", 1),
    ("inherit_stat", 1),
    ("enable_on_exec", 1),
    ("task", 1),
    ("watermark", 1),
    ("precise_ip", 2),
    ("mmap_data", 1),
    ("sample_id_all", 1),
    ("exclude_host", 1),
    ("exclude_guest", 1),
    ("exclude_callchain_kernel", 1),
    ("exclude_callchain_user", 1),
    ("mmap2", 1),
    ("comm_exec", 1),
    ("use_clockid", 1),
    ("context_switch", 1),
    ("write_backward", 1),
    ("namespaces", 1),
    ("ksymbol", 1),
    ("bpf_event", 1),
    ("aux_output", 1),
    ("cgroup", 1),
    ("text_poke", 1),
    ("build_id", 1),
    ("inherit_thread", 1),
    ("remove_on_exec", 1),
    ("sigtrap", 1),
    ("defer_callchain", 1),
    ("defer_output", 1),
)


def _shifts() -> Iterator[tuple[str, int, int]]:
    """Yield each bit field's name, its lowest bit, and its mask shifted down."""
    shift = 0
    for name, width in FLAG_BITS:
        yield name, shift, (1 << width) - 1
        shift += width


_SHIFTS: Final = tuple(_shifts())
_flag_bits: Final = attrgetter(*(name for name, _, _ in _SHIFTS))
_POSITIONS: Final = tuple(shift for _, shift, _ in _SHIFTS)
_MASKS: Final = tuple(mask for _, _, mask in _SHIFTS)
_KNOWN_SIZE: Final = 144
_NAMES: Final = tuple(name for name, _, _ in FIELDS if name != "size") + tuple(name for name, _ in FLAG_BITS) + ("reserved_flags",)
_RESERVED_SHIFT: Final = _SHIFTS[-1][1] + FLAG_BITS[-1][1]


def _bits_reversed(data: bytes) -> bytes:
    """Return the bytes with the bits of each byte reversed."""
    return bytes(int(f"{byte:08b}"[::-1], 2) for byte in data)


_LAYOUTS: Final[dict[tuple[str, int], tuple[struct.Struct, tuple[str, ...]]]] = {}


def _layout(endian: str, size: int) -> tuple[struct.Struct, tuple[str, ...]]:
    """Return the struct of all complete fields below `size`, with the bit field as 8 raw bytes; cached by size."""
    layout = _LAYOUTS.get((endian, size))
    if layout is None:
        code, names = endian, []
        for name, offset, kind in FIELDS:
            if offset == 48:
                code += "8s"
                names.append("flags")
            if offset + struct.calcsize("=" + kind) > size:
                break
            code += kind
            names.append(name)
        layout = struct.Struct(code), tuple(names)
        if size <= _KNOWN_SIZE:
            _LAYOUTS[endian, size] = layout
    return layout


class EventAttr:
    """One perf_event_attr, with every field and bit as an int under the kernel's name.

    `size` is what pack() writes by default: 136 (VER8), or the size that unpack() read. `unknown` keeps the trailing bytes of a newer,
    longer struct. Unions have properties for their other names: sample_freq, wakeup_watermark, bp_addr, bp_len.

    >>> import perfpy
    >>> attr = perfpy.EventAttr(type=1, config=2, disabled=1)
    >>> len(attr.pack()), attr.copy(disabled=0).disabled
    (136, 0)
    """

    __slots__ = (*_NAMES, "size", "unknown")

    type: int
    size: int
    config: int
    sample_period: int
    sample_type: int
    read_format: int
    wakeup_events: int
    bp_type: int
    config1: int
    config2: int
    branch_sample_type: int
    sample_regs_user: int
    sample_stack_user: int
    clockid: int
    sample_regs_intr: int
    aux_watermark: int
    sample_max_stack: int
    reserved_2: int
    aux_sample_size: int
    aux_action: int
    sig_data: int
    config3: int
    config4: int
    disabled: int
    inherit: int
    pinned: int
    exclusive: int
    exclude_user: int
    exclude_kernel: int
    exclude_hv: int
    exclude_idle: int
    mmap: int
    comm: int
    freq: int
    inherit_stat: int
    enable_on_exec: int
    task: int
    watermark: int
    precise_ip: int
    mmap_data: int
    sample_id_all: int
    exclude_host: int
    exclude_guest: int
    exclude_callchain_kernel: int
    exclude_callchain_user: int
    mmap2: int
    comm_exec: int
    use_clockid: int
    context_switch: int
    write_backward: int
    namespaces: int
    ksymbol: int
    bpf_event: int
    aux_output: int
    cgroup: int
    text_poke: int
    build_id: int
    inherit_thread: int
    remove_on_exec: int
    sigtrap: int
    defer_callchain: int
    defer_output: int
    reserved_flags: int
    unknown: bytes

    def __init__(self, **values: int) -> None:
        for name in _NAMES:
            setattr(self, name, 0)
        self.size = ATTR_SIZE_VER8
        self.unknown = b""
        for name, value in values.items():
            setattr(self, name, value)

    @property
    def sample_freq(self) -> int:
        """The sampling frequency in Hz: the name of sample_period if `freq` is set."""
        return self.sample_period

    @sample_freq.setter
    def sample_freq(self, value: int) -> None:
        self.sample_period = value

    @property
    def wakeup_watermark(self) -> int:
        """Bytes before a wake-up: the name of wakeup_events if `watermark` is set."""
        return self.wakeup_events

    @wakeup_watermark.setter
    def wakeup_watermark(self, value: int) -> None:
        self.wakeup_events = value

    @property
    def bp_addr(self) -> int:
        """A breakpoint's address: another name of config1."""
        return self.config1

    @bp_addr.setter
    def bp_addr(self, value: int) -> None:
        self.config1 = value

    @property
    def bp_len(self) -> int:
        """A breakpoint's length in bytes: another name of config2."""
        return self.config2

    @bp_len.setter
    def bp_len(self, value: int) -> None:
        self.config2 = value

    @property
    def flags(self) -> int:
        """The bit field at offset 40 as a number; the lowest bit is `disabled`."""
        bits: Iterable[int] = map(lshift, map(and_, _flag_bits(self), _MASKS), _POSITIONS)
        return sum(bits, self.reserved_flags << _RESERVED_SHIFT)

    @flags.setter
    def flags(self, value: int) -> None:
        for name, shift, mask in _SHIFTS:
            setattr(self, name, value >> shift & mask)
        self.reserved_flags = value >> _RESERVED_SHIFT

    def copy(self, **changes: int) -> EventAttr:
        """Return a copy with some fields changed."""
        other = EventAttr.__new__(EventAttr)
        for name in self.__slots__:
            setattr(other, name, getattr(self, name))
        for name, value in changes.items():
            setattr(other, name, value)
        return other

    def pack(self, endian: str = "<", size: int | None = None) -> bytes:
        """Return the struct's bytes.

        Args:
            endian: "<" or ">"
            size: the struct's size in bytes, also written to its `size` field; fields beyond it are dropped (default: .size)
        """
        size = self.size if size is None else size
        layout, names = _layout(endian, size)
        flags = self.flags.to_bytes(8, "little")
        if endian == ">":  # compilers of big-endian machines fill bit fields from the highest bit
            flags = _bits_reversed(flags)
        values: list[Any] = [flags if name == "flags" else size if name == "size" else getattr(self, name) for name in names]
        return (layout.pack(*values) + self.unknown).ljust(size, b"\0")[:size]

    @classmethod
    def unpack(cls, data: bytes, endian: str = "<") -> EventAttr:
        """Return the attr in `data`, which has as many bytes as its writer's ABI (64 or more).

        Fields unknown to the writer are 0. Raises ValueError for fewer than 64 bytes.
        """
        if len(data) < ATTR_SIZE_VER0:
            raise ValueError(f"perf_event_attr of {len(data)} bytes; expected at least {ATTR_SIZE_VER0}")
        layout, names = _layout(endian, min(len(data), _KNOWN_SIZE))
        attr = cls()
        for name, value in zip(names, layout.unpack_from(data), strict=True):
            if name == "flags":
                raw = _bits_reversed(value) if endian == ">" else value
                attr.flags = int.from_bytes(raw, "little")
            else:
                setattr(attr, name, value)
        attr.size = len(data)
        attr.unknown = bytes(data[_KNOWN_SIZE:])
        return attr

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EventAttr):
            return NotImplemented
        return all(getattr(self, n) == getattr(other, n) for n in _NAMES) and self.unknown.strip(b"\0") == other.unknown.strip(b"\0")

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        used = ", ".join(f"{n}={getattr(self, n):#x}" for n in _NAMES if getattr(self, n))
        return f"EventAttr({used})"


# How often an event is sampled: at each occurrence, after a count, or at a frequency. Input: the attrs of a recording. Output: whether
# its samples are a part of the events or all of them, and the option that lowers their number. The kernel decides it in
# perf_swevent_event(): software events and tracepoints whose samples have a period, but no frequency, are sampled at each occurrence.

_CLOCKS: Final = (SoftwareId.CPU_CLOCK, SoftwareId.TASK_CLOCK)
_COUNTED_BY_KERNEL: Final = (PerfType.SOFTWARE, PerfType.TRACEPOINT, PerfType.BREAKPOINT)


def is_sampled_each_time(attr: EventAttr) -> bool:
    """Return whether every occurrence of the event has its sample, so that shares are exact."""
    if attr.freq or not is_counted_by_kernel(attr):
        return False
    return attr.sample_period == 1 or _ignores_count(attr)


def is_counted_by_kernel(attr: EventAttr) -> bool:
    """Return whether the kernel counts the event one by one: not a clock, and not a counter of the hardware."""
    return attr.type in _COUNTED_BY_KERNEL and not _is_clock(attr)


def are_sampled_each_time(attrs: Sequence[EventAttr]) -> bool:
    """Return whether that holds for all events that have samples."""
    sampled = [attr for attr in attrs if not _is_dummy(attr)]
    return bool(sampled) and all(map(is_sampled_each_time, sampled))


def option_for_fewer(attrs: Sequence[EventAttr]) -> str:
    """Return the option that lowers the number of samples: -F, -c or --filter; "" without one."""
    sampled = [attr for attr in attrs if not _is_dummy(attr) and attr.sample_period and not _is_bpf_output(attr)]
    if any(attr.freq for attr in sampled):
        return "-F"
    if any(not _ignores_count(attr) for attr in sampled):
        return "-c"
    return "--filter" if any(attr.type == PerfType.TRACEPOINT for attr in sampled) else ""


def _ignores_count(attr: EventAttr) -> bool:
    """Whether a count (-c) has no effect."""
    if attr.type not in (PerfType.SOFTWARE, PerfType.TRACEPOINT) or _is_clock(attr):
        return False
    return not attr.freq and bool(attr.sample_type & SampleType.PERIOD)


def _is_clock(attr: EventAttr) -> bool:
    return attr.type == PerfType.SOFTWARE and attr.config in _CLOCKS


def _is_dummy(attr: EventAttr) -> bool:
    return attr.type == PerfType.SOFTWARE and attr.config == SoftwareId.DUMMY


def _is_bpf_output(attr: EventAttr) -> bool:
    return attr.type == PerfType.SOFTWARE and attr.config == SoftwareId.BPF_OUTPUT


# Decode the result of read() on a counter, and scale multiplexed counts. Layout: struct read_format in include/uapi/linux/perf_event.h.


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
        share = f", share={self.share:.3f}" if self.share < 1 else ""  # a count of 0 may be one that was never counted
        return f"Reading(value={self.value}, enabled={self.enabled}, running={self.running}, id={self.id}, lost={self.lost}{share})"

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
        share = f", share={self.share:.3f}" if self.share < 1 else ""
        return f"UserReading(value={self.value}, enabled={self.enabled}, running={self.running}, why_read={self.why_read!r}{share})"


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


# Events as their counters know them: what is counted, and whether it could be.


class CountedEvent:
    """An event whose counts are aggregated.

    Attributes:
        unit, scale: a count times `scale` is in `unit`
        pmu: the PMU's name in sysfs, or ""
        tool: the name of perf's own clock ("duration_time", ...), or ""
        per_pkg: whether the event counts once for each package
        snapshot: whether the last reading is the count, instead of the difference of two readings
        cpus: the CPUs that the PMU counts on; None means any
        generic: the id of the generic hardware event that a core PMU's own event counts, or None
        text_name: the name of an event on a hybrid machine without its PMU, or ""
        is_named: whether the name stays as it is, because the user or the option -d chose it
        added_to: the event of another PMU to which this one's count is added (uncore boxes), or None
        cgroup: the cgroup's path, or None
        leader: the event that leads the group; a single event leads itself
        group_size: the number of events in the group, set by `count_members`
    """

    __slots__ = (
        "added_to", "attr", "cgroup", "cpus", "generic", "group_size", "is_named", "leader", "name", "per_pkg", "pmu", "scale", "snapshot",
        "text_name", "tool", "unit",
    )  # fmt: skip

    def __init__(self, name: str, attr: EventAttr, *, unit: str = "", scale: float = 1.0, pmu: str = "", tool: str = "") -> None:
        self.name = name
        self.attr = attr
        self.unit = unit
        self.scale = scale
        self.pmu = pmu
        self.tool = tool
        self.per_pkg = False
        self.snapshot = False
        self.cpus: tuple[int, ...] | None = None
        self.cgroup: str | None = None
        self.generic: int | None = None
        self.text_name = ""
        self.is_named = False
        self.added_to: CountedEvent | None = None
        self.leader: CountedEvent = self
        self.group_size = 1

    def __repr__(self) -> str:
        return f"<CountedEvent {self.name}>"


class CountState(NamedTuple):
    """Whether an event could be opened and read.

    Attributes:
        supported: the event could be opened
        failed: a read failed, for example because a pinned counter lost the PMU
        why_not: the reason for either failure
    """

    supported: bool = True
    failed: bool = False
    why_not: Exception | None = None


COUNTED: Final = CountState()
