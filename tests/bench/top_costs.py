"""CPU time of `perfpy top` and `perf top`, in turns, and the time until the first table: python tests/bench/top_costs.py [--seconds 40].

Three kinds of work: an idle machine, `make -j4` of generated C files, and a program on each CPU sampled 4,000 times a second. Each pair of
runs takes twice --seconds. CPU time includes the start, which is printed apart as the CPU time of a run that ends after its first table.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_TABLE_ROW = re.compile(rb"\s+\d+\.\d\d%")
_PROGRAMS = {"perf": ["perf"], "perfpy": [sys.executable, "-m", "perfpy"]}
_FILES = 64  # of the make
_FUNCTIONS = 300  # in each file
_LONGEST_START = 60.0  # seconds


class Cost(NamedTuple):
    """One run: seconds until the first table, of CPU time, and the most memory in MB."""

    first: float
    cpu: float
    memory: float


def measure(program: list[str], options: list[str], seconds: float) -> Cost:
    """Run top for some seconds; 0: until its first table."""
    began = time.monotonic()
    # stdbuf: into a pipe, perf would write once several tables fill its buffer
    command = ["stdbuf", "-oL", *program, "top", "--stdio", "-a", "-d", "2", *options]
    # perf prints its key menu for ever if its input is at the end
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    first, end, text = 0.0, began + (seconds or _LONGEST_START), b""
    while time.monotonic() < end and not (first and not seconds):
        time.sleep(0.02)
        with contextlib.suppress(BlockingIOError):
            text = text[-200:] + (process.stdout.read() or b"")
        if not first and _TABLE_ROW.search(text):
            first = time.monotonic() - began
    process.send_signal(signal.SIGTERM)
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = 0
    return Cost(first, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


@contextlib.contextmanager
def work(kind: str) -> Iterator[None]:
    """Let the machine work."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        started: list[subprocess.Popen[bytes]] = []
        if kind == "make -j4":
            body = "\n".join(f"int f{number}(int x) {{ return x * {number} + (x >> 3); }}" for number in range(_FUNCTIONS))
            for number in range(_FILES):
                Path(folder, f"part{number}.c").write_text(body)
            rule = f"all: {' '.join(f'part{number}.o' for number in range(_FILES))}\n%.o: %.c\n\tgcc -O2 -c -o $@ $<\n"
            Path(folder, "Makefile").write_text(rule)
            loop = "while :; do rm -f *.o; make -s -j4; done"
            started.append(subprocess.Popen(["sh", "-c", loop], cwd=folder, start_new_session=True))
        elif kind == "busy CPUs":
            spin = ["sh", "-c", "while :; do :; done"]
            started += [subprocess.Popen(spin, start_new_session=True) for _ in range(os.cpu_count() or 1)]
        for process in started:
            stack.callback(process.wait)
            stack.callback(os.killpg, process.pid, signal.SIGKILL)
        yield


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=40.0, help="of each run")
    parser.add_argument("--pairs", type=int, default=1, help="runs of each program for each kind of work")
    options = parser.parse_args()
    print(f"{'work':<16}{'options':<12}{'program':<10}{'first table s':>14}{'its CPU s':>11}{'CPU s':>8}{'MB':>6}{'load':>7}")
    for kind, words in (("idle", []), ("make -j4", []), ("busy CPUs", ["-F", "4000"]), ("make -j4", ["-g"])):
        for _ in range(options.pairs):
            costs = {}
            for name, program in _PROGRAMS.items():
                with work(kind):
                    start = measure(program, words, 0)
                    costs[name] = whole = measure(program, words, options.seconds)
                line = f"{kind:<16}{' '.join(words):<12}{name:<10}{start.first:>14.2f}{start.cpu:>11.2f}{whole.cpu:>8.2f}"
                print(f"{line}{whole.memory:>6.0f}{os.getloadavg()[0]:>7.1f}", flush=True)
            print(f"{'':<16}{'':<12}{'ratio':<10}{'':>25}{costs['perfpy'].cpu / max(costs['perf'].cpu, 0.01):>8.2f}", flush=True)


if __name__ == "__main__":
    main()
