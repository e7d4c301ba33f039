"""The lines of `sched timehist`: switches, wakeups and migrations in order of time, byte for byte perf 6.12's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.abi.waits import STATE_BITS
from perfpy.analysis.sched.narrowing import rows_of, rows_of_events
from perfpy.symbols.interning import number_values
from perfpy.untrusted.text import one_line_bytes
from perfpy.views.sched.columns import NAME_WIDTH, TaskColumnTexts, duration_piece, longest, padded, start_piece
from perfpy.views.script.pieces import Coded, Joiner, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.sched.timehist import Switches, TaskEvents
    from perfpy.views.script.pieces import Piece

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


def header_lines(style: TimehistStyle) -> list[str]:
    """Return the three lines above the columns."""
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
    return ["  ".join(texts) for texts in zip(*columns, strict=True)]


class TimehistLines:
    """Formats lines.

    Args:
        style: the columns.
        comms: the names of threads, by index.
    """

    def __init__(self, style: TimehistStyle, comms: Sequence[str]) -> None:
        self._style = style
        self._texts = TaskColumnTexts(comms)

    def blocks(
        self, switches: Switches, chains: list[bytes] | None, wakeups: TaskEvents | None, migrations: TaskEvents | None
    ) -> Iterator[bytes]:
        """Yield all lines in order, some thousands at a time.

        Args:
            switches, wakeups, migrations: by ascending order; None: not shown.
            chains: the text of each switch's callchain.
        """
        names = _idle_named(self._texts.coded(switches.task), switches.task.tid)
        width = max(NAME_WIDTH, longest(names))
        names = padded(names, width)
        others = [(events, lines) for events, lines in ((wakeups, self._wakeups), (migrations, self._migrations)) if events is not None]
        begins = [0] * len(others)
        for begin in range(0, max(len(switches.time), 1), _AT_ONCE):
            rows = slice(begin, begin + _AT_ONCE)
            block = rows_of(switches, rows)
            chain_block = None if chains is None else chains[rows]
            pieces = self._switches(block, names._replace(codes=names.codes[rows]), chain_block)
            if not others:
                yield text_of(pieces, len(block.time))
                continue
            is_last = begin + _AT_ONCE >= len(switches.time)
            parts = [(block.order, Joiner().join(pieces, len(block.time)).lines())]
            for number, (events, lines) in enumerate(others):
                end = len(events.order) if is_last else int(events.order.searchsorted(block.order[-1]))
                part = rows_of_events(events, slice(begins[number], end))
                parts.append((part.order, lines(part)))
                begins[number] = end
            order = np.argsort(np.concatenate([part[0] for part in parts]), kind="stable").tolist()
            texts = [line for part in parts for line in part[1]]
            yield b"".join(map(texts.__getitem__, order))

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
            pieces.append(_state_texts(letters))
        if style.next:
            pieces.append(_next_texts(switches))
        elif style.wakeups:
            pieces.append(b"  " + b" " * NAME_WIDTH)
        if chains is not None:
            pieces.append(chains)
        pieces.append(b"\n")
        return pieces

    def _wakeups(self, wakeups: TaskEvents) -> list[bytes]:
        by, task = self._texts.coded(wakeups.by), self._texts.coded(wakeups.task)
        pieces = start_piece(wakeups.time, wakeups.cpu)
        if self._style.cpus:
            pieces.append(b" " * (self._style.cpus + 2))
        pieces += [b" ", padded(by, NAME_WIDTH), b" " * 35, b"awakened: ", task, b"\n"]
        return Joiner().join(pieces, len(wakeups.time)).lines()

    def _migrations(self, migrations: TaskEvents) -> list[bytes]:
        by, task = self._texts.coded(migrations.by), self._texts.coded(migrations.task)
        pieces = start_piece(migrations.time, migrations.cpu)
        if self._style.cpus:
            pieces += [b"  ", _picture(migrations.cpu, self._style.cpus, np.full(len(migrations.cpu), ord("m"))), b"  "]
        ways = [b"%d => %d" % way for way in zip(_listed(migrations.from_cpu), _listed(migrations.to_cpu), strict=True)]
        pieces += [b" ", padded(by, NAME_WIDTH), b" " * 35, b"migrated: ", task, b" cpu ", ways, b"\n"]
        return Joiner().join(pieces, len(migrations.time)).lines()


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


def _next_texts(switches: Switches) -> Piece:
    """Return the next threads by the names in the switches."""
    comms = np.zeros(len(switches.next_tid), "S1") if switches.next_comm is None else switches.next_comm
    numbers, number_codes = number_values(switches.next_tid)
    names, name_codes = _numbered_texts(comms)
    both, codes = number_values(number_codes.astype(np.int64) * np.int64(len(names) or 1) + name_codes)
    texts = []
    for one in both.tolist():
        tid, name = int(numbers[one // len(names)]), bytes(names[one % len(names)])
        texts.append(b" " + (b"next: %s[%d]" % (one_line_bytes(name), tid)).ljust(NAME_WIDTH))
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
    came, left = switches.came_with_priority, switches.left_with_priority
    texts, codes = _distinct_pairs(came, left)
    return Coded(codes, [b" %-8s " % (b"%d" % b if a == b else b"%d->%d" % (a, b)) for a, b in texts])


def _distinct_pairs(one: NDArray[np.int64], two: NDArray[np.int64]) -> tuple[list[tuple[int, int]], NDArray[np.int32]]:
    both = (one << np.int64(32)) | (two & np.int64(0xFFFFFFFF))
    first, which = number_values(both)
    return [(value >> 32, ((value & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000) for value in first.tolist()], which


def _state_texts(states: NDArray[np.int64]) -> Piece:
    distinct, which = number_values(states)
    return Coded(which, [b" %5s " % state_letter(state) for state in distinct.tolist()])


def state_letter(state: int) -> bytes:
    """Return the letter of a thread's state: of its lowest bit."""
    return _STATE_LETTERS.get(state & -state, b"?")
