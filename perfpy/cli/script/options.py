"""Options of `perfpy script`: perf script's, by topic."""

from __future__ import annotations

from perfpy.cli.line.filters import SampleFilterOptions, parse_names, split_names
from perfpy.cli.line.kinds import UNWIND_STYLES, Attached, Flag, Listed, Value, parse_unsigned
from perfpy.cli.line.options import CommandOptions, option, program_to_run
from perfpy.cli.line.shared import HeaderOptions, InputOptions, JobOptions, QuietOptions, SymbolFileOptions, VerboseOptions
from perfpy.errors import UsageError

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from typing import Final

_HARDWARE_TRACE: Final = "it needs decoders of hardware traces"
_GUESTS: Final = "perfpy does not distinguish guests"
_LACKING: Final = {
    **dict.fromkeys(("--dlfilter", "--dlarg", "--list-dlfilters"), "it loads filters written in C; use --py for one in Python"),
    "--itrace": _HARDWARE_TRACE,
    "--xed": _HARDWARE_TRACE,
    "--graph-function": _HARDWARE_TRACE,
    "--stitch-lbr": "it needs call stacks from last branch records",
    "--guestmount": _GUESTS,
    "--guestvmlinux": _GUESTS,
    "--guestkallsyms": _GUESTS,
    "--guestmodules": _GUESTS,
    "--guest-code": _GUESTS,
}


#: Changes to the default fields by option.
_TRACE_FIELDS: Final = {
    "call_trace": "-ip,-addr,-event,-period",
    "call_ret_trace": "-ip,-addr,-event,-period,+flags",
    "insn_trace": "+insn,-event,-period",
}


class ScriptTraceOptions(CommandOptions):
    """Streams of hardware traces. Other recordings show their samples with the same fields."""

    call_trace: str | None = option("--call-trace", Attached(""), "show calls (hardware traces are not decoded)")
    call_ret_trace: str | None = option("--call-ret-trace", Attached(""), "show calls and returns (hardware traces are not decoded)")
    insn_trace: str | None = option("--insn-trace", Attached(""), "show instructions (hardware traces are not decoded)", metavar="raw")

    @property
    def trace_fields(self) -> list[str]:
        """The changes to the default fields, in the order of the options; empty without these options. Raises UsageError."""
        names = [occurrence.name for occurrence in self.in_order(*_TRACE_FIELDS)]
        if self.insn_trace not in (None, "", "raw"):
            raise UsageError(
                f"--insn-trace={self.insn_trace}: expected raw (the default); -F +disasm prints the instruction of each sample"
            )
        return [_TRACE_FIELDS[name] for name in dict.fromkeys(names) if getattr(self, name) is not None]


class ScriptLineOptions(CommandOptions):
    """The contents of a sample's line."""

    fields: tuple[str, ...] = option(
        "-F,--fields", Listed(), "print these fields; +field and -field change the default", metavar="<[type:]field,...>"
    )
    dump_raw_trace: bool = option("-D,--dump-raw-trace", Flag(), "print every record as bytes and text")
    dump_unsorted_raw_trace: bool = option("--dump-unsorted-raw-trace", Flag(), "print every record in file order")
    time: str = option("--time", Value(default=""), "only this time: start,stop, 10%-20%, 10%/2", metavar="<str>")
    latency: bool = option("-L,--Latency", Flag(), "shorten names of commands and CPUs")
    debug_mode: bool = option("-d,--debug-mode", Flag(), "print no samples, count those out of order")
    ns: bool = option("--ns", Flag(), "show times with 9 decimal places")
    reltime: bool = option("--reltime", Flag(), "show times since the first sample")
    deltatime: bool = option("--deltatime", Flag(), "show times since the previous sample")
    hide_call_graph: bool = option("-G,--hide-call-graph", Flag(), "hide callchains, show only the sampled address")
    max_stack: int = option("--max-stack", Value(parse_unsigned, default=127), "print at most n frames of a callchain", metavar="<n>")
    max_blocks: int = option("--max-blocks", Value(parse_unsigned, default=0), "with brstackinsn: print at most n blocks", metavar="<n>")
    stop_at: tuple[str, ...] = option(
        "--stop-bt", Value(split_names, default=()), "end callchains at these functions", metavar="<symbol[,symbol...]>"
    )
    addr2line: str = option("--addr2line", Value(default=""), "taken as perf takes it: lines are read without a program", hidden=True)
    full_source_path: bool = option("--full-source-path", Flag(), "show full paths of source files")
    merge_callchains: bool = option(
        "--merge-callchains", Flag(default=True), "join what was deferred of callchains to its samples", negatable=False, hidden=True
    )
    show_kernel_path: bool = option("--show-kernel-path", Flag(), "show the path of the kernel's symbol file")


class ScriptSideBandOptions(CommandOptions):
    """Which records are printed among the samples."""

    show_task_events: bool = option("--show-task-events", Flag(), "print task records, too")
    show_mmap_events: bool = option("--show-mmap-events", Flag(), "print mmap records, too")
    show_switch_events: bool = option("--show-switch-events", Flag(), "print switch records, too")
    show_namespace_events: bool = option("--show-namespace-events", Flag(), "print namespace records, too")
    show_cgroup_events: bool = option("--show-cgroup-events", Flag(), "print cgroup records, too")
    show_lost_events: bool = option("--show-lost-events", Flag(), "print lost records, too")
    show_bpf_events: bool = option("--show-bpf-events", Flag(), "print bpf records, too")
    show_text_poke_events: bool = option("--show-text-poke-events", Flag(), "print text-poke records, too")
    show_round_events: bool = option("--show-round-events", Flag(), "print round records, too")

    @property
    def shown_records(self) -> frozenset[str]:
        """The kinds of records that are printed beside samples."""
        is_shown = {
            "task": self.show_task_events,
            "mmap": self.show_mmap_events,
            "switch": self.show_switch_events,
            "namespace": self.show_namespace_events,
            "cgroup": self.show_cgroup_events,
            "lost": self.show_lost_events,
            "bpf": self.show_bpf_events,
            "text-poke": self.show_text_poke_events,
            "round": self.show_round_events,
        }
        return frozenset(name for name, flag in is_shown.items() if flag)


class ScriptFilterOptions(SampleFilterOptions):
    """Which samples are printed, and to which files."""

    per_event_dump: bool = option("--per-event-dump", Flag(), "write each event's lines to INPUT.EVENT.dump")
    symbols: tuple[str, ...] | None = option(
        "-S,--symbols", Value(parse_names), "only samples in these functions, or at 0xADDRESS", metavar="<symbol[,symbol...]>"
    )
    addr_range: int = option("--addr-range", Value(int, default=0), "with -S 0xADDRESS: also the n bytes after it", metavar="<n>")
    dsos: tuple[str, ...] | None = option("--dsos", Value(parse_names), "only samples in these files", metavar="<dso[,dso...]>")
    switch_on: str = option("--switch-on", Value(default=""), "only samples after this event", metavar="<event>")
    switch_off: str = option("--switch-off", Value(default=""), "only samples before this event", metavar="<event>")
    show_on_off_events: bool = option("--show-on-off-events", Flag(), "print the events of --switch-on and --switch-off, too")


class ScriptInfoOptions(CommandOptions):
    """Which parts of the header are shown."""

    show_info: bool = option("-I,--show-info", Flag(), "show the extended header")


class ScriptProgramOptions(CommandOptions):
    """Programs that are called for every sample."""

    script: str = option("-s,--script", Value(default=""), "call the functions of a Python program for each sample", metavar="<name>")
    py: str = option("--py", Value(default=""), "call on_sample(batch) of a Python program, on columns", metavar="<file>")
    gen_script: str = option("-g,--gen-script", Value(default=""), "write a starter program: python, or FILE.py", metavar="<lang>")
    list: bool = option("-l,--list", Flag(), "list the scripts of an installed perf", negatable=False)
    all_cpus: bool = option("-a,--all-cpus", Flag(), "with script record NAME: record all CPUs")


class ScriptCommandOptions(
    InputOptions,
    JobOptions,
    ScriptLineOptions,
    ScriptTraceOptions,
    ScriptSideBandOptions,
    ScriptFilterOptions,
    HeaderOptions,
    ScriptInfoOptions,
    SymbolFileOptions,
    VerboseOptions,
    QuietOptions,
    ScriptProgramOptions,
    lacks=_LACKING,
):
    """Options of `perfpy script`."""

    words: tuple[str, ...] = program_to_run("[[record | report] NAME] [ARGS]...")
    unwind_style: str = option("--unwind-style", Value(UNWIND_STYLES, default=""), "stacks are unwound without", hidden=True)
    inline: bool | None = option("--inline", Flag(default=None), "show inlined calls (default: in unwound stacks)")

    @property
    def as_stored(self) -> bool:
        """Whether records come in file order. perf prints rounds in file order, so all other records follow it."""
        return self.dump_unsorted_raw_trace or self.show_round_events
