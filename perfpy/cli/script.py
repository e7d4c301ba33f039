"""`perfpy script`: every sample of a recording as a line of text.

What enters: perf script's options. What leaves: perf's plain text.
"""

from __future__ import annotations

import sys

from perfpy.cli.line.decorators import (
    header_options,
    input_options,
    lacking_options,
    option,
    perf_command,
    quiet_option,
    symbol_options,
    verbose_option,
)
from perfpy.cli.line.kinds import unsigned
from perfpy.cli.line.options import fail

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from typing import Any, Final

    from perfpy.analysis.filters.sample_filter import SampleFilter
    from perfpy.recording import Recording
    from perfpy.views.script.fields import OutputFields
    from perfpy.views.script.run import ScriptOptions, ScriptRun

_SHOW: Final = ("task", "mmap", "switch", "namespace", "cgroup", "lost", "bpf", "text-poke", "round")
_HARDWARE_TRACE: Final = "it needs decoders of hardware traces"
_SCRIPTS: Final = "scripts are not run yet"
_GUESTS: Final = "guests are not told apart yet"
_LACKING: Final = {
    "-s,--script": _SCRIPTS,
    "-g,--gen-script": _SCRIPTS,
    "-l,--list": _SCRIPTS,
    "-a,--all-cpus": _SCRIPTS,
    "--dlfilter": "filters written in C are not loaded",
    "--dlarg": "filters written in C are not loaded",
    "--list-dlfilters": "filters written in C are not loaded",
    "--addr2line": "source lines are not read yet",
    "--full-source-path": "source lines are not read yet",
    "--max-blocks": "it needs a disassembler",
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


def _show_options(function: Any) -> Any:
    """--show-task-events and its kin, from the table."""
    for name in reversed(_SHOW):
        function = option(f"--show-{name}-events", is_flag=True, help=f"show {name} records among the samples")(function)
    return function


@perf_command()
@input_options
@option("-F", "--fields", multiple=True, metavar="<[type:]field,...>", help="fields to print; +field and -field change the usual ones")
@option("-D", "--dump-raw-trace", is_flag=True, help="print every record as bytes and as text")
@option("--dump-unsorted-raw-trace", is_flag=True, help="the same in the order of the file, not of time")
@option("--time", default="", metavar="<str>", help="only this time: start,stop, 10%-20%, 10%/2")
@option("-L", "--Latency", is_flag=True, help="shorter names of commands and CPUs")
@option("-d", "--debug-mode", is_flag=True, help="print no samples, count those that come out of order")
@option("--ns", is_flag=True, help="times with 9 decimal places")
@option("--reltime", is_flag=True, help="times since the first sample")
@option("--deltatime", is_flag=True, help="times since the sample before")
@option("-G", "--hide-call-graph", is_flag=True, help="no callchains, only the sampled address")
@option("--max-stack", type=unsigned, default=127, metavar="<n>", help="this many frames of a callchain at most")
@option("--stop-bt", default="", metavar="<symbol[,symbol...]>", help="end callchains at these functions")
@option("--show-kernel-path", is_flag=True, help="the path of the kernel's symbols in place of [kernel.kallsyms]")
@_show_options
@option("--per-event-dump", is_flag=True, help="write each event's lines to a file, INPUT.EVENT.dump")
@option("-C", "--cpu", default="", metavar="<cpu>", help="only these CPUs")
@option("-c", "--comms", default="", metavar="<comm[,comm...]>", help="only these commands")
@option("--pid", default="", metavar="<pid[,pid...]>", help="only these processes")
@option("--tid", default="", metavar="<tid[,tid...]>", help="only these threads")
@option("-S", "--symbols", default="", metavar="<symbol[,symbol...]>", help="only samples in these functions, or at 0xADDRESS")
@option("--addr-range", type=int, default=0, metavar="<n>", help="with -S 0xADDRESS: so many bytes behind it, too")
@option("--dsos", default="", metavar="<dso[,dso...]>", help="only samples in these files")
@option("--switch-on", default="", metavar="<event>", help="only samples behind this event")
@option("--switch-off", default="", metavar="<event>", help="only samples before this event")
@option("--show-on-off-events", is_flag=True, help="print the events of --switch-on and --switch-off, too")
@header_options
@option("-I", "--show-info", is_flag=True, help="show more of the header")
@symbol_options
@verbose_option
@quiet_option
@option("--inline", is_flag=True, lacking="inlined calls are not read yet", undone=True)
@lacking_options(_LACKING)
def command(**values: Any) -> int:
    """Read a recording and print every sample."""
    from perfpy.cli.line.opening import open_recording

    if values["reltime"] and values["deltatime"]:
        fail("--reltime and --deltatime are two ways to show time: choose one")
    fields = _fields(values["fields"])
    # perf shows rounds where they stand in the file, so all else comes in that order, too
    as_stored = values["dump_unsorted_raw_trace"] or values["show_round_events"]
    with open_recording(values["input"], force=values["force"], quiet=values["quiet"], as_stored=as_stored) as recording:
        return _Run(recording, values, fields).show()


def _fields(texts: list[str]) -> OutputFields:
    from perfpy.views.script.fields import OutputFields

    fields = OutputFields()
    for text in texts:
        fields.apply(text)
    for warning in fields.warnings:
        print(warning, file=sys.stderr)
    return fields


class _Run:
    """One run of the command over an open recording."""

    def __init__(self, recording: Recording, values: dict[str, Any], fields: OutputFields) -> None:
        self._recording = recording
        self._values = values
        self._fields = fields

    def show(self) -> int:
        values, recording = self._values, self._recording
        if values["header"] or values["header_only"]:
            from perfpy.cli.line.header import print_header

            print_header(recording, full=values["show_info"])
            if values["header_only"]:
                return 0
        elif values["show_info"] and recording.data.is_pipe:
            from perfpy.cli.line.header import features_of_pipe, print_lines

            print_lines(features_of_pipe(recording))
        from perfpy.views.script.run import ScriptRun

        run = ScriptRun(recording, self._options())
        sys.stdout.flush()  # what was printed goes before what is written past the text layer
        if values["dump_raw_trace"] or values["dump_unsorted_raw_trace"]:
            from perfpy.views.dump.recording import write_dump

            lines, round_text = run.dump_lines()
            write_dump(self._recording, sys.stdout.buffer, lines=lines, round_text=round_text)
        elif values["per_event_dump"]:
            self._write_each(run)
        elif values["debug_mode"]:
            run.write(sys.stdout.buffer, samples=False)
            _count_misordered(run)
        else:
            run.write(sys.stdout.buffer)
        return 0

    def _write_each(self, run: ScriptRun) -> None:
        import os

        from perfpy.untrusted.paths import component

        for path, printed in run.write_each(lambda name: f"{self._recording.path}.{component(name)}.dump"):
            # perf asks how large the file is before it has written the last block of 4096 bytes
            size = os.path.getsize(path) // 4096 * 4096 / 1024 / 1024
            print(f"[ perf script: Wrote {size:.3f} MB {path} ({printed} samples) ]")

    def _options(self) -> ScriptOptions:
        from perfpy.cli.line.perfconfig import load
        from perfpy.cli.line.symbol_values import symbol_options_of
        from perfpy.views.script.run import ScriptOptions

        values, config = self._values, load()
        return ScriptOptions(
            fields=self._fields,
            shown=frozenset(name for name in _SHOW if values[f"show_{name.replace('-', '_')}_events"]),
            callchains=not values["hide_call_graph"],
            max_stack=values["max_stack"],
            callers_first="caller".startswith(config.get("call-graph.order", "callee")),
            stop_at=_listed(values["stop_bt"]) or frozenset(),
            kernel_path=values["show_kernel_path"],
            ns=values["ns"],
            latency=values["Latency"],
            reltime=values["reltime"],
            deltatime=values["deltatime"],
            time=values["time"],
            keep=self._filter(),
            switch_on=values["switch_on"],
            switch_off=values["switch_off"],
            show_switches=values["show_on_off_events"],
            symbols=symbol_options_of(values, config, self._recording),
        )

    def _filter(self) -> SampleFilter:
        from perfpy.abi.flags import SampleType
        from perfpy.analysis.filters.address_ranges import AddressRanges
        from perfpy.analysis.filters.sample_filter import SampleFilter
        from perfpy.errors import PerfError

        values, data = self._values, self._recording.data
        # of a pipe it is not known before it is read; perf does not ask then
        if values["cpu"] and not data.is_pipe and not all(event.attr.sample_type & SampleType.CPU for event in data.events):
            raise PerfError(f"{data.path}: its samples do not say on which CPU they were taken: leave -C out, or record with --sample-cpu")
        return SampleFilter(
            cpus=_cpus(values["cpu"]),
            comms=_listed(values["comms"]),
            pids=_numbers("--pid", values["pid"]),
            tids=_numbers("--tid", values["tid"]),
            symbols=_listed(values["symbols"]),
            dsos=_listed(values["dsos"]),
            addresses=AddressRanges.of(values["symbols"].split(","), values["addr_range"]),
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


def _cpus(text: str) -> frozenset[int] | None:
    """0-2,5"""
    # headers are shown without it
    from perfpy.abi.cpu_list import parse_cpu_list

    try:
        return frozenset(parse_cpu_list(text)) if text else None
    except ValueError as error:
        fail(f"-C {text!r}: {error}")
