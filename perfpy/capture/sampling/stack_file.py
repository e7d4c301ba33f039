"""The file of raw stacks beside one that is unwound while it is recorded: as `--call-graph dwarf` without --unwind writes it.

What enters: what the rings hold. What leaves: a perf.data of its own. It is
begun with the recording, where the stacks are to be kept; or in its middle,
where unwinding ended before its time: then what the other file knows of tasks
and mappings stands in front of the first sample.
"""

from __future__ import annotations

import os
import struct
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import RecordType
from perfpy.perfdata.container.writer import FileWriter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfpy.capture.sampling.data_file import DataFile
    from perfpy.capture.sampling.output import RecordOutput
    from perfpy.perfdata.container.writer import RecordWriter, Slice

_HEADER: Final = struct.Struct("=IHH")
_PIECE: Final = 1 << 20
_NOT_COPIED: Final = (RecordType.SAMPLE, RecordType.FINISHED_ROUND)


class StackFile:
    """One such file.

    output: where it goes; data_file: writes its head and its end, with the attrs that the kernel has; unwound: the
    file that it stands beside; is_packed: that one is compressed.
    """

    def __init__(self, output: RecordOutput, data_file: DataFile, unwound: RecordWriter, *, is_packed: bool) -> None:
        self._output = output
        self._data_file = data_file
        self._unwound = unwound
        self._is_packed = is_packed

    def begin(self, *, all_of_it: bool) -> None:
        """Write what stands in front of the samples. all_of_it: nothing was recorded yet."""
        if not all_of_it and isinstance(self._unwound, FileWriter) and not self._is_packed:
            self._data_file.resume(_side_band(self._unwound))
        else:
            self._data_file.begin(first=all_of_it)

    def write_ring(self, slices: Sequence[Slice]) -> None:
        """Records of a ring."""
        self._output.write_ring(slices)

    def end_round(self) -> None:
        """All rings were read."""
        self._output.end_round()

    def end(self) -> None:
        """Complete it."""
        self._data_file.end()


def _side_band(written: FileWriter) -> Iterator[bytes]:
    """The records of an uncompressed file but its samples, as far as it is written."""
    offset, end = written.data.offset, written.data.end
    while offset < end:
        piece = os.pread(written.fd, min(_PIECE, end - offset), offset)
        inside = 0
        while inside + 8 <= len(piece):
            kind, _, size = _HEADER.unpack_from(piece, inside)
            if size < 8 or inside + size > len(piece):
                break
            if kind not in _NOT_COPIED:
                yield piece[inside : inside + size]
            inside += size
        if not inside:  # nothing that could be a record
            return
        offset += inside
