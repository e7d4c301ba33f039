"""Lines of calls: widths, ties of the clock's microseconds, and texts that are made once."""

from __future__ import annotations

import random

import numpy as np
import pytest

from perfpy.tools.trace.call_text import CallTexts
from perfpy.tools.trace.calls import FollowedComms, Pairing
from perfpy.tools.trace.lines import KnownLines, LineKeys, LineOptions, TraceLines, line_heads
from perfpy.tools.trace.tables import SlowestCalls
from tests.builders.call_events import CallEventList

NOTHING = np.zeros(0, np.int64)
READ, KILL, GETPPID, EXIT_GROUP = 0, 62, 110, 231


@pytest.mark.parametrize("longest", [1_000, 99_999_999, 10**12, 10**16])
def test_heads_equal_those_of_printf(longest: int) -> None:
    """Times and durations are rounded and padded as C does it, whatever their size."""
    numbers = random.Random(longest)
    times = np.array([*sorted(numbers.randrange(longest) for _ in range(500)), 500, 1500, 2500, 100000500], np.int64)
    took = np.array([numbers.randrange(longest) for _ in range(500)] + [500, 99_999_499, 99_999_500, 100_000_000], np.int64)
    cpus = np.array([numbers.randrange(1000) for _ in times], np.int32)
    pairs = list(zip((times / 1e6).tolist(), cpus.tolist(), (took / 1e6).tolist(), strict=True))
    assert line_heads(times, took, cpus).tolist() == [b"%10.3f [%03d] (%6.3f ms): " % pair for pair in pairs]
    assert line_heads(times, None, None).tolist() == [b"%10.3f (         ): " % time for time, _, _ in pairs]


def test_a_line_whose_text_depends_on_more_than_its_key_is_made_anew() -> None:
    """Lines with the same key are made once, unless they vary."""
    results = []

    def make(chosen: np.ndarray) -> list[str]:
        results.extend(chosen.tolist())
        return [f"{index}\r\nforged" for index in chosen.tolist()]

    names, keys = KnownLines(), np.array([7, 7, 7, 8], np.uint64)
    texts = names.texts(keys, np.array([False, False, True, False]), make)
    assert texts.tolist() == [b"0^M^Jforged\n", b"0^M^Jforged\n", b"2^M^Jforged\n", b"3^M^Jforged\n"]
    assert names.texts(keys[:1], np.array([False]), make).tolist() == [b"0^M^Jforged\n"]
    assert results == [2, 0, 3]


def test_keys_of_different_numbers_differ() -> None:
    """Numbers that differ in their highest bits only have different keys, also if several do."""
    top = np.array([0, 1 << 63, 0, 1 << 63, 1], np.uint64)
    other = np.array([0, 0, 1 << 63, 1 << 63, 0], np.uint64)
    assert len(set(LineKeys().keys([3, top, other]).tolist())) == len(top)


def test_comms_in_arguments_follow_their_changes() -> None:
    """kill(PID) names the process that has the number at that time."""
    comms = FollowedComms()
    lines = TraceLines(LineOptions(shows_comm=False), CallTexts("x86_64"), comms, NOTHING)
    pairing = Pairing(NOTHING)
    texts = []
    for comm in ("first", "second"):
        comms.begin_batch()
        comms.name(77, comm)
        calls = CallEventList().call(5, KILL, 77, 9)
        texts += lines.lines(pairing.pair(calls.events())).lines()
    assert [b"77 (first)" in texts[0], b"77 (second)" in texts[1]] == [True, True]


def test_the_slowest_calls_are_kept_over_batches() -> None:
    """The calls that took longest are printed at the end, the slowest first."""
    options = LineOptions(shows_comm=False, slowest=3)
    slowest = SlowestCalls(TraceLines(options, CallTexts("x86_64"), FollowedComms(), NOTHING), options)
    pairing, calls = Pairing(NOTHING), CallEventList()
    for batch in ((5, 900, 7), (1, 2), (800, 800, 3, 950)):
        for took in batch:
            calls.enter(1, GETPPID).exit(1, GETPPID, result=-took, after=1000 * took)
        assert not slowest.lines(pairing.pair(calls.events())).parts
    assert [int(line.split(b"(")[1].split()[0].replace(b".", b"")) for line in slowest.rest().lines()] == [950, 900, 800]


@pytest.mark.parametrize(("has_least_depth", "count"), [(False, 2), (True, 1)])
def test_calls_without_frames_are_not_printed_if_an_option_limits_frames(has_least_depth: bool, count: int) -> None:
    """--min-stack: exit_group does not return, so its frames are unknown; perf omits it, too."""
    lines = TraceLines(LineOptions(has_least_depth=has_least_depth), CallTexts("x86_64"), FollowedComms(), np.array([EXIT_GROUP]))
    calls = CallEventList().call(1, GETPPID).enter(1, EXIT_GROUP)
    assert len(lines.lines(Pairing(np.array([EXIT_GROUP])).pair(calls.events())).lines()) == count


def test_a_result_is_printed_as_that_of_the_call_that_returned() -> None:
    """If samples are lost, the entry before a return can be that of another call; equal numbers make no equal lines then."""
    calls = CallEventList().enter(1, GETPPID).exit(1, READ, result=9).enter(1, GETPPID).exit(1, GETPPID, result=9)
    comms = FollowedComms()
    comms.name(9, "parent")
    lines = TraceLines(LineOptions(shows_comm=False), CallTexts("x86_64"), comms, NOTHING)
    first, second = lines.lines(Pairing(NOTHING).pair(calls.events())).lines()
    assert [b"parent" in first, b"parent" in second] == [False, True]


@pytest.mark.parametrize(("is_recorded", "end"), [(False, b" = 0\n"), (True, b" = 0 (swapper)\n")])
def test_a_result_of_0_is_no_process(is_recorded: bool, end: bytes) -> None:
    """wait4 returns 0 if no child has ended. perf knows thread 0 from recordings only, and scripts parse its text."""
    calls = CallEventList().call(1, GETPPID)
    lines = TraceLines(LineOptions(shows_comm=False), CallTexts("x86_64", is_recorded=is_recorded), FollowedComms(), NOTHING)
    (line,) = lines.lines(Pairing(NOTHING).pair(calls.events())).lines()
    assert line.endswith(end)
