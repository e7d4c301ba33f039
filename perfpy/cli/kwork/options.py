"""Options of `perfpy kwork` and its actions: perf kwork's (perf-kwork(1))."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.cli.line.kinds import Flag, Value, parse_unsigned
from perfpy.cli.line.options import CommandOptions, fail, option
from perfpy.cli.line.shared import InputOptions, VerboseOptions

if TYPE_CHECKING:
    from collections.abc import Mapping

KINDS: Final = ("irq", "softirq", "workqueue", "sched")
_LACKING: Final[Mapping[str, str]] = {"-b,--use-bpf": "it needs perf's BPF programs; record, then read the recording"}


def kinds_of(text: str, default: tuple[str, ...]) -> tuple[str, ...]:
    """Return the kinds of work of -k, in perf's order; the default without it. Rejects unknown words."""
    words = [word for word in text.split(",") if word]
    for word in words:
        if word not in KINDS:
            fail(f"-k {word}: unknown kind of work; expected {', '.join(KINDS)}")
    return tuple(kind for kind in KINDS if kind in words) or default


class KindOptions(CommandOptions):
    """The kinds of work."""

    kwork: str = option("-k,--kwork", Value(default=""), "only this work: irq, softirq, workqueue, sched", metavar="<kwork>")


class KworkOptions(KindOptions, InputOptions, VerboseOptions):
    """Options of all actions that read a recording."""

    dump_raw_trace: bool = option("-D,--dump-raw-trace", Flag(), "print every record as bytes and text first")
    cpu: str = option("-C,--cpu", Value(default=""), "only these CPUs", metavar="<cpu>")
    name: str = option("-n,--name", Value(default=""), "only work of this name", metavar="<name>")
    time: str = option("--time", Value(default=""), "only this time: start,stop", metavar="<str>")
    vmlinux: str = option("--vmlinux", Value(default=""), "read kernel symbols from this ELF file", metavar="<file>")
    kallsyms: str = option("--kallsyms", Value(default=""), "read kernel symbols from this copy of /proc/kallsyms", metavar="<file>")
    symfs: str = option("--symfs", Value(default=""), "look for symbol files below this directory", metavar="<directory>")


class KworkReportOptions(KworkOptions, lacks=_LACKING):
    """Options of `perfpy kwork report`."""

    sort: str = option("-s,--sort", Value(default=""), "sort by: runtime, max, count", metavar="<key[,key2...]>")
    with_summary: bool = option("-S,--with-summary", Flag(), "show the summary of all work")


class KworkLatencyOptions(KworkOptions, lacks=_LACKING):
    """Options of `perfpy kwork latency`."""

    sort: str = option("-s,--sort", Value(default=""), "sort by: avg, max, count", metavar="<key[,key2...]>")


class KworkTimehistOptions(KworkOptions):
    """Options of `perfpy kwork timehist`."""

    kwork: str = option("--kwork", Value(default=""), "only this work: irq, softirq, workqueue", metavar="<kwork>")
    vmlinux: str = option("-k,--vmlinux", Value(default=""), "read kernel symbols from this ELF file", metavar="<file>")
    call_graph: bool = option("-g,--call-graph", Flag(), "show callchains, if recorded")
    max_stack: int = option("--max-stack", Value(parse_unsigned, default=5), "show at most n functions of a callchain", metavar="<n>")


class KworkTopOptions(KworkOptions, lacks=_LACKING):
    """Options of `perfpy kwork top`."""

    sort: str = option("-s,--sort", Value(default=""), "sort by: rate, runtime, tid", metavar="<key[,key2...]>")
