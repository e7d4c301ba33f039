"""Runtimes that are asked for the names of their code while they run."""

from __future__ import annotations

import ast
import contextlib
import ctypes
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import types
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from perfpy.capture.runtimes import attaching, cpython_attach
from perfpy.capture.runtimes.attaching import thread_dump, write_perf_map
from perfpy.capture.runtimes.cpython_attach import STARTUP, ScriptFolder
from perfpy.capture.runtimes.known_runtimes import PYTHON, runtime_of
from perfpy.capture.runtimes.session import environment_for
from perfpy.kernel.procfs import ProcFs
from perfpy.symbols import dso
from perfpy.untrusted import process_files
from tests.builders.pythons import WITHOUT_TRAMPOLINES, interpreter, run

if TYPE_CHECKING:
    from collections.abc import Iterator


# What running programs of other users say of themselves is read within bounds.


def test_only_the_beginning_of_arguments_and_variables_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """prctl(PR_SET_MM_MAP) can make them as large as all memory."""
    assert len(attaching._of_process(os.getpid(), "environ")) > 100
    monkeypatch.setattr(attaching, "_MOST_WORDS", 100)
    assert len(attaching._of_process(os.getpid(), "environ")) == 100


def test_a_program_that_embeds_python_is_found_by_its_library(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [b"1000-2000 r-xp 00000000 fe:00 7 /usr/bin/app", b"3000-4000 r-xp 00000000 fe:00 8 /usr/lib/libpython3.12.so.1.0"]
    monkeypatch.setattr(process_files, "map_lines", lambda _pid: iter(lines))
    monkeypatch.setattr(os, "readlink", lambda _path: "/usr/bin/app")
    assert attaching.runtime_of_process(7) is PYTHON

    lines.pop()
    assert attaching.runtime_of_process(7) is runtime_of("/usr/bin/app") is None


def test_a_process_that_has_ended_has_no_runtime() -> None:
    assert attaching.runtime_of_process(1 << 30) is None
    assert attaching._of_process(1 << 30, "cmdline") == b""


# A perf map is requested from a JVM, which a thread simulates.


PID = 77


class Jvm:
    """Answers one request at a socket, which it opens on request."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / f".java_pid{PID}")
        self.folder = folder
        self.answer = b"0\n"
        self.asked = b""
        self.signals: list[int] = []
        self._server = socket.socket(socket.AF_UNIX)
        self._thread = threading.Thread(target=self._serve)

    def listen(self) -> None:
        self._server.bind(self.path)
        self._server.listen()
        self._thread.start()

    def signalled(self, pid: int, number: int) -> None:
        assert (self.folder / f".attach_pid{pid}").exists()
        self.signals.append(number)
        self.listen()

    def _serve(self) -> None:
        connection, _ = self._server.accept()
        with connection:
            while self.asked.count(b"\0") < 5:
                self.asked += connection.recv(100)
            connection.sendall(self.answer)

    def close(self) -> None:
        if self._thread.is_alive():
            self._thread.join(5)
        self._server.close()


class Root:
    """The root of a JVM, whose /tmp is a folder of the test."""

    def __init__(self, tmp: Path) -> None:
        self._tmp = tmp

    def __enter__(self) -> Root:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def open(self, path: str, flags: int) -> int:
        assert path == "/tmp"
        return os.open(self._tmp, flags)

    def run(self, function):
        return function(0)


@pytest.fixture
def jvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Jvm]:
    process = Jvm(tmp_path)
    monkeypatch.setattr(attaching, "ProcessRoot", lambda pid: Root(tmp_path))
    monkeypatch.setattr(dso, "innermost_pid", lambda pid: pid)
    monkeypatch.setattr(dso, "catches", lambda pid, number: True)
    monkeypatch.setattr(process_files, "trusted_owners", lambda pid: {os.geteuid()})
    monkeypatch.setattr(attaching, "_PATIENCE", 0.5)
    monkeypatch.setattr(os, "kill", process.signalled)
    yield process
    process.close()


def test_a_listening_jvm_gets_the_request(jvm: Jvm):
    jvm.listen()
    write_perf_map(PID)
    assert jvm.asked == b"1\0jcmd\0Compiler.perfmap\0\0\0"
    assert jvm.signals == []


def test_a_jvm_describes_its_threads(jvm: Jvm):
    jvm.answer = b"0\nFull thread dump" + b"x" * 100_000
    jvm.listen()
    assert thread_dump(PID) == "Full thread dump" + "x" * 100_000
    assert jvm.asked == b"1\0threaddump\0-l\0\0\0"


def test_a_jvm_may_refuse_to_describe_its_threads(jvm: Jvm):
    jvm.answer = b"101\nno\n"
    jvm.listen()
    with pytest.raises(OSError, match="no"):
        thread_dump(PID)


def test_one_that_does_not_is_woken_first(jvm: Jvm):
    write_perf_map(PID)
    assert jvm.signals == [signal.SIGQUIT]
    assert sorted(os.listdir(jvm.folder)) == [f".java_pid{PID}"]


def test_a_jvm_that_the_signal_would_kill_gets_none(jvm: Jvm, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dso, "catches", lambda pid, number: False)
    with pytest.raises(OSError, match="does not listen"):
        write_perf_map(PID)
    assert (jvm.signals, os.listdir(jvm.folder)) == ([], [])


def test_a_jvm_that_does_not_answer_blocks_nothing(jvm: Jvm, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(os, "kill", lambda pid, number: None)
    with pytest.raises(TimeoutError, match="does not answer"):
        write_perf_map(PID)
    assert os.listdir(jvm.folder) == []


@pytest.mark.parametrize(
    ("answer", "reason"),
    [(b"1\njava.lang.IllegalArgumentException: Unknown diagnostic command\n", "Unknown diagnostic command"), (b"", "17")],
)
def test_a_refusal_is_reported(jvm: Jvm, answer: bytes, reason: str):
    jvm.answer = answer
    jvm.listen()
    with pytest.raises(OSError, match=reason):
        write_perf_map(PID)


def test_a_socket_of_another_user_is_not_spoken_to(jvm: Jvm, monkeypatch: pytest.MonkeyPatch):
    (jvm.folder / f".java_pid{PID}").write_bytes(b"")
    with pytest.raises(PermissionError, match="another user's"):
        write_perf_map(PID)
    monkeypatch.setattr(process_files, "trusted_owners", lambda pid: {os.geteuid() + 1})
    (jvm.folder / f".java_pid{PID}").unlink()
    with socket.socket(socket.AF_UNIX) as theirs:
        theirs.bind(jvm.path)
        with pytest.raises(PermissionError, match="another user's"):
            write_perf_map(PID)


def test_each_failure_is_one_line(monkeypatch: pytest.MonkeyPatch):
    def refuse(pid: int) -> None:
        if pid == 2:
            raise PermissionError(13, "Permission denied")

    attributes = attaching.__dict__
    monkeypatch.setitem(attributes, "is_java", lambda pid: pid < 3)
    monkeypatch.setitem(attributes, "write_perf_map", refuse)
    assert [*attaching.ask([1, 2, 3])] == ["cannot get the perf map of Java process 2: Permission denied"]


# Running processes: the Python in them, the request, and the messages if it is impossible.


SPIN = "import time\ndef work(): return sum(range(1000))\nend = time.time() + 60\nwhile time.time() < end: work()"


def proc(folder: Path, *paths: str) -> ProcFs:
    (folder / "7").mkdir()
    lines = [f"7f00000{n}0000-7f00000{n}1000 r-xp 00000000 fe:00 5 {path}\n" for n, path in enumerate(paths)]
    (folder / "7" / "maps").write_text("".join(lines))
    return ProcFs(str(folder))


@pytest.mark.parametrize(
    ("paths", "version"),
    [
        (("/usr/bin/python3.14", "/usr/lib/libc.so.6"), (3, 14)),
        (("/opt/bin/python3", "/opt/lib/libpython3.11.so.1.0"), (3, 11)),
        (("/usr/bin/uwsgi", "/usr/lib/libpython3.14t.so.1.0"), (3, 14)),
        (("/usr/bin/node",), None),
        (("/usr/lib/python3.11/lib-dynload/_json.cpython-311-x86_64-linux-gnu.so",), None),
    ],
)
def test_the_version_is_that_of_the_file_that_is_mapped(tmp_path: Path, paths: tuple[str, ...], version: tuple[int, int] | None):
    interpreter = cpython_attach.interpreter_of(7, proc(tmp_path, *paths))
    assert (interpreter.version if interpreter else None) == version


def test_processes_without_python_stay_unchanged(tmp_path: Path):
    assert cpython_attach.attach(7, proc(tmp_path, "/usr/bin/sleep")) is None


@pytest.mark.parametrize(
    ("version", "says"),
    [
        ("3.7", "CPython 3.7 cannot name them; 3.8 and later can"),
        (
            "3.9",
            "CPython 3.9 names them from its start only (3.14 also later); start the program with perfpy record --jit -- COMMAND",
        ),
        ("3.12", "perfpy record --jit -- COMMAND, or with PYTHONPERFSUPPORT=1 in its environment"),
    ],
)
def test_a_failed_attach_gives_a_command_to_type(tmp_path: Path, version: str, says: str):
    with pytest.raises(cpython_attach.NoNamesError) as raised:
        cpython_attach.attach(7, proc(tmp_path, f"/usr/bin/python{version}"))
    text = str(raised.value)
    assert text.startswith("process 7: no names of Python functions: ")
    assert text.endswith(says)
    assert "\n" not in text


def test_several_processes_are_attached_and_refusals_reported(tmp_path: Path):
    switches, refused = cpython_attach.attach_all([7, 7], proc(tmp_path, "/usr/bin/python3.10"))
    assert (switches, [error.pid for error in refused]) == ([], [7, 7])


def test_an_interpreter_that_others_may_write_to_is_not_run(tmp_path: Path):
    program = tmp_path / "python3.14"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o777)
    python = cpython_attach.RunningPython((3, 14), str(program), is_program=True)
    with pytest.raises(cpython_attach.NoNamesError, match="does not belong to root or you"):
        cpython_attach._program(os.getpid(), python)


def asker(folder: Path, says: str, monkeypatch: pytest.MonkeyPatch) -> cpython_attach.Trampolines:
    """Asked of a program that fails as said, twice, and works the third time."""
    program = folder / "python3.14"
    program.write_text(f'#!/bin/sh\necho >> {folder}/asked\n[ $(wc -l < {folder}/asked) -gt 2 ] && exit 0\necho "{says}" >&2\nexit 1\n')
    program.chmod(0o755)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return cpython_attach.Trampolines(os.getpid(), str(program))


def test_a_starting_process_is_attached_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    asker(tmp_path, "RuntimeError: Can't find the main thread in the remote process", monkeypatch)._run("")
    assert (tmp_path / "asked").read_text() == "\n" * 3


def test_a_refusing_process_is_attached_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(cpython_attach.NoNamesError, match="the request failed: PermissionError: no"):
        asker(tmp_path, "PermissionError: no", monkeypatch)._run("")
    assert (tmp_path / "asked").read_text() == "\n"


class Told:
    """A sys module that keeps what it is told."""

    def __init__(self, *, active: bool = False, error: str = "") -> None:
        self.calls: list[str] = []
        self._active, self._error = active, error

    def is_stack_trampoline_active(self) -> bool:
        return self._active

    def activate_stack_trampoline(self, backend: str) -> None:
        if self._error:
            raise ValueError(self._error)
        self.calls.append(f"activate {backend}")

    def deactivate_stack_trampoline(self) -> None:
        self.calls.append("deactivate")


def ran(action: str, answer: Path, messages: Told, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """Run the lines as the process does; what they left in its __main__."""
    main = types.ModuleType("__main__")
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "sys", messages)
        exec(compile(cpython_attach._LINES.format(action=action, answer=str(answer)), "lines", "exec"), main.__dict__)
    return {name: value for name, value in main.__dict__.items() if not name.startswith("__")}


@pytest.mark.parametrize(
    ("action", "messages", "answer", "calls"),
    [
        (cpython_attach._ON, Told(), "on", ["activate perf"]),
        (cpython_attach._ON, Told(active=True), "already", ["activate perf"]),
        (cpython_attach._ON, Told(error="perf trampoline not available"), "ValueError: perf trampoline not available", []),
        (cpython_attach._OFF, Told(active=True), "off", ["deactivate"]),
    ],
)
def test_the_process_answers_and_keeps_nothing_of_the_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: str, messages: Told, answer: str, calls: list[str]
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = ScriptFolder(os.getpid())
    with folder.answer() as question:
        assert ran(action, Path(question.path), messages, monkeypatch) == {}
        assert question.read(1) == answer
    assert ran(action, Path(question.path), messages, monkeypatch) == {}, "nobody reads any more"
    folder.remove()
    assert messages.calls == calls * 2
    assert [*tmp_path.iterdir()] == []


@pytest.fixture
def python() -> str:
    path = interpreter("3.14")
    if not path:
        pytest.skip("no Python 3.14 on this machine")
    return path


def map_of(pid: int) -> Path:
    return Path(f"/tmp/perf-{pid}.map")


def test_a_process_names_its_functions_on_request(python: str):
    with subprocess.Popen([python, "-c", SPIN]) as process:
        try:
            time.sleep(0.3)
            switch = cpython_attach.attach(process.pid)
            assert switch is not None
            assert not switch.late
            assert any(" py::work:" in line for line in map_of(process.pid).read_text().splitlines())
            switch.off()
        finally:
            process.kill()
            map_of(process.pid).unlink(missing_ok=True)


def test_a_process_that_waits_is_not_waited_for(python: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cpython_attach, "_PATIENCE", 0.2)
    with subprocess.Popen([python, "-c", "import time; time.sleep(60)"]) as process:
        try:
            time.sleep(0.3)
            switch = cpython_attach.attach(process.pid)
            assert switch is not None
            assert switch.late
            switch.off()
            assert os.path.exists(switch._folder.path)  # it reads our lines whenever it wakes
            shutil.rmtree(switch._folder.path)
        finally:
            process.kill()


def test_a_process_that_forbids_it_is_reported(python: str):
    with subprocess.Popen([python, "-X", "disable-remote-debug", "-c", SPIN]) as process:
        try:
            time.sleep(0.3)
            with pytest.raises(cpython_attach.NoNamesError, match=r"the request failed: RuntimeError: .*debug"):
                cpython_attach.attach(process.pid)
        finally:
            process.kill()


# CPython 3.8 to 3.11 with perfpy's evaluator: names in the perf map, and no other visible effect on the program.


CHECKOUT = Path(__file__).resolve().parents[3]

#: what every program below may use: the lines of its own map
MAP = """
import os, sys
def lines(pid=None):
    with open("/tmp/perf-%d.map" % (pid or os.getpid())) as file:
        return file.read().splitlines()
def named(name): return [line for line in lines() if line.split(" ", 2)[2].startswith("py::%s:" % name)]
def forget(): os.unlink("/tmp/perf-%d.map" % os.getpid())
"""


@pytest.fixture(params=WITHOUT_TRAMPOLINES)
def spinning_python(request: pytest.FixtureRequest) -> str:
    path = interpreter(request.param)
    if not path:
        pytest.skip(f"no Python {request.param} on this machine")
    return path


def said(python: str, program: str, *arguments: str, **variables: str) -> str:
    result = run(python, MAP + program + "\nforget()", *arguments, named=True, **variables)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout


@pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="the evaluator is for x86-64 and aarch64")
def test_functions_have_qualified_names(spinning_python: str, tmp_path: Path):
    program = tmp_path / "program.py"
    program.write_text(
        MAP
        + """
class Shape:
    class Side:
        def length(self): return [x for x in map(lambda v: v, (1,))]
    def sides(self): return self.Side().length()
def outer():
    def inner(): return Shape().sides()
    return inner()
def numbers(): yield outer()
list(numbers())
for line in lines(): print(line)
forget()
"""
    )
    outcome = run(spinning_python, program)
    assert outcome.returncode == 0
    evaluator, *result = [line.split(" ", 2) for line in outcome.stdout.splitlines()]
    assert evaluator[2] == "perfpy::evaluate"
    addresses = [int(address, 16) for address, _, _ in result]
    sizes = {int(size, 16) for _, size, _ in result}
    assert len(set(addresses)) == len(addresses)
    assert len(sizes) == 1
    own = [name.rpartition(":") for _, _, name in result if name.endswith(f":{program}")]
    assert [name for name, _, _ in own][:9] == [
        *("py::<module>", "py::Shape", "py::Shape.Side", "py::numbers", "py::outer", "py::outer.<locals>.inner", "py::Shape.sides"),
        *("py::Shape.Side.length", "py::Shape.Side.length.<locals>.<listcomp>"),
    ]


#: generators, coroutines, exceptions thrown into both, recursion to the limit, tracing, threads, weak references, signals
MANY_KINDS = """
import asyncio, gc, signal, sys, threading, traceback, weakref
def gen():
    try:
        got = yield 1
        yield got
    except ValueError as error:
        yield never_run_before(error)
    finally:
        print("closed")
def never_run_before(error): return type(error), sys.exc_info()[0]
g = gen(); print(next(g), g.send(5)); g = gen(); next(g); print(g.throw(ValueError("x"))); g.close()
async def leaf(n):
    await asyncio.sleep(0)
    if n == 3: raise KeyError(n)
    return n
async def main():
    print(await asyncio.gather(*(leaf(n) for n in range(5)), return_exceptions=True))
asyncio.run(main())
async def agen():
    for n in range(3): yield n
async def use(): return [n async for n in agen()]
print(asyncio.run(use()))
def deep(n): return deep(n + 1)
try: deep(0)
except RecursionError as error: print("deep", error.args[0][:30])
def raises(): raise OSError("a") from None
def through():
    try: raises()
    except OSError: raise TypeError("b")
try: through()
except TypeError: print([frame.name for frame in traceback.extract_tb(sys.exc_info()[2])])
events = []
def tracer(frame, event, arg):
    events.append((frame.f_code.co_name, event)); return tracer
def traced(x): return first_time(x) + 1
def first_time(x): return x
sys.settrace(tracer); traced(1); sys.settrace(None); print(events)
events.clear(); sys.setprofile(lambda frame, event, arg: events.append((frame.f_code.co_name, event)))
def profiled(): return first_profiled()
def first_profiled(): return 1
profiled(); sys.setprofile(None); print(events)
results = []
def work(n): results.append(sum(fib(n) for _ in range(3)))
def fib(n): return n if n < 2 else fib(n - 1) + fib(n - 2)
threads = [threading.Thread(target=work, args=(12,)) for _ in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]; print(results)
class Node: pass
def cycle():
    a, b = Node(), Node(); a.b, b.a = b, a; return weakref.ref(a)
ref = cycle(); gc.collect(); print(ref() is None)
signal.signal(signal.SIGALRM, lambda number, frame: print("signal", frame.f_code.co_name))
def waits(): signal.raise_signal(signal.SIGALRM)
waits()
print(eval("(lambda x: x * 2)(4)"), [x for x in sorted([3, 1], key=lambda v: -v)])
def forever():
    while True: fib(5)
threading.Thread(target=forever, daemon=True).start()
"""


@pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="the evaluator is for x86-64 and aarch64")
def test_names_do_not_change_programs(spinning_python: str, tmp_path: Path):
    program = tmp_path / "program.py"
    program.write_text(
        MANY_KINDS + "\nimport os\nif os.path.exists('/tmp/perf-%d.map' % os.getpid()): os.unlink('/tmp/perf-%d.map' % os.getpid())"
    )
    plain, with_names = run(spinning_python, program, named=False), run(spinning_python, program)
    assert (with_names.returncode, with_names.stdout, with_names.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    assert plain.stdout.count("\n") == 14


@pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="the evaluator is for x86-64 and aarch64")
def test_the_program_sees_no_trace_of_the_startup_folder(spinning_python: str):
    text = "print(sys.path, 'sitecustomize' in sys.modules, sorted(n for n in sys.modules if 'perfpy' in n), list(sys.path_importer_cache))"
    assert STARTUP not in said(spinning_python, text)
    assert (
        said(spinning_python, text).split("]")[1].split()
        == run(spinning_python, f"import sys\n{text}", named=False).stdout.split("]")[1].split()
    )


@pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="the evaluator is for x86-64 and aarch64")
def test_the_users_sitecustomize_is_run_in_its_turn(spinning_python: str, tmp_path: Path):
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.flag = __file__")
    text = "import sitecustomize; print(sys.flag, sitecustomize.__file__)"
    assert said(spinning_python, text, PYTHONPATH=str(tmp_path)).split() == [f"{tmp_path}/sitecustomize.py"] * 2


@pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="the evaluator is for x86-64 and aarch64")
def test_an_error_in_the_users_sitecustomize_is_reported_as_before(spinning_python: str, tmp_path: Path):
    (tmp_path / "sitecustomize.py").write_text("1 / 0")
    plain, with_names = (run(spinning_python, "print(1)", named=with_names, PYTHONPATH=str(tmp_path)) for with_names in (False, True))
    assert "ZeroDivisionError" in plain.stderr
    assert (plain.returncode, plain.stdout, plain.stderr) == (with_names.returncode, with_names.stdout, with_names.stderr)


@pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="the evaluator is for x86-64 and aarch64")
def test_children_are_named_too(spinning_python: str):
    text = "import subprocess; print(subprocess.run([sys.executable, '-c', sys.argv[1]], stdout=subprocess.PIPE).stdout.decode())"
    assert said(spinning_python, text, MAP + "def child(): pass\nchild(); print(len(named('child'))); forget()").strip() == "1"


@pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="the evaluator is for x86-64 and aarch64")
def test_a_forked_child_has_its_own_map_with_the_lines_of_its_parent(spinning_python: str):
    text = """
def before(): pass
def after(): pass
before()
child = os.fork()
if not child:
    after()
    print(len(named("before")), len(named("after")), oct(os.stat("/tmp/perf-%d.map" % os.getpid()).st_mode), flush=True)
    taken = {line.split()[0][:-4] for line in lines(os.getppid())}
    print(named("after")[0].split()[0][:-4] in taken, flush=True)
    forget(); os._exit(0)
os.waitpid(child, 0)
print(len(named("after")))"""
    # no address is in an arena of the parent's, who may give it to another function
    assert said(spinning_python, text).split() == ["1", "1", "0o100600", "False", "0"]


@pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="the evaluator is for x86-64 and aarch64")
def test_descriptors_that_the_program_closes_and_uses_again_stay_unchanged(spinning_python: str, tmp_path: Path):
    text = """
os.closerange(3, 1024)
file = open(sys.argv[1], "w"); copies = [os.dup(file.fileno()) for _ in range(300)]
def later(): pass
later()
print(len(named("later")), os.path.getsize(sys.argv[1]))"""
    assert said(spinning_python, text, str(tmp_path / "file")).split() == ["1", "0"]


@pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="the evaluator is for x86-64 and aarch64")
def test_code_that_is_compiled_again_and_again_takes_one_trampoline(spinning_python: str):
    text = "for _ in range(500): exec(compile('def again(): pass\\nagain()', 'made.py', 'exec'), {})\nprint(len(named('again')))"
    assert said(spinning_python, text).split() == ["1"]


@pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="the evaluator is for x86-64 and aarch64")
def test_there_is_room_for_more_functions_than_one_arena_has(spinning_python: str):
    text = "for n in range(9000): exec(compile(f'def many{n}(): pass\\nmany{n}()', 'made.py', 'exec'), {})\n"
    text += "all = lines(); print(sum('py::many' in line for line in all), len({line.split()[0] for line in all}) == len(all))"
    assert said(spinning_python, text).split() == ["9000", "True"]


@pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="the evaluator is for x86-64 and aarch64")
def test_names_stay_on_their_line(spinning_python: str):
    text = "exec(compile('1', 'a\\nb\\x1b' + 'c' * 5000, 'exec'))\nline = lines()[-1] if 'a?b?' in lines()[-1] else named('<module>')[-1]\n"
    text += "print(any('a?b?ccc' in line and len(line) < 2000 for line in lines()), all(line.count(' py::') == 1 for line in lines()[1:]))"
    assert said(spinning_python, text).split() == ["True", "True"]


@pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="the evaluator is for x86-64 and aarch64")
def test_names_that_are_no_utf_8_harm_nothing(spinning_python: str):
    assert said(
        spinning_python, "exec(compile('def f(): return 5\\nprint(f())', '\\udc80.py', 'exec'), {})\nprint(len(named('f')))"
    ).split() == [
        "5",
        "1",
    ]


@pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="the evaluator is for x86-64 and aarch64")
def test_the_program_that_follows_with_exec_goes_on_in_the_same_map(spinning_python: str):
    text = """
def first(): pass
first()
if not sys.argv[2:]: os.execv(sys.executable, [sys.executable, "-c", sys.argv[1], sys.argv[1], "again"])
print(len(named("first")))"""
    assert said(spinning_python, text, MAP + text + "\nforget()").split() == ["2"]


@pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="the evaluator is for x86-64 and aarch64")
def test_a_foreign_map_is_not_extended(spinning_python: str, tmp_path: Path):
    """Neither a link, nor a file that is older than the process."""
    victim, code = tmp_path / "victim", MAP + "print(len([line for line in lines() if 'old' in line])); forget()"
    leave = "import os, sys; p = '/tmp/perf-%d.map' % os.getpid(); os.path.exists(p) and os.unlink(p); "
    leave += "os.symlink(sys.argv[1], p); os.execv(sys.argv[2], sys.argv[2:])"
    victim.write_text("1 1 old\n")
    assert run(spinning_python, code, launcher=(sys.executable, "-I", "-c", leave, str(victim))).stdout.split() == ["0"]
    assert victim.read_text() == "1 1 old\n"
    leave = "import os, sys; p = '/tmp/perf-%d.map' % os.getpid(); open(p, 'w').write('1 1 old'); os.utime(p, (9, 9)); "
    leave += "os.execv(sys.argv[1], sys.argv[1:])"
    assert run(spinning_python, code, launcher=(sys.executable, "-I", "-c", leave)).stdout.split() == ["0"]


@pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="the evaluator is for x86-64 and aarch64")
def test_a_machine_without_executable_memory_is_reported_in_a_line(spinning_python: str):
    refuse = "import ctypes, os, sys; ctypes.CDLL(None).prctl(65, 1, 0, 0, 0); os.execv(sys.argv[1], sys.argv[1:])"
    if ctypes.CDLL(None).prctl(66, 0, 0, 0, 0) < 0:
        pytest.skip("this kernel has no PR_SET_MDWE")
    result = run(spinning_python, "print(5)", launcher=(sys.executable, "-I", "-c", refuse))
    assert (result.returncode, result.stdout) == (0, "5\n")
    assert result.stderr.startswith("perfpy: process ")
    assert result.stderr.endswith("no names of Python functions: no executable memory here (Permission denied)\n")
    assert result.stderr.count("\n") == 1


@pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="the evaluator is for x86-64 and aarch64")
def test_subinterpreters_stay_unchanged(spinning_python: str):
    text = """
import _xxsubinterpreters as others
one = others.create()
others.run_string(one, "def inside(): pass\\ninside()")
others.destroy(one)
print(len(named("inside")))"""
    assert said(spinning_python, text).split() == ["0"]


@pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="the evaluator is for x86-64 and aarch64")
@pytest.mark.parametrize("version", ["2.7", "3.6", "3.7", "3.12", "3.13", "3.14"])
def test_other_versions_run_as_before(version: str):
    python = interpreter(version)
    if not python:
        pytest.skip(f"no Python {version} on this machine")
    text = "import sys; print(sys.path, 'sitecustomize' in sys.modules, 'ctypes' in sys.modules)"
    plain, with_names = run(python, text, named=False), run(python, text)
    assert (with_names.returncode, with_names.stdout, with_names.stderr) == (0, plain.stdout, plain.stderr)


@pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="the evaluator is for x86-64 and aarch64")
def test_the_startup_folder_comes_before_the_users_own_path():
    paths = [environment_for(["python3"], environ).variables["PYTHONPATH"] for environ in ({}, {"PYTHONPATH": ""}, {"PYTHONPATH": "/a:/b"})]
    assert paths == [STARTUP, STARTUP, f"{STARTUP}:/a:/b"]  # an empty part would be the current folder


@pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="the evaluator is for x86-64 and aarch64")
def test_code_in_other_interpreters_imports_nothing_of_perfpy():
    for path in Path(STARTUP).glob("*.py"):
        imported = {
            name.name if isinstance(node, ast.Import) else node.module or ""
            for node in ast.walk(ast.parse(path.read_text(), feature_version=(3, 8)))
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in node.names
        }
        allowed = {"__future__", "os", "sys", "stat", "time", "ctypes", "sitecustomize", "perfpy_trampolines", "perfpy_machine_code"}
        assert imported <= allowed


@pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="the evaluator is for x86-64 and aarch64")
@pytest.mark.particular
def test_the_machine_code_is_that_of_its_source(tmp_path: Path):
    compilers = [shutil.which(f"{machine}-linux-gnu-gcc") or "" for machine in ("x86_64", "aarch64")]
    if not all(compilers) or " 12.2." not in subprocess.run([compilers[0], "--version"], capture_output=True, text=True, check=True).stdout:
        pytest.skip("needs gcc 12.2 for x86-64 and aarch64")
    copied = shutil.copytree(CHECKOUT / "perfpy" / "capture" / "runtimes", tmp_path / "perfpy" / "capture" / "runtimes")
    (tmp_path / "scripts").mkdir()
    result = copied / "cpython_startup" / "perfpy_machine_code.py"
    result.unlink()
    subprocess.run([sys.executable, shutil.copy(CHECKOUT / "scripts" / "build_evaluator.py", tmp_path / "scripts")], check=True)
    assert result.read_text() == (Path(STARTUP) / "perfpy_machine_code.py").read_text()


# The inspector of a running Node.


def _message(value: object, *, parts: int = 1) -> bytes:
    """Return a WebSocket message, in several frames with a ping between them."""
    data = json.dumps(value).encode()
    pieces = [data[len(data) * part // parts : len(data) * (part + 1) // parts] for part in range(parts)]
    frames = b""
    for number, piece in enumerate(pieces):
        first = (0x80 if number == parts - 1 else 0) | (1 if number == 0 else 0)
        size = bytes([len(piece)]) if len(piece) < 126 else b"\x7e" + len(piece).to_bytes(2, "big")
        frames += (b"\x89\x00" if number else b"") + bytes([first]) + size + piece
    return frames


def _inspected(server: socket.socket, received: list[str]) -> None:
    """Serve as Node's inspector: one request for the list, then one connection."""
    with server.accept()[0] as connection:
        connection.recv(1 << 16)
        body = json.dumps([{"webSocketDebuggerUrl": "ws://127.0.0.1/0123-4567-89ab"}]).encode()
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    with server.accept()[0] as connection:
        connection.recv(1 << 16)
        connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
        while data := connection.recv(1 << 16):
            extra = 2 if data[1] & 0x7F == 126 else 0
            mask = data[2 + extra : 6 + extra]
            request = json.loads(bytes(byte ^ mask[number & 3] for number, byte in enumerate(data[6 + extra :])))
            received.append(request["method"])
            if request["method"] == "Runtime.evaluate":
                return
            events = [{"method": "Debugger.scriptParsed", "params": {"scriptId": "7", "url": "file:///srv/app.js"}}]
            frames = [
                {"functionName": "checksum", "url": "", "location": {"scriptId": "7", "lineNumber": 2}},
                {"functionName": "", "url": "node:timers", "location": {"scriptId": "9", "lineNumber": 0}},
            ]
            if request["method"] == "Debugger.enable":
                connection.sendall(_message(events[0]))
            connection.sendall(_message({"id": request["id"], "result": {}}))
            if request["method"] == "Debugger.pause":
                connection.sendall(_message({"method": "Debugger.paused", "params": {"callFrames": frames}}, parts=3))


def test_node_is_paused_for_its_functions_and_its_inspector_closed() -> None:
    received: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=_inspected, args=(server, received))
        thread.start()
        inspector = attaching._Inspector(server.getsockname()[1])
        frames = inspector.stack()
        inspector.end(closes=True)
        thread.join()
    assert frames == [attaching.JavaScriptFrame("checksum", "/srv/app.js", 3), attaching.JavaScriptFrame("(anonymous)", "node:timers", 1)]
    assert received == ["Debugger.enable", "Debugger.pause", "Debugger.disable", "Runtime.evaluate"]


@pytest.mark.parametrize("sent", [{"method": "Debugger.resumed"}, [], 7])
def test_an_inspector_that_sends_but_does_not_answer_is_left(sent: object, monkeypatch: pytest.MonkeyPatch) -> None:
    def serve(server: socket.socket) -> None:
        body = b'[{"webSocketDebuggerUrl": "ws://h/01234567"}]'
        with server.accept()[0] as connection:
            connection.recv(1 << 16)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        with server.accept()[0] as connection, contextlib.suppress(OSError):
            connection.recv(1 << 16)
            connection.sendall(b"HTTP/1.1 101 Switching Protocols\r\n\r\n")
            while True:
                connection.sendall(_message(sent))

    monkeypatch.setattr(attaching, "_PATIENCE", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, args=(server,))
        thread.start()
        inspector = attaching._Inspector(server.getsockname()[1])
        begin = time.monotonic()
        with pytest.raises(OSError, match=r"does not answer|nonsense"):
            inspector.stack()
        inspector.end(closes=False)
        thread.join()
    assert time.monotonic() - begin < 20


def test_a_process_that_is_no_node_gets_no_signal() -> None:
    with pytest.raises(OSError, match=re.escape("it is not Node.js")):
        attaching.script_stack(os.getpid())
