"""`perfpy script`: print every sample of a recording as a line of text, or pass it to a program."""

from __future__ import annotations

import os
import sys

from perfpy.abi.flags import Machines, RecordType, SampleType
from perfpy.cli.line.option_parsing import (
    UNWIND_STYLES,
    Attached,
    CommandOptions,
    Flag,
    Listed,
    PerfCommand,
    Value,
    fail,
    option,
    parse_unsigned,
    program_to_run,
    split_names,
)
from perfpy.cli.line.shared_options import (
    GuestFileOptions,
    HardwareTraceOptions,
    HeaderOptions,
    InputOptions,
    JobOptions,
    QuietOptions,
    SampleFilterOptions,
    SymbolFileOptions,
    VerboseOptions,
    inline_of,
    parse_names,
    shown_machines,
    symbol_options_of,
)
from perfpy.errors import PerfError, UsageError
from perfpy.untrusted.text import one_line

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

    from perfpy.analysis.filters import AddressRanges, SampleFilter
    from perfpy.recording import Recording
    from perfpy.views.script.fields import OutputFields
    from perfpy.views.script.run import ScriptOptions, ScriptRun


_HARDWARE_TRACE: Final = "it needs a decoder of instruction traces"
_LACKING: Final = {
    **dict.fromkeys(("--dlfilter", "--dlarg", "--list-dlfilters"), "it loads filters written in C; use --py for one in Python"),
    "--xed": _HARDWARE_TRACE,
    "--graph-function": _HARDWARE_TRACE,
    "--guest-code": "it looks up guests' addresses in their hypervisor",
}


#: Changes to the default fields by option, and samples of hardware traces.
_TRACE_SAMPLES: Final = {"call_trace": "cewp", "call_ret_trace": "crewp", "insn_trace": "i0nse"}
_TRACE_FIELDS: Final = {
    "call_trace": "-ip,-addr,-event,-period,+callindent",
    "call_ret_trace": "-ip,-addr,-event,-period,+flags,+callindent",
    "insn_trace": "+insn,-event,-period",
}


class ScriptTraceOptions(CommandOptions):
    """Streams of hardware traces. Other recordings show their samples with the same fields."""

    call_trace: str | None = option("--call-trace", Attached(""), "show calls of hardware traces")
    call_ret_trace: str | None = option("--call-ret-trace", Attached(""), "show calls and returns of hardware traces")
    insn_trace: str | None = option("--insn-trace", Attached(""), "show instructions of hardware traces", metavar="raw")

    @property
    def trace_samples(self) -> str:
        """The samples to make of a hardware trace without --itrace."""
        from perfpy.recording import SCRIPT_SAMPLES  # --header-only has no need of it

        names = [occurrence.name for occurrence in self.in_order(*_TRACE_FIELDS)]
        return _TRACE_SAMPLES[names[-1]] if names else SCRIPT_SAMPLES

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
        kinds = ("task", "mmap", "switch", "namespace", "cgroup", "lost", "bpf", "text-poke", "round")
        return frozenset(kind for kind in kinds if getattr(self, f"show_{kind.replace('-', '_')}_events"))


class ScriptFilterOptions(SampleFilterOptions):
    """Which samples are printed, and to which files."""

    per_event_dump: bool = option("--per-event-dump", Flag(), "write each event's lines to INPUT.EVENT.dump")
    symbols: tuple[str, ...] | None = option(
        "-S,--symbols", Value(parse_names), "only samples in these functions, or at 0xADDRESS", metavar="<symbol[,symbol...]>"
    )
    addr_range: int = option("--addr-range", Value(int, default=0), "with -S 0xADDRESS: the n bytes from there on", metavar="<n>")
    dsos: tuple[str, ...] | None = option("--dsos", Value(parse_names), "only samples in these files", metavar="<dso[,dso...]>")
    switch_on: str = option("--switch-on", Value(default=""), "only samples after this event", metavar="<event>")
    switch_off: str = option("--switch-off", Value(default=""), "only samples before this event", metavar="<event>")
    show_on_off_events: bool = option("--show-on-off-events", Flag(), "print the events of --switch-on and --switch-off, too")
    stitch_lbr: bool = option("--stitch-lbr", Flag(), "no effect without call stacks of branch records")


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
    HardwareTraceOptions,
    ScriptLineOptions,
    ScriptTraceOptions,
    ScriptSideBandOptions,
    ScriptFilterOptions,
    HeaderOptions,
    ScriptInfoOptions,
    SymbolFileOptions,
    GuestFileOptions,
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
    def machines(self) -> Machines:
        """The machines whose samples are shown: virtual machines with their files only, as in perf."""
        return Machines(guests=any(self.given("guestmount", "guestkallsyms", "guestmodules", "guestvmlinux")))

    @property
    def as_stored(self) -> bool:
        """Whether records come in file order. perf prints rounds in file order, so all other records follow it."""
        return self.dump_unsorted_raw_trace or self.show_round_events

    @property
    def dumps(self) -> bool:
        """Whether the records of the file are printed as bytes."""
        return self.dump_raw_trace or self.dump_unsorted_raw_trace


def run(options: ScriptCommandOptions) -> int:
    """Read a recording and print every sample."""
    from perfpy.cli.line.input_recording import LOSSES, open_recording, refuse_call_stacks_of_branches

    if options.list:
        from perfpy.cli.script_programs import list_scripts

        return list_scripts()
    if options.script == "lang":
        print("Languages of -s:\n\n  Python, py                                 [Python]", file=sys.stderr)
        return 0
    if options.py and options.script:
        fail("-s and --py exclude each other")
    if options.words and not (options.script or options.py):
        return _run_named(options)
    if options.reltime and options.deltatime:
        fail("--reltime and --deltatime exclude each other")

    words = [word for text in options.fields for word in text.split(",") if word]
    if options.trace_fields and not all(word[0] in "+-" for word in words):
        fail("--call-trace, --call-ret-trace and --insn-trace exclude -F; -F +FIELD and -F -FIELD change their fields")
    fields = output_fields([*options.trace_fields, *options.fields])
    itrace = None if options.dumps or options.header_only else options.decoding or options.trace_samples
    names = set().union(*(one.fields for one in fields.sets.values()))
    details = None
    if itrace is not None and (fields.flags or names & {"callindent", "ipc"}):
        from perfpy.abi.perf_records import TraceDetails

        details = TraceDetails(branch_flags=fields.flags or "callindent" in names, ipc="ipc" in names)
    with open_recording(
        options.input,
        force=options.force,
        quiet=options.quiet,
        verbose=options.verbose,
        as_stored=options.as_stored,
        keeps_memory=not options.header_only,
        losses=LOSSES[1:] if options.show_lost_events else LOSSES,
        itrace=itrace,
        trace_details=details,
        code=None if itrace is None else options.code_files(),
    ) as recording:
        if options.stitch_lbr:
            refuse_call_stacks_of_branches(recording)
        return SampleListing(recording, options, fields).show()


def _run_named(options: ScriptCommandOptions) -> int:
    from perfpy.cli.line.input_recording import input_hint
    from perfpy.cli.script_programs import run_named

    word = options.words[0]
    if word not in ("record", "report") and os.path.exists(word):
        fail(f"unexpected argument '{word}'" + input_hint(word))
    return run_named(options.words, everywhere=options.all_cpus)


command = PerfCommand(ScriptCommandOptions, run)


def output_fields(texts: Sequence[str]) -> OutputFields:
    """Parse the texts of -F in order; print warnings."""
    from perfpy.views.script.fields import OutputFields

    fields = OutputFields()
    for text in texts:
        fields.apply(text)
    for warning in fields.warnings:
        print(warning, file=sys.stderr)
    return fields


class SampleListing:
    """One run of the command over an open recording."""

    def __init__(self, recording: Recording, options: ScriptCommandOptions, fields: OutputFields) -> None:
        self._recording = recording
        self._options = options
        self._fields = fields

    def show(self) -> int:
        """Carry out the options; return the exit status."""
        options, recording = self._options, self._recording
        if options.trace_fields and recording.data.record_index.type_counts[RecordType.AUXTRACE_INFO]:
            raise PerfError(f"{recording.path}: no decoder for this hardware trace; drop the option to print the samples")
        if options.header or options.header_only:
            from perfpy.cli.output.header import print_header

            is_ordered_dump = options.dumps and not options.dump_unsorted_raw_trace
            dumps_features = options.dumps and not options.header_only
            print_header(recording, full=options.show_info, warns=is_ordered_dump, dumps_features=dumps_features)
            if options.header_only:
                return 0
        elif options.show_info and recording.data.is_pipe and not options.dumps:
            from perfpy.cli.output.header import features_of_pipe
            from perfpy.cli.output.terminal import print_lines

            print_lines(features_of_pipe(recording))
        if options.gen_script:
            from perfpy.cli.script_programs import start_script

            return start_script(recording, options.gen_script)
        if options.script:
            from perfpy.cli.script_programs import run_script
            from perfpy.views.script.run import ScriptRun

            return run_script(recording, ScriptRun(recording, self._script_options()), options.script, options.words)
        if options.py:
            from perfpy.cli.script_programs import run_on_columns
            from perfpy.views.script.run import ScriptRun

            script_options = self._script_options()
            part = recording.narrowed(ScriptRun(recording, script_options).sample_filter(), script_options.symbols)
            return run_on_columns(part, options.py, options.words)
        self._show_samples()
        return 0

    def _show_samples(self) -> None:
        from perfpy.views.script.run import ScriptRun

        options, run = self._options, ScriptRun(self._recording, self._script_options())
        for line in self._fields.skipped if options.verbose and not options.quiet else ():
            print(one_line(line), file=sys.stderr)
        if options.per_event_dump:
            for event in self._recording.events:
                self._path_of(event.name)  # raises before any output
        self._print_pmcu()
        sys.stdout.flush()  # Buffered text goes before bytes that bypass the text layer.
        if options.dumps:
            self._dump(run)
        if options.per_event_dump:
            self._write_each(run)
        elif options.debug_mode and not options.dumps:
            run.write(sys.stdout.buffer, samples=False)
        elif not options.dumps and not run.write(sys.stdout.buffer):
            self._explain(run)
        if options.debug_mode:
            _count_misordered(run)
        if run.truncated_stacks:
            from perfpy.cli.output.terminal import print_notes
            from perfpy.symbols.quality_notes import truncation_note

            print_notes(truncation_note(run.truncated_stacks), quiet=options.quiet, verbose=options.verbose)

    def _print_pmcu(self) -> None:
        """Print the samples of a PMCU, which are not ordered with the kernel's."""
        options = self._options
        trace = None if options.dump_raw_trace or options.dump_unsorted_raw_trace or options.debug_mode else self._recording.pmcu
        if trace is None:
            return
        from perfpy.cli.output.terminal import print_lines
        from perfpy.views.dump.aux_data import script_lines

        print_lines(script_lines(trace, options.cpus))

    def _explain(self, run: ScriptRun) -> None:
        """Print why no sample was printed, if filters are the reason."""
        chosen = run.sample_filter()
        requested = chosen if self._recording.data.sample_counts.total() else chosen._replace(machines=None)  # set without an option, too
        if self._options.quiet or (requested.is_open and requested.switch is None):
            return
        from perfpy.cli.line.empty_results import print_nothing_left  # few listings are empty

        print_nothing_left(self._recording, chosen, self._script_options().symbols)

    def _dump(self, run: ScriptRun) -> None:
        from perfpy.cli.output.header import print_records

        options = self._options
        lines, round_text = run.dump_lines(samples=not options.per_event_dump, owners=not options.debug_mode)
        print_records(
            self._recording,
            features=options.header or options.show_info,
            full=options.show_info,
            is_warned=options.header or options.dump_unsorted_raw_trace,  # perf warns of dumps in order
            lines=lines,
            round_text=round_text,
        )

    def _path_of(self, event: str) -> str:
        """Return the file of an event's lines. Raises UnsafeNameError."""
        from perfpy.untrusted.files import component

        return f"{self._recording.path}.{component(event)}.dump"

    def _write_each(self, run: ScriptRun) -> None:
        options = self._options
        sys.stdout.flush()
        records = None if options.dumps else sys.stdout.buffer
        for path, printed in run.write_each(self._path_of, records, samples=not options.debug_mode):
            # perf reads the file's size before it writes the last block of 4096 bytes; with -v, it writes each sample at once.
            block = 1 if options.verbose else 4096
            size = os.path.getsize(path) // block * block / 1024 / 1024
            print(f"[ perf script: Wrote {size:.3f} MB {path} ({printed} samples) ]")

    def _script_options(self) -> ScriptOptions:
        from perfpy.cli.line.perfconfig import load_config
        from perfpy.views.script.run import ScriptOptions

        options, config = self._options, load_config()
        inline = inline_of(options.inline, self._recording, plain=True)
        return ScriptOptions(
            fields=self._fields,
            side_band_types=options.shown_records,
            callchains=not options.hide_call_graph,
            max_stack=options.max_stack,
            max_blocks=options.max_blocks,
            callers_first="caller".startswith(config.get("call-graph.order", "callee")),
            stop_at=frozenset(options.stop_at),
            kernel_path=options.show_kernel_path,
            ns=options.ns or bool(options.trace_fields),
            pads_dso=options.call_trace is not None,
            latency=options.latency,
            verbose=bool(options.verbose),
            reltime=options.reltime,
            deltatime=options.deltatime,
            time=options.time,
            sample_filter=self._sample_filter(),
            jobs=options.jobs,
            switch_on=options.switch_on,
            switch_off=options.switch_off,
            show_switches=options.show_on_off_events,
            full_source_path=options.full_source_path,
            symbols=symbol_options_of(options, config, self._recording, force=options.force, inline=inline),
        )

    def _sample_filter(self) -> SampleFilter:
        from perfpy.analysis.filters import SampleFilter, check_cpus

        options, data = self._options, self._recording.data
        # The fields of a pipe are unknown before it is read; perf does not check them.
        if options.cpus and not data.is_pipe and not all(event.attr.sample_type & SampleType.CPU for event in data.events):
            raise PerfError(f"{data.path}: the samples have no CPU field; drop -C, or record with --sample-cpu")
        check_cpus(options.cpus, data)
        return options.fill(
            SampleFilter,
            addresses=_addresses(options.symbols, options.addr_range),
            unknown_cpu=True,  # as perf script; perf report drops these samples
            machines=shown_machines(options, self._recording),
        )


def _count_misordered(run: ScriptRun) -> None:
    count = 0
    for before, time in run.misordered_samples():
        print(f"Samples misordered, previous: {before} this: {time}", file=sys.stderr)
        count += 1
    print(f"Misordered timestamps: {count}", file=sys.stderr)


def _addresses(words: tuple[str, ...] | None, size: int) -> AddressRanges | None:
    """Return the addresses among the words of --symbols."""
    if not words:
        return None
    from perfpy.analysis.filters import AddressRanges

    return AddressRanges.of(words, size)
