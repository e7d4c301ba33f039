"""perfpy record on this machine: what its options do to the file."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import perfpy
from perfpy.abi.flags import RecordType
from perfpy.abi.records import LostSamples, Namespaces, Switch
from perfpy.perfdata.header import FileHeader
from perfpy.perfdata.reader import PerfData
from tests.builders.terminals import on_terminal

pytestmark = pytest.mark.live

CHECKOUT = Path(__file__).resolve().parents[2]
PERFPY = [sys.executable, "-m", "perfpy"]
BUSY = [sys.executable, "-S", "-c", "print(sum(i * i for i in range(2_000_000)))"]
ENDLESS = [sys.executable, "-S", "-c", "while True: pass"]
EVENT = ["-e", "task-clock:u"]


def command(*args: str) -> list[str]:
    return [*PERFPY, "record", "-N", *(() if "-o" in args else ("-o", "perf.data")), *args]  # stdout may be a pipe


def record(folder: Path, *args: str, program: list[str] = BUSY) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    line = command(*EVENT, *args, "--", *program)
    process = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert process.returncode == 0, process.stderr
    return process


@pytest.fixture
def busy():
    """The pid of a process that never rests."""
    process = subprocess.Popen(ENDLESS)
    yield process.pid
    process.kill()
    process.wait()


def samples(path: Path) -> int:
    with PerfData(str(path)) as data:
        return data.record_index.sample_counts.total()


def kinds(path: Path) -> list[type]:
    with PerfData(str(path)) as data:
        return [type(side.record) for side in data.side_band()]


def test_the_last_lines_are_perfs(tmp_path):
    errors = record(tmp_path).stderr.splitlines()
    count = samples(tmp_path / "perf.data")
    size = (tmp_path / "perf.data").stat().st_size
    assert errors[-2].startswith("[ perf record: Woken up ")
    assert errors[-2].endswith(" times to write data ]")
    assert re.fullmatch(rf"\[ perf record: Captured and wrote \d+\.\d\d\d MB perf\.data \({count} samples\) \]", errors[-1])
    assert float(errors[-1].split()[6]) * 1024 * 1024 < size


def test_quiet_prints_nothing(tmp_path):
    assert record(tmp_path, "-q").stderr == ""


def test_the_previous_recording_is_kept(tmp_path):
    (tmp_path / "perf.data").write_text("older")
    record(tmp_path)
    assert (tmp_path / "perf.data.old").read_text() == "older"


def test_a_pipe_holds_the_recording_and_the_programs_output_goes_to_stderr(tmp_path):
    process = subprocess.run(command(*EVENT, "-o", "-", "--", *BUSY), cwd=tmp_path, capture_output=True, timeout=300, check=True)
    assert b"2666664666667000000" in process.stderr
    (tmp_path / "piped").write_bytes(process.stdout)
    assert samples(tmp_path / "piped") > 10


def test_periods_give_exact_numbers_of_samples(tmp_path):
    record(tmp_path, "-c", "1000000", "-P")
    with perfpy.open(tmp_path / "perf.data") as recording:
        assert set(recording.samples["period"].tolist()) == {1_000_000}


def test_a_delay_leaves_the_beginning_out(tmp_path, busy):
    before = time.monotonic_ns()
    record(tmp_path, "-D", "1000", "-k", "CLOCK_MONOTONIC", "-p", str(busy), program=["sleep", "2"])
    with PerfData(str(tmp_path / "perf.data")) as data:
        assert data.record_index.first - before > 1_000_000_000  # without a delay there are samples before
        assert data.record_index.sample_counts.total() > 10


#: works until so many files of a pattern are there (or a minute is over), and a little longer
UNTIL_FILES = """
import glob, sys, time
late = time.monotonic() + 60
while len(glob.glob(sys.argv[1])) < int(sys.argv[2]) and time.monotonic() < late:
    pass
end = time.process_time() + 0.1
while time.process_time() < end:
    pass
"""


def test_a_process_is_recorded_until_it_ends(tmp_path):
    recording = str(tmp_path / "perf.data")
    with subprocess.Popen([sys.executable, "-S", "-c", UNTIL_FILES, recording, "1"]) as process:
        environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
        result = subprocess.run(command(*EVENT, "-p", str(process.pid)), cwd=tmp_path, env=environment, timeout=300, check=True)
    assert result.returncode == 0
    assert samples(tmp_path / "perf.data") > 10


@pytest.mark.parametrize("options", [["--per-thread"], ["-i"], ["--overwrite", "-m", "4"], ["--tail-synthesize"], ["--no-buffering"]])
def test_other_ways_to_collect(tmp_path, busy, options):
    record(tmp_path, *options, "-p", str(busy), program=["sleep", "0.5"])
    assert samples(tmp_path / "perf.data") > 10


def test_outputs_are_switched_by_time_and_only_the_last_are_kept(tmp_path):
    program = [sys.executable, "-S", "-c", UNTIL_FILES, "perf.data.2*", "2"]
    process = record(tmp_path, "--switch-output=1s", "--switch-max-files=2", program=program)
    assert process.stderr.count("[ perf record: Dump ") > 2
    whole, rest = sorted(tmp_path.glob("perf.data.2*"))
    assert samples(whole) > 10
    with PerfData(str(rest)) as data:  # how much of a second was left for it is chance; but it is complete
        assert data.features["hostname"]


@pytest.mark.system_wide
def test_an_event_begins_another_file_and_is_in_none(tmp_path):
    program = [sys.executable, "-S", "-c", UNTIL_FILES, "perf.data.2*", "3"]
    process = record(tmp_path, "--switch-output-event=page-faults", "--switch-max-files=3", program=program)
    assert process.stderr.count("[ perf record: Dump ") > 2
    files = sorted(tmp_path.glob("perf.data.2*"))
    assert len(files) == 3
    for file in files:
        with PerfData(str(file)) as data:
            assert [event.name for event in data.events] == ["task-clock:u"]
            assert data.features["hostname"]


def test_max_cpu_limits_the_cost_of_recording(tmp_path, busy):
    process = record(tmp_path, "-F", "max", "--max-cpu=0.01%", "-p", str(busy), program=["sleep", "2"])
    notes = re.findall(r"note: recording takes \S+% of a CPU, more than --max-cpu 0.0%; (.*)", process.stderr)
    assert notes[0].startswith("now sampling task-clock:u at "), process.stderr
    assert samples(tmp_path / "perf.data") > 10
    with PerfData(str(tmp_path / "perf.data")) as data:
        assert data.events[1].name == "dummy:u"  # who goes on to tell of mappings and names


def test_a_recording_stops_at_its_size(tmp_path, busy):
    args = command(*EVENT, "--max-size=64K", "-F", "20000", "-m", "4", "-p", str(busy))
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    process = subprocess.run(args, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=True)
    assert "perf size limit reached" in process.stderr
    assert 64 << 10 <= (tmp_path / "perf.data").stat().st_size < 256 << 10
    assert samples(tmp_path / "perf.data") > 100


def test_another_program_controls_the_recording(tmp_path, busy):
    control, answers = tmp_path / "control", tmp_path / "answers"
    os.mkfifo(control)
    os.mkfifo(answers)
    args = command(*EVENT, "--control", f"fifo:{control},{answers}", "-D", "-1", "-p", str(busy))
    with subprocess.Popen(args, cwd=tmp_path, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(CHECKOUT)}) as recorder:
        fd = os.open(control, os.O_RDWR)
        answer = os.open(answers, os.O_RDWR)
        for word, wait in (("enable", 0.5), ("disable", 0.0), ("stop", 0.0)):
            os.write(fd, f"{word}\n".encode())
            assert os.read(answer, 5) == b"ack\n\0"
            time.sleep(wait)
        assert recorder.wait(timeout=300) == 0
        assert recorder.stderr is not None
        errors = recorder.stderr.read().decode()
    assert errors.splitlines()[:3] == ["Events disabled", "Events enabled", "Events disabled"]
    assert samples(tmp_path / "perf.data") > 10


def test_sigterm_leaves_a_complete_file(tmp_path, busy):
    args = command(*EVENT, "-p", str(busy))
    with subprocess.Popen(args, cwd=tmp_path, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(CHECKOUT)}) as recorder:
        deadline = time.monotonic() + 60
        path = tmp_path / "perf.data"
        while time.monotonic() < deadline and not (path.exists() and path.stat().st_size > 1000):
            time.sleep(0.02)
        time.sleep(1)
        recorder.send_signal(signal.SIGTERM)
        assert recorder.wait(timeout=300) == 128 + signal.SIGTERM
    with PerfData(str(path)) as data:
        assert isinstance(data.header, FileHeader)
        assert data.header.data.size
        assert data.features["hostname"]
    assert samples(path) > 10


def test_lost_samples_are_counted_in_the_file_and_reported(tmp_path):
    process = record(tmp_path, "-m", "1", "-F", "20000", "--call-graph", "dwarf,32768", "-g")
    with PerfData(str(tmp_path / "perf.data")) as data:
        lost = sum(side.record.lost for side in data.side_band() if isinstance(side.record, LostSamples))
    assert lost > 0
    assert f"warning: {lost} samples were lost" in process.stderr


@pytest.mark.system_wide
def test_side_band_records_come_on_request(tmp_path):
    record(tmp_path, "--switch-events", "--namespaces", program=["sh", "-c", "sleep 0.01; true"])
    assert {Switch, Namespaces} <= set(kinds(tmp_path / "perf.data"))


def test_files_with_samples_have_build_ids(tmp_path):
    record(tmp_path, "-F", "5000")
    with PerfData(str(tmp_path / "perf.data")) as data:
        hit = {entry.filename for entry in data.features["build_id"]}
    record(tmp_path, "--buildid-all")
    with PerfData(str(tmp_path / "perf.data")) as data:
        mapped = {entry.filename for entry in data.features["build_id"]}
    assert hit < mapped


@pytest.mark.parametrize("options", [["-z"], ["-z", "--buildid-all", "--switch-output=1h"]])
def test_compressed_and_switched_recordings_have_build_ids(tmp_path, options):
    record(tmp_path, *options)
    (path,) = tmp_path.glob("perf.data*")
    with PerfData(str(path)) as data:
        assert {len(entry.build_id) for entry in data.features["build_id"]} >= {20}
        assert data.features["sample_time"].first > 0


def test_without_build_ids_there_is_no_table(tmp_path):
    record(tmp_path, "-B")
    with PerfData(str(tmp_path / "perf.data")) as data:
        assert "build_id" not in data.features


def test_the_file_has_rounds_and_a_mark_after_synthesized_records(tmp_path):
    record(tmp_path)
    with PerfData(str(tmp_path / "perf.data")) as data:
        assert data.record_index.type_counts[RecordType.FINISHED_ROUND] >= 1
        assert data.record_index.type_counts[RecordType.FINISHED_INIT] == 1


def test_a_thread_that_is_not_the_main_one_may_record(tmp_path):
    results: list[int] = []
    worker = threading.Thread(
        target=lambda: results.append(perfpy.record(BUSY, events="task-clock:u", output=str(tmp_path / "perf.data")).exit_code)
    )
    worker.start()
    worker.join(timeout=300)
    assert results == [0]
    assert samples(tmp_path / "perf.data") > 10


def test_the_recorder_loads_nothing_heavy():
    code = (
        "import sys; sys.argv = ['perfpy', 'record', '-q', '-N', '-e', 'task-clock:u', '-o', '/dev/null', '--', 'true']\n"
        "from perfpy.cli import run\nassert run(sys.argv[1:]) == 0\n"
        "print([name for name in ('numpy', 'rich', 'elftools', 'click', 'dataclasses') if name in sys.modules])"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=CHECKOUT, timeout=300, check=True)
    assert process.stdout.strip() == "[]"


def until(condition, seconds: float = 30) -> None:
    """Wait for it."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.system_wide
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, 0])
def test_a_recording_that_feeds_itself_ends_at_ctrl_c(tmp_path, number):
    """Every write of a sample of 64 KiB is a system call, which is a sample of 64 KiB; 0: the command ends."""
    path = tmp_path / "perf.data"
    storm = ("-a", "--call-graph", "dwarf,65528", "-e", "raw_syscalls:sys_enter", "--max-size", "4G")
    with subprocess.Popen(
        command(*storm, "--", "sleep", "1" if number == 0 else "60"),
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
    ) as recorder:
        until(lambda: path.exists() and path.stat().st_size > 1 << 20)
        started = time.monotonic() + (1 if number == 0 else 0)
        if number:
            recorder.send_signal(number)
        errors = recorder.communicate(timeout=300)[1].decode()
    # a moment for what was in the rings; without an end to it this is a minute
    assert time.monotonic() - started < 10
    assert recorder.returncode == (128 + number if number else 0)
    assert "Captured and wrote" in errors
    assert samples(path) > 0


def test_ranges_of_time_end_the_recording_with_the_last(tmp_path, busy):
    args = command(*EVENT, "-D", "50-100,150-200", "-p", str(busy))
    ended = subprocess.run(
        args, cwd=tmp_path, capture_output=True, text=True, timeout=30, env={**os.environ, "PYTHONPATH": str(CHECKOUT)}, check=True
    )
    assert ended.stderr.splitlines()[:5] == ["Events disabled", *["Events enabled", "Events disabled"] * 2]


def test_a_command_that_does_not_heed_sigterm_does_not_hold_up_the_file(tmp_path):
    """It is waited for behind the file's end, and who asks again has it killed."""
    script = ["sh", "-c", "trap '' TERM INT; while :; do :; done"]
    args = command(*EVENT, "--", *script)
    with subprocess.Popen(args, cwd=tmp_path, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(CHECKOUT)}) as recorder:
        path = tmp_path / "perf.data"
        until(lambda: path.exists() and path.stat().st_size > 4096)
        recorder.send_signal(signal.SIGINT)
        assert recorder.stderr is not None
        lines = [recorder.stderr.readline() for _ in range(2)]
        assert b"Captured and wrote" in lines[1]
        assert samples(path) > 0
        assert recorder.poll() is None
        recorder.send_signal(signal.SIGINT)
        assert recorder.wait(timeout=30) == 130


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_the_recording_begins_leaves_a_complete_file(tmp_path, number):
    """It comes at the moment at which the file is made, before the command has started."""
    code = f"""
import os, sys
def end(event, args):
    if event == "open" and args[0] == "perf.data":
        os.kill(os.getpid(), {int(number)})
sys.addaudithook(end)
sys.argv[1:] = {["record", "-N", "-o", "perf.data", *EVENT, "--", "sleep", "60"]}
from perfpy.cli import main
main()
"""
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    ended = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, timeout=30, check=False)
    assert (ended.returncode, len(ended.stderr.splitlines())) == (128 + number, 2)
    assert kinds(tmp_path / "perf.data")
    assert os.listdir(tmp_path) == ["perf.data"]


@pytest.mark.system_wide
def test_a_terminal_sees_how_it_goes_and_how_good_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arrived = [""]

    def watch(_pid: int, text: str) -> None:
        arrived[0] = text

    screen_text = on_terminal("record", "-N", "-a", "-e", "cpu-clock", "-F", "499", "--", "sleep", "2.5", columns=120, watch=watch)
    assert screen_text.status == 0
    line = r"\[ perf record: \d+ s, ~[\d.kM]+ samples, \d+ lost, [\d.]+ MB; cpu-clock [\d.]+ CPUs; "
    assert re.search(line, arrived[0]), arrived[0]
    assert not re.search(line, screen_text.text)  # written over
    assert re.search(r"a share of 10 % is accurate to|samples were lost", screen_text.text), screen_text.text


def test_a_program_has_the_terminal_for_itself(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arrived = [""]

    def watch(_pid: int, text: str) -> None:
        arrived[0] = text

    on_terminal("record", "-N", *EVENT, "--", "sh", "-c", "sleep 1.5; true", watch=watch)
    assert "Captured and wrote" in arrived[0]
    assert "Ctrl-C stops it" not in arrived[0]


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc here")
def test_callchains_that_end_early_are_reported_in_logs_once(tmp_path):
    (tmp_path / "deep.c").write_text(
        "static volatile int sink;\n"
        "__attribute__((noinline)) void work(long n) { while (n--) sink += n; sink++; }\n"
        "__attribute__((noinline)) void middle(long n) { work(n); sink++; }\n"
        "int main(void) { middle(300000000); return sink == 1; }\n"
    )
    program = str(tmp_path / "deep")
    subprocess.run(["gcc", "-O1", "-fomit-frame-pointer", "-o", program, str(tmp_path / "deep.c")], check=True, timeout=300)
    errors = record(tmp_path, "-g", program=[program]).stderr
    assert errors.count("end after one frame: no frame pointers in deep; record --unwind has their callers") == 1
    assert "end after one frame" not in record(tmp_path, "-g", "-q", program=[program]).stderr
    assert "end after one frame" not in record(tmp_path, "-g", "--unwind", program=[program]).stderr
