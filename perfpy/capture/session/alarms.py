"""What a recording attends to beside its rings, where its options ask for it.

What enters: the options, the counters, the output. What leaves: alarms for Attention, of which the line of progress is
one, and the events of --switch-output-event.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from perfpy.capture.output.attention import Regularly

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
    """What has the rings emptied from time to time, where that is for the recorder to do."""
    return [] if options.buffers.overwrite or options.buffers.threads else [Regularly(patience(counters, options))]


def patience(counters: SampleCounters, options: RecordOptions) -> float:
    """Large rings that nobody asked for are emptied often; all others so that a killed recording lacks a second, not half a ring."""
    large = counters.rings and counters.rings[0].size >= _LARGE_RING and not options.buffers.mmap_pages
    return _OFTEN if large else _NOW_AND_THEN


def progress(
    command: Sequence[str], counters: SampleCounters, output: RecordOutput, options: RecordOptions, now: float
) -> ProgressLine | None:
    """The line on a terminal; None where nobody reads it."""
    if not (options.notes and sys.stderr.isatty()):
        return None
    from perfpy.capture.session.progress import progress_line  # for people

    return progress_line(command, counters, output, now)


def cost_limit(counters: SampleCounters, output: RecordOutput, options: RecordOptions, tell: Callable[[str], None]) -> list[CostLimit]:
    """What holds the cost of a recording below --max-cpu."""
    if not options.max_cpu:
        return []
    from perfpy.capture.rings.cost_limit import CostLimit  # rarely asked for

    # waits are made of pairs of events: only the clock beside them may become rarer
    events = [event for event in counters.events if event.attr.freq] if options.off_cpu.enabled else counters.events
    may_rest = not (options.off_cpu.enabled or options.starts_disabled or options.control)  # nobody else switches them
    return [CostLimit(counters, events, options.max_cpu, tell, others=output.others, may_rest=may_rest)]


def switch_events(
    options: RecordOptions,
    kernel: Kernel,
    ask: Callable[[], None],
    tell: Callable[[str], None],
    at_end: Callable[[Callable[[], None]], object],
) -> list[SwitchEvent]:
    """What asks for another file when an event happens. at_end: given what closes it."""
    if not options.output.switch_output_event:
        return []
    from perfpy.capture.rings.switch_event import SwitchEvent  # rarely asked for

    one = SwitchEvent(options.output.switch_output_event, kernel, ask, tell)
    at_end(one.close)
    return [one]
