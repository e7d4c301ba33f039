"""A script as a program: reads its file, runs it as the main module, finds its functions, and reports its failures.

A failure raises ScriptFailedError with a traceback that begins in the script. Modules that scripts import from perf (Core, Util) come from
an installed perf, otherwise from perfpy.views.scripting.standins.
"""

from __future__ import annotations

import gc
import io
import keyword
import os
import sys
import traceback
from contextlib import suppress
from dataclasses import fields, is_dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from perfpy.abi.framing import as_number
from perfpy.errors import PerfError
from perfpy.perfdata.print_format import FieldValue, Flags, PrintFormatError, Symbolic, parse_print_fmt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from perfpy.perfdata.event_format import EventFormat, Tracing
    from perfpy.perfdata.records.batches import Batch
    from perfpy.views.recorded import Recorded


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


# The module perf_trace_context: functions by which handlers query the current sample.
#
# Handlers pass their argument `context`. The functions return the tracepoint's common fields and source lines (perf-script-python(1)).


#: function -> the common field that it returns
_FIELDS: Final = {"common_pc": "common_preempt_count", "common_flags": "common_flags", "common_lock_depth": "common_lock_depth"}


class SampleContext:
    """The current sample: a row of a batch."""

    def __init__(self, tracing: Tracing | None, source_line: Callable[[Batch, int], tuple[str, int] | None]) -> None:
        self._tracing = tracing
        self._source_line = source_line
        self.batch: Batch | None = None
        self.row = 0

    def common(self, name: str) -> int:
        """Return a common field of the tracepoint; 0 for other samples."""
        raw = self.batch.columns.get("raw") if self.batch is not None else None
        if raw is None or self._tracing is None:
            return 0
        data = raw[self.row].tobytes()
        endian = self._tracing.endian
        form = self._tracing.formats.get(as_number(data[:2], endian))
        field = form.field(name) if form else None
        return 0 if field is None else as_number(data[field.offset : field.offset + field.size], endian)

    def source_line(self) -> tuple[str, int] | None:
        """Return file and line of the sampled address."""
        return self._source_line(self.batch, self.row) if self.batch is not None else None


def context_module(context: SampleContext) -> ModuleType:
    """Return the module that `import perf_trace_context` finds."""
    module = ModuleType("perf_trace_context", "What handlers ask about the sample that they were called for.")

    def asked(name: str) -> Callable[[Any], int]:
        return lambda context: context.common(name)

    def srcline(_context: Any) -> tuple[str, int] | tuple[None, None]:
        return context.source_line() or (None, None)

    for function, field in _FIELDS.items():
        setattr(module, function, asked(field))
    module.__dict__.update(
        perf_script_context=context,
        perf_sample_srcline=srcline,
        perf_sample_srccode=lambda context: (*srcline(context), None),
        perf_sample_insn=lambda _context: None,  # only hardware traces have instructions
        perf_set_itrace_options=lambda _context, _options: -1,
    )
    return module


# Names of a tracepoint's flags and values, for a script.
#
# Calls define_flag_field, define_flag_value, define_symbolic_field and define_symbolic_value, which scripts import from Core, for each
# __print_flags and __print_symbolic of a print format.


def define_words(form: EventFormat, name: str, program: ScriptProgram) -> None:
    """Define the names of a tracepoint's fields; `name`: SYSTEM__EVENT."""
    if program.function("define_flag_value") is None and program.function("define_symbolic_value") is None:
        return
    for tree, field in worded_fields(form):
        kind = "flag" if isinstance(tree, Flags) else "symbolic"
        head = (name, field, tree.delimiter) if isinstance(tree, Flags) else (name, field)
        program.call_if_there(f"define_{kind}_field", *head)
        for number, word in tree.names:
            value = _number(number)
            if value is not None:
                program.call_if_there(f"define_{kind}_value", name, field, value, word)


def worded_fields(form: EventFormat) -> list[tuple[Flags | Symbolic, str]]:
    """Return the parts of a print format that name a field's values, with the field; nothing for an invalid format."""
    try:
        arguments = parse_print_fmt(form).arguments
    except PrintFormatError:
        return []
    fields = []
    for tree in (part for argument in arguments for part in _parts(argument)):
        if isinstance(tree, (Flags, Symbolic)):
            field = next((part.name for part in _parts(tree.value) if isinstance(part, FieldValue)), None)
            if field is not None:
                fields.append((tree, field))
    return fields


def _parts(tree: Any) -> Iterator[Any]:
    """Yield a tree and all its nodes, without recursion, because formats may be deeply nested."""
    work = [tree]
    while work:
        one = work.pop()
        if is_dataclass(one):
            yield one
            work += [getattr(one, field.name) for field in reversed(fields(one)) if field.name != "field"]


def _number(text: str) -> int | None:
    """Return a number in C syntax; None for an expression."""
    digits = text.strip().strip("()").rstrip("uUlL")
    try:
        return int(digits, 8 if digits.isdigit() and digits.startswith("0") else 0)
    except ValueError:
        return None


# A generated script (-g): a function for each tracepoint of a recording, and one for all other events.


_HEAD: Final = """\
# Made by perfpy script -g python; run by: perfpy script -s THIS_FILE
# A function SYSTEM__EVENT is called for each sample of that tracepoint, with its fields; trace_unhandled for
# tracepoints without one, process_event for all other events.

import os
import sys

sys.path.append(os.environ.get("PERF_EXEC_PATH", "") + "/scripts/python/Perf-Trace-Util/lib/Perf/Trace")

from perf_trace_context import *
from Core import *


def trace_begin():
    print("in trace_begin")


def trace_end():
    print("in trace_end")


def print_head(name, cpu, seconds, nanoseconds, pid, comm):
    print(f"{name:<20} {cpu:5} {seconds:5}.{nanoseconds:09} {pid:8} {comm:<20}", end=" ")


def print_callchain(callchain):
    for frame in callchain:
        where = f"{frame['sym']['name']}+{frame.get('sym_off', 0):#x}" if "sym" in frame else "[unknown]"
        print(f"\\t[{frame['ip']:x}] {where} ({frame.get('dso', '[unknown]')})")


def trace_unhandled(event_name, context, fields, sample):
    print(event_name, ", ".join(f"{name}={value}" for name, value in sorted(fields.items())))


def process_event(sample):
    print(f"{sample['ev_name']}: {sample['comm']} {sample['sample']['pid']} {sample.get('symbol', '[unknown]')}")
    print_callchain(sample["callchain"])
"""
_COMMON: Final = "event_name, context, common_cpu, common_secs, common_nsecs, common_pid, common_comm, common_callchain"


def starter(recording: Recorded) -> str:
    """Return the text of a script for this recording. It runs unchanged."""
    tracing = recording.data.tracing
    formats = tracing.formats if tracing else {}
    numbers = dict.fromkeys(event.attr.config for event in recording.events if event.tracepoint and event.attr.config in formats)
    return _HEAD + "".join(line + "\n" for number in numbers for line in _function(formats[number]))


def _function(form: EventFormat) -> Iterator[str]:
    """Yield the function for a tracepoint; nothing if its names are not valid in Python."""
    name, fields = f"{form.system}__{form.name}", [field.name for field in form.fields]
    if not name.isidentifier() or not all(map(str.isidentifier, fields)):
        return
    words = {field: "flag_str" if isinstance(tree, Flags) else "symbol_str" for tree, field in worded_fields(form)}
    parameters = [field + "_" * keyword.iskeyword(field) for field in fields]
    text = ", ".join(f"{field}={{{_value(name, field, parameter, words)}}}" for field, parameter in zip(fields, parameters, strict=True))
    yield from ("", "", f"def {name}({', '.join([_COMMON, *parameters, 'perf_sample_dict'])}):")
    yield "    print_head(event_name, common_cpu, common_secs, common_nsecs, common_pid, common_comm)"
    yield f"    print(f'{text}')"
    yield "    print_callchain(common_callchain)"


def _value(name: str, field: str, parameter: str, words: dict[str, str]) -> str:
    return f'{words[field]}("{name}", "{field}", {parameter})' if field in words else parameter
