"""Lines and tables by several processes: those of one process, wherever the recording is divided."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from perfpy.abi.attr import EventAttr
from perfpy.errors import UsageError
from perfpy.perfdata.events import FileEvent
from perfpy.tools.trace import replay as module
from perfpy.tools.trace.call_text import CallTexts
from perfpy.tools.trace.calls import FollowedComms, Pairing
from perfpy.tools.trace.lines import LineOptions, TraceLines
from perfpy.tools.trace.replay import NO_SWITCHES, DividedCalls, SwitchedSamples, SwitchOptions
from perfpy.tools.trace.tables import CallTables, SummaryOptions
from perfpy.tools.trace.totals import Totals
from tests.builders.call_events import CallEventList

if TYPE_CHECKING:
    from perfpy.tools.trace.calls import CallEvents


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


# Only what happens between two events counts.


EVENTS = [FileEvent(EventAttr(), (), name, index) for index, name in enumerate(("enter", "on", "off"))]


@pytest.mark.parametrize(
    ("options", "masks"),
    [
        (SwitchOptions("on", "off"), ([0, 0, 1], [1, 0, 0])),
        (SwitchOptions("on", "off", added=("on", "off")), ([0, 0, 1], [0, 0, 0])),
        (SwitchOptions("on", "off", is_shown=True, added=("on", "off")), ([0, 1, 1], [1, 1, 0])),
        (SwitchOptions(off="off"), ([1, 1, 1], [1, 0, 0])),
    ],
)
def test_samples_between_the_events_count(options, masks):
    """The state of the switch goes on from batch to batch; another switching-on sample is one like others, unless it was added."""
    switched = SwitchedSamples(options, EVENTS)

    for events, expected in zip(([0, 1, 0], [1, 2, 0]), masks, strict=True):
        mask = switched.mask(np.array(events, np.int32))
        assert mask is not None
        assert mask.astype(int).tolist() == expected


def test_without_switches_all_samples_count():
    assert SwitchedSamples(NO_SWITCHES, EVENTS).mask(np.zeros(3, np.int32)) is None


def test_an_unknown_event_is_an_error():
    with pytest.raises(UsageError, match="no event 'x'"):
        SwitchedSamples(SwitchOptions("x"), EVENTS)
