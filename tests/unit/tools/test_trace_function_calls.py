"""Entries and returns become calls: nested, left without a return, ended by a slow call; an Intel PT trace tells all."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from perfpy.cli import run
from perfpy.errors import UsageError
from perfpy.tools.trace.function_calls import (
    CallLog,
    FunctionCall,
    calls_page,
    chrome_trace,
    parse_condition,
    parse_time,
    throws_exceptions,
    tree_lines,
)
from tests.builders.intel_pt import BASE, Options, pt_recording, steps_of

if TYPE_CHECKING:
    from pathlib import Path

MS = 1_000_000


def log_of(*hits: tuple[str, int, int], when: str = "") -> CallLog:
    """A log of one thread's hits: function (a return has a ! behind), time in ms, stack pointer."""
    log = CallLog(parse_condition(when))
    log.threads[7] = 5, "prog\x1b[31m"
    for name, time, pointer in hits:
        number = log.number(name.rstrip("!"))
        (log.leave_at if name.endswith("!") else log.enter_at)(7, time * MS, number, pointer)
    return log


def rows(log: CallLog, length: int = 0) -> list[tuple[str, int, int, int, bool]]:
    return [(log.names[one.function], one.begin // MS, one.end // MS, one.depth, one.returned) for one in log.finish(length)]


def test_calls_are_nested() -> None:
    log = log_of(("a", 1, 800), ("b", 2, 700), ("b", 3, 600), ("b!", 4, 608), ("b!", 5, 708), ("a!", 9, 808), ("a", 10, 800))
    assert rows(log) == [("a", 1, 9, 0, True), ("b", 2, 5, 1, True), ("b", 3, 4, 2, True), ("a", 10, 10, 0, False)]


def test_calls_of_one_time_are_in_their_order() -> None:
    log = log_of(("a", 1, 800), ("b", 1, 700), ("b!", 1, 708), ("a!", 1, 808), ("c", 1, 800), ("d", 1, 700), ("d!", 1, 708), ("c!", 1, 808))
    assert [name for name, *_ in rows(log)] == ["a", "b", "c", "d"]


def test_calls_that_longjmp_leaves_end_with_the_next_hit_above_them() -> None:
    log = log_of(("a", 1, 800), ("b", 2, 700), ("c", 3, 600), ("d", 5, 760), ("d!", 6, 768), ("a!", 9, 808))
    assert rows(log) == [("a", 1, 9, 0, True), ("b", 2, 5, 1, True), ("c", 3, 5, 2, True), ("d", 5, 6, 1, True)]


def test_a_tail_call_returns_with_its_caller() -> None:
    log = log_of(("a", 1, 800), ("b", 2, 800), ("b!", 3, 808), ("a!", 4, 808))
    assert rows(log) == [("a", 1, 4, 0, True), ("b", 2, 3, 1, True)]


def test_a_handler_on_another_stack_leaves_calls_alone() -> None:
    log = log_of(("a", 1, 800), ("handler", 2, 1 << 40), ("handler!", 3, (1 << 40) + 8), ("a!", 4, 808))
    assert rows(log) == [("a", 1, 4, 0, True), ("handler", 2, 3, 1, True)]


def test_a_slow_call_ends_the_trace() -> None:
    log = log_of(("a", 1, 8), ("a!", 3, 16), ("a", 4, 8), ("a!", 20, 16), ("a", 22, 8), when="a > 10ms")
    assert log.cause == FunctionCall(7, 4 * MS, 20 * MS, 0, 0, True, 1)
    assert rows(log) == [("a", 4, 20, 0, True)]
    assert rows(log, 18 * MS) == [("a", 1, 3, 0, True), ("a", 4, 20, 0, True)]


def test_a_trace_that_no_slow_call_ended_says_so() -> None:
    hits = ("a", 1, 800), ("b", 2, 700), ("b!", 5, 708), ("a!", 9, 808)
    assert log_of(*hits, when="a > 7ms").unmet == ""
    assert log_of(*hits).unmet == ""
    assert (
        log_of(*hits, when="b > 7ms").unmet == "--when did not end the trace: no call of b took more than 7.000 ms (the longest 3.000 ms)"
    )
    assert log_of(*hits, when="c > 7ms").unmet == "--when did not end the trace: no call of c"


def test_slow_calls_of_cpp_are_named_without_their_parameters() -> None:
    log = log_of(("Job::run(int)", 1, 800), ("Job::run(int)!", 9, 808), when="Job::run > 7ms")
    assert log.cause is not None
    assert log_of(("Job::runs(int)", 1, 800), ("Job::runs(int)!", 9, 808), when="Job::run > 7ms").cause is None


def test_a_slow_call_of_a_function_that_is_not_traced_is_an_error() -> None:
    log = CallLog(parse_condition("handel > 1ms"))
    log.number("handle")
    with pytest.raises(UsageError, match="--when 'handel': none of the functions of --calls; did you mean 'handle'"):
        log.check_condition()
    log.number("handel")
    log.check_condition()


@pytest.mark.parametrize(("content", "throws"), [(b"", False), (b"\0__cxa_throw\0", True), (b"\0__cxa_throw_not\0", False)])
def test_programs_that_throw_exceptions_are_known(content: bytes, throws: bool, tmp_path: Path) -> None:
    """Probes at returns replace return addresses, and no exception gets past these."""
    path = tmp_path / "program"
    path.write_bytes(content)
    assert throws_exceptions(str(path)) == throws
    assert not throws_exceptions(str(tmp_path / "missing"))


def test_the_last_milliseconds_are_chosen() -> None:
    assert rows(log_of(("a", 1, 8), ("a!", 3, 16), ("b", 5, 8), ("b!", 9, 16)), 5 * MS) == [("b", 5, 9, 0, True)]


@pytest.mark.parametrize("text", ["a", "a > 3", "a > 3 hours", "> 3ms", "a > -3ms", "a > " + "9" * 50 + "ms"])
def test_wrong_conditions_are_errors(text: str) -> None:
    with pytest.raises(UsageError, match="--when"):
        parse_condition(text)
    with pytest.raises(UsageError, match="--last '3'"):
        parse_time("--last", "3")


def test_views_escape_names() -> None:
    log = log_of(("<script>\x1b", 1, 8), ("<script>\x1b!", 3, 16))
    calls = log.finish()
    lines = list(tree_lines(log, calls, ["from a test"]))
    assert lines == ["# 1 call of 1 thread; from a test", "# prog^[[31m 7", "    0.000000 ms   2.000 ms  <script>^["]
    trace = json.loads("".join(chrome_trace(log, calls)))
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    assert events == [{"name": "<script>\x1b", "cat": "function", "ph": "X", "ts": 0.0, "dur": 2000.0, "pid": 5, "tid": 7}]
    assert "<script>\x1b" not in calls_page(log, calls, "a & b", [])


@pytest.mark.parametrize("options", [Options(interrupts=0), Options(seed=3, psb_bytes=64, cyc=True, interrupts=0.05)], ids=str)
def test_an_intel_pt_recording_has_all_calls(options: Options, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path, output = tmp_path / "perf.data", tmp_path / "calls.json"
    path.write_bytes(pt_recording(steps_of(tmp_path, 20), options)[0])
    assert run(["trace", "--calls", "-i", str(path), "--json", "-o", str(output)]) == 0
    calls = [json.loads(line) for line in output.read_text().splitlines()]
    assert [(call["tid"], call["comm"], call["function"], call["depth"]) for call in calls] == [(7, "prog", hex(BASE + 0x10), 0)] * 20
    assert all(call["returned"] for call in calls)
    assert capfd.readouterr().err == ""


def test_calls_without_a_return_end_with_the_next_return_around_them() -> None:
    log = CallLog()
    for time, name, address in ((1, "a", 100), (2, "b", 200), (3, "c", 300)):
        log.enter(7, time * MS, log.number(name), address)
    log.leave_to(7, 4 * MS, 999)  # begun before the trace
    log.leave_to(7, 6 * MS, 200)
    assert rows(log) == [("a", 1, 6, 0, False), ("b", 2, 6, 1, True), ("c", 3, 6, 2, True)]
