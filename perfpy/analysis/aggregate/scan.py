"""Folding a recording: from its batches to a profile.

What enters: a recording, its tasks and symbolizer, and the recipe by which
samples are told apart. What leaves: a Profile.

Samples are taken as they stand in the file, since a row remembers when its
first sample is delivered; they come in order only where one decides
about the next (counter readings, switches of events).
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import numpy as np

from perfpy.abi.flags import SampleType
from perfpy.abi.startup import NamedTuple, dataclass
from perfpy.analysis.aggregate.overflow import ScratchFile, memory_for
from perfpy.analysis.aggregate.partial import KnownNames, name_maps
from perfpy.analysis.aggregate.profile import Profile
from perfpy.analysis.samples.sample_view import DeliveryOrder, SampleView
from perfpy.analysis.sortkeys.sort_key import Mode
from perfpy.perfdata.records.group_reads import carries_readings, delivered
from perfpy.workers.forked import ForkedWorkers
from perfpy.workers.jobs import SAMPLES_EACH, STACKS_EACH, jobs_for

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from perfpy.abi.attr import EventAttr
    from perfpy.analysis.aggregate.partial import PartialProfile
    from perfpy.analysis.aggregate.profile import Recipe
    from perfpy.analysis.samples.lbr_callchains import CallStacks
    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.symbols.tasks.address_space import TaskTimeline
    from perfpy.unwind.callchains import UserCallchains
    from perfpy.unwind.truncated_stacks import TruncatedStacks

#: told which share of the file has been read (0 to 1)
Progress: TypeAlias = "Callable[[float], None]"

_ORDINAL_BITS: Final = 32  # more than a turn has samples
_FOLDED_FIELDS = {"pid", "tid", "ip", "cpumode", "callchain"}
_MODE_FIELDS = {Mode.BRANCH: {"branch_stack", "pid"}, Mode.MEMORY: {"weight"}}


class ChunksPart(NamedTuple):
    """Samples for another process to fold. turns: of the survey; memory: in bytes, before it goes on in the file; None: any number."""

    turns: range
    memory: int | None
    file: ScratchFile | None


class FoldedPart(NamedTuple):
    """What it folded. before: where in the file the first of it is; last: the rest, with the names for all; stacks: how these fared."""

    before: list[tuple[int, int]]
    last: PartialProfile
    stacks: list[TruncatedStacks]


class MoreColumns(Protocol):
    """What adds columns to samples that the file does not have."""

    def add_to(self, samples: SampleView) -> SampleView:
        """The samples with them."""


@dataclass(eq=False, repr=False)
class SampleScan:
    """How the samples of a recording are read and folded.

    mode: what a row stands for; more: what adds columns to the samples first; grain: of times, if rows are made by them, in ns;
    max_stack: frames of a callchain that are looked at; callers_first: from its outermost frame on;
    jobs: how many processes may share the work (0: as many as there are CPUs).
    """

    data: SampleSource
    timeline: TaskTimeline
    symbolizer: Symbolizer
    recipe: Recipe
    mode: Mode = Mode.NORMAL
    more: Sequence[MoreColumns] = ()
    grain: int = 1
    progress: Progress | None = None
    max_stack: int = 127
    callers_first: bool = False
    jobs: int = 1

    def profile(self) -> Profile:
        """Fold everything."""
        memory = memory_for(self.data.sample_counts.total())
        profile = Profile(self.recipe, memory)
        if self._has_readings or self.recipe.sample_filter.switch is not None:
            for samples in self.delivered():
                profile.add(samples)
            return profile
        mine, *others = self._ranges()
        work = [ChunksPart(turns, memory and memory // (1 + len(others)), ScratchFile() if memory else None) for turns in others]
        with ForkedWorkers(work, self._folded, len(others)) as workers:
            for samples in self._stored(mine):
                profile.add(samples)
            for part, found in zip(work, workers.results(), strict=True):
                self._take_in(profile, part, found)
        return profile

    def _take_in(self, profile: Profile, part: ChunksPart, found: FoldedPart) -> None:
        """Put what another process folded of the samples that come next to what was folded of those before."""
        self.data.warnings.extend([text for text in found.last.warnings if text not in self.data.warnings])
        maps = name_maps(found.last.names, self.symbolizer, self.timeline)
        for span in found.before:
            assert part.file is not None
            profile.merge(part.file.kept(span), maps, self.symbolizer)
        profile.merge(found.last, maps, self.symbolizer)
        if self.unwinding is not None:
            self.unwinding.add(found.stacks)

    def _ranges(self) -> list[range]:
        """Divide the parts of the source into one range for each process that reads some of them."""
        turns = self.data.part_count
        each = SAMPLES_EACH if self.unwinding is None else STACKS_EACH
        jobs = 1 if self.jobs == 1 else min(jobs_for(self.jobs, self.data.sample_counts.total(), each), max(turns, 1))
        borders = [turns * number // jobs for number in range(jobs + 1)]
        return [range(begin, end) for begin, end in pairwise(borders)]

    def _folded(self, part: ChunksPart) -> FoldedPart:
        """Some of the samples, folded by another process, and how their stacks fared."""
        profile, known, said = Profile(self.recipe), KnownNames(self.symbolizer, self.timeline), len(self.data.warnings)
        before = []
        for samples in self._stored(part.turns):
            profile.add(samples)
            if part.file is not None and part.memory is not None and profile.nbytes > part.memory:
                before.append(part.file.keep(profile.partial(known.none(), [])))
                profile = Profile(self.recipe)
        said_of_files = [] if self.unwinding is None else [str(file) for file in self.symbolizer.unreadable()]
        stacks = [] if self.unwinding is None else self.unwinding.taken()
        return FoldedPart(before, profile.partial(known.learnt(), [*self.data.warnings[said:], *said_of_files]), stacks)

    @cached_property
    def _attrs(self) -> list[EventAttr]:
        return [event.attr for event in self.data.events]

    @cached_property
    def _has_readings(self) -> bool:
        return any(carries_readings(event) for event in self.data.events)

    @cached_property
    def _callstacks(self) -> CallStacks | None:
        """What makes chains of branch stacks; None where none are wanted, or there are none."""
        if not self.recipe.chains:
            return None
        from perfpy.analysis.samples.lbr_callchains import CallStacks

        return CallStacks(self._attrs) or None

    @cached_property
    def _folds(self) -> bool:
        """Whether samples count for the functions that interpreters ran."""
        return self.symbolizer.folds_interpreters and self.mode is not Mode.BRANCH and self.data.has(SampleType.CALLCHAIN)

    @cached_property
    def unwinding(self) -> UserCallchains | None:
        """What makes the callers of user space from copied stacks; None where no callchains are needed, or there are no copies."""
        if not (self.recipe.chains or self._folds) or not self.data.has(SampleType.STACK_USER):
            return None
        # most recordings have no copies of stacks
        from perfpy.analysis.samples.user_callchains import user_callchains

        return user_callchains(self.data, self.symbolizer, self.max_stack, callers_first=self.callers_first)

    @property
    def truncated(self) -> list[TruncatedStacks]:
        """What copies of stacks were too short for, as far as was read."""
        return self.unwinding.truncated if self.unwinding else []

    def _fields(self) -> list[str]:
        """The sample columns that are needed."""
        fields = (
            self.recipe.fields
            | (_FOLDED_FIELDS if self._folds else set())
            | _MODE_FIELDS.get(self.mode, set())
            | ({"read"} if self._has_readings else set())
        )
        return sorted(fields if self._callstacks is None else fields | {self._callstacks.field})

    def _stored(self, turns: range) -> Iterator[SampleView]:
        """Yield the wanted samples of some parts of the source, in its order."""
        ordinal = turns.start << _ORDINAL_BITS  # after those of the turns before
        for number, batch in enumerate(self.data.stored(self._fields(), turns, more=self.unwinding)):
            ordinals = np.arange(ordinal, ordinal + len(batch.event))
            ordinal += len(ordinals)
            if len(ordinals):
                key = self.data.settled_keys(batch)
                order = DeliveryOrder(key, batch.time, ordinals)
                samples = SampleView(batch.columns, batch.event, order, self._attrs, self.timeline, self.symbolizer)
                yield from self._selected(samples)
            self._tell(number / len(turns))

    def delivered(self, fields: Collection[str] = ()) -> Iterator[SampleView]:
        """The samples wanted, in order of delivery. fields: further columns."""
        self.recipe.sample_filter.begin()
        ordinal = 0
        for batch in delivered(self.data.batches([*self._fields(), *fields], self.unwinding), self.data.events):
            ordinals = np.arange(ordinal, ordinal + len(batch))
            ordinal += len(batch)
            if len(batch):
                self._tell(self.data.share_read(batch))
                key = self.data.settled_keys(batch)
                order = DeliveryOrder(key, key, ordinals)
                samples = SampleView(batch.columns, batch.event, order, self._attrs, self.timeline, self.symbolizer)
                yield from self._selected(samples)

    def _selected(self, samples: SampleView) -> Iterator[SampleView]:
        if self._callstacks is not None:
            samples = self._callstacks.add_to(samples)
        if self._folds:
            from perfpy.analysis.samples.interpreter_folding import with_interpreters_folded  # not asked for by all

            samples = with_interpreters_folded(samples)
        for columns in self.more:
            samples = columns.add_to(samples)
        samples = samples.take(self.recipe.sample_filter.kept_rows(samples))
        if "time" in self.recipe.dimensions:
            samples = samples.in_grains(self.grain)
        if self.mode is Mode.BRANCH:
            from perfpy.analysis.samples.branches import branch_samples

            samples = branch_samples(samples)
        elif self.mode is Mode.MEMORY:
            samples = samples.weighted()
        if len(samples):
            yield samples

    def _tell(self, share: float) -> None:
        if self.progress is not None:
            self.progress(min(share, 1.0))
