"""Turns of event loops that last long: which samples are in them, how many they are, and what ran in the longest."""

from __future__ import annotations

from perfpy.capture.python_frames import blocked_loops
from perfpy.capture.python_frames.answers import FoundCode
from perfpy.capture.python_frames.blocked_loops import BlockedLoops
from perfpy.capture.python_frames.notes import PythonSummary, notes

MS = 1_000_000


def code(number: int, name: str, filename: str) -> FoundCode:
    return FoundCode(1, number, 0x6000, 0x7000, 0x7008, name, filename, 10, b"", 0)


TURN = code(1, "BaseEventLoop._run_once", "/lib/asyncio/base_events.py")
RUN = code(2, "Handle._run", "/lib/asyncio/events.py")
SLOW, QUICK, INNER = code(3, "slow", "/app/main.py"), code(4, "quick\x1b[2J", "/app/main.py"), code(5, "inner", "/app/main.py")
STACK = [INNER, SLOW, RUN, TURN, code(6, "run", "/lib/asyncio/runners.py")]


def test_only_samples_of_long_turns_have_the_mark() -> None:
    blocked = BlockedLoops()
    assert blocked.find(STACK, 7, 5 * MS, 50 * MS) == -1
    assert blocked.find(STACK, 7, 0, 500 * MS) == -1, "an unknown beginning"
    assert blocked.find(STACK, 7, 5 * MS, 105 * MS) == 3, "between the turn and what it calls"
    assert blocked.find([INNER, SLOW, TURN], 7, 5 * MS, 105 * MS) == -1, "no callback"
    assert blocked.find([RUN, code(1, "BaseEventLoop._run_once", "/app/other.py")], 7, 5 * MS, 105 * MS) == -1, "not asyncio's"


def test_turns_are_counted_once_for_each_thread() -> None:
    blocked = BlockedLoops()
    for tid, began, moment in ((7, 5, 110), (7, 5, 150), (8, 5, 120), (7, 300, 410)):
        blocked.find(STACK, tid, began * MS, moment * MS)
    assert (blocked.count, blocked.longest) == (3, 145 * MS)


def test_the_callback_with_most_samples_of_the_longest_turn_is_named() -> None:
    blocked = BlockedLoops()
    for moment in (110, 120, 130):
        blocked.find([INNER, SLOW, RUN, TURN], 7, 5 * MS, moment * MS)
    blocked.find([QUICK, RUN, TURN], 7, 5 * MS, 140 * MS)
    blocked.find([QUICK, RUN, TURN], 7, 200 * MS, 301 * MS)
    assert blocked.callback == SLOW


def test_memory_does_not_grow_with_threads_and_callbacks(monkeypatch) -> None:
    monkeypatch.setattr(blocked_loops, "_MOST_THREADS", 3)
    monkeypatch.setattr(blocked_loops, "_MOST_CALLBACKS", 2)
    blocked = BlockedLoops()
    for number in range(10):
        blocked.find([code(10 + number, "f", "/app"), RUN, TURN], number, 5 * MS, 200 * MS)
        blocked.find([code(10 + number, "f", "/app"), RUN, TURN], 99, 5 * MS, 200 * MS)
    assert len(blocked._turns) <= 3
    assert all(len(turn.callbacks) <= 2 for turn in blocked._turns.values())


def test_the_note_names_the_longest_turn() -> None:
    blocked = BlockedLoops()
    assert not any("event loop" in line for line in notes(PythonSummary((1, 0, 0, 0, 0, 0), 1, 0, {}, 1, blocked)))
    blocked.find([QUICK, RUN, TURN], 7, 5 * MS, 305 * MS)
    assert notes(PythonSummary((1, 0, 0, 0, 0, 0), 1, 0, {}, 1, blocked))[1:] == [
        "note: --python: callbacks blocked the event loop for over 100 ms 1 time, for 300 ms or longer by quick^[[2J (main.py:10)"
    ]
