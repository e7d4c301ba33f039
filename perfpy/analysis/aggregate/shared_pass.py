"""Fold the samples of one recording in several ways while they are read once.

Reading, unwinding and grouping samples take most of the time of a pass, and all folds share them. Folds that select the same samples
keep one table of the properties that any of them distinguishes (FineRows). The rows of each fold derive from it when they are needed.
"""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import Growing
from perfpy.abi.flags import MISC_USER
from perfpy.analysis.aggregate.profile import FirstDelivery, Folded, FoldingPlan, GroupTotals, Profile, samples_of_frames, summand
from perfpy.analysis.callchains import ChainTable, Functions, shorten_chains
from perfpy.analysis.dimensions import PayloadTable, kind_numbers
from perfpy.analysis.sample_view import SampleView
from perfpy.symbols.interning import GroupSums, IdTable, TupleTable, sum_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.aggregate.scan import SampleScan
    from perfpy.unwind.callchains import UserCallchains

# groups of samples to remember, so that memory does not grow with the file
_KINDS_KEPT: Final = 1 << 18
# frames of groups of samples to look up together: few of them take as long as many
_FRAMES_AT_ONCE: Final = 1 << 18
_ROWS_AT_ONCE: Final = 1 << 18  # numbered together: the intermediate arrays are larger than they are


# the frame of an unknown caller: process, address, time, mode
_MARKER: Final = np.zeros(1, np.int32), np.full(1, (1 << 64) - 1, np.uint64), np.zeros(1, np.uint64), np.full(1, MISC_USER, np.uint8)


class DerivedProfile(NamedTuple):
    """The rows of a fold.

    Attributes:
        folded: the rows, in the order of first delivery.
        chains: the distinct callchains, or None.
        raw: the distinct raw data.
        row_of: the row of each fine row.
    """

    folded: Folded
    chains: ChainTable | None
    raw: PayloadTable
    row_of: NDArray[np.int32]

    def samples_of_frames(self) -> NDArray[np.int64]:
        """Return the number of samples, after filters, on each frame id; empty without the dimension of frames."""
        return samples_of_frames(self.folded)


class FineRows:
    """The rows of all properties that any of some folds distinguishes.

    Attributes:
        profile: the rows.
    """

    def __init__(self, folds: Sequence[Fold], most_chains: int = 0) -> None:
        """Begin without rows. most_chains: the number of callchains above which rare ones lose frames; 0 for no limit."""
        plans = [fold.scan.folding for fold in folds]
        dimensions = dict.fromkeys(name for fold, plan in zip(folds, plans, strict=True) for name in (*plan.dimensions, *fold.properties))
        measures = dict.fromkeys(name for plan in plans for name in plan.measures)
        chains, by_function = any(plan.chains for plan in plans), all(plan.by_function for plan in plans)
        plan = FoldingPlan(tuple(dimensions), plans[0].sample_filter, tuple(measures), chains=chains, by_function=by_function)
        self.profile = Profile(plan, is_delivered=True)
        self._plan, self._symbolizer, self._functions = plan, folds[0].scan.symbolizer, Functions()
        self._most_chains = self._limit = most_chains if chains else 0
        self._is_short = np.zeros(0, np.bool_)

    @property
    def has_many_chains(self) -> bool:
        """Whether the callchains exceed the limit."""
        chains = self.profile.chains if self._limit else None
        return isinstance(chains, ChainTable) and chains.size > self._limit

    def shorten_chains(self) -> NDArray[np.int32]:
        """Take frames from rare callchains; return the new number of each row."""
        chains, samples = self.profile.chains, self.profile.samples_of_chains()
        assert isinstance(chains, ChainTable)
        half, order = self._most_chains // 2, np.argsort(-samples, kind="stable")
        frequent = int(np.searchsorted(np.cumsum(chains.sizes[order]), half))
        is_rare = samples <= (samples[order[frequent]] if frequent < len(order) else 0)
        count = len(self._symbolizer.frames)
        marker = int(self._symbolizer.frame_ids(*_MARKER)[0])
        function_of = self._functions.first_frames(np.arange(max(count, marker + 1), dtype=np.int32), self._symbolizer)
        shorter = shorten_chains(chains, is_rare, function_of, marker, half)
        before, self._is_short = np.flatnonzero(self._is_short), shorter.is_short
        self._is_short[shorter.number_of[before]] = True
        self._limit = max(self._most_chains, 2 * shorter.table.size)  # what cannot be shortened is not visited again and again
        return self.profile.with_chains(shorter.table, shorter.number_of)

    @property
    def share_of_short(self) -> float:
        """The share of the samples whose callchains may lack frames."""
        folded = self.profile.folded
        known = folded.chain < len(self._is_short)
        is_short = np.append(self._is_short, np.False_)[np.where(known, folded.chain, -1)]
        return float(folded.count[is_short].sum() / max(1, folded.count.sum()))

    @cached_property
    def _by_function(self) -> tuple[ChainTable, NDArray[np.int32]]:
        """The callchains by function, and the number of each callchain by address among them."""
        table, numbers, by_address = ChainTable(is_narrow=True), Growing(np.int32), self.profile.chains
        assert isinstance(by_address, ChainTable)
        for frames, counts in by_address.parts():
            numbers.append(table.add(self._functions.first_frames(frames, self._symbolizer), counts))
        table.forget()
        return table, numbers.values

    def derive(self, plan: FoldingPlan) -> DerivedProfile:
        """Return the rows of a fold."""
        fine, chains = self.profile.folded, self.profile.chains
        assert chains is None or isinstance(chains, ChainTable)
        dimensions: dict[str, NDArray[Any]] = {name: fine.dimensions[name] for name in plan.dimensions}
        chain: NDArray[Any] = fine.chain
        if plan.by_function and not self._plan.by_function:
            if "frame" in dimensions:
                dimensions["frame"] = self._functions.first_frames(dimensions["frame"], self._symbolizer)
            if plan.chains:
                chains, number_of = self._by_function
                chain = number_of[chain]
        elif len(dimensions) == len(fine.dimensions) and plan.chains == self._plan.chains:
            return DerivedProfile(fine, chains, self.profile.raw, np.arange(len(fine), dtype=np.int32))
        columns = [fine.event, fine.filtered, *dimensions.values(), *([chain] if plan.chains else [])]
        row_of, first = _number_rows(columns)
        size = len(first)
        folded = Folded(
            fine.event[first],
            fine.filtered[first],
            chain[first] if plan.chains else np.full(size, -1, np.int32),
            fine.tid[first],
            sum_by(row_of, fine.period, size),
            sum_by(row_of, fine.count, size),
            {name: column[first] for name, column in dimensions.items()},
            {name: sum_by(row_of, fine.measures[name], size) for name in plan.measures},
        )
        return DerivedProfile(folded, chains if plan.chains else None, self.profile.raw, row_of)


def _number_rows(columns: Sequence[NDArray[Any]]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return the number of each distinct row in order of first appearance, and where each number first occurs."""
    table = TupleTable([column.dtype != np.int64 for column in columns])
    row_of, first = np.empty(len(columns[0]), np.int32), [np.zeros(0, np.int64)]
    for begin in range(0, len(row_of), _ROWS_AT_ONCE):
        rows = slice(begin, begin + _ROWS_AT_ONCE)
        row_of[rows], new = table.ids_and_new([column[rows] for column in columns])
        first.append(new + begin)
    return row_of, np.concatenate(first)


class Fold:
    """A scan whose samples are folded together with others. Its rows stay in memory.

    Attributes:
        scan: selects the samples.
        fields: columns of samples to read besides those of the scan.
        properties: dimensions that fine rows distinguish besides those of the scan.
        fine: the rows that those of this fold derive from.
        kinds: the group of each sample of the last batch; its fine row may still be unknown.
        row_of_kind: the fine row of each group.
    """

    def __init__(self, scan: SampleScan, fields: Sequence[str] = (), properties: Sequence[str] = ()) -> None:
        self.scan, self.fields, self.properties = scan, fields, properties
        self.fine: FineRows | None = None
        self.kinds, self.row_of_kind = np.zeros((2, 0), np.int32)

    @cached_property
    def profile(self) -> DerivedProfile:
        """The rows, after fold_together()."""
        return (self.fine or FineRows([self])).derive(self.scan.folding)

    def begin(self, fine: FineRows) -> None:
        """Start over without samples."""
        self.end()
        self.fine = fine

    def end(self) -> None:
        """Release the memory of the profile, which is no longer needed."""
        self.fine = None
        self.__dict__.pop("profile", None)

    def add(self, samples: SampleView) -> None:
        """Note the samples of a batch, with `kinds`."""

    def settle(self) -> None:
        """Note that the rows of all groups so far are known."""

    def renumber(self, fine: FineRows, rows: NDArray[np.int32]) -> None:
        """Note that fine rows, of this fold or another, have other numbers. rows: the new number of each."""


class _Group:
    """Folds that select the same samples with the same symbols."""

    def __init__(self, folds: Sequence[Fold], most_chains: int) -> None:
        self.folds, self._scan = folds, _with_own_switch(folds[0].scan)
        plans = [fold.scan.folding for fold in folds]
        of_properties = FoldingPlan(tuple(name for fold in folds for name in fold.properties), plans[0].sample_filter)
        self._fingerprints = list(dict.fromkeys(name for plan in (*plans, of_properties) for name in plan.fingerprints))
        self._names = list(dict.fromkeys(name for plan in plans for name in plan.measures))
        self.fine = fine = FineRows(folds, most_chains)
        self._profile = fine.profile
        for fold in folds:
            fold.begin(fine)
        self._begin_kinds()

    def _begin_kinds(self) -> None:
        self._kinds, self._first, self._row_of_kind = IdTable(), FirstDelivery(), Growing(np.int32)
        self._waiting: list[SampleView] = []  # one sample of each group without rows
        self._waiting_frames = 0
        self._period, self._count = GroupSums(), GroupSums()
        self._measures = {name: GroupSums() for name in self._names}

    def add(self, samples: SampleView) -> None:
        """Add the samples of a batch that the scans select."""
        scan = self._scan
        for selected in scan.select(samples.named_by(scan.timeline, scan.symbolizer)):
            self._add_selected(selected)

    def _add_selected(self, samples: SampleView) -> None:
        kinds, new = self._kinds.ids_and_new(kind_numbers(samples, self._fingerprints))
        if len(new):
            self._waiting.append(samples.take(new).gather())
            self._waiting_frames += len(new) + int(self._waiting[-1].chains().lengths.sum())
        size, period = len(self._kinds), samples.period()
        self._first.add(kinds, size, samples)
        self._count.add(kinds, None, size)
        self._period.add(kinds, period, size)
        for name, measures in self._measures.items():
            measures.add(kinds, summand(name, samples, period), size)
        for fold in self.folds:
            fold.kinds = kinds
            fold.add(samples)

    @property
    def is_full(self) -> bool:
        """Whether there are many groups of samples."""
        return len(self._kinds) > _KINDS_KEPT or self.fine.has_many_chains

    @property
    def has_many_unsettled(self) -> bool:
        """Whether many groups of samples have no rows yet."""
        return self._waiting_frames > _FRAMES_AT_ONCE

    def find_rows(self) -> None:
        """Find the rows of the groups of samples that have none."""
        if self._waiting:
            samples = SampleView.concat(self._waiting)
            self._waiting, self._waiting_frames = [], 0
            self._row_of_kind.append(self._profile.rows_of(samples))
        for fold in self.folds:
            fold.row_of_kind = self._row_of_kind.values

    def end(self) -> None:
        """Add the sums of the groups of samples to the rows, and forget the groups."""
        size = len(self._kinds)
        when, tid = self._first.first_samples(size)
        measures = {name: measure.totals(size) for name, measure in self._measures.items()}
        totals = GroupTotals(self._period.totals(size), self._count.totals(size), measures)
        self._profile.add_totals(self._row_of_kind.values, when, tid, totals)
        self._begin_kinds()


def _with_own_switch(scan: SampleScan) -> SampleScan:
    """Return a scan that selects the same samples, independent of other scans: a switch follows the samples of one pass."""
    chosen = scan.folding.sample_filter
    if chosen.switch is None:
        return scan
    switch = copy(chosen.switch)
    switch.restart()
    return scan.with_filter(chosen._replace(switch=switch))


def fold_together(folds: Sequence[Fold], most_chains: int = 0) -> None:
    """Fold the samples of one recording, in order of delivery, for each fold.

    Above a number of distinct callchains, most_chains, rare ones lose frames (FineRows.share_of_short); 0 for no limit.

    Stacks are unwound as for the first scan with unwinding, so `max_stack` must be equal; `callers_first` only decides which part stays of
    a kernel's callchain that exceeds it.
    """
    scans = [fold.scan for fold in folds]
    unwinding = _share_unwinding(scans)
    fields = {name for fold in folds for name in (*fold.scan.fields(), *fold.fields)}
    groups = _groups(folds, most_chains)
    for samples in scans[0].delivered(fields, unwinding):
        for group in groups:
            group.add(samples)
        _settle(groups)
    _settle(groups, is_last=True)


def _settle(groups: Sequence[_Group], *, is_last: bool = False) -> None:
    """Find the rows of samples if there are many without, or no more samples follow. Folds can refer to those of other groups."""
    is_last = is_last or any(group.is_full for group in groups)
    if not is_last and not any(group.has_many_unsettled for group in groups):
        return
    for group in groups:
        group.find_rows()
    for group in groups:
        for fold in group.folds:
            fold.settle()
    if is_last:
        for group in groups:
            group.end()
            if group.fine.has_many_chains:
                rows = group.fine.shorten_chains()
                for fold in (fold for each in groups for fold in each.folds):
                    fold.renumber(group.fine, rows)


def _groups(folds: Sequence[Fold], most_chains: int) -> list[_Group]:
    """Return groups of folds, in order of the first of each."""
    groups: list[list[Fold]] = []
    for fold in folds:
        same = next((group for group in groups if group[0].scan.selects_as(fold.scan)), None)
        if same is None:
            groups.append([fold])
        else:
            same.append(fold)
    return [_Group(group, most_chains) for group in groups]


def _share_unwinding(scans: Sequence[SampleScan]) -> UserCallchains | None:
    """Let all scans that unwind stacks use the unwinder of the first of them; return it."""
    unwinding = next((scan.unwinding for scan in scans if scan.unwinding is not None), None)
    for scan in scans:
        if scan.unwinding is not None:
            scan.unwinding = unwinding
    return unwinding
