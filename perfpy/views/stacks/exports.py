"""Stacks as folded lines (flamegraph.pl) and as speedscope's JSON (https://www.speedscope.app/file-format-schema.json)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import distinct, pieces
from perfpy.analysis.stacks import Function, Stacks
from perfpy.untrusted.text import one_line
from perfpy.views.readable import readable, source_file

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.code_sites import Source
    from perfpy.analysis.stacks import TimedSamples


#: events of a thread, which take less than 0.1 MB
_FEW_EVENTS: Final = 2000
#: room for an event, and for the weight of a stack, in numbers of frames
_EVENT: Final = 10
_WEIGHT: Final = 3


def folded_lines(part: Stacks) -> Iterator[str]:
    """Yield a line for each stack, `comm;outer;...;inner weight`, in order of the text.

    Semicolons in names become colons and line breaks ^J, because the format has no escapes. Equal lines are added up.
    """
    weights: dict[str, int] = {}
    names = [one_line(function.name.replace(";", ":")) for function in part.functions]
    comms = [one_line(comm.replace(";", ":")) for comm in part.comms]
    paths = {chain: ";".join(names[f] for f in part.chain_of(chain)[::-1].tolist()) for chain in distinct(part.chain).tolist()}
    for chain, comm, weight in zip(part.chain.tolist(), part.comm.tolist(), part.weight.tolist(), strict=True):
        path = paths[chain]
        line = f"{comms[comm]};{path}" if path else comms[comm]
        weights[line] = weights.get(line, 0) + weight
    return (f"{line} {weights[line]}" for line in sorted(weights))


def speedscope(parts: Sequence[Stacks], name: str) -> str:
    """Return speedscope's JSON, with the command as root and the first line of functions.

    For each event: a profile of each thread in order of time if the single samples are known and few, then a sampled profile of all stacks.
    """
    frames: dict[Function, int] = {}
    sources: dict[Function, Source] = {}
    profiles: list[dict[str, Any]] = []
    for part in parts:
        begins = part.sites.begins if part.sites else ()
        sources |= {function: begin for function, begin in zip(part.functions, begins, strict=False) if begin}
        function_ids = [frames.setdefault(function, len(frames)) for function in part.functions]
        comm_ids = [frames.setdefault(Function(comm, ""), len(frames)) for comm in part.comms]
        rows = zip(part.comm.tolist(), part.chain.tolist(), strict=True)
        profiles += [_in_order(part.event, thread) for thread in threads_in_order(part, function_ids, comm_ids)]
        profiles.append(
            {
                "type": "sampled",
                "name": part.event,
                "unit": "nanoseconds" if part.in_nanoseconds else "none",
                "startValue": 0,
                "endValue": part.total,
                "samples": [[comm_ids[comm], *(function_ids[f] for f in part.chain_of(chain)[::-1].tolist())] for comm, chain in rows],
                "weights": part.weight.tolist(),
            }
        )
    shared = {"frames": [_speedscope_frame(function, sources.get(function)) for function in frames]}
    schema = "https://www.speedscope.app/file-format-schema.json"
    data = {"$schema": schema, "name": name, "exporter": "perfpy", "shared": shared, "profiles": profiles}
    return json.dumps(data, separators=(",", ":"))


def _in_order(event: str, thread: ThreadOrder) -> dict[str, Any]:
    """Return speedscope's profile of one thread in order of time.

    It has the begins and ends of frames, or whole stacks if there are many events and stacks take less room. Both look the same.
    """
    profile = {"name": f"{thread.name}: {event}", "unit": "nanoseconds", "startValue": thread.first, "endValue": thread.last}
    events = [{"type": "O" if edge.is_begin else "C", "frame": edge.frame, "at": edge.time} for edge in thread.edges]
    if len(events) <= max(_FEW_EVENTS, sum(_WEIGHT + len(steady.path) for steady in thread.steady_stacks) // _EVENT):
        return {"type": "evented", **profile, "events": events}
    weights = [steady.end - steady.begin for steady in thread.steady_stacks]
    return {"type": "sampled", **profile, "samples": [steady.path for steady in thread.steady_stacks], "weights": weights}


def _speedscope_frame(function: Function, begins: Source | None) -> dict[str, Any]:
    file = source_file(function.name) or (begins.path if begins else function.dso)
    fields = {"file": file, "line": begins.line if begins else 0}
    return {"name": readable(function.name), **{key: value for key, value in fields.items() if value}}


# Stacks in order of time: the times at which a thread's stack is the same, or the begins and ends of its frames, for speedscope.
#
# A sample stands for the time before it, as long as its weight, so the times of each stack add up to its weight. Samples of the CPU do
# not come exactly on time: one that begins less than its weight after the end of the one before, or less than half of it before that end,
# goes on from there. All others take the last free time before their end. Time is not free if an earlier sample has it: the sum of a
# stack's short waits is one sample at the end of the last of them, and its time is somewhere between the thread's longer waits.


#: above this number of samples there are too many events for a viewer
MOST_SAMPLES: Final = 200_000
#: threads, those with most weight
MOST_THREADS: Final = 100
#: before all samples, with room for their weights
_LONG_AGO: Final = -(1 << 90)


class Edge(NamedTuple):
    """The begin or the end of a frame; time in ns since the first sample begins."""

    is_begin: bool
    frame: int
    time: int


class SteadyStack(NamedTuple):
    """A time during which a stack does not change.

    Attributes:
        path: the frames from the outermost in; empty between samples.
        begin, end: ns since the first sample begins.
    """

    path: list[int]
    begin: int
    end: int


class ThreadOrder(NamedTuple):
    """A thread and its stacks.

    Attributes:
        name: command and number of the thread.
        steady_stacks: in order of time, each from the end of the one before; neighbours have different stacks.
    """

    name: str
    steady_stacks: list[SteadyStack]

    @property
    def first(self) -> int:
        """The time of its begin, ns since the first sample begins."""
        return self.steady_stacks[0].begin

    @property
    def last(self) -> int:
        """The time of its end, ns since the first sample begins."""
        return self.steady_stacks[-1].end

    @property
    def edges(self) -> Iterator[Edge]:
        """The begins and ends of frames, in order of time; frames nest."""
        path: list[int] = []
        for following, begin, _ in [*self.steady_stacks, SteadyStack([], self.last, self.last)]:
            shared = _shared(path, following)
            yield from (Edge(is_begin=False, frame=frame, time=begin) for frame in reversed(path[shared:]))
            yield from (Edge(is_begin=True, frame=frame, time=begin) for frame in following[shared:])
            path = following


def threads_in_order(part: Stacks, function_ids: Sequence[int], comm_ids: Sequence[int]) -> list[ThreadOrder]:
    """Return the threads of an event whose weights are times, those with most weight first; none if there are too many samples.

    Args:
        part: the stacks of the event.
        function_ids, comm_ids: the number of each function and command in the result.
    """
    timed = part.timed
    if timed is None or not part.in_nanoseconds or not 0 < len(timed.time) <= MOST_SAMPLES:
        return []
    paths = _Paths(part, function_ids, comm_ids)
    threads = [_thread(part, timed, rows, paths) for rows in _rows_of_threads(timed)[:MOST_THREADS]]
    zero = min((thread.first for thread in threads), default=0)
    return [ThreadOrder(name, [SteadyStack(path, begin - zero, end - zero) for path, begin, end in stacks]) for name, stacks in threads]


def _rows_of_threads(timed: TimedSamples) -> list[NDArray[np.int64]]:
    """Return the rows with a weight of each thread in order of time, those with most weight first."""
    key = timed.pid.astype(np.int64) << 32 | timed.tid.astype(np.int64) & 0xFFFFFFFF
    order = np.lexsort((timed.time, key))
    order = order[timed.weight[order] > 0]
    cuts = np.flatnonzero(key[order][1:] != key[order][:-1]) + 1
    return sorted((rows for rows in pieces(order, cuts) if len(rows)), key=lambda rows: -int(timed.weight[rows].sum()))


class _Paths:
    """Stacks as frames from the outermost in, the command first."""

    def __init__(self, part: Stacks, function_ids: Sequence[int], comm_ids: Sequence[int]) -> None:
        self._part, self._function_ids, self._comm_ids = part, function_ids, comm_ids
        self._paths: dict[tuple[int, int], list[int]] = {}

    def of(self, comm: int, chain: int) -> list[int]:
        path = self._paths.get((comm, chain))
        if path is None:
            frames = self._part.chain_of(chain)[::-1].tolist()
            path = self._paths[comm, chain] = [self._comm_ids[comm], *(self._function_ids[frame] for frame in frames)]
        return path


def _thread(part: Stacks, timed: TimedSamples, rows: NDArray[np.int64], paths: _Paths) -> ThreadOrder:
    pid, tid = int(timed.pid[rows[0]]), int(timed.tid[rows[0]])
    name = f"{part.comms[int(timed.comm[rows[-1]])]} {tid if pid == tid else f'{pid}/{tid}'}"
    stacks = (paths.of(comm, chain) for comm, chain in zip(timed.comm[rows].tolist(), timed.chain[rows].tolist(), strict=True))
    samples = zip(stacks, timed.weight[rows].tolist(), timed.time[rows].tolist(), strict=True)
    return ThreadOrder(name, _steady_stacks(_placed(samples, may_move=not part.off_cpu)))


def _placed(samples: Iterable[tuple[list[int], int, int]], *, may_move: bool) -> list[SteadyStack]:
    """Return the times of one thread's samples (path, weight and end, in order of the ends), none of them twice.

    Args:
        samples: the samples.
        may_move: a sample near the end of the one before goes on from there.
    """
    placed: list[SteadyStack] = []
    free: list[tuple[int, int]] = []
    now = _LONG_AGO
    for path, weight, end in samples:
        if may_move and -weight <= 2 * (end - weight - now) <= 2 * weight:
            free.append((now, now + weight))
            now += weight
        elif now < end:
            free.append((now, end))
            now = end
        missing = weight
        while missing:
            begin, until = free.pop()
            cut = max(begin, until - missing)
            placed.append(SteadyStack(path, cut, until))
            missing -= until - cut
            if begin < cut:
                free.append((begin, cut))
    return sorted(placed, key=lambda one: one.begin)


def _steady_stacks(placed: Sequence[SteadyStack]) -> list[SteadyStack]:
    """Return stacks without overlaps in order of time with the gaps between them as empty stacks; equal neighbours become one."""
    steady_stacks: list[SteadyStack] = []
    for one in placed:
        now = steady_stacks[-1].end if steady_stacks else one.begin
        if now < one.begin:
            steady_stacks.append(SteadyStack([], now, one.begin))
        if steady_stacks and steady_stacks[-1].path == one.path:
            steady_stacks[-1] = steady_stacks[-1]._replace(end=one.end)
        else:
            steady_stacks.append(one)
    return steady_stacks


def _shared(path: Sequence[int], other: Sequence[int]) -> int:
    """Return the number of outer frames that two stacks share."""
    for depth, (frame, other_frame) in enumerate(zip(path, other, strict=False)):
        if frame != other_frame:
            return depth
    return min(len(path), len(other))
