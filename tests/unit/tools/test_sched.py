"""`perfpy sched`: latencies, history, statistics and replay of context switches."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import perfpy
from perfpy.analysis.scheduler import DelaySums, Problems, TaskDelays, read_events
from perfpy.cli import run
from perfpy.errors import PerfError
from perfpy.tools.sched.latency import latency_lines, problem_lines
from perfpy.tools.sched.map import MapMaker, SwitchMap
from perfpy.tools.sched.replay import RUN, SLEEP, WAKE, ReplayPlan, make_replay_plan, plan_lines
from perfpy.tools.sched.stats import EnabledStatistics, parse_schedstat, read_schedstat, read_statistics, take_snapshots, write_snapshots
from perfpy.tools.sched.switches import History, HistoryMaker, TaskColumnMaker
from perfpy.tools.sched.timehist import TimehistStyle, duration_piece, header_lines, milliseconds
from perfpy.views.pieces import Coded, Joiner, Piece, text_of
from perfpy.workers import ForkedWorkers, send
from tests.builders.many_threads import recording_of_switches
from tests.builders.schedstats import DOMAIN_COUNTS, schedstat_text
from tests.builders.terminals import on_terminal
from tests.builders.traced import traced_recording
from tests.builders.tracepoint_events import EventRecording

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import FileIO
    from pathlib import Path

    from perfpy.analysis.scheduler import SchedEvents


# The table of sched latency: one blank at least before the first bar.


ROW = TaskDelays("kworker/1:1H-kblockd", 58, 1, 7_000, 1, 17_000, 17_000, 6_044_520_250_000, 6_044_520_267_000)


def test_long_names_keep_a_blank():
    line = list(latency_lines([ROW], []))[4]
    assert line.startswith("  kworker/1:1H-kblockd:58 |      0.007 ms |        1 | avg:   0.017 ms |")


@pytest.mark.parametrize("comm", ["kaese", "käse", "k\udce4se"])
def test_names_are_padded_by_bytes_as_in_perf(comm):
    lines = [*latency_lines([ROW._replace(comm=comm)], []), *latency_lines([ROW._replace(comm=comm)], [], is_seven=True)]
    assert {line.encode("utf-8", "surrogateescape").index(b"|") for line in lines if comm in line} == {24, 26}


def test_idle_threads_and_rows_without_delay_are_hidden():
    hidden = [ROW._replace(comm="swapper"), ROW._replace(delays=0)]
    assert len(list(latency_lines(hidden, []))) == len(list(latency_lines([], [])))


def test_lost_records_and_wrong_switches_are_reported():
    lines = problem_lines(Problems(wrong_switches=2, wakeups=200, lost=10, chunks=1, records=1000))
    assert lines == [
        "  INFO: 1.000% lost events (10 out of 1000, in 1 chunks)",
        "  INFO: 1.000% context switch bugs (2 out of 200) (due to lost events?)",
    ]


# Names of threads cannot control the terminal of sched and why.


@pytest.mark.parametrize("args", [("sched", "timehist", "-n"), ("sched", "map", "--compact"), ("sched", "latency", "-p"), ("why",)])
def test_escape_sequences_are_made_visible_on_a_terminal(args: tuple[str, ...], tmp_path: Path):
    path = tmp_path / "perf.data"
    path.write_bytes(traced_recording(40, odd_name=b"\x1b]0;x\x07odd"))
    terminal = on_terminal("--no-pager", *args, "-i", str(path), columns=200)
    assert "\x1b]0;" not in terminal.text
    assert terminal.text.strip()
    assert "Traceback" not in terminal.text
    if "timehist" in args:
        assert "^[]0;x^Godd" in terminal.text


# Idle times in the summary of timehist: by CPU and by callchain. The expected text is perf 7.3's, of the same file.


_SWITCH = "sched:sched_switch"
_KERNEL = 0xFFFFFFFF81000000
_PERFS_CHAINS = """\
Idle stats by callchain:
  CPU  0:    27.000  msec
  Idle time (msec)     Count  Callchains
  ----------------  --------  --------------------------------------------------
            12.000         1  fun1 <- fun2 <- fun3 <- fun7
            12.000         2  fun1 <- fun2 <- fun3
             3.000         1  fun1 <- fun5

  CPU  1:     0.000  msec
"""


def recording() -> bytes:
    """Return a file in which CPU 0 is idle after three callchains, and CPU 1 has no switch."""
    built = EventRecording([_SWITCH], comms={10: "aa"}, with_chains=True)
    other, usual, longer = ([_KERNEL + 0x1000 * number for number in chain] for chain in ((1, 5), (1, 2, 3), (1, 2, 3, 7)))
    begin = 10**10
    for start, idle, chain in ((0, 5, usual), (6, 3, other), (10, 7, usual), (18, 12, longer)):
        first, second = begin + start * 10**6, begin + (start + idle) * 10**6
        built.event(_SWITCH, first, b"aa", 10, 120, 1, b"swapper/0", 0, 120, tid=10, chain=chain)
        built.event(_SWITCH, second, b"swapper/0", 0, 120, 0, b"aa", 10, 120, tid=0, chain=[_KERNEL])
    return built.file()


def _summary(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], *options: str) -> str:
    (tmp_path / "perf.data").write_bytes(recording())
    names = "".join(f"{_KERNEL + 0x1000 * number:x} T fun{number}\n" for number in range(16))
    (tmp_path / "kallsyms").write_text(f"{_KERNEL:x} T _text\n{names}")
    path, symbols = str(tmp_path / "perf.data"), str(tmp_path / "kallsyms")
    assert run(["sched", "timehist", "-I", "-s", "--kallsyms", symbols, "-i", path, *options]) == 0
    return capfdbinary.readouterr().out.decode()


def test_idle_times_are_shown_by_callchain(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert _PERFS_CHAINS in _summary(tmp_path, capfdbinary, "-g")


@pytest.mark.parametrize(
    ("chain", "most", "text"),
    [
        ((1, 2), "5", b"1.000    fun1 <- fun2\n"),
        ((0,), "5", b"1.000   \n"),
        ((1, 2, -1), "5", b"1.000   \n"),
        ((1, 2, -1), "0", b"1.000    fun1 <- fun2\n"),
    ],
)
def test_a_line_without_frames_has_no_blank_for_them(chain, most, text, tmp_path, capfdbinary):
    """perf prints a blank before each frame that is shown: none if all are the scheduler's, or a word of the chain is no address."""
    built = EventRecording([_SWITCH], comms={10: "aa"}, with_chains=True)
    words = [_KERNEL + 0x1000 * number if number >= 0 else (1 << 64) - 1 for number in chain]
    built.event(_SWITCH, 10**10, b"swapper/0", 0, 120, 1, b"aa", 10, 120, tid=0)
    built.event(_SWITCH, 10**10 + 10**6, b"aa", 10, 120, 1, b"swapper/0", 0, 120, tid=10, chain=words)
    (tmp_path / "perf.data").write_bytes(built.file())
    names = "".join(f"{_KERNEL + 0x1000 * number:x} T {f'fun{number}' if number else 'schedule'}\n" for number in range(16))
    (tmp_path / "kallsyms").write_text(f"{_KERNEL:x} T _text\n{names}")
    assert run(["sched", "timehist", "--max-stack", most, "--kallsyms", str(tmp_path / "kallsyms"), "-i", str(tmp_path / "perf.data")]) == 0
    assert capfdbinary.readouterr().out.endswith(text)


def test_only_the_chosen_cpus_have_idle_times(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    text = _summary(tmp_path, capfdbinary, "-C", "0")
    assert "CPU  0 idle for     27.000" in text
    assert "CPU  1" not in text


# perf's text for the recording below: a thread came with the priority of the last switch to it, whatever its CPU did since.
_PERFS_PRIORITIES = """\
      10.000000 [0000]  <idle>                          120           0.000      0.000      0.000
      10.001000 [0000]  aa[10]                          120           0.000      0.000      1.000
      10.002000 [0000]  aa[10]                          120           0.000      0.000      1.000
      10.003000 [0001]  aa[10]                          120->130      0.000      0.000      0.000
      10.004000 [0001]  <idle>                          120           0.000      0.000      1.000
      10.005000 [0001]  :30[30]                         125           0.000      0.000      1.000
      10.006000 [0000]  bb[20]                          111->112      0.000      0.000      4.000
"""


def test_threads_come_with_the_priority_of_the_last_switch_to_them(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """The switch before on the CPU brought another thread if events were lost; its priority says nothing about this one."""
    built = EventRecording([_SWITCH], comms={10: "aa", 20: "bb"})
    begin, step = 10**10, 10**6
    built.event(_SWITCH, begin, b"swapper/0", 0, 120, 0, b"aa", 10, 120, tid=0)
    built.event(_SWITCH, begin + step, b"aa", 10, 120, 0, b"bb", 20, 110, tid=10)  # the end of bb's turn is lost
    built.event(_SWITCH, begin + 2 * step, b"aa", 10, 120, 1, b"swapper/0", 0, 120, tid=10)
    built.event(_SWITCH, begin + 3 * step, b"aa", 10, 130, 0, b"bb", 20, 110, tid=10, cpu=1)
    built.event(_SWITCH, begin + 4 * step, b"swapper/0", 0, 120, 0, b"aa", 10, 115, tid=0, cpu=1)
    built.event(_SWITCH, begin + 5 * step, b"cc", 30, 125, 0, b"bb", 20, 111, tid=30, cpu=1)
    built.event(_SWITCH, begin + 6 * step, b"bb", 20, 112, 0, b"aa", 10, 116, tid=20)
    (tmp_path / "perf.data").write_bytes(built.file())
    assert run(["sched", "timehist", "--show-prio", "-i", str(tmp_path / "perf.data")]) == 0
    text = capfdbinary.readouterr().out.decode()
    assert "\n".join(map(str.rstrip, text.splitlines())).endswith(_PERFS_PRIORITIES.rstrip())


# perf's text for the recording below: of a wakeup, one of both threads fulfils the condition, or has an unknown priority.
_PERFS_WAKEUPS = """\
      10.000000 [0000]  <idle>                              0.000      0.000      0.000
      10.000500 [0000]  aa[10]                                                           awakened: bb[20]
      10.002500 [0000]  cc[30]                                                           awakened: aa[10]
      10.003000 [0000]  cc[30]                              0.000      0.000      1.000
"""


@pytest.mark.parametrize("numbers", ["120", "0,116-129"])
def test_wakeups_are_hidden_if_both_threads_came_with_other_priorities(
    numbers: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    waking = "sched:sched_waking"
    built = EventRecording([_SWITCH, waking], comms={10: "aa", 20: "bb", 30: "cc"})
    begin, step = 10**10, 10**6
    built.event(_SWITCH, begin, b"swapper/0", 0, 120, 0, b"aa", 10, 110, tid=0)
    built.event(waking, begin + step // 2, b"bb", 20, 110, 0, tid=10)
    built.event(_SWITCH, begin + step, b"aa", 10, 110, 0, b"bb", 20, 111, tid=10)
    built.event(waking, begin + 3 * step // 2, b"aa", 10, 110, 0, tid=20)
    built.event(_SWITCH, begin + 2 * step, b"bb", 20, 111, 0, b"cc", 30, 120, tid=20)
    built.event(waking, begin + 5 * step // 2, b"aa", 10, 110, 0, tid=30)
    built.event(_SWITCH, begin + 3 * step, b"cc", 30, 120, 0, b"aa", 10, 110, tid=30)
    (tmp_path / "perf.data").write_bytes(built.file())
    assert run(["sched", "timehist", "-w", "--prio", numbers, "-i", str(tmp_path / "perf.data")]) == 0
    text = capfdbinary.readouterr().out.decode()
    assert "\n".join(map(str.rstrip, text.splitlines())).endswith(_PERFS_WAKEUPS.rstrip())


# perf's text for the recording below: a name of 31 characters widens its column for the rest of the text, longer ones are cut.
_PERFS_LONG_NAMES = """\
       0.002000 [0000]  a[100]                              0.000      0.000      0.000  next: name[103]               |
       0.002001 [0000]  b[103]                                                           awakened: kworker/0:1-mm_percpu_wq9[102]|
       0.003000 [0000]  b[103]                              0.000      0.000      1.000  next: name[100]               |
       0.003001 [0000]  a[100]                                                           awakened: kworker/0:1-mm_percpu_wq9[102]|
       0.004000 [0000]  a[100]                              1.000      0.000      1.000  next: name[102]               |
       0.004001 [0000]  kworker/0:1-mm_percpu_wq9[102]                                   awakened: kworker/0:1-mm_percpu_wq9[102]|
       0.005000 [0000]  kworker/0:1-mm_percpu_wq9[102]      0.000      1.999      1.000  next: name[101]               |
       0.005001 [0000]  kworker/u16:3-events_unbound_lo                                   awakened: kworker/0:1-mm_percpu_wq9[102]|
       0.006000 [0000]  kworker/u16:3-events_unbound_lo      0.000      0.000      1.000  next: name[103]                |
       0.006001 [0000]  b[103]                                                            awakened: kworker/0:1-mm_percpu_wq9[102]|
       0.007000 [0000]  b[103]                               3.000      0.000      1.000  next: name[100]                |
       0.007001 [0000]  a[100]                                                            awakened: kworker/0:1-mm_percpu_wq9[102]|
"""
_PERFS_LONG_NAMES_IN_SUMMARY = """\
                           comm  parent   sched-in     run-time    min-run     avg-run     max-run  stddev  migrations
                                           (count)       (msec)     (msec)      (msec)      (msec)       %
---------------------------------------------------------------------------------------------------------------------
                         a[100]      -1          2        1.000      0.000       0.500       1.000   100.00       0
kworker/u16:3-events_unbound_lo      -1          1        1.000      1.000       1.000       1.000    0.00       0
 kworker/0:1-mm_percpu_wq9[102]      -1          1        1.000      1.000       1.000       1.000    0.00       0
                         b[103]      -1          2        2.000      1.000       1.000       1.000    0.00       0
"""


def _long_names(*, rounds: int) -> bytes:
    comms = {100: "a", 101: "kworker/u16:3-events_unbound_long", 102: "kworker/0:1-mm_percpu_wq9", 103: "b"}
    built, time = EventRecording([_SWITCH, "sched:sched_wakeup"], comms=comms), 2 * 10**6
    for before, after in [(100, 103), (103, 100)] * rounds + [(100, 102), (102, 101), (101, 103), (103, 100)] * rounds:
        built.event(_SWITCH, time, b"", before, 120, 1, b"name", after, 120, tid=before)
        built.event("sched:sched_wakeup", time + 1000, b"", 102, 120, 0, tid=after)
        time += 10**6
    return built.file()


def test_names_of_31_characters_widen_their_column(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    (tmp_path / "perf.data").write_bytes(_long_names(rounds=1))
    assert run(["sched", "timehist", "-S", "-w", "-n", "-i", str(tmp_path / "perf.data")]) == 0
    text = capfdbinary.readouterr().out.decode()
    assert _PERFS_LONG_NAMES in text.replace("\n", "|\n")
    assert _PERFS_LONG_NAMES_IN_SUMMARY in text


def test_wide_names_stay_wide_in_later_windows(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "perf.data").write_bytes(_long_names(rounds=300))
    words = ["sched", "timehist", "-S", "-w", "-n", "-i", str(tmp_path / "perf.data")]
    assert run(words) == 0
    whole = capfdbinary.readouterr().out
    monkeypatch.setattr("perfpy.perfdata.records.stream.chunk_size", lambda *_, **__: 1 << 14)
    monkeypatch.setattr(HistoryMaker, "least", lambda _: 1)
    assert run(words) == 0
    assert capfdbinary.readouterr().out == whole


# Windows: a recording that is read in many parts has the text of one that is read at once.


@pytest.mark.parametrize(
    "args",
    [
        ("timehist", "-s"),
        ("timehist", "-w", "-n"),
        ("timehist", "-S", "--state"),
        ("timehist", "-I", "-s"),
        ("timehist", "-V", "--show-prio"),
        ("timehist", "-w", "-M", "--prio", "121-123"),
    ],
)
def test_timehist_does_not_depend_on_windows(
    args: tuple[str, ...], tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(recording_of_switches(7, 3000, named=True, turns_each_round=20, cpus=2, priorities=5))
    assert run(["sched", *args, "-i", str(path)]) == 0
    whole = capfdbinary.readouterr().out
    assert whole.count(b"\n") > 7
    histories: list[History] = []
    add = HistoryMaker.add

    def add_and_note(maker: HistoryMaker, events: SchedEvents) -> History:
        histories.append(add(maker, events))
        return histories[-1]

    monkeypatch.setattr("perfpy.perfdata.records.stream.chunk_size", lambda *_, **__: 1 << 14)
    monkeypatch.setattr(HistoryMaker, "least", lambda _: 1)
    monkeypatch.setattr(HistoryMaker, "add", add_and_note)
    assert run(["sched", *args, "-i", str(path)]) == 0
    assert len(histories) > 5
    assert histories[-1].kept <= 7 + 2
    assert capfdbinary.readouterr().out == whole


@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("args", [("-s",), ("-w", "-n"), ("-S", "--state"), ("-w", "--comm", "name-5,name-10,task-103")])
def test_each_window_knows_the_names_and_losses_up_to_its_end(
    args: tuple[str, ...], processes: int, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["sched", "timehist", *args, "-i", str(tmp_path / "perf.data")]
    (tmp_path / "perf.data").write_bytes(recording_of_switches(7, 3000, named=True, turns_each_round=20, cpus=2, renames=True))
    assert run(words) == 0
    whole = capfdbinary.readouterr()
    assert b"name-" in whole.out
    assert args == ("-s",) or b" lost " in whole.out
    known: list[int] = []
    update = TaskColumnMaker.update

    def update_and_note(maker: TaskColumnMaker) -> None:
        update(maker)
        known.append(len(maker._source.records.known_side_band))

    monkeypatch.setattr("perfpy.perfdata.records.stream.chunk_size", lambda *_, **__: 1 << 14)
    monkeypatch.setattr("perfpy.analysis.scheduler.jobs_for", lambda *_: processes)
    monkeypatch.setattr("perfpy.analysis.scheduler.WINDOW", 1)
    monkeypatch.setattr(HistoryMaker, "least", lambda _: 1)
    monkeypatch.setattr(TaskColumnMaker, "update", update_and_note)
    assert run(words) == 0
    assert capfdbinary.readouterr() == whole
    assert known == sorted(known)
    assert known[0] < known[-1] // 3


@pytest.mark.parametrize("args", [(), ("--compact",), ("--cpus", "1"), ("--task-name", "task-101,task-103")])
def test_the_map_does_not_depend_on_windows(
    args: tuple[str, ...], tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(recording_of_switches(7, 3000, named=True, turns_each_round=20, cpus=3))
    assert run(["sched", "map", *args, "-i", str(path)]) == 0
    whole = capfdbinary.readouterr().out
    assert whole.count(b"\n") > 100
    windows: list[SwitchMap] = []
    add = MapMaker.add

    def add_and_note(maker: MapMaker, events: SchedEvents) -> SwitchMap:
        windows.append(add(maker, events))
        return windows[-1]

    monkeypatch.setattr("perfpy.perfdata.records.stream.chunk_size", lambda *_, **__: 1 << 14)
    monkeypatch.setattr("perfpy.tools.sched.map.WINDOW", 1)
    monkeypatch.setattr(MapMaker, "add", add_and_note)
    assert run(["sched", "map", *args, "-i", str(path)]) == 0
    assert len(windows) > 5
    assert capfdbinary.readouterr().out == whole


@pytest.mark.parametrize(
    "args", [("latency", "-p"), ("timehist", "-w", "-n", "-V", "--show-prio"), ("timehist", "-s"), ("map", "--compact")]
)
@pytest.mark.parametrize("fails", [False, True])
def test_a_process_that_reads_ahead_changes_no_text(
    args: tuple[str, ...], fails: bool, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its windows are those of this process, which reads them itself if the other one ends early."""
    path = tmp_path / "perf.data"
    path.write_bytes(recording_of_switches(7, 3000, named=True, lost=9, turns_each_round=20, cpus=2, priorities=5))
    monkeypatch.setattr("perfpy.perfdata.records.stream.chunk_size", lambda *_, **__: 1 << 14)
    monkeypatch.setattr("perfpy.analysis.scheduler.WINDOW", 1)
    monkeypatch.setattr("perfpy.analysis.scheduler.jobs_for", lambda *_: 1)
    assert run(["sched", *args, "-i", str(path)]) == 0
    whole = capfdbinary.readouterr().out
    forks: list[int] = []
    start = ForkedWorkers._start

    def start_and_note(workers: ForkedWorkers[Any, Any], number: int) -> None:
        forks.append(number)
        start(workers, number)

    sent: list[int] = []

    def send_some(stream: FileIO, result: object) -> None:
        sent.append(1)
        if len(sent) > 3:
            os._exit(1)
        send(stream, result)

    monkeypatch.setattr("perfpy.analysis.scheduler.jobs_for", lambda *_: 2)
    monkeypatch.setattr(ForkedWorkers, "_start", start_and_note)
    if fails:
        monkeypatch.setattr("perfpy.workers.send", send_some)
    assert run(["sched", *args, "-i", str(path)]) == 0
    assert forks == [0]
    assert capfdbinary.readouterr().out == whole


# Columns of fixed width, and lines joined from them.


def test_durations_of_a_million_milliseconds_and_more_are_wider() -> None:
    durations = [0, 999, 1_234_567, 99_999_999, 100_000_000, 1_000_000_000, 999_999_999_999]
    for values in (durations, [*durations, 10**12]):
        piece = duration_piece(np.array(values, np.int64))
        assert list(piece) == [milliseconds(value, 6).encode() for value in values]


def test_lines_of_equal_width_are_joined_like_others() -> None:
    codes = np.array([1, 0, 1])
    for texts in ([b"ab", b"cd"], [b"ab", b"longer"], [b"a\0", b"b\0"]):
        pieces: list[Piece] = [np.array([b"12", b"34", b"56"]), b" ", Coded(codes, texts), b"\n"]
        assert text_of(pieces, 3) == b"".join(Joiner().join(pieces, 3).parts)
    assert text_of([b""], 0) == b""


# /proc/schedstat as numbers, and snapshots of it around a command.


@pytest.mark.parametrize("version", [15, 16, 17])
def test_each_version_is_parsed(version: int) -> None:
    snapshot = parse_schedstat(schedstat_text(version, time=100, factor=3))
    assert (snapshot.version, snapshot.timestamp, [line.cpu for line in snapshot.cpus]) == (version, 100, [0, 1])
    domain = snapshot.cpus[1].domains[0]
    assert (domain.number, domain.name, domain.cpus) == (0, "SMT" if version == 17 else "", (0, 1))
    assert len(domain.counts) == DOMAIN_COUNTS[version]
    assert snapshot.cpus[0].counts == tuple(3 * number for number in range(1, 10))


@pytest.mark.parametrize(
    ("damaged", "reason"),
    [
        ("", "no version"),
        ("version 18\ntimestamp 1\n", "version 18"),
        ("version 17\ntimestamp 1\ncpu0 1 2\n", "2 counters"),
        ("version 17\ntimestamp 1\ncpu0 1 2 3 4 5 6 7 8 9\ndomain0 SMT\n", "no CPUs"),
        ("version 17\ntimestamp 1\nother 1\n", "unexpected line"),
        ("version 17\ntimestamp 1\ncpu0 1 2 3 4 5 6 7 8 x\n", "invalid literal"),
    ],
)
def test_a_damaged_file_is_refused_with_the_reason(damaged: str, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "schedstat"
    path.write_text(damaged)
    with pytest.raises(PerfError, match=reason):
        read_schedstat(str(path))


def test_a_missing_file_is_refused_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(PerfError, match="CONFIG_SCHEDSTATS"):
        read_schedstat(str(tmp_path / "none"))


def test_snapshots_around_a_command_become_a_recording(tmp_path: Path) -> None:
    path, later, output = tmp_path / "schedstat", tmp_path / "later", tmp_path / "perf.data"
    path.write_text(schedstat_text(17, time=100, factor=3))
    later.write_text(schedstat_text(17, time=350, factor=5))
    snapshots, status = take_snapshots(["sh", "-c", f"cp {later} {path}; exit 3"], str(path))
    write_snapshots(str(output), snapshots, ["perfpy"])
    with perfpy.open(str(output)) as recording:
        statistics = read_statistics(recording.data)
    assert (status, statistics.jiffies, statistics.version) == (3, 250, 17)
    assert statistics.cpus[0].counts == tuple(2 * number for number in range(1, 10))
    assert statistics.names[0, 1] == ("MC", "0-1")


def test_the_kernels_switch_is_put_back(tmp_path: Path) -> None:
    switch = tmp_path / "sched_schedstats"
    switch.write_text("0\n")
    with EnabledStatistics(str(switch)):
        assert switch.read_text()[0] == "1"
    assert switch.read_text()[0] == "0"


# The recorded load as events of tasks. The expected lines are perf 6.12's, of the same file.


_REPLAY_SWITCH, _WAKING = "sched:sched_switch", "sched:sched_waking"
_PERFS_LINES = """\
nr_run_events:        4
nr_sleep_events:      8
nr_wakeup_events:     2
target-less wakeups:  1
multi-target wakeups: 1
task      0 (           <unknown>:        10), nr_events: 7
task      1 (                  bb:        11), nr_events: 7
task      2 (                  aa:        12), nr_events: 1
task      3 (                  cc:        13), nr_events: 1
------------------------------------------------------------
""".splitlines()


def replay_recording(*, last: int = 10**9 + 9500) -> bytes:
    """Return a file in which task 10 wakes task 11 twice, and task 11 wakes task 10 while that runs. last: the time of the last switch."""
    built = EventRecording([_REPLAY_SWITCH, _WAKING], comms={10: "aa", 11: "bb"})
    built.event(_WAKING, 10**9, b"bb", 11, 120, 0, tid=10)
    built.event(_WAKING, 10**9 + 1000, b"bb", 11, 120, 0, tid=10)
    built.event(_WAKING, 10**9 + 2000, b"aa", 10, 120, 0, tid=11, cpu=1)
    built.event(_REPLAY_SWITCH, 10**9 + 3000, b"aa", 10, 120, 1, b"bb", 11, 120, tid=10)
    built.event(_REPLAY_SWITCH, 10**9 + 5000, b"bb", 11, 120, 1, b"aa", 12, 120, tid=11)
    built.event(_WAKING, 10**9 + 6000, b"aa", 10, 120, 0, tid=11)
    built.event(_REPLAY_SWITCH, 10**9 + 9000, b"bb", 11, 120, 0, b"aa", 10, 120, tid=11, cpu=1)
    built.event(_REPLAY_SWITCH, last, b"aa", 10, 120, 0, b"cc", 13, 120, tid=10, cpu=1)
    return built.file()


@pytest.fixture
def plan() -> Iterator[ReplayPlan]:
    with tempfile.TemporaryFile() as file:
        file.write(replay_recording())
        file.seek(0)
        with perfpy.open(file) as opened:
            yield make_replay_plan(read_events(opened.data, comms=True), opened.data)


def test_the_numbers_are_perfs(plan: ReplayPlan) -> None:
    assert list(plan_lines(plan)) == _PERFS_LINES


def test_runs_have_the_time_since_the_last_switch_of_the_cpu(plan: ReplayPlan) -> None:
    runs = [task.values[task.kinds == RUN].tolist() for task in plan.tasks]
    assert runs == [[0, 500], [2000, 0], [], []]


def test_a_wakeup_ends_the_sleep_before_it_once(plan: ReplayPlan) -> None:
    first, second = plan.tasks[:2]
    assert plan.wakeup_count == 2
    assert first.values[first.kinds == WAKE].tolist() == [0, -1]
    assert second.values[second.kinds == SLEEP].tolist() == [0, -1, -1]
    assert second.values[second.kinds == WAKE].tolist() == [-1, 1]


def test_the_load_is_repeated_by_threads(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(replay_recording())
    assert run(["sched", "replay", "-r", "2", "-i", str(path)]) == 0
    lines = capfdbinary.readouterr().out.decode().splitlines()
    assert lines[4:-2] == _PERFS_LINES
    assert [line.split()[:2] for line in lines[-2:]] == [["#1", ":"], ["#2", ":"]]


def test_a_clock_that_jumped_by_hours_is_refused(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(replay_recording(last=10**9 + 2 * 3600 * 10**9))
    assert run(["sched", "replay", "-r", "0", "-i", str(path)]) == 255
    assert b"2 hours of CPU time" in capfdbinary.readouterr().err


@pytest.mark.parametrize("compressed", [0, 2])
def test_lost_events_are_a_share_of_all_records_as_in_perf(compressed: int, tmp_path: Path) -> None:
    built = EventRecording(["sched:sched_switch"], comms={1: "a"})
    built.event("sched:sched_switch", 10, b"a", 1, 120, 0, b"b", 2, 120).lost(7, 11).end_round()
    if compressed:
        built._built.compressed(compressed)
    (tmp_path / "perf.data").write_bytes(built.file())
    with perfpy.open(tmp_path / "perf.data") as recording:
        problems = DelaySums().problems(recording.data)
    assert (problems.lost, problems.chunks) == (7, 1)
    assert problems.records == 5 + compressed, "a mapping, a name, a sample, the lost events, the end of a round; and what has them"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("", [3, "lost 7 events on cpu 0", 1, "lost 8 events on cpu 0", "lost 9 events on cpu 0"]),
        ("-w", [4, "lost 7 events on cpu 0", 2, "lost 8 events on cpu 0", "lost 9 events on cpu 0"]),
        ("--cpu 1", ["lost 7 events on cpu 0", "lost 8 events on cpu 0", "lost 9 events on cpu 0"]),
        ("-s", ["lost 7 events on cpu 0", "lost 8 events on cpu 0", "lost 9 events on cpu 0"]),
    ],
)
def test_timehist_has_a_line_for_each_loss_where_it_happened(
    options: str, expected: list[int | str], tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """As in perf, filters do not apply to losses. A number in `expected` is a count of event lines."""
    built = EventRecording(["sched:sched_switch", "sched:sched_waking"], comms={1: "a"})
    for begin in (10_000, 20_000, 30_000):
        built.event("sched:sched_switch", begin, b"a", 1, 120, 0, b"b", 2, 120, tid=1)
    built.event("sched:sched_waking", 35_000, b"a", 1, 120, 0, tid=2).lost(7, 40_000)
    built.event("sched:sched_switch", 50_000, b"a", 1, 120, 0, b"b", 2, 120, tid=1).event(
        "sched:sched_waking", 55_000, b"a", 1, 120, 0, tid=2
    )
    built.lost(8, 60_000).lost(9, 70_000)
    (tmp_path / "perf.data").write_bytes(built.file())
    assert run(["sched", "timehist", *options.split(), "-i", str(tmp_path / "perf.data")]) == 0
    texts = capfdbinary.readouterr().out.decode().splitlines()
    shown: list[int | str] = []
    for text in texts[0 if options == "-s" else 3 :]:
        if "lost" in text:
            shown.append(text[16:])
        elif options == "-s":
            break
        elif shown and isinstance(shown[-1], int):
            shown[-1] += 1
        else:
            shown.append(1)
    assert shown == expected
    assert "       0.000040 lost 7 events on cpu 0" in texts


@pytest.mark.parametrize(("chain", "blanks"), [((), 2), ((0xFFFFFFFF81000010,), 3), ((0xFFFFFFFF81000010, (1 << 64) - 8), 2)])
def test_a_switch_without_callers_ends_with_two_blanks_as_in_perf(
    chain: tuple[int, ...], blanks: int, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """The third blank comes with the first caller. A chain with a word that is no address is empty."""
    built = EventRecording(["sched:sched_switch"], comms={1: "a"}, with_chains=True)
    built.event("sched:sched_switch", 10_000, b"a", 1, 120, 0, b"b", 2, 120, tid=1, chain=chain)
    (tmp_path / "perf.data").write_bytes(built.file())
    assert run(["sched", "timehist", "-i", str(tmp_path / "perf.data")]) == 0
    end = capfdbinary.readouterr().out.splitlines()[-1].partition(b"0.000      0.000      0.000 ")[2]
    assert (len(end) - len(end.lstrip()), bool(end.strip())) == (blanks, blanks == 3)


def test_a_map_ends_with_the_share_of_lost_events(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    built = EventRecording(["sched:sched_switch"], comms={1: "a"})
    built.event("sched:sched_switch", 10_000, b"a", 1, 120, 0, b"b", 2, 120).lost(7, 11_000).end_round()
    (tmp_path / "perf.data").write_bytes(built.file())
    assert run(["sched", "map", "-i", str(tmp_path / "perf.data")]) == 0
    assert capfdbinary.readouterr().out.endswith(b"A0 => :2:2\n  INFO: 140.000% lost events (7 out of 5, in 1 chunks)\n")


def _two_threads(tmp_path: Path) -> str:
    """Return the path of a recording in which threads 1 and 2 alternate, twice, on CPU 0."""
    built, time = EventRecording([_SWITCH, "sched:sched_wakeup"], comms={1: "a", 2: "b"}), 10**6
    for before, after in ((0, 1), (1, 2), (2, 1), (1, 0), (0, 2), (2, 0)):
        built.event("sched:sched_wakeup", time - 10 * after, b"", after, 120, 0, tid=before)
        built.event(_SWITCH, time, b"", before, 120, 1, b"", after, 120, tid=before)
        time += 10**6
    (tmp_path / "perf.data").write_bytes(built.file())
    return str(tmp_path / "perf.data")


def test_a_verbose_map_names_the_thread_of_each_switch_but_the_idle_one(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run(["sched", "map", "-v", "--fuzzy-name", "-i", _two_threads(tmp_path)]) == 0
    text = capfdbinary.readouterr()
    names = [line.partition(b"secs ")[2] for line in text.out.splitlines()[:6]]
    assert names == [b"A0 => a:1", b"B0 => b:2", b"A0 => a:1", b".  => swapper:0", b"B0 => b:2", b""]
    assert b"--fuzzy-name has no effect without --task-name" in text.err


def test_latencies_are_sorted_by_thread(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    for keys in ("pid", "switch,pid"):
        assert run(["sched", "latency", "-s", keys, "-i", _two_threads(tmp_path)]) == 0
        rows = [line.split()[0] for line in capfdbinary.readouterr().out.splitlines() if b"avg:" in line]
        assert rows == [b"b:2", b"a:1"]


@pytest.mark.parametrize("options", [("-C", "2"), ("-C", "0,7"), ("--kallsyms", "/nonexistent"), ("-k", "/nonexistent")])
def test_cpus_and_files_that_do_not_exist_are_refused(options: tuple[str, str], tmp_path: Path) -> None:
    assert run(["sched", "timehist", *options, "-i", _two_threads(tmp_path)]) == 255


def test_the_process_of_a_thread_is_that_of_its_first_mention(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    """A field of a tracepoint names a thread without its process, and it stays without one until its next life, as in perf."""
    built = EventRecording([_SWITCH, _WAKING], comms={1: "a"})
    built.event(_WAKING, 10_000, b"", 5, 120, 0, tid=1)
    built.event(_SWITCH, 20_000, b"a", 1, 120, 1, b"b", 5, 120, tid=1)
    built.event(_SWITCH, 30_000, b"b", 5, 120, 1, b"c", 6, 120, tid=5)
    built.event(_SWITCH, 40_000, b"c", 6, 120, 1, b"a", 1, 120, tid=6)
    built.event(_WAKING, 50_000, b"", 6, 120, 0, tid=1)
    built.exit(1, 60_000)
    built.event(_WAKING, 70_000, b"", 1, 120, 0, tid=6)
    (tmp_path / "perf.data").write_bytes(built.file())
    assert run(["sched", "timehist", "-w", "-i", str(tmp_path / "perf.data")]) == 0
    lines = [line[24:] for line in capfdbinary.readouterr().out.splitlines()[3:]]
    assert [(line[:30].rstrip(), line.partition(b"awakened: ")[2]) for line in lines] == [
        (b"a[1]", b":5"), (b"a[1]", b""), (b":5", b""), (b":6[6]", b""), (b"a[1]", b":6[6]"), (b":6[6]", b":1")
    ]  # fmt: skip
    assert run(["sched", "timehist", "-p", "0", "-w", "-i", str(tmp_path / "perf.data")]) == 0
    assert len(capfdbinary.readouterr().out.splitlines()) == 3 + 3


def test_a_summary_without_lines_refuses_columns_of_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("-n", "-w"):
        assert run(["sched", "timehist", "-s", option, "-i", _two_threads(tmp_path)]) == 234
        assert "use -S for both" in capsys.readouterr().err


def test_a_summary_has_the_last_name_of_each_thread(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    built = EventRecording([_SWITCH], comms={1: "a", 2: "b"})
    for time, before, after in ((10_000, 1, 2), (20_000, 2, 1), (30_000, 1, 2)):
        built.event(_SWITCH, time, b"", before, 120, 1, b"", after, 120, tid=before)
    built.rename(1, "later", 40_000)
    (tmp_path / "perf.data").write_bytes(built.file())
    assert run(["sched", "timehist", "-s", "-i", str(tmp_path / "perf.data")]) == 0
    text = capfdbinary.readouterr().out
    assert [name in text for name in (b" later[1] ", b" b[2] ", b" a[1] ")] == [True, True, False]


def test_perf_7_has_no_blanks_below_the_title_of_the_state() -> None:
    six, seven = (header_lines(TimehistStyle(state=True), is_seven=is_seven) for is_seven in (False, True))
    assert (six[0], six[2]) == (seven[0], seven[2])
    assert six[1] == seven[1] + " " * 7
    assert header_lines(TimehistStyle(), is_seven=True) == header_lines(TimehistStyle())
