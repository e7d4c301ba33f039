"""Pages that commands make of recordings whose every name is markup: in a real browser nothing of it runs."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.builders import hostile_names
from tests.builders.browser import Browser

if TYPE_CHECKING:
    from pathlib import Path

MARKUP = (
    "</script><img src=x onerror=owned()><svg/onload=owned()>--><!--<script>owned()</script>"
    "'\"`${owned()}&lt;b onclick=owned()&gt;\u202egpj"
)
NOTICES = "window.ran = 0; window.owned = () => { window.ran++; };"


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two recordings, and in root the file with the symbols and a source file, all named so."""
    monkeypatch.setattr(hostile_names, "COMMANDS", MARKUP)
    for name in ("perf.data", "after.data"):
        (tmp_path / name).write_bytes(hostile_names.hostile_recording().file())
    program = tmp_path / "root" / hostile_names.hostile("/file").lstrip("/")
    program.parent.mkdir(parents=True)
    program.write_bytes(hostile_names.hostile_program())
    return tmp_path


@pytest.mark.parametrize(
    "words", [["report", "-i", "perf.data", "--html=page.html"], ["diff", "--html=page.html", "perf.data", "after.data"]]
)
@pytest.mark.slow
def test_texts_of_a_recording_do_not_run_in_its_page(words: list[str], room: Path) -> None:
    command = [sys.executable, "-m", "perfpy", *words, "--symfs", "root"]
    process = subprocess.run(
        command, cwd=room, env={**os.environ, "HOME": str(room)}, capture_output=True, text=True, check=False, timeout=120
    )
    assert process.returncode == 0, process.stderr
    page = room / "page.html"
    with Browser(room) as browser:
        browser.call("Page.addScriptToEvaluateOnNewDocument", source=NOTICES)
        browser.open(page)
        browser.focus("#graph")
        for key in ("ArrowUp", "ArrowUp", "Enter", "s"):
            browser.press(key)
        browser.run("for (const part of document.querySelectorAll('details')) part.open = true")
        result = browser.run("document.documentElement.textContent")
        assert "onerror=owned()" in result
        assert "hot</script><img" in result
        assert "\u202e" not in result
        assert browser.run("[window.ran, document.images.length, document.querySelectorAll('svg').length]") == [0, 0, 0]
        assert (
            browser.run("[...document.querySelectorAll('*')].filter(e => e.hasAttribute('onclick') || e.hasAttribute('onerror')).length")
            == 0
        )
        assert browser.requests == [page.as_uri()]
