"""Pages of one recording, and of the changes between two."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from perfpy.analysis.filters.sample_filter import SampleFilter
from perfpy.views.page.code_data import code_data, file_data
from perfpy.views.page.marks import MarkSource, make_marks
from perfpy.views.page.page import PageText, render
from perfpy.views.page.profile_data import StackSource, page_stacks
from perfpy.views.page.verdict import PageSource, page_text
from perfpy.views.page.wait_lanes import make_wait_lanes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.analysis.annotation.annotation import Annotation
    from perfpy.analysis.annotation.source_files import SourceShares
    from perfpy.analysis.stacks.stacks import Stacks
    from perfpy.symbols.files.debug_files import SymbolOptions
    from perfpy.views.page.page_sites import PageSites
    from perfpy.views.verdict.profile import HeadlineReports


class PageParts(NamedTuple):
    """The parts of a recording that a page shows.

    Attributes:
        stacks: of each event, with single samples.
        annotation: the samples of all functions.
        reports: of the headline.
        files: the samples of source lines.
        sites: the places in code of single samples; None without.
    """

    stacks: Sequence[Stacks]
    annotation: Annotation
    reports: HeadlineReports
    files: Sequence[SourceShares]
    sites: PageSites | None = None


class RecordedProfile(StackSource, MarkSource, PageSource, Protocol):
    """The part of a recording that its page needs."""

    sample_filter: SampleFilter | None

    @property
    def path(self) -> str:
        """The file."""


def page_of(
    recording: RecordedProfile, parts: PageParts, symbols: SymbolOptions | None, sample_filter: SampleFilter | None, *, code: bool = True
) -> str:
    """Return the page of a recording. code: with the code of functions."""
    stacks, annotation, reports, files, sites = parts
    marks = make_marks(recording, stacks, symbols, sampled_only=(sample_filter or recording.sample_filter) is not None)
    text = page_text(recording, annotation.report, stacks, reports)
    functions = code_data(annotation, sites) if code else []
    has_all = all(one is None or one == SampleFilter() for one in (sample_filter, recording.sample_filter))
    lanes = make_wait_lanes(recording.data) if has_all else []
    return render(stacks, text, code=functions, files=file_data(files, sites), marks=marks, sites=sites, lanes=lanes)


def changes_page(
    before: RecordedProfile, after: RecordedProfile, stacks: Sequence[Sequence[Stacks]] | None, symbols: SymbolOptions | None
) -> str:
    """Return the page of the changes from one recording to another."""
    both = (before, after)
    first, second = stacks or [page_stacks(one, symbols) for one in both]
    titles = [f"{one.path}: {', '.join([one.title, *one.environment])}" for one in both]
    return render(first, PageText(f"{before.path} \N{RIGHTWARDS ARROW} {after.path}", titles), after=second)
