"""Pages of one recording, and of the changes between two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from perfpy.analysis.entries.options import ReportOptions
from perfpy.analysis.filters.sample_filter import SampleFilter
from perfpy.views.page.code_data import code_data, file_data
from perfpy.views.page.marks import MarkSource, make_marks
from perfpy.views.page.page import PageText, render
from perfpy.views.page.profile_data import StackSource, page_stacks
from perfpy.views.page.verdict import PageSource, page_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from perfpy.analysis.annotation.annotation import Annotation
    from perfpy.analysis.annotation.source_files import SourceShares
    from perfpy.analysis.stacks.stacks import Stacks
    from perfpy.symbols.files.debug_files import SymbolOptions


class RecordedProfile(StackSource, MarkSource, PageSource, Protocol):
    """The part of a recording that its page needs."""

    sample_filter: SampleFilter | None

    @property
    def path(self) -> str:
        """The file."""

    @property
    def shared_symbols(self) -> AbstractContextManager[object]:
        """A context in which passes over the samples share their symbols."""

    def annotate(self, *, options: ReportOptions | None = None, symbols: SymbolOptions | None = None) -> Annotation:
        """Return the code of functions."""

    def source_files(
        self, *, sample_filter: SampleFilter | None = None, symbols: SymbolOptions | None = None, annotation: Annotation | None = None
    ) -> list[SourceShares]:
        """Return the samples of each source line."""


def page_of(
    recording: RecordedProfile,
    stacks: Sequence[Stacks] | None,
    sample_filter: SampleFilter | None,
    symbols: SymbolOptions | None,
    *,
    code: bool,
) -> str:
    """Return the page of a recording. The passes over its samples share their symbols."""
    with recording.shared_symbols:
        parts = page_stacks(recording, symbols, sample_filter=sample_filter) if stacks is None else stacks
        marks = make_marks(recording, parts, symbols, sampled_only=(sample_filter or recording.sample_filter) is not None)
        hot = recording.annotate(options=ReportOptions(sample_filter=sample_filter or SampleFilter()), symbols=symbols)
        text = page_text(recording, hot.report, parts, sample_filter, symbols)
        files = recording.source_files(sample_filter=sample_filter, symbols=symbols, annotation=hot) if code else []
    return render(parts, text, code=code_data(hot) if code else [], files=file_data(files), marks=marks)


def changes_page(
    before: RecordedProfile, after: RecordedProfile, stacks: Sequence[Sequence[Stacks]] | None, symbols: SymbolOptions | None
) -> str:
    """Return the page of the changes from one recording to another."""
    both = (before, after)
    first, second = stacks or [page_stacks(one, symbols) for one in both]
    titles = [f"{one.path}: {', '.join([one.title, *one.environment])}" for one in both]
    return render(first, PageText(f"{before.path} \N{RIGHTWARDS ARROW} {after.path}", titles), after=second)
