"""Lines on the accuracy of a page's profile: first the margins of error, then its limitations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from perfpy.abi.samples.pace import is_sampled_each_time
from perfpy.analysis.report.quality import margin, quality_notes
from perfpy.analysis.samples.wait_events import is_off_cpu
from perfpy.analysis.verdict.evidence import VerdictSource
from perfpy.plurals import plural
from perfpy.symbols.demangling.managed_names import without_tier
from perfpy.symbols.providers.missing_symbols import note
from perfpy.unwind.truncated_stacks import note as cut_note
from perfpy.views.page.page import PageText
from perfpy.views.verdict.profile import headline
from perfpy.views.verdict.sentence import function_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.analysis.report.report import Report
    from perfpy.analysis.stacks.stacks import Stacks
    from perfpy.unwind.truncated_stacks import TruncatedStacks
    from perfpy.views.verdict.profile import HeadlineReports
    from perfpy.views.verdict.sentence import Sentence

_SHORT_WAITS: Final = (
    "waits shorter than record's --off-cpu-thresh (usually 500 ms) were added up where they were alike: "
    "the time line shows each sum as one wait that ends with the last of them"
)


#: keys of functions among the names of a sentence
_FUNCTIONS: Final = ("function", "callee", "caller")


class PageSource(VerdictSource, Protocol):
    """The part of a recording that a page's texts need."""

    @property
    def title(self) -> str:
        """The recorder's command line, or the path."""

    @property
    def environment(self) -> list[str]:
        """Host, kernel, architecture and duration, as short phrases."""


def page_text(recording: PageSource, report: Report, parts: Sequence[Stacks], reports: HeadlineReports) -> PageText:
    """Return the texts of a recording's page. report: with all samples of the page; parts: its stacks; reports: of its headline."""
    accuracy = verdict(report, parts[0].truncated if parts else ())
    sentences = [(one.text, _evidence(one)) for one in headline(recording, reports)]
    return PageText(recording.title, recording.environment, accuracy, sentences)


def _evidence(sentence: Sentence) -> list[tuple[str, str]]:
    """Return the functions that a sentence names, as it shows them and as they are recorded, in the order in which it names them."""
    names = [(function_text(name), without_tier(name)) for key, name in sentence.names.items() if name and key.startswith(_FUNCTIONS)]
    return sorted((pair for pair in names if pair[0] in sentence.text), key=lambda pair: sentence.text.index(pair[0]))


def verdict(report: Report, truncated: Sequence[TruncatedStacks] = ()) -> list[str]:
    """Return the lines. truncated: stack copies that were too short."""
    doubts = [*quality_notes(report), *note(report.missing, report.samples), *report.notes, *cut_note(truncated)]
    if any(is_off_cpu(histogram.leader.event) for histogram in report.histograms):
        doubts.append(_SHORT_WAITS)
    counted = f"{report.samples:,} {plural(report.samples, 'sample')}, {f'{report.lost:,} lost' if report.lost else 'none lost'}"
    return [f"{counted}: {_accuracy(report)}", *(doubt.strip() for doubt in doubts)]


def _accuracy(report: Report) -> str:
    """Return how close shares are to those of all events."""
    events = [histogram.leader.event for histogram in report.histograms]
    if any(event.has_waits for event in events):
        return "waits are measured, time on the CPU is sampled"
    if events and all(is_sampled_each_time(event.attr) for event in events):
        return "not every event has its sample" if report.lost else "every event has its sample, shares are exact"
    half, small = (f"{margin(share, report.samples):.2g}" for share in (50, 5))
    return f"a share of 50 % is accurate to {half} points, a share of 5 % to {small}"
