"""Tests of the page's notes on the accuracy of its profile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.recording import Recording
from perfpy.views.page.verdict import verdict
from tests.builders.annotated import recording

if TYPE_CHECKING:
    from pathlib import Path


def test_the_judgement_comes_first_and_then_the_doubts(tmp_path: Path) -> None:
    (tmp_path / "perf.data").write_bytes(recording())
    with Recording(str(tmp_path / "perf.data")) as opened:
        judgement, *doubts = verdict(opened.report(by="dso,symbol"))
    assert judgement == "13 samples, none lost: a share of 50 % is accurate to 27 points, a share of 5 % to 12"
    assert any("record with -g to see callers" in doubt for doubt in doubts)
    assert any("have no symbol" in doubt for doubt in doubts)
