"""Tests of perfpy stat against perf stat: requests to the kernel, threads, output, and saved counts."""

from __future__ import annotations

import collections
import csv
import os
import re
import shlex
import shutil
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING

import pytest

from tests.builders.live_pairs import assert_alike
from tests.builders.stat_shapes import csv_shape, json_shape, text_shape

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path


# Tests that perfpy stat requests the same counters as perf stat: every field of every attr, task, CPU and group.


CALL = re.compile(r"^(\d+)\s+perf_event_open\(\{(.*)\}, (-?\d+), (-?\d+), (-?\d+), ([A-Z_|0-9a-fx]+)\)\s+= (-?\d+)(?: (E[A-Z]+))?")
COMMANDS = [
    "-e cpu-clock,cs,faults -- true",
    "-e '{cpu-clock,cs,faults}:u' -- true",
    "-e '{task-clock,page-faults}:W' -- true",
    "-e page-faults:D -- true",
    "-e page-faults:e -- true",
    "-e cs:uk -- true",
    "-e task-clock:h -- true",
    "-e task-clock:H -- true",
    "-e task-clock:G -- true",
    "-e task-clock:I -- true",
    "--all-user -e task-clock,cs -- true",
    "--all-kernel -e task-clock,cs -- true",
    "-dd -- true",
    "-ddd -- true",
    "-a -A -e cs -- true",
    "-a --per-core -e cs -- true",
    "-C 0 -e '{cs,faults}' -- true",
    "-C 0-1 -i -e cs -- true",
    "-r 2 -e cs -- true",
    "-I 100 -e cs -- true",
    "-x, -e cs,cycles -- true",
    "-D 10 -e cs -- true",
    "-D -1 -e cs -- true",
    "-p SLEEPER -e cs -- true",
    "-t SLEEPER -e cs,faults -- true",
    "-n -- true",
    "-e duration_time,cs -- true",
    "-e sched:sched_switch --filter 'prev_pid>0' -a -- true",
    "-e 'sched:sched_process_*' -- true",
    "-e cpu/config=1/ -- true",
    "-e 1:1,1:2:u -- true",
    "-e software/config=2,name=foo/ -- true",
    "-e mem:0x1000/8:w -- true",
    "-e mem:0x1000:x:u -- true",
    "-e branches:pp,cycles:P -- true",
    "-a -e cpu-clock,cs --for-each-cgroup / -- true",
    "-a -e cpu-clock,cs -G / -- true",
    "-e cpu-clock/period=1000/ -- true",
    "--no-scale -e cs -- true",
    "-e instructions:u,cycles:k,ref-cycles,bus-cycles -- true",
    "-e LLC-prefetch-misses,node-loads,iTLB-load-misses:u -- true",
    "-e minor-faults,major-faults,alignment-faults,emulation-faults,dummy,cgroup-switches -- true",
    "-e cs,msr/tsc/,faults -- true",
    "-a -e msr/tsc/,cs -- true",
    "-e mem:0x1001/8:w,cs -- true",
    "-e '{cs,msr/tsc/}' -- true",
]
#: of a program that touches fresh pages and starts others
DETERMINISTIC = ["page-faults:u", "minor-faults:u", "context-switches:u", "sched:sched_process_fork", "sched:sched_process_exec"]
PAGES = 5000
TOUCH = f"""
import mmap, os
memory = mmap.mmap(-1, {PAGES} * mmap.PAGESIZE)
memory.madvise(mmap.MADV_NOHUGEPAGE)
for page in range({PAGES}):
    memory[page * mmap.PAGESIZE] = 1
for _ in range(5):
    os.spawnlp(os.P_WAIT, "true", "true")
"""


def requests(program: list[str], arguments: str, folder: Path) -> collections.Counter[tuple[str, ...]]:
    """Return the perf_event_open calls of a measurement; calls without a read format are perf's probes."""
    log = folder / "strace"
    command = ["strace", "-f", "-v", "-e", "trace=perf_event_open", "-o", str(log), *program, "stat", *shlex.split(arguments)]
    subprocess.run(command, capture_output=True, check=False, timeout=60)
    counter: collections.Counter[tuple[str, ...]] = collections.Counter()
    leaders: dict[str, str] = {}
    for line in log.read_text().splitlines():
        call = CALL.match(line)
        if call is None or "read_format=PERF" not in call[2]:
            continue
        attr = re.sub(r"size=0x[0-9a-f]+( /\*.*?\*/)?, ", "", call[2])
        task = "any" if call[3] == "-1" else "a task"
        counter[attr, task, call[4], leaders.get(call[5], "none"), call[6], call[8] or "opened"] += 1
        leaders[call[7]] = "of " + attr.partition("sample_period")[0]
    return counter


@pytest.fixture(scope="module")
def sleeper() -> Iterator[str]:
    """Yield the pid of a process that has one thread during the test."""
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as process:
        yield str(process.pid)


@pytest.mark.versus_perf
@pytest.mark.live
@pytest.mark.parametrize("arguments", COMMANDS)
def test_the_requests_to_the_kernel_are_the_same(perf: str, tmp_path: Path, sleeper: str, arguments: str) -> None:
    """The same calls with the same fields, refused ones included."""
    if shutil.which("strace") is None:
        pytest.skip("no strace in PATH")
    arguments = arguments.replace("SLEEPER", sleeper)
    ours = requests([sys.executable, "-m", "perfpy"], arguments, tmp_path)
    theirs = requests([perf], arguments, tmp_path)
    assert ours == theirs


@pytest.mark.versus_perf
@pytest.mark.live
def test_deterministic_counts_are_equal(perf: str) -> None:
    """Programs that do the same each time have equal counts."""
    results = []
    for program in ([sys.executable, "-m", "perfpy"], [perf]):
        command = [*program, "stat", "-x,", "-e", ",".join(DETERMINISTIC), "--", sys.executable, "-S", "-c", TOUCH]
        run = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        results.append({fields[2]: float(fields[0]) for fields in (line.split(",") for line in run.stderr.splitlines())})
    ours, theirs = results
    assert list(ours) == list(theirs) == DETERMINISTIC
    for event, count in theirs.items():
        # the interpreter's own faults, a tenth of these, differ with what of its files is in memory
        assert ours[event] == pytest.approx(count, abs=0.05 * PAGES if event.endswith("faults:u") else 0), event
    assert ours["page-faults:u"] > PAGES
    assert ours["sched:sched_process_exec"] == 6


@pytest.mark.versus_perf
@pytest.mark.live
def test_both_measure_the_same_time_of_the_same_process(perf: str, tmp_path: Path) -> None:
    """Both count all work of a process that begins after they start, and ends before they do."""
    work = "import time; input(); end = time.thread_time() + 0.3\nwhile time.thread_time() < end: pass"
    with subprocess.Popen([sys.executable, "-S", "-c", work], stdin=subprocess.PIPE) as busy:
        counting = [attached(program, busy.pid, tmp_path) for program in ([sys.executable, "-m", "perfpy"], [perf])]
        busy.communicate(b"\n")
    ours, theirs = (float(process.communicate(timeout=60)[1].split("\n")[-2].split(",")[0]) for process in counting)
    assert ours >= 0.99 * 300  # the thread's own clock also has a part of each switch to it
    assert ours == pytest.approx(theirs, rel=0.01)


def attached(program: list[str], pid: int, folder: Path) -> subprocess.Popen[str]:
    """Start a program that counts the task-clock of a process, and wait until it counts."""
    names = [str(folder / f"{os.path.basename(program[-1])}-{direction}") for direction in ("control", "answer")]
    for name in names:
        os.mkfifo(name)
    command = [*program, "stat", "-x,", "-D", "-1", "--control", f"fifo:{','.join(names)}", "-e", "task-clock", "-p", str(pid)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    control, answer = (os.open(name, os.O_RDWR) for name in names)
    os.write(control, b"enable\n")
    assert os.read(answer, 5) == b"ack\n\0"
    os.close(answer)
    return process


# Tests of perfpy stat --per-thread against perf's: the same threads, the same fields, the same deterministic counts.


TOUCHED_PAGES = (100, 200, 300)

#: each round, one thread after the other touches its number of fresh pages; the main thread none
PROGRAM = """
import mmap, os, sys, threading

def touch(pages, go, done):
    while True:
        os.read(go, 1)
        memory = mmap.mmap(-1, 512 * mmap.PAGESIZE)
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        for i in range(pages):
            memory[i * mmap.PAGESIZE] = 1
        memory.close()
        os.write(done, b"d")

pipes = []
for pages in map(int, sys.argv[3:]):
    (hear_go, go), (hear_done, done) = os.pipe(), os.pipe()
    threading.Thread(target=touch, args=(pages, hear_go, done), daemon=True).start()
    pipes.append((go, hear_done))

def round():
    for go, hear_done in pipes:
        os.write(go, b"g")
        os.read(hear_done, 1)

for _ in range(3):
    round()
print(*[thread.native_id for thread in threading.enumerate()], flush=True)
while True:
    with open(sys.argv[1]) as asked:
        asked.read()
    round()
    with open(sys.argv[2], "w") as answer:
        answer.write("done")
"""


class Threads:
    """A process whose threads do the same work each time the measured command asks for it."""

    def __init__(self, folder: Path) -> None:
        question, answer = folder / "asked", folder / "answer"
        os.mkfifo(question)
        os.mkfifo(answer)
        command = [sys.executable, "-c", PROGRAM, str(question), str(answer), *map(str, TOUCHED_PAGES)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout
        self.tids = [int(tid) for tid in self.process.stdout.readline().split()]
        self._work = ["--", "sh", "-c", f"echo go > {question}; cat {answer} > {folder}/got"]

    def stat(self, program: list[str], *options: str) -> str:
        """Return the output of `stat` for one round."""
        command = [*program, "stat", "--per-thread", *options, "-p", str(self.process.pid), *self._work]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stderr


PERFPY = [sys.executable, "-m", "perfpy"]


@pytest.fixture(scope="module")
def threads(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Threads]:
    actual_threads = Threads(tmp_path_factory.mktemp("threads"))
    yield actual_threads
    actual_threads.process.kill()
    actual_threads.process.communicate()


def by_thread(text: str, event: str) -> dict[str, str]:
    """Return the counts of an event in CSV, by "comm-tid"."""
    return {row[0]: row[1] for row in csv.reader(text.splitlines()) if row[3] == event}


@pytest.mark.versus_perf
@pytest.mark.live
def test_each_thread_has_its_own_page_faults(perf: str, threads: Threads) -> None:
    """perfpy's counts of each thread equal perf's, and the thread's work."""
    options = ("-x,", "-e", "page-faults:u")
    ours, theirs = (by_thread(threads.stat(program, *options), "page-faults:u") for program in (PERFPY, [perf]))
    assert [int(name.rpartition("-")[2]) for name in ours] == threads.tids
    for counts in (ours, theirs):
        main, *workers = map(int, counts.values())
        assert len(workers) == len(TOUCHED_PAGES)
        # Python itself may need a page or two in a thread
        assert all(0 <= count - pages <= 5 for count, pages in zip(workers, TOUCHED_PAGES, strict=True))
        assert main < min(TOUCHED_PAGES)  # it opens files, and may need a page for that


@pytest.mark.versus_perf
@pytest.mark.live
def test_each_thread_waits_as_often(perf: str, threads: Threads) -> None:
    """A thread that works once a round is switched away from once, when nothing else wants its CPU."""
    options = ("-x,", "-e", "context-switches:k")
    ours, theirs = (by_thread(threads.stat(program, *options), "context-switches:k") for program in (PERFPY, [perf]))
    assert list(ours) == list(theirs)
    assert all(int(count) >= 1 for count in (*ours.values(), *theirs.values()))


@pytest.mark.versus_perf
@pytest.mark.live
@pytest.mark.parametrize("more", [(), ("-r", "2"), ("-I", "60000", "--summary"), ("-e", "task-clock")], ids=" ".join)
def test_per_thread_output_is_perfs(perf: str, threads: Threads, more: tuple[str, ...]) -> None:
    """Text by pattern, CSV and JSON field by field, thread by thread."""
    options = ("-e", "page-faults:u,cpu-clock,instructions", *more)
    for form, shape in (("-x,", csv_shape), ("-j", json_shape)):
        lines, perfs_lines = (shape(threads.stat(program, form, *options)) for program in (PERFPY, [perf]))
        assert lines == perfs_lines
        assert len(lines) >= 3 * len(threads.tids)
    texts = (re.sub(r"(?<=-)\d+ ", "PID ", threads.stat(program, *options)) for program in (PERFPY, [perf]))
    ours, theirs = map(text_shape, texts)
    assert ours == theirs


# Tests that perfpy stat and perf stat print the same except values, over aggregations, formats and options.


OURS = [sys.executable, "-m", "perfpy"]
AGGREGATIONS = ["", "-A", "--per-socket", "--per-die", "--per-cluster", "--per-cache", "--per-core", "--per-node"]
CPUS = ",".join(map(str, sorted(os.sched_getaffinity(0))))
#: events of a cgroup are not counted on a CPU that runs nothing of it: this runs on each
EVERYWHERE = shlex.join(
    [
        sys.executable,
        "-c",
        f"""
import os, time
for cpu in ({CPUS},):
    os.sched_setaffinity(0, [cpu])
    end = time.thread_time() + 0.02
    while time.thread_time() < end:
        pass
""",
    ]
)
EVENTS = ["cpu-clock,page-faults,cycles", "{cs,faults},msr/tsc/", "task-clock:u,instructions,L1-dcache-loads,r1a8"]
OPTIONS = [
    "-e task-clock,cs -- true",
    "-d -- true",
    "-ddd -e cs -- true",
    "-r 3 -- true",
    "-r 3 --table -e task-clock -- true",
    "-n -- true",
    "-e duration_time,cs -- true",
    "-i -e task-clock -- sh -c true",
    "--all-user -e task-clock -- true",
    "--no-big-num -e page-faults -- true",
    "--no-scale -e page-faults -- true",
    "-a -C 1 -e cpu-clock -- true",
    "-C 0 -e cpu-clock,cs -- true",
    "-D 5 -e cs -- sleep 0.3",
    "-I 20 --interval-count 2 -a -e cpu-clock,cs",
    "-I 20 --interval-count 1 -a -A -e cpu-clock",
    "-I 20 --interval-count 1 -a --per-core -e cpu-clock",
    "-I 20 --interval-count 1 -a --per-socket -e cpu-clock",
    "-I 20 --summary --interval-count 1 -a -e cpu-clock",
    "--timeout 120 -a -e cpu-clock",
    "-a -e cpu-clock,cs -G / -- true",
    "-a -e cpu-clock --for-each-cgroup / -- true",
    "-C CPUS -A -e cpu-clock --for-each-cgroup / -- EVERYWHERE",
    "-e sched:sched_process_exec -- true",
    "-e cpu-clock/name=clock/ -- true",
    "-e page-faults:D -- true",
    "--metric-only -a -- true",
    "--quiet -- true",
]
OPTIONS_WITH_FIELDS = [options for options in OPTIONS if not re.search("--table|--metric-only", options)]


def stat(program: list[str], options: str) -> str:
    """What a stat command prints on stderr.

    perf's built-in tables name events of the CPU model that this machine's PMU may lack, and perf complains of them: it is told
    of a model that has no table.
    """
    environment = {**os.environ, "PERF_CPUID": "GenuineIntel-0-0-0"}
    command = [*program, "stat", *shlex.split(options.replace("CPUS", CPUS).replace("EVERYWHERE", EVERYWHERE))]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment).stderr


def perfpy_stat(options: str) -> str:
    return stat(OURS, options)


def shapes(shape: Callable[[str], Iterable[object]], program: list[str], options: str) -> list[object]:
    return unique(shape(stat(program, options)))


def unique(shapes: Iterable[object]) -> list[object]:
    listed = list(shapes)
    return [shape for i, shape in enumerate(listed) if shape not in listed[:i]]


@pytest.mark.versus_perf
@pytest.mark.live
@pytest.mark.system_wide
@pytest.mark.parametrize("events", EVENTS)
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_text_has_perfs_columns(perf: str, aggregation: str, events: str) -> None:
    """Every aggregation's text has perf's widths, names and comments."""
    options = f"-a {aggregation} -e {events} -- sleep 0.02"
    assert_alike(lambda: text_shape(perfpy_stat(options)), lambda: text_shape(stat([perf], options)))


@pytest.mark.versus_perf
@pytest.mark.live
@pytest.mark.system_wide
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_csv_has_perfs_fields(perf: str, aggregation: str) -> None:
    """Every aggregation's CSV has perf's fields in perf's order."""
    for more in ("", "-I 20 --interval-count 1", "-r 2"):
        options = f"-a {aggregation} -x, {more} -e {EVENTS[0]} -- sleep 0.05"
        assert_alike(partial(shapes, csv_shape, OURS, options), partial(shapes, csv_shape, [perf], options))


@pytest.mark.versus_perf
@pytest.mark.live
@pytest.mark.system_wide
@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_json_has_perfs_keys(perf: str, aggregation: str) -> None:
    """Every aggregation's JSON has perf's keys in perf's order."""
    for more in ("", "-I 20 --interval-count 1", "-r 2"):
        options = f"-a {aggregation} -j {more} -e {EVENTS[0]} -- sleep 0.05"
        assert_alike(partial(shapes, json_shape, OURS, options), partial(shapes, json_shape, [perf], options))


@pytest.mark.versus_perf
@pytest.mark.live
@pytest.mark.system_wide
@pytest.mark.parametrize("options", OPTIONS)
def test_options_give_perfs_text(perf: str, options: str) -> None:
    """Options one by one, and in pairs that scripts use."""
    assert_alike(lambda: text_shape(perfpy_stat(options)), lambda: text_shape(stat([perf], options)))


@pytest.mark.versus_perf
@pytest.mark.live
@pytest.mark.system_wide
@pytest.mark.parametrize("options", OPTIONS_WITH_FIELDS)
@pytest.mark.parametrize("form", ["-x,", "-j"])
def test_options_give_perfs_fields(perf: str, options: str, form: str) -> None:
    """The same options as CSV and JSON."""
    shape = csv_shape if form == "-x," else json_shape

    def fields(text: str) -> list[object]:
        return unique(shape(text.partition("enabled\n")[2] if "-D" in options else text))  # a message comes before the counts

    assert_alike(lambda: fields(perfpy_stat(f"{form} {options}")), lambda: fields(stat([perf], f"{form} {options}")))


# Tests of files of saved counts: perf stat report and perfpy stat report show the same, for files of either tool.


REQUESTS = [
    "-e cs,task-clock",
    "-e cs:u,faults:u,msr/tsc/",
    "-e cycles,cs",
    "-d",
    "-C 0 -e cs",
    "-a -e {cs,faults},cpu-clock",
    "-a --per-core -e cs,cpu-clock",
    "-a --per-socket -e cs",
]


def stat_text(program: list[str], *arguments: str) -> str:
    run = subprocess.run([*program, "stat", *arguments], capture_output=True, text=True, check=True, timeout=60)
    return run.stderr


@pytest.mark.versus_perf
@pytest.mark.live
@pytest.mark.system_wide
@pytest.mark.parametrize("request_", REQUESTS)
@pytest.mark.parametrize("writer", ["perf", "perfpy"])
def test_both_show_the_same_counts(perf: str, tmp_path: Path, writer: str, request_: str) -> None:
    """Byte for byte."""
    path = str(tmp_path / "counts.data")
    stat_text([perf] if writer == "perf" else PERFPY, "record", "-o", path, *request_.split(), "--", "true")
    ours, theirs = (stat_text(program, "report", "-i", path) for program in (PERFPY, [perf]))
    assert ours == theirs
    assert "seconds time elapsed" in ours


@pytest.mark.versus_perf
@pytest.mark.live
@pytest.mark.system_wide
@pytest.mark.parametrize("writer", ["perf", "perfpy"])
def test_a_pipe_is_named_as_pipe(perf: str, writer: str, tmp_path: Path) -> None:
    path = tmp_path / "pipe.data"
    with path.open("wb") as file:
        program = [perf] if writer == "perf" else PERFPY
        subprocess.run(
            [*program, "stat", "record", "-o", "-", "-e", "cs", "true"], stdout=file, stderr=subprocess.PIPE, check=True, timeout=60
        )
    ours, theirs = (stat_text(program, "report", "-i", str(path)) for program in (PERFPY, [perf]))
    assert ours == theirs
    assert "Performance counter stats for 'pipe':" in ours


@pytest.mark.versus_perf
@pytest.mark.live
@pytest.mark.system_wide
def test_intervals_equal_perfs(perf: str, tmp_path: Path) -> None:
    """perf's report shows counts since the start beside each time; perfpy's shows each interval's, as both do while counting."""
    for writer in (PERFPY, [perf]):
        path = str(tmp_path / "counts.data")
        stat_text(writer, "record", "-o", path, "-I", "40", "-e", "task-clock", "--", "sleep", "0.5")
        ours, theirs = (stat_text(program, "report", "-i", path).splitlines() for program in (PERFPY, [perf]))
        assert [line.split()[0] for line in ours] == [line.split()[0] for line in theirs]
        assert len(ours) >= 3


@pytest.mark.versus_perf
@pytest.mark.live
@pytest.mark.system_wide
@pytest.mark.parametrize("form", ["-A", "--per-thread"])
@pytest.mark.parametrize("request_", ["-a -A -e cpu-clock", "-a -e cpu-clock,page-faults", "-e task-clock,page-faults"])
@pytest.mark.parametrize("writer", ["perf", "perfpy"])
def test_both_distinguish_cpus_and_threads(perf: str, tmp_path: Path, writer: str, request_: str, form: str) -> None:
    """Names are as in the file; a file of tasks has no CPUs to distinguish; all tasks are number -1."""
    path = str(tmp_path / "counts.data")
    stat_text([perf] if writer == "perf" else PERFPY, "record", "-o", path, *request_.split(), "--", "true")
    ours, theirs = (stat_text(program, "report", form, "-i", path) for program in (PERFPY, [perf]))
    assert ours == theirs
    assert "seconds time elapsed" in ours


@pytest.mark.versus_perf
@pytest.mark.live
@pytest.mark.system_wide
@pytest.mark.parametrize("options", ["-x,", "-x : -A", "-j", "--metric-only", "-x, --metric-only", "--quiet", "--no-big-num"])
def test_options_before_the_subcommand_apply(perf: str, tmp_path: Path, options: str) -> None:
    """`stat -x, report` is `stat report` as CSV."""
    path = str(tmp_path / "counts.data")
    stat_text(PERFPY, "record", "-o", path, "-a", "-e", "cpu-clock,page-faults", "--", "true")
    *before, after = [*options.split(), "-A"] if "-A" not in options else options.split()
    ours, theirs = (stat_text(program, *before, "report", after, "-i", path) for program in (PERFPY, [perf]))
    assert ours == theirs


@pytest.mark.versus_perf
@pytest.mark.live
@pytest.mark.system_wide
@pytest.mark.parametrize("option", ["-ecs", "-i", "-I100", "-a", "-r3"])
def test_counting_options_are_refused_before_report(option: str) -> None:
    run = subprocess.run([*PERFPY, "stat", option, "report"], check=False, capture_output=True, text=True, timeout=60)
    assert run.returncode == 129
    assert f"{option[:2]}" in run.stderr
    assert "stat report does not count" in run.stderr


@pytest.mark.versus_perf
@pytest.mark.live
@pytest.mark.system_wide
@pytest.mark.skipif(os.geteuid() != 0, reason="giving a file to another user needs root")
def test_a_file_of_another_user_is_refused_as_perf_does(perf: str, tmp_path: Path) -> None:
    path = str(tmp_path / "counts.data")
    stat_text(PERFPY, "record", "-o", path, "-e", "task-clock", "--", "true")
    text = stat_text(PERFPY, "report", "-i", path)
    os.chown(path, 65534, -1)
    for program in ([perf], PERFPY):
        run = subprocess.run([*program, "stat", "report", "-i", path], check=False, capture_output=True, text=True, timeout=60)
        assert (run.returncode == 0, "-f" in run.stderr) == (False, True)
    assert stat_text(PERFPY, "report", "-f", "-i", path) == text
