"""`perfpy sched map`: which thread each CPU ran."""

from __future__ import annotations

import sys

import numpy as np

from perfpy.abi.columns import Growing, rows_where
from perfpy.abi.cpu_list import parse_cpu_list
from perfpy.abi.flags import RecordType
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple
from perfpy.cli.line.option_parsing import fail
from perfpy.cli.output.terminal import is_terminal, print_lines
from perfpy.perfdata.tracepoint_rows import WINDOW
from perfpy.scheduling.switch_times import previous_of
from perfpy.symbols.address_spaces import DeliveredValues
from perfpy.symbols.interning import IdTable, first_rows, number_values
from perfpy.tools.sched.latency import problem_lines
from perfpy.tools.sched.options import open_sched
from perfpy.tools.sched.timehist import micros_pieces
from perfpy.untrusted.text import one_line_bytes, visible
from perfpy.views.pieces import Coded, Joiner, text_of_equal_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from typing import Any, Final

    from numpy.typing import NDArray

    from perfpy.analysis.scheduler import SchedEvents
    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.recording import Recording
    from perfpy.symbols.address_spaces import TaskTimeline
    from perfpy.tools.sched.options import MapOptions
    from perfpy.views.pieces import Piece


def run(options: MapOptions) -> int:
    """Show which thread each CPU ran over time."""
    if options.fuzzy_name and not options.task_name:
        print("Warning: --fuzzy-name has no effect without --task-name", file=sys.stderr)
    with open_sched(options) as recording:
        _show(recording, options)
    return 0


def _show(recording: Recording, options: MapOptions) -> None:
    from perfpy.analysis.scheduler import DelaySums, event_windows

    options.dump(recording)
    names = TaskNameFilter(frozenset(options.task_name.split(",")), options.fuzzy_name) if options.task_name else None
    cpus = _numbers("--cpus", options.cpus) if options.cpus else None
    unused = ("prev_prio", "next_prio", "prev_state", *(() if names else ("prev_pid",)))
    windows = event_windows(
        recording.data, runtimes=False, wakeups=False, migrations=False, unused=unused, columns=("cpu",), is_settled=True,
        least=lambda: max(WINDOW, 2 * maker.thread_count),
    )  # fmt: skip
    timeline = recording.make_timeline(keep_exited=True, has_spaces=False)
    maker = MapMaker(recording.data, timeline, names, cpus)
    count = recording.header.get("nrcpus")
    on_terminal = is_terminal()
    style = MapStyle(
        int(count.online) if count else 0,
        compact=options.compact,
        blue_tids=_numbers("--color-pids", options.color_pids) if on_terminal else (),
        red_cpus=_numbers("--color-cpus", options.color_cpus) if on_terminal else (),
        names_always=options.verbose > 0,
    )
    lines = MapLines(style, lambda comm: visible(timeline.comms[comm]) if on_terminal else timeline.comms[comm])
    sys.stdout.flush()
    for events in windows:
        for text in lines.blocks(maker.add(events)):
            sys.stdout.buffer.write(text)
    print_lines(problem_lines(DelaySums().problems(recording.data)))  # of lost events; delays, which may be wrong, are not added up


_MOST_CPUS = 4096


def _numbers(option: str, text: str) -> frozenset[int]:
    try:
        return frozenset(parse_cpu_list(text)) if text else frozenset()
    except ValueError as error:
        fail(f"{option} {text!r}: {error}")


_NAMES: Final = 26


class TaskNameFilter(NamedTuple):
    """Names of tasks to show.

    Attributes:
        names: allowed names.
        in_part: whether a part of a name suffices.
    """

    names: Collection[str]
    in_part: bool

    def mask(self, comms: list[str]) -> NDArray[np.bool_]:
        """Return which names are allowed."""
        if self.in_part:
            return np.array([any(name in comm for name in self.names) for comm in comms], bool)
        return np.array([comm in self.names for comm in comms], bool)


class SwitchMap(NamedTuple):
    """The switches of a window as rows, and the lines to show.

    Attributes:
        time, cpu: int64[n], of each switch.
        thread: int64[n], the number of the thread that came.
        is_new: bool[n], whether the thread came for the first time, or has got a name since its last line.
        comm: int64[n], index of the thread's name.
        tids: the threads that came for the first time in this window, in order of their numbers.
        is_hidden: of each of `tids`: whether the filter of names excluded it when it came first.
        line: the switch of each line.
        is_departure: of each line: whether it shows that a thread left, instead of the arrival.
    """

    time: NDArray[np.int64]
    cpu: NDArray[np.int64]
    thread: NDArray[np.int64]
    is_new: NDArray[np.bool_]
    comm: NDArray[np.int64]
    tids: NDArray[np.int64]
    is_hidden: NDArray[np.bool_]
    line: NDArray[np.int64]
    is_departure: NDArray[np.bool_]


class MapMaker:
    """Makes the map of a recording window by window.

    Args:
        source, timeline: of the recording.
        names: of the tasks to show; None: all.
        cpus: whose switches have lines; None: all.
    """

    def __init__(
        self, source: SampleSource, timeline: TaskTimeline, names: TaskNameFilter | None, cpus: Collection[int] | None = None
    ) -> None:
        self._timeline, self._names, self._cpus = timeline, names, cpus
        self._threads = IdTable()  # of tids, in order of their first arrival on a CPU
        self._versions = Growing(np.int64)  # of each thread's name at its last line; 0: none
        # Numbers that change when a thread gets a name; 0 before. Names that threads had when the recording began have no time. As in
        # perf, they count for the idle thread.
        records = source.side_band({RecordType.COMM}).task_numbers()
        named = np.where(records.time, records.tid, 0).astype(np.int64)
        self._named = DeliveredValues(named, records.key, np.arange(1, len(named) + 1))

    @property
    def thread_count(self) -> int:
        """The number of threads so far."""
        return len(self._threads)

    def add(self, events: SchedEvents) -> SwitchMap:
        """Return the map of the next window."""
        rows = events.switches
        count, earlier = len(rows.order), len(self._threads)
        cpu, tid = rows.cpu.astype(np.int64), rows.fields["next_pid"].astype(np.int64)
        comm = self._timeline.comm_ids(tid, rows.key).astype(np.int64)
        numbers, first = self._threads.ids_and_new(tid.view(np.uint64))
        thread = numbers.astype(np.int64)
        is_first = np.zeros(count, bool)
        is_first[first] = True
        self._versions.append(np.zeros(len(first), np.int64))
        has_line = np.ones(count, bool) if self._cpus is None else np.isin(cpu, list(self._cpus))
        if self._names is None:
            comes, leaves = has_line, np.zeros(count, bool)
            is_hidden = np.zeros(len(first), bool)
        else:
            left = self._timeline.comm_ids(rows.fields["prev_pid"], rows.key)
            allowed = self._names.mask(self._timeline.comms)
            is_hidden = ~allowed[comm][first]
            comes = allowed[comm] & has_line
            leaves = allowed[left] & has_line & self._has_come(rows.fields["prev_pid"], first, earlier)
        is_new = is_first | self._changed_since_line(thread, self._named.find(tid, rows.key, 0).astype(np.int64), comes)
        line = np.concatenate([np.flatnonzero(comes), np.flatnonzero(leaves)])
        is_departure = np.arange(len(line)) >= int(comes.sum())
        if is_departure.any():
            order = np.lexsort((is_departure, line))
            line, is_departure = line[order], is_departure[order]
        return SwitchMap(rows.time, cpu, thread, is_new, comm, tid[first], is_hidden, line, is_departure)

    def _has_come(self, left: NDArray[Any], first: NDArray[np.int64], earlier: int) -> NDArray[np.bool_]:
        """Return whether the thread that leaves at each row came at an earlier one. As in perf, others have no line when they leave.

        Args:
            left: the threads that leave.
            first: the rows at which threads come for the first time.
            earlier: the number of threads that came in earlier windows.
        """
        tids = self._threads.keys.view(np.int64)
        since = np.concatenate([np.full(earlier, -1), first])
        order = np.argsort(tids)
        thread = order.take(np.searchsorted(tids[order], left), mode="clip")
        has_come: NDArray[np.bool_] = (tids[thread] == left) & (since[thread] < np.arange(len(left)))
        return has_come

    def _changed_since_line(self, thread: NDArray[np.int64], version: NDArray[np.int64], has_line: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Return where a thread got a name since its last line, or before its first one, as in perf."""
        changed = np.zeros(len(thread), bool)
        rows = rows_where(has_line)
        numbers, version = thread[rows], version[rows]
        before = previous_of(numbers)
        changed[rows] = version != np.where(before >= 0, version[before], self._versions.values[numbers])
        self._versions.values[numbers] = version  # the last write counts
        return changed


def shortname(number: int) -> str:
    """Return the short name of the number-th thread: A0 to Z0, then A1, and again A0 after Z9.

    >>> shortname(0), shortname(25), shortname(26), shortname(260)
    ('A0', 'Z0', 'A1', 'A0')
    """
    return f"{chr(ord('A') + number % _NAMES)}{number // _NAMES % 10}"


_IDLE: Final = b".  "
_HIDDEN: Final = b"-  "
_UNKNOWN: Final = b"   "
_AT_ONCE: Final = 1 << 16  # lines
_BLUE, _RED_BACKGROUND, _END = b"\x1b[34m", b"\x1b[41m", b"\x1b[m"
_MICROSECONDS: Final = 1_000_000


class MapStyle(NamedTuple):
    """Options for the map.

    Attributes:
        cpu_count: the number of columns at first, which CPUs of the first window add to; there are more as soon as one with a higher
            number switches.
        compact: only columns of CPUs with switches, in order of their first one.
        blue_tids: highlighted threads.
        red_cpus: highlighted CPUs.
        names_always: whether each line names the thread that came, unless it is the idle one (-v).
    """

    cpu_count: int
    compact: bool = False
    blue_tids: Collection[int] = ()
    red_cpus: Collection[int] = ()
    names_always: bool = False


class MapLines:
    """Formats the lines of a map, window by window.

    The text is perf 6.12's, byte for byte.

    Args:
        style: the layout.
        comm_of: returns a name by its index.
    """

    def __init__(self, style: MapStyle, comm_of: Callable[[int], str]) -> None:
        self._style, self._comm_of = style, comm_of
        self._cells: list[bytes] = []  # the text of a CPU's cell by thread
        self._tids: list[int] = []
        self._names = 0  # the number of short names so far
        self._columns = [] if style.compact else list(range(style.cpu_count))  # the CPU of each column
        self._running: dict[int, int] = {}  # the thread that came to each CPU last

    def blocks(self, rows: SwitchMap) -> Iterator[bytes]:
        """Yield the text of a window, some thousands of lines at a time."""
        self._add_cells(rows)
        first = first_rows(rows.cpu)
        columns = dict.fromkeys(self._columns, -1) | self._new_columns(rows.cpu, first)
        self._columns = list(columns)
        is_first = np.zeros(len(rows.cpu), bool)
        is_first[first] = [cpu not in self._running for cpu in rows.cpu[first].tolist()]
        switches_of = {cpu: rows_where(rows.cpu == cpu) for cpu in columns}
        for begin in range(0, len(rows.line), _AT_ONCE):
            part = slice(begin, begin + _AT_ONCE)
            switch, departure = rows.line[part], rows.is_departure[part]
            pieces: list[Piece] = [b"  "]
            for cpu, since in columns.items():
                pieces.append(self._cells_of(rows, cpu, switches_of[cpu], since, switch, departure))
            micros = rows.time[switch] // 1000
            seconds, which = number_values(micros // _MICROSECONDS)
            pieces += [Coded(which, [b"  %5d." % second for second in seconds.tolist()])]
            pieces += [*micros_pieces(micros % _MICROSECONDS), b" secs "]
            yield from _with_legends(pieces, self._legends(rows, is_first, switch, departure), len(switch))
        last = len(rows.cpu) - 1 - first_rows(rows.cpu[::-1])
        self._running.update(zip(rows.cpu[last].tolist(), rows.thread[last].tolist(), strict=True))

    def _add_cells(self, rows: SwitchMap) -> None:
        for tid, hidden in zip(rows.tids.tolist(), rows.is_hidden.tolist(), strict=True):
            if tid == 0:
                self._cells.append(_IDLE)
            elif hidden:
                self._cells.append(_HIDDEN)
            else:
                text = f"{shortname(self._names):<3}".encode()
                self._cells.append(_BLUE + text + _END if tid in self._style.blue_tids else text)
                self._names += 1
        self._tids += rows.tids.tolist()

    def _new_columns(self, cpu: NDArray[np.int64], first: NDArray[np.int64]) -> dict[int, int]:
        """Return the columns that a window adds: CPU -> the switch from which on the column is there."""
        columns: dict[int, int] = {}
        if self._style.compact:
            known = frozenset(self._columns)
            return {number: row for number, row in zip(cpu[first].tolist(), first.tolist(), strict=True) if number not in known}
        count, is_begin = len(self._columns), not self._running
        for number, row in zip(cpu[first].tolist(), first.tolist(), strict=True):
            added = range(count + len(columns), min(number + 1, _MOST_CPUS))
            columns |= dict.fromkeys(added, -1 if is_begin else row)
        return columns

    def _cells_of(
        self, rows: SwitchMap, cpu: int, own: NDArray[np.intp], since: int, switch: NDArray[np.int64], departure: NDArray[np.bool_]
    ) -> Piece:
        """Return the cells of one CPU. own: its switches; since: the switch from which on it has a column."""
        hidden, unknown = len(self._cells), len(self._cells) + 1
        before = np.append(self._running.get(cpu, unknown), rows.thread[own])
        thread = before[np.searchsorted(own, switch, side="right")]
        is_here = rows.cpu[switch] == cpu
        if departure.any():
            thread = np.where(is_here & departure, hidden, thread)
        cells = [*self._cells, _HIDDEN, _UNKNOWN]
        codes = thread + len(cells) * is_here
        texts = [b" " + text for text in cells] + [b"*" + text for text in cells]
        if cpu in self._style.red_cpus:
            texts = [_RED_BACKGROUND + text + _END for text in texts]
        if since >= 0:
            codes, texts = np.where(switch < since, len(texts), codes), [*texts, b""]
        return Coded(codes, texts)

    def _legends(
        self, rows: SwitchMap, is_first: NDArray[np.bool_], switch: NDArray[np.int64], departure: NDArray[np.bool_]
    ) -> dict[int, bytes]:
        """Return the texts behind the times, by line. is_first: whether a switch is the first of its CPU."""
        texts: dict[int, bytes] = {}
        is_named = rows.is_new[switch]
        if self._style.names_always:
            is_named |= np.array(self._tids, np.int64)[rows.thread[switch]] != 0
        for line in np.flatnonzero(is_named & ~departure).tolist():
            index = int(switch[line])
            thread = int(rows.thread[index])
            name = one_line_bytes(self._comm_of(int(rows.comm[index])).encode("utf-8", "surrogateescape"))
            texts[line] = b"%s => %s:%d" % (self._cells[thread][:2], name, self._tids[thread])
        if self._style.compact:
            for line in np.flatnonzero(is_first[switch] & ~departure).tolist():
                texts[line] = texts.get(line, b"") + b" (CPU %d)" % int(rows.cpu[switch[line]])
        return texts


def _with_legends(pieces: list[Piece], legends: dict[int, bytes], count: int) -> Iterator[bytes]:
    """Yield the text of lines. legends: the ends of some lines."""
    equal = text_of_equal_lines([*pieces, b"\n"], count)
    if equal is None:
        yield b"".join(Joiner().join([*pieces, [legends.get(line, b"") for line in range(count)], b"\n"], count).parts)
        return
    text, width, begin = memoryview(equal), len(equal) // count, 0
    for line in sorted(legends):
        end = (line + 1) * width - 1
        yield bytes(text[begin:end]) + legends[line]
        begin = end
    yield bytes(text[begin:])
