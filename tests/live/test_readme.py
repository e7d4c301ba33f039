"""What README, the guide and the notebook show runs as it stands there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from contextlib import contextmanager, nullcontext
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import perfpy
from perfpy.errors import PerfError
from tests.builders.perfdata import simple_recording

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


# Every line of the tables "I want to ..." in README and the guide does what it says, on a small program.


CHECKOUT = Path(__file__).resolve().parents[2]
PAGES = [CHECKOUT / "README.md", CHECKOUT / "man" / "topics" / "guide.md"]
SECTIONS = [page.read_text().split("## I want to ...")[1].split("\n## ")[0] for page in PAGES]
TABLES = [dict(re.findall(r"^\| (?!\.\.\.)(.+?) \| `(.+)` \|$", section, re.MULTILINE)) for section in SECTIONS]
#: wish -> line; README's wishes are shorter words for lines of the guide
LINES = TABLES[1]
#: what stands in PATH before the real ones: nobody waits ten seconds, builds anything, or records what else runs here
STAND_INS = {
    "perfpy": f'#!/bin/sh\nexec {sys.executable} -m perfpy "$@"\n',
    "sleep": "#!/bin/sh\nexec /bin/sleep 0.3\n",
    "make": "#!/bin/sh\nexec ./program\n",
    "pgrep": "#!/bin/sh\ncat running.pid\n",
}
PROGRAM = "#!/bin/sh\ni=0; while [ $i -lt 50000 ]; do i=$((i+1)); done\n: </dev/null\n"
#: what the answer to a wish shows; of the others, that there is one
SHOWS = {
    "see where a program spends its time, and who calls what": "Children",
    "find the slow function and line of a running Python program": "busy",
    "find the slow function of a Node or Java program": "busy",
    "know what a program costs, and how much that varies": "seconds time elapsed",
    "know whether the new build is faster, or whether the difference is noise": "./new",
    "see each call of a function, with an argument (as root)": "size=42",
    "see how long the calls of a function took, and how long they waited (as root)": "1 call by 1 thread",
    "see the calls of functions just before one was slow (as root)": "parse",
    "see all calls of a small program in their order": "parse",
    "see the system calls of a program, and how long they took": "execve",
    "see which files a program opens, with time and result": "filename: ",
    "see which tasks waited for a CPU, and how long": "Max delay",
    "see why a build uses only one CPU": "Parallelism",
    "watch what the whole machine does now": "PerfTop",
}
#: what inserts a probe into a program
PROBING = ("perfpy probe", "perfpy latency", "perfpy trace --calls")
MACHINE_WIDE = ("-a", "-e syscalls", "perfpy top", "perfpy trace", "perfpy sched", *PROBING)
#: what would run until Ctrl-C -> what ends
ENDING = {"perfpy top": "perfpy top --updates 1 -d 1"}
#: what a probe can be put into; other lines run a script
COMPILED_NAME = f"compiled_{os.getpid()}"  # the kernel's probes are the whole machine's, and a killed run leaves its own
COMPILED = r"""
#include <stdio.h>
__attribute__((noinline)) void parse(int size) { printf("%d\n", size); }
__attribute__((noinline)) void handle(int size) { parse(size); puts(""); }
int main(void) { handle(42); }
"""


def test_the_guide_has_every_line_of_the_front_page() -> None:
    for table, section in zip(TABLES, SECTIONS, strict=True):
        assert len(table) == section.count("\n| ") - 2  # its head
    assert set(TABLES[0].values()) <= set(LINES.values())
    assert set(SHOWS) <= set(LINES)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("readme")
    (folder / "bin").mkdir()
    for name, text in STAND_INS.items():
        (folder / "bin" / name).write_text(text)
    for name in ("program", "old", "new"):
        (folder / name).write_text(PROGRAM)
    for path in (*(folder / "bin").iterdir(), folder / "program", folder / "old", folder / "new"):
        path.chmod(0o755)
    if shutil.which("gcc"):
        build = ["gcc", "-g", "-O1", "-o", COMPILED_NAME, "-x", "c", "-"]
        subprocess.run(build, input=COMPILED, text=True, check=True, capture_output=True, cwd=folder, timeout=60)
    (folder / "app.js").write_text(
        "function busy(n) { let s = 0; for (let i = 0; i < n; i++) s += i % 7; return s }\nfor (let i = 0; i < 300; i++) busy(1e6)\n"
    )
    (folder / "app.py").write_text("def load():\n    return bytearray(8_000_000)\n\nkept = load()\n")
    (folder / "loop.py").write_text(
        "import time\ndef busy():\n    return sum(i * i for i in range(20_000))\n\nwhile True:\n    busy()\n    time.sleep(0.003)\n"
    )
    hosts = [
        folder / "before" / "web1.data",
        folder / "before" / "web2.data",
        folder / "after" / "web1.data",
        folder / "after" / "web2.data",
    ]
    for path in hosts:
        path.parent.mkdir(exist_ok=True)
    for name in ("perf.data", "before.data", "after.data", *map(str, hosts)):
        shell(f"perfpy record -q -g -e cpu-clock -o {name} -- ./program", folder)
    yield folder
    shell(f"perfpy probe -q -d 'probe_{COMPILED_NAME}:*' || true", folder)


@contextmanager
def running_program(folder: Path) -> Iterator[None]:
    """Run the Python program; pgrep finds it."""
    with subprocess.Popen([sys.executable, folder / "loop.py"]) as process:
        (folder / "running.pid").write_text(str(process.pid))
        try:
            yield
        finally:
            process.kill()


def shell(line: str, folder: Path) -> str:
    """What a line writes, on both streams."""
    environment = os.environ | {
        "PATH": f"{folder}/bin:{os.environ['PATH']}",
        "PYTHONPATH": str(CHECKOUT),
        "HOME": str(folder),
        "TMPDIR": str(folder),
    }
    for screen in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):  # nobody wants to see it
        environment.pop(screen, None)
    with open(folder / "shown", "w+", errors="replace") as output:  # not a pipe, into which record would write
        process = subprocess.run(["sh", "-c", line], check=False, stdout=output, stderr=output, cwd=folder, env=environment, timeout=300)
        output.seek(0)
        text = output.read()
    assert process.returncode == 0, text
    return text


def marked(wish: str, line: str) -> object:
    marks = [pytest.mark.system_wide if any(part in line for part in MACHINE_WIDE) else pytest.mark.live]
    if "node " in line:
        marks.append(pytest.mark.skipif(shutil.which("node") is None, reason="no node in PATH"))
    if "perfpy why" in line:
        marks.append(pytest.mark.alone)
    if any(part in line for part in PROBING):
        line = line.replace("./program", f"./{COMPILED_NAME}").replace("probe_program", f"probe_{COMPILED_NAME}")
        marks.append(pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc in PATH"))
    return pytest.param(wish, line, marks=marks, id=wish)


@pytest.mark.parametrize(("wish", "line"), [marked(*row) for row in LINES.items()])
def test_the_line_answers(wish: str, line: str, folder: Path) -> None:
    data = (folder / "perf.data").read_bytes()
    for endless, ending in ENDING.items():
        line = re.sub(rf"{endless}\b", ending, line)
    with running_program(folder) if "pgrep" in line else nullcontext():
        result = shell(line, folder)
    written = [folder / name for name in re.findall(r"(?:--html|-o) (\S+)", line)]
    assert SHOWS.get(wish, "") in result
    assert result or all(path.stat().st_size for path in written)
    (folder / "perf.data").write_bytes(data)


# Run the Python examples of README and of `perfpy help python` on a small program.


EXAMPLES = [
    (page, block)
    for page in ("README.md", "man/topics/python.md")
    for block in re.findall(r"```python\n(.*?)```", (CHECKOUT / page).read_text(), re.DOTALL)
]
EXAMPLE_PROGRAM = "#!/bin/sh\ni=0; while [ $i -lt 50000 ]; do i=$((i+1)); done\n"
PREPARE = """
import perfpy

for folder in ("monday", "tuesday"):
    for host in ("web1", "web2"):
        perfpy.record(["./program"], events="cpu-clock", output=f"{folder}/{host}.data")
"""


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(CHECKOUT), "HOME": str(folder)}
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False, cwd=folder, env=environment, timeout=300)


@pytest.fixture
def example_folder(tmp_path: Path) -> Path:
    for name in ("program", "make"):
        (tmp_path / name).write_text(EXAMPLE_PROGRAM)
        (tmp_path / name).chmod(0o755)
    for name in ("monday", "tuesday"):
        (tmp_path / name).mkdir()
    return tmp_path


def test_there_are_examples_of_the_api_and_of_budgets() -> None:
    assert [page for page, block in EXAMPLES if "perf_budget" not in block] == ["README.md", "man/topics/python.md"]
    assert sum("perf_budget" in block for _, block in EXAMPLES) == 1


@pytest.mark.system_wide
@pytest.mark.parametrize(("page", "block"), [example for example in EXAMPLES if "perf_budget" not in example[1]])
def test_the_examples_run(page: str, block: str, example_folder: Path) -> None:
    prepared = run(example_folder, "-c", PREPARE)
    assert prepared.returncode == 0, prepared.stderr
    result = run(example_folder, "-W", "error", "-c", block.replace("duration=10)", "duration=0.3)"))
    assert (result.returncode, result.stderr) == (0, "")
    assert "%" in result.stdout


@pytest.mark.live
@pytest.mark.parametrize("block", [block for _, block in EXAMPLES if "perf_budget" in block])
def test_the_budgets_are_accepted(block: str, example_folder: Path) -> None:
    (example_folder / "test_budgets.py").write_text(block)
    update = run(example_folder, "-m", "pytest", "-q", "-p", "perfpy.pytest_plugin", "-p", "no:cacheprovider", "--perf-update")
    assert update.returncode == 0, update.stdout  # without the counter, budgets skip with the reason
    check = run(example_folder, "-m", "pytest", "-q", "-p", "perfpy.pytest_plugin", "-p", "no:cacheprovider")
    assert check.returncode == 0, check.stdout
    assert re.search(r"\b[1-3] passed", check.stdout)
    assert "error" not in check.stdout


# The session that .github/notebook.md shows: it runs, prints what stands below its cells, and is typed.


PAGE = (CHECKOUT / ".github" / "notebook.md").read_text()
CELLS = re.findall(r"```python\n((?:.*\n)*?)```\n\n((?: {4}.*\n)+)", PAGE)
#: what differs from run to run: numbers, bars, which file of the interpreter is hot
VARIES = re.compile(r"[\d.]+|#[# ]*|(?<=% ) .*|(?<=mostly in ).*|(?<=\[').*?(?=,)")

#: threads have names in the kernel, too, from Python 3.14 on: they have rows of their own
THREADS = re.compile(r", 'Thread-\d+ \(\w+\), [\d.]+ times'|'Thread-\d+ \(\w+\), [\d.]+ times', ")


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "notebook.py"
    path.write_text("".join(code for code, _ in CELLS))
    return path


def shape(text: str) -> list[str]:
    """The lines without what varies; rows of one kind, of which there may be more or fewer, are one, and bars none."""
    text = THREADS.sub("", text)
    lines = [" ".join(VARIES.sub("~", line).split()) for line in text.splitlines()]
    return [line for line, _ in groupby(lines) if line.strip("~ ")]


def test_it_has_forty_lines(script: Path) -> None:
    assert len(CELLS) == PAGE.count("```python") == 6
    assert len([line for line in script.read_text().splitlines() if line]) <= 40


@pytest.mark.live
@pytest.mark.thorough
def test_the_notebook_prints_the_page(script: Path) -> None:
    process = subprocess.run([sys.executable, script], cwd=script.parent, capture_output=True, text=True, timeout=300, check=False)
    assert process.returncode == 0, process.stderr
    text = "".join(re.sub(r"^    ", "", output, flags=re.MULTILINE) for _, output in CELLS)
    assert shape(process.stdout) == shape(text)
    assert (script.parent / "flame.html").stat().st_size > 1000


def test_the_type_checkers_read_the_same() -> None:
    """tests/notebook.py, which mypy --strict checks with all other files."""
    code = (CHECKOUT / "tests" / "notebook.py").read_text().partition('"""\n\n')[2]
    assert code == "\n".join(code for code, _ in CELLS)


@pytest.mark.thorough
def test_pyright_is_content(script: Path) -> None:
    packages = os.environ.get("PERFPY_NODE_PACKAGES")
    pyright = shutil.which("pyright", path=f"{packages}/node_modules/.bin") if packages else None
    if pyright is None:
        pytest.skip("no node with the package pyright: set PERFPY_NODE_PACKAGES")
    command = [pyright, "--pythonpath", sys.executable, "--level", "error", "notebook.py"]
    process = subprocess.run(command, cwd=script.parent, capture_output=True, text=True, timeout=300, check=False)
    assert process.returncode == 0, process.stdout


# A session as in a notebook: record, narrow, group by thread and second, compare two runs, hold a budget; and twenty wrong uses.


SESSION_PROGRAM = """
import threading, time, sys
def spin(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: sum(range(500))
threads = [threading.Thread(target=spin, args=(float(sys.argv[1]) / 2,)) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""


@pytest.mark.live
@pytest.mark.kernel_too
@pytest.mark.thorough
def test_a_session(tmp_path: Path) -> None:
    # 1. record the program as it was, and as it is
    old, new = tmp_path / "old.data", tmp_path / "new.data"
    for path, seconds in ((old, "0.2"), (new, "0.8")):
        summary = perfpy.record(
            [sys.executable, "-c", SESSION_PROGRAM, seconds], events="cpu-clock:u", frequency=500, output=path, call_graph=True
        )
        assert (summary.exit_code, summary.lost) == (0, 0)
    with perfpy.open(old) as before, perfpy.open(new) as after:
        # 2. what is in it: a table of rows, with numbers
        report = after.report(by="dso")
        shares = report.to_pandas().set_index("dso")["overhead"]
        assert shares.sum() == pytest.approx(100)
        # 3. narrow it: the busiest thread, without the program's first tenth
        frame = after.samples.to_pandas(["tid", "time", "symbol", "comm"])
        busiest = int(frame.groupby("tid").size().idxmax())
        part = after.where(tid=busiest, time=("10%", None))
        assert {*part.samples["tid"].tolist()} == {busiest}
        assert 0 < part.report().samples <= len(frame)
        # 4. group it by thread and tenth of a second, as a plot has it
        frame["tenth"] = (frame["time"] - frame["time"].min()) // 100_000_000
        plotted = frame.pivot_table(index="tenth", columns="tid", values="time", aggfunc="count").fillna(0)
        assert plotted.to_numpy().sum() == len(frame)
        assert len(plotted.columns) >= 2
        # 5. what changed, by more than noise
        (changes,) = perfpy.diff(before, after, by="comm")
        assert changes.after.period > changes.before.period
        assert changes.above(0.5)
    # 6. a budget: the new one is slower by more than half, which nobody may merge
    verdict = perfpy.compare(
        *([sys.executable, "-c", SESSION_PROGRAM, seconds] for seconds in ("0.05", "0.6")), events="task-clock", repeat=6
    )
    assert verdict.slower(by=0.5)
    assert verdict.higher("task-clock", by=0.5)


WRONG: list[tuple[Callable[[perfpy.Recording], Any], type[Exception], str]] = [
    (lambda r: r.samples["callchain"], KeyError, "this recording has event, "),
    (lambda r: r.samples["symbols"], KeyError, "comm, dso, symbol, srcline"),
    (lambda r: r.samples.to_dict(["ip", "colour"]), KeyError, "no column 'colour'"),
    (lambda r: r.where(pid="7"), TypeError, "pid takes a number"),  # type: ignore[arg-type]
    (lambda r: r.where(comm=7), TypeError, "comm takes a text"),  # type: ignore[arg-type]
    (lambda r: r.where(time=3), TypeError, "time takes a start and an end"),  # type: ignore[arg-type]
    (lambda r: r.where(time=("soon", None)), ValueError, "a time is seconds from the first sample"),
    (lambda r: r.where(event="cycles"), PerfError, "its events: cpu-clock:u"),
    (lambda r: r.report(by="colour"), PerfError, "colour"),
    (lambda r: r.report()["cycles"], KeyError, "no event 'cycles' in this report"),
    (lambda r: r.report()[99], IndexError, ""),
    (lambda r: r.tracepoint("sched:sched_switch"), PerfError, "no tracepoint 'sched:sched_switch'"),
    (lambda r: r.flamegraph("/nowhere/at/all.html"), PerfError, "/nowhere/at/all.html"),
    (lambda _: perfpy.open("/nowhere/perf.data"), PerfError, "record one first"),
    (lambda _: perfpy.stat("true"), PerfError, "a command must be a list of arguments"),
    (lambda _: perfpy.stat(["true"], events="no-such-event"), PerfError, "no-such-event"),
    (lambda _: perfpy.stat(["true"], repeat=0), PerfError, "repeat"),
    (lambda _: perfpy.record(["true"], frequency=-1), PerfError, "frequency"),
    (lambda _: perfpy.compare(["true"], []), PerfError, "compare needs two commands"),
    (lambda _: perfpy.count("task-clock:u,("), PerfError, "column"),
]


@pytest.mark.parametrize(("use", "error", "says"), WRONG, ids=range(len(WRONG)))
def test_a_wrong_use_gets_a_remedy(use: Callable[[perfpy.Recording], Any], error: type[Exception], says: str, tmp_path: Path) -> None:
    path = tmp_path / "perf.data"
    path.write_bytes(simple_recording(10).file())
    with perfpy.open(path) as recording, pytest.raises(error) as raised:
        use(recording)
    assert says in str(raised.value)
    assert "\n" not in str(raised.value)
