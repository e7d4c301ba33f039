"""`perfpy sched timehist`: each switch with its times."""

from __future__ import annotations

import sys

import numpy as np

from perfpy.abi.columns import Columns
from perfpy.abi.cpu_list import parse_cpu_list
from perfpy.abi.flags import RecordType, SampleType
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple
from perfpy.abi.perfpy_encodings import STATE_BITS
from perfpy.cli.line.input_recording import LOSSES
from perfpy.cli.line.shared_options import kernel_symbolizer
from perfpy.cli.output.terminal import print_lines
from perfpy.errors import PerfError, RefusedOptionsError
from perfpy.symbols.interning import number_values
from perfpy.tools.sched.latency import written_by_seven
from perfpy.tools.sched.options import chosen_cpus, open_sched
from perfpy.tools.sched.summary import SummarySums
from perfpy.tools.sched.switches import HistoryMaker, Narrowing, TaskFilter, rows_of, rows_of_events, taken
from perfpy.untrusted.text import byte_width, indented, one_line_bytes
from perfpy.views.pieces import Coded, Joiner, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from typing import Any, Final

    from numpy.typing import NDArray

    from perfpy.abi.records import Lost
    from perfpy.perfdata.records.delivery import RawRecords
    from perfpy.perfdata.sample_source import FileSource
    from perfpy.recording import Recording
    from perfpy.symbols.address_spaces import TaskTimeline
    from perfpy.tools.sched.options import TimehistOptions
    from perfpy.tools.sched.summary import IdleChain, Summary, ThreadSummary
    from perfpy.tools.sched.switches import History, Switches, TaskColumn, TaskEvents
    from perfpy.views.pieces import Piece


def run(options: TimehistOptions) -> int:
    """Show each switch with the times that its thread waited and ran."""
    if (options.wakeups and options.summary) or (options.next and options.summary):
        print(" Error: -s and -[n|w] are mutually exclusive.", file=sys.stderr)
        raise RefusedOptionsError("-s excludes -n and -w; use -S for both")
    with open_sched(options, losses=LOSSES[1:]) as recording:
        _Timehist(recording, options).show()
    return 0


class _Timehist:
    """One run over an open recording."""

    def __init__(self, recording: Recording, options: TimehistOptions) -> None:
        self._recording = recording
        self._options = options
        self._comms: list[str] = []  # the names of threads

    def _make_timeline(self) -> TaskTimeline:
        """Return the names of threads as far as they are known."""
        return self._recording.make_timeline(keep_exited=False, has_spaces=False, comms=self._comms)

    def show(self) -> None:
        """Print lines and summary, window by window."""
        from perfpy.analysis.scheduler import event_windows

        recording, options = self._recording, self._options
        options.check_symbol_files()
        options.dump(recording)
        has_chains = options.call_graph and self._has_chains()
        takes_names = bool(options.pre_migrations or options.comm) or written_by_seven(recording)
        shows_chains = has_chains and (options.idle_hist or not options.summary)
        shows_migrations = options.migrations or options.pre_migrations
        # The filters look at the threads that woke others, too.
        shows_wakers = bool(options.wakeups or options.migrations or options.pid or options.tid or options.comm or options.prio)
        has_priorities = bool(options.prio or options.show_prio)
        maker = HistoryMaker(
            recording.data, self._make_timeline, takes_names=takes_names, shows_wakers=shows_wakers, has_priorities=has_priorities
        )
        unused = ("target_cpu", *(() if has_priorities else ("prev_prio", "next_prio")))
        windows = event_windows(
            recording.data, runtimes=False, migrations=shows_migrations, chains=shows_chains, comms=options.next or takes_names,
            unused=unused, of_switches_only=not shows_wakers, is_settled=True, least=maker.least,
        )  # fmt: skip
        narrowing, style = self._narrowing(), self._style(with_chains=has_chains)
        lines = TimehistLines(style, self._comms)
        totals = SummarySums(with_migrations=shows_migrations, idle_only=options.idle_hist)
        is_complete = True
        if not options.summary:
            print_lines(header_lines(style, is_seven=written_by_seven(recording)))
        sys.stdout.flush()
        losses = PendingLosses(recording.data)
        for events in windows:
            shown, history = narrowing.apply(maker.add(events))
            is_complete = is_complete and bool(shown[history.kept :].all())
            if not options.summary:
                self._print_events(history, shown, lines, losses, with_chains=has_chains)
            if options.summary or options.with_summary:
                totals.add(history, shown)
                if has_chains and options.idle_hist:
                    totals.add_idle_chains(history.switches, shown, self._chain_texts)
        sys.stdout.buffer.write(losses.rest())
        if options.summary or options.with_summary:
            self._print_summary(totals, maker, lines.width, is_complete=is_complete, with_chains=has_chains)

    def _has_chains(self) -> bool:
        """Whether switches have callchains; print perf's line if they do not."""
        from perfpy.analysis.scheduler import SWITCH

        if any(event.name == SWITCH and event.attr.sample_type & SampleType.CALLCHAIN for event in self._recording.events):
            return True
        print("Samples of sched_switch event do not have callchains.", file=sys.stderr)
        return False

    def _narrowing(self) -> Narrowing:
        """Return the filters."""
        options, recording = self._options, self._recording
        span = (0, 0)
        if options.time:
            from perfpy.analysis.filters import ranges_of

            span = ranges_of(options.time, recording.times()).bounded_pairs[0]
        names = frozenset(options.comm.split(",")) if options.comm else None
        tasks = TaskFilter(_numbers("-p", options.pid), _numbers("-t", options.tid), names, _chosen_priorities(options.prio), self._comms)
        cpus = chosen_cpus(options.cpu)
        if cpus is not None:
            from perfpy.analysis.filters import check_cpus

            check_cpus(cpus, recording.data)
        return Narrowing(tasks, cpus, span, idle_only=options.idle_hist)

    def _print_events(
        self, history: History, shown: NDArray[np.bool_], lines: TimehistLines, losses: PendingLosses, *, with_chains: bool
    ) -> None:
        """Print the lines of a window."""
        options = self._options
        switches = taken(history, shown)
        chains = self._chain_texts(switches) if with_chains else None
        wakeups, migrations = history.wakeups if options.wakeups else None, history.migrations if options.migrations else None
        shown_events = [(one.key, one.order) for one in (switches, wakeups, migrations) if one is not None]
        blocks = lines.blocks(switches, chains, wakeups, migrations, losses.among(shown_events))
        for block in blocks:
            sys.stdout.buffer.write(block)

    def _style(self, *, with_chains: bool) -> TimehistStyle:
        options = self._options
        return TimehistStyle(
            wakeups=options.wakeups, migrations=options.migrations, next=options.next, state=options.state, priority=options.show_prio,
            before_migration=options.pre_migrations, cpus=self._cpu_count() + 1 if options.cpu_visual else 0, chains=with_chains,
            idle_chains=options.idle_hist,
        )  # fmt: skip

    def _chain_texts(self, switches: Switches) -> list[bytes]:
        from perfpy.views.readable import chain_texts

        options = self._options
        columns = Columns(len(switches.time), {"callchain": switches.chains} if switches.chains is not None else {})
        symbolizer = kernel_symbolizer(options, self._recording, symfs=options.symfs, force=options.force)
        texts = chain_texts(
            columns,
            switches.task.pid.astype(np.int32) if switches.sampled_pid is None else switches.sampled_pid,
            switches.key,
            symbolizer,
            options.max_stack,
        )
        if options.idle_hist:
            return texts
        return [b"" if tid == 0 else text for tid, text in zip(switches.task.tid.tolist(), texts, strict=True)]

    def _print_summary(self, totals: SummarySums, maker: HistoryMaker, width: int, *, is_complete: bool, with_chains: bool) -> None:
        options = self._options
        summary = totals.summary(self._recording.data, maker.last_comms, cpus=self._cpu_count())
        if with_chains and options.idle_hist:
            summary = summary._replace(idle_chains=totals.idle_chains())
        is_complete = is_complete or not (options.pid or options.tid or options.comm or options.prio)
        cpus = chosen_cpus(options.cpu)
        print_lines(
            summary_lines(
                summary,
                self._comms,
                idle_only=options.idle_hist,
                is_complete=is_complete,
                cpus=cpus,
                shows_waits=options.state,
                width=width,
            )
        )

    def _cpu_count(self) -> int:
        count = self._recording.header.get("nrcpus")
        return int(count.online) if count else 1


def _numbers(option: str, text: str) -> frozenset[int] | None:
    if not text:
        return None
    try:
        return frozenset(int(word) for word in text.split(","))
    except ValueError:
        raise PerfError(f"{option} {text}: expected a list of numbers, for example 10,20") from None


def _chosen_priorities(text: str) -> frozenset[int] | None:
    """Return the priorities of a list of numbers and ranges."""
    try:
        return frozenset(parse_cpu_list(text)) if text else None
    except ValueError:
        raise PerfError(f"--prio {text}: expected a list of numbers or ranges, for example 50,100-120") from None


_AT_ONCE: Final = 1 << 15  # lines
_STATE_LETTERS = {0: b"R", **{bit: letter.encode() for bit, letter in STATE_BITS}}


class TimehistStyle(NamedTuple):
    """Which columns are shown.

    Attributes:
        wakeups, migrations: whether these lines are shown.
        next, state, priority, before_migration: further columns of switches.
        cpus: the width of the picture of CPUs; 0: none.
        chains: whether callchains are shown.
        idle_chains: whether the idle threads have callchains, too (-I).
    """

    wakeups: bool = False
    migrations: bool = False
    next: bool = False
    state: bool = False
    priority: bool = False
    before_migration: bool = False
    cpus: int = 0
    chains: bool = False
    idle_chains: bool = False


def header_lines(style: TimehistStyle, *, is_seven: bool = False) -> list[str]:
    """Return the three lines above the columns. is_seven: as perf 7, which has no blanks below the state's title."""
    picture = "".join(f"{i % 16:x}" for i in range(style.cpus))
    columns = [(f"{'time':>15} {'cpu':>6}", " " * 22, f"{'-' * 15} {'-' * 6}")]
    if style.cpus:
        columns.append((picture, " " * style.cpus, "-" * style.cpus))
    columns.append((f"{'task name':<{NAME_WIDTH}}", f"{'[tid/pid]':<{NAME_WIDTH}}", "-" * NAME_WIDTH))
    if style.priority:
        columns.append((f"{'prio':<8}", " " * 8, "-" * 8))
    columns += [(f"{word:>9}", f"{'(msec)':>9}", "-" * 9) for word in ("wait time", "sch delay", "run time")]
    if style.before_migration:
        columns.append(("pre-mig time", f"{'(msec)':>9}", "-" * 9))
    if style.state:
        columns.append((f"{'state':>5}", " " * 5, "-" * 5))
    titles, units, rules = ("  ".join(texts) for texts in zip(*columns, strict=True))
    return [titles, units[: -len("  state")] if style.state and is_seven else units, rules]


class LossLines(NamedTuple):
    """Lines about lost events.

    Attributes:
        order: float64[n], between those of the events.
        lines: the lines.
    """

    order: NDArray[np.float64]
    lines: list[bytes]

    def take(self, rows: slice) -> LossLines:
        """Select rows."""
        return LossLines(self.order[rows], self.lines[rows])


class PendingLosses:
    """The lines about lost events that are still to be printed."""

    def __init__(self, source: FileSource) -> None:
        self._source, self._printed = source, 0
        self._side_band: RawRecords | None = None  # of the lines
        self._keys, self._lines = np.zeros(0, np.uint64), list[bytes]()

    def _update(self) -> None:
        """Take over what was read of the side-band since the last window."""
        known = self._source.records.known_side_band
        if known is not self._side_band:
            self._side_band = known
            sides = list(self._source.side_band([RecordType.LOST]))[self._printed :]
            self._keys = np.array([side.key for side in sides], np.uint64)
            self._lines = [_loss_line(side.record) for side in sides]

    def among(self, events: Sequence[tuple[NDArray[np.uint64], NDArray[np.int64]]]) -> LossLines | None:
        """Return the next lines, up to the last of these events (keys, orders); None without."""
        self._update()
        last = max((int(keys[-1]) for keys, _ in events if len(keys)), default=-1)
        count = int(self._keys.searchsorted(np.uint64(last), side="right")) if last >= 0 else 0
        if not count:
            return None
        following = np.full(count, np.inf)
        for keys, orders in events:
            rows = keys.searchsorted(self._keys[:count])
            following = np.minimum(following, np.append(orders, np.inf)[rows])
        lines = LossLines(following - 0.5, self._lines[:count])
        self._keys, self._lines, self._printed = self._keys[count:], self._lines[count:], self._printed + count
        return lines

    def rest(self) -> bytes:
        """Return the lines after the last event."""
        self._update()
        return b"".join(self._lines)


def _loss_line(lost: Lost) -> bytes:
    seconds, rest = divmod((-1 if lost.sample_id is None else lost.sample_id.time or 0) % (1 << 64), 1_000_000_000)
    cpu = -1 if lost.sample_id is None else lost.sample_id.cpu
    return f"{f'{seconds}.{rest // 1000:06d}':>15} lost {lost.lost} events on cpu {-1 if cpu is None else cpu}\n".encode()


class TimehistLines:
    """Formats lines.

    The text is perf 6.12's, byte for byte.

    Args:
        style: the columns.
        comms: the names of threads, by index.
    """

    def __init__(self, style: TimehistStyle, comms: Sequence[str]) -> None:
        self._style = style
        self._texts = TaskColumnTexts(comms)
        self._widened = _NEVER  # the order of the event with the first name that is longer than NAME_WIDTH

    @property
    def width(self) -> int:
        """The width of names after the lines so far."""
        return NAME_WIDTH if self._widened == _NEVER else _LONGEST_NAME

    def blocks(
        self,
        switches: Switches,
        chains: list[bytes] | None,
        wakeups: TaskEvents | None,
        migrations: TaskEvents | None,
        losses: LossLines | None = None,
    ) -> Iterator[bytes]:
        """Yield the lines of a window in order, some thousands at a time.

        Args:
            switches, wakeups, migrations, losses: by ascending order; None: not shown.
            chains: the text of each switch's callchain.
        """
        names = _idle_named(self._texts.coded(switches.task), switches.task.tid)
        if self._widened == _NEVER:
            self._widened = min(
                _first_long(switches.order, names),
                *(_first_long(one.order, *map(self._texts.coded, (one.by, one.task))) for one in (wakeups, migrations) if one is not None),
                _NEVER,
            )
        else:
            self._widened = -1  # orders are those of a window
        names = self._padded(names, switches.order)
        others = [(events, lines) for events, lines in ((wakeups, self._wakeups), (migrations, self._migrations)) if events is not None]
        begins, lost_before = [0] * len(others), 0
        for begin in range(0, max(len(switches.time), 1), _AT_ONCE):
            rows = slice(begin, begin + _AT_ONCE)
            block = rows_of(switches, rows)
            chain_block = None if chains is None else chains[rows]
            pieces = self._switches(block, names._replace(codes=names.codes[rows]), chain_block)
            if not others and losses is None:
                yield text_of(pieces, len(block.time))
                continue
            is_last = begin + _AT_ONCE >= len(switches.time)
            parts: list[tuple[NDArray[Any], list[bytes]]] = [(block.order, Joiner().join(pieces, len(block.time)).lines())]
            for number, (events, lines) in enumerate(others):
                end = len(events.order) if is_last else int(events.order.searchsorted(block.order[-1]))
                part = rows_of_events(events, slice(begins[number], end))
                parts.append((part.order, lines(part)))
                begins[number] = end
            if losses is not None:
                end = len(losses.order) if is_last else int(losses.order.searchsorted(block.order[-1]))
                parts.append(losses.take(slice(lost_before, end)))
                lost_before = end
            order = np.argsort(np.concatenate([part[0] for part in parts]), kind="stable").tolist()
            texts = [line for part in parts for line in part[1]]
            yield b"".join(map(texts.__getitem__, order))

    def _padded(self, names: Coded, order: NDArray[np.int64], *, is_later: bool = False) -> Coded:
        """Return names padded to the width that events have from the first long name on. is_later: they are printed after such a name."""
        if self._widened == _NEVER:
            return padded(names, NAME_WIDTH)
        is_wide = order >= self._widened if is_later else order > self._widened
        both, codes = number_values(names.codes.astype(np.int64) << np.int64(1) | is_wide)
        return Coded(codes, [names.texts[one >> 1].ljust(_LONGEST_NAME if one & 1 else NAME_WIDTH) for one in both.tolist()])

    def _switches(self, switches: Switches, names: Coded, chains: list[bytes] | None) -> list[Piece]:
        """Return the pieces of the lines of switches; names: padded."""
        style, times = self._style, switches.times
        pieces = start_piece(switches.time, switches.cpu)
        if style.cpus:
            pieces += [b" ", _picture(switches.cpu, style.cpus, np.where(switches.task.tid == 0, ord("i"), ord("s"))), b" "]
        pieces += [b" ", names, b" "]
        if style.priority:
            pieces.append(_priorities(switches))
        pieces += [duration_piece(one) for one in (times.waited, times.delay, times.ran)]
        if style.before_migration:
            pieces.append(duration_piece(times.before_migration))
        if style.state:
            letters = np.where(switches.task.tid == 0, 128, switches.state & 0xFF)
            distinct, which = number_values(letters)
            pieces.append(Coded(which, [b" %5s " % state_letter(state) for state in distinct.tolist()]))
        if style.next:
            pieces += [b" ", self._padded(_next_texts(switches), switches.order, is_later=True)]
        elif style.wakeups:
            nothing = Coded(np.zeros(len(switches.time), np.int64), [b""])
            pieces += [b"  ", self._padded(nothing, switches.order, is_later=True)]
        if chains is not None:
            pieces.append(chains)
        pieces.append(b"\n")
        return pieces

    def _wakeups(self, wakeups: TaskEvents) -> list[bytes]:
        by, task = self._texts.coded(wakeups.by), self._texts.coded(wakeups.task)
        pieces = start_piece(wakeups.time, wakeups.cpu)
        if self._style.cpus:
            pieces.append(b" " * (self._style.cpus + 2))
        pieces += [b" ", self._padded(by, wakeups.order), b" " * 35, b"awakened: ", task, b"\n"]
        return Joiner().join(pieces, len(wakeups.time)).lines()

    def _migrations(self, migrations: TaskEvents) -> list[bytes]:
        by, task = self._texts.coded(migrations.by), self._texts.coded(migrations.task)
        pieces = start_piece(migrations.time, migrations.cpu)
        if self._style.cpus:
            pieces += [b"  ", _picture(migrations.cpu, self._style.cpus, np.full(len(migrations.cpu), ord("m"))), b"  "]
        ways = [b"%d => %d" % way for way in zip(_listed(migrations.from_cpu), _listed(migrations.to_cpu), strict=True)]
        pieces += [b" ", self._padded(by, migrations.order), b" " * 35, b"migrated: ", task, b" cpu ", ways, b"\n"]
        return Joiner().join(pieces, len(migrations.time)).lines()


def _first_long(order: NDArray[np.int64], *columns: Coded) -> int:
    """Return the order of the first event with a name that is longer than NAME_WIDTH in one of the columns."""
    is_long = np.zeros(len(order), bool)
    for names in columns:
        if longest(names) > NAME_WIDTH:
            is_long |= np.array([len(text) > NAME_WIDTH for text in names.texts])[names.codes]
    return int(order[is_long].min(initial=_NEVER))


def _idle_named(names: Coded, tid: NDArray[np.int64]) -> Coded:
    """Return the names with <idle> for thread 0."""
    idle = np.flatnonzero(tid == 0)
    if not len(idle):
        return names
    codes = names.codes.copy()
    codes[idle] = len(names.texts)
    return Coded(codes, [*names.texts, b"<idle>"])


def _listed(values: NDArray[np.int64] | None) -> list[int]:
    return [] if values is None else values.tolist()


def _picture(cpu: NDArray[np.int64], width: int, letters: NDArray[np.int64]) -> Piece:
    """Return a column of blanks with a letter at the position of the CPU."""
    codes = np.where((cpu >= 0) & (cpu < width), cpu, width) * 256 + letters
    distinct, which = number_values(codes)
    texts = []
    for code in distinct.tolist():
        position, letter = divmod(code, 256)
        texts.append((b" " * position + bytes((letter,))).ljust(width)[:width])
    return Coded(which, texts)


def _next_texts(switches: Switches) -> Coded:
    """Return the next threads by the names in the switches."""
    comms = np.zeros(len(switches.next_tid), "S1") if switches.next_comm is None else switches.next_comm
    numbers, number_codes = number_values(switches.next_tid)
    names, name_codes = _numbered_texts(comms)
    both, codes = number_values(number_codes.astype(np.int64) * np.int64(len(names) or 1) + name_codes)
    texts = []
    for one in both.tolist():
        tid, name = int(numbers[one // len(names)]), bytes(names[one % len(names)])
        texts.append(b"next: %s[%d]" % (one_line_bytes(name), tid))
    return Coded(codes, texts)


def _numbered_texts(texts: NDArray[np.bytes_]) -> tuple[NDArray[np.bytes_], NDArray[np.integer[Any]]]:
    """Return the distinct texts, and the number of each row's text among them."""
    width = -texts.itemsize % 8 + texts.itemsize
    words = np.ascontiguousarray(texts.astype(f"S{width}")).view(np.uint64).reshape(len(texts), width // 8)
    numbers = np.zeros(len(texts), np.int64)
    for column in words.T:
        values, codes = number_values(column)
        numbers = number_values(numbers * len(values) + codes)[1].astype(np.int64)
    distinct = np.empty(int(numbers.max(initial=-1)) + 1, texts.dtype)
    distinct[numbers] = texts
    return distinct, numbers


def _priorities(switches: Switches) -> Piece:
    both = (switches.came_with_priority << np.int64(32)) | (switches.left_with_priority & np.int64(0xFFFFFFFF))
    first, which = number_values(both)
    pairs = [(value >> 32, ((value & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000) for value in first.tolist()]
    return Coded(which, [b" %-8s " % (b"%d" % left if came == left else b"%d->%d" % (came, left)) for came, left in pairs])


def state_letter(state: int) -> bytes:
    """Return the letter of a thread's state: of its lowest bit."""
    return _STATE_LETTERS.get(state & -state, b"?")


_RUN_TITLES = ("Runtime summary", "sched-in", "run-time", "min-run", "avg-run", "max-run")
_IDLE_TITLES = ("Idle-time summary", "sched-out", "idle-time", "min-idle", "avg-idle", "max-idle")
_WAIT_TITLES = ("Wait-time summary", "sched-in", "run-time", "sleep", "iowait", "preempt")


def summary_lines(
    summary: Summary,
    comms: Sequence[str],
    *,
    width: int,
    idle_only: bool,
    is_complete: bool,
    cpus: Collection[int] | None = None,
    shows_waits: bool = False,
) -> Iterator[str]:
    """Yield the lines.

    The text is perf 6.12's, byte for byte.

    Args:
        summary: of a recording.
        comms: the names of threads, by index.
        idle_only: for -I, where only idle times are shown.
        cpus: the CPUs whose idle times are shown; None: all.
        is_complete: whether no switch was left out by a filter; otherwise idle times are unknown.
        shows_waits: whether threads have the times of their waits instead of those of their runs (--state).
        width: of names at first; grows with the first long one.
    """
    titles, last = (_IDLE_TITLES, "stddev  migrations") if idle_only else (_RUN_TITLES, "stddev  migrations")
    if shows_waits and not idle_only:
        titles, last = _WAIT_TITLES, f"{'delay':>10}"
    yield from ("", titles[0])
    columns = f"{titles[1]:>11}  {titles[2]:>11}  {titles[3]:>9}  {titles[4]:>10}  {titles[5]:>10}  {last}"
    yield f"{'comm':>{width}}  {'parent':>6}{columns}"
    unit = f"{'(msec)':>11}" if shows_waits else f"{'%':>6}"
    yield f"{'(count)':>{width + 19}}  {'(msec)':>11}  {'(msec)':>9}  {'(msec)':>10}  {'(msec)':>10}  {unit}"
    yield "-" * 117
    threads = summary.threads
    texts = TaskColumnTexts(comms)
    for thread in threads:
        name = texts.text(thread.comm, thread.tid, thread.pid).decode("utf-8", "surrogateescape")
        width = max(width, byte_width(name))
        yield f"{indented(name, width)}  {thread.parent:>6}  {_wait_line(thread) if shows_waits else _thread_line(thread)}"
    if not threads:
        yield "<no still running tasks>"
    if not is_complete and not idle_only:
        return
    shown_cpus = [cpu for cpu in range(summary.cpus) if cpus is None or cpu in cpus]
    yield from ("", "Idle stats:")
    for cpu in shown_cpus:
        times = summary.idle.get(cpu)
        if times is None:
            yield f"    CPU {cpu:2d} idle entire time window"
            continue
        share = 100 * times.total / summary.span if summary.span else 0.0
        yield f"    CPU {cpu:2d} idle for {milliseconds(times.total, 6)} msec  ({share:6.2f}%)"
    if summary.idle_chains is not None:
        yield from _idle_chain_lines(summary, summary.idle_chains, shown_cpus)
    total = sum(thread.times.total for thread in threads)
    count = sum(thread.times.runs for thread in threads) + sum(times.runs for times in summary.idle.values())
    yield ""
    yield f"    Total number of unique tasks: {len(threads)}"
    yield f"Total number of context switches: {count}"
    yield f"           Total run time (msec): {milliseconds(total, 2)}"
    yield f"    Total scheduling time (msec): {milliseconds(summary.span, 2)} (x {summary.cpus})"


def _thread_line(thread: ThreadSummary) -> str:
    times = thread.times
    total, shortest, average, longest = (milliseconds(one, 6) for one in (times.total, times.shortest, int(times.average), times.longest))
    lengths = f"{total}{shortest} {average} {longest}"
    return f"{times.runs:>9}   {lengths}  {times.deviation:5.2f}   {thread.migrations:>5}"


def _wait_line(thread: ThreadSummary) -> str:
    waits = " ".join(milliseconds(one, 6) for one in thread.waits)
    return f"{thread.times.runs:>9} {milliseconds(thread.times.total, 8)}{waits}"


def _idle_chain_lines(summary: Summary, idle_chains: Mapping[int, Sequence[IdleChain]], cpus: Sequence[int]) -> Iterator[str]:
    """Yield the idle times by callchain, as perf 7 does; perf 6.12 leaves the tables empty."""
    yield from ("", "Idle stats by callchain:")
    for cpu in cpus:
        times = summary.idle.get(cpu)
        yield f"  CPU {cpu:2d}:{milliseconds(times.total if times else 0, 6)} msec"
        yield f"  {'Idle time (msec)':>16}  {'Count':>8}  Callchains"
        yield f"  {'-' * 16}  {'-' * 8}  {'-' * 50}"
        for chain in idle_chains.get(cpu, ()):
            yield f"  {milliseconds(chain.time, 12).strip():>16}  {chain.times:8d}  {chain.text.decode('utf-8', 'surrogateescape')}"
        yield ""


NAME_WIDTH: Final = 30  #: of a task's name
_LONGEST_NAME: Final = 31  # perf cuts longer ones
_NEVER: Final = (1 << 63) - 1
_DIGITS: Final = np.array([b"%03d" % i for i in range(1000)], "S3")
# Columns of four bytes are copied as numbers. Each of these is written over the last byte of the one before.
_DURATION: Final = np.dtype({"names": ["high", "low", "micros"], "formats": ["u4"] * 3, "offsets": [0, 3, 7], "itemsize": 11})
_HIGH: Final = np.array([b"    ", *(b"%3d " % i for i in range(1, 1000))], "S4").view("u4")
_LOW: Final = np.array([*(b"%3d." % i for i in range(1000)), *(b"%03d." % i for i in range(1000))], "S4").view("u4")
_MICROS: Final = np.array([b"%03d " % i for i in range(1000)], "S4").view("u4")
_MICROSECONDS: Final = 1_000_000  # of a second
_MILLION: Final = 1_000_000
_LOW_HALF: Final = 0xFFFFFFFF


def milliseconds(nanoseconds: int, width: int) -> str:
    """Return a duration in milliseconds, truncated to microseconds, with a trailing blank.

    >>> milliseconds(1234567, 6)
    '     1.234 '
    """
    return f"{nanoseconds // _MILLION:{width}d}.{nanoseconds % _MILLION // 1000:03d} "


def duration_piece(nanoseconds: NDArray[np.int64]) -> Piece:
    """Return durations as milliseconds with three decimals: a column of 11 characters, the last one a blank."""
    micros = nanoseconds // 1000
    millis = micros // 1000
    if not len(millis) or int(millis.max()) >= _MILLION or int(millis.min()) < 0:
        return [milliseconds(value, 6).encode() for value in nanoseconds.tolist()]
    micros, millis = micros.astype(np.int32), millis.astype(np.int32)
    high = millis // 1000
    low = millis - high * 1000
    rows = np.empty(len(millis), _DURATION)
    rows["high"] = _HIGH[high]
    rows["low"] = _LOW[np.where(high > 0, low + 1000, low)]
    rows["micros"] = _MICROS[micros - millis * 1000]
    return rows.view(f"S{rows.dtype.itemsize}")


def start_piece(time: NDArray[np.int64], cpu: NDArray[np.int64]) -> list[Piece]:
    """Return the time and CPU at the start of a line: `    6377.372915 [0000] `."""
    micros = time // 1000
    seconds, rest = micros // _MICROSECONDS, micros % _MICROSECONDS
    return [
        _coded(seconds, lambda second: b"%8d." % second),
        *micros_pieces(rest),
        _coded(cpu, lambda number: b" [%04d] " % number),
    ]


def micros_pieces(micros: NDArray[np.int64]) -> list[Piece]:
    """Return microseconds below a second as six digits."""
    numbers = micros.astype(np.int32)
    millis = numbers // 1000
    return [_DIGITS[millis], _DIGITS[numbers - millis * 1000]]


def _coded(values: NDArray[np.int64], text: Callable[[int], bytes]) -> Piece:
    """Return the texts of numbers, each made once."""
    distinct, codes = number_values(values)
    return Coded(codes, [text(value) for value in distinct.tolist()])


class TaskColumnTexts:
    """The names of tasks: COMM[TID], or COMM[TID/PID] for other threads than the first one."""

    def __init__(self, comms: Sequence[str]) -> None:
        self._comms = comms

    def coded(self, tasks: TaskColumn) -> Coded:
        """Return the names of a column."""
        threads, thread_numbers = number_values(tasks.tid << np.int64(32) | (tasks.pid & np.int64(_LOW_HALF)))
        both, codes = number_values(thread_numbers.astype(np.int64) << np.int64(32) | tasks.comm)
        thread = threads[both >> np.int64(32)]
        tid, pid, comm = thread >> np.int64(32), thread.astype(np.int32), both & np.int64(_LOW_HALF)
        return Coded(codes, list(map(self.text, comm.tolist(), tid.tolist(), pid.tolist())))

    def text(self, comm: int, tid: int, pid: int) -> bytes:
        """Return one name, truncated like perf's."""
        name = one_line_bytes(self._comms[comm].encode("utf-8", "surrogateescape"))
        if pid == 0 or (pid == -1 and tid != pid):
            return name[:_LONGEST_NAME]
        return (b"%s[%d]" % (name, tid) if tid == pid else b"%s[%d/%d]" % (name, tid, pid))[:_LONGEST_NAME]


def padded(names: Coded, width: int) -> Coded:
    """Return names padded on the right."""
    return Coded(names.codes, [text.ljust(width) for text in names.texts])


def longest(names: Coded) -> int:
    """Return the length of the longest name."""
    return max(map(len, names.texts), default=0)
