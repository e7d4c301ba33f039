"""What numbers of one recording stand for, as values that mean the same in all: tasks, cgroups, the data of tracepoints.

What enters: the dimensions of folded samples, and what words their numbers. What leaves: dimensions whose numbers count lists of values;
and, once those of several recordings were merged, what words them in a report.
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

#: dimensions that are numbers of threads or processes
_TASKS: Final = ("tid", "pid")
#: above the number of a task: which of those that had it in different recordings
_NUMBER_BITS: Final = 32


class OwnWords(NamedTuple):
    """last_comm: of threads; machine: names of cgroups and sockets; formats: of each event, where it is a tracepoint;
    payloads: the distinct data of these in words.
    """

    last_comm: Callable[[int], str]
    machine: MachineTexts
    formats: Sequence[EventFormat | None]
    payloads: Sequence[Hashable] = ()


class ValuedDimensions(NamedTuple):
    """dimensions: columns of numbers; values: of some of them, what their numbers count."""

    dimensions: dict[str, NDArray[Any]]
    values: dict[str, list[Any]]


def valued(dimensions: dict[str, NDArray[Any]], words: OwnWords) -> ValuedDimensions:
    """With values for what is the recording's own."""
    found, values = dict(dimensions), {}
    for name, numbers in dimensions.items():
        if name == "socket":
            found[name] = _translated(numbers, words.machine.socket_of)
        elif name in _TASKS:
            found[name], values[name] = _counted(numbers, lambda tid: (tid, words.last_comm(tid)))
        elif name == "cgroup":
            found[name], values[name] = _counted(numbers, lambda number: number and (words.machine.cgroup_name(number) or ""))
        elif name == "cgroup_id":
            found[name], values[name] = _counted(numbers, lambda number: words.machine.cgroup_namespaces[number])
        elif name == "raw":
            values[name] = list(words.payloads)
    return ValuedDimensions(found, values)


def _counted(numbers: NDArray[Any], value_of: Callable[[int], Hashable]) -> tuple[NDArray[np.int32], list[Hashable]]:
    """Numbers of distinct values, in order of the numbers that there were, and the values."""
    present, which = np.unique(numbers, return_inverse=True)
    values: dict[Hashable, int] = {}
    number_of = np.array([values.setdefault(value_of(number), len(values)) for number in present.tolist()], np.int32)
    return number_of[which.ravel()], list(values)


def _translated(numbers: NDArray[Any], number_of: Callable[[int], int]) -> NDArray[np.int64]:
    present, which = np.unique(numbers, return_inverse=True)
    return np.array([number_of(number) for number in present.tolist()], np.int64)[which.ravel()]


class MergedValues:
    """Words numbers of values; dimensions: with numbers as sort keys take them."""

    def __init__(self, dimensions: dict[str, NDArray[Any]], values: dict[str, list[Any]], recordings: Sequence[RecordingText]) -> None:
        self._values = values
        self._comms: dict[int, str] = {}
        self._recordings = recordings
        self.dimensions: dict[str, NDArray[Any]] = {}
        for name in _TASKS:
            if name in values:
                self.dimensions[name] = self._tasks(values[name])[dimensions[name]]
        if "cgroup" in values:  # 0 is of samples that do not say
            known = np.array([0 if path == 0 else number + 1 for number, path in enumerate(values["cgroup"])], np.int64)
            self.dimensions["cgroup"] = known[dimensions["cgroup"]]

    def _tasks(self, values: list[tuple[int, str]]) -> NDArray[np.int64]:
        """A number for each task; of several tasks of one number all but the first have larger ones."""
        met: dict[int, int] = {}
        found = np.zeros(len(values), np.int64)
        for row, (tid, comm) in enumerate(values):
            before = met[tid] = met.get(tid, -1) + 1
            found[row] = number = tid + (before << _NUMBER_BITS)
            self._comms[number] = comm
        return found

    def comm_of(self, number: int) -> str | None:
        """The last comm of a task, by its number in `dimensions`."""
        return self._comms.get(number)

    @property
    def machine(self) -> MachineTexts:
        """What words sockets, cgroups and recordings."""
        paths = self._values.get("cgroup", [])
        return MachineTexts(
            socket_of=lambda number: number,
            cgroup_name=lambda number: paths[number - 1] or None,
            cgroup_namespaces=self._values.get("cgroup_id", []),
            recordings=self._recordings,
        )
