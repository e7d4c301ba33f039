r"""Arguments to the kernel's fetch expressions: "it->name:string" to "name=+0(+8(%di)):string".

Fetch expressions (Documentation/trace/uprobetracer.rst): %REG a register, +OFFSET(EXPRESSION) memory, @+OFFSET memory of the mapped file,
@SYMBOL+OFFSET memory of the kernel, \VALUE a constant; each with :TYPE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.debuginfo import dwarf
from perfpy.debuginfo.sections import damage_of
from perfpy.probing.grammar import ALL_PARAMETERS, ProbeArgument, shown_name
from perfpy.probing.problems import NoVariableError, ProbeError, UnsupportedLocationError, WrongTypeError, hint
from perfpy.probing.variables import (
    COMPOUNDS,
    POINTERS,
    Base,
    Location,
    LocationReader,
    ScopedVariable,
    array_counts,
    fetch_type,
    find_local,
    global_variables,
    is_character,
    local_variables,
    memory_text,
    plain_type,
    size_of,
    type_text,
)
from perfpy.symbols.files.elf import DAMAGE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.debuginfo.dies import Die
    from perfpy.probing.grammar import ArgumentField
    from perfpy.probing.program import Program
    from perfpy.probing.sites import Site


#: the constant for a variable that has no value at one of several sites; perf's lacks the 0x that kernels require
LOST_VALUE: Final = "\\0xdeade12d"
_STRING: Final = "string"
_LETTERS: Final = ("s", "u", "x")  # requested types without a size


class FetchedArgument(NamedTuple):
    """One argument of a definition.

    Attributes:
        text: as in the definition: name=EXPRESSION:TYPE.
        note: what a user should know, "" for nothing.
    """

    text: str
    note: str = ""


class _VariablePart(NamedTuple):
    """A variable or a part of it: its location, type and bitfield.

    `bits`: (width, offset from the lowest bit, bits of the container), None for whole values.
    """

    location: Location
    type: Die | None
    bits: tuple[int, int, int] | None = None


class Fetcher:
    """Translates the arguments of one site.

    Args:
        program: the program.
        site: the site. The variables of an inlined call are those of its function, not those of its callers.
        is_kernel: whether the program is a kernel.
    """

    def __init__(self, program: Program, site: Site, *, is_kernel: bool = False) -> None:
        self._program = program
        self._site = site
        self._is_kernel = is_kernel
        assert site.unit is not None
        self._unit = site.unit
        self._scope = site.code
        function = site.code.function if site.code else None
        self._reader = LocationReader(program, self._unit, function, site.address)

    def fetch(self, argument: ProbeArgument) -> list[FetchedArgument]:
        """Return the arguments of a definition for one argument of a request.

        Raises NoVariableError, UnsupportedLocationError, WrongTypeError.
        """
        try:
            if argument.is_group:
                return list(self._all(argument))
            variable = self._find(argument.variable)
            if variable is None:
                names = [one.name for one in local_variables(self._scope, self._site.address)] if self._scope else []
                advice = hint(argument.variable, names, "--vars shows the variables")
                raise NoVariableError(f"no variable '{argument.variable}' at {self._site.name}{advice}")
            if not variable.is_available(self._site.address) and not variable.is_declared_only:
                raise NoVariableError(
                    f"'{argument.variable}' has no value at {self._site.name} ({self._site.address:#x}): the compiler optimized it out;"
                    " --vars with --range shows where it has one"
                )
            return [self._of(argument, variable)]
        except DAMAGE as damage:
            self._program.symbols.flaw(damage_of(damage))
            raise UnsupportedLocationError(f"the debug information of '{argument.variable}' is damaged: {damage}") from None

    def lost(self, argument: ProbeArgument, kind: str = "") -> str:
        """Return the argument for a site where its variable has no value.

        `kind`: the kernel's type of the argument at another site, for functions that lack the variable.
        """
        variable = self._find(argument.variable)
        is_letter = argument.type in _LETTERS
        kind = argument.type if argument.type and not is_letter else kind or (f"{argument.type}64" if is_letter else "")
        if variable is not None:
            try:
                part = _VariablePart(Location(Base("%sp"), 0), variable.die.type)
                argument_text = argument.variable
                for field in argument.fields:
                    part, argument_text = self._follow(part, field, argument_text), field.member or argument_text
                kind = self._finish(part, argument, argument_text)[1]
            except (ProbeError, *DAMAGE):
                pass
        return f"{shown_name(argument)}={LOST_VALUE}:{kind or 'x64'}"

    def _all(self, argument: ProbeArgument) -> Iterator[FetchedArgument]:
        """Yield all variables or parameters with a value here that the kernel can read, outer scopes first."""
        if self._scope is None:
            return
        listed_names: set[str] = set()
        chosen = []
        for variable in local_variables(self._scope, self._site.address):
            if variable.name in listed_names or (argument.variable == ALL_PARAMETERS and not variable.is_parameter):
                continue
            listed_names.add(variable.name)
            chosen.append(variable)
        order = {variable.die.offset: variable for variable in chosen}
        for _, variable in sorted(order.items()):
            if not variable.is_available(self._site.address):
                continue
            try:
                yield self._of(ProbeArgument(variable.name, variable=variable.name, is_user=argument.is_user), variable)
            except UnsupportedLocationError as error:
                yield FetchedArgument("", f"'{variable.name}' is left out: {error}")

    def _find(self, name: str) -> ScopedVariable | None:
        if self._scope is not None:
            variable = find_local(self._scope, self._site.address, name)
            if variable is not None:
                return variable
        short = name.rsplit("::", 1)[-1]
        return next((variable for variable in global_variables(self._unit) if variable.name == short), None)

    def _of(self, argument: ProbeArgument, variable: ScopedVariable) -> FetchedArgument:
        part = self._begin(variable)
        argument_text = argument.variable
        for field in argument.fields:
            part, argument_text = self._follow(part, field, argument_text), field.member or f"{argument_text}[{field.number}]"
        text, kind, note = self._finish(part, argument, argument_text)
        return FetchedArgument(f"{shown_name(argument)}={text}{':' if kind else ''}{kind}", note)

    def _begin(self, variable: ScopedVariable) -> _VariablePart:
        expression = variable.expression_at(self._site.address)
        declared = variable.die.type
        if variable.is_declared_only:
            address = self._program.data_address(variable.name)
            if address is None:
                raise NoVariableError(f"'{variable.name}' is a variable of another file, which {self._program.path} does not define")
            return _VariablePart(Location(Base(""), address), declared)
        if not expression:
            constant = variable.constant
            assert constant is not None
            return _VariablePart(Location(None, constant), declared)
        location = variable.die.attribute(dwarf.AT_LOCATION)
        return _VariablePart(self._reader.read(expression, location[0] if location else None), declared)

    # -- parts

    def _follow(self, part: _VariablePart, field: ArgumentField, argument_text: str) -> _VariablePart:
        """Return the part that a field leads to."""
        kind = plain_type(part.type)
        if field.member:
            is_pointer = kind is not None and kind.tag in POINTERS
            is_reference = is_pointer and kind is not None and kind.tag != dwarf.TAG_POINTER_TYPE
            compound = plain_type(kind.type) if is_pointer and kind is not None else kind
            if compound is None or compound.tag not in COMPOUNDS:
                raise WrongTypeError(
                    f"'{argument_text}' is neither a structure nor a union ({type_text(part.type)}); it has no member '{field.member}'"
                )
            if is_pointer != field.follows_pointer and not is_reference:
                written, right = ("->", ".") if field.follows_pointer else (".", "->")
                raise WrongTypeError(f"write {argument_text}{right}{field.member} instead of {argument_text}{written}{field.member}")
            offset_and_member = find_member(compound, field.member)
            if offset_and_member is None:
                similar = hint(field.member, [child.name for child in _members_of(compound) if child.name])
                raise WrongTypeError(f"'{argument_text}' ({type_text(compound)}) has no member '{field.member}'{similar}")
            offset, member = offset_and_member
            location = self._target_of(part) if is_pointer else self._memory_of(part)
            bits, byte = bitfield(member)
            return _VariablePart(location._replace(offset=location.offset + offset + byte), member.type, bits)
        if kind is not None and kind.tag == dwarf.TAG_ARRAY_TYPE:
            counts = array_counts(kind)
            inner = 1
            for count in counts[1:]:
                inner *= count
            size = inner * size_of(kind.type)
            location = self._memory_of(part)
            moved = location._replace(offset=location.offset + field.number * size)
            return _VariablePart(moved, SubArray(kind, counts[1:]) if len(counts) > 1 else kind.type)  # type: ignore[arg-type]
        if kind is not None and kind.tag in POINTERS:
            target = self._target_of(part)
            return _VariablePart(target._replace(offset=target.offset + field.number * size_of(kind.type)), kind.type)
        raise WrongTypeError(f"'{argument_text}' is neither an array nor a pointer ({type_text(part.type)}); it has no [{field.number}]")

    def _target_of(self, part: _VariablePart) -> Location:
        """Return the place that a pointer points to. A pointer that exists only as a sum is an address all the same."""
        location = part.location
        if location.is_value and location.base is not None:
            return Location(location.base, location.offset)
        return Location(Base(self._text(part)), 0)

    def _memory_of(self, part: _VariablePart) -> Location:
        location = part.location
        if location.base is None:
            raise UnsupportedLocationError("the variable exists only as a constant, so that its parts cannot be read")
        if location.is_value:
            raise UnsupportedLocationError("the variable is in a register, so that its parts cannot be read")
        return location

    # -- text

    def _finish(self, part: _VariablePart, argument: ProbeArgument, argument_text: str) -> tuple[str, str, str]:
        """Return the fetch expression, the type and a note."""
        kind = plain_type(part.type)
        requested = argument.type
        is_string = requested.startswith(_STRING) or requested == "ustring"
        text = self._as_string(kind, part, argument_text) if is_string else self._text(part)
        if argument.is_user and self._is_kernel and text[:1] in ("+", "-"):
            text = f"{text[0]}u{text[1:]}"
        if is_string:
            return text, requested, ""
        if requested and requested not in _LETTERS:
            return text, requested, ""
        if part.bits and kind is not None:
            width, offset, container = part.bits
            return text, f"b{width}@{offset}/{container}", ""
        name, truncated = fetch_type(kind, requested)
        note = f"'{argument_text}' ({type_text(part.type)}) has more than 64 bits; the event has the first 64" if truncated else ""
        return text, name, note

    def _as_string(self, type: Die | None, part: _VariablePart, argument_text: str) -> str:
        """Return the fetch expression of a string's first byte."""
        if type is None or (type.tag not in POINTERS and type.tag != dwarf.TAG_ARRAY_TYPE):
            raise WrongTypeError(f"'{argument_text}' is not a string: {type_text(part.type)} is neither a pointer nor an array")
        if not is_character(type.type):
            raise WrongTypeError(f"'{argument_text}' is not a string: its elements ({type_text(type.type)}) are not characters")
        return self._text(_VariablePart(self._target_of(part), type.type) if type.tag in POINTERS else part)

    def _text(self, part: _VariablePart) -> str:
        """Return the fetch expression of a part's value, of its first bytes if it has many."""
        location = part.location
        if location.base is None:
            return f"\\{location.offset}"
        if location.is_value:
            if location.offset or not location.base.text:
                raise UnsupportedLocationError("the variable exists only as a sum, which the kernel's probes cannot compute")
            return location.base.text
        if location.base.text:
            return memory_text(location.base, location.offset)
        if self._is_kernel:
            symbol = self._program.data_symbol_at(location.offset)
            if symbol is None:
                raise UnsupportedLocationError(f"no symbol contains the variable at {location.offset:#x}")
            name, start = symbol
            return f"@{name}{location.offset - start:+d}"
        # The kernel adds the distance of the probe's own address from its file offset, which is also right for data beyond it.
        distance = location.offset - self._site.address + self._program.file_offset(self._site.address)
        return f"@+{distance:#x}"


# Members of structures and elements of arrays: offsets and bitfields.

_NESTED_MOST: Final = 16  # anonymous members


class SubArray:
    """The inner dimensions of an array, as a type of their own."""

    def __init__(self, array: Die, counts: list[int]) -> None:
        self.tag = dwarf.TAG_ARRAY_TYPE
        self.type = array.type
        self.unit = array.unit
        self.name = ""
        self._counts = counts

    def number(self, name: int) -> int | None:
        """Return no attribute."""
        return None

    def children(self) -> Iterator[_Dimension]:
        """Yield the dimensions."""
        return (_Dimension(count) for count in self._counts)


class _Dimension:
    """One dimension of an array."""

    tag = dwarf.TAG_SUBRANGE_TYPE

    def __init__(self, count: int) -> None:
        self._count = count

    def number(self, name: int) -> int | None:
        """Return the number of elements."""
        return self._count if name == dwarf.AT_COUNT else None


def _members_of(compound: Die) -> Iterator[Die]:
    return (child for child in compound.children() if child.tag in (dwarf.TAG_MEMBER, dwarf.TAG_INHERITANCE))


def find_member(compound: Die, name: str, depth: int = 0) -> tuple[int, Die] | None:
    """Return the offset of the compound that declares a member, and the member; also in anonymous members and base classes."""
    if depth > _NESTED_MOST:
        return None
    for child in _members_of(compound):
        if child.tag == dwarf.TAG_MEMBER and child.name == name:
            return _offset_of(child), child
        if child.tag == dwarf.TAG_INHERITANCE or not child.name:
            inner = plain_type(child.type)
            nested = find_member(inner, name, depth + 1) if inner is not None and inner.tag in COMPOUNDS else None
            if nested:
                return _offset_of(child) + nested[0], nested[1]
    return None


def _offset_of(member: Die) -> int:
    """Return a member's offset in bytes, or 0 for a bit-field without a byte offset."""
    offset = member.attributes.get(dwarf.AT_DATA_MEMBER_LOCATION)
    if offset is None:
        return 0
    if isinstance(offset.value, bytes):
        if offset.value[:1] == bytes((dwarf.OP_PLUS_UCONST,)):  # DWARF 2
            return dwarf.read_unsigned(offset.value, 1)[0]
        raise UnsupportedLocationError(f"the member '{member.name}' is at an offset that its object computes")
    return offset.value


def bitfield(member: Die) -> tuple[tuple[int, int, int] | None, int]:
    """Return (width, offset from the lowest bit, bits of the container) of a bitfield and the container's offset, or None for others."""
    width = member.number(dwarf.AT_BIT_SIZE)
    if not width:
        return None, 0
    container = 8 * (member.number(dwarf.AT_BYTE_SIZE) or size_of(member.type) or 4)
    big = member.unit.sections.order == "big"
    total = member.number(dwarf.AT_DATA_BIT_OFFSET)
    if total is not None:
        byte = total // container * container // 8
        offset = total - 8 * byte
        return (width, container - width - offset if big else offset, container), byte
    from_top = member.number(dwarf.AT_BIT_OFFSET) or 0  # DWARF 2 and 3 count from the highest bit
    return (width, container - from_top - width, container), 0
