"""Options of `perfpy lock` and its actions: perf lock's (perf-lock(1))."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.cli.line.kinds import Flag, Value, parse_unsigned
from perfpy.cli.line.options import option
from perfpy.cli.line.shared import InputOptions, QuietOptions, VerboseOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

_BPF: Final = "it needs perf's BPF programs; record, then lock contention -i FILE"
_LACKING: Final[Mapping[str, str]] = {
    **dict.fromkeys(("-b,--use-bpf", "-a,--all-cpus", "-C,--cpu", "-p,--pid", "--tid", "-M,--map-nr-entries"), _BPF),
    **dict.fromkeys(("-G,--cgroup-filter", "--lock-cgroup"), _BPF),
}


class LockOptions(InputOptions, QuietOptions, VerboseOptions):
    """Options of all actions."""

    output: str = option("--output", Value(default=""), "write the text to this file", metavar="<file>")
    dump_raw_trace: bool = option("-D,--dump-raw-trace", Flag(), "print every record as bytes and text first")
    vmlinux: str = option("--vmlinux", Value(default=""), "read kernel symbols from this ELF file", metavar="<file>")
    kallsyms: str = option("--kallsyms", Value(default=""), "read kernel symbols from this copy of /proc/kallsyms", metavar="<file>")


class LockReportOptions(LockOptions):
    """Options of `perfpy lock report`."""

    key: str = option("-k,--key", Value(default="acquired"), "sort by this field", metavar="<acquired>")
    field: str = option("-F,--field", Value(default=""), "show these fields, such as acquired,contended,avg_wait", metavar="<fields>")
    threads: bool = option("-t,--threads", Flag(), "one row per thread")
    combine_locks: bool = option("-c,--combine-locks", Flag(), "one row for all locks of the same name")
    entries: int = option("-E,--entries", Value(parse_unsigned, default=0), "show at most n rows", metavar="<n>")


class LockInfoOptions(LockOptions):
    """Options of `perfpy lock info`."""

    threads: bool = option("-t,--threads", Flag(), "list only the threads")
    map: bool = option("-m,--map", Flag(), "list only the locks")


class LockContentionOptions(LockOptions, lacks=_LACKING):
    """Options of `perfpy lock contention`."""

    key: str = option("-k,--key", Value(default="wait_total"), "sort by this field", metavar="<wait_total>")
    field: str = option("-F,--field", Value(default=""), "show these fields, such as contended,wait_total", metavar="<fields>")
    threads: bool = option("-t,--threads", Flag(), "one row per thread")
    lock_owner: bool = option("-o,--lock-owner", Flag(), "one row per thread that held a lock")
    lock_addr: bool = option("-l,--lock-addr", Flag(), "one row per lock")
    entries: int = option("-E,--entries", Value(parse_unsigned, default=0), "show at most n rows", metavar="<n>")
    max_stack: int = option("--max-stack", Value(parse_unsigned, default=8), "use n functions of a callchain (default: 8)", metavar="<num>")
    stack_skip: int = option(
        "--stack-skip", Value(parse_unsigned, default=4), "skip n functions for the caller (default: 4)", metavar="<n>"
    )
    type_filter: str = option("-Y,--type-filter", Value(default=""), "only these types of locks", metavar="<FLAGS>")
    lock_filter: str = option("-L,--lock-filter", Value(default=""), "only these locks: addresses or symbols", metavar="<ADDRS/NAMES>")
    callstack_filter: str = option("-S,--callstack-filter", Value(default=""), "only waits in these functions", metavar="<NAMES>")
    field_separator: str = option("-x,--field-separator", Value(default=""), "print values with this separator", metavar="<separator>")
