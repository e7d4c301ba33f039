"""Names of threads in recordings: which replace the kernel's, when they are read again, and their COMM records."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from perfpy.capture.python_frames import threads
from perfpy.capture.python_frames.answers import FoundCode
from perfpy.capture.python_frames.recorded_frames import PythonSummary, notes
from perfpy.capture.python_frames.threads import LONGEST_NAME, BlockedLoops, PendingNames, ReadNames

if TYPE_CHECKING:
    from perfpy.kernel.procfs import ProcFs


class Comms:
    """The kernel's names of tasks."""

    def __init__(self, **comms: str) -> None:
        self.comms = {int(tid.removeprefix("t")): comm for tid, comm in comms.items()}

    def status(self, tid: int) -> Comms | None:
        self.comm = self.comms.get(tid, "")
        return Comms(**{f"t{tid}": self.comm})._of(tid) if tid in self.comms else None

    def _of(self, tid: int) -> Comms:
        self.comm = self.comms[tid]
        return self


def names(**comms: str) -> ReadNames:
    return ReadNames(7, cast("ProcFs", Comms(**comms)))


@pytest.mark.parametrize(
    ("name", "comm", "expected"),
    [
        ("worker-1", "python", "worker-1"),
        ("worker-1", "own", "worker-1"),
        ("Thread-1 (work)", "python", "Thread-1 (work)"),
        ("Thread-1", "python", "Thread-1"),
        ("Thread-1 (work)", "own", ""),
        ("Dummy-3", "python", ""),
        ("MainThread", "python", ""),
        ("", "python", ""),
    ],
)
def test_names_that_say_more_than_the_kernels_replace_it(name: str, comm: str, expected: str) -> None:
    assert names(t7="python", t8=comm).new_name(8, 1.0, lambda: name) == expected


def test_the_main_thread_keeps_the_programs_name() -> None:
    assert names(t7="python").new_name(7, 1.0, lambda: "main") == ""


def test_a_name_is_read_again_ever_more_rarely_and_reported_once() -> None:
    read = names(t7="python", t8="python")
    reads: list[int] = []

    def name() -> str:
        reads.append(len(reads))
        return "first" if len(reads) < 3 else "second"

    messages = [read.new_name(8, number / 1000, name) for number in range(1000)]
    assert [one for one in messages if one] == ["first", "second"]
    assert len(reads) < 12


def test_a_thread_with_the_number_of_an_ended_one_is_read_at_once() -> None:
    read = names(t7="python", t8="python")
    assert read.new_name(8, 1.0, lambda: "first") == "first"
    read.forget(8)
    assert read.new_name(8, 1.001, lambda: "first") == "first"


def test_a_record_has_the_time_of_the_threads_first_sample() -> None:
    pending = PendingNames()
    pending.add(7, 8, "worker")
    pending.add(7, 9, "waits")
    (record,) = pending.take([(7, 8, 30), (7, 8, 20), (7, 7, 10)], 5)
    assert (record.pid, record.tid, record.comm, record.sample_id and record.sample_id.time) == (7, 8, "worker", 20)
    assert [comm.comm for comm in pending.take([(7, 8, 40), (7, 9, 41)], 5)] == ["waits"]


@pytest.mark.parametrize("name", ["x" * 5000, "ü" * 500, "a\0b", "\ud800" * 90])
def test_names_fit_into_a_record(name: str) -> None:
    pending = PendingNames()
    pending.add(7, 8, name)
    (record,) = pending.take([(7, 8, 1)], 5)
    assert len(record.comm.encode()) <= LONGEST_NAME
    assert "\0" not in record.comm


# Turns of event loops that last long: which samples are in them, how many they are, and what ran in the longest.


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
    monkeypatch.setattr(threads, "_MOST_LOOPS", 3)
    monkeypatch.setattr(threads, "_MOST_CALLBACKS", 2)
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
