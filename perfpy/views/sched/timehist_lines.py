"""The lines of `sched timehist`: switches, wakeups and migrations in order of time, byte for byte perf 6.12's."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfpy.abi.waits import STATE_BITS
from perfpy.untrusted.text import one_line_bytes
from perfpy.views.sched.columns import NAME_WIDTH, TaskColumnTexts, duration_piece, longest, padded, start_piece
from perfpy.views.script.pieces import Coded, Joiner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.sched.timehist import Switches, TaskEvents
    from perfpy.views.script.pieces import Piece

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

    def all(self, switches: Switches, chains: list[bytes] | None, wakeups: TaskEvents | None, migrations: TaskEvents | None) -> list[bytes]:
        """Return all lines in order; chains: the text of each switch's callchain."""
        parts: list[tuple[NDArray[np.int64], list[bytes]]] = [(switches.order, self._switches(switches, chains))]
        if wakeups is not None:
            parts.append((wakeups.order, self._wakeups(wakeups)))
        if migrations is not None:
            parts.append((migrations.order, self._migrations(migrations)))
        if len(parts) == 1:
            return parts[0][1]
        order = np.argsort(np.concatenate([part[0] for part in parts]), kind="stable").tolist()
        lines = [line for part in parts for line in part[1]]
        return [lines[index] for index in order]

    def _switches(self, switches: Switches, chains: list[bytes] | None) -> list[bytes]:
        style, times, count = self._style, switches.times, len(switches.time)
        names = _idle_named(self._texts.coded(switches.task), switches.task.tid)
        width = max(NAME_WIDTH, longest(names))
        pieces = start_piece(switches.time, switches.cpu)
        if style.cpus:
            pieces += [b" ", _picture(switches.cpu, style.cpus, np.where(switches.task.tid == 0, ord("i"), ord("s"))), b" "]
        pieces += [b" ", padded(names, width), b" "]
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
        return Joiner().join(pieces, count).lines()

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
    distinct, which = np.unique(codes, return_inverse=True)
    texts = []
    for code in distinct.tolist():
        position, letter = divmod(code, 256)
        texts.append((b" " * position + bytes((letter,))).ljust(width)[:width])
    return Coded(which.ravel(), texts)


def _next_texts(switches: Switches) -> Piece:
    """Return the next threads by the names in the switches."""
    comms = np.zeros(len(switches.next_tid), "S1") if switches.next_comm is None else switches.next_comm
    numbers, number_codes = np.unique(switches.next_tid, return_inverse=True)
    names, name_codes = np.unique(comms, return_inverse=True)
    both, codes = np.unique(number_codes.ravel() * np.int64(len(names) or 1) + name_codes.ravel(), return_inverse=True)
    texts = []
    for one in both.tolist():
        tid, name = int(numbers[one // len(names)]), bytes(names[one % len(names)])
        texts.append(b" " + (b"next: %s[%d]" % (one_line_bytes(name), tid)).ljust(NAME_WIDTH))
    return Coded(codes.ravel(), texts)


def _priorities(switches: Switches) -> Piece:
    came, left = switches.came_with_priority, switches.left_with_priority
    texts, codes = _distinct_pairs(came, left)
    return Coded(codes, [b" %-8s " % (b"%d" % b if a == b else b"%d->%d" % (a, b)) for a, b in texts])


def _distinct_pairs(one: NDArray[np.int64], two: NDArray[np.int64]) -> tuple[list[tuple[int, int]], NDArray[np.int64]]:
    both = (one << np.int64(32)) | (two & np.int64(0xFFFFFFFF))
    first, which = np.unique(both, return_inverse=True)
    return [(value >> 32, ((value & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000) for value in first.tolist()], which.ravel()


def _state_texts(states: NDArray[np.int64]) -> Piece:
    distinct, which = np.unique(states, return_inverse=True)
    return Coded(which.ravel(), [b" %5s " % state_letter(state) for state in distinct.tolist()])


def state_letter(state: int) -> bytes:
    """Return the letter of a thread's state: of its lowest bit."""
    return _STATE_LETTERS.get(state & -state, b"?")
