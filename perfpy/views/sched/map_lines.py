"""The lines of `sched map`: a column for each CPU, byte for byte perf 6.12's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.analysis.sched.switch_map import shortname
from perfpy.symbols.interning import first_rows, number_values
from perfpy.untrusted.text import one_line_bytes
from perfpy.views.sched.columns import micros_pieces
from perfpy.views.script.pieces import Coded, Joiner

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.sched.switch_map import SwitchMap
    from perfpy.views.script.pieces import Piece

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
            if hidden:
                texts.append(_HIDDEN)
            elif tid == 0:
                texts.append(_IDLE)
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
