"""perfpy record on this machine: what its options do to the file."""

from __future__ import annotations

import os
import re
import resource
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
from perfpy.errors import BadPerfDataError
from perfpy.perfdata.header import FileHeader
from perfpy.perfdata.reader import PerfData
from tests.builders.terminals import on_terminal

# perfpy record on this machine: what its options do to the file.


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


def has_cycles() -> bool:
    """Whether this machine counts cycles in hardware."""
    try:
        with perfpy.count("cycles:u") as counts:
            pass
    except perfpy.PerfError:
        return False
    return counts["cycles:u"].value is not None


@pytest.mark.parametrize("quiet", [False, True])
def test_a_clock_instead_of_cycles_is_told_also_to_files(tmp_path, quiet):
    if has_cycles():
        pytest.skip("this machine counts cycles")
    line = command(*(["-q"] if quiet else []), "-e", "cycles:u", "--", "true")
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    done = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=True)
    assert ("no hardware cycle counter here; using task-clock instead" in done.stderr) is not quiet


def test_programs_are_warned_of_a_clock_instead_of_cycles_that_they_named(tmp_path):
    if has_cycles():
        pytest.skip("this machine counts cycles")
    path = str(tmp_path / "x")
    with pytest.warns(RuntimeWarning, match="using task-clock instead") as caught:
        perfpy.record(["true"], events="cycles:u", output=path)
    assert [warning.filename for warning in caught] == [__file__]
    with pytest.warns(RuntimeWarning, match="using task-clock instead"), perfpy.watch("cycles:u", pid=os.getpid(), duration=0.01):
        pass
    perfpy.record(["true"], output=path)  # no event was named
    with pytest.warns(RuntimeWarning, match="using task-clock instead"), perfpy.profile(path, events="cycles:u"):
        pass


def samples(path: Path) -> int:
    with PerfData(str(path)) as data:
        return data.record_index.sample_counts.total()


def kinds(path: Path) -> list[type]:
    with PerfData(str(path)) as data:
        return [type(side.record) for side in data.side_band()]


@pytest.mark.live
def test_the_last_lines_are_perfs(tmp_path):
    errors = record(tmp_path).stderr.splitlines()
    count = samples(tmp_path / "perf.data")
    size = (tmp_path / "perf.data").stat().st_size
    assert errors[-2].startswith("[ perf record: Woken up ")
    assert errors[-2].endswith(" times to write data ]")
    assert re.fullmatch(rf"\[ perf record: Captured and wrote \d+\.\d\d\d MB perf\.data \({count} samples\) \]", errors[-1])
    assert float(errors[-1].split()[6]) * 1024 * 1024 < size


@pytest.mark.live
def test_quiet_prints_nothing(tmp_path):
    assert record(tmp_path, "-q").stderr == ""


@pytest.mark.live
def test_the_previous_recording_is_kept(tmp_path):
    (tmp_path / "perf.data").write_text("older")
    record(tmp_path)
    assert (tmp_path / "perf.data.old").read_text() == "older"


@pytest.mark.live
def test_a_pipe_holds_the_recording_and_the_programs_output_goes_to_stderr(tmp_path):
    process = subprocess.run(command(*EVENT, "-o", "-", "--", *BUSY), cwd=tmp_path, capture_output=True, timeout=300, check=True)
    assert b"2666664666667000000" in process.stderr
    (tmp_path / "piped").write_bytes(process.stdout)
    assert samples(tmp_path / "piped") > 10


@pytest.mark.live
def test_periods_give_exact_numbers_of_samples(tmp_path):
    record(tmp_path, "-c", "1000000", "-P")
    with perfpy.open(tmp_path / "perf.data") as recording:
        assert set(recording.samples["period"].tolist()) == {1_000_000}


@pytest.mark.live
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


@pytest.mark.live
def test_a_process_is_recorded_until_it_ends(tmp_path):
    recording = str(tmp_path / "perf.data")
    with subprocess.Popen([sys.executable, "-S", "-c", UNTIL_FILES, recording, "1"]) as process:
        environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
        result = subprocess.run(command(*EVENT, "-p", str(process.pid)), cwd=tmp_path, env=environment, timeout=300, check=True)
    assert result.returncode == 0
    assert samples(tmp_path / "perf.data") > 10


@pytest.mark.live
@pytest.mark.parametrize("options", [["--per-thread"], ["-i"], ["--overwrite", "-m", "4"], ["--tail-synthesize"], ["--no-buffering"]])
def test_other_ways_to_collect(tmp_path, busy, options):
    record(tmp_path, *options, "-p", str(busy), program=["sleep", "0.5"])
    assert samples(tmp_path / "perf.data") > 10


@pytest.mark.live
@pytest.mark.parametrize("options", [["--tail-synthesize", "-m", "4"], ["--overwrite", "-m", "64"]])
def test_mappings_that_follow_the_samples_name_all_of_them(tmp_path, busy, options):
    """Readers deliver samples at each mark of a round, before they know mappings at the end of the file."""
    record(tmp_path, *options, "-F", "5000", "-p", str(busy), program=["sleep", "1"])
    assert samples(tmp_path / "perf.data") > 50
    with perfpy.open(tmp_path / "perf.data") as recording:
        rows = [row.texts for row in recording.report(by="comm,dso")]
    assert rows
    assert not [texts for texts in rows if "[unknown]" in texts["dso"] or texts["comm"].startswith(":")]


@pytest.mark.live
def test_outputs_are_switched_by_time_and_only_the_last_are_kept(tmp_path):
    program = [sys.executable, "-S", "-c", UNTIL_FILES, "perf.data.2*", "2"]
    process = record(tmp_path, "--switch-output=1s", "--switch-max-files=2", program=program)
    assert process.stderr.count("[ perf record: Dump ") > 2
    whole, rest = sorted(tmp_path.glob("perf.data.2*"))
    assert samples(whole) > 10
    with PerfData(str(rest)) as data:  # how much of a second was left for it is chance; but it is complete
        assert data.features["hostname"]


@pytest.mark.live
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


@pytest.mark.live
def test_max_cpu_limits_the_cost_of_recording(tmp_path, busy):
    process = record(tmp_path, "-F", "max", "--max-cpu=0.01%", "-p", str(busy), program=["sleep", "2"])
    notes = re.findall(r"note: recording takes \S+% of a CPU, more than --max-cpu 0.0%; (.*)", process.stderr)
    assert notes[0].startswith("now sampling task-clock:u at "), process.stderr
    assert samples(tmp_path / "perf.data") > 10
    with PerfData(str(tmp_path / "perf.data")) as data:
        assert data.events[1].name == "dummy:u"  # who goes on to tell of mappings and names


@pytest.mark.live
def test_a_recording_stops_at_its_size(tmp_path, busy):
    args = command(*EVENT, "--max-size=64K", "-F", "20000", "-m", "4", "-p", str(busy))
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    process = subprocess.run(args, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=True)
    assert "perf size limit reached" in process.stderr
    assert 64 << 10 <= (tmp_path / "perf.data").stat().st_size < 256 << 10
    assert samples(tmp_path / "perf.data") > 100


@pytest.mark.live
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


@pytest.mark.live
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


@pytest.mark.live
def test_lost_samples_are_counted_in_the_file_and_reported(tmp_path):
    process = record(tmp_path, "-m", "1", "-F", "20000", "--call-graph", "dwarf,32768", "-g")
    with PerfData(str(tmp_path / "perf.data")) as data:
        lost = sum(side.record.lost for side in data.side_band() if isinstance(side.record, LostSamples))
    assert lost > 0
    assert f"warning: {lost} samples were lost" in process.stderr


@pytest.mark.live
@pytest.mark.system_wide
def test_side_band_records_come_on_request(tmp_path):
    record(tmp_path, "--switch-events", "--namespaces", program=["sh", "-c", "sleep 0.01; true"])
    assert {Switch, Namespaces} <= set(kinds(tmp_path / "perf.data"))


@pytest.mark.live
def test_files_with_samples_have_build_ids(tmp_path):
    record(tmp_path, "-F", "5000")
    with PerfData(str(tmp_path / "perf.data")) as data:
        hit = {entry.filename for entry in data.features["build_id"]}
    record(tmp_path, "--buildid-all")
    with PerfData(str(tmp_path / "perf.data")) as data:
        mapped = {entry.filename for entry in data.features["build_id"]}
    assert hit < mapped


@pytest.mark.live
@pytest.mark.parametrize("options", [["-z"], ["-z", "--buildid-all", "--switch-output=1h"]])
def test_compressed_and_switched_recordings_have_build_ids(tmp_path, options):
    record(tmp_path, *options)
    (path,) = tmp_path.glob("perf.data*")
    with PerfData(str(path)) as data:
        assert {len(entry.build_id) for entry in data.features["build_id"]} >= {20}
        assert data.features["sample_time"].first > 0


@pytest.mark.live
def test_without_build_ids_there_is_no_table(tmp_path):
    record(tmp_path, "-B")
    with PerfData(str(tmp_path / "perf.data")) as data:
        assert "build_id" not in data.features


@pytest.mark.live
def test_the_file_has_rounds_and_a_mark_after_synthesized_records(tmp_path):
    record(tmp_path)
    with PerfData(str(tmp_path / "perf.data")) as data:
        assert data.record_index.type_counts[RecordType.FINISHED_ROUND] >= 1
        assert data.record_index.type_counts[RecordType.FINISHED_INIT] == 1


@pytest.mark.live
def test_a_thread_that_is_not_the_main_one_may_record(tmp_path):
    results: list[int] = []
    worker = threading.Thread(
        target=lambda: results.append(perfpy.record(BUSY, events="task-clock:u", output=str(tmp_path / "perf.data")).exit_code)
    )
    worker.start()
    worker.join(timeout=300)
    assert results == [0]
    assert samples(tmp_path / "perf.data") > 10


@pytest.mark.live
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


@pytest.mark.live
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


@pytest.mark.live
def test_ranges_of_time_end_the_recording_with_the_last(tmp_path, busy):
    args = command(*EVENT, "-D", "50-100,150-200", "-p", str(busy))
    ended = subprocess.run(
        args, cwd=tmp_path, capture_output=True, text=True, timeout=30, env={**os.environ, "PYTHONPATH": str(CHECKOUT)}, check=True
    )
    assert ended.stderr.splitlines()[:5] == ["Events disabled", *["Events enabled", "Events disabled"] * 2]


@pytest.mark.live
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


@pytest.mark.live
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


@pytest.mark.live
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


@pytest.mark.live
def test_a_program_has_the_terminal_for_itself(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arrived = [""]

    def watch(_pid: int, text: str) -> None:
        arrived[0] = text

    on_terminal("record", "-N", *EVENT, "--", "sh", "-c", "sleep 1.5; true", watch=watch)
    assert "Captured and wrote" in arrived[0]
    assert "Ctrl-C stops it" not in arrived[0]


@pytest.mark.live
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


# record --threads: a folder with a file for each CPU, which every perf reads.


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(CHECKOUT)}


def line(*words: str) -> list[str]:
    return [sys.executable, "-m", "perfpy", "record", "-N", "-o", "d", "--threads", *words]


def record_with_threads(folder: Path, *words: str, **more) -> subprocess.CompletedProcess[str]:
    return subprocess.run(line(*words), cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False, **more)


def samples_of_folder(folder: Path) -> int:
    with PerfData(str(folder / "d")) as data:
        return data.record_index.sample_counts.total()


def perfs_samples(folder: Path) -> int:
    process = subprocess.run(["perf", "script", "-F", "ip", "-i", "d"], cwd=folder, capture_output=True, text=True, timeout=60, check=True)
    return len(process.stdout.split())


def wait_until(condition, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def read_so_far(folder: Path) -> int:
    try:
        return samples_of_folder(folder)
    except BadPerfDataError:
        return 0


@pytest.mark.live
@pytest.mark.system_wide
@pytest.mark.parametrize("more", [[], ["-z"], ["--sample-cpu", "-m", "8", "--overwrite"]])
def test_each_cpu_has_a_file_and_all_of_it_is_read(tmp_path, more):
    process = record_with_threads(tmp_path, "-a", "-e", "cpu-clock", *more, "--", "sleep", "0.3")
    assert process.returncode == 0, process.stderr
    files = sorted(path.name for path in (tmp_path / "d").iterdir())
    cpus = sorted(os.sched_getaffinity(0))
    assert files[: len(cpus) + 1] == ["data", *(f"data.{number}" for number in range(len(files) - 1))]
    with PerfData(str(tmp_path / "d")) as data:
        assert {cpu for batch in data.batches(["cpu"]) for cpu in batch.columns["cpu"].tolist()} <= set(range(len(files) - 1))
        assert data.features["dir_format"] == 1
        sample_count = data.record_index.sample_counts.total()
    assert sample_count > 0
    if shutil.which("perf"):
        assert perfs_samples(tmp_path) == sample_count
    if not more:
        assert f"({sample_count} samples)" in process.stderr


@pytest.mark.live
@pytest.mark.system_wide
def test_one_file_holds_one_cpus_samples(tmp_path):
    assert record_with_threads(tmp_path, "-a", "-e", "cpu-clock", "--", "sleep", "0.3").returncode == 0
    with PerfData(str(tmp_path / "d")) as data:
        (ids,) = [event.ids for event in data.events if event.name == "cpu-clock"]
    for number, ident in enumerate(ids):
        content = (tmp_path / "d" / f"data.{number}").read_bytes()
        offset, cpus = 0, set()
        while offset < len(content):
            kind, size = (
                int.from_bytes(content[offset : offset + 4], sys.byteorder),
                int.from_bytes(content[offset + 6 : offset + 8], sys.byteorder),
            )
            if kind == RecordType.SAMPLE:
                cpus.add(int.from_bytes(content[offset + 8 : offset + 16], sys.byteorder))
            offset += size
        assert cpus <= {ident}


@pytest.mark.live
@pytest.mark.system_wide
def test_the_file_of_a_killed_recorder_is_readable(tmp_path):
    with subprocess.Popen(line("-e", "cpu-clock", "--", *ENDLESS), cwd=tmp_path, env=ENVIRONMENT, stderr=subprocess.DEVNULL) as recorder:
        try:
            wait_until(lambda: read_so_far(tmp_path) > 100)
            children = Path(f"/proc/{recorder.pid}/task/{recorder.pid}/children").read_text().split()
        finally:
            recorder.kill()
        recorder.wait(timeout=30)
        for child in children:
            os.kill(int(child), signal.SIGKILL)
    assert samples_of_folder(tmp_path) > 100
    if shutil.which("perf"):
        assert perfs_samples(tmp_path) == samples_of_folder(tmp_path)


@pytest.mark.live
@pytest.mark.system_wide
def test_a_full_disk_leaves_a_readable_file(tmp_path):
    def small_files() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 10, 64 << 10))

    process = record_with_threads(
        tmp_path, "-m", "64", "-e", "cpu-clock", "-F", "20000", "--", "timeout", "30", *ENDLESS, preexec_fn=small_files
    )
    assert (process.returncode, "cannot write d/data" in process.stderr, "Traceback" in process.stderr) == (255, True, False)
    assert samples_of_folder(tmp_path) > 1000
    if shutil.which("perf"):
        assert perfs_samples(tmp_path) == samples_of_folder(tmp_path)


@pytest.mark.live
@pytest.mark.system_wide
def test_it_stops_at_its_size_and_at_a_signal(tmp_path):
    process = record_with_threads(
        tmp_path, "-m", "32", "--max-size", "100K", "-e", "cpu-clock", "-F", "20000", "--", "timeout", "30", *ENDLESS
    )
    assert "perf size limit reached" in process.stderr
    shutil.rmtree(tmp_path / "d")
    with subprocess.Popen(line("-a", "-e", "cpu-clock"), cwd=tmp_path, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True) as recorder:
        wait_until(lambda: read_so_far(tmp_path) > 10)
        recorder.send_signal(signal.SIGINT)
        _, errors = recorder.communicate(timeout=30)
    assert recorder.returncode in (130, -signal.SIGINT)
    assert "Captured and wrote" in errors


@pytest.mark.live
@pytest.mark.system_wide
def test_the_folder_before_is_kept_and_comes_back_where_nothing_begins(tmp_path):
    for _ in range(2):
        assert record_with_threads(tmp_path, "-e", "cpu-clock", "--", "true").returncode == 0
    assert {path.name for path in tmp_path.iterdir()} == {"d", "d.old"}
    before = (tmp_path / "d" / "data").read_bytes()
    assert record_with_threads(tmp_path, "-e", "cpu-clock", "--", "/nowhere/to/be/found").returncode == 255
    assert (tmp_path / "d" / "data").read_bytes() == before


@pytest.mark.live
@pytest.mark.system_wide
def test_masks_that_do_not_fit_change_nothing(tmp_path):
    process = subprocess.run(
        [*line()[:-1], "--threads=0-4095/0", "-e", "cpu-clock", "true"], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, check=False
    )
    assert (process.returncode, b"not online" in process.stderr) == (237, True)
    assert not list(tmp_path.iterdir())


# record --self-contained: a report on a machine that has none of the files says the same.


PROGRAM = """
#include <stdlib.h>
#include <time.h>
volatile unsigned sink;
__attribute__((noinline)) void innermost(void) { for (int i = 0; i < 2000; i++) sink += i; }
__attribute__((noinline)) void between(void) { for (int i = 0; i < 10; i++) innermost(); sink++; }
int main(void) { while (clock() < CLOCKS_PER_SEC / 4) between(); return 0; }
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not shutil.which("gcc"):
        pytest.skip("no gcc in PATH")
    folder = tmp_path_factory.mktemp("program")
    (folder / "busy.c").write_text(PROGRAM)
    build: list[str | Path] = [
        "gcc",
        "-g",
        "-O1",
        "-fno-omit-frame-pointer",
        "-fno-optimize-sibling-calls",
        "-o",
        folder / "busy",
        folder / "busy.c",
    ]
    subprocess.run(build, check=True, timeout=60)
    return folder / "busy"


def run_in_folder(folder: Path, *words: object) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "perfpy", *map(str, words)]
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    return subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, check=True)


def script(folder: Path, *words: object) -> str:
    return run_in_folder(folder, "script", "-F", "comm,ip,sym,dso", *words).stdout


@pytest.mark.live
@pytest.mark.parametrize(
    ("options", "output"),
    [
        (["--self-contained", "-g"], ["--no-inline"]),  # lines and inlined calls stay where the debug information is
        (["--self-contained", "--call-graph", "dwarf,4096", "-F", "500"], ["--no-inline"]),
        (["--self-contained=binaries", "-g"], []),
        (["--self-contained", "-z", "-B"], []),
    ],
    ids=["names", "unwound elsewhere", "binaries", "compressed, without build-ids"],
)
def test_a_machine_without_the_files_prints_the_same(tmp_path, program, options, output):
    errors = run_in_folder(tmp_path, "record", "-N", "-o", "perf.data", "-e", "task-clock", *options, "--", program).stderr
    assert "--self-contained stored the" in errors
    (tmp_path / "empty").mkdir()
    here, elsewhere = script(tmp_path, *output), script(tmp_path, *output, "--symfs", tmp_path / "empty")
    assert here == elsewhere
    assert "innermost" in elsewhere


@pytest.mark.live
@pytest.mark.skipif(not shutil.which("perf"), reason="needs perf")
def test_perf_reads_the_file(tmp_path, program):
    run_in_folder(tmp_path, "record", "-N", "-o", "perf.data", "-e", "task-clock", "--self-contained", "--", program)
    process = subprocess.run(["perf", "script", "-i", "perf.data"], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True)
    assert "innermost" in process.stdout


@pytest.mark.live
def test_a_file_that_goes_on_elsewhere_is_refused(tmp_path, program):
    for line in (["-o", "-"], ["-o", "perf.data", "--switch-output=1s"]):
        with pytest.raises(subprocess.CalledProcessError) as failed:
            run_in_folder(tmp_path, "record", *line, "--self-contained", "--", program)
        assert failed.value.returncode == 129
        assert "--self-contained" in failed.value.stderr


@pytest.mark.system_wide
def test_a_cgroup_is_recorded_with_the_side_band_of_all_cpus(tmp_path):
    record(tmp_path, "-a", "--cgroup", "/")
    with perfpy.open(tmp_path / "perf.data") as recording:
        assert len(recording.samples["ip"]) > 10
        assert [event.name for event in recording.events] == ["task-clock:u", "dummy:u"]


@pytest.mark.system_wide
def test_all_cpus_precede_per_thread(tmp_path):
    assert "Warning:\n--per-thread is ignored" in record(tmp_path, "--per-thread", "-a").stderr
