"""Tests of the page: it is a single file, fetches nothing, and treats names as text only."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import perfpy.views.page
from perfpy.analysis.stacks import Function
from perfpy.recording import Recording
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.tools.trace import lane_page
from perfpy.views.page.page import SCRIPTS, PageText, render, verdict
from tests.builders.annotated import recording
from tests.builders.long_names import OWNER, SORT, recording_with_long_names
from tests.builders.stacks import stacks

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
    assert {str(path.relative_to(FOLDER).with_suffix("")) for path in result} == {*SCRIPTS, *lane_page._SCRIPTS}
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
