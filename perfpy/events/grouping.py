"""Set the leaders of groups, and split the groups that span several PMUs.

The kernel schedules a group as a whole on one PMU; software events may join any group. The rules for splitting and ordering are perf
6.12's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import PerfType

if TYPE_CHECKING:
    from perfpy.events.draft import EventDraft
    from perfpy.events.machine import Machine

#: PMUs of hardware tracers, whose groups may hold events of other PMUs
_TRACERS: Final = ("intel_pt", "intel_bts", "cs_etm", "arm_spe", "hisi_ptt", "hisi_pmcu", "s390_cpum_sf")
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
    """Split the groups that span PMUs. Return the events in their new order, and whether anything changed."""
    position = {id(event): number for number, event in enumerate(events)}
    sizes: dict[int, int] = {}
    for event in events:
        sizes[id(event.leader)] = sizes.get(id(event.leader), 0) + 1
    if not any(size > 1 for size in sizes.values()):
        return events, False
    names = {id(event): _group_pmu(event, events, machine) for event in events}
    has_topdown = any(pmu.alias("slots") for pmu in machine.core_pmus)

    def order(event: EventDraft) -> tuple[int, str, int, int]:
        if sizes[id(event.leader)] == 1:
            return position[id(event)], "", 0, 0
        return position[id(event.leader)], names[id(event)], has_topdown and _topdown_rank(event), position[id(event)]

    ordered = sorted(events, key=order)
    changed = any(before is not after for before, after in zip(events, ordered, strict=True))
    return ordered, _lead_anew(ordered, names) or changed


def _lead_anew(ordered: list[EventDraft], names: dict[int, str]) -> bool:
    """Give each run of events of one old group and one PMU its own leader. Return whether there are more leaders now."""
    changed = False
    old = leader = None
    for event in ordered:
        if leader is None or event.leader is not old or names[id(event)] != names[id(leader)]:
            changed |= event.leader is old
            old, leader = event.leader, event
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
    """Return the order in a group of x86's fixed topdown metrics, which must begin with `slots`."""
    name = event.name.lower()
    if "slots" in name:
        return 0
    return 1 if "topdown-" in name else 2
