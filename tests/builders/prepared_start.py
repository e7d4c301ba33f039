"""Run a perfpy command in a fork of a process that has loaded perfpy's modules already.

Most of the time of a short command is Python's and numpy's start. Tests of what a command prints need not pay for it. Tests of the
process itself (its start, signals, terminals, modules) start `python -m perfpy`.
"""

from __future__ import annotations

import atexit
import functools
import importlib
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PERFPY: Final = [sys.executable, "-m", "perfpy"]
CHECKOUT = Path(__file__).resolve().parents[2]
#: what a reading command loads; the modules of each command follow when the first test has run it
FIRST_MODULES = ("numpy", "perfpy.cli", "perfpy.recording")
OWN_MODULES = ("perfpy", "numpy", "elftools", "rich")


def run(
    line: Sequence[str | Path], *, env: Mapping[str, str] | None = None, cwd: Path | None = None, timeout: float = 60, check: bool = False
) -> subprocess.CompletedProcess[bytes]:
    """Run a line without input and catch what it prints, as subprocess.run does; start perfpy from the prepared process.

    Args:
        line: PERFPY and the words after it; lines of another program (perf) are run as usual.
        env: the whole environment (default: that of the caller now).
        cwd: the working directory.
        timeout: seconds; beyond them the command is killed, and TimeoutExpired raised.
        check: raise CalledProcessError for a status other than 0.
    """
    words = [os.fspath(word) for word in line]
    if words[: len(PERFPY)] != PERFPY:
        return subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, env=env, cwd=cwd, timeout=timeout, check=check)
    status, out, errors = _run_prepared(words[len(PERFPY) :], dict(os.environ if env is None else env), cwd or Path.cwd(), timeout)
    completed_process = subprocess.CompletedProcess(words, status, out, errors)
    if check:
        completed_process.check_returncode()
    return completed_process


def output_of(line: Sequence[str | Path], *, cwd: Path | None = None, env: Mapping[str, str] | None = None, timeout: float = 300) -> str:
    """Return what a line prints, as text. It must succeed."""
    process = run(line, env=env, cwd=cwd, timeout=timeout)
    assert process.returncode == 0, process.stderr.decode(errors="replace")
    return process.stdout.decode(errors="surrogateescape")


def _run_prepared(words: list[str], env: dict[str, str], cwd: Path, timeout: float) -> tuple[int, bytes, bytes]:
    """Return the status, output and errors of `perfpy WORDS`."""
    connection = _server()
    order = {"words": words, "env": env, "cwd": os.fspath(cwd)}
    pipes = [os.pipe(), os.pipe()]
    with open(os.memfd_create("order"), "w+b", buffering=0) as file:
        file.write(json.dumps(order).encode("ascii"))
        socket.send_fds(connection, [b"x"], [file.fileno(), *(write for _, write in pipes)])
    for _, write in pipes:
        os.close(write)
    deadline = time.monotonic() + timeout
    try:
        out, errors = _read_all([read for read, _ in pipes], deadline)
        connection.settimeout(max(0.1, deadline - time.monotonic()))
        status = int.from_bytes(connection.recv(4), "little", signed=True)
    except TimeoutError as error:
        _server.cache_clear()
        connection.close()  # the server ends, and the command with it
        raise subprocess.TimeoutExpired([*PERFPY, *words], timeout) from error
    return status, out, errors


def _read_all(descriptors: list[int], deadline: float) -> list[bytes]:
    """Return what comes from each descriptor until its end; raise TimeoutError at the deadline (time.monotonic())."""
    texts: dict[int, list[bytes]] = {descriptor: [] for descriptor in descriptors}
    with selectors.DefaultSelector() as selector:
        for descriptor in descriptors:
            selector.register(descriptor, selectors.EVENT_READ)
        try:
            while selector.get_map():
                ready = selector.select(max(0.0, deadline - time.monotonic()))
                if not ready:
                    raise TimeoutError
                for key, _ in ready:
                    if part := os.read(key.fd, 1 << 16):
                        texts[key.fd].append(part)
                    else:
                        selector.unregister(key.fd)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
    return [b"".join(texts[descriptor]) for descriptor in descriptors]


@functools.cache
def _server() -> socket.socket:
    """Start the process that forks; return the connection to it. It ends when this process does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}  # a fork has no other threads
    command = [sys.executable, "-m", "tests.builders.prepared_start", str(theirs.fileno())]
    process = subprocess.Popen(command, cwd=CHECKOUT, env=environment, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
    theirs.close()
    atexit.register(_stop, ours, process)
    return ours


def _stop(connection: socket.socket, process: subprocess.Popen[bytes]) -> None:
    connection.close()
    process.wait(timeout=20)


def serve(connection: socket.socket) -> None:
    """Run each order that arrives in a fork, and answer with its exit status; end with the connection."""
    for name in FIRST_MODULES:
        importlib.import_module(name)
    while True:
        _, descriptors, _, _ = socket.recv_fds(connection, 1, 3)
        if not descriptors:
            return
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            connection.close()
            _be_perfpy(descriptors, write)
        os.close(write)
        for descriptor in descriptors:
            os.close(descriptor)
        status = _wait(child, connection)
        with open(read, "rb") as names:
            _load(json.loads(names.read() or b"[]"))
        with suppress(BrokenPipeError):  # the next call returns the end of the connection
            connection.send(status.to_bytes(4, "little", signed=True))


def _wait(child: int, connection: socket.socket) -> int:
    """Return the child's exit status, negative for a signal; kill it if nobody waits for the answer any more."""
    descriptor = os.pidfd_open(child)
    with selectors.DefaultSelector() as selector:
        selector.register(descriptor, selectors.EVENT_READ)
        selector.register(connection, selectors.EVENT_READ)
        if any(key.fileobj is connection for key, _ in selector.select()):
            os.kill(child, signal.SIGKILL)
    os.close(descriptor)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _load(names: list[str]) -> None:
    """Load modules that the last command has loaded, for the next one."""
    for name in names:
        if name not in sys.modules:
            importlib.import_module(name)


def _be_perfpy(descriptors: list[int], names: int) -> None:
    """Run the command of an order in this process, as `python -m perfpy` does, and end.

    Args:
        descriptors: the order, and where output and errors go.
        names: where the names of loaded modules go.
    """
    order, out, errors = descriptors
    with open(order, "rb") as file:
        file.seek(0)
        content: dict[str, Any] = json.loads(file.read())
    os.dup2(out, 1)
    os.dup2(errors, 2)
    sys.stdin, sys.stdout = os.fdopen(0, closefd=False), os.fdopen(1, "w", closefd=False)  # of the server's own files
    sys.stderr = os.fdopen(2, "w", 1, closefd=False)
    os.environ.clear()
    os.environ.update(content["env"])
    time.tzset()
    os.chdir(content["cwd"])
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    loaded = set(sys.modules)

    def report_modules() -> None:
        added = [name for name in sys.modules if name not in loaded and name.partition(".")[0] in OWN_MODULES]
        os.write(names, json.dumps(added).encode())

    atexit.register(report_modules)
    sys.argv = ["perfpy", *content["words"]]
    from perfpy.cli import main

    main()


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
