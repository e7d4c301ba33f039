"""The noun after a number, for messages.

Input: a number and a noun. Output: the noun in its form for that number.
"""

from __future__ import annotations


def plural(number: int, noun: str, several: str = "") -> str:
    """Return the noun for one thing, else its plural; several: the plural where it is not the noun with an s.

    >>> plural(1, "row"), plural(0, "row"), plural(2, "entry", "entries")
    ('row', 'rows', 'entries')
    """
    return noun if number == 1 else several or f"{noun}s"
