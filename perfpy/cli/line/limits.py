"""Limits on how much worse something may be than before: --fail-if-slower, --fail-above.

What enters: what is worse, in words. What leaves: lines on standard error, and
the exit status that says it, which no other outcome has: scripts tell by it
that all went well but for the limit.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from perfpy.untrusted.text import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

EXCEEDED: Final = 90


def told(worse: Sequence[str]) -> int:
    """Say what is worse; the exit status, 0 where nothing is."""
    for line in worse:
        print(one_line(line), file=sys.stderr)
    return EXCEEDED if worse else 0
