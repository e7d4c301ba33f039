"""The page in a real browser: what a person selects, and what is then shown."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pytest

from perfpy.analysis.stacks import Function
from perfpy.analysis.verdict.categories import INTERPRETER, KERNEL, LIBRARY, OWN, WAITING
from perfpy.analysis.verdict.processes import ProcessRow
from perfpy.tools.trace.call_sums import Totals
from perfpy.tools.trace.calls import ENTER, EXIT, CallEvents, Pairing
from perfpy.tools.trace.lane_page import lane_page
from perfpy.views.page import profile_data
from perfpy.views.page import profile_data as sample_rows
from perfpy.views.page.lanes import LaneCalls, Lanes, LaneStory, LaneTable
from perfpy.views.page.lanes import page_of_lanes as render_lanes
from perfpy.views.page.marks import Mark, Marks, PagePhase, WaitChains, WaitLane
from perfpy.views.page.page import HeadlineSentence, PageText, render
from tests.builders.browser import Browser
from tests.builders.stacks import At, stacks, timed_stacks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from perfpy.analysis.stacks import Stacks
    from perfpy.views.page.profile_data import PageSites


MS = 1_000_000
RAN = [
    *(At("app;main;hot", at * 10 * MS, 10 * MS, 7, 7, 0) for at in range(1, 501)),
    *(At("db;serve;main;query", at * 10 * MS, 10 * MS, 8, 9, 1) for at in range(501, 1001)),
]
WAITED = [At("app;main;nap", 8000 * MS, 2000 * MS, 7, 7, 0)]
FAULTS = [At("app;main;grow", at * 100 * MS, 1, 7, 7, 0) for at in range(1, 11)]
CODE = {"name": "hot", "module": "app", "event": "cpu-clock", "share": 0.5,
        "instructions": [[3, 0.75, "1003", "add %rax", "hot.c:2", 0, 2, 0], [9, 0.25, "1009", "ret", "hot.c:3", 0, 3, -1]],
        "calls": [[["step", "hot.c:2"]]],
        "sources": [{"path": "/src/hot.c", "share": 1.0,
                     "lines": [[1, 0, "int hot(void) {", "t3.1f3.1t4"], [2, 0.75, "  x++;", ""], [3, 0.25, "}", ""]]}],
        "spots": [[3, 0, 2, 1], [9, 0, 3, 2]]}  # fmt: skip
LINES = {"name": "/src/main.c", "event": "cpu-clock", "share": 0.5, "own": 0.2,
         "lines": [[7, 0, "sum(all);", 0.3, "f3"], [9, 0.2, "}", 0.2, ""]], "calls": 0, "spots": [[7, 1, 0], [9, 2, 1]]}  # fmt: skip
MARKS = Marks(
    [Mark(1012 * MS, 7, 7, "page-faults", "grow"), Mark(2000 * MS, 7, 7, "fork", "process 8"), Mark(6000 * MS, 8, 9, "switch", "out")], 3
)
HEADLINE = [
    HeadlineSentence("50 % of the CPU time is in hot(), called from main().", [("hot()", "hot"), ("main()", "main")], subject="CPU"),
    HeadlineSentence("It waited 2 s."),
]


class NumberedSites:
    """Numbers of two sites by the rows of samples."""

    count = 2

    def of_rows(self, rows: NDArray[np.int32]) -> NDArray[np.int64]:
        return rows.astype(np.int64)


def with_sites(part: Stacks) -> Stacks:
    """Return stacks whose first 500 samples are at site 1 (hot), later at site 2; others at none."""
    assert part.timed is not None
    order = np.arange(len(part.timed.time))
    site = np.where(order < 400, 1, np.where(order < 500, 2, 0)).astype(np.int32)
    return dataclasses.replace(part, timed=dataclasses.replace(part.timed, site=site))


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("chromium")) as started:
        yield started


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of a recording with three events."""
    parts = [
        with_sites(timed_stacks(RAN)),
        timed_stacks(WAITED, "offcpu-time", off_cpu=True),
        timed_stacks(FAULTS, "faults", in_seconds=False),
    ]
    file = tmp_path_factory.mktemp("page") / "one.html"
    text = PageText("perfpy record ./app", ["here", "10 s"], ["1,011 samples, none lost", "a doubt"], HEADLINE)
    page = render(parts, text, code=[CODE], files=[LINES], marks=MARKS, sites=cast("PageSites", NumberedSites()))
    file.write_text(page, encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def plumbing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of stacks with library and kernel frames."""
    samples = [*(At("app;main;send;out;entry;do_it", at * 10 * MS, 10 * MS) for at in range(1, 31)), At("app;main", 310 * MS, 700 * MS)]
    part = timed_stacks(samples)
    category_of = {"main": OWN, "send": LIBRARY, "out": LIBRARY}
    part = dataclasses.replace(part, categories=[category_of.get(function.name, KERNEL) for function in part.functions])
    file = tmp_path_factory.mktemp("page") / "plumbing.html"
    file.write_text(render([part], PageText("plumbing")), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of 1,000 samples with levels of detail: an overview of 50, and chunks of 200."""
    file = tmp_path_factory.mktemp("page") / "long.html"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(profile_data, "MOST_ROWS", 100)
        patch.setattr(profile_data, "OVERVIEW", 50)
        patch.setattr(sample_rows, "_CHUNK", 200)
        file.write_text(render([timed_stacks(RAN)], PageText("long")), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of a service with two workers."""
    file = tmp_path_factory.mktemp("page") / "service.html"
    rows = [ProcessRow(7, "app.py: worker 1", 0.7, 7, "hot", 0.9), ProcessRow(8, "<b>2</b>", 0.3, 3, "", 0.0)]
    file.write_text(render([timed_stacks(RAN)], PageText("service", headline=HEADLINE, processes=rows)), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of two recordings: `query` has become three times as much."""
    before = timed_stacks([At("app;main;hot", at * 10 * MS) for at in range(60)] + [At("app;main;query", at * 10 * MS) for at in range(20)])
    after = timed_stacks([At("app;main;hot", at * 10 * MS) for at in range(60)] + [At("app;main;query", at * 10 * MS) for at in range(60)])
    file = tmp_path_factory.mktemp("page") / "two.html"
    starred = {"cpu-clock": {("query", before.functions[1].dso): "beyond the spread of hosts"}}
    file.write_text(render([before], PageText("before and after"), after=[after], starred=starred), encoding="utf-8")
    return file


def test_both_sides_of_a_change_have_their_threads_and_small_shares_no_zero(browser: Browser, tmp_path: Path) -> None:
    """The first process of each recording is open; a category of less than a twentieth of a percent has no entry."""
    samples = [At("app;main;hot", at * 10 * MS, 10 * MS, 7, 7 + at % 3) for at in range(300)]
    part = timed_stacks([*samples, At("app;main;read", 3000 * MS, MS // 10, 7, 7)])
    part = dataclasses.replace(part, categories=[{"read": KERNEL}.get(function.name, OWN) for function in part.functions])
    file = tmp_path / "two.html"
    file.write_text(render([part], PageText("two", ["before: " + "long " * 60, "after: x"]), after=[part]), encoding="utf-8")
    browser.open(file)
    opened = "[...document.querySelectorAll('#tracks .opener')].map(one => one.getAttribute('aria-expanded'))"
    assert browser.run(opened) == ["true", "true"]
    assert len(browser.texts("#tracks .track")) == 8
    assert browser.texts("#legend .entry") == ["own code 100\u00a0%"]
    assert browser.run("(e => e.scrollHeight <= e.clientHeight)(document.querySelector('#recording'))"), "both command lines are there"


@pytest.fixture
def page(browser: Browser, one: Path) -> Iterator[Browser]:
    browser.dark(on=False)
    browser.open(one)
    browser.choose("#event", "cpu-clock")
    yield browser
    assert not browser.errors


def functions(browser: Browser, *columns: int) -> list[list[str]]:
    """The rows of the table of functions."""
    browser.click("#tab-functions")
    rows = [row.split("\t") for row in browser.texts("#functions tbody tr")]
    return [[row[column] for column in columns] for row in rows]


def select(browser: Browser, start: float, end: float) -> None:
    """Select a range of time by numbers."""
    browser.run("document.querySelector('#filter-box').hidden = false")
    browser.type("#from", str(start))
    browser.type("#to", str(end))
    browser.focus("#search")  # which is when a field has changed
    browser.run("document.querySelector('#filter-box').hidden = true")


def filter_by(browser: Browser, field: str, label: str) -> None:
    """Choose a filter."""
    browser.run("document.querySelector('#filter-box').hidden = false")
    browser.choose(f"#{field}", label)


def chips(browser: Browser) -> list[str]:
    """The filters."""
    return [text.split("\n")[0] for text in browser.texts("#chips .chip")]


def is_hidden(browser: Browser, selector: str) -> bool:
    result: bool = browser.run(f"document.querySelector({selector!r}).hidden")
    return result


def test_it_begins_with_the_verdict(page: Browser) -> None:
    assert page.text("#headline") == "50 % of the CPU time is in hot(), called from main()."
    assert page.text("#headline-more") == "It waited 2 s."
    assert page.text("#title") == "perfpy record ./app"
    assert page.text("#environment") == "here · 10 s"
    assert page.text("#selected") == "1,000 of 1,000 samples · 10.000 s"
    assert page.box("#headline")[1] < page.box("#activity")[1] < page.box("#graph-box")[1] < 500  # in the first window


def test_a_long_headline_ends_before_what_can_be_read_below(browser: Browser, tmp_path: Path) -> None:
    first, second, third = (
        f"{share} % of the CPU time is in {name}, called from main() in the middle"
        for share, name in ((50, "a()"), (30, "b()"), (9, "c()"))
    )
    names = [("a()", "hot"), ("c()", "query")]
    headline = [HeadlineSentence(f"{first}; {second}; and {third}.", names), HeadlineSentence("It waited 2 s.")]
    file = tmp_path / "long.html"
    file.write_text(render([timed_stacks(RAN)], PageText("long", headline=headline)), encoding="utf-8")
    browser.open(file)
    assert browser.text("#headline") == f"{first}; {second}."
    assert browser.text("#headline-more") == f"{third}. It waited 2 s."
    assert browser.texts("#headline-more .evidence") == ["c()"]
    for text in ("it waits for b() all the time", "c() waits"):
        headline = [HeadlineSentence(f"{first}{', as before' * 8}; {text}.", names)]
        file.write_text(render([timed_stacks(RAN)], PageText("long", headline=headline)), encoding="utf-8")
        browser.open(file)
        assert browser.text("#headline-more") == f"{'c()' if text[0] == 'c' else 'It'}{text[3 if text[0] == 'c' else 2 :]}."


def test_the_evidence_of_a_sentence_is_one_click_away(page: Browser) -> None:
    page.click("#headline .evidence")
    assert page.text("#details-name") == "hot"
    assert page.texts("#details .shares dd") == ["50.00%, 5.000 s", "50.00%, 5.000 s", "50.00%, 5.000 s"]
    assert page.texts("#details .neighbours button") == ["50.00%\nmain"]
    assert page.texts("#details .snippet tr") == ["\t1\tint hot(void) {", "75.00%\t2\t  x++;", "25.00%\t3\t}"]


def test_a_long_first_sentence_leaves_room_on_small_screens(browser: Browser, tmp_path: Path) -> None:
    """It had eight lines on a telephone."""
    parts = [f"{share} % is in module_{share}_function(), called from module_0_function() ({share} %)" for share in (58, 24, 18)]
    heights = {}
    for name, text in (("long", "; ".join(parts) + "."), ("short", parts[0] + ".")):
        file = tmp_path / f"{name}.html"
        file.write_text(render([timed_stacks(RAN)], PageText("t", headline=[HeadlineSentence(text)])), encoding="utf-8")
        browser.open(file, width=390)
        heights[name] = browser.box("#headline")[3]
    assert heights["long"] < 2 * heights["short"]


def test_of_an_inlined_function_its_own_lines_are_shown(browser: Browser, tmp_path: Path) -> None:
    """Line 3 of hot() calls step(), which is inlined there: it is not the hottest line of hot()."""
    instructions = [[3, 0.75, "1003", "add %rax", "hot.c:2", 0, 2, -1], [9, 0.25, "1009", "ret", "hot.c:3", 0, 3, 0]]
    samples = [At("app;main;hot", at * MS, MS, 7, 7, 0) for at in range(3)] + [At("app;main;hot;step", 4 * MS, MS, 7, 7, 0)]
    file = tmp_path / "inlined.html"
    file.write_text(render([timed_stacks(samples)], PageText("t"), code=[{**CODE, "instructions": instructions}]), encoding="utf-8")
    browser.open(file)
    browser.type("#search", "step")
    browser.click("#tab-functions")
    browser.run("[...document.querySelectorAll('#functions button')].find(one => one.textContent === 'step').click()")
    assert "Hottest lines, as shares of hot, which it is inlined into" in browser.texts("#details h3")
    assert browser.texts("#details .snippet tr") == ["\t1\tint hot(void) {", "\t2\t  x++;", "25.00%\t3\t}"]
    browser.run("[...document.querySelectorAll('#details button')].find(one => one.textContent === 'Show code').click()")
    assert browser.texts("#code-lines tr.here")[0].endswith("3\t}inlined: step at hot.c:2")
    browser.click("#code-hottest")
    assert not browser.errors


def test_the_processes_of_a_service_are_a_table(browser: Browser, service: Path) -> None:
    browser.open(service)
    rows = [row.split("\n") for row in browser.texts("#processes tr")]
    assert rows == [["70.0 %", "app.py: worker 1", "90 % in hot()"], ["30.0 %", "<b>2</b>"]]
    assert "app.py: worker 1 7\n" in browser.run("document.body.innerText")  # its lane
    browser.click("#processes .evidence")
    assert browser.text("#details-name") == "hot"


def test_of_many_processes_those_with_time_are_shown_first(browser: Browser, tmp_path: Path) -> None:
    """A page of a whole machine began with 26 rows, most of them 0.0 %."""
    file, shares = tmp_path / "machine.html", [0.5, 0.3, 0.1, *[0.0001] * 20]
    rows = [ProcessRow(100 + i, f"worker {i}", share, 7, "", 0.0) for i, share in enumerate(shares)]
    file.write_text(render([timed_stacks(RAN)], PageText("machine", headline=HEADLINE, processes=rows)), encoding="utf-8")
    browser.open(file)
    assert browser.texts("#processes th") == ["worker 0", "worker 1", "worker 2"]
    assert browser.text("#processes .evidence") == "20 more processes, 0.2 % in all"
    browser.click("#processes .evidence")
    assert len(browser.texts("#processes th")) == len(shares)


def test_a_page_without_a_service_has_no_table_of_processes(page: Browser) -> None:
    assert page.run("document.getElementById('processes').hidden") is True


def test_a_click_on_the_headline_leads_to_the_row_with_its_share(page: Browser) -> None:
    filter_by(page, "process", "db 8")
    page.click("#headline .evidence")
    assert chips(page) == []
    assert page.texts("#functions tr.chosen") == ["50.00%\t50.00%\t50.00%\thot\tmain\tapp"]
    assert page.text("#functions th[aria-sort=descending]") == "With libraries"


def test_a_click_on_the_headline_keeps_the_event_or_says_which_it_shows(page: Browser) -> None:
    page.choose("#event", "on and off the CPU")
    page.click("#headline .evidence")
    assert page.run("document.querySelector('#event').selectedOptions[0].text") == "on and off the CPU"
    assert page.texts("#functions tr.chosen td.name") == ["hot"]
    assert page.text("#functions th[aria-sort=descending]") == "With libraries"
    assert page.text("#about") == ""
    page.choose("#event", "faults")
    page.click("#headline .evidence")
    assert page.run("document.querySelector('#event').selectedOptions[0].text") == "cpu-clock"
    assert page.text("#about") == "Shows cpu-clock, which the sentence is of, and no longer faults."


def test_what_does_not_follow_a_selected_range_says_so(page: Browser) -> None:
    said = "[...document.querySelectorAll('#headline, #legend')].map(one => getComputedStyle(one, '::after').content)"
    assert page.run(said) == ["none", "none"]
    select(page, 2, 4)
    assert page.run(said) == ['"(the whole recording)"', '"(all that the time line shows)"']
    page.click("#zoom")
    assert page.run(said) == ['"(the whole recording)"', "none"]
    select(page, 2.5, 3)
    assert page.run(said) == ['"(the whole recording)"', '"(all that the time line shows)"']
    page.click("#whole")
    assert page.run(said) == ["none", "none"]
    filter_by(page, "process", "db 8")
    assert page.run(said) == ['"(the whole recording)"', "none"]


def test_a_zoomed_time_line_and_all_views_are_of_one_range(page: Browser) -> None:
    select(page, 6, 8)
    of_range = [page.text("#selected"), functions(page, 0, 3), page.text("#said")]
    assert "query" in of_range[2]
    page.click("#zoom")
    assert [page.text("#selected"), functions(page, 0, 3), page.text("#said")] == of_range
    assert chips(page) == ["zoomed to 6.000 s to 8.000 s"]
    assert page.texts("#legend .entry") == ["own code 100\xa0%"]
    page.click("#tab-tree")
    assert tree_rows(page)[0].startswith("100.00% 0.00% ▾db")
    select(page, 6.5, 7)
    assert page.text("#selected").startswith("50 of 1,000 samples"), "a range within it"
    page.press("Escape")
    assert page.text("#selected") == of_range[0]
    page.click("#chips .chip")
    assert page.text("#selected") == "1,000 of 1,000 samples · 10.000 s"


OF_WAITS = HeadlineSentence("It waited 2 s of 10 s.", column="waits", subject="waits")


@pytest.mark.parametrize(
    ("headline", "opens_with"),
    [
        ([*HEADLINE, OF_WAITS], "cpu-clock"),
        ([], "cpu-clock"),
        ([HeadlineSentence("10 % of the samples were lost."), OF_WAITS], "on and off the CPU"),
        ([OF_WAITS, *HEADLINE], "on and off the CPU"),
    ],
)
def test_the_page_opens_with_the_time_that_its_headline_tells_first(
    browser: Browser, tmp_path: Path, headline: list[HeadlineSentence], opens_with: str
) -> None:
    parts = [timed_stacks(RAN), timed_stacks(WAITED, "offcpu-time", off_cpu=True)]
    file = tmp_path / "opens.html"
    file.write_text(render(parts, PageText("opens", headline=headline)), encoding="utf-8")
    browser.open(file)
    event = "document.querySelector('#event').selectedOptions[0].text"
    assert browser.run(event) == opens_with
    assert browser.text("#waits-too") == "+ Waits 2.000 s"
    has_waits = opens_with != "cpu-clock"
    first, *_ = browser.texts("#details :is(h2, h3)")
    assert (first == "Most time waiting") == has_waits, "the panel begins with what the headline tells"
    assert ("without 2.000 s that threads waited" in browser.text("#change-legend")) != has_waits
    for press in (lambda: browser.click("#waits-too"), lambda: browser.press("w")):
        assert browser.run("document.querySelector('#waits-too').getAttribute('aria-pressed')") == str(has_waits).lower()
        assert ("stroke" in browser.text("#change-legend")) == has_waits
        press()
        has_waits = not has_waits
    assert browser.run(event) == opens_with
    assert not browser.errors


def test_events_with_the_same_name_can_be_told_apart(browser: Browser, tmp_path: Path) -> None:
    parts = [timed_stacks(RAN, name) for name in ("sched:sched_switch", "cpu-clock", "sched:sched_switch")]
    file = tmp_path / "events.html"
    file.write_text(render(parts, PageText("events")), encoding="utf-8")
    browser.open(file)
    names = browser.run("[...document.querySelector('#event').options].map(one => one.text)")
    assert [name for name in names if "sched" in name] == ["sched:sched_switch #1", "sched:sched_switch #2"]
    assert "cpu-clock" in names
    assert not browser.errors


def test_the_hottest_function_is_everywhere_that_of_the_headline(browser: Browser, tmp_path: Path) -> None:
    samples = [At("app;main;make;sin;round", at * 10 * MS, 10 * MS) for at in range(1, 61)]
    samples += [At("app;main;make;sin", at * 10 * MS, 10 * MS) for at in range(61, 71)]
    samples += [At("app;main;cold", at * 10 * MS, 10 * MS) for at in range(71, 101)]
    part = timed_stacks(samples)
    part = dataclasses.replace(part, inlined=[one.name == "round" for one in part.functions])
    hottest = [("sin()", "sin", 0.7), ("make()", "make", 0.7)]
    names = [("sin()", "sin"), ("make()", "make")]
    headline = [HeadlineSentence("70 % is in sin(), called from make().", names, "charged", "CPU", hottest)]
    code = [{**CODE, "name": "cold", "share": 0.3}, {**CODE, "name": "sin", "share": 0.7, "sources": []}]
    file = tmp_path / "sin.html"
    file.write_text(render([part], PageText("sin", headline=headline), code=code), encoding="utf-8")
    browser.open(file)
    assert browser.texts("#details .neighbours button") == ["70.00%\nsin\nheadline", "30.00%\ncold"]
    assert "Inlined code counts for the function that it stands in" in browser.text("#details")
    browser.click("#tab-sandwich")
    assert browser.text("#sandwich-about").startswith("sin · app (the hottest function, as in the headline")
    browser.click("#tab-code")
    assert browser.run("document.querySelector('#code-function').selectedOptions[0].text") == "70.00% sin"
    assert ", with the code inlined into it; shares below are of that" in browser.text("#code-about")
    browser.click("#details .neighbours button")
    assert browser.texts("#details .shares dt") == ["Self", "With inlined code", "With libraries", "Total"]
    assert browser.texts("#details .shares dd")[:2] == ["10.00%, 100.000 ms", "70.00%, 700.000 ms"]
    browser.click("#headline .evidence")
    assert browser.texts("#functions tbody tr")[0].startswith("10.00%\t70.00%\t"), "the table begins with the headline's number"
    assert browser.text("#functions tr.chosen .name") == "sin"
    browser.run("document.querySelectorAll('#headline .evidence')[1].click()")
    browser.click("#tab-code")
    assert "No code is here of make, which is selected" in browser.text("#code-about")
    browser.choose("#code-function", "30.00% cold")
    assert "which is selected" not in browser.text("#code-about")
    browser.press("Escape")
    select(browser, 0.8, 0.9)
    assert browser.texts("#details .neighbours button") == ["100.00%\ncold"], "a range has its own"
    browser.click("#tab-sandwich")
    assert browser.text("#sandwich-about").startswith("cold · app (the hottest function: ")
    assert not browser.errors


def test_the_page_says_why_code_is_not_that_of_the_headline(browser: Browser, tmp_path: Path) -> None:
    hottest = [HeadlineSentence("50 % is in hot.", hottest=[("the top level of <string>", "py::<module>:<string>", 0.5)])]
    code = [
        {**CODE, "name": "py::<module>:<string>", "module": "<string>", "sources": [], "instructions": [], "spots": [], "interpreted": 1},
        CODE,
    ]
    file = tmp_path / "string.html"
    file.write_text(render([timed_stacks(RAN)], PageText("string", headline=hottest), code=code), encoding="utf-8")
    browser.open(file, width=1440)
    browser.click("#tab-code")
    assert "No code is here of the top level of <string>, which the headline names first" in browser.text("#code-about")
    browser.choose("#code-function", "50.00% py::<module>:<string>")
    assert "names first" not in browser.text("#code-about")
    assert ", without what it calls" in browser.text("#code-about")
    assert "shares below" not in browser.text("#code-about")
    assert browser.texts("#code-lines tbody tr") == [], "the bytes at the addresses of its lines are no instructions"
    assert "its source is in no file" in browser.text("#code-about")


@pytest.mark.parametrize("width", [390, 1440])
def test_names_in_narrow_lists_keep_what_tells_them_apart(browser: Browser, tmp_path: Path, width: int) -> None:
    methods = ["SerializeString", "SerializeObject", "LookupIterator"]
    samples = [At(f"app;v8::internal::compiler::turboshaft::{name}", at * 10 * MS, 10 * MS) for at, name in enumerate(methods, 1)]
    file = tmp_path / "names.html"
    file.write_text(render([timed_stacks(samples)], PageText("names")), encoding="utf-8")
    browser.open(file, width=width)
    boxes = "[...document.querySelectorAll('#details .rest')].map(one => [one.textContent, one.scrollWidth <= one.clientWidth])"
    assert sorted(browser.run(boxes)) == [[name, True] for name in sorted(methods)]


def test_the_way_back_leads_through_what_was_shown(page: Browser) -> None:
    page.click("#tab-functions")
    filter_by(page, "process", "db 8")
    page.drag("#activity", (0.6, 0.5), (0.7, 0.5))
    page.click("#tab-tree")
    page.focus("#call-tree tbody tr")
    page.press("ArrowDown")  # chooses a function, which is no step
    assert chips(page)[0] == "db 8"
    for tab, filters, track in (("functions", 2, "db 8"), ("functions", 0, "app 7"), ("flame", 0, "app 7")):
        page.run("history.back()")
        page.until(f"document.querySelector('#tab-{tab}').getAttribute('aria-selected') === 'true'")
        page.until(f"document.querySelectorAll('#chips .chip').length === {filters}")
        assert page.texts("#tracks .track-name")[0].startswith(track), "the time line follows"
    page.run("history.forward()")
    page.until("document.querySelector('#tab-functions').getAttribute('aria-selected') === 'true'")
    assert page.texts("#functions tbody tr")


def test_what_was_copied_is_named(page: Browser) -> None:
    page.run("navigator.clipboard.writeText = text => { window.copied = text; return Promise.resolve(); }")
    for tab, what in (("functions", "Functions"), ("flame", "Call tree")):
        page.click(f"#tab-{tab}")
        page.click("#copy")
        page.until("document.querySelector('#about').textContent.startsWith('Copied')")
        assert page.text("#about") == f"Copied as text: {what}, {page.run('copied.split(String.fromCharCode(10)).length - 1')} lines."


def test_without_waits_there_is_no_button_for_them(browser: Browser, service: Path) -> None:
    browser.open(service)
    assert is_hidden(browser, "#waits-too")


def test_the_hottest_path_of_the_call_tree_is_open_though_threads_sleep_longer(browser: Browser, tmp_path: Path) -> None:
    slept = [At("idle;wait;nap", at * 1000 * MS, 900 * MS, 7, 6) for at in range(1, 10)]
    waited = HeadlineSentence("It waited 8.1 s of 10 s.", column="waits", subject="waits")
    for headline, first in ((HEADLINE, "app"), ([waited], "idle")):
        file = tmp_path / f"{first}.html"
        parts = [timed_stacks(RAN[:500]), timed_stacks(slept, "offcpu-time", off_cpu=True)]
        file.write_text(render(parts, PageText("sleepers", headline=headline)), encoding="utf-8")
        browser.open(file)
        browser.choose("#event", "on and off the CPU")
        browser.click("#tab-tree")
        names = "[...document.querySelectorAll('#call-tree .label')].map(one => one.textContent)"
        assert browser.run(names) == (["app", "main", "hot", "idle"] if first == "app" else ["idle", "wait", "nap", "app"])
        browser.click("#tab-callers")
        names = names.replace("call-tree", "caller-tree")
        assert browser.run(names)[0] == ("hot" if first == "app" else "nap")


def test_the_status_line_of_a_frame_does_not_stay_in_another_view(page: Browser) -> None:
    page.focus("#graph")
    page.press("ArrowDown")
    assert page.text("#about").startswith("app: 50.00%")
    page.click("#tab-code")
    assert page.text("#about") == ""


def test_many_processes_do_not_move_the_picture_away(browser: Browser, tmp_path: Path) -> None:
    rows = [ProcessRow(at, f"worker {at}", 0.01, at, "", 0.0) for at in range(1, 101)]
    file = tmp_path / "many.html"
    file.write_text(render([timed_stacks(RAN)], PageText("many", headline=HEADLINE, processes=rows)), encoding="utf-8")
    for width in (390, 1440):
        browser.open(file, width=width)
        top = browser.box("#toolbar")[1]
        browser.click("#processes .evidence")
        assert len(browser.texts("#processes th")) == 100
        assert browser.box("#toolbar")[1] - top < 150
        assert browser.run("(box => box.scrollHeight > box.clientHeight)(document.querySelector('#processes .rows'))")


def test_the_functions_are_saved_as_csv(browser: Browser, tmp_path: Path) -> None:
    samples = [At("app;main;=1+2", MS, 3 * MS), At('app;main;say("hi", 1)', 4 * MS, MS)]
    file = tmp_path / "csv.html"
    file.write_text(render([timed_stacks(samples)], PageText("csv")), encoding="utf-8")
    browser.open(file)
    browser.run("URL.createObjectURL = blob => { window.saved = blob; return 'blob:none'; }")
    browser.run("HTMLAnchorElement.prototype.click = function () { window.savedAs = this.download; }")
    expected = [
        '"Self (%)","With libraries (%)","Total (%)","Function","Called from own code","Module"',
        '75.0000,75.0000,75.0000,"\'=1+2","main","app"',
        '25.0000,25.0000,25.0000,"say(""hi"", 1)","main","app"',
        '0.0000,0.0000,100.0000,"main","","app"',
    ]
    for way in ("click", "key", "click in the view itself"):
        if way == "key":
            browser.press("e")
        else:
            browser.click("#csv")
        assert browser.run("saved.text()") == "\r\n".join([*expected, ""])
        assert browser.run("[savedAs, saved.type]") == ["functions.csv", "text/csv"]
        assert browser.text("#about") == "Saving 3 functions as functions.csv."
        browser.run("window.saved = null")
        if way == "key":
            browser.click("#tab-functions")
    browser.type("#search", "say")
    browser.click("#csv")
    assert browser.run("saved.text()") == "\r\n".join([expected[0], expected[2], ""])


def test_names_are_broken_between_their_parts_and_modules_not_at_all(browser: Browser, tmp_path: Path) -> None:
    name = "_ZN_" + "_".join(["measured"] * 24)
    part = timed_stacks([At(f"app;main;{name}", at * 10 * MS, 10 * MS) for at in range(1, 9)])
    part = dataclasses.replace(part, functions=[one._replace(dso="[kernel.kallsyms]") for one in part.functions])
    file = tmp_path / "names.html"
    file.write_text(render([part], PageText("names")), encoding="utf-8")
    for width in (390, 1440):
        browser.open(file, width=width)
        browser.click("#tab-functions")
        assert name in browser.texts("#functions td.name")
        lines = """[...document.querySelectorAll('#functions td.name button')].flatMap(one => {
          const lines = [], range = document.createRange();
          for (const text of one.childNodes) if (text.nodeType === 3) for (let i = 0; i < text.length; i++) {
            range.setStart(text, i); range.setEnd(text, i + 1);
            const top = Math.round(range.getBoundingClientRect().top);
            if (lines.length && lines.at(-1)[0] === top) lines.at(-1)[1] += text.data[i]; else lines.push([top, text.data[i]]);
          }
          return lines.map(([, line]) => line); })"""
        broken = [line for line in browser.run(lines) if line not in ("main", name)]
        assert len(broken) > 1
        assert all(line.endswith(("_", "measured")) for line in broken), (width, broken)
        rows = browser.run("""[...document.querySelectorAll('#functions td.module')].filter(one => one.checkVisibility()).map(one => {
          const range = document.createRange();
          range.selectNodeContents(one);
          return range.getClientRects().length; })""")
        assert rows == ([1] * 2 if width > 800 else [])


def test_the_filters_open_below_their_button(page: Browser) -> None:
    page.size(1440, 900)
    page.click("#filter")
    assert page.box("#filter-box")[0] == pytest.approx(page.box("#filter")[0], abs=2)
    page.click("#filter")
    page.size(830, 800)
    page.click("#filter")
    left, _, width, _ = page.box("#filter-box")
    assert left + width <= 830


def test_notes_are_behind_one_badge_with_their_number(page: Browser) -> None:
    assert page.text("#badge") == "3 notes"
    assert is_hidden(page, "#notes-box")
    page.click("#badge")
    first, second, of_waits = page.texts("#notes li")
    assert (first, second) == ("1,011 samples, none lost", "a doubt")
    assert "are recorded as sums" in of_waits
    page.press("Escape")
    assert is_hidden(page, "#notes-box")


def test_the_page_makes_no_requests(page: Browser) -> None:
    for tab in range(1, 10):
        page.press(str(tab))
    page.press("1")
    page.focus("#graph")
    page.press("ArrowDown")
    assert [url for url in page.requests if not url.startswith("file:")] == []


def test_every_view_is_drawn_by_its_tab_or_number(page: Browser) -> None:
    tabs = page.run("[...document.querySelectorAll('[role=tab]:not([hidden])')].map(tab => tab.id)")
    for number, tab in enumerate(tabs, 1):
        page.run("document.activeElement.blur()")
        page.press(str(number))
        result = page.run("[...document.querySelectorAll('[role=tabpanel]')].filter(panel => !panel.hidden).map(panel => panel.id)")
        assert result == [tab.replace("tab-", "view-")]
        assert page.run(f"document.querySelector('#{tab}').getAttribute('aria-selected')") == "true"
        height = page.run(f"document.querySelector('#{result[0]}').clientHeight")
        assert height > 250, f"{tab} fills the window"
    page.focus("#tab-heat")
    page.press("ArrowRight")
    assert page.run("document.activeElement.id") == "tab-flame"


def test_the_tenth_view_has_a_key(page: Browser) -> None:
    page.run("for (const tab of document.querySelectorAll('[role=tab]')) tab.hidden = false; document.activeElement.blur()")
    page.press("0")
    assert page.run("document.querySelector('[role=tab][aria-selected=true]').id") == "tab-heat"


def test_phases_are_named_above_the_activity_and_select_their_time(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "phases.html"
    begin = 10 * MS
    phases = [PagePhase("load()", begin, begin + 5000 * MS, 1.0), PagePhase("<b>order</b>", begin + 5000 * MS, begin + 9990 * MS, 0.97)]
    file.write_text(render([timed_stacks(RAN)], PageText("phases"), phases=phases), encoding="utf-8")
    browser.open(file)
    assert browser.texts("#phases button") == ["load()", "<b>order</b>"]
    shaded = """(at => { const c = document.querySelector('#activity'), pen = c.getContext('2d');
      return pen.getImageData(Math.round(at * c.width), 20, 1, 1).data[3] > 0 })"""
    left, top, width, _ = browser.box("#phases")
    second = browser.box("#phases button:nth-child(2)")
    assert abs(second[0] - left - width / 2) < 2
    assert top < browser.box("#activity")[1]
    browser.run("document.querySelector('#phases button:nth-child(2)').click()")
    assert browser.text("#selected").startswith("499 of 1,000 samples")
    assert "5.000 s to 9.990 s" in browser.run("document.querySelector('#phases button:nth-child(2)').title")
    assert browser.run("document.querySelector('#phases button:nth-child(2)').getAttribute('aria-pressed')") == "true"
    browser.click("#zoom")
    assert browser.texts("#phases button") == ["<b>order</b>"], "only that phase is in view"
    browser.click("#whole")
    browser.run("document.querySelector('#phases button').click(); document.querySelector('#phases button').click()")
    assert browser.text("#selected").startswith("1,000 of 1,000"), "a second click takes the range back"
    assert browser.run(f"{shaded}(0.25)"), "the first phase is shaded, above the bars, too"
    assert not browser.errors


def test_without_phases_nothing_is_above_the_activity(page: Browser) -> None:
    assert is_hidden(page, "#phases-row")


def test_the_row_of_a_chosen_function_is_marked_at_once(page: Browser) -> None:
    page.click("#tab-functions")
    for row in (2, 1):
        page.click(f"#functions tbody tr:nth-child({row}) td.name button")
        assert page.run("[...document.querySelectorAll('#functions tbody tr')].findIndex(row => row.className === 'chosen')") == row - 1


def test_a_range_that_is_dragged_is_followed_by_everything(page: Browser) -> None:
    assert functions(page, 0, 3)[:2] == [["50.00%", "hot"], ["50.00%", "query"]]
    page.drag("#activity", (0.1, 0.5), (0.4, 0.5))
    assert functions(page, 0, 3)[0] == ["100.00%", "hot"]
    assert "query" not in page.text("#functions")
    assert page.text("#selected").startswith("30")  # of 3 s, as pixels go
    page.click("#tab-flame")
    page.focus("#graph")
    page.press("ArrowDown")
    assert page.text("#about") == f"app: 100.00%, {page.text('#selected').split(' · ')[1]}"
    page.click("#whole")
    assert page.text("#about") == "app: 50.00%, 5.000 s"
    assert page.text("#selected") == "1,000 of 1,000 samples · 10.000 s"


def test_a_range_has_a_sentence_and_is_compared_with_another(page: Browser) -> None:
    """hot runs for the first five seconds, query for the other five."""
    assert is_hidden(page, "#said")
    select(page, 1, 3)
    assert (
        page.text("#said")
        == "1.00 CPUs were used. 100 % of the CPU time is in hot and what it calls (± 0.1 points, 50 % in the whole recording)."
    )
    page.run("document.activeElement.blur()")
    page.press("a")
    assert page.text("#said").startswith("Range A is kept")
    select(page, 6, 9)
    assert page.text("#said") == (
        "A used 1.00 CPUs for 2.000 s, B 1.00 for 3.000 s. B has more CPU time in query with its libraries: none in A, "
        "3.000 s in B (100 % of its length); less in hot with its libraries: 2.000 s in A (100 % of its length), none in B."
    )
    assert chips(page) == ["A: 1.000 s to 3.000 s", "B: 6.000 s to 9.000 s"]
    assert page.text("#selected").startswith("A: 200 samples, 2.000 s · B: 300 samples, 3.000 s")
    rows = functions(page, 0, 1, 2, 6, 7, 8)
    assert sorted(rows[:2]) == [
        ["0.00%", "100.00%", "+100.00", "0.00%", "100.00%", "query"],
        ["100.00%", "0.00%", "-100.00", "100.00%", "0.00%", "hot"],
    ]
    assert page.texts("#functions th")[:8] == [
        *("Self A", "Self B", "Points of self", "With libraries A", "With libraries B", "Points with libraries", "Total A", "Total B"),
    ]
    assert page.texts("#details h2") == ["CPU time with libraries, A to B, in points"], "what the sentence compares"
    assert sorted(row.split() for row in page.texts("#details li")) == [["+100.00", "query"], ["-100.00", "hot"]]
    page.click("#tab-flame")
    assert page.texts("#scale span") == ["\u221210", "\u22123", "\u22121", "±0", "+1", "+3", "+10"]
    page.focus("#graph")
    page.press("ArrowDown")
    assert page.text("#about") in (
        "app: 100.00% of A (2.000 s), 0.00% of B (0.0 µs), -100.00 points",
        "db: 0.00% of A (0.0 µs), 100.00% of B (3.000 s), +100.00 points",
    )
    page.run("document.activeElement.blur()")
    page.press("a")
    assert chips(page) == ["6.000 s to 9.000 s"]
    page.click("#whole")
    assert is_hidden(page, "#said")


def test_a_comparison_of_time_on_and_off_the_cpu_says_what_waited(page: Browser) -> None:
    page.choose("#event", "on and off the CPU")
    select(page, 1, 3)
    page.run("document.activeElement.blur()")
    page.press("a")
    select(page, 6, 9)
    of_cpu, of_waits = page.text("#said").split(" In A ")
    assert of_cpu.startswith("A used 1.00 CPUs for 2.000 s, B 1.00 for 3.000 s. B has more CPU time in query")
    assert re.fullmatch(
        r"0\.00 threads waited at a time, in B 0\.6[5-8]\. B has more waiting time in nap with its libraries: none in A, "
        r"(1\.9\d\d|2\.000) s in B \(6[5-8] % of its length\)\.",
        of_waits,
    )
    assert "each side's length (A 2.000 s, B 3.000 s)" in page.text("#change-legend")
    rows = {row[-1]: row for row in functions(page, 0, 1, 2, 8)}
    assert re.fullmatch(r"\+6[5-7]\.\d\d", rows["nap"][2]), "waits are in the table"
    assert page.texts("#details :is(h2, h3)") == [
        "CPU time with libraries, A to B, in points",
        "Waits with libraries, A to B, in points",
    ]
    page.click("#tab-flame")
    page.focus("#graph")
    for _ in range(3):
        page.press("ArrowDown")
    assert page.text("#about").startswith(("query (db): 0.00% of A", "hot (app): 100.00% of A"))
    page.until("!!document.querySelector('#spoken-graph') && document.querySelector('#spoken-graph').textContent.includes('nap')")
    assert "NaN" not in page.run("document.querySelector('#spoken-graph').textContent")


def test_the_name_of_a_range_does_not_cover_the_ruler(page: Browser) -> None:
    """A begins where the ruler has a text: its name is beside the text."""
    select(page, 2, 5)
    page.run("document.activeElement.blur()")
    page.press("a")
    select(page, 6, 9)
    page.run("""(() => { const pen = document.querySelector('#activity').getContext('2d'), fill = pen.fillText.bind(pen); window.texts = [];
        pen.fillText = (text, x, y) => { window.texts.push([text, x, pen.measureText(text).width]); fill(text, x, y); }; })()""")
    page.run("window.onresize()")
    page.until("window.texts.length > 0")
    texts = page.run("window.texts")
    names = [(x - 4, x + 12) for text, x, _ in texts if text in ("A", "B")]
    ticks = [(x, x + width) for text, x, width in texts if text.endswith(" s")]
    assert len(names) >= 2
    assert ticks
    assert not [(name, tick) for name in names for tick in ticks if name[0] < tick[1] and tick[0] < name[1]]


def test_lost_samples_are_marked_where_they_were_lost(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "lost.html"
    red = """(() => { const c = document.querySelector('#activity'), x = Math.round(c.width / 2);
      const p = c.getContext('2d').getImageData(x, 0, 60, 16).data;
      let n = 0; for (let i = 0; i < p.length; i += 4) if (p[i] > 150 && p[i + 1] < 90 && p[i + 3] > 200) n++; return n; })()"""
    for marks, is_marked in ((Marks([Mark(5000 * MS, 7, 7, "lost", "1,234")], 1), True), (None, False)):
        file.write_text(render([timed_stacks(RAN)], PageText("lost"), marks=marks), encoding="utf-8")
        browser.open(file)
        assert (browser.run(red) > 20) == is_marked
    assert not browser.errors


def test_a_range_is_chosen_with_keys_and_by_numbers(page: Browser) -> None:
    page.focus("#activity")
    page.press("ArrowRight")  # the first tenth
    assert page.text("#selected").startswith("100 of 1,000 samples")
    for _ in range(5):
        page.press("ArrowRight", shift=True)
    assert page.text("#selected").startswith("200 of 1,000 samples")
    page.press("Escape")
    assert page.text("#selected") == "1,000 of 1,000 samples · 10.000 s"
    select(page, 4, 6)
    assert page.text("#selected").startswith("200 of 1,000 samples · 2.000 s")
    assert functions(page, 0, 3)[:2] == [["50.00%", "hot"], ["50.00%", "query"]] or functions(page, 0, 3)[0][0] == "50.50%"
    page.run("document.activeElement.blur()")
    page.press("z")
    assert page.text("#selected").startswith("200 of 1,000 samples · 2.000 s"), "of what the time line shows"
    page.focus("#activity")
    page.press("ArrowRight")  # a tenth of what is shown
    assert page.text("#selected").startswith("20 of 1,000 samples")


def test_filters_are_chips_that_are_removed_by_a_click(page: Browser) -> None:
    filter_by(page, "process", "app 7")
    assert functions(page, 0, 3)[0] == ["100.00%", "hot"]
    assert page.run("document.querySelector('#thread').options.length") == 2
    assert chips(page) == ["app 7"]
    page.click("#chips .chip")
    assert chips(page) == []
    filter_by(page, "thread", "db 8/9")
    assert functions(page, 0, 3)[0] == ["100.00%", "query"]
    filter_by(page, "cpu", "0")
    assert page.text("#selected").startswith("0 of")
    assert page.text("#empty").startswith("No samples here.")
    page.click("#clear-empty")
    filter_by(page, "cpu", "0")
    assert functions(page, 0, 3)[0] == ["100.00%", "hot"]
    page.click("#clear")
    filter_by(page, "module", "app")
    filter_by(page, "category", "own code")
    assert page.text("#selected").startswith("1,000 of")
    assert chips(page) == ["own code", "in app"]
    page.click("#clear")
    assert chips(page) == []


def test_only_stacks_with_a_function(page: Browser) -> None:
    page.click("#headline .evidence")
    page.run("[...document.querySelectorAll('#details button')].find(one => one.textContent === 'Only stacks with it').click()")
    assert page.text("#selected").startswith("500 of 1,000")
    assert chips(page) == ["stacks with hot"]


def test_tracks_are_processes_and_threads_or_cpus_and_their_names_filters(page: Browser) -> None:
    assert page.texts(".track-name") == ["app 7", "db 8/9"]
    result = page.run("[...document.querySelectorAll('.track-name')].map(one => one.getAttribute('aria-label'))")
    assert [re.sub(r"(49|50)\.\d\d%", "half", label) for label in result] == [
        "app 7: half of the time on the CPU",
        "db 8/9: half of the time on the CPU",
    ]
    page.run("document.querySelectorAll('.track-name')[1].click()")
    assert page.text("#selected").startswith("500 of 1,000")
    assert functions(page, 0, 3)[0] == ["100.00%", "query"]
    page.click("#chips .chip")
    assert page.text("#selected").startswith("1,000 of 1,000")
    page.choose("#lanes", "CPUs")
    assert page.texts(".track-name") == ["CPU 0", "CPU 1"]


def test_tracks_show_load_where_there_was_some(page: Browser) -> None:
    """CPU 0 ran in the first half, CPU 1 in the second."""
    page.choose("#lanes", "CPUs")
    pixel = ("(x => [...document.querySelectorAll('.track canvas')].map(c => [...c.getContext('2d').getImageData(Math.round(x * c.width),"
             " 12, 1, 1).data][3] > 250))")  # fmt: skip
    assert [page.run(f"{pixel}(0.25)"), page.run(f"{pixel}(0.75)")] == [[True, False], [False, True]]


def test_waits_for_cpus_and_locks_have_lanes_above_the_threads(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "lanes.html"
    times = (np.array([1500 * MS]), np.array([2000 * MS]))
    lanes = [WaitLane("cpu", "run queue", "", *times, 500 * MS, 3), WaitLane("lock", "<b>x</b> 7: locks", "mutex", *times, 500 * MS, 1)]
    file.write_text(render([timed_stacks([At("app;f", at * 1000 * MS) for at in (1, 2)])], PageText("t"), lanes=lanes), encoding="utf-8")
    browser.open(file)
    assert browser.texts(".lane-name") == ["run queue", "<b>x</b> 7: locks"]
    assert browser.run("document.querySelector('.lane-name').title") == "run queue: 3 waits, 500.000 ms"
    canvases, data = (
        "[...document.querySelectorAll('.track canvas')].slice(0, 2)",
        "getContext('2d').getImageData(Math.round(x * c.width), 20, 1, 1)",
    )
    pixel = f"(x => {canvases}.map(c => [...c.{data}.data][3]))"
    assert [browser.run(f"{pixel}(0.25)"), browser.run(f"{pixel}(0.75)")] == [[0, 0], [255, 255]]


def test_a_group_of_many_equal_threads_says_the_truth_and_opens_to_the_first(browser: Browser, tmp_path: Path) -> None:
    """200 threads run on ten CPUs in turn: each has 5 % of its time, all together 1000 % of one CPU's."""
    samples = [At(f"worker-{at % 200};f", (1 + at // 10) * 10 * MS, 10 * MS, 7, 10 + at % 200) for at in range(2000)]
    file = tmp_path / "threads.html"
    file.write_text(render([timed_stacks(samples)], PageText("threads")), encoding="utf-8")
    browser.open(file)
    labels = "[...document.querySelectorAll('#tracks .track-name')].map(one => one.getAttribute('aria-label'))"
    assert browser.run(labels)[0].endswith("(200 threads): 10.00 CPUs in use")
    while browser.run("document.querySelectorAll('#tracks .track-name').length") < 3:
        browser.run("document.querySelector('#tracks .opener[aria-expanded=false]').click()")
    of_one = browser.run(labels)[1:]
    assert len(of_one) == 12
    names = "[...document.querySelectorAll('#tracks .track-name')]"
    texts = f"{names}.map(e => (r => (r.selectNodeContents(e), r.getBoundingClientRect().x))(new Range()))"
    left, *below = browser.run(texts)
    assert min(below) > left  # threads are set in below their process
    shares = [re.search(r": (\d+\.\d\d)% of the time on the CPU$", label) for label in of_one]
    assert all(found and 4.5 < float(found[1]) < 5.1 for found in shares), of_one  # the first turn of some ends with the first sample
    assert browser.texts("#tracks .fold")[0].startswith("188 threads")
    browser.click("#tab-sandwich")
    assert browser.text("#sandwich-about").startswith("f · app (the hottest function")


def test_idle_threads_are_folded(browser: Browser, tmp_path: Path) -> None:
    samples = [At("app;f", at * 10 * MS, 10 * MS, 7, 7) for at in range(1, 101)]
    samples += [At("app;f", 1000 * MS + at, 1000, 7, 100 + at) for at in range(1, 31)]
    file = tmp_path / "idle.html"
    file.write_text(render([timed_stacks(samples)], PageText("t")), encoding="utf-8")
    browser.open(file)
    assert browser.texts(".track-name") == ["app 7 (31 threads)", "7 app"]
    assert browser.text(".fold") == "30 threads (app) with less than 1\u00a0%"
    browser.click(".fold button")
    assert len(browser.texts(".track-name")) == 32


def test_a_search_marks_tables_graphs_and_time_line(page: Browser) -> None:
    counter = "(c => { const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; let n = 0;"
    counter += " for (let i = 0; i < d.length; i += 4) if (d[i] - d[i + 1] > 90 && d[i + 2] - d[i + 1] > 60) n++; return n; })"
    assert page.run(f"{counter}(document.querySelector('#activity'))") == 0
    page.type("#search", "^query$")
    assert page.text("#selected").endswith("50.00% in stacks with what is searched")
    assert page.run(f"{counter}(document.querySelector('#activity'))") > 100
    assert page.run(f"[...document.querySelectorAll('.track canvas')].map({counter}).map(n => n > 0)") == [False, True]
    assert page.run(f"{counter}(document.querySelector('#graph'))") > 100
    assert [row[0] for row in functions(page, 3)] == ["query"]
    assert page.texts("#functions mark") == ["query"]
    page.click("#tab-tree")
    assert page.run("document.querySelectorAll('#call-tree tr.faint').length") > 0
    page.type("#search", "(")
    assert page.text("#selected").endswith("0.00% in stacks with what is searched")
    page.press("Escape")
    assert len(functions(page, 3)) == 4  # commands have no samples themselves


def test_events_are_switched(page: Browser) -> None:
    page.choose("#event", "faults")
    assert page.text("#selected") == "10 of 10 samples · 10 periods"
    assert functions(page, 0, 3)[0] == ["100.00%", "grow"]
    page.choose("#event", "offcpu-time")
    assert page.text("#selected") == "1 of 1 samples · 2.000 s"


def test_waits_are_counted_as_threads_that_wait(browser: Browser, tmp_path: Path) -> None:
    """Six threads wait, each 50 times: for three seconds in nap, then for two in sleep."""
    waits = [At(f"app;{'nap' if at <= 30 else 'sleep'}", at * 100 * MS, 100 * MS, 7, 7 + one) for at in range(1, 51) for one in range(6)]
    file = tmp_path / "waits.html"
    file.write_text(render([timed_stacks(waits, "offcpu-time", off_cpu=True)], PageText("waits")), encoding="utf-8")
    browser.open(file)
    assert browser.text("#activity-title") == "Waits by category"
    select(browser, 0.9, 1.9)
    assert browser.text("#said").startswith("6.00 threads waited at a time. 100 % of the waiting time is in nap and what it calls")
    browser.run("document.activeElement.blur()")
    browser.press("a")
    select(browser, 3.4, 4.4)
    assert browser.text("#said").startswith(
        "In A 6.00 threads waited at a time, in B 6.00. B has more waiting time in sleep with its libraries: none in A"
    )


def test_time_on_the_cpu_and_off_it_is_one_picture(page: Browser) -> None:
    page.choose("#event", "on and off the CPU")
    assert page.text("#selected") == "1,001 of 1,001 samples · 12.000 s"
    assert page.texts("#legend .entry") == ["own code 100\u00a0%", "waiting 2.000 s"]
    assert "waited" in page.text("#change-legend")
    # time on the CPU comes first in the panel, with shares of its own
    assert page.texts("#details h2, #details h3") == ["Most CPU time itself", "Most time waiting"]
    assert page.texts("#details .neighbours li") == ["50.00%\nhot", "50.00%\nquery", "100.00%\nnap"]
    rows = {name: (on, off) for on, off, name in functions(page, 0, 3, 5)}
    assert (rows["hot"], rows["nap"]) == (("50.00%", "0.00%"), ("0.00%", "100.00%"))
    page.click("#tab-flame")
    page.focus("#graph")
    page.press("ArrowDown")
    assert page.text("#about") == "app: 50.00% of the CPU time, 5.000 s; 100.00% of the waits, 2.000 s"


def test_a_wait_counts_in_a_range_as_far_as_it_lies_in_it(page: Browser) -> None:
    """It is from the 6th to the 8th second; times begin at the first sample."""
    page.choose("#event", "offcpu-time")
    select(page, 6.99, 9)
    assert page.text("#selected").startswith("1 of 1 samples · 1.000 s")


def test_layouts_keys_and_inverted_stacks(page: Browser) -> None:
    page.focus("#graph")
    page.press("ArrowDown")
    assert page.text("#about") == "app: 50.00%, 5.000 s"
    page.press("ArrowRight")
    assert page.text("#about") == "db: 50.00%, 5.000 s"
    page.press("ArrowDown")
    page.press("Enter")
    assert page.text("#about") == "serve (app): 50.00%, 5.000 s"
    page.press("Escape")
    page.choose("#layout", "upwards")
    page.focus("#graph")
    page.press("ArrowUp")
    assert page.text("#about") == "app: 50.00%, 5.000 s"
    page.choose("#root", "innermost functions")
    page.focus("#graph")
    page.press("ArrowUp")
    assert page.text("#about") == "hot (app): 50.00%, 5.000 s"
    page.press("ArrowUp")
    assert page.text("#about") == "main (app), this frame: 50.00%, 5.000 s"


def drawn_rows(browser: Browser) -> int:
    """The rows of the flame graph that have a colour at its left edge."""
    script = """(() => { const c = document.querySelector('#graph'), p = c.getContext('2d').getImageData(2, 0, 1, c.height).data;
      let rows = 0; for (let y = 1; y < c.height; y++) if (p[4 * y + 3] && !p[4 * y - 1]) rows++; return rows; })()"""
    result: int = browser.run(script)
    return result


@pytest.mark.parametrize(("width", "height", "least"), [(3840, 2160, 27), (1440, 900, 27), (1024, 600, 18)])
def test_rows_of_the_graph_are_as_high_as_fills_the_room(page: Browser, width: int, height: int, least: int) -> None:
    page.size(width, height)
    page.run("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
    assert page.run("parseFloat(document.querySelector('#graph').parentElement.style.height)") >= 4 * least  # all, app, main, hot
    box, graph = page.box("#graph-box"), page.box("#graph")
    assert graph[1] - box[1] < 8  # at the top: downwards
    assert drawn_rows(page) == 4
    if height == 600:
        assert box[3] > 200
    page.size(1200, 900)


def test_deep_stacks_need_no_larger_canvas_than_the_window(browser: Browser, tmp_path: Path) -> None:
    """Browsers draw nothing on canvases of more than 16 to 64 thousand pixels."""
    deep = ";".join(f"f{number}" for number in range(2000))
    file = tmp_path / "deep.html"
    file.write_text(render([timed_stacks([At(f"app;{deep}", at * MS, MS) for at in range(1, 9)])], PageText("deep")), encoding="utf-8")
    browser.open(file)
    for tab, canvas in (("flame", "graph"), ("chart", "chart")):
        browser.click(f"#tab-{tab}")
        element = f"document.querySelector('#{canvas}')"
        assert browser.run(f"{element}.parentElement.clientHeight") > 36_000
        assert browser.run(f"{element}.height") <= 900
        before = browser.run(f"{element}.toDataURL()")
        browser.run(f"{element}.closest('.box').scrollTop = 30000")
        browser.until(f"{element}.toDataURL() !== {before!r}")
    browser.click("#tab-flame")
    browser.run("document.querySelector('#graph-box').scrollTop = 0")
    browser.focus("#graph")
    for _ in range(60):
        browser.press("ArrowDown")
    assert browser.text("#about").startswith("f58 (")
    assert browser.run("document.querySelector('#graph-box').scrollTop") > 300
    assert not browser.errors


def test_recursion_is_merged_into_one_frame(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "recursion.html"
    samples = [At("app;main;walk;walk;walk;leaf", 10 * MS, 10 * MS), At("app;main;walk;visit;walk;other", 20 * MS, 10 * MS)]
    file.write_text(render([timed_stacks(samples)], PageText("recursion")), encoding="utf-8")
    browser.open(file)
    browser.click("#merged")
    assert browser.run("document.querySelector('#merged').getAttribute('aria-pressed')") == "true"
    browser.focus("#graph")
    for name in ("app", "main", "walk"):
        browser.press("ArrowDown")
        assert browser.text("#about").startswith(f"{name}"), name
    shown = set()
    for key in ("ArrowDown", "ArrowLeft", "ArrowRight"):
        browser.press(key)
        shown.add(browser.text("#about"))
    assert shown == {"leaf (app): 50.00%, 10.000 ms", "other (app): 50.00%, 10.000 ms"}  # visit only led back to walk
    browser.click("#merged")
    browser.click("#tab-tree")
    assert len(tree_rows(browser)) > 4


def test_callers_and_callees_of_a_function(page: Browser) -> None:
    main = next(number for number, row in enumerate(functions(page, 3), 1) if row == ["main"])
    page.click(f"#functions tbody tr:nth-child({main}) button")
    page.run("document.activeElement.blur()")
    page.press("s")
    assert page.text("#about") == "main (app): 100.00%, 10.000 s"
    page.focus("#below")
    page.press("ArrowDown")
    assert page.text("#about") == "hot (app): 50.00%, 5.000 s"
    page.click("#tab-functions")
    page.click(f"#functions tbody tr:nth-child({main}) button")
    page.click("#tab-sandwich")
    page.focus("#above")
    page.press("ArrowUp")
    assert page.text("#about") == "app: 50.00%, 5.000 s"
    page.press("ArrowRight")
    assert page.text("#about") == "serve (app): 50.00%, 5.000 s"


def test_a_function_in_the_graph_is_opened_by_a_key(page: Browser) -> None:
    page.focus("#graph")
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "s"):
        page.press(key)
    assert page.text("#about") == "hot (app): 50.00%, 5.000 s"
    assert not is_hidden(page, "#view-sandwich")
    assert page.text("#details-name") == "hot"


def tree_rows(browser: Browser, table: str = "#call-tree") -> list[str]:
    return [" ".join(row.split()) for row in browser.texts(f"{table} tbody tr")]


def test_the_call_tree_opens_with_keys(page: Browser) -> None:
    page.click("#tab-tree")
    assert tree_rows(page) == ["50.00% 0.00% ▾app", "50.00% 0.00% ▾mainapp", "50.00% 50.00% hotapp", "50.00% 0.00% ▸db"]
    page.focus("#call-tree tbody tr")
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowRight"):
        page.press(key)
    assert tree_rows(page)[3:] == ["50.00% 0.00% ▾db", "50.00% 0.00% ▾serveapp", "50.00% 0.00% ▾mainapp", "50.00% 50.00% queryapp"]
    page.press("ArrowLeft")
    assert tree_rows(page)[3:] == ["50.00% 0.00% ▸db"]
    levels = page.run(
        "[...document.querySelectorAll('#call-tree tbody tr')]"
        ".map(row => [row.getAttribute('aria-level'), row.getAttribute('aria-expanded')])"
    )
    assert levels == [["1", "true"], ["2", "true"], ["3", None], ["1", "false"]]
    assert page.run("document.activeElement.rowIndex") == 4


def test_bottom_up_rows_open_to_callers(page: Browser) -> None:
    page.click("#tab-callers")
    assert tree_rows(page, "#caller-tree") == ["50.00% ▸hotapp", "50.00% ▸queryapp"]
    page.focus("#caller-tree tbody tr")
    page.press("Enter")
    assert tree_rows(page, "#caller-tree") == ["50.00% ▾hotapp", "50.00% ▾mainapp", "50.00% app", "50.00% ▸queryapp"]


def test_plumbing_is_folded_until_all_frames_or_only_own_code_is_wanted(browser: Browser, plumbing: Path) -> None:
    browser.open(plumbing)
    browser.click("#tab-tree")
    browser.focus("#call-tree tbody tr")
    browser.press("*")
    names = "[...document.querySelectorAll('#call-tree .label')].map(one => one.textContent)"
    browser.press("End")
    browser.press("*")
    assert browser.run(names) == ["app", "main", "send", "entry"]
    browser.press("f")
    browser.press("End")
    browser.press("*")
    assert browser.run(names) == ["app", "main", "send", "out", "entry", "do_it"]
    browser.press("m")
    assert browser.run(names) == ["app", "main"]
    assert browser.run("document.querySelector('[data-form=own]').getAttribute('aria-checked')") == "true"
    assert functions(browser, 0, 1, 3)[0] == ["70.00%", "100.00%", "main"]  # of all frames, in each form
    assert not browser.errors


def test_folding_never_hides_the_function_of_the_headline_nor_what_is_selected_or_found(browser: Browser, tmp_path: Path) -> None:
    """Callers and callees of the function that the headline names were empty: the frame of plumbing that called it stood for it."""
    part = timed_stacks(
        [At("node;tick;CEntry;Stringify;Append", at * 10 * MS, 10 * MS) for at in range(1, 41)] + [At("node;tick", 410 * MS, 60 * MS)]
    )
    category_of = {"tick": OWN}
    part = dataclasses.replace(part, categories=[category_of.get(function.name, INTERPRETER) for function in part.functions])
    said = [HeadlineSentence("87 % is in stringify().", [("stringify()", "Stringify")], hottest=[("stringify()", "Stringify", 0.87)])]
    file = tmp_path / "node.html"
    file.write_text(render([part], PageText("node", headline=said)), encoding="utf-8")
    browser.open(file)
    browser.click("#tab-sandwich")
    assert browser.text("#sandwich-about").startswith("Stringify \u00b7 app")
    assert "86.96%, 400.000 ms" in browser.text("#about")
    rows = "[...document.querySelectorAll('#call-tree .label')].map(one => one.textContent)"
    browser.click("#tab-tree")
    browser.focus("#call-tree tbody tr")
    browser.press("*")
    assert browser.run(rows) == ["node", "tick", "Stringify"]
    browser.type("#search", "Append")
    browser.until("document.querySelectorAll('#call-tree .label').length === 4")
    assert browser.run(rows) == ["node", "tick", "Stringify", "Append"]
    assert not browser.errors


def test_stacks_in_order_of_time(page: Browser) -> None:
    page.click("#tab-chart")
    assert page.run("document.querySelector('#chart-thread').options[0].textContent") == "busiest: app 7"
    pixel = (
        "(x => { const c = document.querySelector('#chart'), pen = c.getContext('2d');"
        " return pen.getImageData(Math.round(x * c.width), 30, 1, 1).data[3]; })"
    )
    assert [page.run(f"{pixel}({x})") for x in (0.25, 0.75)] == [255, 0]
    page.choose("#chart-thread", "db 8/9")
    assert page.run("document.querySelector('#chart-thread').options[0].textContent") == "busiest: app 7"
    assert [page.run(f"{pixel}({x})") for x in (0.25, 0.75)] == [0, 255]
    page.drag("#chart", (0.1, 0.5), (0.4, 0.5))
    assert page.text("#selected").startswith("30")


def test_the_busiest_thread_runs_most_and_does_not_wait_most(browser: Browser, tmp_path: Path) -> None:
    ran = [*(At("app;hot", at * 10 * MS, 10 * MS, 7, 8) for at in range(1, 101)), At("app;main", 1010 * MS, 10 * MS, 7, 7)]
    slept = [At("app;main;nap", 1000 * MS, 900 * MS + at, 7, 7) for at in range(3)]
    file = tmp_path / "busiest.html"
    file.write_text(render([timed_stacks(ran), timed_stacks(slept, "offcpu-time", off_cpu=True)], PageText("busiest")), encoding="utf-8")
    browser.open(file)
    browser.choose("#event", "on and off the CPU")
    browser.click("#tab-chart")
    assert browser.run("document.querySelector('#chart-thread').options[0].textContent") == "busiest: app 7/8"
    browser.choose("#event", "offcpu-time")
    assert browser.run("document.querySelector('#chart-thread').options[0].textContent") == "busiest: app 7"


def test_marks_are_listed_filtered_and_searched(page: Browser) -> None:
    page.click("#tab-marks")
    rows = [row.split("\t") for row in page.texts("#marks tbody tr")]
    assert rows == [
        ["1.002 s", "app 7", "page-faults", "grow"],
        ["1.990 s", "app 7", "fork", "process 8"],
        ["5.990 s", "db 8/9", "switch", "out"],
    ]
    page.click("#kinds button")
    assert len(page.texts("#marks tbody tr")) == 2
    page.click("#kinds button")
    page.type("#search", "process")
    assert [row.split("\t")[2] for row in page.texts("#marks tbody tr")] == ["fork"]
    page.press("Escape")
    filter_by(page, "process", "db 8")
    assert [row.split("\t")[2] for row in page.texts("#marks tbody tr")] == ["switch"]
    page.click("#clear")
    page.click("#marks tbody button")
    assert chips(page)[0].startswith("95")


def test_a_view_has_an_address(page: Browser, one: Path) -> None:
    filter_by(page, "thread", "db 8/9")
    select(page, 6, 7)
    page.type("#search", "query")
    page.click("#tab-functions")
    fragment = page.run("location.hash")
    selection = page.text("#selected")
    page.open(one)
    page.run(f"location.hash = {fragment!r}")
    page.until(f"document.querySelector('#selected').innerText === {selection!r}")
    assert [row.split("\t")[3] for row in page.texts("#functions tbody tr")] == ["query"]
    assert page.run("document.querySelector('#search').value") == "query"
    page.run("location.hash = '#thread=99&process=12345&inside=100000&chosen=-4&tab=x&range=9-1&event=nope&category=77'")
    page.until("document.querySelectorAll('#chips .chip').length === 0")
    page.run("location.hash = ''")


#: what a person does, and the parts of the address that it makes
SCREENS = {
    "flame": (
        ["#graph ArrowDown ArrowDown Enter", "#root=innermost functions", "#graph ArrowDown Enter"],
        ["root=inner", "zoom=", "chosen="],
    ),
    "upwards": (
        ["#layout=upwards", "click #merged", "#theme=dark", "click #panel"],
        ["layout=flame", "recursion=merged", "theme=dark", "panel="],
    ),
    "tree": (["click #tab-tree", "#call-tree tbody tr ArrowDown ArrowRight ArrowDown"], ["tab=tree", "open="]),
    "functions": (["click #tab-functions", "click #functions th:nth-child(2) button", "find hot"], ["sort=charged", "find=hot"]),
    "chart": (["click #tab-chart", "#chart-thread=db 8/9"], ["strand="]),
    "heat": (["click #tab-heat", "#column=0.1 s"], ["column=0.1"]),
    "code": (["click #tab-code", "#code-kind=instructions", "#code-function=50.00% /src/main.c"], ["code=file", "codeKind="]),
    "range": (["drag", "click #zoom", "drag", "#category=libraries"], ["range=", "shown=", "category="]),
}


@pytest.mark.parametrize("screen", SCREENS)
def test_a_link_shows_the_same_screen(page: Browser, one: Path, screen: str, tmp_path: Path) -> None:
    steps, parts = SCREENS[screen]
    for step in steps:
        target, _, value = step.partition("=")
        if step == "drag":
            page.drag("#activity", (0.2, 0.5), (0.7, 0.5))
        elif value:
            page.choose(target, value)
        elif step.startswith("click "):
            page.run(f"document.querySelector('{step[6:]}').click()")
        elif step.startswith("find "):
            page.type("#search", step[5:])
        else:
            words = step.split()
            keys = [word for word in words if word.startswith("Arrow") or word == "Enter"]
            page.focus(" ".join(words[: -len(keys)]))
            for key in keys:
                page.press(key)
    link = page.run("location.href")
    assert all(part in link for part in parts), link
    for name in ("shown", "reopened"):
        page.mouse("mouseMoved", 5, 5, 0)
        page.run("document.activeElement.blur(); for (const id of ['about', 'heat-about']) document.getElementById(id).textContent = ''")
        page.run("new Promise(done => setTimeout(() => requestAnimationFrame(() => setTimeout(done, 50)), 250))")
        page.picture(tmp_path / name)
        page.call("Page.navigate", url="about:blank")
        page.call("Page.navigate", url=link)
        page.until("document.readyState === 'complete' && !!document.body && !!document.body.dataset.ready")
    assert page.difference(tmp_path / "shown", tmp_path / "reopened") == 0
    page.open(one)


def test_views_are_copied_as_text(page: Browser) -> None:
    page.run("window.copied = []; navigator.clipboard.writeText = async text => { window.copied.push(text); }")
    page.press("c")
    page.click("#tab-functions")
    page.click("#copy")
    page.until("window.copied.length === 2")
    tree, table = page.run("window.copied")
    assert tree.splitlines()[:3] == ["    Total      Self  Function", "   50.00%     0.00%  app", "   50.00%     0.00%    main"]
    assert table.splitlines()[1].split() == ["50.00%", "50.00%", "50.00%", "hot", "app"]
    assert page.text("#about").startswith("Copied ")


def test_keys_are_listed(page: Browser) -> None:
    page.run("document.activeElement.blur()")
    page.press("?")
    assert page.run("document.querySelector('#dialog').open")
    assert "my code only" in page.text("#keys")
    page.run("document.querySelector('#dialog').close()")


def test_lines_of_a_source_file_with_inlined_calls(page: Browser) -> None:
    page.click("#tab-code")
    page.choose("#code-function", "50.00% /src/main.c")
    assert page.texts("#code-lines tbody tr") == ["\t30.00%\t7\tsum(all);", "\t\t⋮\t", "20.00%\t20.00%\t9\t}"]
    assert "50.00% of the whole recording, 20.00% without" in page.text("#code-about")
    assert is_hidden(page, "label:has(#code-kind)")
    select(page, 3.995, 5.995)  # 100 samples at site 2, 100 at none
    page.run("document.activeElement.blur()")
    assert page.text("#code-about").startswith("cpu-clock: 50.00% of the selected samples")


def test_a_long_recording_shows_sums_of_all_and_every_sample_of_a_short_range(browser: Browser, long: Path) -> None:
    browser.open(long)
    assert browser.text("#selected") == "1,000 of 1,000 samples · 10.000 s"
    assert functions(browser, 0, 3)[:2] == [["50.00%", "hot"], ["50.00%", "query"]]
    assert "one of 20 samples" in browser.run("document.querySelector('#notes').textContent")
    select(browser, 4.495, 5.495)  # 100 samples of two chunks, half of each function
    browser.until("document.querySelector('#selected').innerText.startsWith('100 of 1,000 samples')")
    assert functions(browser, 0, 3)[:2] == [["50.00%", "hot"], ["50.00%", "query"]]
    select(browser, 0, 0.025)
    browser.until("document.querySelector('#selected').innerText.startsWith('3 of 1,000 samples')")
    browser.press("Escape")
    browser.until("document.querySelector('#selected').innerText.startsWith('1,000 of 1,000 samples')")
    assert not browser.errors


def test_code_of_a_range(page: Browser) -> None:
    """The first four seconds are at one instruction of the hot function, the fifth at another, later ones at none."""
    page.click("#tab-code")
    page.choose("#code-function", "50.00% hot")
    select(page, 2.995, 4.995)
    assert page.text("#code-about").startswith("app, cpu-clock: 100.00% of the selected samples")
    page.choose("#code-kind", "source")
    assert page.texts("#code-lines tbody tr")[2:] == ["50.00%\t2\t  x++;inlined: step at hot.c:2", "50.00%\t3\t}"]
    page.choose("#code-kind", "instructions")
    assert [text for text in page.texts("#code-lines tbody tr") if "%\t" in text] == [
        "50.00%\t1003\tadd %raxhot.c:2",
        "50.00%\t1009\trethot.c:3",
    ]
    page.choose("#code-function", "50.00% /src/main.c")
    assert page.texts("#code-lines tbody tr") == ["\t50.00%\t7\tsum(all);", "\t\t⋮\t", "50.00%\t50.00%\t9\t}"]
    page.choose("#event", "faults")  # the code is of another event
    assert "of the whole recording" in page.text("#code-about")
    page.choose("#event", "cpu-clock")
    select(page, 6, 8)
    assert page.texts("#code-lines tbody tr") == ["\t\t7\tsum(all);", "\t\t⋮\t", "\t\t9\t}"]


def test_lines_and_instructions_of_a_hot_function(page: Browser) -> None:
    page.click("#tab-code")
    page.choose("#code-function", "50.00% hot")
    lines = ["100.00%\t\t/src/hot.c", "\t1\tint hot(void) {", "75.00%\t▾2\t  x++;inlined: step at hot.c:2", "75.00%\t1003\tadd %rax"]
    assert page.texts("#code-lines tbody tr") == [*lines, "25.00%\t▸3\t}"]  # the hottest line is open
    page.click("#code-lines tr:last-child .opener")
    assert page.texts("#code-lines tbody tr") == [*lines, "25.00%\t▾3\t}", "25.00%\t1009\tret"]
    page.choose("#code-kind", "instructions")
    inside = ["\t\tinlined: step at hot.c:2", "75.00%\t1003\tadd %raxhot.c:2", "\t⋮\t"]
    assert page.texts("#code-lines tbody tr") == [*inside, "\t\tof hot itself", "25.00%\t1009\trethot.c:3"]
    assert page.texts("#code-lines .word-k") == ["add", "ret"]
    page.choose("#code-kind", "source")
    assert page.texts("#code-lines .word-t") == ["int", "void"]


def test_keys_go_to_the_hottest_line_and_from_one_hot_line_to_the_next(page: Browser) -> None:
    here = "document.querySelector('#code-lines .here td.line').innerText"
    page.click("#tab-code")
    page.choose("#code-function", "50.00% hot")
    page.choose("#code-kind", "source")
    page.run("document.activeElement.blur()")
    for key, line in (("h", "2"), ("n", "3"), ("n", "2"), ("p", "3"), ("p", "2")):
        page.press(key)
        assert page.run(here) == line
    page.click("#code-after")
    assert page.run(here) == "3"
    pixels = (
        "document.querySelector('#code-strip').getContext('2d').getImageData(7, 0, 1, document.querySelector('#code-strip').height).data"
    )
    assert page.run(f"{pixels}.some(one => one)")  # heat beside the scroll bar


def test_gutters_stay_where_long_lines_are_scrolled(page: Browser) -> None:
    page.click("#tab-code")
    page.choose("#code-function", "50.00% hot")
    page.run(
        "document.querySelector('#code-lines td.text').textContent = 'x'.repeat(5000); document.querySelector('#code-box').scrollLeft = 900"
    )
    line, box = page.box("#code-lines tbody tr:nth-child(3) td.line"), page.box("#code-box")
    assert page.run("document.querySelector('#code-box').scrollLeft") == 900
    assert box[0] <= line[0] < box[0] + 100


@pytest.mark.parametrize("width", [390, 1440, 3840])
def test_the_hottest_lines_are_beside_a_function(page: Browser, width: int) -> None:
    page.size(width, 900)
    functions(page)
    page.run("[...document.querySelectorAll('#functions button')].find(one => one.textContent === 'hot').click()")
    assert page.texts(".snippet tr") == ["\t1\tint hot(void) {", "75.00%\t2\t  x++;", "25.00%\t3\t}"]
    box, text = page.box(".snippet-box"), page.box(".snippet tr:nth-child(2) td.text")
    assert box[0] <= text[0] < text[0] + 60 < box[0] + box[2] <= width
    page.size(1200, 900)


def test_the_hottest_lines_of_all_time_are_those_of_the_headline(browser: Browser, tmp_path: Path) -> None:
    code = {**CODE, "charged": [[0, 2, 0.2], [0, 3, 0.8]], "chargedShare": 0.6}
    file = tmp_path / "charged.html"
    page = render([with_sites(timed_stacks(RAN))], PageText("t"), code=[code], sites=cast("PageSites", NumberedSites()))
    file.write_text(page, encoding="utf-8")
    browser.open(file)
    functions(browser)
    browser.run("[...document.querySelectorAll('#functions button')].find(one => one.textContent === 'hot').click()")
    assert "Hottest lines, as shares of its samples with libraries" in browser.texts("#details h3")
    assert browser.texts(".snippet tr")[1:] == ["20.00%\t2\t  x++;", "80.00%\t3\t}"]
    browser.click("#tab-code")
    assert "50.00% of the whole recording, with the code inlined into it, 60.00% with libraries; shares below are of these" in browser.text(
        "#code-about"
    )
    assert browser.texts("#code-lines th")[:3] == ["Share", "+ libraries", "Line"]
    rows = [row.split("\t") for row in browser.texts("#code-lines tbody tr")]
    assert [row[:3] for row in rows if row[1].endswith("%")] == [["75.00%", "20.00%", "\u25be2"], ["25.00%", "80.00%", "\u25b83"]]
    assert {len(row) for row in rows} == {4}
    browser.run("location.hash += '&range=2.995-4.995'")
    browser.until("document.querySelector('#details h3').textContent.includes('own samples')")
    assert browser.texts("#code-lines th")[:2] == ["Share", "Line"]
    assert not browser.errors


def test_the_hottest_lines_follow_the_range(page: Browser) -> None:
    functions(page)
    page.run("[...document.querySelectorAll('#functions button')].find(one => one.textContent === 'hot').click()")
    assert page.texts(".snippet tr")[1:] == ["75.00%\t2\t  x++;", "25.00%\t3\t}"]
    assert "Hottest lines, as shares of its own samples" in page.texts("#details h3")
    select(page, 2.995, 4.995)
    assert page.texts(".snippet tr")[1:] == ["50.00%\t2\t  x++;", "50.00%\t3\t}"]
    page.click("#whole")
    assert page.texts(".snippet tr")[1:] == ["75.00%\t2\t  x++;", "25.00%\t3\t}"]


def test_the_heat_map_shows_when_within_a_second(page: Browser) -> None:
    page.choose("#event", "faults")
    page.click("#tab-heat")
    page.choose("#column", "1 s")
    page.focus("#heat")
    page.press("ArrowDown")  # the first cell: 20 ms of the first second
    assert page.text("#heat-about") == "0.0 µs to 20.000 ms: 0 samples"
    page.press("Enter")
    for _ in range(4):
        page.press("ArrowDown")
    assert page.text("#heat-about") == "80.000 ms to 100.000 ms: 1 sample"  # 90 ms after the first sample of all
    for _ in range(5):
        page.press("ArrowDown")
    page.press("Enter")
    assert page.text("#selected").startswith("2 of 10 samples")
    page.press("Escape")
    assert page.text("#selected").startswith("10 of 10 samples")


def test_the_heat_map_says_what_its_rows_and_colours_are(page: Browser) -> None:
    page.choose("#event", "cpu-clock")
    page.click("#tab-heat")
    page.choose("#column", "1 s")
    assert page.texts(".heat-legend > span") == ["further down: later in the column, 20 ms a row", "samples in a cell:", "1", "2", "3"]
    axis = "(c => [...c.getContext('2d').getImageData(0, 0, 40, c.height).data])(document.querySelector('#heat'))"
    assert any(page.run(axis))  # at the left


def test_bars_of_the_time_line_have_no_stripes_between_them(browser: Browser, tmp_path: Path) -> None:
    """Each began within a pixel, and the ground showed through."""
    file, full = tmp_path / "full.html", [At("app;f", at * 10 * MS, 10 * MS, 7, 7) for at in range(1, 4001)]
    file.write_text(render([timed_stacks(full)], PageText("t")), encoding="utf-8")
    browser.open(file, width=1236)
    assert browser.run("document.querySelector('#activity').clientWidth") % 2 == 1  # bars of two pixels and a part
    middle = "(c => [...c.getContext('2d').getImageData(c.width / 4, c.height * 0.7, c.width / 2, 1).data])"
    pixels = browser.run(f"{middle}(document.querySelector('#activity'))")
    assert {tuple(pixels[at : at + 4]) for at in range(0, len(pixels), 4)} == {(*pixels[:3], 255)}


def test_dragging_on_the_heat_map_selects_cells(page: Browser) -> None:
    page.click("#tab-heat")
    width = page.run("document.querySelector('#heat').clientWidth")
    assert width > 50
    first, last = ((48 + part * (width - 48)) / width for part in (0.15, 0.35))  # the axis is at the left
    page.drag("#heat", (first, 0.5), (last, 0.5))  # from the middle of the 2nd second to that of the 4th, as far as cells go
    assert page.text("#selected").startswith("20")


def test_the_table_is_sorted_by_the_column_that_is_clicked(page: Browser) -> None:
    functions(page)
    page.run("document.querySelectorAll('#functions th button')[3].click()")
    names = [row[0] for row in functions(page, 3)]
    assert names == sorted(names)
    assert page.run("document.querySelectorAll('#functions th')[3].getAttribute('aria-sort')") == "ascending"
    page.run("document.querySelectorAll('#functions th button')[3].click()")
    assert [row[0] for row in functions(page, 3)] == names[::-1]
    assert page.run("document.querySelectorAll('#functions th')[3].getAttribute('aria-sort')") == "descending"


#: by change: query has more of the time, hot less
RISEN = ["query", "main", "hot"]


def test_the_heat_map_fits_into_its_box(page: Browser) -> None:
    page.size(1440, 1300)
    page.click("#tab-heat")
    width, room, height, high = page.run(
        "(box => [box.scrollWidth, box.clientWidth, box.scrollHeight, box.clientHeight])(document.querySelector('#view-heat .box'))"
    )
    assert (width, height) == (room, high)


def test_moments_are_one_below_the_other_beside_scroll_bars(tmp_path: Path) -> None:
    samples = [At(f"{chr(97 + at % 26)}pp;f", (1 + at // 10) * 10 * MS, 10 * MS, 7 + at % 20, 7 + at % 20) for at in range(2000)]
    file = tmp_path / "tracks.html"
    file.write_text(render([timed_stacks(samples)], PageText("tracks")), encoding="utf-8")
    with Browser(tmp_path, scrollbars=True) as browser:
        browser.open(file)
        assert browser.run(
            "(list => list.scrollHeight > list.clientHeight && list.offsetWidth > list.clientWidth)(document.querySelector('#tracks'))"
        )
        canvases = "[...document.querySelectorAll('#activity, .track canvas')]"
        edges = browser.run(f"{canvases}.map(one => one.getBoundingClientRect()).map(r => `${{r.left}} ${{r.right}}`)")
        assert len(edges) > 3
        assert len(set(edges)) == 1
        assert not browser.errors


def test_a_second_click_on_change_puts_the_other_end_first(browser: Browser, two: Path) -> None:
    browser.open(two)
    sort = "document.querySelectorAll('#functions th')[2].getAttribute('aria-sort')"
    functions(browser)
    assert browser.run(sort) == "other"  # by size, in either way
    for order, names in (("descending", RISEN), ("ascending", ["main", "hot", "query"]), ("descending", RISEN)):
        browser.run("document.querySelectorAll('#functions th button')[2].click()")
        assert browser.run(sort) == order
        assert [name for (name,) in functions(browser, 8)] == names
    assert not browser.errors


def test_changes_say_whose_shares_they_are_and_show_the_times_of_both_sides(browser: Browser, two: Path) -> None:
    browser.open(two)
    functions(browser)
    titles = browser.run("[...document.querySelectorAll('#functions tbody tr td')].map(one => one.title)")
    assert [titles[place] for place in (0, 1)] in (["20.000 ms", "60.000 ms"], ["60.000 ms", "60.000 ms"])
    browser.run("[...document.querySelectorAll('#functions button')].find(one => one.textContent === 'query').click()")
    assert browser.texts("#details .shares dd") == [
        *("25.00%, 20.000 ms", "75.00%, 60.000 ms (+50.00 points)"),
        *("25.00%, 20.000 ms", "75.00%, 60.000 ms (+50.00 points)"),
        *("25.00%, 20.000 ms", "75.00%, 60.000 ms (+50.00 points)"),
    ]
    assert browser.texts("#details .shares dt") == [
        *("Self before", "Self after", "With libraries before", "With libraries after", "Total before", "Total after"),
    ]
    browser.click("#tab-flame")
    assert "as shares of the total before (before 80.000 ms, after 120.000 ms)" in browser.text("#change-legend")
    assert not browser.errors


def test_a_function_in_the_headline_of_changes_is_shown_by_the_number_that_it_names(browser: Browser, tmp_path: Path) -> None:
    """Its time with libraries, of the total before: it fell to half of that, and not by a point of its own side."""
    sides = [[At(f"app;f;{'memcpy' if at % 4 else 'sin'}", at * MS, MS, 7, 7) for at in range(size)] for size in (400, 200)]
    parts = [timed_stacks(side) for side in sides]
    parts = [dataclasses.replace(one, categories=[OWN if function.name == "f" else LIBRARY for function in one.functions]) for one in parts]
    said = HeadlineSentence("Most of what costs less is in f(): from 100 % to 50 % of the total before.", (("f()", "f"),), "chargedChange")
    file = tmp_path / "changes.html"
    file.write_text(render(parts[:1], PageText("changes", headline=[said]), after=parts[1:]), encoding="utf-8")
    browser.open(file)
    browser.click("#headline .evidence")
    titles = dict(zip(browser.texts("#functions th"), browser.text("#functions tr.chosen").split("\t"), strict=True))
    with_libraries = [titles[name] for name in ("With libraries before", "With libraries after", "Points with libraries")]
    assert (titles["Function"], titles["Points of self"], with_libraries) == ("f", "0.00", ["100.00%", "50.00%", "-50.00"])
    assert browser.run("document.querySelector('#functions th.chargedChange').getAttribute('aria-sort')") == "other"
    assert "50.00%, 200.000 ms (-50.00 points)" in browser.texts("#details .shares dd")
    assert not browser.errors


def test_the_panel_of_changes_begins_with_what_changed(browser: Browser, tmp_path: Path) -> None:
    sides = [
        [At("app;f" if at % 4 < share else "app;g" if at % 4 < 3 else "app;h;k", at * MS, MS, 7, 7) for at in range(400)]
        for share in (2, 1)
    ]
    before, after = ([timed_stacks(side)] for side in sides)
    file = tmp_path / "changes.html"
    file.write_text(render(before, PageText("changes"), after=after), encoding="utf-8")
    browser.open(file)
    assert browser.text("#details h2") == "CPU time with libraries, before to after, in points of the total before"
    assert sorted(browser.texts("#details li")) == ["+25.00\ng", "-25.00\nf"]  # k has its 25 % on both sides
    browser.run("[...document.querySelectorAll('#details li button')].find(one => one.innerText.endsWith('g')).click()")
    assert browser.texts("#details h3")[-2:] == ["Called from, after", "Calls, after"]
    functions(browser)
    browser.run("[...document.querySelectorAll('#functions button')].find(one => one.textContent === 'h').click()")
    assert browser.texts("#details li")[-1] == "25.00%\nk"
    assert not browser.errors


def test_dark_is_the_systems_wish_or_ones_own(page: Browser) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    assert page.run(background) == "rgb(255, 255, 255)"
    page.dark(on=True)
    page.until(f"{background} === 'rgb(20, 22, 27)'")
    page.choose("#theme", "light")
    assert page.run(background) == "rgb(255, 255, 255)"
    page.dark(on=False)
    page.choose("#theme", "dark")
    assert page.run(background) == "rgb(20, 22, 27)"


CONTRAST = """[...document.querySelectorAll('body *')].filter(e => e.checkVisibility()
  && [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim()) && !e.disabled && !e.closest('option, select, .unseen')).map(e => {
  const rgb = text => (text.match(/[\\d.]+/g) || []).map((v, i) => text.startsWith('color(srgb') && i < 3 ? 255 * v : Number(v));
  const over = (top, below) => {
    const a = top.length > 3 ? top[3] : 1;
    return [0, 1, 2].map(i => top[i] * a + below[i] * (1 - a)); };
  const lum = c => c.map(v => v / 255).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((s, v, i) => s + v * [.2126, .7152, .0722][i], 0);
  const chain = []; for (let p = e; p; p = p.parentElement) chain.unshift(p);
  const back = chain.reduce((c, p) => over(rgb(getComputedStyle(p).backgroundColor), c), [255, 255, 255]);
  const [a, b] = [lum(rgb(getComputedStyle(e).color).slice(0, 3)), lum(back)].sort((x, y) => y - x);
  return [(a + .05) / (b + .05), e.outerHTML.slice(0, 80)]; }).filter(([ratio]) => ratio < 4.5)"""


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_all_text_has_the_contrast_of_wcag_aa(page: Browser, theme: str) -> None:
    page.choose("#theme", theme)
    page.click("#headline .evidence")
    page.click("#badge")
    filter_by(page, "process", "app 7")
    for tab in ("tree", "functions", "marks", "code", "heat", "sandwich"):
        page.run(f"document.querySelector('#tab-{tab}').click()")
        assert page.run(CONTRAST) == []


def test_a_narrow_window_has_everything_one_below_the_other(browser: Browser, one: Path) -> None:
    browser.open(one, width=390, height=800)
    browser.choose("#event", "cpu-clock")
    for tab in ("flame", "tree", "callers", "functions", "sandwich", "chart", "marks", "code", "heat"):
        browser.run(f"document.querySelector('#tab-{tab}').click()")
        assert browser.run("document.documentElement.scrollWidth") <= 390, tab
    browser.run("document.querySelector('#tab-flame').click()")
    for part in ("#headline", "#event", "#search", "#activity", "#graph", "#details", "#tabs"):
        remaining, _, width, height = browser.box(part)
        assert remaining >= 0, part
        assert 0 < width <= 390, part
        assert height > 0, part
    browser.drag("#activity", (0.1, 0.5), (0.4, 0.5))
    assert browser.text("#selected").startswith("30")
    browser.click("#panel")  # which is below the view: it goes there
    assert browser.run("scrollY + innerHeight >= document.documentElement.scrollHeight - 1")
    browser.size(1200, 900)


def test_all_controls_have_accessible_names(page: Browser) -> None:
    unnamed = page.run(
        "[...document.querySelectorAll('input, select, button, canvas, table, [role]')].filter(e => !(e.getAttribute('aria-label')"
        " || e.getAttribute('aria-hidden') || e.getAttribute('aria-labelledby') || e.closest('label') || e.textContent.trim()"
        " || e.getAttribute('role') === 'status')).filter(e => e.checkVisibility()).map(e => e.outerHTML)"
    )
    assert unnamed == []
    assert page.run("[...document.querySelectorAll('[role=status]')].length") >= 3
    small = page.run(
        "[...document.querySelectorAll('button, select, input')].filter(e => e.checkVisibility() && e.getBoundingClientRect().height < 24"
        " && !e.closest('h1, p, td')).map(e => e.outerHTML)"
    )
    assert small == []  # WCAG 2.2, 2.5.8


#: of axe-core, without the program itself, which has 550 kB
RULES = (Path(__file__).parents[1] / "builders" / "page_rules.js").read_text(encoding="utf-8")


@pytest.mark.parametrize("width", [390, 1440])
def test_the_rules_of_axe_hold_on_every_view(page: Browser, width: int) -> None:
    page.size(width, 900)
    page.run("document.querySelector('#badge').click()")
    functions(page)
    for tab in ("flame", "tree", "callers", "functions", "sandwich", "chart", "marks", "code", "heat"):
        page.run(f"document.querySelector('#tab-{tab}').click()")
        page.run("[...document.querySelectorAll('#details .neighbours button')].forEach((one, i) => i || one.click())")
        assert page.run(RULES) == [], tab
    page.size(1200, 900)


def test_every_picture_is_a_table_for_screen_readers(page: Browser) -> None:
    for tab, name, row in (
        ("flame", "graph", ["1", "app: 50.00%, 5.000 s"]),
        ("chart", "chart", ["0", "app: 0.0 \u00b5s to 4.995 s"]),
        ("heat", "heat", ["8.000 ms", "1"]),
    ):
        page.click(f"#tab-{tab}")
        rows = f"[...document.querySelectorAll('#spoken-{name} tbody tr')].map(one => [...one.cells].map(cell => cell.textContent))"
        page.until(f"!!document.querySelector('#spoken-{name} tbody tr')")
        shown = page.run(rows)
        assert row in shown, shown
        assert 0 < len(shown) <= 60
    page.until("!!document.querySelector('#spoken-activity tbody tr')")
    first = page.run("[...document.querySelector('#spoken-activity tbody tr').cells].map(one => one.textContent).slice(0, 3)")
    assert first == ["0.0 \u00b5s", "1.003 s", "1.00"]  # a CPU in use, with own code
    assert page.run("document.querySelector('#spoken').getBoundingClientRect().width") <= 1


def test_on_paper_everything_is_there(page: Browser) -> None:
    page.click("#tab-functions")
    page.choose("#theme", "dark")
    page.call("Emulation.setEmulatedMedia", media="print")
    page.run("window.onbeforeprint()")
    assert page.run("document.documentElement.dataset.theme") == "light"
    boxes = "[...document.querySelectorAll('.box, #details, #tracks, main')].filter(e => e.checkVisibility())"
    assert page.run(f"{boxes}.filter(e => e.scrollHeight > e.clientHeight + 1).map(e => e.id || e.className)") == []
    assert page.run("['search-box', 'notes'].map(id => document.getElementById(id).checkVisibility())") == [False, True]
    edges = page.run("[...document.querySelectorAll('#activity, .track canvas')].map(one => one.getBoundingClientRect().right)")
    assert len(set(edges)) == 1  # paper has no scroll bars
    page.run("window.onafterprint()")
    assert page.run("document.documentElement.dataset.theme") == "dark"
    page.call("Emulation.setEmulatedMedia", media="")
    page.choose("#theme", "system")


def test_two_recordings_show_their_differences(browser: Browser, two: Path) -> None:
    browser.open(two)
    changes = {name: row for *row, name in functions(browser, 0, 1, 2, 8)}
    assert changes["query"] == ["25.00%", "75.00%", "* +50.00"]
    assert "beyond the spread of hosts" in [
        cell for cell in browser.run("[...document.querySelectorAll('#functions td')].map(e => e.title)") if cell
    ]
    assert changes["hot"] == ["75.00%", "75.00%", "0.00"]
    browser.click("#tab-flame")
    assert browser.text("#change-legend").startswith("points of after above before")
    browser.focus("#graph")
    browser.press("ArrowDown")
    assert browser.text("#about") == "app: 100.00% before (80.000 ms), 150.00% after (120.000 ms), +50.00 points of the total before"
    browser.choose("#lanes", "CPUs")
    assert browser.texts(".track-name") == ["before: CPU 0", "after: CPU 0"]
    browser.click("#tab-tree")
    assert "25.00% 75.00% +50.00 queryapp" in tree_rows(browser)
    assert not browser.errors


MARKUP = "</script><img src=x onerror=owned()>\u2028<svg/onload=owned()>'\"`${owned()}&lt;img src=x onerror=owned()&gt;\u202egpj"


def test_names_with_markup_run_nothing_and_are_shown(browser: Browser, tmp_path: Path) -> None:
    """Everywhere that names are: a script of our own, put in before, would notice."""
    part = timed_stacks([At("x;f", MS), At("x;f", 2000 * MS)], MARKUP)
    part = dataclasses.replace(part, functions=[Function(MARKUP, MARKUP, False)], comms=[MARKUP])
    code = {"name": MARKUP, "module": MARKUP, "event": MARKUP, "share": 1.0, "instructions": [[0, 1.0, "0", MARKUP, MARKUP, 0, 1, 0]],
            "calls": [[[MARKUP, MARKUP]]],
            "spots": [], "sources": [{"path": MARKUP, "share": 1.0, "lines": [[1, 1.0, MARKUP, "k5s900"]]}]}  # fmt: skip
    file = tmp_path / "hostile.html"
    lines = {"name": MARKUP, "event": MARKUP, "share": 1.0, "own": 1.0, "lines": [[1, 1.0, MARKUP, 1.0, "c9"]], "spots": []}
    second = dataclasses.replace(part, event="b")
    text = PageText(MARKUP, [MARKUP], [MARKUP], [HeadlineSentence(MARKUP, [(MARKUP, MARKUP)]), HeadlineSentence(f"more {MARKUP}")])
    marks = Marks([Mark(3 * MS, 1, 1, MARKUP, MARKUP)], 1)
    file.write_text(render([part, second], text, code=[code], files=[lines], marks=marks), encoding="utf-8")
    browser.call("Page.addScriptToEvaluateOnNewDocument", source="window.ran = 0; window.owned = () => { window.ran++; };")
    browser.open(file)
    markup = "onerror=owned()"
    browser.focus("#graph")
    for key in ("ArrowDown", "ArrowDown", "Enter", "s"):
        browser.press(key)
    browser.run("document.querySelector('#search').value = 'onerror'; document.querySelector('#search').dispatchEvent(new Event('input'))")
    for tab in ("tree", "callers", "functions", "sandwich", "chart", "marks", "heat", "code"):
        browser.run(f"document.querySelector('#tab-{tab}').click()")
        assert tab != "sandwich" or markup in browser.text("#about")
    browser.choose("#code-kind", "instructions")
    texts = "title environment headline headline-more notes event process thread module"
    for name in f"{texts} functions call-tree caller-tree marks tracks".split():
        assert markup in browser.run(f"document.getElementById('{name}').textContent"), name
    for name in "code-lines details-name kinds sandwich-about chips chart-thread".split():
        if name == "chips":
            browser.run("[...document.querySelectorAll('#details button')].find(one => one.textContent === 'Only stacks with it').click()")
        assert markup in browser.run(f"document.getElementById('{name}').textContent"), name
    assert browser.run("[window.ran, document.images.length, document.querySelectorAll('svg').length]") == [0, 0, 0]
    assert "\u202e" not in browser.run("document.documentElement.textContent")
    assert browser.requests == [file.as_uri()]
    browser.run("location.hash = '#find=' + encodeURIComponent('<img src=x onerror=owned()>') + '&tab=functions'")
    browser.until("document.querySelector('#search').value.startsWith('<img')")
    assert browser.run("[window.ran, document.images.length]") == [0, 0]


def test_the_browser_refuses_foreign_resources(page: Browser) -> None:
    """Were there a way in, the policy would still be there."""
    page.run(
        "window.got = 0; const s = document.createElement('script');"
        "try { s.textContent = 'window.got = 1'; document.body.append(s); } catch (e) { window.refused = e.name; }"
    )
    assert page.run("[window.got, window.refused]") == [0, "TypeError"]
    page.run("(() => { const i = new Image(); i.src = 'http://127.0.0.1:9/x.png'; })()")
    page.errors.clear()  # which says so


def test_the_chosen_tab_is_in_view_on_a_phone(browser: Browser, one: Path) -> None:
    browser.open(one, width=390, height=844)
    for tab in ("heat", "flame", "marks"):
        browser.click(f"#tab-{tab}")
        edges = browser.run(
            f"[...['tabs', 'tab-{tab}']].map(id => (r => [r.left, r.right])(document.getElementById(id).getBoundingClientRect()))"
        )
        (left, right), (first, last) = edges
        assert left - 1 <= first < last <= right + 1, tab


def test_text_and_rows_are_larger_on_a_large_screen(browser: Browser, one: Path) -> None:
    heights = "['.track-names', '.track canvas'].map(name => document.querySelector(name).getBoundingClientRect().height)"
    found = []
    for width, height in ((1440, 900), (3840, 2160)):
        browser.open(one, width=width, height=height)
        browser.run("new Promise(done => requestAnimationFrame(() => setTimeout(done)))")  # the graph follows its box
        names, canvas = browser.run(heights)
        assert names == canvas  # a name is beside its track
        found.append((names, browser.box("#graph")[3], browser.box("#details")[2]))
        left, top, wide, high = browser.box("#activity")
        for kind, at, button in (("mousePressed", 0.5, 1), ("mouseMoved", 0.75, 1), ("mouseReleased", 0.75, 0)):
            browser.mouse(kind, left + at * wide, top + high / 2, button)
        assert re.search(r"range=(4\.9|5\.0)\d*-7\.[45]", browser.run("location.hash"))
    (track, graph, panel), (large_track, large_graph, large_panel) = found
    assert large_track > 1.3 * track
    assert large_graph > 2 * graph
    assert large_panel > 2 * panel


_DELAYED = """
Worker = class extends Worker {
  set onmessage(take) {
    let answers = 0;
    super.onmessage = event => { if (++answers < 2) take(event); else window.goOn = () => take(event); };
  }
};
"""


def test_a_page_is_drawn_before_its_index_is_there_and_answers_later(browser: Browser, one: Path) -> None:
    script = browser.call("Page.addScriptToEvaluateOnNewDocument", source=_DELAYED)["identifier"]
    browser.call("Page.navigate", url=one.as_uri())
    browser.until("performance.getEntriesByName('drawn').length > 0 && !!window.goOn")
    browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=script)
    assert "1,000 of 1,000 samples" in browser.text("#selected")
    assert not browser.run("document.body.dataset.ready || ''")
    browser.click("#tab-functions")
    assert browser.texts("#functions tbody .name")
    for act in ("tab-chart", "tab-heat", "copy"):  # what needs the index waits for it, without an error
        browser.click(f"#{act}")
    browser.run("document.querySelector('[data-form=own]').click(); window.onresize()")
    browser.run("goOn()")
    browser.until("!!document.body.dataset.ready")
    assert browser.run("document.querySelector('#tab-heat').getAttribute('aria-selected')") == "true"
    assert browser.run("document.querySelectorAll('#tracks .track').length") > 0
    assert browser.run("document.querySelector('[data-form=own]').getAttribute('aria-checked')") == "true"
    assert not browser.errors


def test_the_index_is_made_in_a_worker_or_else_by_the_page(browser: Browser, one: Path) -> None:
    browser.open(one)
    assert browser.run("document.body.dataset.index") == "worker"
    shown = functions(browser)
    added = browser.call("Page.addScriptToEvaluateOnNewDocument", source="delete window.Worker;")
    browser.open(one)
    browser.call("Page.removeScriptToEvaluateOnNewDocument", identifier=added["identifier"])
    assert browser.run("document.body.dataset.index") == "page"
    assert functions(browser) == shown
    assert not browser.errors


def test_stacks_without_times_have_no_time_line(browser: Browser, tmp_path: Path) -> None:
    file = tmp_path / "empty.html"
    file.write_text(render([], PageText("t")), encoding="utf-8")
    browser.open(file)
    assert browser.run("document.body.dataset.ready") == "yes"
    assert not browser.errors
    file = tmp_path / "untimed.html"
    file.write_text(render([stacks("sh;main;run 30\nls;main;list 50")], PageText("t")), encoding="utf-8")
    browser.open(file)
    assert browser.run("document.querySelector('#times').hidden")
    assert functions(browser, 0, 3)[0] == ["62.50%", "list"]
    assert not browser.errors


# The page of `perfpy trace --html` in a real browser: lanes, arguments, search, and names that are no markup.


READ, OPENAT = 0, 257
NAMES = {READ: "read", OPENAT: "openat"}
HOSTILE = "<img src=x onerror=alert(1)>\u202e</script>"


def page_of_lanes() -> str:
    """Two threads: 10 reads of 8 ms each by the first, an open that fails by the second."""
    lanes = Lanes()
    begin = np.arange(10, dtype=np.int64) * 10 * MS
    texts = np.array([lanes.text(b"read(fd: %d) = 1" % at) for at in range(10)], np.int64)
    zeros = np.zeros(10, np.int64)
    lanes.add(LaneCalls(begin, zeros + 8 * MS, zeros + lanes.lane(7, 7, "app"), zeros + READ, zeros.astype(np.bool_), texts))
    lane, text = lanes.lane(7, 8, HOSTILE), lanes.text(f'openat(filename: "{HOSTILE}") = -1 ENOENT'.encode())
    one = np.ones(1, np.int64)
    lanes.add(LaneCalls(one * 40 * MS, one * 20 * MS, one * lane, one * OPENAT, one > 0, one * text))
    totals = Totals()
    number = np.repeat(np.array([READ] * 10 + [OPENAT]), 2)
    time = np.concatenate([np.stack([begin, begin + 8 * MS], 1).ravel(), [100 * MS, 120 * MS]])
    tid, result = np.repeat(np.array([7] * 10 + [8], np.int32), 2), np.repeat([1] * 10 + [-2], 2)
    kind = np.tile(np.array([ENTER, EXIT], np.uint8), 11)
    arguments, row = np.zeros((22, 6), np.uint64), np.arange(22)
    events = CallEvents(kind, tid, tid, tid, time, row.astype(np.uint64), number, arguments, result, row)
    totals.add(Pairing(np.zeros(0, np.int64)).pair(events))
    return lane_page(lanes, totals, NAMES.__getitem__, HOSTILE, ["a note"])


@pytest.fixture(scope="module")
def lane_browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    folder = tmp_path_factory.mktemp("lanes")
    file: Path = folder / "lanes.html"
    file.write_text(page_of_lanes(), encoding="utf-8")
    with Browser(folder) as started:
        started.open(file)
        yield started
        assert not started.errors
        assert started.requests == [file.as_uri()]


def test_the_headline_and_the_table_add_up_all_calls(lane_browser: Browser) -> None:
    assert lane_browser.text("#headline") == (
        "11 system calls of 2 threads in 98.000 ms; most time in read, 80.000 ms, the sum over 2 threads"
    )
    rows = [row.split("\t")[:5] for row in lane_browser.texts("#calls tbody tr")]
    # the threads are seen for 98 and 20 ms
    assert rows == [["read", "10", "0", "80.000 ms", "67.80%"], ["openat", "1", "1", "20.000 ms", "16.95%"]]
    assert lane_browser.texts("#notes li") == ["a note"]


def test_a_click_shows_arguments_and_names_are_no_markup(lane_browser: Browser) -> None:
    """The second lane has one call in the middle of the time; its names come from a hostile program."""
    names, width, height = 190, *lane_browser.box("#chart")[2:]
    middle = (names + (width - names) * 50 / 98) / width
    lane_browser.click("#chart", middle, (20 + 24 * 1.5) / height)

    details = lane_browser.text("#details")
    assert "openat\n" in details
    assert '"<img src=x onerror=alert(1)>\\u202e</script>") = -1 ENOENT' in details
    assert "20.000 ms" in details
    assert lane_browser.run("document.images.length") == 0


def test_a_dragged_range_is_shown_and_escape_shows_all_again(lane_browser: Browser) -> None:
    names, width = 190, lane_browser.box("#chart")[2]
    at = [(names + (width - names) * ms / 98) / width for ms in (20.5, 27.5)]
    lane_browser.drag("#chart", (at[0], 0.5), (at[1], 0.5))
    lane_browser.click("#chart", 0.7, 0.4)
    assert "read(fd: 2) = 1" in lane_browser.text("#details")

    lane_browser.focus("#chart")
    lane_browser.press("Escape")
    lane_browser.click("#chart", (names + (width - names) * 4 / 98) / width, 0.4)
    assert "read(fd: 0) = 1" in lane_browser.text("#details")


def test_a_search_and_a_row_count_the_calls_they_find(lane_browser: Browser) -> None:
    lane_browser.type("#search", "fd: [0-3]")
    assert lane_browser.text("#selected") == "4 calls found"
    lane_browser.type("#search", "")
    lane_browser.click("#calls tbody tr:nth-child(2) button")
    assert lane_browser.text("#selected") == "1 call found"


def test_lines_of_times_are_below_the_bars(lane_browser: Browser) -> None:
    """A line over a bar would make two calls of one."""
    lane_browser.type("#search", "")
    lane_browser.press("Escape")
    drawn = lane_browser.run("""(() => { const pen = document.querySelector('#chart').getContext('2d'), drawn = [];
        const fill = pen.fillRect.bind(pen); pen.fillRect = (x, y, w, h) => { drawn.push([x, y, w, h]); fill(x, y, w, h); };
        document.querySelector('#whole').click(); delete pen.fillRect; return drawn; })()""")
    lines = [place for place, (_, y, width, height) in enumerate(drawn) if width == 1 and y == 0 and height > 30]
    bars = [place for place, (*_, width, height) in enumerate(drawn) if width > 3 and height == 17]
    assert len(lines) >= 3
    assert len(bars) == 11
    assert max(lines) < min(bars)


def test_a_view_of_lanes_is_in_the_address_and_a_link_shows_it_again(lane_browser: Browser) -> None:
    lane_browser.run("location.hash = 'find=nothing'")
    lane_browser.until("document.querySelector('#search').value === 'nothing'")
    lane_browser.run("location.hash = ''")
    lane_browser.until("document.querySelector('#search').value === ''")
    file = lane_browser.run("location.href").partition("#")[0]
    names, width = 190, lane_browser.box("#chart")[2]
    at = [(names + (width - names) * ms / 98) / width for ms in (20.5, 47.5)]
    lane_browser.drag("#chart", (at[0], 0.5), (at[1], 0.5))
    lane_browser.type("#search", "rea")
    lane_browser.click("#calls tbody tr:nth-child(1) button")
    lane_browser.click("#chart", (names + (width - names) * (24 - 20.5) / 27) / width, 0.4)
    lane_browser.choose("#theme", "dark")
    address = lane_browser.run("location.hash")
    details, found = lane_browser.text("#details"), lane_browser.text("#selected")
    assert "read(fd: 2) = 1" in details
    assert all(part in address for part in ("shown=0.020", "find=rea", "only=0", "chosen=2", "theme=dark"))

    lane_browser.run("location.hash = ''")
    lane_browser.until("document.querySelector('#search').value === ''")
    assert "Click a bar" in lane_browser.text("#details")
    lane_browser.run(f"location.hash = {address!r}")
    lane_browser.until("document.querySelector('#search').value === 'rea'")
    assert lane_browser.text("#details") == details
    assert lane_browser.text("#selected") == found
    assert lane_browser.run("document.documentElement.dataset.theme") == "dark"
    # of another page: nothing that this one does not have
    lane_browser.run("location.hash = 'chosen=99&only=-1&shown=7-8'")
    lane_browser.until("document.querySelector('#search').value === ''")
    assert "Click a bar" in lane_browser.text("#details")
    lane_browser.run("location.hash = ''")
    lane_browser.until("document.documentElement.dataset.theme === 'light'")
    assert lane_browser.run("location.href").partition("#")[0] == file


def test_a_page_of_lanes_lists_its_keys_and_copies_its_table(lane_browser: Browser) -> None:
    lane_browser.run("document.activeElement.blur()")
    lane_browser.press("?")
    assert lane_browser.run("document.querySelector('#dialog').open")
    assert "copy the table as text" in lane_browser.text("#keys")
    lane_browser.press("Escape")
    lane_browser.run("document.querySelector('#dialog').close()")
    lane_browser.run("navigator.clipboard.writeText = text => { window.copied = text; return Promise.resolve(); }")
    lane_browser.click("#copy")
    lane_browser.until("!!window.copied")
    lines = lane_browser.run("window.copied").splitlines()
    assert lines[0].split() == ["Call", "Calls", "Errors", "Total", "Of", "the", "threads'", "time", "p50", "p99", "Longest"]
    assert [line.split()[0] for line in lines[1:]] == ["read", "openat"]
    assert lane_browser.text("#about") == "Copied the table, 3 lines."
    lane_browser.click("#link")
    lane_browser.until("window.copied.startsWith('file:')")


def test_a_narrow_page_of_lanes_has_all_numbers_and_several_times(lane_browser: Browser) -> None:
    lane_browser.size(390, 844)
    try:
        assert lane_browser.run("document.documentElement.scrollWidth") <= 390
        cells = "[...document.querySelectorAll('#calls tbody td')].map(cell => cell.getBoundingClientRect())"
        assert lane_browser.run(f"{cells}.every(box => box.left >= 0 && box.right <= 390 && box.height < 60)"), "nothing is cut"
        assert lane_browser.run("getComputedStyle(document.querySelector('#calls td.number'), '::before').content") == '"Calls"'
        texts = lane_browser.run("""(() => { const pen = document.querySelector('#chart').getContext('2d'), texts = [];
            const fill = pen.fillText.bind(pen); pen.fillText = (text, x, y) => { texts.push(text); fill(text, x, y); };
            document.querySelector('#whole').click(); delete pen.fillText; return texts; })()""")
        assert len([text for text in texts if text.endswith(" ms") and text[0].isdigit()]) >= 3
    finally:
        lane_browser.size(1200, 900)


def test_the_rules_of_axe_hold_on_a_page_of_lanes(lane_browser: Browser) -> None:
    for width in (390, 1200):
        lane_browser.size(width, 900)
        assert lane_browser.run(RULES) == []
    lane_browser.size(1200, 900)


DRAWN = """(() => { const pen = document.querySelector('CANVAS').getContext('2d'), drawn = [];
    const fill = pen.fillRect.bind(pen), text = pen.fillText.bind(pen);
    pen.fillRect = (x, y, w, h) => { drawn.push([pen.fillStyle, x, y, w, h]); fill(x, y, w, h); };
    pen.fillText = (words, x, y) => { drawn.push([words, x, y]); text(words, x, y); };
    window.drawn = drawn; })()"""


def drawn(browser: Browser, canvas: str, act: str) -> list[list[Any]]:
    """What a canvas draws while something is done: texts [text, x, y], and rectangles [colour, x, y, width, height]."""
    browser.run(DRAWN.replace("CANVAS", canvas))
    browser.run(act)
    browser.until("window.drawn.length > 0")
    result: list[list[Any]] = browser.run("window.drawn")
    return result


def test_states_of_threads_have_the_same_bars_in_lanes_and_in_why(browser: Browser, tmp_path: Path) -> None:
    """What runs is high and green, a wait for a CPU half as high and amber, other waits low with a stroke: of chains and of a timechart."""
    columns = [(0, 0, 0), (0, 300, 600), (300, 600, 900), (0, 1, 2), (0, 1, 2), (-1, -1, -1), (-1, -1, -1), (-1, -1, -1)]
    thread, begin, end, state, text, waker, stack, waker_stack = (np.array(column, np.int64) for column in columns)
    turns = (thread, (begin + 10) * MS, (end + 10) * MS, state, text, waker, stack, waker_stack)
    waits = WaitChains(0, [(7, "app")], 1, ["runs", "waits for a CPU", "sleeps"], [], *turns)
    why, chart = tmp_path / "why.html", tmp_path / "chart.html"
    why.write_text(render([timed_stacks([At("app;main", at * 10 * MS) for at in range(1, 100)])], PageText("why"), waits=waits))
    lanes, zeros = Lanes(), np.zeros(3, np.int64)
    lanes.add(LaneCalls(begin * MS, zeros + 300 * MS, zeros + lanes.lane(7, 7, "app"), np.arange(3), zeros > 0, zeros - 1))
    groups = (("runs", "runs"), ("waits for a CPU", "ready"), ("waits (disk sleep)", "waits"))
    story = LaneStory("x", ["x"], "interval", groups, list(zip("rcw", range(3), strict=True)), LaneTable("Task", [], []), [])
    chart.write_text(render_lanes(lanes, int, lambda *_: story))
    found = {}
    for file, canvas, act, tall in (
        (why, "#waits", "window.onresize()", 16),
        (chart, "#chart", "document.querySelector('#whole').click()", 17),
    ):
        browser.open(file)
        rows = [row for row in drawn(browser, canvas, act) if len(row) == 5 and row[3] > 100 and 1 < row[4] <= tall]
        found[file] = {colour: round(height / tall, 1) for colour, *_, height in rows if colour not in ("#ffffff", "#b3261e")}
        assert not browser.errors
    assert list(found[chart].items())[:3] == [("#279a69", 1.0), ("#c77700", 0.5), ("#bcccd2", 0.3)]
    assert found[why].items() >= found[chart].items()


def test_a_stack_without_frames_is_said_to_be_none(browser: Browser, tmp_path: Path) -> None:
    columns = [(0,), (0,), (300 * MS,), (0,), (0,), (-1,), (-1,), (0,)]
    turns = tuple(np.array(column, np.int64) for column in columns)
    file = tmp_path / "why.html"
    waits = WaitChains(0, [(7, "app")], 2, ["sleeps"], [()], *turns)
    file.write_text(render([timed_stacks([At("app;main", at * 10 * MS) for at in range(1, 100)])], PageText("why"), waits=waits))
    browser.open(file)
    text = browser.run("document.body.innerText")
    assert "none was recorded" in text.partition("the waker's stack")[2]
    assert not browser.errors


def test_a_wait_for_a_cpu_has_its_word_and_an_amber_stroke_in_a_flame_graph(browser: Browser, tmp_path: Path) -> None:
    waited = [At("app;main;[R (ready)]", 500 * MS, 300 * MS), At("app;main;[S (sleeping)]", 900 * MS, 300 * MS)]
    off = timed_stacks(waited, "offcpu-time", off_cpu=True)
    off = dataclasses.replace(off, categories=[WAITING if function.name.startswith("[") else OWN for function in off.functions])
    file = tmp_path / "ready.html"
    file.write_text(render([timed_stacks([At("app;main", MS)]), off], PageText("ready")), encoding="utf-8")
    browser.open(file)
    browser.choose("#event", "offcpu-time")
    rows = drawn(browser, "#graph", "window.onresize()")
    assert {row[0] for row in rows if len(row) == 3} >= {"waits for a CPU", "waits (sleeping)"}
    assert [row[0] for row in rows if len(row) == 5 and row[4] == 3] == ["#c77700"]
    assert not browser.errors


def test_large_screens_have_large_text_in_chains_and_names_are_free_of_lines(browser: Browser, tmp_path: Path) -> None:
    columns = [(0, 1), (0, 0), (600, 600), (2, 0), (1, 0), (1, -1), (-1, -1), (-1, -1)]
    thread, begin, end, state, text, waker, stack, waker_stack = (np.array(column, np.int64) for column in columns)
    turns = (thread, (begin + 10) * MS, (end + 10) * MS, state, text, waker, stack, waker_stack)
    waits = WaitChains(0, [(7, "app"), (8, "worker")], 1, ["runs", "waits"], [], *turns)
    file = tmp_path / "large.html"
    file.write_text(render([timed_stacks([At("app;main", at * 10 * MS) for at in range(1, 100)])], PageText("why"), waits=waits))
    browser.open(file)
    heights = []
    for width, height in ((1440, 900), (3840, 2160)):
        browser.size(width, height)
        rows = drawn(browser, "#waits", "window.onresize()")
        heights.append(browser.box("#waits")[3])
        names = [place for place, row in enumerate(rows) if row[0] in ("app (7)", "worker (8)")]
        assert len(names) >= 2
        assert all(rows[place - 1][0] == "#ffffff" for place in names), "drawn after the lines, on ground of its own"
    assert heights[1] == pytest.approx(1.375 * heights[0], abs=2)
    browser.size(1200, 900)
    assert not browser.errors


def test_a_moment_of_a_wait_shows_its_chain_and_is_in_the_address(browser: Browser, tmp_path: Path) -> None:
    """The main thread waits for a worker from 300 ms on, which runs; the view shows both stacks, and the address the moment."""
    columns = [(0, 0, 1), (0, 300, 0), (300, 900, 1000), (0, 2, 0), (0, 1, 0), (-1, 1, -1), (-1, 0, -1), (-1, 1, -1)]
    thread, begin, end, state, text, waker, stack, waker_stack = (np.array(column, np.int64) for column in columns)
    texts, stacks = ["runs", "waits for a lock in <b>want</b>()"], [["futex_wait", "want"], ["futex_wake", "leave"]]
    turns = (thread, (begin + 10) * MS, (end + 10) * MS, state, text, waker, stack, waker_stack)
    waits = WaitChains(0, [(7, "app"), (8, "worker")], 1, texts, stacks, *turns)
    file = tmp_path / "why.html"
    part = timed_stacks([At("app;main", at * 10 * MS) for at in range(1, 100)])
    switches = dataclasses.replace(part, event="sched:sched_switch", in_seconds=False)
    file.write_text(render([switches, part], PageText("why"), waits=waits), encoding="utf-8")
    browser.open(file)
    assert browser.run("document.getElementById('event').selectedOptions[0].text") == part.event, "CPU time, although it comes second"
    assert browser.run("document.getElementById('tab-waits').getAttribute('aria-selected')") == "true", "a page of waits begins with them"
    browser.click("#tab-flame")
    assert "tab=flame" in browser.run("location.hash")
    browser.click("#tab-waits")
    assert browser.texts("#wait-path caption")[0].startswith("Critical path of app (7)")
    browser.run("[...document.querySelectorAll('#wait-path button')].find(one => one.textContent.includes('worker')).click()")
    chain = browser.texts("#wait-chain p")
    assert chain[0] == "app (7) waits for a lock in <b>want</b>() for 600.000 ms, ended by worker (8)"
    assert chain[1].startswith("meanwhile worker (8) runs")
    assert browser.texts("#wait-chain li") == ["futex_wait", "want", "futex_wake", "leave"]
    assert browser.texts("#wait-chain summary") == [], "no frame is known to be the program's own"
    assert "moment=" in browser.run("location.hash")
    assert not browser.errors


def test_the_details_of_a_function_say_what_it_waited_for_and_who_ended_that(browser: Browser, tmp_path: Path) -> None:
    columns = [
        (0, 0, 0, 1),
        (0, 300, 600, 0),
        (300, 600, 900, 1000),
        (0, 2, 2, 0),
        (0, 1, 1, 0),
        (-1, 1, 1, -1),
        (-1, 0, 0, -1),
        (-1, 1, 1, -1),
    ]
    thread, begin, end, state, text, waker, stack, waker_stack = (np.array(column, np.int64) for column in columns)
    turns = (thread, (begin + 10) * MS, (end + 10) * MS, state, text, waker, stack, waker_stack)
    texts, stacks = ["runs", "waits for the condition cv in take()"], [["futex_wait", "take", "main"], ["futex_wake", "put"]]
    waits = WaitChains(0, [(7, "app"), (8, "worker")], 1, texts, stacks, *turns)
    file = tmp_path / "why.html"
    ran = [At("app;main;take", at * 10 * MS) for at in range(1, 50)] + [At("app;main;work", at * 10 * MS) for at in range(50, 100)]
    file.write_text(render([timed_stacks(ran)], PageText("why"), waits=waits), encoding="utf-8")
    browser.open(file)
    browser.click("#tab-functions")
    browser.run("[...document.querySelectorAll('#functions button')].find(one => one.textContent === 'work').click()")
    assert "Waits in it" not in browser.text("#details")
    browser.run("[...document.querySelectorAll('#functions button')].find(one => one.textContent === 'take').click()")
    story = "600.000 ms: app (7) waits for the condition cv in take(), 2 times, ended by worker (8)"
    assert browser.texts("#details .stories li") == [story]
    browser.run("document.querySelector('#details .stories button').click()")
    assert browser.run("document.getElementById('tab-waits').getAttribute('aria-selected')") == "true"
    assert "moment=" in browser.run("location.hash")
    assert browser.texts("#wait-chain p")[0].startswith("app (7) waits for the condition cv in take() for 300.000 ms, ended by worker (8)")
    assert not browser.errors


@pytest.mark.parametrize("event", ["on and off the CPU", "offcpu-time"])
def test_where_a_function_waits_the_command_that_tells_who_ended_it_is_named(browser: Browser, tmp_path: Path, event: str) -> None:
    off = timed_stacks([At("app;main;nap;[S (sleeping)]", 900 * MS, 300 * MS)], "offcpu-time", off_cpu=True)
    off = dataclasses.replace(off, categories=[WAITING if function.name.startswith("[") else OWN for function in off.functions])
    switches = dataclasses.replace(timed_stacks([At("app;main", MS)]), event="sched:sched_switch/period=1/", in_seconds=False)
    for parts, command in (([], "--html why.html PROGRAM"), ([switches], "-i RECORDING --html why.html")):
        file = tmp_path / f"waits{len(parts)}.html"
        file.write_text(
            render([timed_stacks([At("app;main", MS), At("app;main;work", 9 * MS)]), off, *parts], PageText("waits")), encoding="utf-8"
        )
        browser.open(file)
        browser.choose("#event", event)
        browser.click("#tab-functions")
        told = {}
        for name in ("nap", "main"):
            browser.run(f"[...document.querySelectorAll('#functions td.name button')].find(one => one.textContent === {name!r}).click()")
            told[name] = browser.texts("#details .tells")
        assert told == {"nap": [f"What was waited for, and who ended it: perfpy why {command}"], "main": []}
        browser.click("#tab-tree")
        browser.run("[...document.querySelectorAll('#call-tree tr')].find(one => one.innerText.includes('waits (sleeping)'))?.click()")
        assert not browser.errors


def test_a_stack_of_a_wait_begins_with_the_programs_own_frames(browser: Browser, tmp_path: Path) -> None:
    columns = [(0, 0), (0, 300), (300, 600), (0, 2), (0, 1), (-1, -1), (-1, 0), (-1, -1)]
    thread, begin, length, state, text, waker, stack, waker_stack = (np.array(column, np.int64) for column in columns)
    turns = (thread, (begin + 10) * MS, (begin + length + 10) * MS, state, text, waker, stack, waker_stack)
    waits = WaitChains(0, [(7, "app")], 1, ["runs", "waits for a lock"], [["futex_wait", "lock", "py::main:/srv/app.py:7"]], *turns)
    part = timed_stacks([At("app;py::main:/srv/app.py;lock;futex_wait", at * 10 * MS) for at in range(1, 100)])
    category_of = {"py::main:/srv/app.py": OWN, "lock": LIBRARY}
    part = dataclasses.replace(part, categories=[category_of.get(function.name, KERNEL) for function in part.functions])
    file = tmp_path / "own.html"
    file.write_text(render([part], PageText("why"), waits=waits), encoding="utf-8")
    browser.open(file)
    browser.click("#tab-waits")
    browser.run("[...document.querySelectorAll('#wait-path button')].find(one => one.textContent.includes('lock')).click()")
    assert browser.texts("#wait-chain ol")[0] == "main (app.py:7)"
    assert browser.texts("#wait-chain summary") == ["all 3 frames"]
    browser.run("document.querySelector('#wait-chain summary').click()")
    assert browser.texts("#wait-chain details li") == ["futex_wait", "lock", "main (app.py:7)"]
    assert not browser.errors
