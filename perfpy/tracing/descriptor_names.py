"""The names of descriptors at the moments of events, as numbers: columns of calls need the same few names again and again."""

from __future__ import annotations

import posixpath
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.columns import distinct, rows_where
from perfpy.tracing.descriptor_rules import CURRENT_FOLDER, FOLLOWED_KINDS
from perfpy.tracing.grouped_values import GroupedValues

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from perfpy.tracing.descriptor_tables import DescriptorTable

_MOST_NAMES: Final = 1 << 16  # that are kept from batch to batch
_LOW: Final = 0xFFFFFFFF
_UNCHANGED: Final = -1


class NameIds:
    """Numbers of names. A number never gets another name, so that texts may be kept by it; 0 is the empty name."""

    def __init__(self) -> None:
        self._next = 0
        self.forget()

    def forget(self) -> None:
        """Drop the names. The next ones get new numbers."""
        self._ids: dict[str, int] = {"": 0}
        self._names: dict[int, str] = {0: ""}

    def limit(self) -> None:
        """Drop the names if there are too many; not during a batch."""
        if len(self._ids) > _MOST_NAMES:
            self.forget()

    def id(self, name: str) -> int:
        """Return the number of a name."""
        number = self._ids.get(name)
        if number is None:
            self._next += 1
            number = self._ids[name] = self._next
            self._names[number] = name
        return number

    def name(self, number: int) -> str:
        """Return the name of a number."""
        return self._names[number]


class NameChanges:
    """The changes of descriptor names during a batch.

    Args:
        ids: the numbers of names.
    """

    def __init__(self, ids: NameIds) -> None:
        self.ids = ids
        self._rows: list[tuple[int, int, int, int]] = []  # packed descriptor, delivery key, names before and after

    def note(self, pid: int, number: int, key: int, before: str, after: str) -> None:
        """Note a change of a descriptor of a process; key: the delivery key of the event that makes it. Keys ascend."""
        self._rows.append((pid << 32 | number & _LOW, key, self.ids.id(before), self.ids.id(after)))

    @cached_property
    def _columns(self) -> tuple[GroupedValues, NDArray[np.int64], NDArray[np.int64]]:
        """The changes by descriptor, and the names before and after each."""
        descriptors, keys, before, after = zip(*self._rows, strict=True)
        grouped = GroupedValues(np.array(descriptors, np.int64), np.array(keys, np.uint64))
        return grouped, np.array(before, np.int64)[grouped.order], np.array(after, np.int64)[grouped.order]

    def ids_at(self, descriptors: NDArray[np.int64], keys: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Return the number of the name that each descriptor has before an event; -1 if the batch does not change it.

        Args:
            descriptors: packed (pack_descriptors).
            keys: the delivery keys of the events.
        """
        ids = np.full(len(descriptors), _UNCHANGED, np.int64)
        if not self._rows:
            return ids
        changes, before, after = self._columns
        found = changes.find(descriptors, keys)
        changed = rows_where(found.begin < found.end)
        position, begin = found.position[changed], found.begin[changed]
        ids[changed] = np.where(position > begin, after[position - 1], before[begin])
        return ids


def pack_descriptors(pids: NDArray[np.int32], numbers: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Return each descriptor of a process as one number."""
    return pids.astype(np.int64) << 32 | numbers.astype(np.int64) & _LOW


class DescriptorNames:
    """The names of descriptors at the rows of one batch.

    Args:
        pids, keys: the process and the delivery key of each row.
        tables: the tables after the batch.
        changes: of the batch.
        read_name: returns the name that a descriptor of a process has now.
    """

    def __init__(
        self,
        pids: NDArray[np.int32],
        keys: NDArray[np.uint64],
        tables: Mapping[int, DescriptorTable],
        changes: NameChanges,
        read_name: Callable[[int, int], str] = lambda _pid, _number: "",
    ) -> None:
        self._pids = pids
        self._keys = keys
        self._tables = tables
        self._changes = changes
        self._read_name = read_name
        self._known: dict[int, int] = {}

    def ids(self, rows: NDArray[np.int64], descriptors: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """Return the numbers of the names of descriptors for the processes of some rows, at those rows; 0 for unknown names."""
        packed = pack_descriptors(self._pids[rows], descriptors)
        ids = self._changes.ids_at(packed, self._keys[rows])
        unchanged = rows_where(ids == _UNCHANGED)
        chosen = packed[unchanged]
        values = distinct(chosen)
        ids[unchanged] = np.array([self._id(value) for value in values.tolist()], np.int64)[np.searchsorted(values, chosen)]
        return ids

    def _id(self, packed: int) -> int:
        """Return the number of the name of a descriptor that the batch does not change."""
        number = self._known.get(packed)
        if number is None:
            pid, descriptor = packed >> 32, (packed & _LOW ^ 1 << 31) - (1 << 31)
            table = self._tables.get(pid)
            file = table.files.get(descriptor) if table is not None else None
            number = self._known[packed] = self._changes.ids.id(file.name if file is not None else self._unknown(pid, descriptor))
        return number

    def texts(self, rows: NDArray[np.int64], descriptors: NDArray[np.integer[Any]]) -> list[str]:
        """Return DESCRIPTOR<NAME> for the processes of some rows, at those rows; only the number of unknown ones."""
        names = self.names(rows, descriptors)
        return [f"{number}<{name}>" if name else str(number) for number, name in zip(descriptors.tolist(), names, strict=True)]

    def names(self, rows: NDArray[np.int64], descriptors: NDArray[np.integer[Any]]) -> list[str]:
        """Return the names of descriptors for the processes of some rows, at those rows; "" for unknown ones."""
        return list(map(self._changes.ids.name, self.ids(rows, descriptors).tolist()))

    def path(self, row: int, folder: int, name: str) -> str:
        """Return the path of a name relative to a descriptor or the current folder of a row's process; "" if that is unknown."""
        if name.startswith("/"):
            return posixpath.normpath(name)
        if folder == CURRENT_FOLDER:
            start = self._folder(row)
        else:
            (start,) = self.names(np.array([row]), np.array([folder], np.int32))
        return posixpath.normpath(posixpath.join(start, name)) if start.startswith("/") else name

    def _folder(self, row: int) -> str:
        """Return the current folder of a row's process, at that row."""
        pids, keys = self._pids[row : row + 1], self._keys[row : row + 1]
        (number,) = self._changes.ids_at(pack_descriptors(pids, np.array([CURRENT_FOLDER])), keys).tolist()
        if number != _UNCHANGED:
            return self._changes.ids.name(number)
        table = self._tables.get(int(pids[0]))
        return table.folder if table is not None else ""

    def _unknown(self, pid: int, number: int) -> str:
        """Return the present name of a descriptor that no followed call has made, if only other calls make files of this kind.

        Other names are those of files that a later call opened at this number.
        """
        name = self._read_name(pid, number) if number >= 0 else ""
        return name if name.startswith("anon_inode:") and name not in FOLLOWED_KINDS else ""
