"""What recordings with copies of stacks lost because the copies were too short, and what to ask for instead.

What enters: how many callchains end where the copy does. What leaves: lines for stderr.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.abi.startup import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

_LARGEST: Final = 65528  # of a copy: a record has at most 64 kB
_MANY: Final = 0.3  # share of cut stacks from which on twice the size will hardly do


class CutStacks(NamedTuple):
    """How many callchains end because the copy of the stack does, of how many; size: of the copies, in bytes.

    machine: what the stacks are of, where none of them could be unwound.
    """

    cut: int
    stacks: int
    size: int
    machine: str = ""


def note(found: Iterable[CutStacks]) -> list[str]:
    """The lines to print at the end of a report; none if no stack was cut.

    >>> note([CutStacks(5, 10, 8192)])
    ['5 of 10 callchains (50.0%) end early, copies of 8192 bytes do not hold their stacks: record with --call-graph dwarf,32768']
    """
    return [_line(one) for one in found if one.cut or one.machine]


def _line(one: CutStacks) -> str:
    if one.machine:
        return f"{one.stacks} callchains lack their user part: perfpy does not know how stacks of {one.machine} are unwound"
    share = one.cut / max(one.stacks, 1)
    remedy = f"record with --call-graph dwarf,{larger(one.size, share)}" if one.size < _LARGEST else "larger copies are not possible"
    return f"{one.cut} of {one.stacks} callchains ({share:.1%}) end early, copies of {one.size} bytes do not hold their stacks: {remedy}"


def larger(size: int, share: float) -> int:
    """The size of copies to ask for where that share of stacks was cut."""
    return min(size * (4 if share >= _MANY else 2), _LARGEST)
