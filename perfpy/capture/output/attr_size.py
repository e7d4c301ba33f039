"""How long the attrs in a file are: as long as the perf of the recorded machine knows them.

What enters: an attr. What leaves: the same, without the last word where the
kernel is older than that. perf opens no file whose attrs are longer than its
own, whatever they hold, and is as a rule as old as the kernel that it came with.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import ATTR_SIZE_VER7

if TYPE_CHECKING:
    from perfpy.abi.attr import EventAttr

_CONFIG3_SINCE: Final = (6, 3)


def known_here(attr: EventAttr) -> EventAttr:
    """The attr, as long as this machine's perf reads it."""
    major, _, minor = os.uname().release.replace("-", ".").partition(".")
    minor = minor.partition(".")[0]
    if attr.config3 or not (major.isdecimal() and minor.isdecimal()) or (int(major), int(minor)) >= _CONFIG3_SINCE:
        return attr
    return attr.copy(size=min(attr.size, ATTR_SIZE_VER7))
