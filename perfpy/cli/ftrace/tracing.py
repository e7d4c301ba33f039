"""One measurement with a function tracer: its settings, the program, and the lines of the trace."""

from __future__ import annotations

import os
import re
import select
import signal
import time
from typing import TYPE_CHECKING, Final

from perfpy.abi.cpu_list import parse_cpu_list
from perfpy.capture.workload import Workload
from perfpy.cli.line.options import fail
from perfpy.kernel.function_tracer import FUNCTION, GRAPH, FunctionTracer
from perfpy.kernel.tracefs import Tracefs, mount_as_root

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.cli.ftrace.options import FtraceOptions, FtraceProfileOptions, FtraceTraceOptions

_WAIT: Final = 0.1  # seconds between looks at the program
_PIECE: Final = 1 << 16
_SIZE: Final = re.compile(r"(\d{1,12})([BKMG])", re.IGNORECASE)
_UNITS: Final = {"B": 0, "K": 10, "M": 20, "G": 30}
_SWITCHES: Final = {
    "call-graph": ("options/func_stack_trace", "1"), "irq-info": ("options/irq-info", "1"),
    "nosleep-time": ("options/sleep-time", "0"), "noirqs": ("options/funcgraph-irqs", "0"), "tail": ("options/funcgraph-tail", "1"),
}  # fmt: skip
_VERBOSE: Final = ("options/funcgraph-proc", "options/funcgraph-abstime", "options/latency-format")
_NUMBERS: Final = {"thresh": "tracing_thresh", "depth": "max_graph_depth"}


class FunctionTracing:
    """A measurement.

    Attributes:
        exit_code: of the program.
        lost: whether the kernel dropped events because its buffer was full.
        missing: settings that this kernel does not have.

    Args:
        tracer: GRAPH or FUNCTION.
        settings: files of the tracer and their texts.
        delay: milliseconds before tracing starts.
    """

    def __init__(self, options: FtraceOptions, tracer: str, settings: dict[str, str], *, delay: int = 0) -> None:
        if options.command and (options.pid or options.tid):
            fail("-p and --tid exclude a command")
        self._options = options
        self._tracer = tracer
        self._settings = settings
        self._delay = delay
        self._stopped = False
        self.exit_code = 0
        self.lost = False
        self.missing: list[str] = []

    def lines(self) -> Iterator[str]:
        """Yield the lines of the trace while the program runs, or until Ctrl-C; the heading comes first. Raises KernelRefusedError."""
        root = Tracefs(mount=mount_as_root).root
        with FunctionTracer(root, self._tracer) as tracer:
            self._set(tracer)
            previous = {number: signal.signal(number, self._stop) for number in (signal.SIGINT, signal.SIGTERM)}
            try:
                if self._options.command:
                    with Workload(self._options.command) as workload:
                        yield from self._follow(tracer, workload)
                else:
                    yield from self._follow(tracer, None)
            finally:
                for number, handler in previous.items():
                    signal.signal(number, handler)

    def _stop(self, _number: int, _frame: object) -> None:
        self._stopped = True

    def _set(self, tracer: FunctionTracer) -> None:
        tracer.set_defaults()
        for name, text in self._settings.items():
            tracer.set(name, text)
        if self._options.cpu:
            tracer.set("tracing_cpumask", _cpu_mask(self._options.cpu))
        threads = [*_numbers(self._options.tid, "--tid")]
        for pid in _numbers(self._options.pid, "-p"):
            threads += _threads_of(pid)
        if threads:
            tracer.set("set_ftrace_pid", "\n".join(threads))
        self.missing = tracer.missing

    def _follow(self, tracer: FunctionTracer, workload: Workload | None) -> Iterator[str]:
        if workload is not None and not self._options.all_cpus:
            tracer.set("set_ftrace_pid", str(workload.pid))
        tracer.choose()
        descriptor = os.open(f"{tracer.folder}/trace_pipe", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not self._delay:
                tracer.start()
            yield from _heading(tracer)
            if workload is not None:
                workload.start()
            if self._delay:
                time.sleep(self._delay / 1000)
                tracer.start()
            rest = ""
            while not self._stopped and (workload is None or workload.poll() is None):
                select.select([descriptor], [], [], _WAIT)
                lines, rest = self._read(descriptor, rest)
                yield from lines
            tracer.stop()
            lines, rest = self._read(descriptor, rest)
            yield from lines
            if rest:
                yield rest
            if workload is not None:
                if self._stopped:
                    workload.kill()
                self.exit_code = workload.wait().exit_code
        finally:
            os.close(descriptor)

    def _read(self, descriptor: int, rest: str) -> tuple[list[str], str]:
        """Return the complete lines that the kernel has now, and the begin of the next one."""
        pieces = [rest.encode("utf-8", "surrogateescape")]
        total = 0
        while total < 64 * _PIECE:
            try:
                piece = os.read(descriptor, _PIECE)
            except BlockingIOError:
                break
            if not piece:
                break
            pieces.append(piece)
            total += len(piece)
        *lines, last = b"".join(pieces).decode("utf-8", "surrogateescape").split("\n")
        self.lost = self.lost or any(" [LOST " in line for line in lines)
        return lines, last


def _heading(tracer: FunctionTracer) -> Iterator[str]:
    """Yield the kernel's heading of the trace."""
    for line in tracer.read("trace").splitlines():
        if not line.startswith("#"):
            return
        yield line


def trace_settings(options: FtraceTraceOptions) -> tuple[str, dict[str, str]]:
    """Return the tracer and its settings for `ftrace trace`. Rejects options of the other tracer."""
    if options.graph_funcs or options.nograph_funcs:
        tracer = GRAPH
    elif options.trace_funcs or options.notrace_funcs:
        tracer = options.tracer or FUNCTION
    else:
        tracer = options.tracer or GRAPH
    settings = filter_settings(options)
    if options.inherit:
        settings["options/function-fork"] = "1"
    settings.update(switch_settings(options.func_opts, "--func-opts", ("call-graph", "irq-info")))
    settings.update(graph_settings(options.graph_opts))
    return tracer, settings


def filter_settings(options: FtraceTraceOptions | FtraceProfileOptions) -> dict[str, str]:
    """Return the settings of -T, -N, -G, -g and -m."""
    lists = {
        "set_ftrace_filter": options.trace_funcs, "set_ftrace_notrace": options.notrace_funcs,
        "set_graph_function": options.graph_funcs, "set_graph_notrace": options.nograph_funcs,
    }  # fmt: skip
    settings = {name: "\n".join(functions) for name, functions in lists.items() if functions}
    if options.buffer_size:
        settings["buffer_size_kb"] = str(_kilobytes(options.buffer_size))
    return settings


def graph_settings(text: str) -> dict[str, str]:
    """Return the settings of --graph-opts."""
    return switch_settings(text, "--graph-opts", ("nosleep-time", "noirqs", "verbose", "thresh", "depth", "tail"))


def switch_settings(text: str, name: str, known: tuple[str, ...]) -> dict[str, str]:
    """Return the settings of words with commas between them. Rejects unknown ones."""
    settings: dict[str, str] = {}
    for word in filter(None, text.split(",")):
        switch, equals, value = word.partition("=")
        if switch not in known:
            fail(f"{name} {word}: unknown; expected {', '.join(known)}")
        if switch in _NUMBERS:
            if not re.fullmatch(r"\d{1,9}", value, re.ASCII):
                fail(f"{name} {word}: a number, as in {switch}=10")
            settings[_NUMBERS[switch]] = value
        elif equals:
            fail(f"{name} {word}: {switch} takes no value")
        elif switch == "verbose":
            settings.update(dict.fromkeys(_VERBOSE, "1"))
        else:
            settings.update([_SWITCHES[switch]])
    return settings


def _kilobytes(text: str) -> int:
    match = _SIZE.fullmatch(text)
    size = int(match[1]) << _UNITS[match[2].upper()] if match else 0
    if size < 1024:
        fail(f"-m {text}: a size such as 512K or 4M")
    return size >> 10


def _cpu_mask(text: str) -> str:
    """Return CPUs as the kernel's mask: hexadecimal words of 32 bits."""
    try:
        cpus = parse_cpu_list(text)
    except ValueError as error:
        fail(f"-C {text}: {error}")
    mask = sum(1 << cpu for cpu in cpus)
    words = [f"{mask >> shift & 0xFFFFFFFF:x}" for shift in range(0, max(mask.bit_length(), 1), 32)]
    return ",".join([words[-1], *(word.zfill(8) for word in reversed(words[:-1]))])


def _numbers(text: str, name: str) -> list[str]:
    words = [word for word in text.split(",") if word]
    for word in words:
        if not re.fullmatch(r"\d{1,10}", word, re.ASCII):
            fail(f"{name} {text}: expected numbers, with commas between them")
    return words


def _threads_of(pid: str) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        fail(f"-p {pid}: no such process")
