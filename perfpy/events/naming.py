"""attr -> the name that perf gives an event that has no text of its own.

What enters: an EventAttr. What leaves: its generic name and the modifiers
that its bits stand for, in a form that the grammar reads back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.abi.flags import PerfType
from perfpy.events.catalog import generic_name

if TYPE_CHECKING:
    from perfpy.abi.attr import EventAttr

_ACCESS = ((1, "r"), (2, "w"), (4, "x"))


def modifiers_of(attr: EventAttr) -> str:
    """The letters for exclude_* and precise_ip, "" when nothing is excluded."""
    letters = ""
    if attr.exclude_user or attr.exclude_kernel or attr.exclude_hv:
        letters += "" if attr.exclude_kernel else "k"
        letters += "" if attr.exclude_user else "u"
        letters += "" if attr.exclude_hv else "h"
    letters += "p" * attr.precise_ip
    if attr.exclude_host or attr.exclude_guest:
        letters += "" if attr.exclude_host else "H"
        letters += "" if attr.exclude_guest else "G"
    return letters


def attr_name(attr: EventAttr) -> str:
    """The name of an attr: generic where the numbers have one, else TYPE:CONFIG or mem:ADDRESS; with modifiers."""
    name = generic_name(attr.type, attr.config)
    if not name and attr.type == PerfType.BREAKPOINT:
        access = "".join(letter for bit, letter in _ACCESS if attr.bp_type & bit)
        name = f"mem:{attr.bp_addr:#x}/{attr.bp_len}:{access}"
    elif not name and attr.type == PerfType.RAW:
        name = f"r{attr.config:x}"
    elif not name:
        name = f"{attr.type}:{attr.config:#x}"
    letters = modifiers_of(attr)
    return f"{name}:{letters}" if letters else name
