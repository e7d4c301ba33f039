"""The conversions of a tracepoint's print format: its literal, taken apart.

What enters: the C format string of a PrintFormat, escapes as written. What
leaves: the plain text between its conversions, and a Conversion for each.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import Final, NamedTuple

from perfpy.perfdata.tracepoints.print_format import PrintFormat, PrintFormatError
from perfpy.perfdata.tracepoints.print_tree import Cast, FieldValue

_CONVERSION: Final = re.compile(r"%(?P<flags>[-+#0-9.*]*)(?P<long>[hlLzZ]*)(?P<rest>[-+#0-9.*]*)(?P<kind>.)", re.DOTALL)
_PYTHON_FLAGS: Final = re.compile(r"[-+#0]*(?:[0-9]{1,4}|\*)?(?:\.(?:[0-9]{0,4}|\*))?")
_POINTER: Final = re.compile(r"[FSfs]|[Mm][RF]?|[Ii]S[pfs]*[hnlb]?c?|[Ii]4[hnlb]?|[Ii]6c?|[Ii]|U[LlBb]?|h[CDN]?")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}
_KINDS_OF_ARGUMENTS: Final = "pcduixXos"
_LENGTH_BITS: Final = {-2: 8, -1: 16, 0: 32, 1: 64, 2: 64}


class Conversion(NamedTuple):
    """One conversion, %-08lx: flags "-08", long "l", kind "x" ("" where it is none); letters: those after a %p that belong to it."""

    text: str
    flags: str
    long: str
    kind: str
    letters: str

    @property
    def takes_argument(self) -> bool:
        """Whether perf's library knows it."""
        return self.kind != "" and self.kind in _KINDS_OF_ARGUMENTS

    @property
    def stars(self) -> int:
        """How many arguments in front of its own it takes, for its width."""
        return self.flags.count("*")

    @property
    def python_flags(self) -> str:
        """The flags for a conversion of Python. Raises PrintFormatError when they are none, or ask for thousands of characters."""
        if _PYTHON_FLAGS.fullmatch(self.flags) is None:
            raise PrintFormatError(f"a conversion that is none: {self.text[:20]!r}")
        return self.flags

    @property
    def width(self) -> int:
        """The most characters that its width and precision say."""
        return widest(self.python_flags)

    @property
    def bits(self) -> int:
        """How many bits its length letters mean. Raises PrintFormatError when they mean nothing."""
        marks = sum({"h": -1, "l": 1}.get(mark, 0) for mark in self.long)
        marks = 2 if "L" in self.long else 1 if re.search("[zZ]", self.long) else marks
        if marks not in _LENGTH_BITS:
            raise PrintFormatError("bad count")
        return _LENGTH_BITS[marks]


def split(literal: str) -> list[tuple[str, Conversion | None]]:
    """A C format as (plain text, the conversion after it or None) pairs."""
    parts: list[tuple[str, Conversion | None]] = []
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
            conversion = _conversion(literal, i)
            parts.append(("".join(text), conversion))
            text = []
            i += len(conversion.text)
        else:
            text.append(char)
            i += 1
    parts.append(("".join(text), None))
    return parts


def _conversion(literal: str, start: int) -> Conversion:
    """The conversion that begins there."""
    match = _CONVERSION.match(literal, start)
    if match is None:
        return Conversion(literal[start:], "", "", "", "")
    letters = _POINTER.match(literal, match.end()) if match["kind"] == "p" else None
    found = letters[0] if letters else ""
    return Conversion(match[0] + found, match["flags"] + match["rest"], match["long"], match["kind"], found)


def widest(conversion: str) -> int:
    """The largest number in a conversion."""
    return max((int(digits) for digits in re.findall("[0-9]+", conversion)), default=0)


def field_formats(parsed: PrintFormat) -> dict[str, PrintFormat]:
    """How an event writes each number that it writes as it is: the first conversion of the field, with a 0x before it."""
    found: dict[str, PrintFormat] = {}
    arguments = iter(parsed.arguments)
    for literal, conversion in split(parsed.literal):
        if conversion is None or not conversion.takes_argument:
            continue
        taken = [*islice(arguments, conversion.stars + 1)]
        tree = taken[-1] if taken else None
        while isinstance(tree, Cast):
            tree = tree.item
        if isinstance(tree, FieldValue) and not conversion.stars:
            found.setdefault(tree.name, PrintFormat(f"{'0x' if literal.endswith('0x') else ''}{conversion.text}", (taken[0],)))
    return found
