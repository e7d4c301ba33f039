"""Messages about one thing name one thing."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from perfpy.cli import run
from perfpy.errors import plural
from perfpy.recording import Recording
from perfpy.symbols.quality_notes import TruncatedStacks, truncation_note
from perfpy.views.page.page import verdict
from perfpy.views.report.screen import ScreenOptions, show_report
from tests.builders.perfdata import simple_recording

if TYPE_CHECKING:
    from pathlib import Path


# Messages about one thing name one thing.


@pytest.mark.parametrize(("number", "noun"), [(0, "rows"), (1, "row"), (2, "rows")])
def test_only_one_is_singular(number: int, noun: str) -> None:
    assert plural(number, "row") == noun


def test_some_plurals_are_given() -> None:
    assert [plural(number, "was", "were") for number in (1, 2)] == ["was", "were"]


@pytest.mark.parametrize(("samples", "text"), [(1, "1 sample"), (2, "2 samples")])
def test_a_report_counts_its_samples(samples: int, text: str, tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(simple_recording(samples).file())
    screen = io.StringIO()
    with Recording(str(path)) as recording:
        report = recording.report()
        show_report(report, recording, Console(file=screen, width=120, height=40, no_color=True), ScreenOptions())
        words = [screen.getvalue(), verdict(report)[0], repr(report)]
    wrong = "1 samples" if samples == 1 else "2 sample "
    assert all(text in one and wrong not in one for one in words)


def test_an_export_counts_its_samples(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    (tmp_path / "perf.data").write_bytes(simple_recording(1).file())
    assert run(["export", "-o", str(tmp_path / "tables"), str(tmp_path / "perf.data")]) == 0
    assert "(1 sample, " in capsys.readouterr().err


def test_one_callchain_lacks_its_user_part() -> None:
    (line,) = truncation_note([TruncatedStacks(size=0, stacks=1, truncated=0, machine="pdp11")])
    assert line.startswith("1 callchain lacks its user part: ")
