"""The tokens of a tracepoint's print format.

What enters: the text, and where in it. What leaves: a Token, and where the
next one begins.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple


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
