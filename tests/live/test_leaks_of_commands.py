"""perfpy leaks COMMAND: the lines that hold the memory of Python, C++ and forked programs at the highest moment, to the byte."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.builders.pythons import interpreter

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.live,
    pytest.mark.particular,
    pytest.mark.skipif(not shutil.which("cc") and not shutil.which("gcc"), reason="needs a C compiler"),
]

LEAKS = [sys.executable, "-m", "perfpy", "leaks"]
PROGRAM = """
import threading
def keep(size):
    return bytearray(size)
def many():
    return [keep(1_000_000) for _ in range(20)]
def briefly():
    for _ in range(1000): bytearray(5000)
def main():
    kept = many()
    high = keep(30_000_000)
    del high
    briefly()
    other = []
    thread = threading.Thread(target=lambda: other.append(keep(5_000_000)))
    thread.start(); thread.join()
    return kept
main()
"""
CPP = """
#include <cstdlib>
#include <thread>
#include <vector>
#include <sys/mman.h>
struct Node { char data[200]; };
static std::vector<Node *> nodes;
__attribute__((noinline)) void fill(int n) { nodes.reserve(n); for (int i = 0; i < n; i++) nodes.push_back(new Node); }
__attribute__((noinline)) char *big() { char *p = (char *)malloc(50000000); p[0] = 1; return p; }
__attribute__((noinline)) void *mapped() { return mmap(0, 8 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }
static void briefly() {
    for (int i = 0; i < 20000; i++) {
        void *p = malloc(i % 3000);
        asm volatile("" : : "r"(p) : "memory");
        free(p);
    }
}
int main() {
    fill(100000);
    char *b = big();
    b = (char *)realloc(b, 60000000);
    munmap((char *)mapped() + (2 << 20), 4 << 20);
    free(b);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; t++) threads.emplace_back(briefly);
    for (auto &t : threads) t.join();
}
"""


def leaks(*words: str, cwd: Path, status: int = 0) -> list[dict[str, Any]]:
    done = subprocess.run([*LEAKS, "--json", *words], capture_output=True, text=True, timeout=200, check=False, cwd=cwd)
    assert done.returncode == status, done.stderr
    processes: list[dict[str, Any]] = json.loads(done.stdout)["processes"]
    return processes


def by_function(process: dict[str, Any], weight: str) -> dict[str, int]:
    sums: dict[str, int] = {}
    for stack in process["stacks"]:
        for name in {frame["function"].partition("(")[0] for frame in stack["frames"]}:
            sums[name] = sums.get(name, 0) + stack[weight]
    return sums


@pytest.mark.parametrize("version", ["3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14", "3.15"])
def test_python_lines_at_the_highest_moment(tmp_path: Path, version: str) -> None:
    python = interpreter(version)
    if not python:
        pytest.skip(f"no Python {version} on this machine")
    (tmp_path / "app.py").write_text(PROGRAM)
    process, *_ = leaks("--", python, "app.py", cwd=tmp_path)
    assert process["python"] == version
    assert by_function(process, "peak")["keep"] == pytest.approx(
        50_000_000, abs=20_000
    )  # the objects' heads, each of which can stand for 4 kB
    assert by_function(process, "peak")["main"] >= 50_000_000
    largest = process["stacks"][0]
    assert [(frame["function"].rpartition(".")[2], frame["line"]) for frame in largest["frames"][:2]] == [("keep", 4), ("main", 11)]
    assert by_function(process, "temporary")["briefly"] == 1000
    assert by_function(process, "total")["<lambda>" if int(version[2:]) < 11 else "main.<locals>.<lambda>"] >= 5_000_000
    assert by_function(process, "left").get("keep", 0) < 1_000_000  # freed at the end


@pytest.mark.thorough
def test_what_a_program_takes_itself_is_what_memray_counts(tmp_path: Path) -> None:
    """memray begins after Python's start and its own imports, which the program here has, too, before its script."""
    python = os.environ.get("PERFPY_PYTHON_WITH_MEMRAY", sys.executable)
    if subprocess.run([python, "-c", "import memray, numpy"], capture_output=True, check=False).returncode:
        pytest.skip(f"{python} has no memray and numpy; set PERFPY_PYTHON_WITH_MEMRAY")
    (tmp_path / "app.py").write_text("import numpy\nx = numpy.ones(4_000_000)\ny = numpy.concatenate([x, x * 2])\n")
    subprocess.run([python, "-m", "memray", "run", "-q", "-o", "app.bin", "app.py"], cwd=tmp_path, check=True, timeout=100)
    sums = "import memray; print(sum(one.size for one in memray.FileReader('app.bin').get_high_watermark_allocation_records()))"
    counted = int(subprocess.run([python, "-c", sums], cwd=tmp_path, capture_output=True, check=True, timeout=100).stdout)
    prepared = "import memray.__main__, memray.commands.parse, memray.commands.run, runpy; runpy.run_path('app.py', run_name='__main__')"
    (process,) = leaks(python, "-c", prepared, cwd=tmp_path)
    of_script = [one for one in process["stacks"] if any(frame["file"] == "app.py" for frame in one["frames"])]
    loading = process["parts_of_peak"]["loading"]
    assert loading > 1_000_000
    of_libraries = [one for one in of_script if any("create_module" in frame["function"] for frame in one["frames"][:2])]
    own = sum(one["peak"] for one in of_script) - sum(one["peak"] for one in of_libraries)
    assert own == pytest.approx(counted, rel=0.02)


def test_a_cpp_program(tmp_path: Path) -> None:
    if not shutil.which("g++"):
        pytest.skip("needs g++")
    (tmp_path / "app.cpp").write_text(CPP)
    subprocess.run(["g++", "-g", "-O1", "-pthread", "-o", "app", "app.cpp"], check=True, cwd=tmp_path)
    process, *_ = leaks("--", "./app", cwd=tmp_path)
    peaks, left = by_function(process, "peak"), by_function(process, "left")
    assert peaks["fill"] == 100_000 * 200 + 100_000 * 8
    assert peaks["main"] == pytest.approx(100_000 * 208 + 60_000_000 + (8 << 20), abs=4 << 20)
    assert left["fill"] == 100_000 * 200
    assert left["mapped"] == 4 << 20
    assert process["temporary"] >= 79_000
    (line,) = {frame["line"] for stack in process["stacks"] for frame in stack["frames"][:3] if frame["function"] == "big()"}
    assert line == 9


def test_forked_and_executed_children_have_sums_of_their_own_and_the_status_is_the_commands(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        "import os, subprocess, sys\n"
        "kept = bytearray(40_000_000)\n"
        "def child(): return bytearray(20_000_000)\n"
        "pid = os.fork()\n"
        "if not pid: child(); os._exit(0)\n"
        "os.waitpid(pid, 0)\n"
        "subprocess.run([sys.executable, '-c', 'x = bytearray(10_000_000)'])\n"
        "sys.exit(3)\n"
    )
    parent, *others = leaks("--", sys.executable, "app.py", cwd=tmp_path, status=3)
    assert by_function(parent, "peak")["<module>"] >= 40_000_000
    assert "child" not in by_function(parent, "total")
    forked, executed = others
    assert by_function(forked, "peak")["child"] == pytest.approx(20_000_000, abs=20_000)
    assert by_function(executed, "peak")["<module>"] >= 10_000_000


def test_a_killed_process_has_its_sums(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("import os, signal\nkept = bytearray(9_000_000)\nos.kill(os.getpid(), signal.SIGKILL)\n")
    process, *_ = leaks("--", sys.executable, "app.py", cwd=tmp_path, status=128 + signal.SIGKILL)
    assert process["seconds"] == 0
    assert by_function(process, "left")["<module>"] >= 9_000_000


def test_small_objects_have_their_own_lines(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("def texts(): return ['text %d' % number for number in range(50_000)]\nkept = texts()\n")
    process, *_ = leaks("--small-objects", "--", sys.executable, "app.py", cwd=tmp_path)
    assert (
        sum(stack["peak_objects"] for stack in process["stacks"] if stack["frames"] and "texts" in stack["frames"][0]["function"]) >= 50_000
    )


def test_code_at_the_address_of_freed_code_has_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(
        "kept = []\n"
        "for number in range(300):\n"
        "    names = {}\n"
        "    exec(compile(f'def f{number}(): return bytearray(6000)', 'text', 'exec'), names)\n"
        "    kept.append(names.popitem()[1]())\n"
    )
    process, *_ = leaks("--", sys.executable, "app.py", cwd=tmp_path)
    assert {f"f{number}" for number in range(300)} <= set(by_function(process, "peak"))


SMALL: Final = """
def keep(): return [(number, float(number), "row %d" % number) for number in range(200_000)]
def briefly():
    for _ in range(3): [[] for _ in range(100_000)]
def grow(rows):
    for row in rows: row.append(1)
def main():
    kept, rows = keep(), [[] for _ in range(100_000)]
    grow(rows)
    briefly()
    return kept, rows
held = main()
"""


def small_sums(process: dict[str, Any]) -> dict[str, int]:
    """Return the bytes at the peak by the function of the program."""
    sums: dict[str, int] = {}
    for stack in process["stacks"]:
        names = [frame["function"].rpartition(".")[2] for frame in stack["frames"] if frame["file"].endswith("app.py")]
        own = next((name for name in names if name in ("keep", "briefly", "grow", "main")), "")
        sums[own] = sums.get(own, 0) + stack["peak"]
    return sums


@pytest.mark.parametrize("version", ["3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14", "3.15"])
def test_estimates_of_small_objects_are_near_their_real_size(tmp_path: Path, version: str) -> None:
    python = interpreter(version)
    if not python:
        pytest.skip(f"no Python {version} on this machine")
    (tmp_path / "app.py").write_text(SMALL)
    estimated, exact = (leaks(*option, "--", python, "app.py", cwd=tmp_path)[0] for option in ([], ["--small-objects"]))
    assert estimated["small"] > 500_000
    assert estimated["arenas"] > 20_000_000
    assert exact["small"] == exact["arenas"] == 0
    sums, real = small_sums(estimated), small_sums(exact)
    for name in ("keep", "grow"):
        assert sums[name] == pytest.approx(real[name], rel=0.03), name
    assert estimated["peak"] == pytest.approx(exact["peak"], rel=0.03)
    assert estimated["objects"] == pytest.approx(exact["objects"], rel=0.05)
    assert estimated["left"] < 3_000_000


def test_arenas_count_if_the_interpreter_allocates_otherwise(tmp_path: Path) -> None:
    """PYTHONMALLOC puts other functions before the allocator, after the hook's."""
    (tmp_path / "app.py").write_text(SMALL)
    environment = {**os.environ, "PYTHONMALLOC": "pymalloc_debug"}
    command = [*LEAKS, "--json", "--", sys.executable, "app.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=True, cwd=tmp_path, env=environment)
    (process,) = json.loads(done.stdout)["processes"]
    assert process["small"] == 0
    assert small_sums(process)["keep"] > 25_000_000


def test_small_objects_of_a_forked_process_are_its_own(tmp_path: Path) -> None:
    fork = "import os\npid = os.fork()\nif not pid: more = keep(); os._exit(0)\nos.waitpid(pid, 0)\n"
    (tmp_path / "app.py").write_text(SMALL + fork)
    parent, child = leaks("--", sys.executable, "app.py", cwd=tmp_path)
    assert small_sums(child)["keep"] == pytest.approx(small_sums(parent)["keep"], rel=0.03)
    assert child["peak"] < parent["peak"]


@pytest.mark.skipif(not shutil.which("setpriv"), reason="needs setpriv")
def test_without_any_capability(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("kept = bytearray(9_000_000)\n")
    drop = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"] if os.geteuid() == 0 else []
    command = [*drop, *LEAKS, "--", sys.executable, "app.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "app.py:1)" in done.stdout


def test_a_program_that_exports_a_false_interpreter_is_followed_without_its_frames(tmp_path: Path) -> None:
    (tmp_path / "app.c").write_text(
        "#include <stdlib.h>\n"
        'const char *Py_GetVersion(void) { return "3.99.0"; }\n'
        "void *PyGILState_GetThisThreadState(void) { return (void *)1; }\n"
        'char PyCode_Type[500], _PyRuntime[500] = "xdebugpy";\n'
        "int main(void) { return !malloc(7000000); }\n"
    )
    subprocess.run(["gcc", "-O0", "-rdynamic", "-o", "app", "app.c"], check=True, cwd=tmp_path)
    process, *_ = leaks("--", "./app", cwd=tmp_path)
    assert by_function(process, "peak")["main"] == 7_000_000


def test_the_page_is_written(tmp_path: Path) -> None:
    subprocess.run([*LEAKS, "--html", "m.html", "--", sys.executable, "-c", "bytearray(9_000_000)"], check=True, cwd=tmp_path, timeout=100)
    assert "bytes held at the peak" in (tmp_path / "m.html").read_text()


COPIES: Final = """
import numpy, pandas
def normalise(a):
    return [float(a.astype(numpy.float32)[0]) for _ in range(1)][0]
def select(frame):
    return len(frame[["b", "c"]].copy())
def main():
    a = numpy.ones(2_000_000)
    frame = pandas.DataFrame({name: numpy.arange(500_000.0) for name in "abc"})
    for _ in range(40): normalise(a)
    for _ in range(30): select(frame)
main()
"""


def test_copies_of_numpy_and_pandas_have_their_bytes_in_all_and_at_a_time(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    (tmp_path / "app.py").write_text(COPIES)
    process, *_ = leaks("--", sys.executable, "app.py", cwd=tmp_path)
    totals = by_function(process, "total")
    assert totals["normalise"] == pytest.approx(40 * 8_000_000, rel=0.02)
    assert totals["select"] >= 0.98 * 30 * 8_000_000
    most = max(stack["most"] for stack in process["stacks"] if any(frame["function"] == "normalise" for frame in stack["frames"]))
    assert most == pytest.approx(8_000_000, rel=0.02)
    text = subprocess.run([*LEAKS, "--", sys.executable, "app.py"], capture_output=True, text=True, timeout=200, check=True, cwd=tmp_path)
    assert "came and went in normalise" in text.stdout
    assert "Memory that came and went" in text.stdout
