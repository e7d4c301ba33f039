"""Run the Python examples of README and of `perfpy help python` on a small program."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
EXAMPLES = [
    (page, block)
    for page in ("README.md", "man/topics/python.md")
    for block in re.findall(r"```python\n(.*?)```", (CHECKOUT / page).read_text(), re.DOTALL)
]
PROGRAM = "#!/bin/sh\ni=0; while [ $i -lt 50000 ]; do i=$((i+1)); done\n"
PREPARE = """
import perfpy

for folder in ("monday", "tuesday"):
    for host in ("web1", "web2"):
        perfpy.record(["./program"], events="cpu-clock", output=f"{folder}/{host}.data")
"""


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "PYTHONPATH": str(CHECKOUT), "HOME": str(folder)}
    return subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False, cwd=folder, env=environment, timeout=300)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("program", "make"):
        (tmp_path / name).write_text(PROGRAM)
        (tmp_path / name).chmod(0o755)
    for name in ("monday", "tuesday"):
        (tmp_path / name).mkdir()
    return tmp_path


def test_there_are_examples_of_the_api_and_of_budgets() -> None:
    assert [page for page, block in EXAMPLES if "perf_budget" not in block] == ["README.md", "man/topics/python.md"]
    assert sum("perf_budget" in block for _, block in EXAMPLES) == 1


@pytest.mark.system_wide
@pytest.mark.parametrize(("page", "block"), [example for example in EXAMPLES if "perf_budget" not in example[1]])
def test_the_examples_run(page: str, block: str, folder: Path) -> None:
    prepared = run(folder, "-c", PREPARE)
    assert prepared.returncode == 0, prepared.stderr
    result = run(folder, "-W", "error", "-c", block.replace("duration=10)", "duration=0.3)"))
    assert (result.returncode, result.stderr) == (0, "")
    assert "%" in result.stdout


@pytest.mark.live
@pytest.mark.parametrize("block", [block for _, block in EXAMPLES if "perf_budget" in block])
def test_the_budgets_are_accepted(block: str, folder: Path) -> None:
    (folder / "test_budgets.py").write_text(block)
    update = run(folder, "-m", "pytest", "-q", "-p", "perfpy.pytest_plugin", "-p", "no:cacheprovider", "--perf-update")
    assert update.returncode == 0, update.stdout  # without the counter, budgets skip with the reason
    check = run(folder, "-m", "pytest", "-q", "-p", "perfpy.pytest_plugin", "-p", "no:cacheprovider")
    assert check.returncode == 0, check.stdout
    assert re.search(r"\b[1-3] passed", check.stdout)
    assert "error" not in check.stdout
