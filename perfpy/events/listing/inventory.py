"""List every event of a machine that -e accepts, section by section in perf list's order.

Raises KernelRefusedError if tracefs is unreadable.
"""

from __future__ import annotations

from perfpy.abi.flags import PerfType
from perfpy.events.catalog import HARDWARE, SOFTWARE, TOOL, cache_configs, cache_event_name
from perfpy.kernel.sysfs import split_number

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Final

    from perfpy.events.machine import Machine
    from perfpy.kernel.sysfs import Alias, Pmu
    from perfpy.kernel.tracefs import Tracefs

_ENCODING_HELP: Final = "(see 'man perf-list' or 'man perf-record' on how to encode it)"
_SHOWN_TERMS: Final = 3
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


class EventInfo:
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

    __slots__ = (
        "alias", "deprecated", "description", "encoding", "event", "kind", "long_description", "name", "pmu", "scale_unit", "topic",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        kind: str,
        alias: str = "",
        topic: str = "",
        pmu: str = "",
        description: str = "",
        long_description: str = "",
        scale_unit: str = "",
        deprecated: bool = False,
        encoding: Callable[[], str] = str,
        event: tuple[int, int] | None = None,
    ) -> None:
        self.name = name
        self.kind = kind
        self.alias = alias
        self.topic = topic
        self.pmu = pmu
        self.description = description
        self.long_description = long_description
        self.scale_unit = scale_unit
        self.deprecated = deprecated
        self.encoding = encoding
        self.event = event


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


def pmu_events(machine: Machine) -> list[EventInfo]:
    """Return the named events of all PMUs, once for PMUs that differ only in their number."""
    pairs = []
    for pmu in _without_twins(machine.pmus):
        for name in machine.alias_names(pmu):
            alias = machine.alias(pmu, name)
            if alias:
                pairs.append((pmu, alias))
    pairs.sort(key=lambda pair: (_from_files(pair[1]), pair[1].topic, not pair[0].is_core, pair[0].name, pair[1].name))
    return [_pmu_info(pmu, alias) for pmu, alias in pairs]


def _pmu_info(pmu: Pmu, alias: Alias) -> EventInfo:
    base = _family(pmu)
    with_pmu = f"{base}/{_with_parameters(alias)}/"
    scale_unit = f"{alias.scale:G}{alias.unit}" if alias.unit or alias.scale != 1.0 else ""

    def encoding() -> str:
        return f"{base}/{_spell_terms(alias)}/"

    from_files = _from_files(alias)
    return EventInfo(
        alias.name if pmu.is_core or from_files else with_pmu,
        "Kernel PMU event",
        with_pmu if pmu.is_core and not from_files else "",
        alias.topic,
        base,
        alias.description,
        alias.long_description,
        scale_unit,
        alias.deprecated,
        encoding,
    )


def _from_files(alias: Alias) -> bool:
    """Whether the event comes from files or tables, which have topics; sysfs has none."""
    return bool(alias.description or alias.topic)


def _with_parameters(alias: Alias) -> str:
    """Return the name with the terms that the user must fill in: PM_CYC,chip=?"""
    return ",".join([alias.name, *(term for term in alias.terms.split(",") if term.endswith("=?"))])


def _spell_terms(alias: Alias) -> str:
    """Return the terms with numbers in perf's spelling."""
    from perfpy.events.grammar import parse_terms  # only --details and JSON parse events

    words = []
    for term in parse_terms(alias.terms):
        number = f"{term.value:#x}" if isinstance(term.value, int) and term.value else term.value
        words.append(term.name if term.value is None else f"{term.name}={number}")
    return ",".join(words)


def _family(pmu: Pmu) -> str:
    """Return the PMU's name without its instance number."""
    return pmu.name if pmu.is_core else split_number(pmu.name)[0]


def _without_twins(pmus: Iterable[Pmu]) -> list[Pmu]:
    first: dict[str, Pmu] = {}
    for pmu in pmus:
        first.setdefault(_family(pmu), pmu)
    return list(first.values())


def raw_descriptors(machine: Machine) -> Iterator[EventInfo]:
    """Yield the syntax of raw events: rNNN, and the terms of each PMU."""
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
        yield EventInfo(name, kind, description=help_text, encoding=lambda text=full_name: text)  # type: ignore[misc]


def _term_pattern(name: str, width: int) -> str:
    highest = (1 << width) - 1
    if width == 1:
        return name
    return f"{name}=0..{highest if highest < 10 else hex(highest)}"


def breakpoint_pattern() -> Iterator[EventInfo]:
    """Yield the syntax of breakpoints."""
    yield EventInfo("mem:<addr>[/len][:access]", "Hardware breakpoint")


def tracepoints(tracefs: Tracefs) -> Iterator[EventInfo]:
    """Yield every tracepoint. Raises KernelRefusedError."""
    for system in sorted(tracefs.systems):
        events = sorted(tracefs.events(system))
        if system == "ftrace":  # only two of its records have ids
            events = [event for event in events if tracefs.event_id(system, event) is not None]
        for event in events:
            yield EventInfo(f"{system}:{event}", "Tracepoint event", encoding=_TracepointEncoding(tracefs, system, event))


def markers(cache_folder: str) -> Iterator[EventInfo]:
    """Yield the markers (SDT) of the programs in perf's build-id cache."""
    from perfpy.events.kinds.sdt import marker_names

    for name in marker_names(cache_folder):
        yield EventInfo(name, "SDT event")


class _TracepointEncoding:
    """Looks up the tracepoint's id when called."""

    __slots__ = ("event", "system", "tracefs")

    def __init__(self, tracefs: Tracefs, system: str, event: str) -> None:
        self.tracefs = tracefs
        self.system = system
        self.event = event

    def __call__(self) -> str:
        number = self.tracefs.event_id(self.system, self.event)
        return "" if number is None else f"tracepoint/config={number:#x}/"
