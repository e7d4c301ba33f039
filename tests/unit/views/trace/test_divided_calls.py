"""Lines and tables by several processes: those of one process, wherever the recording is divided."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from perfpy.tracing.pairing import Pairing
from perfpy.tracing.thread_comms import FollowedComms
from perfpy.tracing.totals import Totals
from perfpy.views.trace import divided_calls as module
from perfpy.views.trace.call_tables import CallTables, SummaryOptions
from perfpy.views.trace.call_text import CallTexts
from perfpy.views.trace.divided_calls import DividedCalls
from perfpy.views.trace.lines import LineOptions, TraceLines
from tests.builders.call_events import CallEventList

if TYPE_CHECKING:
    from perfpy.tracing.events import CallEvents

READ, GETPPID, SIGRETURN, EXIT_GROUP = 0, 110, 15, 231
ENDING = np.array([EXIT_GROUP])


class Here:
    """Workers that are this process."""

    def __init__(self, parts: Any, work: Any, _count: int) -> None:
        self._results = map(work, parts)

    def __enter__(self) -> Here:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def results(self) -> Any:
        return self._results


def random_events(numbers: random.Random) -> CallEvents:
    """Calls of some threads, of which some wait long, end, or return without an entry."""
    calls = CallEventList()
    for _ in range(numbers.randrange(1, 120)):
        tid = numbers.choice((1, 1, 1, 2, 3, 4))
        number = numbers.choice((READ, READ, GETPPID, EXIT_GROUP, SIGRETURN))
        match numbers.randrange(5):
            case 0 | 1:
                calls.enter(tid, number, numbers.randrange(3))
            case 2 | 3:
                calls.exit(tid, number, result=numbers.choice((0, 5, -2)), after=numbers.randrange(1, 3_000_000))
            case _:
                calls.call(tid, number, 3)
    return calls.events()


def printed(events: CallEvents, borders: list[int], options: LineOptions, *, jobs: int) -> tuple[bytes, list[str], list[str]]:
    """Return the lines and tables of events, and the warnings about parts; jobs: 0 without division."""
    warnings: list[str] = []

    def read(part: CallEvents) -> CallEvents:
        warnings.append("a damaged part")
        return part

    lines = TraceLines(options, CallTexts("x86_64"), FollowedComms(), ENDING)
    totals = Totals()

    def new_pairing() -> Pairing:
        return Pairing(ENDING, wants_interruptions=options.has_interruptions)

    pairing = new_pairing()
    first, *others = [events.take(slice(begin, end)) for begin, end in pairwise([0, *borders, events.size])]
    texts = []
    for part in (first, *(() if jobs else others)):
        paired = pairing.pair(part)
        totals.add(paired)
        texts.append(lines.lines(paired))
    if jobs:
        spans: Any = others
        texts += DividedCalls(pairing, new_pairing, lines, totals).batches(spans, read, warnings, jobs)  # type: ignore[arg-type]
    tables = CallTables(totals, SummaryOptions(errnos=True), CallTexts("x86_64").name, str)
    return b"".join(part for text in texts for part in text.parts), list(tables.lines()), warnings


@pytest.mark.parametrize("options", [LineOptions(shows_cpu=True), LineOptions(failures_only=True), LineOptions(longer_than=0.5)])
def test_lines_and_tables_do_not_depend_on_the_division(options: LineOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ForkedWorkers", Here)
    numbers = random.Random(7)
    for _ in range(12):
        events = random_events(numbers)
        borders = sorted(numbers.randrange(1, events.size + 1) for _ in range(numbers.randrange(1, 8)))
        assert printed(events, borders, options, jobs=2)[:2] == printed(events, borders, options, jobs=0)[:2]


def test_processes_make_the_same_lines_and_pass_warnings_on() -> None:
    numbers = random.Random(3)
    events, options = random_events(numbers), LineOptions()
    borders = [1, events.size // 2]
    *texts, warnings = printed(events, borders, options, jobs=2)
    assert texts == [*printed(events, borders, options, jobs=0)[:2]]
    assert warnings == ["a damaged part"]
