"""`perfpy view` writes the page to a file and prints its path; a browser starts if there is a display."""

from __future__ import annotations

import stat
import webbrowser
from pathlib import Path

import pytest

from perfpy import cli
from tests.builders.perfdata import simple_recording


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current and temporary folder, with a recording."""
    (tmp_path / "perf.data").write_bytes(simple_recording(5).file())
    (tmp_path / "later.data").write_bytes(simple_recording(3).file())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The URLs that the browser was asked to open."""
    urls: list[str] = []

    def show(url: str) -> bool:
        urls.append(url)
        return True

    monkeypatch.setattr(webbrowser, "open", show)
    return urls


def test_the_page_is_in_a_file_of_ones_own(room: Path, capsys: pytest.CaptureFixture[str], shown: list[str]) -> None:
    assert cli.run(["view", "-i", "perf.data"]) == 0
    path = Path(capsys.readouterr().out.strip())
    assert path.parent == room
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_text().startswith("<!doctype html>")
    assert shown == []  # there is no screen


def test_where_there_is_a_screen_the_browser_shows_it(
    room: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], shown: list[str]
) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
    assert cli.run(["view", "-o", "out.html", "perf.data"]) == 0
    assert shown == [(room / "out.html").as_uri()]
    assert cli.run(["view", "-o", "out.html", "--no-browser", "perf.data"]) == 0
    assert len(shown) == 1
    assert capsys.readouterr().out == "out.html\n" * 2


def test_a_browser_that_does_not_start_is_reported(room: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setattr(webbrowser, "open", lambda _url: False)
    assert cli.run(["view", "-q", "-o", "out.html", "perf.data"]) == 0
    assert capsys.readouterr().err == "cannot start a browser; open the page yourself\n"


def test_two_recordings_are_compared(room: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["view", "-o", "-", "perf.data", "later.data"]) == 0
    assert '"title":"perf.data \N{RIGHTWARDS ARROW} later.data"' in capsys.readouterr().out


def test_three_are_too_many(room: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["view", "a", "b", "c"]) == 129
    assert "two to compare" in capsys.readouterr().err


def test_without_samples_there_is_no_page(room: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (room / "none.data").write_bytes(simple_recording(0).file())
    assert cli.run(["view", "-i", "none.data"]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "no samples" in captured.err
    assert not list(room.glob("*.html"))
