"""perfpy against perf, as one table of ratios: python tests/bench/run.py [--samples N] [--rounds N] [--instructions] [--keep] [NAME...]

A row is one comparison in which both ran in turns on the same input: below 1 perfpy is better. Compare ratios, not times, because
machines differ, and one machine differs from hour to hour; instructions repeat. A row tells if it is above its goal, and if perfpy
became slower than in the newest other version that tests/bench/history.tsv has for this machine; not if perf's own time differs from then
by a quarter, because ratios of recordings or machines that differ cannot be compared. --keep adds the rows to that file.

Needs perf and gcc; perf 7.3 as perf7, valgrind and distributed if some cases shall run. Recordings are made on the spot.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.cases import BENCHES, Bench, SkippedError
from tests.bench.inputs import Inputs
from tests.bench.table import HEADING, Row, append_history, last_of, read_history, this_machine, this_version


def main() -> int:
    """Run the comparisons that were named, or all. Return 1 if there is no perf, 0 otherwise, whatever the ratios are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*BENCHES, []], metavar="NAME", help=", ".join(BENCHES))
    parser.add_argument("--samples", type=int, default=1_000_000, help="size of the large recordings")
    parser.add_argument("--rounds", type=int, default=5, help="how often each command of a pair runs")
    parser.add_argument("--instructions", action="store_true", help="count the instructions of short commands with valgrind")
    parser.add_argument("--keep", action="store_true", help="add the rows to tests/bench/history.tsv")
    options = parser.parse_args()
    perfs = [perf for perf in (shutil.which("perf"), shutil.which("perf7")) if perf]
    if not perfs:
        print("there is no perf to compare with", file=sys.stderr)
        return 1
    rows: list[Row] = []
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="perfpy-bench-", dir="/var/tmp") as folder:
        bench = Bench(Inputs(Path(folder), perfs[0]), perfs, options.samples, options.rounds, counts_instructions=options.instructions)
        rows += _run(options.names or [*BENCHES], bench)
    print(f"# {time.monotonic() - began:.0f} s in all; load average now {os.getloadavg()[0]:.1f}")
    if options.keep:
        append_history(rows, this_version(), this_machine())
    return 0


def _run(names: list[str], bench: Bench) -> list[Row]:
    """Print the rows as they come, and return them."""
    history, version, machine = read_history(), this_version(), this_machine()
    print(f"# perfpy {version}, {machine}; load average {os.getloadavg()[0]:.1f}")
    print(HEADING)
    rows = []
    for name in names:
        try:
            for row in BENCHES[name](bench):
                rows.append(row)
                print(row.line(last_of(history, row.case, version, machine)), flush=True)
        except (SkippedError, RuntimeError) as error:
            print(f"# {name} is left out: {error}", flush=True)
    return rows


if __name__ == "__main__":
    sys.exit(main())
