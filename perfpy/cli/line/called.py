"""The name we were called by: `perf`, where a link of that name stands in perf's place, else `perfpy`.

What enters: the first word of the command line. What leaves: that name, for what speaks of the program; texts of ours that name
its commands; the answer to `--version`, of which other programs read the number after "perf version": it is that of the perf
whose text and options ours are.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

_OWN: Final = "perfpy"
_OTHER: Final = "perf"
_PERF_VERSION: Final = "6.12.0"


def program() -> str:
    """`perf` or `perfpy`."""
    return _OTHER if in_place_of_perf() else _OWN


def in_place_of_perf() -> bool:
    """Whether we were called by perf's name."""
    return os.path.basename(sys.argv[0] if sys.argv else "") == _OTHER


def version_line() -> str:
    """What --version prints."""
    from perfpy.version import __version__

    return f"perf version {_PERF_VERSION} (perfpy {__version__})" if in_place_of_perf() else f"perfpy version {__version__}"


def as_called(text: str) -> str:
    """A text that is ours alone, with the name in it."""
    return text.replace(f"{_OWN} ", f"{_OTHER} ") if in_place_of_perf() else text


def commands_as_called(text: str, commands: Iterable[str]) -> str:
    """A text that may have others' names, too: only the command lines in it get the name."""
    if in_place_of_perf():
        for name in (*commands, "--help"):
            text = text.replace(f"{_OWN} {name}", f"{_OTHER} {name}")
    return text
