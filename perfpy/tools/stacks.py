"""`perfpy stacks PID`: print what the threads of a process do at this moment, also while they wait: functions, lines, locks, sockets.

Python functions are read from the interpreter's memory. The stacks of other threads come from a recording of a tenth of a second, which has
the stacks of threads that sleep as well (perfpy.capture.sleeping_threads). The process is not stopped.
"""

from __future__ import annotations

import os
import re
import tempfile
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.cli.commands import load_command
from perfpy.cli.line.option_parsing import CommandOptions, Flag, PerfCommand, Value, fail, option, words
from perfpy.errors import PerfError, plural
from perfpy.untrusted.text import visible

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from perfpy.capture.python_frames.current_stacks import CurrentFrame, ProcessStacks, ThreadStack
    from perfpy.capture.wait_targets import WaitTarget


_MOST_PIDS: Final = 1 << 31
_SECONDS: Final = "0.1"  # of recording
_OBJECT: Final = "an object"  # of an unknown class
#: a method of a program in Java, not of Java's library
_JAVA_METHOD: Final = re.compile(r"[\w.$\[\]]+ (?!java[.x]|jdk\.|sun\.)[\w$]+(?:[.$][\w$]+)+\(")
_MOST_DESCENDANTS: Final = 100  # processes
#: functions that no program wrote: the outermost of each thread
_STARTS: Final = frozenset({"_start", "__libc_start_main", "__libc_start_call_main", "start_thread", "clone", "clone3", "__clone"})


class StacksCommandOptions(CommandOptions):
    """Options of `perfpy stacks`."""

    pid: str = option("-p,--pid", Value(default=""), "print the stacks of these processes (comma-separated)", metavar="<pid>")
    locks: bool = option("--locks", Flag(), "print only threads that wait for locks, and their holders")
    descendants: bool = option("--descendants", Flag(default=True), "also print the processes that they have started (default)")
    locals: bool = option("--locals", Flag(), "also print local variables of Python functions (own processes)")
    json: bool = option("--json", Flag(), "print one JSON object")
    words: tuple[str, ...] = words("[PID ...]")


class NativeFrame(NamedTuple):
    """A function of a stack, its file and line (0: unknown), or else the shared object."""

    function: str
    file: str
    line: int
    dso: str


class CurrentThread(NamedTuple):
    """A thread and what it does.

    Attributes:
        tid: its number.
        comm: the kernel's name.
        state: what the kernel says of it.
        target: what it waits for.
        lock: the name of the mutex that it waits for; "" if it is unknown.
        python: its Python stack; None without one.
        frames: its native stack, innermost first; empty if it is unknown, or has Python functions.
    """

    tid: int
    comm: str
    state: str
    target: WaitTarget
    lock: str
    python: ThreadStack | None
    frames: Sequence[NativeFrame]


class CurrentProcess(NamedTuple):
    """A process: its command line, the version of its CPython ("" without), its threads, and why stacks are missing."""

    pid: int
    command: str
    version: str
    threads: list[CurrentThread]
    missing: str


def run(options: StacksCommandOptions) -> None:
    """Print the stacks of processes."""
    given = [pid for text in (options.pid, *options.words) if text for pid in text.split(",")]
    if not given:
        fail("no process given; perfpy stacks PID prints the stacks of a process")
    for pid in given:
        if not (pid.isdecimal() and 0 < int(pid) < _MOST_PIDS):
            fail(f"{visible(pid)}: expected process ids, separated by commas")
    pids = dict.fromkeys(map(int, given))
    if options.descendants:
        from perfpy.kernel.procfs import ProcFs

        pids |= dict.fromkeys(sorted(ProcFs().descendants(pids))[:_MOST_DESCENDANTS])
    if options.locals and (others := [pid for pid in map(int, given) if not _is_own(pid)]):
        raise PerfError(f"process {others[0]} belongs to another user; --locals shows variables of your own processes")
    processes = [read_process(pid, with_locals=options.locals and _is_own(pid)) for pid in pids]
    if options.locks:
        processes = [process._replace(threads=threads_of_locks(process.threads)) for process in processes]
    if options.json:
        import json  # rarely needed

        print(json.dumps({"format": "perfpy-stacks", "version": 1, "processes": [_values(process) for process in processes]}))
        return
    for number, process in enumerate(processes):
        if number:
            print()
        for line in process_lines(process):
            print(line)
        if options.locks and not process.threads:
            print("no thread waits for a lock with a known holder")


def _is_own(pid: int) -> bool:
    """Whether a process belongs to the user that asks, or is not there."""
    from perfpy.kernel.procfs import ProcFs

    status = ProcFs().status(pid)
    return status is None or status.uid == os.geteuid()


def read_process(pid: int, *, with_locals: bool = False) -> CurrentProcess:
    """Read the stacks of all threads of a process, with the local variables of Python functions or without. Raises PerfError if none can be
    read.
    """
    from perfpy.capture.python_frames.current_stacks import STATES, process_stacks  # --help needs no numpy
    from perfpy.capture.runtimes.hotspot_monitors import monitor_waits
    from perfpy.capture.sleeping_threads import sleepers
    from perfpy.capture.wait_targets import WaitTarget, WaitTargets
    from perfpy.kernel.procfs import ProcFs
    from perfpy.symbols.dso import innermost_tid

    procfs = ProcFs()
    if not (tids := procfs.threads(pid)):
        raise PerfError(f"no process {pid}")
    python: ProcessStacks | None = None
    missing = ""
    try:
        python = process_stacks(pid, procfs, with_locals=with_locals)
    except PerfError as error:
        missing = str(error)
    of_python = {thread.tid: thread for thread in python.threads} if python else {}
    native: dict[int, list[NativeFrame]] = {}
    locks: dict[int, str] = {}
    inner_tids = {tid: innermost_tid(pid, tid) or tid for tid in tids}
    targets_of = WaitTargets(pid, inner_tids)
    sleeping = {thread.tid: thread for thread in sleepers(tids, procfs, 0)}
    targets = {tid: targets_of.of(thread) for tid, thread in sleeping.items()}
    for tid, wait in monitor_waits(pid, inner_tids).items():
        if tid in targets:
            targets[tid] = WaitTarget("futex", lock=wait.monitor, holder=wait.holder, monitor=wait.of_class or _OBJECT)
    if others := [tid for tid in tids if tid not in of_python]:
        try:
            native, locks = _recorded_stacks(pid, others, {tid: 0 if target.monitor else target.lock for tid, target in targets.items()})
            missing = ""
        except PerfError as error:
            if python is None:
                raise
            missing = f"{len(others)} more {plural(len(others), 'thread')} without Python functions: {error}"
    threads = []
    for tid in tids:
        status = procfs.status(tid)
        if status is not None:
            state = STATES.get(sleeping[tid].letter, sleeping[tid].letter) if tid in sleeping else "running"
            target = targets.get(tid, WaitTarget())
            threads.append(
                CurrentThread(tid, status.comm, state, target, locks.get(target.lock, ""), of_python.get(tid), native.get(tid, ()))
            )
    return CurrentProcess(pid, procfs.command_line(pid), python.version if python else "", threads, missing)


def _recorded_stacks(pid: int, tids: Collection[int], locks: dict[int, int]) -> tuple[dict[int, list[NativeFrame]], dict[int, str]]:
    """Record a process for a moment; return the last stack of each thread, and the names of locks by address.

    Args:
        pid: the process.
        tids: the threads whose stacks are wanted.
        locks: thread -> the address of the mutex that it waits for; 0: none.
    """
    import numpy as np

    from perfpy.analysis.callchains import frames_of
    from perfpy.analysis.locations import SourceTexts
    from perfpy.analysis.named_samples import function_names
    from perfpy.capture.runtimes.attaching import runtime_of_process
    from perfpy.capture.runtimes.known_runtimes import PYTHON
    from perfpy.recording import Recording
    from perfpy.symbols.variables import name_locks

    is_native = runtime_of_process(pid) in (None, PYTHON)
    with tempfile.TemporaryDirectory(prefix="perfpy-stacks-") as folder:
        path = f"{folder}/perf.data"
        stacks_of = "--unwind" if is_native else "--jit"
        load_command("record").run("record", ["-q", "-N", stacks_of, "--off-cpu", "-o", path, "-p", str(pid), "--", "sleep", _SECONDS])
        with Recording(path) as recording:
            _, symbolizer = recording.naming()
            chains: dict[int, np.ndarray[tuple[int], np.dtype[np.int32]]] = {}
            for batch in recording.data.batches({"pid", "tid", "time", "callchain"}):
                columns = batch.columns
                key = recording.data.settled_keys(batch)
                frames, counts = frames_of(columns["callchain"].gather(), columns["pid"], key, symbolizer)
                rows = zip(columns["tid"].tolist(), np.split(frames, np.cumsum(counts)[:-1]), strict=True)
                chains |= {tid: chain for tid, chain in rows if tid in tids and len(chain)}
            symbolizer.resolve()
            names = name_locks({locks[tid]: chain for tid, chain in chains.items() if locks.get(tid)}, symbolizer)
            stacks = {}
            texts = SourceTexts(symbolizer)
            for tid, chain in chains.items():
                of_kernel = np.array([dso >= 0 and symbolizer.dsos[dso].kernel for dso in symbolizer.frames.dso[chain].tolist()], bool)
                user = chain[~of_kernel]
                user, _ = symbolizer.expand(user, np.array([len(user)]))
                symbolizer.resolve()
                dsos = [symbolizer.dsos[dso].short_name if dso >= 0 else "" for dso in symbolizer.frames.dso[user].tolist()]
                source_lines = texts.code(user.astype(np.int64), np.arange(len(user)) > 0)
                parts = zip(function_names(symbolizer, user), source_lines, dsos, strict=True)
                stacks[tid] = [NativeFrame(name, *(source_line or ("", 0)), dso) for name, source_line, dso in parts]
    return stacks, names


# The text: a heading for each thread, and its functions, innermost first.


def process_lines(process: CurrentProcess) -> Iterator[str]:
    """Yield the text of a process."""
    yield f"Process {process.pid}: {visible(process.command)}" + (f"  (Python {process.version})" if process.version else "")
    yield from _deadlocks(process.threads)
    for thread in process.threads:
        yield ""
        yield _heading(thread)
        if thread.python:
            for number, frame in enumerate(own_python_part(thread.python.frames)):
                yield f"    {visible(frame.function)} ({visible(frame.file)}:{frame.line or '?'})"
                variables = thread.python.variables[number] if number < len(thread.python.variables) else []
                yield from (f"        {visible(name)} = {visible(value)}" for name, value in variables)
        else:
            yield from map(_native_line, _own_part(thread.frames))
    if process.missing:
        yield f"\n{process.missing}"


def _heading(thread: CurrentThread) -> str:
    python = thread.python
    name = (python.name if python else "") or thread.comm
    wait = f" in {waiting_text(thread)}" if waiting_text(thread) and thread.state != "running" else ""
    lock = ", holds the GIL" if python and python.has_gil else ""
    doubt = " (it ran during the reading: its stack may be of two moments)" if python and not python.is_certain else ""
    return f"Thread {thread.tid} ({visible(name)}): {thread.state}{wait}{lock}{doubt}"


def waiting_text(thread: CurrentThread) -> str:
    """Return what a thread waits for: its system call with what that concerns, or the kernel's function; "" if neither is known."""
    target = thread.target
    if target.thread:
        return f"{target.call}() for the end of thread {target.thread}"
    if target.lock:
        held = f", held by thread {target.holder}" if target.holder else ""
        return f"{target.call}() for {_lock_name(thread)}{held}"
    if target.call:
        return f"{target.call}()" + (f" on {visible(target.of)}" if target.of else "")
    return visible(thread.python.wait) if thread.python else ""


def _deadlocks(threads: Sequence[CurrentThread]) -> Iterator[str]:
    """Yield a line for each circle of threads that wait for each other's mutexes."""
    of_tid = {thread.tid: thread for thread in threads}
    told: set[int] = set()
    for first in of_tid:
        circle: list[int] = []
        tid = first
        while tid in of_tid and tid not in circle and tid not in told and of_tid[tid].target.holder:
            circle.append(tid)
            tid = of_tid[tid].target.holder
        if tid in circle:
            circle = circle[circle.index(tid) :]
            told.update(circle)
            yield "\nDeadlock: " + "; ".join(_link(of_tid[one]) for one in circle) + "."


def _link(thread: CurrentThread) -> str:
    """Return the part of a deadlock that a thread is."""
    lock = visible(thread.lock) or _lock_name(thread)
    return f"thread {thread.tid}{_method(thread)} waits for {lock}, which thread {thread.target.holder} holds"


def _lock_name(thread: CurrentThread) -> str:
    target = thread.target
    if target.monitor:
        return f"the monitor of {visible(target.monitor)} at {target.lock:#x}"
    return f"the mutex {visible(thread.lock) or f'at {target.lock:#x}'}"


def _method(thread: CurrentThread) -> str:
    """Return the innermost method of a Java program, as ", in Bank.transfer(),"; "" without one."""
    from perfpy.views.verdict.sentence import function_text  # only for deadlocks

    methods = (frame.function for frame in thread.frames if _JAVA_METHOD.match(frame.function))
    method = next(methods, "")
    return f", in {function_text(method)}," if method else ""


def threads_of_locks(threads: Sequence[CurrentThread]) -> list[CurrentThread]:
    """Return the threads that wait for locks, and the holders of these."""
    holders = {thread.target.holder for thread in threads if thread.target.lock}
    return [thread for thread in threads if thread.target.lock or thread.tid in holders]


def own_python_part(frames: Sequence[CurrentFrame]) -> Sequence[CurrentFrame]:
    """Drop the outermost functions of a forked worker, which its parent called before the fork."""
    for number, frame in enumerate(frames):
        if frame.function.endswith("_bootstrap") and frame.file.endswith("/multiprocessing/process.py"):
            return frames[: number + 1]
    return frames


def _own_part(frames: Sequence[NativeFrame]) -> Sequence[NativeFrame]:
    """Drop the outermost functions, which start every thread."""
    end = len(frames)
    while end > 1 and frames[end - 1].function.partition("@")[0] in _STARTS:
        end -= 1
    return frames[:end]


def _native_line(frame: NativeFrame) -> str:
    origin = f"{os.path.basename(frame.file)}:{frame.line}" if frame.file else frame.dso
    return f"    {visible(frame.function)}" + (f" ({visible(origin)})" if origin else "")


def _values(process: CurrentProcess) -> dict[str, object]:
    return {
        "pid": process.pid,
        "command": process.command,
        "version": process.version,
        "threads": [_thread_values(thread) for thread in process.threads],
        "others": sum(not thread.python and not thread.frames for thread in process.threads),
    }


def _thread_values(thread: CurrentThread) -> dict[str, object]:
    python = thread.python
    frames = [frame._asdict() for frame in (own_python_part(python.frames) if python else thread.frames)]
    if python:
        frames = [frame | {"locals": dict(values)} for frame, values in zip(frames, python.variables, strict=False)] or frames
    return {
        "tid": thread.tid,
        "comm": thread.comm,
        "name": python.name if python else "",
        "state": thread.state,
        "wait": python.wait if python else "",
        "has_gil": bool(python and python.has_gil),
        "is_certain": python.is_certain if python else True,
        "waits_for": {**thread.target._asdict(), "lock_name": thread.lock},
        "frames": frames,
    }


command = PerfCommand(StacksCommandOptions, run)
