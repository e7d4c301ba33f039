"""Open Parquet files of untrusted origin, if their contents fit a memory limit. Needs pyarrow."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from perfpy.errors import BadPerfDataError
from perfpy.untrusted.expansion import ExpansionError
from perfpy.untrusted.files import open_regular
from perfpy.untrusted.parquet_pages import column_chunks, memory_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

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
        needed = _needed_size(file, footer, columns, width)
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


def _needed_size(file: BinaryIO, footer: Any, columns: Collection[str] | None, width: int) -> int:
    total = 0
    for chunk in column_chunks(file, footer.num_columns):
        if chunk.values and (columns is None or chunk.name in columns):  # pages of other columns are never read
            total += memory_of(file, chunk.start, chunk.size, max(width, footer.schema.column(chunk.number).length))
    return total
