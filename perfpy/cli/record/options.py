"""The options of `perfpy record`, as declarations.

What enters: nothing. What leaves: two decorators: the options that there
are, and those of perf's that there are not. Names and meanings:
perf-record(1).
"""

from __future__ import annotations

from typing import Final

from perfpy.capture.option_values import parse_delay, parse_size, parse_switch_output
from perfpy.capture.sampling.options import MAX_FREQ
from perfpy.cli.line.options import Option, lacking_options, together

_LONGEST_PERIOD: Final = (1 << 63) - 1  # the kernel's limit


def frequency(text: str) -> int:
    """-F: a number of Hz, or max."""
    if text == "max":
        return MAX_FREQ
    if not text.isdecimal():
        raise ValueError("a number of Hz, or max")
    return int(text)


def period(text: str) -> int:
    """-c: a number of events."""
    if not text.isdecimal() or int(text) > _LONGEST_PERIOD:
        raise ValueError(f"a whole number up to {_LONGEST_PERIOD}")
    return int(text)


def _size_of(option: str) -> type:
    class Size(int):
        """Bytes, given with a unit."""

        def __new__(cls, text: str) -> Size:
            return super().__new__(cls, parse_size(text, option))

    return Size


_TARGET: Final = (
    Option("-a", "--all-cpus", is_flag=True, help="record all CPUs (the default without a command)"),
    Option("-p", "--pid", metavar="<pid>", default="", help="record these processes (comma-separated)"),
    Option("-t", "--tid", metavar="<tid>", default="", help="record these threads (comma-separated)"),
    Option("-u", "--uid", metavar="<user>", default="", help="record the threads of this user"),
    Option("-C", "--cpu", metavar="<cpu>", default="", help="record these CPUs, such as 0-2,5"),
    Option("-G", "--cgroup", metavar="<name>", default="", help="record the tasks of these cgroups only (with -a)"),
    Option("--per-thread", is_flag=True, help="one buffer for each thread instead of each CPU"),
    Option("-i", "--no-inherit", is_flag=True, help="leave out child tasks"),
    Option("-D", "--delay", type=parse_delay, metavar="<ms>", default=0,
           help="start that much later; -1: only when told by --control; 10-20,30-40: in these ranges"),
    Option("--control", metavar="<fd:ctl-fd[,ack-fd] or fifo:ctl-fifo[,ack-fifo]>", default="",
           help="take commands: enable, disable, evlist, stop, ping"),
    Option("--exclude-perf", is_flag=True, help="leave out tracepoints hit by perfpy itself"),
)  # fmt: skip

_SAMPLING: Final = (
    Option("-e", "--event", multiple=True, metavar="<event>", help="what to record; perfpy list shows the events"),
    Option("--filter", multiple=True, metavar="<filter>", help="keep hits of the tracepoints of the last -e that satisfy this"),
    Option("--event-files", metavar="<folder>", default="", help="take named events from these JSON files, too"),
    Option("-F", "--freq", type=frequency, metavar="<freq or 'max'>", help="samples a second (default: 4000)"),
    Option("-c", "--count", type=period, metavar="<n>", help="take a sample every that many events"),
    Option("--strict-freq", is_flag=True, help="fail where the kernel would lower the frequency"),
    Option("--all-kernel", is_flag=True, help="count in the kernel only"),
    Option("--all-user", is_flag=True, help="count in user space only"),
    Option("-n", "--no-samples", is_flag=True, help="take no samples"),
    Option("--no-buffering", is_flag=True, help="write at every sample"),
)

_CONTENTS: Final = (
    Option("-g", "callchains", is_flag=True, help="record call chains by frame pointers"),
    Option("--call-graph", metavar="<mode[,size]>", help="record call chains: fp[,frames] or dwarf[,bytes]"),
    Option("--kernel-callchains", is_flag=True, help="call chains of the kernel only"),
    Option("--user-callchains", is_flag=True, help="call chains of user space only"),
    Option("-s", "--stat", is_flag=True, help="counts of each thread at its end, too"),
    Option("-R", "--raw-samples", is_flag=True, help="raw data, as tracepoints have"),
    Option("-d", "--data", is_flag=True, help="data addresses"),
    Option("--phys-data", is_flag=True, help="physical data addresses"),
    Option("--data-page-size", is_flag=True, help="the size of the page of the data"),
    Option("--code-page-size", is_flag=True, help="the size of the page of the code"),
    Option("-T", "--timestamp", is_flag=True, default=None, help="times"),
    Option("-P", "--period", is_flag=True, default=None, help="periods"),
    Option("--sample-cpu", is_flag=True, help="CPUs"),
    Option("--sample-identifier", is_flag=True, help="ids at a fixed place"),
    Option("-W", "--weight", is_flag=True, help="weights of special events"),
    Option("-b", "--branch-any", is_flag=True, help="taken branches"),
    Option("-j", "--branch-filter", metavar="<filter,...>", default="", help="taken branches of these kinds"),
    Option("-I", "--intr-regs", metavar="<regs>", bare="", help="registers at the interrupt; -I? lists them"),
    Option("--user-regs", metavar="<regs>", bare="", help="registers of user space; --user-regs=? lists them"),
    Option("--running-time", is_flag=True, help="times of :S groups"),
    Option("-k", "--clockid", metavar="<clock>", help="the clock of the times: monotonic, boottime ... or a number"),
)

_SIDE_BAND: Final = (
    Option("--switch-events", is_flag=True, help="context switches"),
    Option("--namespaces", is_flag=True, help="namespaces of tasks"),
    Option("--all-cgroups", is_flag=True, help="cgroups of tasks"),
    Option("--no-bpf-event", is_flag=True, help="leave BPF programs out"),
    Option("--buildid-mmap", is_flag=True, help="build-ids in the maps instead of a table"),
    Option("--synth", metavar="<no|all|task|mmap|cgroup>", default="all", help="what of what already runs is written down first"),
    Option("--tail-synthesize", is_flag=True, help="write it down last instead"),
    Option("--num-thread-synthesize", type=int, default=1, metavar="<n>", help="for scripts written for perf: one thread is enough"),
    Option("--proc-map-timeout", type=int, default=500, metavar="<n>", help="for scripts written for perf: maps are read at once"),
)

_FILES: Final = (
    Option("-o", "--output", metavar="<file>", default="perf.data", help="output file (default: perf.data; - writes a pipe)"),
    Option("-m", "--mmap-pages", metavar="<pages>", default="", help="size of each buffer, in pages or with B, K, M or G"),
    Option("--mmap-flush", type=_size_of("--mmap-flush"), metavar="<size>", default=1, help="least bytes to write at once"),
    Option("--overwrite", is_flag=True, help="keep what came last where there is no room for all"),
    Option("--switch-output", type=parse_switch_output, bare="signal", metavar="<signal, size or time>",
           help="go on in a new file: at SIGUSR2, after a size (100M) or a time (30s)"),
    Option("--switch-max-files", type=int, default=0, help="keep that many of those files"),
    Option("--max-size", type=_size_of("--max-size"), metavar="<size>", default=0, help="stop when the file has this size"),
    Option("--timestamp-filename", is_flag=True, help="put the time behind the file's name"),
    Option("--timestamp-boundary", is_flag=True, help="note the times of the first and the last sample"),
    Option("-z", "--compression-level", type=int, bare="1", metavar="<n>", default=0, help="compress with zstd (1 to 22)"),
    Option("-N", "--no-buildid-cache", is_flag=True, help="keep no copies of the recorded programs"),
    Option("-B", "--no-buildid", is_flag=True, help="note no build-ids"),
    Option("--buildid-all", is_flag=True, help="note the build-ids of all files, hit or not"),
    Option("-r", "--realtime", type=int, default=0, metavar="<n>", help="run with this SCHED_FIFO priority"),
    Option("--dry-run", is_flag=True, help="read the options, then exit"),
    Option("-v", "--verbose", count=True, help="say more; may be repeated"),
    Option("-q", "--quiet", is_flag=True, help="print no warnings or messages"),
)  # fmt: skip

record_options = together(*_TARGET, *_SAMPLING, *_CONTENTS, *_SIDE_BAND, *_FILES)

_HARDWARE = "it needs a hardware tracer, which perfpy does not decode"
_BPF = "it needs a BPF program, which perfpy does not load; --filter narrows tracepoints in the kernel"
_THREADS = "perfpy writes with one thread; larger buffers (-m) help where it does not keep up"

options_of_perf_only = lacking_options(
    {
        "-S,--snapshot": _HARDWARE,
        "--aux-sample": _HARDWARE,
        "--transaction": "it needs transactional memory, which no current CPU has",
        "--aio": _THREADS,
        "--affinity": _THREADS,
        "--threads": _THREADS,
        "--kcore": "perfpy writes single files; record, and copy /proc/kcore beside it",
        "--off-cpu": "record -e sched:sched_switch -a -g, or --switch-events",
        "--off-cpu-thresh": "record -e sched:sched_switch -a -g, or --switch-events",
        "--latency": "record --switch-events",
        "--setup-filter": _BPF,
        "--bpf-aux-pause": _BPF,
        "--switch-output-event": "use --switch-output=SIZE or TIME, or send SIGUSR2",
        "--debuginfod": "perfpy report asks the servers in DEBUGINFOD_URLS",
        "--vmlinux": "it is for BPF programs of perf's only",
        "--clang-path": "perf has dropped it, too",
        "--clang-opt": "perf has dropped it, too",
        "--pfm-events": "it needs libpfm4; give the event as rNNN or PMU/terms/",
        "--group": "perf has dropped it, too; write the events as -e '{a,b}'",
    }
)
