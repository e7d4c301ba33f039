"""Recording: what perfpy.open() returns, and the one place where the reading half is joined.

What enters: a perf.data (path, "-", file descriptor, binary file). What
leaves: its events, features, records and samples, as values and as numpy
columns. The layers below know nothing of each other's users; the commands
above call nothing but this.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from perfpy.perfdata.reader import PerfData

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from types import TracebackType

    from perfpy.analysis.options import ReportOptions
    from perfpy.analysis.reporting import Report
    from perfpy.analysis.selection import Selection
    from perfpy.analysis.stacks import Stacks
    from perfpy.perfdata.batches import Batch
    from perfpy.perfdata.events import FileEvent
    from perfpy.perfdata.side_band import SideBand
    from perfpy.perfdata.source import Origin
    from perfpy.symbols.address_space import TaskTimeline
    from perfpy.symbols.debugfiles import SymbolOptions
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.views.payloads import PayloadTexts


class Sample(NamedTuple):
    """One sample as a value: its event, and field name -> number (or array, for callchain, raw and the like)."""

    event: FileEvent
    fields: Mapping[str, Any]


class Samples:
    """All samples of a recording as columns: a read-only mapping from field name to one array over the whole file.

    A column is read from the file when it is asked for and kept. Besides the
    fields there is "event": indexes into Recording.events. A recording that
    is larger than memory is read with Recording.batches() instead.
    """

    def __init__(self, data: PerfData) -> None:
        self._data = data
        self._columns: dict[str, Any] = {}

    def keys(self) -> list[str]:
        """The names of the columns that this recording has."""
        return ["event", *self._data.column_names]

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
        # numpy is loaded when the first column is asked for, not by opening a file
        import numpy as np

        from perfpy.abi.columns import Columns

        missing = [name for name in names if name not in self._columns]
        for name in missing:
            if name not in self:
                raise KeyError(f"no column {name!r}; this recording has {', '.join(self.keys())}")
        batches = list(self._data.batches([name for name in missing if name != "event"]))
        fields = Columns.concat([batch.columns for batch in batches]) if batches else self._data.no_samples()
        if "event" in missing:
            self._columns["event"] = np.concatenate([batch.event for batch in batches] or [np.zeros(0, np.int32)])
        self._columns.update({name: fields[name] for name in missing if name != "event"})

    def to_dict(self) -> dict[str, Any]:
        """Every column: name -> array."""
        self.load(self.keys())
        return {name: self[name] for name in self}


class Recording:
    """A perf.data file, open.

    >>> import perfpy
    >>> with perfpy.open("perf.data") as recording:  # doctest: +SKIP
    ...     print([event.name for event in recording.events], recording.header["hostname"])
    ...     slow = recording.samples["period"].sum()
    """

    def __init__(self, origin: Origin, *, check_owner: bool = False) -> None:
        self.data = PerfData(origin, check_owner=check_owner)
        self.samples = Samples(self.data)

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; arrays and records already handed out stay valid."""
        self.data.close()

    @property
    def path(self) -> str:
        """The file, as messages name it."""
        return self.data.path

    @property
    def events(self) -> list[FileEvent]:
        """The events recorded, with their attrs and names."""
        return self.data.events

    @property
    def header(self) -> Mapping[str, Any]:
        """What the recorder wrote about the machine and itself: "hostname", "cmdline" ... (perfpy.perfdata.features)."""
        return self.data.features

    @property
    def warnings(self) -> list[str]:
        """What could not be read and was left out, a line each; grows while the file is read."""
        return self.data.warnings

    def batches(self, fields: Collection[str] | None = None) -> Iterator[Batch]:
        """The samples in order of delivery, some thousands at a time, as columns.

        fields: names of the columns wanted; None: all. Memory stays bounded
        however large the file is.
        """
        return self.data.batches(fields)

    def side_band(self, types: Collection[int] | None = None) -> SideBand:
        """The records that are no samples, in order of delivery: an iterable of SideRecord.

        types: only records of these types (perfpy.abi.flags.RecordType); by
        default all but FINISHED_ROUND.
        """
        return self.data.side_band(types)

    def records(self) -> Iterator[Any]:
        """Everything in order of delivery: samples as Sample, other records as values of perfpy.abi.records and user_records."""
        others = iter(self.data.side_band())
        other = next(others, None)
        for batch in self.data.batches():
            for row, key in enumerate(batch.key.tolist()):
                while other is not None and other.key <= key:
                    yield other.record
                    other = next(others, None)
                fields = {name: column[row] for name, column in batch.columns.items()}
                yield Sample(self.events[batch.event[row]], fields)
        while other is not None:
            yield other.record
            other = next(others, None)

    @cached_property
    def timeline(self) -> TaskTimeline:
        """Commands and address spaces of all tasks over time; threads lose their names when they exit."""
        return self._make_timeline(keep_exited=False)

    def _make_timeline(self, *, keep_exited: bool) -> TaskTimeline:
        from perfpy.perfdata.side_band import KEPT
        from perfpy.symbols.address_space import TaskTimeline, kernel_name

        listed = self.data.features.get("build_id", ())
        build_ids = {entry.filename: entry.build_id.hex() for entry in listed}
        kernel = kernel_name((entry.misc, entry.filename) for entry in listed)
        return TaskTimeline(self.data.side_band(KEPT), build_ids=build_ids, kernel_name=kernel, keep_exited=keep_exited)

    def symbolizer(self, options: SymbolOptions | None = None) -> Symbolizer:
        """A new Symbolizer for the recording's addresses; options: where to look for symbols."""
        from perfpy.symbols.symbolizer import Symbolizer

        return Symbolizer(self.timeline, options)

    def report(self, options: ReportOptions | None = None, symbols: SymbolOptions | None = None) -> Report:
        """A histogram of the samples, for each event: by command, file and function where options do not say otherwise."""
        from perfpy.analysis.options import ReportOptions
        from perfpy.analysis.reporting import make_report
        from perfpy.symbols.symbolizer import Symbolizer
        from perfpy.views import memory_text

        timeline = self._make_timeline(keep_exited=True)
        symbolizer = Symbolizer(timeline, symbols)
        return make_report(self.data, timeline, symbolizer, options or ReportOptions(), self._payloads(symbolizer), memory_text)

    def stacks(self, symbols: SymbolOptions | None = None, *, selection: Selection | None = None, timed: bool = False) -> list[Stacks]:
        """The whole stacks of each event, for flame graphs and exports; timed: with the single samples."""
        from perfpy.analysis.selection import Selection
        from perfpy.analysis.stacking import make_stacks
        from perfpy.symbols.symbolizer import Symbolizer

        timeline = self._make_timeline(keep_exited=True)
        return make_stacks(self.data, timeline, Symbolizer(timeline, symbols), selection or Selection(), timed=timed)

    def _payloads(self, symbolizer: Symbolizer) -> PayloadTexts | None:
        """What words the data of tracepoints; None where the recording describes none."""
        from perfpy.views.payloads import PayloadTexts

        tracing = self.data.tracing
        return None if tracing is None else PayloadTexts(tracing, symbolizer)
