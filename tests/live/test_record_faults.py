"""What goes wrong while a recording runs: nothing that was captured is lost, and every reader takes the file."""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from perfpy.errors import BadPerfDataError
from perfpy.perfdata.reader import PerfData

pytestmark = pytest.mark.live

CHECKOUT = Path(__file__).resolve().parents[2]
EVENT = ["-e", "task-clock:u"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
ENDLESS = [sys.executable, "-S", "-c", "while True: pass"]


def line(*words: str) -> list[str]:
    return [sys.executable, "-m", "perfpy", "record", "-N", "-o", "perf.data", *words]


def samples(path: Path) -> int:
    with PerfData(str(path)) as data:
        return data.record_index.sample_counts.total()


def samples_now(path: Path) -> int:
    """Of a recording that goes on: before its head is written there are none."""
    try:
        return samples(path)
    except BadPerfDataError:
        return 0


def perf_reads(path: Path, *, but: int = 0, more: tuple[str, ...] = ()) -> None:
    """perf prints as many samples as we find, `but` for that many at most. more: options that let it print one line each."""
    if shutil.which("perf"):
        process = subprocess.run(["perf", "script", "-F", "ip", *more, "-i", path], capture_output=True, text=True, timeout=60, check=False)
        assert process.returncode == 0, process.stderr
        assert 0 <= samples(path) - len(process.stdout.split()) <= but


def until(condition, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def running(folder: Path, *words: str) -> subprocess.Popen[bytes]:
    """A recording that has written samples."""
    recorder = subprocess.Popen(line(*EVENT, "-m", "2", *words), cwd=folder, env=ENVIRONMENT, stderr=subprocess.PIPE)
    path = folder / "perf.data"
    until(lambda: path.exists() and path.stat().st_size > 20_000)
    return recorder


def test_the_file_of_a_killed_recorder_is_readable(tmp_path):
    with running(tmp_path, "--", *ENDLESS) as recorder:
        children = Path(f"/proc/{recorder.pid}/task/{recorder.pid}/children").read_text().split()
        recorder.kill()
        recorder.wait(timeout=30)
        for child in children:
            os.kill(int(child), signal.SIGKILL)
    assert samples(tmp_path / "perf.data") > 100
    perf_reads(tmp_path / "perf.data", but=1000)  # what a ring holds: perf reads to the end of the last round


def test_a_killed_recorder_of_few_samples_has_written_them_too(tmp_path):
    """It would be minutes until they fill half of an ordinary ring."""
    path = tmp_path / "perf.data"
    program = [sys.executable, "-S", "-c", "while True: pass"]
    with subprocess.Popen(program) as target:
        line_ = line(*EVENT, "-F", "99", "-p", str(target.pid))
        with subprocess.Popen(line_, cwd=tmp_path, env=ENVIRONMENT, stderr=subprocess.DEVNULL) as recorder:
            until(lambda: path.exists() and samples_now(path) > 20)
            recorder.kill()
        target.kill()
    assert samples(path) > 20
    perf_reads(path, but=1000)


@pytest.mark.parametrize("more", [["--call-graph", "dwarf", "--unwind"], ["--off-cpu"]])
def test_samples_in_another_process_survive_a_killed_recorder(tmp_path, more):
    """That process completes the file: with all features, so that perf reads it, compressed or not."""
    path = tmp_path / "perf.data"
    program = [sys.executable, "-S", "-c", "import time\nwhile True:\n sum(range(20000)); time.sleep(0.0001)"]
    with subprocess.Popen(program) as target:
        line_ = line("-e", "task-clock", *more, "-p", str(target.pid))
        with subprocess.Popen(line_, cwd=tmp_path, env=ENVIRONMENT, stderr=subprocess.DEVNULL) as recorder:
            until(lambda: path.exists() and samples_now(path) > 20)
            before = samples_now(path)
            time.sleep(0.5)  # of which nothing need be in the file yet
            recorder.kill()
            recorder.wait()
        until(lambda: has_features(path))
        target.kill()
    assert samples(path) > before
    perf_reads(path, more=("-G",))


def has_features(path: Path) -> bool:
    with PerfData(str(path)) as data:
        return "hostname" in data.features


def test_a_full_disk_leaves_a_readable_file(tmp_path):
    def small_files() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 10, 64 << 10))

    process = subprocess.run(
        line(*EVENT, "-m", "2", "-F", "5000", "--", sys.executable, "-S", "-c", "sum(i * i for i in range(10_000_000))"),
        cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False, preexec_fn=small_files,
    )  # fmt: skip
    assert process.returncode == 255
    assert "cannot write perf.data" in process.stderr
    assert "Traceback" not in process.stderr
    assert samples(tmp_path / "perf.data") > 100


def test_a_reader_that_goes_away_ends_it_quietly(tmp_path):
    command = line(*EVENT, "-m", "2", "--", *ENDLESS)
    command[command.index("perf.data")] = "-"
    with subprocess.Popen(command, cwd=tmp_path, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as recorder:
        assert recorder.stdout is not None
        assert len(recorder.stdout.read(20_000)) == 20_000
        recorder.stdout.close()
        assert recorder.wait(timeout=30) == 141
        assert recorder.stderr is not None
        assert b"Traceback" not in recorder.stderr.read()


def test_a_program_that_executes_another_and_maps_and_unmaps_code_is_followed(tmp_path):
    code = (
        "import mmap, os, sys\n"
        "with open(sys.argv[1], 'rb') as file:\n"
        "    for _ in range(200):\n"
        "        mmap.mmap(file.fileno(), 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC, flags=mmap.MAP_PRIVATE).close()\n"
        f"os.execv({sys.executable!r}, ['second', '-S', '-c', 'sum(i * i for i in range(3_000_000))'])\n"
    )
    (tmp_path / "code").write_bytes(bytes(4096))
    command = line(*EVENT, "--", sys.executable, "-S", "-c", code, str(tmp_path / "code"))
    subprocess.run(command, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, timeout=60, check=True)
    with PerfData(str(tmp_path / "perf.data")) as data:
        records = [side.record for side in data.side_band()]
    mapped = [record for record in records if getattr(record, "filename", "") == str(tmp_path / "code")]
    assert len(mapped) == 200
    assert sum(getattr(record, "exec", False) or type(record).__name__ == "Comm" for record in records) >= 2
    perf_reads(tmp_path / "perf.data")


def test_a_target_that_exits_ends_it(tmp_path):
    waiting = [sys.executable, "-S", "-c", "input(); sum(i * i for i in range(3_000_000))"]
    path = tmp_path / "perf.data"
    with (
        subprocess.Popen(waiting, stdin=subprocess.PIPE) as target,
        subprocess.Popen(line(*EVENT, "-p", str(target.pid)), cwd=tmp_path, env=ENVIRONMENT, stderr=subprocess.PIPE) as recorder,
    ):
        until(lambda: path.exists() and path.stat().st_size > 100)
        time.sleep(0.3)
        target.communicate(b"\n", timeout=60)
        assert recorder.wait(timeout=30) == 0
    assert samples(tmp_path / "perf.data") > 10
    perf_reads(tmp_path / "perf.data")


def test_signals_that_mean_nothing_interrupt_nothing(tmp_path):
    """SIGWINCH and SIGCONT come at any time, in the middle of a write or a poll."""
    with running(tmp_path, "--", *ENDLESS) as recorder:
        for _ in range(200):
            recorder.send_signal(signal.SIGWINCH)
            recorder.send_signal(signal.SIGCONT)
            time.sleep(0.002)
        assert recorder.poll() is None
        recorder.send_signal(signal.SIGINT)
        assert recorder.wait(timeout=30) == 130
    assert samples(tmp_path / "perf.data") > 100
    perf_reads(tmp_path / "perf.data")


def test_a_limit_of_open_files_that_is_too_low_is_reported_in_one_line(tmp_path):
    def few_files() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))
        for capability in (24, 21):  # CAP_SYS_RESOURCE, CAP_SYS_ADMIN: the limit holds
            ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)

    events = [word for _ in range(30) for word in ("-e", "task-clock:u")]
    process = subprocess.run(
        line(*events, "--", "true"),
        cwd=tmp_path,
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=few_files,
    )
    assert process.returncode == 255
    assert process.stderr.startswith("perfpy record: ")
    assert len(process.stderr.splitlines()) == 1
    assert "file" in process.stderr
    assert not (tmp_path / "perf.data").exists()


CPUS = sorted(Path("/sys/devices/system/cpu").glob("cpu[1-9]*/online"))


@pytest.mark.system_wide
@pytest.mark.particular
@pytest.mark.skipif(os.environ.get("PERFPY_OFFLINE") != "1", reason="takes a CPU away from everybody: PERFPY_OFFLINE=1 allows it")
@pytest.mark.skipif(not CPUS or not os.access(CPUS[-1], os.W_OK), reason="no CPU here can be taken offline")
def test_a_cpu_that_goes_offline_does_not_end_it(tmp_path):
    with subprocess.Popen(
        line("-a", "-e", "cpu-clock", "-F", "999", "-m", "2"), cwd=tmp_path, env=ENVIRONMENT, stderr=subprocess.PIPE
    ) as recorder:
        until(lambda: (tmp_path / "perf.data").exists() and (tmp_path / "perf.data").stat().st_size > 200_000)
        try:
            CPUS[-1].write_text("0")
            time.sleep(0.5)
            assert recorder.poll() is None
        finally:
            CPUS[-1].write_text("1")
        recorder.send_signal(signal.SIGINT)
        assert recorder.wait(timeout=30) == 130
    assert samples(tmp_path / "perf.data") > 100
    perf_reads(tmp_path / "perf.data")
