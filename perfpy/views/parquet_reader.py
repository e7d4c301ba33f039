"""Read a recording from a folder of tables: the original perf.data, except for the parts that are not exported.

Layout of the tables: perfpy.views.parquet. Needs pyarrow.
"""

from __future__ import annotations

import os
from functools import cached_property
from glob import escape, glob
from typing import TYPE_CHECKING, Any, BinaryIO, Final

import numpy as np

from perfpy.abi.columns import Columns, Ragged
from perfpy.abi.sample_decoding import BRANCH_DTYPE
from perfpy.errors import BadPerfDataError
from perfpy.perfdata.preamble import VERSION
from perfpy.perfdata.skeleton import damage_of_tables, damaged_table, join_skeleton, open_table
from perfpy.symbols.symbol_table import SymbolTable, symbols_of_names
from perfpy.untrusted.expansion import ExpansionError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


_NUMBER, _OBJECT = 8, 200  # bytes of a value: of a number, and of an object in a row
#: of all tables: many times a day's recording
_MOST: Final = 4 << 30
_OF_SYMBOLS: Final = ("start", "end", "name", "build_id", "path", "inlined")
_OWN: Final = ("recording", "at", "event", "task", "symbol", "frame", "stack", "chain", "event_in_file", "host", "day")


def open_exported(path: str) -> tuple[BinaryIO, bool]:
    """Return the recording as an open file without a name, and whether its callchains were unwound. Raises BadPerfDataError."""
    from perfpy.views.parquet import require_pyarrow

    require_pyarrow()
    folder, key = os.path.dirname(os.path.dirname(path)), os.path.basename(path).partition(".")[0]
    try:
        about = _rows(path, ["file", "before", "unwound", "samples"])
        chains = _read_ragged(_rows(os.path.join(folder, "chains", f"{key}.parquet"), ["addresses"])["addresses"].combine_chunks())
        files = sorted(glob(os.path.join(escape(folder), "samples", "host=*", "day=*", f"{key}.parquet")), key=os.path.dirname)
        before = np.array(about["before"][0].as_py(), np.int64)
        samples = (part for file in files for part in _samples(file, chains))
        return join_skeleton(about["file"][0].as_py(), before, samples), bool(about["unwound"][0].as_py())
    except damage_of_tables() as error:
        raise BadPerfDataError(
            path, f"not a recording exported by perfpy (version {VERSION}): {(str(error).splitlines() or ['damaged'])[0]}"
        ) from None


class ExportedSymbols:
    """The symbols of a folder of tables: those of its recordings' samples and callchains."""

    def __init__(self, path: str) -> None:
        """Set the folder; path: of one of the recordings."""
        self._folder = os.path.join(os.path.dirname(os.path.dirname(path)), "symbols")

    def table(self, file: str) -> SymbolTable | None:
        """Return the symbols of a file, by its build-id, or by its name without one."""
        rows = sorted({(start, end, name) for start, end, name, whose in self._rows if whose == file})
        if not rows:
            return None
        starts, ends = (np.array([row[side] for row in rows], np.int64).view(np.uint64) for side in (0, 1))
        order = np.argsort(starts, kind="stable")
        names = [rows[row][2].encode("utf-8", "surrogateescape") for row in order.tolist()]
        return SymbolTable(symbols_of_names(starts[order], ends[order], names))

    @cached_property
    def _rows(self) -> list[tuple[int, int, str, str]]:
        """Start, end, name, and build-id or path of each symbol."""
        symbols: list[tuple[int, int, str, str]] = []
        for path in sorted(glob(os.path.join(escape(self._folder), "*.parquet"))):
            try:
                symbols += _symbols_in(path)
            except damage_of_tables() as error:
                raise damaged_table(path, error) from None
        return symbols


def _symbols_in(path: str) -> Iterator[tuple[int, int, str, str]]:
    """Yield start, end, name, and build-id or path of each symbol of a table. Raises as damage_of_tables() says."""
    table = _rows(path, [*_OF_SYMBOLS], _OBJECT)
    columns = [_values(table[name]) for name in _OF_SYMBOLS]
    for start, end, name, build_id, file, inlined in zip(*columns, strict=True):
        if not isinstance(name, str) or not isinstance(build_id or file, str):
            raise TypeError("a symbol without a name or a file")
        if not inlined and start != end:
            yield _address(start), _address(end), name, build_id or file


def _address(value: Any) -> int:
    if not isinstance(value, int) or not -(1 << 63) <= value < 1 << 63:
        raise TypeError(f"{value!r} is not an address")
    return value


def _rows(path: str, columns: list[str], width: int = _NUMBER) -> Any:
    """Return columns of a table. width: bytes in memory per value."""
    with open_table(path, columns, width=width, most=_MOST) as table:
        return table.read(columns=columns)


def _samples(path: str, chains: Ragged) -> Iterator[tuple[NDArray[np.int32], Columns]]:
    """Yield the samples of a file, batch by batch: the events' indexes, and the columns of the records."""
    with open_table(path) as table:
        for part in table.iter_batches():
            columns = Columns(part.num_rows)
            for name in part.schema.names:
                if name not in _OWN:
                    columns[name] = _column(name, part[name])
            chain = part["chain"].to_numpy()
            if len(chain) and chain.max() >= 0:
                columns["callchain"] = _chosen(chains, chain)
            yield part["event_in_file"].to_numpy().astype(np.int32), columns


def _column(name: str, array: Any) -> Any:
    """Return numbers, or rows of bytes, as perfpy.abi.sample_encoding takes them."""
    import pyarrow

    if not pyarrow.types.is_dictionary(array.type):
        return array.to_numpy()
    values, numbers = array.dictionary.to_pylist(), array.indices.to_numpy()
    lengths = np.array([len(value) for value in values], np.int64)[numbers]
    if int(lengths.sum()) > _MOST:
        raise ExpansionError(f"{name} would become {int(lengths.sum()):,} bytes")
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    values = np.frombuffer(b"".join([values[number] for number in numbers.tolist()]), np.uint8)
    return Ragged(values.view(BRANCH_DTYPE), offsets // BRANCH_DTYPE.itemsize) if name == "branch_stack" else Ragged(values, offsets)


def _values(column: Any) -> list[Any]:
    """Return the values of a column; equal strings are one object."""
    import pyarrow

    if not pyarrow.types.is_dictionary(column.type):
        return list(column.to_pylist())
    values = []
    for chunk in column.chunks:
        names = chunk.dictionary.to_pylist()
        values += [names[number] for number in chunk.indices.to_pylist()]
    return values


def _read_ragged(array: Any) -> Ragged:
    return Ragged(array.values.to_numpy().view(np.uint64), array.offsets.to_numpy().astype(np.int64))


def _chosen(chains: Ragged, numbers: NDArray[np.int32]) -> Ragged:
    """Return the callchain of each sample; empty if its number is -1."""
    none = Ragged(chains.values, np.concatenate([chains.offsets, chains.offsets[-1:]]))
    return none.take(np.where(numbers >= 0, numbers, len(chains)).astype(np.int64))
