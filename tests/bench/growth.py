"""How the time and the memory of a command grow when one thing in the recording grows fourfold: never more than fivefold.

    .venv/bin/python tests/bench/growth.py [NAME...] [--rounds 3]

Input: names of things (tests/builders/growing.py), all by default. Output: a row for each: CPU seconds at n and at 4n and
their ratio, perfpy's and, for reports where perf is installed, perf's; the best of some rounds in turns; perfpy's memory. The exit status
is 1 if perfpy's time or memory grows more than fivefold.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.pairs import Cost, run_once
from tests.builders.growing import GROWING, command_line

if TYPE_CHECKING:
    from collections.abc import Sequence

FACTOR, MOST = 4, 5.0
_LIMIT = "60"  # seconds; perf takes hours where its time is quadratic


def measure(name: str, folder: Path, rounds: int) -> tuple[list[Cost], list[Cost]]:
    """The costs at n and at 4n: perfpy's, and perf's (none where it is not installed, has no such command or takes too long)."""
    build, size, words = GROWING[name]
    costs: tuple[list[Cost], list[Cost]] = ([], [])
    for number in (size, FACTOR * size):
        here = folder / str(number)
        for path, data in build(number).items():
            (here / path).parent.mkdir(parents=True, exist_ok=True)
            (here / path).write_bytes(data)
        line = command_line(name, str(here))
        commands: list[Sequence[str]] = [[sys.executable, "-m", "perfpy", *line]]
        if words[:2] == ("report", "--stdio") and shutil.which("perf"):
            commands.append(["timeout", _LIMIT, "perf", *line])
        for command, least in zip(commands, costs, strict=False):
            try:
                least.append(min((run_once(command) for _ in range(rounds)), key=lambda cost: cost.cpu))
            except RuntimeError as failure:
                if command[0] != "timeout":
                    raise
                print(f"# {name}: {failure}", file=sys.stderr)
    return costs


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", choices=[[], *GROWING], metavar="NAME")
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    failed = False
    print(f"{'':16} {'n':>7} {'perfpy n':>9} {'4n':>7} {'ratio':>6} {'perf n':>9} {'4n':>7} {'ratio':>6} {'MB n':>6} {'4n':>6}")
    for name in chosen.names or GROWING:
        with tempfile.TemporaryDirectory(prefix="perfpy-growth-") as folder:
            ours, theirs = measure(name, Path(folder), chosen.rounds)
        failed |= ours[1].cpu > MOST * ours[0].cpu or ours[1].memory > MOST * ours[0].memory
        print(f"{name:16} {GROWING[name][1]:7,} {_row(ours)} {_row(theirs)} {ours[0].memory:6.0f} {ours[1].memory:6.0f}", flush=True)
    return int(failed)


def _row(costs: list[Cost]) -> str:
    times = [cost.cpu for cost in costs]
    if len(times) < 2:
        return f"{times[0]:8.2f}s {'-':>8} {'-':>6}" if times else f"{'-':>9} {'-':>8} {'-':>6}"
    return f"{times[0]:8.2f}s {times[1]:7.2f}s {times[1] / times[0]:6.1f}"


if __name__ == "__main__":
    sys.exit(main())
