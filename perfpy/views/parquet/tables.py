"""Write rows to the files of a folder of tables: Parquet, compressed by zstd.

Rows that recordings share (stacks, frames, symbols,
events) are written by the first recording that has them.
"""

from __future__ import annotations

import contextlib
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

    from perfpy.untrusted.folders import Folder

_COMPRESSION: Final = {"compression": "zstd", "compression_level": 3}
#: ascending columns: their differences are small
_GROWING: Final = ("at", "time")


def require_pyarrow() -> None:
    """Raise PerfError if pyarrow is not installed."""
    try:
        import pyarrow.parquet  # noqa: F401  # what every table needs
    except ImportError:
        raise PerfError("Parquet needs pyarrow: pip install 'perfpy[frames]'") from None


class NewFile:
    """A file that gets its name when it is finished; others may write in its folder, and plant links there."""

    def __init__(self, folder: Folder, name: str) -> None:
        """Create the file; the folder is closed at the end."""
        self._folder = folder
        self._name = name
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{name}.unfinished", dir_fd=folder.fd)
        self.file = open(folder.create(f"{name}.unfinished"), "wb")  # noqa: SIM115  # finish() closes it

    def finish(self) -> int:
        """Rename the file, and return its size in bytes."""
        size = self.file.tell()
        self.file.close()
        os.replace(f"{self._name}.unfinished", self._name, src_dir_fd=self._folder.fd, dst_dir_fd=self._folder.fd)
        self._folder.close()
        return size


class TableFiles:
    """The tables of one folder; bytes: written by this object."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.bytes = 0

    def begin_samples(self, host: str, recording: str) -> SampleFiles:
        """Return the writer of one recording's samples; files of an earlier export of it will be deleted."""
        return SampleFiles(self, host, recording)

    def add(self, name: str, key: str, columns: Mapping[str, Any], recording: str) -> None:
        """Write the rows whose keys are not in the table yet, each once."""
        known_keys = self._known_keys(name, key, recording)
        _, first = np.unique(columns[key], return_index=True)
        first.sort()
        rows = first[~np.isin(columns[key][first], known_keys)]
        self._write(f"{name}/{recording}.parquet", {one: _take_rows(column, rows) for one, column in columns.items()}, recording)

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

    def _known_keys(self, name: str, key: str, recording: str) -> NDArray[np.int64]:
        """Return the keys that other recordings have written."""
        folder = os.path.join(self.folder.path, name)
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

        created = self.create(path)
        pyarrow.parquet.write_table(table, created.file, **_COMPRESSION)
        self.bytes += created.finish()

    def create(self, path: str) -> NewFile:
        """Create a file at a relative path, with its folders."""
        *folders, name = path.split("/")
        return NewFile(self.folder.inner(*folders), name)


class SampleFiles:
    """The files of one recording's samples: one a day."""

    def __init__(self, tables: TableFiles, host: str, recording: str) -> None:
        self._tables = tables
        self._host = host
        self._recording = recording
        self._writers: dict[str, tuple[Any, NewFile]] = {}

    def write(self, day: str, columns: Mapping[str, Any]) -> None:
        """Write some rows of a day."""
        import pyarrow
        import pyarrow.parquet

        path = f"samples/host={self._host}/day={day}/{self._recording}.parquet"
        count = len(columns["at"])
        arrays = {"recording": pyarrow.array([self._recording] * count), **{name: arrow_array(name, one) for name, one in columns.items()}}
        table = pyarrow.table(arrays)
        if path not in self._writers:
            plain = {name: "DELTA_BINARY_PACKED" for name in _GROWING if name in arrays}
            dictionary = [name for name in arrays if name not in plain]
            created = self._tables.create(path)
            writer = pyarrow.parquet.ParquetWriter(
                created.file, table.schema, use_dictionary=dictionary, column_encoding=plain or None, **_COMPRESSION
            )
            self._writers[path] = writer, created
        self._writers[path][0].write_table(table)

    def close(self) -> None:
        """Finish the files, and delete those of an earlier export that were not written again."""
        for writer, created in self._writers.values():
            writer.close()
            self._tables.bytes += created.finish()
        root = self._tables.folder
        name = f"{self._recording}.parquet"
        for folder, _, files, fd in os.fwalk("samples", dir_fd=root.fd) if root.has("samples") else ():
            if name in files and f"{folder}/{name}" not in self._writers:
                os.unlink(name, dir_fd=fd)


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


def _columns(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    return {name: _column(values) for name, values in zip(names, columns, strict=True)}


def _column(values: Sequence[Any]) -> NDArray[Any]:
    if values and isinstance(values[0], bool):
        return np.array(values, np.bool_)
    return np.array(values, np.int64 if values and isinstance(values[0], int) else object)


def _take_rows(column: Any, rows: NDArray[np.int64]) -> Any:
    return column.take(rows) if isinstance(column, Ragged) else column[rows]
