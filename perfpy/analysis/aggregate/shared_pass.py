"""Fold the samples of one recording in several ways while they are read once.

Reading, unwinding and hashing of callchains take most of the time of a pass, and all folds share them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from perfpy.analysis.aggregate.overflow import memory_for
from perfpy.analysis.aggregate.profile import Profile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.analysis.aggregate.scan import SampleScan
    from perfpy.analysis.samples.sample_view import SampleView
    from perfpy.unwind.callchains import UserCallchains


class Fold:
    """A scan's profile, which grows with each batch of samples.

    Attributes:
        fields: columns of samples to read besides those of the scan.
        is_ranked: whether rows keep their positions (Profile.ranks), and so stay in memory.
        rows: the row of each sample of the last batch.
    """

    def __init__(self, scan: SampleScan, fields: Sequence[str] = (), *, is_ranked: bool = False) -> None:
        self.scan = scan
        self.fields = fields
        self.is_ranked = is_ranked
        self.profile = Profile(scan.folding)
        self.rows = np.zeros(0, np.int32)

    def begin(self, memory: int | None) -> None:
        """Start over without samples. memory: limit in bytes, None for no limit."""
        self.profile = Profile(self.scan.folding, None if self.is_ranked else memory)

    def add(self, samples: SampleView) -> None:
        """Fold one batch."""
        self.rows = self.profile.add(samples)

    def end(self) -> None:
        """Release the memory of the profile, which is no longer needed."""
        self.begin(None)


def fold_together(folds: Sequence[Fold]) -> None:
    """Fold the samples of one recording, in order of delivery, for each fold.

    Stacks are unwound as for the first scan with unwinding, so `max_stack` must be equal; `callers_first` only decides which part stays of
    a kernel's callchain that exceeds it.
    """
    scans = [fold.scan for fold in folds]
    memory = memory_for(scans[0].data.sample_counts.total())
    for fold in folds:
        fold.begin(memory and memory // len(folds))
    if any(scan.folding.sample_filter.switch is not None for scan in scans):  # a switch follows one pass
        for fold in folds:
            for samples in fold.scan.delivered_samples(fold.fields):
                fold.add(samples)
        return
    unwinding = _share_unwinding(scans)
    fields = {name for fold in folds for name in (*fold.scan.fields(), *fold.fields)}
    for samples in scans[0].delivered(fields, unwinding):
        # one view for each symbolizer, so that folds share what it has computed
        views = {id(scan.symbolizer): samples.named_by(scan.timeline, scan.symbolizer) for scan in scans}
        for fold in folds:
            for part in fold.scan.select(views[id(fold.scan.symbolizer)]):
                fold.add(part)


def _share_unwinding(scans: Sequence[SampleScan]) -> UserCallchains | None:
    """Let all scans that unwind stacks use the unwinder of the first of them; return it."""
    unwinding = next((scan.unwinding for scan in scans if scan.unwinding is not None), None)
    for scan in scans:
        if scan.unwinding is not None:
            scan.unwinding = unwinding
    return unwinding
