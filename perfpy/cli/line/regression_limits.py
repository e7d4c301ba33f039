"""Limits on regressions: --fail-if-slower, --fail-above.

Their exit status is used for nothing else, so that scripts can distinguish an exceeded limit from a failure.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from perfpy.untrusted.text import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

EXCEEDED: Final = 90


def report_exceeded(worse: Sequence[str]) -> int:
    """Print each exceeded limit on stderr, and return the exit status: 0 if there are none."""
    for line in worse:
        print(one_line(line), file=sys.stderr)
    return EXCEEDED if worse else 0
