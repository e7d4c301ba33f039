"""Tests that the verdict on programs with a planted cause names it first. tests/bench/verdicts.py counts all thirty."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.builders.planted import PLANTED, is_missing, names_cause, verdict_of
from tests.builders.prepared_start import PERFPY

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.live

#: programs whose cause does not depend on how busy the machine is
STEADY = ("checksum", "inlined", "lock_held_asleep", "sleep", "recursion", "memcpy", "condition")


@pytest.mark.parametrize("name", STEADY)
def test_the_first_sentence_names_the_cause_and_the_line(name: str, tmp_path: Path) -> None:
    planted = next(one for one in PLANTED if one.name == name)
    if missing := is_missing(planted):
        pytest.skip(f"no {missing}")
    sentences = verdict_of(planted, tmp_path)
    assert names_cause(planted, sentences[0]), sentences


_SCRIPT = """#!/bin/bash
render() {
    ls / >/dev/null
}
for page in 1 2 3; do
    for part in $(seq 300); do
        render $page
    done
done
"""
_GO = """package main
import ("sync"; "time")
var mu sync.Mutex
//go:noinline
func update() { mu.Lock(); time.Sleep(20 * time.Millisecond); mu.Unlock() }
func main() {
    var w sync.WaitGroup
    for i := 0; i < 3; i++ { w.Add(1); go func() { for k := 0; k < 16; k++ { update() }; w.Done() }() }
    w.Wait()
}
"""


def _first_sentence(folder: Path, *command: str) -> str:
    """Return the sentences on a command on one line."""
    recording = str(folder / "perf.data")
    record = [*PERFPY, "record", "-q", "--unwind", "--off-cpu", "-o", recording, "--", *command]
    subprocess.run(record, stdout=subprocess.DEVNULL, check=True, timeout=60)
    report = [*PERFPY, "report", "--verdict", "-i", recording]
    return subprocess.run(report, capture_output=True, text=True, check=True, timeout=60).stdout.replace("\n", " ")


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="stacks of x86-64 are unwound here")
def test_the_line_of_a_shell_script_that_starts_processes_is_named(tmp_path: Path) -> None:
    if not shutil.which("bash"):
        pytest.skip("no bash")
    (tmp_path / "site.sh").write_text(_SCRIPT)
    text = _first_sentence(tmp_path, "bash", str(tmp_path / "site.sh"))
    assert re.search(r'9\d\d processes of "ls".*"bash" started|"bash" started 9\d\d processes of "ls"', text), text
    assert "in render() (site.sh:3)" in text


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="goroutines are read on x86-64")
def test_goroutines_that_wait_are_named(tmp_path: Path) -> None:
    if not shutil.which("go"):
        pytest.skip("no go")
    (tmp_path / "g.go").write_text(_GO)
    subprocess.run(["go", "build", "-o", str(tmp_path / "g"), str(tmp_path / "g.go")], check=True, timeout=120)
    text = _first_sentence(tmp_path, str(tmp_path / "g"))
    assert "goroutines (started in main.main()) waited for a lock in main.update() (g.go:5)" in text
    assert "slept in main.update() (g.go:5)" in text
