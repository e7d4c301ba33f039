"""`perfpy record`: run a program, or attach to tasks or CPUs, and record their profile.

The exit status is the program's.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from perfpy.abi.sample_layout import sampled_registers
from perfpy.capture.record_options import (
    AFFINITIES,
    DEFAULT_SWITCH_LIMIT,
    MAX_FREQ,
    SYNTH_ALL,
    BufferOptions,
    Callchain,
    GuestOptions,
    OffCpuOptions,
    OutputOptions,
    RecordOptions,
    SamplingOptions,
    SideBandOptions,
    SwitchOutput,
    TraceOptions,
    compression_of_unwound,
    default_output,
    parse_branch_filter,
    parse_callchain,
    parse_clock,
    parse_delay,
    parse_flush,
    parse_pages,
    parse_registers,
    parse_size,
    parse_switch_output,
    size_text,
)
from perfpy.capture.targets import TargetOptions
from perfpy.cli.line.option_parsing import (
    Attached,
    Choice,
    CommandOptions,
    Counted,
    Flag,
    Listed,
    PerfCommand,
    TaskOptions,
    Value,
    events_with_filters,
    fail,
    option,
    parse_unsigned,
    program_to_run,
    split_names,
)
from perfpy.cli.line.perfconfig import load_config
from perfpy.cli.output.terminal import notes_are_read, print_notes
from perfpy.errors import PerfError, RefusedOptionsError, UsageError
from perfpy.events.grammar import names_probe
from perfpy.kernel.ring import PAGE_SIZE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.capture.counter import OpenEvent
    from perfpy.capture.session.recorder import Recorder
    from perfpy.cli.line.perfconfig import Config


_AT_ONCE: int | tuple[tuple[int, int], ...] = 0  # the default of -D
_MOST_PERCENT: Final = 100_000  # a thousand CPUs
_LONGEST_PERIOD: Final = (1 << 63) - 1  # the kernel's limit


def frequency(text: str) -> int:
    """Parse -F: a number of Hz, or max."""
    if text == "max":
        return MAX_FREQ
    if not text.isdecimal():
        raise RefusedOptionsError(f"option -F expects a number of Hz, or max, not '{text}'")
    return int(text)


def sample_period(text: str) -> int:
    """Parse -c: a number of events."""
    if not text.isdecimal() or int(text) > _LONGEST_PERIOD:
        raise ValueError(f"a whole number up to {_LONGEST_PERIOD}")
    return int(text)


def share_of_cpu(text: str) -> float:
    """Parse --max-cpu: percent of one CPU, returned as a fraction."""
    try:
        percent = float(text.removesuffix("%"))
    except ValueError:
        percent = 0.0
    if not 0 < percent <= _MOST_PERCENT:
        raise ValueError("a percentage of one CPU, such as 2%")
    return percent / 100


class Registers:
    """Parse an option's list of registers as a mask; "?" requests the list of registers."""

    LISTED: Final = -1

    def __init__(self, option: str) -> None:
        self._option = option

    def __call__(self, text: str) -> int:
        """Return the mask; LISTED for "?"."""
        return self.LISTED if text == "?" else parse_registers(text, self._option)


def parse_synthesis(text: str) -> frozenset[str]:
    """Parse --synth: no, all, or some kinds of state."""
    if text in ("no", "all"):
        return SYNTH_ALL if text == "all" else frozenset()
    kinds = frozenset(text.split(","))
    if kinds - SYNTH_ALL:
        raise UsageError(f"--synth {text}: expected no, all, task, mmap or cgroup")
    return kinds | {"task"} if "mmap" in kinds else kinds


def _max_size(text: str) -> int:
    return parse_size(text, "--max-size")


_BPF = "it needs perf's BPF programs; --filter filters tracepoints in the kernel"

_LACKING: Final = {
    "--setup-filter": _BPF,
    "--bpf-aux-pause": _BPF,
    "--clang-path": "perf dropped it, too",
    "--clang-opt": "perf dropped it, too",
    "--pfm-events": "it needs libpfm4; give the event as rNNN or PMU/terms/",
    "--group": "perf dropped it, too; write the events as -e '{a,b}'",
}


class TargetCommandOptions(TaskOptions):
    """Which tasks and CPUs to record, and when."""

    all_cpus: bool = option("-a,--all-cpus", Flag(), "record all CPUs (default without a command)")
    cgroups: tuple[str, ...] = option(
        "-G,--cgroup", Value(split_names, default=()), "record only the tasks of these cgroups (with -a)", metavar="<name>"
    )
    per_thread: bool = option("--per-thread", Flag(), "use one ring buffer for each thread instead of each CPU")
    no_inherit: bool = option("-i,--no-inherit", Flag(), "do not record child tasks")
    descendants: bool | None = option("--descendants", Flag(default=None), "with -p: also its running children (default with --python)")
    delay: int | tuple[tuple[int, int], ...] = option(
        "-D,--delay", Value(parse_delay, default=_AT_ONCE), "start after n ms; -1: on --control; 10-20,30-40: only then", metavar="<ms>"
    )
    control: str = option(
        "--control",
        Value(default=""),
        "read commands: enable, disable, evlist, stop, ping",
        metavar="<fd:ctl-fd[,ack-fd] or fifo:ctl-fifo[,ack-fifo]>",
    )
    exclude_perf: bool = option("--exclude-perf", Flag(), "drop tracepoint hits of perfpy itself")


class SamplingCommandOptions(CommandOptions):
    """The events, and the sampling frequency."""

    event: tuple[str, ...] = option("-e,--event", Listed(), "select events; perfpy list shows them", metavar="<event>", negatable=False)
    filter: tuple[str, ...] = option(
        "--filter", Listed(), "filter the tracepoints or addresses of the last -e", metavar="<filter>", negatable=False
    )
    snapshot: str | None = option(
        "-S,--snapshot", Attached(""), "record a tracer's last data on SIGUSR2; e: also at exit", metavar="<[e][size]>"
    )
    aux_sample: str | None = option("--aux-sample", Attached(""), "add a tracer's last data to samples of its group", metavar="<size>")
    event_files: str = option("--event-files", Value(default=""), "also take named events from these JSON files", metavar="<folder>")
    freq: int | None = option("-F,--freq", Value(frequency), "samples per second (default: 4000)", metavar="<freq or 'max'>")
    period: int | None = option("-c,--count", Value(sample_period), "take one sample every n events", metavar="<n>")
    strict_freq: bool = option("--strict-freq", Flag(), "fail if the kernel would lower the frequency")
    all_kernel: bool = option("--all-kernel", Flag(), "sample only kernel code")
    all_user: bool = option("--all-user", Flag(), "sample only code in user space")
    no_samples: bool = option("-n,--no-samples", Flag(), "take no samples")
    no_buffering: bool = option("--no-buffering", Flag(), "wake up at every sample")


class ContentCommandOptions(CommandOptions):
    """The fields of samples."""

    callchains: bool = option("-g", Flag(), "record callchains by frame pointers (--jit: as needed)")
    call_graph: Callchain | None = option(
        "--call-graph", Value(parse_callchain), "record callchains: fp[,frames][,defer], dwarf[,bytes] or lbr", metavar="<mode[,size]>"
    )
    unwind: bool = option("--unwind", Flag(), "unwind DWARF stacks while recording; keep only callchains")
    unwind_late: bool = option("--unwind-late", Flag(), "with --unwind: unwind when CPUs are idle", hidden=True)
    keep_stacks: bool = option("--keep-stacks", Flag(), "with --unwind: also write the stacks to <output>.stacks")
    kernel_callchains: bool = option("--kernel-callchains", Flag(), "record only the kernel part of callchains")
    user_callchains: bool = option("--user-callchains", Flag(), "record only the user part of callchains")
    off_cpu: bool = option("--off-cpu", Flag(), "also record waits with their stacks (event offcpu-time)")
    off_cpu_thresh: int = option(
        "--off-cpu-thresh", Value(parse_unsigned, default=500), "with --off-cpu: sum up shorter waits (default: 500)", metavar="<ms>"
    )
    off_cpu_limit: int = option(
        "--off-cpu-limit",
        Value(parse_unsigned, default=DEFAULT_SWITCH_LIMIT),
        f"with --off-cpu: stacks per second (default: {DEFAULT_SWITCH_LIMIT}; 0: all)",
        metavar="<n>",
    )
    latency: bool = option("--latency", Flag(), "record context switches, for perfpy report --latency")
    jit: bool = option("--jit", Flag(), "record the names of JIT-compiled and interpreted functions")
    python: bool = option("--python", Flag(), "record Python functions and lines, also of running programs")
    self_contained: str | None = option(
        "--self-contained",
        Attached("names", Choice("names", "binaries")),
        "store symbol names or binaries in the file",
        metavar="<names|binaries>",
    )
    inherit_stat: bool = option("-s,--stat", Flag(), "record per-thread counts at thread exit")
    raw: bool = option("-R,--raw-samples", Flag(), "record raw data, such as tracepoint fields")
    data: bool = option("-d,--data", Flag(), "record data addresses")
    data_mmap: bool = option("--data-mmap", Flag(), "record data mappings, too (implied by -d)")
    sample_mem_info: bool = option("--sample-mem-info", Flag(), "record data sources in the memory hierarchy (implied by -d)")
    phys_data: bool = option("--phys-data", Flag(), "record physical data addresses")
    data_page_size: bool = option("--data-page-size", Flag(), "record the page size of data addresses")
    code_page_size: bool = option("--code-page-size", Flag(), "record the page size of code addresses")
    time: bool | None = option("-T,--timestamp", Flag(default=None), "record timestamps")
    period_field: bool | None = option("-P,--period", Flag(default=None), "record periods")
    cpu_field: bool = option("--sample-cpu", Flag(), "record CPU numbers")
    identifier: bool = option("--sample-identifier", Flag(), "record ids at a fixed offset")
    weight: bool = option("-W,--weight", Flag(), "record sample weights")
    transaction: bool = option("--transaction", Flag(), "record transaction flags, if the CPU has them")
    branch_any: bool = option("-b,--branch-any", Flag(), "record taken branches")
    branch_filter: int = option(
        "-j,--branch-filter", Value(parse_branch_filter, default=0), "record taken branches of these kinds", metavar="<filter,...>"
    )
    intr_regs: int = option(
        "-I,--intr-regs",
        Attached("", Registers("--intr-regs"), default=0),
        "record registers at the interrupt; -I? lists them",
        metavar="<regs>",
    )
    user_regs: int = option(
        "--user-regs",
        Attached("", Registers("--user-regs"), default=0),
        "record user registers; --user-regs=? lists them",
        metavar="<regs>",
    )
    running_time: bool = option("--running-time", Flag(), "record how long :S groups were enabled and running")
    clockid: int | None = option(
        "-k,--clockid", Value(parse_clock), "use this clock: monotonic, boottime ... or a number", metavar="<clock>"
    )


class SideBandCommandOptions(CommandOptions):
    """The records besides samples."""

    switch_events: bool | None = option("--switch-events", Flag(default=None), "record context switches")
    namespaces: bool = option("--namespaces", Flag(), "record namespaces of tasks")
    all_cgroups: bool = option("--all-cgroups", Flag(), "record cgroups of tasks")
    no_bpf_event: bool = option("--no-bpf-event", Flag(), "do not record BPF programs")
    buildid_mmap: bool = option("--buildid-mmap", Flag(), "record build-ids in mappings instead of a table")
    synth: frozenset[str] = option(
        "--synth",
        Value(parse_synthesis, default=SYNTH_ALL),
        "existing state to synthesize: no, all, task, mmap, cgroup",
        metavar="<no|all|task|mmap|cgroup>",
    )
    tail_synthesize: bool = option("--tail-synthesize", Flag(), "synthesize existing state at the end")
    num_thread_synthesize: int = option("--num-thread-synthesize", Value(int, default=1), "ignored: one thread is enough")
    proc_map_timeout: int = option("--proc-map-timeout", Value(int, default=500), "ignored: reading maps never takes that long")


class FileCommandOptions(CommandOptions):
    """Ring buffers and files."""

    output: str = option("-o,--output", Value(default=""), "output file (default: perf.data, or standard output's pipe)", metavar="<file>")
    mmap_pages: str = option(
        "-m,--mmap-pages", Value(default=""), "size of ring buffers[,AUX areas] in pages, or bytes: 64K, 2M", metavar="<pages[,pages]>"
    )
    mmap_flush: int = option("--mmap-flush", Value(parse_flush, default=1), "write at least this many bytes at once", metavar="<size>")
    affinity: str = option(
        "--affinity",
        Value(Choice(*AFFINITIES), default=AFFINITIES[0]),
        "read ring buffers on any CPU (sys, default), their CPU or node",
        metavar="<sys|node|cpu>",
    )
    threads: str = option(
        "--threads",
        Attached("cpu", default=""),
        "read ring buffers with several threads, into a folder",
        metavar="<cpu|core|package|numa|buffers/runs-on:...>",
    )
    aio: str | None = option("--aio", Attached(""), "ignored: the kernel writes to the disk later anyway", metavar="<n>")
    overwrite: bool = option("--overwrite", Flag(), "overwrite the oldest samples if the ring buffer is full")
    switch_output: SwitchOutput | None = option(
        "--switch-output",
        Attached("signal", parse_switch_output),
        "start a new file on SIGUSR2, or by size (100M) or time (30s)",
        metavar="<signal, size or time>",
    )
    switch_output_event: str = option(
        "--switch-output-event", Value(default=""), "start a new file on each of these events", metavar="<event>"
    )
    switch_max_files: int = option("--switch-max-files", Value(int, default=0), "keep this many switched output files")
    max_cpu: float = option(
        "--max-cpu", Value(share_of_cpu, default=0.0), "sample less if recording uses more of one CPU than this", metavar="<percent>"
    )
    max_size: int = option("--max-size", Value(_max_size, default=0), "stop when the file reaches this size", metavar="<size>")
    timestamp_filename: bool = option("--timestamp-filename", Flag(), "append the time to the file name")
    timestamp_boundary: bool = option("--timestamp-boundary", Flag(), "record the times of the first and last samples")
    compression_level: int | None = option(
        "-z,--compression-level", Attached("1", int), "compress with zstd (1-22; --unwind: default 1; -z0: off)", metavar="<n>"
    )
    kcore: bool = option("--kcore", Flag(), "copy the code of the kernel and its modules into a folder")
    no_buildid_cache: bool = option("-N,--no-buildid-cache", Flag(), "do not copy recorded programs into the build-id cache")
    no_buildid: bool = option("-B,--no-buildid", Flag(), "do not record build-ids")
    buildid_all: bool = option("--buildid-all", Flag(), "record build-ids of all files, sampled or not")
    realtime: int = option("-r,--realtime", Value(int, default=0), "run with this SCHED_FIFO priority")
    debuginfod: str | None = option("--debuginfod", Attached(""), "ignored: set DEBUGINFOD_URLS for report", metavar="<urls>")
    vmlinux: str = option("--vmlinux", Value(default=""), "ignored: only perf's BPF programs need it", metavar="<file>")
    dry_run: bool = option("--dry-run", Flag(), "parse the options, then exit")
    verbose: int = option("-v,--verbose", Counted(), "print more details; repeatable")
    quiet: bool = option("-q,--quiet", Flag(), "print no warnings or messages")
    brief: bool = option("--brief", Flag(), "print warnings only, no status lines")


class RecordCommandOptions(
    TargetCommandOptions, SamplingCommandOptions, ContentCommandOptions, SideBandCommandOptions, FileCommandOptions, lacks=_LACKING
):
    """Options of `perfpy record`, in the order of the help."""

    workload: tuple[str, ...] = program_to_run()


_MOST_COMPRESSION: Final = 22
_BUILD_IDS: Final = ("", "cache", "no-cache", "skip", "mmap")  # values of record.build-id


def run(options: RecordCommandOptions) -> int:
    """Run a program and record its profile into perf.data."""
    if _lists_registers(options):
        return 129  # perf's status
    if options.vmlinux and not os.path.exists(options.vmlinux):
        raise RefusedOptionsError(f"--vmlinux {options.vmlinux}: no such file")
    if any(map(names_probe, options.event)):
        from perfpy.cli.temporary_probes import run_with_probes  # needs numpy and debug information

        return run_with_probes(options, _record)
    return _record(options)


def _record(options: RecordCommandOptions) -> int:
    recorder = make_recorder(options)
    if options.dry_run:
        recorder.prepare()
        return 0
    summary = recorder.run()
    if options.self_contained:
        from perfpy.cli.self_contained import keep_files  # reads the recording, which needs numpy

        tell_all = (lambda _text: None) if options.quiet else (lambda text: print(text, file=sys.stderr))
        keep_files(summary.path, options.self_contained, tell_all)
    return summary.exit_code


def make_recorder(options: RecordCommandOptions) -> Recorder:
    """Return the recorder of the options."""
    library_options = record_options(options, load_config())
    from perfpy.capture.session.recorder import Recorder  # --help does not need the kernel

    if not (options.workload or library_options.target.is_given):
        print_notes(["no command, -p or -t; recording the whole machine until Ctrl-C"], quiet=options.quiet, verbose=options.verbose)
    events, filters = events_with_filters(options)
    recorder = Recorder(options.workload, events, filters, library_options, describe=_describe)
    if recorder.options.rewritten:  # by numpy, in another process
        from perfpy.cli.line.numpy_start import import_in_parts

        import_in_parts()
    return recorder


def record_options(options: RecordCommandOptions, config: Config) -> RecordOptions:
    """Convert the options to the library's. Raises UsageError for an invalid text."""
    build_id = config.get("record.build-id", "")
    if build_id not in _BUILD_IDS:
        raise PerfError("configuration: record.build-id = " + build_id + ": expected cache, no-cache, skip or mmap")
    if options.branch_any and options.branch_filter:
        fail("-b excludes -j; -j any records every taken branch")
    return options.fill(
        RecordOptions,
        target=options.fill(
            TargetOptions,
            inherit=not options.no_inherit,
            descendants=(options.python and not options.no_inherit) if options.descendants is None else options.descendants,
        ),
        sampling=options.fill(
            SamplingOptions,
            callchain=_callchain(options, config),
            branch_filter=options.branch_filter or (parse_branch_filter("any") if options.branch_any else 0),
        ),
        side_band=options.fill(
            SideBandOptions,
            switch_events=options.latency or options.switch_events,
            bpf_events=not options.no_bpf_event,
            buildid_mmap=options.buildid_mmap or build_id == "mmap",
        ),
        buffers=_buffers(options),
        output=_output(options, config, build_id),
        off_cpu=OffCpuOptions(options.off_cpu, options.off_cpu_thresh, options.off_cpu_limit),
        trace=TraceOptions(options.snapshot, options.aux_sample),
        guests=options.fill(GuestOptions),
        command_line=(os.path.realpath(sys.argv[0]), *sys.argv[1:]),
        notes=notes_are_read(quiet=options.quiet, verbose=options.verbose),
        brief=options.brief and not options.verbose,
    )


def _buffers(options: RecordCommandOptions) -> BufferOptions:
    pages, _, aux_pages = options.mmap_pages.partition(",")
    first = _pages(aux_pages)  # perf reports its rounding first
    return options.fill(BufferOptions, aux_pages=first, mmap_pages=_pages(pages))


def _output(options: RecordCommandOptions, config: Config, build_id: str) -> OutputOptions:
    rule = SwitchOutput() if options.switch_output is None and options.switch_output_event else options.switch_output
    skips_build_ids = rule is not None and not options.buildid_all  # finding build-ids would delay the next file
    return options.fill(
        OutputOptions,
        path=options.output or default_output(),
        compression_level=_level(options.compression_level, unwind=options.unwind),
        buildids=not (options.no_buildid or build_id == "skip" or skips_build_ids),
        buildid_cache=not (options.no_buildid_cache or options.no_buildid or build_id == "no-cache"),
        buildid_dir=config.build_id_folder,
        switch_output=rule,
        self_contained=bool(options.self_contained),
    )


def _level(level: int | None, *, unwind: bool) -> int:
    if level is None:
        return compression_of_unwound() if unwind else 0
    if level < 0:
        fail(f"--compression-level {level}: expected 1 to {_MOST_COMPRESSION}")
    return min(level, _MOST_COMPRESSION)


def _callchain(options: RecordCommandOptions, config: Config) -> Callchain | None:
    if options.call_graph:
        return options.call_graph
    configured = config.get("call-graph.record-mode", config.get("record.call-graph", ""))
    if not (options.callchains or options.unwind) or (
        options.jit and (options.unwind or not configured)
    ):  # --jit chooses by the programs that run
        return None
    mode = "dwarf" if options.unwind else configured or "fp"
    size = int(config.number("call-graph.dump-size", 0)) if mode == "dwarf" else 0
    return parse_callchain(f"{mode},{size}" if size else mode)._replace(addresses=False)  # perf records them with --call-graph only


def _describe(events: Sequence[OpenEvent], option: str) -> str:
    from perfpy.cli.output.header import event_lines  # rarely needed

    return event_lines(events, option)


def _lists_registers(options: RecordCommandOptions) -> bool:
    if Registers.LISTED not in (options.user_regs, options.intr_regs):
        return False
    print("available registers:", *sampled_registers(os.uname().machine), file=sys.stderr)
    return True


def _pages(text: str) -> int:
    if not text:
        return 0
    pages = parse_pages(text)
    if (int(text) if text.isdecimal() else -(-parse_size(text, "--mmap-pages") // PAGE_SIZE)) != pages:
        print(f"rounding mmap pages size to {size_text(pages * PAGE_SIZE)} ({pages} pages)", file=sys.stderr)
    return pages


command = PerfCommand(RecordCommandOptions, run)
