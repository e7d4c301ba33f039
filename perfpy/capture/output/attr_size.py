"""Truncate the attrs in a file to the size that the recorded machine's perf knows.

perf opens no file whose attrs are longer than its own, and it is usually as old as its kernel.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import ATTR_SIZE_VER7

if TYPE_CHECKING:
    from perfpy.abi.attr import EventAttr

_CONFIG3_SINCE: Final = (6, 3)


def known_here(attr: EventAttr) -> EventAttr:
    """Return the attr with the size that this machine's perf can read."""
    major, _, minor = os.uname().release.replace("-", ".").partition(".")
    minor = minor.partition(".")[0]
    if attr.config3 or not (major.isdecimal() and minor.isdecimal()) or (int(major), int(minor)) >= _CONFIG3_SINCE:
        return attr
    return attr.copy(size=min(attr.size, ATTR_SIZE_VER7))
