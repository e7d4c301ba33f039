"""Inputs and periodic actions of a recording, by its options: reading ring buffers, the progress line, --max-cpu,
--switch-output-event.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from perfpy.capture.output.attention import FIRST_PATIENCE, Regularly

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfpy.capture.output.attention import Alarm
    from perfpy.capture.output.output import RecordOutput
    from perfpy.capture.record_options import RecordOptions
    from perfpy.capture.rings.cost_limit import CostLimit
    from perfpy.capture.rings.sample_counters import SampleCounters
    from perfpy.capture.rings.switch_event import SwitchEvent
    from perfpy.capture.session.progress import ProgressLine
    from perfpy.kernel import Kernel

_LARGE_RING: Final = 2 << 20
_OFTEN: Final = 0.2  # seconds
_NOW_AND_THEN: Final = 1.0


def emptying(counters: SampleCounters, options: RecordOptions) -> list[Alarm]:
    """Return the alarm to read the ring buffers periodically, if the recorder reads them."""
    return [] if options.buffers.overwrite or options.buffers.threads else [Regularly(patience(counters, options), FIRST_PATIENCE)]


def patience(counters: SampleCounters, options: RecordOptions) -> float:
    """Return the seconds between reads: often for large default ring buffers; else so that a killed recording lacks only a second."""
    large = counters.rings and counters.rings[0].size >= _LARGE_RING and not options.buffers.mmap_pages
    return _OFTEN if large else _NOW_AND_THEN


def progress(
    command: Sequence[str], counters: SampleCounters, output: RecordOutput, options: RecordOptions, now: float
) -> ProgressLine | None:
    """Return the progress line; None if no person reads it."""
    if not (options.notes and sys.stderr.isatty()):
        return None
    from perfpy.capture.session.progress import progress_line  # only on terminals

    return progress_line(command, counters, output, now)


def cost_limit(counters: SampleCounters, output: RecordOutput, options: RecordOptions, tell: Callable[[str], None]) -> list[CostLimit]:
    """Return the alarm that keeps the cost of recording below --max-cpu."""
    if not options.max_cpu:
        return []
    from perfpy.capture.rings.cost_limit import CostLimit  # rarely needed

    # Waits consist of pairs of events: only the clock beside them may be sampled less.
    events = [event for event in counters.events if event.attr.freq] if options.off_cpu.enabled else counters.events
    may_rest = not (options.off_cpu.enabled or options.starts_disabled or options.control)  # otherwise others switch them
    return [CostLimit(counters, events, options.max_cpu, tell, others=output.others, may_rest=may_rest)]


def switch_events(
    options: RecordOptions,
    kernel: Kernel,
    ask: Callable[[], None],
    tell: Callable[[str], None],
    at_end: Callable[[Callable[[], None]], object],
) -> list[SwitchEvent]:
    """Return the inputs that request another file when an event happens. at_end gets the function that closes them."""
    if not options.output.switch_output_event:
        return []
    from perfpy.capture.rings.switch_event import SwitchEvent  # rarely needed

    one = SwitchEvent(options.output.switch_output_event, kernel, ask, tell)
    at_end(one.close)
    return [one]
