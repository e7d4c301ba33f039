"""The figures of the documents, measured anew: python tests/bench/figures.py [--rounds N] [--minutes N] [--large] [NAME...]

Each line has a figure as README.md or man/topics/performance.md states it, and what this machine gives now: the median, and half the
distance between the quartiles, and whether the two agree within a quarter. `sizes` prints the table of an installation, `small` the ratios
of commands of small recordings, `unwinding` the sizes of recordings, `others` the commands for the figures that take longer, or need other
programs. --large measures recordings of 3 to 10 million samples, too, which take minutes and gigabytes. Ratios are perfpy's cost divided by
that of perf 6.12 (7.3 for trace), which ran in turns with it. Run it on a machine without other work: the load is in the first line. It
begins with its plan: all fits into --minutes, with fewer rounds of the longest; before each step the rest is planned anew, and what there
is no time for is named as not measured.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench import trace_slowdown
from tests.bench.cases import BENCHES, Bench, SkippedError
from tests.bench.inputs import Inputs
from tests.bench.pairs import Comparison, run_once
from tests.bench.plan import NotMeasuredError, Step, benchmark, bounded, plan_lines, planned
from tests.bench.table import this_machine, this_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CHECKOUT: Final = Path(__file__).resolve().parents[2]
PAGES: Final = ("README.md", "man/topics/performance.md")
_TOLERANCE: Final = 1.25  # machines and their load differ


class Figure(NamedTuple):
    """A figure of the documents.

    Attributes:
        row: the beginning of the table's row that states it.
        bench: the function of tests/bench/cases.py that measures it, and the beginning of its case.
        samples: the size of the recording.
        part: of the row's figures, which a semicolon divides.
    """

    row: str
    bench: str
    case: str
    samples: int = 1_000_000
    part: int = 0


FIGURES: Final = (
    Figure("| `stat -- true`", "stat", "stat"),
    Figure("| `list`", "list", "list"),
    Figure("| `record -- true`", "record", "record"),
    Figure("| `record -a -F 997`, 5 s", "system", "record -a"),
    Figure("| `report`, 1,000 samples", "small", "report of 1,000"),
    Figure("| `report`, 1,000,000 samples", "report", "report"),
    Figure("| `report`, 10,000,000 samples", "report", "report", 10_000_000),
    Figure("| `report -g`, 1,000,000 samples", "callgraph", "report -g 1"),
    Figure("| `report -g`, 3,000,000 samples", "callgraph", "report -g 3", 3_000_000),
    Figure("| `report`, `script` of 10,000 copied stacks", "dwarf", "report of 10,000"),
    Figure("| `script`, 1,000,000 samples", "script", "script, "),
    Figure("| `script`, 3,000,000 samples with callchains", "script", "script of callchains", 3_000_000),
    Figure("| `record -a --call-graph dwarf -F 5000`", "recorders", "record, stacks"),
    Figure("| `sched latency`", "scheduler", "sched latency, 1"),
    Figure("| `sched latency`", "scheduler", "sched latency, 10", 10_000_000, part=1),
    Figure("| `sched timehist`:", "scheduler", "sched timehist, 1"),
    Figure("| `sched timehist`:", "scheduler", "sched timehist, 10", 10_000_000, part=1),
    Figure("| `sched timehist -s`, `map`", "scheduler", "sched timehist -s, 1"),
    Figure("| `sched timehist -s`, `map`", "scheduler", "sched map, 1"),
    Figure("| `sched timehist -s`, `map`", "scheduler", "sched timehist -s, 10", 10_000_000, part=1),
    Figure("| `sched timehist -s`, `map`", "scheduler", "sched map, 10", 10_000_000, part=1),
    Figure("| `trace -s`", "system_calls", "trace -s"),
    Figure("| `trace -s`", "system_calls", "trace -s", 8_000_000, part=1),
    Figure("| `trace -i`", "system_calls", "trace 5"),
    Figure("| `trace -i`", "system_calls", "trace 4", 8_000_000, part=1),
    Figure("| `data convert --to-json`", "conversion", "data convert"),
)
OTHERS: Final = {
    "the tables of recordings larger than memory": "large_file.py SEED OUT --gigabytes 10, then perfpy report -g --stdio",
    "the costs of Python profilers": "python_cost.py --tools FOLDER, of pip install --target FOLDER py-spy scalene",
    "the accuracy of Python's functions and lines": "python_truth.py",
    "reported differences of equal programs, and of equal groups of hosts": "group_power.py",
    "Arm SPE": "tests/builders/arm_spe.py: spe_recording() of two random_trace() of 78,125 and 781,250 records, by both",
    "Intel PT": "recordings of the simulated machine: script --itrace=be and report --itrace=i1000i by both",
    "recordings of many hosts (perfpy help cluster)": "many_hosts.py SEED FOLDER --hosts 1000",
    "perfpy top": "top_costs.py",
}


def unmeasured() -> list[str]:
    """Return the rows of ratios in the documents that no figure measures and `others` does not name; figures without row or step.

    >>> unmeasured()
    []
    """
    begins = (*(figure.row for figure in FIGURES), *(f"| {name}" for name in OTHERS))
    steps = {(step.name, step.samples) for step in RATIO_STEPS}
    rows = [figure.row for figure in FIGURES if not stated(figure.row) or (figure.bench, figure.samples) not in steps]
    for page in PAGES:
        tables = re.split(r"(?m)^\|(?: compared[^|]*)? \| CPU time \| memory \|\n", (CHECKOUT / page).read_text())[1:]
        rows += [line for table in tables for line in table.split("\n\n")[0].splitlines()[1:] if not line.startswith(begins)]
    return rows


def stated(row: str) -> list[str]:
    """Return the rows of the documents that begin so."""
    return [line for page in PAGES for line in (CHECKOUT / page).read_text().splitlines() if line.startswith(row)]


def judged(rows: list[str], ratio: float, part: int = 0) -> str:
    """Return whether the CPU times that the documents state agree with a ratio. part: see Figure.

    >>> judged(["| `list` | 0.9 to 1.1 | |"], 1.2), judged(["| `script` | 0.45, at first | 1.0 |"], 0.7)
    ('agrees', 'DIFFERS')
    >>> judged(["| `sched`: a million; ten | 0.8 to 1.4; 0.3 | |"], 1.2, part=1)
    'DIFFERS'
    """
    for row in rows:
        numbers = [float(number) for number in re.findall(r"\d+\.?\d*", row.split("|")[2].split(";")[part].split(",")[0])]
        if not min(numbers) / _TOLERANCE <= ratio <= max(numbers) * _TOLERANCE:
            return "DIFFERS"
    return "agrees"


def _ratios_of(step: Step, inputs: Inputs, rounds: int) -> Iterator[str]:
    """Yield the ratios of one benchmark, below the rows of the tables that state them."""
    figures = [figure for figure in FIGURES if (figure.bench, figure.samples) == (step.name, step.samples)]
    perf = "perf7" if step.name == "system_calls" and shutil.which("perf7") else "perf"  # 6.12 crashes on files of trace
    bench = Bench(inputs, [perf], step.samples, rounds)
    try:
        rows = list(BENCHES[step.name](bench))
    except (SkippedError, RuntimeError) as error:
        yield f"    not measured: {error}"
        return
    for figure in figures:
        stated_rows = stated(figure.row)
        yield from stated_rows
        for row in rows:
            if row.case.startswith(figure.case):
                values = ", ".join(f"{measure} {_with_spread(row.costs, measure)}" for measure in ("cpu", "wall", "memory"))
                seconds, pairs = row.costs.median("cpu", ours=True), len(row.costs.ours)
                verdict = judged(stated_rows, row.costs.ratio("cpu"), figure.part)
                yield f"    {row.case}: {values}; {seconds:.3f} s of CPU, {pairs} pairs: {verdict}"


def _with_spread(costs: Comparison, measure: str) -> str:
    return f"{costs.ratio(measure):.2f} +-{costs.spread(measure):.0%}"


def starts(options: argparse.Namespace) -> Iterator[str]:
    """Yield the CPU time of Python's start, and of perfpy's shortest commands."""
    perfpy = str(Path(sys.executable).with_name("perfpy"))
    numpy = "from perfpy.cli.line.numpy_start import prepare_numpy as prepare\nprepare()\nimport numpy"
    for command in ([sys.executable, "-c", "pass"], [sys.executable, "-c", numpy], [perfpy, "stat", "--", "true"]):
        run_once(command)
        costs = [run_once(command).cpu for _ in range(4 * options.rounds)]
        lower, middle, upper = (1000 * seconds for seconds in statistics.quantiles(costs, n=4))
        shown = " ".join(["python" if word == sys.executable else Path(word).name for word in command]).replace("\n", "; ")
        yield f"    {shown}: {middle:.0f} ms of CPU, quartiles {lower:.0f} and {upper:.0f}"


def unwinding(_options: argparse.Namespace) -> Iterator[str]:
    """Yield the stacks and sizes of recordings of one program: unwound while recording, and with copied stacks."""
    perfpy = str(Path(sys.executable).with_name("perfpy"))
    with tempfile.TemporaryDirectory(prefix="perfpy-figures-", dir="/var/tmp") as folder:
        program = Inputs(Path(folder), "perf").program("busy")
        for recorder, option in ((perfpy, "--unwind"), (perfpy, "--call-graph=dwarf"), ("perf", "--call-graph=dwarf")):
            path = Path(folder) / "perf.data"
            subprocess.run([recorder, "record", "-q", "-F", "999", option, "-o", path, "--", program, "1"], check=True, capture_output=True)
            stats = subprocess.run([perfpy, "report", "--stats", "-i", path], capture_output=True, text=True, check=True).stdout
            samples = re.search(r"SAMPLE events: +(\d+)", stats)
            yield f"    {Path(recorder).name} record {option}: {samples[1] if samples else 0} stacks in {path.stat().st_size:,} bytes"


def small(options: argparse.Namespace) -> Iterator[str]:
    """Yield the ratios of commands of small recordings, of which the start is the largest part."""
    with tempfile.TemporaryDirectory(prefix="perfpy-figures-", dir="/var/tmp") as folder:
        for row in BENCHES["small_tools"](Bench(Inputs(Path(folder), "perf"), ["perf"], 1000, options.rounds)):
            yield f"    {row.case}: cpu {_with_spread(row.costs, 'cpu')}; {row.costs.median('cpu', ours=True):.3f} s of CPU"


def slowdowns(options: argparse.Namespace) -> Iterator[str]:
    """Yield the table of trace_slowdown.py."""
    command = [sys.executable, trace_slowdown.__file__, "--turns", str(options.rounds)]
    yield from subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def sizes(_options: argparse.Namespace) -> Iterator[str]:
    """Yield the table of an installation: each distribution with its files, and the modules that pip compiles."""
    pending, seen = ["perfpy"], dict[str, tuple[str, float, float]]()
    while pending:
        name = pending.pop(0)
        if name in seen:
            continue
        try:
            distribution = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:  # only needed by another version of Python
            continue
        files = [path for file in distribution.files or () if os.path.isfile(path := str(file.locate()))]
        megabytes = {path: os.path.getsize(path) / 1e6 for path in files}
        compiled = sum(size for path, size in megabytes.items() if path.endswith(".pyc"))
        seen[name] = distribution.version, sum(megabytes.values()) - compiled, compiled
        pending += [re.match(r"[\w.-]+", text)[0] for text in distribution.requires or () if "extra ==" not in text]  # type: ignore[index]
    yield "| distribution | files, MB | compiled modules, MB |"
    for name, (version, plain, compiled) in sorted(seen.items(), key=lambda item: -item[1][1]):
        yield f"| {name} {version} | {plain:.1f} | {compiled:.1f} |"
    yield f"| all | {sum(one[1] for one in seen.values()):.0f} | {sum(one[2] for one in seen.values()):.0f} |"
    if "site-packages" not in str(importlib.metadata.distribution("perfpy").locate_file("perfpy")):
        yield "    perfpy is installed in place (-e): its own files are not counted"


def others(_options: argparse.Namespace) -> Iterator[str]:
    """Yield the figures that this script does not measure, and the commands that do."""
    yield from (
        f"    {figure}: tests/bench/{command}" if ".py" in command else f"    {figure}: {command}" for figure, command in OTHERS.items()
    )


MEASUREMENTS: Final[dict[str, Callable[[argparse.Namespace], Iterator[str]]]] = {
    "sizes": sizes,
    "starts": starts,
    "small": small,
    "unwinding": unwinding,
    "slowdowns": slowdowns,
    "others": others,
}
_RATIOS: Final = "ratios"
#: Of MEASUREMENTS, then of the benchmarks of FIGURES, the longest last.
STEPS: Final = (
    Step("sizes", 1, 0, 1),
    Step("others", 0, 0, 1),
    Step("starts", 1, 0.6, 5),
    Step("small", 20, 4, 5),
    Step("unwinding", 10, 0, 1),
    Step("slowdowns", 10, 20, 5),
)
RATIO_STEPS: Final = (
    benchmark("stat", 5),
    benchmark("list", 5),
    benchmark("record", 5),
    benchmark("system", 1),
    benchmark("small", 5),
    benchmark("report", 5),
    benchmark("scheduler", 5),
    benchmark("system_calls", 5),
    benchmark("conversion", 5),
    benchmark("recorders", 1),
    benchmark("dwarf", 5),
    benchmark("script", 5),
    benchmark("callgraph", 1),
    benchmark("report", 5, samples=10_000_000),
    benchmark("callgraph", 1, samples=3_000_000),
    benchmark("script", 2, samples=3_000_000),
    benchmark("scheduler", 3, samples=10_000_000),
    benchmark("system_calls", 3, samples=8_000_000),
)


def main() -> int:
    """Print the figures by name, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join([*MEASUREMENTS, _RATIOS]))
    parser.add_argument("--rounds", type=int, default=5, help="how often each command runs")
    parser.add_argument("--minutes", type=float, default=14, help="the time for all figures")
    parser.add_argument("--large", action="store_true", help="recordings of 3 and 10 million samples, too")
    options = parser.parse_args()
    print(f"# perfpy {this_version()}, {this_machine()}; load average {os.getloadavg()[0]:.1f}")
    names = options.names or [*MEASUREMENTS, _RATIOS]
    alone = [step for step in STEPS if step.name in names]
    steps = [*alone, *(step for step in RATIO_STEPS if _RATIOS in names and (options.large or step.samples <= 1_000_000))]
    steps = [step._replace(rounds=min(step.rounds, options.rounds)) for step in steps]
    began, end = time.monotonic(), time.monotonic() + 60 * options.minutes
    print("\n".join(plan_lines(steps, 60 * options.minutes)))
    with tempfile.TemporaryDirectory(prefix="perfpy-figures-", dir="/var/tmp") as folder:
        inputs = Inputs(Path(folder), "perf")
        for index, step in enumerate(steps):
            options.rounds = planned(steps[index:], end - time.monotonic())[0]
            print(f"\n{step if index < len(alone) else f'{_RATIOS}: {step}'}", flush=True)
            try:
                for line in bounded(
                    MEASUREMENTS[step.name](options) if index < len(alone) else _ratios_of(step, inputs, options.rounds), end
                ):
                    print(line, flush=True)
            except NotMeasuredError as error:
                print(f"    not measured: {error}")
            print(f"# {time.monotonic() - began:.0f} s so far, load average {os.getloadavg()[0]:.1f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
