"""`perfpy evlist`: list the events of a recording in perf's format."""

from __future__ import annotations

from perfpy.cli.line.option_parsing import Flag, PerfCommand, fail, option
from perfpy.cli.line.shared_options import InputOptions
from perfpy.untrusted.text import one_line


class EvlistCommandOptions(InputOptions):
    """Options of `perfpy evlist`."""

    freq: bool = option("-F,--freq", Flag(), "show the sampling frequency or period")
    groups: bool = option("-g,--group", Flag(), "show groups of events")
    verbose: bool = option("-v,--verbose", Flag(), "show all fields of the events")
    trace_fields: bool = option("--trace-fields", Flag(), "show the fields of tracepoints")


def run(options: EvlistCommandOptions) -> None:
    """List the events of a recording."""
    from perfpy.cli.line.input_recording import open_recording
    from perfpy.cli.output.header import MachineNames
    from perfpy.views.header_text import evlist_lines

    if options.groups and (options.verbose or options.freq):
        fail("--group excludes -v and -F")
    with open_recording(options.input, force=options.force) as recording:
        lines = evlist_lines(
            recording,
            verbose=options.verbose,
            frequency=options.freq,
            groups=options.groups,
            trace_fields=options.trace_fields,
            names=MachineNames(recording.data),
        )
        for line in lines:
            print(one_line(line))


command = PerfCommand(EvlistCommandOptions, run)
