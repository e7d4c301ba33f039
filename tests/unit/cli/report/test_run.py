"""What `perfpy report --tui` needs, and what of perf's browser changes no text."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from perfpy.cli import run

if TYPE_CHECKING:
    from pathlib import Path


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
def test_what_is_for_perfs_browser_changes_no_text(samples: list[str], options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    command = [word for word in samples if word != "--tui"]
    assert run(command) == 0
    plain = _without_tip(capsys.readouterr().out)
    assert run([*command, *options]) == 0
    assert _without_tip(capsys.readouterr().out) == plain


@pytest.mark.parametrize(
    "options", [["--percent-type", "hits"], ["--samples", "x"], ["--addr2line-style", "x"], ["--unwind-style", "x"], ["--pretty", "raw"]]
)
def test_their_values_are_looked_at(samples: list[str], options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*samples, *options]) == 129
    assert options[0] in capsys.readouterr().err
