"""User callchains that the kernel took later than the sample: on the way back to user space, once for all samples of a system call.

What enters: the CALLCHAIN_DEFERRED records of a recording, and the callchain
column of samples. What leaves: whole callchains. A sample whose user part is
still to come ends with the marker PERF_CONTEXT_USER_DEFERRED and a cookie; the
record that has it bears the same cookie (struct perf_event_header's types in
include/uapi/linux/perf_event.h):

    CALLCHAIN_DEFERRED { u64 cookie, nr; u64 ips[nr]; }

As perf 7 does, the marker stays, and the cookie makes room for the frames. A
cookie that nothing answers, because the recording ended before, goes away too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.columns import Columns, Ragged, slices_index
from perfpy.abi.flags import CONTEXT_USER_DEFERRED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from perfpy.perfdata.records.batches import StoredBatch
    from perfpy.perfdata.records.raw_records import RawRecord

_MARKER: Final = np.uint64(CONTEXT_USER_DEFERRED)


class DeferredCallchains:
    """The deferred user callchains of a recording, by their cookies."""

    def __init__(self, records: Iterable[RawRecord], endian: str) -> None:
        found: dict[int, NDArray[np.uint64]] = {}
        for record in records:
            words = np.frombuffer(record.body[: len(record.body) & ~7], endian + "u8").astype(np.uint64)
            if len(words) >= 2:
                found.setdefault(int(words[0]), words[2 : 2 + min(int(words[1]), len(words))])
        self._cookies = np.array(sorted(found), np.uint64)
        chains = [found[cookie] for cookie in self._cookies.tolist()]
        ends = np.cumsum([0, *(len(chain) for chain in chains)]).astype(np.int64)
        self._chains = Ragged(np.concatenate([np.zeros(0, np.uint64), *chains]), ends)

    def added(self, samples: StoredBatch) -> StoredBatch:
        """The samples with whole callchains."""
        chains = samples.columns.get("callchain")
        if chains is None:
            return samples
        columns = {**samples.columns, "callchain": self.joined(chains.gathered())}
        return samples._replace(columns=Columns(samples.columns.rows, columns, samples.columns.damaged))

    def joined(self, chains: Ragged) -> Ragged:
        """The callchains with the user part that came later."""
        rows = np.flatnonzero(chains.lengths >= 2)
        ends = chains.offsets[1:][rows]
        rows = rows[chains.values[ends - 2] == _MARKER]
        if not len(rows):
            return chains
        cookies = chains.values[chains.offsets[1:][rows] - 1]
        which = np.minimum(np.searchsorted(self._cookies, cookies), max(len(self._cookies) - 1, 0))
        known = self._cookies[which] == cookies if len(self._cookies) else np.zeros(len(rows), bool)
        kept, added = chains.lengths.copy(), np.zeros(len(chains), np.int64)
        kept[rows] -= 1
        added[rows[known]] = self._chains.lengths[which[known]]
        offsets = np.concatenate([[0], np.cumsum(kept + added)]).astype(np.int64)
        values = np.empty(int(offsets[-1]), np.uint64)
        values[slices_index(offsets[:-1], kept)[0]] = chains.values[slices_index(chains.offsets[:-1], kept)[0]]
        more = which[known]
        to = slices_index((offsets[:-1] + kept)[rows[known]], self._chains.lengths[more])[0]
        values[to] = self._chains.values[slices_index(self._chains.offsets[:-1][more], self._chains.lengths[more])[0]]
        return Ragged(values, offsets)
