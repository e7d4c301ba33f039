"""The cases of the benchmark: what perfpy and perf do in turns, on recordings made on the spot."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import sysconfig
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench.many_hosts import Hosts
from tests.bench.pairs import Comparison, Cost, in_turns, instructions, run_once
from tests.bench.record_load import run_in_turns
from tests.bench.table import Row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.bench.inputs import Inputs

SCRIPT = Path(sys.executable).with_name("perfpy")  # python -m takes some milliseconds longer
PERFPY = [str(SCRIPT)] if SCRIPT.exists() else [sys.executable, "-m", "perfpy"]
COLLAPSE = Path(__file__).with_name("collapse.pl")
PLAIN_FIELDS = "comm,tid,time,ip,sym"
BUSY_LOOP = [sys.executable, "-c", "while True: sum(i * i for i in range(1000))"]
PAGE_BUDGET = Cost(wall=3.0, cpu=3.0, memory=300.0)
PYTHON_BUDGET = Cost(wall=0.15, cpu=0.15, memory=100.0)
_PYTHON_WORK = "import json, time\nwhile time.process_time() < 2: json.loads(json.dumps({str(n): [n] for n in range(100)}))"
_HOSTS, _HOST_SAMPLES = 200, 2000
_SMALL_GOALS = {
    "report, user space only": 4.0,
    "report --mmaps": 1.1,
    "lock report, small": 1.1,
    "timechart, small": 1.1,
    "nested mappings, 20,000": 1.0,
}
_LOCKING = "import threading; [t.start() for t in [threading.Thread(target=sum, args=(range(10000),)) for _ in range(50)]]"
_CLUSTER = """
import sys
from distributed import LocalCluster
if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""


class SkippedError(Exception):
    """The machine lacks what a case needs; the text says what."""


class Bench:
    """The options of a run, and what its cases share.

    Args:
        perfs: the commands of perf to compare with, the reference first
        samples: the size of large recordings
        rounds: how often each command of a pair runs
        counts_instructions: whether short commands also run under valgrind
    """

    def __init__(self, inputs: Inputs, perfs: Sequence[str], samples: int, rounds: int, *, counts_instructions: bool = False) -> None:
        self.inputs = inputs
        self.perfs = list(perfs)
        self.samples = samples
        self.rounds = rounds
        self._counts_instructions = counts_instructions

    @property
    def perf(self) -> str:
        """The reference."""
        return self.perfs[0]

    def compare(
        self,
        case: str,
        args: Sequence[str],
        *,
        rounds: int | None = None,
        goal: float | None = None,
        measure: str = "cpu",
        short: bool = False,
    ) -> Row:
        """Return the row for the same arguments to both. short: a command whose instructions can be counted in seconds."""
        return self.row(case, [*PERFPY, *args], [self.perf, *args], rounds=rounds, goal=goal, measure=measure, short=short)

    def row(
        self,
        case: str,
        ours: Sequence[str],
        theirs: Sequence[str],
        *,
        rounds: int | None = None,
        goal: float | None = None,
        measure: str = "cpu",
        short: bool = False,
    ) -> Row:
        """Return the row for two command lines."""
        costs = in_turns(ours, theirs, rounds or self.rounds)
        if not (short and self._counts_instructions):
            return Row(case, costs, goal, measure)
        python = [sys.executable, *ours] if ours[0] == str(SCRIPT) else ours
        return Row(case, costs, goal, measure, (instructions(python), instructions(theirs)))

    def against_the_faster(self, case: str, args: Sequence[str], goal: float) -> Row:
        """Return the row for the same arguments to perfpy and to whichever perf takes less CPU time."""
        rounds = max(self.rounds // 2, 2)
        rows = [self.row(case, [*PERFPY, *args], [perf, *args], rounds=rounds, goal=goal, measure="wall") for perf in self.perfs]
        return min(rows, key=lambda row: row.costs.median("wall", ours=False))


def bench_stat(bench: Bench) -> Iterator[Row]:
    """perfpy stat -- true: starting up."""
    yield bench.compare("stat -- true", ["stat", "--", "true"], rounds=4 * bench.rounds, goal=1.3, measure="wall", short=True)


def bench_list(bench: Bench) -> Iterator[Row]:
    """perfpy list: every event of the machine."""
    yield bench.compare("list", ["list"], rounds=2 * bench.rounds, goal=0.6, measure="wall", short=True)


def bench_record(bench: Bench) -> Iterator[Row]:
    """perfpy record -- true: starting up, and ending."""
    output = str(bench.inputs.folder / "true.data")
    yield bench.compare("record -- true", ["record", "-q", "-o", output, "--", "true"], rounds=2 * bench.rounds, goal=1.0, measure="wall")


def bench_small(bench: Bench) -> Iterator[Row]:
    """perfpy report --stdio of a small recording with samples of both levels: what does not depend on its size."""
    path = str(bench.inputs.small(1000))
    flat = ["report", "--stdio", "-i", path]
    yield bench.compare("report of 1,000 samples", flat, rounds=2 * bench.rounds, goal=1.1, measure="wall", short=True)


def bench_scheduler(bench: Bench) -> Iterator[Row]:
    """perfpy sched of a million events."""
    path, goal = str(bench.inputs.switches(bench.samples)), 0.5 if bench.samples <= 1_000_000 else 0.3
    for action in ("latency", "timehist", "timehist -s", "map"):
        yield bench.compare(f"sched {action}, {bench.samples:,}", ["sched", *action.split(), "-i", path], goal=goal, measure="wall")


def bench_system_calls(bench: Bench) -> Iterator[Row]:
    """perfpy trace of a recording of half a million events, against perf 7.3: 6.12 crashes."""
    path = str(bench.inputs.system_calls(bench.samples // 2))
    for options, goal in ((["-s"], 0.4), ([], 0.3)):
        args = ["trace", *options, "-i", path]
        case = " ".join(["trace", *options, f"{bench.samples // 2:,}"])
        yield bench.row(case, [*PERFPY, *args], [bench.perfs[-1], *args], goal=goal, measure="wall")


def bench_small_tools(bench: Bench) -> Iterator[Row]:
    """Commands of small recordings: what does not depend on their size, of which numpy's import is the largest part."""
    small, folder = str(bench.inputs.small(1000)), bench.inputs.folder
    lines = {
        "report, user space only": ["report", "--stdio", "-i", str(bench.inputs.user_only())],
        "report --mmaps": ["report", "--mmaps", "-i", small],
        "sched latency, small": ["sched", "latency", "-i", str(bench.inputs.switches(2000))],
        "lock report, small": ["lock", "report", "-i", str(bench.inputs.tool("lock", sys.executable, "-c", _LOCKING))],
        "kmem stat, small": ["kmem", "-i", str(bench.inputs.tool("kmem", "ls", "/usr/lib")), "stat"],
        "timechart, small": ["timechart", "-o", str(folder / "out.svg"), "-i", str(bench.inputs.tool("timechart", "ls", "/usr"))],
        "nested mappings, 20,000": ["report", "--stdio", "-i", str(bench.inputs.nested_mappings(20_000))],
    }
    for case, args in lines.items():
        yield bench.compare(case, args, rounds=2 * bench.rounds, goal=_SMALL_GOALS.get(case), measure="wall", short=True)


def bench_hardware_trace(bench: Bench) -> Iterator[Row]:
    """perfpy report and script of 10 MB of Intel PT, made from a program that was single-stepped, with and without cycles."""
    for case, has_cycles in (("Intel PT", False), ("Intel PT with cycles", True)):
        path = str(bench.inputs.trace(10, has_cycles=has_cycles))
        for args in (["report", "--stdio", "--itrace=i1000i"], ["report", "--stdio"], ["script", "--itrace=be"]):
            yield bench.compare(f"{case}: {' '.join(args)}", [*args, "-i", path], rounds=max(bench.rounds // 2, 2), goal=1.0)


def bench_conversion(bench: Bench) -> Iterator[Row]:
    """perfpy data convert --to-json of tracepoints: of the scheduler, and of the kernel's memory with flags as text."""
    kmem = bench.inputs.tool("kmem", "ls", "-R", "/usr/include")
    for case, path in (("sched", bench.inputs.switches(50_000)), ("kmem", kmem)):
        args = ["data", "convert", "--force", "--to-json", str(bench.inputs.folder / "out.json"), "-i", str(path)]
        yield bench.compare(f"data convert, {case}", args, rounds=max(bench.rounds // 2, 2), goal=0.7, measure="wall")


def bench_unwinding(bench: Bench) -> Iterator[Row]:
    """perfpy record --unwind of 300 short processes and its report, against perf's recorder of copied stacks and its report.

    The programs' own time is in all rows but that of the report. perf unwinds in its report, perfpy in its recorder.
    """
    forks, rounds = "for number in $(seq 300); do /bin/true; done", max(bench.rounds // 2, 2)
    recorders: list[str] = []
    reports: list[str] = []
    for command, option in ((" ".join(PERFPY), "--unwind"), (bench.perf, "--call-graph dwarf")):
        path = bench.inputs.folder / f"unwound{len(recorders)}.data"
        recorders.append(f"{command} record -q -F 999 {option} -o {path} -- sh -c '{forks}'")
        reports.append(f"{command} report --stdio -i {path}")
    both = [f"{recorder} && {report}" for recorder, report in zip(recorders, reports, strict=True)]
    for case, lines in (
        ("record --unwind, report: 300 forks", both),
        ("record --unwind: 300 forks", recorders),
        ("record --unwind: 300 forks, perf with report", [recorders[0], both[1]]),
        ("report of 300 unwound forks", reports),
    ):
        yield bench.row(case, *(["sh", "-c", line] for line in lines), rounds=rounds, goal=1.0 if lines is both else None)


def bench_python(bench: Bench) -> Iterator[Row]:
    """perfpy record --python of a program that takes 2 s of CPU time: what the recorder takes beside it, against a budget."""
    command = [*PERFPY, "record", "-q", "--python", "-F", "99", "-o", str(bench.inputs.folder / "python.data"), "--"]
    program = [sys.executable, "-c", _PYTHON_WORK]
    both = in_turns([*command, *program], program, bench.rounds)
    added = [Cost(ours.wall - alone.wall, ours.cpu - alone.cpu, ours.memory) for ours, alone in zip(*both, strict=True)]
    yield Row("record --python, beside 2 s (budget)", Comparison(added, [PYTHON_BUDGET] * len(added)), goal=1.0)


def bench_annotate(bench: Bench) -> Iterator[Row]:
    """perfpy annotate of one function, against the newest perf: 6.12 crashes on some functions."""
    path = str(bench.inputs.small(1000))
    args = ["annotate", "--stdio", "-i", path, "-s", "work7"]
    yield bench.row("annotate -s NAME", [*PERFPY, *args], [bench.perfs[-1], *args], goal=0.7, measure="wall", short=True)


def bench_dwarf(bench: Bench) -> Iterator[Row]:
    """perfpy script and report of copied stacks, against the faster perf."""
    for samples in (1000, 10_000):
        path = str(bench.inputs.stacks(samples))
        for command, goal in ((["script"], 0.5), (["report", "--stdio"], 0.1)):
            yield bench.against_the_faster(f"{command[0]} of {samples:,} DWARF stacks", [*command, "-i", path], goal=goal)


def bench_report(bench: Bench) -> Iterator[Row]:
    """perfpy report --stdio of a large recording."""
    path = bench.inputs.recording(bench.samples)
    yield bench.compare(f"report, {bench.samples:,} samples", ["report", "--stdio", "-i", str(path)], goal=0.4)


def bench_callgraph(bench: Bench) -> Iterator[Row]:
    """perfpy report --stdio of a recording of a recursive program with callchains, with and without callers."""
    path = bench.inputs.recording(bench.samples, "-g", program="recursion")
    for options in ([], ["--no-children"]):
        title = " ".join(["report -g", *options, f"{bench.samples:,}"])
        yield bench.compare(title, ["report", "--stdio", *options, "-i", str(path)], rounds=1, goal=0.1, measure="wall")


def bench_folded(bench: Bench) -> Iterator[Row]:
    """perfpy report --folded against perf script with a script behind it."""
    path = bench.inputs.recording(bench.samples, "-g", program="recursion")
    theirs = ["sh", "-c", f"{bench.perf} script -i {path} | perl {COLLAPSE}"]
    yield bench.row(f"folded, {bench.samples:,}", [*PERFPY, "report", "--folded", "-i", str(path)], theirs, rounds=1, goal=0.2)


def bench_script(bench: Bench) -> Iterator[Row]:
    """perfpy script of a large recording: the default fields, few fields, and callchains."""
    path = str(bench.inputs.recording(bench.samples))
    rounds = max(bench.rounds // 2, 1)
    yield bench.compare(f"script, {bench.samples:,}", ["script", "-i", path], rounds=rounds, goal=0.5)
    yield bench.compare(f"script -F {PLAIN_FIELDS}", ["script", "-F", PLAIN_FIELDS, "-G", "-i", path], rounds=rounds, goal=0.5)
    path = str(bench.inputs.recording(bench.samples, "-g", program="recursion"))
    yield bench.compare(f"script of callchains, {bench.samples:,}", ["script", "-i", path], rounds=1, goal=0.5)


def bench_source_lines(bench: Bench) -> Iterator[Row]:
    """perfpy report by source line of this Python, whose debug information is large: with an empty cache, and with a filled one."""
    if not _interpreter_is_debuggable():
        raise SkippedError("this Python has no debug information")
    path = str(bench.inputs.interpreter())
    args = ["report", "--stdio", "-s", "srcline", "-i", path]
    cold = ["sh", "-c", 'XDG_CACHE_HOME=$(mktemp -d); export XDG_CACHE_HOME; "$@"; rm -r "$XDG_CACHE_HOME"', "sh", *PERFPY, *args]
    theirs = [bench.perfs[-1], *args]
    yield bench.row("srcline of Python, first", cold, theirs, rounds=2)
    yield bench.row("srcline of Python, again", [*PERFPY, *args], theirs, rounds=2, goal=0.5)


def bench_cold(bench: Bench) -> Iterator[Row]:
    """perfpy report of a large recording that is not in the page cache; as root."""
    path = str(bench.inputs.recording(bench.samples))
    drop = Path("/proc/sys/vm/drop_caches")
    costs = Comparison([], [])
    for _ in range(3):
        for command, runs in zip((PERFPY, [bench.perf]), costs, strict=True):
            try:
                subprocess.run(["sync"], check=True)
                drop.write_text("3")
            except OSError as error:
                raise SkippedError(f"{drop}: {error.strerror}") from None
            runs.append(run_once([*command, "report", "--stdio", "-i", path]))
    yield Row(f"report, cold, {bench.samples:,}", costs, goal=0.6, measure="wall")


def bench_recorders(bench: Bench) -> Iterator[Row]:
    """perfpy record beside load: its CPU time and its memory. The lines below the rows tell the losses."""
    for case in ("stacks at 5 kHz", "system calls", "highest rate"):
        results = run_in_turns(case, {"perfpy": PERFPY, "perf": [bench.perf]}, seconds=2.0, rounds=3)
        costs = Comparison(*([Cost(2.0, run.cpu, run.memory) for run in results[name]] for name in ("perfpy", "perf")))
        yield Row(f"record, {case}", costs, goal=1.0)
        for name, runs in results.items():
            print(f"#   {name}: {', '.join(f'{run.samples:,} samples, {run.lost:,} lost' for run in runs)}", flush=True)


def bench_system(bench: Bench) -> Iterator[Row]:
    """perfpy record -a while two loops keep the CPUs busy: what the recorder costs, and what it loses."""
    loops = [subprocess.Popen(BUSY_LOOP) for _ in range(2)]
    costs = Comparison([], [])
    paths = [bench.inputs.folder / "ours.data", bench.inputs.folder / "theirs.data"]
    try:
        for _ in range(3):
            for recorder, path, runs in zip((PERFPY, [bench.perf]), paths, costs, strict=True):
                runs.append(run_once([*recorder, "record", "-q", "-a", "-F", "997", "-o", str(path), "--", "sleep", "3"]))
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    yield Row("record -a -F 997, 3 s", costs, goal=1.0)
    print("#   lost by perfpy: {}, by perf: {}".format(*(_lost(bench.perf, path) for path in paths)), flush=True)


def _lost(perf: str, path: Path) -> int:
    stats = subprocess.run([perf, "report", "--stats", "-i", path], capture_output=True, text=True, check=True).stdout
    return sum(map(int, re.findall(r"LOST\w* events: +(\d+)", stats)))


def bench_page(bench: Bench) -> Iterator[Row]:
    """perfpy report --html of a large recording, against a budget of 3 s and 300 MB."""
    path = str(bench.inputs.recording(bench.samples, "-g", program="recursion"))
    page = str(bench.inputs.folder / "page.html")
    cost = run_once([*PERFPY, "report", "-q", "-i", path, "--html", page])
    yield Row(f"page, {bench.samples:,} (budget)", Comparison([cost], [PAGE_BUDGET]), goal=1.0)


def bench_cluster(bench: Bench) -> Iterator[Row]:
    """perfpy report of many small recordings with two running workers of Dask, against one process."""
    if find_spec("distributed") is None:
        raise SkippedError("distributed is not installed")
    folder = bench.inputs.folder / "hosts"
    if not folder.exists():
        folder.mkdir()
        hosts = Hosts(bench.inputs.small(20_000).read_bytes(), per_mille=10)
        for number in range(_HOSTS):
            hosts.write(folder, number, _HOST_SAMPLES)
    script = bench.inputs.folder / "cluster.py"
    script.write_text(_CLUSTER)
    files = [option for path in sorted(folder.iterdir()) for option in ("-i", str(path))]
    report = [*PERFPY, "report", "--stdio"]
    with subprocess.Popen([sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as cluster:
        assert cluster.stdout is not None
        address = cluster.stdout.readline().strip()
        ours, alone = [*report, "--cluster", address, *files], [*report, "--jobs", "1", *files]
        yield bench.row(f"{_HOSTS} recordings, Dask of 2", ours, alone, rounds=2, goal=1.0, measure="wall")


def bench_floor(bench: Bench) -> Iterator[Row]:
    """Python's own start: a command that does nothing, against perf stat -- true. No command of perfpy can take less."""
    theirs = [bench.perf, "stat", "--", "true"]
    yield bench.row("python -c pass (floor)", [sys.executable, "-c", "pass"], theirs, rounds=4 * bench.rounds, short=True)


def _interpreter_is_debuggable() -> bool:
    """Return whether this Python has debug information."""
    library = sysconfig.get_config_var("INSTSONAME") if sysconfig.get_config_var("Py_ENABLE_SHARED") else None
    path = Path(sysconfig.get_config_var("LIBDIR")) / library if library else Path(sys.executable).resolve()
    readelf = shutil.which("readelf")
    if readelf is None or not path.exists():
        return False
    sections = subprocess.run([readelf, "-SW", path], capture_output=True, text=True, check=False).stdout
    return ".debug_line" in sections


BENCHES: dict[str, Callable[[Bench], Iterator[Row]]] = {
    name.removeprefix("bench_"): function for name, function in list(globals().items()) if name.startswith("bench_")
}
