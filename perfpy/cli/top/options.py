"""Options of `perfpy top`: perf top's names, letters and defaults (perf-top(1))."""

from __future__ import annotations

from typing import Final

from perfpy.capture.option_values import parse_branch_filter
from perfpy.cli.line.filters import TaskOptions, parse_names, parse_widths, split_names
from perfpy.cli.line.kinds import Choice, Counted, Flag, Listed, Value, parse_unsigned
from perfpy.cli.line.options import CommandOptions, option
from perfpy.cli.record.options import frequency, sample_period

DEFAULT_DELAY: Final = 2.0  # seconds
_LONGEST_DELAY: Final = 1_000_000.0

_BRANCHES: Final = "it needs a PMU with branch records; record -b and report -b read those of other machines"
_LACKING: Final = {
    "--branch-history": _BRANCHES,
    "--stitch-lbr": _BRANCHES,
    "--ignore-callees": "use record -g, then report --ignore-callees",
    "--switch-on": "use record, then report --switch-on",
    "--switch-off": "use record, then report --switch-off",
    "--show-on-off-events": "use record, then report --switch-on",
    "--group-sort-idx": "use record, then report --group-sort-idx",
}


def delay(text: str) -> float:
    """Parse -d: seconds between two updates; fractions are allowed."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0.01 <= seconds <= _LONGEST_DELAY:
        raise ValueError("a number of seconds, at least 0.01")
    return seconds


_UNITS: Final = {"s": 1, "m": 60, "h": 3600}


def duration(text: str) -> float:
    """Parse --keep: seconds, or a number with s, m or h."""
    number, unit = (text[:-1], _UNITS[text[-1]]) if text[-1:] in _UNITS else (text, 1)
    if not number.isdecimal() or not 0 < int(number) * unit <= _LONGEST_DELAY:
        raise ValueError("a time such as 90s, 5m or 1h")
    return float(int(number) * unit)


class TopTargetOptions(TaskOptions):
    """Which tasks and CPUs to watch."""

    all_cpus: bool = option("-a,--all-cpus", Flag(), "watch all CPUs (default)")
    cgroups: tuple[str, ...] = option(
        "-G,--cgroup", Value(split_names, default=()), "watch only the tasks of these cgroups (after -e)", metavar="<name>"
    )
    no_inherit: bool = option("-i,--no-inherit", Flag(), "do not watch child tasks")
    show_self: bool = option("--show-self", Flag(), "also show perfpy top's own samples")


class TopSamplingOptions(CommandOptions):
    """The events, and the sampling frequency."""

    event: tuple[str, ...] = option("-e,--event", Listed(), "select events; perfpy list shows them", metavar="<event>", negatable=False)
    filter: tuple[str, ...] = option("--filter", Listed(), "filter the tracepoints of the last -e", metavar="<filter>", negatable=False)
    freq: int | None = option("-F,--freq", Value(frequency), "samples per second (default: 4000)", metavar="<freq or 'max'>")
    period: int | None = option("-c,--count", Value(sample_period), "take one sample every n events", metavar="<n>")
    mmap_pages: str = option("-m,--mmap-pages", Value(default=""), "size of ring buffers in pages, or bytes: 64K, 2M", metavar="<pages>")
    overwrite: bool = option("--overwrite", Flag(), "overwrite the oldest samples if the ring buffer is full")
    realtime: int = option("-r,--realtime", Value(int, default=0), "run with this SCHED_FIFO priority", metavar="<n>")
    namespaces: bool = option("--namespaces", Flag(), "follow namespaces of tasks")
    all_cgroups: bool = option("--all-cgroups", Flag(), "follow cgroups of tasks, for --sort cgroup")
    no_bpf_event: bool = option("--no-bpf-event", Flag(), "do not follow BPF programs")


class TopCallchainOptions(CommandOptions):
    """Callchains."""

    callchains: bool = option("-g", Flag(), "record and show callchains by frame pointers")
    call_graph: str | None = option(
        "--call-graph", Value(), "show callchains: fp or dwarf[,bytes], print_type, order", metavar="<mode,print_type,...>"
    )
    children: bool | None = option("--children", Flag(default=None), "add callers' overhead (default with callchains)")
    branch_any: bool = option("-b,--branch-any", Flag(), "sample taken branches; rows are their sources and targets")
    branch_filter: int = option(
        "-j,--branch-filter", Value(parse_branch_filter, default=0), "sample taken branches of these kinds", metavar="<filter,...>"
    )
    max_stack: int = option("--max-stack", Value(parse_unsigned, default=127), "use at most n frames of a callchain", metavar="<n>")


class TopWaitOptions(CommandOptions):
    """Waits."""

    off_cpu: bool = option("--off-cpu", Flag(), "show what threads wait for now (event offcpu-time)")


class TopRuntimeOptions(CommandOptions):
    """Programs in Python, Java, JavaScript and other languages with a runtime."""

    python: bool = option("--python", Flag(), "show Python functions (default: -F 499)")
    jit: bool = option("--jit", Flag(), "request names of JIT-compiled code from JVMs")


class TopRowOptions(CommandOptions):
    """Which rows are shown, and their columns."""

    sort: str | None = option("-s,--sort", Value(), "sort by these keys: comm, pid, cpu (default: dso,symbol)", metavar="<key[,key2...]>")
    by: str = option(
        "--by",
        Value(Choice("process", "thread", "cgroup", "container"), default=""),
        "show a row for each process, thread, cgroup or container",
        metavar="<kind>",
    )
    fields: str | None = option("--fields", Value(), "choose the columns", metavar="<key[,keys...]>")
    hierarchy: bool = option("-H,--hierarchy", Flag(), "print a tree of rows, one level per sort key")
    show_nr_samples: bool = option("-n,--show-nr-samples", Flag(), "show a column with the number of samples")
    show_total_period: bool = option("--show-total-period", Flag(), "show a column with the sum of periods")
    comms: tuple[str, ...] | None = option("--comms", Value(parse_names), "only these commands", metavar="<comm[,comm...]>")
    dsos: tuple[str, ...] | None = option("--dsos", Value(parse_names), "only these shared objects", metavar="<dso[,dso...]>")
    symbols: tuple[str, ...] | None = option("--symbols", Value(parse_names), "only these functions", metavar="<symbol[,symbol...]>")
    hide_kernel: bool = option("-K,--hide_kernel_symbols", Flag(), "hide kernel functions")
    hide_user: bool = option("-U,--hide_user_symbols", Flag(), "hide user functions")
    percent_limit: float = option("--percent-limit", Value(float, default=0.0), "hide rows below this share", metavar="<percent>")
    percentage: str | None = option("--percentage", Value(Choice("relative", "absolute")), "percentages of the filtered or of all samples")
    raw_trace: bool = option("--raw-trace", Flag(), "show raw fields of tracepoints")
    widths: tuple[int, ...] = option(
        "-w,--column-widths", Value(parse_widths, default=()), "set the column widths", metavar="<width[,width...]>"
    )
    entries: int = option(
        "-E,--entries", Value(parse_unsigned, default=0), "show this many rows (default: as the screen has)", metavar="<n>"
    )
    zero: bool = option("-z,--zero", Flag(), "forget earlier samples at each update")


class TopSymbolOptions(CommandOptions):
    """Options for the sources of symbols."""

    kallsyms: str = option("--kallsyms", Value(default=""), "read kernel symbols from this copy of /proc/kallsyms", metavar="<file>")
    vmlinux: str = option("-k,--vmlinux", Value(default=""), "read kernel symbols from this ELF file", metavar="<file>")
    ignore_vmlinux: bool = option("--ignore-vmlinux", Flag(), "do not look for a vmlinux")
    dump_symtab: bool = option("-D,--dump-symtab", Flag(), "print the symbols that were loaded, at the end, to stderr")
    demangle_kernel: bool = option("--demangle-kernel", Flag(), "demangle kernel names, too")


class TopCodeOptions(CommandOptions):
    """The code of functions (key a)."""

    sym_annotate: str = option("--sym-annotate", Value(default=""), "show the code of this function instead of rows", metavar="<symbol>")
    source: bool = option("--source", Flag(default=True), "include source lines in code (default)")
    asm_raw: bool = option("--asm-raw", Flag(), "show the bytes of instructions")
    disassembler_style: str = option("-M,--disassembler-style", Value(default=""), "syntax of code: intel, att", metavar="<style>")
    objdump: str = option("--objdump", Value(default=""), "disassemble with this objdump", metavar="<path>")
    prefix: str = option("--prefix", Value(default=""), "prepend this to paths of source files", metavar="<prefix>")
    prefix_strip: str = option("--prefix-strip", Value(default=""), "remove n folders from source paths first", metavar="<n>")


class IgnoredTopOptions(CommandOptions):
    """perf's options that change nothing here."""

    count_filter: int = option("-f,--count-filter", Value(int, default=0), "perf 6.12 ignores it, too", hidden=True)
    force: bool = option("--force", Flag(), "files are checked by descriptor", hidden=True)
    num_thread_synthesize: int = option("--num-thread-synthesize", Value(int, default=1), "one thread is enough", hidden=True)
    proc_map_timeout: int = option("--proc-map-timeout", Value(int, default=500), "maps are read at once", hidden=True)
    addr2line: str = option("--addr2line", Value(default=""), "lines are read without a program", hidden=True)
    tui: bool = option("--tui", Flag(), "the default on a terminal", hidden=True)


class TopCommandOptions(
    TopTargetOptions,
    TopSamplingOptions,
    TopCallchainOptions,
    TopWaitOptions,
    TopRuntimeOptions,
    TopRowOptions,
    TopSymbolOptions,
    TopCodeOptions,
    IgnoredTopOptions,
    lacks=_LACKING,
):
    """Options of `perfpy top`."""

    delay: float = option("-d,--delay", Value(delay, default=DEFAULT_DELAY), "seconds between two updates (default: 2)", metavar="<n>")
    updates: int = option(
        "--updates", Value(parse_unsigned, default=0), "exit after n updates (default: run until q or Ctrl-C)", metavar="<n>"
    )
    keep: float = option(
        "--keep", Value(duration, default=60.0), "time that the key w writes as perf.data (default: 60s)", metavar="<time>"
    )
    stdio: bool = option("--stdio", Flag(), "print perf's plain text, also on a terminal")
    json: bool = option("--json", Flag(), "print one JSON object per update, on one line")
    verbose: int = option("-v,--verbose", Counted(), "print more details; repeatable")
