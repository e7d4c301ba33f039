"""perfpy.profile() and perfpy.watch(): a stretch of a process as a recording, or its samples one by one."""

from __future__ import annotations

import asyncio
import linecache
import mmap
import os
import re
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

import perfpy
from perfpy import profiling
from perfpy.abi.records import Comm
from perfpy.analysis.report.report import Report
from perfpy.analysis.verdict.categories import OWN
from perfpy.errors import PerfError, UnknownEventError, UsageError
from perfpy.profiling import profile_cell
from perfpy.views.report.notebook import CellProfile

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


# perfpy.profile(): a stretch of this process, or of another one, as a recording.


pytestmark = pytest.mark.live


def busy(seconds: float) -> None:
    """Take CPU time, however long the machine needs for it."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        sum(i * i for i in range(1000))


def fail() -> None:
    busy(0.05)
    raise ZeroDivisionError


def test_only_the_block_is_recorded(tmp_path: Path) -> None:
    busy(0.2)
    with perfpy.profile(tmp_path / "block.data", events="cpu-clock:u", frequency=1000) as profile:
        busy(0.3)
    busy(0.2)
    report = profile.report(by="comm,pid")
    assert 150 < report.samples < 450
    assert len({*profile.open().samples["pid"].tolist()}) == 1
    assert profile.path == str(tmp_path / "block.data")


def test_it_starts_and_stops_again_and_again() -> None:
    profile = perfpy.profile(events="cpu-clock:u", frequency=1000, call_graph=False)
    for seconds in (0.1, 0.4):
        profile.start()
        with pytest.raises(UsageError, match="has started already"):
            profile.start()
        with pytest.raises(UsageError, match="the profile is still being recorded"):
            profile.report()
        busy(seconds)
        profile.stop()
        assert 400 * seconds < profile.report().samples < 2000 * seconds + 20
    with pytest.raises(UsageError, match="has not started"):
        profile.stop()


def test_another_process_is_profiled() -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: sum(range(1000))"]) as other:
        try:
            with perfpy.profile(pid=other.pid, events="cpu-clock:u") as profile:
                time.sleep(0.5)
        finally:
            other.kill()
    assert {*profile.open().samples["pid"].tolist()} == {other.pid}


def test_the_recorders_reason_is_reported(tmp_path: Path) -> None:
    with pytest.raises(PerfError, match="unknown event 'nosuchevent'"):
        perfpy.profile(events="nosuchevent").start()
    with pytest.raises(PerfError, match="no such process"):
        perfpy.profile(pid=2**22 - 1, events="cpu-clock").start()
    with pytest.raises(PerfError, match="nowhere"):
        perfpy.profile(tmp_path / "nowhere" / "x.data", events="cpu-clock").start()


def test_a_failure_of_the_block_is_the_one_that_is_reported() -> None:
    profile = perfpy.profile(events="cpu-clock:u")
    with pytest.raises(ZeroDivisionError), profile:
        fail()
    assert profile.report(by="comm").samples > 0


def test_modules_of_the_current_folder_are_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from perfpy.cli import script_programs

    for name in ("perfpy.py", "os.py", "subprocess.py"):
        (tmp_path / name).write_text("open('ran', 'w')\n")
    (tmp_path / "some-record").write_text("perf --version\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PERF_EXEC_PATH", str(tmp_path))
    with perfpy.profile(events="cpu-clock:u") as profile:
        busy(0.05)
    assert profile.report(by="comm").samples > 0
    command = script_programs._shell("./some-record", [])
    assert subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout.startswith("perfpy version")
    assert not (tmp_path / "ran").exists()


class Shell:
    """As much of IPython as the magic needs."""

    def __init__(self) -> None:
        self.magics: dict[str, Any] = {}

    def register_magic_function(self, function: Any, kind: str, name: str) -> None:
        self.magics[f"{kind} {name}"] = function

    def run_cell(self, cell: str) -> Shell:
        exec(cell, {"busy": busy})
        return self

    def raise_error(self) -> None:
        pass


def test_a_notebooks_cell_is_profiled() -> None:
    shell = Shell()
    perfpy.load_ipython_extension(shell)
    report = shell.magics["cell perfpy"]("comm", "busy(0.2)")
    assert report.samples > 0
    assert "<table>" in (report._repr_html_() or "")
    report = profile_cell(shell, "symbol", "busy(0.1)")
    assert isinstance(report, Report)
    assert report.to_columns()["symbol"]


class NotebookShell(Shell):
    """A shell that names its cells' code and has their lines in linecache, as IPython does."""

    execution_count = 1

    def __init__(self) -> None:
        super().__init__()
        self.compile = self
        self.transform_cell = str
        self.names: dict[str, str] = {}
        self.scope: dict[str, object] = {"busy": busy, "time": time}

    def get_code_name(self, raw: str, _transformed: str, number: int) -> str:
        return f"/tmp/ipykernel_7/{number}{len(raw)}.py"

    def format_code_name(self, name: str) -> tuple[str, str] | None:
        return ("Cell", self.names[name]) if name in self.names else None

    def run_cell(self, cell: str) -> Shell:
        path = self.get_code_name(cell, cell, self.execution_count)
        linecache.cache[path] = (len(cell), None, cell.splitlines(keepends=True), path)
        self.names[path] = f"In[{self.execution_count}]"
        exec(compile(cell, path, "exec"), self.scope)
        return self


CELL = """busy(0.4)  # </td><script>alert(1)</script>\x1b[2J
time.sleep(0.3)
nothing = "&<b>"
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="Python frames are read on x86-64")
def test_a_cells_lines_have_their_times_and_waits() -> None:
    shell = NotebookShell()
    perfpy.load_ipython_extension(shell)
    shown = shell.magics["cell perfpy"]("", CELL)
    text, page = repr(shown), shown._repr_html_()
    rows = {int(number): line for line in text.splitlines() if (number := line[24:30].strip()).isdigit() and int(number) <= 3}
    share = float(rows[1][7:15].strip().removesuffix("%"))
    assert re.search(r"^   Self   Total    Waits  Line  cell$", text, re.MULTILINE)
    path = shell.get_code_name(CELL, CELL, 1)
    (own,) = (file for event in shown.shares if "off" not in event.event for file in event.files if file.path == path)
    assert f"{share:.2f}" == f"{next(line.with_inlined for line in own.lines if line.line == 1):.2f}", (
        "as perfpy.open().source_files() has it"
    )
    assert share > 50
    assert re.fullmatch(r" *0\.3\d* s", rows[2][15:24])
    assert "%" not in rows[3]
    assert "busy" in page
    assert "memory" in text
    assert "<script" not in page
    assert "<style" not in page
    assert "&lt;script&gt;" in page
    assert "\x1b" not in page + text


CELL_WITH_THREADS = """import threading
def count(n):
    return sum(i % 7 for i in range(n))
def job():
    for _ in range(6):
        count(60000)
    time.sleep(0.4)
threads = [threading.Thread(target=job) for _ in range(2)]
for thread in threads: thread.start()
busy(0.15)
for thread in threads: thread.join()
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="Python frames are read on x86-64")
def test_nothing_calls_a_cell() -> None:
    """The notebook and the profiler run it; what the cell calls is called from it."""
    text = repr(profile_cell(NotebookShell(), "", CELL_OF_LINES))
    assert re.search(r" in the top level of cell \((\d+ % at )?cell:\d\)\.$", text, re.MULTILINE)
    text = repr(profile_cell(NotebookShell(), "", CELL_OF_CALLS))
    assert re.search(r" in g\(\) \((\d+ % at )?cell:\d\), called from the top level of cell\.$", text, re.MULTILINE)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="Python frames are read on x86-64")
def test_functions_of_other_cells_have_the_names_of_tracebacks() -> None:
    """IPython calls the code of cells by a number of six and more digits, which a user never sees."""
    shell = NotebookShell()
    shell.run_cell(CELL_OF_CALLS.partition("for _")[0])
    shell.execution_count = 2
    shown = profile_cell(shell, "", CELL_OF_CALLS.partition("\nfor")[2].join(("for", "")))
    text, page = repr(shown), shown._repr_html_() or ""
    assert re.search(r" in g\(\) \((\d+ % at )?In\[1\]:\d\), called from the top level of cell\.$", text, re.MULTILINE)
    assert re.search(r"^   Self   Total    Waits  Line  In\[1\]$", text, re.MULTILINE)
    assert ">g (In[1]) " in page


CELL_OF_LINES = "x = 0\nfor i in range(6_000_000):\n    x += i * i\n"
CELL_OF_CALLS = "def g(n):\n    t = 0\n    for i in range(n):\n        t += i\nfor _ in range(60):\n    g(200_000)\n"


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="Python frames are read on x86-64")
def test_a_cells_numbers_are_the_same_everywhere() -> None:
    """Functions have one share in sentences, the table, the lines and the picture; waits of lines are among all waits."""
    shell = NotebookShell()
    shown = profile_cell(shell, "", CELL_WITH_THREADS)
    assert isinstance(shown, CellProfile)
    table = next(one for one in shown.report.histograms if one.leader.samples and "off" not in one.leader.event.name)
    of_table = {row.texts["pyfunc"].split()[0]: row.percent for row in table.rows() if row.texts["pyfunc"].strip().endswith(".py")}
    text, path = repr(shown), shell.get_code_name(CELL_WITH_THREADS, CELL_WITH_THREADS, 1)
    for share, name in re.findall(r"(\d+) % (?:of the CPU time is )?in (\w+)\(\) \(cell", text):
        assert abs(float(share) - of_table[name]) <= 0.5
    files = [file for event in shown.shares if "off" not in event.event for file in event.files if file.path == path]
    of_lines = sum(line.percent for file in files for line in file.lines if line.line == 6)  # the only line of job() that calls
    in_picture, pending = dict.fromkeys(of_table, 0.0), [shown._calls]
    while pending:
        call = pending.pop()
        own = call.weight - sum(one.weight for one in call.calls)
        in_picture[call.name.partition(" ")[0]] = in_picture.get(call.name.partition(" ")[0], 0.0) + 100 * own / shown._calls.weight
        pending += call.calls
    assert of_lines <= of_table.get("job", 0.0) + 1e-6
    assert {one.category for one in shown._calls.calls if one.name.startswith(("busy", "job"))} == {OWN}
    assert in_picture.get("busy", 0.0) == pytest.approx(of_table.get("busy", 0.0), abs=1e-6)
    assert in_picture.get("job", 0.0) == pytest.approx(of_table.get("job", 0.0), abs=1e-6)
    waits = re.findall(r"([0-9.]+) (m?s) +\d+  ", text)
    total, *of_each = (float(n) / (1000 if unit == "ms" else 1) for n, unit in (*re.findall(r", waits ([0-9.]+) (m?s),", text), *waits))
    assert max(of_each) <= total * 1.05, "both are rounded"


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="Python frames are read on x86-64")
def test_a_statement_is_profiled() -> None:
    shell = NotebookShell()
    perfpy.load_ipython_extension(shell)
    assert "busy(0.1)" in repr(shell.magics["line perfpy"]("busy(0.1)"))


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="Python frames are read on x86-64")
@pytest.mark.thorough
def test_a_cells_rows_are_its_python_functions() -> None:
    shown = profile_cell(Shell(), "", "busy(0.3)")
    assert isinstance(shown, CellProfile)
    columns = shown.report.to_columns()
    names = [name.partition(" ")[0] for name in columns["pyfunc"]]
    assert "busy" in names or "busy.<locals>.<genexpr>" in names


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="Python frames are read on x86-64")
def test_python_functions_and_lines() -> None:
    with perfpy.profile(python=True, events="cpu-clock:u") as profile:
        busy(0.3)
        with suppress(ZeroDivisionError):
            fail()
    shares = {row.texts["pyfunc"].partition(" ")[0]: row.percent for row in profile.report().top(9)}
    assert sum(share for name, share in shares.items() if name.startswith(("busy", "sum"))) > 80
    assert any(":" in row.texts["pyline"] for row in profile.report(by="pyline").top(9))


@pytest.mark.thorough
def test_many_profiles_of_a_process_are_named() -> None:
    """CPython 3.14 refuses the ninth activation of its trampolines."""
    code = (
        "import perfpy\n"
        "def busy():\n    return sum(i * i for i in range(300_000))\n"
        "for _ in range(10):\n    with perfpy.profile(events='cpu-clock:u') as profile:\n        busy()\n"
        "print(profile.report('symbol').samples > 0)"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert (process.stdout, process.stderr) == ("True\n", "")


def test_python_names_its_functions_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    for name, does in {
        "is_stack_trampoline_active": lambda: False,
        "activate_stack_trampoline": lambda backend: calls.append(f"on {backend}"),
        "deactivate_stack_trampoline": lambda: calls.append("off"),
    }.items():
        monkeypatch.setattr(sys, name, does, raising=False)
    monkeypatch.setattr(profiling, "_STAYS_ON", False)
    with perfpy.profile(events="cpu-clock:u"):
        assert calls == ["on perf"]
    assert calls == ["on perf", "off"]
    monkeypatch.setattr(sys, "is_stack_trampoline_active", lambda: True, raising=False)
    with perfpy.profile(events="cpu-clock:u"):  # somebody else's stay
        pass
    assert calls == ["on perf", "off"]


# perfpy.watch(): samples of running events, in order, until whoever is watched ends; what is not taken in time is counted.


# waits for a line, so that it does nothing before it is watched
PROGRAM = """
import sys, threading, mmap
sys.stdin.readline()
def touch():
    pages = mmap.mmap(-1, 300 * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    pages.madvise(mmap.MADV_NOHUGEPAGE)
    for page in range(300): pages[page * mmap.PAGESIZE] = 1
thread = threading.Thread(target=touch)
thread.start(); thread.join()
"""


@pytest.fixture
def program() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-S", "-c", PROGRAM], stdin=subprocess.PIPE) as started:
        yield started
        started.kill()


def go(program: subprocess.Popen[bytes]) -> None:
    assert program.stdin is not None
    program.stdin.write(b"\n")
    program.stdin.close()


def touch(pages: int) -> None:
    """Cause so many page faults."""
    area = mmap.mmap(-1, pages * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    area.madvise(mmap.MADV_NOHUGEPAGE)
    for page in range(pages):
        area[page * mmap.PAGESIZE] = 1
    area.close()


def test_samples_come_in_order_until_the_program_ends(program: subprocess.Popen[bytes]) -> None:
    with perfpy.watch("page-faults:u", pid=program.pid, period=1, duration=60) as stream:
        go(program)
        samples = [*stream]
    assert program.wait() == 0
    times = [sample.time for sample in samples]
    assert times == sorted(times)
    assert {sample.pid for sample in samples} == {program.pid}
    assert len({sample.tid for sample in samples}) == 2, "threads that are started meanwhile are watched, too"
    assert len(samples) >= 300
    assert stream.lost == 0
    assert {sample.event for sample in samples} == {"page-faults:u"}
    assert dict(samples[0].fields) == {}
    with pytest.raises(KeyError, match="it is not a tracepoint"):
        samples[0]["next_comm"]


def test_it_ends_after_its_duration_and_when_it_is_closed() -> None:
    began = time.monotonic()
    with subprocess.Popen(["sleep", "60"]) as idle:
        for _ in perfpy.watch("page-faults:u", pid=idle.pid, period=1, duration=0.2):
            pass  # its start may be among it
        idle.kill()
    assert time.monotonic() - began >= 0.2
    with perfpy.watch("page-faults:u", pid=os.getpid(), period=1) as stream:
        touch(50)
        assert next(stream).event == "page-faults:u"
    assert next(stream, None) is None


def test_late_readers_lose_counted_samples_without_growing_memory() -> None:
    with perfpy.watch("page-faults:u", pid=os.getpid(), period=1, duration=60) as stream:
        for _ in range(10):
            touch(20_000)
        for count, _ in enumerate(stream):
            if count % 1000 == 0:
                touch(1)  # what was lost is told with the next sample that finds room
            if stream.lost and count > 5000:
                break
    assert stream.lost > 0


def test_asyncio_waits_for_others(program: subprocess.Popen[bytes]) -> None:
    async def both() -> tuple[int, int]:
        turns = 0

        async def beside() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0.001)

        task = asyncio.create_task(beside())
        result = 0
        with perfpy.watch("page-faults:u", pid=program.pid, period=1, duration=60) as stream:
            go(program)
            async for _ in stream:
                result += 1
        task.cancel()
        return result, turns

    result, turns = asyncio.run(both())
    assert result >= 300
    assert turns > 2


def test_other_records_come_on_request(program: subprocess.Popen[bytes]) -> None:
    with perfpy.watch("page-faults:u", pid=program.pid, period=1, duration=60) as stream:
        go(program)
        kinds = {type(record).__name__ for record in stream.with_records()}
    assert {"LiveSample", "Fork", "Exit"} <= kinds


@pytest.mark.system_wide
def test_a_tracepoint_has_its_fields() -> None:
    with subprocess.Popen(["sleep", "60"]) as child, perfpy.watch("sched:sched_process_exit", pid=child.pid, duration=30) as stream:
        child.kill()
        sample = next(stream)
    assert (sample["comm"], sample["pid"], sample.comm, sample.pid) == ("sleep", child.pid, "sleep", child.pid)
    assert "sched:sched_process_exit" in repr(sample)
    assert "sleep" in repr(sample)
    with pytest.raises(KeyError, match=r"it has common_type, .*comm"):
        sample["colour"]


@pytest.mark.system_wide
def test_a_filter_chooses() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        chosen = perfpy.watch("sched:sched_process_exit", system_wide=True, filter=f"pid == {child.pid}", duration=30)
        with chosen as stream, subprocess.Popen(["true"]) as other:
            other.wait()
            child.kill()
            sample = next(stream)
    assert sample["pid"] == child.pid


def test_nothing_stays_open() -> None:
    before = set(os.listdir("/proc/self/fd"))
    stream = perfpy.watch("page-faults:u", pid=os.getpid(), period=1)
    assert len(os.listdir("/proc/self/fd")) > len(before)
    del stream
    assert set(os.listdir("/proc/self/fd")) == before


def test_wrong_uses_are_reported() -> None:
    with pytest.raises(UsageError, match="no events to watch"):
        perfpy.watch(pid=1)
    with pytest.raises(UsageError, match="no target; give pid"):
        perfpy.watch("page-faults:u")
    with pytest.raises(UsageError, match="can be counted"):
        perfpy.watch("duration_time", pid=os.getpid())
    with pytest.raises(UsageError, match="greater than 0"):
        perfpy.watch("page-faults:u", pid=os.getpid(), duration=0)
    with pytest.raises(UnknownEventError):
        perfpy.watch("page-fault", pid=os.getpid())


def test_comm_records_rename(program: subprocess.Popen[bytes]) -> None:
    """A record of a new name changes what later samples say."""
    script = "import ctypes, sys, mmap; sys.stdin.readline(); ctypes.CDLL(None).prctl(15, b'renamed', 0, 0, 0)\n"
    script += (
        "pages = mmap.mmap(-1, 1 << 22, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\nfor at in range(0, 1 << 22, 4096): pages[at] = 1"
    )
    with subprocess.Popen([sys.executable, "-S", "-c", script], stdin=subprocess.PIPE) as renaming:
        with perfpy.watch("page-faults:u", pid=renaming.pid, period=1, duration=60) as stream:
            go(renaming)
            events = [*stream.with_records()]
        assert renaming.wait() == 0
    names = [record.comm for record in events if isinstance(record, Comm)]
    last = [sample.comm for sample in events if isinstance(sample, perfpy.LiveSample)][-1]
    assert (names, last) == (["renamed"], "renamed")
