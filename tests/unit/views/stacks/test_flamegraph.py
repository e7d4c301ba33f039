"""The flame graph page: self-contained, safe, and working in a real browser."""

import dataclasses
import html
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from perfpy.analysis.stacks.stacks import Function
from perfpy.recording import Recording
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.views.stacks import flamegraph
from tests.builders.long_names import OWNER, SORT, recording_with_long_names
from tests.builders.stacks import stacks

BEFORE = "sh;main;run;sys_read_[k] 30\nsh;main;run 20\nls;main;list 50"
AFTER = "sh;main;run;sys_read_[k] 10\nsh;main;run 40\nls;main;list 50"

#: does what a user does, and writes what the page then says into the document
ACTIONS = """
<script>
async function act() {
  while (!document.body.dataset.ready) await new Promise(done => setTimeout(done, 20));
  const said = [], about = () => document.getElementById("about").textContent, canvas = document.getElementById("graph");
  const key = name => canvas.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
  key("ArrowUp"); said.push("up: " + about());
  key("ArrowUp"); key("ArrowUp"); said.push("top: " + about());
  key("Enter"); said.push("zoomed: " + view.names[view.name[zoom]][0]);
  key("Escape"); said.push("reset: " + about());
  const search = document.getElementById("search");
  search.value = "^run$"; search.oninput();
  said.push("search: " + document.getElementById("matched").textContent);
  search.value = ""; search.oninput();
  const root = document.getElementById("root");
  root.value = "inner"; root.onchange();
  key("ArrowUp"); said.push("inverted: " + about());
  const wide = canvas.height; document.getElementById("layout").value = "icicle"; document.getElementById("layout").onchange();
  said.push("icicle: " + (canvas.height === wide));
  said.push("first row: " + [...document.querySelectorAll("#flat tbody tr:first-child td")].map(td => td.textContent).join(" | "));
  const out = document.createElement("pre"); out.id = "said"; out.textContent = said.join("\\n"); document.body.append(out);
}
act();
</script>
"""


#: the least contrast of the names with their boxes, in light and dark
CONTRAST = """
<script>
async function measure() {
  while (!document.body.dataset.ready) await new Promise(done => setTimeout(done, 20));
  const part = v => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
  const bright = text => { pen.fillStyle = text; const n = parseInt(pen.fillStyle.slice(1), 16);
    return 0.2126 * part(n >> 16) + 0.7152 * part(n >> 8 & 255) + 0.0722 * part(n & 255); };
  const least = dark => Math.min(...Array.from(view.name, (_, i) => (bright(colour(i, dark)) + 0.05) / (bright(INK) + 0.05)));
  const out = document.createElement("pre"); out.id = "said"; out.textContent = `${least(false)} ${least(true)}`; document.body.append(out);
}
measure();
</script>
"""


#: what names became of which somebody hoped that they are markup
SAY_ELEMENTS = """
<script>
async function say() {
  while (!document.body.dataset.ready) await new Promise(done => setTimeout(done, 20));
  const canvas = document.getElementById("graph");
  for (const name of ["ArrowUp", "ArrowUp", "Enter"]) canvas.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true }));
  await new Promise(done => setTimeout(done, 300));
  const markup = "onerror=owned()", has = id => document.getElementById(id).textContent.includes(markup);
  const said = ["ran " + ran, "img " + document.images.length, "event " + has("event"), "title " + has("title"), "table " + has("flat")];
  const out = document.createElement("pre"); out.id = "said"; out.textContent = said.join("\\n"); document.body.append(out);
}
say();
</script>
"""


#: a long name in its box, in the line about it and in the table, short and whole
SAY_NAMES = """
<script>
async function say() {
  while (!document.body.dataset.ready) await new Promise(done => setTimeout(done, 20));
  const drawn = [], write = pen.fillText.bind(pen), out = document.createElement("pre");
  pen.fillText = (text, x, y) => { drawn.push(text); write(text, x, y); };
  const cell = () => document.querySelector("#flat td.name button");
  const say = () => `${drawn.pop()} | ${cell().textContent} | ${cell().title}`;
  canvas.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowUp", bubbles: true }));
  canvas.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowUp", bubbles: true }));
  const said = [$("about").textContent, say()];
  $("whole").checked = true; $("whole").onchange();
  said.push(say());
  out.id = "said"; out.textContent = said.join("\\n"); document.body.append(out);
}
say();
</script>
"""


def browse(page: str, tmp_path: Path, actions: str = ACTIONS) -> list[str]:
    """What the page says after some actions, in headless Chromium."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("no Chromium on this machine to look at the page with")
    file = tmp_path / "flame.html"
    file.write_text(page + actions, encoding="utf-8")
    quiet = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
             "--disable-component-update", "--disable-sync", "--disable-quic", f"--user-data-dir={tmp_path / 'profile'}"]  # fmt: skip
    command = [browser, *quiet, "--virtual-time-budget=5000", "--dump-dom", file.as_uri()]
    run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    found = re.search(r'<pre id="said">(.*?)</pre>', run.stdout, re.DOTALL)
    assert found, run.stdout[-2000:] + run.stderr[-2000:]
    return found[1].splitlines()


def test_keys_search_layouts_and_table_work_in_a_browser(tmp_path: Path) -> None:
    said = browse(flamegraph.render([stacks(BEFORE)], title="a test"), tmp_path)
    assert said == [
        "up: ls: 50.00%, 50 periods",
        "top: list (app): 50.00%, 50 periods",
        "zoomed: list",
        "reset: all: 100.00%, 100 periods",
        "search: 50.00% matched",
        "inverted: list (app): 50.00%, 50 periods",
        "icicle: true",
        "first row: 50.00% | 50.00% | list | app",
    ]


def test_names_are_readable_on_every_colour(tmp_path: Path) -> None:
    many = "\n".join(f"sh;f{number} 1" for number in range(60))
    part = stacks(many)
    part = dataclasses.replace(part, functions=[f._replace(dso=f"lib{n}.so", kernel=n % 7 == 0) for n, f in enumerate(part.functions)])
    page = flamegraph.render([part], title="a test")
    (said,) = browse(page, tmp_path, CONTRAST)
    light, dark = map(float, said.split())
    assert light >= 4.5  # WCAG's contrast for text
    assert dark >= 4.5


def test_two_recordings_show_what_changed(tmp_path: Path) -> None:
    said = browse(flamegraph.render([stacks(BEFORE)], title="a test", after=[stacks(AFTER)]), tmp_path)
    assert said[0] == "up: ls: 50.00% before, 50.00% after, 0.00%"
    assert said[-1] == "first row: 20.00% | 40.00% | +20.00% | 50.00% | run | app"


def test_the_page_fetches_nothing() -> None:
    page = flamegraph.render([stacks(BEFORE)], title="x")
    assert not re.search(r"""(src|href)\s*=|https?://|@import|url\(""", page)


def test_names_cannot_end_the_script_that_holds_them() -> None:
    page = flamegraph.render([stacks("sh;</script><script>alert(1)</script> 1")], title="</script><b>")
    assert page.count("</script>") == 2
    assert "<b>" not in page


def test_long_names_are_drawn_short_and_told_whole(tmp_path: Path) -> None:
    part = stacks("sh;x 1")
    part = dataclasses.replace(part, functions=[Function("void pick<A<B>, C<D>, E<F> >(int)", "app", False)])
    said = [html.unescape(line) for line in browse(flamegraph.render([part], title="t"), tmp_path, SAY_NAMES)]
    whole, short = part.functions[0].name, "pick<…>(int)"
    assert said == [f"{whole} (app): 100.00%, 1 periods", f"{short} | {short} | {whole}", f"{whole} | {whole} | Search for this function"]


def test_the_page_has_short_names_beside_whole_ones(tmp_path: Path) -> None:
    with Recording(str(recording_with_long_names(tmp_path))) as recording:
        page = flamegraph.render(recording.stacks(SymbolOptions(symfs=str(tmp_path), cache=False)), title="t")
    elements = _Elements()
    elements.feed(page)
    names = json.loads(elements.scripts[0])["names"]
    assert [name[::3] for name in names if len(name) > 3] == [list(OWNER[1:]), list(SORT[1:])]
    assert [name for name in names if len(name) == 3]


class _Elements(HTMLParser):
    """What a browser makes of a page: its elements, and what stands in its scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.scripts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)

    def handle_data(self, data: str) -> None:
        if self.elements and self.elements[-1] == "script":
            self.scripts.append(data)


MARKUP = "</script><img src=x onerror=owned()>\u2028\u2029<!--<script>'\"`${owned()}&lt;]]>"


def test_names_with_markup_make_no_elements() -> None:
    named = stacks("sh;x 1", MARKUP)
    named = dataclasses.replace(named, functions=[Function(MARKUP, MARKUP, False)], comms=[MARKUP])
    plain, hostile = _Elements(), _Elements()
    plain.feed(flamegraph.render([stacks("sh;x 1")], title="t", circumstances=["f"]))
    hostile.feed(flamegraph.render([named], title=MARKUP, circumstances=[MARKUP]))
    assert hostile.elements == plain.elements
    data = json.loads(hostile.scripts[0])
    assert data["title"] == data["events"][0]["event"] == MARKUP
    assert [MARKUP, MARKUP, 0] in data["names"]


def test_names_with_markup_run_nothing_in_a_browser(tmp_path: Path) -> None:
    """Each place that shows names: rows, the line about a frame, the table, the list of events, the heading."""
    named = dataclasses.replace(stacks("sh;x 1", MARKUP), functions=[Function(MARKUP, MARKUP, False)], comms=[MARKUP])
    page = flamegraph.render([named, stacks("sh;x 1", "b")], title=MARKUP, circumstances=[MARKUP])
    page = page.replace("<body", "<script>var ran = 0; function owned() { ran++; }</script><body", 1)
    said = browse(page, tmp_path, SAY_ELEMENTS)
    assert said == ["ran 0", "img 0", "event true", "title true", "table true"]


def test_an_event_of_only_one_recording_is_left_out() -> None:
    page = flamegraph.render([stacks(BEFORE, "a"), stacks(BEFORE, "b")], title="x", after=[stacks(AFTER, "b")])
    assert '"event":"b"' in page
    assert '"event":"a"' not in page


def test_functions_of_python_are_shown_with_their_files() -> None:
    page = _Elements()
    page.feed(flamegraph.render([stacks("sh;py::main:/srv/app.py 5")], title="t"))
    assert ["py::main:/srv/app.py", "/srv/app.py", 0, "main (app.py)"] in json.loads(page.scripts[0])["names"]
