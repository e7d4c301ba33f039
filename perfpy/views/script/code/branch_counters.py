"""The counts of events between two branches: brcntr.

Each event has a letter, which is repeated for each count. (perf 6.12's legend mentions a + for more counts, but prints none.)
"""

from __future__ import annotations

import string
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import BranchSample
from perfpy.untrusted.text import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from perfpy.perfdata.container.events import FileEvent

_SIGNS: Final = "# '-' No event occurs\n# '+' Event occurrences may be lost due to branch counter saturated\n"
_WIDTH: Final = "branch_counter_width"
_WIDTH_DIGITS: Final = 3


class BranchCounters:
    """The formatter of branch counters.

    Args:
        width: bits of each number
        names: of the events, from the lowest bits
    """

    def __init__(self, width: int, names: Sequence[str]) -> None:
        self._width = width
        self._names = names[: len(string.ascii_uppercase)]
        self._letters = string.ascii_uppercase[: len(self._names)]

    @property
    def legend(self) -> bytes:
        """Return the legend of the letters."""
        events = "".join(f"# {one_line(name)} = {letter}\n" for name, letter in zip(self._names, self._letters, strict=True))
        return f"# Branch counter abbr list:\n{events}{_SIGNS}".encode("utf-8", "surrogateescape")

    @classmethod
    def of(cls, header: Mapping[str, Any], events: Sequence[FileEvent]) -> BranchCounters:
        """Return the formatter for a recording."""
        return cls(next(_widths(header), 0), [event.name for event in events if is_counted(event)])

    def text(self, word: int) -> bytes:
        """Return the counts of a branch."""
        most = (1 << self._width) - 1
        numbers = [word >> index * self._width & most for index in range(len(self._letters))]
        letters = "".join(letter * number for letter, number in zip(self._letters, numbers, strict=True))
        return f"br_cntr: {letters}\t".encode()


def is_counted(event: FileEvent) -> bool:
    """Whether the CPU counts the event between branches."""
    return bool(event.attr.branch_sample_type & BranchSample.COUNTERS)


def _widths(header: Mapping[str, Any]) -> Iterator[int]:
    pairs = [*(header.get("cpu_pmu_caps") or ()), *(pair for pmu in header.get("pmu_caps") or () for pair in pmu.caps)]
    for name, value in pairs:
        if name == _WIDTH and value.isdecimal() and len(value) <= _WIDTH_DIGITS:
            yield min(int(value), 32)
