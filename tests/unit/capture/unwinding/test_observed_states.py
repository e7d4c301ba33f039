"""Tests of the command lines of recorded processes, and of looks at their states."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from perfpy.capture import wait_targets
from perfpy.capture.runtimes import hotspot_monitors
from perfpy.capture.runtimes.hotspot_monitors import Collections
from perfpy.capture.unwinding import observed_states
from perfpy.capture.unwinding.observed_states import ObservedCommands, ObservedEnds, ObservedStates, naming_words
from perfpy.kernel.procfs import ProcFs
from perfpy.perfdata.kept_files import ObservedFrame, ObservedState, decode_commands

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (["python3", "-u", "app.py", "--password", "secret"], ["python3", "app.py"]),
        (["python3.12", "-X", "dev", "-m", "celery", "secret"], ["python3.12", "-m", "celery"]),
        (["python3", "-c", "password = 'secret'"], ["python3", "-c", ""]),
        (["python3", "-c", "from multiprocessing.spawn import spawn_main; x", "--multiprocessing-fork"], None),
        (["mysql", "-psecret"], ["mysql"]),
        (
            ["/usr/lib/cc1plus", "-quiet", "-D", "KEY=secret", "src/a.cpp", "-dumpbase", "a.cpp", "-O2", "-o", "/tmp/c.s"],
            ["/usr/lib/cc1plus", "a.cpp"],
        ),
        (["as", "-I", "secret.c", "--64", "-o", "a.o", "/tmp/c.s"], ["as", "a.o"]),
        (["x86_64-linux-gnu-gcc-12", "-c", "-MF", "secret.c", "main.c"], ["x86_64-linux-gnu-gcc-12", "main.c"]),
        (["rustc", "--crate-name", "serde", "src/lib.rs", "--cfg", "secret"], ["rustc", "serde"]),
        (
            ["/go/pkg/tool/linux_amd64/compile", "-o", "/tmp/b1.a", "-p", "net/http", "./a.go"],
            ["/go/pkg/tool/linux_amd64/compile", "net/http"],
        ),
        (["ld", "-o", "app", "--secret"], ["ld", "app"]),
        (["ld", "-o"], ["ld"]),
        (["as", "-p", "-o", "-secret"], ["as"]),
        (["gunicorn: worker [app:app]"], ["gunicorn: worker [app:app]"]),
        (["python3"], ["python3"]),
        (["python3", "-"], ["python3"]),
    ],
)
def test_arguments_that_name_nothing_are_not_kept(words: list[str], kept: list[str] | None) -> None:
    assert naming_words(words) == (words[:3] if kept is None else kept)


def process(root: Path, pid: int, command: bytes) -> None:
    """Write the files of a process."""
    folder = root / str(pid)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cmdline").write_bytes(command)
    (folder / "stat").write_bytes(b"%d (a) b) S 1 " % pid + b" ".join(b"%d" % number for number in range(5, 60)))


def test_processes_are_looked_at_after_some_time_and_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observed_states, "_AGES", (0.0, 3600.0))
    process(tmp_path, 10, b"/usr/bin/gunicorn\0")
    process(tmp_path, 11, b"/usr/bin/gunicorn\0")
    commands = ObservedCommands(ProcFs(str(tmp_path)))
    assert commands.look() is None
    commands.note([10, 11, 12])
    time.sleep(0.001)
    assert commands.look() is not None  # 12 has ended
    process(tmp_path, 11, b"gunicorn: worker [app:app]\0\0\0")
    (tmp_path / "10" / "cmdline").unlink()
    seen = {command.pid: command.words for command in decode_commands(commands.encoded())}
    assert seen == {10: ["/usr/bin/gunicorn"], 11: ["gunicorn: worker [app:app]"]}


def test_a_process_that_executes_another_program_is_looked_at_as_that(monkeypatch: pytest.MonkeyPatch) -> None:
    """The record of it may come when an idle program has ended."""
    programs, opened = ["/bin/sh"], list[int]()
    go = SimpleNamespace(is_alive=True, has_executed=False, due=float("inf"), pause=1.0, states=lambda: iter(()))

    def find(_states: ObservedStates, pid: int) -> object:
        opened.append(pid)
        return go if programs == ["/bin/go"] else None

    monkeypatch.setattr(ObservedStates, "_open", find)
    monkeypatch.setattr(observed_states, "_program_of", lambda _pid: programs[0])
    states = ObservedStates()
    states.note([os.getpid()])
    states.look()
    assert isinstance(states._processes[os.getpid()], observed_states._ObservedWaits)
    programs[:] = ["/bin/go"]
    states._processes[os.getpid()].due = 0.0
    states.look()
    assert states._processes == {os.getpid(): go}
    assert opened == [os.getpid()] * 2


def test_connections_of_the_main_thread_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wait_targets, "peers_of_wait", lambda *_arguments: {wait_targets.Peer("10.0.0.5:5432", is_connected=True)})
    monkeypatch.setattr(observed_states, "read_state", lambda *_ids: SimpleNamespace(call=232, arguments=[5]))
    process = observed_states._ObservedWaits(os.getpid(), ProcFs())
    for _ in range(3):
        process.look()
    assert [*process.states()] == [ObservedState(os.getpid(), "peer", 3, 3, "10.0.0.5:5432", [], [])]
    monkeypatch.setattr(observed_states, "read_state", lambda *_ids: None)
    process.look()
    assert not process.is_alive
    assert not process.has_executed


def test_the_collections_of_a_jvm_are_those_between_the_first_and_the_last_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = iter([None, (3, 1, 0.5, 0.25), (7, 1, 0.75, 0.25), (9, 1, 1.0, 0.25), None])

    class Counters:
        def __init__(self, _pid: int, _procfs: ProcFs) -> None:
            pass

        def collections(self) -> Collections | None:
            counts = next(looks)
            return counts and Collections(*counts, 1024, 3, "-Xmx1g", "-Xmn3m")

        def close(self) -> None:
            pass

    monkeypatch.setattr(hotspot_monitors, "JvmCounters", Counters)
    maps = tmp_path / str(os.getpid()) / "maps"
    maps.parent.mkdir()
    maps.write_text("7f0000000000-7f0000008000 rw-s 00000000 fe:00 77 /tmp/hsperfdata_root/12\n")
    process = observed_states._ObservedWaits(os.getpid(), ProcFs(str(tmp_path)))
    for _ in range(5):
        process.look()
    process.end()
    assert [*process.states()] == [ObservedState(os.getpid(), "collections", 500, 6, "young", [], [ObservedFrame("-Xmn3m", "", 3)])]


def test_programs_that_compute_load_no_module_about_other_runtimes_or_waits() -> None:
    """These took a fifth of the unwinding process's time in a recording of two seconds."""
    code = (
        "import os, sys; from perfpy.capture.unwinding import observed_states; from perfpy.kernel.procfs import ProcFs;"
        "process = observed_states._ObservedWaits(os.getpid(), ProcFs()); process.look(); process.look();"
        "print(*(name for name in sys.modules if name.rpartition('.')[2] in ('hotspot_monitors', 'attaching', 'wait_targets')))"
    )
    alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # numpy's further threads wait
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True, env=alone)
    assert run.stdout == "\n"


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, dict[int, SimpleNamespace]], observed_states._ObservedWaits]:
    """Return a function that makes a process whose threads wait in system calls."""

    def make(owner: int, threads: dict[int, SimpleNamespace]) -> observed_states._ObservedWaits:
        monkeypatch.setattr(observed_states, "read_state", lambda _pid, tid: threads.get(tid))
        monkeypatch.setattr(observed_states._ObservedWaits, "_variable", lambda _self, _address: "table")
        monkeypatch.setattr(wait_targets, "owner_of_mutex", lambda _data: owner)
        monkeypatch.setattr(ProcFs, "threads", lambda _self, _pid: [*threads])

        def read(_self: ProcFs, path: str, _size: int = -1) -> bytes:
            tid = int(path.split("/")[-2])
            return b"keeper\n" if path == "8/comm" else b"%d" % threads[tid].ran if path.endswith("/schedstat") else b""

        monkeypatch.setattr(ProcFs, "read", read)
        return observed_states._ObservedWaits(os.getpid(), ProcFs())

    return make


def futex(ran: int = 5, limit: int = 0) -> SimpleNamespace:
    """Return the state of a thread that waits for a mutex."""
    return SimpleNamespace(call=202, arguments=[0x4000, 0x80, 2, limit, 0, 0], ran=ran, letter="S")


def test_the_holders_of_mutexes_are_counted_and_threads_that_never_run_are_stuck(
    waiting: Callable[[int, dict[int, SimpleNamespace]], observed_states._ObservedWaits],
) -> None:
    pid = os.getpid()
    threads = {pid: SimpleNamespace(call=None, arguments=[], ran=1, letter="R"), 7: futex(), 8: futex(limit=0x7000)}
    process = waiting(8, threads)
    for number in range(4):
        threads[8].ran = number
        process.look()
    holder = [ObservedFrame("keeper", "", 8)]
    counted = [ObservedState(tid, "mutex", 4, 4, "table", [], holder) for tid in (7, 8)]
    assert [*process.states()] == [*counted, ObservedState(7, "stuck", 4, 4, "table", [], holder)]
    threads[7].ran = 6
    process.look()
    assert [*process.states()][-1] == ObservedState(7, "stuck", 5, 1, "table", [], holder)
    threads[7] = SimpleNamespace(call=None, arguments=[], ran=7, letter="R")
    process.look()
    assert {state.kind for state in process.states()} == {"mutex"}
    process.end()  # perhaps it ran only to its end
    assert [*process.states()][-1].kind == "stuck"


def test_threads_that_have_ended_are_left_out(
    waiting: Callable[[int, dict[int, SimpleNamespace]], observed_states._ObservedWaits], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their files in /proc are gone after the threads were listed."""
    pid = os.getpid()
    process = waiting(8, {pid: SimpleNamespace(call=None, arguments=[], ran=1, letter="R"), 7: futex()})
    monkeypatch.setattr(ProcFs, "read", lambda _self, path, _size=-1: b"" if "/7/" in path else b"1")
    process.look()
    assert process.is_alive
    assert not [*process.states()]


def test_memory_that_is_no_mutex_has_no_holder(
    waiting: Callable[[int, dict[int, SimpleNamespace]], observed_states._ObservedWaits],
) -> None:
    process = waiting(0, {os.getpid(): futex()})
    process.look()
    assert not [*process.states()]


def test_short_processes_are_never_looked_at(tmp_path: Path) -> None:
    for pid in range(100, 180):
        process(tmp_path, pid, b"ls\0")
    commands = ObservedCommands(ProcFs(str(tmp_path)))
    commands.note(range(100, 180))
    commands.look()
    assert commands.encoded() == b""


def ends_of(*codes: str) -> list[str]:
    """Return the signals that were seen of processes that ran some code, after their parents asked for their status."""
    ends = ObservedEnds()
    processes = [
        subprocess.Popen([sys.executable, "-c", f"import os, sys; sys.stdin.read(); {code}"], stdin=subprocess.PIPE) for code in codes
    ]
    ends.note([process.pid for process in processes])
    assert ends.look() is not None
    for process in processes:
        process.communicate(b"")
    states = ends.states()
    ends.close()
    assert all(state.kind == "killed" for state in states)
    return [state.reason for state in states]


@pytest.mark.skipif(
    tuple(map(int, os.uname().release.split("-")[0].split(".")[:2])) < (6, 15), reason="needs PIDFD_INFO_EXIT of Linux 6.15"
)
def test_signals_that_kill_are_seen_and_other_ends_are_not() -> None:
    assert ends_of("os.kill(os.getpid(), 11)", "os.kill(os.getpid(), 15)", "sys.exit(3)", "os.abort()", "sys.exit(11)") == [
        "SIGSEGV",
        "SIGABRT",
    ]


def test_only_ended_processes_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as process:
        ends, asked = ObservedEnds(), list[int]()
        monkeypatch.setattr(ends, "_ask", asked.append)
        ends.note([process.pid])
        asked.clear()
        ends.look()
        assert asked == []
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        ends._due = 0.0
        ends.look()
        assert asked == [process.pid]
        ends.close()


def test_kernels_that_do_not_tell_ends_have_nothing_held(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOTTY, "")

    monkeypatch.setattr(fcntl, "ioctl", refuse)
    ends = ObservedEnds()
    ends.note([os.getpid()])
    assert ends.look() is None


def test_processes_that_are_gone_have_no_end() -> None:
    ends = ObservedEnds()
    ends.note([1 << 30, -1])
    assert ends.look() is None
    assert ends.states() == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            b"4,12,34,-;atlas[44]: segfault at 0 ip 0000561060cc0040 sp 00007ffc error 4 in atlas[f,561060cbf000+2000]\n",
            {44: 0x561060CC0040},
        ),
        (b"4,12,34,-;a b[7]: segfault at ffffffffff600000 ip ffffffffff600000 sp 0 error 15\n", {7: 0xFFFFFFFFFF600000}),
        (b"4,12,34,-;traps: x[8] trap divide error ip:55aa sp:7ffc error:0 in x[55,1000+2000]\n", {8: 0x55AA}),
        (b"4,12,34,-;x[8] trap invalid opcode ip:55aa sp:7ffc error:0\n", {8: 0x55AA}),
        (b"4,12,34,-;atlas[44]: segfault at 0 ip", {}),
        (b"4,12,34,-;the user wrote atlas[44]: segfault at 0 ip 41\n", {}),
        (b"", {}),
    ],
)
def test_the_kernels_log_tells_the_instruction_of_a_fault(line: bytes, expected: dict[int, int], tmp_path: Path) -> None:
    log = tmp_path / "kmsg"
    log.write_bytes(b"")
    ends = ObservedEnds(str(log))
    ends.note([])
    log.write_bytes(line)
    assert ends._faults() == expected
    ends.close()
    assert ends._faults() == {}
