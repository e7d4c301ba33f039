"""`perfpy why` names planted causes first, also the row lock of a database."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from perfpy.kernel.sysfs import Tracefs, mount_as_root
from tests.builders import python_waits
from tests.builders.planted_waits import CAUSES, build

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


# `perfpy why` names the planted cause of ten programs first.


PERFPY = [sys.executable, "-m", "perfpy"]


needs_gcc = pytest.mark.skipif(not shutil.which("gcc"), reason="needs gcc")


def as_root_alone(test: Callable[..., None]) -> Callable[..., None]:
    """Mark a test that records the whole machine, as root on x86-64."""
    marks = (
        pytest.mark.live,
        pytest.mark.system_wide,
        pytest.mark.alone,
        pytest.mark.skipif(os.geteuid() != 0, reason="the scheduler's tracepoints need root"),
        pytest.mark.skipif(os.uname().machine != "x86_64", reason="stacks of x86-64 are unwound here"),
    )
    for mark in marks:
        test = mark(test)
    return test


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not Tracefs(mount=mount_as_root).events("sched"):
        pytest.skip("no tracefs")
    return build(tmp_path_factory.mktemp("planted"))


def why(*args: str, folder: Path, by: Sequence[str] = ()) -> str:
    process = subprocess.run([*by, *PERFPY, "why", *args], capture_output=True, text=True, timeout=300, cwd=folder, check=False)
    assert process.returncode == 0, process.stderr
    return process.stdout


IN_REAL_TIME = ("chrt", "-f", "5")  # so that other programs on the machine are not the cause of what the shells wait for
#: Python functions of a wait are read while it lasts; on a busy machine, only a process of real time is certain to have a CPU by then
RECORDER_IN_REAL_TIME = ("chrt", "-r", "1")
STARTED_BY = {
    "rwlock": ("sh waits for planted.", *IN_REAL_TIME, "sh", "-c", "{} rwlock; true"),
    "pipe": ("sh waits for bash, which waits for planted.", *IN_REAL_TIME, "sh", "-c", "bash -c '{} pipe; true'; true"),
    "child": ("sh waits for planted.", *IN_REAL_TIME, "sh", "-c", "{} child; true"),
    "flock": (
        "waits for planted.",
        *IN_REAL_TIME,
        sys.executable,
        "-S",
        "-c",
        "import subprocess; subprocess.run(['{}', 'flock'], timeout=60)",
    ),
}


@as_root_alone
@needs_gcc
@pytest.mark.parametrize("cause", CAUSES)
def test_the_planted_cause_is_named_first(cause: str, program: Path, tmp_path: Path):
    """Also if shells and Python start the program and only wait for it, or, with a timeout, look for its end again and again."""
    if cause == "spin" and len(os.sched_getaffinity(0)) < 2:
        pytest.skip("two threads do not spin on one CPU")
    by, *line = STARTED_BY.get(cause, ("", str(program), cause))
    text = why("-o", "why.data", "--", *(word.replace("{}", str(program)) for word in line), folder=tmp_path)
    assert CAUSES[cause] in text.splitlines()[0], text
    assert text.splitlines()[0].endswith(by), text


@as_root_alone
@needs_gcc
def test_a_running_process_is_explained_and_the_file_read_again(program: Path, tmp_path: Path):
    with subprocess.Popen(["sh", "-c", f"while :; do {program} sleep; done"], cwd=tmp_path) as process:
        try:
            time.sleep(0.3)
            text = why("-d", "0.7", "-p", str(process.pid), "-o", "why.data", "-j", folder=tmp_path)
        finally:
            process.kill()
    again = json.loads(why("-i", "why.data", "-j", "-p", str(process.pid), folder=tmp_path))
    first = json.loads(text)
    assert first["main"]["pid"] == process.pid
    assert first["critical-path"][0]["kind"] == "child"
    assert first["critical-path"][0]["during"][0]["kind"] == "sleep"
    assert again == first


INLINED = """
#include <time.h>
static inline void write_journal(void) { struct timespec t = {0, 200000000}; nanosleep(&t, 0); }
int main(void) { for (int i = 0; i < 5; i++) write_journal(); }
"""


@as_root_alone
@needs_gcc
def test_inlined_functions_are_named_as_in_reports(tmp_path: Path):
    if not Tracefs(mount=mount_as_root).events("sched"):
        pytest.skip("no tracefs")
    subprocess.run(["gcc", "-O2", "-g", "-x", "c", "-", "-o", str(tmp_path / "orders")], input=INLINED, text=True, check=True)
    text = why("-o", "why.data", "--", str(tmp_path / "orders"), folder=tmp_path)
    assert "in write_journal()" in text.splitlines()[0], text


HANGS = "import socket, threading, time; a, b = socket.socketpair(); threading.Thread(target=time.sleep, args=(99,)).start(); a.recv(1)"


@as_root_alone
def test_a_process_that_waits_all_the_time_is_explained(tmp_path: Path):
    if not Tracefs(mount=mount_as_root).events("sched"):
        pytest.skip("no tracefs")
    with subprocess.Popen([sys.executable, "-S", "-c", HANGS]) as process:
        try:
            time.sleep(1)
            found = json.loads(why("-p", str(process.pid), "-j", "-d", "0.5", folder=tmp_path))
        finally:
            process.kill()
    assert len(found["threads"]) == 2
    assert found["main"]["tid"] == process.pid
    assert " for a socket in <module>, <string>:1" in found["verdict"][0]  # functions and lines of Python without an option


@as_root_alone
@needs_gcc
def test_waits_of_python_are_named_by_function_and_line(tmp_path: Path):
    if not Tracefs(mount=mount_as_root).events("sched"):
        pytest.skip("no tracefs")
    python = shutil.which("python3.11", path="/usr/bin:/usr/local/bin") or sys.executable
    script, waits = python_waits.build(tmp_path)
    line = ("-v", "--python", "--", *IN_REAL_TIME, python, "-S", str(script))
    text = why(*line, folder=tmp_path, by=RECORDER_IN_REAL_TIME)
    missing = [wait for wait in waits if f"{wait}, " not in text]
    assert not missing, text


AS_USER = """
import sys
from perfpy.tools.why import command
command.can_record = lambda: False
from perfpy.cli import main
sys.exit(main())
"""
SEEN = {"mutex": "for a lock (futex", "pipe": "for a pipe (read)", "sleep": "sleeps", "child": "for a child process (wait4)"}


@as_root_alone
@needs_gcc
@pytest.mark.parametrize("cause", SEEN)
def test_without_tracepoints_the_kind_of_the_wait_is_named(cause: str, program: Path, tmp_path: Path):
    line = [sys.executable, "-c", AS_USER, "why", "--", str(program), cause]
    process = subprocess.run(line, capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False)
    assert process.returncode == 0, process.stderr
    assert SEEN[cause] in process.stdout.splitlines()[0], process.stdout
    assert "watched through /proc" in process.stderr


# `perfpy why` names the row lock of a database first, behind the wait of pgbench for its server.


_SCRIPT = "BEGIN;\nUPDATE counters SET value = value + 1 WHERE id = 1;\nSELECT pg_sleep(0.02);\nCOMMIT;\n"
_TABLE = "CREATE TABLE counters (id int, value int); INSERT INTO counters VALUES (1, 0)"
_DEADLINE = 60.0


def programs() -> Path | None:
    """Return the folder with the programs of the newest PostgreSQL."""
    folders = [Path("/usr/local/bin"), Path("/usr/bin"), *Path("/usr/lib/postgresql").glob("*/bin")]
    complete = [folder for folder in folders if all((folder / name).exists() for name in ("initdb", "postgres", "psql", "pgbench"))]
    return complete[-1] if complete else None


@pytest.fixture
def database() -> Iterator[tuple[Path, Path, str]]:
    """The folder of a running server's socket, that of its programs, and its user."""
    bin_folder = programs()
    assert bin_folder is not None
    if not Tracefs(mount=mount_as_root).events("sched"):
        pytest.skip("no tracefs")
    user = next((name for name in ("postgres", "nobody") if name in {entry.pw_name for entry in pwd.getpwall()}), "")
    if not user:
        pytest.skip("no user that may run a database")
    folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))  # the path of a socket is short
    shutil.chown(folder, user)
    try:
        _run([bin_folder / "initdb", "-D", folder / "data", "-A", "trust", "-N"], user, folder)
        server = subprocess.Popen(
            [bin_folder / "postgres", "-D", folder / "data", "-k", folder, "-c", "listen_addresses=", "-c", "fsync=off"],
            user=user, cwd=folder, env=_environment(folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            deadline = time.monotonic() + _DEADLINE
            while subprocess.run(
                [bin_folder / "psql", "-h", folder, "-U", user, "-c", _TABLE, "postgres"], capture_output=True, check=False
            ).returncode:
                assert server.poll() is None, "the server ended"
                assert time.monotonic() < deadline, "the server did not begin"
                time.sleep(0.1)
            yield folder, bin_folder, user
        finally:
            server.terminate()
            server.wait(timeout=_DEADLINE)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _environment(folder: Path) -> dict[str, str]:
    return {"HOME": str(folder), "PATH": os.environ["PATH"]}


def _run(words: list[str | Path], user: str, folder: Path) -> None:
    subprocess.run(words, user=user, cwd=folder, env=_environment(folder), stdout=subprocess.DEVNULL, check=True, timeout=_DEADLINE)


@as_root_alone
@pytest.mark.skipif(programs() is None, reason="no PostgreSQL")
def test_the_row_lock_behind_the_wait_of_pgbench_is_named_first(database: tuple[Path, Path, str], tmp_path: Path):
    folder, bin_folder, user = database
    script = tmp_path / "update.sql"
    script.write_text(_SCRIPT)
    bench: list[str | Path] = [
        bin_folder / "pgbench",
        "-h",
        folder,
        "-U",
        user,
        "-n",
        "-c",
        "4",
        "-j",
        "4",
        "-t",
        "12",
        "-f",
        script,
        "postgres",
    ]
    line: list[str | Path] = [sys.executable, "-m", "perfpy", "why", "-o", tmp_path / "why.data", "--", *bench]
    process = subprocess.run(line, capture_output=True, text=True, timeout=300, cwd=tmp_path, check=False)
    assert process.returncode == 0, process.stderr
    verdict = process.stdout.partition("Where the time")[0].rpartition("tps = ")[2].splitlines()[1:]
    assert "for a lock of the database" in verdict[0], process.stdout
    assert "; pgbench (" in verdict[0], process.stdout
