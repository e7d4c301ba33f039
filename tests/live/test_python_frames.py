"""record --python: frames, lines, threads and coroutines of running Python programs, of all versions."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import pytest

from perfpy.analysis.filters import SampleFilter
from perfpy.recording import Recording
from perfpy.views.verdict.profile import headline_options, profile_verdict
from tests.builders.prepared_start import PERFPY, output_of
from tests.builders.python_programs import PROGRAM, shares
from tests.builders.pythons import WITHOUT_TRAMPOLINES, interpreter

# True frames of Python functions, of all versions: shares as the program itself measures them, in whatever way functions are called.


TOLERANCE = 4  # percentage points: a ninth of 2,200 samples is then off once in 10 million runs


@pytest.fixture(scope="module", params=[*WITHOUT_TRAMPOLINES, "3.12", "3.13", "3.14"])
def python(request: pytest.FixtureRequest) -> str:
    path = interpreter(request.param)
    if not path:
        pytest.skip(f"no Python {request.param} on this machine")
    if request.param not in WITHOUT_TRAMPOLINES:
        command = [path, "-X", "perf", "-c", "import sys; sys.exit(not sys.is_stack_trampoline_active())"]
        if subprocess.run(command, check=False, capture_output=True).returncode:
            pytest.skip(f"this Python {request.param} was built without trampolines")
    return path


def perfpy(*words: str, folder: Path) -> str:
    return output_of([*PERFPY, *words], cwd=folder)


def record(*words: str, folder: Path) -> None:
    line = [*PERFPY, "record", "-q", "-o", "perf.data", "--jit", "-F", "999", *words]
    process = subprocess.run(line, capture_output=True, text=True, timeout=300, cwd=folder, check=False)
    assert process.returncode == 0, process.stderr


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, python: str) -> Path:
    """A folder with the program, its recording, and how long its parts took."""
    folder = tmp_path_factory.mktemp("frames")
    (folder / "program.py").write_text(PROGRAM.replace("SECONDS", "0.25"))
    record("--call-graph", "dwarf,16384", "--", python, "program.py", folder=folder)
    with Recording(str(folder / "perf.data")) as recording:
        for name in recording.data.kept_files or ():
            Path(name).unlink(missing_ok=True)
    return folder


@pytest.mark.live
@pytest.mark.particular
@pytest.mark.thorough
def test_each_function_has_the_share_that_the_program_measured(recorded: Path):
    took = json.loads((recorded / "took.json").read_text())
    actual_shares = shares(perfpy("report", "--stdio", "--children", "-g", "none", "-s", "sym", "--percent-limit", "0", folder=recorded))
    total, in_functions = sum(took.values()), sum(actual_shares.get(name, 0) for name in took)
    assert in_functions > 75  # the rest is the start of Python
    assert {name: 100 * actual_shares.get(name, 0) / in_functions for name in took} == pytest.approx(
        {name: 100 * seconds / total for name, seconds in took.items()}, abs=TOLERANCE
    )


@pytest.mark.live
@pytest.mark.particular
@pytest.mark.thorough
def test_without_the_interpreters_frames_callers_follow_each_other(recorded: Path):
    options = ("-F", "comm,ip,sym", "--fold-interpreters", "--no-inline")
    chains = [
        [line.split(None, 1)[1] for line in sample.splitlines()[1:]]
        for sample in perfpy("script", *options, folder=recorded).strip().split("\n\n")
    ]
    function_chains = [
        [symbol.split(":")[2].rpartition(".")[2] if symbol.startswith("py::") else symbol for symbol in chain] for chain in chains
    ]
    pairs = [tuple(chain[index : index + 2]) for chain in function_chains for index in range(1, len(chain) - 1)]
    for callee, caller in (("spin", "plain"), ("deeper", "deeper"), ("deeper", "recursion"), ("numbers", "generators"), ("spin", "step")):
        assert (callee, caller) in pairs, (callee, caller)
    inner = {symbol for chain in chains if any(symbol.startswith("py::") for symbol in chain) for symbol in chain[1:]}
    assert not [symbol for symbol in inner if symbol.startswith(("_PyEval_EvalFrameDefault", "PyObject_Call", "_PyFunction_Vectorcall"))]
    # libraries of extension modules stay, with names or, where they are stripped, without
    assert [chain for chain in chains if any("extensions" in symbol for symbol in chain) and not chain[0].startswith(("py::", "_Py"))]


@pytest.mark.live
@pytest.mark.skipif(tuple(map(int, version("numpy").split(".")[:2])) < (2, 4), reason="this numpy is imported whole")
def test_the_recorders_processes_import_half_of_numpy(tmp_path: Path):
    """numpy's import is the largest part of a short recording."""
    workload = [sys.executable, "-S", "-c", "sorted(range(300000), key=str)"]
    line = [sys.executable, "-X", "importtime", "-m", "perfpy", "record", "-q", "--python", "-F", "499", "-o", "perf.data", "--", *workload]
    process = subprocess.run(line, capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False)
    assert process.returncode == 0, process.stderr
    imported = {line.rpartition("|")[2].strip() for line in process.stderr.splitlines() if line.startswith("import time:")}
    assert "numpy._core.multiarray" in imported
    assert "numpy.lib._npyio_impl" not in imported
    assert "py::<module>:<string>" in perfpy("report", "--stdio", "-s", "sym", folder=tmp_path)


#: Pauses of random length keep the loop out of step with the sampling.
ATTACHED = """
import random, time
def spin(n):
    x = 1
    for _ in range(n): x = (x * 1103515245 + 12345) & 0x7fffffff
def heavy(): spin(6000)
def middle(): spin(3000)
def light(): spin(1000)
end = time.time() + 300
while time.time() < end: heavy(); middle(); light(); spin(random.randrange(1500))
"""
ENOUGH_SAMPLES = 2000  # a share of 60 % is then off by 3 points once in 150 runs


@pytest.mark.live
@pytest.mark.particular
def test_a_running_process_gives_its_names_and_stays_unchanged(tmp_path: Path):
    python = interpreter("3.14")
    if not python:
        pytest.skip("no Python 3.14 on this machine")
    with subprocess.Popen([python, "-c", ATTACHED]) as process:
        try:
            time.sleep(0.5)
            for seconds in ("3", "15", "60"):  # a busy machine gives the program little time
                record("-p", str(process.pid), "--", "sleep", seconds, folder=tmp_path)
                if len(perfpy("script", "-F", "time", folder=tmp_path).splitlines()) > ENOUGH_SAMPLES:
                    break
            lines = Path(f"/tmp/perf-{process.pid}.map").read_text()
            time.sleep(0.2)
            assert process.poll() is None
            assert Path(f"/tmp/perf-{process.pid}.map").read_text() == lines
        finally:
            process.kill()
            Path(f"/tmp/perf-{process.pid}.map").unlink(missing_ok=True)
    text = perfpy("report", "--stdio", "--children", "-g", "none", "-s", "sym", folder=tmp_path)
    results = {
        name: float(percent) for percent, name in re.findall(r"^ +([\d.]+)% +[\d.]+% .*py::(heavy|middle|light):", text, re.MULTILINE)
    }
    total = sum(results.values())
    assert total > 80
    assert {name: 100 * percent / total for name, percent in results.items()} == pytest.approx(
        {"heavy": 60, "middle": 30, "light": 10}, abs=TOLERANCE
    )


# record --python: functions and lines of Python programs out of memory, started and running, as the programs measure themselves.


ENOUGH_MEMORY_SAMPLES = 600  # a share of 60 % is then off by 8 points once in 15,000 runs
VERSIONS = ("3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
STARTED = ("3.10", "3.13")  # test_python_frames.py starts every version
REPORT = ("report", "--stdio", "--children", "-g", "none", "--percent-limit", "0")

#: Lines 7 to 9 take 60, 30 and 10 of 100 parts. Pauses of random length keep work() out of step with the sampling.
LINES = """
import random, time
def spin(n):
    x = 1
    for _ in range(n): x = (x * 1103515245 + 12345) & 0x7fffffff
def work():
    spin(6000)
    spin(3000)
    spin(1000)
end = time.time() + 300
while time.time() < end:
    work()
    spin(random.randrange(10_000))
"""


@pytest.fixture(scope="module", params=VERSIONS)
def python_of_memory(request: pytest.FixtureRequest) -> str:
    path = interpreter(request.param)
    if not path:
        pytest.skip(f"no Python {request.param} on this machine")
    return path


def record_memory(*words: str, folder: Path) -> None:
    line = [*PERFPY, "record", "-q", "-o", "perf.data", "--python", "-e", "cpu-clock", "-F", "1999", *words]
    process = subprocess.run(line, capture_output=True, text=True, timeout=300, cwd=folder, check=False)
    assert process.returncode == 0, process.stderr


@pytest.mark.live
@pytest.mark.particular
@pytest.mark.parametrize("version", STARTED)
@pytest.mark.thorough
def test_a_program_that_is_started(version: str, tmp_path: Path):
    python = interpreter(version)
    if not python:
        pytest.skip(f"no Python {version} on this machine")
    (tmp_path / "program.py").write_text(PROGRAM.replace("SECONDS", "0.25"))
    record_memory("--", python, "program.py", folder=tmp_path)
    took = json.loads((tmp_path / "took.json").read_text())
    actual_shares = shares(perfpy(*REPORT, "-s", "sym", folder=tmp_path))
    total, in_functions = sum(took.values()), sum(actual_shares.get(name, 0) for name in took)
    assert in_functions > 75  # the rest is the start of Python
    assert {name: 100 * actual_shares.get(name, 0) / in_functions for name in took} == pytest.approx(
        {name: 100 * seconds / total for name, seconds in took.items()}, abs=TOLERANCE
    )


@pytest.mark.live
@pytest.mark.particular
@pytest.mark.thorough
def test_lines_of_a_program_that_runs(python_of_memory: str, tmp_path: Path):
    (tmp_path / "lines.py").write_text(LINES)
    environment = {**os.environ, "PYTHONPERFSUPPORT": "0"}
    with subprocess.Popen([python_of_memory, "lines.py"], cwd=tmp_path, env=environment) as process:
        try:
            time.sleep(0.3)
            for seconds in ("1.2", "4", "15", "60"):  # a busy machine gives the program little time
                process.send_signal(signal.SIGCONT)
                record_memory("-p", str(process.pid), "--", "sleep", seconds, folder=tmp_path)
                process.send_signal(signal.SIGSTOP)  # it would spin while its recording is read
                text = perfpy("script", "-F", "ip,sym,srcline", folder=tmp_path)
                lines = re.findall(r"py::work:\S+\s+lines\.py:(\d+)", text)
                if len(lines) > ENOUGH_MEMORY_SAMPLES:
                    break
            assert process.poll() is None
        finally:
            process.kill()
    assert len(lines) > ENOUGH_MEMORY_SAMPLES
    percent = {line: 100 * lines.count(line) / len(lines) for line in "789"}
    assert percent == pytest.approx({"7": 60, "8": 30, "9": 10}, abs=2 * TOLERANCE)
    assert re.search(r"^ *[\d.]+% +[\d.]+% .*py::spin:", perfpy(*REPORT, "-s", "sym", folder=tmp_path), re.MULTILINE)


# record --python: reports, ours and perf's, tell the threads of a Python program apart by their names.


NAMED_THREADS = """
import threading, time
def work(least):
    end = time.time() + 60
    while time.thread_time() < least and time.time() < end: sum(range(5000))
threads = [threading.Thread(target=work, args=(0.15,), name=name) for name in ("worker-1", "a name beyond the kernel's limit")]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


@pytest.mark.live
@pytest.mark.particular
@pytest.mark.parametrize("version", ["3.12", pytest.param("3.8", marks=pytest.mark.thorough)])
def test_reports_have_the_names_of_threads(version: str, tmp_path: Path) -> None:
    python = interpreter(version)
    if not python:
        pytest.skip(f"no Python {version} on this machine")
    (tmp_path / "program.py").write_text(NAMED_THREADS)
    record = [sys.executable, "-m", "perfpy", "record", "-q", "--python", "-F", "499", "-e", "task-clock", "-o", "perf.data"]
    subprocess.run([*record, python, "program.py"], cwd=tmp_path, timeout=100, check=True)
    commands = [PERFPY, *([["perf"]] if shutil.which("perf") else [])]
    for command in commands:
        report = [*command, "report", "-i", "perf.data", "--stdio", "--no-children", "-g", "none", "-s", "comm"]
        text = output_of(report, cwd=tmp_path, timeout=100)
        shares = {name: float(share) for share, name in re.findall(r"^ +([0-9.]+)%  (.*?) *$", text, re.MULTILINE)}
        assert shares.get("worker-1", 0) > 10, text
        assert shares.get("a name beyond the kernel's limit", 0) > 10, text


# record --python finds the callback that blocks an event loop of asyncio, on the CPU or asleep.


BLOCKED_LOOP = """
import asyncio, time
def crunch(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: sum(i * i for i in range(500))
async def slow():
    for _ in range(3):
        crunch(0.3)
        await asyncio.sleep(0.02)
    time.sleep(0.4)
async def quick():
    for _ in range(100):
        crunch(0.002)
        await asyncio.sleep(0.001)
async def main(): await asyncio.gather(slow(), quick())
asyncio.run(main())
"""


@pytest.mark.live
@pytest.mark.parametrize(
    "version", [pytest.param("3.8", marks=pytest.mark.thorough), pytest.param("3.12", marks=pytest.mark.thorough), "3.13"]
)
def test_a_blocking_callback_is_counted_and_named(version: str, tmp_path: Path) -> None:
    python = interpreter(version)
    if not python:
        pytest.skip(f"no Python {version} on this machine")
    (tmp_path / "program.py").write_text(BLOCKED_LOOP)
    line = [*PERFPY, "record", "--python", "--off-cpu", "-F", "499", "-o", "perf.data", "--", python, "program.py"]
    recorded = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True).stderr
    note = re.search(r"blocked the event loop for over 100 ms (\d+) times?, for ([\d,]+) ms or longer by (\S+)", recorded)
    assert note, recorded
    assert 3 <= int(note[1]) <= 3 + 30, "a busy machine can make turns of short callbacks long"
    assert int(note[2].replace(",", "")) >= 250
    chains = re.split(r"\n\n+", output_of([*PERFPY, "script", "-F", "ip,sym"], cwd=tmp_path))
    marked = [chain for chain in chains if "[event loop blocked for over 100 ms]" in chain]
    assert len(marked) > 50
    assert all(re.search(r"py::(?:Handle\.)?_run:(?s:.*)\n.*\[event loop blocked.*\n.*_run_once:", chain) for chain in marked)
    assert sum("py::slow:" in chain for chain in marked) > 0.8 * len(marked)
    verdict = output_of([*PERFPY, "report", "--verdict"], cwd=tmp_path)
    assert "Long callbacks blocked the event loop for " in verdict


# record --python: the coroutines that await an asyncio task are callers of its functions, and only the right ones.


#: each crunch function runs in tasks that one coroutine awaits; the tasks have each other's addresses, and a turn of the loop runs several
AWAITED_TASKS = """
import asyncio, time
def crunch_one(n):
    for i in range(n): i * i
def crunch_two(n):
    for i in range(n): i * i
async def child(crunch):
    await asyncio.sleep(0)
    crunch(20000)
async def wait_one(): await asyncio.create_task(child(crunch_one))
async def wait_two():
    if hasattr(asyncio, "TaskGroup"):
        async with asyncio.TaskGroup() as group: group.create_task(child(crunch_two))
    else: await asyncio.gather(child(crunch_two))
async def handle():
    while time.process_time() < 0.5:
        await wait_one()
        await wait_two()
async def main():
    await asyncio.gather(*(handle() for _ in range(3)))
asyncio.run(main())
"""


RARE = [pytest.param(version, marks=pytest.mark.thorough) for version in ("3.9", "3.10", "3.11", "3.13", "3.15")]


@pytest.mark.live
@pytest.mark.particular
@pytest.mark.parametrize("version", ["3.12", "3.14", "3.8", *RARE])
def test_awaiting_coroutines_are_callers_of_tasks(version: str, tmp_path: Path) -> None:
    python = interpreter(version)
    if not python:
        pytest.skip(f"no Python {version} on this machine")
    (tmp_path / "program.py").write_text(AWAITED_TASKS)
    record = [*PERFPY, "record", "-q", "--python", "-F", "999", "-e", "task-clock", "-o", "perf.data", python, "program.py"]
    subprocess.run(record, cwd=tmp_path, timeout=100, check=True)
    text = output_of([*PERFPY, "script", "-F", "ip,sym", "--fold-interpreters", "--no-inline"], cwd=tmp_path)
    pairs: Counter[tuple[str, ...]] = Counter()
    for block in text.split("\n\n"):
        names = [word.split(":")[2] for line in block.splitlines() for word in line.split() if word.startswith("py::")]
        if names and names[0].startswith("crunch_") and "[awaited" in names:
            pairs[names[0].removeprefix("crunch_"), *(name.removeprefix("wait_") for name in names if name.startswith("wait_"))] += 1
    assert pairs["one", "one"] > 5, text[:5000]
    assert pairs["two", "two"] > 5
    assert len(pairs) == 2, pairs


#: a master that waits for a worker, as those of web servers and pools do
MASTER = """
import os, time
def work():
    end = time.monotonic() + 60
    while time.monotonic() < end: sum(range(1000))
pid = os.fork()
if pid == 0: work()
print("started", flush=True)
os.waitpid(pid, 0)
"""


@pytest.mark.live
def test_running_workers_of_a_process_are_recorded(tmp_path: Path) -> None:
    (tmp_path / "master.py").write_text(MASTER)
    with subprocess.Popen([sys.executable, "master.py"], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as master:
        assert master.stdout is not None
        assert master.stdout.readline() == "started\n"
        (worker,) = map(int, Path(f"/proc/{master.pid}/task/{master.pid}/children").read_text().split())
        try:
            target = ["-p", str(master.pid), "--", "sleep", "1"]
            record = [*PERFPY, "record", "-q", "--python", "-F", "499", "-e", "task-clock"]
            subprocess.run([*record, "-o", "all.data", *target], cwd=tmp_path, timeout=60, check=True)
            subprocess.run([*record, "--no-descendants", "-o", "one.data", *target], cwd=tmp_path, timeout=60, check=True)
            stacks = output_of([*PERFPY, "stacks", str(master.pid)], cwd=tmp_path)
        finally:
            os.kill(worker, signal.SIGKILL)  # and the master ends
    text = output_of([*PERFPY, "script", "-i", "all.data", "-F", "pid,ip,sym"], cwd=tmp_path)
    assert text.count("py::work:") > 20
    assert {int(line) for line in text.splitlines() if line.strip().isdecimal()} == {worker}
    assert "py::work:" not in output_of([*PERFPY, "script", "-i", "one.data", "-F", "pid,ip,sym"], cwd=tmp_path)
    assert re.search(rf"Process {worker}(?: \([^)\n]*\))?:(?s:.*)\n    work \(", stacks)


# record --python: C functions that Python calls have rows, named by method tables or else by their calls.


#: a module whose method is made at run time, so that no table in the file has its name
EXTENSION = """
#include <Python.h>
#include <stdlib.h>
#include <time.h>
static PyObject *burn(PyObject *self, PyObject *argument) {
    double end = PyFloat_AsDouble(argument);
    struct timespec now;
    do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now); while (now.tv_sec + now.tv_nsec * 1e-9 < end);
    Py_RETURN_NONE;
}
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "burning", 0, -1, 0};
PyMODINIT_FUNC PyInit_burning(void) {
    PyObject *module = PyModule_Create(&definition);
    PyMethodDef *method = calloc(1, sizeof *method);
    method->ml_name = "secret"; method->ml_meth = burn; method->ml_flags = METH_O;
    PyModule_AddObject(module, "burn_time", PyCFunction_New(method, 0));
    return module;
}
"""
C_CALLS = """
import json, re, sys, time
import burning
took = {}
data, text, names = list(range(60000)), "word " * 20000, ["a" * 9] * 30000
pattern = re.compile("(w)(o)(x)")
def measured(name, function, seconds):
    began = time.thread_time()
    while time.thread_time() < began + seconds: function()
    took[name] = took.get(name, 0) + time.thread_time() - began
def sort():
    sorted(data, reverse=True)
def search():
    pattern.search(text)
def total():
    sum(data)
def join():
    ",".join(names)
def burn():
    burning.burn_time(time.thread_time() + 0.05)
def spin():
    x = 1
    for _ in range(3000): x = (x * 1103515245 + 12345) & 0x7fffffff
for _ in range(2):
    measured("sorted", sort, 0.12); measured("re.Pattern.search", search, 0.15); measured("sum", total, 0.12)
    measured("str.join", join, 0.1); measured("burn_time", burn, 0.15); measured("spin", spin, 0.1)
json.dump(took, open("took.json", "w"))
"""


@pytest.mark.live
@pytest.mark.particular
def test_c_functions_that_python_calls_have_rows_at_the_lines_of_their_calls(python_of_memory: str, tmp_path: Path) -> None:
    include = subprocess.run(
        [python_of_memory, "-c", "import sysconfig; print(sysconfig.get_paths()['include'])"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if not shutil.which("gcc") or not (Path(include) / "Python.h").exists():
        pytest.skip("no gcc, or no headers of this Python")
    (tmp_path / "burning.c").write_text(EXTENSION)
    subprocess.run(
        ["gcc", "-O1", "-w", "-shared", "-fPIC", f"-I{include}", "-o", "burning.so", "burning.c"], cwd=tmp_path, check=True, timeout=60
    )
    subprocess.run(["strip", "burning.so"], cwd=tmp_path, check=True, timeout=60)
    (tmp_path / "program.py").write_text(C_CALLS)
    record_memory("--", python_of_memory, "program.py", folder=tmp_path)
    took = json.loads((tmp_path / "took.json").read_text())
    rows = json.loads(perfpy("report", "--json", "--no-children", "-s", "pyfunc,pyline", folder=tmp_path))["events"][0]["rows"]
    periods: Counter[str] = Counter()
    lines: dict[str, Counter[str]] = {}
    for row in rows:
        name, _, kind = row["keys"]["pyfunc"].partition(" ")
        if name in took:
            periods[name] += row["period"]
            place = row["keys"]["pyline"].rpartition("/")[2].removeprefix(f"{name} ")
            lines.setdefault(name, Counter())[f"{place} {kind}"] += row["period"]
    total, in_functions = sum(took.values()), sum(periods.values())
    assert {name: 100 * periods[name] / in_functions for name in took} == pytest.approx(
        {name: 100 * seconds / total for name, seconds in took.items()}, abs=TOLERANCE
    )
    written = C_CALLS.split("\n")
    calls = {"sorted": "sorted(", "re.Pattern.search": ".search(", "sum": "sum(", "str.join": ".join(", "burn_time": "burn_time("}
    for name, call in calls.items():
        line = next(number for number, text in enumerate(written, 1) if call in text)
        kind = "<built-in, by its call>" if name == "burn_time" else "<built-in>"
        # a busy machine reads a few frames later than their samples, when their line is open
        assert lines[name][f"program.py:{line} {kind}"] > 0.97 * lines[name].total(), lines[name]


#: each function has a thread of its own; the last one's list is shared by all, so that its lock is not biased to one thread
WITHOUT_GIL = """
import json, sys, threading, time
assert not sys._is_gil_enabled()
took, shared = {}, []
def work(name, function):
    end = time.time() + 2
    while time.time() < end: function()
    took[name] = time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID)
def squares():
    sum(n * n for n in range(2000))
def texts():
    for n in range(500): str(n)
def appends():
    for n in range(300): shared.append(n)
    shared.clear()
threads = [threading.Thread(target=work, args=(f.__name__, f), name=f"t-{f.__name__}") for f in (squares, texts, appends)]
for thread in threads: thread.start()
for thread in threads: thread.join()
json.dump(took, open("took.json", "w"))
"""


@pytest.mark.live
@pytest.mark.particular
def test_threads_without_a_gil_have_their_names_and_functions(tmp_path: Path) -> None:
    python = next(filter(None, (shutil.which(f"python3.{minor}t") for minor in (13, 14, 15))), "")
    if not python:
        pytest.skip("no Python without a GIL on this machine")
    (tmp_path / "program.py").write_text(WITHOUT_GIL)
    line = [*PERFPY, "record", "-q", "-o", "perf.data", "--python", "-e", "task-clock", "-F", "499", "--", python, "program.py"]
    subprocess.run(line, capture_output=True, timeout=100, cwd=tmp_path, check=True)
    took = json.loads((tmp_path / "took.json").read_text())
    options = ("report", "--stdio", "--children", "-g", "none", "-s", "comm,sym", "--percent-limit", "1")
    rows = re.findall(r"^ +([\d.]+)% +[\d.]+% +t-(\w+) +\[\.\] py::(\w+):", perfpy(*options, folder=tmp_path), re.MULTILINE)
    actual = {function: float(share) for share, name, function in rows if function in took and name == function}
    assert {function for _, _, function in rows if function in took} == set(took) == set(actual), rows
    assert {name: 100 * share / sum(actual.values()) for name, share in actual.items()} == pytest.approx(
        {name: 100 * seconds / sum(took.values()) for name, seconds in took.items()}, abs=TOLERANCE
    )


#: sort() has the list's lock for a third of a second, in which append() waits
OF_ONE_LIST = """
import random, threading, time
values = [random.random() for _ in range(400_000)]
copies = [values[:] for _ in range(12)]
shared = copies[0]
def sorts():
    global shared
    for shared in copies: shared.sort()
def appends():
    while sorting.is_alive():
        shared.append(1.0)
        time.sleep(0.01)
sorting = threading.Thread(target=sorts)
sorting.start()
threading.Thread(target=appends, name="t-appends").start()
"""


@pytest.mark.live
@pytest.mark.particular
def test_waits_for_the_lock_of_an_object_are_no_waits_for_a_lock_of_the_program(tmp_path: Path) -> None:
    python = next(filter(None, (shutil.which(f"python3.{minor}t") for minor in (13, 14, 15))), "")
    if not python:
        pytest.skip("no Python without a GIL on this machine")
    (tmp_path / "program.py").write_text(OF_ONE_LIST)
    line = [*PERFPY, "record", "-q", "-o", "perf.data", "--python", "--off-cpu", "-e", "task-clock", "-F", "99", "--", python, "program.py"]
    subprocess.run(line, capture_output=True, timeout=200, cwd=tmp_path, check=True)
    text = perfpy("report", "--verdict", folder=tmp_path)
    assert re.search(r'"t-appends" waited .* for a Python object that another thread used, in appends\(\) \(program.py:11\)', text), text
    assert "GIL" not in text


OF_LOOPS = {
    "uvloop": (
        "import asyncio, uvloop; switch = lambda: asyncio.sleep(0); run = uvloop.run\nasync def main(): await asyncio.gather(one(), two())"
    ),
    "trio": (
        "import trio; switch = lambda: trio.sleep(0); run = trio.run\nasync def main():\n"
        "    async with trio.open_nursery() as nursery: nursery.start_soon(one); nursery.start_soon(two)"
    ),
}
TURNS = """
import time
def crunch_one(): sum(n * n for n in range(20000))
def crunch_two(): [str(n) for n in range(20000)]
async def one():
    while time.process_time() < 1: crunch_one(); await switch()
async def two():
    while time.process_time() < 1: crunch_two(); await switch()
LOOP
run(main)
"""


@pytest.mark.live
@pytest.mark.particular
@pytest.mark.parametrize("loop", OF_LOOPS)
def test_stacks_of_coroutines_are_not_mixed_by_other_event_loops(loop: str, tmp_path: Path) -> None:
    python = os.environ.get("PERFPY_PYTHON_WITH_LOOPS", sys.executable)
    if subprocess.run([python, "-c", f"import {loop}"], capture_output=True, check=False).returncode:
        pytest.skip(f"{python} has no {loop}; set PERFPY_PYTHON_WITH_LOOPS")
    call = "run(main())" if loop == "uvloop" else "run(main)"
    (tmp_path / "program.py").write_text(TURNS.replace("LOOP", OF_LOOPS[loop]).replace("run(main)", call))
    record = [*PERFPY, "record", "-q", "--python", "-F", "999", "-e", "task-clock", "-o", "perf.data", "--", python, "program.py"]
    subprocess.run(record, cwd=tmp_path, timeout=100, check=True)
    text = output_of([*PERFPY, "script", "-F", "ip,sym", "--fold-interpreters", "--no-inline"], cwd=tmp_path)
    callers: Counter[tuple[str, ...]] = Counter()
    for block in text.split("\n\n"):
        names = [word.split(":")[2] for line in block.splitlines() for word in line.split() if word.startswith("py::")]
        crunched = [name.removeprefix("crunch_") for name in names if name.startswith("crunch_")]
        if crunched:
            callers[crunched[0].partition(".")[0], *(name for name in names if name in ("one", "two"))] += 1
    assert callers["one", "one"] > 50
    assert callers["two", "two"] > 50
    assert {*callers} == {("one", "one"), ("two", "two")}, callers


# The processes of a service have names.

SERVICE = """
import multiprocessing, os, sys, time


def spin(seconds):
    end = time.time() + seconds
    while time.time() < end:
        sum(range(1000))


if __name__ == "__main__":
    if sys.argv[1] == "fork":
        for _ in range(2):
            if not os.fork():
                spin(60)
    else:
        for _ in range(2):
            multiprocessing.get_context(sys.argv[1]).Process(target=spin, args=(60,), daemon=True).start()
    print("ready", flush=True)
    time.sleep(60)
"""


@pytest.mark.live
@pytest.mark.parametrize("way", ["fork", "spawn", "forkserver"])
def test_workers_of_a_service_have_names(tmp_path: Path, way: str):
    (tmp_path / "service.py").write_text(SERVICE)
    line = [sys.executable, "service.py", way]
    with subprocess.Popen(line, cwd=tmp_path, stdout=subprocess.PIPE, start_new_session=True) as service:
        try:
            assert service.stdout is not None
            service.stdout.readline()
            time.sleep(1.0)  # until the workers run
            output_of([*PERFPY, "record", "-q", "-o", "perf.data", "--python", "-p", str(service.pid), "--", "sleep", "1.5"], cwd=tmp_path)
        finally:
            os.killpg(service.pid, signal.SIGKILL)
    report = json.loads(output_of([*PERFPY, "report", "--json", "-", "-i", "perf.data"], cwd=tmp_path))
    names = {row["name"]: row["function"] for row in report["processes"]}
    workers = [name for name in names if name.startswith("service.py: worker ")]
    ends = ("1", "2") if way == "fork" else ("1, spin()", "2, spin()")
    assert sorted(workers) == [f"service.py: worker {end}" for end in ends]
    assert all("py::spin:" in names[name] for name in workers)


# Mixed stacks of Python and of extension modules of the program, which call each other: whole stacks, and rows with lines.


#: as Cython writes it: each statement of the source before the C that it made of it
CYTHON_EXTENSION = """/* Generated by Cython 3.1 */
#include <Python.h>
__attribute__((noinline)) static double __pyx_f_5mixed_spin(long n) {
  /* "mixed.pyx":4
 *     for i in range(n):
 */
    volatile double sum = 0;
    for (long i = 0; i < n; i++) sum += i * 0.5;
    return sum;
}
__attribute__((noinline)) static PyObject *__pyx_pw_5mixed_1outer(PyObject *self, PyObject *args) {
    PyObject *function;
    if (!PyArg_ParseTuple(args, "O", &function)) return NULL;
    double sum = __pyx_f_5mixed_spin(400000);
    PyObject *result = PyObject_CallFunction(function, "i", 1);
    __asm__ volatile("" : : "m"(sum));
    return result;
}
static PyMethodDef methods[] = {{"outer", __pyx_pw_5mixed_1outer, METH_VARARGS, NULL}, {NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "mixed", NULL, -1, methods};
PyMODINIT_FUNC PyInit_mixed(void) { return PyModule_Create(&module); }
"""
CALLERS = """
import time, mixed
def spin():
    total = 0
    for number in range(20000):
        total += number
def last(number):
    spin()
def leaf(number):
    spin()
    return middle(2)
def middle(depth):
    return mixed.outer(inner if depth < 2 else last)
def inner(number):
    return mixed.outer(leaf)
while time.process_time() < 0.8:
    middle(1)
"""
OUTER, SPIN = "__pyx_pw_5mixed_1outer", "__pyx_f_5mixed_spin"
#: the stacks that the program can have, outermost function first
TURN = ("<module>", "middle", OUTER, "inner", OUTER, "leaf", "middle", OUTER, "last")


@pytest.fixture(params=["3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14", "3.15"])
def mixed(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """The folder of a recording of CALLERS."""
    path = interpreter(request.param)
    if not path:
        pytest.skip(f"no Python {request.param} on this machine")
    headers = output_of([path, "-c", "import sysconfig; print(sysconfig.get_paths()['include'])"]).strip()
    if not Path(headers, "Python.h").is_file() or not shutil.which("gcc"):
        pytest.skip(f"no headers of Python {request.param}, or no gcc")
    (tmp_path / "mixed.c").write_text(CYTHON_EXTENSION)
    (tmp_path / "program.py").write_text(CALLERS)
    subprocess.run(
        ["gcc", "-g", "-O2", "-shared", "-fPIC", f"-I{headers}", "-o", "mixed.so", "mixed.c"], cwd=tmp_path, check=True, timeout=60
    )
    line = [*PERFPY, "record", "-q", "--python", "-F", "499", "-o", "perf.data", "--", path, "program.py"]
    process = subprocess.run(line, capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False)
    assert process.returncode == 0, process.stderr
    return tmp_path


@pytest.mark.live
@pytest.mark.particular
def test_stacks_of_python_and_extensions_are_in_order(mixed: Path) -> None:
    text = perfpy("script", "-F", "ip,sym", "--no-inline", folder=mixed)
    pattern = re.compile(rf"py::(<module>|middle|inner|leaf|last|spin):\S*program\.py|({OUTER}|{SPIN})$", re.MULTILINE)
    stacks = [tuple(found[1] or found[2] for found in pattern.finditer(sample))[::-1] for sample in text.split("\n\n")]
    stacks = [stack for stack in stacks if "middle" in stack or OUTER in stack]
    allowed = {TURN[:length] for length in range(1, len(TURN) + 1)}
    allowed |= {(*stack, SPIN) for stack in allowed if stack[-1] == OUTER} | {(*stack, "spin") for stack in allowed if stack[-1][0] == "l"}
    wrong = [stack for stack in stacks if stack not in allowed]
    assert len(stacks) > 100
    assert len({*stacks} & allowed) >= 5
    assert len(wrong) <= 0.02 * len(stacks), Counter(wrong).most_common(5)


@pytest.mark.live
@pytest.mark.particular
def test_functions_of_own_extensions_have_rows_with_the_lines_of_their_source(mixed: Path) -> None:
    with Recording(str(mixed / "perf.data")) as recording:
        report = recording.report(options=headline_options(SampleFilter()))
        text = " ".join(sentence.text for sentence in profile_verdict(report, recording.data))
        assert recording.symbolizer().folds_interpreters
    assert "in mixed.spin() (mixed.pyx:4), called from mixed.outer()" in text
