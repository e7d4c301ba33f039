"""The functions and lines of Python frames: `py::Queue.get:/srv/worker.py:41` for the call of Queue.get in line 41 of worker.py.

Such a name has the function that the program calls, or its own one if no library is in between, with the file and line of the program's
own code.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.python_code import PYTHON_MARK
from perfpy.analysis.verdict.categories import LIBRARY, OWN, category
from perfpy.debuginfo.known_lines import lines_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfpy.symbols.symbolizer import Symbolizer

_IMPORTING: Final = "<frozen importlib"
_NAME: Final = re.compile(PYTHON_MARK + r"(?!\[)([^:]+):(?!:)(.+)", re.DOTALL)  # [GIL held by ...] is no function


class _PythonCall(NamedTuple):
    """A Python frame.

    Attributes:
        function: its qualified name, of functions of libraries with the module.
        path: its file.
        line: the line; 0: unknown.
        kind: the category of its code.
    """

    function: str
    path: str
    line: int
    kind: int

    @property
    def name(self) -> str:
        return f"{PYTHON_MARK}{self.function}:{self.path}:{self.line}" if self.line else f"{PYTHON_MARK}{self.function}:{self.path}"


class PythonLines:
    """The Python frames among the frames of a recording.

    Args:
        symbolizer: of the recording.
    """

    def __init__(self, symbolizer: Symbolizer) -> None:
        self._symbolizer = symbolizer
        self._calls: dict[int, _PythonCall] = {}

    def resolve(self, frames: NDArray[np.int32]) -> None:
        """Look the calls of frames up, once for each distinct frame."""
        table, symbols, dsos = self._symbolizer.frames, self._symbolizer.symbols, self._symbolizer.dsos
        distinct = np.unique(frames).astype(np.int64)
        distinct = distinct[table.symbol[distinct] >= 0]
        numbers, which = np.unique(table.symbol[distinct].astype(np.int64), return_inverse=True)
        matches = [_NAME.fullmatch(symbols.name(number)) for number in numbers.tolist()]
        of_python = distinct[np.array([match is not None for match in matches], bool)[which.ravel()]] if len(distinct) else distinct
        if not len(of_python):
            return
        lines = lines_of(self._symbolizer).code_lines(of_python)
        match_of = dict(zip(numbers.tolist(), matches, strict=True))
        for frame, line in zip(of_python.tolist(), lines.line.tolist(), strict=True):
            match = match_of[int(table.symbol[frame])]
            if match is not None:
                dso = int(table.dso[frame])
                kind = category(dsos[dso] if dso >= 0 else None, match[0])
                self._calls[frame] = _PythonCall(match[1], match[2], line, kind)

    def name_of(self, frame: int) -> str:
        """Return the name of a Python frame with its line; "" for other frames."""
        call = self._calls.get(frame)
        return call.name if call is not None else ""

    def of(self, chain: Sequence[int]) -> str:
        """Return the function that the program's own Python code called, with the line of the call; "" without Python frames.

        The result is the own function if the own code calls no library, and the innermost function if there is no own code.
        """
        called: _PythonCall | None = None
        for call in (self._calls[frame] for frame in chain if frame in self._calls):
            if call.kind == OWN:
                return call._replace(function=_function_of_module(called) if called else call.function).name
            if call.path.startswith(_IMPORTING):
                called = None
            elif called is None or call.kind == LIBRARY:
                called = call
        return called.name if called else ""


def _function_of_module(call: _PythonCall) -> str:
    """Return the function as its callers write it: subprocess.run, but Queue.get."""
    if "." in call.function:
        return call.function
    folder, file = os.path.split(call.path)
    module = os.path.basename(folder) if file == "__init__.py" else file.removesuffix(".py")
    return f"{module}.{call.function}" if module.isidentifier() else call.function


def is_python(name: str) -> bool:
    """Return whether a name is one of a Python function."""
    return name.startswith(PYTHON_MARK)
