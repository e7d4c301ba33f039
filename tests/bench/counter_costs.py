"""What a program pays to measure itself, against one in C: python tests/bench/counter_costs.py [--rounds N]

Both run in turns, and of each the least counts. Needs gcc and permission to
measure. Compare ratios, not times. read_user is there where the machine has a
PMU that user space may read; C's number beside it is that of its read(2).
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import perfpy

if TYPE_CHECKING:
    from collections.abc import Callable

SOURCE = Path(__file__).with_suffix(".c")
EVENTS = ("task-clock:u", "page-faults:u")
WANTED = {"read": 1.5, "group": 2, "open": 3, "re-entered": 5}


def main() -> None:
    """The table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory(prefix="perfpy-bench-") as folder:
        program = Path(folder) / "costs"
        subprocess.run(["gcc", "-O2", "-o", program, SOURCE], check=True)
        theirs: dict[str, float] = {}
        ours: dict[str, float] = {}
        for _ in range(rounds):
            keep_least(theirs, {name: float(cost) for name, cost in map(str.split, run(program).splitlines())})
            keep_least(ours, our_costs())
    for name, cost in ours.items():
        of = theirs[{"read_user": "read", "re-entered": "block"}.get(name, name)]
        limit = f"wanted {WANTED[name]}" if name in WANTED else ""
        print(f"{cost / of:7.2f}  {name:<12} {cost:9.3f} us  against {of:9.3f} us  {limit}".rstrip())
    overhead = perfpy.count("task-clock", "page-faults").overhead()["task-clock"]
    print(f"         an empty block counts {(overhead.value or 0) / 1000:.1f} us; count(..., net=True) leaves that out")


def run(program: Path) -> str:
    return subprocess.run([program], check=True, capture_output=True, text=True).stdout


def keep_least(known: dict[str, float], found: dict[str, float]) -> None:
    for name, cost in found.items():
        known[name] = min(cost, known.get(name, cost))


def our_costs() -> dict[str, float]:
    """CPU microseconds of each call."""
    costs = {}
    attr = perfpy.EventAttr(type=1, config=2, exclude_kernel=1, exclude_hv=1, read_format=3)
    # one is open all the time, as in C: the kernel patches itself for the first that counts a task
    with perfpy.Counter(attr) as counter, user_readable() as readable, perfpy.CounterGroup([attr] * 3) as group:
        costs["read"] = cost(counter.read, 20_000)
        if readable.read_user().from_page:
            costs["read_user"] = cost(readable.read_user, 20_000)
        costs["group"] = cost(group.read, 20_000)
        costs["open"] = cost(lambda: perfpy.Counter(attr).close(), 2_000)
        costs["block"] = cost(lambda: empty(perfpy.count(*EVENTS)), 300)
        region = perfpy.count(*EVENTS)
        costs["re-entered"] = cost(lambda: empty(region), 1_000)
    return costs


def user_readable() -> perfpy.Counter:
    """A counter that user space may read where there is one; on arm64 it has to be asked for."""
    for event in ("armv8_pmuv3/config=0x8,config1=3/", "instructions:u"):
        try:
            return perfpy.Counter.open(event)
        except perfpy.errors.PerfError:
            continue
    return perfpy.Counter.open("page-faults:u")


def empty(region: perfpy.Region) -> None:
    with region:
        pass


def cost(call: Callable[[], object], times: int) -> float:
    started = time.process_time_ns()
    for _ in range(times):
        call()
    return (time.process_time_ns() - started) / times / 1000


if __name__ == "__main__":
    main()
