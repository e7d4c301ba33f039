"""perfpy stacks: the functions and lines of all threads of a running program, also while they wait, and what they wait for."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from perfpy.capture.wait_targets import sockets_of
from perfpy.kernel.procfs import target_of
from tests.builders.hung import build_deadlock, hung
from tests.builders.pythons import interpreter

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.live, pytest.mark.particular]  # Pythons of many versions

STACKS = [sys.executable, "-m", "perfpy", "stacks"]
PROGRAM = """
import threading, time
lock = threading.Lock()
def holds():
    with lock:
        time.sleep(1000)
def hangs():
    lock.acquire()
def spins():
    while True: pass
def generates():
    yield 1
    time.sleep(1000)
for part in (holds, spins, hangs):
    threading.Thread(target=part, daemon=True, name=f"that {part.__name__}").start()
    time.sleep(0.1)
open("ready", "w").close()
for each in generates(): pass
"""
LINES = {"holds": 6, "hangs": 8, "spins": 10, "generates": 13}


def stacks(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*STACKS, *words], capture_output=True, text=True, timeout=100, check=False)


def start(python: str, folder: Path, text: str = PROGRAM) -> subprocess.Popen[bytes]:
    (folder / "program.py").write_text(text)
    process = subprocess.Popen([python, "program.py"], cwd=folder)
    end = time.monotonic() + 60
    while not (folder / "ready").exists() and time.monotonic() < end:
        time.sleep(0.05)
    time.sleep(0.5)  # its main thread waits for the GIL, and goes on to its last line
    return process


@pytest.fixture(params=["3.12", "3.8", "3.13", "3.11", "3.14", "3.15"])
def program(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    python = interpreter(request.param)
    if not python:
        pytest.skip(f"no Python {request.param} on this machine")
    with start(python, tmp_path) as process:
        yield process
        process.kill()


def test_each_thread_has_its_function_and_line(program: subprocess.Popen[bytes]) -> None:
    result = stacks("-p", str(program.pid), "--json")
    assert result.returncode == 0, result.stderr
    (process,) = json.loads(result.stdout)["processes"]
    innermost = {thread["frames"][0]["function"]: thread for thread in process["threads"]}
    assert {name: thread["frames"][0]["line"] for name, thread in innermost.items()} == LINES
    assert [name for name, thread in innermost.items() if thread["has_gil"]] in (["spins"], [])  # between two threads nobody holds it
    assert innermost["generates"]["tid"] == program.pid
    assert [frame["function"] for frame in innermost["generates"]["frames"]] == ["generates", "<module>"]
    assert innermost["hangs"]["state"] == "sleeping"
    assert process["others"] == 0
    names = {name: thread["name"] for name, thread in innermost.items()}
    assert names == {"generates": "MainThread", **{name: f"that {name}" for name in ("holds", "hangs", "spins")}}


def test_the_text_has_a_line_for_each_frame(program: subprocess.Popen[bytes]) -> None:
    result = stacks("-p", str(program.pid))
    assert f"Process {program.pid}: " in result.stdout
    assert "\n    hangs (" in result.stdout
    assert "program.py:8)\n" in result.stdout


FORKS = """
import os, time
for _ in range(2):
    if not os.fork():
        break
else:
    open("ready", "w").close()
time.sleep(1000)
"""


def test_workers_are_named_by_the_command_line_of_their_main_process(tmp_path: Path) -> None:
    """The number of a worker is that among all workers, also if the stacks of one process are wanted."""
    with start(sys.executable, tmp_path, FORKS) as main:
        try:
            processes = json.loads(stacks(str(main.pid), "--json").stdout)["processes"]
            names = {process["name"]: process["pid"] for process in processes}
            assert sorted(names) == ["program.py: main process", "program.py: worker 1", "program.py: worker 2"]
            assert names["program.py: main process"] == main.pid
            second = names["program.py: worker 2"]
            assert stacks(str(second)).stdout.startswith(f"Process {second} (program.py: worker 2): {sys.executable} program.py")
        finally:
            for process in processes:
                os.kill(process["pid"], signal.SIGKILL)


RECEIVES = """
import os, socket
def fetch(connection): connection.recv(1)
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname())
os.write(1, b"x")
fetch(client)
"""


@pytest.fixture(scope="module")
def deadlock(tmp_path_factory: pytest.TempPathFactory) -> str:
    return build_deadlock(tmp_path_factory.mktemp("deadlock"))


NEEDS_GCC = pytest.mark.skipif(not shutil.which("gcc") or os.uname().machine != "x86_64", reason="needs gcc on x86-64")


@NEEDS_GCC
def test_a_deadlock_is_named_with_its_mutexes(deadlock: str) -> None:
    with hung([deadlock]) as pid:
        result = stacks(str(pid), "--json")
        text = stacks(str(pid)).stdout
    (process,) = json.loads(result.stdout)["processes"]
    of_function = {frame["function"]: thread for thread in process["threads"] for frame in thread["frames"]}
    transfer, audit = of_function["transfer"], of_function["audit"]
    assert transfer["waits_for"]["lock_name"] == "journal"
    assert audit["waits_for"]["lock_name"] == "accounts"
    assert transfer["waits_for"]["holder"] == audit["tid"]
    assert audit["waits_for"]["holder"] == transfer["tid"]
    assert of_function["main"]["waits_for"]["thread"] == transfer["tid"]
    (line,) = [line for line in text.splitlines() if line.startswith("Deadlock: ")]
    assert f"thread {audit['tid']} waits for accounts, which thread {transfer['tid']} holds" in line


def test_a_socket_is_named_by_its_address() -> None:
    with hung([sys.executable, "-c", RECEIVES]) as pid:
        result = stacks(str(pid))
    (heading,) = [line for line in result.stdout.splitlines() if line.startswith("Thread ")]
    assert re.search(r"sleeping in recvfrom\(\) on 127\.0\.0\.1:\d+$", heading)


@NEEDS_GCC
def test_the_first_command_says_at_once_where_a_process_hangs(deadlock: str, tmp_path: Path) -> None:
    with hung([deadlock]) as pid:
        command = [sys.executable, "-m", "perfpy", str(pid)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as perfpy:
            assert perfpy.stderr is not None
            messages = [perfpy.stderr.readline() for _ in range(3)]
            time.sleep(1.5)
            perfpy.send_signal(signal.SIGINT)
            output, _ = perfpy.communicate(timeout=60)
    assert messages[0].startswith("nothing ran in the last 0.3 s"), messages
    assert messages[2].startswith("perfpy record --unwind --off-cpu"), messages
    assert output.startswith(f"Process {pid}: {deadlock}\n\nDeadlock: ")
    assert "offcpu-time" in output


def test_the_first_command_says_at_once_what_a_process_that_ticks_waits_for(tmp_path: Path) -> None:
    ticks = "import time\nprint(flush=True)\ndef tick(): time.sleep(0.05)\nwhile True: tick()"
    with hung([sys.executable, "-S", "-c", ticks]) as pid:
        command = [sys.executable, "-m", "perfpy", str(pid)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as perfpy:
            assert perfpy.stderr is not None
            first = perfpy.stderr.readline()
            perfpy.stderr.readline()
            perfpy.send_signal(signal.SIGINT)
            output, _ = perfpy.communicate(timeout=60)
    assert first == f"hardly anything ran in the last 0.3 s; perfpy stacks {pid}\n"
    assert "tick (<string>:3)" in output.partition("# ")[0]


def test_missing_processes_are_refused() -> None:
    result = stacks("-p", "2147483647")
    assert (result.returncode, result.stderr) == (255, "perfpy stacks: no process 2147483647\n")


@pytest.mark.parametrize("words", [[], ["x"], ["-p", "x"], ["-p", "1,"], ["-p", "-1"], ["-p", "0"], ["-p", "99999999999"]])
def test_wrong_processes_are_refused(words: list[str]) -> None:
    result = stacks(*words)
    assert result.returncode == 129
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="root, to be another user")
def test_without_permission_the_remedy_is_reported(program: subprocess.Popen[bytes]) -> None:
    command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--", *STACKS, "-p", str(program.pid)]
    environment = {**os.environ, "HOME": "/nonexistent"}
    process = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    if "No module named" in process.stderr or "Permission denied" in process.stderr:
        pytest.skip("other users may not read this installation")
    assert process.returncode == 255
    assert "belongs to another user; run as its user" in process.stderr


MONITORS = """
public class Stuck {
  static final Object stock = new Object(), orders = new Object();
  static void pause() { try { Thread.sleep(200); } catch (InterruptedException e) { } }
  static void reserve() { synchronized (stock) { pause(); synchronized (orders) { pause(); } } }
  static void cancel() { synchronized (orders) { pause(); synchronized (stock) { pause(); } } }
  public static void main(String[] words) { new Thread(Stuck::reserve, "reserve").start(); new Thread(Stuck::cancel, "cancel").start(); }
}
"""


@pytest.mark.skipif(not shutil.which("javac"), reason="no javac")
def test_monitors_of_java_have_their_class_and_holder(tmp_path: Path):
    (tmp_path / "Stuck.java").write_text(MONITORS)
    subprocess.run(["javac", "Stuck.java"], check=True, cwd=tmp_path)
    with subprocess.Popen(["java", "-cp", str(tmp_path), "Stuck"]) as process:
        try:
            end = time.monotonic() + 60
            shown = ""
            while "Deadlock" not in shown and time.monotonic() < end:
                shown = stacks("--locks", str(process.pid)).stdout
            deadlock = next(line for line in shown.splitlines() if line.startswith("Deadlock"))
        finally:
            process.kill()
    assert deadlock.count("waits for the monitor of java.lang.Object at 0x") == 2
    for method in ("reserve", "cancel"):
        (holder,) = re.findall(rf"thread (\d+) \({method}\), in Stuck\.{method}\(\) \(Stuck\.java:\d+\),", deadlock)
        assert f"which thread {holder} holds" in deadlock
        assert f"Thread {holder} ({method})" in shown


GOROUTINES = """
package main
import ("sync"; "time")
var users, roles sync.Mutex
func grant() { users.Lock(); time.Sleep(100 * time.Millisecond); roles.Lock() }
func revoke() { roles.Lock(); time.Sleep(100 * time.Millisecond); users.Lock() }
func main() { go grant(); go revoke(); for range time.Tick(time.Hour) { } }
"""


@pytest.mark.skipif(not shutil.which("go") or os.uname().machine != "x86_64", reason="no go, or another machine than x86-64")
def test_goroutines_have_their_state_stack_and_start(tmp_path: Path):
    (tmp_path / "locks.go").write_text(GOROUTINES)
    subprocess.run(["go", "build", "locks.go"], check=True, cwd=tmp_path, env={**os.environ, "GOCACHE": str(tmp_path / "cache")})
    with subprocess.Popen([str(tmp_path / "locks")]) as process:
        try:
            time.sleep(1)
            shown = stacks(str(process.pid)).stdout
        finally:
            process.kill()
    parts = shown.split("\n\n")
    for name in ("grant", "revoke"):
        (part,) = [part for part in parts if f"main.{name} (locks.go:" in part]
        assert part.startswith("1 goroutine: ")
        assert part.splitlines()[-1] == "    started in main.main (locks.go:7)"
    assert any(part.startswith("1 goroutine: chan receive\n    main.main (locks.go:7)") for part in parts)


DEADLOCK = """
import threading, time
def transfer(source, target):
    with source:
        time.sleep(0.4)
        with target: pass
def releases(lock):
    with lock: pass
    time.sleep(1000)
def calls():
    time.sleep(1000)
def holds(lock):
    with lock:
        calls()
def wants(lock):
    lock.acquire()
def idles(condition):
    with condition:
        condition.wait()
first, second, third = threading.Lock(), threading.RLock(), threading.Lock()
condition = threading.Condition()
work = {"forth": (transfer, first, second), "back": (transfer, second, first), "releases": (releases, third), "holds": (holds, third),
        "wants": (wants, third), "idles": (idles, condition)}
for name, (function, *locks) in work.items():
    threading.Thread(target=function, args=locks, name=name, daemon=True).start()
    time.sleep(0.1)
time.sleep(0.2)
open("ready", "w").close()
time.sleep(1000)
"""


@pytest.mark.parametrize("version", ["3.8", "3.9", "3.10", "3.11", "3.12", "3.13"])
def test_python_locks_have_their_holders(version: str, tmp_path: Path) -> None:
    """A thread in the body of `with lock:` holds it, an RLock has an owner; a stack that had a lock before does not count."""
    python = interpreter(version)
    if not python:
        pytest.skip(f"no Python {version} on this machine")
    with start(python, tmp_path, DEADLOCK) as process:
        try:
            time.sleep(0.2)
            text, values = (stacks(*words, str(process.pid)).stdout for words in ((), ("--json",)))
        finally:
            process.kill()
    threads = {one["name"]: one for one in json.loads(values)["processes"][0]["threads"]}
    names = {one["tid"]: name for name, one in threads.items()} | {0: ""}
    holders = {name: names[one["waits_for"]["holder"]] for name, one in threads.items()}
    assert holders == {"MainThread": "", "forth": "back", "back": "forth", "releases": "", "holds": "", "wants": "holds", "idles": ""}
    (deadlock,) = [line for line in text.splitlines() if line.startswith("Deadlock: ")]
    assert deadlock.count("in transfer() (program.py:6), waits for the threading.") == 2
    tid = threads["forth"]["tid"]
    assert f"thread {tid} (forth), in transfer() (program.py:6), waits for the threading.RLock at 0x" in deadlock


LOCALS = r"""
import time
class Thing: pass
def inner(text, number, ratio, items, thing, huge):
    red = "\x1b[31mred"
    def uses_number(): return number
    open("ready", "w").close()
    time.sleep(1000)
inner("word " * 40, -12345678901, 2.5, [1, 2, 3], Thing(), 10 ** 200)
"""


@pytest.mark.parametrize("version", ["3.8", "3.10", "3.11", "3.12", "3.13"])
def test_local_variables_are_shown_on_request(version: str, tmp_path: Path) -> None:
    python = interpreter(version)
    if not python:
        pytest.skip(f"no Python {version} on this machine")
    with start(python, tmp_path, LOCALS) as process:
        try:
            time.sleep(0.1)
            without, with_locals = stacks(str(process.pid)), stacks("--locals", str(process.pid))
            values = json.loads(stacks("--locals", "--json", str(process.pid)).stdout)["processes"][0]["threads"][0]["frames"][0]["locals"]
        finally:
            process.kill()
    assert " = " not in without.stdout
    assert "\x1b" not in with_locals.stdout
    expected = {
        "text": repr(("word " * 40)[:60]) + "...",
        "ratio": "2.5",
        "items": "list of 3",
        "thing": "<Thing>",
        "huge": "int of many digits",
        "red": repr("\x1b[31mred"),
        "uses_number": "<function>",
    }
    if version not in ("3.8", "3.10"):  # variables that inner functions use are elsewhere there
        expected["number"] = "-12345678901"
    assert values == expected
    for name, value in expected.items():
        assert f"\n        {name} = {value}\n" in with_locals.stdout


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="another user's process needs root and setpriv")
def test_local_variables_of_other_users_are_not_read(tmp_path: Path) -> None:
    command = ["setpriv", "--reuid", "65534", "--clear-groups", "/usr/bin/python3", "-c", "import time; secret = 'hidden'; time.sleep(100)"]
    with subprocess.Popen(command) as process:
        try:
            time.sleep(0.5)
            result = stacks("--locals", str(process.pid))
        finally:
            process.kill()
    assert "hidden" not in result.stdout
    assert "--locals shows variables of your own processes" in result.stdout + result.stderr


BUSY_NODE = """\
function checksum(n) { let s = 0; for (let i = 0; i < n; i++) s = (s * 31 + i) | 0; return s; }
function handle() { return checksum(3e7); }
setTimeout(() => { for (;;) handle(); }, 10);
"""


def listening_ports(pid: int) -> list[str]:
    """Return the addresses at which a process listens."""
    return [address for inode, address in sockets_of(pid).items() if "listening" in address and f"socket:[{inode}]" in links(pid)]


def links(pid: int) -> list[str]:
    """Return what the descriptors of a process lead to."""
    return [target_of(pid, int(number)) for number in os.listdir(f"/proc/{pid}/fd")]


_BUSY_SCRIPT = """
function score(n) { let sum = 0; for (let i = 0; i < n; i++) sum += i % 7; return sum; }
function turn() { const end = Date.now() + 50; while (Date.now() < end) score(1e6); setImmediate(turn); }
turn();
console.log("ready");
"""


@pytest.mark.skipif(not shutil.which("node") or os.uname().machine != "x86_64", reason="no node, or another machine than x86-64")
def test_functions_of_a_running_node_are_named_by_its_heap_and_said_at_once(tmp_path: Path) -> None:
    script = tmp_path / "busy.js"
    script.write_text(_BUSY_SCRIPT)
    with subprocess.Popen(["node", str(script)], stdout=subprocess.PIPE) as node:
        assert node.stdout is not None
        try:
            node.stdout.readline()
            process = subprocess.run([*STACKS, "--running", str(node.pid)], capture_output=True, text=True, timeout=60, check=True)
            record = [sys.executable, "-m", "perfpy", "record", "--jit", "-o", "perf.data", "-p", str(node.pid), "--", "sleep", "1"]
            recorded = subprocess.run(record, capture_output=True, text=True, timeout=60, cwd=tmp_path, check=True)
        finally:
            node.kill()
    assert f"Thread {node.pid} (node) runs " in process.stdout
    assert re.search(r"(?:score|turn)\(\) \(function at busy\.js:[23]\)", process.stdout), process.stdout
    assert "publish names" not in recorded.stderr
    rows = subprocess.run([sys.executable, "-m", "perfpy", "report", "--stdio", "-g", "none", "--no-children", "-F", "overhead,sym"],
        capture_output=True, text=True, timeout=60, cwd=tmp_path, check=True).stdout  # fmt: skip
    shares = [float(line.split("%")[0]) for line in rows.splitlines() if re.search(rf"JS:~(?:score|turn) {script}:[23]:", line)]
    assert sum(shares) > 80, rows


@pytest.mark.skipif(not shutil.which("node"), reason="no node")
def test_the_inspector_of_node_names_its_functions_and_is_closed(tmp_path: Path) -> None:
    script = tmp_path / "busy.js"
    script.write_text(BUSY_NODE)
    with subprocess.Popen(["node", str(script)], stderr=subprocess.DEVNULL) as process:
        try:
            time.sleep(2)
            for _ in range(2):  # the second time, the inspector must be closed
                text = subprocess.run(
                    [*STACKS, "--inspect", str(process.pid)], capture_output=True, text=True, timeout=60, check=True
                ).stdout
                assert "    handle (busy.js:2)" in text, text
            assert not listening_ports(process.pid)
        finally:
            process.kill()
