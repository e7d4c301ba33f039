"""Columns for other packages: to_dict(), to_pandas() and to_arrow() of everything in perfpy that has columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any


class ConvertibleTable:
    """A table of rows, such as a report: to_columns() makes its columns, names and numbers as Python's own."""

    def to_columns(self) -> dict[str, list[Any]]:
        """Return name -> the values of all rows."""
        raise NotImplementedError

    def to_dict(self) -> dict[str, Any]:
        """Return to_columns()."""
        return self.to_columns()

    def to_pandas(self) -> Any:
        """Return to_columns() as a pandas.DataFrame. Needs pandas."""
        return _pandas_frame(self.to_columns())

    def to_arrow(self) -> Any:
        """Return to_columns() as a pyarrow.Table. Needs pyarrow."""
        import pyarrow

        return pyarrow.table(self.to_columns())


class ConvertibleSamples:
    """A mapping of names to arrays, with a value for each sample."""

    def keys(self) -> list[str]:
        """Return the names of the columns."""
        raise NotImplementedError

    def __getitem__(self, name: str) -> Any:
        raise NotImplementedError

    def load(self, names: Collection[str]) -> None:
        """Read several columns at once, if they are read at all."""

    def to_dict(self, columns: Collection[str] | None = None) -> dict[str, Any]:
        """Return name -> array. columns: to be read, `names` included; None for all of keys(). Raises KeyError for an unknown name."""
        selected = self.keys() if columns is None else list(columns)
        self.load(selected)
        return {name: self[name] for name in selected}

    def to_pandas(self, columns: Collection[str] | None = None) -> Any:
        """Return the columns as a pandas.DataFrame, the rows of ragged ones as arrays; columns: as for to_dict(). Needs pandas."""
        from perfpy.abi.columns import Ragged

        arrays = self.to_dict(columns)
        return _pandas_frame({name: list(column) if isinstance(column, Ragged) else column for name, column in arrays.items()})

    def to_arrow(self, columns: Collection[str] | None = None) -> Any:
        """Return the columns as a pyarrow.Table, ragged ones as lists; columns: as for to_dict(). Needs pyarrow."""
        import pyarrow

        from perfpy.abi.columns import Ragged

        def converted(column: Any) -> Any:
            if not isinstance(column, Ragged):
                return pyarrow.array(column)
            if names := column.values.dtype.names:  # branches and counter readings
                parts = [pyarrow.array(column.values[name]) for name in names]
                return pyarrow.LargeListArray.from_arrays(column.offsets, pyarrow.StructArray.from_arrays(parts, names))
            return pyarrow.LargeListArray.from_arrays(column.offsets, pyarrow.array(column.values))

        return pyarrow.table({name: converted(column) for name, column in self.to_dict(columns).items()})


def _pandas_frame(columns: Mapping[str, Any]) -> Any:
    import pandas

    return pandas.DataFrame(columns)
