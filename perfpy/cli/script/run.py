"""One run of `perfpy script` over an open recording: lines, a dump, or calls of a program."""

from __future__ import annotations

import sys

from perfpy.abi.flags import RecordType
from perfpy.cli.line.options import fail
from perfpy.errors import PerfError
from perfpy.untrusted.text import one_line

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.analysis.filters.address_ranges import AddressRanges
    from perfpy.analysis.filters.sample_filter import SampleFilter
    from perfpy.cli.script.options import ScriptCommandOptions
    from perfpy.recording import Recording
    from perfpy.views.script.fields import OutputFields
    from perfpy.views.script.run import ScriptOptions, ScriptRun


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

    def __init__(self, recording: Recording, asked: ScriptCommandOptions, fields: OutputFields) -> None:
        self._recording = recording
        self._asked = asked
        self._fields = fields

    def show(self) -> int:
        """Carry out the options; return the exit status."""
        asked, recording = self._asked, self._recording
        if asked.trace_fields and recording.data.record_index.type_counts[RecordType.AUXTRACE_INFO]:
            raise PerfError(f"{recording.path}: no decoder for this hardware trace; drop the option to print the samples")
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
            from perfpy.cli.script.programs import start_script

            return start_script(recording, asked.gen_script)
        if asked.script:
            from perfpy.cli.script.programs import run_script
            from perfpy.views.script.run import ScriptRun

            return run_script(recording, ScriptRun(recording, self._options()), asked.script, asked.words)
        if asked.py:
            from perfpy.cli.script.programs import run_on_columns
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
        sys.stdout.flush()  # Buffered text goes before bytes that bypass the text layer.
        if asked.dump_raw_trace or asked.dump_unsorted_raw_trace:
            self._dump(run)
        elif asked.per_event_dump:
            self._write_each(run)
        elif asked.debug_mode:
            run.write(sys.stdout.buffer, samples=False)
            _count_misordered(run)
        elif not run.write(sys.stdout.buffer):
            self._explain(run)
        if run.truncated:
            from perfpy.cli.line.notes import tell
            from perfpy.unwind.truncated_stacks import note

            tell(note(run.truncated), quiet=asked.quiet, verbose=asked.verbose)

    def _print_pmcu(self) -> None:
        """Print the samples of a PMCU, which are not ordered with the kernel's."""
        asked = self._asked
        trace = None if asked.dump_raw_trace or asked.dump_unsorted_raw_trace or asked.debug_mode else self._recording.pmcu
        if trace is None:
            return
        from perfpy.cli.line.terminal import print_lines
        from perfpy.views.pmcu.sample_lines import script_lines

        print_lines(script_lines(trace, _cpus(asked.cpu)))

    def _explain(self, run: ScriptRun) -> None:
        """Print why no sample was printed, if filters are the reason."""
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
            # perf reads the file's size before it writes the last block of 4096 bytes.
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
            ns=asked.ns or bool(asked.trace_fields),
            latency=asked.latency,
            reltime=asked.reltime,
            deltatime=asked.deltatime,
            time=asked.time,
            sample_filter=self._sample_filter(),
            jobs=asked.jobs,
            switch_on=asked.switch_on,
            switch_off=asked.switch_off,
            show_switches=asked.show_on_off_events,
            full_source_path=asked.full_source_path,
            symbols=symbol_options_of(asked, config, self._recording, force=asked.force, inline=inline),
        )

    def _sample_filter(self) -> SampleFilter:
        from perfpy.abi.flags import SampleType
        from perfpy.analysis.filters.sample_filter import SampleFilter

        asked, data = self._asked, self._recording.data
        # The fields of a pipe are unknown before it is read; perf does not check them.
        if asked.cpu and not data.is_pipe and not all(event.attr.sample_type & SampleType.CPU for event in data.events):
            raise PerfError(f"{data.path}: the samples have no CPU field; drop -C, or record with --sample-cpu")
        cpus, count = _cpus(asked.cpu), data.features.get("nrcpus")
        if cpus and count and max(cpus) >= count.available:
            raise PerfError(f"-C {asked.cpu}: the recorded machine of {data.path} has the CPUs 0 to {count.available - 1}")
        return SampleFilter(
            cpus=cpus,
            comms=_listed(asked.comms),
            pids=_numbers("--pid", asked.pid),
            tids=_numbers("--tid", asked.tid),
            symbols=_listed(asked.symbols),
            dsos=_listed(asked.dsos),
            addresses=_addresses(asked.symbols, asked.addr_range),
            unknown_cpu=True,  # as perf script; perf report drops these samples
        )


def _count_misordered(run: ScriptRun) -> None:
    count = 0
    for before, time in run.misordered():
        print(f"Samples misordered, previous: {before} this: {time}", file=sys.stderr)
        count += 1
    print(f"Misordered timestamps: {count}", file=sys.stderr)


def _listed(text: str) -> frozenset[str] | None:
    """Return the words of a list; None for no list."""
    return frozenset(word for word in text.split(",") if word) if text else None


def _numbers(name: str, text: str) -> frozenset[int] | None:
    words = _listed(text)
    if words is None:
        return None
    try:
        return frozenset(int(word) for word in words)
    except ValueError:
        fail(f"{name} {text!r}: expected a list of numbers, for example 10,20")


def _addresses(words: str, size: int) -> AddressRanges | None:
    """Return the addresses among the words of --symbols."""
    if not words:
        return None
    from perfpy.analysis.filters.address_ranges import AddressRanges

    return AddressRanges.of(words.split(","), size)


def _cpus(text: str) -> frozenset[int] | None:
    """Parse a list such as 0-2,5."""
    if not text:
        return None
    from perfpy.abi.cpu_list import parse_cpu_list

    try:
        return frozenset(parse_cpu_list(text))
    except ValueError as error:
        fail(f"-C {text!r}: {error}")
