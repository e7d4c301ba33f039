"""Resolve EventSpec values to Events of a machine, in the order of the text.

Modifiers (u k h G H I p P S D e W b R) become bits of the attr and marks of the event. Raises EventSyntaxError,
UnknownEventError for an unknown name, KernelRefusedError for unreadable tracepoints.
"""

from __future__ import annotations

from perfpy.abi.cpu_list import cpu_list_text
from perfpy.abi.flags import BREAKPOINT_R, BREAKPOINT_W, BREAKPOINT_X, PMCU_NAME, PerfType, SoftwareId
from perfpy.abi.light_types import NamedTuple
from perfpy.errors import EventSyntaxError, KernelRefusedError, UnknownEventError, UsageError
from perfpy.events.event import (
    MACHINE_VALUES,
    RETIREMENT_LATENCY,
    TOOL,
    TRACERS,
    Event,
    cache_event,
    counts_tasks,
    generic_event,
    is_tracer,
)
from perfpy.events.grammar import (
    RAW_LIMIT,
    Breakpoint,
    EventDraft,
    EventSpec,
    GroupSpec,
    Numeric,
    Term,
    TracepointName,
    Word,
    finish_drafts,
    is_too_long_raw,
    parse,
    parse_terms,
    raw_config,
)
from perfpy.events.machine import Machine, this_machine

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, Final

    from perfpy.events.grammar import Modifiers
    from perfpy.kernel.sysfs import Alias, Format, Pmu, Tracefs


_REGROUPED: Final = "WARNING: events were regrouped to match PMUs"
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
    adds_cores: bool = False,
    host: bool = True,
    guests: bool = False,
) -> EventList:
    """Return the events of one or several -e arguments.

    Args:
        filters: (number of texts before it, expression): each filters the tracepoints of the last of those texts
        machine: where to look up events (default: this machine)
        counting: whether nothing is sampled, so that terms about samples are errors
        adds_cores: whether the counts of several kinds of cores are added, so that one name means them all
        host, guests: whether events without modifiers happen on the host, and in virtual machines

    Raises EventSyntaxError, UnknownEventError, KernelRefusedError, and UsageError for a filter without an event.

    >>> import perfpy
    >>> [event.name for event in perfpy.parse_events("page-faults:u,cpu-clock")]
    ['page-faults:u', 'cpu-clock']
    """
    machine = machine or this_machine()
    drafts: list[EventDraft] = []
    warnings: list[str] = []
    for number, text in enumerate([texts] if isinstance(texts, str) else texts):
        text_drafts, notes = _Resolver(machine, text, counting, host=host, guests=guests).events()
        for draft in text_drafts:
            draft.option = number
        drafts += text_drafts
        warnings += notes
    for count, expression in filters:
        events = [draft for draft in drafts if draft.option == count - 1]
        if not events:
            raise UsageError(f"--filter '{expression}' needs an -e before it")
        for event in events:
            pmu = machine.sysfs.pmu(event.pmu) if event.pmu else None
            if event.tracepoint is None and not (pmu and pmu.address_filters):
                raise UsageError(f"--filter needs a tracepoint or a hardware tracer, and '{event.name}' is neither")
            if event.tracepoint:
                event.narrow(expression)
            else:
                event.filter = f"{event.filter},{expression}" if event.filter else expression
    if machine.is_hybrid and not adds_cores:
        _tell_cores_apart(drafts, machine)
    for draft in drafts:
        draft.ebb = draft.attr.type == PerfType.RAW and bool(draft.attr.config >> 63) and machine.has_ebb
    return EventList(finish_drafts(drafts), [*warnings, *_unknown_bits(drafts, machine)])


def _unknown_bits(events: Sequence[EventDraft], machine: Machine) -> Iterator[str]:
    """Yield perf's warning for each event with bits that no format term of its PMU has; the kernel ignores or refuses them."""
    for event in events:
        if event.attr.type < PerfType.RAW or event.attr.type == PerfType.BREAKPOINT:
            continue
        pmu = machine.sysfs.pmu(event.pmu) if event.pmu else machine.core_pmus[0]
        if not pmu or all(pmu.covers(field, getattr(event.attr, field)) for field in CONFIG_FIELDS):
            continue
        known = dict.fromkeys(CONFIG_FIELDS if pmu.formats else (), 0)
        for term in pmu.formats.values():
            known[term.field] = known.get(term.field, 0) | term.spread(-1)
        for field, mask in known.items():
            value = getattr(event.attr, field)
            if unknown := value & ~mask:
                bits = cpu_list_text([bit for bit in range(64) if unknown >> bit & 1])
                name = event.name if event.is_named else "N/A"
                yield f"WARNING: event '{name}' not valid (bits {bits} of {field} '{value:x}' not supported by kernel)!"


def _tell_cores_apart(events: list[EventDraft], machine: Machine) -> None:
    """Count the events of each kind of core apart, and put the PMU before their names: cpu_core/cycles/u."""
    cores = {pmu.name for pmu in machine.core_pmus}
    for event in events:
        if event.pmu not in cores:
            continue
        event.first_of_text = event
        if event.is_named:
            continue
        pattern, slash, terms = event.name.partition("/")
        if not slash:
            event.text_name = event.name
            name, _, modifiers = event.name.rpartition(":")
            if not (name and modifiers.isascii() and modifiers.isalpha()):  # the config of 4:0x3c is no modifier
                name, modifiers = event.name, ""
            event.name = f"{event.pmu}/{name}/{modifiers}"
        elif is_pattern(pattern):
            event.name = f"{event.pmu}/{terms}"
        elif not machine.matching_pmus(pattern):  # cycles/period=1000/: an event's name
            event.name = f"{event.pmu}/{pattern}{'' if terms.startswith('/') else ','}{terms}"


class _Resolver:
    """Resolves one -e text on one machine."""

    def __init__(self, machine: Machine, text: str, counting: bool, *, host: bool, guests: bool) -> None:
        self.machine = machine
        self.text = text
        self.context = TermContext(text, machine, counting)
        self.host = host
        self.guests = guests
        self.names_pmu_pattern = False

    def events(self) -> tuple[list[EventDraft], list[str]]:
        events: list[EventDraft] = []
        text = parse(self.text)
        for entry in text.entries:
            events += self.group(entry) if isinstance(entry, GroupSpec) else self.event(entry)
        events, changed = regroup_by_pmu(events, self.machine)
        return events, [*text.warnings, *([_REGROUPED] if changed and not self.names_pmu_pattern else [])]

    def group(self, group: GroupSpec) -> list[EventDraft]:
        events = [event for spec in group.events for event in self.event(spec)]
        join_group(events, group.name)
        for event in events:
            apply_modifiers(event, group.modifiers, self.text, of_group=True, guests=self.guests)
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
            event.attr.exclude_host, event.attr.exclude_guest = int(not self.host), int(not self.guests)
            apply_modifiers(event, spec.modifiers, self.text, guests=self.guests)
        return events

    def plain(self, name: str, spec: EventSpec, event_type: int, config: int) -> EventDraft:
        """Return an event with its own numbers. On hybrid machines the type of a raw event is that of one kind of core."""
        event = EventDraft(name, event_type, config)
        if self.machine.is_hybrid and event_type not in (PerfType.HARDWARE, PerfType.HW_CACHE):
            for pmu in self.machine.core_pmus:
                if pmu.type == event_type:
                    event.pmu, event.cpus = pmu.name, pmu.cpus
        apply_event_terms(event, spec.terms or (), self.context)
        return event

    def word(self, name: str, spec: EventSpec) -> list[EventDraft]:
        if name in (*TOOL, *MACHINE_VALUES) and not spec.terms:
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
            if name[2:3] in ("x", "X"):
                raise EventSyntaxError(self.text, spec.column, "a raw code as an event has no 0x", expected=f"r{name[3:]}")
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
        return _of_one_text([_on_core_pmu(make(), pmu) for pmu in self.machine.chosen_cores])

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
        return _of_one_text(events)

    def pmu_events(self, name: str, spec: EventSpec) -> list[EventDraft]:
        """Return the events of pmu/terms/, or of the PMUs that have the named event."""
        if spec.terms is not None:
            pmus = self.machine.matching_pmus(name)
            if pmus:
                self.names_pmu_pattern |= pmus[0].name != name
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
        events: list[EventDraft] = []
        failed: EventSyntaxError | None = None
        for pmu in pmus:
            event = EventDraft(name, 0, 0)
            try:
                is_probe = pmu.name in ("kprobe", "uprobe")
                configure(event, pmu, position_probe(event, pmu.name, terms, self.text) if is_probe else terms, self.context)
            except EventSyntaxError as error:
                failed = failed or error
                continue
            events.append(event)
        if not events and failed:
            raise failed
        return _of_one_text(events)

    def tracepoints(self, target: TracepointName, spec: EventSpec) -> list[EventDraft]:
        try:
            tracepoints = find_tracepoints(target, self.machine.tracefs)
        except KernelRefusedError as error:
            raise KernelRefusedError(error.call, error.errno, event=spec.name, cause=error.cause, remedy=error.remedy) from None
        for term in spec.terms or ():
            if term.name in CONFIG_FIELDS:
                raise EventSyntaxError(self.text, term.column, f"'{term.name}' does not apply to tracepoints, whose name is their config")
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
        from perfpy.events.machine import nearest_events

        near = nearest_events(name, self.machine, as_pmu=spec.terms is not None)
        if spec.terms is not None:
            hint = f"there is no PMU '{name}' here, and no PMU has an event of that name"
        elif self.machine.matching_pmus(name):
            hint = f"'{name}' is a PMU; its events are written {name}/.../ (perfpy list {name})"
        else:
            hint = "neither the kernel nor a PMU of this machine has it; perfpy list shows the available events"
        return UnknownEventError(name, near=near, hint=hint)


def _of_one_text(events: list[EventDraft]) -> list[EventDraft]:
    """Mark the events that one name means on several PMUs."""
    for event in events:
        event.first_of_text = events[0]
    return events


def _on_core_pmu(event: EventDraft, pmu: Pmu) -> EventDraft:
    """Set the core PMU's type in the high half of config."""
    event.attr.config |= (pmu.type or 0) << 32
    event.pmu, event.cpus = pmu.name, pmu.cpus
    return event


_MOST_PRECISE = 3


def apply_modifiers(event: EventDraft, modifiers: Modifiers, text: str, *, of_group: bool = False, guests: bool = False) -> None:
    """Apply modifiers. With `of_group` they follow a group, whose leader and members keep their own.

    guests: whether user space means that of virtual machines, too.

    Raises EventSyntaxError if event and group together exceed ppp.
    """
    if not modifiers.text:
        return
    _exclude(event, modifiers, of_group, guests)
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
    if "R" in modifiers:
        event.tool, event.snapshot = RETIREMENT_LATENCY, True


def _exclude(event: EventDraft, modifiers: Modifiers, of_group: bool, guests: bool) -> None:
    """Set the exclude bits of user, kernel and hypervisor, host and guest. The first letter of each set excludes all others."""
    attr = event.attr
    if not of_group:
        attr.exclude_host = attr.exclude_guest = 0
    chosen = attr.exclude_user or attr.exclude_kernel or attr.exclude_hv
    host_or_guest = of_group and event.host_or_guest
    if "p" in modifiers or ("u" in modifiers and not (host_or_guest or guests)):
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


# Set the leaders of groups, and split the groups that span several PMUs. The kernel schedules a group as a whole on one PMU; software
# events may join any group. The rules for splitting and ordering are perf 6.12's.

#: PMUs of hardware tracers, whose groups may hold events of other PMUs
_TRACERS: Final = (*TRACERS, "s390_cpum_sf")
_TYPE_NAMES: Final[dict[int, str]] = {
    PerfType.SOFTWARE: "software",
    PerfType.TRACEPOINT: "tracepoint",
    PerfType.BREAKPOINT: "breakpoint",
}
#: PMUs without hardware limits, whose events may join any group
_SOFTWARE: Final = ("software", "tracepoint", "breakpoint", "kprobe", "uprobe", "msr")


def join_group(events: list[EventDraft], name: str = "") -> None:
    """Make the first event the leader of all."""
    for event in events:
        event.leader = events[0]
        event.group_name = name


def regroup_by_pmu(events: list[EventDraft], machine: Machine) -> tuple[list[EventDraft], bool]:
    """Split the groups that span PMUs, and gather what must be in one group. Return the events in their new order, and whether anything
    changed.
    """
    position = {id(event): number for number, event in enumerate(events)}
    sizes: dict[int, int] = {}
    for event in events:
        sizes[id(event.leader)] = sizes.get(id(event.leader), 0) + 1
        event.must_be_grouped = _must_be_grouped(event, machine)
    gathered = _stray_topdown_events(events, sizes)
    if not gathered and not any(size > 1 for size in sizes.values()):
        return events, False
    names = {id(event): _group_pmu(event, events, machine) for event in events}
    anchor = position[id(gathered[0].leader)] if gathered else -1
    gathered_ids = set(map(id, gathered))

    def order(event: EventDraft) -> tuple[int, str, int, int]:
        is_gathered = id(event) in gathered_ids
        if sizes[id(event.leader)] == 1 and not is_gathered:
            return position[id(event)], "", 0, 0
        group_position = anchor if is_gathered else position[id(event.leader)]
        return group_position, names[id(event)], _topdown_rank(event), position[id(event)]

    ordered = sorted(events, key=order)
    changed = any(before is not after for before, after in zip(events, ordered, strict=True))
    return ordered, _lead_anew(ordered, names, gathered_ids) or changed


def _must_be_grouped(event: EventDraft, machine: Machine) -> bool:
    """Whether an event counts only in a group that `slots` leads: x86's topdown metrics, and slots itself."""
    name = event.name.lower()
    if event.attr.type != PerfType.RAW or "uops_retired.slots" in name or ("topdown" not in name and "slots" not in name):
        return False
    return any(pmu.alias("slots") is not None for pmu in machine.core_pmus if pmu.name == event.pmu)


def _stray_topdown_events(events: list[EventDraft], sizes: dict[int, int]) -> list[EventDraft]:
    """Return the topdown events that have to move into one group: those outside of groups, and of groups without slots; then also
    the slots that are in a group already, first.
    """
    must = [event for event in events if event.must_be_grouped]
    with_slots = {id(event.leader) for event in must if _topdown_rank(event) == 0 and sizes[id(event.leader)] > 1}
    stray = [event for event in must if id(event.leader) not in with_slots]
    if not stray:
        return []
    hosts = [event for event in must if id(event.leader) in with_slots]
    return [*(event for event in hosts if event.leader is hosts[0].leader), *stray] if hosts else stray


def _lead_anew(ordered: list[EventDraft], names: dict[int, str], gathered: set[int]) -> bool:
    """Give each run of events of one old group and one PMU its own leader, and the gathered events one. Return whether groups changed."""
    changed = False
    old = leader = None
    for event in ordered:
        joins = leader is not None and id(event) in gathered and id(leader) in gathered
        if leader is None or names[id(event)] != names[id(leader)] or (event.leader is not old and not joins):
            changed |= event.leader is old
            old, leader = event.leader, event
        changed |= joins and event.leader is not old
        event.leader = leader
    return changed


def _own_pmu(event: EventDraft, machine: Machine) -> str:
    if event.pmu:
        return event.pmu
    return _TYPE_NAMES.get(event.attr.type) or machine.core_pmus[0].name


def _group_pmu(event: EventDraft, events: list[EventDraft], machine: Machine) -> str:
    """Return the PMU that determines an event's group. A software event follows the hardware of its group."""
    own = _own_pmu(event, machine)
    leader = event.leader
    lead = _own_pmu(leader, machine)
    if lead.startswith(_TRACERS):
        return lead
    if own not in _SOFTWARE:
        return own
    for other in (leader, *events):
        if other.leader is leader and _own_pmu(other, machine) not in _SOFTWARE:
            return _own_pmu(other, machine)
    return own


def _topdown_rank(event: EventDraft) -> int:
    """Return the order in a group of x86's topdown metrics, which must begin with `slots`."""
    if not event.must_be_grouped:
        return 2
    return 0 if "slots" in event.name.lower() else 1


# Find the tracepoints of system:event, with wildcards, in the kernel's order as in perf. Raises UnknownEventError with near matches if
# there is none, KernelRefusedError if tracefs is missing or unreadable.

# ftrace's own records have ids and formats, but cannot be opened as events
_NOT_EVENTS = ("ftrace",)


def is_pattern(name: str) -> bool:
    """Whether the name contains wildcards."""
    return any(character in name for character in "*?[")


def find_tracepoints(target: TracepointName, tracefs: Tracefs) -> list[tuple[str, str, int]]:
    """Return (system, event, id) of each matching tracepoint."""
    from fnmatch import fnmatchcase

    systems = [target.system]
    if is_pattern(target.system):
        systems = [name for name in tracefs.systems if fnmatchcase(name, target.system)]
    matches = []
    for system in systems:
        events = [target.event]
        if is_pattern(target.event):
            events = [name for name in tracefs.events(system) if fnmatchcase(name, target.event)]
        for event in events:
            number = None if system in _NOT_EVENTS and is_pattern(target.system) else tracefs.event_id(system, event)
            if number is not None:
                matches.append((system, event, number))
    if not matches:
        raise _unknown(target, tracefs)
    return matches


def _unknown(target: TracepointName, tracefs: Tracefs) -> UnknownEventError:
    from perfpy.events.machine import nearest

    name = f"{target.system}:{target.event}"
    if is_pattern(name):
        return UnknownEventError(name, hint="no tracepoint matches it")
    systems = [target.system] if target.system in tracefs.systems else nearest(target.system, tracefs.systems)
    near = []
    for system in systems:
        events = tracefs.events(system)
        same = [target.event] if target.event in events else nearest(target.event, events)
        near += [f"{system}:{event}" for event in same]
    if not near:
        near = [f"{system}:*" for system in systems]
    where = f"no system '{target.system}'" if target.system not in tracefs.systems else f"'{target.system}' lacks it"
    probe = f"; a marker of a program needs a probe first: perf probe {name}" if target.system.startswith("sdt_") else ""
    return UnknownEventError(name, near=near[:3], hint=f"no such tracepoint, {where} in {tracefs.root}/events{probe}")


# kprobe/func=NAME/ and uprobe/path="FILE",offset=N/: probes that exist as long as their event. config1 is an address in this process,
# from which the kernel copies the string when the event is opened, so the event keeps the string alive. Layout: the union of config1 and
# config2 in struct perf_event_attr.

#: PMU -> terms: the string for config1, the number instead of it, the number for config2
_POSITION_TERMS: Final = {"kprobe": ("func", "addr", "offset"), "uprobe": ("path", "", "offset")}


def position_probe(event: EventDraft, pmu: str, terms: tuple[Term, ...], text: str) -> tuple[Term, ...]:
    """Set the probe's position from its terms, and return the other terms. Raises EventSyntaxError for invalid values."""
    import ctypes

    string_term, address_term, offset_term = _POSITION_TERMS[pmu]
    others = []
    for term in terms:
        if term.name == string_term:
            if not isinstance(term.value, str) or not term.value:
                raise EventSyntaxError(
                    text, term.value_column, f"'{term.name}' takes a name", expected="a string, in quotes when it has '/'"
                )
            target = ctypes.create_string_buffer(term.value.encode())
            event.keepalive = target
            event.attr.config1 = ctypes.addressof(target)
        elif address_term and term.name == address_term:
            event.attr.config2 = _number(term, text)  # kprobe_addr, which the kernel uses if func is NULL
        elif term.name == offset_term:
            event.attr.config2 = _number(term, text)
        else:
            others.append(term)
    return tuple(others)


def _number(term: Term, text: str) -> int:
    if not isinstance(term.value, int):
        raise EventSyntaxError(text, term.value_column, f"'{term.name}' takes a number", expected="a number")
    return term.value


# Terms that every event accepts, whatever its PMU: config*, name, period, call-graph ... Names and values: perf-record(1) and
# perf-list(1).

#: terms that are fields of the attr
CONFIG_FIELDS: Final = ("config", "config1", "config2", "config3")

_BITS_16: Final = (1 << 16) - 1
_BITS_32: Final = (1 << 32) - 1
_BITS_63: Final = (1 << 63) - 1
_BITS_64: Final = (1 << 64) - 1


class _TermRule(NamedTuple):
    """The rule of one term.

    Attributes:
        field: of EventTerms
        highest: the largest number; 0 for a word
        switch: the value of the term without "="; None if it needs one
    """

    field: str
    highest: int = 0
    switch: bool | None = None
    words: tuple[str, ...] = ()
    several: bool = False


_RULES: Final[dict[str, _TermRule]] = {
    "period": _TermRule("period", _BITS_63),
    "freq": _TermRule("freq", _BITS_32),
    "branch_type": _TermRule("branch_type", several=True),
    "time": _TermRule("time", 1, True),
    "call-graph": _TermRule("call_graph", words=("fp", "dwarf", "lbr", "no")),
    "stack-size": _TermRule("stack_size", _BITS_32),
    "max-stack": _TermRule("max_stack", _BITS_16),
    "nr": _TermRule("max_events", _BITS_63),
    "inherit": _TermRule("inherit", 1, True),
    "no-inherit": _TermRule("inherit", 1, False),
    "overwrite": _TermRule("overwrite", 1, True),
    "no-overwrite": _TermRule("overwrite", 1, False),
    "percore": _TermRule("percore", 1, True),
    "aux-output": _TermRule("aux_output", 1, True),
    "aux-sample-size": _TermRule("aux_sample_size", _BITS_32),
    "aux-action": _TermRule("aux_action", words=("pause", "resume", "start-paused"), several=True),
    "metric-id": _TermRule("metric_id"),
    "cpu": _TermRule("cpu", _BITS_16),
}

#: the terms that apply to counting; the others apply to samples
_COUNTING: Final = (*CONFIG_FIELDS, "name", "period", "percore", "metric-id", "cpu")


def is_event_term(name: str) -> bool:
    """Whether this is a term of this module, or a `@driver` setting."""
    return name in _RULES or name in CONFIG_FIELDS or name == "name" or name.startswith("@")


def term_names(*, counting: bool = False) -> list[str]:
    """Return the names for messages; with `counting`, only those that apply to counts."""
    return list(_COUNTING) if counting else [*CONFIG_FIELDS, "name", *_RULES]


def apply_event_term(event: EventDraft, term: Term, text: str, *, counting: bool = False) -> None:
    """Apply a term to a draft. Raises EventSyntaxError if its value is invalid."""
    if counting and term.name not in _COUNTING and not term.name.startswith("@"):
        raise EventSyntaxError(text, term.column, f"'{term.name}' applies to sampling, and stat only counts", expected=", ".join(_COUNTING))
    if term.name in CONFIG_FIELDS:
        setattr(event.attr, term.name, _term_number(term, _BITS_64, text))
    elif term.name == "name":
        name = _word(term, text)
        if not event.is_named:  # as in perf, the first name stays
            event.name, event.is_named = name, True
    elif term.name.startswith("@"):
        setting = term.name[1:] if term.value is None else f"{term.name[1:]}={term.literal or term.value}"
        event.terms = event.terms._replace(driver=(*(event.terms.driver or ()), setting))
    else:
        _apply_rule(event, term, _RULES[term.name], text)


def apply_event_terms(event: EventDraft, terms: tuple[Term, ...], context: TermContext) -> None:
    """Apply all terms of an event without format terms. Raises EventSyntaxError for an unknown one."""
    for term in terms:
        if term.name.startswith("@"):
            raise context.error(term.column, f"'{term.name}' is a setting of a PMU's driver", "it among the terms of a PMU: PMU/@NAME/")
        if not is_event_term(term.name):
            from perfpy.events.machine import nearest

            names = term_names(counting=context.counting)
            raise context.error(term.column, f"unknown term '{term.name}'", "one of " + ", ".join(names), nearest(term.name, names))
        apply_event_term(event, term, context.text, counting=context.counting)


def _apply_rule(event: EventDraft, term: Term, rule: _TermRule, text: str) -> None:
    value: object
    if rule.switch is not None:
        value = rule.switch == bool(_term_number(term, rule.highest, text))
    elif rule.highest:
        value = _term_number(term, rule.highest, text)
    else:
        word = _word(term, text)
        words = tuple(part for part in word.replace("|", ":").split(":")) if rule.several else (word,)
        for part in words:
            if rule.words and part not in rule.words:
                raise EventSyntaxError(
                    text, term.value_column, f"'{term.name}' cannot be '{part}'", expected="one of " + ", ".join(rule.words)
                )
        value = (*(getattr(event.terms, rule.field) or ()), *words) if rule.several else word  # as in perf, words add up
    if rule.field == "cpu":  # repeatable
        event.cpus = value = (*(event.terms.cpu or ()), int(str(value)))
    change: Any = {rule.field: value}
    if rule.field in ("period", "freq"):  # the last one of both has effect
        change = {"period": None, "freq": None} | change
    event.terms = event.terms._replace(**change)


def _term_number(term: Term, highest: int, text: str) -> int:
    if term.value is None:
        return 1  # as in perf
    if not isinstance(term.value, int):
        raise EventSyntaxError(text, term.value_column, f"'{term.value}' is not a number", expected=f"a number for '{term.name}'")
    if term.value > highest:
        raise EventSyntaxError(text, term.value_column, f"{term.literal} is too big for '{term.name}'", expected=f"at most {highest}")
    return term.value


def _word(term: Term, text: str) -> str:
    if term.value is None or term.value == "":
        raise EventSyntaxError(text, term.value_column, f"'{term.name}' has no value", expected="'=' and a word or a quoted string")
    return term.literal or str(term.value)


# Set the config words of an attr from the terms of a PMU's event, by the PMU's description in sysfs. A named event also sets unit, scale
# and marks of the EventDraft. Raises EventSyntaxError with the term's column. Bit fields: the PMU's format/.


class TermContext(NamedTuple):
    """The text, machine and mode that terms are read in."""

    text: str
    machine: Machine
    counting: bool

    def error(self, column: int, reason: str, expected: str = "", near: list[str] | None = None) -> EventSyntaxError:
        """Return an error at a column of the event's text."""
        return EventSyntaxError(self.text, column, reason, expected=expected, near=near or ())


def configure(event: EventDraft, pmu: Pmu, terms: tuple[Term, ...], context: TermContext) -> None:
    """Set the event's attr, terms, unit and scale from `terms`.

    A term without a value may be a named event of the PMU. Its own terms are set instead; the user's terms fill each `?` among them.
    """
    attr = event.attr
    if pmu.type is None:
        raise context.error(0, f"PMU '{pmu.name}' has no type in sysfs")
    attr.type = pmu.type
    event.pmu = pmu.name
    event.cpus = pmu.cpus
    event.requires_cpu = pmu.cpus is not None and not pmu.is_core and not counts_tasks(pmu.name)
    if is_tracer(pmu.name):
        from perfpy.events.tracers import default_config  # rarely needed

        attr.config = default_config(pmu)
    parameters = {term.name: term for term in terms if isinstance(term.value, int)}
    named = ""
    for term in terms:
        is_name = term.value is None and not pmu.format(term.name) and not is_event_term(term.name)
        term_alias = context.machine.alias(pmu, term.name) if is_name else None
        if term_alias or (is_name and pmu.is_core and (generic_event(term.name) or cache_event(term.name) is not None)):
            if named:
                raise context.error(term.column, f"'{term.name}' is a second event beside '{named}' in the same terms", "one event")
            named = term.name
        if term_alias is None:
            _set_term(event, pmu, term, context)
            continue
        _take_alias(event, pmu, term_alias, context, parameters)
    if pmu.name.startswith(PMCU_NAME):
        from perfpy.events.tracers import check_event

        check_event(event, pmu, terms, context.text, counting=context.counting)


def _take_alias(event: EventDraft, pmu: Pmu, alias: Alias, context: TermContext, parameters: dict[str, Term]) -> None:
    event.unit = alias.unit or event.unit
    event.scale = alias.scale
    event.per_pkg = alias.per_pkg
    event.snapshot = alias.snapshot
    generic = generic_event(alias.name) if pmu.is_core else None
    event.generic = generic[1] if generic and generic[0] == PerfType.HARDWARE else None
    inner = context._replace(text=f"{pmu.name}/{alias.name}/ = {alias.terms}", counting=False)
    own_rate = not parameters.keys().isdisjoint(("period", "freq"))
    for term in parse_terms(alias.terms):
        if term.name == "period" and own_rate:
            continue  # the user's rate precedes the one that the event proposes
        if term.value != "?":
            _set_term(event, pmu, term, inner)
        elif term.name not in parameters:
            reason = f"event '{alias.name}' needs a value for '{term.name}'"
            raise context.error(len(context.text), reason, f"'{term.name}=' and a number among the terms")
        # the user's term sets its bits later, in its own turn
    event.terms = event.terms._replace(proposes_period=None if own_rate or event.terms.period is None else True)


def _set_term(event: EventDraft, pmu: Pmu, term: Term, context: TermContext) -> None:
    """Set a term that is not a named event."""
    if layout := pmu.format(term.name):
        _set_format(event, pmu, layout, term, context)
    elif term.name == "user_events" and pmu.name.startswith(PMCU_NAME):
        from perfpy.events.tracers import user_events

        event.terms = event.terms._replace(user_events=user_events(term, context.text))
    elif is_event_term(term.name):
        apply_event_term(event, term, context.text, counting=context.counting)
        if term.name == "config" and is_tracer(pmu.name):
            event.terms = event.terms._replace(config_bits=_BITS_64)
    elif not _set_generic(event, pmu, term, context):
        raise _unknown_term(pmu, term, context)


def _set_format(event: EventDraft, pmu: Pmu, layout: Format, term: Term, context: TermContext) -> None:
    value = term.value
    if value is None:
        if layout.width > 1:
            raise context.error(term.value_column, f"term '{term.name}' has no value", "'=' and a number")
        value = 1
    if not isinstance(value, int):
        raise context.error(term.value_column, f"term '{term.name}' takes no word", "a number")
    if value >> layout.width:
        highest = (1 << layout.width) - 1
        raise context.error(term.value_column, f"{term.literal or value} does not fit '{term.name}'", f"at most {highest:#x}")
    before = getattr(event.attr, layout.field)
    if is_tracer(pmu.name):  # its terms change a default
        before &= ~pmu.bits(term.name)
        if layout.field == "config":
            event.terms = event.terms._replace(config_bits=(event.terms.config_bits or 0) | pmu.bits(term.name))
    setattr(event.attr, layout.field, before | layout.spread(value))


def _set_generic(event: EventDraft, pmu: Pmu, term: Term, context: TermContext) -> bool:
    """Set rNNN or a generic name inside a core PMU (cpu/cycles/, cpu/L1-dcache-loads/). Return whether it was one."""
    if term.value is not None:
        return False
    raw = raw_config(term.name)
    if raw is not None:
        event.attr.config = raw
        return True
    if not pmu.is_core and pmu.path:
        return False
    generic = generic_event(term.name)
    cache = cache_event(term.name)
    if generic and generic[0] == PerfType.HARDWARE:
        event.attr.type, event.attr.config = generic
    elif cache is not None:
        event.attr.type, event.attr.config = PerfType.HW_CACHE, cache
    else:
        return False
    if context.machine.has_extended_types:
        event.attr.config |= (pmu.type or 0) << 32
    return True


def _unknown_term(pmu: Pmu, term: Term, context: TermContext) -> EventSyntaxError:
    from perfpy.events.machine import nearest

    if is_too_long_raw(term.name):
        return context.error(term.column, *RAW_LIMIT)
    general = term_names(counting=context.counting)
    near = nearest(term.name, [*pmu.formats, *general, *context.machine.alias_names(pmu)])
    absent = "" if pmu.path else ", because this machine shows no PMU of its CPUs"
    reason = f"PMU '{pmu.name}' has no term or event '{term.name}'{absent}"
    own = "a term of its format (" + ", ".join(pmu.formats) + "), " if pmu.formats else ""
    return context.error(term.column, reason, f"{own}one of its events, or one of {', '.join(general)}", near)
