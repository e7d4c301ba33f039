"""All samples of a recording as columns, with columns of names: comm, dso, symbol, srcline and stack.

Addresses are resolved together after the file is read, each distinct one once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfpy.analysis.callchains.user_callchains import user_callchains
from perfpy.analysis.sample_names import MADE_OF, name_makers
from perfpy.analysis.samples.sample_view import DeliveryOrder, SampleView
from perfpy.perfdata.records.batches import Batch
from perfpy.perfdata.sample_columns import Samples

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from perfpy.analysis.filters.sample_filter import SampleFilter
    from perfpy.analysis.sample_batch import SampleBatch
    from perfpy.analysis.sample_names import NameMaker, Naming
    from perfpy.perfdata.records.batches import FurtherColumns
    from perfpy.perfdata.sample_source import SampleSource


class NamedSamples(Samples):
    """The samples of a recording as columns: a read-only mapping from name to one array, in order of delivery.

    A column is read from the file on first use and kept. A recording
    that is larger than memory is read with Recording.batches() instead.

    Numbers are the kernel's own, of its types: "ip", "addr", "time" (ns of
    the recording's clock), "period" (events since the sample before) are
    uint64; "pid", "tid", "cpu" int32 or uint32; "event" indexes Recording.events.
    Fields of variable length ("callchain", "raw" ...) are
    perfpy.abi.columns.Ragged: `values` of all samples, and the start of each sample's
    in `offsets`.

    Names are arrays of strings (dtype object): "comm" of the thread, "dso",
    "symbol" and "srcline" (FILE:LINE) of the address, "[unknown]" without one;
    "stack" holds a tuple of functions for each sample, innermost first, with user frames
    and inlined calls.
    """

    def __init__(self, data: SampleSource, sample_filter: SampleFilter | None, naming: Callable[[], Naming]) -> None:
        super().__init__(data)
        self._sample_filter = sample_filter
        self._naming = naming

    @property
    def names(self) -> list[str]:
        """The available columns of names; keys() has the kernel's fields."""
        available = set(self.keys())
        return [name for name, fields in MADE_OF.items() if not set(fields) - available]

    def __contains__(self, name: object) -> bool:
        return name in self.names or super().__contains__(name)

    def load(self, names: Collection[str]) -> None:
        """Read several columns at once: one pass over the file instead of one for each. Raises KeyError for an unknown name."""
        requested = [name for name in MADE_OF if name in names and name not in self._columns]
        for name in requested:
            self.check(name)
        if not requested:
            super().load(names)
            return
        naming = self._naming()
        makers = name_makers(naming, requested)
        made_of = {field for name in requested for field in MADE_OF[name]}
        fields = [name for name in names if name not in MADE_OF and name not in self._columns]
        if "callchain" in made_of:  # whole chains, which the column of that name does not have
            fields = [name for name in fields if name != "callchain"]
        for name in fields:
            self.check(name)
        self._keep(fields, self._seen_batches(makers, naming, made_of, fields))
        for maker in makers:
            self._columns.update(maker.columns())
        super().load([name for name in names if name not in MADE_OF])

    def _seen_batches(self, makers: Sequence[NameMaker], naming: Naming, made_of: set[str], fields: Collection[str]) -> Iterator[Batch]:
        """Yield the batches, after each maker has seen them."""
        more = user_callchains(self._data, naming.symbolizer) if "callchain" in made_of else None
        for batch in self.batches({*made_of, *fields} - {"event"}, more):
            view = self._view(batch, naming)
            for maker in makers:
                maker.see(view)
            yield batch

    def batches(self, fields: Collection[str] | None = None, more: FurtherColumns | None = None) -> Iterator[Batch]:
        """Yield the selected samples, as Recording.batches() does."""
        sample_filter, naming = self._sample_filter, self._naming() if self._sample_filter else None
        needed = fields if fields is None or sample_filter is None else {*fields, *sample_filter.all_fields()}
        for stored in self._data.batches(needed, more):
            key = self._data.settled_keys(stored)
            batch = Batch(stored.columns, stored.event, key, stored.offset)
            if sample_filter is None or naming is None:
                yield batch
            else:
                rows = np.flatnonzero(sample_filter.passing_mask(self._view(batch, naming)))
                yield Batch(batch.columns.take(rows), batch.event[rows], batch.key[rows], batch.offset[rows])

    def in_batches(self) -> Iterator[SampleBatch]:
        """Yield the selected samples, some thousands at a time, as columns with names: for recordings larger than memory."""
        from perfpy.analysis.sample_batch import SampleBatch  # those who have the memory need none

        naming = self._naming()
        unwound = user_callchains(self._data, naming.symbolizer)
        for batch in filter(len, self.batches()):
            view = self._view(batch, naming)

            def whole_chains(view: SampleView = view) -> SampleView:
                return view.with_columns({**unwound.extend(view.columns, view.event, view.key)}) if unwound else view

            yield SampleBatch(view, self._data.events, naming, whole_chains)

    def _batches(self, fields: Collection[str]) -> Iterator[Batch]:
        return super()._batches(fields) if self._sample_filter is None else self.batches(fields)

    def _view(self, batch: Batch, naming: Naming) -> SampleView:
        order = DeliveryOrder(batch.key, batch.key, np.arange(len(batch)))
        attrs = [event.attr for event in self._data.events]
        return SampleView(batch.columns, batch.event, order, attrs, naming.timeline, naming.symbolizer)
