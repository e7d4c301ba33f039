"""The instructions of an FDE -> rules, row by row.

What enters: a FrameEntry. What leaves: FrameRows: where each row begins, and its FrameRules. Instructions (DW_CFA_*):
DWARF 5, section 6.4.2; those of GNU and of the architectures as binutils' dwarf2.h has them. ValueError for what is
damaged. What instructions ask for is bounded: rows by their number, remembered states by a depth.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.unwind.encoded import ByteReader
from perfpy.unwind.rules import EXPRESSION, OFFSET, REGISTER, SAME, UNDEFINED, VAL_EXPRESSION, VAL_OFFSET, FrameRules

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfpy.unwind.frame_entries import FrameEntry
    from perfpy.unwind.rules import CfaRule, Rule

_REMEMBERED_MOST: Final = 1 << 8
_REGISTERS_MOST: Final = 1 << 10  # numbers beyond mean no register that samples have
_INSTRUCTIONS_MOST: Final = 1 << 16  # of one entry
_SIGNED_64: Final = 1 << 63


class FrameRows(NamedTuple):
    """The rows of an entry: first address of each, ascending, and their rules; end: of the last; cost: instructions run."""

    starts: list[int]
    rules: list[FrameRules]
    end: int
    cost: int

    def find(self, address: int) -> FrameRules | None:
        """The rules at an address; None outside of the entry."""
        row = bisect_right(self.starts, address) - 1
        return self.rules[row] if row >= 0 and address < self.end else None


def rows_of(entry: FrameEntry, *, endian: str, word: int) -> FrameRows:
    """Run the instructions of an entry's CIE and its own."""
    state = _State(entry)
    state.run(ByteReader(entry.common.program, endian, word), initial=True)
    state.run(ByteReader(entry.program, endian, word), initial=False)
    state.emit(entry.end)
    return FrameRows(state.starts, state.rows, entry.end, state.count)


class _State:
    """The row that is being made."""

    def __init__(self, entry: FrameEntry) -> None:
        self._common = entry.common
        self._location = entry.start
        self._end = entry.end
        self._cfa: CfaRule = (0, 0)
        self._rules: dict[int, Rule] = {}
        self._initial: dict[int, Rule] = {}
        self._remembered: list[tuple[CfaRule, dict[int, Rule]]] = []
        self.starts: list[int] = []
        self.rows: list[FrameRules] = []
        self.count = 0

    def emit(self, location: int) -> None:
        """End the row at a location; the next begins there."""
        if location > self._location:
            kept = tuple(sorted((register, rule) for register, rule in self._rules.items() if register < _REGISTERS_MOST))
            self.starts.append(self._location)
            self.rows.append(FrameRules(self._cfa, kept, self._common.return_column, self._common.is_signal))
        self._location = location

    def run(self, reader: ByteReader, *, initial: bool) -> None:
        """Run the instructions that the reader has; the CIE's make the initial rules."""
        scale = self._common.data_align
        while reader and self._location < self._end:
            self.count += 1
            if self.count > _INSTRUCTIONS_MOST:
                raise ValueError("an entry of very many instructions")
            code = reader.byte()
            low = code & 0x3F
            match code >> 6:
                case 1:  # advance_loc
                    self._advance(low)
                case 2:  # offset
                    self._rules[low] = (OFFSET, reader.uleb() * scale)
                case 3:
                    self._restore(low)
                case _:
                    self._extended(low, reader)
        if initial:
            self._initial = dict(self._rules)

    def _advance(self, units: int) -> None:
        if units:
            self.emit(min(self._location + units * self._common.code_align, self._end))

    def _restore(self, register: int) -> None:
        if register in self._initial:
            self._rules[register] = self._initial[register]
        else:
            self._rules.pop(register, None)

    def _extended(self, code: int, reader: ByteReader) -> None:
        instruction = _INSTRUCTIONS.get(code)
        if instruction is None:
            raise ValueError(f"unknown instruction {code:#x} of call frame information")
        instruction(self, reader)

    def set_location(self, reader: ByteReader) -> None:
        location = reader.number(reader.word)
        if not self._location <= location <= self._end:
            raise ValueError("a row that begins before the one before it")
        self.emit(location)

    def advance(self, reader: ByteReader, width: int) -> None:
        self._advance(reader.number(width))

    def remember(self, _reader: ByteReader) -> None:
        if len(self._remembered) >= _REMEMBERED_MOST:
            raise ValueError("very many remembered states")
        self._remembered.append((self._cfa, dict(self._rules)))

    def restore_remembered(self, _reader: ByteReader) -> None:
        if not self._remembered:
            raise ValueError("a state is restored that was not remembered")
        self._cfa, self._rules = self._remembered.pop()

    def restore_extended(self, reader: ByteReader) -> None:
        self._restore(reader.uleb())

    def define_cfa(self, reader: ByteReader, *, scaled: bool = False) -> None:
        register = reader.uleb()
        self._cfa = (register, self._signed_offset(reader) if scaled else reader.uleb())

    def define_cfa_register(self, reader: ByteReader) -> None:
        offset = 0 if isinstance(self._cfa, bytes) else self._cfa[1]
        self._cfa = (reader.uleb(), offset)

    def define_cfa_offset(self, reader: ByteReader, *, scaled: bool = False) -> None:
        offset = self._signed_offset(reader) if scaled else reader.uleb()
        if isinstance(self._cfa, bytes):
            raise ValueError("an offset for a CFA that is an expression")
        self._cfa = (self._cfa[0], offset)

    def define_cfa_expression(self, reader: ByteReader) -> None:
        self._cfa = reader.take(reader.uleb())

    def rule(self, reader: ByteReader, kind: int) -> None:
        """A rule without a number."""
        self._rules[reader.uleb()] = (kind, 0)

    def offset(self, reader: ByteReader, kind: int, *, signed: bool = False, sign: int = 1) -> None:
        register = reader.uleb()
        value = self._signed_offset(reader) if signed else reader.uleb() * self._common.data_align
        self._rules[register] = (kind, _clipped(sign * value))

    def register(self, reader: ByteReader) -> None:
        register = reader.uleb()
        self._rules[register] = (REGISTER, _clipped(reader.uleb()))

    def expression(self, reader: ByteReader, kind: int) -> None:
        register = reader.uleb()
        self._rules[register] = (kind, reader.take(reader.uleb()))

    def _signed_offset(self, reader: ByteReader) -> int:
        return _clipped(reader.sleb() * self._common.data_align)


def _clipped(value: int) -> int:
    """A number that fits 64 bits; no true offset does not."""
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
    0x2E: lambda _state, reader: _ignored(reader.uleb()),  # GNU_args_size: callers' CFAs do not depend on it
    0x2F: lambda state, reader: state.offset(reader, OFFSET, sign=-1),  # GNU_negative_offset_extended
}


def _ignored(_value: int) -> None:
    """Nothing is made of a number."""
