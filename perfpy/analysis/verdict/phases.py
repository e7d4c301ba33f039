"""What a program does when: phases and stretches of its functions, bursts of work, and processes that take turns.

The times of samples tell it. Each sentence is only made if it is certain.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import distinct
from perfpy.abi.perfpy_encodings import READY
from perfpy.analysis.sample_view import NANOSECONDS_A_SECOND
from perfpy.analysis.verdict.functions import interval
from perfpy.symbols.interning import GroupSums, sum_by

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from perfpy.analysis.locations import Int64
    from perfpy.analysis.verdict.functions import SampledFunctions
    from perfpy.perfdata.sample_source import SampleSource


# Phases: functions of own code that have nearly all samples one after the other.


SHORTEST_OF_PHASES: Final = 1.0  # seconds of a recording
SLICES: Final = 100  # of the recorded time
_IN_PHASE: Final = 0.65  # the least share of a function, with all that it calls, of the samples of its phase
_OUTSIDE: Final = 0.1  # the largest share of the other samples
_IN_PHASES: Final = 0.8  # of all samples
_FEWEST_IN_PHASE: Final = 50  # samples
_LEAST_OF_PHASE: Final = 0.05  # of all samples
_MOST_PHASES: Final = 4
_LEAST_OF_THREADS: Final = 0.3  # of all samples, in the threads with the program's code


class Phase(NamedTuple):
    """The time in which a program mostly runs one function.

    Attributes:
        begin, end: seconds since the first sample.
        share: of the samples in this time, including callees.
        is_of_threads: whether only threads with the program's code count, not those of its runtime.
        is_program: whether it is the name of a program, and not a function.
    """

    function: str
    begin: float
    end: float
    share: float
    is_of_threads: bool = False
    is_program: bool = False


def find_phases(functions: SampledFunctions, first: int) -> list[Phase]:
    """Return two to four phases, by time; empty if they are not certain. first: the time of the first sample, ns.

    If there are none, those of the threads with the program's code are looked for: compilers and garbage collectors of a runtime may use as
    much time.
    """
    rows = functions.rows
    phases = _phases_of(functions, first, rows.count)
    if phases or "tid" not in rows.dimensions:
        return phases
    tids, number = np.unique(rows.dimensions["tid"], return_inverse=True)
    number, is_own = number.ravel(), functions.charged_functions >= 0
    has_code = 2 * sum_by(number[is_own], rows.count[is_own], len(tids)) >= sum_by(number, rows.count, len(tids))
    counts = np.where(has_code[number], rows.count, 0)
    if not _LEAST_OF_THREADS * functions.samples <= counts.sum() < functions.samples:
        return []
    return [phase._replace(is_of_threads=True) for phase in _phases_of(functions, first, counts)]


def _phases_of(functions: SampledFunctions, first: int, row_counts: Int64) -> list[Phase]:
    """Return the phases; row_counts: the samples of each row that count."""
    size, rows = len(functions.category_of), functions.rows
    times, slices = np.unique(rows.dimensions["time"], return_inverse=True)
    all_samples = int(row_counts.sum())
    if len(times) < _MOST_PHASES or all_samples < 2 * _FEWEST_IN_PHASE:
        return []
    slices, samples = slices.ravel(), sum_by(slices.ravel(), row_counts, len(times))
    is_named = functions.are_own_and_named
    named, counts = np.flatnonzero(is_named), GroupSums()
    index_of = np.cumsum(is_named) - 1
    for row, function in functions.rows_of_functions(is_named):
        counts.add(index_of[function] * len(times) + slices[row], row_counts[row], len(named) * len(times))
    by_slice = counts.totals(len(named) * len(times)).reshape(-1, len(times))
    totals = by_slice.sum(axis=1)
    least = max(_LEAST_OF_PHASE * all_samples, _FEWEST_IN_PHASE)
    phases: list[tuple[int, int, Phase]] = []
    grain = int(np.diff(times).min())
    charged = functions.charged_functions
    of_itself = sum_by(charged[charged >= 0], row_counts[charged >= 0], size)[named]
    for number in np.lexsort((of_itself, -totals)).tolist():  # callers come before what only they call
        if totals[number] < least or len(phases) == _MOST_PHASES:
            break
        of_function = by_slice[number]
        begin, end = _best_range(2 * of_function - samples)
        inside, within, outside = int(of_function[begin:end].sum()), int(samples[begin:end].sum()), all_samples
        outside -= within
        is_apart = all(end <= other_begin or begin >= other_end for other_begin, other_end, _ in phases)
        if not is_apart or within < least or outside < least or interval(inside / within, within).low < _IN_PHASE:
            continue
        if interval((int(totals[number]) - inside) / outside, outside).high <= _OUTSIDE:
            when = ((int(times[begin]) - first) / NANOSECONDS_A_SECOND, (int(times[end - 1]) + grain - first) / NANOSECONDS_A_SECOND)
            phases.append((begin, end, Phase(functions.name(int(named[number])), max(when[0], 0.0), when[1], inside / within)))
    phases.sort()
    is_whole = sum(int(samples[begin:end].sum()) for begin, end, _ in phases) >= _IN_PHASES * all_samples
    return [phase for *_, phase in phases] if len(phases) > 1 and is_whole else []


def find_program_phases(pids: Int64, times: Int64, counts: Int64, name_of: Callable[[int], str], first: int) -> list[Phase]:
    """Return two to four phases in which one program after the other has nearly all samples; empty if they are not certain.

    Args:
        pids, times, counts: of rows: the process, the beginning of the slice of time, and the samples.
        name_of: returns the name of a process.
        first: the time of the first sample, ns.
    """
    by_name: dict[str, list[int]] = {}
    processes = distinct(pids).tolist()
    for pid in processes:
        by_name.setdefault(name_of(pid), []).append(pid)
    slices, number = np.unique(times, return_inverse=True)
    all_samples, number = int(counts.sum()), number.ravel()
    if len(slices) < _MOST_PHASES or all_samples < 2 * _FEWEST_IN_PHASE:
        return []
    samples, grain = sum_by(number, counts, len(slices)), int(np.diff(slices).min())
    phases: list[tuple[int, int, Phase]] = []
    for name, of_name in by_name.items():
        chosen = np.isin(pids, of_name)
        of_program = sum_by(number[chosen], counts[chosen], len(slices))
        begin, end = _best_range(2 * of_program - samples)
        inside, within = int(of_program[begin:end].sum()), int(samples[begin:end].sum())
        least = max(_LEAST_OF_PHASE * all_samples, _FEWEST_IN_PHASE)
        if within < least or interval(inside / within, within).low < _IN_PHASE:
            continue
        outside = all_samples - within
        if outside < least or interval((int(of_program.sum()) - inside) / outside, outside).high > _OUTSIDE:
            continue
        when = ((int(slices[begin]) - first) / NANOSECONDS_A_SECOND, (int(slices[end - 1]) + grain - first) / NANOSECONDS_A_SECOND)
        phases.append((begin, end, Phase(name, max(when[0], 0.0), when[1], inside / within, is_program=True)))
    phases.sort()
    is_apart = all(one[1] <= other[0] for one, other in itertools.pairwise(phases))
    is_whole = sum(int(samples[begin:end].sum()) for begin, end, _ in phases) >= _IN_PHASES * all_samples
    return [phase for *_, phase in phases] if 1 < len(phases) <= _MOST_PHASES and is_apart and is_whole else []


def _best_range(values: Int64) -> tuple[int, int]:
    """Return the range with the largest sum.

    >>> _best_range(np.array([-1, 3, -1, 2, -5, 1]))
    (1, 4)
    """
    totals = np.concatenate([[0], np.cumsum(values)])
    end = int(np.argmax(totals - np.minimum.accumulate(totals)))
    return int(np.argmin(totals[: end + 1])), end


# Stretches: times in which a thread runs one C function and nothing else. A few of its many calls may be slow.


_FEWEST_STRETCHES: Final = 3
_MOST_LONG: Final = 50
_LONG: Final = 8  # samples
_IN_STRETCHES: Final = 0.9  # of the function's samples
_SHORTEST: Final = 0.2  # of the longest stretch
_BY_CHANCE: Final = 0.5  # of the turns that samples in random order have: with more turns the stretches may be chance
_FEWEST_OTHERS: Final = 20  # samples of the thread in other functions
MOST_SAMPLES: Final = 40_000  # with fewer none are left out of a report with times


class LongStretches(NamedTuple):
    """Stretches of samples of one function, without others between them.

    Attributes:
        number: of stretches.
        shortest, longest: CPU time in seconds.
        share: of the function's CPU time.
    """

    number: int
    shortest: float
    longest: float
    share: float


def find_stretches(functions: SampledFunctions, charged: int, callee: str) -> LongStretches | None:
    """Return the long stretches in which the thread with most samples runs a C function; None if they are not certain.

    Args:
        functions: of samples with their times.
        charged: the own function that calls the C function.
        callee: the name of the C function.
    """
    rows = functions.rows
    tids, number = np.unique(rows.dimensions["tid"], return_inverse=True)
    is_inside = functions.charged_functions == charged
    is_inside &= np.isin(functions.leaf, [one for one in distinct(functions.leaf[is_inside]).tolist() if functions.name(one) == callee])
    if not is_inside.any():
        return None
    busiest = np.flatnonzero(number.ravel() == np.argmax(sum_by(number.ravel()[is_inside], rows.period[is_inside], len(tids))))
    order = busiest[np.argsort(rows.dimensions["time"][busiest], kind="stable")]
    inside = is_inside[order]
    begins = np.flatnonzero(np.diff(inside.astype(np.int8), prepend=0) == 1)
    ends = np.flatnonzero(np.diff(inside.astype(np.int8), append=0) == -1) + 1
    periods = np.concatenate([[0], np.cumsum(rows.period[order])])
    is_long = ends - begins >= _LONG
    times = (periods[ends] - periods[begins])[is_long] / NANOSECONDS_A_SECOND
    samples, others = int(inside.sum()), int(len(inside) - inside.sum())
    by_chance = samples * others / len(inside)
    total = int(rows.period[is_inside].sum()) / NANOSECONDS_A_SECOND
    if others < _FEWEST_OTHERS or len(begins) > _BY_CHANCE * by_chance or not _FEWEST_STRETCHES <= len(times) <= _MOST_LONG:
        return None
    share, shortest, longest = float(times.sum()) / total, float(times.min()), float(times.max())
    is_certain = share >= _IN_STRETCHES and shortest >= _SHORTEST * longest
    return LongStretches(len(times), shortest, longest, share) if is_certain else None


# Processes that work one at a time: when threads run, or are ready to, by the times of their samples.


class BusyIntervals(NamedTuple):
    """When threads had work: each sample's time on the CPU until then, and each wait for a CPU.

    Attributes:
        start, end: int64[n], nanoseconds.
        pid, tid: int64[n], the process and the thread of each.
        is_running: bool[n], False for waits for a CPU.
    """

    start: Int64
    end: Int64
    pid: Int64
    tid: Int64
    is_running: NDArray[np.bool_]


class Turns(NamedTuple):
    """Processes that work one after the other.

    Attributes:
        pids: those with a share of the CPU time that matters.
        share: of the elapsed time in which at most one thread had work.
    """

    pids: list[int]
    share: float


_STRETCH: Final = 20_000_000  # ns, at least: a sample may be off by its period, of usually 0.25 ms, which is a hundredth
_STRETCHES: Final = 50  # the least number of stretches: a program of less than a second has none to spare
_MOST_STRETCHES: Final = 2000
_ONE: Final = 0.98  # of the elapsed time: one of two jobs that chance brings together in a fiftieth would be seen
_AT_WORK: Final = 0.8  # of the elapsed time: two workers that are busy for 40 % each, at random, are both busy for 16 %
_OF_WORK: Final = 0.05  # of the CPU time, of each process that counts
FEWEST_PROCESSES: Final = 3  # of these processes: a program and its helper are no queue of jobs
_LARGEST: Final = 0.7  # of the CPU time, of one process: the others would not be faster beside it


def take_turns(intervals: BusyIntervals) -> Turns | None:
    """Return the processes if at most one thread had work nearly all the time; None if that is not certain.

    Samples have the CPU time since the last one, and threads that wait for a CPU have work, too. So stretches of time are filled more
    than once if two threads had work in them, also on a machine that other programs use.
    """
    start, end, pid, tid, is_running = intervals
    pids, number = np.unique(pid[is_running], return_inverse=True)
    periods = sum_by(number.ravel(), (end - start)[is_running], len(pids))
    total = int(periods.sum())
    counting = periods >= _OF_WORK * total
    if not total or counting.sum() < FEWEST_PROCESSES or periods.max() > _LARGEST * total:
        return None
    first, last = int(start.min()), int(end.max())
    count = min((last - first) // _STRETCH, _MOST_STRETCHES)
    if count < _STRETCHES:
        return None
    edges = np.linspace(first, last, count + 1)
    start, end = _without_overlap(start, end, tid)
    filled = np.diff(_sum_until(edges, start) - _sum_until(edges, end)) / np.diff(edges)
    share = 1 - float(np.maximum(filled - 1, 0).mean())
    return Turns(pids[counting].tolist(), share) if share >= _ONE and float(np.minimum(filled, 1).mean()) >= _AT_WORK else None


_LEAST_ALONE: Final = 0.25  # of the elapsed time
_AT_WORK_ALONE: Final = 0.9  # of the tenths of a second alone: the process has work in them. Short waits for a CPU are not recorded
_OTHERS: Final = 0.02  # of the time alone: the work of helpers that do not matter
_BESIDE: Final = 0.1  # of a stretch: others work beside it
_WITH_OTHERS: Final = 10  # stretches alone that one with others must separate
_ONE_CPU: Final = 1.05  # of the time alone: its threads do not work side by side
_LEAST_BESIDE: Final = 0.1  # s, together with others before


def time_alone(intervals: BusyIntervals, process: int) -> tuple[int, int] | None:
    """Return from when until when a process was the only one with work, after it and others had worked side by side; ns.

    None if that is not certain, or not long.
    """
    first, last = int(intervals.start.min()), int(intervals.end.max())
    count = min((last - first) // _STRETCH, _MOST_STRETCHES)
    is_of_it = intervals.pid == process
    if count < _STRETCHES or not is_of_it.any():
        return None
    edges = np.linspace(first, last, count + 1)
    of_it, of_others = (_filled(intervals, chosen, edges) for chosen in (is_of_it, ~is_of_it))
    has_work = np.flatnonzero(of_it > 0)
    values = np.where(of_others < _BESIDE * np.diff(edges), 1, -_WITH_OTHERS)
    begin, end = _best_range(np.where((np.arange(count) >= has_work[0]) & (np.arange(count) <= has_work[-1]), values, -count))
    alone = float(edges[end] - edges[begin]) if begin < end else 0.0
    tenths = np.unique((edges[has_work[(has_work >= begin) & (has_work < end)]] - edges[begin]) // _BIN)
    is_at_work = len(tenths) >= _AT_WORK_ALONE * alone / max(_BIN, (last - first) / count) and of_it[begin:end].sum() <= _ONE_CPU * alone
    is_without_others = float(of_others[begin:end].sum()) <= _OTHERS * alone
    beside = float(np.minimum(of_it, of_others)[:begin].sum()) / NANOSECONDS_A_SECOND
    is_certain = alone >= _LEAST_ALONE * (last - first) and is_at_work and is_without_others and beside >= _LEAST_BESIDE
    return (int(edges[begin]), int(edges[end])) if is_certain else None


def _filled(intervals: BusyIntervals, chosen: NDArray[np.bool_], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the nanoseconds of work in each stretch of time, of some intervals."""
    if not chosen.any():
        return np.zeros(len(edges) - 1)
    start, end = _without_overlap(intervals.start[chosen], intervals.end[chosen], intervals.tid[chosen])
    return np.diff(_sum_until(edges, start) - _sum_until(edges, end))


def _without_overlap(start: Int64, end: Int64, tid: Int64) -> tuple[Int64, Int64]:
    """Return the intervals without what overlaps earlier ones of their thread, sorted by thread and end.

    The CPU time of a sample may have been used in several turns on a CPU, with waits for it between them.
    """
    order = np.lexsort((end, tid))
    start, end, tid = start[order], end[order], tid[order]
    first = int(start.min())
    group = np.cumsum(np.append(0, tid[1:] != tid[:-1])) * (int(end.max()) - first + 1)  # one thread's times come after another's
    after = np.append(np.int64(0), np.maximum.accumulate(end - first + group)[:-1])
    begin = np.minimum(np.maximum(start - first + group, after), end - first + group)
    return begin - group + first, end


class Bursts(NamedTuple):
    """Regular times at which a program uses CPUs.

    Attributes:
        number: of bursts.
        every: seconds from the beginning of one to that of the next.
        seconds: the CPU time of one on average.
        is_certain: whether chance does not explain the equal distances; otherwise they describe this recording only.
    """

    number: int
    every: float
    seconds: float
    is_certain: bool = True


_BIN: Final = 100_000_000  # ns
_MOST_BINS: Final = 1 << 22  # of a recording, days
_IN_BURST: Final = 0.25  # of a bin: the work of bins in a burst
_IN_BURSTS: Final = 0.9  # of the work: the rest is that of heartbeats
_OF_BURST: Final = 0.2  # of the median work of the bursts: smaller ones are none
_QUIET: Final = 5  # bins between two bursts, at least
FEWEST_BURSTS: Final = 3
_CERTAIN: Final = 6  # bursts: of random ones, five distances are equal within 5 % once in 40,000 recordings: a distance at random is so
# near to the median in 7 %, which four are
_SAME_DISTANCE: Final = 0.05  # of the median distance: a busy machine lets a timer's thread run too late by some hundredths of a second
_SIMILAR_DISTANCE: Final = 0.1  # of the median distance, of fewer bursts
LEAST_DISTANCE: Final = 1.0  # seconds: shorter ones are the program's usual loop


def find_bursts(intervals: BusyIntervals) -> Bursts | None:
    """Return the bursts if nearly all work is in several at equal distances, with quiet between them; None otherwise."""
    start, end = intervals.start, intervals.end
    if not intervals.is_running.any():
        return None
    first = int(start.min())
    if int(end.max()) - first > _MOST_BINS * _BIN:  # times of damaged recordings; nobody waits so long for bursts
        return None
    edges = np.arange(first, int(end.max()) + 2 * _BIN, _BIN, dtype=np.float64)
    times = np.diff(_sum_until(edges, start) - _sum_until(edges, end))
    bins = np.flatnonzero(times >= _IN_BURST * _BIN)
    group = np.cumsum(np.diff(bins, prepend=-_QUIET - 1) > _QUIET) - 1
    of_group = np.bincount(group, times[bins])
    bins = bins[(of_group >= _OF_BURST * np.median(of_group))[group]] if len(bins) else bins  # beside a collection of garbage
    begins = bins[np.diff(bins, prepend=-_QUIET - 1) > _QUIET] if len(bins) else bins
    if len(begins) < FEWEST_BURSTS or len(begins) > len(bins):
        return None
    around = np.unique(np.concatenate([bins, bins - 1, bins + 1]))
    in_bursts = float(times[around[(around >= 0) & (around < len(times))]].sum())
    # each begins with a sample that others follow closely, which heartbeats do not
    ordered = np.sort(start).astype(np.float64)
    after = ordered + _BIN / 4
    is_followed = (_sum_until(after, start) - _sum_until(after, end)) - (_sum_until(ordered, start) - _sum_until(ordered, end)) >= _BIN / 8
    followed = ordered[is_followed]
    exact = np.searchsorted(followed, edges[np.maximum(begins - 1, 0)])
    if len(exact) and exact[-1] >= len(followed):
        return None
    distances = np.diff(followed[exact]) / NANOSECONDS_A_SECOND
    every = float(np.median(distances))
    if every < LEAST_DISTANCE or in_bursts < _IN_BURSTS * float(times.sum()):
        return None
    off = np.abs(distances - every) / every
    regular = off[1:] if len(begins) > _CERTAIN else off  # the recording may begin within the first burst
    is_certain = len(begins) >= _CERTAIN and bool((regular <= _SAME_DISTANCE).all())
    if not is_certain and (off > _SIMILAR_DISTANCE).any():
        return None
    running = int((end - start)[intervals.is_running].sum())
    return Bursts(len(begins), every, running / len(begins) / NANOSECONDS_A_SECOND, is_certain)


def _sum_until(edges: NDArray[np.float64], times: Int64) -> NDArray[np.float64]:
    """Return for each edge the sum of its distances to earlier times."""
    ordered = np.sort(times).astype(np.float64)
    totals = np.concatenate([[0.0], np.cumsum(ordered - ordered[0])])
    before = np.searchsorted(ordered, edges)
    distances: NDArray[np.float64] = before * (edges - ordered[0]) - totals[before]
    return distances


def work_intervals(data: SampleSource, running: int, waiting: int) -> BusyIntervals | None:
    """Return when threads had work, by the samples of two events; None if the recording does not say which waits are for a CPU."""
    parts: list[list[Int64]] = []
    for batch in data.batches({"time", "pid", "tid", "period", "ins_lat", "retire_lat"}):
        columns = batch.columns
        if not {"time", "pid", "tid", "period"} <= {*columns}:
            return None
        time, pid, tid, period = (columns[name].astype(np.int64) for name in ("time", "pid", "tid", "period"))
        chosen, runs = batch.event == running, batch.event == running
        if (batch.event == waiting).any():
            if "ins_lat" not in columns:
                return None
            chosen = runs | (batch.event == waiting) & (columns["ins_lat"] == READY)
        parts.append([column[chosen] for column in (time - period, time, pid, tid, runs.astype(np.int64))])
    if not parts:
        return None
    start, end, pid, tid, runs = (np.concatenate(column) for column in zip(*parts, strict=True))
    return BusyIntervals(start, end, pid, tid, runs.astype(np.bool_)) if len(start) else None
