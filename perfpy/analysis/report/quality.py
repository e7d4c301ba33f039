"""How far a profile can be trusted.

What enters: a Report. What leaves: a line for each thing that makes its
numbers less certain than they look.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import PerfType, SampleType
from perfpy.analysis.samples.locations import ROLE_BITS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.analysis.report.histogram import Histogram
    from perfpy.analysis.report.report import Report

_FEW: Final = 400  # with fewer samples a share of 50 % is known to 5 points only
_MUCH: Final = 5.0  # percent of the period that deserve a line


def margin(percent: float, samples: int) -> float:
    """Half the width of the range that holds a share with 95 % probability, in points, from counting statistics alone."""
    share = percent / 100
    return 196 * math.sqrt(max(share * (1 - share), 0.0) / samples) if samples else 100.0


def quality_notes(report: Report) -> Iterator[str]:
    """The lines."""
    if report.lost:
        share = 100 * report.lost / (report.lost + report.samples)
        yield f"{report.lost:,} samples were lost ({share:.1f} %): record with more memory (-m) or a lower frequency (-F)"
    if report.dropped:
        yield f"{report.dropped:,} records were lost, the buffer was full: record with more memory (-m) or a lower frequency (-F)"
    attrs = [histogram.leader.event.attr for histogram in report.histograms]
    if not any(attr.sample_type & SampleType.CALLCHAIN or attr.type == PerfType.TRACEPOINT for attr in attrs):
        yield "no callchains were recorded: -g shows who calls what"
    for histogram in report.histograms:
        samples = histogram.leader.samples
        if samples:
            yield from _notes_of(histogram, samples)


def _notes_of(histogram: Histogram, samples: int) -> Iterator[str]:
    name = histogram.leader.event.name
    if samples < _FEW:
        points = margin(50, samples)
        yield f"{name}: {samples} samples only; a share of 50 % may be {points:.0f} points off: record longer or with a higher -F"
    unnamed = _unnamed_percent(histogram)
    if unnamed >= _MUCH:
        yield f"{name}: {unnamed:.0f} % is in code without symbols"


def _unnamed_percent(histogram: Histogram) -> float:
    """The share of samples whose location has no symbol; 0 in reports that do not look at locations."""
    if not any(key.of_location for key in histogram.layout.keys):
        return 0.0
    frames = histogram.entries.location[histogram.order] >> ROLE_BITS
    unnamed = histogram.order[histogram.locations.symbol[frames] < 0]
    return histogram.share(int(histogram.entries.measures["period"][unnamed, 0].sum()))


def filtered_rows_notes(report: Report) -> Iterator[str]:
    """Where rows are shown or hidden by their first samples: how many samples of other kinds than asked for that shows or hides."""
    for histogram in report.histograms:
        for event in histogram.events:
            if event.kept_samples != event.shown_samples:
                yield (
                    f"{event.event.name}: the filters leave {event.kept_samples:,} samples, the rows shown have {event.shown_samples:,}: "
                    f"in plain text rows are shown or hidden by their first samples, as in perf; --json filters samples"
                )
