"""The events of a file: attrs, ids, names and groups. Imports no numpy: headers and lists of events are shown without it."""

from __future__ import annotations

from perfpy.abi.flags import BREAKPOINT_R, BREAKPOINT_W, BREAKPOINT_X, PerfType
from perfpy.perfdata.header import FEATURE_NAMES, Feature, decode_feature, key_of

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Final

    from perfpy.abi import perf_records
    from perfpy.abi.attr import EventAttr
    from perfpy.abi.perf_records import EventUpdate
    from perfpy.perfdata.event_format import Tracing
    from perfpy.perfdata.header import FileSection

    Warn = Callable[[str], None]


_ANONYMOUS: Final = "{anon_group}"


class FileEvent:
    """One event of a recording.

    Attributes:
        attr: its perf_event_attr.
        ids: the ids that its samples carry.
        name: as perf prints it.
        index: its position in the file.
        tracepoint: (system, name) of a tracepoint event, if the recording has its format.
        unit, scale, cpus: from EVENT_UPDATE records.
        leader: index of the event that leads its group; its own if it is alone.
        group_name: of a named group, at its leader.
        in_time: whether its periods are nanoseconds, whatever it counts.
        has_waits: whether the samples of time off the CPU were joined to it.
    """

    __slots__ = ("attr", "cpus", "group_name", "has_waits", "ids", "in_time", "index", "leader", "name", "scale", "tracepoint", "unit")

    def __init__(self, attr: EventAttr, ids: tuple[int, ...], name: str, index: int, tracepoint: tuple[str, str] | None = None) -> None:
        self.attr = attr
        self.ids = ids
        self.name = name
        self.index = index
        self.unit = ""
        self.scale: float | None = None
        self.cpus: tuple[int, ...] | None = None
        self.tracepoint = tracepoint
        self.leader = index
        self.group_name = ""
        self.in_time = False
        self.has_waits = False

    def __repr__(self) -> str:
        return f"FileEvent({self.name!r}, index={self.index}, ids={self.ids})"


def make_events(preamble: Preamble, tracing: Tracing | None) -> list[FileEvent]:
    """Return the events, named by EVENT_DESC, their tracepoint or their attr, then updated from EVENT_UPDATE records."""
    described = preamble.features.get(key_of(Feature.EVENT_DESC), ())
    events = []
    for index, (attr, ids) in enumerate(preamble.events):
        point = _tracepoint(attr, tracing)
        name = described[index].name if index < len(described) else ""
        events.append(FileEvent(attr, ids, name or (":".join(point) if point else default_name(attr)), index, point))
    if preamble.updates:
        _apply_updates(events, preamble.updates)
    for group in preamble.features.get(key_of(Feature.GROUP_DESC), ()):
        members = events[group.leader : group.leader + group.members]
        for event in members:
            event.leader = group.leader
        if members and group.name != _ANONYMOUS:
            members[0].group_name = group.name
    return events


def _tracepoint(attr: EventAttr, tracing: Tracing | None) -> tuple[str, str] | None:
    if attr.type != PerfType.TRACEPOINT or tracing is None:
        return None
    point = tracing.tracepoints.get(attr.config)
    return (point.system, point.name) if point else None


def _apply_updates(events: list[FileEvent], updates: Iterable[EventUpdate]) -> None:
    owners: dict[int, list[FileEvent]] = {}
    for event in events:
        for ident in set(event.ids):
            owners.setdefault(ident, []).append(event)
    for update in updates:
        for event in owners.get(update.id, ()):
            from perfpy.abi.perf_records import EVENT_UPDATE_UNIT  # only pipes have these records

            if isinstance(update.value, tuple):
                event.cpus = update.value
            elif isinstance(update.value, float):
                event.scale = update.value
            elif update.type == EVENT_UPDATE_UNIT:
                event.unit = update.value
            else:
                event.name = update.value


# Derive the names of events from their attrs, for recordings without event names. The names are perf's, with the modifiers of the counted
# modes ("cycles:u").

_HARDWARE: Final = (
    "cycles",
    "instructions",
    "cache-references",
    "cache-misses",
    "branches",
    "branch-misses",
    "bus-cycles",
    "stalled-cycles-frontend",
    "stalled-cycles-backend",
    "ref-cycles",
)
_SOFTWARE: Final = (
    "cpu-clock",
    "task-clock",
    "page-faults",
    "context-switches",
    "cpu-migrations",
    "minor-faults",
    "major-faults",
    "alignment-faults",
    "emulation-faults",
    "dummy",
    "bpf-output",
    "cgroup-switches",
)
_CACHES: Final = ("L1-dcache", "L1-icache", "LLC", "dTLB", "iTLB", "branch", "node")
_CACHE_ACCESSES: Final = ("loads", "stores", "prefetches")
_CACHE_MISSES: Final = ("load-misses", "store-misses", "prefetch-misses")


def default_name(attr: EventAttr) -> str:
    """Return perf's name of an event that has no recorded name.

    >>> from perfpy.abi.attr import EventAttr
    >>> default_name(EventAttr(type=0, config=0, exclude_kernel=1, exclude_hv=1))
    'cycles:u'
    """
    if attr.type == PerfType.HARDWARE:
        name = _join_names(_HARDWARE, attr.config & 0xFFFFFFFF, "unknown-hardware")
        return (f"cpu/{name}/" if attr.config >> 32 else name) + _modifiers(attr)
    if attr.type == PerfType.SOFTWARE:
        return _join_names(_SOFTWARE, attr.config, "unknown-software") + _modifiers(attr)
    if attr.type == PerfType.HW_CACHE:
        return _cache_name(attr.config) + _modifiers(attr)
    if attr.type == PerfType.RAW:
        return f"raw {attr.config:#x}" + _modifiers(attr)
    if attr.type == PerfType.TRACEPOINT:
        return "unknown tracepoint"
    if attr.type == PerfType.BREAKPOINT:
        access = "".join(letter for bit, letter in ((BREAKPOINT_R, "r"), (BREAKPOINT_W, "w"), (BREAKPOINT_X, "x")) if attr.bp_type & bit)
        return f"mem:{attr.bp_addr:#x}:{access}" + _modifiers(attr)
    return f"unknown attr type: {attr.type}"


def _join_names(names: tuple[str, ...], number: int, otherwise: str) -> str:
    return names[number] if number < len(names) else otherwise


def _cache_name(config: int) -> str:
    cache, op, result = config & 0xFF, config >> 8 & 0xFF, config >> 16 & 0xFF
    if cache >= len(_CACHES):
        return "unknown-ext-hardware-cache-type"
    if op >= len(_CACHE_ACCESSES):
        return "unknown-ext-hardware-cache-op"
    if result > 1:
        return "unknown-ext-hardware-cache-result"
    return f"{_CACHES[cache]}-{(_CACHE_MISSES if result else _CACHE_ACCESSES)[op]}"


def _modifiers(attr: EventAttr) -> str:
    """Return the letters after the colon: modes that differ from the default, and the precision."""
    letters = ""
    # perf expects exclude_guest of every event that has another modifier
    guest_excluded = False
    if attr.exclude_kernel or attr.exclude_user or attr.exclude_hv:
        excluded = (("k", attr.exclude_kernel), ("u", attr.exclude_user), ("h", attr.exclude_hv))
        letters += "".join(letter for letter, out in excluded if not out)
        guest_excluded = True
    if attr.precise_ip:
        letters += "p" * attr.precise_ip
        guest_excluded = True
    if attr.exclude_host or bool(attr.exclude_guest) == guest_excluded:
        letters += ("" if attr.exclude_host else "H") + ("" if attr.exclude_guest else "G")
    return ":" + letters if letters else ""


class Preamble:
    """The events and features of a recording.

    Attributes:
        data: the section of the records.
        events: attrs and their ids.
        features: name -> value.
        feature_sections: the sections of all features, unknown ones included (offset 0 in pipes).
        updates: EVENT_UPDATE records of a pipe.
        attr_records: a pipe's HEADER_ATTR records, header included.
    """

    def __init__(self, data: FileSection) -> None:
        self.data = data
        self.events: list[tuple[EventAttr, tuple[int, ...]]] = []
        self.features: dict[str, Any] = {}
        self.feature_sections: dict[int, FileSection] = {}
        self.updates: list[perf_records.EventUpdate] = []
        self.attr_records: list[bytes] = []

    def add_feature(self, number: int, data: bytes, endian: str, warn: Warn) -> None:
        """Decode a feature. Ignore an unknown one, and skip a damaged one with a warning."""
        if number not in FEATURE_NAMES:
            return
        try:
            count = self.features.get(key_of(Feature.NRCPUS))
            self.features[key_of(number)] = decode_feature(number, data, endian, cpus=count.available if count else None)
        except ValueError as error:
            warn(f"feature {FEATURE_NAMES[number]}: {error}; skipped")
