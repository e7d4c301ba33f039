"""The header of a recording, for the commands that print it (--header, --header-only, -I).

What enters: an open recording. What leaves: perf's text on standard output.
"""

from __future__ import annotations

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from perfpy.recording import Recording


def print_header(recording: Recording, *, full: bool) -> None:
    """Print what the recording says of itself; full: the topology, too."""
    from perfpy.cli.machine_names import MachineNames
    from perfpy.views.facts.header import header_lines

    for line in header_lines(recording, full=full, names=MachineNames(recording.data)):
        print(line)
