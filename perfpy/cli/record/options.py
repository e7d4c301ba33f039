"""The options of `perfpy record`: perf record's names, letters and defaults (perf-record(1)).

What enters: nothing. What leaves: their class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.capture.option_values import AFFINITIES, parse_delay, parse_flush, parse_size, parse_switch_output
from perfpy.capture.record_options import DEFAULT_SWITCH_LIMIT, MAX_FREQ
from perfpy.cli.line.kinds import Attached, Choice, Counted, Flag, Listed, Value, unsigned
from perfpy.cli.line.options import CommandOptions, option, program_to_run

if TYPE_CHECKING:
    from perfpy.capture.option_values import SwitchOutput

_AT_ONCE: int | tuple[tuple[int, int], ...] = 0  # -D not given
_MOST_PERCENT: Final = 100_000  # of a thousand CPUs
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


def share_of_cpu(text: str) -> float:
    """--max-cpu: percent of one CPU, as a fraction."""
    try:
        percent = float(text.removesuffix("%"))
    except ValueError:
        percent = 0.0
    if not 0 < percent <= _MOST_PERCENT:
        raise ValueError("a number of percent of one CPU, such as 2%")
    return percent / 100


def _max_size(text: str) -> int:
    return parse_size(text, "--max-size")


_HARDWARE = "it needs a hardware tracer, which perfpy does not decode"
_BPF = "it needs a BPF program, which perfpy does not load; --filter narrows tracepoints in the kernel"

_LACKING: Final = {
    "-S,--snapshot": _HARDWARE,
    "--aux-sample": _HARDWARE,
    "--setup-filter": _BPF,
    "--bpf-aux-pause": _BPF,
    "--clang-path": "perf has dropped it, too",
    "--clang-opt": "perf has dropped it, too",
    "--pfm-events": "it needs libpfm4; give the event as rNNN or PMU/terms/",
    "--group": "perf has dropped it, too; write the events as -e '{a,b}'",
}


class TargetOptions(CommandOptions):
    """Whom to watch, and when."""

    all_cpus: bool = option("-a,--all-cpus", Flag(), "record all CPUs (the default without a command)")
    pid: str = option("-p,--pid", Value(default=""), "record these processes (comma-separated)", metavar="<pid>")
    tid: str = option("-t,--tid", Value(default=""), "record these threads (comma-separated)", metavar="<tid>")
    uid: str = option("-u,--uid", Value(default=""), "record the threads of this user", metavar="<user>")
    cpu: str = option("-C,--cpu", Value(default=""), "record these CPUs, such as 0-2,5", metavar="<cpu>")
    cgroup: str = option("-G,--cgroup", Value(default=""), "record the tasks of these cgroups only (with -a)", metavar="<name>")
    per_thread: bool = option("--per-thread", Flag(), "one buffer for each thread instead of each CPU")
    no_inherit: bool = option("-i,--no-inherit", Flag(), "leave out child tasks")
    delay: int | tuple[tuple[int, int], ...] = option(
        "-D,--delay",
        Value(parse_delay, default=_AT_ONCE),
        "start that much later; -1: only when told by --control; 10-20,30-40: in these ranges",
        metavar="<ms>",
    )
    control: str = option(
        "--control",
        Value(default=""),
        "take commands: enable, disable, evlist, stop, ping",
        metavar="<fd:ctl-fd[,ack-fd] or fifo:ctl-fifo[,ack-fifo]>",
    )
    exclude_perf: bool = option("--exclude-perf", Flag(), "leave out tracepoints hit by perfpy itself")


class SamplingOptions(CommandOptions):
    """What a sample is taken of, and how often."""

    event: tuple[str, ...] = option(
        "-e,--event", Listed(), "what to record; perfpy list shows the events", metavar="<event>", negatable=False
    )
    filter: tuple[str, ...] = option(
        "--filter", Listed(), "keep hits of the tracepoints of the last -e that satisfy this", metavar="<filter>", negatable=False
    )
    event_files: str = option("--event-files", Value(default=""), "take named events from these JSON files, too", metavar="<folder>")
    freq: int | None = option("-F,--freq", Value(frequency), "samples a second (default: 4000)", metavar="<freq or 'max'>")
    count: int | None = option("-c,--count", Value(period), "take a sample every that many events", metavar="<n>")
    strict_freq: bool = option("--strict-freq", Flag(), "fail where the kernel would lower the frequency")
    all_kernel: bool = option("--all-kernel", Flag(), "count in the kernel only")
    all_user: bool = option("--all-user", Flag(), "count in user space only")
    no_samples: bool = option("-n,--no-samples", Flag(), "take no samples")
    no_buffering: bool = option("--no-buffering", Flag(), "write at every sample")


class ContentOptions(CommandOptions):
    """What a sample carries."""

    callchains: bool = option("-g", Flag(), "record call chains by frame pointers; with --jit by what leads to callers in the runtime")
    call_graph: str | None = option(
        "--call-graph", Value(), "record call chains: fp[,frames][,defer] or dwarf[,bytes]", metavar="<mode[,size]>"
    )
    unwind: bool = option(
        "--unwind",
        Flag(),
        "unwind DWARF stacks while recording, store call chains instead: a fiftieth of the size (implies --call-graph dwarf)",
    )
    keep_stacks: bool = option("--keep-stacks", Flag(), "with --unwind: write the stacks, too, into a file <output>.stacks")
    kernel_callchains: bool = option("--kernel-callchains", Flag(), "call chains of the kernel only")
    user_callchains: bool = option("--user-callchains", Flag(), "call chains of user space only")
    off_cpu: bool = option(
        "--off-cpu", Flag(), "the time off the CPU, too, with its stacks: an event offcpu-time, in ns (without -e: beside task-clock)"
    )
    off_cpu_thresh: int = option(
        "--off-cpu-thresh",
        Value(unsigned, default=500),
        "with --off-cpu: shorter waits are added up by thread and stack (default: 500)",
        metavar="<ms>",
    )
    off_cpu_limit: int = option(
        "--off-cpu-limit",
        Value(unsigned, default=DEFAULT_SWITCH_LIMIT),
        f"with --off-cpu: so many stacks a second at most (default: {DEFAULT_SWITCH_LIMIT}; 0: all)",
        metavar="<n>",
    )
    latency: bool = option("--latency", Flag(), "what perfpy report --latency needs: context switches")
    jit: bool = option("--jit", Flag(), "make Python, Node, Java ... tell the names of their code, and keep them in the file")
    self_contained: str | None = option(
        "--self-contained",
        Attached("names", Choice("names", "binaries")),
        "keep the names of functions, or the binaries, in the file: a report elsewhere needs nothing else",
        metavar="<names|binaries>",
    )
    stat: bool = option("-s,--stat", Flag(), "counts of each thread at its end, too")
    raw_samples: bool = option("-R,--raw-samples", Flag(), "raw data, as tracepoints have")
    data: bool = option("-d,--data", Flag(), "data addresses")
    data_mmap: bool = option("--data-mmap", Flag(), "mappings that hold no code, too (-d has them as well)")
    sample_mem_info: bool = option("--sample-mem-info", Flag(), "where in the memory hierarchy data came from (-d has it as well)")
    phys_data: bool = option("--phys-data", Flag(), "physical data addresses")
    data_page_size: bool = option("--data-page-size", Flag(), "the size of the page of the data")
    code_page_size: bool = option("--code-page-size", Flag(), "the size of the page of the code")
    timestamp: bool | None = option("-T,--timestamp", Flag(default=None), "times")
    period: bool | None = option("-P,--period", Flag(default=None), "periods")
    sample_cpu: bool = option("--sample-cpu", Flag(), "CPUs")
    sample_identifier: bool = option("--sample-identifier", Flag(), "ids at a fixed offset")
    weight: bool = option("-W,--weight", Flag(), "weights of special events")
    transaction: bool = option("--transaction", Flag(), "flags of transactional memory, where the CPU has it")
    branch_any: bool = option("-b,--branch-any", Flag(), "taken branches")
    branch_filter: str = option("-j,--branch-filter", Value(default=""), "taken branches of these kinds", metavar="<filter,...>")
    intr_regs: str | None = option("-I,--intr-regs", Attached(""), "registers at the interrupt; -I? lists them", metavar="<regs>")
    user_regs: str | None = option("--user-regs", Attached(""), "registers of user space; --user-regs=? lists them", metavar="<regs>")
    running_time: bool = option("--running-time", Flag(), "times of :S groups")
    clockid: str | None = option("-k,--clockid", Value(), "the clock of the times: monotonic, boottime ... or a number", metavar="<clock>")


class SideBandOptions(CommandOptions):
    """What is recorded besides samples."""

    switch_events: bool = option("--switch-events", Flag(), "context switches")
    namespaces: bool = option("--namespaces", Flag(), "namespaces of tasks")
    all_cgroups: bool = option("--all-cgroups", Flag(), "cgroups of tasks")
    no_bpf_event: bool = option("--no-bpf-event", Flag(), "leave BPF programs out")
    buildid_mmap: bool = option("--buildid-mmap", Flag(), "build-ids in the maps instead of a table")
    synth: str = option(
        "--synth", Value(default="all"), "what of what already runs is written down first", metavar="<no|all|task|mmap|cgroup>"
    )
    tail_synthesize: bool = option("--tail-synthesize", Flag(), "write it down last instead")
    num_thread_synthesize: int = option(
        "--num-thread-synthesize", Value(int, default=1), "for scripts written for perf: one thread is enough"
    )
    proc_map_timeout: int = option("--proc-map-timeout", Value(int, default=500), "for scripts written for perf: maps are read at once")


class FileOptions(CommandOptions):
    """Buffers and files."""

    output: str = option(
        "-o,--output", Value(default=""), "output file (default: perf.data; - writes a pipe, as a pipe without -o does)", metavar="<file>"
    )
    mmap_pages: str = option(
        "-m,--mmap-pages",
        Value(default=""),
        "size of each buffer (,and of AUX areas), in pages or with B, K, M or G",
        metavar="<pages[,pages]>",
    )
    mmap_flush: int = option("--mmap-flush", Value(parse_flush, default=1), "least bytes to write at once", metavar="<size>")
    affinity: str = option(
        "--affinity",
        Value(Choice(*AFFINITIES), default=AFFINITIES[0]),
        "read each buffer on its own CPU or node (default: sys, on any)",
        metavar="<node|cpu>",
    )
    threads: str = option(
        "--threads",
        Attached("cpu", default=""),
        "empty the buffers with several threads, into a folder with a file for each CPU: cpu, core, package, numa, or lists of CPUs",
        metavar="<cpu|core|package|numa|buffers/runs-on:...>",
    )
    aio: str | None = option("--aio", Attached(""), "for scripts written for perf: perfpy leaves that to the kernel", metavar="<n>")
    overwrite: bool = option("--overwrite", Flag(), "keep what came last where there is no room for all")
    switch_output: SwitchOutput | None = option(
        "--switch-output",
        Attached("signal", parse_switch_output),
        "go on in a new file: at SIGUSR2, after a size (100M) or a time (30s)",
        metavar="<signal, size or time>",
    )
    switch_output_event: str = option(
        "--switch-output-event", Value(default=""), "go on in a new file whenever one of these happens anywhere", metavar="<event>"
    )
    switch_max_files: int = option("--switch-max-files", Value(int, default=0), "keep that many of those files")
    max_cpu: float = option(
        "--max-cpu",
        Value(share_of_cpu, default=0.0),
        "sample less often where recording itself takes more than this of one CPU",
        metavar="<percent>",
    )
    max_size: int = option("--max-size", Value(_max_size, default=0), "stop when the file has this size", metavar="<size>")
    timestamp_filename: bool = option("--timestamp-filename", Flag(), "put the time after the file's name")
    timestamp_boundary: bool = option("--timestamp-boundary", Flag(), "note the times of the first and the last sample")
    compression_level: int | None = option(
        "-z,--compression-level",
        Attached("1", int),
        "compress with zstd (1 to 22; with --unwind the default is 1, -z0: not)",
        metavar="<n>",
    )
    kcore: bool = option("--kcore", Flag(), "copy the code of the kernel and its modules beside the recording, which is a folder then")
    no_buildid_cache: bool = option("-N,--no-buildid-cache", Flag(), "keep no copies of the recorded programs")
    no_buildid: bool = option("-B,--no-buildid", Flag(), "note no build-ids")
    buildid_all: bool = option("--buildid-all", Flag(), "note the build-ids of all files, hit or not")
    realtime: int = option("-r,--realtime", Value(int, default=0), "run with this SCHED_FIFO priority")
    debuginfod: str | None = option(
        "--debuginfod", Attached(""), "for scripts written for perf: perfpy report asks the servers in DEBUGINFOD_URLS", metavar="<urls>"
    )
    vmlinux: str = option("--vmlinux", Value(default=""), "for scripts written for perf: its BPF programs need it", metavar="<file>")
    dry_run: bool = option("--dry-run", Flag(), "read the options, then exit")
    verbose: int = option("-v,--verbose", Counted(), "say more; may be repeated")
    quiet: bool = option("-q,--quiet", Flag(), "print no warnings or messages")


class RecordCommandOptions(TargetOptions, SamplingOptions, ContentOptions, SideBandOptions, FileOptions, lacks=_LACKING):
    """What the command takes; help shows it in this order."""

    workload: tuple[str, ...] = program_to_run()
