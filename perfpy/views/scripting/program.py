"""A script as a program: its file read, run as the main module, its functions found, and its failures told.

What enters: a path and arguments. What leaves: functions by name. A failure leaves as ScriptFailedError, with a
traceback that begins at the script's own lines. What scripts import of perf's (Core, Util ...) comes from an installed
perf, or else from perfpy.views.scripting.standins.
"""

from __future__ import annotations

import gc
import io
import os
import sys
import traceback
from contextlib import suppress
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from perfpy.errors import PerfError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_LIBRARY: Final = os.path.join("scripts", "python", "Perf-Trace-Util", "lib", "Perf", "Trace")
_OURS: Final = os.path.dirname(__file__)
_GIVEN: Final = ("perf_script_context",)  # what scripts need not import
_STANDINS: Final = os.path.join(os.path.dirname(__file__), "standins")


class ScriptFailedError(PerfError):
    """A function of a script raised an exception; traceback: where, in the script's lines."""

    def __init__(self, path: str, function: str, traceback: str) -> None:
        super().__init__(f"{path}: {function} failed: see the traceback above")
        self.traceback = traceback


class ScriptProgram:
    """A script that runs in this process."""

    def __init__(self, path: str, args: Sequence[str], modules: Sequence[ModuleType], exec_path: str) -> None:
        """modules: what it can import besides files; exec_path: where an installed perf has its scripts.

        Raises PerfError for a file that cannot be read or is no Python.
        """
        self.path = path
        self._module = ModuleType("__main__")
        given = {name: one for module in modules for name, one in vars(module).items() if name in _GIVEN}
        self._module.__dict__.update(__file__=path, **given)
        self._args = [path, *args]
        self._modules = modules
        self._exec_path = exec_path
        try:
            with open(path, "rb") as file:
                self._code = compile(file.read(), path, "exec")
        except OSError as error:
            raise PerfError(f"{path}: {error.strerror}") from None
        except (SyntaxError, ValueError) as error:
            line = getattr(error, "lineno", None)
            raise PerfError(f"{path}{f', line {line}' if line else ''}: no program in Python 3: {getattr(error, 'msg', error)}") from None

    def start(self) -> None:
        """Run the file itself. Raises ScriptFailedError, and PerfError for a script that wants what there is not."""
        sys.argv = self._args
        sys.modules["__main__"] = self._module
        sys.modules.update((module.__name__, module) for module in self._modules)
        sys.path.insert(0, os.path.dirname(os.path.abspath(self.path)))
        library = os.path.join(self._exec_path, _LIBRARY)
        sys.path += [folder for folder in (library, _STANDINS) if folder not in sys.path]
        os.environ["PERF_EXEC_PATH"] = self._exec_path  # scripts add its folders to sys.path, and die without it
        self.call("the script", exec, self._code, self._module.__dict__)

    def asks_for(self, name: str) -> bool:
        """Whether a variable of the script's is set."""
        return bool(self._module.__dict__.get(name))

    def function(self, name: str) -> Callable[..., Any] | None:
        """A function of the script; None where it has none of that name."""
        found = self._module.__dict__.get(name)
        return found if callable(found) else None

    def call_if_there(self, name: str, *args: Any) -> None:
        """Call a function of the script that it need not have."""
        found = self.function(name)
        if found is not None:
            self.call(name, found, *args)

    def call(self, name: str, function: Callable[..., Any], *args: Any) -> None:
        """Call something of the script's. Raises ScriptFailedError; SystemExit passes."""
        try:
            function(*args)
        except Exception as error:  # noqa: BLE001  # whatever a script raises is told with its own lines
            raise self.failure(name, error) from None

    def flush_files(self) -> None:
        """Write out what the script's open files still hold, as the end of an interpreter does."""
        for one in gc.get_objects():
            if isinstance(one, (io.TextIOWrapper, io.BufferedWriter)) and not one.closed:
                with suppress(OSError, ValueError):
                    one.flush()

    def failure(self, name: str, error: Exception) -> ScriptFailedError:
        """What to say of an exception that came out of a function of the script's."""
        if isinstance(error, BrokenPipeError):
            raise error  # nobody reads what it prints: that is no failure of its own
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS):
            trace = trace.tb_next
        return ScriptFailedError(self.path, name, "".join(traceback.format_exception(type(error), error, trace)))
