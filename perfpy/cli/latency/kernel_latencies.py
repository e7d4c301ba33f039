"""`perfpy latency --of KIND`: distributions of the kernel's latencies from a recording."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.analysis.kernel_latencies import read_latencies
from perfpy.cli.line.opening import open_recording
from perfpy.cli.output.terminal import is_terminal, print_lines, width
from perfpy.views.latency.distributions import distribution_json, distribution_lines

if TYPE_CHECKING:
    from perfpy.cli.latency.options import LatencyCommandOptions


def show_distributions(options: LatencyCommandOptions) -> int:
    """Print the distributions of a recording."""
    with open_recording(options.input, force=options.force, quiet=options.quiet) as recording:
        latencies = read_latencies(recording.data, options.of)
        if options.as_json:
            print(distribution_json(options.of, latencies))
        else:
            room = width() if is_terminal() else None
            print_lines(distribution_lines(options.of, latencies, all_groups=options.verbose > 0, room=room))
    return 0
