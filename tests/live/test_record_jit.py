"""record --jit: runtimes tell the names of their functions, and the recording keeps them."""

from __future__ import annotations

import json
import os
import pwd
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import perfpy
from perfpy.capture.runtimes.attaching import is_java, write_perf_map
from perfpy.recording import Recording
from tests.builders.prepared_start import PERFPY, output_of

pytestmark = [pytest.mark.live, pytest.mark.particular]  # Pythons of several versions, node, a JDK

SHARES = {"heavy": 60, "middle": 30, "light": 10}
TOLERANCE = 3  # percentage points
PYTHON = """
import time
def spin(n):
    x = 1
    for _ in range(n): x = (x * 1103515245 + 12345) & 0x7fffffff
    return x
def heavy(): return spin(6000)
def middle(): return spin(3000)
def light(): return spin(1000)
def main():
    end = time.process_time() + SECONDS
    while time.process_time() < end: heavy(); middle(); light()
main()
"""
NODE = """
function heavy(n) { let x = 1; for (let i = 0; i < 6 * n; i++) x = (x * 1103515245 + 12345) & 0x7fffffff; return x }
function middle(n) { let x = 1; for (let i = 0; i < 3 * n; i++) x = (x * 1103515245 + 12345) & 0x7fffffff; return x }
function light(n) { let x = 1; for (let i = 0; i < n; i++) x = (x * 1103515245 + 12345) & 0x7fffffff; return x }
function main() {
  const end = process.cpuUsage().user + SECONDS * 1e6;
  let t = 0; while (process.cpuUsage().user < end) { t ^= heavy(20000); t ^= middle(20000); t ^= light(20000) } return t }
main()
"""
# heavy() is called often, and inlined; middle() and light() run once a loop, and are interpreted, or replaced while they run
JAVA = """
public class Shares {
  static long next(long x) { return (x * 1103515245 + 12345) & 0x7fffffff; }
  static long heavy(long n) { long x = 1; for (long i = 0; i < 6 * n; i++) x = next(x); return x; }
  static long middle(long n) { long x = 1; for (long i = 0; i < 3 * n; i++) x = next(x); return x; }
  static long light(long n) { long x = 1; for (long i = 0; i < n; i++) x = next(x); return x; }
  public static void main(String[] args) {
    var clock = java.lang.management.ManagementFactory.getThreadMXBean();
    long t = 0, end = clock.getCurrentThreadCpuTime() + (long) (Double.parseDouble(args[0]) * 1e9);
    while (clock.getCurrentThreadCpuTime() < end) {
      for (int i = 0; i < 200; i++) t ^= heavy(1000);
      t ^= middle(200000); t ^= light(200000);
    }
    System.out.println(t);
  }
}
"""


def pyenv(version: str) -> str:
    """A Python of a version, "" where there is none."""
    home = Path(pwd.getpwuid(os.geteuid()).pw_dir)  # HOME is another one in tests
    result = sorted(map(str, (home / ".pyenv" / "versions").glob(f"{version}.*/bin/python{version}")))
    options = ["-X", "perf", "-c", "import sys; sys.exit(not sys.is_stack_trampoline_active())"]
    candidates = filter(None, [shutil.which(f"python{version}"), *result])
    return next(
        (python for python in candidates if not subprocess.run([python, *options], check=False, capture_output=True).returncode), ""
    )


def record(folder: Path, *words: str) -> tuple[Path, str]:
    """The recording of a command line, and what was said of it; nothing else is in the folder then."""
    path = folder / "perf.data"
    before = {*folder.iterdir()}
    perfpy = [sys.executable, "-m", "perfpy", "record", "--jit", "-o", str(path)]
    process = subprocess.run([*perfpy, *words], check=True, capture_output=True, text=True, timeout=300, cwd=folder)
    assert {*folder.iterdir()} == {*before, path}
    return path, process.stderr


def report(path: Path) -> list[tuple[float, str]]:
    """Each symbol, with what it and what it calls take in percent."""
    text = output_of([*PERFPY, "report", "--stdio", "--children", "-g", "none", "-s", "sym", "-i", path])
    rows = re.findall(r"^ +([\d.]+)% +[\d.]+% +(\S.*?) *$", text, re.MULTILINE)
    return [(float(percent), symbol) for percent, symbol in rows]


def shares(path: Path) -> dict[str, float]:
    """Of what the three functions take together with what they call, each one's part in percent."""
    shares_of = dict.fromkeys(SHARES, 0.0)
    for percent, symbol in report(path):
        match = re.search(r"\b(heavy|middle|light)\b", symbol)
        if match:
            shares_of[match[1]] += percent
    total = sum(shares_of.values())
    assert total > 60, shares_of
    return {name: 100 * part / total for name, part in shares_of.items()}


def forget(path: Path) -> None:
    """Remove what runtimes have left in /tmp and in the build-id cache, as another machine would not have it."""
    with Recording(str(path)) as recording:
        for name in recording.data.kept_files or ():
            Path(name).unlink(missing_ok=True)


@pytest.mark.parametrize("version", ["3.12", "3.13"])
@pytest.mark.thorough
def test_functions_of_python_have_their_shares(tmp_path: Path, version: str):
    python = pyenv(version)
    if not python:
        pytest.skip(f"no Python {version} that writes perf maps")
    program = PYTHON.replace("SECONDS", "1.5")
    path, errors = record(tmp_path, "-v", "-F", "3000", "--call-graph", "dwarf,8192", "--", python, "-c", program)
    assert re.search(r"--jit sets PYTHONPERFSUPPORT=1 PYTHONPATH\+?=", errors)
    forget(path)
    assert shares(path) == pytest.approx(SHARES, abs=TOLERANCE)


@pytest.mark.parametrize("version", ["3.12", "3.13"])
@pytest.mark.thorough
def test_functions_that_come_while_it_is_recorded_have_their_callers(tmp_path: Path, version: str):
    """Stacks are unwound while the perf map is still being written."""
    python = pyenv(version)
    if not python:
        pytest.skip(f"no Python {version} that writes perf maps")
    program = """
import time
def spin():
    end = time.process_time() + 0.4
    while time.process_time() < end: sum(range(500))
for i in range(4):
    names = {"spin": spin}
    exec(f"def outer{i}(): inner{i}()\\ndef inner{i}(): spin()", names)
    names[f"outer{i}"]()
"""
    path, errors = record(tmp_path, "--", python, "-c", program)
    if "--unwind" not in errors:
        pytest.skip("this Python has frame pointers")
    assert path.stat().st_size < 1 << 20
    shares_of = dict.fromkeys(("module", *(f"outer{number}" for number in range(4))), 0.0)
    for percent, symbol in report(path):
        for name in shares_of:
            shares_of[name] += percent if f"{name}>:<string>" in symbol or f"::{name}:" in symbol else 0
    assert shares_of["module"] > 90
    assert min(shares_of.values()) > 15


@pytest.mark.thorough
def test_functions_of_node_have_their_shares(tmp_path: Path):
    if not shutil.which("node"):
        pytest.skip("no node in PATH")
    (tmp_path / "shares.js").write_text(NODE.replace("SECONDS", "1.5"))
    path, errors = record(tmp_path, "-v", "--", "node", "shares.js")
    assert "NODE_OPTIONS='--perf-basic-prof --interpreted-frames-native-stack'" in errors
    forget(path)
    assert shares(path) == pytest.approx(SHARES, abs=TOLERANCE)


INLINED = """
function scale(x) {
  return (x * 31 + 7) % 1000003;
}
function mix(a, b) {
  for (let i = 0; i < 8; i++)
    a = scale(a + b);
  return a;
}
let total = 0;
for (const end = Date.now() + 1000; Date.now() < end;)
  for (let i = 0; i < 20000; i++) total = mix(total, i);
"""


@pytest.mark.thorough
def test_functions_that_node_inlines_have_frames_and_lines(tmp_path: Path):
    """V8 inlines scale into mix, and both into the loop; --cpu-prof has line 3 in 85 % of the program's own time, line 6 in the rest."""
    if not shutil.which("node"):
        pytest.skip("no node in PATH")
    (tmp_path / "app.js").write_text(INLINED.lstrip())
    path, _ = record(tmp_path, "--", "node", "app.js")
    assert not [*tmp_path.glob("*.log"), *tmp_path.glob("jit-*")]
    with perfpy.open(path) as recording:
        (file,) = (one for one in recording.source_files()[0].files if one.path.endswith("app.js"))
    lines = {line.line: line for line in file.lines}
    assert lines[2].percent / file.percent > 0.5
    assert lines[6].with_inlined >= lines[2].percent
    assert "JS:*scale " in output_of([*PERFPY, "script", "-i", path, "-F", "ip,sym", "--inline"])


CALLING = """
function admit(guests, n) {
  let found = 0;
  for (let i = 0; i < 3; i++) found += guests.includes(n + i) ? 1 : 0;
  return found;
}
function evening(guests) {
  let count = 0;
  for (let i = 0; i < 2000; i++) count += admit(guests, i);
  return count;
}
const guests = Array.from({ length: 3000 }, (_, i) => i * 3);
while (process.cpuUsage().user < 2e6) evening(guests);
"""


@pytest.mark.thorough
def test_functions_that_a_node_of_a_script_inlines_have_frames(tmp_path: Path):
    """Such a Node writes a perf map only, in which evening() has admit()'s code; V8's heap tells the functions around each call."""
    if not shutil.which("node") or os.uname().machine != "x86_64":
        pytest.skip("no node in PATH, or its stacks have frame pointers")
    (tmp_path / "app.js").write_text(CALLING)
    (tmp_path / "run.sh").write_text("#!/bin/sh\nnode app.js\n")
    path, _ = record(tmp_path, "--off-cpu", "--", "sh", "run.sh")
    stacks = output_of([*PERFPY, "script", "-i", path, "-F", "ip,sym"]).split("\n\n")
    inside = [re.findall(r"JS:.(\w+) ", stack) for stack in stacks if "ArrayIncludes" in stack]
    assert len(inside) > 100
    assert sum(names[:2] == ["admit", "evening"] for names in inside) > 0.8 * len(inside)


@pytest.fixture
def java(tmp_path: Path) -> list[str]:
    """A command that runs the Java program."""
    if not shutil.which("javac"):
        pytest.skip("no JDK in PATH")
    (tmp_path / "Shares.java").write_text(JAVA)
    subprocess.run(["javac", "Shares.java"], check=True, cwd=tmp_path)
    version = subprocess.run(["java", "-version"], capture_output=True, text=True, check=True).stderr
    if int(re.findall(r'"(\d+)', version)[0]) < 17:
        pytest.skip("Java older than 17 has no perf map")
    return ["java", "-cp", str(tmp_path), "Shares"]


@pytest.mark.thorough
def test_functions_of_java_have_their_shares(tmp_path: Path, java: list[str]):
    for attempt in range(4):  # where others keep the CPUs busy, what was seen last has no names: it is gone when it is unwound
        (tmp_path / "perf.data").unlink(missing_ok=True)
        path, _ = record(tmp_path, "--", *java, str(2 + attempt))
        forget(path)
        if (actual_shares := shares(path)) == pytest.approx(SHARES, abs=TOLERANCE):
            break
    assert actual_shares == pytest.approx(SHARES, abs=TOLERANCE)


@pytest.mark.thorough
def test_running_java_gives_its_names(tmp_path: Path, java: list[str]):
    with subprocess.Popen([*java, "60"], stdout=subprocess.DEVNULL) as process:
        try:
            time.sleep(2)
            assert is_java(process.pid)
            for attempt in range(4):
                (tmp_path / "perf.data").unlink(missing_ok=True)
                path, errors = record(tmp_path, "-p", str(process.pid), "--", "sleep", str(1.5 + attempt))
                assert process.poll() is None
                assert "stored 1 perf map" in errors
                assert "warning" not in errors
                if (actual_shares := shares(path)) == pytest.approx(SHARES, abs=TOLERANCE):
                    break
        finally:
            process.kill()
    forget(path)
    assert actual_shares == pytest.approx(SHARES, abs=TOLERANCE)


@pytest.mark.thorough
def test_top_shows_the_methods_of_running_java(java: list[str]):
    with subprocess.Popen([*java, "60"], stdout=subprocess.DEVNULL) as process:
        try:
            command = [sys.executable, "-m", "perfpy", "top", "--jit", "-p", str(process.pid), "-e", "task-clock:u", "--json", "-d", "2"]
            top = subprocess.run([*command, "--updates", "3"], capture_output=True, text=True, check=True, timeout=60)
        finally:
            process.kill()
    rows = json.loads(top.stdout.splitlines()[-1])["events"][0]["rows"]
    assert top.stderr == ""
    assert any("Shares." in row["keys"]["symbol"] for row in rows[:3]), rows[:5]


def test_processes_without_java_get_no_signal():
    with subprocess.Popen(["sleep", "60"]) as process:
        try:
            assert not is_java(process.pid)
            with pytest.raises(OSError, match="does not listen"):
                write_perf_map(process.pid)  # SIGQUIT would end it
            assert process.poll() is None
        finally:
            process.send_signal(signal.SIGKILL)


def test_running_runtimes_without_names_are_reported(tmp_path: Path):
    """Names of a running Node come from its heap, if its stacks are unwound while they are recorded."""
    if not shutil.which("node"):
        pytest.skip("no node in PATH")
    with subprocess.Popen(["node", "-e", "setTimeout(() => 0, 60000)"]) as process:
        try:
            time.sleep(0.5)
            _, errors = record(tmp_path, "--call-graph", "fp", "-p", str(process.pid), "--", "sleep", "0.2")
            (tmp_path / "perf.data").unlink()
            _, with_names = record(tmp_path, "-p", str(process.pid), "--", "sleep", "0.2")
        finally:
            process.kill()
    assert f"process {process.pid} is Node.js, which cannot publish names while it runs; start it with --perf-basic-prof" in errors
    assert "cannot publish names" not in with_names


def test_children_threads_and_forks_have_names(tmp_path: Path):
    python = pyenv("3.12")
    if not python:
        pytest.skip("no Python 3.12 that writes perf maps")
    program = """
import os, subprocess, sys, threading, time
def spin():
    end = time.thread_time() + 0.3
    while time.thread_time() < end: sum(range(1000))
def in_thread(): spin()
def in_fork(): spin()
def in_child(): spin()
if sys.argv[1:]: in_child(); sys.exit()
thread = threading.Thread(target=in_thread); thread.start(); thread.join()
pid = os.fork()
if pid == 0: in_fork(); os._exit(0)
os.waitpid(pid, 0)
subprocess.run([sys.executable, __file__, "x"])
"""
    (tmp_path / "program.py").write_text(program)
    path, _ = record(tmp_path, "--", "sh", "-c", f"{python} program.py; true")
    rows = report(path)
    for name in ("in_thread", "in_fork", "in_child"):
        assert sum(percent for percent, symbol in rows if f"py::{name}:" in symbol) > 20, name


def test_the_api_has_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    python = pyenv("3.12") or pyenv("3.13")
    if not python:
        pytest.skip("no Python that writes perf maps")
    monkeypatch.chdir(tmp_path)
    summary = perfpy.record([python, "-c", PYTHON.replace("SECONDS", "0.5")], jit=True, output=tmp_path / "perf.data")
    assert (summary.exit_code, [path.name for path in tmp_path.iterdir()]) == (0, ["perf.data"])
    assert sum(percent for percent, symbol in report(tmp_path / "perf.data") if "py::main:" in symbol) > 50
