"""A tracepoint's print format -> Python code that makes its text, one line of code an event.

What enters: the expressions of perfdata.printfmt. What leaves: a Rendering:
the fields to take out of the raw data, and an expression over them. Code is
made because 100,000 samples through a tree of closures take three times as
long. The arithmetic is unsigned 64-bit, as perf's library has it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfpy.perfdata.printconstants import number
from perfpy.perfdata.printfmt import PrintFormat, PrintFormatError
from perfpy.perfdata.printtree import (
    Atom,
    Cast,
    Conditional,
    DynamicArray,
    DynamicLength,
    DynamicText,
    Element,
    Expression,
    FieldValue,
    Flags,
    HexBytes,
    NumberArray,
    Operation,
    Symbolic,
)

if TYPE_CHECKING:
    from perfpy.perfdata.traceformat import TraceField

_ALL: Final = (1 << 64) - 1
_CONVERSION: Final = re.compile(r"%(?P<flags>[-+#0-9.*]*)(?P<long>[hlLzZ]*)(?P<rest>[-+#0-9.*]*)(?P<kind>.)", re.DOTALL)
_POINTER: Final = re.compile(r"[FSfs]|[Mm][RF]?|[Ii]S[pfs]*[hnlb]?c?|[Ii]4[hnlb]?|[Ii]6c?|[Ii]|U[LlBb]?|h[CDN]?")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}
_CAST_BITS: Final = {"u8": 8, "s8": 8, "char": 8, "u16": 16, "s16": 16, "short": 16, "u32": 32, "s32": 32, "int": 32}
_KINDS_OF_ARGUMENTS: Final = "pcduixXos"
_LENGTH_BITS: Final = {-2: 8, -1: 16, 0: 32, 1: 64, 2: 64}
_DIRECT: Final = {"|": "|", "&": "&", "<": "<", ">": ">", "<=": "<=", ">=": ">=", "==": "==", "!=": "!="}


class Load(NamedTuple):
    """A value to be taken out of the raw data: its place, and how ("unsigned", "signed", "bytes")."""

    offset: int
    size: int
    how: str

    @property
    def name(self) -> str:
        """The variable that it is in the generated code."""
        return f"{self.how[0]}{self.offset}_{self.size}"


@dataclass(slots=True)
class Rendering:
    """Code for one event: loads in order of need, the expression, and the constants that it names.

    needs_raw: the expression uses `raw`, the bytes of the whole sample.
    """

    code: str = ""
    loads: dict[Load, None] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)
    needs_raw: bool = False
    may_hold_nul: bool = False


class _Number(NamedTuple):
    """An expression's code, and the bits that its value can have."""

    code: str
    bits: int


def render(parsed: PrintFormat, runtime: Any) -> Rendering:
    """Code for a print format.

    runtime: a tracetext.Runtime, whose functions the code calls. Raises
    PrintFormatError when conversions and arguments do not match.
    """
    return _Writer(runtime).write(parsed)


def field_formats(parsed: PrintFormat) -> dict[str, PrintFormat]:
    """How an event writes each number that it writes as it is: the first conversion of the field, with a 0x before it."""
    found: dict[str, PrintFormat] = {}
    arguments = iter(parsed.arguments)
    for literal, conversion in _split(parsed.literal):
        match = _CONVERSION.match(conversion) if conversion else None
        if match is None or conversion is None or match["kind"] not in _KINDS_OF_ARGUMENTS:
            continue
        stars = (match["flags"] + match["rest"]).count("*")
        taken = [*islice(arguments, stars + 1)]
        tree = taken[-1] if taken else None
        while isinstance(tree, Cast):
            tree = tree.item
        if isinstance(tree, FieldValue) and not stars:
            found.setdefault(tree.name, PrintFormat(f"{'0x' if literal.endswith('0x') else ''}{conversion}", (taken[0],)))
    return found


class _Writer:
    """Collects the loads and constants while it writes the code of one event."""

    def __init__(self, runtime: Any) -> None:
        self._runtime = runtime
        self._out = Rendering()

    def write(self, parsed: PrintFormat) -> Rendering:
        pieces: list[str] = []  # of the Python format
        values: list[str] = []
        arguments = list(parsed.arguments)
        for literal, conversion in _split(parsed.literal):
            pieces.append(literal.replace("%", "%%"))
            if conversion is not None:
                self._conversion(conversion, arguments, pieces, values)
        if values:
            self._out.code = f"{''.join(pieces)!r} % ({', '.join(values)},)"
        else:
            self._out.code = repr("".join(pieces).replace("%%", "%"))
        return self._out

    def _conversion(self, text: str, arguments: list[Expression], pieces: list[str], values: list[str]) -> None:
        match = _CONVERSION.match(text)
        kind = match["kind"] if match else ""
        if match is None or kind not in _KINDS_OF_ARGUMENTS:
            pieces.append(f">{kind or text[1:]}<")
            return
        flags = match["flags"] + match["rest"]
        stars = [arguments.pop(0) for _ in range(flags.count("*")) if arguments]
        if len(stars) != flags.count("*") or len(stars) > 1 or not arguments:
            raise PrintFormatError("no argument match")
        width = [f"({self._number(star).code} & 0xffffffff)" for star in stars]
        argument = arguments.pop(0)
        if kind == "p":
            pieces.append("%s")
            values.append(self._pointer(text[match.end() :], argument, width))
        elif kind == "s":
            pieces.append("%s")
            values.append(self._text(argument, "%" + flags + "s", width))
        else:
            length = sum({"h": -1, "l": 1}.get(mark, 0) for mark in match["long"])
            length = 2 if "L" in match["long"] else 1 if re.search("[zZ]", match["long"]) else length
            if length not in _LENGTH_BITS:
                raise PrintFormatError("bad count")
            self._digits(flags, kind, _LENGTH_BITS[length], argument, width, pieces, values)

    # numbers

    def _digits(
        self, flags: str, kind: str, bits: int, argument: Expression, width: list[str], pieces: list[str], values: list[str]
    ) -> None:
        if kind == "c":
            self._out.may_hold_nul = True
            pieces.append("%" + flags + "c")
            values.extend([*width, f"({self._number(argument).code} & 0xff)"])
            return
        code = self._signed(argument, bits) if kind in "di" else self._cut(self._number(argument), bits)
        python = "%" + flags + ("d" if kind in "diu" else kind)
        if "#" in flags:
            pieces.append("%s")
            values.append(self._call("alternate", repr(python), f"({', '.join([*width, code])},)"))
            return
        pieces.append(python)
        values.extend([*width, code])

    def _cut(self, value: _Number, bits: int) -> str:
        return value.code if value.bits <= bits else f"({value.code} & {(1 << bits) - 1:#x})"

    def _signed(self, tree: Expression, bits: int) -> str:
        """Code of a value as a signed number of so many bits."""
        if isinstance(tree, FieldValue) and tree.field is not None and tree.field.size * 8 == bits:
            return self._load(tree.field.offset, tree.field.size, "signed")
        value = self._number(tree)
        if value.bits < bits:
            return value.code
        half = 1 << (bits - 1)
        return f"(({self._cut(value, bits)} ^ {half:#x}) - {half:#x})"

    def _load(self, offset: int, size: int, how: str) -> str:
        load = Load(offset, size, how)
        self._out.loads[load] = None
        return load.name

    def _number(self, tree: Expression) -> _Number:
        """Code of a value as an unsigned 64-bit number."""
        if isinstance(tree, Atom):
            value = number(tree.text) & _ALL
            return _Number(str(value), value.bit_length())
        if isinstance(tree, FieldValue):
            if tree.field is None or tree.field.size not in (1, 2, 4, 8):
                return _Number("0", 0)
            return _Number(self._load(tree.field.offset, tree.field.size, "unsigned"), tree.field.size * 8)
        if isinstance(tree, Cast):
            return self._cast(self._number(tree.item), tree.type)
        if isinstance(tree, Conditional):
            yes, no = self._number(tree.yes), self._number(tree.no)
            return _Number(f"({yes.code} if {self._number(tree.condition).code} else {no.code})", max(yes.bits, no.bits))
        if isinstance(tree, Operation):
            return self._operation(tree)
        if isinstance(tree, Element):
            return self._element(tree)
        if isinstance(tree, DynamicLength):
            return _Number(self._raw_call("dynamic_length", self._location(tree.field)), 16)
        if isinstance(tree, DynamicArray):
            return _Number(self._raw_call("dynamic_offset", self._location(tree.field)), 16)
        return _Number("0", 0)  # texts have no value

    def _cast(self, value: _Number, name: str) -> _Number:
        name = name.removeprefix("unsigned ")
        bits = _CAST_BITS.get(name, 64)
        return _Number(self._cut(value, bits), min(bits, value.bits))

    def _operation(self, tree: Operation) -> _Number:
        left = _Number("0", 0) if tree.left is None else self._number(tree.left)
        right = self._number(tree.right)
        sign = tree.operator
        if sign in _DIRECT:
            bits = 1 if sign[0] in "<>=!" else max(left.bits, right.bits) if sign == "|" else min(left.bits, right.bits)
            return _Number(f"({left.code} {_DIRECT[sign]} {right.code})", bits)
        if sign in ("&&", "||"):
            return _Number(f"(1 if {left.code} {'and' if sign == '&&' else 'or'} {right.code} else 0)", 1)
        if sign == "!":
            return _Number(f"(0 if {right.code} else 1)", 1)
        if sign == "~":
            return _Number(f"({right.code} ^ {_ALL:#x})", 64)
        if sign == "<<":
            return _Number(f"({left.code} << ({right.code} & 63) & {_ALL:#x})", 64)
        if sign == ">>":
            return _Number(f"({left.code} >> ({right.code} & 63))", left.bits)
        if sign in "+-*":
            return _Number(f"(({left.code} {sign} {right.code}) & {_ALL:#x})", 64)
        if sign in "/%":
            return _Number(self._call("divide" if sign == "/" else "remainder", left.code, right.code), left.bits)
        return _Number("0", 0)

    def _element(self, tree: Element) -> _Number:
        array = tree.array
        cast: str | None = None
        while isinstance(array, Cast):
            cast = cast or array.type
            array = array.item
        index = self._number(tree.index)
        if isinstance(array, DynamicArray):
            size = array.field.element_size or self._runtime.long_size
            value = _Number(self._raw_call("read", f"{self._dynamic_start(array.field)} + {index.code}", str(size)), size * 8)
        elif isinstance(array, FieldValue) and array.field is not None:
            value = self._field_element(array.field, index)
        else:
            return _Number("0", 0)
        if cast is not None and cast.endswith("*"):
            return self._cast(value, cast[:-2].rstrip())
        return value

    def _field_element(self, array: TraceField, index: _Number) -> _Number:
        size = array.element_size
        if size not in (1, 2, 4, 8):
            return _Number("0", 0)
        if index.code.isdigit():
            return _Number(self._load(array.offset + int(index.code) * size, size, "unsigned"), size * 8)
        return _Number(self._raw_call("read", f"{array.offset} + {index.code} * {size}", str(size)), size * 8)

    # the runtime's functions and what they are given

    def _constant(self, value: Any) -> str:
        name = f"k{len(self._out.constants)}"
        self._out.constants[name] = value
        return name

    def _call(self, function: str, *arguments: str) -> str:
        self._out.constants[function] = getattr(self._runtime, function)
        return f"{function}({', '.join(arguments)})"

    def _raw_call(self, function: str, *arguments: str) -> str:
        self._out.needs_raw = True
        return self._call(function, "raw", *arguments)

    def _location(self, field: TraceField) -> str:
        """The arguments that say where a dynamic field's data are: its value, size, and base."""
        value = self._load(field.offset, field.size, "unsigned")
        base = field.offset + field.size if field.is_relative else 0
        return f"{value}, {field.size}, {base}"

    def _dynamic_start(self, field: TraceField) -> str:
        return self._raw_call("dynamic_offset", self._location(field))

    def _place(self, tree: Expression) -> tuple[str, str] | None:
        """Code of the offset and the size of an array in the raw data."""
        if isinstance(tree, DynamicArray):
            return self._dynamic_start(tree.field), self._raw_call("dynamic_length", self._location(tree.field))
        if isinstance(tree, FieldValue) and tree.field is not None:
            self._out.needs_raw = True
            return str(tree.field.offset), str(tree.field.size)
        return None

    # texts

    def _text(self, tree: Expression, python: str, width: list[str]) -> str:
        """Code of the text of an argument of %s; `python` is its conversion, applied to each piece."""
        if isinstance(tree, Conditional):
            yes, no = self._text(tree.yes, python, width), self._text(tree.no, python, width)
            return f"({yes} if {self._number(tree.condition).code} else {no})"
        if isinstance(tree, Flags):
            return f"{self._constant(self._runtime.flags(tree, python, bool(width)))}({', '.join([self._number(tree.value).code, *width])})"
        if isinstance(tree, Symbolic):
            return (
                f"{self._constant(self._runtime.symbolic(tree, python, bool(width)))}({', '.join([self._number(tree.value).code, *width])})"
            )
        if isinstance(tree, HexBytes):
            place = self._place(tree.array)
            return "''" if place is None else self._raw_call("hex_bytes", place[0], self._number(tree.size).code, repr(tree.delimiter))
        if isinstance(tree, NumberArray):
            place = self._place(tree.array)
            counts = self._number(tree.count).code, self._number(tree.element_size).code
            return "''" if place is None else self._raw_call("number_array", place[0], *counts)
        code, ignores_width = self._plain_text(tree)
        if ignores_width or (python == "%s" and not width):
            return code
        # a dynamic string of no length prints nothing at all, not even the width
        if isinstance(tree, DynamicText):
            return self._call("padded", repr(python), code, *width)
        return f"({python!r} % ({', '.join([*width, code])},))"

    def _plain_text(self, tree: Expression) -> tuple[str, bool]:
        """Code of a text, and whether the conversion's width has no say in it."""
        if isinstance(tree, Atom):
            return repr(tree.text), False
        if isinstance(tree, DynamicText):
            if tree.field is None:
                return "''", True
            return self._raw_call(tree.kind, self._location(tree.field)), False
        if isinstance(tree, FieldValue) and tree.field is not None:
            one = tree.field
            if not one.is_array and one.size == self._runtime.long_size:
                return self._call("kernel_string", self._load(one.offset, one.size, "unsigned")), True
            if one.size == 0:
                return self._raw_call("string_from", str(one.offset)), False
            return self._call("c_string", self._load(one.offset, one.size, "bytes")), False
        return "''", True

    # %p and its kin

    def _pointer(self, behind: str, tree: Expression, width: list[str]) -> str:
        kind = behind[:1]
        if kind and kind in "FSfs":
            return self._call("function", self._number(tree).code, str(kind in "FS"))
        if not kind or kind not in "MmIiUh":
            return self._call("pointer", self._number(tree).code)
        item = tree
        while isinstance(item, Cast) and kind != "h":
            item = item.item
        suffix = repr(_pointer_suffix(behind))
        place = self._place(item)
        is_field = isinstance(item, FieldValue)
        wants_field = kind != "h" and not (kind in "Ii" and behind[1:2] == "S")
        if place is None or (wants_field and not is_field) or (kind == "h" and is_field):
            return repr(_wrong_argument(item, behind))
        function = {"M": "mac", "m": "mac", "U": "uuid", "h": "dump"}.get(kind, "address")
        return self._raw_call(function, *place, suffix, *(width if kind == "h" else []))


# numbers of an argument's kind in the text of perf's library
_KINDS: Final = {
    Atom: 1, FieldValue: 2, Flags: 3, Symbolic: 4, HexBytes: 5, NumberArray: 6, Cast: 7, DynamicText: 8, DynamicArray: 10, Operation: 11,
    Conditional: 11, Element: 11, DynamicLength: 14,
}  # fmt: skip


def _wrong_argument(tree: Expression, behind: str) -> str:
    """What is printed for an address, UUID or dump of something that has no place in the data."""
    kind = _KINDS[type(tree)]
    if behind[0] in "Ii":
        if behind[1:2] == "S":
            return f"ARG NOT FIELD NOR DYNAMIC ARRAY BUT TYPE {kind}"
        if behind[1:2] not in ("4", "6"):
            return ""
    return f"ARG TYPE NOT FIELD BUT {kind}"


def _pointer_suffix(behind: str) -> str:
    """The letters behind %p that belong to it."""
    match = _POINTER.match(behind)
    return match[0] if match else ""


def _split(literal: str) -> list[tuple[str, str | None]]:
    """A C format as (plain text, the conversion behind it or None) pairs."""
    parts: list[tuple[str, str | None]] = []
    text: list[str] = []
    i = 0
    while i < len(literal):
        char = literal[i]
        if char == "\\" and i + 1 < len(literal):
            text.append(_ESCAPES.get(literal[i + 1], literal[i + 1]))
            i += 2
        elif char == "%" and literal[i + 1 : i + 2] == "%":
            text.append("%")
            i += 2
        elif char == "%":
            end = _conversion_end(literal, i)
            parts.append(("".join(text), literal[i:end]))
            text = []
            i = end
        else:
            text.append(char)
            i += 1
    parts.append(("".join(text), None))
    return parts


def _conversion_end(literal: str, start: int) -> int:
    match = _CONVERSION.match(literal, start)
    if match is None:
        return len(literal)
    end = match.end()
    return end + len(_pointer_suffix(literal[end:])) if match["kind"] == "p" else end
