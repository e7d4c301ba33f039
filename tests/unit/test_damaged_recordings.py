"""Damaged and extreme recordings: one clear error, or all that can be read."""

from __future__ import annotations

import io
import random
import resource
import time
from typing import TYPE_CHECKING

import pytest

from perfpy import cli
from perfpy.abi import records
from perfpy.abi.flags import ReadFormat, SampleType
from perfpy.errors import BadPerfDataError, UsageError
from perfpy.events.vendor import _number, entries_of
from perfpy.perfdata.header import PmuCaps
from perfpy.perfdata.reader import PerfData
from perfpy.probing.requests import fetch_operand
from perfpy.recording import Recording
from perfpy.symbols.dso import perf_map_pid
from perfpy.untrusted.files import split_process
from perfpy.views.dump.recording import write_dump
from perfpy.views.report.text import thread_count_lines
from perfpy.views.script.field_text import branch_counter_size
from tests.builders.damage import damaged, recordings
from tests.builders.perfdata import USUAL, PerfDataBuilder, simple_recording, usual_attr

if TYPE_CHECKING:
    from pathlib import Path


# Damaged recordings through the commands: read as far as they go, or refused in one line; never an error of our own.


RECORDINGS = recordings()
VARIANTS = 8  # of each recording; the reader alone is tried on many more
LONGEST = 5.0  # seconds of CPU time for one command
COMMANDS = [
    ["script", "--show-task-events", "--show-mmap-events", "--show-switch-events", "--show-lost-events", "--show-bpf-events"],
    ["report", "--stdio"],
    ["report", "--stdio", "-T"],
    ["report", "-D"],
    ["report", "--header-only", "-I"],
    ["evlist", "-v"],
]


@pytest.mark.parametrize("name", RECORDINGS)
@pytest.mark.slow
def test_a_damaged_recording_gives_text_or_one_line(name, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PERF_CONFIG", "/dev/null")
    rng = random.Random(f"commands {name}")
    for number in range(VARIANTS):
        (tmp_path / "perf.data").write_bytes(damaged(RECORDINGS[name], rng))
        for command in COMMANDS:
            start = time.process_time()
            status = cli.run([*command, "-i", "perf.data", *([] if command[0] == "evlist" or "-D" in command else ["--symfs", "."])])
            assert time.process_time() - start < LONGEST, (number, command)
            errors = capfd.readouterr().err
            assert "internal error" not in errors, (number, command)
            assert "Traceback" not in errors
            assert status in (0, 255), (number, command, errors)


# READ records that are too short for what their event reads: left out, and shown as bytes.


ONE = ReadFormat.TOTAL_TIME_ENABLED | ReadFormat.ID


def recording(path: Path, read_format: int, values: bytes) -> Recording:
    built = PerfDataBuilder(attrs=[usual_attr(read_format=read_format, sample_id_all=0)], ids=[(1,)])
    path.write_bytes(built.record(records.Read(0, 7, 8, values)).sample(time=5, period=1).file())
    return Recording(str(path))


def whole(value: int) -> bytes:
    return b"".join(number.to_bytes(8, "little") for number in (value, 50, 1))


@pytest.mark.parametrize(
    ("read_format", "values"), [(ONE, whole(99)[:-8]), (ONE, b""), (ONE | ReadFormat.GROUP, bytes(8)), (ONE | ReadFormat.GROUP, b"")]
)
def test_a_short_reading_is_dumped_without_values(tmp_path: Path, read_format: int, values: bytes) -> None:
    out = io.BytesIO()
    with recording(tmp_path / "perf.data", read_format, values) as opened:
        write_dump(opened, out)
        assert [line.split() for line in thread_count_lines(opened)] == [["#", "PID", "TID"], ["7", "8"]]
    text = out.getvalue().decode()
    assert "PERF_RECORD_READ\n" in text
    assert "PERF_RECORD_SAMPLE" in text


def test_a_whole_reading_is_shown(tmp_path: Path) -> None:
    out = io.BytesIO()
    with recording(tmp_path / "perf.data", ONE, whole(99)) as opened:
        write_dump(opened, out)
        assert [line.split() for line in thread_count_lines(opened)] == [["#", "PID", "TID", "cpu-clock:u"], ["7", "8", "99"]]
    assert "PERF_RECORD_READ: 7 8 cpu-clock:u 99\n... time enabled : 50\n... id           : 1\n" in out.getvalue().decode()


# Cut and bit-flipped recordings: read as far as they go, or refused in one line; never another error, never out of bounds.


MUTATIONS = 110  # of each recording
LONGEST_RUN = 2.0  # seconds of CPU time for one variant


def read_all(path: Path) -> int:
    with PerfData(path) as data:
        samples = sum(len(batch) for batch in data.batches())
        for side in data.side_band():
            assert side.key >= 0
        return samples


def test_there_are_enough_variants() -> None:
    assert len(RECORDINGS) >= 20
    assert len(RECORDINGS) * MUTATIONS >= 2000
    assert all(len(data) < 20_000 for data in RECORDINGS.values())


@pytest.mark.parametrize("name", RECORDINGS)
@pytest.mark.slow
def test_a_damaged_recording_is_read_as_far_as_it_goes_or_refused(tmp_path: Path, name: str) -> None:
    path = tmp_path / "perf.data"
    rng = random.Random(name)
    whole = RECORDINGS[name]
    path.write_bytes(whole)
    limit = read_all(path) + 1
    assert limit > 12
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number in range(MUTATIONS):
        path.write_bytes(damaged(whole, rng))
        start, refusal = time.process_time(), ""
        try:
            read_all(path)
        except BadPerfDataError as error:
            refusal = str(error)
        assert "\n" not in refusal
        assert time.process_time() - start < LONGEST_RUN, number
    # kilobytes: a chunk of unpacked data is the largest thing that so small a file may ask for
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


# Values that nobody means, but that somebody types: an answer or one line, never an internal error.


HUGE = "9" * 20
LINES = [
    ("report", f"--time={HUGE},", 0),
    ("report", f"--call-graph={HUGE}", 0),
    ("report", f"--column-widths={HUGE}", 0),
    ("report", "--fields=,", 129),
    ("report", "--max-stack=-1", 129),
    ("report", "--sort=", 0),
    ("report", "--field-separator=.", 129),
    ("report", "--group-sort-idx=1", 129),
    ("report", f"--time={HUGE}", 129),
    ("report", f"--percent-limit={HUGE}", 0),
    ("script", f"--time={HUGE},", 0),
    ("script", "--max-stack=-1", 129),
    ("diff", f"--time={HUGE},", 0),
    ("diff", "--field-separator=.", 129),
]


@pytest.mark.parametrize(("command", "option", "status"), LINES)
def test_extreme_values(command, option, status, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PERF_CONFIG", "/dev/null")
    for name in ("perf.data", "perf.data.old"):
        (tmp_path / name).write_bytes(simple_recording(attrs=[usual_attr(USUAL | SampleType.CALLCHAIN)]).file())
    assert cli.run([command, option, "perf.data.old", "perf.data"] if command == "diff" else [command, option, "-i", "perf.data"]) == status
    assert "internal error" not in capsys.readouterr().err


# Numbers of thousands of digits in names and texts, which int() refuses to read, are no numbers to perfpy.


DIGITS = "9" * 5000
NAMES = [f"/tmp/perf-{DIGITS}.map", f"/proc/{DIGITS}/root/file", f"py::work:/app.py:{DIGITS}", f"jitted-{DIGITS}-1.so", f"//{DIGITS}"]


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
@pytest.mark.parametrize("line", ["report --stdio --sort dso,sym,srcline", "report --verdict", "script -F ip,sym,dso,srcline"])
def test_files_have_any_name(line: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    attr = usual_attr(SampleType.IP | SampleType.TID | SampleType.TIME | SampleType.PERIOD)
    built = PerfDataBuilder(attrs=[attr]).record(records.Mmap(2, 7, 7, 0x1000, 0x1000, 0, name))
    for number in range(20):
        built.sample(ip=0x1010, pid=7, tid=7, time=number, period=1, misc=2)
    path = tmp_path / "perf.data"
    path.write_bytes(built.file())
    assert cli.run([*line.split(), "-i", str(path)]) == 0
    assert "internal error" not in capsys.readouterr().err


def test_paths_name_no_process() -> None:
    assert perf_map_pid(f"/tmp/perf-{DIGITS}.map") is None
    assert split_process(f"/proc/{DIGITS}/root/file") is None
    assert perf_map_pid("/tmp/perf-4194304.map") == 4194304


@pytest.mark.parametrize("operand", [f"{DIGITS}@%rax", f"4@{DIGITS}(%rax)", f"4@[x0, {DIGITS}]"])
def test_operands_of_markers_are_none_that_the_kernel_reads(operand: str) -> None:
    assert fetch_operand(operand) == ""


@pytest.mark.parametrize("width", [DIGITS, "\u00b2", ""])
def test_widths_of_branch_counters_are_left_out(width: str) -> None:
    assert branch_counter_size({"cpu_pmu_caps": (("branch_counter_width", width),)}, "width") == 0
    assert branch_counter_size({"pmu_caps": (PmuCaps("cpu", (("branch_counter_width", "4"),)),)}, "width") == 4


def test_numbers_in_event_files_are_zero() -> None:
    assert [_number(text) for text in (DIGITS, "\u00b2", "010", "0x1F", "7,8")] == [0, 0, 10, 31, 7]


@pytest.mark.parametrize("text", [f"[{DIGITS}]", "[" * 100_000])
def test_event_files_with_numbers_or_nests_that_python_refuses_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="cannot read the event file"):
        entries_of(text.encode(), "events.json")
