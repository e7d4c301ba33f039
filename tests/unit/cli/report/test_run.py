"""What `perfpy report --tui` needs is said where it is missing."""

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
    monkeypatch.setitem(sys.modules, "textual", None)
    monkeypatch.delitem(sys.modules, "perfpy.views.report.browser", raising=False)
    for name in [name for name in sys.modules if name.startswith("textual.")]:
        monkeypatch.setitem(sys.modules, name, None)
    assert run(samples) == 129
    assert "pip install 'perfpy[tui]'" in capsys.readouterr().err


def test_without_a_terminal_it_is_refused(samples: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("textual", reason="the extra perfpy[tui] is not installed")
    assert run(samples) == 129
    assert "needs a terminal" in capsys.readouterr().err
