"""Turn perfpy's docstrings, which are plain text, into reStructuredText."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_MARKUP = re.compile(r"([\\*|_<>])")
_ARGUMENT = re.compile(r"([\w, ]+): (.*)")


def as_restructured_text(lines: list[str]) -> Iterator[str]:
    """Yield the lines of a docstring as reStructuredText.

    `Args:` becomes a list. Indented lines after a line that ends with a colon, and doctests, stay as they are. In all other lines,
    single backticks mark code and no other character is markup.
    """
    block = ""
    for line in lines:
        indentation = len(line) - len(line.lstrip())
        if line.strip() == "Args:":
            block = "arguments"
            yield from ("Arguments:", "")
        elif not line.strip():
            block = "" if block == "doctest" else block
            yield line
        elif line.lstrip().startswith(">>>") or block == "doctest":
            block = "doctest"
            yield line
        elif indentation and block == "arguments":
            yield _list_item(line)
        elif indentation:
            if block != "literal":
                yield from ("", "::", "")
            block = "literal"
            yield line
        else:
            block = ""
            yield _escaped(line)


def _list_item(line: str) -> str:
    match = _ARGUMENT.match(line.strip())
    is_item = match is not None and len(line) - len(line.lstrip()) == 4
    if match is None or not is_item:
        return f"  {_escaped(line.strip())}"
    return f"- ``{match[1]}``: {_escaped(match[2])}"


def _escaped(line: str) -> str:
    pieces = line.split("`")
    return "".join(f"``{piece}``" if index % 2 and piece else _MARKUP.sub(r"\\\1", piece) for index, piece in enumerate(pieces))
