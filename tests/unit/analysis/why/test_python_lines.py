"""Waits of Python code are named by the function that the program calls, and the line of the call."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from perfpy.analysis.why import python_lines
from perfpy.analysis.why.python_lines import PythonLines
from perfpy.symbols.dso import Dso, DsoKind

if TYPE_CHECKING:
    from collections.abc import Sequence

LIBRARY = "/usr/lib/python3.11"


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch):
    """The call of a callchain, innermost first; (name, line) of each frame."""

    def find(*frames: tuple[str, int]) -> str:
        names = [name for name, _ in frames]
        dso = Dso("/tmp/perf-7.map", DsoKind.JIT)
        ids = np.arange(len(frames))
        table = SimpleNamespace(symbol=ids, dso=np.zeros(len(frames), np.int64))
        symbolizer: Any = SimpleNamespace(frames=table, symbols=SimpleNamespace(name=names.__getitem__), dsos=[dso])

        def code_lines(numbers: Sequence[int]) -> SimpleNamespace:
            return SimpleNamespace(line=np.array([frames[number][1] for number in numbers]))

        monkeypatch.setattr(python_lines, "lines_of", lambda _: SimpleNamespace(code_lines=code_lines))
        calls = PythonLines(symbolizer)
        calls.resolve(ids.astype(np.int32))
        return calls.of(ids.tolist())

    return find


@pytest.mark.parametrize(
    ("frames", "name"),
    [
        ([("futex_wait", 0), ("py::update:/srv/worker.py", 9), ("py::main:/srv/worker.py", 30)], "py::update:/srv/worker.py:9"),
        (
            [(f"py::Condition.wait:{LIBRARY}/threading.py", 327), (f"py::Queue.get:{LIBRARY}/queue.py", 171), ("py::eat:/srv/w.py", 4)],
            "py::Queue.get:/srv/w.py:4",
        ),
        ([(f"py::run:{LIBRARY}/subprocess.py", 548), ("py::main:/srv/w.py", 30)], "py::subprocess.run:/srv/w.py:30"),
        ([(f"py::loads:{LIBRARY}/json/__init__.py", 3), ("py::main:/srv/w.py", 30)], "py::json.loads:/srv/w.py:30"),
        ([("py::_find_and_load:<frozen importlib._bootstrap>", 1178), ("py::<module>:/srv/w.py", 1)], "py::<module>:/srv/w.py:1"),
        ([(f"py::Thread.run:{LIBRARY}/threading.py", 975)], f"py::Thread.run:{LIBRARY}/threading.py:975"),
        ([("py::[GIL held by count, thread 7]", 0), ("py::main:/srv/w.py", 3)], "py::main:/srv/w.py:3"),
        ([("py::main:/srv/w.py", 0)], "py::main:/srv/w.py"),
        ([("main", 3)], ""),
        ([], ""),
    ],
)
def test_the_called_function_and_the_line_of_the_own_code(call: Any, frames: list[tuple[str, int]], name: str):
    assert call(*frames) == name
