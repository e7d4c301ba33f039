"""Recordings for the benchmarks, made here by the real perf: of a busy program of several threads, a recursive one, and Python."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.bench.many_hosts import Hosts
from tests.builders import intel_pt
from tests.builders.growing import nested_mappings

FUNCTIONS = 150
PERIOD_NS = 25_000  # of cpu-clock: 40,000 samples a second and CPU
STACK_PERIOD_NS = 250_000  # of copied stacks, of which a sample has 8 KB
THREADS = 4
_DRAWS = 100  # of a small recording
_RECURSION = Path(__file__).with_name("recursion.c")
_WORK = {"busy": 1.0, "recursion": 20.0}  # how much to do at first


class Inputs:
    """Recordings in a folder. perf: the perf that records them."""

    def __init__(self, folder: Path, perf: str) -> None:
        self.folder = folder
        self._perf = perf

    def program(self, name: str) -> Path:
        """A program that does as much as its argument says.

        busy: threads that call each other's functions in ever new orders, for
        some seconds; recursion: see recursion.c.
        """
        program = self.folder / name
        if not program.exists():
            source = self.folder / f"{name}.c"
            source.write_text(_source() if name == "busy" else _RECURSION.read_text())
            subprocess.run(["gcc", "-O1", "-fno-omit-frame-pointer", "-pthread", "-o", program, source], check=True)
        return program

    def recording(self, samples: int, *options: str, program: str = "busy", period: int = PERIOD_NS) -> Path:
        """Return a perf.data with at least a number of samples. options: of perf record, besides event and period."""
        path = self.folder / f"{program}{samples}{''.join(options)}.data"
        work = _WORK[program]
        while not path.exists() or (have := self._count(path)) < samples:
            if path.exists():
                work *= 1.2 * samples / max(have, 1)
            self._record(path, [*options, "-c", str(period)], [str(self.program(program)), f"{work:.0f}"])
        return path

    def small(self, samples: int) -> Path:
        """Return a perf.data with exactly a number of samples (a multiple of four), drawn from a larger one.

        At least one of them is in the kernel: without one, perf reads no symbols of the kernel, which is most of its work for a small
        file. On an idle machine few samples of the program are.
        """
        path = self.folder / f"small{samples}.data"
        if not path.exists():
            hosts = Hosts(self.recording(20_000).read_bytes(), per_mille=0)
            draws = (hosts.write(self.folder, number, samples) for number in range(_DRAWS))
            drawn = next(filter(self._hits_kernel, draws), None)
            if drawn is None:
                raise RuntimeError("no sample of the program is in the kernel")
            drawn.rename(path)
        return path

    def _hits_kernel(self, path: Path) -> bool:
        command = [self._perf, "script", "-F", "ip", "-i", str(path)]
        addresses = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        return any(int(address, 16) >> 63 for address in addresses)

    def stacks(self, samples: int) -> Path:
        """Return a perf.data with at least a number of copied stacks."""
        return self.recording(samples, "--call-graph", "dwarf", period=STACK_PERIOD_NS)

    def user_only(self) -> Path:
        """Return a perf.data of about 1,000 samples of user space alone: perf reads no symbols of the kernel for it."""
        path = self.folder / "user.data"
        if not path.exists():
            self._record(path, ["-c", "1000000"], [str(self.program("busy")), "0"], event="cpu-clock:u")
        return path

    def nested_mappings(self, count: int) -> Path:
        """Return a perf.data with mappings of which each lies in the one before it."""
        path = self.folder / "nested.data"
        if not path.exists():
            path.write_bytes(nested_mappings(count)["perf.data"])
        return path

    def tool(self, tool: str, *workload: str) -> Path:
        """Return the recording that `perf TOOL record` makes of a workload."""
        path = self.folder / f"{tool.replace(' ', '-')}{len(workload[-1])}.data"
        if not path.exists():
            # perf kmem and timechart have no -o, and record into a pipe if standard output is one.
            command = [self._perf, *tool.split(), "record", *workload]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=self.folder)
            (self.folder / "perf.data").rename(path)
        return path

    def switches(self, events: int) -> Path:
        """Return a recording of the scheduler with about a number of events: of two threads that wake each other."""
        path = self.folder / f"sched{events}.data"
        if not path.exists():
            workload = [self._perf, "bench", "sched", "pipe", "-T", "-l", str(events // 5)]
            subprocess.run([self._perf, "sched", "record", "-o", path, "--", *workload], check=True, capture_output=True)
        return path

    def system_calls(self, events: int) -> Path:
        """Return a recording of the system calls of dd with about a number of events."""
        path = self.folder / f"trace{events}.data"
        if not path.exists():
            workload = ["dd", "if=/dev/zero", "of=/dev/null", "bs=1", f"count={events // 4}"]
            subprocess.run([self._perf, "trace", "record", "-o", path, "--", *workload], check=True, capture_output=True)
        return path

    def trace(self, megabytes: int, *, has_cycles: bool) -> Path:
        """Return an Intel PT recording: the trace of one run of a program, again and again, each time later."""
        path = self.folder / f"pt{megabytes}{'cycles' if has_cycles else ''}.data"
        if not path.exists():
            source = Path(intel_pt.__file__).with_name("traced_programs") / "recursion.c"
            program = self.folder / "traced"
            subprocess.run(["gcc", "-O1", "-static", "-o", program, source], check=True)
            steps = intel_pt.single_step(self.folder, [str(program)])
            options = intel_pt.Options(
                seed=2, cyc=has_cycles, cpus=1, psb_bytes=1 << 14, piece=4_000_000, runs_of_bytes=megabytes * 1_000_000
            )
            path.write_bytes(intel_pt.pt_recording(steps, options)[0])
        return path

    def interpreter(self) -> Path:
        """Return a perf.data of this Python at work."""
        path = self.folder / "interpreter.data"
        if not path.exists():
            self._record(path, ["-c", "1000000"], [sys.executable, "-S", "-c", _PYTHON_WORK])
        return path

    def _record(self, path: Path, options: list[str], workload: list[str], *, event: str = "cpu-clock") -> None:
        command = [self._perf, "record", "-q", "-e", event, "-m", "4M", *options, "-o", str(path), "--", *workload]
        subprocess.run(command, check=True, capture_output=True)

    def _count(self, path: Path) -> int:
        stats = subprocess.run([self._perf, "report", "--stats", "-i", path], capture_output=True, text=True, check=True).stdout
        match = re.search(r"SAMPLE events: +(\d+)", stats)
        return int(match[1]) if match else 0


_PYTHON_WORK = """
import json, re
words = [str(number) for number in range(2000)]
for number in range(60):
    text = json.dumps({word: [word, number, {"key": word}] for word in words})
    values = json.loads(text)
    re.findall("[0-9]+", text)
    sorted(values, key=lambda word: word[::-1])
"""


def _source() -> str:
    """C: a row of functions of which each calls some of those before it."""
    functions = ["static long work0(long n) { for (volatile int i = 0; i < 40; i++) n = n * 31 + i; return n; }"]
    for number in range(1, FUNCTIONS):
        near, far = number - 1, number * 7 % number
        functions.append(
            f"__attribute__((noinline)) long work{number}(long n) {{ for (volatile int i = 0; i < 20; i++) n += i ^ n;"
            f" return (n & 3) ? work{near}(n >> 1) + {number} : work{far}(n + {number}); }}"
        )
    return _MAIN.replace("FUNCTIONS", "\n".join(functions)).replace("LAST", f"work{FUNCTIONS - 1}").replace("THREADS", str(THREADS))


_MAIN = """
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
FUNCTIONS
static double seconds;
static void *run(void *seed) {
    long n = (long)seed;
    struct timespec now, end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += (long)seconds + 1;
    do {
        for (int i = 0; i < 200; i++) n = LAST(n + i);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while (now.tv_sec < end.tv_sec);
    return (void *)n;
}
int main(int argc, char **argv) {
    pthread_t threads[THREADS];
    seconds = argc > 1 ? atof(argv[1]) : 1;
    for (long i = 0; i < THREADS; i++) pthread_create(&threads[i], 0, run, (void *)i);
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], 0);
    return 0;
}
"""
