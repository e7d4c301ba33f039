"""Folding a recording: from its batches to a profile.

What enters: a recording, its tasks and symbolizer, and the recipe by which
samples are told apart. What leaves: a Profile.

Samples are taken as they stand in the file, since a row remembers when its
first sample is delivered; they come in order only where one decides
about the next (counter readings, switches of events).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from perfpy.analysis.aggregate.profile import Profile
from perfpy.analysis.samples.branches import branch_samples
from perfpy.analysis.samples.lbr_callchains import CallStacks
from perfpy.analysis.samples.sample_view import DeliveryOrder, SampleView
from perfpy.analysis.sortkeys.names import Mode
from perfpy.perfdata.records.group_reads import carries_readings, delivered

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from numpy.typing import NDArray

    from perfpy.abi.columns import Columns
    from perfpy.analysis.aggregate.profile import Recipe
    from perfpy.perfdata.reader import PerfData
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.symbols.tasks.address_space import TaskTimeline

#: told which share of the file has been read (0 to 1)
Progress: TypeAlias = "Callable[[float], None]"

_MODE_FIELDS = {Mode.BRANCH: {"branch_stack", "pid"}, Mode.MEMORY: {"weight"}}


class MoreColumns(Protocol):
    """What adds columns to samples that the file does not have."""

    def add_to(self, samples: SampleView) -> SampleView:
        """The samples with them."""


class Folding:
    """How a recording is folded.

    mode: what a row stands for; more: what adds columns to the samples first; grain: of times, if rows are made by them, in ns.
    """

    def __init__(
        self,
        data: PerfData,
        timeline: TaskTimeline,
        symbolizer: Symbolizer,
        recipe: Recipe,
        *,
        mode: Mode = Mode.NORMAL,
        more: Sequence[MoreColumns] = (),
        grain: int = 1,
        progress: Progress | None = None,
    ) -> None:
        self._data = data
        self._timeline = timeline
        self._symbolizer = symbolizer
        self._recipe = recipe
        self._mode = mode
        self._more = more
        self._grain = grain
        self._progress = progress
        self._attrs = [event.attr for event in data.events]
        self._has_readings = any(carries_readings(event) for event in data.events)
        fields = recipe.fields | _MODE_FIELDS.get(mode, set()) | ({"read"} if self._has_readings else set())
        callstacks = CallStacks(self._attrs)
        if recipe.chains and callstacks:
            self._more = [callstacks, *more]
            fields.add(callstacks.field)
        self._fields = sorted(fields)

    def profile(self) -> Profile:
        """Fold everything."""
        profile = Profile(self._recipe)
        needs_order = self._has_readings or self._recipe.selection.switch is not None
        for samples in self.delivered() if needs_order else self._stored():
            profile.add(samples)
        return profile

    def _view(self, columns: Columns, event: NDArray[np.int32], moments: DeliveryOrder) -> SampleView:
        return SampleView(columns, event, moments, self._attrs, self._timeline, self._symbolizer)

    def _stored(self) -> Iterator[SampleView]:
        """The samples wanted, in the order of the file."""
        ordinal, turns = 0, len(self._data.survey.turns)
        for number, batch in enumerate(self._data.stored(self._fields)):
            ordinals = np.arange(ordinal, ordinal + len(batch.event))
            ordinal += len(ordinals)
            if len(ordinals):
                key = self._data.equal_times.settled(batch.key, batch.offset)
                yield from self._selected(self._view(batch.columns, batch.event, DeliveryOrder(key, batch.time, ordinals)))
            self._tell(number / turns)

    def delivered(self, fields: Collection[str] = ()) -> Iterator[SampleView]:
        """The samples wanted, in order of delivery. fields: further columns."""
        self._recipe.selection.begin()
        ordinal = 0
        for batch in delivered(self._data.batches([*self._fields, *fields]), self._data.events):
            ordinals = np.arange(ordinal, ordinal + len(batch))
            ordinal += len(batch)
            if len(batch):
                self._tell(int(batch.offset[-1]) / max(self._data.size, 1))
                key = self._data.equal_times.settled(batch.key, batch.offset)
                yield from self._selected(self._view(batch.columns, batch.event, DeliveryOrder(key, key, ordinals)))

    def _selected(self, samples: SampleView) -> Iterator[SampleView]:
        for columns in self._more:
            samples = columns.add_to(samples)
        samples = samples.take(self._recipe.selection.kept_rows(samples))
        if "time" in self._recipe.dimensions:
            samples = samples.in_grains(self._grain)
        if self._mode is Mode.BRANCH:
            samples = branch_samples(samples)
        elif self._mode is Mode.MEMORY:
            samples = samples.weighted()
        if len(samples):
            yield samples

    def _tell(self, share: float) -> None:
        if self._progress is not None:
            self._progress(min(share, 1.0))
