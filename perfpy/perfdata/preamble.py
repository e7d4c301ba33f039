"""Read the events and features of a recording, before its records.

A file has them in tables and sections around its data (perfpy.perfdata.header), a pipe in
records among the others (perfpy.abi.perf_records).
"""

from __future__ import annotations

import os

from perfpy.abi.framing import as_number
from perfpy.errors import BadPerfDataError
from perfpy.perfdata.events import Preamble
from perfpy.perfdata.header import FEATURE_NAMES, SECTION_SIZE, FileHeader, FileSection, PipeHeader, decode_attr_table

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Final

    from perfpy.perfdata.source import ByteSource

    Warn = Callable[[str], None]


def read_preamble(source: ByteSource, header: FileHeader | PipeHeader, warn: Warn) -> Preamble:
    """Read the events and features of a file, or of a pipe up to its first sample.

    Raises BadPerfDataError if the records cannot be decoded without the damaged parts.
    """
    if isinstance(header, PipeHeader):
        # loaded here because headers of files need no numpy
        from perfpy.perfdata.records.pipe_preamble import PipePreamble

        return PipePreamble(source, header, warn).read()
    return _FilePreamble(source, header, warn).read()


class _FilePreamble:
    """A reader of the tables and sections of a file."""

    def __init__(self, source: ByteSource, header: FileHeader, warn: Warn) -> None:
        self._source = source
        self._header = header
        self._warn = warn

    def read(self) -> Preamble:
        preamble = Preamble(self._data_section())
        section = self._header.attrs
        if section.end > self._source.size:
            raise self._fail("the file ends within its table of events", section.offset)
        try:
            entries = decode_attr_table(self._source.read(*section), self._header.attr_size, self._header.endian)
        except ValueError as error:
            raise self._fail(str(error), section.offset) from None
        if not entries:
            raise self._fail("no events", section.offset)
        # Sections do not overlap: together they are no longer than the file.
        if sum(entry.ids.size for entry in entries) > self._source.size:
            raise self._fail("event ids longer than the file", section.offset)
        preamble.events = [(entry.attr, self._read_ids(entry.ids)) for entry in entries]
        if self._header.data.size:
            self._read_features(preamble)
        return preamble

    def _fail(self, reason: str, offset: int) -> BadPerfDataError:
        return BadPerfDataError(self._source.path, reason, offset=offset)

    def _data_section(self) -> FileSection:
        """Return the section of the records. The header of a killed recording has size 0, or that of the last mark without features."""
        data, size = self._header.data, self._source.size
        if data.offset > size:
            raise self._fail(f"the data begins here, beyond the file's {size} bytes", data.offset)
        if data.size and (self._header.features or data.end >= size):
            return data
        self._warn(f"data size {data.size}: the recording was not finished; read up to its last whole record")
        return FileSection(data.offset, size - data.offset)

    def _read_ids(self, section: FileSection) -> tuple[int, ...]:
        if section.end > self._source.size or section.size % 8:
            raise self._fail(f"event ids of {section.size} bytes in a file of {self._source.size}", section.offset)
        data = self._source.read(*section)
        return tuple(as_number(data[i : i + 8], self._header.endian) for i in range(0, len(data), 8))

    def _read_features(self, preamble: Preamble) -> None:
        header = self._header
        table = self._source.read(header.data.end, SECTION_SIZE * len(header.features))
        bytes_left = self._source.size  # sections do not overlap: together they are no longer than the file
        for index, number in enumerate(header.features):
            entry = table[index * SECTION_SIZE : (index + 1) * SECTION_SIZE]
            if len(entry) < SECTION_SIZE:
                self._warn(f"at offset {header.data.end:#x}: the feature table is truncated")
                return
            section = FileSection(as_number(entry[:8], header.endian), as_number(entry[8:], header.endian))
            preamble.feature_sections[number] = section
            bytes_left -= section.size
            if section.end > self._source.size or bytes_left < 0:
                self._warn(f"at offset {section.offset:#x}: feature {number} of {section.size} bytes extends beyond the file; skipped")
            elif number in FEATURE_NAMES:
                preamble.add_feature(number, self._source.read(*section), header.endian, self._warn)


# Recordings that are folders (perf record --threads): a main file, and one file for each recording thread. Layout:
# perf.data-directory-format.txt in the documentation of perf.

MAIN_FILE: Final = "data"


def main_file(folder: str) -> str:
    """Return the path of the main file of a recording in a folder."""
    return os.path.join(folder, MAIN_FILE)


# Recognize folders of tables (perfpy export --parquet), and list the recordings in them.

MARKER: Final = "perfpy.json"
VERSION: Final = 1
RECORDINGS: Final = "recordings"
SUFFIX: Final = ".parquet"


def recordings_in(origin: Any) -> list[str]:
    """Return the paths of the recordings in a folder of tables, or of the one recording that `origin` names; [] for anything else."""
    if not isinstance(origin, (str, os.PathLike)):
        return []
    path = os.fspath(origin)
    if path.endswith(SUFFIX):
        folder, name = os.path.split(os.path.abspath(path))
        is_recording = os.path.basename(folder) == RECORDINGS and os.path.isfile(os.path.join(os.path.dirname(folder), MARKER))
        return [os.path.join(folder, name)] if is_recording else []
    folder = os.path.join(path, RECORDINGS)
    if not (os.path.isdir(folder) and os.path.isfile(os.path.join(path, MARKER))):
        return []
    return sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(SUFFIX))
