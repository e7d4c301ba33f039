"""Slowdown of a program by record --python, with a confidence interval: python tests/bench/python_slowdown.py

A program does the same work again and again, and prints the processor time and the wall time of each round. Rounds without and with a
profiler are made in turns A B B A, so that drift of the machine affects both alike. The result is the median of the differences within
pairs, in percent, with the 95 % confidence interval of that median (two of the differences, by rank: no assumption about the noise).

Output: a line for each program and profiler: slower by processor time and by wall time, and the profiler's own processor seconds for each
round, start and end included. The line "alone" has the same differences without a profiler: what this machine can resolve. With the
usual options it takes about five minutes on a quiet machine with two CPUs.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.python_cost import _PROGRAMS as PROGRAMS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

#: Reads the number of calls of a round, makes them, and prints the processor time (user + system) and the wall time.
_START: Final = """
import json, resource, sys, time
left = 0
def used():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime
def ends():
    global left
    left -= 1
    return left < 0
def rounds(work):
    global left
    for line in sys.stdin:
        left = int(line)
        wall, cpu = time.perf_counter(), used()
        work()
        print(used() - cpu, time.perf_counter() - wall, flush=True)
"""
_BEGIN: Final = 0.4  # seconds from the start of a profiler to the first round
_LONGEST_START: Final = 20.0
_95: Final = 1.96


class Round(NamedTuple):
    """What one round took, in seconds: processor time and wall time of the program, processor time of the profiler."""

    cpu: float
    wall: float
    profiler: float = 0.0


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", nargs="*", default=["objects", "json", "asyncio", "server"])
    parser.add_argument("--rates", nargs="*", type=int, default=[99])
    parser.add_argument("--py-spy", metavar="PATH", help="also measure py-spy, blocking and not")
    parser.add_argument("--seconds", type=float, default=0.3, help="of each round")
    parser.add_argument("--pairs", type=int, default=40, help="for each program and profiler, an even number")
    parser.add_argument("--python", default=sys.executable, help="the interpreter of the programs")
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # compiling perfpy takes longer than its whole start
    print(f"{'program':8} {'profiler':16} {'CPU time':>27} {'wall time':>27} {'own CPU':>8}", flush=True)
    for name in options.programs:
        with tempfile.TemporaryDirectory() as folder, _program(options.python, Path(folder), name) as program:
            calls = _calibrate(program, options.seconds)
            for profiler, command in {"alone": [], **_profilers(options.rates, options.py_spy)}.items():
                pairs = [pair for _ in range(options.pairs // 2) for pair in _pairs(program, Path(folder), calls, command)]
                print(f"{name:8} {profiler:16} {_result(pairs)}", flush=True)
    print("load", *os.getloadavg())


def _profilers(rates: Sequence[int], py_spy: str | None) -> dict[str, list[str]]:
    """Return the commands; PID is replaced."""
    commands = {}
    for rate in rates:
        record = [sys.executable, "-m", "perfpy", "record", "-q", "--python", "-e", "task-clock", "-F", str(rate)]
        commands[f"perfpy {rate}"] = [*record, "-o", "perf.data", "-p", "PID"]
        if py_spy:
            spy = [py_spy, "record", "-p", "PID", "-d", "3600", "-r", str(rate), "-f", "raw", "-o", "raw"]
            commands[f"py-spy {rate}"] = spy
            commands[f"py-spy {rate} nonbl."] = [*spy, "--nonblocking"]
    return commands


@contextlib.contextmanager
def _program(python: str, folder: Path, name: str) -> Iterator[subprocess.Popen[str]]:
    body = PROGRAMS[name].strip().splitlines()
    begin = next(number for number, line in enumerate(body) if line.startswith(("while not ends()", "asyncio.run", "threads =")))
    lines = [*body[:begin], "def all_calls():", *(f"    {line}" for line in body[begin:]), "rounds(all_calls)"]
    (folder / "program.py").write_text("\n".join([_START, *lines]))
    with subprocess.Popen([python, "program.py"], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        try:
            yield program
        finally:
            program.kill()


def _run_round(program: subprocess.Popen[str], calls: int) -> Round:
    requests, answers = _pipes(program)
    requests.write(f"{calls}\n")
    requests.flush()
    cpu, wall = map(float, answers.readline().split())
    return Round(cpu, wall)


def _pipes(program: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    assert program.stdin is not None
    assert program.stdout is not None
    return program.stdin, program.stdout


def _calibrate(program: subprocess.Popen[str], seconds: float) -> int:
    """Return how many calls fill a number of seconds of processor time."""
    calls = 100
    while (cpu := _run_round(program, calls).cpu) < seconds / 2:
        calls = int(calls * min(max(seconds / max(cpu, 1e-3), 1.5), 20))
    return max(int(calls * seconds / cpu), 1)


def _pairs(program: subprocess.Popen[str], folder: Path, calls: int, command: list[str]) -> list[tuple[Round, Round]]:
    """Return two pairs of a round alone and a round with the profiler, made in the order A B B A."""
    first = _run_round(program, calls)
    before = _used_by_children()
    with _attached(program.pid, folder, command):
        second, third = _run_round(program, calls), _run_round(program, calls)
    own = (_used_by_children() - before) / 2
    last = _run_round(program, calls)
    return [(first, second._replace(profiler=own)), (last, third._replace(profiler=own))]


@contextlib.contextmanager
def _attached(pid: int, folder: Path, command: list[str]) -> Iterator[None]:
    """Run the profiler during the block; without a command, nothing."""
    if not command:
        yield
        return
    recording = folder / "perf.data"
    recording.unlink(missing_ok=True)
    words = [str(pid) if word == "PID" else word for word in command]
    with subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as profiler:
        end = time.monotonic() + _LONGEST_START
        time.sleep(_BEGIN)
        while recording.name in words and not recording.exists() and time.monotonic() < end:
            time.sleep(0.02)
        try:
            yield
        finally:
            profiler.send_signal(signal.SIGINT)


def _used_by_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _result(pairs: list[tuple[Round, Round]]) -> str:
    texts = []
    for field in ("cpu", "wall"):
        differences = [100 * (getattr(profiled, field) / getattr(alone, field) - 1) for alone, profiled in pairs]
        low, high = median_interval(differences)
        texts.append(f"{statistics.median(differences):+6.2f} % ({low:+6.2f} to {high:+6.2f})")
    return f"{texts[0]:>27} {texts[1]:>27} {statistics.median(profiled.profiler for _, profiled in pairs):6.2f} s"


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % confidence interval of the median: two of the values by rank, by the normal approximation of the binomial."""
    ordered = sorted(values)
    half = _95 * math.sqrt(len(ordered)) / 2
    low = max(int(len(ordered) / 2 - half), 0)
    return ordered[low], ordered[-1 - low]


if __name__ == "__main__":
    main()
