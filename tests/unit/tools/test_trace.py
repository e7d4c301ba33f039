"""`perfpy trace`: options, lines, tables and the page of lanes."""

from __future__ import annotations

import json
import math
import os
import random
from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from perfpy.abi.attr import EventAttr
from perfpy.errors import KernelRefusedError, OutputFailedError, UsageError
from perfpy.perfdata.events import FileEvent
from perfpy.tools.trace import live_trace as live
from perfpy.tools.trace import replay as replay_module
from perfpy.tools.trace.call_sums import CallTotals, ThreadRows, Totals
from perfpy.tools.trace.call_text import CallTexts
from perfpy.tools.trace.calls import FollowedComms, Pairing
from perfpy.tools.trace.command import command
from perfpy.tools.trace.lines import KnownLines, LineKeys, LineOptions, TraceLines, line_heads
from perfpy.tools.trace.options import TraceOutput, parse_selection, split_list
from perfpy.tools.trace.replay import NO_SWITCHES, DividedCalls, SwitchedSamples, SwitchOptions
from perfpy.tools.trace.summary_tables import CallTables, JsonCalls, SlowestCalls, SummaryOptions, json_summary, percentile_lines, row_texts
from perfpy.views.page import lanes as lanes_module
from perfpy.views.page.lanes import LaneCalls, Lanes
from tests.builders.call_events import CallEventList

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from perfpy.tools.trace.calls import CallEvents


# perfpy trace of running tasks, as far as it needs no kernel.


@pytest.mark.parametrize("words", [["true"], ["-s", "true"], ["--sched", "-F", "all", "true"]])
def test_without_kernel_permission_trace_prints_one_line(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """With kernel.perf_event_paranoid=2 the kernel opens the tracepoints and reports nothing: an empty table would be a lie."""
    monkeypatch.setattr(live, "may_measure_kernel", lambda: False)
    monkeypatch.setattr(live, "paranoid_level", lambda: 2)
    monkeypatch.setattr(live, "LiveRings", _refuse)

    with pytest.raises(KernelRefusedError, match="paranoid is 2: users may not measure the kernel; run with CAP_PERFMON, or sysctl"):
        command.run("trace", words)


def test_the_same_note_of_two_events_is_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    """Both kinds of page faults lose the kernel for the same reason."""
    tell = live._teller()
    for text in ("same", "same", "other"):
        tell(text)
    assert capsys.readouterr().err == "same\nother\n"


@pytest.mark.parametrize(
    ("words", "events", "filters"),
    [
        (["-e", "a:b,c:d", "--filter", "x>1", "-e", "e:f", "--filter", "y>1"], ["a:b", "c:d", "e:f"], [(2, "x>1"), (3, "y>1")]),
        (["-e", "a:*", "--switch-on", "a:b", "--switch-off", "c:d"], ["a:*", "c:d"], []),
        (["-F", "maj", "--switch-on", "a:b"], ["major-faults", "a:b"], []),
    ],
)
def test_filters_and_switches_stand_after_the_events_they_follow(
    words: list[str], events: list[str], filters: list[tuple[int, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A filter is for the last event before it; an event that only switches comes last."""
    monkeypatch.setattr(live, "may_measure_kernel", lambda: True)
    monkeypatch.setattr(live, "LiveRings", _refuse)

    usual = os.getpriority(os.PRIO_PROCESS, 0)
    with pytest.raises(AssertionError) as refused:
        command.run("trace", [*words, "-p", "1"])
    assert os.getpriority(os.PRIO_PROCESS, 0) == usual, "commands that follow in this process have their own priority"
    assert refused.value.args[1:] == (events, filters)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["-a"], "common_pid != OWN"),
        (["-a", "-e", "getpid", "-s"], "(id == 39) && (common_pid != OWN)"),
        (["-e", "getpid", "-s", "-p", "1"], "id == 39"),
        (["-p", "1"], ""),
    ],
)
def test_own_calls_are_not_recorded_among_those_of_all_cpus(words: list[str], text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They would fill the ring buffers, the more the more is printed."""
    monkeypatch.setattr(live, "may_measure_kernel", lambda: True)
    monkeypatch.setattr(live, "LiveRings", _refuse)
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "here", "6", "1", "x86_64")))

    with pytest.raises(AssertionError) as refused:
        command.run("trace", words)
    text = text.replace("OWN", str(os.getpid()))
    assert refused.value.args[2] == ([(1, text), (2, text)] if text else [])


def _refuse(events: object, filters: object, *_words: object, **_options: object) -> Callable[[], None]:
    raise AssertionError("opened events", events, filters)


# -e of perfpy trace: calls, patterns, groups and other events.


def test_no_list_selects_all_calls():
    selection = parse_selection([], "x86_64")

    assert (selection.numbers("x86_64"), selection.events, selection.has_calls) == (None, (), True)


def test_names_and_patterns_select_calls():
    assert parse_selection(["openat,epoll_c*"], "x86_64").calls == frozenset(
        {"openat", "epoll_create", "epoll_create1", "epoll_ctl", "epoll_ctl_old"}
    )


def test_numbers_depend_on_the_machine():
    assert parse_selection(["openat"], "aarch64").numbers("aarch64") == frozenset({56})


def test_a_list_with_an_exclamation_mark_excludes_calls():
    numbers = parse_selection(["!read,write"], "x86_64").numbers("x86_64")

    assert numbers is not None
    assert {0, 1} & numbers == set()
    assert 257 in numbers


def test_a_group_is_a_list_of_calls():
    assert {"connect", "socket"} < (parse_selection(["network"], "x86_64").calls or set())


def test_other_words_are_events():
    selection = parse_selection(["sched:sched_switch", "cpu/event=1,umask=2/"], "x86_64")

    assert selection.events == ("sched:sched_switch", "cpu/event=1,umask=2/")
    assert not selection.has_calls


def test_a_tracepoint_of_a_call_is_the_call():
    assert parse_selection(["syscalls:sys_enter_openat"], "x86_64").calls == frozenset({"openat"})


@pytest.mark.parametrize("texts", [["read", "!write"], ["!nonesuch"]])
def test_contradictions_are_refused(texts):
    with pytest.raises(UsageError):
        parse_selection(texts, "x86_64")


def test_commas_between_braces_and_slashes_do_not_split():
    assert split_list("a,{b,c},d/e,f/") == ["a", "{b,c}", "d/e,f/"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("write,./app:parse n,uprobe:app:f%return $retval,close", ["write", "./app:parse n", "uprobe:app:f%return $retval", "close"]),
        ("/usr/bin/app:parse,write", ["/usr/bin/app:parse", "write"]),
        ("./app:parse(int, char),write", ["./app:parse(int, char)", "write"]),
        ("./app:parse;call(a, b),c", ["./app:parse;call(a, b),c"]),
    ],
)
def test_probes_are_words_of_a_list(text, words):
    assert split_list(text) == words


def test_a_probe_is_an_event_and_no_call():
    selection = parse_selection(["./app:read,read"], "x86_64")

    assert (selection.calls, selection.events) == (frozenset({"read"}), ("./app:read",))


# Lines of perfpy trace are one line each, wherever they go.


FORGED = "     0.001 ( 0.001 ms): a\n     0.002 ( 0.001 ms): sshd/1 read(fd: 3<x\ry>)"


def test_names_with_line_breaks_make_no_lines(tmp_path: Path) -> None:
    """A thread or a file can be called as a line of another program."""
    with TraceOutput(str(tmp_path / "out")) as output:
        output.write([FORGED, "second"])
        output.write([])
    assert (tmp_path / "out").read_bytes().decode().splitlines() == [FORGED.replace("\n", "^J").replace("\r", "^M"), "second"]


@pytest.mark.parametrize("write", [lambda output: output.write(["line"]), lambda output: output.write_lines(SimpleNamespace(parts=[b"x"]))])
def test_a_full_disk_is_reported_with_the_files_name(write: Callable[[TraceOutput], None], tmp_path: Path) -> None:
    """It is not standard output that could not be written."""
    (tmp_path / "out").symlink_to("/dev/full")
    with pytest.raises(OutputFailedError) as caught, TraceOutput(str(tmp_path / "out")) as output:
        write(output)
    assert str(caught.value) == f"cannot write {tmp_path}/out: No space left on device"


# Lines of calls: widths, ties of the clock's microseconds, and texts that are made once.


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


# Lines and tables by several processes: those of one process, wherever the recording is divided.


REPLAY_READ, REPLAY_GETPPID, SIGRETURN, REPLAY_EXIT_GROUP = 0, 110, 15, 231
ENDING = np.array([REPLAY_EXIT_GROUP])


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
        number = numbers.choice((REPLAY_READ, REPLAY_READ, REPLAY_GETPPID, REPLAY_EXIT_GROUP, SIGRETURN))
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
    monkeypatch.setattr(replay_module, "ForkedWorkers", Here)
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


# Percentiles and histograms of the times of calls.


def totals_of(*times: int) -> Totals:
    calls, totals = CallEventList(), Totals()
    for time in times:
        calls.enter(1, 0).exit(1, 0, after=time)
    totals.add(Pairing(np.zeros(0, np.int64)).pair(calls.events()))
    return totals


def read(_number: int) -> str:
    return "read"


def test_a_row_has_total_share_and_percentiles():
    lines = list(percentile_lines(totals_of(*[1_000_000] * 99, 100_000_000), read))

    words = lines[-1].split()
    assert words[:4] == ["read", "100", "0", "199.000"]
    assert 0.97 < float(words[5]) < 1.03
    assert float(words[8]) == 100


def test_a_histogram_counts_all_calls():
    lines = list(percentile_lines(totals_of(1000, 1000, 4000, 70_000), read, histograms=True))

    rows = [line for line in lines if " .. " in line]
    assert sum(int(row.split(" .. ")[1].split()[2]) for row in rows) == 4


def test_json_has_numbers_strings_and_text():
    calls, texts, names = CallEventList().call(1, 257, 0xFFFFFF9C, 0x1000, result=-2), CallTexts("x86_64"), FollowedComms()
    texts.strings = {0: {1: "/etc/passwd"}}

    (line,) = JsonCalls(LineOptions(as_json=True), texts, names).lines(Pairing(np.zeros(0, np.int64)).pair(calls.events())).lines()

    value = json.loads(line)
    assert (value["call"], value["duration"], value["result"], value["error"]) == ("openat", 1000, -2, "ENOENT")
    assert (value["arguments"]["dfd"], value["arguments"]["filename"]) == (0xFFFFFF9C, "/etc/passwd")
    assert value["text"] == 'openat(dfd: CWD, filename: "/etc/passwd")'


def test_json_of_a_return_without_entry_has_no_arguments():
    calls = CallEventList().exit(1, 59)

    (line,) = (
        JsonCalls(LineOptions(), CallTexts("x86_64"), FollowedComms()).lines(Pairing(np.zeros(0, np.int64)).pair(calls.events())).lines()
    )

    assert (json.loads(line)["arguments"], json.loads(line)["duration"]) == (None, None)


def test_json_tables_have_the_calls_of_each_thread():
    (line,) = json_summary(totals_of(1000, 3000), read, lambda _tid: "prog", of_all=False)

    value = json.loads(line)
    assert (value["tid"], value["comm"], value["call"], value["total"], value["max"]) == (1, "prog", "read", 4000, 3000)


def relative_error(call: CallTotals) -> float:
    """Return the standard error of the mean in percent of the mean."""
    return 100 * math.sqrt(call.squares / (call.calls - 1) / call.calls) / call.mean if call.calls > 1 and call.total else 0.0


def test_many_rows_have_the_texts_of_each_alone() -> None:
    numbers = np.random.default_rng(5)
    times = np.concatenate([np.arange(300) * 500, 10 ** numbers.uniform(0, 16, 2000)]).astype(np.int64)
    count, calls = len(times), np.arange(len(times)) % 7 + 1
    rows = ThreadRows(np.zeros(count, np.int64), calls, calls, calls * 0, times, times // calls, times, times.astype(np.float64), {})

    texts = row_texts(rows, lambda number: f"call{number}")

    alone = [
        CallTotals(number, number, 0, time, time // number, time, float(time), {}, {})
        for number, time in zip(calls.tolist(), times.tolist(), strict=True)
    ]
    assert texts == [
        f"   {f'call{call.number}':<15s} {call.calls:8d} {call.errors:6d} {call.total / 1e6:9.3f} {call.least / 1e6:9.3f}"
        f" {call.mean / 1e6:9.3f} {call.most / 1e6:9.3f} {relative_error(call):9.2f}%"
        for call in alone
    ]


# The calls of threads over time stay within bounds, and none is lost when short ones are merged.


def add(lanes: Lanes, begin: list[int], took: list[int], texts: list[bytes]) -> None:
    """Add calls of thread 7."""
    zeros = np.zeros(len(begin), np.int64)
    text = np.array([lanes.text(one) for one in texts], np.int64)
    lane = zeros + lanes.lane(7, 7, "app")
    lanes.add(LaneCalls(np.array(begin), np.array(took), lane, zeros, zeros.astype(np.bool_), text))


def test_beyond_the_limit_the_shorter_calls_are_merged(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lanes_module, "_MOST_CALLS", 3)
    lanes, interval = Lanes(), lanes_module._FIRST_INTERVAL
    for part in range(4):
        add(lanes, [part * interval + at for at in (0, 100, 200)], [10, 50 + part, 10], [b"short", b"long %d" % part, b"short"])

    calls, merged, texts = lanes.finish()

    assert [texts[index] for index in calls.text.tolist()] == [b"long 1", b"long 2", b"long 3"]
    assert calls.took.tolist() == [51, 52, 53]
    assert merged.calls.tolist() == [3, 2, 2, 2]
    assert merged.total.tolist() == [70, 20, 20, 20]
    assert merged.end.tolist() == [part * interval + 210 for part in range(4)]


def test_intervals_grow_with_the_trace(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lanes_module, "_MOST_CALLS", 1)
    monkeypatch.setattr(lanes_module, "_MOST_MERGED", 2)
    lanes = Lanes()
    for part in range(50):
        add(lanes, [part * lanes_module._FIRST_INTERVAL + 7], [1], [b"read"])

    calls, merged, _ = lanes.finish()

    assert len(calls.begin) == 1
    assert len(merged.calls) <= 2
    assert merged.calls.sum() == 49


def test_the_longest_calls_keep_their_texts(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lanes_module, "_MOST_TEXT", 8)
    lanes = Lanes()
    add(lanes, [0, 10, 20, 30], [1, 5, 3, 4], [b"aaaa", b"bbbb", b"cccc", b"bbbb"])

    calls, _, texts = lanes.finish()

    assert [texts[index] if index >= 0 else b"" for index in calls.text.tolist()] == [b"", b"bbbb", b"cccc", b"bbbb"]


def test_threads_beyond_the_limit_share_a_lane(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(lanes_module, "_MOST_LANES", 2)
    lanes = Lanes()

    assert [lanes.lane(1, tid, f"t{tid}") for tid in (1, 2, 3, 4, 1)] == [0, 1, 2, 2, 0]
    assert lanes.threads[2] == (-1, -1, "other threads")
