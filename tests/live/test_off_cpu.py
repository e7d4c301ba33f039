"""record --off-cpu on this machine: a program's waits, in its functions, as long as it says itself."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import perfpy
from perfpy.abi.flags import RecordType, SampleType
from perfpy.abi.perfpy_encodings import OFF_CPU_EVENT
from tests.builders.hung import build_deadlock, hung
from tests.builders.prepared_start import PERFPY, output_of
from tests.builders.waiting import BUSY, WAITS, build, told

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="stacks of x86-64 are unwound here"),
    pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc"),
]

CHECKOUT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
TOLERANCE = 3.0  # points of the time that the main thread waited
WHOLE_MACHINE = ["-g", "-a", "-m", "32M", "--off-cpu-limit", "0"]  # the switches of all neighbours, however many
WITHOUT_TRACEPOINTS = """
import sys
from perfpy.capture import off_cpu_events
off_cpu_events._Sources.are_traceable = lambda self: False
from perfpy.cli import main
sys.exit(main())
"""


@pytest.fixture(scope="module")
def with_frame_pointers(tmp_path_factory: pytest.TempPathFactory) -> str:
    return build(tmp_path_factory.mktemp("fp"), "-fno-omit-frame-pointer")


@pytest.fixture(scope="module")
def without_frame_pointers(tmp_path_factory: pytest.TempPathFactory) -> str:
    return build(tmp_path_factory.mktemp("dwarf"), "-fomit-frame-pointer")


def record(folder: Path, program: str, *args: str, script: str = "") -> dict[str, int]:
    """Record the program; what it says of itself."""
    start = ["-c", script] if script else ["-m", "perfpy"]
    line = [
        sys.executable,
        *start,
        "record",
        "-q",
        "-N",
        "-o",
        "perf.data",
        "--off-cpu",
        "-e",
        "task-clock",
        *args,
        "--",
        program,
        str(folder / "file"),
    ]
    process = subprocess.run(line, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, timeout=300, check=False)
    assert process.returncode == 0, process.stderr
    return told(process.stdout)


def folded(folder: Path, *args: str) -> list[tuple[list[str], int]]:
    """Each stack, outermost function first, with its ns."""
    text = output_of([*PERFPY, "report", "--folded", "--with-off-cpu", *args], cwd=folder)
    output = (line.rpartition(" ") for line in text.splitlines())
    return [(stack.split(";"), int(weight)) for stack, _, weight in output]


def waited(folder: Path, thread: int) -> dict[str, int]:
    """How long a thread waited in each of the functions, in ns."""
    stacks = [(names, ns) for names, ns in folded(folder, "--tid", str(thread)) if names[-1].endswith(")]")]
    return {function: sum(ns for names, ns in stacks if function in names) for function in (*WAITS, BUSY)}


def agree(found: dict[str, int], said: dict[str, int]) -> bool:
    total = sum(said[name] for name in WAITS)
    apart = {name: 100 * (found[name] - said[name]) / total for name in WAITS}
    print(apart)
    return all(abs(points) <= TOLERANCE for points in apart.values())


@pytest.mark.system_wide
@pytest.mark.parametrize(
    ("program", "args", "script"),
    [
        ("with_frame_pointers", ["-g"], ""),
        ("with_frame_pointers", WHOLE_MACHINE, ""),
        ("without_frame_pointers", ["--unwind"], ""),
        ("without_frame_pointers", ["--call-graph", "dwarf"], ""),
        ("with_frame_pointers", [], WITHOUT_TRACEPOINTS),
    ],
    ids=["frame pointers", "whole machine", "unwound", "stacks of waits alone", "unprivileged"],
)
def test_waits_of_functions_equal_the_programs_own(tmp_path, request, program, args, script):
    path = request.getfixturevalue(program)
    for _ in range(3):  # where neighbours take the CPU away in libc, frame pointers do not tell on whose behalf
        output = record(tmp_path, path, *args, script=script)
        if agree(waited(tmp_path, output["pid"]), output):
            return
    pytest.fail("the shares are not those that the program says")


@pytest.mark.system_wide
def test_the_waker_of_a_lock_is_recorded(tmp_path, with_frame_pointers):
    output = record(tmp_path, with_frame_pointers, "-g")
    rows = report(tmp_path, "-s", "pid,state,waker,parent", "-p", "^for_lock$", "--tid", str(output["pid"]))
    of_lock = [row for row in rows if row["keys"]["parent"] == "for_lock" and row["keys"]["state"] == "S (sleeping)"]
    by_thread = sum(row["period"] for row in of_lock if row["keys"]["waker"].startswith("waiting:"))
    assert by_thread > 0.8 * sum(row["period"] for row in of_lock) > 0


HUNG_PYTHON = "import os, queue\ndef consume(jobs): jobs.get()\nos.write(1, b'x')\nconsume(queue.SimpleQueue())\n"


def hung_waits(folder: Path, command: list[str], option: str) -> dict[str, int]:
    """Record a program that does nothing any more; the nanoseconds that each function waited, including what it called."""
    with hung(command) as pid:
        line = [*PERFPY, "record", "-q", "-N", "-o", "perf.data", option, "--off-cpu", "-p", str(pid), "--", "sleep", "1"]
        subprocess.run(line, cwd=folder, timeout=60, check=True)
    waits: dict[str, int] = {}
    for stack, period in folded(folder):
        for name in set(stack):
            waits[name] = waits.get(name, 0) + period
    return waits


def test_threads_that_never_run_wait_all_the_time(tmp_path):
    waits = hung_waits(tmp_path, [build_deadlock(tmp_path)], "--unwind")
    seconds = {name: round(waits.get(name, 0) / 1e9, 1) for name in ("main", "transfer", "audit")}
    assert all(1.0 <= value < 2.5 for value in seconds.values()), seconds


def test_a_python_program_that_hangs_has_its_functions(tmp_path):
    waits = hung_waits(tmp_path, [sys.executable, "-c", HUNG_PYTHON], "--python")
    assert any("consume" in name and value > 9e8 for name, value in waits.items()), waits


@pytest.fixture
def no_idle_cpu():
    """Something runs on every CPU: what wakes a thread on a CPU that does nothing is not told by every kernel, to perf neither."""
    spin = ["nice", "-n", "19", sys.executable, "-c", "while True: pass"]
    programs = [subprocess.Popen(spin) for _ in os.sched_getaffinity(0)]
    yield
    for program in programs:
        program.kill()
        program.wait()


@pytest.mark.usefixtures("no_idle_cpu")
@pytest.mark.system_wide
@pytest.mark.thorough
def test_sleepers_are_woken_by_the_clock(tmp_path, with_frame_pointers):
    for _ in range(3):  # neighbours may switch so often that something is lost
        output = record(tmp_path, with_frame_pointers, *WHOLE_MACHINE)
        rows = report(tmp_path, "-s", "pid,state,waker,parent", "-p", "^asleep$", "--tid", str(output["pid"]))
        asleep = [row for row in rows if row["keys"]["parent"] == "asleep"]
        assert {row["keys"]["state"] for row in asleep} <= {"S (sleeping)", "R (ready)"}
        by_clock = sum(row["period"] for row in asleep if row["keys"]["waker"] == "[interrupt]")
        if by_clock > 0.8 * sum(row["period"] for row in asleep):
            return
    pytest.fail("who woke it is not known")


def report(folder: Path, *args: str) -> list[dict[str, Any]]:
    text = output_of([*PERFPY, "report", "--json", "--no-children", *args], cwd=folder)
    (table,) = (event for event in json.loads(text)["events"] if event["events"][0]["name"] == OFF_CPU_EVENT)
    assert table["events"][0]["seconds"] == table["events"][0]["period"] / 1e9
    rows: list[dict[str, Any]] = table["rows"]
    return rows


@pytest.mark.system_wide
def test_time_on_the_cpu_is_unchanged_by_off_cpu(tmp_path, with_frame_pointers):
    output = record(tmp_path, with_frame_pointers, "-g")
    on_cpu = sum(ns for names, ns in folded(tmp_path, "--tid", str(output["pid"])) if not names[-1].endswith(")]"))
    assert on_cpu == pytest.approx(output["cpu"], rel=0.25)
    with perfpy.open(tmp_path / "perf.data") as recording:
        clock, waits = recording.events
        assert (clock.name, waits.name) == ("task-clock", OFF_CPU_EVENT)
        who = SampleType.TID | SampleType.TIME | SampleType.CPU | SampleType.IDENTIFIER
        assert clock.attr.sample_type & who == waits.attr.sample_type & who == who  # records about both events end alike
        assert (clock.attr.watermark, clock.attr.context_switch, waits.attr.context_switch) == (0, 0, 0)
        assert not list(recording.side_band([RecordType.SWITCH, RecordType.SWITCH_CPU_WIDE]))


@pytest.mark.skipif(not shutil.which("perf"), reason="needs perf")
@pytest.mark.system_wide
def test_perf_reads_the_file(tmp_path, with_frame_pointers):
    output = record(tmp_path, with_frame_pointers, "-g")
    script = perf(tmp_path, "script", "-F", "tid,period,event,ip,sym")
    blocks = [block.split("\n") for block in script.split("\n\n") if f" {OFF_CPU_EVENT}:" in block]
    lines = [(block[0].split(), [line.split()[1] for line in block[1:] if line.strip()]) for block in blocks]
    asleep = sum(int(head[1]) for head, names in lines if int(head[0]) == output["pid"] and "asleep" in names)
    assert asleep == pytest.approx(output["asleep"], rel=0.25)  # the program counts its waits for a CPU, too
    assert output_of([*PERFPY, "script"], cwd=tmp_path) == perf(tmp_path, "script")
    assert OFF_CPU_EVENT in perf(tmp_path, "evlist")
    assert "out of order" not in perf(tmp_path, "report", "--stdio", "-s", "symbol", merged=True)


def perf(folder: Path, *args: str, merged: bool = False) -> str:
    process = subprocess.run(["perf", *args, "-i", "perf.data"], cwd=folder, capture_output=True, text=True, timeout=300, check=True)
    return process.stdout + (process.stderr if merged else "")


SWITCHES = r"""
#define _GNU_SOURCE
#include <pthread.h>
#include <time.h>
#include <unistd.h>
#define PAIRS 4
static double seconds(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec * 1e-9; }
static int to[PAIRS][2], from[PAIRS][2];
static void *answer(void *pair)
{
    char byte;
    while (read(to[(long)pair][0], &byte, 1) == 1) write(from[(long)pair][1], &byte, 1);
    return 0;
}
static void *ask(void *pair)
{
    char byte = 1;
    double begin = seconds();
    for (long turn = 1; seconds() < begin + 2; turn++) {
        write(to[(long)pair][1], &byte, 1);
        read(from[(long)pair][0], &byte, 1);
        double ahead = begin + turn * 2.0 * PAIRS / 25000 - seconds();
        if (ahead > 0.002) usleep(ahead * 1e6);
    }
    close(to[(long)pair][1]);
    return 0;
}
int main(void)
{
    pthread_t threads[2 * PAIRS];
    for (long pair = 0; pair < PAIRS; pair++) {
        if (pipe(to[pair]) || pipe(from[pair])) return 1;
        pthread_create(&threads[2 * pair], 0, ask, (void *)pair);
        pthread_create(&threads[2 * pair + 1], 0, answer, (void *)pair);
    }
    for (int one = 0; one < 2 * PAIRS; one++) pthread_join(threads[one], 0);
    return 0;
}
"""


def test_at_25000_switches_a_second_beside_other_load_nothing_is_lost(tmp_path):
    """Stacks are a sample of the switches; neither the time off the CPU nor samples of the CPU time are lost for them."""
    (tmp_path / "switches.c").write_text(SWITCHES)
    subprocess.run(["gcc", "-O1", "-o", "switches", "switches.c", "-lpthread"], cwd=tmp_path, check=True)
    load = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(8)]
    try:
        line = [*PERFPY, "record", "-N", "--unwind", "--off-cpu", "-o", "perf.data", "--", "./switches"]
        process = subprocess.run(line, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=300, check=False)
    finally:
        for one in load:
            one.kill()
            one.wait()
    assert process.returncode == 0, process.stderr
    assert "lost" not in process.stderr
    with perfpy.open(str(tmp_path / "perf.data")) as recording:
        assert not [*recording.data.side_band([RecordType.LOST, RecordType.LOST_SAMPLES])]
    rows = report(tmp_path, "-s", "symbol")
    unnamed = sum(row["period"] for row in rows if row["keys"]["symbol"].endswith("[unknown]"))
    assert unnamed < 0.2 * sum(row["period"] for row in rows), "waits without a stack have that of similar ones"


@pytest.mark.system_wide
@pytest.mark.thorough
def test_storms_of_switches_are_limited_and_their_time_is_kept(tmp_path):
    storm = (
        "import os, time\n"
        "a, b = os.pipe(), os.pipe()\n"
        "if not os.fork():\n"
        "    os.close(a[1]); os.close(b[0])\n"
        "    while os.read(a[0], 1): os.write(b[1], b'x')\n"
        "end = time.monotonic() + 1.5\n"
        "while time.monotonic() < end:\n"
        "    os.write(a[1], b'x'); os.read(b[0], 1)\n"
        "os.close(a[1]); os.wait()"
    )
    line = [
        sys.executable,
        "-m",
        "perfpy",
        "record",
        "-N",
        "-o",
        "perf.data",
        "--off-cpu",
        "--off-cpu-limit",
        "100",
        "--",
        sys.executable,
        "-c",
        storm,
    ]
    process = subprocess.run(line, cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=300, check=False)
    assert process.stderr.count("--off-cpu-limit") == 1, process.stderr
    assert "by the stacks of similar waits" in process.stderr
    rows = report(tmp_path, "-s", "pid")
    assert sum(row["period"] for row in rows) > 1e9  # one of the two always waits


def test_latency_needs_nothing_but_the_option(tmp_path, with_frame_pointers):
    record(tmp_path, with_frame_pointers, "--latency")
    assert "Latency" in output_of([*PERFPY, "report", "--stdio", "--latency", "-s", "parallelism"], cwd=tmp_path)


FAULTS = """import mmap, os, threading, time
def touch(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        with mmap.mmap(-1, 1 << 20) as memory:
            for offset in range(0, 1 << 20, 4096): memory[offset] = 1
def second():
    touch(0.2); time.sleep(0.3)
    print(threading.get_native_id(), time.thread_time(), flush=True)
thread = threading.Thread(target=second)
thread.start(); touch(0.4); thread.join()
print(threading.get_native_id(), time.thread_time(), flush=True)
"""


def test_periods_of_an_event_sum_to_the_run_time_of_its_threads(tmp_path):
    """Page faults are no clock; the program's threads say how much CPU time they took."""
    line = [sys.executable, "-m", "perfpy", "record", "-q", "-N", "-o", "perf.data", "--off-cpu", "-e", "page-faults", "-F", "5000", "--"]
    process = subprocess.run(
        [*line, sys.executable, "-S", "-c", FAULTS], cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=300, check=True
    )
    output = [float(text.split()[1]) for text in process.stdout.splitlines()]
    assert len(output) == 2
    assert on_cpu_seconds(tmp_path) == pytest.approx(sum(output), rel=0.15)


def on_cpu_seconds(folder: Path) -> float:
    line = [*PERFPY, "report", "--with-off-cpu", "--json", "-s", "state", "-g", "none", "--no-children"]
    rows = json.loads(output_of(line, cwd=folder))["events"][0]["rows"]
    return sum(float(row["seconds"]) for row in rows if row["keys"]["state"] == "on CPU")
