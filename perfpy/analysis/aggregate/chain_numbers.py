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
    from perfpy.symbols.symbolizer import Symbolizer

_FRAMES_AT_ONCE: Final = 1 << 16
_FINGERPRINTS: Final = ("space", "callchain")


class ChainNumbers:
    """Distinct callchains, with their number for each sample.

    Attributes:
        chains: the distinct callchains.
    """

    def __init__(self, *, by_function: bool, by_address: ChainNumbers | None = None) -> None:
        """Begin.

        Args:
            by_function: whether locations in one function are the same.
            by_address: the numbers of the same samples' callchains by address, if another profile needs them; those by function derive.
        """
        self.chains = ChainTable()
        self._functions = Functions() if by_function else None
        self._by_address = by_address
        self._number_of_chain = Growing(np.int32)  # of each callchain by address
        self._kinds, self._chain_of_kind = IdTable(), Growing(np.int32)
        self._last: tuple[SampleView | None, NDArray[np.int32]] = (None, np.zeros(0, np.int32))

    def forget(self) -> None:
        """Release the memory of recorded callchains. Later callchains are looked up again."""
        self._kinds, self._chain_of_kind = IdTable(), Growing(np.int32)
        self._last = (None, np.zeros(0, np.int32))

    def ids(self, samples: SampleView) -> NDArray[np.int32]:
        """Return the number of each sample's callchain. The last samples' numbers are kept for the next profile."""
        if samples is not self._last[0]:
            self._last = samples, self._ids(samples) if self._by_address is None else self._derived_ids(samples, self._by_address)
        return self._last[1]

    def _ids(self, samples: SampleView) -> NDArray[np.int32]:
        kinds, new = self._kinds.ids_and_new(kind_numbers(samples, _FINGERPRINTS))
        for part in parts_of_chains(new, samples.chains().lengths):
            chosen = samples.take(part)
            chains = frames_of(chosen.chains().gather(), chosen.column("pid"), chosen.key, chosen.symbolizer)
            self._chain_of_kind.append(self._add(*chains, chosen.symbolizer))
        ids: NDArray[np.int32] = self._chain_of_kind.values[kinds]
        return ids

    def _derived_ids(self, samples: SampleView, by_address: ChainNumbers) -> NDArray[np.int32]:
        chains = by_address.ids(samples)
        for frames, counts in by_address.chains.since(len(self._number_of_chain.values)):
            self._number_of_chain.append(self._add(frames, counts, samples.symbolizer))
        ids: NDArray[np.int32] = self._number_of_chain.values[chains]
        return ids

    def _add(self, frames: NDArray[np.int32], counts: NDArray[np.int64], symbolizer: Symbolizer) -> NDArray[np.int32]:
        return self.chains.add(frames if self._functions is None else self._functions.first_frames(frames, symbolizer), counts)


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
