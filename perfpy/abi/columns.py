"""The containers of decoded samples, Columns, Ragged and Slices, and columns for other packages (pandas, pyarrow)."""

from __future__ import annotations

import numpy as np

from perfpy.abi.light_types import TYPE_CHECKING, overload

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from typing import Any, Final, TypeAlias

    from numpy.typing import ArrayLike, NDArray


#: rows of a ragged column that its repr shows
_ROWS_SHOWN: Final = 3
_TABLE_MOST: Final = 8  # times the number of values
_TABLE_LEAST: Final = 4096  # slots that are worth less than sorting even few values
Index: TypeAlias = "NDArray[np.integer[Any]] | NDArray[np.bool_] | slice"


def slices_index(starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return (index, offsets): the indexes of all elements of the spans, and where each span begins among them (n + 1 values)."""
    offsets = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    index = np.arange(offsets[-1], dtype=np.int64)
    index += np.repeat(starts - offsets[:-1], lengths)
    return index, offsets


def row_blocks(offsets: NDArray[np.int64], most: int) -> Iterator[tuple[int, int]]:
    """Yield ranges of rows with at most `most` elements together, or of one longer row. Row i begins at offsets[i].

    >>> list(row_blocks(np.array([0, 2, 4, 9, 9]), 4))
    [(0, 2), (2, 3), (3, 4)]
    """
    begin, count = 0, len(offsets) - 1
    while begin < count:
        end = max(begin + 1, int(np.searchsorted(offsets, offsets[begin] + most, side="right")) - 1)
        yield begin, end
        begin = end


def smallest_type(highest: int) -> type[np.integer[Any]]:
    """Return the smallest of three types for numbers from 0 on: uint8, uint16, int32.

    >>> smallest_type(255).__name__, smallest_type(256).__name__
    ('uint8', 'uint16')
    """
    return next((kind for kind in (np.uint8, np.uint16) if highest <= np.iinfo(kind).max), np.int32)


def rows_where(mask: NDArray[Any]) -> NDArray[np.intp]:
    """Return the indexes of true or nonzero elements. (np.flatnonzero has an overhead of a microsecond.)

    >>> rows_where(np.array([False, True])).tolist()
    [1]
    """
    return mask.nonzero()[0]


def all_but(values: NDArray[Any], rows: NDArray[np.integer[Any]]) -> NDArray[Any]:
    """Return the values without a few rows, given in ascending order. (np.delete visits every value.)

    >>> all_but(np.array([5, 6, 7, 8]), np.array([0, 2])).tolist()
    [6, 8]
    """
    borders = rows.tolist()
    return np.concatenate(
        [values[begin:end] for begin, end in zip([0, *(row + 1 for row in borders)], [*borders, len(values)], strict=True)]
    )


def rows_but(count: int, others: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Return the indexes of `count` elements without some, given in ascending order.

    >>> rows_but(4, np.array([0, 2])).tolist()
    [1, 3]
    """
    gaps = np.diff(others, prepend=-1, append=count) - 1
    return np.arange(count - len(others)) + np.repeat(np.arange(len(gaps)), gaps)


def distinct(values: NDArray[Any]) -> NDArray[Any]:
    """Return the distinct values in ascending order. (np.unique imports numpy.ma, which takes as long as reading a small file.)

    >>> distinct(np.array([3, 1, 3])).tolist()
    [1, 3]
    """
    ordered: NDArray[Any] = np.sort(values, axis=None)
    fresh = np.ones(len(ordered), bool)
    fresh[1:] = ordered[1:] != ordered[:-1]
    return ordered[fresh]


def pieces(values: NDArray[Any], borders: NDArray[np.integer[Any]]) -> list[NDArray[Any]]:
    """Cut an array before each border, as numpy.split does, which would import half of numpy."""
    ends = borders.tolist()
    return [values[begin:end] for begin, end in zip([0, *ends], [*ends, len(values)], strict=True)]


def grouped(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Return the distinct values in ascending order, and of each value its index among them.

    >>> [column.tolist() for column in grouped(np.array([7, 5, 7]))]
    [[5, 7], [1, 0, 1]]
    """
    if len(values):
        lowest = values.min()
        size = int(values.max()) - int(lowest) + 1
        if size <= _TABLE_MOST * len(values):  # a table is faster than sorting
            slots = (values - lowest).astype(np.intp, copy=False)
            is_present = np.zeros(size, np.bool_)
            is_present[slots] = True
            index_of: NDArray[np.int64] = np.cumsum(is_present) - 1
            return rows_where(is_present).astype(values.dtype) + lowest, index_of.take(slots)
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    fresh = np.ones(len(ordered), bool)
    fresh[1:] = ordered[1:] != ordered[:-1]
    index = np.empty(len(ordered), np.int64)
    index[order] = np.cumsum(fresh) - 1
    return ordered[fresh], index


def count_each(values: NDArray[Any]) -> dict[int, int]:
    """Return each distinct integer and how often it occurs, in ascending order. (np.unique imports numpy.ma.)

    >>> count_each(np.array([7, 5, 7]))
    {5: 1, 7: 2}
    """
    if not len(values):
        return {}
    lowest = values.min()
    if int(values.max()) - int(lowest) < max(_TABLE_LEAST, _TABLE_MOST * len(values)):
        counts = np.bincount((values - lowest).astype(np.intp, copy=False))
        present = rows_where(counts)
        return dict(zip((present.astype(values.dtype) + lowest).tolist(), counts[present].tolist(), strict=True))
    different, index = grouped(values)
    return dict(zip(different.tolist(), np.bincount(index).tolist(), strict=True))


def are_among(values: NDArray[Any], ordered: NDArray[Any]) -> NDArray[np.bool_]:
    """Return whether each value is among some in ascending order. (np.isin imports numpy.ma.)

    >>> are_among(np.array([3, 4]), np.array([1, 3])).tolist()
    [True, False]
    """
    if not len(ordered):
        return np.zeros(len(values), np.bool_)
    among: NDArray[np.bool_] = ordered.take(ordered.searchsorted(values), mode="clip") == values
    return among


def first_of_each(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return the index of one occurrence of each distinct value, by ascending value.

    >>> first_of_each(np.array([7, 5, 7])).tolist()
    [1, 0]
    """
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    fresh = np.ones(len(ordered), bool)
    fresh[1:] = ordered[1:] != ordered[:-1]
    first_rows: NDArray[np.int64] = order[fresh]
    return first_rows


class Growing:
    """An array that grows by appending. `values` has its current content; capacity doubles, so that few appends copy.

    >>> column = Growing(np.int32)
    >>> column.append([1, 2])
    >>> column.append([3])
    >>> column.values.tolist()
    [1, 2, 3]
    """

    __slots__ = ("_room", "values")

    def __init__(self, dtype: Any, values: ArrayLike = ()) -> None:
        self.values = self._room = np.array(values, dtype)

    def append(self, values: ArrayLike) -> None:
        """Append values."""
        added = np.asarray(values)
        count = len(self.values)
        end = count + len(added)
        if end > len(self._room):
            self._room = np.empty(max(end, 2 * len(self._room)), self._room.dtype)
            self._room[:count] = self.values
        self._room[count:end] = added
        self.values = self._room[:end]


class Ragged:
    """A column whose elements are arrays of different lengths.

    Attributes:
        values: the rows, concatenated
        offsets: int64[n + 1]; row i is values[offsets[i]:offsets[i + 1]]

    >>> column = Ragged(np.array([7, 8, 9]), np.array([0, 2, 2, 3]))
    >>> column[0].tolist(), column.lengths.tolist()
    ([7, 8], [2, 0, 1])
    >>> [row.tolist() for row in column[1:]]
    [[], [9]]
    """

    __slots__ = ("offsets", "values")

    def __init__(self, values: NDArray[Any], offsets: NDArray[np.int64]) -> None:
        self.values = values
        self.offsets = offsets

    @classmethod
    def empty(cls, rows: int, dtype: Any) -> Ragged:
        """Return a column of `rows` empty rows."""
        return cls(np.zeros(0, dtype), np.zeros(rows + 1, np.int64))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @overload
    def __getitem__(self, row: int | np.integer[Any]) -> NDArray[Any]: ...
    @overload
    def __getitem__(self, row: Index | list[int]) -> Ragged: ...

    def __getitem__(self, row: int | np.integer[Any] | Index | list[int]) -> NDArray[Any] | Ragged:
        """Return one row, or for a slice, a mask or indexes a column of these rows, as numpy does."""
        if isinstance(row, slice):
            return self.take(row)
        if not isinstance(row, int | np.integer):
            rows = np.asarray(row)
            if rows.ndim != 1 or (rows.dtype.kind not in "iub" and rows.size):
                raise IndexError("rows are selected by a number, a slice, a mask or a list of numbers")
            # an empty list is one of floats
            return self.take(np.arange(len(self))[rows if rows.size else rows.astype(np.intp)])
        row = int(row)
        if row < 0:
            row += len(self)
        if not 0 <= row < len(self):
            raise IndexError(row)
        return self.values[self.offsets[row] : self.offsets[row + 1]]

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (self[row] for row in range(len(self)))

    def __repr__(self) -> str:
        texts = [np.array2string(row, separator=", ", threshold=8) for row in self[:_ROWS_SHOWN]]
        texts += ["..."] * (len(self) > _ROWS_SHOWN)
        return f"Ragged({', '.join(texts)}; rows={len(self)})"

    @property
    def lengths(self) -> NDArray[np.int64]:
        """The number of elements of each row."""
        return np.diff(self.offsets)

    def gather(self) -> Ragged:
        """Return this column, which refers to no buffer (see Slices)."""
        return self

    def take(self, rows: Index) -> Ragged:
        """Return the rows selected by indexes, a mask or a slice, in that order."""
        if isinstance(rows, slice) and rows.step in (None, 1):
            first, end, _ = rows.indices(len(self))
            offsets = self.offsets[first : max(first, end) + 1]
            return Ragged(self.values[offsets[0] : offsets[-1]], offsets - offsets[0])
        starts = self.offsets[:-1][rows]
        index, offsets = slices_index(starts, self.offsets[1:][rows] - starts)
        return Ragged(self.values[index], offsets)

    def with_rows(self, changed: Mapping[int, Sequence[int]]) -> Ragged:
        """Return a copy in which some rows, by index, have other values."""
        rows = [np.array(changed[row], self.values.dtype) if row in changed else self[row] for row in range(len(self))]
        offsets = np.zeros(len(self) + 1, np.int64)
        np.cumsum([len(row) for row in rows], out=offsets[1:])
        return Ragged(np.concatenate(rows), offsets)

    @classmethod
    def concat(cls, parts: Sequence[Ragged]) -> Ragged:
        """Concatenate the rows of all parts."""
        ends = np.cumsum([0] + [len(part.values) for part in parts])
        offsets = [part.offsets[:-1] + end for part, end in zip(parts, ends[:-1], strict=True)]
        return cls(np.concatenate([part.values for part in parts]), np.concatenate([*offsets, ends[-1:]]))


_LONG_ROW: Final = 256  # bytes; longer rows are copied one by one, shorter ones by one index over all rows


_MOST_CUT: Final = 512  # words of a row, on average; a mask over longer rows costs more than copying them one by one
_SPARSEST: Final = 3  # words from the first to the last row for each of a row, for such a mask
_UNALIGNED: Final = 3  # bits of the position of bytes that are no whole number of 32-bit words


class Slices:
    """A column whose rows still lie in the buffer that they were read from. It is valid as long as the buffer.

    Attributes:
        words: the buffer
        starts, lengths: of each row, in words
    """

    __slots__ = ("lengths", "starts", "words")

    def __init__(self, words: NDArray[Any], starts: NDArray[np.int64], lengths: NDArray[np.int64]) -> None:
        self.words = words
        self.starts = starts
        self.lengths = lengths

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def ascend(self) -> bool:
        """Whether each row ends before the next one begins."""
        return bool((self.starts[1:] >= self.starts[:-1] + self.lengths[:-1]).all())

    def shares(self, other: Slices) -> bool:
        """Whether both columns refer to the same buffer."""
        one, two = self.words.__array_interface__, other.words.__array_interface__
        return all(one[name] == two[name] for name in ("data", "shape", "typestr"))

    def take(self, rows: Index) -> Slices:
        """Return the rows selected by indexes, a mask or a slice, in that order."""
        return Slices(self.words, self.starts[rows], self.lengths[rows])

    def gather(self) -> Ragged:
        """Return a copy of the rows in this machine's byte order."""
        size = int(self.lengths.sum())
        if size * self.words.itemsize > _LONG_ROW * len(self.starts):
            span = int(self.starts[-1] + self.lengths[-1] - self.starts[0])
            is_dense = size <= _MOST_CUT * len(self.starts) and self.ascend and span <= _SPARSEST * size
            return self._cut_out() if is_dense else self._copy_rows()
        if (
            self.words.itemsize == 1
            and not (len(self.words) | int(np.bitwise_or.reduce(self.starts | self.lengths, initial=0))) & _UNALIGNED
        ):
            index, offsets = slices_index(self.starts >> 2, self.lengths >> 2)
            return Ragged(self.words.view(np.uint32)[index].view(self.words.dtype), offsets << 2)
        index, offsets = slices_index(self.starts, self.lengths)
        return Ragged(self.words[index].astype(self.words.dtype.newbyteorder("="), copy=False), offsets)

    def _cut_out(self) -> Ragged:
        """Copy rows that ascend by a mask over all words from the first to the last."""
        offsets = np.zeros(len(self.starts) + 1, np.int64)
        np.cumsum(self.lengths, out=offsets[1:])
        ends = self.starts + self.lengths
        runs = np.empty(2 * len(ends) - 1, np.int64)  # a row, and what is between it and the next one
        runs[::2], runs[1::2] = self.lengths, self.starts[1:] - ends[:-1]
        is_row = np.repeat(np.arange(len(runs)) % 2 == 0, runs)
        return Ragged(self.words[self.starts[0] : ends[-1]][is_row].astype(self.words.dtype.newbyteorder("="), copy=False), offsets)

    def _copy_rows(self) -> Ragged:
        """Copy the rows one by one."""
        offsets = np.zeros(len(self.starts) + 1, np.int64)
        np.cumsum(self.lengths, out=offsets[1:])
        values = np.empty(int(offsets[-1]), self.words.dtype.newbyteorder("="))
        for start, length, to in zip(self.starts.tolist(), self.lengths.tolist(), offsets.tolist(), strict=False):
            values[to : to + length] = self.words[start : start + length]
        return Ragged(values, offsets)


Column: TypeAlias = "NDArray[Any] | Ragged | Slices"


class Columns(dict[str, "Any"]):
    """Field name -> array, all of length `rows`.

    `damaged` is a mask of the samples whose record is too short for its fields (the missing values are zeros), or None.

    >>> table = Columns(2, {"ip": np.array([1, 2]), "cpu": np.array([0, 3])})
    >>> table.take(np.array([1]))["cpu"].tolist()
    [3]
    """

    def __init__(self, rows: int, arrays: dict[str, Column] | None = None, damaged: NDArray[np.bool_] | None = None) -> None:
        super().__init__(arrays or {})
        self.rows = rows
        self.damaged = damaged

    def take(self, rows: Index) -> Columns:
        """Return the selected samples (indexes, mask or slice) of every column, in that order."""
        columns = {name: column.take(rows) if isinstance(column, (Ragged, Slices)) else column[rows] for name, column in self.items()}
        if isinstance(rows, slice):
            count = len(range(*rows.indices(self.rows)))
        else:
            count = int(np.count_nonzero(rows)) if rows.dtype == np.bool_ else len(rows)
        return Columns(count, columns, None if self.damaged is None else self.damaged[rows])

    def gather(self) -> Columns:
        """Return these columns with a copy of every column that still refers to a buffer."""
        arrays = {name: column.gather() if isinstance(column, Slices) else column for name, column in self.items()}
        return Columns(self.rows, arrays, self.damaged)

    @classmethod
    def concat(cls, parts: Sequence[Columns]) -> Columns:
        """Concatenate the parts. A column that a part lacks has zeros or empty rows there."""
        if len(parts) == 1:
            return parts[0]
        in_buffer = _shared_slices(parts)
        parts = [Columns(part.rows, {name: one for name, one in part.items() if name not in in_buffer}).gather() for part in parts]
        samples = {name: column for part in parts for name, column in part.items()}
        arrays: dict[str, Column] = {**in_buffer}
        for name, sample in samples.items():
            if isinstance(sample, Ragged):
                arrays[name] = Ragged.concat(
                    [part[name] if name in part else Ragged.empty(part.rows, sample.values.dtype) for part in parts]
                )
            else:
                arrays[name] = np.concatenate([part[name] if name in part else np.zeros(part.rows, sample.dtype) for part in parts])
        damaged = None
        if any(part.damaged is not None for part in parts):
            damaged = np.concatenate([np.zeros(part.rows, bool) if part.damaged is None else part.damaged for part in parts])
        return cls(sum(part.rows for part in parts), arrays, damaged)


def _shared_slices(parts: Sequence[Columns]) -> dict[str, Slices]:
    """Return the columns that refer to the same buffer in all parts, joined without a copy."""
    shared: dict[str, Slices] = {}
    for name, first in parts[0].items():
        columns = [part.get(name) for part in parts]
        if isinstance(first, Slices) and all(isinstance(one, Slices) and one.shares(first) for one in columns):
            starts, lengths = (np.concatenate([getattr(one, which) for one in columns]) for which in ("starts", "lengths"))
            shared[name] = Slices(first.words, starts, lengths)
    return shared


# Columns for other packages: to_dict(), to_pandas() and to_arrow() of everything in perfpy that has columns.


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
        arrays = self.to_dict(columns)
        return _pandas_frame({name: list(column) if isinstance(column, Ragged) else column for name, column in arrays.items()})

    def to_arrow(self, columns: Collection[str] | None = None) -> Any:
        """Return the columns as a pyarrow.Table, ragged ones as lists; columns: as for to_dict(). Needs pyarrow."""
        import pyarrow

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
