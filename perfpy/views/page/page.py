"""Render a profile as one self-contained HTML file: page.html with its style, scripts and data.

A policy in the page (Content Security Policy,
level 3) lets the browser run only these scripts, by their hash; they load nothing, send nothing, and create no markup from text.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from functools import cache
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.abi.attr import is_sampled_each_time
from perfpy.abi.perfpy_encodings import PYTHON_MARK
from perfpy.analysis.aggregate.shared_pass import Fold, fold_together
from perfpy.analysis.annotation import BY_FUNCTION, Annotation
from perfpy.analysis.differences import Compute, differences
from perfpy.analysis.filters import SampleFilter
from perfpy.analysis.locations import Locations
from perfpy.analysis.report.options import ColumnOptions, ReportOptions
from perfpy.analysis.report.report import margin, quality_notes
from perfpy.analysis.sample_view import is_off_cpu
from perfpy.analysis.source_files import FrameLines, line_frames, source_scan, source_shares
from perfpy.analysis.stacks import plan_stacks
from perfpy.analysis.verdict.evidence import Evidence
from perfpy.disassembly.disassembler import CodeStyle
from perfpy.errors import plural
from perfpy.symbols.demangling.demangle import without_tier
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.symbols.quality_notes import note, truncation_note
from perfpy.untrusted.files import read_regular
from perfpy.untrusted.page import page_json
from perfpy.untrusted.text import visible
from perfpy.views.page.marks import PagePhase, make_marks, make_wait_lanes
from perfpy.views.page.profile_data import MOST_CHAINS, PageSites, numbered_marks, page_options, profile_data
from perfpy.views.readable import at_a_glance, source_file
from perfpy.views.verdict.comparisons import change_verdict
from perfpy.views.verdict.profile import FoldedReport, HeadlineReports, charged_amounts, headline_options, verdict_of
from perfpy.views.verdict.sentence import FEW_SAMPLES, builtin_text, function_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from perfpy.analysis.annotation import AnnotatedFunction, CodeRow
    from perfpy.analysis.report.report import Report
    from perfpy.analysis.source_files import SourceFile, SourceShares
    from perfpy.analysis.stacks import Stacks
    from perfpy.analysis.verdict.processes import ProcessRow
    from perfpy.symbols.quality_notes import TruncatedStacks
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.views.page.marks import Marks, WaitChains, WaitLane
    from perfpy.views.recorded import Recorded
    from perfpy.views.verdict.sentence import Sentence


_FOLDER: Final = Path(__file__).parent
#: each may use the exports of those before it
SCRIPTS: Final = (
    *(
        f"model/{name}"
        for name in (
            "words",
            "trees",
            "verdicts",
            "kinds",
            "stretches",
            "wait_chains",
            "unpack",
            "tries",
            "detail",
            "selection",
            "categories",
            "function_sums",
            "forms",
            "activity",
            "heat_cells",
        )
    ),
    *(f"model/{name}" for name in ("loading", "task_tree", "marks", "stack_order", "permalink", "wait_lanes")),
    *(
        f"views/{name}"
        for name in (
            "elements",
            "brush",
            "flame",
            "tracks",
            "heat",
            "functions",
            "call_tree",
            "stack_chart",
            "marks_table",
            "code",
            "wait_view",
        )
    ),
    *(f"views/{name}" for name in ("details", "toolbar", "headline", "said", "controls")),
    "main",
)
_IMPORT: Final = re.compile(r'^import \{ (.*) \} from "(?:\.\.?/)*(?:\w+/)?(\w+)\.js";\n', re.MULTILINE)
#: comments that begin a line; a test refuses texts over several lines, which would lose their indentation
_COMMENT: Final = re.compile(r"^[ ]*/\*.*?\*/[ ]*\n", re.MULTILINE | re.DOTALL)
_INDENT: Final = re.compile(r"^\s+", re.MULTILINE)
_EXPORT: Final = re.compile(r"^export (?=(?:async )?(?:function|const|let|class) (\w+))", re.MULTILINE)


class HeadlineSentence(NamedTuple):
    """A sentence of the headline.

    Attributes:
        text: the sentence.
        names: the functions that it names, as (shown, recorded).
        column: the column of the table of functions that has the sentence's share.
        subject: "CPU" or "waits", which the page opens with; "" for sentences on the recording itself.
        hottest: the function with the sentence's share, or else what calls it: as shown, as recorded, share of the time.
    """

    text: str
    names: Sequence[tuple[str, str]] = ()
    column: str = "charged"
    subject: str = ""
    hottest: Sequence[tuple[str, str, float]] = ()

    def values(self) -> dict[str, Any]:
        """Return the sentence as data of the page."""
        return self._asdict() | {"names": [list(pair) for pair in self.names], "hottest": [list(part) for part in self.hottest]}


class PageText(NamedTuple):
    """The texts of a page.

    Attributes:
        title: of the recording.
        environment: short phrases (host, seconds ...).
        verdict: lines on the accuracy.
        headline: sentences on where the time goes.
        processes: those of a service with several workers.
    """

    title: str
    environment: Sequence[str] = ()
    verdict: Sequence[str] = ()
    headline: Sequence[HeadlineSentence] = ()
    processes: Sequence[ProcessRow] = ()


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
    waits: WaitChains | None = None,
    phases: Sequence[PagePhase] = (),
) -> str:
    """Return the page.

    Args:
        parts: the stacks of each event.
        text: title and notes.
        after: those of a second recording, to show changes; events that only one has are skipped.
        code: functions with their instructions; files: source files with their lines (perfpy.views.page.page).
        starred: for each event, (name, file) of functions with a significant change -> text.
        marks: forks, switches and other moments of one recording.
        sites: the places in code of one recording's samples.
        lanes: waits for CPUs and locks in one recording.
        waits: who waited for whom in one recording.
        phases: times in which one recording's program mostly runs one function.
    """
    data = profile_data([parts] if after is None else [parts, after], marks, sites, lanes, waits, phases)
    names = {row.pid: row.name for row in text.processes}
    data["threads"] = [[pid, tid, (pid == tid and names.get(pid)) or name] for pid, tid, name in data["threads"]]
    data |= {
        "title": text.title,
        "environment": list(text.environment),
        "headline": [one.values() for one in text.headline],
        "processes": [[row.text, row.share, row.in_function, function_text(row.function), row.function] for row in text.processes],
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
        "POLICY": f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; img-src data:; worker-src blob:; "
        f"base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types perfpy",
        "STYLE": style,
        "DATA": page_json(data),
        "CHUNKS": "".join(f'<script type="application/json" id="chunk-{number}">{text}</script>\n' for number, text in enumerate(chunks)),
        "SCRIPT": script,
    }
    return re.sub(r"/\*([A-Z]+)\*/", lambda match: pieces[match[1]], page)


def _grain(data: Mapping[str, Any]) -> list[str]:
    """Return notes on the levels of detail, and on what a range of time has of summed waits."""
    notes = []
    if data["each"] > 1:
        notes.append(f"long ranges of time show one of {data['each']} samples, short ones every sample; sums of all samples are exact")
    if data["rare"]:
        share = f"{100 * data['rare']:.2g} % of the samples"
        notes.append(f"{share} have rare stacks: the page leaves out frames between the outer ones and the innermost one")
    if data["together"]:
        notes.append(f"samples that differ by less than {data['tick'] / 1e6:.3g} ms are merged: times and ranges are no finer")
    if any(event["off"] and "time" in samples for event in data["events"] for samples in event["samples"]):
        notes.append("waits below the --off-cpu threshold are recorded as sums: in a range they are where their thread did not run")
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


#: columns of the table of functions for rules whose sentences have other shares than the charged one
_COLUMNS: Final = {"hot tree": "total", "function of others": "self", "longest wait": "waits", "blocked loop": "total"}


#: the names and numbers of the function that a rule's sentence is about, the most exact first
_HOTTEST: Final = {
    "callee": (("callee", "callee"), ("function", "charged")),
    "builtin": (("callee", "callee"), ("function", "charged")),
    "kernel work": (("function", "kernel work"),),
    "hot function": (("function", "charged"),),
    "hot function and callees": (("function", "charged"),),
    "hot tree": (("function", "charged"),),
    "library function": (("library", "own"), ("function", "inside")),
    "function of others": (("function", "own"),),
    "largest share": (("function", "charged"),),
    "no function stands out": (("function", "charged"),),
}
_OF_WAITS: Final = ("longest wait", "wait beside", "wait for started", "deadlock", "lock of an ended thread")
_OF_RECORDING: Final = ("lost samples", "lost switches", "killed", "idle machine", FEW_SAMPLES)


def _headline_sentence(sentence: Sentence, busy: float) -> HeadlineSentence:
    """Return a sentence of the headline. busy: the part of the time of the CPUs that shares of samples are of."""
    subject = "waits" if sentence.rule in _OF_WAITS else "" if sentence.rule in _OF_RECORDING else "CPU"
    pairs = [(sentence.names.get(name, ""), sentence.numbers.get(number, 0.0)) for name, number in _HOTTEST.get(sentence.rule, ())]
    hottest = [(builtin_text(name) or function_text(name), without_tier(name), share * busy) for name, share in pairs if name]
    return HeadlineSentence(sentence.text, _evidence(sentence), _COLUMNS.get(sentence.rule, "charged"), subject, hottest)


def _evidence(sentence: Sentence) -> list[tuple[str, str]]:
    """Return the functions that a sentence names, as it shows them and as they are recorded, in the order in which it names them."""
    recorded = [name for key, name in sentence.names.items() if name and key.startswith(_FUNCTIONS)]
    names = [(shown, without_tier(name)) for name in recorded for shown in (function_text(name), builtin_text(name)) if shown]
    return sorted((pair for pair in names if pair[0] in sentence.text), key=lambda pair: sentence.text.index(pair[0]))


def verdict(report: Report, truncated: Sequence[TruncatedStacks] = ()) -> list[str]:
    """Return the lines. truncated: stack copies that were too short."""
    doubts = [*quality_notes(report), *note(report.missing, report.samples), *report.notes, *truncation_note(truncated)]
    if any(is_off_cpu(histogram.leader.event) for histogram in report.histograms):
        doubts.append(_SHORT_WAITS)
    lost = report.losses.samples - report.losses.switches
    counted = f"{report.samples:,} {plural(report.samples, 'sample')}, {f'{lost:,} lost' if lost else 'none lost'}"
    return [f"{counted}: {_accuracy(report)}", *(doubt.strip() for doubt in doubts)]


def _shortness(share: float) -> list[str]:
    """Return a note on stacks that lack calls. share: of the samples."""
    text = f"{100 * share:.2g} % of the samples have rare stacks, which have each function once at most, and may lack calls in their middle"
    return [text] if share else []


def _accuracy(report: Report) -> str:
    """Return how close shares are to those of all events."""
    events = [histogram.leader.event for histogram in report.histograms]
    if any(event.has_waits for event in events):
        return "waits are measured, time on the CPU is sampled"
    if events and all(is_sampled_each_time(event.attr) for event in events):
        return "not every event has its sample" if report.lost else "every event has its sample, shares are exact"
    sampled = [one.leader for one in report.histograms if one.leader.samples and not is_sampled_each_time(one.leader.event.attr)]
    shown = next((one for one in sampled if not is_off_cpu(one.event)), None)  # the page shows time on the CPU first
    samples = shown.samples if shown is not None else report.samples
    half, small = (f"{margin(share, samples):.2g}" for share in (50, 5))
    of = f"of the {samples:,} of {visible(shown.event.name)} " if shown is not None and samples < report.samples else ""
    return f"{of}a share of 50 % is accurate to {half} {'point' if half == '1' else 'points'}, a share of 5 % to {small}"


# Pages of one recording, and of the changes between two.


class PageParts(NamedTuple):
    """The parts of a recording that a page shows.

    Attributes:
        stacks: of each event, with single samples.
        annotation: the samples of all functions.
        reports: of the headline.
        files: the samples of source lines.
        sites: the places in code of single samples; None without.
        short: the share of the samples whose stacks lack calls (FineRows.share_of_short).
    """

    stacks: Sequence[Stacks]
    annotation: Annotation
    reports: HeadlineReports
    files: Sequence[SourceShares]
    sites: PageSites | None = None
    short: float = 0.0


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
        hot = FoldedReport(recording, ReportOptions(sample_filter=chosen).by_address(BY_FUNCTION), symbols)
        where = symbols or recording.symbol_options or SymbolOptions()
        headline = FoldedReport(recording, headline_options(chosen), symbols)
        unfolded = where._replace(fold_interpreters=False)  # waits show their reasons by the frames of interpreters
        waits = FoldedReport(recording, headline_options(chosen), unfolded) if symbolizer.folds_interpreters else None
        of_lines = source_scan(recording.data, timeline, symbolizer, within)
        lines = Fold(of_lines) if of_lines.folding.chains else hot.fold
        if code:
            planned.keep_sites(lines)
        needed = {hot.fold: True, headline.fold: True, lines: code, planned.fold: stacks is None}
        fold_together([*(fold for fold, is_needed in needed.items() if is_needed), *([] if waits is None else [waits.fold])], MOST_CHAINS)
        short = planned.fold.fine.share_of_short if planned.fold.fine is not None else 0.0
        if stacks is None:
            stacks = planned.stacks(planned.fold.profile)
        planned.fold.end()
        annotation = Annotation(hot.report(), symbolizer)
        reports = HeadlineReports(headline.report(), None if waits is None else waits.report)
        files = source_shares(recording.data, symbolizer, within, lines.profile.folded, lines.profile.chains) if code else []
        return PageParts(stacks, annotation, reports, files, _sites(symbolizer, lines, files) if code else None, short)


def _sites(symbolizer: Symbolizer, lines: Fold, files: Sequence[SourceShares]) -> PageSites:
    """Return the sites of samples. lines: the samples of source_shares()."""
    locations, folded = Locations(symbolizer), lines.profile.folded
    frame_lines = FrameLines.joined([one.frame_lines for one in files if one.frame_lines is not None])
    return PageSites(folded.dimensions["frame"], line_frames(folded, lines.profile.chains, locations), locations, frame_lines)


def page_of(
    recording: Recorded,
    parts: PageParts,
    symbols: SymbolOptions | None,
    sample_filter: SampleFilter | None,
    *,
    code: bool = True,
    waits: WaitChains | None = None,
    cause: Sequence[str] = (),
) -> str:
    """Return the page of a recording. code: with the code of functions; waits, cause: who waited for whom, and the verdict on it."""
    stacks, annotation, reports, files, sites, short = parts
    marks = make_marks(recording, stacks, symbols, sampled_only=(sample_filter or recording.sample_filter) is not None)
    accuracy = [*verdict(annotation.report, stacks[0].truncated if stacks else ()), *_shortness(short)]
    evidence = Evidence(reports.report, recording.data, reports.waits)
    says_more = not cause or evidence.seconds is not None  # beside the cause of waits, shares of their tracepoints say nothing
    said = verdict_of(evidence) if says_more else []
    busy = evidence.functions.busy if evidence.functions is not None else 1.0
    sentences = [_headline_sentence(one, busy) for one in said]
    phases = [PagePhase.of(phase, recording.data.sample_times[0]) for phase in evidence.phases]
    sentences = [*map(HeadlineSentence, cause), *sentences]
    text = PageText(recording.title, recording.environment, accuracy, sentences, evidence.process_rows)
    functions = with_charged_lines(code_data(annotation, sites), evidence) if code else []
    has_all = all(one is None or one.includes_host for one in (sample_filter, recording.sample_filter))
    lanes = make_wait_lanes(recording.data) if has_all else []
    sources = file_data(files, sites)
    del parts, annotation, reports, evidence, files  # the folded samples take as much memory as packing does
    return render(stacks, text, code=functions, files=sources, marks=marks, sites=sites, lanes=lanes, waits=waits, phases=phases)


def changes_page(
    before: Recorded,
    after: Recorded,
    stacks: Sequence[Sequence[Stacks]] | None,
    symbols: SymbolOptions | None,
    sample_filters: Sequence[SampleFilter] | None = None,
) -> str:
    """Return the page of the changes from one recording to another. `sample_filters` are those of the given stacks."""
    both = (before, after)
    first, second = stacks or [one.stacks(symbols, page_options(one)) for one in both]
    shared = [phrase for phrase in before.environment if phrase in after.environment]
    own = [[one.title, *(phrase for phrase in one.environment if phrase not in shared)] for one in both]
    titles = [*(f"{side}: {', '.join(phrases)}" for side, phrases in zip(("before", "after"), own, strict=True)), ", ".join(shared)]
    reports = []
    for one, sample_filter in zip(both, sample_filters or (SampleFilter(), SampleFilter()), strict=True):
        # by function alone: commands and files of two builds have different names
        headline = FoldedReport(one, headline_options(sample_filter)._replace(columns=ColumnOptions(sort="symbol")), symbols)
        fold_together([headline.fold])
        reports.append(headline.report())
    charged = [charged_amounts(report) for report in reports]
    verdicts = (change_verdict(difference, charged) for difference in differences(reports, Compute()))
    sentences = [
        HeadlineSentence(one.text, _evidence(one), "chargedChange" if one.rule == "own function" else "change")
        for one in next(filter(None, verdicts), [])
    ]
    text = PageText(f"{before.path} \N{RIGHTWARDS ARROW} {after.path}", [*filter(None, titles)], headline=sentences)
    return render(first, text, after=second)


# The code of hot functions and files, as values for the page's scripts (code.js).
#
# For each of the hottest functions of each event a dict:
#
#     name, module, event; share: of the event, 0 to 1; short: name at a glance; interpreted: without machine code of its own
#     instructions  [number, share of the function, address, text, "file:line", index into sources or -1, line, index into calls or -1] ...
#     sources    {path, share, lines: [number, share, text, kinds of its words] ...} ...
#     calls  [[name, "file:line" of the call], outermost first] ...: functions that are inlined there
#     spots  [instruction, index into sources or -1, line, site] ...
#     charged  [index into sources, line, share of the samples that are charged to the function] ..., may be missing
#
# and for each of the hottest source files:
#
#     name, event; share, own: of the event, with and without inlined code; calls: whether inlined code includes calls
#     lines  [number, own share of the event, text, share with inlined code, kinds of its words] ...
#     spots  [line, site, whether the line is the site's own] ...
#
# Sites are numbers that samples have (page_sites): the scripts add up the selected samples of each. Functions and files include code with
# samples and some lines around it; gaps in the numbers are skipped lines. Source files are read if they exist here and have names of
# source files: pages are given to others, and untrusted debug information names the files. An instruction whose own file cannot be read,
# as of a library that was compiled elsewhere, counts for the line that called what is inlined there.


_MOST_FUNCTIONS: Final = 10  # of an event
_CODE_ONLY: Final = CodeStyle(code_only=True)  # the page finds source lines itself
_FILES: Final = 8
_MATTERS: Final = 1.0  # percent of the event
_HOT: Final = 0.2  # percent of the function
_HOT_LINE: Final = 0.1  # percent of the event
_INSTRUCTIONS_AROUND: Final = 6
_LINES_AROUND: Final = 5
_WHOLE_FUNCTION: Final = 120  # lines
_MOST_ROWS: Final = 400
_FILE_MOST: Final = 16 << 20
_TABS: Final = 4
_LINE_MOST: Final = 2000  # characters
_SOURCE: Final = re.compile(
    r"/.*[^/]\.(adb|asm|c|c\+\+|cc|cpp|cppm|cs|cu|cxx|d|f|f90|fs|go|h|h\+\+|hh|hpp|hs|hxx|inc|inl|ipp|java|js|kt|l|m|mjs|ml|mm|nim"
    r"|pas|php|pl|py|pyx|rb|rs|s|scala|swift|tcc|ts|v|y|zig)",
    re.IGNORECASE,
)


def code_data(annotation: Annotation, sites: PageSites | None = None) -> list[dict[str, Any]]:
    """Return the functions, those of the first event first."""
    texts = _SourceTexts()
    values = []
    for table in annotation.report.histograms:
        if table.leader.samples:
            functions = annotation.functions(table, _CODE_ONLY, percent_limit=_MATTERS)
            values += [_function(one, table.leader.event.name, texts, sites) for one in islice(functions, _MOST_FUNCTIONS)]
    return values


def with_charged_lines(functions: list[dict[str, Any]], evidence: Evidence) -> list[dict[str, Any]]:
    """Return the functions, those with sources with the samples that are charged to them and the lines of these, as in the headline.

    Functions that have nearly all of these samples in libraries are too cold for code of their own. They follow, with their lines alone.
    """
    sampled = evidence.functions
    if sampled is None:
        return functions
    periods = sampled.rows.period
    charged_functions = sampled.charged_functions

    def share_of(number: int) -> float:
        return float(periods[charged_functions == number].sum() / max(1, periods.sum()))

    numbers: dict[str, list[int]] = {}
    for number in np.unique(charged_functions).tolist():
        if number >= 0:
            numbers.setdefault(without_tier(sampled.name(number)), []).append(number)
    for value in functions:
        same = numbers.get(value["name"], [])
        if value["event"] == evidence.event.name and value["sources"] and len(same) == 1:
            shares = evidence.charged_lines(same[0])
            lines = ((i, source["path"], line[0]) for i, source in enumerate(value["sources"]) for line in source["lines"])
            value["charged"] = [[i, line, shares[path, line]] for i, path, line in lines if (path, line) in shares]
            value["chargedShare"] = share_of(same[0])
    with_code = {value["name"] for value in functions if value["event"] == evidence.event.name}
    missing = [same[0] for name, same in numbers.items() if name not in with_code and len(same) == 1]
    hot = sorted((number for number in missing if 100 * share_of(number) >= _MATTERS), key=lambda number: -share_of(number))
    texts = _SourceTexts()
    calling = (_calling_function(number, share_of(number), evidence, texts) for number in hot[:_MOST_FUNCTIONS])
    return [*functions, *(value for value in calling if value["sources"])]


def _calling_function(number: int, share: float, evidence: Evidence, texts: _SourceTexts) -> dict[str, Any]:
    """Return a function without samples of its own that matter, with the lines that call the libraries. share: charged to it."""
    assert evidence.functions is not None
    name = evidence.functions.name(number)
    shares = evidence.charged_lines(number)
    readable = {position: part for position, part in shares.items() if texts.of(position[0])}
    by_path: dict[str, dict[int, float]] = {}
    for path, line in readable:
        by_path.setdefault(path, {})[line] = 0.0
    sources = _sources_of(by_path, {path: list(lines) for path, lines in by_path.items()}, texts)
    charged = [
        [i, line[0], shares[position]]
        for i, source in enumerate(sources)
        for line in source["lines"]
        if (position := (source["path"], line[0])) in shares
    ]
    return {
        "name": without_tier(name),
        "module": source_file(name) or evidence.functions.file(number),
        "event": evidence.event.name,
        "share": 0.0,
        "short": at_a_glance(name),
        "interpreted": int(name.startswith(PYTHON_MARK)),
        "instructions": [],
        "sources": sources,
        "calls": [],
        "spots": [],
        "charged": charged,
        "chargedShare": share,
    }


def file_data(events: Iterable[SourceShares], sites: PageSites | None = None) -> list[dict[str, Any]]:
    """Return the source files, those of the first event first, and for each event existing files first.

    Files without known lines are left out. Files that are not here count only with samples of their own: lines without text that others
    are called from say nothing.
    """
    texts = _SourceTexts()
    values = []
    for shares in events:
        known = [file for file in shares.files if any(line.line for line in file.lines)]  # debug information of compilers may have none
        files = [file for file in known if (file.with_inlined if texts.of(file.path) else file.percent) >= _MATTERS]
        files.sort(key=lambda file: not texts.of(file.path))
        for file in files[:_FILES]:
            value = _file(file, shares.event, texts.of(file.path))
            spots = sites.in_file(file.path, {line[0] for line in value["lines"]}) if sites is not None else []
            values.append({**value, "calls": int(shares.with_calls), "spots": spots})
    return values


def _file(file: SourceFile, event: str, text: list[SourceText]) -> dict[str, Any]:
    line_of = {line.line: line for line in file.lines}
    hot = sorted(
        (line.line for line in file.lines if line.line and max(line.percent, line.with_inlined) >= _HOT_LINE),
        key=lambda number: -line_of[number].with_inlined,
    )
    numbers = _near(hot, _LINES_AROUND, 1, len(text) + 1) if text else sorted(hot[:_MOST_ROWS])
    shares = {number: (line_of[number].percent, line_of[number].with_inlined) if number in line_of else (0.0, 0.0) for number in numbers}
    shown = {number: text[number - 1] if number <= len(text) else SourceText("") for number in numbers}
    lines = [[number, own / 100, shown[number].text, whole / 100, shown[number].kinds] for number, (own, whole) in shares.items()]
    return {"name": file.path, "event": event, "share": file.with_inlined / 100, "own": file.percent / 100, "lines": lines}


def _function(one: AnnotatedFunction, event: str, texts: _SourceTexts, sites: PageSites | None) -> dict[str, Any]:
    rows = list(one.rows(with_calls=True))
    positions = [_readable_position(row, texts) for row in rows]
    sources = _sources(rows, positions, texts)
    calls: dict[tuple[tuple[str, str], ...], int] = {}
    interpreted = one.name.startswith(PYTHON_MARK)  # the bytes of the image with their names are no code
    return {
        "name": without_tier(one.name),  # name and module as among the page's names
        "module": source_file(one.name) or one.dso.short_name,
        "event": event,
        "share": one.hot.percent / 100,
        "short": at_a_glance(one.name),
        "interpreted": int(interpreted),
        "instructions": [] if interpreted else _instructions(rows, positions, sources, calls),
        "sources": sources,
        "calls": list(calls),
        "spots": [] if sites is None else _spots(positions, sources, sites.in_function(one.hot.symbol, one.bounds)),
    }


def _readable_position(row: CodeRow, texts: _SourceTexts) -> tuple[str, int]:
    """Return the innermost line of an instruction whose file can be read, "" and 0 for none."""
    positions = [row.source or ("", 0), *((call.path, call.line) for call in row.calls)]
    return next(((path, line) for path, line in positions if line and texts.of(path)), ("", 0))


def _spots(
    positions: list[tuple[str, int]], sources: list[dict[str, Any]], sites: Iterable[tuple[int, int]]
) -> list[tuple[int, int, int, int]]:
    """Return the places of sites in a function. sites: instruction and number of each."""
    source_of = {source["path"]: index for index, source in enumerate(sources)}
    lines = ((instruction, number, positions[instruction]) for instruction, number in sites)
    return [(instruction, source_of.get(path, -1), line, number) for instruction, number, (path, line) in lines]


def _near(hot: Iterable[int], around: int, first: int, end: int) -> list[int]:
    """Return the hot numbers and those around them."""
    numbers: set[int] = set()
    for number in hot:
        if len(numbers) >= _MOST_ROWS:
            break
        numbers.update(range(max(first, number - around), min(end, number + around + 1)))
    return sorted(numbers)


def _instructions(
    rows: list[CodeRow], positions: list[tuple[str, int]], sources: list[dict[str, Any]], calls: dict[tuple[tuple[str, str], ...], int]
) -> list[list[Any]]:
    """Return the instructions with samples and those around them. calls: inlined ones, which get the next numbers."""
    source_of = {source["path"]: index for index, source in enumerate(sources)}
    by_share = sorted((number for number, row in enumerate(rows) if row.percent >= _HOT), key=lambda number: -rows[number].percent)
    instructions = []
    for number in _near(by_share, _INSTRUCTIONS_AROUND, 0, len(rows)):
        row, (path, line) = rows[number], positions[number]
        inlined = tuple((call.name, _where((call.path, call.line))) for call in reversed(row.calls))
        call = calls.setdefault(inlined, len(calls)) if inlined else -1
        shown = row.percent / 100, f"{row.address:x}", row.text, _where(row.source or ("", 0))
        instructions.append([number, *shown, source_of.get(path, -1), line, call])
    return instructions


def _where(position: tuple[str, int]) -> str:
    """Return the place as text, "" without a line: debug information has 0 for instructions that belong to none."""
    return f"{position[0].rpartition('/')[2]}:{position[1]}" if position[0] and position[1] else ""


def _sources(rows: list[CodeRow], positions: list[tuple[str, int]], texts: _SourceTexts) -> list[dict[str, Any]]:
    """Return the files with their lines, sorted by share. positions: the line of each instruction in a file that can be read."""
    shares: dict[str, dict[int, float]] = {}
    for row, (path, line) in zip(rows, positions, strict=True):
        if path and row.percent:
            lines = shares.setdefault(path, {})
            lines[line] = lines.get(line, 0.0) + row.percent / 100
    return _sources_of(shares, {path: [line for of, line in positions if of == path] for path in shares}, texts)


def _sources_of(shares: dict[str, dict[int, float]], known: dict[str, list[int]], texts: _SourceTexts) -> list[dict[str, Any]]:
    """Return the files with their lines, sorted by share. shares: by path and line; known: all lines of the function, by path."""
    sources = []
    for path, lines in sorted(shares.items(), key=lambda pair: -sum(pair[1].values())):
        text = texts.of(path)
        hot = sorted(lines, key=lambda line: -lines[line])
        first, last = max(1, min(known[path]) - 1), min(len(text), max(known[path]) + 1)
        numbers = _near(hot, _LINES_AROUND, 1, len(text) + 1)
        if last - first < _WHOLE_FUNCTION:
            numbers = sorted({*numbers, *range(first, last + 1)})
        shown = [(number, text[number - 1]) for number in numbers if number <= len(text)]
        lines_of_file = [[number, lines.get(number, 0.0), line.text, line.kinds] for number, line in shown]
        sources.append({"path": path, "share": sum(lines.values()), "lines": lines_of_file})
    return sources


class SourceText(NamedTuple):
    """A line of a source file, as it is shown: without tabs and control characters.

    Attributes:
        letters: the kind of each character: k keyword, t type, f function, s string, c comment, n number, p preprocessor or annotation,
            "." for others; empty where all are others.
    """

    text: str
    letters: str = ""

    @property
    def kinds(self) -> str:
        """The kinds as letters with numbers of characters, such as k3.1f4."""
        return "".join(f"{run[1]}{len(run[0])}" for run in _RUN.finditer(self.letters)) if self.letters.strip(".") else ""


def _cut(line: str) -> str:
    """Return a line, or the beginning of one of a file that is not for people."""
    return line if len(line) <= _LINE_MOST else f"{line[:_LINE_MOST]}\N{HORIZONTAL ELLIPSIS}"


class _SourceTexts:
    """The lines of source files, each file read once; empty for missing files."""

    def __init__(self) -> None:
        self._lines: dict[str, list[SourceText]] = {}

    def of(self, path: str) -> list[SourceText]:
        """Return the lines of a file."""
        if path not in self._lines:
            match = _SOURCE.fullmatch(path)
            try:
                text = read_regular(path, limit=_FILE_MOST).decode("utf-8", "replace") if match else ""
            except (OSError, ValueError):
                text = ""
            lines = [visible(_cut(line).expandtabs(_TABS)) for line in text.splitlines()]
            self._lines[path] = source_texts(lines, match[1].lower() if match else "")
        return self._lines[path]


# Syntax colours. A language is a set of regular expressions without ambiguous repetitions, so that hostile files take linear time.


_WORD: Final = r"(?P<n>\d[\w.]*)|(?P<word>[^\W\d]\w*)"
_COLOURED_MOST: Final = 1 << 20  # characters
_RUN: Final = re.compile(r"(.)\1*")


class _Language(NamedTuple):
    """How words of a language are told apart: a pattern whose groups are kinds of words, and the kinds of its names."""

    pattern: re.Pattern[str]
    kinds: Mapping[str, str]


@cache
def _languages() -> Mapping[str, Mapping[str, Any]]:
    """Return the languages of languages.json by suffix."""
    languages = json.loads((_FOLDER / "languages.json").read_text(encoding="utf-8"))
    return {suffix: language for language in languages.values() for suffix in language["suffixes"].split()}


@cache
def _language(suffix: str) -> _Language | None:
    language = _languages().get(suffix)
    if language is None:
        return None
    rules = [f"(?P<{kind}>{rule})" for kind, rule in language["rules"].items()]
    kinds = {word: kind for key, kind in (("types", "t"), ("keywords", "k")) for word in language[key].split()}
    return _Language(re.compile("|".join([*rules, _WORD]), re.MULTILINE), kinds)


def source_texts(lines: Sequence[str], suffix: str) -> list[SourceText]:
    """Return lines with the kinds of their words. suffix: of the file's name, in lower case; other languages have none."""
    language, text = _language(suffix), "\n".join(lines)
    if language is None or len(text) > _COLOURED_MOST:
        return [SourceText(line) for line in lines]
    letters = bytearray(b"." * len(text))
    for match in language.pattern.finditer(text):
        kind, (start, end) = match.lastgroup or "", match.span()
        if kind == "word":
            kind = language.kinds.get(match[0]) or ("f" if text[end : end + 1] == "(" else ".")
        letters[start:end] = kind.encode() * (end - start)
    texts, begin = [], 0
    for line in lines:
        texts.append(SourceText(line, letters[begin : begin + len(line)].decode()))
        begin += len(line) + 1
    return texts
