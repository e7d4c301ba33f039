"""The sentence about callbacks that block an event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.analysis.samples.wait_events import NANOSECONDS_A_SECOND
from perfpy.analysis.verdict.event_loops import BlockedTime, long_turns, long_waits
from perfpy.views.verdict.sentence import Sentence, function_text, seconds, source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.analysis.verdict.evidence import Evidence

MATTERS: Final = 0.05  # of the elapsed time
LEAST: Final = 0.1  # seconds
IN_ONE_FUNCTION: Final = 0.5  # of the time
NEARLY_ALL: Final = 0.9


def blocked_loop(evidence: Evidence) -> Iterator[Sentence]:
    """Tell for how long callbacks blocked the event loop, and in which function."""
    functions = evidence.functions
    if functions is None:
        return
    running = long_turns(functions) if evidence.seconds is not None else BlockedTime(0)
    waiting = long_waits(evidence.waits.functions) if evidence.waits is not None else BlockedTime(0)
    total = (running.period + waiting.period) / NANOSECONDS_A_SECOND
    if total < max(MATTERS * evidence.elapsed, LEAST):
        return
    numbers = {"seconds": total, "elapsed": evidence.elapsed, "running": running.period / NANOSECONDS_A_SECOND}
    text, names = f"Long callbacks blocked the event loop for at least {seconds(total)} of {seconds(max(evidence.elapsed, total))}", {}
    larger, waits = (running, None) if running.period >= waiting.period else (waiting, evidence.waits)
    name = (waits.functions if waits else functions).name(larger.function) if larger.function >= 0 else ""
    share = larger.in_function / NANOSECONDS_A_SECOND / total
    if name and share >= IN_ONE_FUNCTION:
        names["function"], numbers["in function"] = name, share
        line = evidence.line_with_callees(larger.function, waits=waits is not None)
        text += f", {'' if share >= NEARLY_ALL else 'mostly '}in {function_text(name)}{source(name, line)}"
    yield Sentence("blocked loop", f"{text}.", numbers, names)
