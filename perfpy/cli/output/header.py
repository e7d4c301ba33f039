"""The header of a recording, for --header, --header-only and -I, in perf's format."""

from __future__ import annotations

from perfpy.cli.output.terminal import print_lines

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.recording import Recording


def lines_of_header(recording: Recording, *, full: bool) -> Iterator[str]:
    """Return the header's lines. full: include the topology."""
    from perfpy.cli.output.machine_names import MachineNames
    from perfpy.views.metadata.header import header_lines

    return header_lines(recording, full=full, names=MachineNames(recording.data))


def features_of_pipe(recording: Recording) -> list[str]:
    """Return the text of -I for a pipe: its features in order, without a file's header."""
    from perfpy.views.metadata.header import FRAME

    lines = list(lines_of_header(recording, full=True))
    return lines[lines.index(FRAME, 1) + 2 :]


def print_header(recording: Recording, *, full: bool) -> None:
    """Print the header on standard output."""
    print_lines(lines_of_header(recording, full=full))
