"""If filters leave nothing, or a file name is taken for another word, one line gives the reason and a remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from perfpy.cli import run
from tests.builders.perfdata import PerfDataBuilder, simple_recording

if TYPE_CHECKING:
    from pathlib import Path

LEFT_NOTHING = "perfpy: perf.data: the filters leave no samples: "


@pytest.fixture(autouse=True)
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("perfpy.cli.line.input_recording.default_input", lambda: "perf.data")  # whatever standard input is
    (tmp_path / "perf.data").write_bytes(simple_recording(3).file())


def said(capfd: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    """Return the text of a command line on standard error."""
    assert run(arguments) == status
    return capfd.readouterr().err


@pytest.mark.parametrize("command", [["report", "--json"], ["report", "--folded=-"], ["report", "-v"], ["script"]])
@pytest.mark.parametrize(
    ("filters", "reason"),
    [
        ("--comms nosuch", "--comms nosuch: no such command in this recording; it has busy"),
        ("--comms bussy", "--comms bussy: no command of this name; did you mean busy?"),
        ("--dsos nosuch.so", "--dsos nosuch.so: no such file in this recording; it has busy"),
        ("--pid 8", "--pid 8: no such process in this recording; it has 7"),
        ("--tid 8,9", "no such thread in this recording; it has 7"),
        ("--time 5,6", "--time is outside the recording, which runs from 0.000000 to 0.000000"),
        (
            "--comms nosuch --pid 8",
            "--comms nosuch: no such command in this recording; it has busy; --pid 8: no such process in this recording; it has 7",
        ),
    ],
)
def test_filters_that_match_nothing_are_named(command: list[str], filters: str, reason: str, capfd: pytest.CaptureFixture[str]) -> None:
    (line,) = (line for line in said(capfd, *command, *filters.split()).splitlines() if line.startswith("perfpy: "))
    assert line.startswith(LEFT_NOTHING)
    assert line.endswith(reason)


@pytest.mark.parametrize("filters", ["--comms nosuch", "--symbols nosuch", "--pid 8", "nosuch"])
def test_perfs_text_in_a_pipe_has_no_note_as_in_perf(filters: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert said(capfd, "report", "--stdio", *filters.split()) == ""


@pytest.mark.parametrize("command", ["report --json -q", "report --folded=- -q", "script -q"])
def test_q_prints_no_note(command: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert said(capfd, *command.split(), "--comms", "nosuch") == ""


def test_effective_filters_have_no_note(capfd: pytest.CaptureFixture[str]) -> None:
    for command in ("report --json", "report --folded=-", "script"):
        assert said(capfd, *command.split(), "--comms", "busy") == ""


def test_filters_that_leave_something_each_but_nothing_together(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    built = PerfDataBuilder()
    for pid, tid in ((1, 2), (3, 4)):
        built.sample(misc=2, ip=1, pid=pid, tid=tid, time=pid, period=1)
    (tmp_path / "perf.data").write_bytes(built.file())
    assert said(capfd, "script", "--pid", "1", "--tid", "4") == f"{LEFT_NOTHING}no sample passes all of them\n"


def test_a_file_instead_of_a_function_gets_a_hint(capfd: pytest.CaptureFixture[str]) -> None:
    assert said(capfd, "report", "--json=-", "perf.data").endswith("no function name contains 'perf.data'; did you mean -i perf.data?\n")


@pytest.mark.parametrize("command", ["report --json perf.data", "report --html perf.data", "diff perf.data perf.data --json=perf.data"])
def test_a_recording_is_not_written_over_by_results(command: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    before = (tmp_path / "perf.data").read_bytes()
    assert "this file is a recording; choose another output file" in said(capfd, *command.split(), status=255)
    assert (tmp_path / "perf.data").read_bytes() == before


def test_so_it_is_where_there_is_no_other_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "perf.data").rename(tmp_path / "fp2.data")
    assert said(capfd, "report", "fp2.data", status=255).endswith("; did you mean -i fp2.data?\n")
    assert "did you mean" not in said(capfd, "report", "nosuch.data", status=255)


@pytest.mark.parametrize("command", ["script", "evlist", "inject", "buildid-list"])
def test_a_word_too_many_may_be_the_file(command: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert said(capfd, command, "perf.data", status=129).endswith("; did you mean -i perf.data?\n")
    assert "did you mean" not in said(capfd, command, "nosuch.data", status=129)


def test_diff_of_one_recording_names_the_other(capfd: pytest.CaptureFixture[str]) -> None:
    line = said(capfd, "diff", "one.data", status=255)
    assert line.startswith("perfpy diff: perf.data.old: cannot open: ")
    assert line.endswith("it is the default baseline for one.data; name two recordings: perfpy diff BASELINE one.data\n")


@pytest.mark.parametrize(("word", "near"), [("sww", "did you mean sw?"), ("zzzzzz", "perfpy list shows all events")])
def test_list_reports_a_word_that_matches_no_event(word: str, near: str, capfd: pytest.CaptureFixture[str]) -> None:
    lines = said(capfd, "list", word).splitlines()  # another one where tracefs cannot be read
    assert lines[0] == f"no event is named '{word}'; {near}"


def test_list_in_a_pipe_names_similar_events_on_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    """Standard output is perf's, which has nothing for such a word."""
    assert run(["list", "pagefault"]) == 0
    captured = capfd.readouterr()
    assert captured.out.strip() == ""
    assert captured.err.startswith("no event is named 'pagefault'; similar events: page-faults")


@pytest.mark.parametrize("command", ["report --json -", "diff --json - perf.data perf.data"])
def test_a_hyphen_is_standard_output(command: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(command.split()) == 0
    assert capfd.readouterr().out.startswith("{")
