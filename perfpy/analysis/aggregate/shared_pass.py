"""Fold the samples of one recording in several ways while they are read once.

Reading, unwinding and grouping samples take most of the time of a pass, and all folds share them: each batch is grouped by all
properties that any fold distinguishes, and the folds get their rows from the groups.
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.columns import Growing
from perfpy.analysis.aggregate.profile import ChainNumbers, FirstDelivery, GroupTotals, Profile, summand
from perfpy.analysis.dimensions import kind_numbers
from perfpy.analysis.sample_view import SampleView
from perfpy.symbols.interning import GroupSums, IdTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.aggregate.scan import SampleScan
    from perfpy.analysis.sample_view import DeliveryOrder
    from perfpy.unwind.callchains import UserCallchains

# groups of samples to remember, so that memory does not grow with the file
_KINDS_KEPT: Final = 1 << 18
# frames of groups of samples to look up together: few of them take as long as many
_FRAMES_AT_ONCE: Final = 1 << 18


class Fold:
    """A scan's profile, which grows with each batch of samples. Its rows stay in memory.

    Attributes:
        scan: selects the samples.
        fields: columns of samples to read besides those of the scan.
        profile: the rows.
        kinds: the group of each sample of the last batch; its row may still be unknown.
    """

    def __init__(self, scan: SampleScan, fields: Sequence[str] = ()) -> None:
        self.scan = scan
        self.fields = fields
        self.profile = Profile(scan.folding)
        self._row_of_kind = Growing(np.int32)
        self.kinds = np.zeros(0, np.int32)

    @property
    def row_of_kind(self) -> NDArray[np.int32]:
        """The row of each group of samples, for Profile.ranks()."""
        rows: NDArray[np.int32] = self._row_of_kind.values
        return rows

    def begin(self, chain_numbers: ChainNumbers | None = None) -> None:
        """Start over without samples. chain_numbers: shared with other folds of the same samples."""
        self.profile = Profile(self.scan.folding, chain_numbers=chain_numbers)
        self.forget_kinds()

    def end(self) -> None:
        """Release the memory of the profile, which is no longer needed."""
        self.begin()

    def forget_kinds(self) -> None:
        """Start over with the groups of samples; the profile stays."""
        self._row_of_kind = Growing(np.int32)

    def add_kinds(self, samples: SampleView) -> None:
        """Add the next groups. samples: one of each."""
        self._row_of_kind.append(self.profile.rows_of(samples))

    def add(self, samples: SampleView) -> None:
        """Note the samples of a batch, with `kinds`."""

    def settle(self) -> None:
        """Note that the rows of all groups so far are known."""

    def add_totals(self, when: DeliveryOrder, tid: NDArray[Any], totals: GroupTotals) -> None:
        """Add the sums of all groups to the profile. The arguments are those of Profile.add_totals()."""
        self.profile.add_totals(self.row_of_kind, when, tid, totals)


class _Group:
    """Folds that select the same samples with the same symbols.

    Attributes:
        folds: of the group.
    """

    def __init__(self, folds: Sequence[Fold]) -> None:
        self.folds, self._scan = folds, _with_own_switch(folds[0].scan)
        plans = [fold.scan.folding for fold in folds]
        self._fingerprints = list(dict.fromkeys(name for plan in plans for name in plan.fingerprints))
        self._names = list(dict.fromkeys(name for plan in plans for name in plan.measures))
        kinds_of_chains = {plan.by_function for plan in plans if plan.chains}
        self._chain_numbers: dict[bool, ChainNumbers] = {}
        for by_function in sorted(kinds_of_chains):  # those by address first
            self._chain_numbers[by_function] = ChainNumbers(by_function=by_function, by_address=self._chain_numbers.get(False))
        for fold, plan in zip(folds, plans, strict=True):
            fold.begin(self._chain_numbers[plan.by_function] if plan.chains else None)
        self._begin_kinds()

    def _begin_kinds(self) -> None:
        self._kinds, self._first = IdTable(), FirstDelivery()
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
        return len(self._kinds) > _KINDS_KEPT

    @property
    def has_many_unsettled(self) -> bool:
        """Whether many groups of samples have no rows yet."""
        return self._waiting_frames > _FRAMES_AT_ONCE

    def find_rows(self) -> None:
        """Find the rows of the groups of samples that have none."""
        if self._waiting:
            samples = SampleView.concat(self._waiting)
            self._waiting, self._waiting_frames = [], 0
            for fold in self.folds:
                fold.add_kinds(samples)

    def end(self) -> None:
        """Add the sums of the groups of samples to the profiles, and forget the groups."""
        size = len(self._kinds)
        when, tid = self._first.first_samples(size)
        measures = {name: measure.totals(size) for name, measure in self._measures.items()}
        totals = GroupTotals(self._period.totals(size), self._count.totals(size), measures)
        for fold in self.folds:
            fold.add_totals(when, tid, totals)
            fold.forget_kinds()
        for numbers in self._chain_numbers.values():
            numbers.forget()
        self._begin_kinds()


def _with_own_switch(scan: SampleScan) -> SampleScan:
    """Return a scan that selects the same samples, independent of other scans: a switch follows the samples of one pass."""
    chosen = scan.folding.sample_filter
    if chosen.switch is None:
        return scan
    switch = copy(chosen.switch)
    switch.restart()
    return scan.with_filter(chosen._replace(switch=switch))


def fold_together(folds: Sequence[Fold]) -> None:
    """Fold the samples of one recording, in order of delivery, for each fold.

    Stacks are unwound as for the first scan with unwinding, so `max_stack` must be equal; `callers_first` only decides which part stays of
    a kernel's callchain that exceeds it.
    """
    scans = [fold.scan for fold in folds]
    unwinding = _share_unwinding(scans)
    fields = {name for fold in folds for name in (*fold.scan.fields(), *fold.fields)}
    groups = _groups(folds)
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


def _groups(folds: Sequence[Fold]) -> list[_Group]:
    """Return groups of folds, in order of the first of each."""
    groups: list[list[Fold]] = []
    for fold in folds:
        same = next((group for group in groups if group[0].scan.selects_as(fold.scan)), None)
        if same is None:
            groups.append([fold])
        else:
            same.append(fold)
    return [_Group(group) for group in groups]


def _share_unwinding(scans: Sequence[SampleScan]) -> UserCallchains | None:
    """Let all scans that unwind stacks use the unwinder of the first of them; return it."""
    unwinding = next((scan.unwinding for scan in scans if scan.unwinding is not None), None)
    for scan in scans:
        if scan.unwinding is not None:
            scan.unwinding = unwinding
    return unwinding
