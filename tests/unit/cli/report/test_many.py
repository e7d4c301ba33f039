"""`perfpy report` over several recordings."""

from __future__ import annotations

import json
import lzma
import pickle
import re
import time

import pytest

from perfpy.cli import run
from perfpy.cli.report.many import ManyRecordingOptions
from perfpy.cli.report.options import ReportCommandOptions
from perfpy.recording import Recording
from tests.builders.own_corpus import RECORDINGS


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Two recordings and a file that is no recording, in the current folder."""
    for name in ("chains", "lost"):
        (tmp_path / f"{name}.data").write_bytes(lzma.decompress((RECORDINGS / f"{name}.data.xz").read_bytes()))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def report(capsys, *args):
    status = run(["report", *args])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


@pytest.mark.parametrize("inputs", [["-i", "chains.data", "-i", "lost.data"], ["-i", "*.data"], ["-i", "."]], ids=" ".join)
def test_several_are_one_report(folder, inputs, capsys):
    status, out, err = report(capsys, *inputs, "--json", "--sort", "recording")
    first = json.loads(out)["events"][0]
    assert (status, err) == (0, "")
    assert {row["keys"]["recording"].removeprefix("./") for row in first["rows"]} <= {"chains.data", "lost.data"}
    assert first["events"][0]["name"] == "task-clock"


def test_an_unreadable_recording_is_named_and_changes_the_status(folder, capsys):
    status, out, err = report(capsys, "-i", "chains.data", "-i", "missing.data", "--sort", "comm", "-g", "none")
    assert status == 91
    assert "work" in out
    assert err.splitlines()[0].startswith("Warning: missing.data: skipped: cannot open")


def test_the_text_is_that_of_one_where_there_is_one(folder, capsys):
    def tables(*inputs):
        return [line for line in report(capsys, *inputs, "--no-children", "-g", "caller")[1].splitlines() if "# (Tip" not in line]

    assert tables("-i", "chain*.data") == tables("-i", "chains.data")


def test_stacks_of_several(folder, capsys):
    status, out, _ = report(capsys, "-i", "*.data", "--folded")
    assert status == 0
    assert out.startswith("work;")
    assert report(capsys, "-i", "*.data", "--html", "page.html")[0] == 0
    assert (folder / "page.html").read_text().startswith("<!")


def test_options_for_one_recording_are_refused(folder, capsys):
    status, _, err = report(capsys, "-i", "*.data", "-D", "--firefox", "--no-group")
    assert status == 129
    assert "--dump-raw-trace, --firefox: for single recordings only" in err


def unpacked(folder, *names):
    for name in names:
        (folder / f"{name}.data").write_bytes(lzma.decompress((RECORDINGS / f"{name}.data.xz").read_bytes()))


def columns(out):
    """The texts of a table's rows without the percentage, and that."""
    rows = [line.split(None, 1) for line in out.splitlines() if line and not line.startswith("#")]
    return {" ".join(rest).strip(): percent for percent, *rest in rows}


@pytest.mark.parametrize("option", ["--pprof", "--speedscope"])
def test_other_formats_of_several(folder, capsys, option):
    """Of one recording with itself they have the stacks that it has alone."""
    assert report(capsys, "-i", "*.data", option, "of-all")[0] == 0
    assert (folder / "of-all").stat().st_size > 200
    (folder / "lost.data").write_bytes((folder / "chains.data").read_bytes())
    assert report(capsys, "-i", "*.data", "--folded", "both")[0] == report(capsys, "-i", "chains.data", "--folded", "one")[0] == 0
    both, one = ({tuple(line.rsplit(" ", 1)) for line in (folder / name).read_text().splitlines()} for name in ("both", "one"))
    assert both == {(stack, str(2 * int(weight))) for stack, weight in one}


def test_a_time_line_is_of_one(folder, capsys):
    status, _, err = report(capsys, "-i", "*.data", "--firefox")
    assert status == 129
    assert "--firefox" in err


def test_exports_have_no_rows_of_several_either(folder, capsys):
    status, _, err = report(capsys, "-i", "*.data", "--folded", "--sort", "host")
    assert status == 129
    assert "--sort" in err


def test_the_time_of_day(folder, capsys, monkeypatch):
    unpacked(folder, "clock-monotonic", "clock-boot")
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    status, out, err = report(capsys, "-i", "clock*.data", "--sort", "date,tod")
    assert (status, err) == (0, "")
    (row,) = columns(out)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d +\d\d:00", row)
    assert all(
        re.fullmatch(r"\d\d:\d\d:\d\d\.\d\d", row)
        for row in columns(report(capsys, "-i", "clock*.data", "-s", "tod", "--time-quantum", "10ms")[1])
    )
    monkeypatch.setenv("TZ", "XST-5:30")
    time.tzset()
    (there,) = columns(report(capsys, "-i", "clock*.data", "--sort", "tod")[1])
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    assert re.fullmatch(r"\d\d:00", there)
    assert there[:2] in {f"{(int(row[-5:-3]) + hours) % 24:02d}" for hours in (5, 6)}


def test_recordings_without_wall_clock_times_are_reported_in_one_line(folder, capsys):
    status, out, err = report(capsys, "-i", "*.data", "--sort", "tod", "-g", "none", "--no-children")
    assert status == 0
    assert set(columns(out)) == {"[unknown]"}
    (line,) = [line for line in err.splitlines() if "time of day" in line]
    assert line.startswith("Warning: chains.data and 1 more: ")
    assert "-k CLOCK_MONOTONIC" in line


def test_an_event_that_only_some_have(folder, capsys):
    status, out, err = report(capsys, "-i", "*.data", "--event", "page-faults", "--sort", "recording", "-g", "none", "--no-children")
    assert status == 91
    assert set(columns(out)) == {"lost.data"}
    assert "chains.data: skipped: no event 'page-faults'" in err
    status, _, err = report(capsys, "-i", "*.data", "--event", "nothing")
    assert status == 129
    assert "no event 'nothing'" in err


def test_unknown_keys(folder, capsys):
    status, _, err = report(capsys, "-i", "*.data", "--sort", "nothing")
    assert status == 129
    assert "nothing" in err


def test_lines_of_source_of_several(folder, capsys):
    for sort in ("srcline", "srcfile", "sym,srcline"):
        status, out, _ = report(capsys, "-i", "*.data", "--sort", sort, "--no-children", "-g", "none")
        assert status == 0
        assert columns(out)


def test_shares_of_the_wall_clock_of_several(folder, capsys):
    unpacked(folder, "perf7-latency")
    alone, both = (columns(report(capsys, "-i", name, "--latency", "-s", "comm")[1]) for name in ("perf7-latency.data", "perf7*.data"))
    assert alone == both
    status, _, err = report(capsys, "-i", "*.data", "--latency", "-s", "comm")
    assert status == 91
    assert "chains.data: skipped: latency and parallelism need" in err


@pytest.mark.parametrize(("name", "option"), [("made-memory", "--mem-mode"), ("made-branches", "-b")])
def test_rows_of_memory_accesses_and_branches(folder, capsys, name, option):
    unpacked(folder, name)
    alone, many = (report(capsys, "-i", pattern, option)[1] for pattern in (f"{name}.data", f"{name}*.data"))
    assert columns(many) == columns(alone)
    assert columns(many)


def test_symbol_options_of_the_caller_are_used(folder, monkeypatch):
    """Symbol servers and the cache are used in a process that has other settings, or none."""
    monkeypatch.setenv("DEBUGINFOD_URLS", "http://127.0.0.1:1")
    monkeypatch.setenv("PERF_BUILDID_DIR", str(folder / "cache"))
    sent = pickle.dumps(ManyRecordingOptions(ReportCommandOptions(), plain=True))
    monkeypatch.delenv("DEBUGINFOD_URLS")
    monkeypatch.delenv("PERF_BUILDID_DIR")
    with Recording(str(folder / "chains.data")) as recording:
        options = pickle.loads(sent).row_options(recording)[1]
    assert options.debuginfod
    assert options.buildid_dir == str(folder / "cache")


def test_one_url_is_fetched(folder, capsys):
    _, from_url, _ = report(capsys, "-i", f"file://{folder}/chains.data", "--stdio")
    _, alone, _ = report(capsys, "-i", "chains.data", "--stdio")
    assert [line for line in from_url.split("\n") if "Tip" not in line] == [line for line in alone.split("\n") if "Tip" not in line]
    status, _, err = report(capsys, "-i", "https://127.0.0.1:1/x.data")
    assert status == 255
    assert "https://127.0.0.1:1/x.data: cannot fetch: Connection refused" in err
