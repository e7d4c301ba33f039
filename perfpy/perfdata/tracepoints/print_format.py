"""The `print fmt` of a tracepoint: text -> format string and argument expressions.

What enters: the part of a format file after "print fmt:", C as the kernel's
TP_printk() leaves it: a string literal and arguments made of REC->field,
operators, casts, __print_flags() and its kin. What leaves: a PrintFormat whose
arguments are trees of perfdata.tracepoints.print_tree.

perf's library groups operators by rules of its own, not by those of C (equal
priorities group from the right; a parenthesised right side may be torn
apart). Its text is the contract, so the same trees are built here; what it
cannot parse raises PrintFormatError, and its fallback text is printed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.perfdata.tracepoints.print_constants import constant, fold
from perfpy.perfdata.tracepoints.print_tree import (
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
    levels,
)

if TYPE_CHECKING:
    from perfpy.perfdata.tracepoints.event_format import EventFormat, TraceField


class Token(NamedTuple):
    """kind: item, string, character, delimiter, operator or end; text: of a string all its pieces, without the quotes."""

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
    """The token that begins there, and where it ends; an "end" where there is none.

    >>> token_at("REC->pid", 3)
    (Token(kind='operator', text='->'), 5)
    """
    match = _TOKEN.match(text, position)
    if match is None:
        return Token("end", ""), position
    kind = str(match.lastgroup)
    found = match[kind]
    return Token(kind, "".join(_LITERAL.findall(found)) if kind == "string" else found), match.end()


class PrintFormatError(ValueError):
    """A print format that perf's library cannot parse either."""


class PrintFormatLimitError(PrintFormatError):
    """A print format that is longer, or nested deeper, than any that the kernel has."""


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
_DEEPEST: Final = 200  # expressions in each other while it is parsed: some frames of Python's stack each
_MOST_LEVELS: Final = 400  # of the trees that leave: parts of an expression in each other


def parse_print_fmt(event: EventFormat, long_size: int = 8) -> PrintFormat:
    """The print format of one tracepoint.

    long_size: bytes of a long on the machine that recorded. Raises
    PrintFormatError where perf's library gives up, PrintFormatLimitError where it
    would go on for too long.
    """
    if len(event.print_fmt) > _LONGEST:
        raise PrintFormatLimitError(f"a print format of {len(event.print_fmt)} characters")
    parser = _FormatParser(event, long_size)
    return parser.parse()


class _FormatParser:
    """A recursive descent over the tokens of one print format; `token` is the one to be used next."""

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
            # after an operator any token parts the arguments; otherwise only a comma does
            if self.token.kind == "end" or not (was_operator or self.token == ("delimiter", ",")):
                return arguments
            self._advance()

    # tokens

    def _advance(self) -> Token:
        self.token, self._position = token_at(self._text, self._position)
        return self.token

    def _expect(self, kind: str, text: str | None = None) -> str:
        """The text of the token that must be here; the next one is read."""
        found = self.token
        if found.kind != kind or (text is not None and found.text != text):
            raise PrintFormatError(f"{found.text!r} where {text or kind!r} should be")
        self._advance()
        return found.text

    # expressions

    def _enter(self) -> None:
        """Go one level down into an expression; whoever does takes the level away again."""
        self._depth += 1
        if self._depth > _DEEPEST:
            raise PrintFormatLimitError(f"expressions nested more than {_DEEPEST} times")

    def _primary(self) -> Expression:
        """One operand with all that binds to it."""
        self._enter()
        operand = self._operand()
        self._depth -= 1
        return operand

    def _operand(self) -> Expression:
        kind, text = self.token
        if kind == "item":
            return self._atom_call_or_field()
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
        """What follows REC: ->name."""
        self._expect("operator", "->")
        name = self._expect("item")
        return FieldValue(name, self._event.field(name))

    def _atom_call_or_field(self) -> Expression:
        words = [self._expect("item")]
        if words == ["REC"]:
            return self._record_field()
        if self.token == ("delimiter", "("):
            self._advance()
            return self._call(words[0])
        while self.token.kind == "item":
            words.append(self._expect("item"))
        return Atom(" ".join(words))

    def _parenthesis(self) -> Expression:
        """What follows an opening parenthesis: an expression, or a cast and its operand."""
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
                raise PrintFormatError("a cast to what is no type")
            return Cast(inner.text, self._primary())
        return inner

    def _operators(self, left: Expression) -> Expression:
        """`left` with the operator at hand, and all that follow it."""
        self._enter()
        tree = self._continue(*self._applied(left))
        self._depth -= 1
        return tree

    def _applied(self, left: Expression) -> tuple[Expression, bool]:
        """`left` with the operator at hand; whether its right side was torn apart."""
        operator = self.token.text
        if operator == "?":
            return self._conditional(left), False
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
                raise PrintFormatError("a pointer to what is no type")
            return Atom(left.text + " *"), False
        return _join(operator, left, self._primary())

    def _continue(self, tree: Expression, torn: bool = False) -> Expression:
        """Give the operators that follow the whole tree or its right side, by priority."""
        while self.token.kind == "operator" and self.token.text != ":":
            own = tree.priority if isinstance(tree, Operation) else 0
            if _PRIORITY.get(self.token.text, -1) > own:
                tree, torn = self._applied(tree)
            elif not isinstance(tree, Operation):
                raise PrintFormatError(f"unknown operator {self.token.text!r}")
            elif torn and tree.left is not None:
                return replace(tree, left=self._operators(tree.left))
            else:
                return replace(tree, right=self._operators(tree.right))
        return tree

    def _conditional(self, condition: Expression) -> Conditional:
        self._advance()
        yes = self._primary()
        while self.token.kind == "operator" and self.token.text != ":":
            yes = self._operators(yes)
        self._expect("operator", ":")
        return Conditional(condition, yes, self._primary())

    # functions; the opening parenthesis has been read

    def _call(self, name: str) -> Expression:
        if name == "__print_flags":
            return self._flags()
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
            return self._expected_value()
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

    def _flags(self) -> Flags:
        value = self._whole_argument()
        self._expect("delimiter", ",")
        delimiter = ""
        if self.token.kind in ("item", "string", "character"):
            delimiter = self.token.text
            self._advance()
        return Flags(value, delimiter, self._names())

    def _names(self) -> tuple[tuple[str, str], ...]:
        """, { value, "name" } ... ) with the values as text."""
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

    def _expected_value(self) -> Expression:
        value = self._primary()
        self._expect("delimiter", ",")
        self._expect("item")
        self._expect("delimiter", ")")
        return value

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
    """The tree of a binary operator, and whether the right side was torn apart."""
    priority = _PRIORITY[operator]
    if isinstance(right, Operation) and priority < _PRIORITY[right.operator]:
        inner = Operation(operator, left, right.left or Atom("0"), priority)
        return replace(right, left=inner), True
    if isinstance(right, Conditional) and priority < _PRIORITY["?"]:
        return Conditional(Operation(operator, left, right.condition, priority), right.yes, right.no), True
    return Operation(operator, left, right, priority), False


def _constant_text(tree: Expression) -> str:
    """An atom's own text, or the number that an expression of atoms comes to."""
    while isinstance(tree, Cast):
        tree = tree.item
    if isinstance(tree, Atom):
        return tree.text
    value = constant(tree)
    if value is None:
        raise PrintFormatError("a name's value that is no constant")
    value &= (1 << 64) - 1
    return str(value - (1 << 64) if value >> 63 else value)
