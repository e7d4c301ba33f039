"""The variables in scope at an address, innermost first, and global ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.debuginfo import dwarf
from perfpy.debuginfo.dies import Die, locations_of
from perfpy.debuginfo.units import ranges_of
from perfpy.probing.problems import UnreadableRegisterError, UnsupportedLocationError
from perfpy.symbols.files.elf import EM_386, EM_AARCH64, EM_ARM, EM_RISCV, EM_X86_64

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.debuginfo.dies import CodeDie, LocatedRange
    from perfpy.debuginfo.units import DebugUnit, Ranges
    from perfpy.probing.program import Program


_VARIABLES: Final = (dwarf.TAG_FORMAL_PARAMETER, dwarf.TAG_VARIABLE)
_SCOPES: Final = (dwarf.TAG_LEXICAL_BLOCK, dwarf.TAG_TRY_BLOCK, dwarf.TAG_CATCH_BLOCK, dwarf.TAG_INLINED_SUBROUTINE)
#: attributes of global variables: an address here, a constant, or a definition in another unit
_LOCATIONS: Final = (dwarf.AT_LOCATION, dwarf.AT_CONST_VALUE, dwarf.AT_DECLARATION)
_NAMESPACES: Final = (dwarf.TAG_NAMESPACE, dwarf.TAG_MODULE)
_DEPTH_MOST: Final = 256


class ScopedVariable:
    """A variable or parameter.

    Attributes:
        die: its DIE.
        name: its name.
        is_parameter: whether it is a parameter.
        scope: the code in which it is known; empty for global ones.
    """

    __slots__ = ("die", "is_parameter", "name", "scope")

    def __init__(self, die: Die, scope: Ranges | None = None) -> None:
        self.die = die
        self.scope = scope or []
        self.name = die.name
        self.is_parameter = die.tag == dwarf.TAG_FORMAL_PARAMETER

    @property
    def constant(self) -> int | None:
        """Return the value of a variable that the compiler replaced by a constant, None for others."""
        found = self.die.attribute(dwarf.AT_CONST_VALUE)
        if found is None:
            return None
        unit, (form, value) = found
        if isinstance(value, bytes):
            return int.from_bytes(value, unit.sections.order) if 0 < len(value) <= 8 else None
        sizes = {dwarf.FORM_DATA1: 8, dwarf.FORM_DATA2: 16, dwarf.FORM_DATA4: 32, dwarf.FORM_DATA8: 64}
        bits = sizes.get(form, 0)
        return value - (1 << bits) if bits and value >> (bits - 1) & 1 else value

    @property
    def is_declared_only(self) -> bool:
        """Whether the variable is defined in another unit or file."""
        return dwarf.AT_DECLARATION in self.die.attributes and dwarf.AT_LOCATION not in self.die.attributes

    def locations(self) -> list[LocatedRange]:
        """Return where the variable is, by ranges of addresses; empty if it is optimized out."""
        location = self.die.attribute(dwarf.AT_LOCATION)
        return locations_of(*location) if location else []

    def expression_at(self, address: int) -> bytes:
        """Return the location expression at an address, empty if the variable is not available there."""
        return next((one.expression for one in self.locations() if one.holds(address)), b"")

    def is_available(self, address: int) -> bool:
        """Whether the variable has a value at an address."""
        return bool(self.expression_at(address)) or self.constant is not None


def scope_chain(function: CodeDie, address: int) -> list[Die]:
    """Return the function and the blocks and inlined calls in it that contain an address, outermost first."""
    chain = [function.die]
    for _ in range(_DEPTH_MOST):
        inner = next((child for child in chain[-1].children() if child.tag in _SCOPES and _holds(child, address)), None)
        if inner is None:
            break
        chain.append(inner)
    return chain


def _holds(die: Die, address: int) -> bool:
    ranges = ranges_of(die.unit, die.attributes)
    return any(low <= address < high for low, high in ranges)


def variables_in(scope: Die) -> Iterator[ScopedVariable]:
    """Yield a scope's own variables, in the order of the file."""
    ranges = ranges_of(scope.unit, scope.attributes)
    for child in scope.children():
        if child.tag in _VARIABLES:
            variable = ScopedVariable(child, ranges)
            if variable.name:
                yield variable


def local_variables(function: CodeDie, address: int) -> Iterator[ScopedVariable]:
    """Yield the variables in scope at an address, those of inner scopes first."""
    for scope in reversed(scope_chain(function, address)):
        yield from variables_in(scope)


def find_local(function: CodeDie, address: int, name: str) -> ScopedVariable | None:
    """Return the innermost variable of a name, one with a value at the address if there is one."""
    candidates = [variable for variable in local_variables(function, address) if variable.name == name]
    return next((variable for variable in candidates if variable.is_available(address)), candidates[0] if candidates else None)


def global_variables(unit: DebugUnit) -> Iterator[ScopedVariable]:
    """Yield the variables of a unit outside of functions, in the order of the file: those with a location, and those of other units."""
    yield from _globals_in(Die(unit, unit.header.size), 0)


def _globals_in(scope: Die, depth: int) -> Iterator[ScopedVariable]:
    for child in scope.children():
        if child.tag == dwarf.TAG_VARIABLE and any(name in child.attributes for name in _LOCATIONS):
            variable = ScopedVariable(child)
            if variable.name:
                yield variable
        elif child.tag in _NAMESPACES and depth < _DEPTH_MOST:
            yield from _globals_in(child, depth + 1)


# DWARF types to the kernel's types (s32, x64, string) and to C text. The kernel's types: Documentation/trace/uprobetracer.rst. perf's
# choice, as observed: signed numbers are sN, all others xN.

_QUALIFIERS: Final = frozenset({
    dwarf.TAG_CONST_TYPE,
    dwarf.TAG_VOLATILE_TYPE,
    dwarf.TAG_RESTRICT_TYPE,
    dwarf.TAG_ATOMIC_TYPE,
})  # fmt: skip
_REFERENCES: Final = frozenset({dwarf.TAG_REFERENCE_TYPE, dwarf.TAG_RVALUE_REFERENCE_TYPE})
POINTERS: Final = frozenset({dwarf.TAG_POINTER_TYPE}) | _REFERENCES
COMPOUNDS: Final = frozenset({dwarf.TAG_STRUCTURE_TYPE, dwarf.TAG_CLASS_TYPE, dwarf.TAG_UNION_TYPE})
_WORDS: Final = {
    dwarf.TAG_STRUCTURE_TYPE: "struct ",
    dwarf.TAG_UNION_TYPE: "union ",
    dwarf.TAG_ENUMERATION_TYPE: "enum ",
}
_SIGNED: Final = (dwarf.ATE_SIGNED, dwarf.ATE_SIGNED_CHAR)
_CHARACTERS: Final = (dwarf.ATE_SIGNED_CHAR, dwarf.ATE_UNSIGNED_CHAR)
_LINKS_MOST: Final = 64  # damaged files may have cycles of types
_BITS: Final = (64, 32, 16, 8)


def plain_type(die: Die | None) -> Die | None:
    """Return a type without typedefs and qualifiers, or None for void."""
    for _ in range(_LINKS_MOST):
        if die is None or (die.tag not in _QUALIFIERS and die.tag != dwarf.TAG_TYPEDEF):
            return die
        die = die.type
    raise ValueError("a type that refers to itself")


def type_text(die: Die | None, depth: int = 0) -> str:
    """Return a type as `probe --vars` prints it. Qualifiers are left out, as in perf; (unknown_type) is perf's text for the rest."""
    while die is not None and die.tag in _QUALIFIERS and depth < _LINKS_MOST:
        die, depth = die.type, depth + 1
    if die is None:
        return "void"
    if depth >= _LINKS_MOST:
        raise ValueError("a type that refers to itself")
    tag = die.tag
    if tag in POINTERS or tag == dwarf.TAG_ARRAY_TYPE:
        mark = "[]" if tag == dwarf.TAG_ARRAY_TYPE else "*" if tag == dwarf.TAG_POINTER_TYPE else "&"
        return type_text(die.type, depth + 1) + mark
    if tag == dwarf.TAG_SUBROUTINE_TYPE:
        return "(function_type)"
    return f"{_WORDS.get(tag, '')}{die.name}" if die.name or tag in _WORDS else "(unknown_type)"


def size_of(die: Die | None, depth: int = 0) -> int:
    """Return the bytes of a type, 0 if unknown."""
    die = plain_type(die)
    if die is None or depth > _LINKS_MOST:
        return 0
    size = die.number(dwarf.AT_BYTE_SIZE)
    if size is not None:
        return size
    if die.tag in POINTERS:
        return die.unit.header.shape.address_size
    if die.tag == dwarf.TAG_ARRAY_TYPE:
        size = size_of(die.type, depth + 1)
        for count in array_counts(die):
            size *= count
        return size
    return size_of(die.type, depth + 1) if die.tag == dwarf.TAG_ENUMERATION_TYPE else 0


def array_counts(die: Die) -> list[int]:
    """Return the elements of each dimension of an array, 0 where unknown."""
    counts = []
    for child in die.children():
        if child.tag == dwarf.TAG_SUBRANGE_TYPE:
            upper = child.number(dwarf.AT_UPPER_BOUND)
            counts.append(child.number(dwarf.AT_COUNT) or (0 if upper is None else upper + 1))
    return counts


def is_signed(die: Die) -> bool:
    """Whether a type's values are signed numbers."""
    return die.tag == dwarf.TAG_BASE_TYPE and die.number(dwarf.AT_ENCODING) in _SIGNED


def is_character(die: Die | None) -> bool:
    """Whether a type is char, signed or not."""
    die = plain_type(die)
    return die is not None and die.tag == dwarf.TAG_BASE_TYPE and die.number(dwarf.AT_ENCODING) in _CHARACTERS and size_of(die) == 1


def fetch_type(die: Die | None, letter: str = "") -> tuple[str, bool]:
    """Return the kernel's type for values of a type, "" for those without one, and whether it is truncated to 64 bits.

    `letter`: s, u or x as requested; "": the type's own.
    """
    die = plain_type(die)
    if die is None or die.tag == dwarf.TAG_ARRAY_TYPE:
        return "", False
    size = size_of(die)
    if not size or die.tag not in POINTERS | COMPOUNDS | {dwarf.TAG_BASE_TYPE, dwarf.TAG_ENUMERATION_TYPE}:
        return "", False
    bits = next((bits for bits in _BITS if bits <= 8 * size), 8)
    return f"{letter or ('s' if is_signed(die) else 'x')}{bits}", bits < 8 * size


# Location expressions to places that the kernel can read: a register, memory near a register's value, an address, or a constant. The
# kernel's fetch expressions add offsets only when they read memory: +8(%di). Other arithmetic has no equivalent. Layout: DWARF 5,
# sections 2.5 and 2.6. Names of registers: Documentation/trace/kprobetrace.rst and arch/*/kernel/ptrace.c.

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
_NESTED_MOST: Final = 4  # an entry value in a frame base has three
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
        self._depth = 0

    def read(self, expression: bytes, unit: DebugUnit | None = None) -> Location:
        """Return the location that an expression computes. Raises UnsupportedLocationError, and the errors of DAMAGE.

        Expressions contain others, or need that of the frame's base.
        """
        if self._depth >= _NESTED_MOST:
            raise ValueError("a location expression that needs itself")
        self._depth += 1
        try:
            return _Evaluation(self, unit or self._unit, expression).run()
        finally:
            self._depth -= 1

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
        location = self.read(expression, base[0])
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
                base, offset = self._pop()
                return Location(base or Base(""), offset)
            operation = self._code[self._offset]
            self._offset += 1
            location = self._step(operation)
            if location is not None:
                return location
        raise ValueError("a location expression with too many operations")

    def _step(self, operation: int) -> Location | None:
        """Do one operation; return the location if it ends the expression."""
        if dwarf.OP_REG0 <= operation < dwarf.OP_REG0 + 32:
            return self._in_register(operation - dwarf.OP_REG0)
        if operation == dwarf.OP_REGX:
            return self._in_register(self._unsigned())
        if operation == dwarf.OP_STACK_VALUE:
            self._require_end()
            base, offset = self._pop()
            if base is None:
                offset %= _WORD
                return Location(None, offset - _WORD if offset >> 63 else offset)
            return Location(base, offset, is_value=True)
        if operation == dwarf.OP_IMPLICIT_VALUE:
            size = self._unsigned()
            data = self._take(size)
            self._require_end()
            if size > 8:
                raise UnsupportedLocationError(f"the variable exists only as a constant of {size} bytes")
            return Location(None, int.from_bytes(data, self._unit.sections.order, signed=True))
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

    def _entry_value(self) -> None:
        inner = self._reader.read(self._take(self._unsigned()), self._unit)
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
        value, self._offset = dwarf.read_unsigned(self._code, self._offset)
        return value

    def _signed(self) -> int:
        value, self._offset = dwarf.read_signed(self._code, self._offset)
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
