"""Cache the rules of one file between runs.

A report on a large compiler looks up some ten thousand addresses; their instructions need not run again. Expressions and missing rules are
not cached: both are rare and quickly found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.symbols.caches.column_files import ColumnFiles, folder
from perfpy.unwind.rules import OFFSET, REGISTER, SAME, UNDEFINED, VAL_OFFSET, FrameRules

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfpy.unwind.rules import Rule

_LIMIT: Final = 64 << 20
_MOST: Final = 1 << 18  # addresses of one file
_WORTH_KEEPING: Final = 1 << 13  # instructions that ran: some milliseconds
_KINDS: Final = frozenset({SAME, UNDEFINED, OFFSET, VAL_OFFSET, REGISTER})
_VERSION: Final = "frames1"  # of the interpretation of instructions, and of the columns

#: Instead of the row of an address's rules: no rules exist; not looked up yet.
SILENT: Final = -1
UNASKED: Final = -2


class KnownRules:
    """The rules at some addresses of a file. rules: the distinct ones, by row."""

    def __init__(self) -> None:
        self.rules: list[FrameRules] = []
        self._row: dict[FrameRules, int] = {}
        self._addresses = np.zeros(0, np.uint64)  # ascending
        self._which = np.zeros(0, np.int32)

    def find(self, addresses: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Return the row of the rules at each address, or SILENT, or UNASKED."""
        if not len(self._addresses):
            return np.full(len(addresses), UNASKED, np.int32)
        position = np.minimum(np.searchsorted(self._addresses, addresses), len(self._addresses) - 1)
        numbers: NDArray[np.int32] = np.where(self._addresses[position] == addresses, self._which[position], np.int32(UNASKED))
        return numbers

    def add(self, addresses: list[int], frame_rules: Sequence[FrameRules | None]) -> None:
        """Add the results for new addresses, which are ascending."""
        rows = [SILENT if rules is None else self._row.setdefault(rules, len(self._row)) for rules in frame_rules]
        self.rules += list(self._row)[len(self.rules) :]
        added = np.array(addresses, np.uint64)
        position = np.searchsorted(self._addresses, added)
        self._addresses, self._which = np.insert(self._addresses, position, added), np.insert(self._which, position, rows)

    def begin(self, rules: list[FrameRules], addresses: NDArray[np.uint64], which: NDArray[np.int32]) -> None:
        """Start with cached rules."""
        self.rules, self._row = rules, {one: row for row, one in enumerate(rules)}
        order = np.argsort(addresses)
        self._addresses, self._which = addresses[order], which[order]

    def columns(self) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
        """Return the addresses with rules, and the row of the rules of each."""
        has_rule = self._which >= 0
        return self._addresses[has_rule], self._which[has_rule]


class KeptRules:
    """The cache file of one file's rules.

    Args:
        key: changes with the file.
        path: of the cache file ("": in the default folder).

    Attributes:
        cost: the instructions that ran for new rules.
    """

    def __init__(self, key: str, path: str = "") -> None:
        self._key = f"{_VERSION} {key}"
        self._files = ColumnFiles(path or folder("unwinding"), ".frames", _LIMIT)
        self.cost = 0

    def load(self, known_rules: KnownRules) -> None:
        """Load cached rules, if there are any."""
        columns = self._files.columns(self._key)
        try:
            if columns:
                known_rules.begin(*_decode(columns))
        except (KeyError, ValueError, IndexError, TypeError):
            return

    def store(self, known_rules: KnownRules) -> None:
        """Write the rules, if enough instructions ran for them."""
        if self.cost < _WORTH_KEEPING:
            return
        addresses, which = known_rules.columns()
        plain = np.array([_is_plain(rules) for rules in known_rules.rules], bool)[which]
        if 0 < np.count_nonzero(plain) <= _MOST:
            self._files.keep(self._key, _encode(addresses[plain], which[plain], known_rules.rules))
        self.cost = 0


def _is_plain(rules: FrameRules) -> bool:
    """Whether rules consist of numbers that fit the columns; files may contain registers and offsets of 64 bits."""
    if isinstance(rules.cfa, bytes) or rules.reach is not None or not all(rule[0] in _KINDS for _, rule in rules.registers):
        return False
    return max(*rules.cfa, rules.return_column, *(register for register, _ in rules.registers)) < 1 << 63


def _encode(addresses: NDArray[np.uint64], which: NDArray[np.int32], rules: list[FrameRules]) -> dict[str, NDArray[Any]]:
    present, numbers = np.unique(which, return_inverse=True)
    encoded_rows = [rules[row] for row in present.tolist()]
    rows = [(*one.cfa, one.return_column, one.is_signal, len(one.registers)) for one in encoded_rows]
    saved = [(register, kind, value) for one in encoded_rows for register, (kind, value) in one.registers]
    return {
        "address": addresses,
        "number": numbers.astype(np.int32),
        "rules": np.array(rows, np.int64),
        "registers": np.array(saved, np.int64),
    }


def _decode(columns: dict[str, NDArray[Any]]) -> tuple[list[FrameRules], NDArray[np.uint64], NDArray[np.int32]]:
    """Decode the result of _encoded. Raises ValueError and other errors for other columns."""
    rows, saved = columns["rules"].reshape(-1, 5).tolist(), columns["registers"].reshape(-1, 3).tolist()
    rules, decoded = list[FrameRules](), 0
    for register, offset, column, is_signal, count in rows:
        mine = saved[decoded : decoded + count]
        if len(mine) != count or not _KINDS.issuperset(kind for _, kind, _ in mine):
            raise ValueError("rules of another version")
        registers: tuple[tuple[int, Rule], ...] = tuple((number, (kind, value)) for number, kind, value in mine)
        rules.append(FrameRules((register, offset), registers, column, bool(is_signal)))
        decoded += count
    addresses, which = columns["address"], columns["number"]
    is_ours = addresses.dtype == np.uint64 and which.dtype == np.int32 and addresses.shape == which.shape == (len(addresses),)
    if not is_ours or (len(which) and not 0 <= int(which.min()) <= int(which.max()) < len(rules)):
        raise ValueError("rows of another version")
    return rules, addresses, which
