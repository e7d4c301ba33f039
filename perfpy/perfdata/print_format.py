"""Parse the `print fmt` of a tracepoint: a format string and argument expressions.

The text is the part of a format file after "print fmt:", C as the kernel's TP_printk() leaves it: a string literal and arguments made of
REC->field, operators, casts, __print_flags() and similar functions.

perf's library groups operators by rules of its own, not by those of C (equal priorities group from the right; a parenthesised right side
may be torn apart). Its text is the contract, so the same trees are built here; PrintFormatError is raised where the library fails to
parse, and its fallback text is printed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from perfpy.perfdata.event_format import EventFormat, TraceField


class Token(NamedTuple):
    """kind: item, string, character, delimiter, operator or end; text: without quotes, and all pieces of a string joined."""

    kind: str
    text: str


_TOKEN: Final = re.compile(
    r"""\s*(?:
        (?P<item>[A-Za-z0-9_]+)
      | (?P<string>"(?:[ !#-\[\]-~\n]|\\.)*"(?:\s*"(?:[ !#-\[\]-~\n]|\\.)*")*)  # an unprintable character ends perf's parsing
      | '(?P<character>(?:[^'\\]|\\.)*)'
      | (?P<delimiter>[(),])
      | (?P<operator>->|>>=?|<<=?|\|\||&&|\+\+|--|[-+|&<>!=]=|[!-/:-@\[-`{-~])
    )""",
    re.VERBOSE | re.DOTALL,
)
_LITERAL: Final = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)


def token_at(text: str, position: int) -> tuple[Token, int]:
    """Return the token at a position, and its end; an "end" token if there is none.

    >>> token_at("REC->pid", 3)
    (Token(kind='operator', text='->'), 5)
    """
    match = _TOKEN.match(text, position)
    if match is None:
        return Token("end", ""), position
    kind = str(match.lastgroup)
    token_text = match[kind]
    return Token(kind, "".join(_LITERAL.findall(token_text)) if kind == "string" else token_text), match.end()


class PrintFormatError(ValueError):
    """A print format that perf's library cannot parse either."""


class PrintFormatLimitError(PrintFormatError):
    """A print format that is longer, or nested deeper, than any in the kernel."""


@dataclass(frozen=True, slots=True)
class PrintFormat:
    """A parsed print fmt: the literal with its escapes as written, and the arguments."""

    literal: str
    arguments: tuple[Expression, ...]


_PRIORITY: Final = {
    "++": 3, "--": 3, "~": 4, "!": 4, "*": 6, "/": 6, "%": 6, "+": 7, "-": 7, ">>": 8, "<<": 8, "<": 9, ">": 9, ">=": 9, "<=": 9,
    "==": 10, "!=": 10, "&": 11, "^": 12, "|": 13, "&&": 14, "||": 15, "?": 16,
}  # fmt: skip
_BINARY: Final = frozenset(_PRIORITY) - {"++", "--", "~", "!", "?"}
_DYNAMIC_TEXTS: Final = {
    "__get_str": "string",
    "__get_rel_str": "string",
    "__get_bitmask": "bitmask",
    "__get_rel_bitmask": "bitmask",
    "__get_cpumask": "cpumask",
    "__get_rel_cpumask": "cpumask",
}
_TYPE_SIZES: Final = {
    **dict.fromkeys(("__u64", "u64", "__s64", "s64"), 8),
    **dict.fromkeys(("__u32", "u32", "__s32", "s32", "int"), 4),
    **dict.fromkeys(("__u16", "u16", "__s16", "s16"), 2),
    **dict.fromkeys(("__u8", "u8", "__s8", "s8"), 1),
}

_LONGEST: Final = 1 << 16
_DEEPEST: Final = 200  # nested expressions during parsing: each takes some frames of Python's stack
_MOST_LEVELS: Final = 400  # nested expressions in the result


def parse_print_fmt(event: EventFormat, long_size: int = 8) -> PrintFormat:
    """Parse the print format of one tracepoint.

    long_size: bytes of a long on the recorded machine. Raises
    PrintFormatError if perf's library fails to parse it, PrintFormatLimitError if it
    would take too long.
    """
    if len(event.print_fmt) > _LONGEST:
        raise PrintFormatLimitError(f"a print format of {len(event.print_fmt)} characters")
    parser = _FormatParser(event, long_size)
    return parser.parse()


class _FormatParser:
    """A recursive descent over the tokens of one print format; `token` is the next one."""

    def __init__(self, event: EventFormat, long_size: int) -> None:
        self._event = event
        self._long_size = long_size
        self._text = event.print_fmt
        self._position = 0
        self._depth = 0
        self.token = Token("end", "")

    def parse(self) -> PrintFormat:
        self._advance()
        if self.token.kind != "string":
            raise PrintFormatError("a print format that does not start with a string")
        literal = self.token.text
        arguments: list[Expression] = []
        if self._advance().kind != "end":
            self._expect("delimiter", ",")
            arguments = self._arguments()
        if max(map(levels, arguments), default=0) > _MOST_LEVELS:
            raise PrintFormatLimitError(f"expressions nested more than {_MOST_LEVELS} times")
        return PrintFormat(literal, tuple(arguments))

    def _arguments(self) -> list[Expression]:
        arguments = []
        while True:
            argument = self._primary()
            was_operator = self.token.kind == "operator"
            if was_operator:
                argument = fold(self._operators(argument))
            arguments.append(argument)
            # After an operator any token separates arguments; otherwise only a comma does.
            if self.token.kind == "end" or not (was_operator or self.token == ("delimiter", ",")):
                return arguments
            self._advance()

    # tokens

    def _advance(self) -> Token:
        self.token, self._position = token_at(self._text, self._position)
        return self.token

    def _expect(self, kind: str, text: str | None = None) -> str:
        """Consume the expected token; return its text."""
        token = self.token
        if token.kind != kind or (text is not None and token.text != text):
            raise PrintFormatError(f"{token.text!r} where {text or kind!r} should be")
        self._advance()
        return token.text

    # expressions

    def _enter(self) -> None:
        """Enter a nested expression; the caller decrements the depth afterwards."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise PrintFormatLimitError(f"expressions nested more than {_DEEPEST} times")

    def _primary(self) -> Expression:
        """Parse one operand with everything that binds to it."""
        self._enter()
        operand = self._operand()
        self._depth -= 1
        return operand

    def _operand(self) -> Expression:
        kind, text = self.token
        if kind == "item":
            words = [self._expect("item")]
            if words == ["REC"]:
                return self._record_field()
            if self.token == ("delimiter", "("):
                self._advance()
                return self._call(words[0])
            while self.token.kind == "item":
                words.append(self._expect("item"))
            return Atom(" ".join(words))
        if kind == "string":
            self._advance()
            return Atom(text)
        if kind == "character":
            self._advance()
            return Atom(str(ord(text[0])) if text else "0")
        if kind == "delimiter" and text == "(":
            self._advance()
            return self._parenthesis()
        if kind == "operator" and text in ("~", "!", "+", "-"):
            self._advance()
            return self._continue(Operation(text, None, self._primary(), 0))
        raise PrintFormatError(f"{text!r} where an argument should be")

    def _record_field(self) -> Expression:
        """Parse ->name after REC."""
        self._expect("operator", "->")
        name = self._expect("item")
        return FieldValue(name, self._event.field(name))

    def _parenthesis(self) -> Expression:
        """Parse an expression, or a cast and its operand, after an opening parenthesis."""
        if self.token == ("item", "REC"):
            self._advance()
            if self.token == ("delimiter", ")"):  # (REC)->name
                self._advance()
                return self._record_field()
            inner = self._record_field()
        else:
            inner = self._primary()
        if self.token.kind == "operator":
            inner = self._operators(inner)
        self._expect("delimiter", ")")
        if self.token.kind in ("item", "string", "character") or self.token == ("delimiter", "("):
            if not isinstance(inner, Atom):
                raise PrintFormatError("a cast to an unknown type")
            return Cast(inner.text, self._primary())
        return inner

    def _operators(self, left: Expression) -> Expression:
        """Apply the operator at hand, and all that follow it, to `left`."""
        self._enter()
        tree = self._continue(*self._apply_operator(left))
        self._depth -= 1
        return tree

    def _apply_operator(self, left: Expression) -> tuple[Expression, bool]:
        """Apply the operator at hand to `left`; return the tree, and whether its right side was torn apart."""
        operator = self.token.text
        if operator == "?":
            self._advance()
            yes = self._primary()
            while self.token.kind == "operator" and self.token.text != ":":
                yes = self._operators(yes)
            self._expect("operator", ":")
            return Conditional(left, yes, self._primary()), False
        if operator == "[":
            self._advance()
            index = self._primary()
            self._expect("operator", "]")
            return Element(left, index), False
        if operator not in _BINARY:
            raise PrintFormatError(f"unknown operator {operator!r}")
        self._advance()
        if operator == "*" and self.token == ("delimiter", ")"):
            if not isinstance(left, Atom):
                raise PrintFormatError("a pointer to an unknown type")
            return Atom(left.text + " *"), False
        return _join(operator, left, self._primary())

    def _continue(self, tree: Expression, torn: bool = False) -> Expression:
        """Apply the operators that follow to the whole tree or its right side, by priority."""
        while self.token.kind == "operator" and self.token.text != ":":
            own = tree.priority if isinstance(tree, Operation) else 0
            if _PRIORITY.get(self.token.text, -1) > own:
                tree, torn = self._apply_operator(tree)
            elif not isinstance(tree, Operation):
                raise PrintFormatError(f"unknown operator {self.token.text!r}")
            elif torn and tree.left is not None:
                return replace(tree, left=self._operators(tree.left))
            else:
                return replace(tree, right=self._operators(tree.right))
        return tree

    # functions; the opening parenthesis is consumed

    def _call(self, name: str) -> Expression:
        if name == "__print_flags":
            value = self._whole_argument()
            self._expect("delimiter", ",")
            delimiter = ""
            if self.token.kind in ("item", "string", "character"):
                delimiter = self.token.text
                self._advance()
            return Flags(value, delimiter, self._names())
        if name == "__print_symbolic":
            value = self._whole_argument()
            return Symbolic(value, self._names())
        if name in ("__print_hex", "__print_hex_str"):
            return HexBytes(self._argument_until(","), self._argument_until(")"), " " if name == "__print_hex" else "")
        if name == "__print_array":
            return NumberArray(self._argument_until(","), self._argument_until(","), self._argument_until(")"))
        if name in _DYNAMIC_TEXTS:
            return self._dynamic_text(_DYNAMIC_TEXTS[name])
        if name in ("__get_dynamic_array", "__get_rel_dynamic_array", "__get_sockaddr", "__get_sockaddr_rel"):
            array = DynamicArray(self._own_field())
            if self.token == ("operator", "["):
                raise PrintFormatError("an element of a dynamic array without a cast")
            return array
        if name in ("__get_dynamic_array_len", "__get_rel_dynamic_array_len"):
            return DynamicLength(self._own_field())
        if name == "__builtin_expect":
            value = self._primary()
            self._expect("delimiter", ",")
            self._expect("item")
            self._expect("delimiter", ")")
            return value
        if name == "sizeof":
            return self._sizeof()
        raise PrintFormatError(f"function {name} not defined")

    def _whole_argument(self) -> Expression:
        argument = self._primary()
        while self.token.kind == "operator":
            argument = self._operators(argument)
        return argument

    def _argument_until(self, end: str) -> Expression:
        argument = self._primary()
        if self.token.kind == "operator":
            argument = fold(self._operators(argument))
        self._expect("delimiter", end)
        return argument

    def _names(self) -> tuple[tuple[str, str], ...]:
        """Parse ", { value, "name" } ... )"; values stay text."""
        names = []
        while self.token == ("delimiter", ","):
            self._advance()
            if self.token != ("operator", "{"):
                break
            self._advance()
            value = self._primary()
            if self.token.kind == "operator":
                value = self._operators(value)
            self._expect("delimiter", ",")
            name = self._primary()
            self._expect("operator", "}")
            names.append((_constant_text(value), _constant_text(name)))
        self._expect("delimiter", ")")
        return tuple(names)

    def _own_field(self) -> TraceField:
        name = self._expect("item")
        field = next((field for field in self._event.fields if field.name == name), None)
        if field is None:
            raise PrintFormatError(f"no field {name}")
        self._expect("delimiter", ")")
        return field

    def _dynamic_text(self, kind: str) -> DynamicText:
        name = self._expect("item")
        self._expect("delimiter", ")")
        return DynamicText(name, self._event.field(name), kind)

    def _sizeof(self) -> Atom:
        name = self._expect("item")
        is_unsigned = name == "unsigned"
        if is_unsigned:
            name = self._expect("item") if self.token.kind == "item" else "int"
        if name == "long":
            size = self._long_size
            if self.token == ("item", "long"):
                self._advance()
                size = 8
        elif name == "REC":
            self._expect("operator", "->")
            field = self._event.field(self._expect("item"))
            if field is None or field.is_array:
                raise PrintFormatError("sizeof of an array")
            size = field.size
        elif name in _TYPE_SIZES:
            size = _TYPE_SIZES[name]
        else:
            raise PrintFormatError(f"sizeof({name})")
        self._expect("delimiter", ")")
        return Atom(str(size))


def _join(operator: str, left: Expression, right: Expression) -> tuple[Operation | Conditional, bool]:
    """Return the tree of a binary operator, and whether the right side was torn apart."""
    priority = _PRIORITY[operator]
    if isinstance(right, Operation) and priority < _PRIORITY[right.operator]:
        inner = Operation(operator, left, right.left or Atom("0"), priority)
        return replace(right, left=inner), True
    if isinstance(right, Conditional) and priority < _PRIORITY["?"]:
        return Conditional(Operation(operator, left, right.condition, priority), right.yes, right.no), True
    return Operation(operator, left, right, priority), False


def _constant_text(tree: Expression) -> str:
    """Return an atom's text, or the value of an expression of atoms."""
    while isinstance(tree, Cast):
        tree = tree.item
    if isinstance(tree, Atom):
        return tree.text
    value = constant(tree)
    if value is None:
        raise PrintFormatError("a name's value that is not a constant")
    value &= (1 << 64) - 1
    return str(value - (1 << 64) if value >> 63 else value)


# The expressions in the arguments, which perfpy.views evaluates over many samples at once.
@dataclass(frozen=True, slots=True)
class Atom:
    """A number, a name, or the text of a string literal, escapes as written."""

    text: str


@dataclass(frozen=True, slots=True)
class FieldValue:
    """REC->name; field is None if the format has no such field."""

    name: str
    field: TraceField | None


@dataclass(frozen=True, slots=True)
class Cast:
    """(type)item"""

    type: str
    item: Expression


@dataclass(frozen=True, slots=True)
class Operation:
    """left operator right; left is None for a unary operator."""

    operator: str
    left: Expression | None
    right: Expression
    priority: int


@dataclass(frozen=True, slots=True)
class Conditional:
    """condition ? yes : no"""

    condition: Expression
    yes: Expression
    no: Expression


@dataclass(frozen=True, slots=True)
class Element:
    """array[index]"""

    array: Expression
    index: Expression


@dataclass(frozen=True, slots=True)
class Flags:
    """__print_flags(value, delimiter, { mask, name } ...)"""

    value: Expression
    delimiter: str
    names: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Symbolic:
    """__print_symbolic(value, { value, name } ...)"""

    value: Expression
    names: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class HexBytes:
    """__print_hex(array, size), or without blanks __print_hex_str(array, size)"""

    array: Expression
    size: Expression
    delimiter: str


@dataclass(frozen=True, slots=True)
class NumberArray:
    """__print_array(array, count, element size)"""

    array: Expression
    count: Expression
    element_size: Expression


@dataclass(frozen=True, slots=True)
class DynamicText:
    """__get_str(name); by kind, a bitmask or a cpumask."""

    name: str
    field: TraceField | None
    kind: str


@dataclass(frozen=True, slots=True)
class DynamicArray:
    """__get_dynamic_array(name), __get_sockaddr(name)"""

    field: TraceField


@dataclass(frozen=True, slots=True)
class DynamicLength:
    """__get_dynamic_array_len(name)"""

    field: TraceField


Expression: TypeAlias = (
    Atom
    | FieldValue
    | Cast
    | Operation
    | Conditional
    | Element
    | Flags
    | Symbolic
    | HexBytes
    | NumberArray
    | DynamicText
    | DynamicArray
    | DynamicLength
)


def levels(tree: Expression) -> int:
    """Return the depth of an expression: 1 for one without parts.

    >>> levels(Cast("u8", Atom("1")))
    2
    """
    deepest = 0
    pending = [(tree, 1)]
    while pending:
        part, depth = pending.pop()
        deepest = max(deepest, depth)
        values = (getattr(part, name) for name in part.__slots__)
        pending += [(value, depth + 1) for value in values if isinstance(value, Expression)]
    return deepest


# Fold constants in print formats, as perf's library does when it parses.

_ALL: Final = (1 << 64) - 1
_MOST_DIGITS: Final = 40  # with leading zeros; more digits exceed 64 bits


def number(text: str) -> int:
    """Return the number at the start of an atom, as strtoull(text, 0) reads it, or 0 without digits."""
    match = re.match(r"\s*([-+]?)(0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)", text)
    if match is None:
        return 0
    digits = match[2]
    if len(digits) > _MOST_DIGITS:
        return -_ALL if match[1] == "-" else _ALL
    value = int(digits, 8) if digits[0] == "0" and digits.isdigit() else int(digits, 0)
    return -value if match[1] == "-" else value


def constant(tree: Expression) -> int | None:
    """Return the value of an expression without fields, or None for any other."""
    if isinstance(tree, Atom):
        return number(tree.text)
    if isinstance(tree, Cast):
        return constant(tree.item)
    if not isinstance(tree, Operation):
        return None
    left = 0 if tree.left is None else constant(tree.left)
    right = constant(tree.right)
    if left is None or right is None:
        return None
    return _calculate(tree.operator, left, right)


def _calculate(operator: str, left: int, right: int) -> int | None:
    value = _result(operator, left, right)
    return value if value is None or -_ALL <= value <= _ALL else value & _ALL


def _result(operator: str, left: int, right: int) -> int | None:
    simple = {
        "|": left | right, "&": left & right, "^": left ^ right, "+": left + right, "-": left - right, "*": left * right, "~": ~right,
        "<": int(left < right), ">": int(left > right), "<=": int(left <= right), ">=": int(left >= right), "==": int(left == right),
        "!=": int(left != right), "&&": int(bool(left and right)), "||": int(bool(left or right)),
    }  # fmt: skip
    if operator in ("<<", ">>"):
        return left << (right & 63) if operator == "<<" else left >> (right & 63)
    if operator in ("/", "%"):
        return (left // right if operator == "/" else left % right) if right else None
    return simple.get(operator)


def fold(tree: Expression) -> Expression:
    """Replace an operation on two atoms by its value."""
    if not isinstance(tree, Operation) or tree.left is None:
        return tree
    left, right = fold(tree.left), fold(tree.right)
    if isinstance(left, Atom) and isinstance(right, Atom):
        value = _calculate(tree.operator, number(left.text), number(right.text))
        if value is not None:
            return Atom(str(value))
    return replace(tree, left=left, right=right)
