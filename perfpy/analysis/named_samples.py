"""All samples of a recording that fits into memory as columns, also with columns of names: comm, dso, symbol, srcline and stack.

Addresses are resolved together after the file is read, each distinct one once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import numpy as np

from perfpy.abi.columns import Columns, ConvertibleSamples
from perfpy.analysis.callchains import ChainTable, frames_of, user_callchains
from perfpy.analysis.sample_view import DeliveryOrder, SampleView
from perfpy.perfdata.records.batches import Batch

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.filters import SampleFilter
    from perfpy.perfdata.events import FileEvent
    from perfpy.perfdata.records.batches import FurtherColumns
    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.symbols.address_spaces import TaskTimeline
    from perfpy.symbols.symbolizer import Symbolizer


class Samples(ConvertibleSamples):
    """All samples of a recording as columns: a read-only mapping from field name to one array over the whole file.

    A column is read from the file on first use and kept. "event" holds
    indexes into Recording.events. A recording that
    is larger than memory is read with Recording.batches() instead.

    Numbers are the kernel's own, of its types: "ip", "addr", "time" (ns of
    the recording's clock), "period" (events since the sample before) are
    uint64; "pid", "tid", "cpu" int32 or uint32. Fields of variable
    length ("callchain", "raw" ...) are perfpy.abi.columns.Ragged:
    `values` of all samples, and the start of each sample's in `offsets`.

    "callchain" is as the kernel wrote it. If the recorder copied stacks instead of
    walking them (record --call-graph dwarf), it has no user frames:
    Recording.unwinding() makes batches come with whole callchains.
    """

    def __init__(self, data: SampleSource) -> None:
        self._data = data
        self._columns: dict[str, Any] = {}

    def keys(self) -> list[str]:
        """Return the names of the columns that this recording has."""
        return ["event", *self._data.column_names]

    @property
    def names(self) -> list[str]:
        """Columns besides the kernel's fields; none here."""
        return []

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, name: object) -> bool:
        return name in self.keys()

    def __len__(self) -> int:
        return len(self.keys())

    def __getitem__(self, name: str) -> Any:
        if name not in self._columns:
            self.load([name])
        return self._columns[name]

    def load(self, names: Collection[str]) -> None:
        """Read several columns at once: one pass over the file instead of one for each.

        Raises KeyError for a name that is not in keys().
        """
        missing = [name for name in names if name not in self._columns]
        for name in missing:
            self.check(name)
        if missing:
            self._keep(missing, self._batches([name for name in missing if name != "event"]))

    def _keep(self, names: Collection[str], batches: Iterable[Batch]) -> None:
        """Concatenate the columns of all batches."""
        fields_to_keep = [name for name in names if name != "event"]
        empty = self._data.no_samples()  # an event without samples has columns that the others lack
        parts, events = [Columns(0, {name: empty[name] for name in fields_to_keep})], [np.zeros(0, np.int32)]
        for batch in batches:
            parts.append(Columns(len(batch), {name: batch.columns[name] for name in fields_to_keep if name in batch.columns}))
            events.append(batch.event)
        fields = Columns.concat(parts)
        self._columns.update({name: fields[name] for name in fields_to_keep})
        if "event" in names:
            self._columns["event"] = np.concatenate(events)

    def check(self, name: str) -> None:
        """Raise KeyError for a name that is not in keys()."""
        if name not in self:
            raise KeyError(f"no column {name!r}; this recording has {', '.join([*self.keys(), *self.names])}")

    def _batches(self, fields: Collection[str]) -> Iterator[Batch]:
        """Yield the samples, with these columns and perhaps others."""
        return self._data.batches(fields)


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


# Names of samples as columns: comm, dso, symbol, source line, stack.
#
# Addresses are resolved together after all samples were seen, each distinct one once.


#: the columns of names, and the kernel's fields that they need
MADE_OF: Final[dict[str, tuple[str, ...]]] = {
    "comm": ("tid",),
    "dso": ("pid", "ip", "cpumode"),
    "symbol": ("pid", "ip", "cpumode"),
    "srcline": ("pid", "ip", "cpumode"),
    "stack": ("pid", "callchain"),
}
_AT_ADDRESS: Final = ("dso", "symbol", "srcline")
UNKNOWN: Final = "[unknown]"


class Naming(NamedTuple):
    """The source of names: the tasks of a recording, and its Symbolizer."""

    timeline: TaskTimeline
    symbolizer: Symbolizer


class NameMaker(Protocol):
    """A builder of columns of names."""

    def see(self, view: SampleView) -> None:
        """Add samples."""

    def columns(self) -> dict[str, Any]:
        """Return the columns of all samples added."""


def name_makers(naming: Naming, names: Collection[str]) -> list[NameMaker]:
    """Return the builders of these columns of names."""
    makers: list[NameMaker] = []
    if "comm" in names:
        makers.append(_Comms(naming))
    if at_address := [name for name in _AT_ADDRESS if name in names]:
        makers.append(_AtAddress(naming, at_address))
    if "stack" in names:
        makers.append(_Stacks(naming))
    return makers


class _Comms:
    """The comm of each sample's thread."""

    def __init__(self, naming: Naming) -> None:
        self._timeline = naming.timeline
        self._ids: list[NDArray[np.int32]] = [np.zeros(0, np.int32)]

    def see(self, view: SampleView) -> None:
        self._ids.append(self._timeline.comm_ids(view.task_numbers[1], view.key))

    def columns(self) -> dict[str, Any]:
        return {"comm": _objects(self._timeline.comms)[np.concatenate(self._ids)]}


class _AtAddress:
    """The dso, symbol and source line of each sample's address."""

    def __init__(self, naming: Naming, names: Collection[str]) -> None:
        self._symbolizer = naming.symbolizer
        self._names = names
        self._frames: list[NDArray[np.int32]] = [np.zeros(0, np.int32)]

    def see(self, view: SampleView) -> None:
        self._frames.append(view.frames_at("ip"))

    def columns(self) -> dict[str, Any]:
        frames = np.concatenate(self._frames)
        different, inverse = np.unique(frames, return_inverse=True)
        methods = {"dso": self._dsos, "symbol": self._symbols, "srcline": self._lines}
        return {name: _objects(methods[name](different))[inverse.ravel()] for name in self._names}

    def _dsos(self, frames: NDArray[np.int32]) -> list[str]:
        table, dsos = self._symbolizer.resolve(), self._symbolizer.dsos
        return [dsos[number].short_name if number >= 0 else UNKNOWN for number in table.dso[frames].tolist()]

    def _symbols(self, frames: NDArray[np.int32]) -> list[str]:
        return function_names(self._symbolizer, frames)

    def _lines(self, frames: NDArray[np.int32]) -> list[str]:
        from perfpy.analysis.locations import SourceTexts  # debug information is read for lines alone

        self._symbolizer.resolve()
        return [text or UNKNOWN for text in SourceTexts(self._symbolizer).in_files(frames.astype(np.int64))]


class _Stacks:
    """The functions of each sample's callchain; empty without one."""

    def __init__(self, naming: Naming) -> None:
        self._symbolizer = naming.symbolizer
        self._chains = ChainTable()
        self._ids: list[NDArray[np.int32]] = [np.zeros(0, np.int32)]

    def see(self, view: SampleView) -> None:
        frames, counts = frames_of(view.chains().gather(), view.column("pid"), view.key, self._symbolizer)
        self._ids.append(self._chains.add(frames, counts))

    def columns(self) -> dict[str, Any]:
        frames, offsets = self._chains.chains()
        frames, counts = self._symbolizer.expand(frames, np.diff(offsets))
        different, inverse = np.unique(frames, return_inverse=True)
        names = function_names(self._symbolizer, different)
        chain_names = [names[number] for number in inverse.ravel().tolist()]
        ends = np.cumsum(counts).tolist()
        stacks = [tuple(chain_names[end - count : end]) for end, count in zip(ends, counts.tolist(), strict=True)]
        return {"stack": _objects(stacks)[np.concatenate(self._ids)]}


def function_names(symbolizer: Symbolizer, frames: NDArray[np.int32]) -> list[str]:
    """Return the function of each frame."""
    table, symbols = symbolizer.resolve(), symbolizer.symbols
    return [symbols.name(number) if number >= 0 else UNKNOWN for number in table.symbol[frames].tolist()]


def _objects(values: Collection[Any]) -> NDArray[np.object_]:
    """Return an array of Python objects, including tuples."""
    array = np.empty(len(values), object)
    for number, value in enumerate(values):  # one by one: numpy would turn tuples into further dimensions
        array[number] = value
    return array


# Batches of samples as columns, names included, for recordings that are larger than memory.


class SampleBatch(ConvertibleSamples):
    """A batch of samples, in order of delivery: batch["ip"] is a column, batch["symbol"] one of names, like those of Recording.samples.

    len(batch) is the number of samples, keys() are the fields, `names` the columns of names, which are resolved on first use.
    batch["event"] indexes `events`, the events of the recording.
    """

    def __init__(self, view: SampleView, events: Sequence[FileEvent], naming: Naming, whole_chains: Callable[[], SampleView]) -> None:
        """Wrap a view; whole_chains: returns the same samples with whole callchains, if stacks were copied."""
        self._view = view
        self._naming = naming
        self._whole_chains = whole_chains
        self._columns: dict[str, Any] = {"event": view.event}
        self.events = events

    def __len__(self) -> int:
        return len(self._view)

    @property
    def first_key(self) -> int:
        """The position of these samples in the order of delivery."""
        return int(self._view.key[0])

    def keys(self) -> list[str]:
        """Return the names of the kernel's fields."""
        return ["event", *self._view.columns]

    @property
    def names(self) -> list[str]:
        """The available columns of names: "comm", "dso", "symbol", "srcline", "stack"."""
        available = set(self.keys())
        return [name for name, fields in MADE_OF.items() if not set(fields) - available]

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, name: object) -> bool:
        return name in self.keys() or name in self.names

    def __getitem__(self, name: str) -> Any:
        if name not in self._columns:
            if name not in self:
                raise KeyError(f"no column {name!r}; these samples have {', '.join([*self.keys(), *self.names])}")
            if name in MADE_OF:
                (maker,) = name_makers(self._naming, [name])
                maker.see(self._whole_chains() if name == "stack" else self._view)
                self._columns.update(maker.columns())
            else:
                self._columns[name] = self._view.columns[name]
        return self._columns[name]

    def add(self, name: str, column: Any) -> None:
        """Add a column, with a value for each sample."""
        self._columns[name] = column
