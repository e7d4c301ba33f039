"""How the time of a report grows when one thing in the recording grows fourfold: never more than fivefold.

    .venv/bin/python tests/bench/growth.py [NAME...] [--rounds 3]

Input: names of things (tests/builders/growing.py), all by default. Output: a row for each: CPU seconds at n and at 4n and
their ratio, perfpy's and, where perf is installed, perf's; the best of some rounds in turns. The exit status is 1 if perfpy's time
grows more than fivefold.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.pairs import run_once
from tests.builders.growing import GROWING

if TYPE_CHECKING:
    from collections.abc import Sequence

FACTOR, MOST = 4, 5.0
_LIMIT = "60"  # seconds; perf takes hours where its time is quadratic


def measure(name: str, folder: Path, rounds: int) -> tuple[list[float], list[float]]:
    """CPU seconds at n and at 4n: perfpy's, and perf's (none where it is not installed or takes too long)."""
    build, size, options = GROWING[name]
    times: tuple[list[float], list[float]] = ([], [])
    for number in (size, FACTOR * size):
        for path, data in build(number).items():
            whole = folder / str(number) / path
            whole.parent.mkdir(parents=True, exist_ok=True)
            whole.write_bytes(data)
        here = folder / str(number)
        line = ["report", "--stdio", "-i", str(here / "perf.data"), "--symfs", str(here), *options]
        commands: list[Sequence[str]] = [[sys.executable, "-m", "perfpy", *line]]
        if shutil.which("perf"):
            commands.append(["timeout", _LIMIT, "perf", *line])
        for command, durations in zip(commands, times, strict=False):
            try:
                durations.append(min(run_once(command).cpu for _ in range(rounds)))
            except RuntimeError as failure:
                if command[0] != "timeout":
                    raise
                print(f"# {name}: {failure}", file=sys.stderr)
    return times


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", choices=[[], *GROWING], metavar="NAME")
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    failed = False
    print(f"{'':16} {'n':>7} {'perfpy n':>9} {'4n':>7} {'ratio':>6} {'perf n':>9} {'4n':>7} {'ratio':>6}")
    for name in chosen.names or GROWING:
        with tempfile.TemporaryDirectory(prefix="perfpy-growth-") as folder:
            ours, theirs = measure(name, Path(folder), chosen.rounds)
        failed |= ours[1] > MOST * ours[0]
        print(f"{name:16} {GROWING[name][1]:7,} {_row(ours)} {_row(theirs)}", flush=True)
    return int(failed)


def _row(times: list[float]) -> str:
    if len(times) < 2:
        return f"{times[0]:8.2f}s {'-':>8} {'-':>6}" if times else f"{'-':>9} {'-':>8} {'-':>6}"
    return f"{times[0]:8.2f}s {times[1]:7.2f}s {times[1] / times[0]:6.1f}"


if __name__ == "__main__":
    sys.exit(main())
