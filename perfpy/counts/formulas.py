r"""Expressions of metrics and their compiled form.

The language is that of "MetricExpr" in perf's pmu-events, weakest binding first (facts: tools/perf/util/expr.y and expr.l of Linux 6.12):

    a if c else b     a | b    a ^ b    a & b    a < b, a > b    a + b, a - b
    a * b, a / b, a % b    -a, !a    (a)    1.5e9
    min(a, b)  max(a, b)  d_ratio(a, b)  source_count(x)  has_event(x)  strcmp_cpuid_str(x)
    #name             a fact about the machine, such as #num_cpus
    name              an event or another metric; @ stands for /, ? for a number, and \ protects - , = and blanks

A program is the compiled form, which the vendors' tables have: the words of an expression in postfix order, separated by blanks. Numbers,
#literals and names stand for themselves; `neg:` and `not:` take one operand, `if:` takes a value, a condition and the other value, and
`min(` and its like take their arguments.

A tree is what is evaluated: a number, a name, or (sign, operand ...).
"""

from __future__ import annotations

import math

from perfpy.errors import EventSyntaxError

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from typing import Any, Final

    Node = float | str | tuple[Any, ...]

#: operators of two operands, weakest binding first
_LEVELS: Final = ("|", "^", "&", "<>", "+-", "*/%")
_PRECEDENCE: Final = {sign: rank for rank, signs in enumerate(_LEVELS) for sign in signs}
_OF_TWO: Final = ("min(", "max(", "d_ratio(")
_OF_A_NAME: Final = ("source_count(", "has_event(", "strcmp_cpuid_str(")
_UNARY: Final = {"neg:": "-", "not:": "!"}
_CHOICE: Final = "if:"
#: stands for a blank of a name in a program
_BLANK: Final = "\x1f"


def parse_formula(text: str) -> Node:
    """Return the tree of an expression. Raises EventSyntaxError with the column."""
    return tree_of(compile_formula(text))


def tree_of(program: str) -> Node:
    """Return the tree of a program. Raises EventSyntaxError if it is damaged."""
    stack: list[Any] = []
    try:
        for word in program.split(" "):
            if word in _PRECEDENCE or word in _OF_TWO:
                right = stack.pop()
                stack.append((word.rstrip("("), stack.pop(), right))
            elif word in _UNARY or word in _OF_A_NAME:
                stack.append((word[:-1], stack.pop()))
            elif word == _CHOICE:
                otherwise, condition, value = stack.pop(), stack.pop(), stack.pop()
                stack.append(("if", value, condition, otherwise))
            else:
                stack.append(_operand(word))
        (tree,) = stack
    except (IndexError, ValueError):
        raise EventSyntaxError(program, 0, "this compiled formula is damaged") from None
    return tree  # type: ignore[no-any-return]  # the stack holds trees


def _operand(word: str) -> float | str:
    """Return a number, a #literal, or a name without escapes."""
    if word[0] in "0123456789.":
        return float(word)
    if word == "NaN":
        return math.nan
    name = word.replace("?", "0").replace(_BLANK, " ")
    return "\\".join(piece.replace("\\", "") for piece in name.split("\\\\")) if "\\" in name else name


# Compile expressions to programs, and write programs as expressions in perf's spelling.


def formula_text(program: str) -> str:
    """Return the expression of a program, with the parentheses that perf's own tools write."""
    highest = len(_LEVELS)
    stack: list[tuple[str, int]] = []
    for word in program.split(" "):
        if word in _PRECEDENCE:
            rank = _PRECEDENCE[word]
            right, left = stack.pop(), stack.pop()
            sides = [f"({text})" if own < rank or (own == rank and side) else text for side, (text, own) in enumerate((left, right))]
            stack.append((f"{sides[0]} {word} {sides[1]}", rank))
        elif word in _OF_TWO:
            right, left = stack.pop(), stack.pop()
            stack.append((f"{word}{left[0]}, {right[0]})", highest))
        elif word in _OF_A_NAME:
            stack.append((f"{word}{stack.pop()[0]})", highest))
        elif word in _UNARY:
            text, rank = stack.pop()
            stack.append((f"{_UNARY[word]}({text})" if rank < highest else _UNARY[word] + text, highest))
        elif word == _CHOICE:
            otherwise, condition, value = stack.pop(), stack.pop(), stack.pop()
            stack.append((f"({value[0]} if {condition[0]} else {otherwise[0]})", highest))
        else:
            stack.append((_without_escape(word), highest))
    return stack[-1][0].replace(_BLANK, " ") if stack else ""


def name_word(name: str) -> str:
    """Return the word of a program for an event or a metric, whose characters are escaped as in an expression."""
    is_like_another_word = name[0] in "0123456789." or name in _UNARY or name == _CHOICE
    return "\\" * is_like_another_word + name.replace(" ", _BLANK)


def _without_escape(word: str) -> str:
    """Return a name without the escape that keeps its program word from looking like a number, unless it is one."""
    if word[0] == "\\" and word[1:2] in tuple("0123456789."):
        try:
            float(word[1:])
        except ValueError:
            return word[1:]
    return word


def compile_formula(text: str) -> str:
    """Return the program of an expression. Raises EventSyntaxError with the column."""
    return " ".join(_Compiler(text).words())


class _Compiler:
    """A recursive-descent parser whose rules append words to the program."""

    def __init__(self, text: str) -> None:
        import re  # only event files of the user are compiled at run time

        self._text = text
        pattern = re.compile(
            r"\s*(?:(?P<number>\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?)(?![\w.:@?\\])"
            r"|(?P<literal>#[A-Za-z_][\w]*)"
            r"|(?P<name>(?:\\.|[A-Za-z0-9_.:@?])+)"
            r"|(?P<sign>[-+*/%|^&<>!(),]))"
        )
        self._tokens: list[tuple[str, str, int]] = []
        self._index = 0
        self._words: list[str] = []
        position, end = 0, len(text.rstrip())
        while position < end:
            token = pattern.match(text, position)
            if token is None:
                raise EventSyntaxError(text, position, f"'{text[position]}' is unexpected in a formula")
            kind = token.lastgroup or ""
            self._tokens.append((kind, token[kind], token.start(kind)))
            position = token.end()
        self._tokens.append(("end", "", len(text)))

    def words(self) -> list[str]:
        self._choice()
        if self._tokens[self._index][0] != "end":
            self._fail("the formula ends here")
        return self._words

    def _take(self, sign: str) -> bool:
        if self._tokens[self._index][1] != sign:
            return False
        self._index += 1
        return True

    def _expect(self, sign: str) -> None:
        if not self._take(sign):
            self._fail(f"'{sign}' is missing")

    def _fail(self, reason: str) -> None:
        raise EventSyntaxError(self._text, self._tokens[self._index][2], reason)

    def _choice(self) -> None:
        self._binary(0)
        if self._take("if"):
            self._binary(0)
            self._expect("else")
            self._choice()
            self._words.append(_CHOICE)

    def _binary(self, level: int) -> None:
        if level == len(_LEVELS):
            self._unary()
            return
        self._binary(level + 1)
        while (sign := self._tokens[self._index][1]) and sign in _LEVELS[level]:
            self._index += 1
            self._binary(level + 1)
            self._words.append(sign)

    def _unary(self) -> None:
        if self._take("-"):
            self._unary()
            self._words.append("neg:")
        elif self._take("!"):
            self._unary()
            self._words.append("not:")
        else:
            self._operand()

    def _operand(self) -> None:
        kind, text, _ = self._tokens[self._index]
        if self._take("("):
            self._choice()
            self._expect(")")
            return
        if kind not in ("number", "literal", "name") or text in ("if", "else"):
            self._fail("a number or an event is missing")
        self._index += 1
        if kind == "name" and self._tokens[self._index][1] == "(":
            self._call(text)
            return
        self._words.append(name_word(text) if kind == "name" else text)

    def _call(self, name: str) -> None:
        function = f"{name}("
        if function not in _OF_TWO and function not in _OF_A_NAME:
            self._index -= 1
            self._fail(f"unknown function '{name}'")
        self._expect("(")
        if function in _OF_A_NAME:
            kind, text, _ = self._tokens[self._index]
            if kind != "name":
                self._fail("a name is missing")
            self._index += 1
            self._words.append(name_word(text))
        else:
            self._choice()
            self._expect(",")
            self._choice()
        self._expect(")")
        self._words.append(function)
