"""A script as a program: reads its file, runs it as the main module, finds its functions, and reports its failures.

A failure raises ScriptFailedError with a traceback that begins in the script. Modules that scripts import from perf (Core, Util) come from
an installed perf, otherwise from perfpy.views.scripting.standins.
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
_GIVEN: Final = ("perf_script_context",)  # modules that scripts need not import
_STANDINS: Final = os.path.join(os.path.dirname(__file__), "standins")


class ScriptFailedError(PerfError):
    """A function of a script raised an exception; `traceback` shows where, in lines of the script."""

    def __init__(self, path: str, function: str, traceback: str) -> None:
        super().__init__(f"{path}: {function} failed: see the traceback above")
        self.traceback = traceback


class ScriptProgram:
    """A script that runs in this process."""

    def __init__(self, path: str, args: Sequence[str], modules: Sequence[ModuleType], exec_path: str) -> None:
        """Read a script.

        Args:
            modules: modules that it can import besides files
            exec_path: the folder of an installed perf's scripts

        Raises PerfError for a file that cannot be read or compiled.
        """
        self.path = path
        self._module = ModuleType("__main__")
        builtins_of_perf = {name: one for module in modules for name, one in vars(module).items() if name in _GIVEN}
        self._module.__dict__.update(__file__=path, **builtins_of_perf)
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
            raise PerfError(f"{path}{f', line {line}' if line else ''}: not a Python 3 program: {getattr(error, 'msg', error)}") from None

    def start(self) -> None:
        """Run the script's file. Raises ScriptFailedError; PerfError for a script that needs an unavailable module."""
        sys.argv = self._args
        sys.modules["__main__"] = self._module
        sys.modules.update((module.__name__, module) for module in self._modules)
        sys.path.insert(0, os.path.dirname(os.path.abspath(self.path)))
        library = os.path.join(self._exec_path, _LIBRARY)
        sys.path += [folder for folder in (library, _STANDINS) if folder not in sys.path]
        os.environ["PERF_EXEC_PATH"] = self._exec_path  # scripts add its folders to sys.path and fail without it
        self.call("the script", exec, self._code, self._module.__dict__)

    def asks_for(self, name: str) -> bool:
        """Whether the script sets a variable."""
        return bool(self._module.__dict__.get(name))

    def function(self, name: str) -> Callable[..., Any] | None:
        """Return a function of the script; None if it does not define it."""
        value = self._module.__dict__.get(name)
        return value if callable(value) else None

    def call_if_there(self, name: str, *args: Any) -> None:
        """Call a function of the script if it defines it."""
        function = self.function(name)
        if function is not None:
            self.call(name, function, *args)

    def call(self, name: str, function: Callable[..., Any], *args: Any) -> None:
        """Call a function of the script. Raises ScriptFailedError; SystemExit passes through."""
        try:
            function(*args)
        except Exception as error:  # noqa: BLE001  # whatever a script raises is told with its own lines
            raise self.failure(name, error) from None

    def flush_files(self) -> None:
        """Flush the script's open files, as at the end of an interpreter."""
        for one in gc.get_objects():
            if isinstance(one, (io.TextIOWrapper, io.BufferedWriter)) and not one.closed:
                with suppress(OSError, ValueError):
                    one.flush()

    def failure(self, name: str, error: Exception) -> ScriptFailedError:
        """Return the error for an exception from a function of the script."""
        if isinstance(error, BrokenPipeError):
            raise error  # a closed output is not a failure of the script
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS):
            trace = trace.tb_next
        return ScriptFailedError(self.path, name, "".join(traceback.format_exception(type(error), error, trace)))
