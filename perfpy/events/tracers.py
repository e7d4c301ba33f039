"""What the drivers of hardware tracers ask of their events: the config that Intel PT starts with, the limits of a HiSilicon PMCU.

Facts: the default configs of perf 6.12; caps/ and format/ of the kernel's drivers (arch/x86/events/intel/pt.c).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import PMCU_NAME
from perfpy.errors import EventSyntaxError, UsageError
from perfpy.events.event import INTEL_PT
from perfpy.kernel.sysfs import read_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from perfpy.events.event import Event
    from perfpy.events.grammar import EventDraft, Term
    from perfpy.kernel.sysfs import Pmu

_USUAL_PERIOD: Final = 3  # of MTC and PSB packets: the exponent that perf prefers


def default_config(pmu: Pmu) -> int:
    """Return the config that the terms of an event change: of Intel PT branches, with the times that its hardware can write."""
    if pmu.name != INTEL_PT:
        return 0
    values = {"tsc": 1}
    mtc_periods = pmu.number("caps/mtc_periods", 16) or 0 if pmu.number("caps/mtc") != 0 else 0
    if mtc_periods:
        values |= {"mtc": 1, "mtc_period": _nearest_bit(mtc_periods)}
    psb_periods = pmu.number("caps/psb_periods", 16) or 0
    if mtc_periods and psb_periods and pmu.number("caps/psb_cyc") != 0:
        values["psb_period"] = _nearest_bit(psb_periods)
    if "pt" in pmu.formats and "branch" in pmu.formats:
        values |= {"pt": 1, "branch": 1}
    return sum(pmu.formats[name].spread(value) for name, value in values.items() if name in pmu.formats)


def _nearest_bit(choices: int) -> int:
    """Return the number of the highest bit up to the usual period, else of the lowest bit."""
    up_to = choices & (2 << _USUAL_PERIOD) - 1
    return up_to.bit_length() - 1 if up_to else (choices & -choices).bit_length() - 1


#: the file with the counted events, which stay until it is written again
USER_EVENTS: Final = "user_events"


_LONGEST_PERIOD: Final = 85_899  # ms


_PERIOD: Final = "sample_period_ms"


_MOST_EVENTS: Final = 240


_WIDEST_EVENT: Final = 0xFFFF


def user_events(term: Term, text: str) -> tuple[int, ...]:
    """Return the numbers of `user_events=0x10:0x11`. Raises EventSyntaxError."""
    words = (term.literal or str(term.value or "")).split(":")
    try:
        numbers = tuple(int(word, 16) for word in words)
    except ValueError:
        numbers = ()
    if not numbers or max(numbers) > _WIDEST_EVENT:
        expected = f"hexadecimal event numbers up to {_WIDEST_EVENT:#x}, such as 0x10:0x11"
        raise EventSyntaxError(
            text, term.value_column, f"'{USER_EVENTS}' cannot be '{term.literal or term.value or ''}'", expected=expected
        )
    if len(numbers) > _MOST_EVENTS:
        raise EventSyntaxError(text, term.value_column, f"{len(numbers)} events", expected=f"at most {_MOST_EVENTS}")
    return numbers


def check_event(event: EventDraft, pmu: Pmu, terms: Sequence[Term], text: str, *, counting: bool) -> None:
    """Check one event. Raises EventSyntaxError, UsageError."""
    if counting:
        raise UsageError(f"{pmu.name} counts into memory only; use perfpy record -e {text}")
    period = next((term for term in terms if term.name == _PERIOD), None)
    if period and isinstance(period.value, int) and period.value > _LONGEST_PERIOD:
        reason = f"{period.literal} is too long for '{_PERIOD}'"
        raise EventSyntaxError(text, period.value_column, reason, expected=f"at most {_LONGEST_PERIOD} ms")
    if not event.terms.user_events and not (read_text(f"{pmu.path}/{USER_EVENTS}") or "").strip():
        remedy = f"echo 0x10 0x11 > {pmu.path}/{USER_EVENTS}, or give them with the event: {pmu.name}/{USER_EVENTS}=0x10:0x11/"
        raise UsageError(f"{pmu.name} has no events to count; {remedy}")


def check_session(events: Iterable[Event]) -> None:
    """Check all events of a recording: only one of them can have AUX data. Raises UsageError."""
    names = [event.name for event in events if event.pmu.startswith(PMCU_NAME)]
    if len(names) > 1:
        raise UsageError(f"a recording can have one PMCU only; record '{names[0]}' and '{names[1]}' separately")
