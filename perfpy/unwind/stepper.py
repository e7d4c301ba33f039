"""All samples of a batch unwound together, one step outwards at a time.

What enters: registers and copied stacks of samples, of one architecture, with the process and the moment of each. What
leaves: their callchains of user space, innermost frame first, as addresses; callers' are those of the call, one byte
before the return address, as perf has them. A step takes the same few array operations however many samples there
are; what rules a frame has is looked up once for each distinct address.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from perfpy.abi.columns import Ragged, distinct
from perfpy.abi.flags import CONTEXT_LOST_CALLER
from perfpy.unwind.code_rules import CodeRules
from perfpy.unwind.expressions import evaluate
from perfpy.unwind.memory import StackMemory
from perfpy.unwind.rules import END, EXPRESSION, OFFSET, REGISTER, SAME, UNDEFINED, VAL_OFFSET

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.unwind.architectures import Architecture

    Values = NDArray[np.uint64]
    Rows = NDArray[np.int64]

_ONE = np.uint64(1)


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


class Unwound(NamedTuple):
    """Callchains, which may end with the marker CONTEXT_LOST_CALLER; is_cut: whether one ends because the copy of its stack does."""

    chains: Ragged
    is_cut: NDArray[np.bool_]


class Stepper:
    """Unwinds the stacks of one architecture.

    symbolizer: its frames are the addresses that were met (see Symbolizer.companion); endian: of the recording.
    """

    def __init__(self, architecture: Architecture, symbolizer: Symbolizer, *, endian: str = "<", max_stack: int = 127) -> None:
        self._architecture = architecture
        self._symbolizer = symbolizer
        self._endian = endian
        self._max_stack = max_stack
        self._code = CodeRules(architecture, symbolizer)

    def unwind(self, stacks: UserStacks) -> Unwound:
        """The callchain of each sample."""
        while True:
            tracked = len(self._code.table.tracked)
            run = _StepperRun(self._architecture, self._code, self._symbolizer, stacks, endian=self._endian)
            found = run.chains(self._max_stack)
            if len(self._code.table.tracked) == tracked:  # otherwise a frame was found by a register that was not followed
                return found


class _StepperRun:
    """One batch. The rows of its arrays are the samples whose chains have not ended; `_alive` says which those are."""

    def __init__(self, architecture: Architecture, code: CodeRules, symbolizer: Symbolizer, stacks: UserStacks, *, endian: str) -> None:
        self._code = code
        self._table = code.table
        self._architecture = architecture
        self._symbolizer = symbolizer
        self._mask, self._code_mask = np.uint64(architecture.mask), np.uint64(architecture.code_mask)
        self.word, self.endian = architecture.word, endian
        self._count = len(stacks)
        self._scenes = symbolizer.user_scenes(stacks.pid, stacks.key)
        # as in perf: where no file of a process is here, nothing of it is shown
        self._alive = np.flatnonzero(symbolizer.has_files(self._scenes))
        self._table.update()
        self._tracked = list(self._table.tracked)
        self._initial = {number: self._sampled(stacks, index) for number, index in enumerate(architecture.registers)}
        self._registers = [self._initial[register][self._alive] for register in self._tracked]
        self._pc = self._sampled(stacks, None)[self._alive]
        base = self._initial[architecture.stack_pointer]
        self._memory = StackMemory(
            stacks.data, stacks.starts, stacks.sizes, base,
            word=self.word, endian=endian, elsewhere=self._elsewhere, whole=architecture.links,
        )  # fmt: skip
        self._is_cut = np.zeros(self._count, bool)
        self._is_loose = architecture.frame is not None and not architecture.frame.is_exact
        self._found: list[tuple[Rows, Values]] = []

    def _sampled(self, stacks: UserStacks, index: int | None) -> Values:
        """A register as sampled, by perf's number; the pc for None."""
        values = stacks.registers.get(self._architecture.pc if index is None else index)
        return np.zeros(len(stacks), np.uint64) if values is None else values & self._mask

    def chains(self, most: int) -> Unwound:
        """All chains, of up to so many frames."""
        back = np.zeros(len(self._alive), np.uint64)  # how far before the pc the instruction is that the frame is at
        guessed, afloat = np.zeros(len(self._alive), bool), np.zeros(len(self._alive), bool)
        for depth in range(most):
            address = self._pc - back
            ids = self._symbolizer.frames_in(self._scenes, address, self._alive)
            rules = self._code.of_callers(ids) if depth else self._innermost(ids)
            if afloat.any():  # the stack pointer is not known
                rules[afloat] = self._code.of_records(rules[afloat])
            signal = self._table.is_signal[rules]
            if guessed.any():
                kept = ~guessed | self._code.is_code(ids)
                if not kept.all():
                    self._keep(kept)
                    ids, rules, signal, address = ids[kept], rules[kept], signal[kept], address[kept]
            self._found.append((self._alive, address))
            if depth + 1 == most or not len(self._alive):
                break
            rows = np.flatnonzero(rules != END)
            if len(rows) < len(rules):
                self._keep(rows)
                rules, signal = rules[rows], signal[rows]
            going = self._step(rules)
            guessed = (self._table.is_guess[rules] & (self._table.reach[rules] == 0))[going]
            afloat = self._table.is_pointed[rules][going] & self._is_loose
            back = np.where(signal[going], np.uint64(0), _ONE)
            if not len(self._alive):
                break
        return self._assembled()

    def _innermost(self, ids: NDArray[np.int32]) -> NDArray[np.int32]:
        """The rules of the frames that were sampled."""
        rules = self._code.of_frames(ids)
        silent = np.flatnonzero((self._table.is_guess[rules] | (rules == END)) & self._architecture.links)
        if len(silent):
            returns = self._registers[1][silent] & self._code_mask
            callers = self._symbolizer.frames_in(self._scenes, returns - _ONE, silent)
            rules[silent] = self._code.of_leaves(ids[silent], rules[silent], callers)
            self._table.update()
        return rules

    def _assembled(self) -> Unwound:
        lengths = np.zeros(self._count, np.int64)
        for alive, _ in self._found:
            lengths[alive] += 1
        offsets = np.zeros(self._count + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        values = np.empty(int(offsets[-1]), np.uint64)
        filled = offsets[:-1].copy()
        for alive, addresses in self._found:
            values[filled[alive]] = addresses
            filled[alive] += 1
        return Unwound(Ragged(values, offsets), self._is_cut)

    def _keep(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> None:
        """Go on with some of the samples only."""
        self._alive = self._alive[rows]
        self._pc = self._pc[rows]
        self._registers = [values[rows] for values in self._registers]

    def _step(self, rules: NDArray[np.int32]) -> NDArray[np.int64]:
        """Go to the callers; returns which rows have any, and go on."""
        table, stack_pointer = self._table, self._registers[0]
        cfa, known = self._cfa(rules)
        pointed = table.is_pointed[rules]
        if bool(pointed.any()):
            distance = cfa - np.uint64(2 * self.word) - stack_pointer
            reach = table.reach[rules]
            known &= ~pointed | (cfa - np.uint64(2 * self.word) >= stack_pointer) & ((reach == 0) | (distance <= reach))
        callers = []
        for number in range(len(self._tracked)):
            values, loaded = self._caller(number, rules, cfa)
            callers.append(values)
            if number == 1:  # the return address
                self._note_lost(np.flatnonzero(known & (~loaded | (values == 0))), rules, cfa)
                known &= loaded
        pc = self._return_address(rules, callers) & self._code_mask
        going = np.flatnonzero(known & (pc != 0) & ~((pc == self._pc) & (cfa == stack_pointer)))
        self._pc, self._registers = pc, callers
        self._keep(going)
        return going

    def _note_lost(self, rows: Rows, rules: NDArray[np.int32], cfa: Values) -> None:
        """End chains whose return address could not be read, or is none, as libunwind does on x86: where it is mapped, with a mark."""
        column, rules = self._table.registers[1], rules[rows]
        rows, rules = rows[column.kind[rules] == OFFSET], rules[column.kind[rules] == OFFSET]
        if not len(rows):
            return
        addresses = cfa[rows] + column.value[rules].view(np.uint64) & self._mask
        samples = self._alive[rows]
        self._is_cut[samples] = self._memory.is_above(samples, addresses)
        if self._architecture.links:
            return
        mapped = self._code.is_code(self._symbolizer.frames_in(self._scenes, addresses, samples))
        marked = mapped & ~(self._table.is_guess[rules] & (self._table.reach[rules] == 0))
        self._found.append((samples[marked], np.full(int(marked.sum()), np.uint64(CONTEXT_LOST_CALLER))))

    def _return_address(self, rules: NDArray[np.int32], callers: list[Values]) -> Values:
        """The callers' pc: in nearly all code from the same column."""
        row = self._table.return_row[rules]
        if bool((row == 1).all()):
            return callers[1]
        row = np.where((row >= 0) & (row < len(callers)), row, 0)  # one that is followed from the next run on
        return np.stack(callers)[row, np.arange(len(row))]

    def _cfa(self, rules: NDArray[np.int32]) -> tuple[Values, NDArray[np.bool_]]:
        table = self._table
        row = table.cfa_row[rules]
        if len(self._registers) <= int(row.max(initial=0)):  # of a register that is followed from the next run on
            row = np.where(row < len(self._registers), row, 0)
        known = row >= 0
        values = np.stack(self._registers).ravel()[np.maximum(row, 0) * len(row) + np.arange(len(row))]
        cfa = values + table.cfa_offset[rules] & self._mask
        by_expression = table.has_cfa_expression[rules]
        if by_expression.any():
            self._expressions(np.flatnonzero(by_expression), rules, None, (cfa, known), None)
        return cfa, known

    def _caller(self, number: int, rules: NDArray[np.int32], cfa: Values) -> tuple[Values, NDArray[np.bool_]]:
        """A register of the callers, and whether it is known."""
        kind = self._table.registers[number].kind[rules]
        value = self._table.registers[number].value[rules].view(np.uint64)
        saved = kind == OFFSET
        if saved.all():
            return self._memory.load(self._alive, cfa + value & self._mask)
        values, known = self._registers[number].copy(), np.ones(len(cfa), bool)
        rows = np.flatnonzero(saved)
        if len(rows):
            values[rows], known[rows] = self._memory.load(self._alive[rows], (cfa[rows] + value[rows]) & self._mask)
        derived = kind == VAL_OFFSET
        if derived.any():
            values = np.where(derived, cfa + value & self._mask, values)
        if int(kind.max(initial=SAME)) >= REGISTER or bool((kind == UNDEFINED).any()):
            self._rarely(number, rules, kind, cfa, (values, known))
        return values, known

    def _rarely(
        self, number: int, rules: NDArray[np.int32], kind: NDArray[np.int8], cfa: Values, found: tuple[Values, NDArray[np.bool_]]
    ) -> None:
        """The rules that few frames have."""
        values, known = found
        lost = kind == UNDEFINED
        values[lost], known[lost] = 0, False
        moved = np.flatnonzero(kind == REGISTER)
        for source in distinct(self._table.registers[number].value[rules[moved]]).tolist():
            rows = moved[self._table.registers[number].value[rules[moved]] == source]
            values[rows] = self._registers[source][rows] if 0 <= source < len(self._registers) else 0
        self._expressions(np.flatnonzero(kind >= EXPRESSION), rules, number, found, cfa)

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
                result, there = self._memory.load(self._alive[mine], result)
                good &= there
            values[mine], known[mine] = result, good

    def register(self, number: int, rows: Rows) -> Values:
        """A register of some of the samples, by its DWARF number."""
        if number == self._architecture.return_column and self._architecture.registers[number] == self._architecture.pc:
            return self._pc[rows]
        if number in self._tracked:
            return self._registers[self._tracked.index(number)][rows]
        self._table.track(number)
        return np.zeros(len(rows), np.uint64)

    def load(self, rows: Rows, addresses: Values) -> tuple[Values, NDArray[np.bool_]]:
        """Memory of some of the samples."""
        return self._memory.load(self._alive[rows], addresses)

    def _elsewhere(self, samples: Rows, addresses: Values) -> tuple[Values, NDArray[np.bool_]]:
        """What mapped files have at addresses."""
        return self._code.words(self._symbolizer.frames_in(self._scenes, addresses, samples), self.word)
