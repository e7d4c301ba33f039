"""The samples of many recordings as columns, and the events that they share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.columns import Ragged
from perfpy.errors import PerfError
from perfpy.fleet.merging import renumber_event
from perfpy.fleet.portable.profile import event_keys
from perfpy.perfdata.sample_columns import Samples

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from perfpy.analysis.sample_batch import SampleBatch
    from perfpy.perfdata.container.events import FileEvent
    from perfpy.recording import Recording

#: columns that identify the recording
_OWN: Final = ("host", "recording")


class SharedEvents:
    """The events of several recordings; events of the same key are one."""

    def __init__(self, recordings: Iterable[Recording]) -> None:
        self.events: list[FileEvent] = []
        self._numbers: dict[tuple[object, ...], int] = {}
        for recording in recordings:
            self.numbers(recording)

    def numbers(self, recording: Recording) -> Any:
        """Return the number of each event of a recording."""
        numbers = []
        for event, key in zip(recording.events, event_keys(recording.events), strict=True):
            number = self._numbers.setdefault(key, len(self.events))
            if number == len(self.events):
                self.events.append(renumber_event(event, number))
            numbers.append(number)
        return np.array(numbers, np.int32)


class ManySamples(Samples):
    """The samples of many recordings as columns, one recording after the other, in each in order of delivery.

    "event" indexes the `events` of all; "time" is by each machine's own clock; "host" and "recording" identify the recording.
    The columns are those that every recording has.

    >>> import perfpy
    >>> samples = perfpy.open_many(["perf.data", "perf.data"]).samples
    >>> samples["host"].tolist(), len(samples["ip"]), samples["symbol"][0]
    (['here', 'here', 'here', 'here', 'here', 'here', 'here', 'here', 'here', 'here'], 10, '[unknown]')
    """

    def __init__(self, recordings: Iterable[Recording], none_read: Callable[[], str]) -> None:
        """Set the recordings; none_read: returns the error text if there is no recording."""
        self._recordings = recordings
        self._none_read = none_read
        self._columns: dict[str, Any] = {}
        self._keys_and_names: tuple[list[str], list[str]] | None = None

    def keys(self) -> list[str]:
        """Return the names of the kernel's fields."""
        return self._shared_columns()[0]

    @property
    def names(self) -> list[str]:
        """The names of the columns with names."""
        return self._shared_columns()[1]

    def __contains__(self, name: object) -> bool:
        return name in self.keys() or name in self.names

    def load(self, names: Collection[str]) -> None:
        """Read several columns at once: one pass over each file. Raises KeyError for an unknown name."""
        missing = [name for name in names if name not in self._columns]
        for name in missing:
            self.check(name)
        if not missing:
            return
        events, parts = SharedEvents(()), []
        for recording in self._recordings:
            own = recording.samples.to_dict(["event", *(name for name in missing if name not in (*_OWN, "event"))])
            numbers = own["event"]
            parts.append({**own, "event": events.numbers(recording)[numbers], **own_columns(recording, len(numbers))})
        self._columns.update({name: column for name, column in joined_columns(parts).items() if name in missing})

    def in_batches(self) -> Iterator[SampleBatch]:
        """Yield batches of some thousand samples as columns with names; batch["event"] indexes batch.events, those of its recording."""
        for recording in self._recordings:
            for batch in recording.samples.in_batches():
                for name, column in own_columns(recording, len(batch)).items():
                    batch.add(name, column)
                yield batch

    def _shared_columns(self) -> tuple[list[str], list[str]]:
        if self._keys_and_names is None:
            names_of_each = [(recording.samples.keys(), recording.samples.names) for recording in self._recordings]
            if not names_of_each:
                raise PerfError(self._none_read())
            keys, names = ([name for name in lists[0] if all(name in one for one in lists)] for lists in zip(*names_of_each, strict=True))
            self._keys_and_names = keys, [*_OWN, *names]
        return self._keys_and_names


def own_columns(recording: Recording, count: int) -> dict[str, Any]:
    """Return the columns "host" and "recording" of `count` samples."""
    from perfpy.analysis.report.report import recording_text

    recorded = recording_text(recording.data)
    return {"host": np.full(count, recorded.host, object), "recording": np.full(count, recorded.path, object)}


def joined_columns(parts: Sequence[Any]) -> dict[str, Any]:
    """Concatenate the columns that all parts have."""
    join: Callable[[list[Any]], Any]
    joined: dict[str, Any] = {}
    for name in parts[0] if parts else ():
        columns = [part[name] for part in parts if name in part]
        if len(columns) == len(parts):
            join = Ragged.concat if isinstance(columns[0], Ragged) else np.concatenate
            joined[name] = join(columns)
    return joined
