"""What rules say of the callers of many frames at once.

What enters: registers and copied stacks of samples, and for each chain where it has come to and the number of its rules. What
leaves: CFAs, return addresses, and where registers are kept. A step takes the same few array operations however
many chains there are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.columns import distinct, rows_where
from perfpy.abi.startup import NamedTuple
from perfpy.unwind.expressions import evaluate
from perfpy.unwind.known_callers import ELSEWHERE, KEPT
from perfpy.unwind.memory import StackMemory
from perfpy.unwind.rules import CFA_EXPRESSION, EXPRESSION, OFFSET, REGISTER, UNDEFINED, VAL_OFFSET
from perfpy.unwind.saved_registers import SavedRegisters

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.unwind.architectures import Architecture
    from perfpy.unwind.code_rules import CodeRules

    Values = NDArray[np.uint64]
    Rows = NDArray[np.int64]

_OPERATIONS_MOST: Final = 1 << 17  # of expressions in one batch, each for many samples: a second's worth


class UserStacks(NamedTuple):
    """What samples have of their stacks, one row each.

    registers: u64, one column for each of perf's registers by its number (0 where it was not recorded); data, starts,
    sizes: the copied stacks, each at a multiple of 8 in `data`, in bytes; pid; key: the delivery key.
    """

    registers: dict[int, Values]
    data: NDArray[np.uint8]
    starts: Rows
    sizes: Rows
    pid: NDArray[np.int32]
    key: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.pid)


class CallerRules:
    """The chains of one batch that have not ended, one row each: `_alive` says of which samples they are, `_pc` where they have come to.

    `_registers`: the stack pointer and the return address; `_saved`: all others that are followed.
    """

    def __init__(self, architecture: Architecture, code: CodeRules, symbolizer: Symbolizer, stacks: UserStacks, *, endian: str) -> None:
        self._code = code
        self._table = code.table
        self._architecture = architecture
        self._symbolizer = symbolizer
        self._mask, self._code_mask = np.uint64(architecture.mask), np.uint64(architecture.code_mask)
        self.word, self.endian = architecture.word, endian
        self.operations_left = _OPERATIONS_MOST
        self._count = len(stacks)
        self._scenes = symbolizer.user_scenes(stacks.pid, stacks.key)
        # as in perf: where no file of a process is here, nothing of it is shown
        self._alive = rows_where(symbolizer.has_files(self._scenes))
        self._table.update()
        self._tracked = list(self._table.tracked)
        self._initial = {number: self._sampled(stacks, index) for number, index in enumerate(architecture.registers)}
        self._registers = [self._initial[register][self._alive] for register in self._tracked[:2]]
        self._kept = [self._initial[register] for register in self._tracked[2:]]
        self._saved = SavedRegisters(self._kept, len(self._alive))
        self._pc = self._sampled(stacks, None)[self._alive]
        base = self._initial[architecture.stack_pointer]
        self._memory = StackMemory(stacks.data, stacks.starts, stacks.sizes, base, word=self.word, endian=endian)

    def _sampled(self, stacks: UserStacks, index: int | None) -> Values:
        """A register as sampled, by perf's number; the pc for None."""
        values = stacks.registers.get(self._architecture.pc if index is None else index)
        return np.zeros(len(stacks), np.uint64) if values is None else values & self._mask

    def _moved(self, number: int, rules: NDArray[np.int32], cfa: Values) -> tuple[Values, Values | None]:
        """Where the callers' register of a row of the table is, and its values where some are found by rare rules."""
        column = self._table.registers[number]
        locations = np.where(column.kind[rules] == OFFSET, cfa + column.value[rules].view(np.uint64) & self._mask, KEPT)
        if not column.has_rare or not column.is_rare[rules].any():
            return locations, None
        locations[column.is_rare[rules]] = ELSEWHERE
        return locations, self._caller(number, rules, cfa)[0]

    def _returned_to(self, rules: NDArray[np.int32], cfa: Values, callers: list[Values]) -> Values:
        """Return addresses of which some are in other columns than is usual."""
        others = (self._caller(number, rules, cfa)[0] for number in range(2, len(self._tracked)))
        row = np.clip(self._table.return_row[rules], 0, len(self._tracked) - 1)
        found: Values = np.stack([*callers, *others])[row, np.arange(len(row))]
        return found

    def _is_believed(self, rules: NDArray[np.int32], cfa: Values) -> NDArray[np.bool_]:
        """Whether frame pointers, where they are guessed to be such, lie above the stack pointer, and not too far."""
        pointer, reach = cfa - np.uint64(2 * self.word), self._table.reach[rules]
        near = (pointer >= self._registers[0]) & ((reach == 0) | (pointer - self._registers[0] <= reach))
        believed: NDArray[np.bool_] = ~self._table.is_pointed[rules] | near
        return believed

    def _cfa(self, rules: NDArray[np.int32], special: int) -> tuple[Values, NDArray[np.bool_]]:
        """The CFAs, and whether they are known."""
        table = self._table
        values, known = self._registers[0], np.ones(len(rules), bool)
        row = table.cfa_row[rules]
        others = rows_where(row)
        if len(others):
            values = values.copy()
            for one in distinct(row[others]).tolist():
                mine = others[row[others] == one]
                # a register that is not followed yet is from the next run on
                values[mine] = self._value(one, mine)
        cfa = values + table.cfa_offset[rules] & self._mask
        if special & CFA_EXPRESSION:
            self._expressions(rows_where(table.flags[rules] & CFA_EXPRESSION), rules, None, (cfa, known), None)
        return cfa, known

    def _caller(self, number: int, rules: NDArray[np.int32], cfa: Values) -> tuple[Values, NDArray[np.bool_]]:
        """A register of the callers, and whether it is known."""
        columns = self._table.registers[number]
        kind, value = columns.kind[rules], columns.value[rules].view(np.uint64)
        rows = rows_where(kind == OFFSET)
        if len(rows) == len(rules):
            return self._load(self._alive, cfa + value & self._mask)
        values, known = self._value(number, np.arange(len(cfa))), np.ones(len(cfa), bool)
        if len(rows):
            values[rows], known[rows] = self._load(self._alive[rows], cfa[rows] + value[rows] & self._mask)
        if columns.has_rare and columns.is_rare[rules].any():
            derived = kind == VAL_OFFSET
            values = np.where(derived, cfa + value & self._mask, values)
            self._rarely(number, rules, kind, cfa, (values, known))
        return values, known

    def _rarely(
        self, number: int, rules: NDArray[np.int32], kind: NDArray[np.int8], cfa: Values, found: tuple[Values, NDArray[np.bool_]]
    ) -> None:
        """The rules that few frames have."""
        values, known = found
        lost = kind == UNDEFINED
        values[lost], known[lost] = 0, False
        moved = rows_where(kind == REGISTER)
        sources = self._table.registers[number].value[rules[moved]]
        for source in distinct(sources).tolist():
            rows = moved[sources == source]
            values[rows] = self._value(source, rows)
        self._expressions(rows_where(kind >= EXPRESSION), rules, number, found, cfa)

    def _expressions(
        self, rows: Rows, rules: NDArray[np.int32], number: int | None, found: tuple[Values, NDArray[np.bool_]], cfa: Values | None
    ) -> None:
        """Fill in what expressions give: for a register the word at that address, or the value itself."""
        values, known = found
        for one in distinct(rules[rows]).tolist():
            mine = rows[rules[rows] == one]
            register = None if number is None else self._tracked[number]
            expression = self._table.expression(one, register)
            try:
                result, good = evaluate(expression, self, mine, None if cfa is None else cfa[mine])
            except ValueError:
                result, good = np.zeros(len(mine), np.uint64), np.zeros(len(mine), bool)
            if number is not None and self._table.registers[number].kind[one] == EXPRESSION:
                result, there = self._load(self._alive[mine], result)
                good &= there
            values[mine], known[mine] = result, good

    def register(self, number: int, rows: Rows) -> Values:
        """A register of some of the samples, by its DWARF number."""
        if number == self._architecture.return_column and self._architecture.registers[number] == self._architecture.pc:
            return self._pc[rows]
        if number in self._tracked:
            return self._value(self._tracked.index(number), rows)
        self._table.track(number)
        return np.zeros(len(rows), np.uint64)

    def _value(self, number: int, rows: Rows) -> Values:
        """A register of some of the samples, by its row of the table; one that is not followed yet is from the next run on."""
        if not 0 <= number < len(self._tracked):
            return np.zeros(len(rows), np.uint64)
        return self._registers[number][rows] if number < 2 else self._saved.values(number - 2, rows, self._alive[rows], self._load)

    def load(self, rows: Rows, addresses: Values) -> tuple[Values, NDArray[np.bool_]]:
        """Memory of some of the samples."""
        return self._load(self._alive[rows], addresses)

    def _load(self, samples: Rows, addresses: Values) -> tuple[Values, NDArray[np.bool_]]:
        """Words of copied stacks; where they have none, of the files that are mapped there."""
        values, known = self._memory.load(samples, addresses)
        if not known.all():
            missing = rows_where(~known)
            ids = self._symbolizer.frames_in(self._scenes, addresses[missing], samples[missing])
            values[missing], known[missing] = self._code.words(ids, self.word)
        return values, known
