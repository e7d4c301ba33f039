"""Unwind all samples of a batch together, one step outwards at a time.

The samples share an architecture; each has registers, a copied stack, a process and a time. The result is their user callchains, innermost
frame first, as addresses. A caller's address is that of the call, one byte before the return address, as in perf. Signal trampolines and
the code that a signal interrupted made no call: their addresses are exact. A step takes the same few array operations for any number of
samples; rules are looked up once for each distinct address.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.columns import Ragged, distinct, rows_where
from perfpy.abi.flags import CONTEXT_LOST_CALLER
from perfpy.abi.light_types import NamedTuple
from perfpy.unwind.code_rules import CodeRules, RuntimeCode
from perfpy.unwind.expressions import evaluate
from perfpy.unwind.frame_entries import saved_pointer
from perfpy.unwind.known_callers import (
    ELSEWHERE,
    KEPT,
    SAMPLED,
    UNKNOWN,
    CallerWords,
    ChainState,
    Followed,
    KnownCallers,
    StackMemory,
    Waiting,
)
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
    from collections.abc import Callable

    from numpy.typing import NDArray

    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.unwind.rules import Architecture, FrameRules

    Frames = NDArray[np.int32]
    Values = NDArray[np.uint64]
    Rows = NDArray[np.int64]
    Load = Callable[[Rows, Values], tuple[Values, NDArray[np.bool_]]]


_ONE = np.uint64(1)
_EIGHT = np.uint64(8)
_COPIES_MOST: Final = 64  # of one word in a frame
_LARGEST_FRAME: Final = 1 << 16  # bytes, of code that lowers the stack pointer in a loop
#: Instead of an unknown frame.
LOST: Final = -1
_OPERATIONS_MOST: Final = 1 << 17  # of expressions in one batch, each for many samples: about a second
_UNUSUAL: Final = SIGNAL | NEAR_GUESS | FAR_GUESS | CFA_EXPRESSION | MOVES_STACK_POINTER | RETURNS_ELSEWHERE


class UserStacks(NamedTuple):
    """The stacks of samples, one in each row.

    Attributes:
        registers: u64, one column for each of perf's register numbers (0 if it was not recorded).
        data: the copied stacks, each at a multiple of 8.
        starts, sizes: of each copy in `data`, in bytes.
        pid: of the process.
        key: the delivery key.
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
    """Callchains, which may end with the marker CONTEXT_LOST_CALLER.

    Attributes:
        is_truncated: whether a chain ends because the copy of its stack ends.
        frames: the same frames by the ids of the stepper's symbolizer, LOST for the marker.
    """

    chains: Ragged
    frames: NDArray[np.int32]
    is_truncated: NDArray[np.bool_]


class Stepper:
    """Unwinds the stacks of one architecture.

    Args:
        architecture: of the samples.
        symbolizer: interns the addresses as frames (see Symbolizer.companion).
        endian: of the recording.
        max_stack: the most frames of a chain.
        runtime_code: rules of code that a running process has generated.
    """

    def __init__(
        self,
        architecture: Architecture,
        symbolizer: Symbolizer,
        *,
        endian: str = "<",
        max_stack: int = 127,
        runtime_code: RuntimeCode | None = None,
    ) -> None:
        self._architecture = architecture
        self._symbolizer = symbolizer
        self._endian = endian
        self._max_stack = max_stack
        self._code = CodeRules(architecture, symbolizer, runtime_code)
        self._callers: KnownCallers | None = None
        self._report_ids = np.zeros(0, np.int32)  # frame -> its id in the report's symbolizer; LOST: not looked up yet

    def unwind(self, stacks: UserStacks) -> Unwound:
        """Return the callchain of each sample."""
        while True:
            run = _StepperRun(self._architecture, self._code, self._symbolizer, stacks, endian=self._endian)
            chains = run.chains(self._max_stack, self._known_callers() if self._architecture.pushes else None)
            if chains is not None:  # None: a frame depends on a register that was not tracked
                return chains

    def frame_rules(self, pid: NDArray[np.int32], key: Values, addresses: Values) -> tuple[list[FrameRules], NDArray[np.bool_]]:
        """Return the rules of frames at addresses of processes, and whether each frame is outermost. key: the time, see UserStacks."""
        scenes = self._symbolizer.user_scenes(pid, key)
        numbers = self._code.of_callers(self._symbolizer.frames_in(scenes, addresses, np.arange(len(addresses))))
        table = self._code.table
        table.update()
        ends = (table.flags[numbers] & ENDS != 0) | (table.registers[1].kind[numbers] == UNDEFINED)
        return [table.rules[number] for number in numbers.tolist()], ends

    def convert_frames(self, frames: Frames, symbolizer: Symbolizer) -> Frames:
        """Convert frames to the ids of another symbolizer of the recording, which must always be the same one; LOST stays LOST."""
        table = self._symbolizer.frames
        if len(self._report_ids) < len(table) + 1:  # one more, for LOST
            self._report_ids = np.concatenate(
                [self._report_ids[:-1], np.full(len(table) + 1 - max(len(self._report_ids) - 1, 0), LOST, np.int32)]
            )
        met = np.zeros(len(self._report_ids), bool)
        met[frames] = True
        met[LOST] = False
        fresh = rows_where(met & (self._report_ids == LOST)).astype(np.int32)
        self._report_ids[fresh] = symbolizer.intern(self._symbolizer.origins(fresh))
        return self._report_ids.take(frames)

    def _known_callers(self) -> KnownCallers:
        """Return the callers of earlier batches, as long as the same registers are tracked."""
        self._code.table.update()
        register_count = len(self._code.table.tracked) - 2
        if self._callers is None or self._callers.is_full or len(self._callers.saved) != register_count:
            self._callers = KnownCallers(register_count)
        return self._callers


class _StepperRun:
    """The state of one batch. Rows are the chains that have not ended.

    Attributes:
        _alive: their samples.
        _pc: the addresses that they have reached.
        _registers: the stack pointer and the return address.
        _saved: all other tracked registers.
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
        # As in perf: a process without any readable file has no user frames.
        self._alive = rows_where(symbolizer.has_files(self._scenes))
        self._table.update()
        self._tracked = list(self._table.tracked)
        self._initial = {number: self._sampled_register(stacks, index) for number, index in enumerate(architecture.registers)}
        self._registers = [self._initial[register][self._alive] for register in self._tracked[:2]]
        self._callee_saved = [self._initial[register] for register in self._tracked[2:]]
        self._saved = SavedRegisters(self._callee_saved, len(self._alive))
        self._pc = self._sampled_register(stacks, None)[self._alive]
        base = self._initial[architecture.stack_pointer]
        self._memory = StackMemory(stacks.data, stacks.starts, stacks.sizes, base, word=self.word, endian=endian)
        self._is_truncated = np.zeros(self._count, bool)
        self._back = np.zeros(len(self._alive), np.uint64)  # distance from the frame's instruction to the pc
        self._state = np.full(len(self._alive), UNKNOWN, np.int32)
        self._step_before: tuple[NDArray[np.int32], CallerWords] | None = None
        self._depth = np.zeros(len(self._alive), np.int64)  # number of frames before the current one
        self._is_loose = architecture.frame is not None and not architecture.frame.is_exact
        self._frames: list[tuple[Rows, Frames]] = []
        self._callers: KnownCallers | None = None

    def chains(self, most: int, callers: KnownCallers | None) -> Unwound | None:
        """Return all chains, of up to `most` frames, or None if more registers must be tracked. callers: callers of earlier batches."""
        self._callers = callers
        followed = None if callers is None else Followed(callers, self._memory, self._callee_saved, self._scenes.rank, most)
        guessed: NDArray[np.bool_] | None = None
        has_no_stack_pointer: NDArray[np.bool_] | None = None  # rows with an unknown stack pointer
        while len(self._alive) or followed:
            ids = self._symbolizer.frames_in(self._scenes, self._pc - self._back, self._alive)
            if guessed is not None:
                rows = rows_where(~guessed | self._code.is_code(ids))
                self._keep(rows)
                ids, has_no_stack_pointer = ids[rows], None if has_no_stack_pointer is None else has_no_stack_pointer[rows]
            ids = self._with_exact_trampolines(ids)
            if followed is not None:
                ids = self._follow(followed, ids)
                if not len(ids):
                    guessed = None
                    continue
            self._add_frames(self._pc - self._back, ids)
            rules = self._rules_of(ids)
            if has_no_stack_pointer is not None and has_no_stack_pointer.any():
                rules[has_no_stack_pointer] = self._code.of_records(rules[has_no_stack_pointer])
            rules, flags = self._without_ends(rules, self._table.flags[rules], most)
            special = int(np.bitwise_or.reduce(flags, initial=0))
            going = self._step(rules, special)
            guessed = flags[going] & FAR_GUESS != 0 if special & FAR_GUESS else None
            if len(self._table.tracked) > len(self._tracked):
                return None
            has_no_stack_pointer = self._table.is_pointed[rules[going]] if self._is_loose else None
            self._back = np.where(flags[going] & SIGNAL, np.uint64(0), _ONE)
        lengths = np.zeros(self._count, np.int64)
        for samples, _ in self._frames:
            lengths[samples] += 1
        offsets = np.zeros(self._count + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        frames = np.empty(int(offsets[-1]), np.int32)
        filled = offsets[:-1].copy()
        for samples, step_frames in self._frames:
            position = filled[samples]
            frames[position] = step_frames
            filled[samples] = position + 1
        values = self._symbolizer.frames.ip.take(frames)
        values[frames == LOST] = CONTEXT_LOST_CALLER
        return Unwound(Ragged(values, offsets), frames, self._is_truncated)

    def _with_exact_trampolines(self, ids: Frames) -> Frames:
        """Return the current frames, with signal trampolines at their own addresses: a handler returns there without having been called.

        Call frame information begins one byte before a trampoline, so that unwinders that subtract one find it. Its symbol does not.
        """
        mine = self._back != 0
        if not mine.any():
            return ids
        rows = rows_where(mine & self._code.are_trampolines(ids))
        if len(rows):
            self._back[rows] = 0
            ids = ids.copy()
            ids[rows] = self._symbolizer.frames_in(self._scenes, self._pc[rows], self._alive[rows])
        return ids

    def _rules_of(self, ids: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the rules of the current frames."""
        is_caller = self._depth > 0
        if is_caller.all():
            return self._code.of_callers(ids)
        if not is_caller.any():
            return self._innermost(ids)
        return np.where(is_caller, self._code.of_callers(ids), self._innermost(ids))

    def _without_ends(self, rules: NDArray[np.int32], flags: NDArray[np.uint8], most: int) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
        """Drop chains that end here or have reached the limit."""
        ends = flags & ENDS != 0
        is_full = self._depth + 1 >= most
        if ends.any():
            self._note_ends(ends)
        elif not is_full.any():
            return rules, flags
        rows = rows_where(~(ends | is_full))
        self._keep(rows)
        return rules[rows], flags[rows]

    def _note_ends(self, ends: NDArray[np.bool_]) -> None:
        """Record that these chains end here, because the code says so."""
        if self._callers is not None:
            self._callers.note_end(self._state[ends & (self._state >= 0)])

    def _follow(self, followed: Followed, ids: Frames) -> Frames:
        """Move the chains that continue as others did; return the frames of the chains that the stepper must move.

        Those are the first to reach their states, and those that differ from earlier chains.
        """
        callers = self._callers
        assert callers is not None
        self._state = self._states(callers, ids)
        if self._step_before is not None:
            before, frames = self._step_before
            rows = rows_where((before >= 0) & (self._state >= 0))
            callers.note(before[rows], self._state[rows], frames.take(rows))
            self._step_before = None
        went = followed.step(self._symbolizer.last_valid_from) if len(followed) else None
        goes = self._are_first(callers)
        rows = rows_where(~goes)
        if len(rows):  # the next state is known from the next step on
            locations = [values[rows] for values in self._saved.locations]
            followed.add(Waiting(self._alive[rows], self._state[rows], self._depth[rows], locations))
            rows = rows_where(goes)
            self._keep(rows)
            ids = ids[rows]
        if went is not None:
            self._frames.append((went.samples, went.frames))
            if len(went.strayed.samples):
                self._take_back(callers, went.strayed)
                ids = np.concatenate([ids, callers.frame[went.strayed.states]])
        return ids

    def _are_first(self, callers: KnownCallers) -> NDArray[np.bool_]:
        """Return which chains are the first to reach their states, or may be the only ones."""
        goes = self._state < 0
        rows = rows_where(~goes)
        new = rows[callers.following[self._state[rows]] == UNKNOWN][::-1]
        states = self._state[new]
        first = np.empty(len(callers), np.int64)
        first[states] = new  # of equal states, the first row is written last
        goes[new] = first[states] == new
        return goes

    def _states(self, callers: KnownCallers, ids: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the states of all chains; UNKNOWN for states that no other chain can reach."""
        address, born = self._pc - self._back, self._symbolizer.valid_from(ids)
        fits, is_found = (born >= 0) & (address != 0), self._saved.are_saved
        rows = rows_where(fits if is_found is None else fits & is_found)
        states = np.full(len(ids), UNKNOWN, np.int32)
        scene = self._scenes.scene[self._alive[rows]]
        states[rows] = callers.states(ChainState(scene, address[rows], self._back[rows], self._registers[0][rows], born[rows], ids[rows]))
        return states

    def _take_back(self, callers: KnownCallers, strayed: Waiting) -> None:
        """Take back chains that differ from earlier ones."""
        samples, states, depth, locations = strayed
        back, pc = callers.back[states], callers.address[states] + callers.back[states]
        registers = [callers.stack_pointer[states], pc]
        self._alive, self._state = np.concatenate([self._alive, samples]), np.concatenate([self._state, states])
        self._back, self._pc = np.concatenate([self._back, back]), np.concatenate([self._pc, pc])
        self._depth = np.concatenate([self._depth, depth])
        self._registers = [np.concatenate(both) for both in zip(self._registers, registers, strict=True)]
        self._saved.add(locations)

    def _innermost(self, ids: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the rules of the sampled frames."""
        rules = self._code.of_frames(ids)
        silent = rows_where((self._table.is_guess[rules] | (rules == END)) & self._architecture.links)
        if len(silent):
            returns = self._registers[1][silent] & self._code_mask
            callers = self._symbolizer.frames_in(self._scenes, returns - _ONE, silent)
            rules[silent] = self._code.of_leaves(ids[silent], rules[silent], callers)
            self._table.update()
        return rules

    def _add_frames(self, address: Values, ids: Frames) -> None:
        """Add a frame to each chain, except for address 0, as in perf."""
        if address.all():
            self._frames.append((self._alive, ids))
        else:
            rows = rows_where(address)
            self._frames.append((self._alive[rows], ids[rows]))

    def _keep(self, rows: Rows) -> None:
        """Keep only some rows."""
        if len(rows) < len(self._alive):
            self._alive = self._alive[rows]
            self._pc = self._pc[rows]
            self._back, self._state, self._depth = self._back[rows], self._state[rows], self._depth[rows]
            self._registers = [values[rows] for values in self._registers]
            self._saved.keep(rows)
            if self._step_before is not None:
                before, frames = self._step_before
                self._step_before = before[rows], frames.take(rows)

    def _step(self, rules: NDArray[np.int32], special: int) -> Rows:
        """Move to the callers; return the rows that have one. special: the flags of all rules together."""
        stack_pointer = self._registers[0]
        cfa, is_known = self._cfa(rules, special)
        if special & (FAR_GUESS | NEAR_GUESS):
            pointer, reach = cfa - np.uint64(2 * self.word), self._table.reach[rules]
            near = (pointer >= self._registers[0]) & ((reach == 0) | (pointer - self._registers[0] <= reach))
            is_known &= ~self._table.is_pointed[rules] | near
        pc, loaded = self._caller(1, rules, cfa)
        lost = is_known & (~loaded | (pc == 0))
        if lost.any():
            guessed = self._table.flags[rules] & NEAR_GUESS != 0
            self._note_lost(rows_where(is_known & (~loaded | guessed & (pc == 0))), rules, cfa)
        moved = [self._move_register(number, rules, cfa) for number in range(2, len(self._tracked))]
        callers = [cfa, pc]
        if special & MOVES_STACK_POINTER:
            callers[0] = self._caller(0, rules, cfa)[0]
        if special & RETURNS_ELSEWHERE:
            others = (self._caller(number, rules, cfa)[0] for number in range(2, len(self._tracked)))
            row = np.clip(self._table.return_row[rules], 0, len(self._tracked) - 1)
            pc = np.stack([*callers, *others])[row, np.arange(len(row))]
        words, pc = pc, pc & self._code_mask
        going = rows_where(is_known & loaded & (pc != 0) & ((pc != self._pc) | (cfa != stack_pointer)))
        if self._callers is not None:
            self._note_step(rules, cfa, words, [locations for locations, _ in moved])
        self._saved.move(moved)
        self._pc, self._registers = pc, callers
        self._depth += 1
        self._keep(going)
        return going

    def _note_step(self, rules: NDArray[np.int32], cfa: Values, returns: Values, saved: list[Values]) -> None:
        """Store the words that led to the callers, unless they cannot be compared again. returns: as loaded."""
        table = self._table
        column, base_row = table.registers[1], table.cfa_row[rules]
        kind, usual = column.kind[rules], (table.flags[rules] & _UNUSUAL == 0) & (base_row != 1)
        self._note_ends(usual & (kind == UNDEFINED))
        usual &= kind == OFFSET
        for locations in saved:
            usual &= locations != ELSEWHERE
        word_address = cfa + column.value[rules].view(np.uint64) & self._mask
        base = cfa - table.cfa_offset[rules] & self._mask
        before = np.where(usual, self._state, np.int32(UNKNOWN))
        self._step_before = before, CallerWords(word_address, returns, np.maximum(base_row - 1, 0).astype(np.int8), base, saved)

    def _note_lost(self, rows: Rows, rules: NDArray[np.int32], cfa: Values) -> None:
        """End chains with an unreadable return address, or with a guessed one that is not code. As in perf, mapped frames get a mark."""
        column, rules = self._table.registers[1], rules[rows]
        rows, rules = rows[column.kind[rules] == OFFSET], rules[column.kind[rules] == OFFSET]
        if not len(rows):
            return
        addresses = cfa[rows] + column.value[rules].view(np.uint64) & self._mask
        samples = self._alive[rows]
        self._is_truncated[samples] = self._memory.is_above(samples, addresses)
        if self._architecture.links:
            return
        mapped = self._code.is_code(self._symbolizer.frames_in(self._scenes, addresses, samples))
        marked = mapped & (self._table.flags[rules] & FAR_GUESS == 0)
        self._frames.append((samples[marked], np.full(int(marked.sum()), LOST, np.int32)))

    def _sampled_register(self, stacks: UserStacks, index: int | None) -> Values:
        """Return a sampled register, by perf's number; None: the pc."""
        values = stacks.registers.get(self._architecture.pc if index is None else index)
        return np.zeros(len(stacks), np.uint64) if values is None else values & self._mask

    def _move_register(self, number: int, rules: NDArray[np.int32], cfa: Values) -> tuple[Values, Values | None]:
        """Return the place of the callers' register in a row of the table, and its values if rare rules compute some."""
        column = self._table.registers[number]
        locations = np.where(column.kind[rules] == OFFSET, cfa + column.value[rules].view(np.uint64) & self._mask, KEPT)
        if not column.has_rare or not column.is_rare[rules].any():
            return locations, None
        locations[column.is_rare[rules]] = ELSEWHERE
        return locations, self._caller(number, rules, cfa)[0]

    def _cfa(self, rules: NDArray[np.int32], special: int) -> tuple[Values, NDArray[np.bool_]]:
        """Return the CFAs, and whether they are known."""
        table = self._table
        values, is_known = self._registers[0], np.ones(len(rules), bool)
        row = table.cfa_row[rules]
        others = rows_where(row)
        if len(others):
            values = values.copy()
            for one in distinct(row[others]).tolist():
                mine = others[row[others] == one]
                # a new register is tracked from the next run on
                values[mine] = self._value(one, mine)
        cfa = values + table.cfa_offset[rules] & self._mask
        if special & CFA_EXPRESSION:
            self._apply_expressions(rows_where(table.flags[rules] & CFA_EXPRESSION), rules, None, (cfa, is_known), None)
        return cfa, is_known

    def _caller(self, number: int, rules: NDArray[np.int32], cfa: Values) -> tuple[Values, NDArray[np.bool_]]:
        """Return a register of the callers, and whether it is known."""
        columns = self._table.registers[number]
        kind, value = columns.kind[rules], columns.value[rules].view(np.uint64)
        rows = rows_where(kind == OFFSET)
        if len(rows) == len(rules):
            return self._load(self._alive, cfa + value & self._mask)
        values, is_known = self._value(number, np.arange(len(cfa))), np.ones(len(cfa), bool)
        if len(rows):
            values[rows], is_known[rows] = self._load(self._alive[rows], cfa[rows] + value[rows] & self._mask)
        if columns.has_rare and columns.is_rare[rules].any():
            derived = kind == VAL_OFFSET
            values = np.where(derived, cfa + value & self._mask, values)
            self._apply_rare_rules(number, rules, kind, cfa, (values, is_known))
        return values, is_known

    def _apply_rare_rules(
        self, number: int, rules: NDArray[np.int32], kind: NDArray[np.int8], cfa: Values, results: tuple[Values, NDArray[np.bool_]]
    ) -> None:
        """Apply the rare rules."""
        values, is_known = results
        lost = kind == UNDEFINED
        values[lost], is_known[lost] = 0, False
        moved = rows_where(kind == REGISTER)
        sources = self._table.registers[number].value[rules[moved]]
        for source in distinct(sources).tolist():
            rows = moved[sources == source]
            values[rows] = self._value(source, rows)
        self._apply_expressions(rows_where(kind >= EXPRESSION), rules, number, results, cfa)

    def _apply_expressions(
        self, rows: Rows, rules: NDArray[np.int32], number: int | None, results: tuple[Values, NDArray[np.bool_]], cfa: Values | None
    ) -> None:
        """Fill in the values of expressions: for registers the value itself or the word at that address."""
        values, is_known = results
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
            if number is None and not good.all() and self._table.rules[one].copies[1] and self._architecture.stub:
                lost = rows_where(~good)
                result[lost], good[lost] = self._cfa_by_copies(mine[lost], self._table.rules[one])
            values[mine], is_known[mine] = result, good

    def _cfa_by_copies(self, rows: Rows, rules: FrameRules) -> tuple[Values, NDArray[np.bool_]]:
        """Return CFAs that come from words below the stack pointer, by older copies of these words, and which are known.

        The number of copies is unknown, and the words between may be data. So a copy must lead to a return address after a call.
        """
        (first, step), saved = rules.copies, saved_pointer(rules.cfa)
        result, good = np.zeros(len(rows), np.uint64), np.zeros(len(rows), bool)
        if saved is None:
            return result, good
        base = self.register(saved[0], rows)
        for number in range(_COPIES_MOST):
            left = rows_where(~good)
            addresses = base[left] + np.uint64(first + number * step)
            word, is_known = self._memory.load(self._alive[rows[left]], addresses)
            cfa = word + np.uint64(saved[2])
            is_known &= (cfa > addresses) & (cfa - addresses < _LARGEST_FRAME)
            left, cfa = left[is_known], cfa[is_known]
            returns, is_known = self._memory.load(self._alive[rows[left]], cfa - np.uint64(self._architecture.stub))
            ids = self._symbolizer.frames_in(self._scenes, returns - _EIGHT, self._alive[rows[left]])
            is_known &= self._code.end_with_calls(ids)
            result[left[is_known]], good[left[is_known]] = cfa[is_known], True
            if good.all():
                break
        return result, good

    def register(self, number: int, rows: Rows) -> Values:
        """Return a register of some samples, by its DWARF number."""
        if number == self._architecture.return_column and self._architecture.registers[number] == self._architecture.pc:
            return self._pc[rows]
        if number in self._tracked:
            return self._value(self._tracked.index(number), rows)
        self._table.track(number)
        return np.zeros(len(rows), np.uint64)

    def _value(self, number: int, rows: Rows) -> Values:
        """Return a register of some samples, by its row of the table; a new register is tracked from the next run on."""
        if not 0 <= number < len(self._tracked):
            return np.zeros(len(rows), np.uint64)
        return self._registers[number][rows] if number < 2 else self._saved.values(number - 2, rows, self._alive[rows], self._load)

    def load(self, rows: Rows, addresses: Values) -> tuple[Values, NDArray[np.bool_]]:
        """Read memory of some samples."""
        return self._load(self._alive[rows], addresses)

    def _load(self, samples: Rows, addresses: Values) -> tuple[Values, NDArray[np.bool_]]:
        """Read words of copied stacks, or of the files that are mapped there."""
        values, is_known = self._memory.load(samples, addresses)
        if not is_known.all():
            missing = rows_where(~is_known)
            ids = self._symbolizer.frames_in(self._scenes, addresses[missing], samples[missing])
            values[missing], is_known[missing] = self._code.words(ids, self.word)
        return values, is_known


# The callers' registers, besides the stack pointer and the return address. Each step records where callees saved them. Values are read
# only when a frame depends on them, which most never do.
class SavedRegisters:
    """The registers of chains, one chain in each row.

    Args:
        sampled: each register's values at the samples.

    Attributes:
        locations: the address of each register, or SAMPLED, or ELSEWHERE: then the value is known from a rare rule.
    """

    def __init__(self, sampled: list[Values], rows: int) -> None:
        self._sampled = sampled
        self.locations = [np.full(rows, SAMPLED) for _ in sampled]
        self._values: list[Values] = [np.zeros(rows, np.uint64) for _ in sampled]

    def keep(self, rows: Rows) -> None:
        """Keep only these rows."""
        self.locations = [values[rows] for values in self.locations]
        self._values = [values[rows] for values in self._values]

    def add(self, locations: list[Values]) -> None:
        """Add rows, in which no register is ELSEWHERE."""
        self.locations = [np.concatenate(both) for both in zip(self.locations, locations, strict=True)]
        none = np.zeros(len(locations[0]) if locations else 0, np.uint64)
        self._values = [np.concatenate([values, none]) for values in self._values]

    def values(self, number: int, rows: Rows, samples: Rows, load: Load) -> Values:
        """Return a register of some rows, or 0 for unreadable values.

        Args:
            number: of the register.
            rows: the chains.
            samples: the samples of these chains.
            load: reads words at addresses of samples.
        """
        locations = self.locations[number][rows]
        values = np.where(locations == SAMPLED, self._sampled[number][samples], self._values[number][rows])
        saved = rows_where(locations < KEPT)
        if len(saved):
            values[saved] = load(samples[saved], locations[saved])[0]
        return values

    def move(self, moved: list[tuple[Values, Values | None]]) -> None:
        """Move to the callers: the new place of each register (KEPT: unchanged), and the values of those that are ELSEWHERE."""
        for number, (locations, values) in enumerate(moved):
            self.locations[number] = np.where(locations == KEPT, self.locations[number], locations)
            if values is not None:
                self._values[number] = np.where(locations == ELSEWHERE, values, self._values[number])

    @property
    def are_saved(self) -> NDArray[np.bool_] | None:
        """Return which rows have all registers in places that other chains can use, or None for all."""
        mask: NDArray[np.bool_] | None = None
        for locations in self.locations:
            lost = locations == ELSEWHERE
            if lost.any():
                mask = ~lost if mask is None else mask & ~lost
        return mask
