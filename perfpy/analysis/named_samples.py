"""All samples of a recording as columns, those included that give names: of the command, the file, the function, the line, the stack.

What enters: a PerfData, which samples are wanted, and what names them. What
leaves: `NamedSamples`: numpy arrays over the samples wanted. Addresses become
names all together, after the file was read, each different one once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import numpy as np

from perfpy.analysis.samples.callchains import ChainTable, frames_of
from perfpy.analysis.samples.sample_view import DeliveryOrder, SampleView
from perfpy.analysis.samples.user_callchains import user_callchains
from perfpy.perfdata.records.batches import Batch
from perfpy.perfdata.sample_columns import Samples

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.filters.sample_filter import SampleFilter
    from perfpy.analysis.sample_batch import SampleBatch
    from perfpy.perfdata.reader import PerfData
    from perfpy.perfdata.records.batches import FurtherColumns
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.symbols.tasks.address_space import TaskTimeline

#: the columns of names, and the kernel's fields that they are made of
MADE_OF: Final[dict[str, tuple[str, ...]]] = {
    "comm": ("tid",),
    "dso": ("pid", "ip", "cpumode"),
    "symbol": ("pid", "ip", "cpumode"),
    "srcline": ("pid", "ip", "cpumode"),
    "stack": ("pid", "callchain"),
}
_AT_ADDRESS: Final = ("dso", "symbol", "srcline")
_UNKNOWN: Final = "[unknown]"


class Naming(NamedTuple):
    """What gives names: the tasks of a recording, and a Symbolizer of it."""

    timeline: TaskTimeline
    symbolizer: Symbolizer


class NamedSamples(Samples):
    """The samples of a recording as columns: a read-only mapping from name to one array, in order of delivery.

    A column is read from the file when it is asked for and kept. A recording
    that is larger than memory is read with Recording.batches() instead.

    Numbers are the kernel's own, of its types: "ip", "addr", "time" (ns of
    the recording's clock), "period" (events since the sample before) are
    uint64; "pid", "tid", "cpu" int32 or uint32; "event" indexes Recording.events.
    What differs in length from sample to sample ("callchain", "raw" ...) is a
    perfpy.abi.columns.Ragged: `values` of all samples, and where each sample's
    begin in `offsets`.

    Names are arrays of strings (dtype object): "comm" of the thread, "dso",
    "symbol" and "srcline" (FILE:LINE) of the address, "[unknown]" where there is none;
    "stack" holds a tuple of functions for each sample, innermost first, the user's frames
    and inlined calls included.
    """

    def __init__(self, data: PerfData, wanted: SampleFilter | None, naming: Callable[[], Naming]) -> None:
        super().__init__(data)
        self._wanted = wanted
        self._naming = naming

    @property
    def names(self) -> list[str]:
        """The columns of names that there are; keys() has the kernel's fields."""
        there = set(self.keys())
        return [name for name, fields in MADE_OF.items() if not set(fields) - there]

    def __contains__(self, name: object) -> bool:
        return name in self.names or super().__contains__(name)

    def load(self, names: Collection[str]) -> None:
        """Read several columns at once: one pass over the file instead of one for each. Raises KeyError for an unknown name."""
        asked = [name for name in MADE_OF if name in names and name not in self._columns]
        for name in asked:
            self.check(name)
        if not asked:
            super().load(names)
            return
        naming = self._naming()
        makers = name_makers(naming, asked)
        made_of = {field for name in asked for field in MADE_OF[name]}
        fields = [name for name in names if name not in MADE_OF and name not in self._columns]
        if "callchain" in made_of:  # whole chains, which the column of that name does not have
            fields = [name for name in fields if name != "callchain"]
        for name in fields:
            self.check(name)
        self._keep(fields, self._shown(makers, naming, made_of, fields))
        for maker in makers:
            self._columns.update(maker.columns())
        super().load([name for name in names if name not in MADE_OF])

    def _shown(self, makers: Sequence[NameMaker], naming: Naming, made_of: set[str], fields: Collection[str]) -> Iterator[Batch]:
        """The batches, each of which the makers have seen."""
        more = user_callchains(self._data, naming.symbolizer) if "callchain" in made_of else None
        for batch in self.batches({*made_of, *fields} - {"event"}, more):
            view = self._view(batch, naming)
            for maker in makers:
                maker.see(view)
            yield batch

    def batches(self, fields: Collection[str] | None = None, more: FurtherColumns | None = None) -> Iterator[Batch]:
        """The samples wanted, as Recording.batches() has them."""
        wanted, naming = self._wanted, self._naming() if self._wanted else None
        needed = fields if fields is None or wanted is None else {*fields, *wanted.all_fields()}
        for stored in self._data.batches(needed, more):
            key = self._data.equal_times.settled(stored.key, stored.offset)
            batch = Batch(stored.columns, stored.event, key, stored.offset)
            if wanted is None or naming is None:
                yield batch
            else:
                rows = np.flatnonzero(wanted.kept(self._view(batch, naming)))
                yield Batch(batch.columns.take(rows), batch.event[rows], batch.key[rows], batch.offset[rows])

    def in_batches(self) -> Iterator[SampleBatch]:
        """The samples wanted, some thousands at a time, as columns with names: for recordings that are larger than memory."""
        from perfpy.analysis.sample_batch import SampleBatch  # those who have the memory need none

        naming = self._naming()
        unwound = user_callchains(self._data, naming.symbolizer)
        for batch in filter(len, self.batches()):
            view = self._view(batch, naming)

            def whole_chains(view: SampleView = view) -> SampleView:
                return view.with_columns({**unwound.extended(view.columns, view.event, view.key)}) if unwound else view

            yield SampleBatch(view, self._data.events, naming, whole_chains)

    def _batches(self, fields: Collection[str]) -> Iterator[Batch]:
        return super()._batches(fields) if self._wanted is None else self.batches(fields)

    def _view(self, batch: Batch, naming: Naming) -> SampleView:
        order = DeliveryOrder(batch.key, batch.key, np.arange(len(batch)))
        attrs = [event.attr for event in self._data.events]
        return SampleView(batch.columns, batch.event, order, attrs, naming.timeline, naming.symbolizer)


class NameMaker(Protocol):
    """Makes columns of names."""

    def see(self, view: SampleView) -> None:
        """Some more samples."""

    def columns(self) -> dict[str, Any]:
        """The columns of all samples seen."""


def name_makers(naming: Naming, names: Collection[str]) -> list[NameMaker]:
    """What makes these columns of names."""
    makers: list[NameMaker] = []
    if "comm" in names:
        makers.append(_Comms(naming))
    if at_address := [name for name in _AT_ADDRESS if name in names]:
        makers.append(_AtAddress(naming, at_address))
    if "stack" in names:
        makers.append(_Stacks(naming))
    return makers


class _Comms:
    """The command of each sample's thread."""

    def __init__(self, naming: Naming) -> None:
        self._timeline = naming.timeline
        self._ids: list[NDArray[np.int32]] = [np.zeros(0, np.int32)]

    def see(self, view: SampleView) -> None:
        self._ids.append(self._timeline.comm_ids(view.column("tid"), view.key))

    def columns(self) -> dict[str, Any]:
        return {"comm": _objects(self._timeline.comms)[np.concatenate(self._ids)]}


class _AtAddress:
    """What is known of each sample's address."""

    def __init__(self, naming: Naming, names: Collection[str]) -> None:
        self._symbolizer = naming.symbolizer
        self._names = names
        self._frames: list[NDArray[np.int32]] = [np.zeros(0, np.int32)]

    def see(self, view: SampleView) -> None:
        self._frames.append(view.frames_at("ip"))

    def columns(self) -> dict[str, Any]:
        frames = np.concatenate(self._frames)
        different, which = np.unique(frames, return_inverse=True)
        made = {"dso": self._dsos, "symbol": self._symbols, "srcline": self._lines}
        return {name: _objects(made[name](different))[which.ravel()] for name in self._names}

    def _dsos(self, frames: NDArray[np.int32]) -> list[str]:
        table, dsos = self._symbolizer.resolve(), self._symbolizer.dsos
        return [dsos[number].short_name if number >= 0 else _UNKNOWN for number in table.dso[frames].tolist()]

    def _symbols(self, frames: NDArray[np.int32]) -> list[str]:
        return function_names(self._symbolizer, frames)

    def _lines(self, frames: NDArray[np.int32]) -> list[str]:
        from perfpy.analysis.samples.source_texts import SourceTexts  # debug information is read for lines alone

        self._symbolizer.resolve()
        return [text or _UNKNOWN for text in SourceTexts(self._symbolizer).in_files(frames.astype(np.int64))]


class _Stacks:
    """The functions of each sample's callchain; of a sample without one, none."""

    def __init__(self, naming: Naming) -> None:
        self._symbolizer = naming.symbolizer
        self._chains = ChainTable()
        self._ids: list[NDArray[np.int32]] = [np.zeros(0, np.int32)]

    def see(self, view: SampleView) -> None:
        frames, counts = frames_of(view.chains().gathered(), view.column("pid"), view.key, self._symbolizer)
        self._ids.append(self._chains.add(frames, counts))

    def columns(self) -> dict[str, Any]:
        frames, offsets = self._chains.chains()
        frames, counts = self._symbolizer.expanded(frames, np.diff(offsets))
        different, which = np.unique(frames, return_inverse=True)
        names = function_names(self._symbolizer, different)
        named = [names[number] for number in which.ravel().tolist()]
        ends = np.cumsum(counts).tolist()
        stacks = [tuple(named[end - count : end]) for end, count in zip(ends, counts.tolist(), strict=True)]
        return {"stack": _objects(stacks)[np.concatenate(self._ids)]}


def function_names(symbolizer: Symbolizer, frames: NDArray[np.int32]) -> list[str]:
    """The function of each frame."""
    table, symbols = symbolizer.resolve(), symbolizer.symbols
    return [symbols.name(number) if number >= 0 else _UNKNOWN for number in table.symbol[frames].tolist()]


def _objects(values: Collection[Any]) -> NDArray[np.object_]:
    """An array of Python's own objects, tuples among them."""
    found = np.empty(len(values), object)
    for number, value in enumerate(values):  # at once, tuples would become further dimensions
        found[number] = value
    return found
