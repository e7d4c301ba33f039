"""All samples of a batch unwound together, one step outwards at a time.

What enters: registers and copied stacks of samples, of one architecture, with the process and the moment of each. What
leaves: their callchains of user space, innermost frame first, as addresses; callers' are those of the call, one byte
before the return address, as perf has them. A step takes the same few array operations however many samples there
are; what rules a frame has is looked up once for each distinct address.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import Ragged, distinct
from perfpy.abi.flags import CONTEXT_LOST_CALLER
from perfpy.unwind.code_rules import CodeRules
from perfpy.unwind.expressions import evaluate
from perfpy.unwind.memory import StackMemory
from perfpy.unwind.rules import (
    CFA_EXPRESSION,
    END,
    ENDS,
    EXPRESSION,
    FAR_GUESS,
    MOVES_STACK_POINTER,
    NEAR_GUESS,
    OFFSET,
    REGISTER,
    RETURNS_ELSEWHERE,
    SIGNAL,
    UNDEFINED,
    VAL_OFFSET,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.unwind.architectures import Architecture

    Values = NDArray[np.uint64]
    Rows = NDArray[np.int64]

_ONE = np.uint64(1)
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
        self.operations_left = _OPERATIONS_MOST
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
        back: Values | np.uint64 = np.uint64(0)  # how far before the pc the instruction is that the frame is at
        guessed: NDArray[np.bool_] | None = None
        afloat: NDArray[np.bool_] | None = None  # where the stack pointer is not known
        for depth in range(most):
            address = self._pc - back
            ids = self._symbolizer.frames_in(self._scenes, address, self._alive)
            if guessed is not None:
                rows = self._believed_callers(guessed, ids)
                address, ids, afloat = address[rows], ids[rows], None if afloat is None else afloat[rows]
            self._note_found(address)
            rules = self._code.of_callers(ids) if depth else self._innermost(ids)
            if afloat is not None and afloat.any():
                rules[afloat] = self._code.of_records(rules[afloat])
            flags = self._table.flags[rules]
            if int(np.bitwise_or.reduce(flags, initial=0)) & ENDS:
                rows = np.flatnonzero(flags & ENDS == 0)
                self._keep(rows)
                rules, flags = rules[rows], flags[rows]
            if depth + 1 == most or not len(rules):
                break
            special = int(np.bitwise_or.reduce(flags))
            going = self._step(rules, special)
            guessed = flags[going] & FAR_GUESS != 0 if special & FAR_GUESS else None
            afloat = self._table.is_pointed[rules[going]] if self._is_loose else None
            back = np.where(flags[going] & SIGNAL, np.uint64(0), _ONE) if special & SIGNAL else _ONE
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

    def _note_found(self, address: Values) -> None:
        """A frame of each chain; perf leaves one out that is at 0."""
        if address.all():
            self._found.append((self._alive, address))
        else:
            rows = np.flatnonzero(address)
            self._found.append((self._alive[rows], address[rows]))

    def _believed_callers(self, guessed: NDArray[np.bool_], ids: NDArray[np.int32]) -> Rows:
        """End chains whose last caller was found by a frame pointer, but is no code; the others' rows."""
        rows = np.flatnonzero(~guessed | self._code.is_code(ids))
        self._keep(rows)
        return rows

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

    def _keep(self, rows: Rows) -> None:
        """Go on with some of the samples only."""
        if len(rows) < len(self._alive):
            self._alive = self._alive[rows]
            self._pc = self._pc[rows]
            self._registers = [values[rows] for values in self._registers]

    def _step(self, rules: NDArray[np.int32], special: int) -> Rows:
        """Go to the callers; returns which rows have any, and go on. special: the flags of all rules."""
        stack_pointer = self._registers[0]
        cfa, known = self._cfa(rules, special)
        if special & (FAR_GUESS | NEAR_GUESS):
            known &= self._is_believed(rules, cfa)
        pc, loaded = self._caller(1, rules, cfa)
        lost = known & (~loaded | (pc == 0))
        if lost.any():
            self._note_lost(np.flatnonzero(lost), rules, cfa)
        callers = [cfa, pc, *(self._caller(number, rules, cfa)[0] for number in range(2, len(self._tracked)))]
        if special & MOVES_STACK_POINTER:
            callers[0] = self._caller(0, rules, cfa)[0]
        if special & RETURNS_ELSEWHERE:
            row = np.clip(self._table.return_row[rules], 0, len(callers) - 1)
            pc = np.stack(callers)[row, np.arange(len(row))]
        pc = pc & self._code_mask
        going = np.flatnonzero(known & loaded & (pc != 0) & ((pc != self._pc) | (cfa != stack_pointer)))
        self._pc, self._registers = pc, callers
        self._keep(going)
        return going

    def _is_believed(self, rules: NDArray[np.int32], cfa: Values) -> NDArray[np.bool_]:
        """Whether frame pointers, where they are guessed to be such, lie above the stack pointer, and not too far."""
        pointer, reach = cfa - np.uint64(2 * self.word), self._table.reach[rules]
        near = (pointer >= self._registers[0]) & ((reach == 0) | (pointer - self._registers[0] <= reach))
        believed: NDArray[np.bool_] = ~self._table.is_pointed[rules] | near
        return believed

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
        marked = mapped & (self._table.flags[rules] & FAR_GUESS == 0)
        self._found.append((samples[marked], np.full(int(marked.sum()), np.uint64(CONTEXT_LOST_CALLER))))

    def _cfa(self, rules: NDArray[np.int32], special: int) -> tuple[Values, NDArray[np.bool_]]:
        """The CFAs, and whether they are known."""
        table = self._table
        values, known = self._registers[0], np.ones(len(rules), bool)
        row = table.cfa_row[rules]
        others = np.flatnonzero(row)
        if len(others):
            values = values.copy()
            for one in distinct(row[others]).tolist():
                mine = others[row[others] == one]
                # a register that is not followed yet is from the next run on
                values[mine] = self._registers[one][mine] if 0 <= one < len(self._registers) else 0
        cfa = values + table.cfa_offset[rules] & self._mask
        if special & CFA_EXPRESSION:
            self._expressions(np.flatnonzero(table.flags[rules] & CFA_EXPRESSION), rules, None, (cfa, known), None)
        return cfa, known

    def _caller(self, number: int, rules: NDArray[np.int32], cfa: Values) -> tuple[Values, NDArray[np.bool_]]:
        """A register of the callers, and whether it is known."""
        columns = self._table.registers[number]
        kind, value = columns.kind[rules], columns.value[rules].view(np.uint64)
        rows = np.flatnonzero(kind == OFFSET)
        if len(rows) == len(rules):
            return self._memory.load(self._alive, cfa + value & self._mask)
        values, known = self._registers[number].copy(), np.ones(len(cfa), bool)
        if len(rows):
            values[rows], known[rows] = self._memory.load(self._alive[rows], cfa[rows] + value[rows] & self._mask)
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
        moved = np.flatnonzero(kind == REGISTER)
        sources = self._table.registers[number].value[rules[moved]]
        for source in distinct(sources).tolist():
            rows = moved[sources == source]
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
