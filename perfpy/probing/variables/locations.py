"""Location expressions to places that the kernel can read: a register, memory near a register's value, an address, or a constant.

The kernel's fetch expressions add offsets only when they read memory: +8(%di). Other arithmetic has no equivalent.
Layout: DWARF 5, sections 2.5 and 2.6. Names of registers: Documentation/trace/kprobetrace.rst and arch/*/kernel/ptrace.c.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.startup import NamedTuple
from perfpy.debuginfo.units import dwarf, leb128
from perfpy.debuginfo.units.location_lists import locations_of
from perfpy.probing.problems import UnreadableRegisterError, UnsupportedLocationError
from perfpy.symbols.files.elf import EM_386, EM_AARCH64, EM_ARM, EM_RISCV, EM_X86_64

if TYPE_CHECKING:
    from perfpy.debuginfo.functions import CodeDie
    from perfpy.debuginfo.units.unit import DebugUnit
    from perfpy.probing.sites.program import Program

_X86_64: Final = ("ax", "dx", "cx", "bx", "si", "di", "bp", "sp", *(f"r{number}" for number in range(8, 16)))
_RISCV: Final = "zero ra sp gp tp t0 t1 t2 s0 s1 a0 a1 a2 a3 a4 a5 a6 a7 s2 s3 s4 s5 s6 s7 s8 s9 s10 s11 t3 t4 t5 t6".split()
#: machine -> the kernel's names of registers by DWARF number
_REGISTERS: Final = {
    EM_X86_64: _X86_64,
    EM_386: ("ax", "cx", "dx", "bx", "sp", "bp", "si", "di"),
    EM_AARCH64: (*(f"x{number}" for number in range(31)), "sp"),
    EM_ARM: (*(f"r{number}" for number in range(11)), "fp", "ip", "sp", "lr", "pc"),
    EM_RISCV: tuple(_RISCV),
}
_OPERATIONS_MOST: Final = 256
_WORD: Final = 1 << 64


class Base(NamedTuple):
    """The base of an address.

    Attributes:
        text: a fetch expression for the value: "%di", "+8(%di)"; "" for link-time addresses.
    """

    text: str


class Location(NamedTuple):
    """The location of a value.

    Attributes:
        base: what `offset` counts from; None for a constant.
        offset: bytes; the address without a base text, the value of a constant.
        is_value: the sum of base and offset is the value itself, not its address.
    """

    base: Base | None
    offset: int = 0
    is_value: bool = False


class LocationReader:
    """Reads the location expressions of variables at one address of a function.

    Args:
        program: the program.
        unit: the unit of the variables.
        function: the function's own code, for its frame.
        address: the probed address.
    """

    def __init__(self, program: Program, unit: DebugUnit, function: CodeDie | None, address: int) -> None:
        self._program = program
        self._unit = unit
        self._function = function
        self._address = address
        self._names = _REGISTERS.get(program.runtime.machine, ())

    def read(self, expression: bytes, unit: DebugUnit | None = None) -> Location:
        """Return the location that an expression computes. Raises UnsupportedLocationError, and the errors of DAMAGE."""
        return _Evaluation(self, unit or self._unit, expression).run()

    def register(self, number: int) -> Base:
        """Return a register's value as a base."""
        if number >= len(self._names):
            raise UnreadableRegisterError(
                f"the variable is in register {number} of the DWARF numbering, which the kernel's probes cannot read"
            )
        return Base(f"%{self._names[number]}")

    def frame_base(self) -> Location:
        """Return the frame's base address as a value with an offset."""
        base = self._function.die.attribute(dwarf.AT_FRAME_BASE) if self._function else None
        if base is None:
            raise UnsupportedLocationError("the variable is in a stack frame, and the debug information lacks the frame's base")
        expression = next((one.expression for one in locations_of(*base) if one.holds(self._address)), b"")
        location = _Evaluation(self, base[0], expression).run()
        return location._replace(is_value=False) if location.is_value else location

    def call_frame(self) -> tuple[Base, int]:
        """Return the canonical frame address as a register and an offset."""
        program = self._program
        row = int(program.frames.find(np.array([program.file_offset(self._address)], np.uint64))[0])
        cfa = program.frames.rules[row].cfa if row >= 0 else b""
        if isinstance(cfa, bytes):
            raise UnsupportedLocationError("the variable is in a stack frame, and the program has no call frame information for it")
        return self.register(cfa[0]), cfa[1]

    def is_entry(self) -> bool:
        """Whether the probed address is the function's first one."""
        return self._function is not None and self._function.entry == self._address


class _Evaluation:
    """The evaluation of one expression with symbolic values: (base, offset) pairs."""

    def __init__(self, reader: LocationReader, unit: DebugUnit, expression: bytes) -> None:
        self._reader = reader
        self._unit = unit
        self._code = expression
        self._stack: list[tuple[Base | None, int]] = []
        self._offset = 0

    def run(self) -> Location:
        """Return the location."""
        if not self._code:
            raise UnsupportedLocationError("the variable is optimized out")
        for _ in range(_OPERATIONS_MOST):
            if self._offset >= len(self._code):
                return self._memory()
            operation = self._code[self._offset]
            self._offset += 1
            location = self._step(operation)
            if location is not None:
                return location
        raise ValueError("a location expression with too many operations")

    def _memory(self) -> Location:
        base, offset = self._pop()
        return Location(base or Base(""), offset)

    def _step(self, operation: int) -> Location | None:
        """Do one operation; return the location if it ends the expression."""
        if dwarf.OP_REG0 <= operation < dwarf.OP_REG0 + 32:
            return self._in_register(operation - dwarf.OP_REG0)
        if operation == dwarf.OP_REGX:
            return self._in_register(self._unsigned())
        if operation == dwarf.OP_STACK_VALUE:
            return self._value()
        if operation == dwarf.OP_IMPLICIT_VALUE:
            return self._implicit()
        if dwarf.OP_BREG0 <= operation < dwarf.OP_BREG0 + 32:
            self._push(self._reader.register(operation - dwarf.OP_BREG0), self._signed())
        elif operation == dwarf.OP_BREGX:
            number = self._unsigned()
            self._push(self._reader.register(number), self._signed())
        elif operation == dwarf.OP_FBREG:
            frame = self._reader.frame_base()
            self._push(frame.base, frame.offset + self._signed())
        elif operation == dwarf.OP_CALL_FRAME_CFA:
            self._push(*self._reader.call_frame())
        elif operation in (dwarf.OP_ENTRY_VALUE, dwarf.OP_GNU_ENTRY_VALUE):
            self._entry_value()
        else:
            self._arithmetic(operation)
        return None

    def _arithmetic(self, operation: int) -> None:
        if operation == dwarf.OP_ADDR:
            size = self._unit.header.shape.address_size
            self._push(Base(""), self._fixed(size))
        elif operation in (dwarf.OP_ADDRX, dwarf.OP_GNU_ADDR_INDEX):
            self._push(Base(""), self._unit.indexed_address(self._unsigned()))
        elif dwarf.OP_CONST1U <= operation <= dwarf.OP_CONSTS:
            self._push(None, self._constant(operation - dwarf.OP_CONST1U))
        elif dwarf.OP_LIT0 <= operation < dwarf.OP_LIT0 + 32:
            self._push(None, operation - dwarf.OP_LIT0)
        elif operation == dwarf.OP_PLUS_UCONST:
            base, offset = self._pop()
            self._push(base, offset + self._unsigned())
        elif operation == dwarf.OP_PLUS:
            self._add(*self._pop(), *self._pop())
        elif operation == dwarf.OP_DEREF:
            base, offset = self._pop()
            self._push(Base(memory_text(base, offset)), 0)
        elif operation in (dwarf.OP_PIECE, dwarf.OP_BIT_PIECE):
            raise UnsupportedLocationError("the variable is split over several registers or values")
        else:
            raise UnsupportedLocationError(
                f"the variable's location needs the operation {operation:#x} of DWARF, which the kernel's probes cannot compute"
            )

    def _add(self, one: Base | None, offset: int, other: Base | None, addend: int) -> None:
        if one is not None and other is not None:
            raise UnsupportedLocationError("the variable's address is the sum of two values, which the kernel's probes cannot compute")
        self._push(other if one is None else one, offset + addend)

    def _in_register(self, number: int) -> Location:
        self._require_end()
        return Location(self._reader.register(number), 0, is_value=True)

    def _require_end(self) -> None:
        """Raise UnsupportedLocationError if further parts of the variable follow."""
        if self._offset < len(self._code):
            raise UnsupportedLocationError("the variable is split over several registers or values")

    def _value(self) -> Location:
        self._require_end()
        base, offset = self._pop()
        if base is None:
            return Location(None, _signed64(offset))
        return Location(base, offset, is_value=True)

    def _implicit(self) -> Location:
        size = self._unsigned()
        value = self._take(size)
        self._require_end()
        if size > 8:
            raise UnsupportedLocationError(f"the variable exists only as a constant of {size} bytes")
        return Location(None, int.from_bytes(value, self._unit.sections.order, signed=True))

    def _entry_value(self) -> None:
        inner = _Evaluation(self._reader, self._unit, self._take(self._unsigned())).run()
        if not self._reader.is_entry() or not inner.is_value or inner.offset:
            raise UnsupportedLocationError("the variable's value at this address is known from the function's entry only; probe its entry")
        self._push(inner.base, 0)

    def _push(self, base: Base | None, offset: int) -> None:
        self._stack.append((base, offset))

    def _pop(self) -> tuple[Base | None, int]:
        if not self._stack:
            raise ValueError("a location expression without a value")
        return self._stack.pop()

    def _take(self, size: int) -> bytes:
        data = self._code[self._offset : self._offset + size]
        if len(data) < size:
            raise ValueError("a truncated location expression")
        self._offset += size
        return data

    def _fixed(self, size: int, *, signed: bool = False) -> int:
        return int.from_bytes(self._take(size), self._unit.sections.order, signed=signed)

    def _unsigned(self) -> int:
        value, self._offset = leb128.read_unsigned(self._code, self._offset)
        return value

    def _signed(self) -> int:
        value, self._offset = leb128.read_signed(self._code, self._offset)
        return value

    def _constant(self, kind: int) -> int:
        """Read the operand of DW_OP_const1u (0) to DW_OP_consts (9): u1 s1 u2 s2 u4 s4 u8 s8 uleb sleb."""
        if kind >= 8:
            return self._unsigned() if kind == 8 else self._signed()
        return self._fixed(1 << (kind >> 1), signed=bool(kind & 1))


def memory_text(base: Base | None, offset: int) -> str:
    """Return the fetch expression that reads memory."""
    if base is None or not base.text:
        raise UnsupportedLocationError("the variable is found through a global pointer, which the kernel's probes cannot follow")
    return f"{offset:+d}({base.text})"


def _signed64(value: int) -> int:
    value %= _WORD
    return value - _WORD if value >> 63 else value
