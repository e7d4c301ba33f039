"""The note on callchains that end after one frame, by the dso of that frame.

`record` counts a part of the samples without numpy, `report` all of them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from perfpy.abi.startup import NamedTuple
from perfpy.symbols.mapped_names import is_memory

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_FEW: Final = 20  # too few to judge by
_NAMED: Final = 3  # files named in a note
_WORTH_NAMING: Final = 0.1  # share of all callchains that end early


class ChainEnds(NamedTuple):
    """Counts of user callchains.

    Attributes:
        chains: all callchains.
        early: callchains that end after their first frame, by its file.
    """

    chains: int
    early: Mapping[str, int]

    @property
    def matter(self) -> bool:
        """Whether most callchains end early."""
        return self.chains >= _FEW and sum(self.early.values()) * 2 > self.chains

    @property
    def files(self) -> list[str]:
        """Return the files in which most callchains end, most first."""
        ended = sum(self.early.values())
        names = [name for name, count in sorted(self.early.items(), key=lambda item: -item[1]) if count >= ended * _WORTH_NAMING]
        return [name for name in names if name.startswith("/") and not is_memory(name)][:_NAMED]

    def of_frame_pointers(self) -> str:
        """Return the note on callchains from the kernel; empty if most are longer."""
        whose = f": no frame pointers in {_short(self.files)}" if self.files else ""
        return f"{self._share()}{whose}; record --unwind has their callers" if self.matter else ""

    def of_stacks(self, missing: Iterable[str], machine: str, *, can_unwind: bool) -> str:
        """Return the note on callchains from copied stacks. `missing`: the files that are not available."""
        if not self.matter:
            return ""
        if not can_unwind:
            return f"{self._share()}: stacks of {machine} are not unwound here"
        lost = [name for name in self.files if name in set(missing)]
        if lost:
            return f"{self._share()}: not found, or of another build: {', '.join(lost)}; give --symfs, or install them"
        whose = f" in {_short(self.files)}" if self.files else ""
        return f"{self._share()}: no call frame information{whose}"

    def _share(self) -> str:
        return f"{sum(self.early.values()) * 100 // self.chains}% of the user call chains end after one frame"


def _short(names: list[str]) -> str:
    return ", ".join(map(os.path.basename, names))
