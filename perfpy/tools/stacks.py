"""`perfpy stacks PID`: print what the threads of a process do at this moment, also while they wait: functions, lines, locks, sockets.

Python functions and goroutines are read from the memory of processes. A JVM describes its threads itself, and stops them meanwhile, as for
jstack. The stacks of other threads come from one recording of a tenth of a second, which has the stacks of threads that sleep as well
(perfpy.capture.sleeping_threads). Other processes than JVMs are not stopped.
"""

from __future__ import annotations

import os
import re
import tempfile
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.cli.commands import load_command
from perfpy.cli.line.option_parsing import CommandOptions, Flag, PerfCommand, Value, fail, option, words
from perfpy.errors import PerfError, plural
from perfpy.live.priority import HigherPriority
from perfpy.untrusted.text import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from perfpy.capture.python_frames.current_stacks import ProcessStacks, ThreadStack
    from perfpy.capture.runtimes.hotspot_monitors import JavaStack
    from perfpy.capture.wait_targets import WaitTarget
    from perfpy.interpreters.frames import CurrentFrame
    from perfpy.kernel.procfs import ProcFs
    from perfpy.perfdata.kept_files import ObservedFrame, ObservedState


_MOST_PIDS: Final = 1 << 31
_SECONDS: Final = "0.1"  # of recording
_OBJECT: Final = "an object"  # of an unknown class
#: a method of a program in Java, not of Java's library
_JAVA_METHOD: Final = re.compile(r"[\w.$\[\]]+ (?!java[.x]|jdk\.|sun\.)[\w$]+(?:[.$][\w$]+)+\(")
_LIBRARY_OF_JAVA: Final = re.compile(r"javax?\.|jdk\.|sun\.")
_JAVA_LOCK: Final = re.compile(r"\$(?:Nonf|F)airSync$")  # of java.util.concurrent.locks.ReentrantLock and others
_JVM: Final = "JVM"  # in place of a shared object
_MOST_DESCENDANTS: Final = 100  # processes
_MOST_CHILDREN: Final = 10_000  # whose states are read
_NICER: Final = 5  # three times the CPU time of others
_REALTIME: Final = 1.5  # seconds in which a busy machine lets others wait for the answer
_EQUAL: Final = 3  # threads with the same stack share one, from this number on
_NAMED: Final = 6  # of threads with one heading
_RUNS: Final = "running"
_CALLERS: Final = 2  # that a line names
_SCRIPT: Final = "JS:"  # begins a function of JavaScript
_INNERMOST: Final = 5  # functions
_NO_MUTEX: Final = re.compile(r"_*pthread_cond_\w*wait|_*new_sem_\w*wait|_*sem_\w*wait")
_GO_RUNS: Final = ("running", "system call", "runnable")
#: functions that no program wrote: the outermost of each thread
_STARTS: Final = frozenset({"_start", "__libc_start_main", "__libc_start_call_main", "start_thread", "clone", "clone3", "__clone"})


class StacksCommandOptions(CommandOptions):
    """Options of `perfpy stacks`."""

    pid: str = option("-p,--pid", Value(default=""), "print the stacks of these processes (comma-separated)", metavar="<pid>")
    locks: bool = option("--locks", Flag(), "print only threads that wait for locks, and their holders")
    running: bool = option("--running", Flag(), "print one line for each thread that runs, no others")
    descendants: bool = option("--descendants", Flag(default=True), "also print the processes that they have started (default)")
    inspect: bool = option("--inspect", Flag(), "ask the inspector of your own Node for functions")
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
        frames: its native or Java stack, innermost first; empty if it is unknown, or has Python functions.
        name: Java's; "" without one.
    """

    tid: int
    comm: str
    state: str
    target: WaitTarget
    lock: str
    python: ThreadStack | None
    frames: Sequence[NativeFrame]
    name: str = ""


class CurrentProcess(NamedTuple):
    """A process.

    Attributes:
        pid: its number.
        command: its command line.
        version: that of its CPython; "" without.
        threads: its threads.
        missing: why stacks are missing; "".
        goroutines: of a Go program; kinds of goroutines with the number of each.
        zombies: the number of its children that have ended, and for which it has not waited.
        name: what it is for, if it is one of several, "gunicorn: worker 2"; "".
    """

    pid: int
    command: str
    version: str
    threads: list[CurrentThread]
    missing: str
    goroutines: Sequence[ObservedState] = ()
    zombies: int = 0
    name: str = ""


def run(options: StacksCommandOptions) -> None:
    """Print the stacks of processes."""
    given = [pid for text in (options.pid, *options.words) if text for pid in text.split(",")]
    if not given:
        fail("no process given; perfpy stacks PID prints the stacks of a process")
    if wrong := [pid for pid in given if not (pid.isdecimal() and 0 < int(pid) < _MOST_PIDS)]:
        fail(f"{visible(wrong[0])}: expected process ids, separated by commas")
    pids = dict.fromkeys(map(int, given))
    if options.descendants:
        from perfpy.kernel.procfs import ProcFs

        pids |= dict.fromkeys(sorted(ProcFs().descendants(pids))[:_MOST_DESCENDANTS])
    if options.locals and (others := [pid for pid in map(int, given) if not _is_own(pid)]):
        raise PerfError(f"process {others[0]} belongs to another user; --locals shows variables of your own processes")
    own = {pid for pid in pids if options.locals and _is_own(pid)}
    with HigherPriority(_NICER, _REALTIME):
        processes = read_processes(pids, required=map(int, given), with_locals=own)
    processes = _with_javascript(processes) if options.inspect else processes
    processes = _with_names(processes)
    if options.locks:
        processes = [process._replace(threads=threads_of_locks(process.threads)) for process in processes]
    if options.running:
        processes = [process._replace(threads=[one for one in process.threads if one.state == _RUNS]) for process in processes]
    _print(processes, options)


def _print(processes: Sequence[CurrentProcess], options: StacksCommandOptions) -> None:
    if options.json:
        import json  # rarely needed

        print(json.dumps({"format": "perfpy-stacks", "version": 1, "processes": [_values(process) for process in processes]}))
        return
    if options.running:
        lines = [line for process in processes for line in running_lines(process)]
        print("\n".join(lines) or "no thread runs at this moment")
        return
    for number, process in enumerate(processes):
        if number:
            print()
        for line in process_lines(process):
            print(line)
        if options.locks and not process.threads:
            print("no thread waits for a lock with a known holder")


def _with_names(processes: Sequence[CurrentProcess]) -> list[CurrentProcess]:
    """Return the processes with their names: those of services, and all if there are several. The command line names a single one."""
    from perfpy.analysis.verdict.processes import texts_of_names  # --help needs no numpy
    from perfpy.capture.unwinding.observed_states import current_commands

    names = texts_of_names(current_commands(process.pid for process in processes), of_services=len(processes) == 1)
    return [process._replace(name=names.get(process.pid, "")) for process in processes]


def _with_javascript(processes: Sequence[CurrentProcess]) -> list[CurrentProcess]:
    """Return the processes with the JavaScript functions of Node's main threads. Raises PerfError if none is Node, or if one refuses.

    A thread that sleeps runs none: it waits for events, or in native code, which cannot be paused.
    """
    from perfpy.capture.runtimes.attaching import NODE, runtime_of_process, script_stack

    of_node = [one for one in processes if (runtime := runtime_of_process(one.pid)) is not None and runtime.name == NODE]
    if not of_node:
        raise PerfError(f"--inspect: process {processes[0].pid} is not Node.js; drop --inspect")
    stacks = {}
    for process in of_node:
        if any(one.tid == process.pid and one.state == _RUNS for one in process.threads):
            try:
                stacks[process.pid] = [NativeFrame(*frame, NODE) for frame in script_stack(process.pid)]
            except (OSError, ValueError, LookupError, TypeError) as error:
                reason = visible(str(getattr(error, "strerror", None) or error))
                raise PerfError(f"--inspect: cannot ask process {process.pid}: {reason}") from None
    return [
        process._replace(threads=[one._replace(frames=stacks.get(one.tid) or one.frames) for one in process.threads])
        for process in processes
    ]


def _is_own(pid: int) -> bool:
    """Whether a process belongs to the user that asks, or is not there."""
    from perfpy.kernel.procfs import ProcFs

    status = ProcFs().status(pid)
    return status is None or status.uid == os.geteuid()


class _Unread(NamedTuple):
    """A process whose native stacks are not read yet.

    Attributes:
        process: without them.
        tids: its threads whose stacks are wanted.
        is_native: whether it has no runtime with names of its own.
        is_needed: whether it has no other stacks.
    """

    process: CurrentProcess
    tids: list[int]
    is_native: bool
    is_needed: bool


def read_processes(pids: Iterable[int], *, required: Iterable[int] = (), with_locals: Iterable[int] = ()) -> list[CurrentProcess]:
    """Read the stacks of all threads of some processes. Raises PerfError if none can be read of one, or if a required one has ended.

    Args:
        pids: the processes.
        required: those of them that may not have ended.
        with_locals: those of them whose local variables are read.
    """
    from perfpy.kernel.procfs import ProcFs

    procfs, required, with_locals = ProcFs(), {*required}, {*with_locals}
    unread: list[_Unread] = []
    for pid in pids:
        try:
            unread.append(_read_known(pid, procfs, with_locals=pid in with_locals))
        except PerfError:
            if pid in required or not _has_ended(pid, procfs):
                raise
    processes: dict[int, CurrentProcess] = {}
    for is_native in (True, False):
        group = [one for one in unread if one.tids and one.is_native == is_native]
        if group:
            processes |= {process.pid: process for process in _with_recorded_stacks(group, procfs, required, is_native=is_native)}
    return [processes.get(one.process.pid, one.process) for one in unread if one.process.pid in processes or not one.tids]


def _has_ended(pid: int, procfs: ProcFs) -> bool:
    """Whether a process has ended, also if its parent does not know yet."""
    from perfpy.kernel.procfs import read_state

    state = read_state(pid, pid)
    return state is None or (state.letter in "ZX" and len(procfs.threads(pid)) < 2)


def _read_known(pid: int, procfs: ProcFs, *, with_locals: bool) -> _Unread:
    """Read what the kernel, CPython, Go and a JVM tell of a process. Raises PerfError if there is no such process."""
    from perfpy.capture.python_frames.current_stacks import STATES, process_stacks  # --help needs no numpy
    from perfpy.capture.runtimes.attaching import runtime_of_process
    from perfpy.capture.runtimes.hotspot_monitors import monitor_waits
    from perfpy.capture.runtimes.known_runtimes import PYTHON
    from perfpy.capture.sleeping_threads import sleepers
    from perfpy.capture.wait_targets import WaitTarget, WaitTargets
    from perfpy.symbols.dso import innermost_tid

    if not (tids := procfs.threads(pid)):
        raise PerfError(f"no process {pid}")
    python: ProcessStacks | None = None
    missing = ""
    try:
        python = process_stacks(pid, procfs, with_locals=with_locals)
    except PerfError as error:
        missing = str(error)
    of_python = {thread.tid: thread for thread in python.threads} if python else {}
    inner_tids = {tid: innermost_tid(pid, tid) or tid for tid in tids}
    java = _java_threads(pid, inner_tids)
    goroutines = _goroutines(pid, procfs) if not python and not java else []
    targets_of = WaitTargets(pid, inner_tids)
    sleeping = {thread.tid: thread for thread in sleepers(tids, procfs, 0)}
    slept = [tid for tid, one in of_python.items() if one.state != _RUNS and tid not in sleeping]
    sleeping |= {thread.tid: thread for thread in sleepers(slept, procfs, 0)}  # a timer woke them for a moment
    targets = {tid: targets_of.of(thread) for tid, thread in sleeping.items()}
    for tid, wait in monitor_waits(pid, inner_tids).items() if not java else ():
        if tid in targets:
            targets[tid] = WaitTarget("futex", lock=wait.monitor, holder=wait.holder, monitor=wait.of_class or _OBJECT)
    targets |= {tid: _java_target(tid, java, targets[tid]) for tid in java if tid in targets}
    for tid, one in of_python.items():
        if one.lock and tid in targets and (one.holder or not _is_of_threading(one)):
            kind = f"threading.{'Lock' if one.lock_kind == 'lock' else one.lock_kind}"
            targets[tid] = WaitTarget("futex", lock=one.lock, holder=one.holder, monitor=kind, is_monitor=False)
    threads = []
    for tid in tids:
        status = procfs.status(tid)
        if status is not None:
            at_stack = of_python[tid].state if tid in of_python else _RUNS  # as its stack was read
            state = STATES.get(sleeping[tid].letter, sleeping[tid].letter) if tid in sleeping else at_stack
            stack = java.get(tid)
            frames = [NativeFrame(*frame, _JVM) for frame in stack.frames] if stack else []
            target = targets.get(tid, WaitTarget())
            threads.append(CurrentThread(tid, status.comm, state, target, "", of_python.get(tid), frames, stack.name if stack else ""))
    version, zombies = python.version if python else "", _count_zombies(pid, tids)
    process = CurrentProcess(pid, procfs.command_line(pid), version, threads, missing, goroutines, zombies)
    has_stacks = bool(java) or (bool(goroutines) and not any(one.reason in _GO_RUNS for one in goroutines))
    wanted = [] if has_stacks else [tid for tid in tids if tid not in of_python]
    is_native = runtime_of_process(pid) in (None, PYTHON)
    return _Unread(process._replace(missing="" if has_stacks else missing), wanted, is_native, python is None and not goroutines)


def _count_zombies(pid: int, tids: Sequence[int]) -> int:
    """Return the number of children of a process that have ended, and that nobody has waited for."""
    from perfpy.kernel.procfs import children_of, read_state

    states = (read_state(child, child) for child in children_of(pid, tids)[:_MOST_CHILDREN])
    return sum(state is not None and state.letter == "Z" for state in states)


def _is_of_threading(stack: ThreadStack) -> bool:
    """Whether a thread waits in Python's own library, which makes conditions, queues and ends of threads of locks."""
    return os.path.basename(stack.frames[0].file) in ("threading.py", "queue.py")


def _java_threads(pid: int, inner_tids: Mapping[int, int]) -> dict[int, JavaStack]:
    """Return thread -> its stack as its JVM describes it; empty if the process is no JVM, or if that does not listen."""
    from perfpy.capture.runtimes.attaching import is_java, thread_dump
    from perfpy.capture.runtimes.hotspot_monitors import java_stacks
    from perfpy.kernel.procfs import read_state

    state = read_state(pid, pid)
    if state is None or state.letter in "Tt" or not is_java(pid):  # a stopped one cannot answer
        return {}
    tids = {inner: tid for tid, inner in inner_tids.items()}
    try:
        return {tids[stack.tid]: stack for stack in java_stacks(thread_dump(pid)) if stack.tid in tids}
    except OSError:  # of another user, or too busy
        return {}


def _java_target(tid: int, stacks: Mapping[int, JavaStack], target: WaitTarget) -> WaitTarget:
    """Return what a thread of a JVM waits for: in a call for descriptors what the kernel says, else a lock or what Java's library calls."""
    stack = stacks[tid]
    if target.call not in ("", "futex") or not stack.frames:
        return target
    holder = next((other for other, one in stacks.items() if stack.lock and stack.lock in one.holds), 0)
    if stack.enters or holder:
        return target._replace(lock=stack.lock, holder=holder, monitor=stack.of_class, is_monitor=stack.enters, thread=0)
    return target._replace(call=stack.frames[0].function, of=stack.of_class, lock=0, thread=0)


def _goroutines(pid: int, procfs: ProcFs) -> list[ObservedState]:
    """Return the goroutines of a Go program; nothing if the process is none."""
    from perfpy.capture.unwinding.observed_states import ObservedStates

    observed = ObservedStates(procfs)
    try:
        observed.note([pid])
        observed.look()
        return [state for state in observed.states() if state.kind == "go"]
    finally:
        observed.close()


def _with_recorded_stacks(unread: Sequence[_Unread], procfs: ProcFs, required: set[int], *, is_native: bool) -> Iterator[CurrentProcess]:
    """Record the processes for a moment, and yield each with its native stacks; processes that end are left out. Raises PerfError."""
    wanted = {tid: one.process.pid for one in unread for tid in one.tids}
    locks = {
        thread.tid: thread.target.lock
        for one in unread
        for thread in one.process.threads
        if thread.target.lock and not thread.target.monitor
    }
    stacks: dict[int, list[NativeFrame]] = {}
    names: dict[tuple[int, int], str] = {}
    problem: PerfError | None = None
    try:
        stacks, names = _recorded_stacks(wanted, locks, is_native=is_native)
    except PerfError as error:
        problem = error
    for one in unread:
        process = one.process
        if problem is None:
            threads = [
                _with_frames(thread, stacks.get(thread.tid, ()), names.get((process.pid, thread.target.lock), ""))
                for thread in process.threads
            ]
            yield process._replace(threads=threads, missing="")
        elif _has_ended(process.pid, procfs):
            if process.pid in required:
                raise PerfError(f"process {process.pid} has ended")
        elif len(unread) > 1:  # another one may have ended
            yield from _with_recorded_stacks([one], procfs, required, is_native=is_native)
        elif one.is_needed:
            raise problem
        else:
            yield process._replace(missing=f"{len(one.tids)} more {plural(len(one.tids), 'thread')} without Python functions: {problem}")


def _with_frames(thread: CurrentThread, frames: Sequence[NativeFrame], lock: str) -> CurrentThread:
    """Return a thread with its stack, which may tell that it waits for a condition or semaphore: the call alone can look like a mutex."""
    inner = [frame.function for frame in frames[:_INNERMOST]]
    if any(map(_NO_MUTEX.match, inner)) and not any("lock" in name for name in inner):
        return thread._replace(frames=frames, target=thread.target._replace(lock=0, holder=0))
    return thread._replace(frames=frames, lock=lock)


def _recorded_stacks(
    tids: Mapping[int, int], locks: Mapping[int, int], *, is_native: bool
) -> tuple[dict[int, list[NativeFrame]], dict[tuple[int, int], str]]:
    """Record processes for a moment; return the last stack of each thread, and the names of locks by process and address.

    Args:
        tids: the threads whose stacks are wanted -> their processes.
        locks: thread -> the address of the mutex that it waits for.
        is_native: whether the processes have no runtime that has names of its own.
    """
    import numpy as np

    from perfpy.abi.columns import pieces
    from perfpy.analysis.callchains import frames_of
    from perfpy.analysis.locations import SourceTexts
    from perfpy.analysis.named_samples import function_names
    from perfpy.recording import Recording
    from perfpy.symbols.variables import name_locks

    with tempfile.TemporaryDirectory(prefix="perfpy-stacks-") as folder:
        path = f"{folder}/perf.data"
        target = ",".join(map(str, sorted({*tids.values()})))
        stacks_of = "--unwind" if is_native else "--jit"
        load_command("record").run("record", ["-q", "-N", stacks_of, "--off-cpu", "-o", path, "-p", target, "--", "sleep", _SECONDS])
        with Recording(path) as recording:
            _, symbolizer = recording.naming()
            chains: dict[int, np.ndarray[tuple[int], np.dtype[np.int32]]] = {}
            for batch in recording.data.batches({"pid", "tid", "time", "callchain"}):
                columns = batch.columns
                key = recording.data.settled_keys(batch)
                frames, counts = frames_of(columns["callchain"].gather(), columns["pid"], key, symbolizer)
                rows = zip(columns["tid"].tolist(), pieces(frames, np.cumsum(counts)[:-1]), strict=True)
                chains |= {tid: chain for tid, chain in rows if tid in tids and len(chain)}
            symbolizer.resolve()
            names: dict[tuple[int, int], str] = {}
            for pid in {*tids.values()}:
                of_process = {locks[tid]: chain for tid, chain in chains.items() if tids[tid] == pid and locks.get(tid)}
                names |= {(pid, address): name for address, name in name_locks(of_process, symbolizer).items()}
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
    name = f" ({visible(process.name)})" if process.name else ""
    yield f"Process {process.pid}{name}: {visible(process.command)}" + (f"  (Python {process.version})" if process.version else "")
    yield from _deadlocks(process.threads)
    if process.zombies:
        ended = plural(process.zombies, "child has", "children have")
        yield f"{process.zombies:,} {ended} ended, and it has not waited for {plural(process.zombies, 'it', 'them')} (zombies)"
    yield from _goroutine_lines(process.goroutines)
    has_other_stacks = bool(process.goroutines) or any(thread.name for thread in process.threads)
    without: list[CurrentThread] = []
    for threads in _equal_stacks(process.threads):
        first = threads[0]
        if has_other_stacks and not first.target.holder and (not first.frames or _is_of_library(first)):
            without += threads
            continue
        yield ""
        yield _heading(first) if len(threads) == 1 else _heading_of_several(threads)
        if first.python:
            for number, frame in enumerate(own_python_part(first.python.frames)):
                yield f"    {visible(frame.function)} ({visible(frame.file)}:{frame.line or '?'})"
                variables = first.python.variables[number] if number < len(first.python.variables) else []
                yield from (f"        {visible(name)} = {visible(value)}" for name, value in variables)
        else:
            yield from map(_native_line, _own_part(first.frames))
    if without:
        yield f"\n{len(without)} more {plural(len(without), 'thread')} of the runtime: {_names(without)}"
    if process.missing:
        yield f"\n{process.missing}"


def running_lines(process: CurrentProcess) -> Iterator[str]:
    """Yield a line for each thread that runs: its function and the callers."""
    from perfpy.views.verdict.sentence import function_text, source  # --help needs no numpy

    for thread in process.threads:
        if thread.state != _RUNS:
            continue
        if thread.python:
            texts = [
                f"{visible(one.function)}() ({visible(os.path.basename(one.file))}:{one.line})"
                for one in own_python_part(thread.python.frames)
            ]
        else:
            frames = _own_part(thread.frames)
            scripts = [one for one in frames[1:] if one.function.startswith(_SCRIPT)]  # of the program, not of its virtual machine
            shown = [*frames[:1], *scripts] if scripts else frames
            lines = ((one.file, one.line) if one.file and one.line else None for one in shown)
            texts = [f"{function_text(one.function)}{source(one.function, line, one.dso)}" for one, line in zip(shown, lines, strict=True)]
        name = visible((thread.python.name if thread.python else "") or thread.name or thread.comm)
        of_process = f" of process {process.pid}" if thread.tid != process.pid else ""
        where = f" {', called from '.join(texts[: 1 + _CALLERS])}" if texts else ""
        yield f"Thread {thread.tid} ({name}){of_process} runs{where}"


def _goroutine_lines(states: Sequence[ObservedState]) -> Iterator[str]:
    """Yield the goroutines, those of the program first; the runtime's own ones are counted."""
    own = [state for state in states if any(map(_is_shown, state.frames)) or (state.reason in _GO_RUNS and _is_of_program(state))]
    for state in own:
        yield f"\n{state.seen} {plural(state.seen, 'goroutine')}: {visible(state.reason)}"
        shown = [number for number, frame in enumerate(state.frames) if _is_shown(frame)]
        frames = state.frames[shown[0] : shown[-1] + 1] if shown else []
        yield from (_native_line(NativeFrame(*frame, "")) for frame in frames)
        yield from (f"    started in {_native_line(NativeFrame(*frame, '')).strip()}" for frame in state.began[1:] if _is_shown(frame))
    others = sum(state.seen for state in states) - sum(state.seen for state in own)
    if others:
        yield f"\n{others} more {plural(others, 'goroutine')} of the runtime"


def _is_of_program(state: ObservedState) -> bool:
    """Whether a goroutine began with main() or a function that is not of the runtime."""
    return any(_is_shown(frame) or frame.function == "runtime.main" for frame in state.began[:1])


def _is_shown(frame: ObservedFrame) -> bool:
    return not frame.function.startswith("runtime.")


def _is_of_library(thread: CurrentThread) -> bool:
    """Whether Java's library has started a thread for itself, as for finalizers."""
    of_library = thread.frames[0].dso == _JVM and all(_LIBRARY_OF_JAVA.match(frame.function) for frame in thread.frames)
    return of_library and thread.frames[-1].function != "java.lang.Thread.run"


def _equal_stacks(threads: Sequence[CurrentThread]) -> list[list[CurrentThread]]:
    """Return groups of threads that wait for the same at the same place, in the order of their first ones; few equal ones stay alone."""
    groups: dict[object, list[CurrentThread]] = {}
    for thread in threads:
        key = (thread.state, waiting_text(thread), *thread.frames) if thread.frames and not thread.python else thread.tid
        groups.setdefault(key, []).append(thread)
    return [part for group in groups.values() for part in ([group] if len(group) >= _EQUAL else [[one] for one in group])]


def _heading_of_several(threads: Sequence[CurrentThread]) -> str:
    first = threads[0]
    wait = f" in {waiting_text(first)}" if waiting_text(first) and first.state != _RUNS else ""
    return f"{len(threads)} threads: {first.state}{wait}: {_names(threads)}"


def _names(threads: Sequence[CurrentThread]) -> str:
    names = [f"{thread.tid} ({visible(thread.name or thread.comm)})" for thread in threads[:_NAMED]]
    return ", ".join(names) + (f" and {len(threads) - _NAMED} more" if len(threads) > _NAMED else "")


def _heading(thread: CurrentThread) -> str:
    python = thread.python
    name = (python.name if python else "") or thread.name or thread.comm
    wait = f" in {waiting_text(thread)}" if waiting_text(thread) and thread.state != _RUNS else ""
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
    name = (thread.python.name if thread.python else "") or thread.name
    name = f" ({visible(name)})" if name else ""
    return f"thread {thread.tid}{name}{_method(thread)} waits for {lock}, which thread {thread.target.holder} holds"


def _lock_name(thread: CurrentThread) -> str:
    target = thread.target
    if target.monitor and not target.is_monitor:
        return f"the {visible(_JAVA_LOCK.sub('', target.monitor))} at {target.lock:#x}"
    if target.monitor:
        return f"the monitor of {visible(target.monitor)} at {target.lock:#x}"
    return f"the mutex {visible(thread.lock) or f'at {target.lock:#x}'}"


def _method(thread: CurrentThread) -> str:
    """Return the innermost function of a Python or Java program, as ", in Bank.transfer(),"; "" without one."""
    from perfpy.analysis.verdict.categories import is_packaged
    from perfpy.views.verdict.sentence import function_text  # only for deadlocks

    for called in thread.python.frames if thread.python else ():
        if not is_packaged(called.file):
            return f", in {visible(called.function)}() ({visible(os.path.basename(called.file))}:{called.line}),"
    for frame in thread.frames:
        if frame.dso == _JVM and not _LIBRARY_OF_JAVA.match(frame.function):
            line = f" ({visible(frame.file)}:{frame.line})" if frame.line else ""
            return f", in {visible(frame.function)}(){line},"
        if _JAVA_METHOD.match(frame.function):
            return f", in {function_text(frame.function)},"
    return ""


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
    if frame.function.startswith(_SCRIPT):
        from perfpy.views.readable import at_a_glance  # rarely needed

        return f"    {visible(at_a_glance(frame.function))}"
    origin = f"{os.path.basename(frame.file)}:{frame.line}" if frame.file and frame.line else frame.dso
    return f"    {visible(frame.function)}" + (f" ({visible(origin)})" if origin else "")


def _values(process: CurrentProcess) -> dict[str, object]:
    return {
        "pid": process.pid,
        "command": process.command,
        "name": process.name,
        "version": process.version,
        "threads": [_thread_values(thread) for thread in process.threads],
        "goroutines": [_goroutine_values(state) for state in process.goroutines],
        "zombies": process.zombies,
        "others": sum(not thread.python and not thread.frames for thread in process.threads),
    }


def _goroutine_values(state: ObservedState) -> dict[str, object]:
    return {
        "count": state.seen,
        "state": state.reason,
        "frames": [frame._asdict() for frame in state.frames],
        "started_in": [frame._asdict() for frame in state.began[1:]],
    }


def _thread_values(thread: CurrentThread) -> dict[str, object]:
    python = thread.python
    frames = [frame._asdict() for frame in (own_python_part(python.frames) if python else thread.frames)]
    if python:
        frames = [frame | {"locals": dict(values)} for frame, values in zip(frames, python.variables, strict=False)] or frames
    return {
        "tid": thread.tid,
        "comm": thread.comm,
        "name": python.name if python else thread.name,
        "state": thread.state,
        "wait": python.wait if python else "",
        "has_gil": bool(python and python.has_gil),
        "is_certain": python.is_certain if python else True,
        "waits_for": {**thread.target._asdict(), "lock_name": thread.lock},
        "frames": frames,
    }


command = PerfCommand(StacksCommandOptions, run)
