"""record under load, in turns with perf: what is lost, what the recorder costs, how much memory it takes.

    python tests/bench/record_load.py [--rounds 3] [--seconds 2] [CASE...]

The load runs on its own; both record the whole machine for some seconds. CPU time is the recorder's (user and system,
start and end included), memory its peak; samples and losses are counted in the files. A line a case: medians, and
perfpy's CPU time to perf's.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from perfpy.abi.flags import RecordType
from perfpy.perfdata.reader import PerfData

if TYPE_CHECKING:
    from collections.abc import Iterator

SPIN = "import os\nfor _ in range((os.cpu_count() or 1) - 1):\n    if not os.fork(): break\nwhile True: pass"
SYSCALLS = "import os\nfor _ in range((os.cpu_count() or 1) - 1):\n    if not os.fork(): break\nwhile True: os.getppid()"
THREADS = """import threading, time
def work():
    while True: sum(range(2000)); time.sleep(0.05)
for _ in range(500): threading.Thread(target=work).start()"""
FORKS = """import os, time
while True:
    start = time.monotonic()
    for _ in range(200):
        pid = os.fork()
        if not pid: os._exit(0)
        os.waitpid(pid, 0)
    time.sleep(max(0.1 - (time.monotonic() - start), 0))"""
CASES = {
    "highest rate": (SPIN, "-e cpu-clock -F max"),
    "highest rate, call chains": (SPIN, "-e cpu-clock -F max -g"),
    "system calls": (SYSCALLS, "-e raw_syscalls:sys_enter"),
    "stacks at 5 kHz": (SPIN, "-e cpu-clock -F 5000 --call-graph dwarf"),
    "500 threads": (THREADS, "-e cpu-clock -g"),
    "2,000 forks a second": (FORKS, "-e cpu-clock -g"),
}


class Measured(NamedTuple):
    """One recording."""

    samples: int
    lost: int
    cpu: float
    memory: int


@contextmanager
def load(program: str) -> Iterator[None]:
    """The program runs, in a session of its own, until the end."""
    process = subprocess.Popen([sys.executable, "-S", "-c", program], start_new_session=True, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        os.killpg(process.pid, 9)
        process.wait()


def measure(recorder: list[str], options: str, seconds: float, path: Path) -> Measured:
    """Record, and look at the file."""
    line = [*recorder, "record", "-q", "-N", "-a", "-o", str(path), *options.split(), "--", "sleep", str(seconds)]
    with subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        memory = peak(process.pid)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        print(f"{' '.join(line)} ended with {process.returncode}; once more", file=sys.stderr)
        return measure(recorder, options, seconds, path)
    with PerfData(str(path)) as data:
        lost = sum(side.record.lost for side in data.side_band([RecordType.LOST_SAMPLES, RecordType.LOST]))
        measurement = Measured(data.record_index.sample_counts.total(), lost, usage.ru_utime + usage.ru_stime, memory)
    path.unlink()
    return measurement


def peak(pid: int) -> int:
    """The most memory that a process has until its end, in MB; asked for now and then (what wait4 says has our own in it)."""
    most = 0
    while True:
        try:
            match = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
        except OSError:
            return most >> 10
        if match is None:
            return most >> 10
        most = max(most, int(match[1]))
        time.sleep(0.05)


def run_in_turns(case: str, recorders: dict[str, list[str]], *, seconds: float, rounds: int) -> dict[str, list[Measured]]:
    """Return the measurements of each recorder beside the load of a case."""
    program, options = CASES[case]
    results: dict[str, list[Measured]] = {name: [] for name in recorders}
    with tempfile.TemporaryDirectory() as folder, load(program):
        for _ in range(rounds):
            for name, recorder in recorders.items():
                results[name].append(measure(recorder, options, seconds, Path(folder) / "perf.data"))
    return results


def main() -> None:
    """Print one line for each case."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("cases", nargs="*", default=[*CASES])
    options = parser.parse_args()
    recorders = {"perf": ["perf"], "perfpy": [sys.executable, "-m", "perfpy"]}
    for case in options.cases:
        results = run_in_turns(case, recorders, seconds=options.seconds, rounds=options.rounds)
        print(f"{case}: {'; '.join(f'{name} {told(runs)}' for name, runs in results.items())}; CPU {ratio(results):.2f}", flush=True)


def told(runs: list[Measured]) -> str:
    """The figures of one recorder."""
    lost = ", ".join(str(run.lost) for run in runs)
    median = Measured(*(statistics.median(column) for column in zip(*runs, strict=True)))
    return f"{median.samples:.0f} samples, lost {lost}, {median.cpu:.2f} s, {median.memory:.0f} MB"


def ratio(found: dict[str, list[Measured]]) -> float:
    """perfpy's CPU time to perf's, by pairs."""
    return statistics.median(ours.cpu / theirs.cpu for ours, theirs in zip(found["perfpy"], found["perf"], strict=True))


if __name__ == "__main__":
    main()
