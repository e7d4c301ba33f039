"""Split a recording into a small perf.data without samples and their columns, and join both again: for tables of samples.

The joined perf.data has its records in order of delivery, and no registers, copies of stacks and group readings.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import Ragged
from perfpy.abi.flags import NATIVE_ENDIAN, RecordType
from perfpy.abi.framing import with_header
from perfpy.abi.sample_encoding import encode_rows, written_attr
from perfpy.errors import BadPerfDataError, PerfError
from perfpy.perfdata.header import FEATURE_NAMES, KEPT_FILES, Feature, encode_feature, key_of
from perfpy.perfdata.reader import PerfData
from perfpy.perfdata.writer import FileWriter, WrittenEvent
from perfpy.untrusted.destinations import create_new
from perfpy.untrusted.expansion import ExpansionError, column_chunks, memory_of
from perfpy.untrusted.files import open_regular

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from numpy.typing import NDArray

    from perfpy.abi.attr import EventAttr
    from perfpy.abi.columns import Columns
    from perfpy.abi.framing import HeaderBuildId


_NOT_KEPT: Final = Feature.AUXTRACE
NOT_IN_RECORDINGS: Final = frozenset((
    RecordType.FINISHED_ROUND, RecordType.HEADER_ATTR, RecordType.HEADER_EVENT_TYPE, RecordType.HEADER_TRACING_DATA,
    RecordType.HEADER_FEATURE, RecordType.HEADER_BUILD_ID, RecordType.AUXTRACE_INFO, RecordType.AUXTRACE,
    RecordType.CALLCHAIN_DEFERRED,
))  # fmt: skip


class Skeleton(NamedTuple):
    """A recording without its samples: the bytes of a perf.data, and the delivery key of each of its records."""

    file: bytes
    keys: NDArray[np.uint64]


def make_skeleton(data: PerfData) -> Skeleton:
    """Return the skeleton of a recording. Raises PerfError for recordings of the other byte order."""
    if data.endian != NATIVE_ENDIAN:
        raise PerfError(f"{data.path}: recorded on a machine of the other byte order; export it on a machine like that one")
    keys = []
    with tempfile.TemporaryDirectory(prefix="perfpy-") as folder:
        writer = FileWriter(os.path.join(folder, "perf.data"))
        try:
            writer.begin([WrittenEvent(written_attr(event.attr), tuple(event.ids)) for event in data.events], {})
            for raw in data.side_band().raw():
                if raw.type not in NOT_IN_RECORDINGS:
                    keys.append(raw.key)
                    writer.write(with_header(raw.type, raw.misc, raw.body, data.endian))
            if not keys:  # readers take a file without any record for unfinished
                keys.append(0)
                writer.write(with_header(RecordType.FINISHED_INIT, 0, b"", data.endian))
            features = {number: section for number, section in features_of(data).items() if number != _NOT_KEPT}
            writer.finish(features)
            return Skeleton(os.pread(writer.fd, writer.size, 0), np.array(keys, np.uint64))
        finally:
            writer.close()


def join_skeleton(skeleton: bytes, before: NDArray[np.int64], samples: Iterable[tuple[NDArray[np.int32], Columns]]) -> BinaryIO:
    """Join a skeleton and its samples; return the perf.data as an open file without a name.

    Args:
        skeleton: the bytes of a perf.data.
        before: int64[n], the number of samples before each record of the skeleton.
        samples: the events' indexes, and the columns, batch by batch.
    """
    with tempfile.TemporaryDirectory(prefix="perfpy-") as folder:
        path = os.path.join(folder, "skeleton.data")
        with open(create_new(path), "wb") as file:
            file.write(skeleton)
        with PerfData(path, as_stored=True) as data:
            writer = FileWriter(os.path.join(folder, "perf.data"))
            try:
                attrs = [event.attr for event in data.events]
                writer.begin([WrittenEvent(event.attr, tuple(event.ids)) for event in data.events], {})
                _interleave(data, before, _encode_samples(attrs, samples), writer)
                writer.finish(features_of(data))
                return os.fdopen(os.dup(writer.fd), "rb")
            finally:
                writer.close()


def _interleave(data: PerfData, before: NDArray[np.int64], samples: Iterator[Ragged], writer: FileWriter) -> None:
    """Write the records, and the samples before each."""
    records = [with_header(raw.type, raw.misc, raw.body, data.endian) for raw in data.side_band().raw()]
    if len(records) != len(before):
        raise BadPerfDataError(data.path, f"{len(before)} records were exported, the file has {len(records)}")
    order = np.argsort(before, kind="stable").tolist()
    positions = before.tolist()
    merged = number = 0
    for part in samples:
        bytes_of, offsets, count = part.values.tobytes(), (part.offsets * 8).tolist(), len(part)
        begin = 0
        while number < len(order) and positions[order[number]] < merged + count:
            here = positions[order[number]] - merged
            writer.write(bytes_of[offsets[begin] : offsets[here]], records[order[number]])
            begin, number = here, number + 1
        writer.write(bytes_of[offsets[begin] :])
        merged += count
    for one in order[number:]:
        writer.write(records[one])


def _encode_samples(attrs: list[EventAttr], samples: Iterable[tuple[NDArray[np.int32], Columns]]) -> Iterator[Ragged]:
    """Yield the samples of each batch as records, one row each, in whole words."""
    for event, columns in samples:
        present = np.flatnonzero(np.bincount(event, minlength=1)).tolist() if len(event) else []
        parts, rows = [], []
        for number in present:
            rows.append(np.flatnonzero(event == number))
            data, offsets = encode_rows(attrs[number], columns.take(rows[-1]), len(rows[-1]))
            parts.append(Ragged(data.view(np.uint64), offsets // 8))
        if parts:
            yield parts[0] if len(parts) == 1 else _in_order(parts, rows)


def _in_order(parts: list[Ragged], rows: list[Any]) -> Ragged:
    position = np.empty(sum(map(len, rows)), np.int64)
    position[np.concatenate(rows)] = np.arange(len(position))
    return Ragged.concat(parts).take(position)


# Open Parquet files of untrusted origin, if their contents fit a memory limit. Needs pyarrow.

_NUMBER: Final = 8
#: bytes in memory for each byte of the file; recordings reach 14, symbols as rows of objects 80
_RATIO: Final = 500
_SMALL: Final = 64 << 20
_FOOTER: Final = 16 << 20  # bytes of a string, and elements of a list, in the footer


@contextmanager
def open_table(path: str, columns: Collection[str] | None = None, *, width: int = _NUMBER, most: int | None = None) -> Iterator[Any]:
    """Open a Parquet file for reading.

    Strings and bytes come dictionary-encoded; the caller bounds what their repetition costs.

    Args:
        path: of the file.
        columns: to be read; None for all.
        width: bytes in memory per value.
        most: limit of bytes in memory, below the limit that the file's size gives.

    Raises ExpansionError if the columns would exceed the limit.
    """
    import pyarrow.parquet

    with open_regular(path) as file:
        limits = {"thrift_string_size_limit": _FOOTER, "thrift_container_size_limit": _FOOTER}
        footer = pyarrow.parquet.ParquetFile(file, **limits).metadata
        allowed = max(_SMALL, os.fstat(file.fileno()).st_size * _RATIO)
        total = 0
        for chunk in column_chunks(file, footer.num_columns):
            if chunk.values and (columns is None or chunk.name in columns):  # pages of other columns are never read
                total += memory_of(file, chunk.start, chunk.size, max(width, footer.schema.column(chunk.number).length))
        needed = total
        if needed > (allowed if most is None else min(allowed, most)):
            raise ExpansionError(f"{path} would become {needed:,} bytes")
        repeated = [one.name for one in footer.schema.to_arrow_schema() if _is_repeated(one.type)]
        with pyarrow.parquet.ParquetFile(file, metadata=footer, read_dictionary=repeated, **limits) as table:
            yield table


def damage_of_tables() -> tuple[type[Exception], ...]:
    """Return what reading a damaged table raises: pyarrow believes much of what a file says."""
    import pyarrow

    return (OSError, pyarrow.ArrowException, ValueError, KeyError, IndexError, TypeError, AttributeError)


def damaged_table(path: str, error: Exception) -> BadPerfDataError:
    """Return the error for a table that perfpy cannot read."""
    reason = (str(error).splitlines() or ["damaged"])[0]
    return BadPerfDataError(path, f"not a table exported by perfpy: {reason}", remedy="export the recordings again")


def _is_repeated(kind: Any) -> bool:
    import pyarrow

    return bool(pyarrow.types.is_binary(kind) or pyarrow.types.is_string(kind))


# Encode the features of a recording as sections of another file derived from it.

_OWN_FEATURES: Final = (Feature.TRACING_DATA, Feature.COMPRESSED)  # encoded separately; not true of the new file


def features_of(data: PerfData, build_ids: Collection[HeaderBuildId] | None = None) -> dict[int, bytes]:
    """Return the sections of all known features, by number.

    build_ids: replace the recording's own, if given.
    """
    features: dict[int, bytes] = {
        feature: encode_feature(feature, data.features[key_of(feature)], data.endian)
        for feature in FEATURE_NAMES
        if key_of(feature) in data.features and feature not in _OWN_FEATURES
    }
    if key_of(Feature.TRACING_DATA) in data.features:
        features[Feature.TRACING_DATA] = data.features[key_of(Feature.TRACING_DATA)]
    if KEPT_FILES in data.feature_sections:
        features[KEPT_FILES] = data.section(KEPT_FILES)
    if build_ids is not None:
        features[Feature.BUILD_ID] = encode_feature(Feature.BUILD_ID, tuple(build_ids), data.endian)
    return features
