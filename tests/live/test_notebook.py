"""The session that .github/notebook.md shows: it runs, prints what stands below its cells, and is typed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from itertools import groupby
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
PAGE = (CHECKOUT / ".github" / "notebook.md").read_text()
CELLS = re.findall(r"```python\n((?:.*\n)*?)```\n\n((?: {4}.*\n)+)", PAGE)
#: what differs from run to run: numbers, bars, which file of the interpreter is hot
VARIES = re.compile(r"[\d.]+|#[# ]*|(?<=% ) .*|(?<=mostly in ).*|(?<=\[').*?(?=,)")

#: threads have names in the kernel, too, from Python 3.14 on: they have rows of their own
THREADS = re.compile(r", 'Thread-\d+ \(\w+\), [\d.]+ times'|'Thread-\d+ \(\w+\), [\d.]+ times', ")


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "notebook.py"
    path.write_text("".join(code for code, _ in CELLS))
    return path


def shape(text: str) -> list[str]:
    """The lines without what varies; rows of one kind, of which there may be more or fewer, are one, and bars none."""
    text = THREADS.sub("", text)
    lines = [" ".join(VARIES.sub("~", line).split()) for line in text.splitlines()]
    return [line for line, _ in groupby(lines) if line.strip("~ ")]


def test_it_has_forty_lines(script: Path) -> None:
    assert len(CELLS) == PAGE.count("```python") == 6
    assert len([line for line in script.read_text().splitlines() if line]) <= 40


@pytest.mark.live
@pytest.mark.thorough
def test_the_notebook_prints_the_page(script: Path) -> None:
    process = subprocess.run([sys.executable, script], cwd=script.parent, capture_output=True, text=True, timeout=300, check=False)
    assert process.returncode == 0, process.stderr
    text = "".join(re.sub(r"^    ", "", output, flags=re.MULTILINE) for _, output in CELLS)
    assert shape(process.stdout) == shape(text)
    assert (script.parent / "flame.html").stat().st_size > 1000


def test_the_type_checkers_read_the_same() -> None:
    """tests/notebook.py, which mypy --strict checks with all other files."""
    code = (CHECKOUT / "tests" / "notebook.py").read_text().partition('"""\n\n')[2]
    assert code == "\n".join(code for code, _ in CELLS)


@pytest.mark.thorough
def test_pyright_is_content(script: Path) -> None:
    packages = os.environ.get("PERFPY_NODE_PACKAGES")
    pyright = shutil.which("pyright", path=f"{packages}/node_modules/.bin") if packages else None
    if pyright is None:
        pytest.skip("no node with the package pyright: set PERFPY_NODE_PACKAGES")
    command = [pyright, "--pythonpath", sys.executable, "--level", "error", "notebook.py"]
    process = subprocess.run(command, cwd=script.parent, capture_output=True, text=True, timeout=300, check=False)
    assert process.returncode == 0, process.stdout
