"""Modifiers (u k h G H I p P S D e W b) -> the bits of an attr and the marks of an event.

What enters: Modifiers of the grammar, an EventDraft. What leaves: the same draft,
changed. The rules are perf 6.12's: letters at an event start from a clean
attr, letters at a group add to what its events have. b, by which perf may count
with BPF programs, leads to the same counts and changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.errors import EventSyntaxError

if TYPE_CHECKING:
    from perfpy.events.draft import EventDraft
    from perfpy.events.spec import Modifiers

_MOST_PRECISE = 3


def apply_modifiers(event: EventDraft, modifiers: Modifiers, text: str, *, of_group: bool = False) -> None:
    """Set what the letters mean; of_group: they stood after a group, whose leader and members keep their own.

    Raises EventSyntaxError when event and group ask for more than ppp together.
    """
    if not modifiers.text:
        return
    _exclude(event, modifiers, of_group)
    attr = event.attr
    precise = attr.precise_ip + modifiers.count("p")
    if precise > _MOST_PRECISE:
        raise EventSyntaxError(text, modifiers.column, f"more than three p modifiers for '{event.name}' with its group's")
    attr.precise_ip = precise
    if "I" in modifiers:
        attr.exclude_idle = 1
    if event.is_leader:
        attr.pinned |= "D" in modifiers
        attr.exclusive |= "e" in modifiers
    event.precise_max |= "P" in modifiers
    event.sample_read |= "S" in modifiers
    event.weak |= "W" in modifiers


def _exclude(event: EventDraft, modifiers: Modifiers, of_group: bool) -> None:
    """user, kernel, hypervisor; host and guest. The first letter of each set excludes all the others."""
    attr = event.attr
    if not of_group:
        attr.exclude_host = attr.exclude_guest = 0
    chosen = attr.exclude_user or attr.exclude_kernel or attr.exclude_hv
    host_or_guest = of_group and event.host_or_guest
    if "p" in modifiers or ("u" in modifiers and not host_or_guest):
        attr.exclude_guest = 1  # precise sampling and user space mean this machine, not its guests
    if any(letter in modifiers for letter in "ukh"):
        if not chosen:
            attr.exclude_user = attr.exclude_kernel = attr.exclude_hv = 1
        for letter, field in (("u", "exclude_user"), ("k", "exclude_kernel"), ("h", "exclude_hv")):
            if letter in modifiers:
                setattr(attr, field, 0)
    if "G" in modifiers or "H" in modifiers:
        if not host_or_guest:
            attr.exclude_host = attr.exclude_guest = 1
        for letter, field in (("G", "exclude_guest"), ("H", "exclude_host")):
            if letter in modifiers:
                setattr(attr, field, 0)
        event.host_or_guest = True
