"""Run the instructions of an FDE to rules at addresses.

Instructions (DW_CFA_*): DWARF 5, section 6.4.2; those of GNU and of the architectures as in binutils' dwarf2.h. The number of instructions
and the depth of remembered states are bounded. Raises ValueError for damaged instructions.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any, Final

from perfpy.abi.startup import NamedTuple
from perfpy.symbols.files.elf import DAMAGE
from perfpy.unwind.call_frame_info.encoded import ByteReader
from perfpy.unwind.rules import EXPRESSION, OFFSET, REGISTER, SAME, UNDEFINED, VAL_EXPRESSION, VAL_OFFSET, FrameRules

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfpy.unwind.call_frame_info.frame_entries import CommonEntry, FrameEntry
    from perfpy.unwind.rules import CfaRule, Rule

_REMEMBERED_MOST: Final = 1 << 8
_REGISTERS_MOST: Final = 1 << 10  # samples have no registers with larger numbers
_INSTRUCTIONS_MOST: Final = 1 << 16  # of one entry
_SIGNED_64: Final = 1 << 63


class InitialState(NamedTuple):
    """The state after the instructions of a CIE."""

    cfa: CfaRule
    rules: dict[int, Rule]


def initial_state(common: CommonEntry, *, endian: str, word: int) -> InitialState:
    """Run the instructions of a CIE, which set the initial state of its FDEs."""
    state = _State(common, InitialState((0, 0), {}), 0, 1)
    state.run(ByteReader(common.program, endian, word))
    return InitialState(state.cfa, state.rules)


def rows_of(entry: FrameEntry, initial: InitialState, *, endian: str, word: int) -> FrameRows:
    """Return all rows of an entry; for damaged instructions, the rows before the damage."""
    state = _State(entry.common, initial, entry.start, entry.end)
    damage = None
    try:
        state.run(ByteReader(entry.program, endian, word))
    except DAMAGE as found:
        damage = found
    end = entry.end if damage is None else state.location
    return FrameRows(entry.common, state.starts, state.completed_rows, end, entry.end, state.count, damage)


class FrameRows(NamedTuple):
    """The rows of an entry: ascending start addresses and rules, which become FrameRules when they are used.

    Attributes:
        end: where the last row ends.
        of_code: the end of the entry's code, which is later if the instructions are damaged.
        cost: the number of instructions.
    """

    common: CommonEntry
    starts: list[int]
    rows: list[Any]
    end: int
    of_code: int
    cost: int
    damage: Exception | None = None

    def rules_at(self, addresses: Sequence[int]) -> list[FrameRules | None]:
        """Return the rules at addresses, None outside the entry. Raises the damage's error for addresses after it."""
        if self.damage is not None and any(self.end <= address < self.of_code for address in addresses):
            raise self.damage
        rows = [bisect_right(self.starts, address) - 1 if address < self.end else -1 for address in addresses]
        return [self._rules(row) if row >= 0 else None for row in rows]

    def _rules(self, row: int) -> FrameRules:
        cached = self.rows[row]
        if not isinstance(cached, FrameRules):
            cfa, rules = cached
            register_rules = tuple(sorted((register, rule) for register, rule in rules.items() if register < _REGISTERS_MOST))
            cached = self.rows[row] = FrameRules(cfa, register_rules, self.common.return_column, self.common.is_signal)
        return cached


class _State:
    """The current row. starts, completed_rows: the complete rows."""

    def __init__(self, common: CommonEntry, initial: InitialState, start: int, end: int) -> None:
        self._common = common
        self.location = start
        self._end = end
        self.cfa = initial.cfa
        self.rules = dict(initial.rules)
        self._initial = initial.rules
        self._is_shared = False  # whether a complete row or a remembered state shares these rules
        self._remembered: list[tuple[CfaRule, dict[int, Rule]]] = []
        self.starts: list[int] = []
        self.completed_rows: list[tuple[CfaRule, dict[int, Rule]]] = []
        self.count = 1

    def run(self, reader: ByteReader) -> None:
        """Run the reader's instructions."""
        while reader.position < reader.end and self.location < self._end and self.count <= _INSTRUCTIONS_MOST:
            code = self._run_short_forms(reader)
            if code is not None:
                self._instruction(code & 0xC0, code & 0x3F, reader)
        if self.count > _INSTRUCTIONS_MOST:
            raise ValueError("an entry of too many instructions")
        self._complete_row()

    def _run_short_forms(self, reader: ByteReader) -> int | None:
        """Run the most frequent instructions, in their short forms; return the first byte of another one.

        Nearly all instructions run here, so the state is kept in local variables.
        """
        data, position, end, unit, scale = reader.data, reader.position, reader.end, self._common.code_align, self._common.data_align
        location, last, cfa, rules, is_shared = self.location, self._end, self.cfa, self.rules, self._is_shared
        add_start, add_row, count, remembered = self.starts.append, self.completed_rows.append, self.count, self._remembered
        code: int | None = None
        try:
            while position < end and location < last and count <= _INSTRUCTIONS_MOST:
                code, count, position = data[position], count + 1, position + 1
                if 0x40 <= code < 0x80 or code == 0x02:  # advance_loc, advance_loc1
                    distance = code - 0x40
                    if code == 0x02:
                        distance, position = data[position], position + 1
                    if distance:
                        add_start(location)
                        add_row((cfa, rules))
                        location, is_shared = location + distance * unit, True
                elif code == 0x0E and data[position] < 0x80 and cfa.__class__ is tuple:  # def_cfa_offset
                    cfa, position = (cfa[0], data[position]), position + 1
                elif code == 0x0E and data[position + 1] < 0x80 and cfa.__class__ is tuple:
                    cfa, position = (cfa[0], data[position] & 0x7F | data[position + 1] << 7), position + 2
                elif 0x80 <= code < 0xC0 and data[position] < 0x80:  # offset
                    if is_shared:
                        rules, is_shared = dict(rules), False
                    rules[code & 0x3F], position = (OFFSET, data[position] * scale), position + 1
                elif code == 0x0A and len(remembered) < _REMEMBERED_MOST:  # remember_state
                    remembered.append((cfa, rules))
                    is_shared = True
                elif code == 0x0B and remembered:  # restore_state
                    (cfa, rules), is_shared = remembered.pop(), True
                elif code:  # not nop
                    return code
            return None
        finally:
            reader.position, self.location, self.count = position, location, count
            self.cfa, self.rules, self._is_shared = cfa, rules, is_shared

    def _instruction(self, kind: int, low: int, reader: ByteReader) -> None:
        """Run an instruction whose first byte has been read."""
        if self._is_shared:
            self._unshare()
        if kind == 0x80:
            self.rules[low] = (OFFSET, _clip(reader.uleb() * self._common.data_align))
        elif kind:
            self._restore(low)
        else:
            instruction = _INSTRUCTIONS.get(low)
            if instruction is None:
                raise ValueError(f"unknown instruction {low:#x} of call frame information")
            instruction(self, reader)

    def _complete_row(self) -> None:
        """Complete the current row."""
        self.starts.append(self.location)
        self.completed_rows.append((self.cfa, self.rules))
        self._is_shared = True

    def _unshare(self) -> None:
        """Copy shared rules before they change."""
        self.rules = dict(self.rules)
        self._is_shared = False

    def _advance(self, distance: int) -> None:
        if distance:
            self._complete_row()
            self.location += distance

    def _restore(self, register: int) -> None:
        if register in self._initial:
            self.rules[register] = self._initial[register]
        else:
            self.rules.pop(register, None)

    def set_location(self, reader: ByteReader) -> None:
        location = reader.number(reader.word)
        if not self.location <= location <= self._end:
            raise ValueError("a row that begins before the one before it")
        self._advance(location - self.location)

    def advance(self, reader: ByteReader, width: int) -> None:
        self._advance(reader.number(width) * self._common.code_align)

    def remember(self, _reader: ByteReader) -> None:
        if len(self._remembered) >= _REMEMBERED_MOST:
            raise ValueError("too many remembered states")
        self._remembered.append((self.cfa, self.rules))
        self._is_shared = True

    def restore_remembered(self, _reader: ByteReader) -> None:
        if not self._remembered:
            raise ValueError("a state is restored that was not remembered")
        self.cfa, self.rules = self._remembered.pop()
        self._is_shared = True

    def restore_extended(self, reader: ByteReader) -> None:
        self._restore(reader.uleb())

    def define_cfa(self, reader: ByteReader, *, scaled: bool = False) -> None:
        register = reader.uleb()
        self.cfa = (register, self._signed_offset(reader) if scaled else reader.uleb())

    def define_cfa_register(self, reader: ByteReader) -> None:
        offset = 0 if isinstance(self.cfa, bytes) else self.cfa[1]
        self.cfa = (reader.uleb(), offset)

    def define_cfa_offset(self, reader: ByteReader, *, scaled: bool = False) -> None:
        offset = self._signed_offset(reader) if scaled else reader.uleb()
        if isinstance(self.cfa, bytes):
            raise ValueError("an offset for a CFA that is an expression")
        self.cfa = (self.cfa[0], offset)

    def define_cfa_expression(self, reader: ByteReader) -> None:
        self.cfa = reader.take(reader.uleb())

    def rule(self, reader: ByteReader, kind: int) -> None:
        """Set a rule without a number."""
        self.rules[reader.uleb()] = (kind, 0)

    def offset(self, reader: ByteReader, kind: int, *, signed: bool = False, sign: int = 1) -> None:
        register = reader.uleb()
        value = self._signed_offset(reader) if signed else reader.uleb() * self._common.data_align
        self.rules[register] = (kind, _clip(sign * value))

    def register(self, reader: ByteReader) -> None:
        register = reader.uleb()
        self.rules[register] = (REGISTER, _clip(reader.uleb()))

    def expression(self, reader: ByteReader, kind: int) -> None:
        register = reader.uleb()
        self.rules[register] = (kind, reader.take(reader.uleb()))

    def _signed_offset(self, reader: ByteReader) -> int:
        return _clip(reader.sleb() * self._common.data_align)


def _clip(value: int) -> int:
    """Return the number, or 0 beyond 64 bits, which no valid offset exceeds."""
    return value if -_SIGNED_64 <= value < _SIGNED_64 else 0


_INSTRUCTIONS: Final[dict[int, Callable[[_State, ByteReader], None]]] = {
    0x00: lambda _state, _reader: None,  # nop
    0x01: _State.set_location,
    0x02: lambda state, reader: state.advance(reader, 1),
    0x03: lambda state, reader: state.advance(reader, 2),
    0x04: lambda state, reader: state.advance(reader, 4),
    0x05: lambda state, reader: state.offset(reader, OFFSET),
    0x06: _State.restore_extended,
    0x07: lambda state, reader: state.rule(reader, UNDEFINED),
    0x08: lambda state, reader: state.rule(reader, SAME),
    0x09: _State.register,
    0x0A: _State.remember,
    0x0B: _State.restore_remembered,
    0x0C: _State.define_cfa,
    0x0D: _State.define_cfa_register,
    0x0E: _State.define_cfa_offset,
    0x0F: _State.define_cfa_expression,
    0x10: lambda state, reader: state.expression(reader, EXPRESSION),
    0x11: lambda state, reader: state.offset(reader, OFFSET, signed=True),
    0x12: lambda state, reader: state.define_cfa(reader, scaled=True),
    0x13: lambda state, reader: state.define_cfa_offset(reader, scaled=True),
    0x14: lambda state, reader: state.offset(reader, VAL_OFFSET),
    0x15: lambda state, reader: state.offset(reader, VAL_OFFSET, signed=True),
    0x16: lambda state, reader: state.expression(reader, VAL_EXPRESSION),
    0x1D: lambda state, reader: state.advance(reader, 8),  # MIPS_advance_loc8
    0x2C: lambda _state, _reader: None,  # AARCH64_negate_ra_state_with_pc: addresses are masked anyway
    0x2D: lambda _state, _reader: None,  # AARCH64_negate_ra_state (SPARC's GNU_window_save)
    0x2E: lambda _state, reader: _ignore(reader.uleb()),  # GNU_args_size: callers' CFAs do not depend on it
    0x2F: lambda state, reader: state.offset(reader, OFFSET, sign=-1),  # GNU_negative_offset_extended
}


def _ignore(_value: int) -> None:
    """Ignore a number."""
