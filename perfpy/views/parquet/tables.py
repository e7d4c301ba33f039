"""Write rows to the files of a folder of tables: Parquet, compressed by zstd.

Rows that recordings share (stacks, frames, symbols,
events) are written by the first recording that has them.
"""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.columns import Ragged
from perfpy.errors import PerfError
from perfpy.perfdata.bounded_tables import damage_of_tables, damaged_table, open_table

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

_COMPRESSION: Final = {"compression": "zstd", "compression_level": 3}
#: ascending columns: their differences are small
_GROWING: Final = ("at", "time")


def require_pyarrow() -> None:
    """Raise PerfError if pyarrow is not installed."""
    try:
        import pyarrow.parquet  # noqa: F401  # what every table needs
    except ImportError:
        raise PerfError("Parquet needs pyarrow: pip install 'perfpy[frames]'") from None


class TableFiles:
    """The tables of one folder; bytes: written by this object."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.bytes = 0

    def begin_samples(self, host: str, recording: str) -> SampleFiles:
        """Return the writer of one recording's samples; files of an earlier export of it will be deleted."""
        return SampleFiles(self, host, recording)

    def add(self, name: str, key: str, columns: Mapping[str, Any], recording: str) -> None:
        """Write the rows whose keys are not in the table yet, each once."""
        known_keys = self._known(name, key, recording)
        _, first = np.unique(columns[key], return_index=True)
        first.sort()
        rows = first[~np.isin(columns[key][first], known_keys)]
        self._write(f"{name}/{recording}.parquet", {one: _taken(column, rows) for one, column in columns.items()}, recording)

    def add_rows(self, name: str, key: str, rows: Sequence[Any], recording: str) -> None:
        """Write named tuples like add(); without any, write no file."""
        if rows:
            self.add_named(name, key, rows[0]._fields, rows, recording)

    def add_named(self, name: str, key: str, names: Sequence[str], rows: Sequence[tuple[Any, ...]], recording: str) -> None:
        """Write tuples like add()."""
        self.add(name, key, _columns(names, rows), recording)

    def write_own(self, name: str, names: Sequence[str], rows: Sequence[tuple[Any, ...]], recording: str) -> None:
        """Write rows that belong to one recording."""
        self._write(f"{name}/{recording}.parquet", _columns(names, rows), recording)

    def write_chains(self, chains: Ragged, recording: str) -> None:
        """Write the raw callchains, in the order of their numbers."""
        self._write(f"chains/{recording}.parquet", {"addresses": chains}, recording)

    def write_recording(self, about: Mapping[str, Any], recording: str) -> None:
        """Write the row of the recording, which comes last and makes the others valid."""
        import pyarrow

        types = {
            "started": pyarrow.timestamp("ns", "UTC"),
            "ended": pyarrow.timestamp("ns", "UTC"),
            "before": pyarrow.list_(pyarrow.int64()),
        }
        arrays = {
            name: pyarrow.array([value.tolist() if isinstance(value, np.ndarray) else value], types.get(name))
            for name, value in about.items()
        }
        self.put(f"recordings/{recording}.parquet", pyarrow.table(arrays))

    def _known(self, name: str, key: str, recording: str) -> NDArray[np.int64]:
        """Return the keys that other recordings have written."""
        folder = os.path.join(self.folder, name)
        files = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        others = [file for file in files if file.endswith(".parquet") and file != f"{recording}.parquet"]
        keys = [np.zeros(0, np.int64)]
        for file in others:
            path = os.path.join(folder, file)
            try:
                with open_table(path, [key]) as table:
                    keys.append(table.read(columns=[key])[key].to_numpy().astype(np.int64))
            except damage_of_tables() as error:
                raise damaged_table(path, error) from None
        return np.concatenate(keys)

    def _write(self, path: str, columns: Mapping[str, Any], _recording: str) -> None:
        import pyarrow

        self.put(path, pyarrow.table({name: arrow_array(name, column) for name, column in columns.items()}))

    def put(self, path: str, table: Any) -> None:
        """Write one file atomically."""
        import pyarrow.parquet

        full_path = os.path.join(self.folder, path)
        os.makedirs(os.path.dirname(full_path), exist_ok=True)
        pyarrow.parquet.write_table(table, f"{full_path}.unfinished", **_COMPRESSION)
        self.done(full_path)

    def done(self, full_path: str) -> None:
        """Rename a finished file."""
        self.bytes += os.path.getsize(f"{full_path}.unfinished")
        os.replace(f"{full_path}.unfinished", full_path)


class SampleFiles:
    """The files of one recording's samples: one a day."""

    def __init__(self, tables: TableFiles, host: str, recording: str) -> None:
        self._tables = tables
        self._host = host
        self._recording = recording
        self._writers: dict[str, Any] = {}
        self._earlier = _files_of(os.path.join(tables.folder, "samples"), f"{recording}.parquet")

    def write(self, day: str, columns: Mapping[str, Any]) -> None:
        """Write some rows of a day."""
        import pyarrow
        import pyarrow.parquet

        path = os.path.join(self._tables.folder, "samples", f"host={self._host}", f"day={day}", f"{self._recording}.parquet")
        count = len(columns["at"])
        arrays = {"recording": pyarrow.array([self._recording] * count), **{name: arrow_array(name, one) for name, one in columns.items()}}
        table = pyarrow.table(arrays)
        if path not in self._writers:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            plain = {name: "DELTA_BINARY_PACKED" for name in _GROWING if name in arrays}
            dictionary = [name for name in arrays if name not in plain]
            self._writers[path] = pyarrow.parquet.ParquetWriter(
                f"{path}.unfinished", table.schema, use_dictionary=dictionary, column_encoding=plain or None, **_COMPRESSION
            )
        self._writers[path].write_table(table)

    def close(self) -> None:
        """Finish the files."""
        for path, writer in self._writers.items():
            writer.close()
            self._tables.done(path)
        for path in self._earlier:
            if path not in self._writers:
                os.unlink(path)


def arrow_array(name: str, column: Any) -> Any:
    """Convert a column to pyarrow: ragged ones of bytes as binary, others as lists."""
    import pyarrow

    if name == "at":
        return pyarrow.array(column, pyarrow.int64()).cast(pyarrow.timestamp("ns", "UTC"))
    if not isinstance(column, Ragged):
        return pyarrow.array(column)
    if column.values.dtype == np.uint8:
        whole, bounds = column.values.tobytes(), column.offsets.tolist()
        return pyarrow.array([whole[begin:end] for begin, end in itertools.pairwise(bounds)], pyarrow.binary())
    return pyarrow.ListArray.from_arrays(pyarrow.array(column.offsets.astype(np.int32)), pyarrow.array(column.values))


def _files_of(folder: str, name: str) -> list[str]:
    return [os.path.join(where, name) for where, _, files in os.walk(folder) if name in files]


def _columns(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    return {name: _column(values) for name, values in zip(names, columns, strict=True)}


def _column(values: Sequence[Any]) -> NDArray[Any]:
    if values and isinstance(values[0], bool):
        return np.array(values, np.bool_)
    return np.array(values, np.int64 if values and isinstance(values[0], int) else object)


def _taken(column: Any, rows: NDArray[np.int64]) -> Any:
    return column.take(rows) if isinstance(column, Ragged) else column[rows]
