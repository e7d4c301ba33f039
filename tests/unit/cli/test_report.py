"""`perfpy report`: its options, one recording, exports, and many recordings."""

from __future__ import annotations

import json
import lzma
import pickle
import re
import sys
import time
from typing import TYPE_CHECKING

import pytest

from perfpy.abi.flags import SampleType
from perfpy.abi.perf_records import EVENT_UPDATE_UNIT, EventUpdate
from perfpy.analysis.report.options import EventGroups
from perfpy.cli import run
from perfpy.cli.commands import load_command
from perfpy.cli.line.perfconfig import Config
from perfpy.cli.report.command import command
from perfpy.cli.report.many import ManyRecordingOptions
from perfpy.cli.report.options import ReportCommandOptions
from perfpy.cli.report.run import call_graph
from perfpy.perfdata.events import FileEvent
from perfpy.perfdata.header import EventDesc, EventGroup, Feature
from perfpy.recording import Recording
from tests.builders.annotated import recording as annotated_recording
from tests.builders.annotated import spin_with_lines
from tests.builders.long_names import OWNER, SORT, recording_with_long_names
from tests.builders.own_corpus import RECORDINGS
from tests.builders.perfdata import USUAL, PerfDataBuilder, simple_recording, usual_attr
from tests.builders.terminals import on_terminal
from tests.builders.tracepoint_events import EventRecording

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


# Errors of `perfpy report`'s command line before a recording is read.


def read(*args: str) -> ReportCommandOptions:
    return ReportCommandOptions.read(command.parser(args))


def test_an_export_goes_to_the_file_that_is_named_or_to_its_own():
    assert read("--html", "--folded", "--pprof=p.gz").exports == {"flamegraph": "flamegraph.html", "folded": "-", "pprof": "p.gz"}
    assert read("--json").exports == {}


@pytest.mark.parametrize("option", ["--stdio", "--header", "-H", "-t,", "-w10", "-T", "-vv", "-q"])
def test_options_of_the_plain_text_choose_it(option: str):
    assert read(option).needs_plain
    assert not read("-n", "--no-quiet").needs_plain
    assert not read("-v").needs_plain, "more details of the screen"


def test_a_part_of_a_symbols_name_is_an_option_or_a_word():
    assert [read(*args).symbol_part for args in (["main"], ["--symbol-filter", "main"], [])] == ["main", "main", None]
    assert read("--symbol-filter", "main", "other").symbol_part == "main"


@pytest.mark.parametrize(
    ("line", "percent"),
    [
        ("-g graph,7 --percent-limit 3", 3),
        ("--percent-limit 3 -g graph,7", 7),
        ("--percent-limit 3 -g graph", 3),
        ("--percent-limit 3 -g graph,7 --no-percent-limit", 7),
        ("-g graph", 0.5),
    ],
)
def test_of_two_limits_of_callers_the_last_one_counts(line: str, percent: float):
    assert call_graph(read(*line.split()), children=False, config=Config()).percent == percent


def test_numbers_of_a_call_graph_are_a_percentage_then_a_number_of_callers():
    graph = call_graph(read("-g", "caller,1.5,4.9,addr,none,9"), children=False, config=Config())
    assert (graph.percent, graph.limit, graph.order, graph.key, graph.style) == (1.5, 4, "caller", "address", "none")


def test_a_word_selects_stacks_by_function(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]):
    (tmp_path / "perf.data").write_bytes(simple_recording(3).file())
    printed = []
    for line in ([], ["--symbol-filter", "nowhere"], ["nowhere"]):
        assert command.run("report", ["-i", str(tmp_path / "perf.data"), "--folded", "--symfs", "/nonexistent", *line]) == 0
        printed.append(capfdbinary.readouterr().out)
    assert printed[0]
    assert printed[1:] == [b"", b""]


@pytest.mark.parametrize("form", ["--stdio", "--json", "--folded", "--speedscope=-"])
def test_programs_read_names_whole(form: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]):
    path = recording_with_long_names(tmp_path)
    assert command.run("report", [form, "-i", str(path), "--symfs", str(tmp_path)]) == 0
    printed = capfdbinary.readouterr().out.decode()
    assert SORT[1] in printed
    assert OWNER[1] in printed
    assert "…" not in printed


# A dump (-D) beside the options for the header, counts and tasks.


def text_of(options: str, path: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> bytes:
    assert command.run("report", [*options.split(), "--stdio", "-i", str(path), "--symfs", "/nonexistent"]) == 0
    return capfdbinary.readouterr().out


def test_a_dump_follows_the_header_and_precedes_the_tasks(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]):
    path = tmp_path / "perf.data"
    path.write_bytes(simple_recording(2).feature(Feature.HOSTNAME, "vm").file())
    dump, header, tasks = (text_of(options, path, capfdbinary) for options in ("-D", "--header-only", "--tasks"))
    hint, records = dump.split(b"\n#\n", 1)
    assert hint.startswith(b"# To display")
    assert text_of("-D -q", path, capfdbinary) == text_of("-D --stats", path, capfdbinary) == records
    assert text_of("-D --header", path, capfdbinary) == header + records
    assert text_of("-D --header-only", path, capfdbinary) == header
    alone = records[: records.index(b"\nAggregated stats")]
    assert text_of("-D --tasks", path, capfdbinary) == alone + tasks


_WARNING = b"WARNING: No sample_id_all support, falling back to unordered processing\n"


@pytest.mark.parametrize("name", ["report", "script"])
def test_the_warning_of_a_dump_precedes_the_header(name: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]):
    path = tmp_path / "perf.data"
    path.write_bytes(simple_recording(1, attrs=[usual_attr(sample_id_all=0)]).feature(Feature.HOSTNAME, "vm").file())
    printed = {}
    for options in ("-D", "-D --header", "-D --header-only", "--header-only"):
        assert load_command(name).run(name, [*options.split(), "-i", str(path), "--symfs", "/nonexistent"]) == 0
        printed[options] = capfdbinary.readouterr().out
    assert printed["-D --header"].startswith(_WARNING + b"# ====")
    assert [text.count(_WARNING) for text in printed.values()] == [1, 1, 1, 0]
    assert printed["-D --header-only"] == _WARNING + printed["--header-only"]


@pytest.mark.parametrize("name", ["report", "script"])
@pytest.mark.parametrize("options", ["-D -I", "-D --header"])
def test_the_features_of_a_pipe_stand_at_their_records_in_a_dump(
    name: str, options: str, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
):
    path = tmp_path / "perf.data"
    path.write_bytes(simple_recording(1).feature(Feature.HOSTNAME, "vm").pipe())
    assert load_command(name).run(name, [*options.split(), "-i", str(path), "--symfs", "/nonexistent"]) == 0
    printed = capfdbinary.readouterr().out
    assert b"PERF_RECORD_FEATURE# hostname : vm\n\n" in printed
    assert printed.count(b"# hostname") == 1


def test_annotate_handles_no_updates_of_events_in_a_dump(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]):
    path = tmp_path / "perf.data"
    path.write_bytes(simple_recording(1).record(EventUpdate(0, EVENT_UPDATE_UNIT, 1, "Joules")).file())
    for name, text in (("annotate", b"... unit:  Joules\n: unhandled!\n"), ("report", b"... unit:  Joules\n\n")):
        assert load_command(name).run(name, ["-D", "-i", str(path), "--symfs", "/nonexistent"]) == 0
        assert text in capfdbinary.readouterr().out


def test_quiet_hides_the_header(tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]):
    path = tmp_path / "perf.data"
    path.write_bytes(simple_recording(2).feature(Feature.HOSTNAME, "vm").file())
    rows = text_of("-q", path, capfdbinary)
    assert b"7:" in rows or b"busy" in rows
    assert text_of("-q --header", path, capfdbinary) == text_of("-q --header-only", path, capfdbinary) == rows


# Configured defaults of callchains in reports.


THRESHOLD, ROWS = {"call-graph.threshold": "10"}, {"report.percent-limit": "2"}


@pytest.mark.parametrize(
    ("config", "limit"),
    [
        ({}, 0.5),
        (THRESHOLD, 10),
        (ROWS, 2),
        (THRESHOLD | ROWS, 2),
    ],
)
def test_the_configured_limit_of_rows_is_that_of_callers_too(config, limit):
    assert call_graph(ReportCommandOptions(call_graph="graph"), children=False, config=Config(config)).percent == limit


def test_counts_of_branches_leave_the_rest_as_it_is():
    """Chains have none: they are not made of branch records."""
    argument_lists = [
        call_graph(ReportCommandOptions(call_graph=text), children=False, config=Config())
        for text in ("graph,srcline,branch", "graph,srcline")
    ]
    assert argument_lists[0] == argument_lists[1]


# `perfpy report` on a terminal of some size; the message for a missing requirement of `--tui`.


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
        ["--pretty", "raw"],
    ],
)
def test_options_of_perfs_browser_change_no_text(samples: list[str], options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    command = [word for word in samples if word != "--tui"]
    assert run(command) == 0
    plain = _without_tip(capsys.readouterr().out)
    assert run([*command, *options]) == 0
    assert _without_tip(capsys.readouterr().out) == plain


@pytest.mark.parametrize("options", [["--percent-type", "hits"], ["--samples", "x"], ["--addr2line-style", "x"], ["--unwind-style", "x"]])
def test_their_values_are_read(samples: list[str], options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*samples, *options]) == 129
    assert options[0] in capsys.readouterr().err


# `perfpy report --folded`, `--event`: stacks of one event at a time, because folded lines have no units.


@pytest.fixture
def two_events(tmp_path: Path) -> list[str]:
    """A recording of cpu-clock and, with periods twice as large, task-clock; options that read it without files."""
    (tmp_path / "perf.data").write_bytes(annotated_recording(2))
    return ["report", "-q", "--symfs", str(tmp_path), "-i", str(tmp_path / "perf.data")]


def total(text: str) -> int:
    return sum(int(line.rsplit(" ", 1)[1]) for line in text.splitlines())


def test_folded_lines_of_several_events_are_not_added_up(two_events: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*two_events, "--folded"]) == 0
    assert total(capsys.readouterr().out) == 13 * 1000


def test_the_others_have_a_file_each(two_events: list[str], tmp_path: Path) -> None:
    assert run([*two_events, f"--folded={tmp_path}/stacks.txt"]) == 0
    assert total((tmp_path / "stacks.txt").read_text()) == 13 * 1000
    assert total((tmp_path / "stacks-task-clock:u.txt").read_text()) == 13 * 2000
    assert sorted(file.name for file in tmp_path.glob("stacks*")) == ["stacks-task-clock:u.txt", "stacks.txt"]


def test_one_event_can_be_chosen(two_events: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*two_events, "--event", "task-clock", "--folded"]) == 0
    assert total(capsys.readouterr().out) == 13 * 2000
    assert run([*two_events, "--event", "task-clock", "--json"]) == 0
    events = json.loads(capsys.readouterr().out)["events"]
    assert [event["name"] for table in events if table["rows"] for event in table["events"]] == ["task-clock:u"]


def test_an_event_that_was_not_recorded_is_reported(two_events: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*two_events, "--event", "cycles", "--folded"]) == 129
    assert "no event 'cycles' in the recording; its events: cpu-clock:u, task-clock:u" in capsys.readouterr().err


def test_speedscope_has_the_lines_where_functions_begin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spin_with_lines(tmp_path)
    assert run(["report", "-q", "--symfs", str(tmp_path), "-i", str(tmp_path / "perf.data"), "--speedscope=-"]) == 0
    frames = json.loads(capsys.readouterr().out)["shared"]["frames"]
    assert {"name": "spin", "file": f"{tmp_path}/a.c", "line": 2} in frames
    assert {"name": "helper", "file": f"{tmp_path}/b.h"} in frames


# `perfpy report` over several recordings.


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


@pytest.mark.parametrize(
    ("keys", "rows"),
    [
        ("prio", ["50.00% 100.00% 7", "50.00% 0.00% 8"]),  # both events have the field
        ("sched_waking.prio", ["50.00% 0.00% 8", "50.00% 0.00% 7", "0.00% 100.00%"]),  # only the leader's is meant
        ("call_site", ["100.00% 100.00%"]),  # only a member has the field, and its columns are not shown
        ("target_cpu", ["100.00% 0.00% 3", "0.00% 100.00%"]),  # the member lacks the field
        ("common_pid,target_cpu", ["100.00% 0.00% 100 3", "0.00% 100.00% 100"]),
    ],
)
def test_members_of_a_group_are_in_the_rows_of_the_same_values_of_a_field(
    keys: str, rows: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    member, values = ("sched:sched_wakeup", (b"a", 1, 7, 3)) if "prio" in keys else ("kmem:kfree", (5, 6))
    built = EventRecording(["sched:sched_waking", member]).grouped()
    for priority in (7, 8):
        built.event("sched:sched_waking", 10 + priority, b"a", 1, priority, 3)
    built.event(member, 30, *values)
    (tmp_path / "perf.data").write_bytes(built.file())
    assert run(["report", "--stdio", "-s", keys, "-i", str(tmp_path / "perf.data")]) == 0
    shown = [line for line in capsys.readouterr().out.splitlines() if line and not line.startswith("#")]
    assert [" ".join(line.split()) for line in shown] == rows


@pytest.mark.parametrize(
    ("leader", "words", "titles"),
    [
        ("mem-loads-aux", [], ["mem-loads-aux", "loads", "stores", "anon group { cycles, mem-loads-aux }"]),
        ("cpu_core/mem-loads-aux/", [], ["cpu_core/mem-loads-aux/", "loads", "stores", "anon group { cycles, mem-loads-aux }"]),
        ("mem-loads-aux", ["--group"], ["mem-loads-aux", "loads", "stores", "anon group { cycles, mem-loads-aux }"]),
        ("other", [], ["anon group { other, loads, stores }", "anon group { cycles, mem-loads-aux }"]),
    ],
)
def test_a_group_that_mem_loads_aux_leads_comes_apart(
    leader: str, words: list[str], titles: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """perf shows other groups as one table, also if mem-loads-aux is a member but does not lead."""
    names = (leader, "loads", "stores", "cycles", "mem-loads-aux")
    built = PerfDataBuilder([usual_attr(USUAL | SampleType.IDENTIFIER) for _ in names], [(number,) for number in range(1, 6)])
    built.feature(Feature.EVENT_DESC, [EventDesc(attr, name, ids) for attr, name, ids in zip(built.attrs, names, built.ids, strict=True)])
    built.feature(Feature.GROUP_DESC, [EventGroup("{anon_group}", 0, 3), EventGroup("{anon_group}", 3, 2)])
    for event in range(len(names)):
        built.sample(event, ip=0x1000, pid=1, tid=1, time=10 + event, period=1, misc=2)
    (tmp_path / "perf.data").write_bytes(built.file())
    assert run(["report", "--stdio", "-s", "pid", *words, "-i", str(tmp_path / "perf.data")]) == 0
    shown = [line for line in capsys.readouterr().out.splitlines() if line.startswith("# Samples:")]
    assert [re.sub(".* of events? '(.*)'$", r"\1", line) for line in shown] == titles


@pytest.mark.parametrize("command_name", ["report", "diff"])
def test_an_empty_separator_is_none(command_name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "perf.data").write_bytes(simple_recording().file())
    texts = []
    for words in ([], ["-t", ""]):
        files = ["-i", str(tmp_path / "perf.data")] if command_name == "report" else [str(tmp_path / "perf.data")] * 2
        assert run([command_name, "-q", "--stdio", *words, *files]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] != ""


def test_annotate_keeps_a_group_that_mem_loads_aux_leads() -> None:
    """As perf's annotate does, unlike its report."""
    events = [FileEvent(usual_attr(USUAL), (number,), name, number) for number, name in enumerate(("mem-loads-aux", "loads"))]
    groups = [EventGroup("{anon_group}", 0, 2)]
    assert EventGroups.of(events, groups, None).leader == (0, 1)
    assert EventGroups.of(events, groups, None, splits_memory_loads=False).leader == (0, 0)
