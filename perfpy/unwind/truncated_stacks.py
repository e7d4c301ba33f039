"""Notes about callchains that end early because a recording's copies of the stack are too short."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.abi.light_types import NamedTuple
from perfpy.errors import plural

if TYPE_CHECKING:
    from collections.abc import Iterable

_LARGEST: Final = 65528  # bytes of a copy: a record has at most 64 kB
_MANY: Final = 0.3  # share of truncated stacks above which copies of twice the size would not be enough


class TruncatedStacks(NamedTuple):
    """The number of callchains that end where the copy of their stack ends.

    Attributes:
        truncated: number of these callchains
        stacks: number of all callchains with a copy of this size
        size: bytes of a copy
        machine: the machine's name if none of its stacks could be unwound, else ""
    """

    truncated: int
    stacks: int
    size: int
    machine: str = ""


def note(counts: Iterable[TruncatedStacks]) -> list[str]:
    """Return the lines to print after a report; none if no stack was truncated.

    >>> note([TruncatedStacks(5, 10, 8192)])
    ['5 of 10 callchains (50.0%) end early, because copies of 8192 bytes do not hold their stacks; record with --call-graph dwarf,32768']
    """
    return [_line(count) for count in counts if count.truncated or count.machine]


def _line(count: TruncatedStacks) -> str:
    if count.machine:
        lack = plural(count.stacks, "callchain lacks its", "callchains lack their")
        return f"{count.stacks} {lack} user part: perfpy cannot unwind stacks of {count.machine}"
    share = count.truncated / max(count.stacks, 1)
    remedy = f"record with --call-graph dwarf,{larger(count.size, share)}" if count.size < _LARGEST else "larger copies are not possible"
    return (
        f"{count.truncated} of {count.stacks} callchains ({share:.1%}) end early, because "
        f"copies of {count.size} bytes do not hold their stacks; {remedy}"
    )


def larger(size: int, share: float) -> int:
    """Return the size of copies to record with if `share` of the stacks were truncated."""
    return min(size * (4 if share >= _MANY else 2), _LARGEST)
