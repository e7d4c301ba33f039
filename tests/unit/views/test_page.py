"""The page: its parts, its marks and its code."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import lzma
import re
import time
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

import perfpy
import perfpy.views.page
from perfpy.abi import records
from perfpy.abi.flags import CONTEXT_USER, MISC_COMM_EXEC, MISC_SWITCH_OUT, PerfType, SampleType, SoftwareId
from perfpy.abi.records import SampleId
from perfpy.analysis.aggregate import profile, shared_pass
from perfpy.analysis.annotation import CallAtLine, CodeRow
from perfpy.analysis.callchains import frames_of
from perfpy.analysis.filters import EventSwitch, SampleFilter
from perfpy.analysis.report.options import ReportOptions
from perfpy.analysis.source_files import SourceFile, SourceLine, SourceShares
from perfpy.analysis.stacks import Function
from perfpy.analysis.verdict.evidence import Evidence
from perfpy.perfdata.reader import PerfData
from perfpy.perfdata.records import stream
from perfpy.perfdata.records.delivery import SideRecord
from perfpy.recording import Recording
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.views.page import lanes, marks
from perfpy.views.page import marks as marks_module
from perfpy.views.page import page as module
from perfpy.views.page.marks import Mark, Marks, WaitLane, make_marks, make_wait_lanes, mark_data, task_of, wait_lane_data
from perfpy.views.page.page import SCRIPTS, PageText, code_data, file_data, page_parts, render, verdict, with_charged_lines
from perfpy.views.page.profile_data import page_options, profile_data
from perfpy.views.verdict.sentence import FEW_SAMPLES, Sentence
from tests.builders.annotated import program, recording, spin_with_lines, stand_in
from tests.builders.kernel_events import recording_of_locks
from tests.builders.long_names import OWNER, SORT, recording_with_long_names
from tests.builders.many_threads import recording_of_switches
from tests.builders.own_corpus import RECORDINGS
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr
from tests.builders.python_recording import python_recording
from tests.builders.stacks import At, stacks, timed_stacks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.analysis.stacks import Stacks
    from perfpy.views.page.page import PageParts


# Tests of the page: it is a single file, fetches nothing, and treats names as text only.


FOLDER = Path(perfpy.views.page.__file__).parent / "scripts"
MARKUP = "</script><img src=x onerror=owned()>\u2028\u2029<!--<script>'\"`${owned()}&lt;]]>\u202egpj.exe"
LONGEST_SCRIPT = 400


class Elements(HTMLParser):
    """The elements of a page, and the content of scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.inside: list[tuple[str, str]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.elements and self.elements[-1][0] in ("script", "style") and data.strip():
            self.inside.append((self.elements[-1][0], data))

    def data(self) -> dict[str, object]:
        document: dict[str, object] = json.loads(next(text for tag, text in self.inside if tag == "script"))
        return document


def page_with(name: str) -> str:
    page_stacks = dataclasses.replace(stacks("sh;x 1", name), functions=[Function(name, name, False)], comms=[name])
    code = {"name": name, "module": name, "event": name, "share": 1.0, "instructions": [[0, 1.0, "0", name, name]],
            "sources": [{"path": name, "share": 1.0, "lines": [[1, 1.0, name]]}]}  # fmt: skip
    lines = {"name": name, "event": name, "share": 1.0, "own": 1.0, "lines": [[1, 1.0, name, 1.0]]}
    return render([page_stacks], PageText(name, [name], [name]), code=[code], files=[lines])


def test_the_page_fetches_nothing() -> None:
    page = page_with("x")
    assert not re.search(r"""\b(src|href|action)\s*=\s*["']|https?://|@import|url\(""", page)


def test_names_with_markup_make_no_elements() -> None:
    hostile = Elements(page_with(MARKUP))
    assert [tag for tag, _ in hostile.elements] == [tag for tag, _ in Elements(page_with("x")).elements]
    output = MARKUP.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").replace("\u202e", "\\u202e")
    data = hostile.data()
    assert data["title"] == output
    assert isinstance(data["names"], list)
    assert [output, output, 0] in data["names"]


def test_only_the_pages_own_script_and_style_may_run() -> None:
    page = Elements(page_with("x"))
    (policy,) = (attributes["content"] for tag, attributes in page.elements if tag == "meta" and attributes.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert "require-trusted-types-for 'script'" in policy
    scripts = [text for tag, text in page.inside if tag == "script"]
    styles = [text for tag, text in page.inside if tag == "style"]
    assert [len(scripts), len(styles)] == [2, 1]  # the data, which are not executed, and the script
    for text in (scripts[1], styles[0]):
        assert f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" in policy


def test_scripts_turn_no_text_into_markup_or_code() -> None:
    dangerous = re.compile(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|new Function\(|fetch\(|XMLHttp|WebSocket")
    for path in FOLDER.rglob("*.js"):
        assert not dangerous.search(path.read_text()), path.name


def test_scripts_are_short_and_all_in_a_page() -> None:
    result = list(FOLDER.rglob("*.js"))
    assert {str(path.relative_to(FOLDER).with_suffix("")) for path in result} == {*SCRIPTS, *lanes.SCRIPTS}
    for path in result:
        lines = path.read_text().splitlines()
        assert len(lines) <= LONGEST_SCRIPT, path.name
        assert max(map(len, lines)) <= 180, path.name


def test_scripts_import_earlier_scripts_only() -> None:
    """They are concatenated in this order."""
    for number, name in enumerate(SCRIPTS):
        text = (FOLDER / f"{name}.js").read_text()
        imported = re.findall(r'^import \{ .* \} from "(\S+)\.js";$', text, re.MULTILINE)
        assert len(imported) == len(re.findall(r"^\s*import\b", text, re.MULTILINE)), name
        earlier_scripts = {(FOLDER / one).resolve() for one in SCRIPTS[:number]}
        assert {((FOLDER / name).parent / one).resolve() for one in imported} <= earlier_scripts, name


def test_no_text_of_a_script_spans_lines() -> None:
    """Comments and indentation are left out of the page."""
    for name in SCRIPTS:
        for line in (FOLDER / f"{name}.js").read_text().splitlines():
            assert line.count("`") % 2 == 0, (name, line)


def test_scripts_share_no_names() -> None:
    """Each has a scope; imports and exports that the assembly does not understand would be errors of syntax."""
    script = [text for tag, text in Elements(page_with("x")).inside if tag == "script"][1]
    assert not re.search(r"^\s*(import|export)\b", script, re.MULTILINE)
    assert len({name.rpartition("/")[2] for name in SCRIPTS}) == len(SCRIPTS)
    assert re.findall(r"^const module_(\w+) = ", script, re.MULTILINE) == [name.rpartition("/")[2] for name in SCRIPTS]


def test_the_page_has_short_and_full_names(tmp_path: Path) -> None:
    with Recording(str(recording_with_long_names(tmp_path))) as recording:
        page = render(recording.stacks(SymbolOptions(symfs=str(tmp_path), cache=False)), PageText("t"))
    names = Elements(page).data()["names"]
    assert isinstance(names, list)
    assert [name[::3] for name in names if len(name) > 3] == [list(OWNER[1:]), list(SORT[1:])]
    assert [name for name in names if len(name) == 3]


def test_functions_of_python_are_shown_with_their_files() -> None:
    names = Elements(render([stacks("sh;py::main:/srv/app.py 5")], PageText("t"))).data()["names"]
    assert isinstance(names, list)
    assert ["py::main:/srv/app.py", "/srv/app.py", 0, "main (app.py)"] in names


# Tests of the page's notes on the accuracy of its profile.


def test_the_judgement_comes_first_and_then_the_doubts(tmp_path: Path) -> None:
    (tmp_path / "perf.data").write_bytes(recording())
    with Recording(str(tmp_path / "perf.data")) as opened:
        judgement, *doubts = verdict(opened.report(by="dso,symbol"))
    assert judgement == "13 samples, none lost: a share of 50 % is accurate to 27 points, a share of 5 % to 12"
    assert any("record with -g to see callers" in doubt for doubt in doubts)
    assert any("have no symbol" in doubt for doubt in doubts)


@pytest.mark.parametrize(
    ("numbers", "expected"),
    [
        ({"task-clock": 814, "offcpu-time": 12487}, "of the 814 of task-clock a share of 50 % is accurate to 3.4 points"),
        ({"offcpu-time": 12487, "task-clock": 814}, "of the 814 of task-clock a share of 50 % is accurate to 3.4 points"),
        ({"task-clock": 814}, "a share of 50 % is accurate to 3.4 points"),
        ({"task-clock": 9604}, "a share of 50 % is accurate to 1 point, a share of 5 % to 0.44"),
    ],
)
def test_waits_do_not_make_shares_of_samples_more_accurate(numbers: dict[str, int], expected: str) -> None:
    off = SimpleNamespace(freq=False, type=PerfType.SOFTWARE, config=SoftwareId.BPF_OUTPUT, sample_period=1)
    clock = SimpleNamespace(freq=True, type=PerfType.SOFTWARE, config=SoftwareId.TASK_CLOCK)
    attrs = {"task-clock": clock, "offcpu-time": off}
    events = [
        SimpleNamespace(event=SimpleNamespace(name=name, attr=attrs[name], has_waits=False), samples=count)
        for name, count in numbers.items()
    ]
    report: Any = SimpleNamespace(samples=sum(numbers.values()), lost=0, histograms=[SimpleNamespace(leader=event) for event in events])
    assert module._accuracy(report).startswith(expected)


# A page's parts come from one pass over the samples, and are those of single passes.


#: frame pointers, copies of stacks, readings of groups, tracepoints, code of a runtime
KINDS = ("chains", "chains-dwarf", "group", "tracepoint-chains", "perf-map")
SYMBOLS = SymbolOptions(cache=False)


def unpacked(name: str, folder: Path) -> Recording:
    path = folder / f"{name}.data"
    path.write_bytes(lzma.decompress((RECORDINGS / f"{name}.data.xz").read_bytes()))
    return Recording(str(path))


def lines_of(parts: list[Stacks]) -> list[tuple[object, ...]]:
    """Return each sample of each event: time, thread, weight and functions."""
    rows: list[tuple[object, ...]] = []
    for part in parts:
        assert part.timed is not None
        one = part.timed
        columns = (one.time.tolist(), one.tid.tolist(), one.weight.tolist(), one.chain.tolist())
        rows += [(part.event, time, tid, weight, [part.functions[number] for number in part.chain_of(chain).tolist()])
                 for time, tid, weight, chain in zip(*columns, strict=True)]  # fmt: skip
    return rows


def places_of_samples(parts: PageParts) -> list[tuple[int, int]]:
    """Return the address of each sample, and the one that its line counts for."""
    assert parts.sites is not None
    address = parts.annotation._symbolizer.frames.ip
    rows = np.concatenate([one.timed.site for one in parts.stacks if one.timed is not None and one.timed.site is not None])
    sites = parts.sites.site_of_row[rows]
    return list(zip(address[parts.sites.frame[sites]].tolist(), address[parts.sites.line_frame[sites]].tolist(), strict=True))


def shares_of(files: Sequence[SourceShares]) -> list[SourceShares]:
    return [one._replace(frame_lines=None) for one in files]


@pytest.mark.parametrize("name", KINDS)
def test_parts_equal_those_of_single_passes(name: str, tmp_path: Path) -> None:
    switch = EventSwitch(0, None, show=True) if name == "group" else None
    chosen = SampleFilter(switch=switch)
    with unpacked(name, tmp_path) as recording:
        parts = page_parts(recording, chosen, SYMBOLS)
        assert lines_of([*parts.stacks]) == lines_of(recording.stacks(SYMBOLS, page_options(recording, chosen)))
        single = recording.annotate(options=ReportOptions(sample_filter=chosen), symbols=SYMBOLS).report
        assert parts.annotation.report.to_dict() == single.to_dict()
        assert shares_of(parts.files) == shares_of(recording.source_files(sample_filter=chosen, symbols=SYMBOLS))
        assert int(parts.reports.report.folded.count.sum()) == sum(int(part.count.sum()) for part in parts.stacks)


@pytest.mark.parametrize("name", ["group", "perf-map"])
def test_the_parts_do_not_depend_on_the_size_of_batches(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the groups of samples are looked up, or forgotten, after each batch."""
    chosen = SampleFilter(switch=EventSwitch(0, None, show=True) if name == "group" else None)

    def fold() -> tuple[object, ...]:
        with unpacked(name, tmp_path) as recording:
            parts = page_parts(recording, chosen, SYMBOLS)
            assert len(set(places_of_samples(parts))) > 1
            return lines_of([*parts.stacks]), parts.annotation.report.to_dict(), shares_of(parts.files), places_of_samples(parts)

    expected = fold()
    monkeypatch.setattr(stream.RecordStream.__init__, "__kwdefaults__", {"chunk_size": 1024})
    assert fold() == expected
    monkeypatch.setattr(shared_pass, "_FRAMES_AT_ONCE", 1)
    assert fold() == expected
    monkeypatch.setattr(shared_pass, "_KINDS_KEPT", 0)
    assert fold() == expected


def test_the_frames_of_callchains_are_looked_up_once_for_all_folds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stacks and verdict need callchains by function, source lines by address."""

    def chains_looked_up(*, code: bool) -> int:
        counts = []

        def look_up(*args: Any) -> Any:
            counts.append(len(args[0]))
            return frames_of(*args)

        monkeypatch.setattr(profile, "frames_of", look_up)
        with unpacked("chains", tmp_path) as recording:
            page_parts(recording, None, SYMBOLS, code=code)
        return sum(counts)

    assert 0 < chains_looked_up(code=True) == chains_looked_up(code=False)


@pytest.mark.parametrize("function", [None, "spin"])
def test_source_lines_come_from_the_samples_of_the_annotation(function: str | None, tmp_path: Path) -> None:
    files = spin_with_lines(tmp_path)
    symbols, chosen = SymbolOptions(symfs=str(files), cache=False), SampleFilter(symbols=(function,) if function else None)
    with Recording(str(files / "perf.data")) as recording:
        parts = page_parts(recording, chosen, symbols)
        assert shares_of(parts.files) == shares_of(recording.source_files(sample_filter=chosen, symbols=symbols))
        assert parts.files[0].files
        assert page_parts(recording, chosen, symbols, code=False).files == []


def test_a_page_says_which_share_of_the_samples_has_short_stacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with unpacked("chains", tmp_path) as recording:
        assert "rare stacks" not in recording.page(symbols=SYMBOLS)
    for name in ("perfpy.views.page.page.MOST_CHAINS", "perfpy.views.page.profile_data.MOST_CHAINS"):
        monkeypatch.setattr(name, 2)
    with unpacked("chains", tmp_path) as recording:
        parts = page_parts(recording, None, SYMBOLS)
        assert 0 < parts.short <= 1
        note = f"{100 * parts.short:.2g} % of the samples have rare stacks, which have each function once"
        assert note in recording.page(symbols=SYMBOLS)


def test_a_page_reads_the_samples_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    passes = []

    def count_passes_of(name: str) -> None:
        method = getattr(PerfData, name)

        def counted(*args: Any, **options: Any) -> Any:
            passes.append(name)
            return method(*args, **options)

        monkeypatch.setattr(PerfData, name, counted)

    count_passes_of("batches")
    count_passes_of("stored_batches")
    with unpacked("chains-dwarf", tmp_path) as recording:
        recording.page(symbols=SYMBOLS)
    assert passes == ["batches"]


class _Outermost(HTMLParser):
    """The elements of a body that are in no other one."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self._depth = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if not self._depth:
            self.found.append((tag, dict(attrs)))
        self._depth += tag not in ("br", "img", "input", "link", "meta")

    def handle_endtag(self, tag: str) -> None:
        self._depth -= 1


@pytest.mark.parametrize("frame", ["page.html", "lanes.html"])
def test_all_of_a_page_is_in_landmarks(frame: str) -> None:
    """Rule `region` of axe-core."""
    parser = _Outermost()
    parser.feed(
        (Path(perfpy.views.page.__file__).parent / frame).read_text(encoding="utf-8").partition("<body>")[2].partition("</body>")[0]
    )
    assert len(parser.found) > 4
    for tag, attributes in parser.found:
        named = tag == "section" and attributes.get("aria-label") and not attributes.get("role")
        assert named or tag in ("header", "main", "footer", "noscript", "dialog", "script"), (tag, attributes)


def test_lines_of_functions_are_those_of_the_headline(tmp_path: Path) -> None:
    with unpacked("chains-dwarf", tmp_path) as recording:
        parts = page_parts(recording, symbols=SYMBOLS)
        evidence = Evidence(parts.reports.report, recording.data, parts.reports.waits)
        assert evidence.functions is not None
        for hot in evidence.functions.hottest():
            shares = evidence.charged_lines(hot.number)
            assert 0 <= sum(shares.values()) <= 1 + 1e-9
            if (line := evidence.line(hot.number)) is not None:
                assert shares[line.source_line] == pytest.approx(line.period / line.whole)
        plain = code_data(parts.annotation, parts.sites)
        for one in with_charged_lines(plain, evidence)[len(plain) :]:
            assert one["name"] not in [value["name"] for value in plain]
            assert one["share"] == 0 < one["chargedShare"]
            assert one["sources"]
        for one in plain:
            places = {(source["path"], line[0]) for source in one["sources"] for line in source["lines"]}
            value = with_charged_lines([one], evidence)[0]
            assert all((value["sources"][i]["path"], line) in places and 0 < share <= 1 for i, line, share in value.get("charged", []))


@pytest.mark.parametrize(
    ("rule", "subject"),
    [
        ("longest wait", "waits"), ("wait beside", "waits"), ("deadlock", "waits"), ("callee", "CPU"), ("started processes", "CPU"),
        ("lost samples", ""), (FEW_SAMPLES, ""), ("idle machine", ""),
    ],
)  # fmt: skip
def test_a_sentence_of_the_headline_is_on_cpu_time_on_waits_or_on_the_recording(rule: str, subject: str) -> None:
    assert module._headline_sentence(Sentence(rule, "Text.", {}), 1.0).subject == subject


def test_the_hottest_function_is_the_one_that_has_the_share_of_the_sentence() -> None:
    names = {"function": "produce_item(int)", "callee": "__sin_fma"}
    one = module._headline_sentence(Sentence("callee", "60 % is in sin().", {"charged": 0.76, "callee": 0.75}, names), 0.8)
    assert [part[:2] for part in one.hottest] == [("sin()", "__sin_fma"), ("produce_item()", "produce_item(int)")]
    assert [part[2] for part in one.hottest] == pytest.approx([0.6, 0.608])
    assert module._headline_sentence(Sentence("longest wait", "It waited.", {}, {"function": "nap"}), 1.0).hottest == []


# Marks of a page: moments of threads, from records and samples.


MS = 1_000_000


def with_records(*found: Any) -> Any:
    """Return a recording with these records."""
    return SimpleNamespace(side_band=lambda types=None: [SideRecord(record, 0, 0) for record in found])


def at(time: int, pid: int = 7, tid: int = 7) -> SampleId:
    return SampleId(pid=pid, tid=tid, time=time)


@pytest.mark.parametrize(("pid", "task"), [(7, (7 << 32) + 8), (2**32 - 1, (-1 << 32) + 8), (1 << 31, -(1 << 63) + 8)])
def test_tasks_of_marks_are_numbers_of_64_bits_with_a_sign(pid: int, task: int) -> None:
    """As those of samples: a damaged record has any pid."""
    assert task_of(Mark(0, pid, 8, "exec", "ls")) == task


def test_records_of_a_tasks_life_are_marks() -> None:
    marks = make_marks(
        with_records(
            records.Fork(0, 8, 7, 8, 7, 20 * MS),
            records.Fork(0, 7, 7, 9, 7, 30 * MS),
            records.Comm(MISC_COMM_EXEC, 8, 8, "ls", at(40 * MS, 8, 8)),
            records.Switch(MISC_SWITCH_OUT, at(50 * MS)),
            records.Exit(0, 8, 7, 8, 7, 60 * MS),
        ),
        [],
    )
    assert marks.rows == [
        Mark(20 * MS, 7, 7, "fork", "process 8"),
        Mark(30 * MS, 7, 7, "thread", "9"),
        Mark(40 * MS, 8, 8, "exec", "ls"),
        Mark(50 * MS, 7, 7, "switch", "out"),
        Mark(60 * MS, 8, 8, "exit", ""),
    ]


def test_synthesized_records_are_none() -> None:
    assert make_marks(with_records(records.Comm(0, 1, 1, "old", at(0)), records.Fork(0, 1, 0, 1, 0, 0)), []).rows == []


def test_samples_of_events_that_happen_are_marks_and_samples_of_time_are_not() -> None:
    faults = timed_stacks([At("app;main;grow", 5 * MS, 1, 7, 9)], "page-faults:u", in_seconds=False)
    clock = timed_stacks([At("app;main;grow", 5 * MS, 1, 7, 9)])
    assert make_marks(with_records(), [faults, clock]).rows == [Mark(5 * MS, 7, 9, "page-faults:u", "grow")]


def test_a_part_of_a_recording_has_marks_of_its_threads_only() -> None:
    clock = timed_stacks([At("app;main", 5 * MS, 1, 7, 7)])
    recording = with_records(*(records.Fork(0, 8, pid, 8, pid, time * MS) for pid, time in ((7, 4), (6, 4), (7, 9))))
    assert [mark.time for mark in make_marks(recording, [clock], sampled_only=True).rows] == [4 * MS]


def test_of_very_many_marks_some_are_kept_evenly_and_the_page_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marks_module, "MOST_MARKS", 10)
    faults = timed_stacks([At("app;main", number * MS, 1) for number in range(1, 101)], "faults", in_seconds=False)
    marks = make_marks(with_records(), [faults])
    assert [mark.time // MS for mark in marks.rows] == list(range(1, 101, 10))
    assert marks.notes == ["the page has 10 of 100 marks, evenly chosen"]


def test_marks_before_the_first_sample_are_omitted() -> None:
    marks = Marks([Mark(1 * MS, 7, 7, "fork", "a"), Mark(3 * MS, 7, 7, "exit", "")], 2)
    data = mark_data(marks, 2 * MS, 1000, {7 << 32 | 7: 0})
    assert (data["kinds"], data["texts"], data["rows"]["time"]) == (["exit"], [""], {"n": 1, "all": 1000})


# Lanes of waits: the run queue, and the locks of each holder.


def lanes_of(data: bytes, folder: Path) -> list[WaitLane]:
    path = folder / "perf.data"
    path.write_bytes(data)
    with perfpy.open(path) as recording:
        return make_wait_lanes(recording.data)


def test_each_holder_has_a_lane_and_the_rest_shares_one(tmp_path: Path):
    lanes = lanes_of(recording_of_locks(), tmp_path)
    assert [(lane.name, lane.number) for lane in lanes] == [
        ("alpha 100: locks", 10), ("gamma 102: locks", 9), ("beta 101: locks", 9), ("other locks", 1),
    ]  # fmt: skip
    assert [round(lane.total / 1e6, 2) for lane in lanes] == [86.42, 33.33, 32.1, 1.23]
    assert all((lane.begin <= lane.end).all() and lane.kind == "lock" for lane in lanes)


def test_switches_have_a_lane_of_the_run_queue(tmp_path: Path):
    (lane,) = lanes_of(recording_of_switches(4, 24, named=True, one_process=True), tmp_path)
    assert (lane.kind, lane.name) == ("cpu", "run queue")
    assert lane.total == int((lane.end - lane.begin).sum()) > 0


def test_of_too_many_waits_the_longest_are_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(marks, "_MOST_WAITS", 2)
    begin = np.array([0, 10, 20, 30])
    (lane,) = marks._lane("lock", "a", "", begin, begin + np.array([5, 1, 9, 2]))
    assert (lane.begin.tolist(), lane.total, lane.number) == ([0, 20], 17, 4)


def test_times_before_the_first_sample_count_from_there():
    lane = WaitLane("lock", "a", "mutex", np.array([500, 3000]), np.array([2000, 5000]), 3500, 2)
    (values,) = wait_lane_data([lane], 1000, 1000)
    assert values["rows"]["begin"]["n"] == 2
    assert wait_lane_data([], 0, 1) == []


# Tests of the code of hot functions in the page: lines with samples and their context; only source files are read.


def rows(*percents: float, path: str = "/src/a.c") -> list[CodeRow]:
    return [CodeRow(0x1000 + number, f"op{number}", percent, 1, (path, number + 1)) for number, percent in enumerate(percents)]


def instructions_of(code: list[CodeRow]) -> list[list[Any]]:
    return module._instructions(code, [("", 0)] * len(code), [], {})


def sources_of(code: list[CodeRow]) -> list[dict[str, Any]]:
    texts = module._SourceTexts()
    return module._sources(code, [module._readable_position(row, texts) for row in code], texts)


def test_instructions_far_from_samples_are_skipped() -> None:
    instructions = instructions_of(rows(*[0.0] * 20, 90.0, *[0.0] * 20, 10.0))
    assert [row[0] for row in instructions] == [*range(14, 27), *range(35, 42)]
    assert instructions[6] == [20, 0.9, "1014", "op20", "a.c:21", -1, 0, -1]


def test_rows_are_limited() -> None:
    assert len(instructions_of(rows(*[0.3] * 5000))) <= 420


def test_functions_that_are_inlined_in_all_stacks_are_told(tmp_path: Path) -> None:
    """helper is inlined into spin."""
    built = PerfDataBuilder(attrs=[usual_attr(USUAL | SampleType.CALLCHAIN)])
    ids = {"pid": 7, "tid": 7, "time": 100}
    built.record(records.Comm(0, 7, 7, "spin", SampleId(**ids)))
    built.record(records.Mmap2(2, 7, 7, 0x401000, 0x1000, 0x1000, 8, 1, 99, 0, 5, 2, "/bin/spin", b"", SampleId(**ids)))
    for at in range(200, 260):
        built.sample(0, misc=2, ip=0x401012, pid=7, tid=7, time=at, period=1000, callchain=(CONTEXT_USER, 0x401012))
    spin_with_lines(tmp_path)
    (tmp_path / "perf.data").write_bytes(built.file())
    symbols = SymbolOptions(symfs=str(tmp_path), cache=False)
    with Recording(str(tmp_path / "perf.data"), symbols=symbols) as one:
        parts = page_parts(one, symbols=symbols)
    data = profile_data([parts.stacks])
    assert [data["names"][number][0] for number in data["inlined"]] == ["helper"]
    part = parts.stacks[0]
    called = dataclasses.replace(part, event="b", inlined=[False] * len(part.functions))
    assert profile_data([[part, called]])["inlined"] == [], "there it is called"


def test_an_instruction_of_a_missing_file_counts_for_the_line_of_the_inlined_call(tmp_path: Path) -> None:
    """As code of a standard library does, which was compiled elsewhere."""
    (tmp_path / "a.c").write_text("\n".join(f"line {number};" for number in range(1, 200)))
    calls = (CallAtLine("next", "/nowhere/b.h", 5), CallAtLine("sum", str(tmp_path / "a.c"), 90))
    code = [CodeRow(0x1000, "add", 75.0, 3, ("/nowhere/b.h", 7), calls), CodeRow(0x1004, "ret", 25.0, 1, (str(tmp_path / "a.c"), 91))]
    (source,) = sources_of(code)
    assert [line[:2] for line in source["lines"] if line[1]] == [[90, 0.75], [91, 0.25]]
    found: dict[Any, int] = {}
    places = [module._readable_position(row, module._SourceTexts()) for row in code]
    assert [row[5:] for row in module._instructions(code, places, [source], found)] == [[0, 90, 0], [0, 91, -1]]
    assert list(found) == [(("sum", "a.c:90"), ("next", "b.h:5"))]


def test_inlined_calls_of_instructions(tmp_path: Path) -> None:
    """helper of b.h, which is missing, is inlined at a.c:2 into the second and third instruction of spin."""
    folder = spin_with_lines(tmp_path)
    with Recording(str(folder / "perf.data")) as opened:
        spin = code_data(opened.annotate(symbols=SymbolOptions(symfs=str(folder), cache=False)))[0]
    assert spin["calls"] == [(("helper", "a.c:2"),)]
    assert [row[4:] for row in spin["instructions"]] == [["a.c:2", 0, 2, -1], ["b.h:9", 0, 2, 0], ["b.h:9", 0, 2, 0]]
    assert spin["sources"][0]["lines"][1][:3] == [2, 1.0, "    second^[[2J"]


SOURCES = {
    "c": (
        '#include "a.h" // x\nint f(char *s) { return "a\\"b/*" + 1; } /* one\ntwo */ x',
        ["p8.1s5.1c4", "t3.1f1.1t4.7k6.1s8.3n1.4c6", "c6.2"],
    ),
    "py": ('@cached\ndef f(x): # no\n  return """a\nb""" if x else 1', ["p7", "k3.1f1.5c4", ".2k6.1s4", "s4.1k2.3k4.1n1"]),
    "rs": ("fn f<'a>(s: &'a str) { let c = '\\''; println!(r#\"a\"b\"#) }", ["k2.3p2.6p2.1t3.4k3.5s4.2f8.1s8.3"]),
    "go": ("var s = `a\nb`; func(1)", ["k3.5s2", "s2.2k4.1n1.1"]),
    "java": ("@Override public void f() { return 'a'; }", ["p9.1k6.1t4.1f1.5k6.1s3.3"]),
    "js": ("const f = `a${1}\n`; f(2)", ["k5.5s6", "s1.2f1.1n1.1"]),
    "txt": ("int f()", [""]),
}


@pytest.mark.parametrize("suffix", SOURCES)
def test_words_have_their_kinds(suffix: str) -> None:
    text, kinds = SOURCES[suffix]
    lines = text.split("\n")
    result = module.source_texts(lines, suffix)
    assert [one.kinds for one in result] == kinds
    assert [one.text for one in result] == lines


@pytest.mark.parametrize("suffix", ["c", "py", "rs", "go", "java", "js"])
def test_kinds_take_linear_time(suffix: str) -> None:
    """Of any text: pygments takes 8 s for 20,000 slashes, 9 s for 5,000 times `public`."""
    begun = time.process_time()
    for unit in ("/", '"', "'", "\\", "/*", "r#", 'R"(', "`", "${", "#", "@", "public ", "a<b,", " ", "#![", "1.", "x!", '"""'):
        module.source_texts([unit * (200_000 // len(unit))], suffix)
    assert time.process_time() - begun < 8


def test_lines_of_a_source_file_with_their_shares(tmp_path: Path) -> None:
    source = tmp_path / "a.c"
    source.write_text("".join(f"line {number}\n" for number in range(1, 31)))
    (result,) = sources_of(rows(*[0.0] * 9, 75.0, 25.0, path=str(source)))
    assert (result["path"], result["share"]) == (str(source), 1.0)
    assert result["lines"][6] == [7, 0.0, "line 7", ".5n1"]
    assert [line[0] for line in result["lines"]] == [*range(1, 17)]  # the whole function and lines around the hot ones
    assert [line[:2] for line in result["lines"] if line[1]] == [[10, 0.75], [11, 0.25]]


@pytest.mark.parametrize("name", ["secret", "id_rsa", "passwd", "a.conf", ".c", "a.c.txt"])
def test_files_without_a_source_extension_are_not_read(name: str, tmp_path: Path) -> None:
    """Pages are shared, and debug information may name any file as source."""
    (tmp_path / name).write_text("secret\n" * 5)
    assert sources_of(rows(50.0, 50.0, path=str(tmp_path / name))) == []


def test_lines_of_files_with_their_context(tmp_path: Path) -> None:
    path = tmp_path / "a.c"
    path.write_text("".join(f"line {number}\n" for number in range(1, 31)))
    files = [SourceFile(str(path), 20.0, 60.0, [SourceLine(0, 1.0, 1.0, 1), SourceLine(2, 0.0, 40.0, 0), SourceLine(20, 20.0, 20.0, 9)]),
             SourceFile("/nowhere/b.c", 30.0, 30.0, [SourceLine(5, 30.0, 30.0, 9), SourceLine(6, 0.05, 0.05, 1)]),
             SourceFile("/nowhere/cold.c", 0.5, 0.5, [SourceLine(5, 0.5, 0.5, 1)])]  # fmt: skip
    first, second = file_data([SourceShares("cycles", 10, files, {})])
    assert (first["name"], first["event"], first["share"], first["own"]) == (str(path), "cycles", 0.6, 0.2)
    assert [line[0] for line in first["lines"]] == [*range(1, 8), *range(15, 26)]
    assert first["lines"][1] == [2, 0.0, "line 2", 0.4, ".5n1"]
    assert second["lines"] == [[5, 0.3, "", 0.3, ""]]


def test_lines_of_minified_files_are_cut(tmp_path: Path) -> None:
    path = tmp_path / "a.js"
    path.write_text("a();" * 1_000_000 + "\nb();\n")
    (source,) = sources_of(rows(50.0, 50.0, path=str(path)))
    assert [len(line[2]) for line in source["lines"]] == [2001, 4]


@pytest.mark.parametrize("path", ["a.c", "../a.c", "", "/nowhere/a.c"])
def test_missing_files_have_no_lines(path: str) -> None:
    assert sources_of(rows(50.0, 50.0, path=path)) == []


def test_functions_of_python_have_the_names_of_the_page_and_source_but_no_instructions(tmp_path: Path) -> None:
    """Names and modules lead from a function of the flame graph to its hottest lines."""
    with Recording(str(python_recording(tmp_path))) as opened:
        parts = page_parts(opened, None, SymbolOptions(fold_interpreters=True, cache=False))
        spin = code_data(parts.annotation, parts.sites)[0]
        names = profile_data([parts.stacks], sites=parts.sites)["names"]
    assert (spin["short"], spin["interpreted"], spin["instructions"], spin["calls"]) == ("spin (app.py)", 1, [], [])
    assert [spin["name"], spin["module"]] in [name[:2] for name in names]
    assert [source["path"] for source in spin["sources"]] == [f"{tmp_path}/app.py"]


def test_the_functions_of_a_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "spin").write_bytes(program().build())
    (tmp_path / "perf.data").write_bytes(recording())
    stand_in(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    with Recording(str(tmp_path / "perf.data")) as opened:
        result = code_data(opened.annotate(symbols=SymbolOptions(symfs=str(tmp_path), cache=False)))
    spin = result[0]
    assert (spin["name"], spin["module"], spin["event"]) == ("spin", "spin", "cpu-clock:u")
    assert spin["share"] == pytest.approx(10 / 13)
    assert [(row[1], row[2]) for row in spin["instructions"]] == [(0.1, "1010"), (0.6, "1011"), (0.2, "1014"), (0.1, "1016")]
    assert spin["sources"] == []


def test_functions_that_only_call_libraries_have_their_lines(tmp_path: Path) -> None:
    """The headline names the line of a call: no other function's code may stand for it."""
    path = tmp_path / "work.cpp"
    path.write_text("".join(f"line {number}\n" for number in range(1, 31)))
    lines = {(str(path), 24): 0.8, ("/nowhere/b.c", 3): 0.2}
    functions = SimpleNamespace(
        rows=SimpleNamespace(period=np.array([70, 20, 10])),
        charged_functions=np.array([4, -1, 5]),
        name={4: "produce(int)", 5: "hot(int)"}.get,
        file=lambda _: "work",
    )
    evidence = SimpleNamespace(functions=functions, event=SimpleNamespace(name="cpu-clock"), charged_lines=lambda _: lines)
    hot = {"name": "hot(int)", "event": "cpu-clock", "sources": []}
    first, second = with_charged_lines([hot], cast("Evidence", evidence))
    assert first == hot
    assert (second["name"], second["module"], second["share"], second["chargedShare"]) == ("produce(int)", "work", 0, 0.7)
    assert second["charged"] == [[0, 24, 0.8]]
    assert [line[2] for line in second["sources"][0]["lines"]] == [f"line {number}" for number in range(19, 30)]
    assert second["instructions"] == []
    cold = SimpleNamespace(**{**vars(functions), "rows": SimpleNamespace(period=np.array([1, 200, 10]))})
    evidence.functions = cold
    assert with_charged_lines([hot], cast("Evidence", evidence)) == [hot]
