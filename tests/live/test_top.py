"""perfpy top on this machine, also of Python programs; nothing is left behind."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest

import perfpy
from tests.builders.pythons import interpreter
from tests.builders.terminals import Shown, on_terminal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


# perfpy top on this machine: what runs is shown, with and without a terminal, and nothing is left behind.


TOP = [sys.executable, "-m", "perfpy", "top"]
CLEAR = "\33[H\33[2J"
SOURCE = """
#include <unistd.h>
static volatile long sum;
__attribute__((noinline)) void hot(void) { for (int i = 0; i < 900000; i++) sum += i; }
__attribute__((noinline)) void cool(void) { for (int i = 0; i < 100000; i++) sum ^= i; }
__attribute__((noinline)) void work(void) { hot(); cool(); }
int main(void) { for (;;) { work(); usleep(2000); } }
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("top") / "spinning"
    subprocess.run(["cc", "-O1", "-fno-omit-frame-pointer", "-x", "c", "-o", path, "-"], input=SOURCE, text=True, check=True)
    return path


@pytest.fixture
def spinning(program: Path) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([program]) as started:
        yield started
        started.kill()


def top(*words: str, timeout: float = 60) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*TOP, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout, check=False)


def updates(*words: str) -> list[dict[str, Any]]:
    process = top("--json", *words)
    assert process.returncode == 0, process.stderr
    return [json.loads(line) for line in process.stdout.splitlines()]


def rows(update: dict[str, Any]) -> dict[str, float]:
    return {row["keys"]["symbol"]: row["overhead"] for row in update["events"][0]["rows"]}


@pytest.mark.live
def test_each_update_has_the_functions_that_run(spinning: subprocess.Popen[bytes]) -> None:
    first, second = updates("-e", "task-clock:u", "-p", str(spinning.pid), "-d", "0.5", "--updates", "2")
    for update in (first, second):
        shares = rows(update)
        assert shares["[.] hot"] > 60
        assert 2 < shares["[.] cool"] < 30
        assert (update["format"], update["version"], update["kernel"]) == ("perfpy-top", 1, 0)
    assert abs(second["seconds"] - 0.5) < 0.4


@pytest.mark.live
@pytest.mark.thorough
def test_earlier_samples_fade_unless_they_are_zeroed(spinning: subprocess.Popen[bytes]) -> None:
    options = ("-e", "task-clock:u", "-c", "1000000", "-p", str(spinning.pid), "-d", "0.3", "--updates", "4")
    fading, zeroed = updates(*options)[-1], updates(*options, "-z")[-1]
    assert fading["events"][0]["events"][0]["samples"] > fading["samples"]
    assert zeroed["events"][0]["events"][0]["samples"] == zeroed["samples"]


@pytest.mark.live
def test_callers_are_rows_with_callchains(spinning: subprocess.Popen[bytes]) -> None:
    (update,) = updates("-g", "-e", "task-clock:u", "-p", str(spinning.pid), "-d", "0.5", "--updates", "1")
    row = next(row for row in update["events"][0]["rows"] if row["keys"]["symbol"] == "[.] main")
    assert row["overhead_children"] > 90
    assert row["calls"]


@pytest.mark.live
def test_the_text_is_perf_s_also_without_input(spinning: subprocess.Popen[bytes]) -> None:
    process = top("--stdio", "-e", "task-clock:u", "-p", str(spinning.pid), "-d", "0.5", "--updates", "2", "-E", "1")
    assert process.returncode == 0, process.stderr
    _, first, second = process.stdout.split(CLEAR)
    for text in (first, second):
        lines = text.splitlines()
        assert lines[0] == ""
        assert lines[1].startswith("   PerfTop: ")
        assert lines[1].endswith(f"lost: 0/0 drop: 0/0 [4000Hz task-clock:u],  (target_pid: {spinning.pid})")
        assert lines[2:4] == ["-" * 79, ""]
        assert lines[4].endswith("%  spinning       [.] hot")
        assert len(lines) == 5


@pytest.mark.live
def test_a_hierarchy_and_the_loaded_symbols_are_printed(spinning: subprocess.Popen[bytes]) -> None:
    done = top("--stdio", "-H", "-D", "-E", "2", "-e", "task-clock:u", "-p", str(spinning.pid), "-d", "0.3", "--updates", "1")
    assert done.returncode == 0, done.stderr
    file, function = done.stdout.split(CLEAR)[1].splitlines()[4:]
    assert file.split()[1:] == ["spinning"]
    assert function.split()[1:] == ["[.]", "hot"]
    assert function.index("%") > file.index("%")
    assert re.search(r"/spinning\n(  [0-9a-f]+-[0-9a-f]+ .*\n)*  [0-9a-f]+-[0-9a-f]+ hot\n", done.stderr)


@pytest.mark.live
@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 0), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signals_end_it_at_once(number: int, status: int, spinning: subprocess.Popen[bytes]) -> None:
    command = [*TOP, "--json", "-e", "task-clock:u", "-p", str(spinning.pid), "-d", "0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as started:
        assert started.stdout is not None
        assert started.stdout.readline()
        before = time.monotonic()
        started.send_signal(number)
        _, errors = started.communicate(timeout=20)
    assert (started.returncode, errors) == (status, b"")
    assert time.monotonic() - before < 10


@pytest.mark.live
def test_it_ends_with_its_target(program: Path) -> None:
    with subprocess.Popen([program]) as target:
        command = [*TOP, "--json", "-e", "task-clock:u", "-p", str(target.pid), "-d", "0.2"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as started:
            assert started.stdout is not None
            assert started.stdout.readline()
            target.kill()
            target.wait()
            _, errors = started.communicate(timeout=20)
    assert started.returncode == 0
    assert errors == "the target has ended\n"


@pytest.mark.live
def test_a_reader_that_goes_away_ends_it(spinning: subprocess.Popen[bytes]) -> None:
    command = [*TOP, "--stdio", "-e", "task-clock:u", "-p", str(spinning.pid), "-d", "0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as started:
        assert started.stdout is not None
        started.stdout.readline()
        started.stdout.close()
        assert started.wait(timeout=20) == 141
        assert started.stderr is not None
        assert started.stderr.read() == b""


@pytest.mark.live
@pytest.mark.system_wide
@pytest.mark.thorough
def test_its_own_samples_are_hidden_unless_they_are_wanted() -> None:
    def own(*words: str) -> bool:
        command = [*TOP, "--json", "-a", "-s", "pid", "-d", "0.2", "--updates", "3", *words]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as started:
            text, _ = started.communicate(timeout=60)
        keys = [row["keys"]["pid"] for line in text.splitlines() for row in json.loads(line)["events"][0]["rows"]]
        return any(int(key.partition(":")[0]) == started.pid for key in keys)

    assert not own()
    assert own("--show-self")


@pytest.mark.live
@pytest.mark.system_wide
@pytest.mark.thorough
def test_the_whole_machine_has_programs_that_start_later(program: Path) -> None:
    command = [*TOP, "--json", "-a", "-s", "comm,symbol", "-d", "0.5", "--updates", "6"]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as started:
        assert started.stdout is not None
        started.stdout.readline()
        with subprocess.Popen([program]) as later:
            lines = started.stdout.read().splitlines()
            later.kill()
    keys = {(row["keys"]["comm"].strip(), row["keys"]["symbol"]) for row in json.loads(lines[-1])["events"][0]["rows"]}
    assert ("spinning", "[.] hot") in keys


@pytest.mark.live
def test_names_of_processes_are_data(program: Path, tmp_path: Path) -> None:
    hostile = tmp_path / "p\33[2J\nx"
    hostile.symlink_to(program)
    with subprocess.Popen([hostile]) as target:
        arguments = ("-e", "task-clock:u", "-p", str(target.pid), "-d", "0.3", "--updates", "1", "-s", "comm,dso,symbol")
        process = top("--json", *arguments)
        target.kill()
    update = json.loads(process.stdout)
    assert update["events"][0]["rows"][0]["keys"]["comm"].startswith("p\33[2J")
    assert "\33" not in process.stdout


WAITING = """
#include <pthread.h>
#include <time.h>
#include <unistd.h>
pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;
void *blocked(void *p) { pthread_mutex_lock(&held); return p; }
void *napping(void *p) { struct timespec time = {0, 20000000}; for (;;) nanosleep(&time, 0); return p; }
int main(void) {
  pthread_t thread;
  pthread_mutex_lock(&held);
  pthread_create(&thread, 0, blocked, 0);
  pthread_create(&thread, 0, napping, 0);
  for (;;) pause();
}
"""


@pytest.mark.live
@pytest.mark.skipif(os.geteuid() != 0, reason="root, for stacks of switches")
def test_off_cpu_has_waits_before_they_end_and_before_it_began(tmp_path: Path) -> None:
    """Three threads wait all the time, two of them from before the start to after the end."""
    program = tmp_path / "waiting"
    subprocess.run(["cc", "-O1", "-pthread", "-x", "c", "-o", program, "-"], input=WAITING, text=True, check=True)
    with subprocess.Popen([program]) as started:
        while len(os.listdir(f"/proc/{started.pid}/task")) < 3:
            time.sleep(0.01)
        (update,) = updates("--off-cpu", "-p", str(started.pid), "-d", "0.6", "--updates", "1", "-s", "pid,state")
        started.kill()
    waited: dict[str, float] = {}
    for row in update["events"][0]["rows"]:  # on a busy machine the napping thread has one more row, in which it waits for a CPU
        waited[row["keys"]["pid"]] = waited.get(row["keys"]["pid"], 0) + row["period"] / 1e9
    assert len(waited) == 3
    assert list(waited.values()) == pytest.approx([update["seconds"]] * 3, rel=0.1)
    assert all(row["keys"]["state"] in ("S (sleeping)", "R (ready)") for row in update["events"][0]["rows"])


LEAVE = "\33[?1049l"


def screen(*words: str, keys: list[str], pid: int, columns: int = 80, lines: int = 24) -> Shown:
    """Run top on a terminal, typing a key after each of its updates."""
    todo, length = list(keys), [0]

    def watch(_pid: int, text: str) -> bytes | None:
        if len(text) > length[0] and "samples/s" in text[length[0] :] and todo:
            length[0] = len(text)
            return todo.pop(0).encode()
        return None

    return on_terminal("top", "-e", "task-clock:u", "-p", str(pid), "-d", "0.3", *words, watch=watch, columns=columns, lines=lines)


@pytest.mark.live
@pytest.mark.parametrize(("columns", "lines"), [(80, 24), (200, 60), (40, 8)])
def test_the_screen_shows_rows_and_leaves_the_terminal_as_it_was(columns: int, lines: int, spinning: subprocess.Popen[bytes]) -> None:
    terminal = screen(keys=["\33[B", "s", "q"], pid=spinning.pid, columns=columns, lines=lines)
    assert terminal.status == 0
    assert "hot" in terminal.text
    assert terminal.text.rstrip().endswith(LEAVE)
    assert "Traceback" not in terminal.text


@pytest.mark.live
def test_w_writes_the_samples_on_the_screen(spinning: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    terminal = screen("--all-cgroups", "--namespaces", keys=["\33[B", "w", "q"], pid=spinning.pid)
    assert "to perf.data; perfpy report" in terminal.text
    with perfpy.open("perf.data") as recording:
        assert all(row.texts["cgroup"].startswith("/") for row in recording.report(by="cgroup"))
        assert all(re.match(r"\d+/0x[1-9a-f]", row.texts["cgroup_id"]) for row in recording.report(by="cgroup_id"))
        rows = {row.texts["symbol"]: row.percent for row in recording.report(by="symbol")}
        assert rows["[.] hot"] > 60
        assert recording.warnings == []
        assert recording.header["cmdline"]


@pytest.mark.live
def test_a_process_is_chosen_and_left(spinning: subprocess.Popen[bytes]) -> None:
    terminal = screen("--by", "process", keys=["\33[B", "\r", "\33", "\33", "q"], pid=spinning.pid)
    assert terminal.status == 0
    assert f"[process {spinning.pid}]" in terminal.text


@pytest.mark.live
@pytest.mark.thorough
def test_a_shows_the_code_of_a_function_and_q_returns(spinning: subprocess.Popen[bytes]) -> None:
    todo = [("hot", "a"), ("q Esc back", "q"), ("Space freeze", "q")]
    length = [0]

    def watch(_pid: int, text: str) -> bytes | None:
        if not todo or todo[0][0] not in text[length[0] :]:
            return None
        length[0] = len(text)
        return todo.pop(0)[1].encode()

    terminal = on_terminal("top", "-e", "task-clock:u", "-p", str(spinning.pid), "-d", "0.3", watch=watch, columns=100)
    assert (terminal.status, todo) == (0, [])
    assert "<hot+0x" in terminal.text  # the target of the loop's jump


@pytest.mark.live
def test_the_code_of_a_function_is_printed_as_annotate_prints_it(spinning: subprocess.Popen[bytes]) -> None:
    words = ("-e", "task-clock:u", "-p", str(spinning.pid), "-d", "0.3", "--updates", "1", "--sym-annotate")
    process = top("--stdio", *words, "hot")
    assert process.returncode == 0, process.stderr
    assert "Source code & Disassembly of spinning for task-clock:u" in process.stdout
    assert sum(float(share) for share in re.findall(r"^ +([\d.]+) :", process.stdout, re.MULTILINE)) == pytest.approx(100, abs=0.5)
    (update,) = updates(*words, "no_function")
    assert update["code"] == {"error": "no_function: no samples in this function itself in the last minute"}


@pytest.mark.live
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_restores_the_terminal(number: int, spinning: subprocess.Popen[bytes]) -> None:
    sent: list[int] = []

    def watch(pid: int, text: str) -> None:
        if "samples/s" in text and not sent:
            sent.append(number)
            os.kill(pid, signal.SIGWINCH)
            os.kill(pid, number)

    terminal = on_terminal("top", "-e", "task-clock:u", "-p", str(spinning.pid), "-d", "0.3", watch=watch)
    assert terminal.status == 128 + number
    assert terminal.text.rstrip().endswith(LEAVE)


@pytest.mark.live
def test_a_terminal_that_is_closed_ends_it(spinning: subprocess.Popen[bytes]) -> None:
    child, master = pty.fork()
    if not child:
        os.execve(sys.executable, [*TOP, "-e", "task-clock:u", "-p", str(spinning.pid), "-d", "0.2"], {**os.environ, "TERM": "xterm"})
    text = b""
    while b"samples/s" not in text and select.select([master], [], [], 20)[0]:
        text += os.read(master, 4096)
    os.close(master)
    deadline = time.monotonic() + 20
    while not (ended := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < deadline:
        time.sleep(0.05)
    if not ended[0]:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert ended[0], "it still runs"


@pytest.mark.live
def test_nothing_is_left_behind(spinning: subprocess.Popen[bytes], tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    command = [*TOP, "--json", "-e", "task-clock:u", "-p", str(spinning.pid), "-d", "0.2", "--updates", "1"]
    subprocess.run(command, env=environment, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=True)
    assert {path.name for path in tmp_path.iterdir()} <= {"cache"}


# perfpy top --python: the functions of running Python programs, for root by copies of the kernel, for others by readings.


PYTHON_TOP = [sys.executable, "-m", "perfpy", "top", "--python", "-e", "task-clock"]
PROGRAM = """
def cool(n):
    for i in range(n): i * i
def hot(n):
    for i in range(n): i * i
def work():
    hot(9000)
    cool(1000)
def late():
    for i in range(1000): work()
for i in range(300): work()
while True: late()
"""


@pytest.fixture(params=["3.12", "3.8"])
def spinning_python(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    python = interpreter(request.param)
    if not python:
        pytest.skip(f"no Python {request.param} on this machine")
    (tmp_path / "program.py").write_text(PROGRAM)
    with subprocess.Popen([python, "program.py"], cwd=tmp_path) as started:
        time.sleep(0.3)
        yield started
        started.kill()


def python_updates(*words: str) -> list[dict[str, Any]]:
    process = subprocess.run(
        [*PYTHON_TOP, "--json", *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100, check=False
    )
    assert process.returncode == 0, process.stderr
    return [json.loads(line) for line in process.stdout.splitlines()]


def python_rows(update: dict[str, Any], key: str) -> dict[str, dict[str, Any]]:
    return {row["keys"][key].strip().split(" ")[0]: row for row in update["events"][0]["rows"]}


@pytest.mark.live
@pytest.mark.particular
def test_rows_are_functions_with_their_share(spinning_python: subprocess.Popen[bytes]) -> None:
    first, last = python_updates("-p", str(spinning_python.pid), "-F", "997", "-d", "1", "--updates", "2")
    assert python_rows(first, "pyfunc")["hot"]["overhead"] > 60
    row_of = python_rows(last, "pyfunc")
    assert row_of["hot"]["overhead"] > 75
    assert 1 < row_of["cool"]["overhead"] < 25
    assert sum(row["overhead"] for name, row in row_of.items() if name not in ("hot", "cool", "work", "late", "<module>")) < 10


@pytest.mark.live
@pytest.mark.particular
@pytest.mark.thorough
def test_rows_are_lines_and_have_callers(spinning_python: subprocess.Popen[bytes]) -> None:
    (update,) = python_updates("-p", str(spinning_python.pid), "-F", "997", "-d", "1", "--updates", "1", "--sort", "pyline", "--children")
    results = {row["keys"]["pyline"].strip(): row for row in update["events"][0]["rows"]}
    (calls,) = (row for text, row in results.items() if text.startswith("work") and text.endswith("program.py:7"))
    assert calls["overhead_children"] > 60
    (hot,) = (row for text, row in results.items() if text.startswith("hot") and text.endswith("program.py:5"))
    assert hot["overhead"] > 60


@pytest.mark.live
@pytest.mark.particular
@pytest.mark.skipif(os.geteuid() != 0, reason="root, to take away permissions")
@pytest.mark.thorough
def test_without_permission_to_load_programs_frames_are_read(spinning_python: subprocess.Popen[bytes]) -> None:
    launcher = ["setpriv", "--bounding-set=-bpf,-sys_admin", "--inh-caps=-all", "--"]
    words = [*PYTHON_TOP, "--json", "-p", str(spinning_python.pid), "-F", "499", "-d", "2", "--updates", "1"]
    process = subprocess.run([*launcher, *words], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=100, check=False)
    assert process.returncode == 0, process.stderr
    assert python_rows(json.loads(process.stdout), "pyfunc")["hot"]["overhead"] > 60


@pytest.mark.live
@pytest.mark.particular
def test_the_screen_sorts_by_self_and_writes_names(
    spinning_python: subprocess.Popen[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    keys = ["w", "q"]

    def watch(_pid: int, text: str) -> bytes | None:
        is_due = keys and "hot " in text and (text.count("samples/s") > 2 if keys[0] == "w" else "perfpy report" in text)
        return keys.pop(0).encode() if is_due else None

    terminal = on_terminal("top", "--python", "-e", "task-clock", "-p", str(spinning_python.pid), "-d", "0.5", watch=watch)
    assert terminal.status == 0
    with perfpy.open("perf.data") as recording:
        results = {row.texts["pyfunc"].split(" ")[0]: row.percent for row in recording.report(by="pyfunc")}
        assert results["hot"] > 60
        assert recording.warnings == []


@pytest.mark.live
@pytest.mark.particular
def test_fp_callchains_are_refused_with_a_remedy() -> None:
    process = subprocess.run(
        [*PYTHON_TOP, "--call-graph", "fp", "-p", str(os.getpid())], capture_output=True, text=True, timeout=60, check=False
    )
    assert process.returncode == 255 or process.returncode == 129
    assert "leave out --call-graph fp" in process.stderr
