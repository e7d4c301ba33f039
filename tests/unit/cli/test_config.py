"""`perfpy config`, `data`, `view`, and the actions that a command forwards."""

from __future__ import annotations

import json
import stat
import webbrowser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from perfpy import cli
from perfpy.abi import records
from perfpy.abi.flags import MISC_USER
from perfpy.abi.records import SampleId
from perfpy.cli.forwarded_actions import RECORDINGS, present_events, record_arguments
from perfpy.cli.line import perfconfig
from tests.builders.perfdata import USUAL, PerfDataBuilder, simple_recording, usual_attr

# `perfpy config`: settings are read back by perf's rules; files that are invalid or belong to others stay unchanged.


@pytest.fixture
def own_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PERF_CONFIG_NOSYSTEM", "1")
    monkeypatch.delenv("PERF_CONFIG", raising=False)
    return tmp_path / ".perfconfig"


def test_settings_are_written_in_perfs_layout_and_shown(own_file, capsys):
    assert cli.run(["config", "report.queue-size=10M", "ui.show-headers=no", "report.children=false"]) == 0
    assert own_file.read_text() == (
        "# this file is auto-generated.\n[report]\n\tqueue-size = 10M\n\tchildren = false\n[ui]\n\tshow-headers = no\n"
    )
    assert cli.run(["config", "--list"]) == 0
    assert capsys.readouterr().out == "report.queue-size=10M\nreport.children=false\nui.show-headers=no\n"
    assert cli.run(["config", "report.children", "report.nothing"]) == 0
    assert capsys.readouterr().out == "report.children=false\n"


@pytest.mark.parametrize("value", ['a "b" c', "one # two", "back\\slash", "semi;colon", "plain words"])
def test_every_value_is_read_back_as_it_was_given(own_file, value):
    assert cli.run(["config", f"x.y={value}"]) == 0
    assert perfconfig.load_config()["x.y"] == value


def test_a_name_of_three_parts_is_read_back(own_file):
    assert cli.run(["config", "call.graph.size=3"]) == 0
    assert perfconfig.load_config() == {"call.graph.size": "3"}


def test_an_old_setting_is_replaced_and_others_stay(own_file):
    own_file.write_text("[report]\nchildren = true\ngroup = true\n")
    assert cli.run(["config", "report.children=false"]) == 0
    assert perfconfig.load_config() == {"report.children": "false", "report.group": "true"}


@pytest.mark.parametrize("text", ["nothing", ".x=1", "report.=1", "report.x=", "re port.x=1", "a.b=1\n[c]\nd = 2", "a.1b=1"])
def test_unreadable_names_are_refused(own_file, text, capsys):
    assert cli.run(["config", text]) == 255
    assert capsys.readouterr().err.startswith("perfpy config: ")
    assert not own_file.exists()


def test_a_file_with_a_bad_line_stays_unchanged(own_file, capsys):
    own_file.write_text("[report]\nchildren = true\n[broken\n[ui]\nx = 1\n")
    before = own_file.read_text()
    assert cli.run(["config", "a.b=1"]) == 129
    assert "line 3" in capsys.readouterr().err
    assert own_file.read_text() == before


def test_a_file_of_another_user_stays_unchanged(own_file, monkeypatch, capsys):
    own_file.write_text("[report]\nchildren = true\n")
    monkeypatch.setattr(perfconfig, "trusted_file_owners", lambda: (12345,))
    assert cli.run(["config", "a.b=1"]) == 255
    assert "belongs to user" in capsys.readouterr().err
    assert own_file.read_text() == "[report]\nchildren = true\n"


def test_one_file_at_a_time(own_file):
    assert cli.run(["config", "--user", "--system", "--list"]) == 255


def test_a_broken_line_ends_a_file_and_nothing_else(own_file, capsys):
    own_file.write_text("[report]\nchildren = false\n[open\ngroup = true\n")
    assert perfconfig.load_config() == {"report.children": "false"}
    assert "line 3" in capsys.readouterr().err


# `perfpy data convert`: JSON of any recording, and refused options.


HOSTILE = 'a"\\\n\x1b\udcff\u00e9'


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """Three samples of a task with a name that JSON has to escape; nothing is said of the machine."""
    built = PerfDataBuilder(attrs=[usual_attr(USUAL)])
    built.record(records.Comm(0, 7, 8, HOSTILE, SampleId(pid=7, tid=8, time=1)))
    for time in (1_000_000_000, 2_000_000_000, 3_000_000_000):
        built.sample(ip=0x1004, pid=7, tid=8, time=time, period=1, misc=MISC_USER)
    path = tmp_path / "perf.data"
    path.write_bytes(built.file())
    return path


def converted(recording: Path, *more: str) -> dict[str, Any]:
    """The JSON, read."""
    target = recording.with_name("samples.json")
    assert cli.run(["data", "convert", "--force", "--to-json", str(target), "-i", str(recording), *more]) == 0
    document: dict[str, Any] = json.loads(target.read_text())
    return document


def test_all_names_are_strings(recording: Path) -> None:
    samples = converted(recording)["samples"]
    assert [sample["comm"] for sample in samples] == [HOSTILE] * 3
    assert [sample["callchain"] for sample in samples] == [[{"ip": "0x1004"}]] * 3


def test_facts_that_the_recording_lacks_are_omitted(recording: Path) -> None:
    assert "cpu-desc" not in converted(recording)["headers"]


def test_time_chooses_samples(recording: Path) -> None:
    assert [sample["timestamp"] for sample in converted(recording, "--time", "1.5,2.5")["samples"]] == [2_000_000_000]


def test_standard_output(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["data", "convert", "--to-json", "-", "-i", str(recording)]) == 0
    captured = capsys.readouterr()
    assert len(json.loads(captured.out)["samples"]) == 3
    assert captured.err == ""


@pytest.mark.parametrize(
    ("line", "status", "message"),
    [
        ("convert --to-json there", 255, "--force"),
        ("convert", 255, "--to-json"),
        ("convert --to-json new --all", 255, "CTF"),
        ("convert --to-json new --tod", 255, "CTF"),
        ("convert --to-ctf new", 129, "--to-json"),
        ("--to-json new", 129, "data convert"),
        ("invert --to-json new", 129, "data convert"),
    ],
)
def test_refused(
    line: str, status: int, message: str, recording: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(recording.parent)
    (recording.parent / "there").write_text("mine")
    assert cli.run(["data", *line.split()]) == status
    assert message in capsys.readouterr().err
    assert not (recording.parent / "new").exists()
    assert (recording.parent / "there").read_text() == "mine"


# `perfpy view` writes the page to a file and prints its path; a browser starts if there is a display.


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


# Tests of the `record` actions of tools: the events that each records on kernels of different age.


@pytest.fixture
def tracepoints(monkeypatch):
    """Set the tracepoints of the kernel, by system."""
    events_of: dict[str, list[str]] = {}
    monkeypatch.setattr("perfpy.kernel.sysfs.Tracefs.events", lambda _self, system: events_of.get(system, []))
    return events_of


def events_in(arguments):
    return [value for option, value in pairwise(arguments) if option == "-e"]


def test_the_first_of_alternatives_that_the_kernel_has_is_recorded(tracepoints):
    tracepoints["sched"] = ["sched_waking", "sched_wakeup"]
    assert present_events(["sched:sched_waking|sched:sched_wakeup"]) == ["sched:sched_waking"]
    tracepoints["sched"] = []
    assert present_events(["sched:sched_waking|sched:sched_wakeup"]) == ["sched:sched_wakeup"]


def test_an_event_that_only_some_kernels_have_is_left_out_of_others(tracepoints):
    assert "kmem:kmalloc_node" not in events_in(record_arguments("kmem", [], kinds=["slab"]))
    tracepoints["kmem"] = ["kmalloc_node"]
    assert "kmem:kmalloc_node" in events_in(record_arguments("kmem", [], kinds=["slab"]))


def test_events_stand_in_the_order_of_perf(tracepoints):
    tracepoints["sched"] = ["sched_stat_wait", "sched_waking"]
    names = [event.removeprefix("sched:sched_") for event in events_in(record_arguments("sched", []))]
    assert names == ["switch", "stat_wait", "stat_runtime", "process_fork", "wakeup_new", "migrate_task", "waking"]


@pytest.mark.parametrize("tool", RECORDINGS)
def test_arguments_of_the_line_stand_last(tool, tracepoints):
    arguments = record_arguments(tool, ["-a", "--", "true"], events=["cycles"], options=["-g"])
    assert arguments == [*RECORDINGS[tool].options.split(), "-g", "-e", "cycles", "-a", "--", "true"]


@pytest.mark.parametrize("line", ["kmem record -h freq", "kmem record --page -h freq", "kmem --page record -h freq"])
def test_a_forwarding_action_shows_the_options_about_a_word(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(line.split()) == 129
    text = capsys.readouterr().out
    assert text.startswith("Usage: perfpy kmem record ")
    assert "--freq" in text
    assert "--slab" not in text


@pytest.mark.parametrize(("line", "status"), [("kmem record -h", 129), ("kmem record --page --help", 0)])
def test_a_forwarding_action_shows_the_options_of_both_commands(line: str, status: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(line.split()) == status
    text = capsys.readouterr().out
    assert "--freq" in text
    assert "--slab" in text
