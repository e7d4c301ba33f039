"""The options of `perfpy record`, as declarations.

What enters: nothing. What leaves: two decorators: the options that there
are, and those of perf's that there are not. Names and meanings:
perf-record(1).
"""

from __future__ import annotations

from typing import Final

from perfpy.capture.option_values import parse_delay, parse_size, parse_switch_output
from perfpy.capture.sampling.options import MAX_FREQ
from perfpy.cli.line.decorators import lacking_options, old_option, together

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
    old_option("-a", "--all-cpus", is_flag=True, help="record all CPUs (the default without a command)"),
    old_option("-p", "--pid", metavar="<pid>", default="", help="record these processes (comma-separated)"),
    old_option("-t", "--tid", metavar="<tid>", default="", help="record these threads (comma-separated)"),
    old_option("-u", "--uid", metavar="<user>", default="", help="record the threads of this user"),
    old_option("-C", "--cpu", metavar="<cpu>", default="", help="record these CPUs, such as 0-2,5"),
    old_option("-G", "--cgroup", metavar="<name>", default="", help="record the tasks of these cgroups only (with -a)"),
    old_option("--per-thread", is_flag=True, help="one buffer for each thread instead of each CPU"),
    old_option("-i", "--no-inherit", is_flag=True, help="leave out child tasks"),
    old_option("-D", "--delay", type=parse_delay, metavar="<ms>", default=0,
           help="start that much later; -1: only when told by --control; 10-20,30-40: in these ranges"),
    old_option("--control", metavar="<fd:ctl-fd[,ack-fd] or fifo:ctl-fifo[,ack-fifo]>", default="",
           help="take commands: enable, disable, evlist, stop, ping"),
    old_option("--exclude-perf", is_flag=True, help="leave out tracepoints hit by perfpy itself"),
)  # fmt: skip

_SAMPLING: Final = (
    old_option("-e", "--event", multiple=True, metavar="<event>", help="what to record; perfpy list shows the events"),
    old_option("--filter", multiple=True, metavar="<filter>", help="keep hits of the tracepoints of the last -e that satisfy this"),
    old_option("--event-files", metavar="<folder>", default="", help="take named events from these JSON files, too"),
    old_option("-F", "--freq", type=frequency, metavar="<freq or 'max'>", help="samples a second (default: 4000)"),
    old_option("-c", "--count", type=period, metavar="<n>", help="take a sample every that many events"),
    old_option("--strict-freq", is_flag=True, help="fail where the kernel would lower the frequency"),
    old_option("--all-kernel", is_flag=True, help="count in the kernel only"),
    old_option("--all-user", is_flag=True, help="count in user space only"),
    old_option("-n", "--no-samples", is_flag=True, help="take no samples"),
    old_option("--no-buffering", is_flag=True, help="write at every sample"),
)

_CONTENTS: Final = (
    old_option("-g", "callchains", is_flag=True, help="record call chains by frame pointers"),
    old_option("--call-graph", metavar="<mode[,size]>", help="record call chains: fp[,frames] or dwarf[,bytes]"),
    old_option("--kernel-callchains", is_flag=True, help="call chains of the kernel only"),
    old_option("--user-callchains", is_flag=True, help="call chains of user space only"),
    old_option("-s", "--stat", is_flag=True, help="counts of each thread at its end, too"),
    old_option("-R", "--raw-samples", is_flag=True, help="raw data, as tracepoints have"),
    old_option("-d", "--data", is_flag=True, help="data addresses"),
    old_option("--phys-data", is_flag=True, help="physical data addresses"),
    old_option("--data-page-size", is_flag=True, help="the size of the page of the data"),
    old_option("--code-page-size", is_flag=True, help="the size of the page of the code"),
    old_option("-T", "--timestamp", is_flag=True, default=None, help="times"),
    old_option("-P", "--period", is_flag=True, default=None, help="periods"),
    old_option("--sample-cpu", is_flag=True, help="CPUs"),
    old_option("--sample-identifier", is_flag=True, help="ids at a fixed place"),
    old_option("-W", "--weight", is_flag=True, help="weights of special events"),
    old_option("-b", "--branch-any", is_flag=True, help="taken branches"),
    old_option("-j", "--branch-filter", metavar="<filter,...>", default="", help="taken branches of these kinds"),
    old_option("-I", "--intr-regs", metavar="<regs>", bare="", help="registers at the interrupt; -I? lists them"),
    old_option("--user-regs", metavar="<regs>", bare="", help="registers of user space; --user-regs=? lists them"),
    old_option("--running-time", is_flag=True, help="times of :S groups"),
    old_option("-k", "--clockid", metavar="<clock>", help="the clock of the times: monotonic, boottime ... or a number"),
)

_SIDE_BAND: Final = (
    old_option("--switch-events", is_flag=True, help="context switches"),
    old_option("--namespaces", is_flag=True, help="namespaces of tasks"),
    old_option("--all-cgroups", is_flag=True, help="cgroups of tasks"),
    old_option("--no-bpf-event", is_flag=True, help="leave BPF programs out"),
    old_option("--buildid-mmap", is_flag=True, help="build-ids in the maps instead of a table"),
    old_option("--synth", metavar="<no|all|task|mmap|cgroup>", default="all", help="what of what already runs is written down first"),
    old_option("--tail-synthesize", is_flag=True, help="write it down last instead"),
    old_option("--num-thread-synthesize", type=int, default=1, metavar="<n>", help="for scripts written for perf: one thread is enough"),
    old_option("--proc-map-timeout", type=int, default=500, metavar="<n>", help="for scripts written for perf: maps are read at once"),
)

_FILES: Final = (
    old_option("-o", "--output", metavar="<file>", default="perf.data", help="output file (default: perf.data; - writes a pipe)"),
    old_option("-m", "--mmap-pages", metavar="<pages>", default="", help="size of each buffer, in pages or with B, K, M or G"),
    old_option("--mmap-flush", type=_size_of("--mmap-flush"), metavar="<size>", default=1, help="least bytes to write at once"),
    old_option("--overwrite", is_flag=True, help="keep what came last where there is no room for all"),
    old_option("--switch-output", type=parse_switch_output, bare="signal", metavar="<signal, size or time>",
           help="go on in a new file: at SIGUSR2, after a size (100M) or a time (30s)"),
    old_option("--switch-max-files", type=int, default=0, help="keep that many of those files"),
    old_option("--max-size", type=_size_of("--max-size"), metavar="<size>", default=0, help="stop when the file has this size"),
    old_option("--timestamp-filename", is_flag=True, help="put the time behind the file's name"),
    old_option("--timestamp-boundary", is_flag=True, help="note the times of the first and the last sample"),
    old_option("-z", "--compression-level", type=int, bare="1", metavar="<n>", default=0, help="compress with zstd (1 to 22)"),
    old_option("-N", "--no-buildid-cache", is_flag=True, help="keep no copies of the recorded programs"),
    old_option("-B", "--no-buildid", is_flag=True, help="note no build-ids"),
    old_option("--buildid-all", is_flag=True, help="note the build-ids of all files, hit or not"),
    old_option("-r", "--realtime", type=int, default=0, metavar="<n>", help="run with this SCHED_FIFO priority"),
    old_option("--dry-run", is_flag=True, help="read the options, then exit"),
    old_option("-v", "--verbose", count=True, help="say more; may be repeated"),
    old_option("-q", "--quiet", is_flag=True, help="print no warnings or messages"),
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
