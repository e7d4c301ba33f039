"""perfpy trace on this machine: calls of programs and running processes, file names, and nothing left behind."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.live

TRACE = [sys.executable, "-m", "perfpy", "trace"]


@pytest.fixture(autouse=True)
def _tracepoints():
    if not os.access("/sys/kernel/tracing/events/raw_syscalls/sys_enter/id", os.R_OK):
        pytest.skip("the tracepoints of system calls are not readable here")


def trace(*words: str, timeout: float = 60) -> list[str]:
    process = subprocess.run([*TRACE, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, check=False)
    assert process.returncode == 0, process.stderr
    return process.stderr.splitlines()


def test_the_calls_of_a_program_are_printed_from_its_exec_to_its_exit():
    lines = trace("--", "true")

    assert re.match(r" +\? \( +\): true/\d+  \.\.\. \[continued\]: execve\(\)\) += 0$", lines[0])
    assert re.search(r"true/\d+ exit_group\(\) += \?$", lines[-1])


def test_descriptors_have_their_files_and_structures_their_contents():
    lines = trace("-e", "openat,close,fstat,newfstatat", "--", "cat", "/etc/passwd")

    opened = [line for line in lines if "openat(" in line and "passwd" in line]
    if not opened:
        pytest.skip("the kernel refuses BPF programs that read file names")
    number = opened[0].rsplit("= ", 1)[1]
    assert any(f"close(fd: {number}</etc/passwd>)" in line for line in lines)
    size = os.stat("/etc/passwd").st_size
    assert any(f": {number}</etc/passwd>" in line and f".st_size: {size} }}" in line for line in lines)


def test_tables_count_all_calls():
    lines = trace("-s", "--", "dd", "if=/dev/zero", "of=/dev/null", "bs=1", "count=1000")

    counts = {words[0]: int(words[1]) for words in map(str.split, lines) if len(words) == 8 and words[1].isdecimal()}
    assert counts["read"] >= 1000
    assert counts["write"] >= 1000


def test_a_running_process_is_traced():
    with subprocess.Popen([sys.executable, "-c", "import os,time\nwhile True: os.getppid(); time.sleep(0.01)"]) as program:
        try:
            time.sleep(0.3)
            lines = trace("-p", str(program.pid), "-e", "getppid", "--max-events", "5")
        finally:
            program.kill()

    assert len(lines) == 5
    assert all(f"/{program.pid} getppid()" in line for line in lines)


def test_with_other_targets_the_command_is_the_duration():
    """-a -- CMD traces all tasks as long as CMD runs; so does -p PID -- CMD."""
    with subprocess.Popen([sys.executable, "-c", "import os,time\nwhile True: os.getppid(); time.sleep(0.01)"]) as program:
        try:
            time.sleep(0.3)
            lines = trace("-p", str(program.pid), "-e", "getppid,exit_group", "--", "sleep", "0.5")
            of_all = trace("-a", "-e", "getppid", "--", "sleep", "0.5")
        finally:
            program.kill()

    assert lines
    assert all(f"/{program.pid} getppid()" in line for line in lines)
    assert any(f"/{program.pid} getppid()" in line for line in of_all)


def test_other_events_stand_between_the_calls():
    lines = trace("-e", "clock_nanosleep,nanosleep,sched:sched_switch", "--", "sleep", "0.05")

    (begin,) = (line for line in lines if "nanosleep(" in line and line.endswith("..."))
    if "rqtp: 0x" not in begin:  # without permission for BPF programs
        assert "rqtp: { .tv_sec: 0, .tv_nsec: 50000000 }" in begin
    assert any("sched:sched_switch(prev_comm:" in line for line in lines)


def test_page_faults_name_the_code_and_the_file():
    """-F prints faults only; the tables count them."""
    lines = trace("-F", "all", "-S", "--", "true")

    faults = [line for line in lines if " minfault [" in line or " majfault [" in line]
    assert any(re.search(r"true/\d+ m\w\wfault \[[\w.@]+\+0x[0-9a-f]+\] => /.*@0x[0-9a-f]+ \(d\.\)$", line) for line in faults)
    assert not any("mmap(" in line for line in lines)
    assert any(re.search(rf"true \(\d+\), {len(faults)} events, 100.0%(, \d+ m\w\wfaults)+$", line) for line in lines)


def test_a_probe_of_a_list_exists_while_its_program_is_traced():
    """The probe's hits stand between the calls, and the probe is removed at the end."""
    events = Path("/sys/kernel/tracing/uprobe_events")
    if not os.access(events, os.W_OK):
        pytest.skip("this kernel takes no uprobes from this user")
    maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    library = next((line.split()[-1] for line in maps.splitlines() if re.search(r"/libc[.-][^/\s]*so[^/\s]*$", line)), "")
    if not library:
        pytest.skip("this Python has no libc.so")
    program = [sys.executable, "-c", "import os; os.getppid()"]
    lines = trace("-e", f"getppid,uprobe:{library}:getppid", "--", *program)

    hits = [re.search(r" (probe_\w+_by\d+):getppid\(__probe_ip: \d+\)$", line) for line in lines]
    assert [bool(hit) for hit in hits] == [True, False]
    assert hits[0] is not None
    assert hits[0][1] not in events.read_text(encoding="utf-8")


@pytest.mark.parametrize("words", [["--call-graph", "dwarf"], ["--max-stack", "2"], ["--min-stack", "3"], ["--kernel-syscall-graph"]])
def test_callchains_follow_the_calls(words):
    """A call has its callers below it; limits of frames ask for callchains, too."""
    lines = trace(*words, "-e", "openat", "--", "cat", "/etc/passwd")

    calls = [index for index, line in enumerate(lines) if "openat(" in line]
    frames = [
        [line for line in lines[begin + 1 : end] if line.startswith(" " * 39)] for begin, end in zip(calls, [*calls[1:], None], strict=True)
    ]
    assert calls
    assert all(re.match(r" {39}\S.* \(.*\)$", frame) for chain in frames for frame in chain)
    assert any("([kernel.kallsyms])" in chain[0] for chain in frames if chain) == (words == ["--kernel-syscall-graph"])
    depths = [len(chain) for chain in frames]
    assert min(depths) >= 3 if "--min-stack" in words else max(depths) <= 2 or "--max-stack" not in words


def test_tables_have_the_time_on_a_cpu():
    """--sched adds the run time of each thread."""
    lines = trace("--sched", "-s", "--", sys.executable, "-c", "sum(range(3_000_000))")

    (took,) = (float(line.split()[-2]) for line in lines if re.search(r", \d+\.\d{3} msec$", line))
    assert 5 < took < 5000


def test_a_limit_of_frames_below_the_minimum_is_refused():
    """--min-stack beyond --max-stack prints nothing, so it is an error."""
    process = subprocess.run(
        [*TRACE, "--min-stack", "5", "--max-stack", "2", "true"], capture_output=True, text=True, timeout=60, check=False
    )
    assert (process.returncode, len(process.stderr.splitlines())) == (129, 1)


def test_a_table_by_file_counts_the_bytes_read():
    """Descriptors are followed also if -e names only read: its file is known by open, dup and the like."""
    size = os.stat("/etc/passwd").st_size
    lines = trace("-e", "read", "--by", "path", "--", "cat", "/etc/passwd")

    rows = [line.split() for line in lines if line.endswith(" /etc/passwd")]
    if not rows:
        pytest.skip("the kernel refuses BPF programs that read file names")
    assert [(int(row[0]), int(row[-2])) for row in rows] == [(2, size)]


def test_recorded_calls_are_printed_again(tmp_path):
    path = tmp_path / "calls.data"
    subprocess.run([*TRACE, "record", "-o", path, "--", "true"], check=True, capture_output=True, timeout=60)

    lines = trace("-i", str(path))

    assert any("exit_group()" in line for line in lines)
    assert any("mmap(" in line for line in lines)


def test_a_killed_trace_leaves_no_program_behind(tmp_path):
    """A later trace works, and nothing is attached: BPF programs end with the process."""
    with subprocess.Popen([*TRACE, "-a", "-o", tmp_path / "out"], stderr=subprocess.DEVNULL) as running:
        time.sleep(1)
        running.kill()

    assert trace("--", "true")


def test_a_page_has_the_calls_of_each_thread(tmp_path):
    """--html writes a page in place of lines; a recording makes the same one."""
    live = trace("--html", str(tmp_path / "live.html"), "--", "true")
    text = (tmp_path / "live.html").read_text(encoding="utf-8")

    assert [line for line in live if not line.startswith(("[ perfpy: wrote ", "note: "))] == []
    assert "execve" in text
    assert "mmap(" in text
