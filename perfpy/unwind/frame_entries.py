"""CIEs and FDEs: the entries of .eh_frame and .debug_frame.

Input: a section's bytes. Output: FrameEntry values: a range of code and the instructions for it. Layout:
DWARF 5, section 6.4.1; the Linux Standard Base for .eh_frame, which differs in the ids and in augmentations:

    u32 length (0xffffffff: u64 follows); u32 id (of an FDE: where its CIE is)
    CIE: u8 version; char augmentation[]; [u8 address size, u8 segment selector size (4)]; uleb code_align; sleb data_align;
         return register (u8 in version 1, uleb); [uleb size; augmentation data]; instructions
    FDE: start, size of the code; [uleb size; augmentation data]; instructions
"""

from __future__ import annotations

from bisect import bisect_right
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, Literal

from perfpy.abi.light_types import NamedTuple
from perfpy.symbols.files.elf import DAMAGE
from perfpy.unwind.rules import EXPRESSION, OFFSET, REGISTER, SAME, UNDEFINED, VAL_EXPRESSION, VAL_OFFSET, FrameRules

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from perfpy.unwind.rules import CfaRule, Rule


_LONG: Final = 0xFFFFFFFF
_ABSOLUTE: Final = 0
_USUAL: Final = 0x1B  # relative to its own address, 4 bytes
_ENTRIES_MOST: Final = 1 << 18
_ALIGN_MOST: Final = 1 << 16
_CIES_KEPT: Final = 1 << 12


class CommonEntry(NamedTuple):
    """A CIE: the common part of FDEs. encoding: of their addresses; augmented: whether they have augmentation data."""

    code_align: int
    data_align: int
    return_column: int
    encoding: int
    augmented: bool
    is_signal: bool
    program: bytes


class FrameEntry(NamedTuple):
    """An FDE: the code in [start, end), and the instructions for it, which follow those of the CIE."""

    start: int
    end: int
    common: CommonEntry
    program: bytes


class _Header(NamedTuple):
    """The header of an entry. body: offset after the id; end: offset after the entry; common: offset of its CIE, -1 for a CIE."""

    body: int
    end: int
    common: int


class FrameSection:
    """The entries of one section. address: of the section in memory; is_eh: .eh_frame instead of .debug_frame."""

    def __init__(self, data: bytes, address: int, *, is_eh: bool, endian: str, word: int) -> None:
        self.data = data
        self.address = address
        self._is_eh = is_eh
        self._endian = endian
        self._word = word
        self._usual = Struct(endian + "iI")
        self._mask = (1 << 8 * word) - 1
        self._cies: dict[int, CommonEntry] = {}

    def entry(self, offset: int) -> FrameEntry:
        """Return the FDE at an offset. Raises ValueError if there is none."""
        header = self._header(offset)
        if header is None or header.common < 0:
            raise ValueError(f"no FDE at {offset:#x}")
        common = self._common(header.common)
        if common.encoding == _USUAL and common.augmented and header.end - header.body > 8 and self.data[header.body + 8] < 0x80:
            distance, size = self._usual.unpack_from(self.data, header.body)
            start = (self.address + header.body + distance) & self._mask
            return FrameEntry(start, start + size, common, self.data[header.body + 9 + self.data[header.body + 8] : header.end])
        reader = self._reader(header.body, header.end)
        start, end = self._range(reader, common)
        if common.augmented:
            reader.take(reader.uleb())
        return FrameEntry(start, end, common, self.data[reader.position : header.end])

    def starts(self) -> Iterator[tuple[int, int]]:
        """Yield (start of the code, offset) of every valid FDE in file order."""
        offset = 0
        for _ in range(_ENTRIES_MOST):
            try:
                header = self._header(offset)
            except ValueError:
                return
            if header is None:
                return
            if header.common >= 0:
                try:
                    start, end = self._range(self._reader(header.body, header.end), self._common(header.common))
                except ValueError:
                    start = end = 0
                if end > start:
                    yield start, offset
            offset = header.end

    def _reader(self, position: int, end: int | None = None) -> ByteReader:
        return ByteReader(self.data, self._endian, self._word, position, end)

    def _header(self, offset: int) -> _Header | None:
        """Read the header at an offset, or None after the last entry."""
        if not 0 <= offset <= len(self.data) - 4:
            return None
        reader = self._reader(offset)
        length = reader.number(4)
        is_long = length == _LONG
        if is_long:
            length = reader.number(8)
        if not length:
            return None
        at_id, end = reader.position, reader.position + length
        if end > len(self.data):
            raise ValueError(f"the entry at {offset:#x} ends beyond the section")
        width = 8 if is_long and not self._is_eh else 4
        number = reader.number(width)
        if self._is_eh:
            return _Header(reader.position, end, at_id - number if number else -1)
        return _Header(reader.position, end, -1 if number == (1 << 8 * width) - 1 else number)

    def _range(self, reader: ByteReader, common: CommonEntry) -> tuple[int, int]:
        start = reader.pointer(common.encoding, self.address)
        return start, start + reader.raw_pointer(common.encoding & 0x0F & ~0x8)

    def _common(self, offset: int) -> CommonEntry:
        common = self._cies.get(offset)
        if common is None:
            if len(self._cies) >= _CIES_KEPT:
                self._cies.clear()
            common = self._cies[offset] = self._parse(offset)
        return common

    def _parse(self, offset: int) -> CommonEntry:
        header = self._header(offset)
        if header is None or header.common >= 0:
            raise ValueError(f"no CIE at {offset:#x}")
        reader = self._reader(header.body, header.end)
        version = reader.byte()
        augmentation = reader.text()
        if augmentation.startswith(b"eh"):  # of g++ 2: an unused pointer
            reader.take(self._word)
        if version >= 4:
            reader.take(2)
        code_align, data_align = reader.uleb(), reader.sleb()
        if max(code_align, abs(data_align)) > _ALIGN_MOST:
            raise ValueError(f"the CIE at {offset:#x} counts in units of {code_align} and {data_align}")
        return_column = reader.byte() if version == 1 else reader.uleb()
        augmented, encoding = augmentation.startswith(b"z"), _ABSOLUTE
        if augmented:
            size = reader.uleb()
            encoding = self._encoding(augmentation, reader.position, reader.position + size)
            reader.take(size)
        program = self.data[reader.position : header.end]
        return CommonEntry(code_align, data_align, return_column, encoding, augmented, b"S" in augmentation, program)

    def _encoding(self, augmentation: bytes, position: int, end: int) -> int:
        """Return the encoding of addresses from the augmentation data."""
        reader = self._reader(position, end)
        for letter in augmentation[1:]:
            if letter == ord("R"):
                return reader.byte()
            if letter == ord("P"):
                encoding = reader.byte()
                if encoding != OMITTED:
                    reader.raw_pointer(encoding)
            elif letter == ord("L"):
                reader.byte()
            elif letter not in b"SBG":
                break
        return _ABSOLUTE


# Run the instructions of an FDE to rules at addresses. Instructions (DW_CFA_*): DWARF 5, section 6.4.2; those of GNU and of the
# architectures as in binutils' dwarf2.h. The number of instructions and the depth of remembered states are bounded. Raises ValueError for
# damaged instructions.

_REMEMBERED_MOST: Final = 1 << 8
_REGISTERS_MOST: Final = 1 << 10  # samples have no registers with larger numbers
_INSTRUCTIONS_MOST: Final = 1 << 16  # of one entry
_SIGNED_64: Final = 1 << 63
_ROWS_NEAR: Final = 64  # in which copies of a saved stack pointer are looked for
_LARGEST_FRAME: Final = 1 << 16  # bytes
_BREG, _BREGS, _DEREF, _PLUS = 0x70, 32, 0x06, 0x23  # operations of expressions


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
            cached = FrameRules(cfa, register_rules, self.common.return_column, self.common.is_signal)
            if isinstance(cfa, bytes):
                cached = cached._replace(copies=self._older_copies(row))
            self.rows[row] = cached
        return cached

    def _older_copies(self, row: int) -> tuple[int, int]:
        """Return where older copies of the word that gives the CFA are, see FrameRules.copies.

        OpenSSL's SHA-2 for AVX2 keeps the caller's stack pointer in its frame. It lowers the stack pointer by the same distance again and
        again, and copies the word to just below it: rows "at +152", "at -8", then, as it is lowered by 128, "at +120", "at -8".
        """
        here = saved_pointer(self.rows[row][0])
        if here is None or here[1] >= 0:
            return 0, 0
        register, offset, added = here
        near = [saved_pointer(one[0]) for one in self.rows[max(row - _ROWS_NEAR, 0) : row + _ROWS_NEAR]]
        offsets = [one[1] for one in near if one is not None and (one[0], one[2]) == (register, added)]
        lowered = offsets.index(offset)
        step = next((one - offset for one in offsets[lowered:] if one > 0), 0)
        is_usual = lowered and 0 <= offsets[lowered - 1] < _LARGEST_FRAME and 0 < step < _LARGEST_FRAME
        return (offsets[lowered - 1] + step, step) if is_usual else (0, 0)


def saved_pointer(cfa: CfaRule) -> tuple[int, int, int] | None:
    """Return register, offset and addition of a CFA that is the word at register + offset, plus a number; None for others."""
    if not isinstance(cfa, bytes) or not cfa or not _BREG <= cfa[0] < _BREG + _BREGS:
        return None
    reader = ByteReader(cfa, "<", 1, 1)
    try:
        offset = reader.sleb()
        if reader.byte() != _DEREF or reader.byte() != _PLUS:
            return None
        added = reader.uleb()
    except ValueError:
        return None
    return None if reader else (cfa[0] - _BREG, offset, added)


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
            self.rules = dict(self.rules)
            self._is_shared = False
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


# Numbers in the encodings of call frame information and DWARF expressions. Raises ValueError if the bytes end early or a number does not
# end. Layouts: DWARF 5, section 7.6 (LEB128); the Linux Standard Base's "DWARF Extensions" for encoded pointers (DW_EH_PE_*).

OMITTED: Final = 0xFF
DATA_RELATIVE: Final = 0x30
_PC_RELATIVE: Final = 0x10
_INDIRECT: Final = 0x80
_ULEB128: Final = 0x1
_SLEB128: Final = 0x9
_LONGEST: Final = 10  # bytes of a LEB128 number of 64 bits
_WIDTHS: Final = {0x2: 2, 0x3: 4, 0x4: 8, 0xA: 2, 0xB: 4, 0xC: 8}
_SIGNED: Final = 0x8


class ByteReader:
    """Reads consecutive numbers from `position` on. word: bytes of an address."""

    __slots__ = ("_order", "data", "end", "position", "word")

    def __init__(self, data: bytes, endian: str, word: int, position: int = 0, end: int | None = None) -> None:
        self.data = data
        self.word = word
        self.position = position
        self.end = len(data) if end is None else min(end, len(data))
        self._order: Literal["little", "big"] = "little" if endian == "<" else "big"

    def __bool__(self) -> bool:
        """Whether bytes remain."""
        return self.position < self.end

    def take(self, size: int) -> bytes:
        """Read bytes."""
        start, self.position = self.position, self.position + size
        if size < 0 or self.position > self.end:
            raise ValueError(f"{size} bytes at {start:#x} reach beyond the end")
        return self.data[start : self.position]

    def number(self, size: int, *, signed: bool = False) -> int:
        """Read a number of fixed size."""
        return int.from_bytes(self.take(size), self._order, signed=signed)

    def byte(self) -> int:
        """Read a byte."""
        if self.position >= self.end:
            raise ValueError(f"a byte at {self.position:#x} lies beyond the end")
        self.position += 1
        return self.data[self.position - 1]

    def uleb(self) -> int:
        """Read an unsigned LEB128 number; only the low 64 bits are used."""
        value = 0
        for shift in range(0, 7 * _LONGEST, 7):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFFFFFFFFFFFFFF
        raise ValueError(f"a LEB128 number before {self.position:#x} has no end")

    def sleb(self) -> int:
        """Read a signed LEB128 number."""
        value = 0
        for shift in range(7, 7 * _LONGEST + 1, 7):
            byte = self.byte()
            value |= (byte & 0x7F) << shift - 7
            if byte < 0x80:
                value -= (byte >> 6 & 1) << shift
                return value if -(1 << 63) <= value < 1 << 63 else 0
        raise ValueError(f"a LEB128 number before {self.position:#x} has no end")

    def text(self) -> bytes:
        """Read a string up to its NUL."""
        end = self.data.find(b"\0", self.position, self.end)
        if end < 0:
            raise ValueError(f"a string at {self.position:#x} has no end")
        start, self.position = self.position, end + 1
        return self.data[start:end]

    def pointer(self, encoding: int, address: int, data_start: int = 0) -> int:
        """Read an encoded pointer. Indirect pointers, as to the personality routine, are not followed.

        Args:
            encoding: DW_EH_PE_*.
            address: of the first byte in memory.
            data_start: the origin of data-relative pointers.
        """
        here = address + self.position
        value = self.raw_pointer(encoding)
        base = {_PC_RELATIVE: here, DATA_RELATIVE: data_start}.get(encoding & 0x70, 0)
        return (value + base) & ((1 << 8 * self.word) - 1) if not encoding & _INDIRECT else 0

    def raw_pointer(self, encoding: int) -> int:
        """Read the number of an encoded pointer without its origin."""
        form = encoding & 0xF
        if form == _ULEB128:
            return self.uleb()
        if form == _SLEB128:
            return self.sleb()
        return self.number(_WIDTHS.get(form, self.word), signed=bool(form & _SIGNED))
