"""Whatever goes wrong is one clear line on stderr, with perf's exit status and no traceback."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
PERFPY = [sys.executable, "-m", "perfpy"]
PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
EVENT = ["-e", "task-clock:u"]


def perfpy(*args: str, **options: Any) -> subprocess.CompletedProcess[str]:
    options = {"capture_output": True} | options
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT), "PERFPY_DEBUG": ""}
    return subprocess.run([*PERFPY, *args], text=True, timeout=60, check=False, env=environment, **options)


def the_line(process: subprocess.CompletedProcess[str]) -> str:
    """What a failing command says: a single line, after whatever it told before it failed."""
    *before, line = process.stderr.rstrip("\n").split("\n")
    assert "Traceback" not in process.stderr
    assert not [text for text in before if text.startswith("perfpy ")]
    return line


# -- programs ------------------------------------------------------------------


def measured(command: str, *args: str) -> subprocess.CompletedProcess[str]:
    """A program measured by stat or record, whose standard output (a pipe) is the program's."""
    return perfpy(command, *(("-o", "perf.data") if command == "record" else ()), *args)


@pytest.mark.live
@pytest.mark.parametrize("command", ["stat", "record"])
class TestPrograms:
    @pytest.fixture(autouse=True)
    def _in_a_folder_of_its_own(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)

    def test_a_program_that_is_not_there(self, command):
        process = measured(command, *EVENT, "--", "/nowhere/program")
        assert process.returncode == 255
        assert the_line(process) == f"perfpy {command}: cannot run '/nowhere/program': No such file or directory"

    def test_a_program_that_is_none(self, command, tmp_path):
        (tmp_path / "text").write_text("no program")
        process = measured(command, *EVENT, "--", "./text")
        assert process.returncode == 255
        assert the_line(process) == f"perfpy {command}: cannot run './text': Permission denied"

    def test_a_program_s_status_is_passed_on(self, command):
        assert measured(command, *EVENT, "--", "sh", "-c", "exit 7").returncode == 7

    def test_a_program_that_a_signal_killed(self, command):
        assert measured(command, *EVENT, "--", "sh", "-c", "kill -KILL $$").returncode == 128 + signal.SIGKILL

    def test_a_process_that_is_not_there(self, command):
        process = measured(command, *EVENT, "-p", "4194304", "--", "true")
        assert process.returncode == {"stat": 234, "record": 244}[command], "as perf"
        assert "4194304" in the_line(process)

    def test_an_unknown_event(self, command):
        process = measured(command, "-e", "page-fualts", "--", "true")
        assert process.returncode == 129
        assert the_line(process).endswith("did you mean 'page-faults'?")

    def test_the_program_s_own_output_is_untouched(self, command):
        assert measured(command, *EVENT, "--", "printf", "a\\nb").stdout == "a\nb"

    def test_an_output_that_cannot_be_written(self, command):
        process = measured(command, *EVENT, "-o", "/nowhere/output", "--", "true")
        assert process.returncode == 255
        assert the_line(process).startswith(f"perfpy {command}: cannot write /nowhere/output: No such file or directory")


@pytest.mark.live
def test_a_full_disk_is_reported(tmp_path):
    process = perfpy("record", *EVENT, "-o", "/dev/full", "--", "true", cwd=tmp_path)
    assert process.returncode == 255
    assert "cannot write /dev/full: No space left on device" in the_line(process)


@pytest.mark.live
def test_ctrl_c_leaves_a_complete_recording(tmp_path):
    path = tmp_path / "perf.data"
    command = [*PERFPY, "record", *EVENT, "-o", str(path), "--", sys.executable, "-c", "while True: pass"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True, cwd=CHECKOUT) as recorder:
        deadline = time.monotonic() + 60
        while not (path.exists() and path.stat().st_size) and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(1)
        os.killpg(recorder.pid, signal.SIGINT)
        errors = recorder.communicate(timeout=60)[1].decode()
    assert recorder.returncode == 128 + signal.SIGINT
    assert "samples)" in errors
    assert len(perfpy("script", "-i", str(path)).stdout.splitlines()) > 10


@pytest.mark.live
@pytest.mark.parametrize("command", ["stat", "record -o perf.data"])
def test_without_streams_measuring_works(command, tmp_path):
    """As cron and some daemons start programs: the file that is written does not become the program's stderr."""
    program = f"{sys.executable} -c 'import os; os.write(2, bytes(99))' || echo failed > failed"
    line = f'{sys.executable} -m perfpy {command} {" ".join(EVENT)} -- sh -c "{program}" <&- >&- 2>&-'
    environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
    assert subprocess.run(line, shell=True, check=False, timeout=60, cwd=tmp_path, env=environment).returncode == 0
    assert (tmp_path / "failed").exists()  # as without perfpy: there is no stderr
    if command != "stat":
        assert perfpy("script", "-i", str(tmp_path / "perf.data")).returncode == 0


@pytest.mark.live
@pytest.mark.parametrize(
    "line", ["record -c -1", "record -c 99999999999999999999", "record -r 99999999999999999999", "stat -I 99999999999999999999"]
)
def test_numbers_that_nothing_can_hold(line, tmp_path):
    process = perfpy(*line.split(), "--", "true", cwd=tmp_path)
    assert process.returncode == 129
    assert "whole number" in the_line(process) or "is too large" in the_line(process)


# -- files ---------------------------------------------------------------------


@pytest.mark.parametrize("command", ["report", "script", "evlist"])
class TestFiles:
    def test_a_file_that_is_not_there(self, command):
        process = perfpy(command, "-i", "/nowhere/perf.data")
        assert process.returncode == 255
        assert the_line(process).startswith(f"perfpy {command}: /nowhere/perf.data: cannot open: No such file or directory")

    def test_an_empty_file(self, command, tmp_path):
        (tmp_path / "empty").write_bytes(b"")
        process = perfpy(command, "-i", str(tmp_path / "empty"))
        assert process.returncode == 255
        assert the_line(process).startswith(f"perfpy {command}: {tmp_path / 'empty'}: ")

    def test_a_file_that_is_something_else(self, command):
        process = perfpy(command, "-i", __file__)
        assert process.returncode == 255
        assert "not a perf.data file" in the_line(process)

    def test_a_folder(self, command, tmp_path):
        process = perfpy(command, "-i", str(tmp_path))
        assert process.returncode == 255
        assert str(tmp_path) in the_line(process)


@pytest.mark.live
@pytest.mark.parametrize("command", [["report", "--stdio"], ["script"], ["evlist"]], ids=" ".join)
def test_a_file_cut_anywhere_is_no_traceback(command, tmp_path):
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    perfpy("record", *EVENT, "-o", str(whole), "--", "true", cwd=tmp_path)
    data = whole.read_bytes()
    for length in (16, 104, 200, len(data) // 2, len(data) - 1):
        cut.write_bytes(data[:length])
        process = perfpy(*command, "-i", str(cut))
        assert "Traceback" not in process.stderr
        assert "internal error" not in process.stderr
        assert process.returncode in (0, 255)


@pytest.mark.live
def test_a_reader_that_has_seen_enough(tmp_path):
    path = tmp_path / "perf.data"
    perfpy("record", "-F", "20000", "-e", "cpu-clock:u", "-o", str(path), "--", sys.executable, "-c", "sum(range(20_000_000))")
    script = f"{sys.executable} -m perfpy script -i {path} | head -n1; echo ${{PIPESTATUS[0]}}"
    process = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True, cwd=CHECKOUT)
    assert process.stderr == ""
    assert process.stdout.splitlines()[-1] in ("141", "0")


# -- permission ----------------------------------------------------------------


def forbid_perf_event_open() -> None:
    """As a container's seccomp profile does: perf_event_open fails with EPERM."""
    number = {"x86_64": 298, "aarch64": 241}[platform.machine()]
    load, equals, answer = 0x20, 0x15, 0x06
    allow, refuse = 0x7FFF0000, 0x00050001
    program = b"".join(
        struct.pack("HBBI", *instruction)
        for instruction in ((load, 0, 0, 0), (equals, 0, 1, number), (answer, 0, 0, refuse), (answer, 0, 0, allow))
    )
    buffer = ctypes.create_string_buffer(program)
    head = struct.pack("HxxxxxxP", 4, ctypes.addressof(buffer))
    libc = ctypes.CDLL(None)
    no_new_privileges, set_seccomp, filter_mode = 38, 22, 2
    assert libc.prctl(no_new_privileges, 1, 0, 0, 0) == 0
    assert libc.prctl(set_seccomp, filter_mode, ctypes.create_string_buffer(head), 0, 0) == 0


@pytest.mark.live
@pytest.mark.skipif(platform.machine() not in ("x86_64", "aarch64"), reason="the filter knows two architectures")
@pytest.mark.parametrize("command", ["stat", "record"])
def test_a_container_that_forbids_it_is_named(command, tmp_path):
    process = perfpy(command, *EVENT, "--", "true", preexec_fn=forbid_perf_event_open, cwd=tmp_path)
    assert process.returncode == 255
    assert "seccomp" in the_line(process)


def drop_capabilities() -> None:
    """What root may more than others, as far as perf events ask for it: CAP_PERFMON, CAP_SYS_ADMIN, CAP_SYS_PTRACE."""
    drop_from_bounding_set = 24
    for capability in (38, 21, 19):
        assert ctypes.CDLL(None).prctl(drop_from_bounding_set, capability, 0, 0, 0) == 0


@pytest.mark.live
@pytest.mark.particular
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give up what root may")
@pytest.mark.skipif(PARANOID.exists() and PARANOID.read_text().strip() != "2", reason="kernel.perf_event_paranoid is not 2")
class TestWithoutCapabilities:
    @pytest.mark.parametrize(
        ("args", "remedies"),
        [
            (["stat", "-e", "task-clock:k", "--", "true"], [":u", "CAP_PERFMON", "kernel.perf_event_paranoid=1"]),
            (["stat", "-a", "-e", "task-clock", "--", "true"], ["CAP_PERFMON", "kernel.perf_event_paranoid=0"]),
            (["record", "-a", "-e", "cpu-clock", "--", "true"], ["CAP_PERFMON", "kernel.perf_event_paranoid=0"]),
            (["stat", "-e", "task-clock:u", "-p", "1", "--", "true"], ["CAP_PERFMON"]),
        ],
    )
    def test_the_error_names_a_remedy(self, args, remedies, tmp_path):
        process = perfpy(*args, preexec_fn=drop_capabilities, cwd=tmp_path)
        assert process.returncode == 255
        assert [remedy for remedy in remedies if remedy not in the_line(process)] == []

    def test_own_programs_are_counted_in_user_space(self):
        process = perfpy("stat", "-e", "task-clock", "--", "true", preexec_fn=drop_capabilities)
        assert process.returncode == 0
        assert "task-clock:u" in process.stderr
