"""Running processes: the Python in them, the request, and the messages if it is impossible."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
import types
from pathlib import Path

import pytest

from perfpy.capture.runtimes import cpython_attach
from perfpy.capture.runtimes.cpython_attach import ScriptFolder
from perfpy.kernel.procfs import ProcFs
from tests.builders.pythons import interpreter

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
