"""`perfpy sched map`: which thread each CPU ran."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.cpu_list import parse_cpu_list
from perfpy.abi.flags import RecordType
from perfpy.cli.line.option_parsing import fail
from perfpy.cli.output.terminal import is_terminal
from perfpy.scheduling.switch_times import previous_of
from perfpy.symbols.address_spaces import DeliveredValues
from perfpy.symbols.interning import first_rows, number_values
from perfpy.tools.sched.options import open_sched
from perfpy.tools.sched.timehist import micros_pieces
from perfpy.untrusted.text import one_line_bytes, visible
from perfpy.views.script.pieces import Coded, Joiner

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from typing import Any

    from numpy.typing import NDArray

    from perfpy.analysis.scheduler import SchedEvents
    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.recording import Recording
    from perfpy.symbols.address_spaces import TaskTimeline
    from perfpy.tools.sched.options import MapOptions
    from perfpy.views.script.pieces import Piece


def run(options: MapOptions) -> int:
    """Show which thread each CPU ran over time."""
    if options.fuzzy_name and not options.task_name:
        fail("--fuzzy-name requires --task-name")
    with open_sched(options) as recording:
        _show(recording, options)
    return 0


def _show(recording: Recording, options: MapOptions) -> None:
    from perfpy.analysis.scheduler import read_events

    options.dump(recording)
    events = read_events(recording.data, runtimes=False, wakeups=False, columns=("cpu",))
    timeline = recording.make_timeline(keep_exited=True, has_spaces=False)
    names = TaskNameFilter(frozenset(options.task_name.split(",")), options.fuzzy_name) if options.task_name else None
    cpus = _numbers("--cpus", options.cpus) if options.cpus else None
    rows = make_map(events, recording.data, timeline, names, cpus)
    count = recording.header.get("nrcpus")
    highest = int(rows.cpu.max(initial=-1)) + 1
    on_terminal = is_terminal()
    style = MapStyle(
        max(int(count.online) if count else 0, min(highest, _MOST_CPUS)),
        compact=options.compact,
        blue_tids=_numbers("--color-pids", options.color_pids) if on_terminal else (),
        red_cpus=_numbers("--color-cpus", options.color_cpus) if on_terminal else (),
    )
    comms = [visible(comm) for comm in timeline.comms] if on_terminal else timeline.comms
    sys.stdout.flush()
    for text in map_lines(rows, comms, style):
        sys.stdout.buffer.write(text)


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
    """The switches as rows, and the lines to show.

    Attributes:
        time, cpu: int64[n], of each switch.
        thread: int64[n], the thread that came, as an index into `tids`.
        is_new: bool[n], whether the thread came for the first time, or has got a name since its last line.
        comm: int64[n], index of the thread's name.
        tids: the threads by first arrival on a CPU.
        is_hidden: of each thread: whether the filter of names excluded it when it came first.
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


def make_map(
    events: SchedEvents,
    source: SampleSource,
    timeline: TaskTimeline,
    names: TaskNameFilter | None,
    cpus: Collection[int] | None = None,
) -> SwitchMap:
    """Return the map of a recording.

    Args:
        events, source, timeline: of the recording.
        names: of the tasks to show; None: all.
        cpus: whose switches have lines; None: all.
    """
    rows = events.switches
    count = len(rows.order)
    cpu, tid = rows.cpu.astype(np.int64), rows.fields["next_pid"]
    comm = timeline.comm_ids(tid, rows.key).astype(np.int64)
    tids, numbers = number_values(tid)  # in order of their first rows
    thread = numbers.astype(np.int64)
    version = _comm_versions(source, tid, rows.key)
    before = previous_of(thread)
    is_first = before < 0
    has_line = np.ones(count, bool) if cpus is None else np.isin(cpu, list(cpus))
    if names is None:
        comes, leaves = has_line, np.zeros(count, bool)
        is_hidden = np.zeros(len(tids), bool)
    else:
        left = timeline.comm_ids(rows.fields["prev_pid"], rows.key)
        allowed = names.mask(timeline.comms)
        is_hidden = ~allowed[comm][is_first]
        comes = allowed[comm] & has_line
        leaves = allowed[left] & has_line & _has_come(rows.fields["prev_pid"], tids, np.flatnonzero(is_first))
    is_new = is_first | _changed_since_line(thread, version, comes)
    line = np.concatenate([np.flatnonzero(comes), np.flatnonzero(leaves)])
    is_departure = np.arange(len(line)) >= int(comes.sum())
    order = np.lexsort((is_departure, line))
    return SwitchMap(rows.time, cpu, thread, is_new, comm, tids, is_hidden, line[order], is_departure[order])


def _has_come(left: NDArray[Any], tids: NDArray[np.int64], first: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return whether the thread that leaves at each row came at an earlier one. As in perf, others have no line when they leave.

    Args:
        left: the threads that leave.
        tids, first: the threads that come, and the first row of each.
    """
    order = np.argsort(tids)
    thread = order.take(np.searchsorted(tids[order], left), mode="clip")
    has_come: NDArray[np.bool_] = (tids[thread] == left) & (first[thread] < np.arange(len(left)))
    return has_come


def _changed_since_line(thread: NDArray[np.int64], version: NDArray[np.int64], has_line: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return where a thread got a name since its last line, or before its first one, as in perf."""
    changed = np.zeros(len(thread), bool)
    rows = np.flatnonzero(has_line)
    before = previous_of(thread[rows])
    changed[rows] = version[rows] != np.where(before >= 0, version[rows][before], 0)
    return changed


def _comm_versions(source: SampleSource, tid: NDArray[np.int64], key: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return numbers that change when a thread gets a name; 0 before.

    Names that threads had when the recording began have no time. As in perf, they count for the idle thread.
    """
    records = source.side_band({RecordType.COMM}).task_numbers()
    named = np.where(records.time, records.tid, 0).astype(np.int64)
    history = DeliveredValues(named, records.key, np.arange(1, len(named) + 1))
    return history.find(tid, key, 0).astype(np.int64)


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
        cpu_count: the number of columns.
        compact: only columns of CPUs with switches, in order of their first one.
        blue_tids: highlighted threads.
        red_cpus: highlighted CPUs.
    """

    cpu_count: int
    compact: bool = False
    blue_tids: Collection[int] = ()
    red_cpus: Collection[int] = ()


def map_lines(rows: SwitchMap, comms: Sequence[str], style: MapStyle) -> Iterator[bytes]:
    """Yield pieces of text with some thousands of lines each.

    The text is perf 6.12's, byte for byte.

    Args:
        rows: of a recording.
        comms: the names of threads, by index.
        style: the layout.
    """
    map_text = _MapText(rows, comms, style)
    for begin in range(0, len(map_text.lines), _AT_ONCE):
        yield map_text.text(map_text.lines[begin : begin + _AT_ONCE])


class _MapText:
    """The state of all CPUs at each line."""

    def __init__(self, rows: SwitchMap, comms: Sequence[str], style: MapStyle) -> None:
        self._rows = rows
        self._comms = comms
        self._style = style
        self._cells = self._cell_texts()
        self.lines = np.arange(len(rows.line))
        self._columns = self._column_cpus()
        self._switches_of = {cpu: np.flatnonzero(rows.cpu == cpu) for cpu, _ in self._columns}
        self._first_switches = frozenset(_first_rows(rows.cpu).values())

    def _cell_texts(self) -> list[bytes]:
        """Return the texts of a CPU's cell by thread; then those of a hidden thread and of none."""
        rows, texts = self._rows, []
        number = 0
        for tid, hidden in zip(rows.tids.tolist(), rows.is_hidden.tolist(), strict=True):
            if tid == 0:
                texts.append(_IDLE)
            elif hidden:
                texts.append(_HIDDEN)
            else:
                text = f"{shortname(number):<3}".encode()
                texts.append(_BLUE + text + _END if tid in self._style.blue_tids else text)
                number += 1
        return [*texts, _HIDDEN, _UNKNOWN]

    def _column_cpus(self) -> list[tuple[int, int]]:
        """Return the CPU of each column, and the switch from which on the column is there."""
        rows, style = self._rows, self._style
        if not style.compact:
            return [(cpu, -1) for cpu in range(style.cpu_count)]
        return list(_first_rows(rows.cpu).items())

    def text(self, lines: NDArray[np.int64]) -> bytes:
        """Return the text of some lines."""
        rows = self._rows
        switch, departure = rows.line[lines], rows.is_departure[lines]
        pieces: list[Piece] = [b"  "]
        for cpu, since in self._columns:
            pieces.append(self._cells_of(cpu, since, switch, departure))
        micros = rows.time[switch] // 1000
        seconds, which = number_values(micros // _MICROSECONDS)
        pieces += [Coded(which, [b"  %5d." % second for second in seconds.tolist()])]
        pieces += [*micros_pieces(micros % _MICROSECONDS), b" secs ", self._legends(switch, departure), b"\n"]
        return b"".join(Joiner().join(pieces, len(lines)).parts)

    def _cells_of(self, cpu: int, since: int, switch: NDArray[np.int64], departure: NDArray[np.bool_]) -> Piece:
        rows, count = self._rows, len(self._cells)
        own = self._switches_of[cpu]
        last = np.searchsorted(own, switch, side="right") - 1
        thread = np.where(last >= 0, rows.thread[own[np.maximum(last, 0)]] if len(own) else 0, count - 1)
        is_here = rows.cpu[switch] == cpu
        thread = np.where(is_here & departure, count - 2, thread)
        codes = thread + count * is_here
        texts = [b" " + text for text in self._cells] + [b"*" + text for text in self._cells]
        if cpu in self._style.red_cpus:
            texts = [_RED_BACKGROUND + text + _END for text in texts]
        if since >= 0:
            codes, texts = np.where(switch < since, len(texts), codes), [*texts, b""]
        return Coded(codes, texts)

    def _legends(self, switch: NDArray[np.int64], departure: NDArray[np.bool_]) -> Piece:
        rows = self._rows
        texts = [b""] * len(switch)
        for line in np.flatnonzero(rows.is_new[switch] & ~departure).tolist():
            index = int(switch[line])
            thread = int(rows.thread[index])
            name = one_line_bytes(self._comms[int(rows.comm[index])].encode("utf-8", "surrogateescape"))
            texts[line] = b"%s => %s:%d" % (self._cells[thread][:2], name, int(rows.tids[thread]))
        if self._style.compact:
            for line in np.flatnonzero(np.isin(switch, list(self._first_switches)) & ~departure).tolist():
                texts[line] += b" (CPU %d)" % int(rows.cpu[switch[line]])
        return texts


def _first_rows(values: NDArray[np.int64]) -> dict[int, int]:
    """Return the first row of each value, by ascending row."""
    first = first_rows(values)
    return dict(zip(values[first].tolist(), first.tolist(), strict=True))
