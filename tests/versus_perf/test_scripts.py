"""perf's own scripts, unmodified: what they print with perfpy is what they print with perf."""

from __future__ import annotations

import os
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
    """Names in tracepoints are no text from some sample on."""
    path = tmp_path_factory.mktemp("odd") / "perf.data"
    path.write_bytes(traced_recording(odd_name=b"\xff\x01other"))
    return path


@pytest.fixture(scope="session")
def scripts(perf: str) -> Path:
    folder = Path(subprocess.run([perf, "--exec-path"], capture_output=True, text=True, check=True, timeout=60).stdout.strip())
    return folder / "scripts" / "python"


def printed(program: tuple[str, ...], script: Path, data: Path, scripts: Path) -> tuple[int, str]:
    environment = {**os.environ, "PERF_EXEC_PATH": str(scripts.parents[1]), "PERF_CONFIG": "/dev/null", "LC_ALL": "C.UTF-8"}
    options = ["-f", "--symfs", "/nonexistent", "--kallsyms", "/dev/null", "-i", str(data), "-s", str(script)]
    done = subprocess.run([*program, "script", *options], capture_output=True, text=True, timeout=60, env=environment, check=False)
    return done.returncode, done.stdout


@pytest.mark.parametrize("name", SCRIPTS)
def test_perfs_scripts_print_the_same(perf: str, scripts: Path, name: str, recording: Path) -> None:
    script = scripts / f"{name}.py"
    status, text = printed(PERFPY, script, recording, scripts)
    assert (status, text) == printed((perf,), script, recording, scripts)
    assert text.count("\n") > 1


def test_a_script_that_todays_tracepoints_kill_works(perf: str, scripts: Path, recording: Path) -> None:
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


def test_the_scripts_of_an_installed_perf_are_listed(perf: str, scripts: Path) -> None:
    listed, ours = (
        subprocess.run([*program, "script", "-l"], capture_output=True, text=True, timeout=60, check=True).stdout.splitlines()
        for program in ((perf,), PERFPY)
    )
    assert len(ours) > 10
    assert ours == [line for line in listed if line in ours], "those in Perl are left out"


def test_a_script_is_recorded_for_and_reported_by_its_name(scripts: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "PERF_EXEC_PATH": str(scripts.parents[1]), "PATH": "/usr/bin:/bin"}

    def script(*args: str) -> str:
        command = [*PERFPY, "script", *args]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, env=environment, check=True).stdout

    script("record", "stackcollapse", "-e", "page-faults:u", "-c", "1", "-o", "own.data", "--", "true")
    assert [line.split(" ")[0] for line in script("report", "stackcollapse", "-i", "own.data").splitlines()] != []
    assert "true" in script("stackcollapse", "-e", "page-faults:u", "-c", "1", "--", "true")
