"""`perfpy top`: lines that are refused before anything is opened."""

from __future__ import annotations

import gc
import os

import pytest

from perfpy.cli import run
from perfpy.tools.top import command
from perfpy.tools.top.command import Start


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["-d", "0"], "option -d expects a number of seconds, at least 0.01, not '0'"),
        (["-d", "nan"], "option -d expects a number of seconds, at least 0.01, not 'nan'"),
        (["--updates", "-1"], "option --updates expects a whole number up to 2147483647, not '-1'"),
        (["-F", "9", "-c", "9"], "-F excludes -c"),
        (["-G", "/"], "--cgroup requires -e before it"),
        (["-H", "--json"], "--hierarchy excludes --json"),
        (["-H", "--children"], "--hierarchy excludes --children"),
        (["-j", "nothing"], "--branch-filter nothing: unknown filter 'nothing'"),
        (["--off-cpu", "--python"], "--off-cpu excludes --python"),
        (["--off-cpu", "--by", "container"], "--off-cpu excludes --by container, because samples of waits have no cgroup"),
        (["--prefix-strip", "1"], "--prefix-strip requires --prefix"),
        (["--json", "--stdio"], "--json excludes --stdio"),
    ],
)
def test_a_wrong_line_exits_129_with_one_line(words: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["top", *words]) == 129
    assert capsys.readouterr().err.startswith(f"perfpy top: {text}")


@pytest.mark.parametrize("words", [["--branch-history"], ["--stitch-lbr"], ["--ignore-callees", "x"]])
def test_options_that_only_perf_has_are_refused_with_a_reason(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["top", *words]) == 129
    assert capsys.readouterr().err.startswith(f"perfpy top: perfpy does not have perf's option {words[0]}: ")


# The start of perfpy top ends with the first table, and leaves nothing changed.


def test_garbage_is_collected_again_after_the_first_table(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("setpriority", "sched_setscheduler"):
        monkeypatch.setattr(os, name, lambda *_values: None)
    frozen = gc.get_freeze_count()
    try:
        with Start() as begun:
            assert not gc.isenabled()
            begun.end()
            assert gc.isenabled()
            assert gc.get_freeze_count() > frozen
        gc.disable()
        with Start():
            pass
        assert not gc.isenabled()  # as before
    finally:
        gc.enable()
        gc.unfreeze()


def test_programs_before_the_first_table_are_no_realtime_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    realtime: list[float] = []
    monkeypatch.setattr(command, "HigherPriority", lambda _change, seconds: realtime.append(seconds))
    Start()
    Start(runs_programs=True)
    assert realtime == [2, 0]
