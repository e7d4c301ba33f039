"""Event-based branches of POWER: counters whose overflows branch to a handler of the program's own, without the kernel.

What enters: the attr of an event, and whom it is to follow. What leaves: the attr with what such
an event needs, or which of the kernel's rules it breaks, in words: the kernel itself says EINVAL to all of them. The rules:
Documentation/powerpc/pmu-ebb.rst.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import PerfType
from perfpy.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfpy.abi.attr import EventAttr
    from perfpy.counts.aggregation import CountedEvent, CountRow

#: the bit of config that makes a raw event one
EBB: Final = 1 << 63

_FIRST_POWER: Final = 8  # which has them
_HARDWARE: Final = (PerfType.HARDWARE, PerfType.HW_CACHE, PerfType.RAW)
_COUNTER: Final = 0xF0000  # the PMC, in the event's code


def means_ebb(pmu_name: str = "") -> bool:
    """Whether bit 63 means that here. pmu_name: what the CPU's PMU calls itself ("POWER9"), "" where it says nothing."""
    family, _, model = pmu_name.upper().partition("POWER")
    digits = model.split("_")[0]
    if not family and digits.isdecimal():
        return int(digits) >= _FIRST_POWER
    return os.uname().machine.startswith("ppc64")


def is_ebb(attr: EventAttr) -> bool:
    """Whether an attr has the bit, of a type for which it may mean that."""
    return attr.type == PerfType.RAW and bool(attr.config & EBB)


def with_needs(attr: EventAttr, *, leads: bool = True) -> EventAttr:
    """The attr with the bit, and with what must be and must not be with it; leads: a group, or itself alone."""
    alone = {"inherit": 0, "enable_on_exec": 0, "sample_period": 0, "freq": 0, "sample_type": 0}
    return attr.copy(config=attr.config | EBB, pinned=int(leads), exclusive=int(leads), **alone)


def check(attr: EventAttr, pid: int, cpu: int, leader: EventAttr | None, event: str = "") -> None:
    """One event, before it is opened. leader: of its group, None where it leads. Raises UsageError that names each rule it breaks."""
    broken = [*_of_group(attr, leader), *(_alone(attr, pid, cpu) if is_ebb(attr) else ())]
    if broken:
        name = event or f"r{attr.config:x}"
        raise UsageError(f"'{name}' is about event-based branches (EBB, bit 63 of the code): " + "; ".join(broken))


def _of_group(attr: EventAttr, leader: EventAttr | None) -> list[str]:
    if leader is None:
        needed = [name for name in ("pinned", "exclusive") if not getattr(attr, name)] if is_ebb(attr) else []
        return [f"it must be {' and '.join(needed)} (Counter.open and CounterGroup.open: ebb=True sets both)"] if needed else []
    if is_ebb(attr) != is_ebb(leader):
        return ["all events of a group must have that bit, or none"]
    set_too = [name for name in ("pinned", "exclusive") if getattr(attr, name)]
    return [f"only the leader of a group may be {' and '.join(set_too)}"] if set_too and is_ebb(attr) else []


def _alone(attr: EventAttr, pid: int, cpu: int) -> list[str]:
    found = []
    wrong = [name for name in ("inherit", "enable_on_exec", "freq", "sample_type") if getattr(attr, name)]
    if attr.sample_period and not attr.freq:
        wrong.append("sample_period")
    if wrong:
        found.append(f"it must not have {', '.join(wrong)}")
    if pid < 0 or cpu >= 0:
        found.append("it must follow a task, on any CPU (leave out -a and -C)")
    if not attr.config & _COUNTER:
        found.append("its code must name a counter in bits 16 to 19, as 0x1001e names PMC1")
    return found


def never_counted(rows: Mapping[CountedEvent, Sequence[CountRow]]) -> bool:
    """Whether there are hardware events, and none of them was ever on the PMU."""
    hardware = [row for event, its_rows in rows.items() for row in its_rows if event.attr.type in _HARDWARE and not is_ebb(event.attr)]
    return bool(hardware) and all(row.state.supported and not row.running for row in hardware)


def reasons(rows: Mapping[CountedEvent, Sequence[CountRow]]) -> list[str]:
    """Why the events with the bit have no counts, a line each."""
    found = [str(row.state.why_not) for event, its_rows in rows.items() for row in its_rows if is_ebb(event.attr) and row.state.failed]
    return list(dict.fromkeys(found))
