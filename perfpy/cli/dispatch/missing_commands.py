"""Commands of perf that perfpy does not have, and what does their work.

Input: a command's name. Output: the message that refuses it, on one line, with lines to type.
"""

from __future__ import annotations

from typing import Final

#: command -> the lines to type instead; () if nothing takes its place
ALTERNATIVES: Final[dict[str, tuple[str, ...]]] = {
    "bench": (),
    "daemon": ("perfpy record -a --switch-output=1m --switch-max-files=60",),
    "iostat": ("perfpy record -a -e 'block:*' -- sleep 1", "perfpy script"),
    "kallsyms": (),
    "test": (),
}


def refusal(name: str) -> str:
    """Return the message for a command that only perf has."""
    lines = ALTERNATIVES[name]
    remedy = f"use {' && '.join(lines)}" if lines else "perfpy help compatibility says why"
    return f"perfpy does not have perf's command '{name}'; {remedy}"
