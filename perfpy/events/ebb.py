"""Event-based branches of POWER: counters whose overflows branch to a handler of the program, without the kernel.

The kernel answers every violation of its rules with EINVAL. This module names the broken rule. Rules: Documentation/powerpc/pmu-ebb.rst.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import PerfType
from perfpy.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfpy.abi.attr import CountedEvent, EventAttr
    from perfpy.counts.aggregation import CountRow


#: the bit of config that makes a raw event an EBB
EBB: Final = 1 << 63

_FIRST_POWER: Final = 8  # the first POWER generation with EBB
_HARDWARE: Final = (PerfType.HARDWARE, PerfType.HW_CACHE, PerfType.RAW)
_COUNTER: Final = 0xF0000  # the PMC in the event's code


def means_ebb(pmu_name: str = "") -> bool:
    """Whether bit 63 means EBB here. `pmu_name` is the name in the PMU's caps ("POWER9"), or ""."""
    family, _, model = pmu_name.upper().partition("POWER")
    digits = model.split("_")[0]
    if not family and digits.isdecimal():
        return int(digits) >= _FIRST_POWER
    return os.uname().machine.startswith("ppc64")


def is_ebb(attr: EventAttr) -> bool:
    """Whether an attr is a raw event with the bit."""
    return attr.type == PerfType.RAW and bool(attr.config & EBB)


def with_needs(attr: EventAttr, *, leads: bool = True) -> EventAttr:
    """Return the attr with the bit and the settings that it requires. `leads`: the event leads a group or is alone."""
    alone = {"inherit": 0, "enable_on_exec": 0, "sample_period": 0, "freq": 0, "sample_type": 0}
    return attr.copy(config=attr.config | EBB, pinned=int(leads), exclusive=int(leads), **alone)


def check(attr: EventAttr, pid: int, cpu: int, leader: EventAttr | None, event: str = "") -> None:
    """Check one event before it is opened. `leader` is None for a leader. Raises UsageError that names each broken rule."""
    broken = [*_of_group(attr, leader), *(_alone(attr, pid, cpu) if is_ebb(attr) else ())]
    if broken:
        name = event or f"r{attr.config:x}"
        raise UsageError(f"'{name}' is an event-based branch (EBB, bit 63 of the code): " + "; ".join(broken))


def _of_group(attr: EventAttr, leader: EventAttr | None) -> list[str]:
    if leader is None:
        needed = [name for name in ("pinned", "exclusive") if not getattr(attr, name)] if is_ebb(attr) else []
        return [f"it must be {' and '.join(needed)} (Counter.open and CounterGroup.open: ebb=True sets both)"] if needed else []
    if is_ebb(attr) != is_ebb(leader):
        return ["all events of a group must have that bit, or none"]
    set_too = [name for name in ("pinned", "exclusive") if getattr(attr, name)]
    return [f"only the leader of a group may be {' and '.join(set_too)}"] if set_too and is_ebb(attr) else []


def _alone(attr: EventAttr, pid: int, cpu: int) -> list[str]:
    violations = []
    forbidden = [name for name in ("inherit", "enable_on_exec", "freq", "sample_type") if getattr(attr, name)]
    if attr.sample_period and not attr.freq:
        forbidden.append("sample_period")
    if forbidden:
        violations.append(f"it must not have {', '.join(forbidden)}")
    if pid < 0 or cpu >= 0:
        violations.append("it must follow a task, on any CPU (leave out -a and -C)")
    if not attr.config & _COUNTER:
        violations.append("its code must name a counter in bits 16 to 19, as 0x1001e names PMC1")
    return violations


def never_counted(rows: Mapping[CountedEvent, Sequence[CountRow]]) -> bool:
    """Whether hardware events were requested and none of them was ever on the PMU."""
    hardware = [row for event, its_rows in rows.items() for row in its_rows if event.attr.type in _HARDWARE and not is_ebb(event.attr)]
    return bool(hardware) and all(row.state.supported and not row.running for row in hardware)


def reasons(rows: Mapping[CountedEvent, Sequence[CountRow]]) -> list[str]:
    """Return the distinct reasons why events with the bit have no counts."""
    texts = [str(row.state.why_not) for event, its_rows in rows.items() for row in its_rows if is_ebb(event.attr) and row.state.failed]
    return list(dict.fromkeys(texts))
