"""True frames of Python functions, of all versions: shares as the program itself measures them, in whatever way functions are called."""

from __future__ import annotations

import json
import re
import subprocess
import time
from pathlib import Path

import pytest

from perfpy.recording import Recording
from tests.builders.prepared_start import PERFPY, output_of
from tests.builders.python_programs import PROGRAM, shares
from tests.builders.pythons import WITHOUT_TRAMPOLINES, interpreter

pytestmark = [pytest.mark.live, pytest.mark.particular]  # Pythons of many versions

TOLERANCE = 4  # percentage points: a ninth of 2,200 samples is then off once in 10 million runs


@pytest.fixture(scope="module", params=[*WITHOUT_TRAMPOLINES, "3.12", "3.13", "3.14"])
def python(request: pytest.FixtureRequest) -> str:
    path = interpreter(request.param)
    if not path:
        pytest.skip(f"no Python {request.param} on this machine")
    if request.param not in WITHOUT_TRAMPOLINES:
        command = [path, "-X", "perf", "-c", "import sys; sys.exit(not sys.is_stack_trampoline_active())"]
        if subprocess.run(command, check=False, capture_output=True).returncode:
            pytest.skip(f"this Python {request.param} was built without trampolines")
    return path


def perfpy(*words: str, folder: Path) -> str:
    return output_of([*PERFPY, *words], cwd=folder)


def record(*words: str, folder: Path) -> None:
    line = [*PERFPY, "record", "-q", "-o", "perf.data", "--jit", "-F", "999", *words]
    process = subprocess.run(line, capture_output=True, text=True, timeout=300, cwd=folder, check=False)
    assert process.returncode == 0, process.stderr


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory, python: str) -> Path:
    """A folder with the program, its recording, and how long its parts took."""
    folder = tmp_path_factory.mktemp("frames")
    (folder / "program.py").write_text(PROGRAM.replace("SECONDS", "0.25"))
    record("--call-graph", "dwarf,16384", "--", python, "program.py", folder=folder)
    with Recording(str(folder / "perf.data")) as recording:
        for name in recording.data.kept_files or ():
            Path(name).unlink(missing_ok=True)
    return folder


@pytest.mark.thorough
def test_each_function_has_the_share_that_the_program_measured(recorded: Path):
    took = json.loads((recorded / "took.json").read_text())
    actual_shares = shares(perfpy("report", "--stdio", "--children", "-g", "none", "-s", "sym", "--percent-limit", "0", folder=recorded))
    total, in_functions = sum(took.values()), sum(actual_shares.get(name, 0) for name in took)
    assert in_functions > 75  # the rest is the start of Python
    assert {name: 100 * actual_shares.get(name, 0) / in_functions for name in took} == pytest.approx(
        {name: 100 * seconds / total for name, seconds in took.items()}, abs=TOLERANCE
    )


@pytest.mark.thorough
def test_without_the_interpreters_frames_callers_follow_each_other(recorded: Path):
    options = ("-F", "comm,ip,sym", "--fold-interpreters", "--no-inline")
    chains = [
        [line.split(None, 1)[1] for line in sample.splitlines()[1:]]
        for sample in perfpy("script", *options, folder=recorded).strip().split("\n\n")
    ]
    function_chains = [
        [symbol.split(":")[2].rpartition(".")[2] if symbol.startswith("py::") else symbol for symbol in chain] for chain in chains
    ]
    pairs = [tuple(chain[index : index + 2]) for chain in function_chains for index in range(1, len(chain) - 1)]
    for callee, caller in (("spin", "plain"), ("deeper", "deeper"), ("deeper", "recursion"), ("numbers", "generators"), ("spin", "step")):
        assert (callee, caller) in pairs, (callee, caller)
    inner = {symbol for chain in chains if any(symbol.startswith("py::") for symbol in chain) for symbol in chain[1:]}
    assert not [symbol for symbol in inner if symbol.startswith(("_PyEval_EvalFrameDefault", "PyObject_Call", "_PyFunction_Vectorcall"))]
    # libraries of extension modules stay, with names or, where they are stripped, without
    assert [chain for chain in chains if any("extensions" in symbol for symbol in chain) and not chain[0].startswith(("py::", "_Py"))]


#: Pauses of random length keep the loop out of step with the sampling.
ATTACHED = """
import random, time
def spin(n):
    x = 1
    for _ in range(n): x = (x * 1103515245 + 12345) & 0x7fffffff
def heavy(): spin(6000)
def middle(): spin(3000)
def light(): spin(1000)
end = time.time() + 300
while time.time() < end: heavy(); middle(); light(); spin(random.randrange(1500))
"""
ENOUGH_SAMPLES = 2000  # a share of 60 % is then off by 3 points once in 150 runs


def test_a_running_process_gives_its_names_and_stays_unchanged(tmp_path: Path):
    python = interpreter("3.14")
    if not python:
        pytest.skip("no Python 3.14 on this machine")
    with subprocess.Popen([python, "-c", ATTACHED]) as process:
        try:
            time.sleep(0.5)
            for seconds in ("3", "15", "60"):  # a busy machine gives the program little time
                record("-p", str(process.pid), "--", "sleep", seconds, folder=tmp_path)
                if len(perfpy("script", "-F", "time", folder=tmp_path).splitlines()) > ENOUGH_SAMPLES:
                    break
            lines = Path(f"/tmp/perf-{process.pid}.map").read_text()
            time.sleep(0.2)
            assert process.poll() is None
            assert Path(f"/tmp/perf-{process.pid}.map").read_text() == lines
        finally:
            process.kill()
            Path(f"/tmp/perf-{process.pid}.map").unlink(missing_ok=True)
    text = perfpy("report", "--stdio", "--children", "-g", "none", "-s", "sym", folder=tmp_path)
    results = {
        name: float(percent) for percent, name in re.findall(r"^ +([\d.]+)% +[\d.]+% .*py::(heavy|middle|light):", text, re.MULTILINE)
    }
    total = sum(results.values())
    assert total > 80
    assert {name: 100 * percent / total for name, percent in results.items()} == pytest.approx(
        {"heavy": 60, "middle": 30, "light": 10}, abs=TOLERANCE
    )
