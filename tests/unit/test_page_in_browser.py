"""The page in a real browser: what a person selects, and what is then shown."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

import pytest

from perfpy.analysis.stacks.stacks import Function
from perfpy.views.page.page import PageText, render
from tests.builders.browser import Browser
from tests.builders.stacks import At, stacks, timed_stacks

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MS = 1_000_000
RAN = [
    *(At("app;main;hot", at * 10 * MS, 10 * MS, 7, 7, 0) for at in range(1, 501)),
    *(At("db;serve;main;query", at * 10 * MS, 10 * MS, 8, 9, 1) for at in range(501, 1001)),
]
WAITED = [At("app;main;nap", 8000 * MS, 2000 * MS, 7, 7, 0)]
FAULTS = [At("app;main;grow", at * 100 * MS, 1, 7, 7, 0) for at in range(1, 11)]
CODE = {"name": "hot", "module": "app", "event": "cpu-clock", "share": 0.5,
        "instructions": [[3, 0.75, "1003", "add", "hot.c:2"], [9, 0.25, "1009", "ret", "hot.c:3"]],
        "sources": [{"path": "/src/hot.c", "share": 1.0,
                     "lines": [[1, 0, "int hot(void) {"], [2, 0.75, "  x++;"], [3, 0.25, "}"]]}]}  # fmt: skip


LINES = {"name": "/src/main.c", "event": "cpu-clock", "share": 0.5, "own": 0.2,
         "lines": [[7, 0, "sum(all);", 0.3], [9, 0.2, "}", 0.2]]}  # fmt: skip


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("chromium")) as started:
        yield started


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of a recording with three events."""
    parts = [timed_stacks(RAN), timed_stacks(WAITED, "offcpu-time", off_cpu=True), timed_stacks(FAULTS, "faults", in_seconds=False)]
    file = tmp_path_factory.mktemp("page") / "one.html"
    text = PageText("perfpy record ./app", ["here", "10 s"], ["1,011 samples, none lost"])
    file.write_text(render(parts, text, code=[CODE], files=[LINES]), encoding="utf-8")
    return file


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of two recordings: `query` has become three times as much."""
    before = timed_stacks([At("app;main;hot", at * 10 * MS) for at in range(60)] + [At("app;main;query", at * 10 * MS) for at in range(20)])
    after = timed_stacks([At("app;main;hot", at * 10 * MS) for at in range(60)] + [At("app;main;query", at * 10 * MS) for at in range(60)])
    file = tmp_path_factory.mktemp("page") / "two.html"
    marks = {"cpu-clock": {("query", before.functions[1].dso): "beyond the spread of hosts"}}
    file.write_text(render([before], PageText("before and after"), after=[after], marks=marks), encoding="utf-8")
    return file


@pytest.fixture
def page(browser: Browser, one: Path) -> Iterator[Browser]:
    browser.dark(on=False)
    browser.open(one)
    browser.choose("#event", "cpu-clock")
    yield browser
    assert not browser.errors


def functions(browser: Browser, *columns: int) -> list[list[str]]:
    """The rows of the table of functions."""
    rows = [row.split("\t") for row in browser.texts("#functions tbody tr")]
    return [[row[column] for column in columns] for row in rows]


def test_it_says_what_was_recorded_and_how_good_that_is(page: Browser) -> None:
    assert page.text("#title") == "perfpy record ./app"
    assert page.text("#environment") == "here · 10 s"
    assert page.text("#verdict") == "1,011 samples, none lost"
    assert page.text("#selected") == "1,000 of 1,000 samples · 10.000 s"


def test_it_asks_nobody_for_anything(page: Browser) -> None:
    page.choose("#lanes", "heat map")
    page.focus("#graph")
    page.press("ArrowUp")
    assert [url for url in page.requests if not url.startswith("file:")] == []


def test_a_range_that_is_dragged_is_followed_by_everything(page: Browser) -> None:
    assert functions(page, 0, 2)[:2] == [["50.00%", "hot"], ["50.00%", "query"]]
    page.drag("#lane-canvas", (0.1, 0.5), (0.4, 0.5))
    assert functions(page, 0, 2)[0] == ["100.00%", "hot"]
    assert "query" not in page.text("#functions")
    assert page.text("#selected").startswith("30")  # of 3 s, as pixels go
    page.focus("#graph")
    page.press("ArrowUp")
    assert page.text("#about") == f"app: 100.00%, {page.text('#selected').split(' · ')[1]}"
    page.click("#whole")
    assert page.text("#selected") == "1,000 of 1,000 samples · 10.000 s"


def test_a_range_is_chosen_with_keys_and_by_numbers(page: Browser) -> None:
    page.focus("#lane-canvas")
    page.press("ArrowRight")  # the first tenth
    assert page.text("#selected").startswith("100 of 1,000 samples")
    for _ in range(5):
        page.press("ArrowRight", shift=True)
    assert page.text("#selected").startswith("200 of 1,000 samples")
    page.press("Escape")
    assert page.text("#selected") == "1,000 of 1,000 samples · 10.000 s"
    page.type("#from", "4")
    page.type("#to", "6")
    page.focus("#search")  # which is when a field has changed
    assert page.text("#selected").startswith("200 of 1,000 samples · 2.000 s")
    assert functions(page, 0, 2)[:2] == [["50.00%", "hot"], ["50.00%", "query"]] or functions(page, 0, 2)[0][0] == "50.50%"
    page.click("#narrow")
    page.click("#clear")
    assert page.text("#selected") == "1,000 of 1,000 samples · 10.000 s"


def test_filters_by_process_thread_cpu_and_module(page: Browser) -> None:
    page.choose("#process", "app 7")
    assert functions(page, 0, 2)[0] == ["100.00%", "hot"]
    assert page.run("document.querySelector('#thread').options.length") == 2
    page.click("#clear")
    page.choose("#thread", "db 8/9")
    assert functions(page, 0, 2)[0] == ["100.00%", "query"]
    page.click("#clear")
    page.choose("#cpu", "0")
    assert functions(page, 0, 2)[0] == ["100.00%", "hot"]
    page.click("#clear")
    page.choose("#module", "app")
    assert page.text("#selected").startswith("1,000 of")


def test_a_lane_is_a_cpu_or_a_thread_and_its_name_a_filter(page: Browser) -> None:
    assert page.texts("#lane-names button") == ["CPU 0", "CPU 1"]
    page.choose("#lanes", "threads")
    assert page.texts("#lane-names button") == ["app 7", "db 8/9"]
    said = page.run("[...document.querySelectorAll('#lane-names button')].map(one => one.getAttribute('aria-label'))")
    assert [re.sub(r"(49|50)\.\d\d%", "half", label) for label in said] == [
        "app 7: half of the time on the CPU",
        "db 8/9: half of the time on the CPU",
    ]
    page.run("document.querySelectorAll('#lane-names button')[1].click()")
    assert page.text("#selected").startswith("500 of 1,000")
    assert functions(page, 0, 2)[0] == ["100.00%", "query"]
    page.run("document.querySelectorAll('#lane-names button')[1].click()")
    assert page.text("#selected").startswith("1,000 of 1,000")


def test_lanes_show_load_where_there_was_some(page: Browser) -> None:
    """CPU 0 ran in the first half, CPU 1 in the second."""
    pixel = ("(x => { const c = document.querySelector('#lane-canvas'), p = c.getContext('2d');"
             "return [30, 54].map(y => [...p.getImageData(Math.round(x * c.width), y, 1, 1).data]); })")  # fmt: skip
    early, late = page.run(f"{pixel}(0.25)"), page.run(f"{pixel}(0.75)")
    assert [early[0][3], early[1][3], late[0][3], late[1][3]] == [255, 0, 0, 255]


def test_a_search_marks_and_narrows(page: Browser) -> None:
    page.type("#search", "^query$")
    assert page.text("#selected").endswith("50.00% in stacks with what is searched")
    assert [row[0] for row in functions(page, 2)] == ["query"]
    page.type("#search", "(")
    assert page.text("#selected") == "not a regular expression"
    page.press("Escape")
    assert len(functions(page, 2)) == 6


def test_events_are_switched(page: Browser) -> None:
    page.choose("#event", "faults")
    assert page.text("#selected") == "10 of 10 samples · 10 periods"
    assert functions(page, 0, 2)[0] == ["100.00%", "grow"]
    page.choose("#event", "offcpu-time")
    assert page.text("#selected") == "1 of 1 samples · 2.000 s"


def test_time_on_the_cpu_and_off_it_is_one_picture(page: Browser) -> None:
    page.choose("#event", "on and off the CPU")
    assert page.text("#selected") == "1,001 of 1,001 samples · 12.000 s"
    assert "off the CPU, waiting" in page.text("#legend")
    rows = {name: (on, off) for on, off, name in functions(page, 0, 1, 3)}
    assert (rows["hot"], rows["nap"]) == (("41.67%", "0.00%"), ("0.00%", "16.67%"))
    page.focus("#graph")
    page.press("ArrowUp")
    assert page.text("#about") == "app: 58.33%, 7.000 s (5.000 s on the CPU, 2.000 s off it)"


def test_a_wait_counts_in_a_range_as_far_as_it_lies_in_it(page: Browser) -> None:
    """It is from the 6th to the 8th second; times begin at the first sample."""
    page.choose("#event", "offcpu-time")
    page.type("#from", "6.99")
    page.type("#to", "9")
    page.focus("#search")
    assert page.text("#selected").startswith("1 of 1 samples · 1.000 s")


def test_layouts_keys_and_inverted_stacks(page: Browser) -> None:
    page.focus("#graph")
    page.press("ArrowUp")
    assert page.text("#about") == "app: 50.00%, 5.000 s"
    page.press("ArrowRight")
    assert page.text("#about") == "db: 50.00%, 5.000 s"
    page.press("ArrowUp")
    page.press("Enter")
    assert page.text("#about") == "serve (app): 50.00%, 5.000 s"
    page.press("Escape")
    page.choose("#layout", "icicle")
    page.focus("#graph")
    page.press("ArrowDown")
    assert page.text("#about") == "app: 50.00%, 5.000 s"
    page.choose("#root", "callees (inverted)")
    page.press("ArrowDown")
    assert page.text("#about") == "hot (app): 50.00%, 5.000 s"
    page.press("ArrowDown")
    assert page.text("#about") == "main (app): 50.00%, 5.000 s"


def test_a_sandwich_has_callers_and_callees(page: Browser) -> None:
    main = next(number for number, row in enumerate(functions(page, 2), 1) if row == ["main"])
    page.click(f"#functions tbody tr:nth-child({main}) button")
    assert page.text("#about") == "main (app): 100.00%, 10.000 s"
    page.focus("#graph")
    page.press("ArrowDown")
    assert page.text("#about") == "hot (app): 50.00%, 5.000 s"
    page.focus("#callers")
    page.press("ArrowUp")
    assert page.text("#about") == "app: 50.00%, 5.000 s"
    page.press("ArrowRight")
    assert page.text("#about") == "serve (app): 50.00%, 5.000 s"
    page.click("#plain")
    assert page.run("document.querySelector('#callers-box').hidden")


def test_a_search_in_a_sandwich_marks_the_function_itself_and_no_other(page: Browser) -> None:
    main = next(number for number, row in enumerate(functions(page, 2), 1) if row == ["main"])
    page.click(f"#functions tbody tr:nth-child({main}) button")
    pixel = (
        "((view, x, row) => { const c = document.querySelector(view), ratio = c.width / c.clientWidth, row_height = 18 * ratio,"
        " y = (row < 0 ? c.height : 0) + row * row_height + 3 * ratio;"
        " return [...c.getContext('2d').getImageData(Math.round(x * c.width), Math.round(y), 1, 1).data]; })"
    )

    def is_marked(view: str, at: float, row: int) -> bool:
        red, green, blue, _ = page.run(f"{pixel}('{view}', {at}, {row})")
        return bool(red - green > 40 and blue - green > 40)

    page.type("#search", "^main$")
    assert (is_marked("#graph", 0.9, 0), is_marked("#graph", 0.25, 1), is_marked("#graph", 0.75, 1)) == (True, False, False)
    assert (is_marked("#callers", 0.9, -1), is_marked("#callers", 0.25, -2)) == (True, False)
    page.type("#search", "^query$")
    assert (is_marked("#graph", 0.9, 0), is_marked("#graph", 0.25, 1), is_marked("#graph", 0.75, 1)) == (False, False, True)


def test_a_function_in_the_graph_is_made_a_sandwich_by_a_key(page: Browser) -> None:
    page.focus("#graph")
    for key in ("ArrowUp", "ArrowUp", "ArrowUp", "s"):
        page.press(key)
    assert page.text("#about") == "hot (app): 50.00%, 5.000 s"
    assert not page.run("document.querySelector('#callers-box').hidden")


def test_lines_of_a_source_file_with_what_was_inlined_there(page: Browser) -> None:
    assert page.texts("#code-lines tbody tr") == ["\t30.00%\t7\tsum(all);", "\t\t⋮\t", "20.00%\t20.00%\t9\t}"]
    assert "50.00% of the whole recording, 20.00% without" in page.text("#code-about")
    assert page.run("document.querySelector('#code-kind').parentElement.hidden")


def test_code_says_how_to_see_that_of_a_range(page: Browser) -> None:
    assert page.run("document.querySelector('#code-range').hidden")
    page.type("#from", "2.5")
    page.type("#to", "5")
    page.focus("#search")
    assert page.text("#code-range").endswith(" --time 25.0%-50.1%")
    page.click("#whole")
    assert page.run("document.querySelector('#code-range').hidden")


def test_lines_and_instructions_of_a_hot_function(page: Browser) -> None:
    page.choose("#code-function", "50.00% hot")
    assert page.texts("#code-lines tbody tr") == ["100.00%\t\t/src/hot.c", "\t1\tint hot(void) {", "75.00%\t2\t  x++;", "25.00%\t3\t}"]
    page.choose("#code-kind", "instructions")
    assert page.texts("#code-lines tbody tr") == ["75.00%\t1003\tadd\thot.c:2", "\t\t⋮\t", "25.00%\t1009\tret\thot.c:3"]


def test_the_heat_map_shows_when_within_a_second(page: Browser) -> None:
    page.choose("#event", "faults")
    page.choose("#lanes", "heat map")
    page.choose("#column", "1 s")
    page.focus("#heat-canvas")
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


def test_the_heat_map_selects_what_is_dragged_over(page: Browser) -> None:
    page.choose("#lanes", "heat map")
    page.run("document.querySelector('#column').value = '1'")
    width = page.run("document.querySelector('#heat-canvas').clientWidth")
    assert width > 50
    page.drag("#heat-canvas", (0.15, 0.5), (0.35, 0.5))  # from the middle of the 2nd second to that of the 4th
    assert page.text("#selected").startswith("20")


def test_the_table_is_sorted_by_the_column_that_is_clicked(page: Browser) -> None:
    page.run("document.querySelectorAll('#functions th button')[2].click()")
    names = [row[0] for row in functions(page, 2)]
    assert names == sorted(names)
    assert page.run("document.querySelectorAll('#functions th')[2].getAttribute('aria-sort')") == "ascending"


def test_dark_is_the_systems_wish_or_ones_own(page: Browser) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    assert page.run(background) == "rgb(255, 255, 255)"
    page.dark(on=True)
    page.until(f"{background} === 'rgb(22, 24, 29)'")
    page.choose("#theme", "light")
    assert page.run(background) == "rgb(255, 255, 255)"
    page.dark(on=False)
    page.choose("#theme", "dark")
    assert page.run(background) == "rgb(22, 24, 29)"


def test_a_narrow_window_has_everything_one_below_the_other(browser: Browser, one: Path) -> None:
    browser.open(one, width=390, height=800)
    assert browser.run("document.documentElement.scrollWidth") <= 390
    for part in ("#title", "#event", "#lane-canvas", "#graph", ".scroll", "#code .scroll"):
        left, _, width, height = browser.box(part)
        assert left >= 0, part
        assert 0 < width <= 390, part
        assert height > 0, part
    browser.drag("#lane-canvas", (0.1, 0.5), (0.4, 0.5))
    assert browser.text("#selected").startswith("30")
    browser.size(1200, 900)


def test_everything_that_can_be_used_has_a_name_for_who_does_not_see_it(page: Browser) -> None:
    unnamed = page.run(
        "[...document.querySelectorAll('input, select, button, canvas, table')].filter(e => !(e.getAttribute('aria-label')"
        " || e.closest('label') || e.textContent.trim() || e.closest('section').getAttribute('aria-labelledby'))).map(e => e.id)"
    )
    assert unnamed == []
    assert page.run("[...document.querySelectorAll('[role=status]')].length") >= 3


def test_two_recordings_show_what_changed(browser: Browser, two: Path) -> None:
    browser.open(two)
    changes = {name: row for *row, name in functions(browser, 0, 1, 2, 4)}
    assert changes["query"] == ["25.00%", "50.00%", "* +25.00%"]
    assert "beyond the spread of hosts" in [
        cell for cell in browser.run("[...document.querySelectorAll('#functions td')].map(e => e.title)") if cell
    ]
    assert changes["hot"] == ["75.00%", "50.00%", "-25.00%"]
    assert browser.text("#legend").strip().startswith("more in the second recording")
    browser.focus("#graph")
    browser.press("ArrowUp")
    assert browser.text("#about") == "app: 100.00% before, 100.00% after, 0.00%"
    assert browser.texts("#lane-names button") == ["before: CPU 0", "after: CPU 0"]
    assert not browser.errors


MARKUP = "</script><img src=x onerror=owned()>\u2028<svg/onload=owned()>'\"`${owned()}&lt;img src=x onerror=owned()&gt;\u202egpj"


def test_names_with_markup_run_nothing_and_are_shown(browser: Browser, tmp_path: Path) -> None:
    """Everywhere that names are: a script of our own, put in before, would notice."""
    part = timed_stacks([At("x;f", MS), At("x;f", 2000 * MS)], MARKUP)
    part = dataclasses.replace(part, functions=[Function(MARKUP, MARKUP, False)], comms=[MARKUP])
    code = {"name": MARKUP, "module": MARKUP, "event": MARKUP, "share": 1.0, "instructions": [[0, 1.0, "0", MARKUP, MARKUP]],
            "sources": [{"path": MARKUP, "share": 1.0, "lines": [[1, 1.0, MARKUP]]}]}  # fmt: skip
    file = tmp_path / "hostile.html"
    lines = {"name": MARKUP, "event": MARKUP, "share": 1.0, "own": 1.0, "lines": [[1, 1.0, MARKUP, 1.0]]}
    second = dataclasses.replace(part, event="b")
    file.write_text(render([part, second], PageText(MARKUP, [MARKUP], [MARKUP]), code=[code], files=[lines]), encoding="utf-8")
    browser.call("Page.addScriptToEvaluateOnNewDocument", source="window.ran = 0; window.owned = () => { window.ran++; };")
    browser.open(file)
    shown = "onerror=owned()"
    browser.focus("#graph")
    for key in ("ArrowUp", "ArrowUp", "Enter", "s"):
        browser.press(key)
    for name in "title environment verdict event process thread module about functions code-lines".split():
        assert shown in browser.run(f"document.getElementById('{name}').textContent"), name
    browser.choose("#code-kind", "instructions")
    browser.choose("#lanes", "threads")
    browser.run("document.querySelector('#whole-names').click()")
    assert shown in browser.run("document.querySelector('#lane-names').textContent")
    assert browser.run("[window.ran, document.images.length, document.querySelectorAll('svg').length]") == [0, 0, 0]
    assert "\u202e" not in browser.run("document.documentElement.textContent")
    assert browser.requests == [file.as_uri()]


def test_the_browser_itself_refuses_what_is_not_the_pages_own(page: Browser) -> None:
    """Were there a way in, the policy would still be there."""
    page.run(
        "window.got = 0; const s = document.createElement('script');"
        "try { s.textContent = 'window.got = 1'; document.body.append(s); } catch (e) { window.refused = e.name; }"
    )
    assert page.run("[window.got, window.refused]") == [0, "TypeError"]
    page.run("(() => { const i = new Image(); i.src = 'http://127.0.0.1:9/x.png'; })()")
    page.errors.clear()  # which says so


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
    assert functions(browser, 0, 2)[0] == ["62.50%", "list"]
    assert not browser.errors
