"""Replace numbers that only one recording can interpret (tasks, cgroups, tracepoint data) by values that compare across recordings.

Folded samples get dimensions that index lists of values; MergedValues maps those of merged profiles to texts for reports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.analysis.sortkeys.key_texts import MachineTexts

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.sortkeys.key_texts import RecordingText
    from perfpy.perfdata.tracepoints.event_format import EventFormat

#: dimensions with thread or process ids
_TASKS: Final = ("tid", "pid")
#: shift of the ordinal that separates tasks with one id in different recordings
_NUMBER_BITS: Final = 32


class OwnWords(NamedTuple):
    """The interpretation of a recording's numbers.

    Attributes:
        last_comm: of threads.
        machine: names of cgroups and sockets.
        formats: of each event, None if it is no tracepoint.
        payloads: the distinct tracepoint data, as texts.
    """

    last_comm: Callable[[int], str]
    machine: MachineTexts
    formats: Sequence[EventFormat | None]
    payloads: Sequence[Hashable] = ()


class ValuedDimensions(NamedTuple):
    """Dimensions that compare across recordings.

    Attributes:
        dimensions: columns of numbers.
        values: for some of the dimensions, the values that their numbers index.
    """

    dimensions: dict[str, NDArray[Any]]
    values: dict[str, list[Any]]


def replace_numbers(dimensions: dict[str, NDArray[Any]], words: OwnWords) -> ValuedDimensions:
    """Replace the recording's own numbers by indexes of values."""
    indexed, values = dict(dimensions), {}
    for name, numbers in dimensions.items():
        if name == "socket":
            indexed[name] = _translate(numbers, words.machine.socket_of)
        elif name in _TASKS:
            indexed[name], values[name] = _number_values(numbers, lambda tid: (tid, words.last_comm(tid)))
        elif name == "cgroup":
            indexed[name], values[name] = _number_values(numbers, lambda number: number and (words.machine.cgroup_name(number) or ""))
        elif name == "cgroup_id":
            indexed[name], values[name] = _number_values(numbers, lambda number: words.machine.cgroup_namespaces[number])
        elif name == "raw":
            values[name] = list(words.payloads)
    return ValuedDimensions(indexed, values)


def _number_values(numbers: NDArray[Any], value_of: Callable[[int], Hashable]) -> tuple[NDArray[np.int32], list[Hashable]]:
    """Return indexes of distinct values, in order of the numbers, and the values."""
    present, inverse = np.unique(numbers, return_inverse=True)
    values: dict[Hashable, int] = {}
    number_of = np.array([values.setdefault(value_of(number), len(values)) for number in present.tolist()], np.int32)
    return number_of[inverse.ravel()], list(values)


def _translate(numbers: NDArray[Any], number_of: Callable[[int], int]) -> NDArray[np.int64]:
    present, inverse = np.unique(numbers, return_inverse=True)
    return np.array([number_of(number) for number in present.tolist()], np.int64)[inverse.ravel()]


class MergedValues:
    """Texts of merged values; dimensions: with numbers for sort keys."""

    def __init__(self, dimensions: dict[str, NDArray[Any]], values: dict[str, list[Any]], recordings: Sequence[RecordingText]) -> None:
        self._values = values
        self._comms: dict[int, str] = {}
        self._recordings = recordings
        self.dimensions: dict[str, NDArray[Any]] = {}
        for name in _TASKS:
            if name in values:
                self.dimensions[name] = self._tasks(values[name])[dimensions[name]]
        if "cgroup" in values:  # 0 marks samples without cgroup
            cgroups = np.array([0 if path == 0 else number + 1 for number, path in enumerate(values["cgroup"])], np.int64)
            self.dimensions["cgroup"] = cgroups[dimensions["cgroup"]]

    def _tasks(self, values: list[tuple[int, str]]) -> NDArray[np.int64]:
        """Return a number for each task; later tasks with the same id get larger ones."""
        occurrences: dict[int, int] = {}
        numbers = np.zeros(len(values), np.int64)
        for row, (tid, comm) in enumerate(values):
            occurrence = occurrences[tid] = occurrences.get(tid, -1) + 1
            numbers[row] = number = tid + (occurrence << _NUMBER_BITS)
            self._comms[number] = comm
        return numbers

    def comm_of(self, number: int) -> str | None:
        """Return the last comm of a task, by its number in `dimensions`."""
        return self._comms.get(number)

    @property
    def machine(self) -> MachineTexts:
        """The texts of sockets, cgroups and recordings."""
        paths = self._values.get("cgroup", [])
        return MachineTexts(
            socket_of=lambda number: number,
            cgroup_name=lambda number: paths[number - 1] or None,
            cgroup_namespaces=self._values.get("cgroup_id", []),
            recordings=self._recordings,
        )
