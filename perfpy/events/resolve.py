"""Resolve EventSpec values to Events of a machine, in the order of the text.

Modifiers (u k h G H I p P S D e W b) become bits of the attr and marks of the event. Raises EventSyntaxError,
UnknownEventError for an unknown name, KernelRefusedError for unreadable tracepoints.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import BREAKPOINT_R, BREAKPOINT_W, BREAKPOINT_X, PerfType, SoftwareId
from perfpy.errors import EventSyntaxError, KernelRefusedError, UnknownEventError, UsageError
from perfpy.events.catalog import MACHINE_VALUES, TOOL, cache_event, generic_event
from perfpy.events.draft import EventDraft, finish_drafts
from perfpy.events.event import Event
from perfpy.events.event_terms import apply_event_terms
from perfpy.events.grammar import RAW_LIMIT, is_too_long_raw, parse, raw_config
from perfpy.events.grouping import join_group, regroup_by_pmu
from perfpy.events.machine import Machine, this_machine
from perfpy.events.pmu_terms import TermContext, configure
from perfpy.events.spec import Breakpoint, EventSpec, GroupSpec, Numeric, Term, TracepointName, Word

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfpy.events.spec import Modifiers
    from perfpy.kernel.sysfs import Pmu

_MOST_PRECISE = 3


def apply_modifiers(event: EventDraft, modifiers: Modifiers, text: str, *, of_group: bool = False) -> None:
    """Apply modifiers. With `of_group` they follow a group, whose leader and members keep their own.

    Raises EventSyntaxError if event and group together exceed ppp.
    """
    if not modifiers.text:
        return
    _exclude(event, modifiers, of_group)
    attr = event.attr
    precise = attr.precise_ip + modifiers.count("p")
    if precise > _MOST_PRECISE:
        raise EventSyntaxError(text, modifiers.column, f"more than three p modifiers for '{event.name}' with its group's")
    attr.precise_ip = precise
    if "I" in modifiers:
        attr.exclude_idle = 1
    if event.is_leader:
        attr.pinned |= "D" in modifiers
        attr.exclusive |= "e" in modifiers
    event.precise_max |= "P" in modifiers
    event.sample_read |= "S" in modifiers
    event.weak |= "W" in modifiers


def _exclude(event: EventDraft, modifiers: Modifiers, of_group: bool) -> None:
    """Set the exclude bits of user, kernel and hypervisor, host and guest. The first letter of each set excludes all others."""
    attr = event.attr
    if not of_group:
        attr.exclude_host = attr.exclude_guest = 0
    chosen = attr.exclude_user or attr.exclude_kernel or attr.exclude_hv
    host_or_guest = of_group and event.host_or_guest
    if "p" in modifiers or ("u" in modifiers and not host_or_guest):
        attr.exclude_guest = 1  # precise sampling and user space mean this machine, not its guests
    if any(letter in modifiers for letter in "ukh"):
        if not chosen:
            attr.exclude_user = attr.exclude_kernel = attr.exclude_hv = 1
        for letter, field in (("u", "exclude_user"), ("k", "exclude_kernel"), ("h", "exclude_hv")):
            if letter in modifiers:
                setattr(attr, field, 0)
    if "G" in modifiers or "H" in modifiers:
        if not host_or_guest:
            attr.exclude_host = attr.exclude_guest = 1
        for letter, field in (("G", "exclude_guest"), ("H", "exclude_host")):
            if letter in modifiers:
                setattr(attr, field, 0)
        event.host_or_guest = True


_ACCESS_BITS: Final = {"r": BREAKPOINT_R, "w": BREAKPOINT_W, "x": BREAKPOINT_X}
_DATA_LENGTH: Final = 4
_CODE_LENGTH: Final = 8  # sizeof(long), the length that the kernel requires for an execution breakpoint


class EventList(list[Event]):
    """The events of all -e options in order; `warnings` has lines for the user."""

    def __init__(self, events: Sequence[Event] = (), warnings: Sequence[str] = ()) -> None:
        super().__init__(events)
        self.warnings = list(warnings)


def parse_events(
    texts: str | Sequence[str],
    filters: Sequence[tuple[int, str]] = (),
    machine: Machine | None = None,
    *,
    counting: bool = False,
) -> EventList:
    """Return the events of one or several -e arguments.

    Args:
        filters: (number of texts before it, expression): each filters the tracepoints of the last of those texts
        machine: where to look up events (default: this machine)
        counting: whether nothing is sampled, so that terms about samples are errors

    Raises EventSyntaxError, UnknownEventError, KernelRefusedError, and UsageError for a filter without an event.

    >>> import perfpy
    >>> [event.name for event in perfpy.parse_events("page-faults:u,cpu-clock")]
    ['page-faults:u', 'cpu-clock']
    """
    machine = machine or this_machine()
    drafts: list[EventDraft] = []
    warnings: list[str] = []
    for number, text in enumerate([texts] if isinstance(texts, str) else texts):
        text_drafts, notes = _Resolver(machine, text, counting).events()
        for draft in text_drafts:
            draft.option = number
        drafts += text_drafts
        warnings += notes
    for draft in drafts:
        if counting and draft.terms.percore:
            raise UsageError(f"{draft.name}: the term percore is not supported; --per-core sums all events by core")
    for count, expression in filters:
        _apply_filter([draft for draft in drafts if draft.option == count - 1], expression, machine)
    if machine.is_hybrid:
        _name_core_pmus(drafts, machine)
    for draft in drafts:
        draft.ebb = draft.attr.type == PerfType.RAW and bool(draft.attr.config >> 63) and machine.has_ebb
    return EventList(finish_drafts(drafts), warnings)


def _apply_filter(events: list[EventDraft], expression: str, machine: Machine) -> None:
    if not events:
        raise UsageError(f"--filter '{expression}' needs an -e before it")
    for event in events:
        pmu = machine.sysfs.pmu(event.pmu) if event.pmu else None
        if event.tracepoint is None and not (pmu and pmu.address_filters):
            raise UsageError(f"--filter needs a tracepoint or a hardware tracer, and '{event.name}' is neither")
        event.narrow(expression)


def _name_core_pmus(events: list[EventDraft], machine: Machine) -> None:
    """Add the PMU to the names of core events of a hybrid machine: cpu_core/cycles/u."""
    cores = {pmu.name for pmu in machine.core_pmus}
    for event in events:
        if event.pmu in cores and "/" not in event.name:
            name, _, modifiers = event.name.partition(":")
            event.name = f"{event.pmu}/{name}/{modifiers}"


class _Resolver:
    """Resolves one -e text on one machine."""

    def __init__(self, machine: Machine, text: str, counting: bool) -> None:
        self.machine = machine
        self.text = text
        self.context = TermContext(text, machine, counting)
        self.counting = counting
        self.several_pmus = False

    def events(self) -> tuple[list[EventDraft], list[str]]:
        events: list[EventDraft] = []
        for entry in parse(self.text).entries:
            events += self.group(entry) if isinstance(entry, GroupSpec) else self.event(entry)
        events, changed = regroup_by_pmu(events, self.machine)
        warnings = (
            ["a group can hold events of one PMU only; moved the others to separate groups"] if changed and not self.several_pmus else []
        )
        return events, warnings

    def group(self, group: GroupSpec) -> list[EventDraft]:
        events = [event for spec in group.events for event in self.event(spec)]
        join_group(events, group.name)
        for event in events:
            apply_modifiers(event, group.modifiers, self.text, of_group=True)
        return events

    def event(self, spec: EventSpec) -> list[EventDraft]:
        target = spec.target
        if isinstance(target, Word):
            events = self.word(target.name, spec)
        elif isinstance(target, TracepointName):
            events = self.tracepoints(target, spec)
        elif isinstance(target, Numeric):
            events = [self.plain(spec.name, spec, target.type, target.config)]
        else:
            events = [self.breakpoint(target, spec)]
        for event in events:
            apply_modifiers(event, spec.modifiers, self.text)
        return events

    def plain(self, name: str, spec: EventSpec, event_type: int, config: int) -> EventDraft:
        """Return an event with its own numbers, which needs no PMU."""
        event = EventDraft(name, event_type, config)
        apply_event_terms(event, spec.terms or (), self.text, counting=self.counting)
        return event

    def word(self, name: str, spec: EventSpec) -> list[EventDraft]:
        if name in (*TOOL, *MACHINE_VALUES) and spec.terms is None:
            event = EventDraft(spec.name, PerfType.SOFTWARE, SoftwareId.DUMMY)
            event.tool = name
            event.snapshot = name in MACHINE_VALUES
            return [event]
        generic = generic_event(name)
        if generic and generic[0] == PerfType.SOFTWARE:
            return [self.plain(spec.name, spec, *generic)]
        if generic:
            return self.on_core_pmus(lambda: self.plain(spec.name, spec, *generic))
        raw = raw_config(name)
        if raw is not None:
            return [self.plain(spec.name, spec, PerfType.RAW, raw)]
        if is_too_long_raw(name):
            raise EventSyntaxError(self.text, spec.column, RAW_LIMIT[0], expected=RAW_LIMIT[1])
        cache = cache_event(name)
        if cache is not None:
            return self.cache_events(name, cache, spec)
        return self.pmu_events(name, spec)

    def on_core_pmus(self, make: Callable[[], EventDraft]) -> list[EventDraft]:
        """Return a generic hardware event, one for each kind of core if the kernel distinguishes them."""
        if not self.machine.has_extended_types:
            return [make()]
        self.several_pmus = True
        return [_on_core_pmu(make(), pmu) for pmu in self.machine.chosen_cores]

    def cache_events(self, name: str, config: int, spec: EventSpec) -> list[EventDraft]:
        """Return a cache event. A core PMU's own event of that name precedes the generic code."""
        if not any(self.machine.alias(pmu, name) for pmu in self.machine.chosen_cores):
            return self.on_core_pmus(lambda: self.plain(name, spec, PerfType.HW_CACHE, config))
        terms = (Term(name, None, spec.column, spec.column), *(spec.terms or ()))
        events = []
        for pmu in self.machine.chosen_cores:
            if self.machine.alias(pmu, name):
                events += self.on_pmus([pmu], terms, spec.name)
            else:
                events.append(_on_core_pmu(self.plain(name, spec, PerfType.HW_CACHE, config), pmu))
        self.several_pmus |= len(events) > 1
        return events

    def pmu_events(self, name: str, spec: EventSpec) -> list[EventDraft]:
        """Return the events of pmu/terms/, or of the PMUs that have the named event."""
        if spec.terms is not None:
            pmus = self.machine.matching_pmus(name)
            if pmus:
                return self.on_pmus(pmus, spec.terms, spec.name)
        pmus = self.machine.pmus_with_event(name)
        if not pmus:
            return self.sensors(name, spec)
        return self.on_pmus(pmus, (Term(name, None, spec.column, spec.column), *(spec.terms or ())), spec.name)

    def sensors(self, name: str, spec: EventSpec) -> list[EventDraft]:
        """Return sensors of hardware monitors, which are read and never opened."""
        terms = spec.terms or ()
        queries = [(name, term.name) for term in terms if term.value is None and len(terms) == 1] if terms else [("", name)]
        sensors = self.machine.sensors(*queries[0]) if queries else []
        if not sensors:
            raise self.unknown(name, spec)
        events = []
        for sensor in sensors:
            event = EventDraft(spec.name if len(sensors) == 1 else f"{sensor.pmu}/{sensor.name}/", PerfType.SOFTWARE, SoftwareId.DUMMY)
            event.tool, event.snapshot, event.unit, event.scale = sensor.location, True, sensor.unit, sensor.scale
            events.append(event)
        return events

    def on_pmus(self, pmus: list[Pmu], terms: tuple[Term, ...], name: str) -> list[EventDraft]:
        """Return the same terms on each PMU. If a name means several PMUs, those that lack a term are skipped."""
        self.several_pmus |= len(pmus) > 1
        events: list[EventDraft] = []
        failed: EventSyntaxError | None = None
        for pmu in pmus:
            event = EventDraft(name, 0, 0)
            try:
                configure(event, pmu, self.with_probe(event, pmu, terms), self.context)
            except EventSyntaxError as error:
                failed = failed or error
                continue
            events.append(event)
        if not events and failed:
            raise failed
        return events

    def with_probe(self, event: EventDraft, pmu: Pmu, terms: tuple[Term, ...]) -> tuple[Term, ...]:
        """Return the terms without the position of a kprobe or uprobe."""
        if pmu.name not in ("kprobe", "uprobe"):
            return terms
        from perfpy.events.kinds.dynamic_probes import position_probe  # loads ctypes

        return position_probe(event, pmu.name, terms, self.text)

    def tracepoints(self, target: TracepointName, spec: EventSpec) -> list[EventDraft]:
        from perfpy.events.tracepoints import find_tracepoints

        try:
            tracepoints = find_tracepoints(target, self.machine.tracefs)
        except KernelRefusedError as error:
            raise KernelRefusedError(error.call, error.errno, event=spec.name, cause=error.cause, remedy=error.remedy) from None
        events = []
        for system, name, number in tracepoints:
            event = self.plain(f"{system}:{name}", spec, PerfType.TRACEPOINT, number)
            event.tracepoint = (system, name)
            events.append(event)
        return events

    def breakpoint(self, target: Breakpoint, spec: EventSpec) -> EventDraft:
        event = self.plain(spec.name, spec, PerfType.BREAKPOINT, 0)
        attr = event.attr
        for letter in target.access or "rw":
            attr.bp_type |= _ACCESS_BITS[letter]
        attr.bp_addr = target.address
        attr.bp_len = target.length or (_CODE_LENGTH if attr.bp_type == BREAKPOINT_X else _DATA_LENGTH)
        return event

    def unknown(self, name: str, spec: EventSpec) -> UnknownEventError:
        from perfpy.events.suggestions import nearest_events

        near = nearest_events(name, self.machine, as_pmu=spec.terms is not None)
        if spec.terms is not None:
            hint = f"there is no PMU '{name}' here, and no PMU has an event of that name"
        elif self.machine.matching_pmus(name):
            hint = f"'{name}' is a PMU; its events are written {name}/.../ (perfpy list {name})"
        else:
            hint = "neither the kernel nor a PMU of this machine has it; perfpy list shows the available events"
        return UnknownEventError(name, near=near, hint=hint)


def _on_core_pmu(event: EventDraft, pmu: Pmu) -> EventDraft:
    """Set the core PMU's type in the high half of config."""
    event.attr.config |= (pmu.type or 0) << 32
    event.pmu, event.cpus = pmu.name, pmu.cpus
    return event
