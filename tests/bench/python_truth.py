"""Shares of functions and lines that record --python finds, beside what ten programs planted: python tests/bench/python_truth.py

Input: the CPythons of this machine. Output: a line a version and program: the largest difference in percentage points from
the planted shares, of functions and of lines, each with the standard error that the number of samples alone gives, started and attached,
and how many samples had exact callers; with --beside PATH those
of py-spy, attached. --wrong SAMPLES: how many callers were wrong in a program in which each function has one caller at one line.

Each program gives HEAVY and LIGHT their shares of its processor time, which each thread measures itself. HEAVY calls the same work
with 6 units at its first line and with 4 at its second; it measures the time of both, too, which beside other programs is not 60 to 40.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.builders.pythons import interpreter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

VERSIONS: Final = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14", "3.15")
_SECONDS: Final = 3  # of processor time
_LONGEST: Final = 90
_RATE: Final = "997"

#: unit(n): n units of work; each program defines one, and how parts run
_START: Final = """
import json, os, random, signal, sys, threading, time, zlib
took, lines = {"heavy": 0.0, "light": 0.0}, {"first": 0.0, "second": 0.0}
LIMIT = float(sys.argv[2])
def stop(*_):
    global LIMIT
    LIMIT = 0
def going(): return sum(took.values()) < LIMIT
signal.signal(signal.SIGTERM, stop)
def spin(n):
    x = 1
    for _ in range(n): x = (x * 1103515245 + 12345) & 0x7fffffff
    return x
DATA = os.urandom(512)
"""
_HEAVY: Final = """
def heavy():
    times = random.choice((1, 2, 3, 5))
    began = time.thread_time()
    unit(6 * times)
    middle = time.thread_time()
    unit(4 * times)
    lines["first"] += middle - began; lines["second"] += time.thread_time() - middle
def light():
    unit(random.choice((3, 5, 9)))
def measured(part):
    began = time.thread_time(); part(); took[part.__name__] += time.thread_time() - began
def run():
    while going():
        measured(light if took["heavy"] * 3 > took["light"] * 7 else heavy)
def one(part):
    while going(): measured(part)
"""
_END: Final = """
with open(sys.argv[1], "w") as file: json.dump([took, lines], file)
"""
_UNITS: Final = {
    "function": "def unit(n): spin(n * 300)",
    "extension": "def unit(n):\n    for _ in range(n): zlib.compress(DATA)",
    "generators": """
def numbers(n):
    for i in range(n): yield i
def squares(source):
    for i in source: yield i * i
def unit(n): sum(squares(numbers(n * 150)))""",
    "recursion": "def deep(n): return deep(n - 1) + 1 if n else spin(300)\ndef unit(n):\n    for _ in range(n): deep(150)",
    "short": "def tiny(n): return n + 1\ndef unit(n):\n    for i in range(n * 100): tiny(i)",
}
_THREADS: Final = """
threads = [threading.Thread(target=one, args=(part,)) for part in (heavy, light)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
_PROGRAMS: Final = {
    **{name: f"{_START}{unit}{_HEAVY}run()\n{_END}" for name, unit in _UNITS.items()},
    "threads": f"{_START}{_UNITS['function']}{_HEAVY}{_THREADS}{_END}",
    "gil": f"{_START}def unit(n):\n    for _ in range(n): spin(30); time.sleep(0)\n{_HEAVY}{_THREADS}{_END}",
    "numpy": f"{_START}import numpy\nA = numpy.ones(1500)\ndef unit(n):\n    for _ in range(n): numpy.sin(A)\n{_HEAVY}run()\n{_END}",
    "processes": f"""{_START}{_UNITS["function"]}{_HEAVY}
import multiprocessing
LIMIT /= 2
def child(queue): run(); queue.put((took, lines))
if __name__ == "__main__":
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    children = [context.Process(target=child, args=(queue,)) for _ in range(2)]
    for process in children: process.start()
    for _ in children:
        for part, of_child in zip((took, lines), queue.get()):
            for name, seconds in of_child.items(): part[name] += seconds
    for process in children: process.join()
    {_END.strip()}
""",
    "asyncio": f"""{_START}{_UNITS["function"]}{_HEAVY}
import asyncio
async def several():
    while going():
        measured(light if took["heavy"] * 3 > took["light"] * 7 else heavy)
        await asyncio.sleep(0)
async def main(): await asyncio.gather(several(), several())
asyncio.new_event_loop().run_until_complete(main())
{_END}""",
}


#: waits until a process has used some seconds of processor time since
_WAIT: Final = """
import os, sys, time
def used():
    with open(f"/proc/{sys.argv[1]}/stat") as file: fields = file.read().rpartition(")")[2].split()
    return (sum(map(int, fields[11:15]))) / os.sysconf("SC_CLK_TCK")
end = used() + float(sys.argv[2])
while used() < end: time.sleep(0.05)
"""


#: seconds in heavy and light, and in heavy's first and second line
Truth: TypeAlias = tuple[tuple[float, float], tuple[float, float]]


class Found(NamedTuple):
    """Shares that a profiler found: of heavy among both, of heavy's first line among its lines, in percent; what it said of itself."""

    heavy: float
    first_line: float
    samples: int
    said: str = ""


def main() -> None:
    """Run the programs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--versions", nargs="*", default=VERSIONS)
    parser.add_argument("--programs", nargs="*", default=[*_PROGRAMS])
    parser.add_argument("--ways", nargs="*", default=["started", "attached"])
    parser.add_argument("--beside", metavar="PATH", help="py-spy")
    parser.add_argument("--wrong", type=int, metavar="SAMPLES", help="count wrong callers among so many samples")
    parser.add_argument("--seconds", type=float, default=_SECONDS, help="of processor time for each recording")
    arguments = parser.parse_args()
    for version in arguments.versions:
        python = interpreter(version)
        if not python:
            print(f"{version:5} is not on this machine")
        elif arguments.wrong:
            print(f"{version:5} {_wrong(python, arguments.wrong)}", flush=True)
        else:
            for name in arguments.programs:
                print(
                    f"{version:5} {name:11} {_differences(python, name, arguments.ways, arguments.beside, arguments.seconds)}", flush=True
                )


def _differences(python: str, name: str, ways: list[str], beside: str | None, seconds: float) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        (path / "program.py").write_text(_PROGRAMS[name])
        if subprocess.run([python, "-c", "import numpy"], capture_output=True, check=False).returncode and name == "numpy":
            return "no numpy"
        texts = []
        all_ways = {"started": _started, "attached": _attached}
        for way, find in (*((way, all_ways[way]) for way in ways), *([("py-spy", _beside(beside))] if beside else [])):
            try:
                truth, result = find(python, path, seconds)
            except (subprocess.SubprocessError, OSError, ValueError, ZeroDivisionError) as error:
                texts.append(f"{way}: {type(error).__name__}")
                continue
            heavy, first = (100 * part[0] / sum(part) for part in truth)
            errors = [_binomial_error(heavy, result.samples), _binomial_error(first, result.samples * heavy / 100)]
            texts.append(
                f"{way}: {result.heavy - heavy:+5.1f} ({errors[0]:.1f}) {result.first_line - first:+5.1f} ({errors[1]:.1f})"
                f" of {result.samples} {result.said}"
            )
        return "  ".join(texts)


def _binomial_error(percent: float, samples: float) -> float:
    """Return the standard error of a share, in percentage points."""
    return math.sqrt(percent * (100 - percent) / samples) if samples else math.inf


def _started(python: str, folder: Path, seconds: float) -> tuple[Truth, Found]:
    record = _record("--", python, "program.py", "took.json", str(seconds), folder=folder)
    return _truth(folder), _of_recording(folder)._replace(said=record)


@contextlib.contextmanager
def _running(python: str, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run the program until the end of the block, also if that fails."""
    with subprocess.Popen([python, "program.py", "took.json", str(_LONGEST)], cwd=folder) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                for pid in (*_children(process.pid), process.pid):
                    os.kill(pid, signal.SIGKILL)


def _attached(python: str, folder: Path, seconds: float) -> tuple[Truth, Found]:
    with _running(python, folder) as process:
        time.sleep(0.5)
        children = _children(process.pid)
        pids = ",".join(map(str, [process.pid, *children]))
        waits = (sys.executable, "-c", _WAIT, str(children[0] if children else process.pid), str(seconds / max(len(children), 1)))
        record = _record("-p", pids, "--", *waits, folder=folder)
        _end(process)
    return _truth(folder), _of_recording(folder)._replace(said=record)


def _end(process: subprocess.Popen[bytes]) -> None:
    for pid in (*_children(process.pid), process.pid):
        os.kill(pid, signal.SIGTERM)
    process.wait(30)


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _beside(program: str) -> Callable[[str, Path, float], tuple[Truth, Found]]:
    def find(python: str, folder: Path, seconds: float) -> tuple[Truth, Found]:
        with _running(python, folder) as process:
            time.sleep(0.5)
            command = [
                program,
                "record",
                "-s",
                "-p",
                str(process.pid),
                "-d",
                str(math.ceil(seconds)),
                "-r",
                _RATE,
                "-f",
                "raw",
                "-o",
                "raw",
            ]
            subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=60)
            _end(process)
        stacks = [line.rsplit(" ", 1) for line in (folder / "raw").read_text().splitlines()]
        counts = {name: sum(int(count) for stack, count in stacks if f";{name} (" in f";{stack}") for name in ("heavy", "light")}
        lines = re.compile(r"heavy \(\S*program\.py:(\d+)\)")
        by_line: dict[int, int] = {}
        for stack, count in stacks:
            for line in lines.findall(stack):
                by_line[int(line)] = by_line.get(int(line), 0) + int(count)
        return _truth(folder), _found(counts, by_line, folder)

    return find


def _truth(folder: Path) -> Truth:
    functions, lines = json.loads((folder / "took.json").read_text())
    return (functions["heavy"], functions["light"]), (lines["first"], lines["second"])


def _record(*words: str, folder: Path) -> str:
    """Record; return the share of the samples of Python code that are exact, and that have callers of other moments, none, nothing."""
    command = [sys.executable, "-m", "perfpy", "record", "--python", "-o", "perf.data", "-e", "task-clock", "-F", _RATE, *words]
    process = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=120)
    line = next((line for line in process.stderr.splitlines() if "--python:" in line and "functions in" in line), "")
    samples_with_functions, total = map(int, re.findall(r"in (\d+) of (\d+) samples", line)[0])
    counts = {
        words: int(count) for count, words in re.findall(r"(\d+) (exact|with callers|without the|by the number|without Python)", line)
    }
    exact = counts.get("exact", samples_with_functions)
    less, none = samples_with_functions - exact, total - samples_with_functions
    return f"[{100 * exact / total:.1f}% exact, {100 * less / total:.1f}% less, {100 * none / total:.1f}% none]"


def _of_recording(folder: Path) -> Found:
    """Shares with what was called."""
    import perfpy
    from perfpy.symbols.files.debug_files import SymbolOptions

    symbols = SymbolOptions(fold_interpreters=True)
    with perfpy.open(folder / "perf.data") as recording:
        (shares,) = recording.source_files(symbols=symbols)
        (stacks,) = recording.stacks(symbols)
    by_line = {line.line: line.with_inlined for file in shares.files if file.path.endswith("program.py") for line in file.lines}
    counts = dict.fromkeys(("heavy", "light"), 0)
    for row, weight in enumerate(stacks.weight.tolist()):
        chain = int(stacks.chain[row])
        frames = stacks.frames[stacks.offsets[chain] : stacks.offsets[chain + 1]].tolist()
        for name in counts:
            counts[name] += weight * any(stacks.functions[frame].name.startswith(f"py::{name}:") for frame in frames)
    return _found(counts, by_line, folder, int(stacks.count.sum()))


def _found(counts: dict[str, int], by_line: dict[int, float] | dict[int, int], folder: Path, samples: int = 0) -> Found:
    text = (folder / "program.py").read_text().splitlines()
    first, second = (by_line.get(text.index(f"    unit({units} * times)") + 1, 0) for units in (6, 4))
    return Found(100 * counts["heavy"] / sum(counts.values()), 100 * first / (first + second), samples or sum(counts.values()))


_TREE_DEPTH, _TREE_WIDTH = 5, 3


def _tree() -> str:
    """A program in which each function has one caller, which calls it at one line."""
    lines = ["import random, time", f"END = time.time() + {_SECONDS * 10}"]

    def add(name: str, depth: int) -> None:
        lines.append(f"def f{name}(k):")
        if depth:
            for child in range(_TREE_WIDTH):
                lines.append(f"    if k % {_TREE_WIDTH} == {child}:")
                lines.append(f"        return f{name}_{child}(k // {_TREE_WIDTH})")
            for child in range(_TREE_WIDTH):
                add(f"{name}_{child}", depth - 1)
        else:
            lines.append("    for _ in range(5 + k % 7): k = k * 3 & 0xffff")
            lines.append("    return k")

    add("", _TREE_DEPTH)
    lines += [f"while time.time() < END: f(random.randrange({_TREE_WIDTH**_TREE_DEPTH * 100}))"]
    return "\n".join(lines)


def _wrong(python: str, samples: int) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        text = _tree()
        (path / "tree.py").write_text(text)
        lines = text.splitlines()
        where = {match[1]: number for number, line in enumerate(lines, 1) if (match := re.search(r"return (f[_0-9]*)\(", line))}
        frames = callers = wrong_callers = wrong_lines = checked = 0
        while checked < samples:
            command = [
                sys.executable,
                "-m",
                "perfpy",
                "record",
                "-q",
                "--python",
                "-o",
                "perf.data",
                "-e",
                "cpu-clock",
                "-F",
                "2999",
                "--",
                python,
                "tree.py",
            ]
            subprocess.run(command, cwd=path, check=True, capture_output=True, timeout=200)
            script = [sys.executable, "-m", "perfpy", "script", "-F", "ip,sym,srcline", "--no-inline"]
            out = subprocess.run(script, cwd=path, check=True, capture_output=True, text=True, timeout=300).stdout
            for block in out.split("\n\n"):
                chain = re.findall(r"py::(f[_0-9]*|<module>):\S+\s+tree\.py:(\d+)", block)
                checked += bool(chain)
                frames += len(chain)
                for (inner, _), (outer, line) in pairwise(chain):
                    expected = inner.rpartition("_")[0] if "_" in inner else "<module>"
                    callers += 1
                    wrong_callers += outer != expected
                    opened = line == str(next((n for n, text in enumerate(lines, 1) if text.startswith(f"def {outer}(")), 1))
                    wrong_lines += outer == expected and inner in where and not opened and int(line) != where[inner]
        return f"{checked} samples, {frames} frames: of {callers} callers {wrong_callers} wrong, {wrong_lines} at a wrong line"


if __name__ == "__main__":
    main()
