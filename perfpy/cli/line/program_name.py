"""The name that perfpy was called by: `perf` if a link of that name replaces perf, else `perfpy`.

Messages and help use it. `--version` then answers with the perf version whose text and options perfpy has, because other
programs parse the number after "perf version".
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
    """Return `perf` or `perfpy`."""
    return _OTHER if in_place_of_perf() else _OWN


def in_place_of_perf() -> bool:
    """Whether the process was called by perf's name."""
    return os.path.basename(sys.argv[0] if sys.argv else "") == _OTHER


def version_line() -> str:
    """Return the text of --version."""
    from perfpy.version import __version__

    return f"perf version {_PERF_VERSION} (perfpy {__version__})" if in_place_of_perf() else f"perfpy version {__version__}"


def use_program_name(text: str) -> str:
    """Replace perfpy's name in a text of perfpy's own by the current one."""
    return text.replace(f"{_OWN} ", f"{_OTHER} ") if in_place_of_perf() else text


def use_program_name_in_commands(text: str, commands: Iterable[str]) -> str:
    """Replace perfpy's name only in the command lines of a text, because the text may contain other people's names."""
    if in_place_of_perf():
        for name in (*commands, "--help"):
            text = text.replace(f"{_OWN} {name}", f"{_OTHER} {name}")
    return text
