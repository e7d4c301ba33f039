"""record --threads: a folder with a file for each CPU, which every perf reads."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from perfpy.abi.flags import RecordType
from perfpy.errors import BadPerfDataError
from perfpy.perfdata.reader import PerfData

pytestmark = [pytest.mark.live, pytest.mark.system_wide]

CHECKOUT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
ENDLESS = [sys.executable, "-S", "-c", "while True: pass"]


def line(*words: str) -> list[str]:
    return [sys.executable, "-m", "perfpy", "record", "-N", "-o", "d", "--threads", *words]


def record(folder: Path, *words: str, **more) -> subprocess.CompletedProcess[str]:
    return subprocess.run(line(*words), cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False, **more)


def samples(folder: Path) -> int:
    with PerfData(str(folder / "d")) as data:
        return data.record_index.sample_counts.total()


def perfs_samples(folder: Path) -> int:
    process = subprocess.run(["perf", "script", "-F", "ip", "-i", "d"], cwd=folder, capture_output=True, text=True, timeout=60, check=True)
    return len(process.stdout.split())


def until(condition, seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def read_so_far(folder: Path) -> int:
    try:
        return samples(folder)
    except BadPerfDataError:
        return 0


@pytest.mark.parametrize("more", [[], ["-z"], ["--sample-cpu", "-m", "8", "--overwrite"]])
def test_each_cpu_has_a_file_and_all_of_it_is_read(tmp_path, more):
    process = record(tmp_path, "-a", "-e", "cpu-clock", *more, "--", "sleep", "0.3")
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


def test_one_file_holds_one_cpus_samples(tmp_path):
    assert record(tmp_path, "-a", "-e", "cpu-clock", "--", "sleep", "0.3").returncode == 0
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


def test_the_file_of_a_killed_recorder_is_readable(tmp_path):
    with subprocess.Popen(line("-e", "cpu-clock", "--", *ENDLESS), cwd=tmp_path, env=ENVIRONMENT, stderr=subprocess.DEVNULL) as recorder:
        try:
            until(lambda: read_so_far(tmp_path) > 100)
            children = Path(f"/proc/{recorder.pid}/task/{recorder.pid}/children").read_text().split()
        finally:
            recorder.kill()
        recorder.wait(timeout=30)
        for child in children:
            os.kill(int(child), signal.SIGKILL)
    assert samples(tmp_path) > 100
    if shutil.which("perf"):
        assert perfs_samples(tmp_path) == samples(tmp_path)


def test_a_full_disk_leaves_a_readable_file(tmp_path):
    def small_files() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 10, 64 << 10))

    process = record(tmp_path, "-m", "64", "-e", "cpu-clock", "-F", "20000", "--", "timeout", "30", *ENDLESS, preexec_fn=small_files)
    assert (process.returncode, "cannot write d/data" in process.stderr, "Traceback" in process.stderr) == (255, True, False)
    assert samples(tmp_path) > 1000
    if shutil.which("perf"):
        assert perfs_samples(tmp_path) == samples(tmp_path)


def test_it_stops_at_its_size_and_at_a_signal(tmp_path):
    process = record(tmp_path, "-m", "32", "--max-size", "100K", "-e", "cpu-clock", "-F", "20000", "--", "timeout", "30", *ENDLESS)
    assert "perf size limit reached" in process.stderr
    shutil.rmtree(tmp_path / "d")
    with subprocess.Popen(line("-a", "-e", "cpu-clock"), cwd=tmp_path, env=ENVIRONMENT, stderr=subprocess.PIPE, text=True) as recorder:
        until(lambda: read_so_far(tmp_path) > 10)
        recorder.send_signal(signal.SIGINT)
        _, errors = recorder.communicate(timeout=30)
    assert recorder.returncode in (130, -signal.SIGINT)
    assert "Captured and wrote" in errors


def test_the_folder_before_is_kept_and_comes_back_where_nothing_begins(tmp_path):
    for _ in range(2):
        assert record(tmp_path, "-e", "cpu-clock", "--", "true").returncode == 0
    assert {path.name for path in tmp_path.iterdir()} == {"d", "d.old"}
    before = (tmp_path / "d" / "data").read_bytes()
    assert record(tmp_path, "-e", "cpu-clock", "--", "/nowhere/to/be/found").returncode == 255
    assert (tmp_path / "d" / "data").read_bytes() == before


def test_masks_that_do_not_fit_change_nothing(tmp_path):
    process = subprocess.run(
        [*line()[:-1], "--threads=0-4095/0", "-e", "cpu-clock", "true"], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, check=False
    )
    assert (process.returncode, b"not online" in process.stderr) == (129, True)
    assert not list(tmp_path.iterdir())
