"""Cost of Python profilers for programs and for themselves: python tests/bench/python_cost.py --tools FOLDER

Eight programs, recorded by perfpy --python, attached and started, and by the other profilers found in FOLDER (py-spy, austin; scalene and
cProfile of its python). A program runs for some seconds of processor time and counts its rounds. A line for each program and profiler: how
many percent more processor time a round took than in the program alone, and processor seconds of the profiler for the whole recording,
start and end included. Programs run in turns; the numbers are medians, with the smallest and largest.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

_START: Final = """
import json, resource, sys, time
def clock(): return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
began = clock()  # profilers in the same process have started
LIMIT, rounds = began + float(sys.argv[2]), 0
def ends():
    global rounds
    rounds += 1
    return clock() >= LIMIT
"""
_END: Final = """
with open(sys.argv[1], "w") as file: json.dump([rounds, clock() - began], file)
"""
_PROGRAMS: Final = {
    "objects": """
class Task:
    def __init__(self, number): self.number, self.queue, self.count = number, [], 0
    def take(self, packet):
        self.count += 1
        packet[0] += self.number
        return packet
class Scheduler:
    def __init__(self): self.tasks = [Task(n) for n in range(10)]
    def run(self):
        packet = [0]
        for _ in range(20):
            for task in self.tasks: packet = task.take(packet)
        return packet
scheduler = Scheduler()
while not ends(): scheduler.run()
""",
    "json": """
TEXT = json.dumps([{"key": str(n), "values": list(range(8)), "more": {"a": n, "b": None}} for n in range(50)])
while not ends(): json.loads(TEXT)
""",
    "asyncio": """
import asyncio
async def step(n):
    await asyncio.sleep(0)
    return sum(range(n))
async def main():
    while not ends(): await asyncio.gather(*(step(n) for n in range(20)))
asyncio.run(main())
""",
    "server": """
import io, threading, urllib.parse, wsgiref.util, wsgiref.handlers
def application(environ, start_response):
    query = urllib.parse.parse_qs(environ["QUERY_STRING"])
    body = json.dumps({"path": environ["PATH_INFO"], "query": query, "items": [{"n": n} for n in range(20)]}).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]
def request():
    environ = {"PATH_INFO": "/items", "QUERY_STRING": "a=1&b=2&c=x%20y"}
    wsgiref.util.setup_testing_defaults(environ)
    handler = wsgiref.handlers.SimpleHandler(io.BytesIO(), io.BytesIO(), io.StringIO(), environ)
    handler.run(application)
def work():
    while not ends(): request()
threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
""",
    "log": """
import logging, logging.handlers
logger = logging.getLogger("app")
logger.addHandler(logging.handlers.MemoryHandler(100, target=logging.NullHandler()))
logger.propagate = False
while not ends():
    for number in range(100): logger.warning("%s", json.dumps({"user": number, "path": "/items", "took": number / 7, "tags": ["a", "b"]}))
""",
    "pandas": """
import pandas
frame = pandas.DataFrame({"key": [n % 97 for n in range(20000)], "value": range(20000)})
names = pandas.DataFrame({"key": range(97), "name": [str(n) for n in range(97)]})
while not ends(): frame.merge(names, on="key").groupby("name")["value"].apply(lambda values: values.max() - values.min())
""",
    "children": """
import subprocess
while not ends(): subprocess.run([sys.executable, "-c", "sum(range(100000))"], check=True)
""",
    "threads": """
import threading
def work():
    while not ends(): sum(n * n for n in range(2000))
threads = [threading.Thread(target=work) for _ in range(4)]
for thread in threads: thread.start()
for thread in threads: thread.join()
""",
}


class Cost(NamedTuple):
    """Processor seconds of the program for one round, and of the profiler."""

    per_round: float
    profiler: float


def main() -> None:
    """Run the programs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tools", type=Path, required=True, help="folder with python and profilers")
    parser.add_argument("--programs", nargs="*", default=[*_PROGRAMS])
    parser.add_argument("--only", nargs="*", help="names of profilers")
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # compiling perfpy takes longer than its whole start
    python = str(options.tools / "python")
    profilers = {name: words for name, words in _profilers(options.tools).items() if not options.only or name in options.only}
    for name in options.programs:
        if name == "pandas" and subprocess.run([python, "-c", "import pandas"], capture_output=True, check=False).returncode:
            print(f"{name:8} left out: {python} does not have it")
            continue
        costs: dict[str, list[Cost]] = {}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder)
            (path / "program.py").write_text(f"{_START}{_PROGRAMS[name]}{_END}")
            for _ in range(options.turns):
                for profiler, words in {"alone": [], **profilers}.items():
                    costs.setdefault(profiler, []).append(_cost(python, path, words, options.seconds))
        alone = statistics.median(cost.per_round for cost in costs["alone"])
        for profiler, result in costs.items():
            slower = sorted(100 * (cost.per_round / alone - 1) for cost in result)
            own = sorted(cost.profiler for cost in result)
            texts = [f"{statistics.median(values):7.2f} ({values[0]:.2f} to {values[-1]:.2f})" for values in (slower, own)]
            print(f"{name:8} {profiler:20} slower by % {texts[0]:28} profiler {texts[1]}", flush=True)
    print("load", *os.getloadavg())


def _profilers(tools: Path) -> dict[str, list[str]]:
    """Return the commands; PID, SECONDS and PROGRAM are replaced."""
    commands = {}
    for rate in (99, 999):
        perfpy = [sys.executable, "-m", "perfpy", "record", "-q", "--python", "-e", "task-clock", "-F", str(rate), "-o", "perf.data"]
        commands[f"perfpy {rate}"] = [*perfpy, "-p", "PID"]
        commands[f"perfpy {rate} started"] = [*perfpy, "--", str(tools / "python"), "PROGRAM"]
        if (tools / "py-spy").exists():
            py_spy = [str(tools / "py-spy"), "record", "-p", "PID", "-d", "SECONDS", "-r", str(rate), "-f", "raw", "-o", "raw"]
            commands[f"py-spy {rate}"] = py_spy
            commands[f"py-spy {rate} nonbl."] = [*py_spy, "--nonblocking"]
        if (tools / "austin").exists():
            commands[f"austin {rate}"] = [str(tools / "austin"), "-i", str(1_000_000 // rate), "-o", "austin", "-p", "PID"]
    if (tools / "scalene").exists():
        commands["scalene"] = [str(tools / "python"), "-m", "scalene", "run", "--cpu-only", "-o", "scalene.json", "PROGRAM"]
    commands["cProfile"] = [str(tools / "python"), "-m", "cProfile", "-o", "profile", "PROGRAM"]
    return commands


def _cost(python: str, folder: Path, words: list[str], seconds: float) -> Cost:
    """Run the program once beside a profiler."""
    (folder / "took.json").unlink(missing_ok=True)
    program = ["program.py", "took.json", str(seconds)]
    before = _used()
    if "PROGRAM" in words:
        command = [part for word in words for part in (program if word == "PROGRAM" else [word])]
        subprocess.run(command, cwd=folder, capture_output=True, timeout=300, check=False)
    else:
        with subprocess.Popen([python, *program], cwd=folder) as process:
            time.sleep(0.2)
            replaced = {"PID": str(process.pid), "SECONDS": str(int(seconds * 20))}
            command = [replaced.get(word, word) for word in words]
            profiler = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) if command else None
            process.wait(300)
            if profiler is not None:
                profiler.wait(60)
    rounds, used = json.loads((folder / "took.json").read_text())
    return Cost(used / rounds, _used() - before - used)


def _used() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
