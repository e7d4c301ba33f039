"""A listing by several processes, each of which formats spans of the recording.

The results are in the order of the spans, the same as those of a single process.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

import numpy as np

from perfpy.abi.columns import Columns, Ragged
from perfpy.perfdata.records.group_reads import carries_readings
from perfpy.workers.forked import ForkedWorkers
from perfpy.workers.jobs import STACKS_EACH, jobs_for
from perfpy.workers.ordered_writers import OrderedWriters

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numpy.typing import NDArray

    from perfpy.perfdata.records.batches import Batch
    from perfpy.perfdata.records.delivery.spans import Span
    from perfpy.symbols.symbolizer import FrameOrigins, Symbolizer
    from perfpy.unwind.callchains import UserCallchains
    from perfpy.unwind.truncated_stacks import TruncatedStacks
    from perfpy.views.recorded import Recorded

MadeT = TypeVar("MadeT")
GivenT = TypeVar("GivenT")

#: the number of samples for which another process is worthwhile
_LINES_EACH: Final = 100_000


class _Done(NamedTuple, Generic[MadeT]):
    """The result for a span, and its warnings; `counts`: see UserCallchains."""

    result: MadeT
    counts: list[TruncatedStacks]
    warnings: list[str]


class _Read(NamedTuple):
    """The samples of a span, the process that read them, and the frames that were new there."""

    batch: Batch
    process: int
    origins: FrameOrigins


class DividedListing:
    """Reads the spans of a recording in several processes.

    Args:
        columns: the sample columns needed
        unwound: unwinds copied stacks, if there are any
    """

    def __init__(self, recording: Recorded, symbolizer: Symbolizer, columns: set[str], unwound: UserCallchains | None) -> None:
        self._recording = recording
        self._symbolizer = symbolizer
        self._columns = columns
        self._unwound = unwound

    def jobs(self, requested: int) -> int:
        """Return the worthwhile number of processes; `requested`: the limit (0: the number of CPUs)."""
        data = self._recording.data
        if requested == 1 or any(map(carries_readings, data.events)):  # counts are printed as differences to the samples before
            return 1
        each = _LINES_EACH if self._unwound is None else STACKS_EACH
        jobs = jobs_for(requested, data.record_index.sample_counts.total(), each)
        return 1 if jobs == 1 else min(jobs, max(len(data.records.delivery_spans), 1))

    def results(self, make: Callable[[Batch], MadeT], jobs: int) -> Iterator[MadeT]:
        """Yield the result of `make` for each span's samples, without empty spans."""
        with ForkedWorkers(self._recording.data.records.delivery_spans, lambda span: self._result(span, make), jobs) as workers:
            yield from self._report_warnings(workers.results())

    def outputs(self, make: Callable[[Batch], MadeT], give: Callable[[MadeT], GivenT], jobs: int) -> Iterator[GivenT]:
        """Yield the result of `give` for the result of `make`, which the processes call themselves, one after the other."""

        def give_made(part: _Done[MadeT] | None) -> _Done[GivenT] | None:
            return None if part is None else _Done(give(part.result), part.counts, part.warnings)

        parts = self._recording.data.records.delivery_spans
        with OrderedWriters(parts, lambda span: self._result(span, make), give_made, jobs) as workers:
            yield from self._report_warnings(workers.results())

    def batches(self, jobs: int) -> Iterator[Batch]:
        """Yield the samples of each span, with complete callchains."""
        begun = sent = len(self._symbolizer.frames)  # all processes have these frames

        def make(batch: Batch) -> _Read:
            nonlocal sent
            origins, sent = self._symbolizer.origins_since(sent), len(self._symbolizer.frames)
            return _Read(batch, os.getpid(), origins)

        ids_of_stacks: dict[int, NDArray[np.int32]] = {}
        for batch, process, origins in self.results(make, jobs):
            before = ids_of_stacks.get(process, np.arange(begun, dtype=np.int32))
            ids_of_stacks[process] = np.concatenate([before, self._symbolizer.intern(origins)])
            yield _with_frames(batch, ids_of_stacks[process])

    def _result(self, span: Span, make: Callable[[Batch], MadeT]) -> _Done[MadeT] | None:
        warning_count = len(self._recording.data.warnings)
        batch = self._recording.batch_of(span, self._columns, self._unwound)
        if batch is None:
            return None
        lines = make(batch)
        files = [str(file) for file in self._symbolizer.unusable()]
        counts = self._unwound.take_truncated_stacks() if self._unwound else []
        return _Done(lines, counts, [*self._recording.data.warnings[warning_count:], *files])

    def _report_warnings(self, results: Iterable[_Done[MadeT] | None]) -> Iterator[MadeT]:
        for part in results:
            if part is not None:
                self._take_over(part)
                yield part.result

    def _take_over(self, part: _Done[Any]) -> None:
        """Take over the warnings of another process."""
        warnings = self._recording.data.warnings
        warnings += [text for text in dict.fromkeys(part.warnings) if text not in warnings]
        if self._unwound is not None:
            self._unwound.add(part.counts)


def _with_frames(batch: Batch, frames: NDArray[np.int32]) -> Batch:
    """Return a batch whose "user_frames" have this process's ids; `frames`: by the batch's ids."""
    users: Ragged | None = batch.columns.get("user_frames")
    if users is None or not len(users.values):
        return batch
    here = np.where(users.values < 0, users.values, frames[users.values])
    columns = Columns(batch.columns.rows, {**batch.columns, "user_frames": Ragged(here, users.offsets)}, batch.columns.damaged)
    return batch._replace(columns=columns)
