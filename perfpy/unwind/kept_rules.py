"""What call frame information says of the addresses of one file that were asked for, kept between runs.

What enters: FrameRules by address. What leaves: the same, as columns, also in another run that reads the same file: a
large compiler's report asks for some ten thousand addresses, and its instructions need not be run again. Expressions are
not kept, nor what is not there: both are seldom, and quickly found again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.symbols.files.column_files import ColumnFiles, folder
from perfpy.unwind.rules import OFFSET, REGISTER, SAME, UNDEFINED, VAL_OFFSET, FrameRules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfpy.unwind.rules import Rule

_LIMIT: Final = 64 << 20
_MOST: Final = 1 << 18  # addresses of one file
_WORTH_KEEPING: Final = 1 << 13  # instructions that were run: some milliseconds' worth
_KINDS: Final = frozenset({SAME, UNDEFINED, OFFSET, VAL_OFFSET, REGISTER})
_VERSION: Final = "frames1"  # of what instructions are taken to mean, and of the columns

#: instead of the row of an address's rules: nothing is said of it; it was not asked for before
SILENT: Final = -1
UNASKED: Final = -2


class KnownRules:
    """The rules at some addresses of a file. rules: all different ones, by row."""

    def __init__(self) -> None:
        self.rules: list[FrameRules] = []
        self._row: dict[FrameRules, int] = {}
        self._addresses = np.zeros(0, np.uint64)  # ascending
        self._which = np.zeros(0, np.int32)

    def find(self, addresses: NDArray[np.uint64]) -> NDArray[np.int32]:
        """The row of the rules at each address, or SILENT, or UNASKED."""
        if not len(self._addresses):
            return np.full(len(addresses), UNASKED, np.int32)
        position = np.minimum(np.searchsorted(self._addresses, addresses), len(self._addresses) - 1)
        found: NDArray[np.int32] = np.where(self._addresses[position] == addresses, self._which[position], np.int32(UNASKED))
        return found

    def add(self, addresses: list[int], found: Sequence[FrameRules | None]) -> None:
        """What there is at addresses, ascending, that were not asked for before."""
        rows = [SILENT if rules is None else self._row.setdefault(rules, len(self._row)) for rules in found]
        self.rules += list(self._row)[len(self.rules) :]
        added = np.array(addresses, np.uint64)
        position = np.searchsorted(self._addresses, added)
        self._addresses, self._which = np.insert(self._addresses, position, added), np.insert(self._which, position, rows)

    def begin(self, rules: list[FrameRules], addresses: NDArray[np.uint64], which: NDArray[np.int32]) -> None:
        """What another run has found out, instead of nothing."""
        self.rules, self._row = rules, {one: row for row, one in enumerate(rules)}
        order = np.argsort(addresses)
        self._addresses, self._which = addresses[order], which[order]

    def columns(self) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
        """The addresses of which anything is said, and the row of each one's rules."""
        said = self._which >= 0
        return self._addresses[said], self._which[said]


class KeptRules:
    """The rules of one file. key: changes whenever the file does; path: where they are kept (their folder by default).

    cost: the instructions that were run for what is new.
    """

    def __init__(self, key: str, path: str = "") -> None:
        self._key = f"{_VERSION} {key}"
        self._files = ColumnFiles(path or folder("unwinding"), ".frames", _LIMIT)
        self.cost = 0

    def load(self, known: KnownRules) -> None:
        """Let it begin with what was kept, if anything was."""
        columns = self._files.columns(self._key)
        try:
            if columns:
                known.begin(*_decoded(columns))
        except (KeyError, ValueError, IndexError, TypeError):
            return

    def store(self, known: KnownRules) -> None:
        """Keep all that is known, if that is worth it."""
        if self.cost < _WORTH_KEEPING:
            return
        addresses, which = known.columns()
        plain = np.array([_is_plain(rules) for rules in known.rules], bool)[which]
        if 0 < np.count_nonzero(plain) <= _MOST:
            self._files.keep(self._key, _encoded(addresses[plain], which[plain], known.rules))
        self.cost = 0


def _is_plain(rules: FrameRules) -> bool:
    """Whether they are numbers only, which fit the columns: files can have registers and offsets of 64 bits."""
    if isinstance(rules.cfa, bytes) or rules.reach is not None or not all(rule[0] in _KINDS for _, rule in rules.registers):
        return False
    return max(*rules.cfa, rules.return_column, *(register for register, _ in rules.registers)) < 1 << 63


def _encoded(addresses: NDArray[np.uint64], which: NDArray[np.int32], rules: list[FrameRules]) -> dict[str, NDArray[Any]]:
    present, numbers = np.unique(which, return_inverse=True)
    kept = [rules[row] for row in present.tolist()]
    rows = [(*one.cfa, one.return_column, one.is_signal, len(one.registers)) for one in kept]
    saved = [(register, kind, value) for one in kept for register, (kind, value) in one.registers]
    return {
        "address": addresses,
        "number": numbers.astype(np.int32),
        "rules": np.array(rows, np.int64),
        "registers": np.array(saved, np.int64),
    }


def _decoded(columns: dict[str, NDArray[Any]]) -> tuple[list[FrameRules], NDArray[np.uint64], NDArray[np.int32]]:
    """The mirror of _encoded; ValueError and the like for anything that is not its result."""
    rows, saved = columns["rules"].reshape(-1, 5).tolist(), columns["registers"].reshape(-1, 3).tolist()
    rules, done = list[FrameRules](), 0
    for register, offset, column, is_signal, count in rows:
        mine = saved[done : done + count]
        if len(mine) != count or not _KINDS.issuperset(kind for _, kind, _ in mine):
            raise ValueError("rules that nobody kept")
        registers: tuple[tuple[int, Rule], ...] = tuple((number, (kind, value)) for number, kind, value in mine)
        rules.append(FrameRules((register, offset), registers, column, bool(is_signal)))
        done += count
    addresses, which = columns["address"], columns["number"]
    is_ours = addresses.dtype == np.uint64 and which.dtype == np.int32 and addresses.shape == which.shape == (len(addresses),)
    if not is_ours or (len(which) and not 0 <= int(which.min()) <= int(which.max()) < len(rules)):
        raise ValueError("rows that nobody kept")
    return rules, addresses, which
