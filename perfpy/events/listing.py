"""List every event of a machine that -e accepts, section by section in perf list's order.

Raises KernelRefusedError if tracefs is unreadable.
"""

from __future__ import annotations

import os

from perfpy.abi.flags import PerfType
from perfpy.abi.light_types import NamedTuple
from perfpy.errors import KernelRefusedError, PerfError
from perfpy.events.event import HARDWARE, SOFTWARE, TOOL, cache_configs, cache_event_name
from perfpy.kernel.sysfs import names_in, split_number

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from typing import Any, Final

    from perfpy.events.machine import Machine
    from perfpy.events.vendor_tables import MetricDefinition
    from perfpy.kernel import Kernel
    from perfpy.kernel.sysfs import Alias, Pmu, Tracefs


_ENCODING_HELP: Final = "(see 'man perf-list' or 'man perf-record' on how to encode it)"
_SHOWN_TERMS: Final = 3
_LARGE_CORES: Final = "cpu_core"
#: PMUs that record traces; perf lists them without events
_TRACERS: Final = ("intel_pt", "intel_bts", "arm_spe", "cs_etm", "hisi_ptt")
#: PMUs beside the CPUs' own whose counters count any event
_COUNTING: Final = ("uncore_", "amd_l3", "amd_df", "amd_umc")
#: an event that no counter of its own counts
_GENERAL_EVENT: Final = "branch-misses"
_MOST_COUNTERS: Final = 32
_ANY_NUMBER: Final = "0..0xffffffffffffffff"
#: the terms of a core PMU besides its format, as perf list spells them
_GENERAL_TERMS: Final = (
    *(f"{name}={_ANY_NUMBER}" for name in ("config", "config1", "config2", "config3")),
    "name=string",
    "period=number",
    "freq=number",
    "branch_type=(u|k|hv|any|...)",
    "time",
    "call-graph=(fp|dwarf|lbr)",
    "stack-size=number",
    "max-stack=number",
    "nr=number",
    "inherit",
    "no-inherit",
    "overwrite",
    "no-overwrite",
    "percore",
    "aux-output",
    "aux-sample-size=number",
)


class EventInfo(NamedTuple):
    """One event, or one pattern of events (kind "Raw event descriptor").

    Attributes:
        kind: perf's term for it ("Software event" ...)
        encoding: a function that returns the event in its PMU's terms, "" without any; it may read a file
        event: (type, config) of a generic event

    >>> import perfpy
    >>> event = next(perfpy.list_events("page-faults"))
    >>> event.name, event.kind
    ('page-faults', 'Software event')
    """

    name: str
    kind: str
    alias: str = ""
    topic: str = ""
    pmu: str = ""
    description: str = ""
    long_description: str = ""
    scale_unit: str = ""
    deprecated: bool = False
    encoding: Callable[[], str] = str
    event: tuple[int, int] | None = None


def hardware(machine: Machine, *, all_of_them: bool = False) -> Iterator[EventInfo]:
    """Yield the generic hardware events that can be opened here, or with `all_of_them` all."""
    for name, alias, config in HARDWARE:
        if all_of_them or _is_supported(machine, PerfType.HARDWARE, config):
            yield EventInfo(name, "Hardware event", alias, event=(PerfType.HARDWARE, config))


def software() -> Iterator[EventInfo]:
    """Yield the software events, which every kernel has."""
    for name, alias, config in SOFTWARE:
        yield EventInfo(name, "Software event", alias, event=(PerfType.SOFTWARE, config))


def tool() -> Iterator[EventInfo]:
    """Yield the events that perfpy measures itself."""
    for name in TOOL:
        yield EventInfo(name, "Tool event", topic="tool")


def sensors(machine: Machine) -> Iterator[EventInfo]:
    """Yield the sensors of hardware monitors."""
    for one in machine.all_sensors:
        name, alias = one.alias or one.name, one.name if one.alias else ""
        yield EventInfo(name, "Hwmon event", alias, topic="hwmon", pmu=one.pmu, description=one.description)


def cache(machine: Machine, *, all_of_them: bool = False) -> Iterator[EventInfo]:
    """Yield the hardware cache events of each core PMU that can be opened here, or with `all_of_them` all."""
    for pmu in machine.core_pmus:
        extended = (pmu.type or 0) << 32 if machine.has_extended_types else 0
        for config in cache_configs():
            if all_of_them or _is_supported(machine, PerfType.HW_CACHE, config | extended):
                name = cache_event_name(config)
                alias = f"{pmu.name}/{name}/"
                event = (PerfType.HW_CACHE, config | extended)
                yield EventInfo(name, "Hardware cache event", alias, topic="cache", pmu=pmu.name, event=event)


def _is_supported(machine: Machine, event_type: int, config: int) -> bool:
    return bool(machine.sysfs.core_pmus) and machine.can_open(event_type, config)


def pmu_events(machine: Machine, *, every_pmu: bool = False, described: bool = True) -> list[EventInfo]:
    """Return the named events of all PMUs, in perf's order.

    Args:
        every_pmu: list PMUs that differ only in their number one by one
        described: describe the events of vendors' tables
    """
    rows: list[tuple[bool, str, bool, str, str, Pmu, Alias | None, str]] = []
    names_by_family: dict[str, set[str]] = {}
    first_of_family: dict[str, list[Alias]] = {}
    for pmu in machine.pmus:
        aliases, family = machine.aliases(pmu), _family(pmu)
        shown_name = pmu.name if every_pmu else family
        if not aliases and pmu.name.startswith(_TRACERS):
            rows.append((False, "", True, pmu.name, "", pmu, None, shown_name))
        known = names_by_family.get(family)
        if known is None:
            names_by_family[family], first_of_family[family] = {alias.name for alias in aliases}, aliases
        elif aliases is first_of_family[family] and not every_pmu:
            continue
        else:  # another PMU of the family: the rest of its events, or all that sysfs has
            aliases = [alias for alias in aliases if alias.name not in known or (every_pmu and not alias.topic)]
            known.update([alias.name for alias in aliases])
        rows += [(alias.is_described, alias.topic, not pmu.is_core, pmu.name, alias.name, pmu, alias, shown_name) for alias in aliases]
    rows.sort(key=_perfs_order)
    describe = None
    infos = []
    for *_, pmu, alias, shown_name in rows:
        if alias is None:
            infos.append(EventInfo(f"{shown_name}//", "Kernel PMU event", pmu=shown_name))
            continue
        text = alias.description
        if described and not text and alias.topic:
            if describe is None:
                from perfpy.events.descriptions import descriptions  # only CPUs with a table need them

                describe = descriptions().event
            text = describe(alias.name, alias.terms)
        infos.append(_pmu_event(pmu, shown_name, alias, text))
    return infos


def _perfs_order(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return row[:5]


def _pmu_event(pmu: Pmu, shown_name: str, alias: Alias, description: str) -> EventInfo:
    name, terms = alias.name, alias.terms
    base = _family(pmu) if alias.topic and shown_name == pmu.name else shown_name
    parameters = ""
    if "=?" in terms:  # the user must fill them in: PM_CYC,chip=?
        parameters = "".join(f",{term}" for term in terms.split(",") if term.endswith("=?"))
    with_pmu = f"{shown_name}/{name}{parameters}/"
    is_scaled = alias.topic and (alias.unit or alias.scale != 1.0)  # perf tells no scale of events in sysfs

    def encoding() -> str:
        """Return the terms with numbers in perf's spelling."""
        from perfpy.events.grammar import parse_terms  # only --details and JSON parse events

        words = []
        for term in parse_terms(terms):
            number = f"{term.value:#x}" if isinstance(term.value, int) and term.value else term.value
            words.append(term.name if term.value is None else f"{term.name}={number}")
        return f"{base}/{','.join(words)}/"

    return EventInfo._make(
        (
            name if pmu.is_core or alias.is_described else with_pmu,
            "Kernel PMU event",
            with_pmu if pmu.is_core and not alias.is_described else "",
            alias.topic,
            base,
            description,
            alias.long_description or description,
            f"{alias.scale:G}{alias.unit}" if is_scaled else "",
            alias.deprecated,
            encoding,
            None,
        )
    )


def _family(pmu: Pmu) -> str:
    """Return the PMU's name without its instance number."""
    return pmu.name if pmu.is_core else split_number(pmu.name)[0]


def _without_twins(pmus: Iterable[Pmu]) -> list[Pmu]:
    first: dict[str, Pmu] = {}
    for pmu in pmus:
        first.setdefault(_family(pmu), pmu)
    return list(first.values())


def raw_descriptors(machine: Machine, kernel: Kernel | None = None) -> Iterator[EventInfo]:
    """Yield the syntax of raw events: rNNN, and the terms of each PMU. With a kernel, its CPUs and counters are described, too."""
    kind = "Raw event descriptor"
    yield EventInfo("rNNN", kind)
    for pmu in _without_twins(machine.pmus):
        terms = [_term_pattern(name, field.width) for name, field in pmu.formats.items()]
        if pmu.is_core or not pmu.path:
            terms += _GENERAL_TERMS
        ellipsis = ",..." if len(terms) > _SHOWN_TERMS else ""
        name = f"{_family(pmu)}/{','.join(terms[:_SHOWN_TERMS])}{ellipsis}/modifier"
        full_name = f"{_family(pmu)}/{','.join(terms)}/modifier"
        help_text = _ENCODING_HELP if pmu.is_core or not pmu.path else ""
        counters = pmu_info(pmu, kernel).text if kernel and pmu.path else ""
        long_text = ". ".join(filter(None, (help_text, counters)))
        yield EventInfo(name, kind, description=help_text, long_description=long_text, encoding=full_name.__str__)


class PmuInfo(NamedTuple):
    """One PMU of this machine.

    Attributes:
        type: perf_event_attr.type of its events; None if sysfs lacks it
        cpus: the CPUs on which its events are opened; None means any
        counters: the counters that count any event, as far as the kernel shows; 0 if unknown
    """

    name: str
    type: int | None
    cpus: tuple[int, ...] | None
    counters: int

    @property
    def text(self) -> str:
        """The CPUs and counters in words."""
        from perfpy.abi.cpu_list import cpu_list_text

        cpus = (
            f"{'CPU' if len(self.cpus) == 1 else 'CPUs'} {cpu_list_text(self.cpus)}" if self.cpus else "all CPUs" if self.counters else ""
        )
        return "; ".join(filter(None, (cpus, f"{self.counters} counters" if self.counters else "")))


def pmu_info(pmu: Pmu, kernel: Kernel) -> PmuInfo:
    """Return what the kernel shows about a PMU.

    Sysfs has no number of counters. The kernel refuses a group that is larger, so groups of disabled events are tried.
    """
    counters = _largest_group(pmu, kernel) if pmu.is_core or pmu.name.startswith(_COUNTING) else 0
    return PmuInfo(pmu.name, pmu.type, pmu.cpus, counters)


def _largest_group(pmu: Pmu, kernel: Kernel) -> int:
    from perfpy.abi.attr import EventAttr
    from perfpy.events.grammar import parse_terms

    alias = pmu.alias(_GENERAL_EVENT) if pmu.is_core else None
    values = {term.name: term.value for term in parse_terms(alias.terms)} if alias else {"event": 1}
    attr = EventAttr(type=pmu.type or 0, disabled=1)
    for name, value in values.items():
        if name in pmu.formats and pmu.formats[name].field == "config":
            attr.config |= pmu.formats[name].spread(value if isinstance(value, int) else 1)
    pid, cpu = (0, -1) if pmu.is_core else (-1, (pmu.cpus or (0,))[0])
    fds: list[int] = []
    try:
        for _ in range(_MOST_COUNTERS + 1):
            fds.append(kernel.perf_event_open(attr, pid, cpu, fds[0] if fds else -1))
            attr = attr.copy(disabled=0)
    except KernelRefusedError:
        return len(fds)
    finally:
        for fd in reversed(fds):
            kernel.close(fd)
    return 0


def _term_pattern(name: str, width: int) -> str:
    highest = (1 << width) - 1
    if width == 1:
        return name
    return f"{name}=0..{highest if highest < 256 else hex(highest)}"


def metrics(machine: Machine, *, described: bool = True) -> list[MetricDefinition]:
    """Return the metrics by name, with descriptions. Of a hybrid CPU's metrics of one name, a group has one: that of the large cores."""
    listed: list[MetricDefinition] = []
    groups_of: dict[str, set[str]] = {}
    for metric in sorted(machine.metrics, key=lambda metric: (metric.name, metric.pmu != _LARGE_CORES)):
        known = groups_of.setdefault(metric.name, set())
        groups = tuple(group for group in metric.groups if group not in known)
        if groups or not known:
            listed.append(metric if len(groups) == len(metric.groups) else metric._replace(groups=groups))
        known.update(groups)
    if described and listed:
        from perfpy.events.descriptions import descriptions

        text_of = descriptions().metric
        listed = [metric if metric.description else _described(metric, text_of(metric.name, metric.unit)) for metric in listed]
    return listed


def _described(metric: MetricDefinition, text: str) -> MetricDefinition:
    return type(metric)._make((*metric[:3], text, text, *metric[5:]))  # hundreds of them: _replace takes three times as long


def tracepoints(tracefs: Tracefs) -> Iterator[EventInfo]:
    """Yield every tracepoint. Raises KernelRefusedError."""
    *first, _, event_type = EventInfo("", "Tracepoint event")
    for system in sorted(tracefs.systems):
        events = sorted(tracefs.events(system))
        if system == "ftrace":  # only two of its records have ids
            events = [event for event in events if tracefs.event_id(system, event) is not None]
        for event in events:
            encoding = _tracepoint_encoding(tracefs, system, event)
            yield EventInfo._make((f"{system}:{event}", *first[1:], encoding, event_type))  # thousands of them: a call takes twice as long


def markers(cache_folder: str) -> Iterator[EventInfo]:
    """Yield the markers (SDT) of the programs in perf's build-id cache."""
    for name in marker_names(cache_folder):
        yield EventInfo(name, "SDT event")


def _tracepoint_encoding(tracefs: Tracefs, system: str, event: str) -> Callable[[], str]:
    def encoding() -> str:
        number = tracefs.event_id(system, event)
        return "" if number is None else f"tracepoint/config={number:#x}/"

    return encoding


# Select events by the words of `perfpy list`: hw, sw, cache, tracepoint, pmu, sdt, metric, metricgroup, system:event, or any text. The
# result is in perf list's order. A forgiving search handles texts that perf's rule finds nothing for. Raises KernelRefusedError if
# tracefs is unreadable.

_SECTIONS: Final = {
    "hw": "hw",
    "hardware": "hw",
    "sw": "sw",
    "software": "sw",
    "cache": "cache",
    "hwcache": "cache",
    "tracepoint": "tracepoint",
    "pmu": "pmu",
    "sdt": "sdt",
    "metric": "metric",
    "metrics": "metric",
    "metricgroup": "metricgroup",
    "metricgroups": "metricgroup",
}


class ListFilter(NamedTuple):
    """The selection of one word. `show` is "all", or "metrics" or "groups" of the metrics."""

    infos: Iterable[EventInfo]
    metrics: list[MetricDefinition]
    show: str = "all"


def is_section(word: str) -> bool:
    """Whether a word names a whole section."""
    return word in _SECTIONS


def section_names() -> Collection[str]:
    """Return all section names."""
    return _SECTIONS


class Selector:
    """Selects events of one machine.

    Args:
        cache_folder: perf's build-id cache
        unsupported: include generic events that cannot be opened here
        described: describe events and metrics of vendors
        every_pmu: list PMUs that differ only in their number one by one
        kernel: to tell the CPUs and counters of PMUs; None to omit them

    `refusals` has the reasons why tracepoints are missing, after the events were read.
    """

    def __init__(
        self,
        machine: Machine,
        cache_folder: str,
        *,
        unsupported: bool = False,
        described: bool = True,
        every_pmu: bool = False,
        kernel: Kernel | None = None,
    ) -> None:
        self._described = described
        self._every_pmu = every_pmu
        self._kernel = kernel
        self._machine = machine
        self._cache_folder = cache_folder
        self._unsupported = unsupported
        self.refusals: list[KernelRefusedError] = []

    def everything(self) -> ListFilter:
        """Select all sections."""
        return ListFilter(self._all_infos(), metrics(self._machine, described=self._described))

    def select(self, word: str) -> ListFilter:
        """Select by one word."""
        section = _SECTIONS.get(word)
        if section == "metric":
            return ListFilter((), metrics(self._machine, described=self._described), "metrics")
        if section == "metricgroup":
            return ListFilter((), metrics(self._machine, described=self._described), "groups")
        if section:
            return ListFilter(self._section(section), [])
        if ":" in word:
            return self._matching(word, ("tracepoint", "sdt"))
        return self._matching(f"*{word}*", ("hw", "sw", "cache", "pmu", "tracepoint", "sdt"))

    def _all_infos(self) -> Iterator[EventInfo]:
        for section in ("hw", "sw", "cache", "pmu"):
            yield from self._section(section)
        yield from raw_descriptors(self._machine, self._kernel)
        yield EventInfo("mem:<addr>[/len][:access]", "Hardware breakpoint")
        for section in ("tracepoint", "sdt"):
            yield from self._section(section)

    def _section(self, section: str) -> Iterator[EventInfo]:
        machine = self._machine
        if section == "hw":
            yield from hardware(machine, all_of_them=self._unsupported)
        elif section == "sw":
            yield from software()
            yield from tool()
            yield from sensors(machine)
        elif section == "cache":
            yield from cache(machine, all_of_them=self._unsupported)
        elif section == "pmu":
            yield from pmu_events(machine, every_pmu=self._every_pmu, described=self._described)
        elif section == "tracepoint":
            try:
                yield from tracepoints(machine.tracefs)
            except KernelRefusedError as error:
                self.refusals.append(error)
        else:
            yield from markers(self._cache_folder)

    def _matching(self, pattern: str, sections: tuple[str, ...]) -> ListFilter:
        """Search as perf does: a pattern over names and aliases, and over topics in any case."""
        matcher = _matcher(pattern)
        topical = _matcher(pattern.lower())

        def fits(info: EventInfo) -> object:
            return matcher(info.name) or (info.alias and matcher(info.alias)) or (info.topic and topical(info.topic.lower()))

        infos = [info for section in sections for info in self._section(section) if fits(info)]
        matching = []
        for metric in metrics(self._machine, described=self._described):
            groups = metric.groups if matcher(metric.name) else tuple(filter(matcher, metric.groups))
            if groups or matcher(metric.name):
                matching.append(metric._replace(groups=groups))
        return ListFilter(infos, matching)


def _matcher(pattern: str) -> Callable[[str], bool]:
    import re  # only patterns need it
    from fnmatch import translate

    match = re.compile(translate(pattern)).match
    return lambda name: match(name) is not None


def default_cache_folder() -> str:
    """Return the default path of perf's build-id cache."""
    return os.path.expanduser("~/.debug")


def forgiving(text: str, infos: Iterable[EventInfo], most: int = 20) -> list[EventInfo]:
    """Return the events that a text may mean: each of its words begins, abbreviates or nearly spells a part of the name, or is in the
    description.

    `ctx sw` finds context-switches, `pagefault` page-faults, `l3 miss` loads that missed the L3 cache. Best matches come first.
    """
    words = _parts(text)
    if not words:
        return []
    ranked = []
    for info in infos:
        parts = _parts(f"{info.name} {info.alias}")
        joined = "".join(parts)
        described = set(_parts(info.description)) if info.description and info.kind in _DESCRIBED else ()
        scores = [min(_rank(word, parts, joined), _IN_DESCRIPTION if word in described else _NO_MATCH) for word in words]
        if all(score < _NO_MATCH for score in scores):
            ranked.append((sum(scores) + len(parts) / 100, info.kind == "Tracepoint event", info.name, info))
    ranked.sort(key=lambda row: row[:3])
    return [row[3] for row in ranked[:most]]


def _parts(text: str) -> list[str]:
    """Split a name at -, _, :, / and blanks."""
    return "".join(character if character.isalnum() else " " for character in text.lower()).split()


_NO_MATCH: Final = 9
_IN_DESCRIPTION: Final = 2
_DESCRIBED: Final = ("Kernel PMU event",)


def _rank(word: str, parts: list[str], joined: str) -> int:
    """Return how well a word fits a name: 0 for a part of it, _NO_MATCH for no match."""
    if word in parts:
        return 0
    if any(part.startswith(word) for part in parts):
        return 1
    if word in joined:
        return 2
    if any(part.startswith(word[0]) and _abbreviates(word, part) for part in parts):
        return 3
    if len(word) > 3 and any(_one_letter_off(word, part) for part in parts):
        return 4
    return _NO_MATCH


def _abbreviates(word: str, part: str) -> bool:
    letters = iter(part)
    return len(word) > 1 and all(letter in letters for letter in word)


def _one_letter_off(word: str, part: str) -> bool:
    """Whether one letter is wrong, missing or surplus, or two letters are swapped."""
    if abs(len(word) - len(part)) > 1:
        return False
    start = 0
    while start < min(len(word), len(part)) and word[start] == part[start]:
        start += 1
    remainder, other = word[start:], part[start:]
    return remainder[1:] in (other[1:], other) or remainder == other[1:] or (remainder[:2] == other[1::-1] and remainder[2:] == other[2:])


# Tell whether an event can be opened here, and why not. `known_reason` decides without the kernel. `Checker` opens the event, disabled,
# on the calling process or on its CPU.

_NEEDS_PMU: Final = ("Hardware event", "Hardware cache event")
_PATTERNS: Final = ("Raw event descriptor", "Hardware breakpoint", "Tool event", "SDT event")
_TRACEPOINT: Final = "Tracepoint event"


def known_reason(info: EventInfo, machine: Machine) -> str:
    """Return the reason why an event cannot work here, as far as sysfs has it; "" if it can."""
    if info.kind in _NEEDS_PMU and not machine.sysfs.core_pmus:
        return "no PMU here, as in most virtual machines"
    if info.kind in _NEEDS_PMU and info.event and not machine.can_open(*info.event):
        return "the CPU does not count it"
    if info.kind == "SDT event":
        return "needs a probe first: perf probe"
    return ""


class Checker:
    """Opens events to test whether they are available.

    All tracepoints need the same permission, and the kernel takes tens of milliseconds to close one, so the first result holds for all.
    """

    def __init__(self, machine: Machine, kernel: Kernel) -> None:
        self._machine = machine
        self._kernel = kernel
        self._tracepoints: str | None = None

    def check(self, info: EventInfo) -> str:
        """Return the reason why the kernel refuses the event; "" if it does not."""
        if info.kind in _PATTERNS:
            return ""
        if info.kind == _TRACEPOINT:
            if self._tracepoints is None:
                self._tracepoints = self._open(info)
            return self._tracepoints
        return known_reason(info, self._machine) or self._open(info)

    def _open(self, info: EventInfo) -> str:
        from perfpy.events.resolve import parse_events

        try:
            events = parse_events(info.alias if "/" in info.alias else info.name, machine=self._machine)
            for event in events:
                pid, cpu = (0, -1) if event.cpus is None else (-1, event.cpus[0])
                attr = event.attr.copy(disabled=1)
                try:
                    fd = self._kernel.perf_event_open(attr, pid, cpu, event=event.name)
                except PerfError:
                    attr.exclude_guest = 0  # many PMUs cannot exclude guests
                    fd = self._kernel.perf_event_open(attr, pid, cpu, event=event.name)
                self._kernel.close(fd)
        except PerfError as error:
            return getattr(error, "cause", "") or str(error)
        return ""


# List the markers (SDT) of programs in perf's build-id cache: sdt_PROVIDER:NAME. Layout: the cache's .build-id/XX/YYYY links, and beside
# each ELF file a text `probes` with one line `%provider:name=...` for each marker.

_LARGEST = 64 << 20  # bytes of one program's list


class Marker(NamedTuple):
    """One marker of one file."""

    name: str
    path: str
    build_id: str


def sdt_markers(cache: str) -> list[Marker]:
    """Return all markers of the cache, by name, then by build-id."""
    base = os.path.join(cache, ".build-id")
    markers_found = []
    for head in names_in(base):
        for tail in names_in(f"{base}/{head}"):
            link = f"{base}/{head}/{tail}"
            names = _read_markers(f"{link}/probes")
            if names:
                path = os.path.dirname(os.path.realpath(link)).removeprefix(os.path.realpath(cache))
                markers_found += [Marker(name, path, head + tail) for name in names]
    return sorted(markers_found, key=lambda marker: (marker.name, marker.build_id))


def marker_names(cache: str) -> list[str]:
    """Return the names for -e, as `name@file(build-id)` if several files have the marker."""
    all_markers = sdt_markers(cache)
    count: dict[str, int] = {}
    for marker in all_markers:
        count[marker.name] = count.get(marker.name, 0) + 1
    return [m.name if count[m.name] == 1 else f"{m.name}@{m.path}({m.build_id[:12]})" for m in all_markers]


def _read_markers(path: str) -> list[str]:
    try:
        if not os.stat(path).st_size:
            return []  # most files have no markers, and a list visits hundreds
        from perfpy.untrusted.files import read_regular

        text = read_regular(path, limit=_LARGEST).decode("utf-8", "replace")
        return [line[1:].partition("=")[0] for line in text.split("\n") if line.startswith("%sdt_")]
    except OSError:
        return []
