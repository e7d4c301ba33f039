"""The file of raw stacks beside one that is unwound while it is recorded: as `--call-graph dwarf` without --unwind writes it.

What enters: what the rings hold. What leaves: a perf.data of its own. It is
begun with the recording, where the stacks are to be kept; or in its middle,
where unwinding ended before its time: then what is known of tasks and mappings
by that time stands in front of the first sample.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from perfpy.capture.output.data_file import DataFile
    from perfpy.capture.output.output import RecordOutput
    from perfpy.perfdata.container.writer import Slice


class StackFile:
    """One such file. output: where it goes; data_file: writes its head and its end, with the attrs that the kernel has."""

    def __init__(self, output: RecordOutput, data_file: DataFile) -> None:
        self._output = output
        self._data_file = data_file

    def begin(self, known: Iterable[bytes] | None) -> None:
        """Write what stands in front of the samples. known: the records of that; None: nothing was recorded yet."""
        if known is None:
            self._data_file.begin()
        else:
            self._data_file.resume(known)

    def write_ring(self, slices: Sequence[Slice]) -> None:
        """Records of a ring."""
        self._output.write_ring(slices)

    def end_round(self) -> None:
        """All rings were read."""
        self._output.end_round()

    def end(self) -> None:
        """Complete it."""
        self._data_file.end()
