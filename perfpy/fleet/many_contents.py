"""What many recordings hold: one after the other, and their samples as columns.

What enters: paths. What leaves: open recordings; columns over all samples; tables for databases.
"""

from __future__ import annotations

from contextlib import ExitStack
from copy import copy
from os import fspath
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.columns import Ragged
from perfpy.analysis.filters.conditions import texts
from perfpy.errors import PerfError, UsageError
from perfpy.fleet.merging import renumbered
from perfpy.fleet.opening import opened
from perfpy.fleet.portable import Unread, event_keys
from perfpy.fleet.remote import shown
from perfpy.perfdata.sample_columns import Samples
from perfpy.recording import TracepointSamples

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
    from os import PathLike
    from types import TracebackType
    from typing import Self

    from perfpy.analysis.sample_batch import SampleBatch
    from perfpy.perfdata.container.events import FileEvent
    from perfpy.recording import Recording
    from perfpy.symbols.files.debug_files import SymbolOptions
    from perfpy.views.parquet.export import Exported

#: columns that tell recordings apart
_OWN: Final = ("host", "recording")


class ManyContents:
    """Many recordings, each opened when it comes.

    paths: those that were named; unread: those that could not be read the last time, and why; warnings: what could not be read of others.
    """

    def __init__(self, paths: Sequence[str], *, symbols: SymbolOptions | None, check_owner: bool) -> None:
        self.paths = list(paths)
        self.unread: list[Unread] = []
        self.warnings: list[Unread] = []
        self._symbols = symbols
        self._check_owner = check_owner
        self.conditions: list[Conditions] = []  #: of where()

    def __len__(self) -> int:
        return len(self.paths)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Nothing: each recording is open only while it is read."""

    def __iter__(self) -> Iterator[Recording]:
        """Each recording, open while it is looked at, for what is one machine's own (header, records); with what where() left of it."""
        self.unread = []
        for path in self.paths:
            with ExitStack() as open_one:
                try:
                    recording = open_one.enter_context(opened(path, check_owner=self._check_owner, symbols=self._symbols))
                except PerfError as error:
                    self.unread.append(Unread.of(shown(path), error))
                    continue
                narrowed = narrowed_by(recording, self.conditions)
                if narrowed is not None:
                    yield narrowed

    def where(self, *, host: str | Iterable[str] | None = None, **conditions: Any) -> Self:
        """The same recordings, narrowed to some samples. host: of these machines; the rest as Recording.where takes it.

        A recording that does not know an event that is named is left out.

        >>> import perfpy
        >>> recordings = perfpy.open_many("perf.data").where(host="here", comm="busy", time=(None, "50%"))
        >>> len(recordings.samples["ip"])
        5
        """
        narrowed = copy(self)
        narrowed.conditions = [*self.conditions, Conditions(texts("host", host), conditions)]
        return narrowed

    @property
    def events(self) -> list[FileEvent]:
        """The events of all, each once: those of one meaning are one."""
        return _Events(self).events

    @property
    def samples(self) -> ManySamples:
        """All samples as columns, as Recording.samples has them, and "host" and "recording"; one recording after the other."""
        return ManySamples(self)

    def tracepoint(self, name: str) -> TracepointSamples:
        """The samples of a tracepoint, as Recording.tracepoint has them, of all recordings that have some. Raises UsageError."""
        found, refused = [], None
        for recording in self:
            try:
                samples, fields = recording.tracepoint(name)
            except UsageError as error:
                refused = error
                continue
            found.append(TracepointSamples({**samples, **_told(recording, len(samples["time"]))}, fields))
        if not found:
            raise refused or UsageError(f"no recording to look for {name} in")
        return TracepointSamples(*(_joined([one[part] for one in found]) for part in range(2)))

    def to_parquet(self, folder: str | PathLike[str], *, symbols: SymbolOptions | None = None) -> list[Exported]:
        """Add the recordings to the tables in a folder: see Recording.to_parquet."""
        return [recording.to_parquet(fspath(folder), symbols=symbols) for recording in self]


class Conditions:
    """hosts: machines that are wanted, None for all; of_samples: what Recording.where takes."""

    def __init__(self, hosts: Collection[str] | None, of_samples: dict[str, Any]) -> None:
        self.hosts = hosts
        self.of_samples = of_samples


def narrowed_by(recording: Recording, conditions: Sequence[Conditions]) -> Recording | None:
    """A recording with the samples that are wanted; None where it is of another machine."""
    from perfpy.analysis.report.report import recording_text

    host = recording_text(recording.data).host
    for wanted in conditions:
        if wanted.hosts is not None and host not in wanted.hosts:
            return None
        if wanted.of_samples:
            recording = recording.where(**wanted.of_samples)
    return recording


class _Events:
    """The events of recordings by their meaning."""

    def __init__(self, recordings: Iterable[Recording]) -> None:
        self.events: list[FileEvent] = []
        self._numbers: dict[tuple[object, ...], int] = {}
        for recording in recordings:
            self.numbers(recording)

    def numbers(self, recording: Recording) -> Any:
        """The number of each event of a recording."""
        found = []
        for event, key in zip(recording.events, event_keys(recording.events), strict=True):
            number = self._numbers.setdefault(key, len(self.events))
            if number == len(self.events):
                self.events.append(renumbered(event, number))
            found.append(number)
        return np.array(found, np.int32)


class ManySamples(Samples):
    """The samples of many recordings as columns, one recording after the other, in each in order of delivery.

    "event" indexes the `events` of all; "time" is by each machine's own clock; "host" and "recording" tell whose samples they are.
    Columns are those that every recording has.

    >>> import perfpy
    >>> samples = perfpy.open_many(["perf.data", "perf.data"]).samples
    >>> samples["host"].tolist(), len(samples["ip"]), samples["symbol"][0]
    (['here', 'here', 'here', 'here', 'here', 'here', 'here', 'here', 'here', 'here'], 10, '[unknown]')
    """

    def __init__(self, recordings: ManyContents) -> None:
        self._recordings = recordings
        self._columns: dict[str, Any] = {}
        self._known: tuple[list[str], list[str]] | None = None

    def keys(self) -> list[str]:
        """The columns of the kernel's fields."""
        return self._shared()[0]

    @property
    def names(self) -> list[str]:
        """The columns of names."""
        return self._shared()[1]

    def __contains__(self, name: object) -> bool:
        return name in self.keys() or name in self.names

    def load(self, names: Collection[str]) -> None:
        """Read several columns at once: one pass over each file. Raises KeyError for an unknown name."""
        wanted = [name for name in names if name not in self._columns]
        for name in wanted:
            self.check(name)
        if not wanted:
            return
        events, parts = _Events(()), []
        for recording in self._recordings:
            own = recording.samples.to_dict(["event", *(name for name in wanted if name not in (*_OWN, "event"))])
            numbers = own["event"]
            parts.append({**own, "event": events.numbers(recording)[numbers], **_told(recording, len(numbers))})
        self._columns.update({name: column for name, column in _joined(parts).items() if name in wanted})

    def in_batches(self) -> Iterator[SampleBatch]:
        """The samples some thousands at a time, as columns with names; batch["event"] indexes batch.events, those of its recording."""
        for recording in self._recordings:
            for batch in recording.samples.in_batches():
                for name, column in _told(recording, len(batch)).items():
                    batch.add(name, column)
                yield batch

    def _shared(self) -> tuple[list[str], list[str]]:
        if self._known is None:
            found = [(recording.samples.keys(), recording.samples.names) for recording in self._recordings]
            if not found:
                raise PerfError(none_of(self._recordings))
            keys, names = ([name for name in lists[0] if all(name in one for one in lists)] for lists in zip(*found, strict=True))
            self._known = keys, [*_OWN, *names]
        return self._known


def none_of(recordings: ManyContents) -> str:
    """What to say where no recording can be read."""
    first = f": {recordings.unread[0].path}: {recordings.unread[0].reason}" if recordings.unread else ""
    return f"none of {len(recordings)} recordings can be read{first}"


def _told(recording: Recording, count: int) -> dict[str, Any]:
    from perfpy.analysis.report.report import recording_text

    told = recording_text(recording.data)
    return {"host": np.full(count, told.host, object), "recording": np.full(count, told.path, object)}


def _joined(parts: Sequence[Any]) -> dict[str, Any]:
    """Columns one after the other: those that all have."""
    join: Callable[[list[Any]], Any]
    found: dict[str, Any] = {}
    for name in parts[0] if parts else ():
        columns = [part[name] for part in parts if name in part]
        if len(columns) == len(parts):
            join = Ragged.concat if isinstance(columns[0], Ragged) else np.concatenate
            found[name] = join(columns)
    return found
