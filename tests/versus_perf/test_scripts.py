"""Tests that perf's own scripts, unmodified, print the same with perfpy as with perf."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.traced import traced_recording

pytestmark = pytest.mark.versus_perf

PERFPY = (sys.executable, "-m", "perfpy")
EVERYTHING = """
def process_event(sample):
    print(list(sample.items()))
def trace_unhandled(name, context, fields, sample):
    print(name, list(fields.items()), list(sample.items()))
def throttle(*values): print("throttle", values)
def context_switch(*values): print("context_switch", values)
"""
TABLES = """
perf_db_export_mode = True
perf_db_export_callchains = True
def trace_unhandled(*values): print("unhandled", values[0], values[2])
def context_switch(*values): print("context_switch", values)
for table in "evsel machine thread comm comm_thread dso symbol branch_type call_path sample context_switch call_return".split():
    globals()[table + "_table"] = lambda *values, table=table: print(table, values)
"""
#: the parts of Qt that export-to-sqlite.py needs, made of Python's own sqlite3
QT_SQL = """
import sqlite3

class QSqlDatabase:
    @classmethod
    def addDatabase(cls, kind): return cls()
    def setDatabaseName(self, name): self.name = name
    def open(self): self.connection = sqlite3.connect(self.name, isolation_level=None)

class QSqlQuery:
    def __init__(self, db): self.db, self.values = db, []
    def prepare(self, text): self.text = text
    def addBindValue(self, value): self.values.append(value)
    def exec_(self, text=None):
        self.result = self.db.connection.execute(text or self.text, self.values)
        self.values = []
        return True
    def next(self): return self.result.fetchone() is not None
"""
SCRIPTS = [
    "syscall-counts", "syscall-counts-by-pid", "failed-syscalls-by-pid", "check-perf-trace", "task-analyzer", "stackcollapse",
    "intel-pt-events",
]  # fmt: skip


@pytest.fixture(scope="session")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("traced") / "perf.data"
    path.write_bytes(traced_recording())
    return path


@pytest.fixture(scope="session")
def odd_recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """From some sample on, names in tracepoints are not valid text."""
    path = tmp_path_factory.mktemp("odd") / "perf.data"
    path.write_bytes(traced_recording(odd_name=b"\xff\x01other"))
    return path


@pytest.fixture(scope="session")
def scripts(perf: str) -> Path:
    folder = Path(subprocess.run([perf, "--exec-path"], capture_output=True, text=True, check=True, timeout=60).stdout.strip())
    return folder / "scripts" / "python"


def printed(program: tuple[str, ...], script: Path, data: Path, scripts: Path, *args: str, **more: str) -> tuple[int, str]:
    environment = {**os.environ, "PERF_EXEC_PATH": str(scripts.parents[1]), "PERF_CONFIG": "/dev/null", "LC_ALL": "C.UTF-8", **more}
    options = ["-f", "--symfs", "/nonexistent", "--kallsyms", "/dev/null", "-i", str(data), "-s", str(script), *args]
    process = subprocess.run([*program, "script", *options], capture_output=True, text=True, timeout=60, env=environment, check=False)
    return process.returncode, process.stdout


@pytest.mark.parametrize("name", SCRIPTS)
def test_perfs_scripts_print_the_same(perf: str, scripts: Path, name: str, recording: Path) -> None:
    script = scripts / f"{name}.py"
    status, text = printed(PERFPY, script, recording, scripts)
    assert (status, text) == printed((perf,), script, recording, scripts)
    assert text.count("\n") > 1


def test_a_script_that_fails_with_current_tracepoints_works(perf: str, scripts: Path, recording: Path) -> None:
    script = scripts / "net_dropmonitor.py"
    assert printed((perf,), script, recording, scripts)[0] != 0, "or else it can be held against perf's text"
    status, text = printed(PERFPY, script, recording, scripts)
    assert (status, [line.split()[-1] for line in text.splitlines()[-2:]]) == (0, ["20", "20"])


def test_all_values_are_perfs(perf: str, scripts: Path, odd_recording: Path, tmp_path: Path) -> None:
    script = tmp_path / "everything.py"
    script.write_text(EVERYTHING)
    status, text = printed(PERFPY, script, odd_recording, scripts)
    assert (status, text) == printed((perf,), script, odd_recording, scripts)
    assert text.count("\n") > 200
    assert "bytearray(b'\\xff" in text


def test_tables_are_perfs_row_by_row(perf: str, scripts: Path, odd_recording: Path, tmp_path: Path) -> None:
    script = tmp_path / "tables.py"
    script.write_text(TABLES)
    status, text = printed(PERFPY, script, odd_recording, scripts)
    assert (status, text) == printed((perf,), script, odd_recording, scripts)
    assert text.count("\nsample (") == 40
    assert text.count("\ncontext_switch (") >= 40


def test_a_database_is_perfs(perf: str, scripts: Path, recording: Path, tmp_path: Path) -> None:
    (tmp_path / "PySide2").mkdir()
    (tmp_path / "PySide2" / "QtSql.py").write_text(QT_SQL)
    dumps: list[list[str]] = []
    for program in (PERFPY, (perf,)):
        path = tmp_path / f"{len(dumps)}.db"
        args = (str(path), "all", "calls", "callchains")
        status, text = printed(program, scripts / "export-to-sqlite.py", recording, scripts, *args, PYTHONPATH=str(tmp_path))
        assert status == 0, text
        with contextlib.closing(sqlite3.connect(path)) as connection:
            dumps.append([*connection.iterdump()])
    assert dumps[0] == dumps[1]
    assert sum(line.startswith('INSERT INTO "samples"') for line in dumps[0]) == 41, "and one for what is unknown"


def test_the_scripts_of_an_installed_perf_are_listed(perf: str, scripts: Path) -> None:
    listed, ours = (
        subprocess.run([*program, "script", "-l"], capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()
        for program in ((perf,), PERFPY)
    )
    assert len(ours) > 10
    assert ours == [line for line in listed if line in ours], "those in Perl are left out"


def test_a_script_can_be_recorded_and_reported_by_its_name(scripts: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PERF_EXEC_PATH": str(scripts.parents[1]), "PATH": "/usr/bin:/bin"}

    def script(*args: str) -> str:
        command = [*PERFPY, "script", *args]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, env=environment, check=True).stdout

    script("record", "stackcollapse", "-e", "page-faults:u", "-c", "1", "-o", "own.data", "--", "true")
    assert [line.split(" ")[0] for line in script("report", "stackcollapse", "-i", "own.data").splitlines()] != []
    assert "true" in script("stackcollapse", "-e", "page-faults:u", "-c", "1", "--", "true")
