"""`perfpy script`: every sample of a recording as a line of text.

What enters: perf script's options. What leaves: perf's plain text.
"""

from __future__ import annotations

import sys

from perfpy.cli.line.kinds import Flag, Listed, Value, unsigned
from perfpy.cli.line.options import CommandOptions, PerfCommand, fail, option, program_to_run
from perfpy.cli.line.shared import HeaderOptions, InputOptions, QuietOptions, SymbolFileOptions, VerboseOptions
from perfpy.untrusted.text import one_line

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

    from perfpy.analysis.filters.address_ranges import AddressRanges
    from perfpy.analysis.filters.sample_filter import SampleFilter
    from perfpy.recording import Recording
    from perfpy.views.script.fields import OutputFields
    from perfpy.views.script.run import ScriptOptions, ScriptRun

_HARDWARE_TRACE: Final = "it needs decoders of hardware traces"
_GUESTS: Final = "guests are not told apart yet"
_LACKING: Final = {
    "--dlfilter": "filters written in C are not loaded",
    "--dlarg": "filters written in C are not loaded",
    "--list-dlfilters": "filters written in C are not loaded",
    "--itrace": _HARDWARE_TRACE,
    "--insn-trace": _HARDWARE_TRACE,
    "--xed": _HARDWARE_TRACE,
    "--call-trace": _HARDWARE_TRACE,
    "--call-ret-trace": _HARDWARE_TRACE,
    "--graph-function": _HARDWARE_TRACE,
    "--stitch-lbr": "it needs call stacks from last branch records",
    "--guestmount": _GUESTS,
    "--guestvmlinux": _GUESTS,
    "--guestkallsyms": _GUESTS,
    "--guestmodules": _GUESTS,
    "--guest-code": _GUESTS,
}


class ScriptLineOptions(CommandOptions):
    """What a sample's line shows."""

    fields: tuple[str, ...] = option(
        "-F,--fields", Listed(), "fields to print; +field and -field change the usual ones", metavar="<[type:]field,...>"
    )
    dump_raw_trace: bool = option("-D,--dump-raw-trace", Flag(), "print every record as bytes and as text")
    dump_unsorted_raw_trace: bool = option("--dump-unsorted-raw-trace", Flag(), "the same in the order of the file, not of time")
    time: str = option("--time", Value(default=""), "only this time: start,stop, 10%-20%, 10%/2", metavar="<str>")
    latency: bool = option("-L,--Latency", Flag(), "shorter names of commands and CPUs")
    debug_mode: bool = option("-d,--debug-mode", Flag(), "print no samples, count those that come out of order")
    ns: bool = option("--ns", Flag(), "times with 9 decimal places")
    reltime: bool = option("--reltime", Flag(), "times since the first sample")
    deltatime: bool = option("--deltatime", Flag(), "times since the sample before")
    hide_call_graph: bool = option("-G,--hide-call-graph", Flag(), "no callchains, only the sampled address")
    max_stack: int = option("--max-stack", Value(unsigned, default=127), "this many frames of a callchain at most", metavar="<n>")
    max_blocks: int = option("--max-blocks", Value(unsigned, default=0), "with brstackinsn: so many blocks at most", metavar="<n>")
    stop_bt: str = option("--stop-bt", Value(default=""), "end callchains at these functions", metavar="<symbol[,symbol...]>")
    addr2line: str = option("--addr2line", Value(default=""), "taken as perf takes it: lines are read without a program", hidden=True)
    full_source_path: bool = option("--full-source-path", Flag(), "name source files with their folders")
    merge_callchains: bool = option(
        "--merge-callchains", Flag(default=True), "join what was deferred of callchains to its samples", negatable=False, hidden=True
    )
    show_kernel_path: bool = option("--show-kernel-path", Flag(), "the path of the kernel's symbols in place of [kernel.kallsyms]")


class ScriptSideBandOptions(CommandOptions):
    """Which records are shown among the samples."""

    show_task_events: bool = option("--show-task-events", Flag(), "show task records among the samples")
    show_mmap_events: bool = option("--show-mmap-events", Flag(), "show mmap records among the samples")
    show_switch_events: bool = option("--show-switch-events", Flag(), "show switch records among the samples")
    show_namespace_events: bool = option("--show-namespace-events", Flag(), "show namespace records among the samples")
    show_cgroup_events: bool = option("--show-cgroup-events", Flag(), "show cgroup records among the samples")
    show_lost_events: bool = option("--show-lost-events", Flag(), "show lost records among the samples")
    show_bpf_events: bool = option("--show-bpf-events", Flag(), "show bpf records among the samples")
    show_text_poke_events: bool = option("--show-text-poke-events", Flag(), "show text-poke records among the samples")
    show_round_events: bool = option("--show-round-events", Flag(), "show round records among the samples")

    @property
    def shown_records(self) -> frozenset[str]:
        """Their names."""
        asked = {
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
        return frozenset(name for name, shown in asked.items() if shown)


class ScriptFilterOptions(CommandOptions):
    """Where lines go, and which samples have one."""

    per_event_dump: bool = option("--per-event-dump", Flag(), "write each event's lines to a file, INPUT.EVENT.dump")
    cpu: str = option("-C,--cpu", Value(default=""), "only these CPUs", metavar="<cpu>")
    comms: str = option("-c,--comms", Value(default=""), "only these commands", metavar="<comm[,comm...]>")
    pid: str = option("--pid", Value(default=""), "only these processes", metavar="<pid[,pid...]>")
    tid: str = option("--tid", Value(default=""), "only these threads", metavar="<tid[,tid...]>")
    symbols: str = option(
        "-S,--symbols", Value(default=""), "only samples in these functions, or at 0xADDRESS", metavar="<symbol[,symbol...]>"
    )
    addr_range: int = option("--addr-range", Value(int, default=0), "with -S 0xADDRESS: so many bytes after it, too", metavar="<n>")
    dsos: str = option("--dsos", Value(default=""), "only samples in these files", metavar="<dso[,dso...]>")
    switch_on: str = option("--switch-on", Value(default=""), "only samples after this event", metavar="<event>")
    switch_off: str = option("--switch-off", Value(default=""), "only samples before this event", metavar="<event>")
    show_on_off_events: bool = option("--show-on-off-events", Flag(), "print the events of --switch-on and --switch-off, too")


class ScriptInfoOptions(CommandOptions):
    """What of the header is shown."""

    show_info: bool = option("-I,--show-info", Flag(), "show more of the header")


class ScriptProgramOptions(CommandOptions):
    """Programs that are called for every sample."""

    script: str = option("-s,--script", Value(default=""), "call the functions of a program in Python for each sample", metavar="<name>")
    py: str = option(
        "--py", Value(default=""), "call on_sample(batch) and on_record(record) of a program in Python, on columns", metavar="<file>"
    )
    gen_script: str = option("-g,--gen-script", Value(default=""), "write a program to begin with: python, or FILE.py", metavar="<lang>")
    list: bool = option("-l,--list", Flag(), "list the scripts of an installed perf", negatable=False)
    all_cpus: bool = option("-a,--all-cpus", Flag(), "with script record NAME: on all CPUs")


class ScriptCommandOptions(
    InputOptions,
    ScriptLineOptions,
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
    """What the command takes."""

    words: tuple[str, ...] = program_to_run("[[record | report] NAME] [ARGS]...")
    inline: bool | None = option("--inline", Flag(default=None), "show inlined calls (default: in unwound stacks)")

    @property
    def as_stored(self) -> bool:
        """Whether records come as they stand in the file: perf shows rounds there, so all else comes in that order, too."""
        return self.dump_unsorted_raw_trace or self.show_round_events


def run(asked: ScriptCommandOptions) -> int:
    """Read a recording and print every sample."""
    from perfpy.cli.line.opening import open_recording

    if asked.list:
        from perfpy.cli.scripting import list_scripts

        return list_scripts()
    if asked.py and asked.script:
        fail("-s calls a program for each sample, --py for columns of them: choose one")
    if asked.words and not (asked.script or asked.py):
        return _run_named(asked)
    if asked.reltime and asked.deltatime:
        fail("--reltime and --deltatime are two ways to show time: choose one")
    fields = _fields(asked.fields)
    with open_recording(asked.input, force=asked.force, quiet=asked.quiet, verbose=asked.verbose, as_stored=asked.as_stored) as recording:
        return _ScriptRun(recording, asked, fields).show()


def _run_named(asked: ScriptCommandOptions) -> int:
    import os

    from perfpy.cli.line.opening import input_hint
    from perfpy.cli.scripting import run_named

    word = asked.words[0]
    if word not in ("record", "report") and os.path.exists(word):
        fail(f"unexpected argument '{word}'" + input_hint(word))
    return run_named(asked.words, everywhere=asked.all_cpus)


def _fields(texts: Sequence[str]) -> OutputFields:
    from perfpy.views.script.fields import OutputFields

    fields = OutputFields()
    for text in texts:
        fields.apply(text)
    for warning in fields.warnings:
        print(warning, file=sys.stderr)
    return fields


class _ScriptRun:
    """One run of the command over an open recording."""

    def __init__(self, recording: Recording, asked: ScriptCommandOptions, fields: OutputFields) -> None:
        self._recording = recording
        self._asked = asked
        self._fields = fields

    def show(self) -> int:
        asked, recording = self._asked, self._recording
        if asked.header or asked.header_only:
            from perfpy.cli.line.header import print_header

            print_header(recording, full=asked.show_info)
            if asked.header_only:
                return 0
        elif asked.show_info and recording.data.is_pipe:
            from perfpy.cli.line.header import features_of_pipe
            from perfpy.cli.line.terminal import print_lines

            print_lines(features_of_pipe(recording))
        if asked.gen_script:
            from perfpy.cli.scripting import start_script

            return start_script(recording, asked.gen_script)
        if asked.script:
            from perfpy.cli.scripting import run_script
            from perfpy.views.script.run import ScriptRun

            return run_script(recording, ScriptRun(recording, self._options()), asked.script, asked.words)
        if asked.py:
            from perfpy.cli.scripting import run_on_columns
            from perfpy.views.script.run import ScriptRun

            options = self._options()
            part = recording.narrowed(ScriptRun(recording, options).sample_filter(), options.symbols)
            return run_on_columns(part, asked.py, asked.words)
        self._show_samples()
        return 0

    def _show_samples(self) -> None:
        from perfpy.views.script.run import ScriptRun

        asked, run = self._asked, ScriptRun(self._recording, self._options())
        for line in self._fields.skipped if asked.verbose and not asked.quiet else ():
            print(one_line(line), file=sys.stderr)
        self._print_pmcu()
        sys.stdout.flush()  # what was printed goes before what is written past the text layer
        if asked.dump_raw_trace or asked.dump_unsorted_raw_trace:
            self._dump(run)
        elif asked.per_event_dump:
            self._write_each(run)
        elif asked.debug_mode:
            run.write(sys.stdout.buffer, samples=False)
            _count_misordered(run)
        elif not run.write(sys.stdout.buffer):
            self._explain(run)
        if run.cut:
            from perfpy.cli.line.notes import tell
            from perfpy.unwind.cut_stacks import note

            tell(note(run.cut), quiet=asked.quiet, verbose=asked.verbose)

    def _print_pmcu(self) -> None:
        """The samples of hardware that keeps its own, which come in no order with the kernel's."""
        asked = self._asked
        trace = None if asked.dump_raw_trace or asked.dump_unsorted_raw_trace or asked.debug_mode else self._recording.pmcu
        if trace is None:
            return
        from perfpy.cli.line.terminal import print_lines
        from perfpy.views.pmcu.sample_lines import script_lines

        print_lines(script_lines(trace, _cpus(asked.cpu)))

    def _explain(self, run: ScriptRun) -> None:
        """Say why no sample was printed, where that is the filters' doing."""
        chosen = run.sample_filter()
        if self._asked.quiet or (chosen.is_open and chosen.switch is None):
            return
        from perfpy.cli.line.nothing_left import say_why_nothing  # few listings are empty

        say_why_nothing(self._recording, chosen, self._options().symbols)

    def _dump(self, run: ScriptRun) -> None:
        from perfpy.views.dump.recording import write_dump

        lines, round_text = run.dump_lines()
        write_dump(self._recording, sys.stdout.buffer, lines=lines, round_text=round_text)

    def _write_each(self, run: ScriptRun) -> None:
        import os

        from perfpy.untrusted.paths import component

        for path, printed in run.write_each(lambda name: f"{self._recording.path}.{component(name)}.dump"):
            # perf asks how large the file is before it has written the last block of 4096 bytes
            size = os.path.getsize(path) // 4096 * 4096 / 1024 / 1024
            print(f"[ perf script: Wrote {size:.3f} MB {path} ({printed} samples) ]")

    def _options(self) -> ScriptOptions:
        from perfpy.cli.line.perfconfig import load
        from perfpy.cli.line.symbol_values import inline_of, symbol_options_of
        from perfpy.views.script.run import ScriptOptions

        asked, config = self._asked, load()
        inline = inline_of(asked.inline, self._recording, plain=True)
        return ScriptOptions(
            fields=self._fields,
            shown=asked.shown_records,
            callchains=not asked.hide_call_graph,
            max_stack=asked.max_stack,
            max_blocks=asked.max_blocks,
            callers_first="caller".startswith(config.get("call-graph.order", "callee")),
            stop_at=_listed(asked.stop_bt) or frozenset(),
            kernel_path=asked.show_kernel_path,
            ns=asked.ns,
            latency=asked.latency,
            reltime=asked.reltime,
            deltatime=asked.deltatime,
            time=asked.time,
            sample_filter=self._sample_filter(),
            switch_on=asked.switch_on,
            switch_off=asked.switch_off,
            show_switches=asked.show_on_off_events,
            full_source_path=asked.full_source_path,
            symbols=symbol_options_of(asked, config, self._recording, force=asked.force, inline=inline),
        )

    def _sample_filter(self) -> SampleFilter:
        from perfpy.abi.flags import SampleType
        from perfpy.analysis.filters.sample_filter import SampleFilter
        from perfpy.errors import PerfError

        asked, data = self._asked, self._recording.data
        # of a pipe it is not known before it is read; perf does not ask then
        if asked.cpu and not data.is_pipe and not all(event.attr.sample_type & SampleType.CPU for event in data.events):
            raise PerfError(f"{data.path}: its samples do not say on which CPU they were taken: leave -C out, or record with --sample-cpu")
        cpus, count = _cpus(asked.cpu), data.features.get("nrcpus")
        if cpus and count and max(cpus) >= count.available:
            raise PerfError(f"-C {asked.cpu}: the machine that {data.path} was made on had the CPUs 0 to {count.available - 1}")
        return SampleFilter(
            cpus=cpus,
            comms=_listed(asked.comms),
            pids=_numbers("--pid", asked.pid),
            tids=_numbers("--tid", asked.tid),
            symbols=_listed(asked.symbols),
            dsos=_listed(asked.dsos),
            addresses=_addresses(asked.symbols, asked.addr_range),
            unknown_cpu=True,  # as perf script; its report leaves them out
        )


def _count_misordered(run: ScriptRun) -> None:
    count = 0
    for before, time in run.misordered():
        print(f"Samples misordered, previous: {before} this: {time}", file=sys.stderr)
        count += 1
    print(f"Misordered timestamps: {count}", file=sys.stderr)


def _listed(text: str) -> frozenset[str] | None:
    """The words of a list; None for no list."""
    return frozenset(word for word in text.split(",") if word) if text else None


def _numbers(name: str, text: str) -> frozenset[int] | None:
    words = _listed(text)
    if words is None:
        return None
    try:
        return frozenset(int(word) for word in words)
    except ValueError:
        fail(f"{name} {text!r}: a list of numbers is needed, such as 10,20")


def _addresses(words: str, size: int) -> AddressRanges | None:
    """The words of --symbols that are addresses."""
    if not words:
        return None
    from perfpy.analysis.filters.address_ranges import AddressRanges

    return AddressRanges.of(words.split(","), size)


def _cpus(text: str) -> frozenset[int] | None:
    """0-2,5"""
    if not text:
        return None
    from perfpy.abi.cpu_list import parse_cpu_list

    try:
        return frozenset(parse_cpu_list(text))
    except ValueError as error:
        fail(f"-C {text!r}: {error}")


command = PerfCommand(ScriptCommandOptions, run)
