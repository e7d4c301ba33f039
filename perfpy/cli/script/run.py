"""One run of `perfpy script` over an open recording: lines, a dump, or calls of a program."""

from __future__ import annotations

import sys

from perfpy.abi.flags import RecordType
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

            print_header(recording, full=options.show_info)
            if options.header_only:
                return 0
        elif options.show_info and recording.data.is_pipe:
            from perfpy.cli.output.header import features_of_pipe
            from perfpy.cli.output.terminal import print_lines

            print_lines(features_of_pipe(recording))
        if options.gen_script:
            from perfpy.cli.script.programs import start_script

            return start_script(recording, options.gen_script)
        if options.script:
            from perfpy.cli.script.programs import run_script
            from perfpy.views.script.run import ScriptRun

            return run_script(recording, ScriptRun(recording, self._script_options()), options.script, options.words)
        if options.py:
            from perfpy.cli.script.programs import run_on_columns
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
        self._print_pmcu()
        sys.stdout.flush()  # Buffered text goes before bytes that bypass the text layer.
        if options.dump_raw_trace or options.dump_unsorted_raw_trace:
            self._dump(run)
        elif options.per_event_dump:
            self._write_each(run)
        elif options.debug_mode:
            run.write(sys.stdout.buffer, samples=False)
            _count_misordered(run)
        elif not run.write(sys.stdout.buffer):
            self._explain(run)
        if run.truncated_stacks:
            from perfpy.cli.output.notes import print_notes
            from perfpy.unwind.truncated_stacks import note

            print_notes(note(run.truncated_stacks), quiet=options.quiet, verbose=options.verbose)

    def _print_pmcu(self) -> None:
        """Print the samples of a PMCU, which are not ordered with the kernel's."""
        options = self._options
        trace = None if options.dump_raw_trace or options.dump_unsorted_raw_trace or options.debug_mode else self._recording.pmcu
        if trace is None:
            return
        from perfpy.cli.output.terminal import print_lines
        from perfpy.views.pmcu.table import script_lines

        print_lines(script_lines(trace, options.cpus))

    def _explain(self, run: ScriptRun) -> None:
        """Print why no sample was printed, if filters are the reason."""
        chosen = run.sample_filter()
        if self._options.quiet or (chosen.is_open and chosen.switch is None):
            return
        from perfpy.cli.line.empty_results import print_nothing_left  # few listings are empty

        print_nothing_left(self._recording, chosen, self._script_options().symbols)

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

    def _script_options(self) -> ScriptOptions:
        from perfpy.cli.line.perfconfig import load
        from perfpy.cli.line.symbol_values import inline_of, symbol_options_of
        from perfpy.views.script.run import ScriptOptions

        options, config = self._options, load()
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
            latency=options.latency,
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
        from perfpy.abi.flags import SampleType
        from perfpy.analysis.filters.sample_filter import SampleFilter

        options, data = self._options, self._recording.data
        # The fields of a pipe are unknown before it is read; perf does not check them.
        if options.cpus and not data.is_pipe and not all(event.attr.sample_type & SampleType.CPU for event in data.events):
            raise PerfError(f"{data.path}: the samples have no CPU field; drop -C, or record with --sample-cpu")
        cpus, count = options.cpus, data.features.get("nrcpus")
        if cpus and count and max(cpus) >= count.available:
            raise PerfError(f"-C {max(cpus)}: the recorded machine of {data.path} has the CPUs 0 to {count.available - 1}")
        return options.fill(
            SampleFilter,
            addresses=_addresses(options.symbols, options.addr_range),
            unknown_cpu=True,  # as perf script; perf report drops these samples
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
    from perfpy.analysis.filters.address_ranges import AddressRanges

    return AddressRanges.of(words, size)
