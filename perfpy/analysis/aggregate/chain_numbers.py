"""Number the callchains of samples for several profiles that fold the same samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.columns import Growing
from perfpy.analysis.callchains.functions import Functions
from perfpy.analysis.samples.callchains import ChainTable, frames_of
from perfpy.analysis.samples.fingerprints import kind_numbers
from perfpy.symbols.interning import IdTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from perfpy.analysis.samples.sample_view import SampleView

_FRAMES_AT_ONCE: Final = 1 << 16
_FINGERPRINTS: Final = ("space", "callchain")


class ChainNumbers:
    """Distinct callchains, with their number for each sample.

    Attributes:
        chains: the distinct callchains.
    """

    def __init__(self, *, by_function: bool) -> None:
        """Begin; by_function: whether locations in one function are the same."""
        self.chains = ChainTable()
        self._functions = Functions() if by_function else None
        self._kinds, self._chain_of_kind = IdTable(), Growing(np.int32)
        self._last: tuple[SampleView | None, NDArray[np.int32]] = (None, np.zeros(0, np.int32))

    def forget(self) -> None:
        """Release the memory of recorded callchains. Later callchains are looked up again."""
        self._kinds, self._chain_of_kind = IdTable(), Growing(np.int32)
        self._last = (None, np.zeros(0, np.int32))

    def ids(self, samples: SampleView) -> NDArray[np.int32]:
        """Return the number of each sample's callchain. The last samples' numbers are kept for the next profile."""
        if samples is not self._last[0]:
            kinds, new = self._kinds.ids_and_new(kind_numbers(samples, _FINGERPRINTS))
            for part in parts_of_chains(new, samples.chains().lengths):
                self._chain_of_kind.append(self._add(samples.take(part)))
            self._last = samples, self._chain_of_kind.values[kinds]
        return self._last[1]

    def _add(self, samples: SampleView) -> NDArray[np.int32]:
        frames, counts = frames_of(samples.chains().gather(), samples.column("pid"), samples.key, samples.symbolizer)
        return self.chains.add(frames if self._functions is None else self._functions.first_frames(frames, samples.symbolizer), counts)


def parts_of_chains(rows: NDArray[np.int64], lengths: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Split the rows into parts of a limited number of frames; lengths: of the chains of all rows."""
    if not len(rows):
        return
    reach = np.cumsum(lengths[rows])
    begin, total = 0, int(reach[-1])
    while begin < len(rows):
        frames_before = int(reach[begin - 1]) if begin else 0
        end = (
            len(rows)
            if total - frames_before <= _FRAMES_AT_ONCE
            else max(begin + 1, int(np.searchsorted(reach, frames_before + _FRAMES_AT_ONCE)))
        )
        yield rows[begin:end]
        begin = end
