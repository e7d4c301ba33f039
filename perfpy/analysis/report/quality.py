"""Notes on the accuracy of a profile."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import PerfType, SampleType
from perfpy.abi.samples.pace import is_sampled_each_time, option_for_fewer
from perfpy.analysis.samples.locations import ROLE_BITS
from perfpy.analysis.samples.wait_events import is_off_cpu
from perfpy.plurals import plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.analysis.report.histogram import Histogram
    from perfpy.analysis.report.report import Report

_FEW: Final = 400  # with fewer samples a share of 50 % is accurate to 5 points only
_MUCH: Final = 5.0  # percent of the period that deserve a note
_FEWER: Final = {"-F": "a lower frequency (-F)", "-c": "a higher count (-c)", "--filter": "a filter (--filter)", "": ""}


def margin(percent: float, samples: int) -> float:
    """Return half the width of a share's 95 % confidence interval, in points, from counting statistics alone."""
    share = percent / 100
    return 196 * math.sqrt(max(share * (1 - share), 0.0) / samples) if samples else 100.0


def quality_notes(report: Report, *, few: bool = True) -> Iterator[str]:
    """Yield the notes. few: including those on events with few samples."""
    attrs = [histogram.leader.event.attr for histogram in report.histograms]
    fewer = _FEWER[option_for_fewer(attrs)]
    remedy = f"record with a larger buffer (-m) or {fewer}" if fewer else "record with a larger buffer (-m)"
    if report.lost:
        share = 100 * report.lost / (report.lost + report.samples)
        yield f"{report.lost:,} {plural(report.lost, 'sample was', 'samples were')} lost ({share:.1f} %); {remedy}"
    if report.dropped:
        yield f"{report.dropped:,} {plural(report.dropped, 'record was', 'records were')} lost, the buffer was full; {remedy}"
    if not any(attr.sample_type & SampleType.CALLCHAIN or attr.type == PerfType.TRACEPOINT for attr in attrs):
        yield "no callchains recorded; record with -g to see callers"
    sampled = [histogram for histogram in report.histograms if histogram.leader.samples]
    has_one_event = sum(not is_off_cpu(histogram.leader.event) for histogram in sampled) == 1
    for histogram in sampled:
        if lacks_stacks(histogram):
            yield f"{histogram.leader.event.name}: no stacks; record as root, or with sysctl kernel.perf_event_paranoid=1"
        else:
            yield from _notes_of(histogram, histogram.leader.samples, few=few, is_named=not has_one_event)


def lacks_stacks(histogram: Histogram) -> bool:
    """Whether the rows are waits without stacks: the kernel hides its code from ordinary users, and so where threads wait."""
    if not is_off_cpu(histogram.leader.event) or not any(key.of_location for key in histogram.layout.keys):
        return False
    frames = histogram.entries.location[histogram.order] >> ROLE_BITS
    return bool(len(frames) and not histogram.locations.ip[frames].any())


def _notes_of(histogram: Histogram, samples: int, *, few: bool, is_named: bool) -> Iterator[str]:
    """Yield the notes of one event. is_named: whether they begin with its name."""
    event = histogram.leader.event
    name = event.name
    if few and samples < _FEW and not (is_sampled_each_time(event.attr) or event.has_waits):
        points = margin(50, samples)
        more = "raise -F" if event.attr.freq else "lower -c"
        only = f"only {samples} {plural(samples, 'sample')}"
        yield f"{f'{name}: ' if is_named else ''}{only}; shares are accurate to ±{points:.0f} points; record longer or {more}"
    unnamed = _unnamed_percent(histogram)
    if unnamed >= _MUCH:
        yield f"{name}: {unnamed:.0f} % is in code without symbols"


def _unnamed_percent(histogram: Histogram) -> float:
    """Return the share of samples in code without symbols; 0 in reports without locations."""
    if not any(key.of_location for key in histogram.layout.keys):
        return 0.0
    frames = histogram.entries.location[histogram.order] >> ROLE_BITS
    unnamed = histogram.order[histogram.locations.symbol[frames] < 0]
    return histogram.share(int(histogram.entries.measures["period"][unnamed, 0].sum()))


def filtered_rows_notes(report: Report) -> Iterator[str]:
    """Yield a note for each event if plain text filters rows by their first sample: the numbers of samples differ."""
    for histogram in report.histograms:
        for event in histogram.events:
            if event.kept_samples != event.shown_samples:
                words = plural(event.kept_samples, "sample passes", "samples pass")
                yield (
                    f"{event.event.name}: {event.kept_samples:,} {words} the filters, the rows have {event.shown_samples:,}: "
                    f"plain text filters rows by their first sample, as perf does; --json filters samples"
                )
