"""`perfpy report` on a terminal of some size; the message for a missing requirement of `--tui`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from perfpy.cli import run
from tests.builders.perfdata import simple_recording
from tests.builders.terminals import on_terminal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

NO_COLOURS = {"NO_COLOR": "1", "PAGER": "sed s/^/paged:/"}
IN_FULL_SCREEN = "\x1b[?1049h"


@pytest.fixture
def samples(corpus: Path) -> list[str]:
    return ["report", "--tui", "-f", "-i", str(corpus / "recorded" / "mt-a.data")]


def test_without_textual_the_extra_is_named(
    samples: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("perfpy.cli.report.run.is_terminal", lambda: True)
    monkeypatch.setitem(sys.modules, "textual", None)
    monkeypatch.delitem(sys.modules, "perfpy.views.report.browser", raising=False)
    for name in [name for name in sys.modules if name.startswith("textual.")]:
        monkeypatch.setitem(sys.modules, name, None)
    assert run(samples) == 129
    assert "pip install 'perfpy[tui]'" in capsys.readouterr().err


@pytest.fixture
def recording(tmp_path: Path) -> str:
    path = tmp_path / "perf.data"
    path.write_bytes(simple_recording(500).file())
    return str(path)


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_a_report_with_its_notes_stays_on_the_screen(recording: str, columns: int) -> None:
    screen_text = on_terminal("report", "-i", recording, columns=columns, lines=30, environment=NO_COLOURS)
    assert screen_text.status == 0
    assert "paged:" not in screen_text.text
    assert "next: report " in screen_text.text
    assert "have no symbol" in " ".join(screen_text.text.split())
    assert len(screen_text.text.splitlines()) < 30


def test_all_rows_above_a_limit_go_through_the_pager(recording: str) -> None:
    screen_text = on_terminal("report", "-i", recording, "--percent-limit", "0.01", lines=30, environment=NO_COLOURS)
    assert screen_text.text.startswith("paged:")
    assert len([line for line in screen_text.text.splitlines() if "0x0000" in line]) > 100


def leaving_with(keys: bytes) -> tuple[Callable[[int, str], bytes | None], list[bool]]:
    """Presses keys once rows are there; whether it was in full screen."""
    has_pressed: list[bool] = []

    def press(_pid: int, text: str) -> bytes | None:
        if not has_pressed and IN_FULL_SCREEN in text and "%" in text.rpartition(IN_FULL_SCREEN)[2]:
            has_pressed.append(True)
            return keys
        return None

    return press, has_pressed


@pytest.mark.parametrize("keys", [b"q", b"\x03"])
def test_the_browser_is_left_with_q_and_ctrl_c(recording: str, keys: bytes) -> None:
    pytest.importorskip("textual", reason="the extra perfpy[tui] is not installed")
    press, has_pressed = leaving_with(keys)
    screen_text = on_terminal("report", "--tui", "-i", recording, watch=press)
    assert (screen_text.status, has_pressed) == (0, [True])
    assert screen_text.text.rstrip().rpartition("\x1b[?1049")[2].startswith("l")  # the screen is as it was


def test_a_setting_makes_the_browser_the_usual_report(recording: str, tmp_path: Path) -> None:
    pytest.importorskip("textual", reason="the extra perfpy[tui] is not installed")
    (tmp_path / "config").write_text("[tui]\n\treport = true\n")
    environment = {**NO_COLOURS, "PERF_CONFIG": str(tmp_path / "config")}
    press, has_pressed = leaving_with(b"q")
    assert on_terminal("report", "-i", recording, environment=environment, watch=press).status == 0
    assert has_pressed
    assert IN_FULL_SCREEN not in on_terminal("report", "--stdio", "-i", recording, environment=environment).text


def test_without_a_terminal_it_is_perfs_text(samples: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(samples) == 0
    browsed = _without_tip(capsys.readouterr().out)
    assert run([word for word in samples if word != "--tui"]) == 0
    assert browsed == _without_tip(capsys.readouterr().out)
    assert "# Overhead" in browsed


def _without_tip(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith("# (Tip"))


@pytest.mark.parametrize(
    "options",
    [
        ["--addr2line", "/bin/false", "--addr2line-style", "libdw,llvm", "--unwind-style", "libunwind"],
        ["--objdump", "/bin/false", "--no-source", "--asm-raw", "-M", "intel", "--percent-type", "local-hits"],
        ["--prefix", "/x", "--prefix-strip", "2", "--samples", "3", "--show-ref-call-graph", "--pretty", "normal"],
    ],
)
def test_options_of_perfs_browser_change_no_text(samples: list[str], options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    command = [word for word in samples if word != "--tui"]
    assert run(command) == 0
    plain = _without_tip(capsys.readouterr().out)
    assert run([*command, *options]) == 0
    assert _without_tip(capsys.readouterr().out) == plain


@pytest.mark.parametrize(
    "options", [["--percent-type", "hits"], ["--samples", "x"], ["--addr2line-style", "x"], ["--unwind-style", "x"], ["--pretty", "raw"]]
)
def test_their_values_are_read(samples: list[str], options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*samples, *options]) == 129
    assert options[0] in capsys.readouterr().err
