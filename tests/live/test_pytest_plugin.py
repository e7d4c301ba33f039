"""Tests that state what they may cost, in sessions of pytest of their own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.live

SESSION = """
import mmap, os, time, unittest
import pytest

PAGES = int(os.environ["PAGES"])
CALLS = []

def touch(pages=PAGES):
    with mmap.mmap(-1, pages * mmap.PAGESIZE) as memory:
        memory.madvise(mmap.MADV_NOHUGEPAGE)
        for page in range(pages):
            memory[page * mmap.PAGESIZE] = 1

@pytest.mark.perf_budget("page-faults:u", at_most=3000)
def test_it_keeps_to_its_budget():
    touch()

@pytest.mark.perf_budget("page-faults:u", at_most=100, repeat=3)
def test_it_costs_too_much():
    CALLS.append(1)
    touch()

def test_it_was_called_once_more_than_counted():
    assert len(CALLS) == 4

# A busy machine doubles the switches at most: it interrupts the code between two sleeps about once.
@pytest.mark.perf_budget("context-switches", tolerance=1.5)
@pytest.mark.perf_budget("task-clock", at_most=60_000, repeat=1)
@pytest.mark.perf_budget("breakpoint/config=1/", at_most=1)
def test_it_costs_what_it_did(tmp_path):
    for _ in range(PAGES):
        time.sleep(0.00001)

@pytest.mark.perf_budget("page-faults:u")
def test_page_faults_of_later_runs_are_fewer():
    assert not "called"

@pytest.mark.perf_budget("breakpoint/config=1/", at_most=1)
def test_there_is_no_such_counter():
    assert not "called"

@pytest.mark.perf_budget("page-fualts", at_most=1)
def test_there_is_no_such_event():
    assert not "called"

@pytest.mark.perf_budget("page-faults:u", at_least=1)
def test_the_marker_is_wrong():
    assert not "called"

@pytest.mark.perf_budget("page-faults:u", at_most=1)
def test_it_fails_by_itself():
    raise LookupError("by itself")

class TestInAClass:
    @pytest.mark.perf_budget("page-faults:u", at_most=3000)
    def test_it_keeps_to_its_budget(self):
        touch()

class TestOfUnittest(unittest.TestCase):
    @pytest.mark.perf_budget("page-faults:u", at_most=1)
    def test_unittest_costs_too_much(self):
        touch()

def test_a_part_is_counted(perf_counters):
    touch()
    with perf_counters("page-faults:u") as counts:
        touch()
    assert PAGES <= counts["page-faults:u"].value < 2 * PAGES

def test_a_part_cannot_be_counted(perf_counters):
    with perf_counters("page-faults:u", "breakpoint/config=1/"):
        assert not "called"
"""
OUTCOMES = {
    "test_it_keeps_to_its_budget": "PASSED",
    "test_it_costs_too_much": "FAILED",
    "test_it_was_called_once_more_than_counted": "PASSED",
    "test_it_costs_what_it_did": "PASSED",
    "test_page_faults_of_later_runs_are_fewer": "FAILED",
    "test_there_is_no_such_counter": "SKIPPED",
    "test_there_is_no_such_event": "SKIPPED",
    "test_the_marker_is_wrong": "FAILED",
    "test_it_fails_by_itself": "FAILED",
    "TestInAClass::test_it_keeps_to_its_budget": "PASSED",
    "TestOfUnittest::test_unittest_costs_too_much": "FAILED",
    "test_a_part_is_counted": "PASSED",
    "test_a_part_cannot_be_counted": "SKIPPED",
}


def session(folder: Path, *options: str, pages: int = 1000) -> str:
    """What pytest says of the tests above."""
    (folder / "test_costs.py").write_text(SESSION)
    line = [sys.executable, "-m", "pytest", "-p", "perfpy.pytest_plugin", "-p", "no:cacheprovider", "-vrs", *options]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "PERFPY", "CI"))}
    process = subprocess.run(
        line, cwd=folder, env={**environment, "PAGES": str(pages)}, capture_output=True, text=True, timeout=300, check=False
    )
    assert not process.stderr
    return process.stdout


def outcomes(text: str) -> dict[str, str]:
    return dict(re.findall(r"^test_costs\.py::(\S+) (PASSED|FAILED|SKIPPED|ERROR)", text, re.MULTILINE))


@pytest.mark.kernel_too
def test_a_test_over_its_budget_fails(tmp_path: Path):
    text = session(tmp_path)
    assert outcomes(text) == OUTCOMES
    assert re.search(r"page-faults:u is 1,\d\d\d \(3 runs, .*\), at most 100 is allowed", text)
    assert "unexpected keyword argument 'at_least'" in text
    assert "During handling of" not in text
    assert "by itself" in text
    assert (
        "perf_budget('page-faults:u'): no baseline for page faults, because later runs reuse the memory of the first; set at_most" in text
    )
    assert re.search(r"SKIPPED .*cannot open event 'breakpoint/config=1/'", text)
    assert "did you mean 'page-faults'?" in text
    table = text.split("what tests cost =")[1]
    assert re.search(r"test_it_costs_too_much +page-faults:u +1,\d+ +3  at most 100: too much", table)
    assert re.search(r"test_it_costs_what_it_did +context-switches +[\d,]+ +5  no baseline yet", table)
    assert re.search(r"test_a_part_is_counted +page-faults:u +1,\d+ +1$", table, re.MULTILINE)


@pytest.mark.thorough
def test_a_test_over_its_baseline_fails(tmp_path: Path):
    one = ("-k", "what_it_did")
    assert "baselines of 1 test written" in session(tmp_path, *one, "--perf-update", pages=400)
    (tests,) = json.loads((tmp_path / "perf-baselines.json").read_text()).values()
    assert {test: list(events) for test, events in tests.items()} == {"test_costs.py::test_it_costs_what_it_did": ["context-switches"]}
    assert outcomes(session(tmp_path, *one, pages=400)) == {"test_it_costs_what_it_did": "PASSED"}
    assert outcomes(session(tmp_path, *one, "--perf-baselines", "other.json", pages=2000)) == {"test_it_costs_what_it_did": "PASSED"}
    text = session(tmp_path, *one, pages=2000)
    assert outcomes(text) == {"test_it_costs_what_it_did": "FAILED"}
    assert re.search(r"context-switches is [\d,]+\.\d% higher than its baseline: [\d,]+ .* against [\d,]+ ", text)


@pytest.mark.thorough
def test_baselines_are_written_where_several_processes_run_the_tests(tmp_path: Path):
    text = session(tmp_path, "-k", "what_it_did or too_much", "-n", "2", "--perf-update")
    assert "baselines of 1 test written" in text
    assert text.count("what tests cost") == 1
    assert "test_it_costs_what_it_did" in text.split("what tests cost")[1]


def test_a_file_that_has_no_baselines_is_one_line(tmp_path: Path):
    os.mkfifo(tmp_path / "perf-baselines.json")
    for options in ((), ("--perf-update",)):
        text = session(tmp_path, "-k", "what_it_did", *options)
        assert outcomes(text) == {"test_it_costs_what_it_did": "FAILED"}
        (reason,) = [line for line in text.splitlines() if "cannot read the baselines of tests" in line and "FAILED" not in line]
        assert reason.endswith("not a regular file: '" + str(tmp_path / "perf-baselines.json") + "'")
        assert "Traceback" not in text
        assert "budgets.py" not in text


def test_baselines_that_cannot_be_written_are_one_line_after_the_table(tmp_path: Path):
    text = session(tmp_path, "-k", "what_it_did", "--perf-update", "--perf-baselines", "nowhere/new.json")
    assert outcomes(text) == {"test_it_costs_what_it_did": "PASSED"}
    assert re.search(r"^perfpy: no baselines written: .*No such file or directory", text, re.MULTILINE)
    assert "what tests cost" in text
    assert "Traceback" not in text


@pytest.mark.perf_budget("task-clock", at_most=60_000)
@pytest.mark.perf_budget("page-faults:u", at_most=100_000, repeat=2)
def test_the_plugin_counts_tests_of_perfpy(request: pytest.FixtureRequest):
    assert request.node.obj.__wrapped__


SLOW_SESSION = """
import time
import pytest

def crunch(seconds):
    end = time.thread_time() + seconds
    while time.thread_time() < end: sum(range(1000))

def connect(): time.sleep(0.4)

@pytest.fixture(scope="module")
def database(): connect()

@pytest.fixture
def data(): crunch(0.5)

def test_fast(): pass

def test_sums(database, data): crunch(1.0)
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="record --python reads frames on x86-64 only")
def test_slow_tests_and_fixtures_have_their_lines(tmp_path: Path) -> None:
    (tmp_path / "test_slow.py").write_text(SLOW_SESSION)
    options = ["--perfpy", "--perfpy-slowest", "3", "--perfpy-page", "page.html", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", "-q", *options, "test_slow.py"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert result.returncode == 0, result.stdout
    shown = result.stdout.partition("slowest tests and fixtures")[2]
    if "no recording" in shown:
        pytest.skip(shown)
    parts = re.findall(r"^ +[\d.]+ s  (.+?) +test_slow.py::(\w+)$", shown, re.MULTILINE)
    assert parts == [("test", "test_sums"), ("fixture data", "test_sums"), ("fixture database", "test_sums")]
    assert re.search(r"^ +[\d.]+ s  in no row above +of the session's [\d.]+ s: ", shown, re.MULTILINE)
    test, data, database, _ = re.split(r"^ +[\d.]+ s  .*$", shown, flags=re.MULTILINE)[1:]
    assert re.search(r"in sum\(\) of crunch\(\) \((?:[0-9]+ % at )?test_slow.py:7\), called from test_sums\(\)", test)
    assert re.search(r"in sum\(\) of crunch\(\) \((?:[0-9]+ % at )?test_slow.py:7\), called from data\(\)", data)
    assert re.search(r"in (?:connect|time.sleep).*test_slow.py:9", database)
    assert "<html" in (tmp_path / "page.html").read_text()[:200]


SLOW_IMPORT = """
import time
from slow_library import value

class TestIt:
    def setup_method(self):
        time.sleep(0.3)

    def test_value(self):
        assert value
"""


def test_slow_imports_and_setup_methods_have_their_lines(tmp_path: Path) -> None:
    (tmp_path / "slow_library.py").write_text(
        "import time\nbegin = time.process_time()\nwhile time.process_time() < begin + 0.4: value = 1\n"
    )
    (tmp_path / "test_slow.py").write_text(SLOW_IMPORT)
    command = [sys.executable, "-m", "pytest", "-q", "--perfpy", "-p", "no:cacheprovider", "test_slow.py"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert result.returncode == 0, result.stdout
    shown = result.stdout.partition("slowest tests and fixtures")[2]
    if "no recording" in shown:
        pytest.skip(shown)
    assert re.search(r" s  import +test_slow.py\n.* is in imports, above all of slow_library.py.*\n.*slow_library.py:3", shown)
    assert re.search(r" s  setup_method +test_slow.py::TestIt::test_value\n.*test_slow.py:7", shown)
    assert " 0.00 s" not in shown


def test_the_options_are_in_the_help() -> None:
    command = [sys.executable, "-m", "pytest", "--help", "-p", "no:cacheprovider"]
    text = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert all(name in text for name in ("--perfpy ", "--perfpy-slowest", "--perfpy-page", "--perf-update", "--perf-baselines"))
