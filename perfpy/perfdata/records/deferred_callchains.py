"""Append user callchains that the kernel took later than their samples: on the return to user space, once per system call.

A sample with a deferred user part ends with the marker PERF_CONTEXT_USER_DEFERRED and a cookie; the
record of that part has the same cookie (struct perf_event_header's types in
include/uapi/linux/perf_event.h):

    CALLCHAIN_DEFERRED { u64 cookie, nr; u64 ips[nr]; }

As in perf 7, the marker stays, and the frames replace the cookie. Cookies without a record, because
the recording ended before, are dropped.
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
    """The deferred user callchains of a recording, by cookie."""

    def __init__(self, records: Iterable[RawRecord], endian: str) -> None:
        user_chains: dict[int, NDArray[np.uint64]] = {}
        for record in records:
            words = np.frombuffer(record.body[: len(record.body) & ~7], endian + "u8").astype(np.uint64)
            if len(words) >= 2:
                user_chains.setdefault(int(words[0]), words[2 : 2 + min(int(words[1]), len(words))])
        self._cookies = np.array(sorted(user_chains), np.uint64)
        chains = [user_chains[cookie] for cookie in self._cookies.tolist()]
        ends = np.cumsum([0, *(len(chain) for chain in chains)]).astype(np.int64)
        self._chains = Ragged(np.concatenate([np.zeros(0, np.uint64), *chains]), ends)

    def add_to(self, samples: StoredBatch) -> StoredBatch:
        """Return the samples with whole callchains."""
        chains = samples.columns.get("callchain")
        if chains is None:
            return samples
        columns = {**samples.columns, "callchain": self.join(chains.gather())}
        return samples._replace(columns=Columns(samples.columns.rows, columns, samples.columns.damaged))

    def join(self, chains: Ragged) -> Ragged:
        """Return the callchains with their deferred user parts."""
        rows = np.flatnonzero(chains.lengths >= 2)
        ends = chains.offsets[1:][rows]
        rows = rows[chains.values[ends - 2] == _MARKER]
        if not len(rows):
            return chains
        cookies = chains.values[chains.offsets[1:][rows] - 1]
        record = np.minimum(np.searchsorted(self._cookies, cookies), max(len(self._cookies) - 1, 0))
        has_record = self._cookies[record] == cookies if len(self._cookies) else np.zeros(len(rows), bool)
        own, added = chains.lengths.copy(), np.zeros(len(chains), np.int64)
        own[rows] -= 1
        added[rows[has_record]] = self._chains.lengths[record[has_record]]
        offsets = np.concatenate([[0], np.cumsum(own + added)]).astype(np.int64)
        values = np.empty(int(offsets[-1]), np.uint64)
        values[slices_index(offsets[:-1], own)[0]] = chains.values[slices_index(chains.offsets[:-1], own)[0]]
        appended = record[has_record]
        targets = slices_index((offsets[:-1] + own)[rows[has_record]], self._chains.lengths[appended])[0]
        values[targets] = self._chains.values[slices_index(self._chains.offsets[:-1][appended], self._chains.lengths[appended])[0]]
        return Ragged(values, offsets)
