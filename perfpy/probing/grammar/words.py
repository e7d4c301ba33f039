r"""Split definitions into words, and words at special characters.

Parentheses keep their content together: `over(int, long)`. A backslash takes the meaning from the next character: `malloc\@GLIBC_2.2.5`.
"""

from __future__ import annotations

import re
from typing import Final

_MARK: Final = "\\"


def split_words(text: str) -> list[str]:
    """Split a definition at spaces outside of parentheses."""
    words, word, depth = list[str](), "", 0
    for character in text:
        if character.isspace() and depth <= 0:
            if word:
                words.append(word)
            word, depth = "", 0
            continue
        depth += (character == "(") - (character == ")")
        word += character
    return [*words, word] if word else words


def find_special(text: str, characters: str, start: int = 0) -> int:
    """Return the index of the first of some characters that no backslash precedes, -1 if there is none. Skips parentheses."""
    depth, index = 0, start
    while index < len(text):
        character = text[index]
        if character == _MARK:
            index += 2
            continue
        if character in characters and depth <= 0:
            return index
        depth += (character == "(") - (character == ")")
        index += 1
    return -1


def unescaped(text: str) -> str:
    """Remove the backslashes that take meanings away."""
    result, index = "", 0
    while index < len(text):
        index += text[index] == _MARK and index + 1 < len(text)
        result += text[index]
        index += 1
    return result


def without_parameters(name: str) -> str:
    """Return a name without the parameters of templates and generics: total<i32> is total."""
    if name.startswith("operator"):
        return name
    before = ""
    while before != name:
        before, name = name, re.sub(r"<[^<>]*>", "", name)
    return name
