"""Slowdown of traced programs: perfpy trace beside perf trace and strace: python tests/bench/trace_slowdown.py [--turns 5].

Two programs: dd, which makes 200,000 small calls, and `git status` in a repository of 5,000 files. A small program starts each of
them below the tracer and measures the wall and CPU time of the traced program alone, without the tracer's start and without the printing
after its end. The table has the best of all turns, the slowdown, and the cost of each tracer as a multiple of the cost of `perfpy trace
-s`: the wall time of the traced program minus its time alone. The last columns have the wall and CPU time of everything, the tracer
included.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

_TIMER = """
import os, sys, time
began = time.monotonic()
child = os.posix_spawn(sys.argv[2], sys.argv[2:], os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, '/dev/null', os.O_WRONLY, 0)])
_, status, usage = os.wait4(child, 0)
seconds = time.monotonic() - began
open(sys.argv[1], 'w').write(f'{seconds} {usage.ru_utime + usage.ru_stime} {status}')
"""
_FILES = 5_000
_BASELINE = "alone"
_REFERENCE = "perfpy trace -s"


class Cost(NamedTuple):
    """Seconds of the traced program, and of everything from the tracer's start to its end."""

    wall: float
    cpu: float
    whole: float
    whole_cpu: float


def list_tracers() -> dict[str, list[str]]:
    """Return the command lines in front of the traced program. {} is the file of the output."""
    perfpy = [sys.executable, "-m", "perfpy", "trace", "-o", "{}"]
    tracers = {
        _BASELINE: [],
        "perf trace": ["perf", "trace", "-o", "{}", "--"],
        "perf7 trace": ["perf7", "trace", "-o", "{}", "--"],
        "perf trace -s": ["perf", "trace", "-s", "-o", "{}", "--"],
        "strace -f": ["strace", "-f", "-o", "{}"],
        "strace -c": ["strace", "-f", "-c", "-o", "{}"],
        "perfpy trace": [*perfpy, "--"],
        _REFERENCE: [*perfpy, "-s", "--"],
    }
    return {name: words for name, words in tracers.items() if not words or shutil.which(words[0])}


def measure(tracer: list[str], program: list[str], folder: Path) -> Cost:
    """Run the program once below the tracer."""
    seconds = folder / "seconds"
    seconds.unlink(missing_ok=True)
    timer = [sys.executable, "-I", "-S", "-c", _TIMER, str(seconds), *program]
    words = [word.format(folder / "output") for word in tracer]
    before = os.times()
    # outside of the checkout, Python would not find an uninstalled perfpy
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, [os.getcwd(), os.environ.get("PYTHONPATH", "")]))}
    run = subprocess.run([*words, *timer], env=environment, stderr=subprocess.PIPE, check=False, timeout=600)
    after = os.times()
    if not seconds.exists():
        sys.exit(f"{' '.join(words)}: {run.stderr.decode(errors='replace')}")
    wall, cpu, status = seconds.read_text().split()
    if status != "0":
        sys.exit(f"{program[0]} failed below {tracer[:1]}")
    whole_cpu = after.children_user + after.children_system - before.children_user - before.children_system
    return Cost(float(wall), float(cpu), after.elapsed - before.elapsed, whole_cpu)


def make_repository(folder: Path) -> None:
    """Commit 5,000 files in 100 folders."""
    for number in range(_FILES):
        path = folder / f"folder{number % 100}" / f"file{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{number}\n" * 10)
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "gc.auto=0"]
    for words in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "files"]):
        subprocess.run([*git, *words], check=True)


def main() -> None:
    """Print a table for each program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5, help="runs of each tracer")
    parser.add_argument("--count", type=int, default=100_000, help="reads and writes of dd")
    options = parser.parse_args()
    tracers = list_tracers()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_repository(folder / "repository")
        dd, git = (shutil.which(program) or sys.exit(f"{program} is missing") for program in ("dd", "git"))
        programs = {
            f"dd bs=1 count={options.count}": [dd, "if=/dev/zero", "of=/dev/null", "bs=1", f"count={options.count}"],
            f"git status, {_FILES} files": [git, "-C", str(folder / "repository"), "status"],
        }
        for title, program in programs.items():
            costs: dict[str, list[Cost]] = {tracer: [] for tracer in tracers}
            for _ in range(options.turns):
                for tracer, words in tracers.items():
                    costs[tracer].append(measure(words, program, folder))
            print_table(title, {tracer: Cost(*(min(column) for column in zip(*runs, strict=True))) for tracer, runs in costs.items()})


def print_table(title: str, best: dict[str, Cost]) -> None:
    """Print the best run of each tracer."""
    alone = best[_BASELINE]
    print(f"\n{title}, load {os.getloadavg()[0]:.1f}")
    print(f"{'tracer':<18}{'wall s':>9}{'slowdown':>10}{'CPU s':>9}{'slowdown':>10}{'cost':>8}{'all: wall s':>13}{'CPU s':>8}")
    reference = best[_REFERENCE].wall - alone.wall
    for tracer, cost in best.items():
        line = f"{tracer:<18}{cost.wall:>9.3f}{cost.wall / alone.wall:>9.1f}x{cost.cpu:>9.3f}{cost.cpu / alone.cpu:>9.1f}x"
        print(f"{line}{(cost.wall - alone.wall) / reference:>7.1f}x{cost.whole:>13.2f}{cost.whole_cpu:>8.2f}")


if __name__ == "__main__":
    main()
