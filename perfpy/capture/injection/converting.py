"""perf inject --convert-callchain: replace the stack copies in a recording by callchains.

The samples become as if the kernel had walked the user's frames; nothing else changes. The binaries must be on this machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfpy.abi.flags import MISC_USER, RecordType
from perfpy.capture.unwinding.plain_attrs import plain_attr
from perfpy.capture.unwinding.stack_rewriting import Rewriting, parts_of
from perfpy.capture.unwinding.unwinder import recordable
from perfpy.unwind.callchains import has_user_stacks

if TYPE_CHECKING:
    from perfpy.abi.attr import EventAttr
    from perfpy.perfdata.reader import PerfData
    from perfpy.perfdata.records.delivery.keys import OrderedChunk
    from perfpy.unwind.callchains import UserCallchains
    from perfpy.unwind.truncated_stacks import TruncatedStacks


class CallchainConverter:
    """Converts the chunks of one recording. callchains unwinds its stacks."""

    def __init__(self, data: PerfData, callchains: UserCallchains) -> None:
        self._callchains = callchains
        self._data = data
        self._unwound = [event.index for event in data.events if has_user_stacks(event.attr)]

    @property
    def truncated_stacks(self) -> list[TruncatedStacks]:
        """Truncated stacks, so far."""
        return self._callchains.truncated_stacks

    def attr(self, attr: EventAttr) -> EventAttr:
        """Return an event's attr in the new recording."""
        return plain_attr(attr) if has_user_stacks(attr) else attr

    def convert(self, ordered: OrderedChunk) -> list[bytes]:
        """Return the records of a chunk in order, without FINISHED_ROUND."""
        rewriting = Rewriting(ordered.chunk)
        rewriting.kept_records[ordered.chunk.types == RecordType.FINISHED_ROUND] = False
        for number in self._unwound:
            indexes = np.flatnonzero(ordered.events == number)
            if len(indexes):
                self._convert(ordered, number, indexes, rewriting)
        return rewriting.written()

    def _convert(self, ordered: OrderedChunk, number: int, indexes: np.ndarray, rewriting: Rewriting) -> None:
        """Convert the samples of one event; mine has their indexes in the chunk."""
        event, samples, rows = self._data.events[number], ordered.samples.rows(indexes), ordered.rows[indexes]
        fields = {*self._callchains.fields, "ip", "cpumode"}
        columns = self._data.records.table.layouts[number].decode(samples.data, samples.starts, fields, late=True)
        extended = self._callchains.extend(columns, np.full(len(indexes), number, np.int32), ordered.keys[rows])
        chains = recordable(extended["callchain"].gather(), columns["ip"], columns["cpumode"] == MISC_USER)
        rewriting.replace(rows, parts_of(event.attr, samples), chains)
