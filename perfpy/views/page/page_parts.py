"""What a page shows of a recording, folded in one pass over its samples: stacks, code, source lines and the verdict's reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from perfpy.analysis.aggregate.shared_pass import Fold, fold_together
from perfpy.analysis.annotation import BY_FUNCTION, Annotation
from perfpy.analysis.filters import SampleFilter
from perfpy.analysis.locations import Locations
from perfpy.analysis.report.options import ReportOptions, plan_report
from perfpy.analysis.report.report import PlannedReport, planned_scan
from perfpy.analysis.source_files import FrameLines, line_frames, source_scan, source_shares
from perfpy.analysis.stacks import plan_stacks
from perfpy.views.page.page import PageParts
from perfpy.views.page.profile_data import MOST_SINGLE, PageSites, has_few_payloads
from perfpy.views.verdict.profile import HeadlineReports, HeadlineSource, headline_options, headline_symbols

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from perfpy.analysis.report.report import Report
    from perfpy.analysis.source_files import SourceShares
    from perfpy.analysis.stacks import Stacks
    from perfpy.symbols.address_spaces import TaskTimeline
    from perfpy.symbols.files.debug_files import SymbolOptions
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.views.tracepoints.event_text import PayloadTexts


class PartsSource(HeadlineSource, Protocol):
    """The part of a recording that page_parts() needs."""

    @property
    def shared_symbols(self) -> AbstractContextManager[object]:
        """A context in which equal requests get one timeline and symbolizer."""

    def naming(self, symbols: SymbolOptions | None = None, *, keep_exited: bool = True) -> tuple[TaskTimeline, Symbolizer]:
        """Return a timeline and a symbolizer."""

    def within(self, sample_filter: SampleFilter) -> SampleFilter:
        """Combine a filter with that of the recording."""

    def payloads(self, symbolizer: Symbolizer) -> PayloadTexts | None:
        """Return the texts of tracepoint data."""


class _FoldedReport:
    """A report, folded together with others."""

    def __init__(self, recording: PartsSource, options: ReportOptions, symbols: SymbolOptions | None) -> None:
        options = options._replace(sample_filter=recording.within(options.sample_filter))
        timeline, symbolizer = recording.naming(symbols, keep_exited=options.names.keep_exited)
        plan = plan_report(recording.data, options)
        scan, machine = planned_scan(plan, recording.data, timeline, symbolizer)
        self._planned = PlannedReport(plan, scan, machine, recording.payloads(symbolizer))
        self.fold = Fold(scan)

    def report(self) -> Report:
        """Return the report."""
        return self._planned.report(self.fold.profile)


def page_parts(
    recording: PartsSource,
    sample_filter: SampleFilter | None = None,
    symbols: SymbolOptions | None = None,
    *,
    stacks: Sequence[Stacks] | None = None,
    latency: bool = False,
    code: bool = True,
) -> PageParts:
    """Return the parts of a recording's page; without samples the stacks are empty.

    Args:
        stacks: to show; None for those of all samples.
        latency: weight samples of stacks by shares of the wall clock.
        code: with source lines.
    """
    with recording.shared_symbols:
        chosen = sample_filter or SampleFilter()
        within = recording.within(chosen)
        timeline, symbolizer = recording.naming(symbols)
        planned = plan_stacks(recording.data, timeline, symbolizer, within, timed=True, latency=latency, most_samples=MOST_SINGLE,
                              payloads=has_few_payloads(recording.data))  # fmt: skip
        hot = _FoldedReport(recording, ReportOptions(sample_filter=chosen).by_address(BY_FUNCTION), symbols)
        of_report, of_waits = headline_symbols(recording, symbols)
        headline = _FoldedReport(recording, headline_options(chosen), of_report)
        waits = None if of_waits is None else _FoldedReport(recording, headline_options(chosen), of_waits)
        of_lines = source_scan(recording.data, timeline, symbolizer, within)
        lines = Fold(of_lines) if of_lines.folding.chains else hot.fold
        if code:
            planned.keep_sites(lines)
        needed = {hot.fold: True, headline.fold: True, lines: code, planned.fold: stacks is None}
        fold_together([*(fold for fold, is_needed in needed.items() if is_needed), *([] if waits is None else [waits.fold])])
        if stacks is None:
            stacks = planned.stacks(planned.fold.profile)
        planned.fold.end()
        annotation = Annotation(hot.report(), symbolizer)
        reports = HeadlineReports(headline.report(), None if waits is None else waits.report)
        files = source_shares(recording.data, symbolizer, within, lines.profile.folded, lines.profile.chains) if code else []
        return PageParts(stacks, annotation, reports, files, _sites(symbolizer, lines, files) if code else None)


def _sites(symbolizer: Symbolizer, lines: Fold, files: Sequence[SourceShares]) -> PageSites:
    """Return the sites of samples. lines: the samples of source_shares()."""
    locations, folded = Locations(symbolizer), lines.profile.folded
    frame_lines = FrameLines.joined([one.frame_lines for one in files if one.frame_lines is not None])
    return PageSites(folded.dimensions["frame"], line_frames(folded, lines.profile.chains, locations), locations, frame_lines)
