"""Render a profile as one self-contained HTML file: page.html with its style, scripts and data.

A policy in the page (Content Security Policy,
level 3) lets the browser run only these scripts, by their hash; they load nothing, send nothing, and create no markup from text.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from perfpy.abi.attr import is_sampled_each_time
from perfpy.analysis.aggregate.shared_pass import Fold, fold_together
from perfpy.analysis.annotation import BY_FUNCTION, Annotation
from perfpy.analysis.filters import SampleFilter
from perfpy.analysis.locations import Locations
from perfpy.analysis.report.options import ReportOptions, plan_report
from perfpy.analysis.report.report import PlannedReport, margin, planned_scan, quality_notes
from perfpy.analysis.sample_view import is_off_cpu
from perfpy.analysis.source_files import FrameLines, line_frames, source_scan, source_shares
from perfpy.analysis.stacks import plan_stacks
from perfpy.errors import plural
from perfpy.symbols.demangling.demangle import without_tier
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.symbols.interpreters import has_python_image
from perfpy.symbols.quality_notes import note
from perfpy.untrusted.page import page_json
from perfpy.unwind.truncated_stacks import note as cut_note
from perfpy.views.page.code_data import code_data, file_data
from perfpy.views.page.marks import make_marks, make_wait_lanes
from perfpy.views.page.profile_data import PageSites, numbered_marks, page_options, profile_data
from perfpy.views.verdict.profile import HeadlineReports, headline_options, profile_verdict
from perfpy.views.verdict.sentence import function_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfpy.analysis.report.report import Report
    from perfpy.analysis.source_files import SourceShares
    from perfpy.analysis.stacks import Stacks
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.unwind.truncated_stacks import TruncatedStacks
    from perfpy.views.page.marks import Marks, WaitLane
    from perfpy.views.recorded import Recorded
    from perfpy.views.verdict.sentence import Sentence


_FOLDER: Final = Path(__file__).parent
#: each may use the exports of those before it
SCRIPTS: Final = (
    *(
        f"model/{name}"
        for name in ("words", "trees", "unpack", "tries", "detail", "selection", "categories", "forms", "activity", "heat_cells", "marks")
    ),
    *(f"model/{name}" for name in ("stack_order", "permalink", "wait_lanes")),
    *(f"views/{name}" for name in ("elements", "brush", "flame", "tracks", "heat", "functions", "call_tree", "stack_chart", "marks_table")),
    *(f"views/{name}" for name in ("code", "details", "toolbar", "headline", "controls")),
    "main",
)
_IMPORT: Final = re.compile(r'^import \{ (.*) \} from "(?:\.\.?/)*(?:\w+/)?(\w+)\.js";\n', re.MULTILINE)
#: comments that begin a line; a test refuses texts over several lines, which would lose their indentation
_COMMENT: Final = re.compile(r"^[ ]*/\*.*?\*/[ ]*\n", re.MULTILINE | re.DOTALL)
_INDENT: Final = re.compile(r"^\s+", re.MULTILINE)
_EXPORT: Final = re.compile(r"^export (?=(?:async )?(?:function|const|let|class) (\w+))", re.MULTILINE)


class PageText(NamedTuple):
    """The texts of a page.

    Attributes:
        title: of the recording.
        environment: short phrases (host, seconds ...).
        verdict: lines on the accuracy.
        headline: sentences on where the time goes, each with the names in it, as (shown, recorded).
    """

    title: str
    environment: Sequence[str] = ()
    verdict: Sequence[str] = ()
    headline: Sequence[tuple[str, Sequence[tuple[str, str]]]] = ()


def render(
    parts: Sequence[Stacks],
    text: PageText,
    *,
    after: Sequence[Stacks] | None = None,
    code: Sequence[Mapping[str, Any]] = (),
    files: Sequence[Mapping[str, Any]] = (),
    starred: Mapping[str, Mapping[tuple[str, str], str]] | None = None,
    marks: Marks | None = None,
    sites: PageSites | None = None,
    lanes: Sequence[WaitLane] = (),
) -> str:
    """Return the page.

    Args:
        parts: the stacks of each event.
        text: title and notes.
        after: those of a second recording, to show changes; events that only one has are skipped.
        code: functions with their instructions; files: source files with their lines (perfpy.views.page.code_data).
        starred: for each event, (name, file) of functions with a significant change -> text.
        marks: forks, switches and other moments of one recording.
        sites: the places in code of one recording's samples.
        lanes: waits for CPUs and locks in one recording.
    """
    data = profile_data([parts] if after is None else [parts, after], marks, sites, lanes)
    data |= {
        "title": text.title,
        "environment": list(text.environment),
        "headline": [{"text": sentence, "names": [list(pair) for pair in names]} for sentence, names in text.headline],
        "verdict": [*text.verdict, *_grain(data), *(marks.notes if marks else ())],
        "code": list(code),
        "files": list(files),
        "starred": [numbered_marks(data, (starred or {}).get(event["event"], {})) for event in data["events"]],
    }
    chunks = [page_json(columns) for columns in data.pop("chunks")]
    return assemble("page.html", SCRIPTS, data, chunks)


def assemble(frame: str, scripts: tuple[str, ...], data: Mapping[str, Any], chunks: Sequence[str] = ()) -> str:
    """Return a page: a frame with the style, scripts and data.

    Args:
        frame: the name of its file.
        scripts: their names, each after those whose exports it uses.
        data: for the scripts, names from recordings included.
        chunks: more data, which come last, so that the page is drawn before the browser reads them.
    """
    page, style, script = _parts(frame, scripts)
    pieces = {
        "POLICY": f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; base-uri 'none'; "
        f"form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
        "STYLE": style,
        "DATA": page_json(data),
        "CHUNKS": "".join(f'<script type="application/json" id="chunk-{number}">{text}</script>\n' for number, text in enumerate(chunks)),
        "SCRIPT": script,
    }
    return re.sub(r"/\*([A-Z]+)\*/", lambda match: pieces[match[1]], page)


def _grain(data: Mapping[str, Any]) -> list[str]:
    """Return notes on the levels of detail."""
    notes = []
    if data["each"] > 1:
        notes.append(f"long ranges of time show one of {data['each']} samples, short ones every sample; sums of all samples are exact")
    if data["together"]:
        notes.append(f"samples that differ by less than {data['tick'] / 1e6:.3g} ms are merged: times and ranges are no finer")
    return notes


@cache
def _parts(frame: str, names: tuple[str, ...]) -> tuple[str, str, str]:
    """Return a page's frame, its style and its script."""
    page, style = ((_FOLDER / name).read_text(encoding="utf-8") for name in (frame, "page.css"))
    scripts = [_scoped(name, (_FOLDER / "scripts" / f"{name}.js").read_text(encoding="utf-8")) for name in names]
    return page, style, '"use strict";\n(() => {\n' + "\n".join(scripts) + "\n})();\n"


def _scoped(name: str, text: str) -> str:
    """Return a module as a function that returns its exports, so that modules do not share names; without comments and indentation."""
    exports = ", ".join(match[1] for match in _EXPORT.finditer(text))
    body = _EXPORT.sub("", _IMPORT.sub(lambda match: f"const {{ {match[1]} }} = module_{match[2]};\n", text))
    body = _INDENT.sub("", _COMMENT.sub("", body))
    return f"const module_{name.rpartition('/')[2]} = (() => {{\n{body}\nreturn {{ {exports} }};\n}})();"


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


# Lines on the accuracy of a page's profile: first the margins of error, then its limitations.


_SHORT_WAITS: Final = (
    "waits shorter than record's --off-cpu-thresh (usually 500 ms) were added up where they were alike: "
    "the time line shows each sum as one wait that ends with the last of them"
)


#: keys of functions among the names of a sentence
_FUNCTIONS: Final = ("function", "callee", "caller")


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


# Pages of one recording, and of the changes between two.


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


class _FoldedReport:
    """A report, folded together with others."""

    def __init__(self, recording: Recorded, options: ReportOptions, symbols: SymbolOptions | None) -> None:
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
    recording: Recorded,
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
        planned = plan_stacks(recording.data, timeline, symbolizer, page_options(recording, within, latency=latency))
        hot = _FoldedReport(recording, ReportOptions(sample_filter=chosen).by_address(BY_FUNCTION), symbols)
        where = symbols or recording.symbol_options or SymbolOptions()
        has_python = has_python_image(recording.data.kept_files)
        headline = _FoldedReport(recording, headline_options(chosen), where._replace(fold_interpreters=True) if has_python else where)
        waits = _FoldedReport(recording, headline_options(chosen), where) if has_python else None  # with the frames of interpreters
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


def page_of(
    recording: Recorded, parts: PageParts, symbols: SymbolOptions | None, sample_filter: SampleFilter | None, *, code: bool = True
) -> str:
    """Return the page of a recording. code: with the code of functions."""
    stacks, annotation, reports, files, sites = parts
    marks = make_marks(recording, stacks, symbols, sampled_only=(sample_filter or recording.sample_filter) is not None)
    accuracy = verdict(annotation.report, stacks[0].truncated if stacks else ())
    sentences = [(one.text, _evidence(one)) for one in profile_verdict(reports.report, recording.data, reports.waits)]
    text = PageText(recording.title, recording.environment, accuracy, sentences)
    functions = code_data(annotation, sites) if code else []
    has_all = all(one is None or one == SampleFilter() for one in (sample_filter, recording.sample_filter))
    lanes = make_wait_lanes(recording.data) if has_all else []
    return render(stacks, text, code=functions, files=file_data(files, sites), marks=marks, sites=sites, lanes=lanes)


def changes_page(before: Recorded, after: Recorded, stacks: Sequence[Sequence[Stacks]] | None, symbols: SymbolOptions | None) -> str:
    """Return the page of the changes from one recording to another."""
    both = (before, after)
    first, second = stacks or [one.stacks(symbols, page_options(one)) for one in both]
    titles = [f"{one.path}: {', '.join([one.title, *one.environment])}" for one in both]
    return render(first, PageText(f"{before.path} \N{RIGHTWARDS ARROW} {after.path}", titles), after=second)
