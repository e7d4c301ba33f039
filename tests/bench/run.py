"""perfpy against perf, as ratios: python tests/bench/run.py [--samples N] [--rounds N] [NAME...]

Every line is one comparison in which both ran in turns on the same input:
below 1 perfpy is better. Needs perf and gcc; recordings are made on the spot.
Compare ratios, not times: machines differ, and so do their hours.
"""

from __future__ import annotations

import argparse
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.inputs import Inputs
from tests.bench.pairs import Cost, in_turns, run_once

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SCRIPT = Path(sys.executable).with_name("perfpy")  # python -m takes some milliseconds longer
PERFPY = [str(SCRIPT)] if SCRIPT.exists() else [sys.executable, "-m", "perfpy"]
_LIMITED = 'ulimit -v 400000; exec "$@"'  # in KiB: less than a recording of 10 M samples has
BUSY_LOOP = [sys.executable, "-c", "while True: sum(i * i for i in range(1000))"]


class Bench:
    """What all comparisons share."""

    def __init__(self, inputs: Inputs, perf: str, samples: int, rounds: int) -> None:
        self.inputs = inputs
        self.perf = perf
        self.samples = samples
        self.rounds = rounds

    def compare(self, title: str, args: Sequence[str], *, rounds: int | None = None) -> None:
        """The same arguments to both. (Peaks below this process's own memory cannot be seen: they are not shown.)"""
        ours, theirs = in_turns([*PERFPY, *args], [self.perf, *args], rounds or self.rounds)
        show(title, "time", ours.wall, theirs.wall, "s")
        show(title, "CPU", ours.cpu, theirs.cpu, "s")
        if min(ours.memory, theirs.memory) > 2 * own_memory():
            show(title, "memory", ours.memory, theirs.memory, "MB")


def own_memory() -> float:
    """The peak of this process's memory in MB, which its children inherit until they execute something."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def show(title: str, what: str, ours: float, theirs: float, unit: str) -> None:
    """One line: the ratio first."""
    ratio = f"{ours / theirs:7.2f}" if theirs else "      -"
    print(f"{ratio}  {title:<28} {what:<8} {ours:9.3f} {unit:<3} against {theirs:9.3f} {unit}", flush=True)


def bench_stat(bench: Bench) -> None:
    """perfpy stat -- true: starting up."""
    bench.compare("stat -- true", ["stat", "--", "true"], rounds=5 * bench.rounds)


def bench_record(bench: Bench) -> None:
    """perfpy record -- true: starting up, and ending."""
    output = str(bench.inputs.folder / "true.data")
    bench.compare("record -- true", ["record", "-q", "-o", output, "--", "true"], rounds=2 * bench.rounds)


def bench_list(bench: Bench) -> None:
    """perfpy list: every event of the machine."""
    bench.compare("list", ["list"])


def bench_system(bench: Bench) -> None:
    """perfpy record -a while two loops keep the CPUs busy: what the recorder costs, and what it loses."""
    loops = [subprocess.Popen(BUSY_LOOP) for _ in range(2)]
    try:
        costs: list[list[Cost]] = [[], []]
        paths = [bench.inputs.folder / "ours.data", bench.inputs.folder / "theirs.data"]
        for _ in range(bench.rounds):
            for recorder, path, costs_of_one in zip((PERFPY, [bench.perf]), paths, costs, strict=True):
                costs_of_one.append(run_once([*recorder, "record", "-q", "-a", "-F", "997", "-o", str(path), "--", "sleep", "5"]))
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    ours, theirs = (Cost(*map(min, zip(*costs_of_one, strict=True))) for costs_of_one in costs)
    show("record -a -F 997, 5 s", "CPU", ours.cpu, theirs.cpu, "s")
    lost = [_lost(bench.perf, path) for path in paths]
    show("record -a -F 997, 5 s", "lost", lost[0], lost[1], "")


def _lost(perf: str, path: Path) -> int:
    stats = subprocess.run([perf, "report", "--stats", "-i", path], capture_output=True, text=True, check=True).stdout
    return sum(map(int, re.findall(r"LOST\w* events: +(\d+)", stats)))


def bench_report(bench: Bench) -> None:
    """perfpy report --stdio of a large recording."""
    path = bench.inputs.recording(bench.samples)
    bench.compare(f"report, {bench.samples:,} samples", ["report", "--stdio", "-i", str(path)])


def bench_small(bench: Bench) -> None:
    """perfpy report --stdio of a small recording: what does not depend on its size."""
    path = bench.inputs.recording(1000, "-g", program="recursion")
    bench.compare("report, 1,000 samples", ["report", "--stdio", "-i", str(path)])


def bench_callgraph(bench: Bench) -> None:
    """perfpy report --stdio of a recording of a recursive program with callchains, with and without callers."""
    path = bench.inputs.recording(bench.samples, "-g", program="recursion")
    for options in ([], ["--no-children"]):
        title = " ".join(["report -g", *options, f"{bench.samples:,} samples"])
        bench.compare(title, ["report", "--stdio", *options, "-i", str(path)], rounds=1)


def bench_deep(bench: Bench) -> None:
    """perfpy report --stdio of chains of a hundred frames, which perf takes minutes for."""
    samples = bench.samples // 20
    path = bench.inputs.recording(samples, "-g")
    bench.compare(f"report of deep -g, {samples:,} samples", ["report", "--stdio", "-i", str(path)], rounds=1)


def bench_folded(bench: Bench) -> None:
    """perfpy report --folded against perf script with a script behind it."""
    path = bench.inputs.recording(bench.samples, "-g", program="recursion")
    script = Path(__file__).with_name("collapse.pl")
    theirs = ["sh", "-c", f"{bench.perf} script -i {path} | perl {script}"]
    ours, other = in_turns([*PERFPY, "report", "--folded", "-i", str(path)], theirs, 1)
    show(f"folded, {bench.samples:,} samples", "time", ours.wall, other.wall, "s")
    show(f"folded, {bench.samples:,} samples", "CPU", ours.cpu, other.cpu, "s")


def bench_memory(bench: Bench) -> None:
    """The memory of perfpy report for a recording against that for one of a tenth of its size, and both within a limit."""
    for options in ([], ["-g"]):
        small, large = (bench.inputs.recording(samples, *options, program="recursion") for samples in (bench.samples // 10, bench.samples))
        ours, less = (run_once(["sh", "-c", _LIMITED, "sh", *PERFPY, "report", "--stdio", "-i", str(path)]) for path in (large, small))
        show(" ".join(["ten times as many samples", *options]), "memory", ours.memory, less.memory, "MB")


def bench_script(bench: Bench) -> None:
    """perfpy script of a large recording."""
    path = bench.inputs.recording(bench.samples)
    bench.compare(f"script, {bench.samples:,} samples", ["script", "-i", str(path)], rounds=max(bench.rounds // 2, 1))


BENCHES: dict[str, Callable[[Bench], None]] = {
    name.removeprefix("bench_"): function for name, function in list(globals().items()) if name.startswith("bench_")
}


def main() -> int:
    """Run the comparisons that were named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[*BENCHES, []], help=", ".join(BENCHES))
    parser.add_argument("--samples", type=int, default=1_000_000, help="size of the large recordings")
    parser.add_argument("--rounds", type=int, default=5, help="how often each of a pair runs")
    options = parser.parse_args()
    perf = shutil.which("perf")
    if perf is None:
        print("there is no perf to compare with", file=sys.stderr)
        return 1
    with tempfile.TemporaryDirectory(prefix="perfpy-bench-") as folder:
        bench = Bench(Inputs(Path(folder), perf), perf, options.samples, options.rounds)
        print("  ratio  (below 1: perfpy is better)")
        for name in options.names or BENCHES:
            BENCHES[name](bench)
    return 0


if __name__ == "__main__":
    sys.exit(main())
