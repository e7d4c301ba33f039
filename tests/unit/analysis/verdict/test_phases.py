"""Tests of the sentences on processes that work one at a time, and on bursts: certain schedules have them, random ones never."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from perfpy.analysis.verdict.evidence import Evidence
from perfpy.analysis.verdict.phases import Bursts, BusyIntervals, Phase, Turns, find_bursts, find_program_phases, take_turns, time_alone
from perfpy.views.verdict.processes import phases_of_program, regular_bursts, turns_of_processes

SECOND = 1_000_000_000
PERIOD = 250_000  # ns: 4,000 samples a second


def intervals(*jobs: tuple[int, float, float], ready: tuple[tuple[int, float, float], ...] = ()) -> BusyIntervals:
    """Return samples of processes on a CPU, from and to a time in seconds. ready: processes that wait for a CPU meanwhile."""
    parts = []
    for pid, first, last in jobs:
        end = np.arange(int(first * SECOND) + PERIOD, int(last * SECOND), PERIOD)
        parts.append((end - PERIOD, end, np.full(len(end), pid), np.ones(len(end), np.bool_)))
    for pid, first, last in ready:
        ends = np.array([[int(first * SECOND)], [int(last * SECOND)]])
        parts.append((ends[0], ends[1], np.array([pid]), np.zeros(1, np.bool_)))
    start, end, pids, running = (np.concatenate(column) for column in zip(*parts, strict=True))
    return BusyIntervals(start, end, pids, pids, running)


def test_the_time_of_a_sample_in_several_turns_fills_them_once() -> None:
    """On a busy machine a thread waits for a CPU within the time of one sample."""
    single = intervals(*ONE_BY_ONE)
    waits = [(pid, pid + 0.01 * number, pid + 0.01 * number + 0.005) for pid in range(4) for number in range(90)]
    both = intervals(*ONE_BY_ONE, ready=tuple(waits))
    turns = take_turns(both)
    assert turns is not None
    assert round(turns.share, 2) == 1.0
    other_threads = both._replace(tid=np.arange(len(both.tid)))
    assert take_turns(other_threads) is None
    assert take_turns(single._replace(tid=np.zeros(len(single.tid), np.int64))) is not None


ONE_BY_ONE = [(pid, 1.0 * pid, 1.0 * pid + 0.99) for pid in range(4)]


def test_jobs_that_follow_each_other_take_turns() -> None:
    turns = take_turns(intervals(*ONE_BY_ONE))
    assert turns is not None
    assert (turns.pids, round(turns.share, 2)) == ([0, 1, 2, 3], 1.0)


def test_short_jobs_take_turns_too() -> None:
    """The time of a sample is as uncertain as its period."""
    jobs = [(number % 5, 0.0307 * number, 0.0307 * (number + 1)) for number in range(200)]
    assert take_turns(intervals(*jobs)) is not None


@pytest.mark.parametrize(
    ("jobs", "ready"),
    [
        ([*ONE_BY_ONE, (9, 1.0, 1.2)], ()),  # two at a time, for a twentieth
        (ONE_BY_ONE, ((7, 1.0, 1.4),)),  # a second one is ready: the CPU is missing
        ([(pid, 2.0 * pid, 2.0 * pid + 1.2) for pid in range(4)], ()),  # idle between them
        ([(1, 0.0, 4.0), (2, 4.0, 4.5), (3, 4.5, 5.0)], ()),  # the others do not matter
        ([(1, 0.0, 2.0), (2, 2.0, 4.0)], ()),  # two are no queue
        ([(pid, 0.2 * pid, 0.2 * (pid + 1)) for pid in range(4)], ()),  # too short
    ],
)
def test_other_schedules_have_none(jobs: list[tuple[int, float, float]], ready: tuple[tuple[int, float, float], ...]) -> None:
    assert take_turns(intervals(*jobs, ready=ready)) is None


def test_random_schedules_have_none() -> None:
    """Workers that run and wait at random: a second one has work, or none has."""
    random = np.random.default_rng(45)
    for _ in range(400):
        jobs: list[tuple[int, float, float]] = []
        for pid in range(int(random.integers(3, 7))):
            time, run, wait = 0.0, float(random.uniform(0.01, 0.5)), float(random.uniform(0.01, 2.0))
            while time < 6:
                length = float(random.exponential(run)) + 0.001
                jobs.append((pid, time, time + length))
                time += length + float(random.exponential(wait))
        assert take_turns(intervals(*jobs)) is None


def test_the_sentence_names_the_jobs_that_the_command_allows() -> None:
    evidence = SimpleNamespace(turns=Turns([5, 6, 7], 0.993), comm=lambda _pid: "cc1plus", allowed_jobs="make -j2", elapsed=5.3)
    (sentence,) = turns_of_processes(cast("Any", evidence))
    assert sentence.text == (
        'Only one process at a time had work in 99 % of 5.3 s: three processes of "cc1plus" ran one after the other, '
        "although make -j2 allows more."
    )
    evidence = SimpleNamespace(turns=Turns([5, 6, 7], 1.0), comm=str, allowed_jobs="", elapsed=5.3)
    assert [one.text for one in turns_of_processes(cast("Any", evidence))] == [
        "Only one process at a time had work in 100 % of 5.3 s: three processes ran one after the other."
    ]
    assert not [*turns_of_processes(cast("Any", SimpleNamespace(turns=None)))]


@pytest.mark.parametrize(
    ("command", "jobs"),
    [
        ("make -C src -j2", "make -j2"),
        ("/usr/bin/gmake all --jobs=16", "gmake -j16"),
        ("ninja -j 4", "ninja -j4"),
        ("make -j1", ""),
        ("make all", ""),
        ("./make-index -j8", ""),
    ],
)
def test_jobs_are_read_from_the_command(command: str, jobs: str) -> None:
    data = SimpleNamespace(features={"cmdline": ("perfpy", *command.split())})
    assert cast("Any", Evidence.allowed_jobs).fget(SimpleNamespace(_data=data)) == jobs


# Tests of bursts at equal distances.


EIGHT_AT_A_TIME = [(pid, 0.3 * (pid // 2), 0.3 * (pid // 2 + 1)) for pid in range(8)]


def test_the_largest_process_works_alone_after_the_others() -> None:
    alone = time_alone(intervals(*EIGHT_AT_A_TIME, (8, 0.6, 4.0)), 8)
    assert alone is not None
    assert tuple(round(one / SECOND, 1) for one in alone) == (1.2, 4.0)


def test_others_may_follow_the_largest_process() -> None:
    """Such as the assembler and the linker after the last compiler."""
    alone = time_alone(intervals(*EIGHT_AT_A_TIME, (8, 0.6, 3.5), (9, 3.5, 4.0)), 8)
    assert alone is not None
    assert tuple(round(one / SECOND, 1) for one in alone) == (1.2, 3.5)


def test_a_process_with_little_of_a_busy_machine_works_alone() -> None:
    """Waits for a CPU below a limit are not recorded."""
    pieces = [(8, 1.2 + 0.02 * number, 1.206 + 0.02 * number) for number in range(200)]
    assert time_alone(intervals(*EIGHT_AT_A_TIME, (8, 0.6, 1.2), *pieces), 8) is not None


def test_a_process_that_waits_for_a_cpu_alone_works_alone() -> None:
    jobs = [*EIGHT_AT_A_TIME, (8, 0.6, 2.0), (8, 3.0, 4.0)]
    assert time_alone(intervals(*jobs, ready=((8, 2.0, 3.0),)), 8) is not None


def test_a_small_helper_beside_it_does_not_matter() -> None:
    helper = [(9, second, second + 0.001) for second in np.arange(1.5, 4.0, 0.25).tolist()]
    assert time_alone(intervals(*EIGHT_AT_A_TIME, (8, 0.6, 4.0), *helper), 8) is not None


@pytest.mark.parametrize(
    "jobs",
    [
        [*EIGHT_AT_A_TIME, (8, 0.6, 1.4)],  # soon ready, too
        [*EIGHT_AT_A_TIME, (8, 1.2, 4.0)],  # began when all others were ready: they follow each other
        [(0, 0.0, 1.0), (1, 1.0, 2.0), (8, 2.0, 6.0)],  # one at a time
        [*EIGHT_AT_A_TIME, (8, 0.6, 4.0), *((9, 0.2 * number, 0.2 * number + 0.05) for number in range(6, 20))],  # others at all times
        [*EIGHT_AT_A_TIME, (8, 0.6, 1.5), (8, 3.5, 4.0)],  # it waits for something else
    ],
)
def test_other_processes_do_not_work_alone(jobs: list[tuple[int, float, float]]) -> None:
    assert time_alone(intervals(*jobs), 8) is None


def test_two_busy_threads_of_a_process_use_the_machine() -> None:
    both = intervals(*EIGHT_AT_A_TIME, (8, 0.6, 4.0), (8, 0.6, 4.0))
    assert time_alone(both._replace(tid=np.arange(len(both.tid))), 8) is None


def bursts_at(times: list[float], length: float = 0.3) -> BusyIntervals:
    return intervals(*((1, time, time + length) for time in times))


def test_work_at_equal_distances_comes_in_bursts() -> None:
    bursts = find_bursts(bursts_at([1 + 5 * number for number in range(6)]))
    assert bursts is not None
    assert (bursts.number, round(bursts.every, 2), round(bursts.seconds, 2)) == (6, 5.0, 0.3)
    after_start = find_bursts(bursts_at([0, *(3 + 5 * number for number in range(6))]))
    assert after_start is not None
    assert after_start.every == bursts.every


def test_the_work_of_bursts_may_differ_and_a_heartbeat_does_not_matter() -> None:
    jobs = [(1, 2.0 * number, 2.0 * number + 0.25 + 0.02 * (number % 3)) for number in range(8)]
    beats = [(2, 0.5 * number + 0.4, 0.5 * number + 0.401) for number in range(30)]
    bursts = find_bursts(intervals(*jobs, *beats))
    assert bursts is not None
    assert (bursts.number, round(bursts.every, 1)) == (8, 2.0)


@pytest.mark.parametrize(
    ("times", "length"),
    [
        ([0, 5], 0.3),  # two are too few
        ([0, 5, 10, 16, 20, 25, 30], 0.3),  # one is late
        ([0.4 * number for number in range(30)], 0.1),  # a loop
        ([5 * number for number in range(6)], 4.9),  # no quiet
        ([0], 20),
    ],
)
def test_other_work_comes_in_no_bursts(times: list[float], length: float) -> None:
    assert find_bursts(bursts_at(times, length)) is None


def test_random_work_comes_in_no_bursts() -> None:
    random = np.random.default_rng(46)
    for _ in range(400):
        distance, times = float(random.uniform(1.0, 6.0)), [0.0]
        while times[-1] < 60:
            times.append(times[-1] + 0.7 + float(random.exponential(distance)))
        bursts = find_bursts(bursts_at(times, float(random.uniform(0.05, 0.6))))
        assert bursts is None or (bursts.number < 6 and not bursts.is_certain)


def test_few_bursts_are_what_was_recorded_and_no_rule() -> None:
    bursts = find_bursts(bursts_at([0.5, 3.5, 6.6]))
    assert bursts is not None
    assert (bursts.number, round(bursts.every, 2), bursts.is_certain) == (3, 3.05, False)
    assert find_bursts(bursts_at([0.5, 3.5, 7.5])) is None
    evidence = SimpleNamespace(bursts=bursts, processes=[(7, 1.0)], comm=lambda _pid: "app")
    assert [one.text for one in regular_bursts(cast("Any", evidence))] == [
        '"app" worked in bursts: 0.3 s of CPU time about every 3 s, three times.'
    ]


def test_the_sentence_tells_distance_and_work() -> None:
    evidence = SimpleNamespace(bursts=Bursts(6, 5.0, 0.3), processes=[(7, 0.99), (8, 0.01)], comm=lambda _pid: "app")
    assert [one.text for one in regular_bursts(cast("Any", evidence))] == ['"app" works in bursts: 0.3 s of CPU time every 5 s, six times.']


def test_times_of_damaged_recordings_have_no_bursts():
    """And take no memory: a period of 2^62 ns lets a wait begin decades before the others."""
    bursts = bursts_at([1 + 5 * number for number in range(6)])
    bursts.start[0] -= 1 << 62
    assert find_bursts(bursts) is None


# Tests of phases: one program after the other.


def program_phases(*jobs: tuple[int, int, int], names: dict[int, str]) -> list[Phase]:
    """Return the phases of processes, each with a hundred samples in every tenth of a second of its time."""
    rows = [(pid, time, 100) for pid, first, last in jobs for time in range(first, last)]
    pids, times, counts = (np.array(column) for column in zip(*rows, strict=True))
    return find_program_phases(pids, times * SECOND // 10, counts, names.__getitem__, 0)


def test_programs_that_run_one_after_the_other_are_phases() -> None:
    names = {1: "awk", 2: "sort", 3: "gzip", 4: "gzip"}
    phases = program_phases((1, 0, 20), (2, 20, 60), (3, 60, 80), (4, 80, 100), names=names)
    assert [(one.function, one.begin, one.end, one.share) for one in phases] == [
        ("awk", 0.0, 2.0, 1.0),
        ("sort", 2.0, 6.0, 1.0),
        ("gzip", 6.0, 10.0, 1.0),
    ]
    evidence = SimpleNamespace(phases=phases[:2], elapsed=10.0)
    assert [one.text for one in phases_of_program(cast("Any", evidence))] == [
        'Until 2 s, 100 % of the CPU time is in "awk"; from 2 s to 6 s, 100 % is in "sort".'
    ]
    evidence = SimpleNamespace(phases=[phases[0], phases[2]._replace(is_of_threads=True)], elapsed=10.0)
    assert [one.text for one in phases_of_program(cast("Any", evidence))] == [
        'Until 2 s, 100 % of the CPU time is in "awk"; from 6 s on, 100 % is in "gzip".'
    ]


@pytest.mark.parametrize(
    "jobs",
    [
        ((1, 0, 100), (2, 0, 100)),  # side by side
        ((1, 0, 30), (2, 30, 60), (1, 60, 100)),  # in turns
        ((1, 0, 99), (2, 99, 100)),  # hardly anything
        ((1, 0, 100),),
    ],
)
def test_programs_that_run_otherwise_have_no_phases(jobs: tuple[tuple[int, int, int], ...]) -> None:
    assert not program_phases(*jobs, names={1: "awk", 2: "sort"})
