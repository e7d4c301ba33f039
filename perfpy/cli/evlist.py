"""`perfpy evlist`: the events of a recording.

What enters: perf evlist's options. What leaves: perf's plain text.
"""

from __future__ import annotations

from perfpy.cli.line.options import fail, input_options, option, perf_command
from perfpy.untrusted.text import one_line

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from typing import Any


@perf_command()
@input_options
@option("-F", "--freq", is_flag=True, help="show the sampling frequency or period")
@option("-g", "--group", "groups", is_flag=True, help="show events that were counted together")
@option("-v", "--verbose", "verbose", is_flag=True, help="show all fields of the events")
@option("--trace-fields", is_flag=True, help="show the fields of tracepoints")
def command(freq: bool, groups: bool, verbose: bool, trace_fields: bool, **values: Any) -> None:
    """List the events of a recording."""
    from perfpy.cli.line.machine_names import MachineNames
    from perfpy.cli.line.opening import open_recording
    from perfpy.views.metadata.evlist import evlist_lines

    if groups and (verbose or freq):
        fail("--group shows groups alone: leave out -v and -F")
    with open_recording(values) as recording:
        lines = evlist_lines(
            recording,
            verbose=verbose,
            frequency=freq,
            groups=groups,
            trace_fields=trace_fields,
            names=MachineNames(recording.data),
        )
        for line in lines:
            print(one_line(line))
