"""Fold a recording: from its batches to a profile.

Samples are folded in the order of the file, since a row keeps the delivery order of its
first sample; they are sorted only if one decides
about the next (counter readings, switches of events).
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise

import numpy as np

from perfpy.abi.flags import SampleType
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple, Protocol, dataclass, replace
from perfpy.analysis.aggregate.overflow import ScratchFile, memory_for
from perfpy.analysis.aggregate.profile import KnownNames, Profile, name_maps
from perfpy.analysis.sample_view import DeliveryOrder, SampleView
from perfpy.analysis.sort_key import Mode
from perfpy.perfdata.records.batches import carries_readings, split_readings
from perfpy.workers import CHAINS_EACH, SAMPLES_EACH, STACKS_EACH, ForkedWorkers, jobs_for

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from typing import Final, TypeAlias

    from perfpy.abi.attr import EventAttr
    from perfpy.analysis.aggregate.profile import FoldingPlan, PartialProfile
    from perfpy.analysis.callchains import CallStacks
    from perfpy.analysis.filters import SampleFilter
    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.symbols.address_spaces import TaskTimeline
    from perfpy.symbols.quality_notes import TruncatedStacks
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.unwind.callchains import UserCallchains


#: called with the share of the file that has been read (0 to 1)
Progress: TypeAlias = "Callable[[float], None]"

_ORDINAL_BITS: Final = 32  # a chunk has fewer samples
_FOLDED_FIELDS = {"pid", "tid", "ip", "cpumode", "callchain"}
_MODE_FIELDS = {Mode.BRANCH: {"branch_stack", "pid"}, Mode.MEMORY: {"weight"}}


class ChunksPart(NamedTuple):
    """Samples for another process to fold.

    Attributes:
        parts: of the source.
        memory: limit in bytes, beyond which rows go to the file; None for no limit.
        file: for rows beyond the limit.
    """

    parts: range
    memory: int | None
    file: ScratchFile | None


class FoldedPart(NamedTuple):
    """The result of another process.

    Attributes:
        before: spans of the file with the first rows.
        last: the other rows, with the names for all.
        stacks: truncated stacks.
    """

    before: list[tuple[int, int]]
    last: PartialProfile
    stacks: list[TruncatedStacks]


class MoreColumns(Protocol):
    """A source of columns that the file does not have."""

    def add_to(self, samples: SampleView) -> SampleView:
        """Return the samples with the columns added."""


@dataclass(eq=False, repr=False)
class SampleScan:
    """A pass that reads and folds the samples of a recording.

    Attributes:
        mode: samples, branches or memory accesses as rows.
        more: sources of further columns.
        grain: of times, in ns, if rows are separated by them.
        max_stack: limit of frames of a callchain.
        callers_first: count them from the outermost frame.
        jobs: number of processes (0: one per CPU).
        by_python: rows are Python functions or lines.
    """

    data: SampleSource
    timeline: TaskTimeline
    symbolizer: Symbolizer
    folding: FoldingPlan
    mode: Mode = Mode.NORMAL
    more: Sequence[MoreColumns] = ()
    grain: int = 1
    progress: Progress | None = None
    max_stack: int = 127
    callers_first: bool = False
    jobs: int = 1
    by_python: bool = False

    def with_filter(self, sample_filter: SampleFilter) -> SampleScan:
        """Return the same scan of other samples."""
        return replace(self, folding=self.folding._replace(sample_filter=sample_filter))

    def profile(self) -> Profile:
        """Fold all samples."""
        memory = memory_for(self.data.sample_counts.total())
        profile = Profile(self.folding, memory)
        if self._has_readings or self.folding.sample_filter.switch is not None:
            for samples in self.delivered_samples():
                profile.add(samples)
            return profile
        mine, *others = self._ranges()
        work = [ChunksPart(parts, memory and memory // (1 + len(others)), ScratchFile() if memory else None) for parts in others]
        with ForkedWorkers(work, self._fold_part, len(others)) as workers:
            for samples in self._stored_samples(mine):
                profile.add(samples)
            for part, result in zip(work, workers.results(), strict=True):
                self._merge_result(profile, part, result)
        return profile

    def excerpt(self, most: int) -> Profile:
        """Fold about this many samples at most, from the beginning, the end and evenly between; all if they depend on each other."""
        count, parts = self.data.sample_counts.total(), self.data.part_count
        if count <= most or self._has_readings or self.folding.sample_filter.switch is not None:
            return self.profile()
        profile = Profile(self.folding)
        chosen = np.unique(np.linspace(0, parts - 1, max(parts * most // count, 1)).astype(np.int64))
        for begin in chosen.tolist():
            for samples in self._stored_samples(range(begin, begin + 1)):
                profile.add(samples)
        return profile

    def _merge_result(self, profile: Profile, part: ChunksPart, result: FoldedPart) -> None:
        """Merge the rows of another process, which follow those folded so far."""
        self.data.warnings.extend([text for text in result.last.warnings if text not in self.data.warnings])
        maps = name_maps(result.last.names, self.symbolizer, self.timeline)
        for span in result.before:
            assert part.file is not None
            profile.merge(part.file.load(span), maps, self.symbolizer)
        profile.merge(result.last, maps, self.symbolizer)
        if self.unwinding is not None:
            self.unwinding.add(result.stacks)

    def _ranges(self) -> list[range]:
        """Divide the parts of the source into one range for each process that reads some of them."""
        parts = self.data.part_count
        each = STACKS_EACH if self.unwinding is not None else CHAINS_EACH if self.folding.chains else SAMPLES_EACH
        is_alone = self.jobs == 1 or self.folding.history is not None  # whose entries have numbers in this process only
        jobs = 1 if is_alone else min(jobs_for(self.jobs, self.data.sample_counts.total(), each), max(parts, 1))
        borders = [parts * number // jobs for number in range(jobs + 1)]
        return [range(begin, end) for begin, end in pairwise(borders)]

    def _fold_part(self, part: ChunksPart) -> FoldedPart:
        """Fold some of the samples in another process; return the rows, and the truncated stacks."""
        profile, known_names, warnings_before = Profile(self.folding), KnownNames(self.symbolizer, self.timeline), len(self.data.warnings)
        before = []
        for samples in self._stored_samples(part.parts):
            profile.add(samples)
            if part.file is not None and part.memory is not None and profile.nbytes > part.memory:
                before.append(part.file.keep(profile.partial(known_names.none(), [])))
                profile = Profile(self.folding)
        file_warnings = [] if self.unwinding is None else [str(file) for file in self.symbolizer.unusable()]
        stacks = [] if self.unwinding is None else self.unwinding.take_truncated_stacks()
        return FoldedPart(before, profile.partial(known_names.learnt(), [*self.data.warnings[warnings_before:], *file_warnings]), stacks)

    @cached_property
    def _attrs(self) -> list[EventAttr]:
        return [event.attr for event in self.data.events]

    @cached_property
    def _has_readings(self) -> bool:
        return any(carries_readings(event) for event in self.data.events)

    @cached_property
    def _callstacks(self) -> CallStacks | None:
        """The builder of chains from branch stacks; None if no chains are requested, or there are no branch stacks."""
        if not self.folding.chains:
            return None
        from perfpy.analysis.callchains import CallStacks

        return CallStacks(self._attrs) or None

    @cached_property
    def _folds(self) -> bool:
        """Whether samples count for the functions run by interpreters."""
        return (
            (self.symbolizer.folds_interpreters or self.by_python) and self.mode is not Mode.BRANCH and self.data.has(SampleType.CALLCHAIN)
        )

    @cached_property
    def unwinding(self) -> UserCallchains | None:
        """The unwinder of copied stacks; None if no callchains are needed, or there are no copies."""
        if not (self.folding.chains or self._folds) or not self.data.has(SampleType.STACK_USER):
            return None
        # loaded here because most recordings have no copies of stacks
        from perfpy.analysis.callchains import user_callchains

        return user_callchains(self.data, self.symbolizer, self.max_stack, callers_first=self.callers_first)

    @property
    def truncated_stacks(self) -> list[TruncatedStacks]:
        """The stack copies that were too short, as far as they were read."""
        return self.unwinding.truncated_stacks if self.unwinding else []

    def fields(self) -> list[str]:
        """Return the sample columns to read."""
        fields = (
            self.folding.fields
            | (_FOLDED_FIELDS if self._folds else set())
            | _MODE_FIELDS.get(self.mode, set())
            | ({"read"} if self._has_readings else set())
        )
        return sorted(fields if self._callstacks is None else fields | {self._callstacks.field})

    def _stored_samples(self, parts: range) -> Iterator[SampleView]:
        """Yield the selected samples of some parts of the source, in its order."""
        ordinal = parts.start << _ORDINAL_BITS  # after those of the parts before
        for number, batch in enumerate(self.data.stored_batches(self.fields(), parts, more=self.unwinding)):
            ordinals = np.arange(ordinal, ordinal + len(batch.event))
            ordinal += len(ordinals)
            if len(ordinals):
                key = self.data.settled_keys(batch)
                order = DeliveryOrder(key, batch.time, ordinals)
                samples = SampleView(batch.columns, batch.event, order, self._attrs, self.timeline, self.symbolizer)
                yield from self.select(samples)
            self._report_progress(number / len(parts))

    def delivered_samples(self) -> Iterator[SampleView]:
        """Yield the selected samples in order of delivery."""
        self.folding.sample_filter.begin()
        for samples in self.delivered(self.fields(), self.unwinding):
            yield from self.select(samples)

    def delivered(self, fields: Collection[str], unwinding: UserCallchains | None) -> Iterator[SampleView]:
        """Yield all samples in order of delivery, with some columns."""
        ordinal = 0
        for batch in split_readings(self.data.batches(fields, unwinding), self.data.events):
            ordinals = np.arange(ordinal, ordinal + len(batch))
            ordinal += len(batch)
            if len(batch):
                self._report_progress(self.data.share_read(batch))
                key = self.data.settled_keys(batch)
                order = DeliveryOrder(key, key, ordinals)
                yield SampleView(batch.columns, batch.event, order, self._attrs, self.timeline, self.symbolizer)

    def selects_as(self, other: SampleScan) -> bool:
        """Whether select() returns the same samples as that of another scan of the recording."""
        if self.symbolizer is not other.symbolizer or "time" in (*self.folding.dimensions, *other.folding.dimensions):
            return False
        conditions = (
            (scan.folding.sample_filter, list(scan.more), scan.mode, scan._folds, scan._callstacks is None)  # noqa: SLF001  # of this class
            for scan in (self, other)
        )
        mine, others = conditions
        return mine == others

    def select(self, samples: SampleView) -> Iterator[SampleView]:
        """Yield the samples that count, as the scan's rows; none or one batch."""
        if self._callstacks is not None:
            samples = self._callstacks.add_to(samples)
        if self.folding.history is not None:
            samples = self.folding.history.add_to(samples)
        if self._folds:
            from perfpy.analysis.callchains import with_interpreters_folded

            samples = with_interpreters_folded(samples, by_python=self.by_python)
        for columns in self.more:
            samples = columns.add_to(samples)
        samples = samples.take(self.folding.sample_filter.passing_rows(samples))
        if "time" in self.folding.dimensions:
            samples = samples.in_grains(self.grain)
        if self.mode is Mode.BRANCH:
            from perfpy.analysis.dimensions import branch_rows

            samples = branch_rows(samples)
        elif self.mode is Mode.MEMORY:
            samples = samples.with_weights()
        if len(samples):
            yield samples

    def _report_progress(self, share: float) -> None:
        if self.progress is not None:
            self.progress(min(share, 1.0))
