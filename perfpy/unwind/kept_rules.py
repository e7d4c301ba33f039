"""What call frame information says of the addresses of one file that were asked for, kept between runs.

What enters: FrameRules by address. What leaves: the same in another run that reads the same file: a large compiler's
report asks for some ten thousand addresses, and its instructions need not be run again. Expressions are not kept, nor
what is not there: both are seldom, and quickly found again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.symbols.files.column_files import ColumnFiles, folder
from perfpy.unwind.rules import OFFSET, REGISTER, SAME, UNDEFINED, VAL_OFFSET, FrameRules

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.unwind.rules import Rule

_LIMIT: Final = 64 << 20
_MOST: Final = 1 << 18  # addresses of one file
_WORTH_KEEPING: Final = 1 << 13  # instructions that were run: some milliseconds' worth
_KINDS: Final = frozenset({SAME, UNDEFINED, OFFSET, VAL_OFFSET, REGISTER})
_VERSION: Final = "frames1"  # of what instructions are taken to mean, and of the columns


class KeptRules:
    """The rules of one file. key: changes whenever the file does; path: where they are kept (their folder by default).

    cost: the instructions that were run for what is new.
    """

    def __init__(self, key: str, path: str = "") -> None:
        self._key = f"{_VERSION} {key}"
        self._files = ColumnFiles(path or folder("unwinding"), ".frames", _LIMIT)
        self.cost = 0

    def load(self) -> dict[int, FrameRules]:
        """What is known by address."""
        columns = self._files.columns(self._key)
        try:
            return _decoded(columns) if columns else {}
        except (KeyError, ValueError, IndexError, TypeError):
            return {}

    def store(self, found: dict[int, FrameRules | None]) -> None:
        """Keep all that is known by address, if that is worth it."""
        if self.cost < _WORTH_KEEPING:
            return
        kept = {address: rules for address, rules in found.items() if rules is not None and _is_plain(rules)}
        if 0 < len(kept) <= _MOST:
            self._files.keep(self._key, _encoded(kept))
        self.cost = 0


def _is_plain(rules: FrameRules) -> bool:
    """Whether they are numbers only."""
    return not isinstance(rules.cfa, bytes) and rules.reach is None and all(rule[0] in _KINDS for _, rule in rules.registers)


def _encoded(found: dict[int, FrameRules]) -> dict[str, NDArray[Any]]:
    numbers: dict[FrameRules, int] = {}
    which = [numbers.setdefault(rules, len(numbers)) for rules in found.values()]
    rows = [(*rules.cfa, rules.return_column, rules.is_signal, len(rules.registers)) for rules in numbers]
    saved = [(register, kind, value) for rules in numbers for register, (kind, value) in rules.registers]
    return {
        "address": np.array(list(found), np.uint64),
        "number": np.array(which, np.int32),
        "rules": np.array(rows, np.int64),
        "registers": np.array(saved, np.int64),
    }


def _decoded(columns: dict[str, NDArray[Any]]) -> dict[int, FrameRules]:
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
    return {address: rules[number] for address, number in zip(columns["address"].tolist(), columns["number"].tolist(), strict=True)}
