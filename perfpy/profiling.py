"""Profile a block of the calling program, or another process while a block runs: perfpy.profile().

A separate `perfpy record` process writes the recording, so that the profile contains nothing of the recorder. A pipe tells it when to begin
and end. Python functions have names if the interpreter supports it (CPython 3.12 and newer).
"""

from __future__ import annotations

import linecache
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from perfpy.errors import PerfError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from os import PathLike
    from types import TracebackType

    from perfpy.analysis.report.report import Report
    from perfpy.recording import Recording
    from perfpy.views.report.notebook import CellProfile, CellSource

_PYTHON_FREQUENCY: Final = "999"  # Hz: blocks are short
_CELL_OPTIONS: Final = ["--python", "--off-cpu", "-F", _PYTHON_FREQUENCY]
_RESET_PEAK: Final = "5"  # proc(5), clear_refs
_PYTHON_MACHINE: Final = "x86_64"
_PR_SET_PTRACER: Final = 0x59616D61
_ACK: Final = b"ack\n\0"


class Profiler:
    """Records what a process does between start() and stop(), or within a `with` block. See perfpy.profile.

    >>> import perfpy
    >>> profiler = perfpy.profile(events="cpu-clock")
    >>> profiler.start()
    >>> total = sum(i * i for i in range(1_000_000))
    >>> profiler.stop()
    >>> profiler.report(by="pid").samples > 0
    True
    """

    def __init__(self, output: str | PathLike[str] | None, options: list[str], pid: int | None, *, python: bool = False) -> None:
        self.path = _kept_for(self) if output is None else os.path.abspath(os.fspath(output))
        self._options = options
        self._pid = os.getpid() if pid is None else pid
        self._recorder: subprocess.Popen[bytes] | None = None
        self._orders = self._answers = -1
        self._names_functions = False
        self._python = python
        self._recording: Recording | None = None

    def start(self) -> None:
        """Start recording. Raises PerfError with the recorder's reason if it cannot start."""
        if self._recorder is not None:
            raise UsageError("the profile has started already")
        self._close_recording()
        self._names_functions = not self._python and self._pid == os.getpid() and _name_functions()
        orders, self._orders = os.pipe()
        self._answers, answers = os.pipe()
        target = ["-p", str(self._pid), "-o", self.path, "-D", "-1", f"--control=fd:{orders},{answers}"]
        # -P: no module of the folder that happens to be the current one
        silence = "--brief" if "-e" in self._options else "-q"  # stop() warns if another event than a named one was sampled
        command = [sys.executable, "-P", "-m", "perfpy", "record", silence, *self._options, *target]
        try:
            self._recorder = subprocess.Popen(
                command, pass_fds=(orders, answers), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
            )
        finally:
            os.close(orders)
            os.close(answers)
        if self._python and self._pid == os.getpid():
            _let_read_memory(self._recorder.pid)
        if not self._order("enable"):
            self._raise_failure()

    def stop(self) -> None:
        """End the recording; the file is complete then. Raises PerfError where the recorder failed meanwhile."""
        if self._recorder is None:
            raise UsageError("the profile has not started")
        if not self._order("disable") or not self._order("stop"):
            self._raise_failure()
        recorder = self._end()
        _, errors = recorder.communicate()
        if recorder.returncode not in (0, 128 + signal.SIGTERM, -signal.SIGTERM):
            raise PerfError(_last_line(errors) or f"the recorder ended with status {recorder.returncode}")
        if errors:
            from perfpy.measuring import warn_of_replaced

            for line in errors.decode(errors="replace").splitlines():
                if line.endswith(("instead", "measuring user space only")):  # perfpy.events.fallback has the messages
                    warn_of_replaced(line)

    def open(self) -> Recording:
        """The recording, open until the profile starts again; close it, or leave that to the end."""
        from perfpy.recording import Recording

        if self._recorder is not None:
            raise UsageError("the profile is still being recorded: stop() it first")
        if self._recording is None:
            self._recording = Recording(self.path)
        return self._recording

    def report(self, by: str | list[str] | None = None, **options: Any) -> Report:
        """Report the time by Recording.report(), by function unless the arguments say otherwise; with `python` by Python function."""
        usual = "pyfunc" if self._python else "symbol"
        return self.open().report(by or (None if "options" in options else usual), **options)

    def __enter__(self) -> Profiler:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.stop()
        else:
            with suppress(PerfError):  # the block's own failure is the one to tell
                self.stop()

    def __repr__(self) -> str:
        state = "running" if self._recorder is not None else "of"
        return f"<Profiler {state} process {self._pid}, {self.path}>"

    def _order(self, word: str) -> bool:
        """Tell the recorder, and wait until it has done so; whether it has."""
        try:
            os.write(self._orders, f"{word}\n".encode())
        except BrokenPipeError:
            return False
        answer = b""
        while not answer.endswith(_ACK):
            piece = os.read(self._answers, len(_ACK))
            if not piece:
                return False
            answer += piece
        return True

    def _raise_failure(self) -> None:
        recorder = self._end()
        _, errors = recorder.communicate()
        raise PerfError(_last_line(errors) or f"the recorder ended with status {recorder.returncode}")

    def _end(self) -> subprocess.Popen[bytes]:
        assert self._recorder is not None
        recorder, self._recorder = self._recorder, None
        for descriptor in (self._orders, self._answers):
            os.close(descriptor)
        if self._names_functions and not _STAYS_ON:
            sys.deactivate_stack_trampoline()  # type: ignore[attr-defined,unused-ignore]
        return recorder

    def _close_recording(self) -> None:
        if self._recording is not None:
            self._recording.close()
            self._recording = None


def make_profile(
    output: str | PathLike[str] | None = None,
    *,
    pid: int | None = None,
    events: str | Iterable[str] | None = None,
    frequency: int | None = None,
    call_graph: str | bool = True,
    unwind: bool = False,
    python: bool = False,
) -> Profiler:
    """See perfpy.profile, which has the same parameters."""
    from perfpy.measuring import event_texts

    options = [word for text in event_texts(events) for word in ("-e", text)]
    if frequency is not None:
        options += ["-F", str(frequency)]
    if python:
        options += ["--python", *(["-F", _PYTHON_FREQUENCY] if frequency is None else [])]
    elif unwind:
        options += ["--unwind"]
    elif call_graph:
        options += [f"--call-graph={'fp' if call_graph is True else call_graph}"]
    return Profiler(output, options, pid, python=python)


def _kept_for(profiler: Profiler) -> str:
    """A new file's path, in a new folder that is there as long as the profiler is."""
    folder = tempfile.mkdtemp(prefix="perfpy-profile-")
    weakref.finalize(profiler, shutil.rmtree, folder, ignore_errors=True)
    return f"{folder}/perf.data"


def profile_cell(shell: Any, line: str, cell: str) -> Report | CellProfile:
    """Run a notebook's cell under a profile, which the notebook shows. line: sort keys such as comm,symbol of a report instead of lines.

    Where Python frames can be read, rows are Python functions, and lines have their times and waits.
    """
    python = os.uname().machine == _PYTHON_MACHINE and sys.implementation.name == "cpython"
    keys = line.strip()
    profile = make_profile(python=python) if keys or not python else Profiler(None, _CELL_OPTIONS, None, python=True)
    threads = {int(tid) for tid in os.listdir("/proc/self/task")} - {threading.get_native_id()}
    before = _memory(reset=True)
    with profile:
        result = shell.run_cell(cell)
    after = _memory()
    result.raise_error()
    if keys or not python:
        return profile.report(keys or None)
    from perfpy.views.report.notebook import CellMemory, CellProfile

    recording = profile.open()
    tids = {*recording.samples["tid"].tolist()} - threads
    part = recording.where(tid=tids) if tids else recording
    memory = CellMemory(after[0] - before[0], max(after) - before[0])
    return CellProfile(part, part.report("pyfunc"), part.source_files(), _cell_source(shell, cell), memory)


def _cell_source(shell: Any, cell: str) -> CellSource:
    """Return where the source of a cell is. IPython tells the names of its cells' code; linecache has their lines, and those of files."""
    from perfpy.views.report.notebook import CellSource

    path = ""
    with suppress(Exception):  # other shells; a cell's transformation runs code of the user's
        path = str(shell.compile.get_code_name(cell, shell.transform_cell(cell), shell.execution_count))
    return CellSource(path, linecache.getlines, lambda name: _cell_name(shell, name))


def _cell_name(shell: Any, path: str) -> str:
    """Return the name that IPython's tracebacks give a cell, as In[2]; "" for files and other shells."""
    with suppress(Exception):
        label, name = shell.compile.format_code_name(path)
        return str(name) if label == "Cell" else ""
    return ""


def _memory(*, reset: bool = False) -> tuple[int, int]:
    """Return the resident memory of this process and its peak, in bytes. reset: the peak begins anew."""
    if reset:
        with suppress(OSError), open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write(_RESET_PEAK)
    with open("/proc/self/status", encoding="utf-8", errors="replace") as file:
        fields = dict(text.partition(":")[::2] for text in file)
    now, peak = (int(fields.get(name, "0 kB").split()[0]) << 10 for name in ("VmRSS", "VmHWM"))
    return now, peak


#: CPython 3.14 takes one of its eight code watchers at each activation and gives none back: one activation serves all profiles
_STAYS_ON: Final = sys.version_info >= (3, 14)


def _name_functions() -> bool:
    """Have this interpreter name its functions from here on; whether it does now, and did not before."""
    if not hasattr(sys, "activate_stack_trampoline") or sys.is_stack_trampoline_active():  # type: ignore[attr-defined,unused-ignore]
        return False
    try:
        sys.activate_stack_trampoline("perf")  # type: ignore[attr-defined,unused-ignore]
    except (ValueError, OSError, RuntimeError, SystemError):  # built without, another map is there, or no code watcher is left
        return False
    return True


def _let_read_memory(pid: int) -> None:
    """Permit a child and its children to read this process's memory, which kernel.yama.ptrace_scope=1 forbids them."""
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(pid), 0, 0, 0)


def _last_line(errors: bytes) -> str:
    lines = errors.decode("utf-8", "replace").strip().splitlines()
    return lines[-1].removeprefix("perfpy record: ") if lines else ""
