"""perfpy.profile(): a stretch of this process, or of another one, as a recording."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

import perfpy
from perfpy import profiling
from perfpy.errors import PerfError, UsageError
from perfpy.profiling import profile_cell

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.live


def busy(seconds: float) -> None:
    """Take CPU time, however long the machine needs for it."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        sum(i * i for i in range(1000))


def fail() -> None:
    busy(0.05)
    raise ZeroDivisionError


def test_only_the_block_is_recorded(tmp_path: Path) -> None:
    busy(0.2)
    with perfpy.profile(tmp_path / "block.data", events="cpu-clock:u", frequency=1000) as profile:
        busy(0.3)
    busy(0.2)
    report = profile.report(by="comm,pid")
    assert 150 < report.samples < 450
    assert len({*profile.open().samples["pid"].tolist()}) == 1
    assert profile.path == str(tmp_path / "block.data")


def test_it_starts_and_stops_again_and_again() -> None:
    profile = perfpy.profile(events="cpu-clock:u", frequency=1000, call_graph=False)
    for seconds in (0.1, 0.4):
        profile.start()
        with pytest.raises(UsageError, match="has started already"):
            profile.start()
        with pytest.raises(UsageError, match="the profile is still being recorded"):
            profile.report()
        busy(seconds)
        profile.stop()
        assert 400 * seconds < profile.report().samples < 2000 * seconds + 20
    with pytest.raises(UsageError, match="has not started"):
        profile.stop()


def test_another_process_is_profiled() -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: sum(range(1000))"]) as other:
        try:
            with perfpy.profile(pid=other.pid, events="cpu-clock:u") as profile:
                time.sleep(0.5)
        finally:
            other.kill()
    assert {*profile.open().samples["pid"].tolist()} == {other.pid}


def test_the_recorders_reason_is_reported(tmp_path: Path) -> None:
    with pytest.raises(PerfError, match="unknown event 'nosuchevent'"):
        perfpy.profile(events="nosuchevent").start()
    with pytest.raises(PerfError, match="no such process"):
        perfpy.profile(pid=2**22 - 1, events="cpu-clock").start()
    with pytest.raises(PerfError, match="nowhere"):
        perfpy.profile(tmp_path / "nowhere" / "x.data", events="cpu-clock").start()


def test_a_failure_of_the_block_is_the_one_that_is_reported() -> None:
    profile = perfpy.profile(events="cpu-clock:u")
    with pytest.raises(ZeroDivisionError), profile:
        fail()
    assert profile.report(by="comm").samples > 0


def test_modules_of_the_current_folder_are_not_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from perfpy.cli import script_programs

    for name in ("perfpy.py", "os.py", "subprocess.py"):
        (tmp_path / name).write_text("open('ran', 'w')\n")
    (tmp_path / "some-record").write_text("perf --version\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PERF_EXEC_PATH", str(tmp_path))
    with perfpy.profile(events="cpu-clock:u") as profile:
        busy(0.05)
    assert profile.report(by="comm").samples > 0
    command = script_programs._shell("./some-record", [])
    assert subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout.startswith("perfpy version")
    assert not (tmp_path / "ran").exists()


class Shell:
    """As much of IPython as the magic needs."""

    def __init__(self) -> None:
        self.magics: dict[str, Any] = {}

    def register_magic_function(self, function: Any, kind: str, name: str) -> None:
        self.magics[f"{kind} {name}"] = function

    def run_cell(self, cell: str) -> Shell:
        exec(cell, {"busy": busy})
        return self

    def raise_error(self) -> None:
        pass


def test_a_notebooks_cell_is_profiled() -> None:
    shell = Shell()
    perfpy.load_ipython_extension(shell)
    report = shell.magics["cell perfpy"]("comm", "busy(0.2)")
    assert report.samples > 0
    assert "<table>" in (report._repr_html_() or "")
    assert profile_cell(shell, "symbol", "busy(0.1)").to_columns()["symbol"]


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="Python frames are read on x86-64")
@pytest.mark.thorough
def test_a_cells_rows_are_its_python_functions() -> None:
    columns = profile_cell(Shell(), "", "busy(0.3)").to_columns()
    names = [name.partition(" ")[0] for name in columns["pyfunc"]]
    assert "busy" in names or "busy.<locals>.<genexpr>" in names


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="Python frames are read on x86-64")
def test_python_functions_and_lines() -> None:
    with perfpy.profile(python=True, events="cpu-clock:u") as profile:
        busy(0.3)
        with suppress(ZeroDivisionError):
            fail()
    shares = {row.texts["pyfunc"].partition(" ")[0]: row.percent for row in profile.report().top(9)}
    assert sum(share for name, share in shares.items() if name.startswith("busy")) > 80
    assert any(":" in row.texts["pyline"] for row in profile.report(by="pyline").top(9))


@pytest.mark.thorough
def test_many_profiles_of_a_process_are_named() -> None:
    """CPython 3.14 refuses the ninth activation of its trampolines."""
    code = (
        "import perfpy\n"
        "def busy():\n    return sum(i * i for i in range(300_000))\n"
        "for _ in range(10):\n    with perfpy.profile(events='cpu-clock:u') as profile:\n        busy()\n"
        "print(profile.report('symbol').samples > 0)"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    assert (process.stdout, process.stderr) == ("True\n", "")


def test_python_names_its_functions_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    for name, does in {
        "is_stack_trampoline_active": lambda: False,
        "activate_stack_trampoline": lambda backend: calls.append(f"on {backend}"),
        "deactivate_stack_trampoline": lambda: calls.append("off"),
    }.items():
        monkeypatch.setattr(sys, name, does, raising=False)
    monkeypatch.setattr(profiling, "_STAYS_ON", False)
    with perfpy.profile(events="cpu-clock:u"):
        assert calls == ["on perf"]
    assert calls == ["on perf", "off"]
    monkeypatch.setattr(sys, "is_stack_trampoline_active", lambda: True, raising=False)
    with perfpy.profile(events="cpu-clock:u"):  # somebody else's stay
        pass
    assert calls == ["on perf", "off"]
