"""What running programs of other users say of themselves is read within bounds."""

from __future__ import annotations

import os
import signal
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from perfpy.capture.runtimes import attaching
from perfpy.capture.runtimes import attaching as java_attach
from perfpy.capture.runtimes.attaching import write_perf_map
from perfpy.capture.runtimes.table import PYTHON, runtime_of
from perfpy.symbols import mapped_names
from perfpy.untrusted import process_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


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
    monkeypatch.setattr(java_attach, "ProcessRoot", lambda pid: Root(tmp_path))
    monkeypatch.setattr(mapped_names, "innermost_pid", lambda pid: pid)
    monkeypatch.setattr(mapped_names, "catches", lambda pid, number: True)
    monkeypatch.setattr(process_files, "trusted_owners", lambda pid: {os.geteuid()})
    monkeypatch.setattr(java_attach, "_PATIENCE", 0.5)
    monkeypatch.setattr(os, "kill", process.signalled)
    yield process
    process.close()


def test_a_listening_jvm_gets_the_request(jvm: Jvm):
    jvm.listen()
    write_perf_map(PID)
    assert jvm.asked == b"1\0jcmd\0Compiler.perfmap\0\0\0"
    assert jvm.signals == []


def test_one_that_does_not_is_woken_first(jvm: Jvm):
    write_perf_map(PID)
    assert jvm.signals == [signal.SIGQUIT]
    assert sorted(os.listdir(jvm.folder)) == [f".java_pid{PID}"]


def test_a_jvm_that_the_signal_would_kill_gets_none(jvm: Jvm, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(mapped_names, "catches", lambda pid, number: False)
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
