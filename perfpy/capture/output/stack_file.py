"""The file of raw stacks beside a recording with --unwind, as `--call-graph dwarf` would write it.

With --keep-stacks it begins with the recording. If unwinding fails it begins in the middle, with the tasks and mappings known by
then before the first sample.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from perfpy.capture.output.data_file import DataFile
    from perfpy.capture.output.output import RecordOutput
    from perfpy.perfdata.container.writer import Slice


class StackFile:
    """One file. output is its destination; data_file writes its start and end, with the kernel's attrs."""

    def __init__(self, output: RecordOutput, data_file: DataFile) -> None:
        self._output = output
        self._data_file = data_file

    def begin(self, side_band: Iterable[bytes] | None) -> None:
        """Write everything before the samples. known has the records of tasks and mappings; None: nothing was recorded yet."""
        if side_band is None:
            self._data_file.begin()
        else:
            self._data_file.resume(side_band)

    def write_ring(self, slices: Sequence[Slice]) -> None:
        """Append records of a ring buffer."""
        self._output.write_ring(slices)

    def end_round(self) -> None:
        """Mark the end of a round."""
        self._output.end_round()

    def end(self) -> None:
        """Complete the file."""
        self._data_file.end()
