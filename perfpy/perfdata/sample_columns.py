"""All samples of a recording as one column per field, for recordings that fit into memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.abi.columns import ConvertibleSamples

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from typing import Any

    from perfpy.perfdata.records.batches import Batch
    from perfpy.perfdata.sample_source import SampleSource


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
        # loaded here because opening a file needs no numpy
        import numpy as np

        from perfpy.abi.columns import Columns

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
