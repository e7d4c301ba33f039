"""Options of a comparison of recordings."""

from __future__ import annotations

import json
import pickle
from types import SimpleNamespace
from typing import Any, cast

import pytest

from perfpy.cli import run
from perfpy.cli.diff import DiffCommandOptions, DiffRun, GroupRecordingOptions
from perfpy.recording import Recording
from tests.builders.hosts import group, host_recording

IMAGE = "/root/.debug/jit/x/jitted-0-1.so"


def folds(monkeypatch: pytest.MonkeyPatch, *files: list[str], option: bool | None = None, is_screen: bool = True) -> list[bool | None]:
    """Return for each recording whether its interpreters are folded; files: stored in each."""
    monkeypatch.setattr("perfpy.cli.diff.wants_plain", lambda **_: not is_screen)
    recordings = [cast("Any", SimpleNamespace(data=SimpleNamespace(kept_files=kept, features={}), header={}, events=[])) for kept in files]
    options = DiffCommandOptions(fold_interpreters=option)
    run = DiffRun(recordings, ["a", "b"], options)
    return [run._symbols(recording).fold_interpreters for recording in recordings]


def test_screens_of_python_recordings_have_python_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    assert folds(monkeypatch, [IMAGE], [IMAGE]) == [True, True]
    assert folds(monkeypatch, [IMAGE], [IMAGE], option=False) == [False, False]


def test_both_recordings_are_folded_or_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert folds(monkeypatch, [IMAGE], []) == [False, False]
    assert folds(monkeypatch, [IMAGE], [], option=True) == [True, True]


def test_plain_text_is_that_of_perf(monkeypatch: pytest.MonkeyPatch) -> None:
    assert folds(monkeypatch, [IMAGE], [IMAGE], is_screen=False) == [False, False]


# perfpy diff of two groups: patterns and folders are groups, changes beyond the spread of hosts are marked, limits hold.


PARTS = (40, 44, 38, 41, 43, 39)


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Six hosts before and after, where the threads "c" cost more after."""
    monkeypatch.chdir(tmp_path)
    for name, part in (("before", 20), ("after", 35)):
        group(tmp_path / name, {f"host{number}": {"a": a, "b": 80 - a, "c": part} for number, a in enumerate(PARTS)})
    return tmp_path


def said(capsys, *line, status=0):
    assert run(["diff", *line]) == status
    return capsys.readouterr()


TABLE = """\
# Event 'cpu-clock:u'
#
# Before: 6 hosts, 6 recordings, 600 samples
# After: 6 hosts, 6 recordings, 690 samples
# 6 hosts are in both groups: compared with themselves
# Each second: 2.45 +/- 0.0876 before, 2.82 +/- 0.101 after, +15.00% (from +14.44% to +15.56%), chance 3.12% *
# +/-: standard deviation between hosts. From, To: hold the true change of 95 in 100 rows
# Chance: probability that unchanged hosts differ as much in any row (permutation test). *: less than 5%
#
# Before    +/-    After    +/-    Change     From       To     Chance   Up Down  Command
#....... ...... ........ ...... ......... ........ ........ .......... .... ....  .......
#
  20.00%   0.00   30.43%   0.00   +10.43%"""


@pytest.mark.parametrize("line", [["before", "after"], ["before/*.data", "after/*.data"], ["--before", "before", "--after", "after/*"]])
def test_patterns_and_folders_are_groups(folders, capsys, line):
    text = said(capsys, *line, "-s", "comm").out
    assert text.startswith(TABLE)
    marked = [line.split()[-1] for line in text.splitlines() if "% *" in line and not line.startswith("#")]
    assert marked[0] == "c"


def test_single_recordings_are_compared_as_before(folders, capsys):
    text = said(capsys, "before/host0.data", "after/host0.data", "-s", "comm").out
    assert "Baseline" in text
    assert "hosts" not in text


def test_noise_matches_files_and_commands_of_other_names(tmp_path, capsys):
    """Two builds of a program are one program for --noise; perf's own text keeps their names apart."""
    paths = [host_recording(tmp_path / f"{name}.data", "h", {name: count}) for name, count in (("prog-1.0", 40), ("prog-1.1", 60))]
    assert len(said(capsys, "-q", "-t,", "-s", "comm", *paths).out.splitlines()) == 2
    (row,) = said(capsys, "-q", "-t,", "-s", "comm", "--noise", *paths).out.splitlines()
    assert row.startswith("100.00  ,")
    assert "*" not in row
    separate = said(capsys, "-q", "-t,", "-s", "comm", "--noise", "--no-ignore-comm", *paths).out.splitlines()
    assert len(separate) == 2


@pytest.mark.parametrize("line", [["--stdio"], ["--fail-above", "5"], ["--json=changes.json"]])
def test_single_recordings_are_read_by_jobs(folders, capsys, monkeypatch, line):
    asked: list[int] = []

    def jobs_for(requested: int, _size: int, _each: int) -> int:
        asked.append(requested)
        return 1

    monkeypatch.setattr("perfpy.analysis.aggregate.scan.jobs_for", jobs_for)
    run(["diff", *line, "before/host0.data", "after/host0.data", "--jobs", "3"])
    assert asked
    assert {*asked} == {3}
    asked.clear()
    run(["diff", *line, "before/host0.data", "after/host0.data"])
    assert {*asked} == {0}, "by default, all CPUs"


def test_a_group_may_have_several_names(folders, capsys):
    text = said(capsys, "--before", "before/host0.data", "--before", "before/host1.data", "--after", "after", "-s", "comm").out
    assert "# Before: 2 hosts, 2 recordings" in text


def test_symbol_options_of_the_caller_are_used(folders, monkeypatch):
    """Recordings may be read in a process that has other settings, or none."""
    monkeypatch.setenv("DEBUGINFOD_URLS", "http://127.0.0.1:1")
    monkeypatch.setenv("PERF_BUILDID_DIR", str(folders / "cache"))
    sent = pickle.dumps(GroupRecordingOptions(DiffCommandOptions()))
    for ask in (GroupRecordingOptions.row_options, GroupRecordingOptions.stack_options):
        monkeypatch.delenv("DEBUGINFOD_URLS", raising=False)
        monkeypatch.delenv("PERF_BUILDID_DIR", raising=False)
        with Recording("before/host0.data") as recording:
            options = ask(pickle.loads(sent), recording)[1]
        assert options.debuginfod
        assert options.buildid_dir == str(folders / "cache")


def test_columns_with_a_separator(folders, capsys):
    lines = said(capsys, "before", "after", "-s", "comm", "-q", "-t", ",").out.splitlines()
    assert lines[0] == "# Before,+/-,After,+/-,Change,From,To,Chance,Up,Down,Command"
    assert lines[1].startswith("20.00%,0.00,30.43%,0.00,+10.43%,")
    assert {len(line.split(",")) for line in lines} == {11}


@pytest.mark.parametrize(("limit", "status"), [("5%", 90), ("20%", 0)])
def test_a_limit_is_exceeded_by_points_of_the_share(folders, capsys, limit, status):
    errors = said(capsys, "before", "after", "-s", "comm", "--fail-above", limit, status=status).err
    assert ("c: 20.00% before, 30.43% after, +10.43 points" in errors) == (status == 90)


def test_a_limit_needs_hosts_to_hold_it_against(folders, capsys):
    errors = said(capsys, "before/host0.dat?", "after", "--fail-above", "1%", status=255).err
    assert "requires two recordings in each group" in errors


def test_json(folders, capsys):
    document = json.loads(said(capsys, "before", "after", "-s", "comm", "--json").out)
    assert (document["format"], document["version"], document["unit"], document["failed"]) == ("perfpy-group-diff", 1, "host", [])
    (event,) = document["events"]
    assert (event["name"], event["test"], event["in_both"], event["sort"]) == ("cpu-clock:u", "permutation", 6, ["comm"])
    assert [one["samples"] for one in event["groups"]] == [600, 690]
    assert event["rate"]["significant"]
    assert event["rate"]["groups"][1]["mean"] == pytest.approx(1.15 * event["rate"]["groups"][0]["mean"])
    row = event["rows"][0]
    assert row["keys"] == {"comm": "c"}
    assert [one["overhead"] for one in row["groups"]] == [pytest.approx(20), pytest.approx(3500 / 115)]
    assert row["interval"][0] < row["change"] < row["interval"][1]
    assert row["significant"]
    assert (row["rose"], row["fell"]) == (6, 0)
    assert row["units"][0] == [pytest.approx(20)] * 6


def test_a_page(folders, capsys):
    said(capsys, "before", "after", "--html", "page.html")
    page = (folders / "page.html").read_text()
    assert "6 hosts, 6 recordings, 600 samples" in page
    assert "changed beyond the spread of hosts" in page


def test_unreadable_recordings_are_omitted_and_named(folders, capsys):
    (folders / "after" / "bad.data").write_bytes(b"PERFILE2 and then nothing")
    result = said(capsys, "before", "after", "-s", "comm", status=91)
    assert result.out.startswith(TABLE)
    assert "after/bad.data: skipped" in result.err
    document = json.loads(said(capsys, "before", "after", "-s", "comm", "--json", "-q", status=91).out)
    assert [one["file"] for one in document["failed"]] == ["after/bad.data"]


@pytest.mark.parametrize(("percentage", "share"), [("absolute", 20.0), ("relative", 100 * 120 / 365)])
def test_percentages_are_of_all_or_of_filtered_samples(folders, capsys, percentage, share):
    document = json.loads(said(capsys, "before", "after", "-s", "comm", "--comms", "a,c", "--percentage", percentage, "--json").out)
    rows = {row["keys"]["comm"]: row["groups"][0]["overhead"] for row in document["events"][0]["rows"]}
    assert rows.keys() == {"a", "c"}
    assert rows["c"] == pytest.approx(share, rel=0.01)


def test_a_program_s_name_forges_no_line(tmp_path, capsys):
    for name in ("before", "after"):
        for number in range(2):
            host_recording(tmp_path / name / f"{number}.data", f"h{number}", {"evil\nrow\x1b[2J": 5 + number, "b": 5})
    out = said(capsys, str(tmp_path / "before"), str(tmp_path / "after"), "-s", "comm").out
    assert "evil^Jrow^[[2J" in out


@pytest.mark.parametrize(
    ("line", "word"),
    [
        (["before", "after", "before"], "two groups"),
        (["--before", "before"], "require each other"),
        (["--before", "before/host0.data", "before/host1.data", "--after", "after"], "quote patterns"),
        (["before", "after", "-c", "ratio", "-p"], "--compute, --period: not available for groups of recordings"),
        (["before", "after", "--time", "0,1:2,3"], "--time with colons"),
    ],
)
def test_options_refused_for_groups(folders, capsys, line, word):
    assert word in said(capsys, *line, status=129).err


def test_filters_that_leave_nothing_are_reported(folders, capsys):
    assert "no event has samples in both groups" in said(capsys, "before", "after", "--comms", "none", status=255).err


def test_recordings_of_both_groups_are_refused(folders, capsys):
    assert "in both groups" in said(capsys, "before", "before/*", status=129).err
