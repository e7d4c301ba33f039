"""`perfpy why`: explain where the time of a program went, and who waited for whom."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from perfpy.abi.system_calls import numbers_by_name
from perfpy.capture.runtimes.attaching import runtime_of_process
from perfpy.capture.runtimes.known_runtimes import runtimes_of
from perfpy.capture.session.inputs import Wakeups
from perfpy.capture.session.unwound_output import MOST_WAIT
from perfpy.capture.targets import Workload
from perfpy.cli.line.input_recording import open_recording
from perfpy.cli.line.option_parsing import Flag, PerfCommand, Value, fail, option, program_to_run
from perfpy.cli.line.perfconfig import load_config
from perfpy.cli.line.shared_options import InputOptions, QuietOptions, SymbolFileOptions, VerboseOptions, symbol_options_of
from perfpy.cli.output.terminal import is_terminal, print_lines, width, wrap_lines
from perfpy.cli.record import RecordCommandOptions, make_recorder
from perfpy.cli.record import command as record_command
from perfpy.cli.record_and_report import stack_options
from perfpy.errors import KernelRefusedError, plural
from perfpy.kernel.procfs import ProcFs
from perfpy.kernel.sysfs import Tracefs
from perfpy.live.priority import HigherPriority
from perfpy.untrusted.destinations import temporary_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from perfpy.tools.why.tasks import StartedCommand
    from perfpy.tools.why.watched_threads import ThreadWatch, WatchedWait


_SECONDS: Final = 10.0  # of a recording of processes


class WhyCommandOptions(InputOptions, VerboseOptions, QuietOptions, SymbolFileOptions):
    """Options of `perfpy why`."""

    pid: str = option("-p,--pid", Value(default=""), "explain these processes (comma-separated)", metavar="<pid>")
    duration: float = option("-d,--duration", Value(float, default=_SECONDS), "seconds to record a process; 0: until Ctrl-C (default: 10)")
    python: bool = option("--python", Flag(), "name Python functions and lines, also of other processes")
    as_json: bool = option("-j,--json", Flag(), "print JSON")
    output: str = option("-o,--output", Value(default=""), "keep the recording in this file", metavar="<file>")
    chrome_trace: str = option(
        "--chrome-trace", Value(default=""), "also write the states of threads for Perfetto (JSON)", metavar="<file>"
    )
    html: str = option("--html", Value(default=""), "also write one HTML page with who waited for whom", metavar="<file>")
    workload: tuple[str, ...] = program_to_run()


_LONGEST = 365 * 86400  # seconds
_MOST_PIDS = 1 << 31


def run(options: WhyCommandOptions) -> int:
    """Explain why a program is slow: what its threads do, what they wait for, and which thread keeps them waiting."""
    pids = _pids(options.pid)
    if options.duration < 0 or options.duration > _LONGEST:
        fail(f"--duration {options.duration}: a number of seconds up to {_LONGEST}")
    if options.workload and options.input:
        fail(f"-i {options.input} excludes a command to run")
    if options.workload or (pids and not options.input):
        check_processes(pids)
        if not options.workload and not options.quiet:
            until = f"for {options.duration:g} seconds; Ctrl-C shows the answer earlier" if options.duration else "until Ctrl-C"
            print(f"recording {plural(len(pids), 'process', 'processes')} {', '.join(map(str, pids))} {until}", file=sys.stderr)
        if not can_record():
            return watch(options, pids)
        return record_and_explain(options, lambda path, started: explain_file(options, path, pids, started))
    explain_file(options, options.input, pids)
    return 0


def explain_file(options: WhyCommandOptions, path: str, pids: list[int], started: StartedCommand | None = None) -> None:
    """Print the explanation of a recording. started: its command, of a recording of this process."""
    from perfpy.tools.why.explanation import explain
    from perfpy.tools.why.json import why_json
    from perfpy.tools.why.text import why_lines

    with open_recording(path, force=options.force, quiet=options.quiet) as recording:
        symbolizer = recording.symbolizer(symbol_options_of(options, load_config(), recording, force=options.force))
        explanation = explain(recording.data, symbolizer, pids, started)
        if options.chrome_trace or options.html:
            from perfpy.cli.output.output_files import write_text  # rarely needed
        if options.chrome_trace:
            from perfpy.tools.why.json import chrome_trace

            write_text(options.chrome_trace, chrome_trace(explanation))
        if options.html:
            from perfpy.tools.why.json import wait_chains
            from perfpy.tools.why.verdict import verdict
            from perfpy.views.page.page import page_of, page_parts

            symbols = symbol_options_of(options, load_config(), recording, force=options.force)
            page = page_of(
                recording, page_parts(recording, symbols=symbols), symbols, None, waits=wait_chains(explanation), cause=verdict(explanation)
            )
            write_text(options.html, [page])
        if options.as_json:
            print(why_json(explanation))
        else:
            columns = width() if is_terminal() else None
            print_lines(wrap_lines(why_lines(explanation, stacks=options.verbose > 0, width=columns)))


def _pids(text: str) -> list[int]:
    words = text.split(",") if text else []
    if not all(word.isdecimal() and word.isascii() and 0 < int(word) < _MOST_PIDS for word in words):
        fail(f"-p {text!r}: expected process ids, separated by commas")
    return [int(word) for word in words]


command = PerfCommand(WhyCommandOptions, run, takes_processes=True)


_STACK: Final = "call-graph=dwarf,stack-size={size}"
_STACK_SIZE: Final = 4096
_RUNTIME_STACK_SIZE: Final = 8192  # an interpreter's own calls use more; twice as much loses events of a busy machine
_NICER: Final = 10
_CALM: Final = 3000  # context switches a second and CPU
_LEAST_LOOK: Final = 0.1  # seconds in which they are counted
_NO_STACK: Final = "call-graph=no"
_FREQUENCY: Final = 499  # samples a second
_PAGES: Final = 16384  # of the ring buffers of all CPUs
_FEWEST_PAGES: Final = 1024  # of one
_MOST_PAGES: Final = 8192
_CALLS: Final = (
    *("futex", "nanosleep", "clock_nanosleep", "wait4", "waitid", "fsync", "fdatasync", "sync", "syncfs", "msync", "flock"),
    *("poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "recvfrom", "recvmsg", "accept", "accept4", "connect"),
)


def check_processes(pids: list[int]) -> None:
    """Reject processes that do not exist."""
    for pid in pids:
        if not os.path.isdir(f"/proc/{pid}"):
            fail(f"-p {pid}: no such process")


def record_and_explain(options: WhyCommandOptions, explain: Callable[[str, StartedCommand], None]) -> int:
    """Record a command or processes, explain the recording, and return the command's exit status."""
    from perfpy.tools.why.tasks import StartedCommand

    with temporary_folder("perfpy-why-") as folder:
        path = options.output or f"{folder}/perf.data"
        begun, switches = time.monotonic(), ProcFs().context_switches()
        pids = _pids(options.pid)
        arguments = [*_arguments(path, _stacks_of(options, pids)), *_target(options)]
        with _hurry():
            recorder = make_recorder(RecordCommandOptions.read(record_command.parser(arguments)))
        recorder.sleeping = family = (*pids, *ProcFs().descendants(pids))
        recorder.options = recorder.options._replace(sampling=recorder.options.sampling._replace(unwind_around=family))
        time.sleep(max(_LEAST_LOOK - (time.monotonic() - begun), 0.0))
        rate = (ProcFs().context_switches() - switches) / (time.monotonic() - begun)
        recorder.is_calm = rate <= _CALM * (os.cpu_count() or 1)
        recorder.at_end = _hurry
        summary = recorder.run()
        if summary.left:
            stacks = f"{summary.left:,} {plural(summary.left, 'stack')}"
            print(
                f"note: {stacks} could not be resolved within {MOST_WAIT:g} seconds; the kernel's functions name these waits",
                file=sys.stderr,
            )
        with _hurry():
            explain(path, StartedCommand(os.getpid(), summary.pid, options.workload[0] if options.workload and not options.pid else ""))
    return summary.exit_code


def _hurry(helpers: Collection[int] = ()) -> HigherPriority:
    """Return a context for work after the recording, for which the user waits. helpers: further processes that do it."""
    return HigherPriority(_NICER, realtime=MOST_WAIT, also=helpers)


def _target(options: WhyCommandOptions) -> list[str]:
    if options.workload:
        return ["--", *options.workload]
    if options.duration:
        return ["--", "sleep", str(options.duration)]
    return []


def _pages() -> int:
    """Return the size of a ring buffer: a power of two that leaves room for a busy machine, on which the recorder has to wait for a CPU."""
    pages = _MOST_PAGES
    while pages > _FEWEST_PAGES and pages * (os.cpu_count() or 1) > _PAGES:
        pages //= 2
    return pages


def _stacks_of(options: WhyCommandOptions, pids: Sequence[int]) -> str:
    """Return the option that gives the stacks of the target the names of its runtime's functions: --python, --jit or --unwind."""
    if options.python:
        return "--python"
    runtimes = filter(None, map(runtime_of_process, pids)) if pids else runtimes_of(options.workload)
    return stack_options(runtimes)[0]


def _arguments(path: str, stacks: str) -> list[str]:
    """Return the arguments of `perfpy record`, without the target.

    All CPUs are recorded, not only the process: other processes use its CPUs, and end its waits.
    """
    numbers = numbers_by_name(os.uname().machine)
    filter_text = " || ".join(f"id == {numbers[name]}" for name in _CALLS if name in numbers)
    arguments = ["-q", "-a", "-m", str(_pages()), "-k", "monotonic", "--unwind", "-o", path]
    # what the memory of a runtime tells is gone when its program has ended
    arguments += ["--unwind-late"] if stacks == "--unwind" else [stacks]
    stack = _STACK.format(size=_STACK_SIZE if stacks == "--unwind" else _RUNTIME_STACK_SIZE)
    arguments += ["-e", f"sched:sched_switch/period=1,{stack}/", "-e", f"sched:sched_waking/period=1,{stack}/"]
    arguments += ["-e", f"sched:sched_wakeup_new/period=1,{_NO_STACK}/", "-e", f"raw_syscalls:sys_enter/period=1,{_NO_STACK}/"]
    arguments += ["--filter", filter_text] if filter_text else []
    return [*arguments, "-e", f"cpu-clock/freq={_FREQUENCY},{stack}/"]


_INTERVAL: Final = 0.004  # seconds between two readings
_SHARE: Final = 4  # a reading takes at most one part in this number of the time
_NOTE: Final = (
    "note: no access to tracepoints; threads are watched through /proc: who ends a wait, stacks and spinning are unknown;"
    " run as root for the whole answer"
)
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def can_record() -> bool:
    """Whether this user may record the scheduler's tracepoints of all CPUs."""
    try:
        has_switch_event = Tracefs().event_id("sched", "sched_switch") is not None
    except KernelRefusedError:
        return os.geteuid() == 0  # tracefs may only not be mounted: record explains it
    level = ProcFs().setting("kernel.perf_event_paranoid")
    return os.geteuid() == 0 or (has_switch_event and level is not None and level < 0)


def watch(options: WhyCommandOptions, pids: list[int]) -> int:
    """Watch a command or processes, print what they did, and return the command's exit status."""
    from perfpy.tools.why.watched_threads import ThreadWatch, watched_json, watched_lines

    for name, value in (
        ("-o", options.output),
        ("--chrome-trace", options.chrome_trace),
        ("--html", options.html),
        ("--python", options.python),
    ):
        if value:
            fail(f"{name} needs access to tracepoints; run as root")
    if not options.quiet:
        print(_NOTE, file=sys.stderr)
    with ExitStack() as stack:
        signals = stack.enter_context(Wakeups(_SIGNALS))
        workload = stack.enter_context(Workload(options.workload)) if options.workload else None
        if workload is not None:
            workload.start()
        watched = pids or ([workload.pid] if workload is not None else [])
        thread_watch = ThreadWatch(watched)
        _look(thread_watch, workload, pids, signals, 0.0 if workload else options.duration)
    threads = thread_watch.times()
    waits = {thread.tid: _waits(thread_watch, thread.tid, thread.columns) for thread in threads}
    if options.as_json:
        print(watched_json(watched[0], threads, waits, thread_watch.parent_of))
    else:
        columns, all_threads = width() if is_terminal() else None, options.verbose > 0
        print_lines(wrap_lines(watched_lines(watched[0], threads, waits, thread_watch.parent_of, all_threads=all_threads, width=columns)))
    return workload.ended.exit_code if workload is not None and workload.ended else 0


def _look(seen: ThreadWatch, workload: Workload | None, pids: list[int], signals: Wakeups, duration: float) -> None:
    """Read the states until the end of the command, of the processes or of the time, or until a signal."""
    end = time.monotonic() + duration if duration else None
    while True:
        took = seen.look() / 1e9
        if workload is not None and workload.poll() is not None:
            return
        if workload is None and not any(os.path.isdir(f"/proc/{pid}") for pid in pids):
            return
        if end is not None and time.monotonic() >= end:
            return
        if select.select([signals.fileno()], [], [], max(_INTERVAL, took * _SHARE))[0]:
            numbers = signals.read()
            if workload is None or signal.SIGINT not in numbers:
                return


def _waits(seen: ThreadWatch, tid: int, columns: dict[str, int]) -> list[WatchedWait]:
    from perfpy.analysis.verdict import wait_reasons as reasons
    from perfpy.tools.why.tasks import RUNNING
    from perfpy.tools.why.watched_threads import WatchedWait

    rows = [WatchedWait(tid, RUNNING, "", 0, columns["running"]), WatchedWait(tid, reasons.CPU, "", 0, columns["runnable"])]
    rows += [WatchedWait(tid, wait.kind, wait.call, wait.lock, passed) for wait, passed in seen.waits(tid).items()]
    return rows
