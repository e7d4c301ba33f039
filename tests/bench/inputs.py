"""What the benchmarks read: recordings that the real perf makes here, of a busy program of several threads or a recursive one.

What enters: a folder and how many samples are wanted. What leaves: paths of
perf.data files, made once a run.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

FUNCTIONS = 150
PERIOD_NS = 25_000  # of cpu-clock: 40,000 samples a second and CPU
THREADS = 4
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

    def recording(self, samples: int, *options: str, program: str = "busy") -> Path:
        """A perf.data with at least so many samples. options: of perf record, besides event and period."""
        path = self.folder / f"{program}{samples}{''.join(options)}.data"
        work = _WORK[program]
        while not path.exists() or (have := self._count(path)) < samples:
            if path.exists():
                work *= 1.2 * samples / max(have, 1)
            self._record(path, options, [str(self.program(program)), f"{work:.0f}"])
        return path

    def _record(self, path: Path, options: tuple[str, ...], workload: list[str]) -> None:
        event = ["-e", "cpu-clock", "-c", str(PERIOD_NS), "-m", "4M"]
        command = [self._perf, "record", "-q", *event, *options, "-o", str(path), "--", *workload]
        subprocess.run(command, check=True, capture_output=True)

    def _count(self, path: Path) -> int:
        stats = subprocess.run([self._perf, "report", "--stats", "-i", path], capture_output=True, text=True, check=True).stdout
        match = re.search(r"SAMPLE events: +(\d+)", stats)
        return int(match[1]) if match else 0


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
