"""Names of samples as columns: the command, the file, the function, the line, the stack.

What enters: SampleViews, and what names their tasks and addresses. What leaves: arrays of texts, and of tuples of them. Addresses become
names all together, after the samples were seen, each different one once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import numpy as np

from perfpy.analysis.samples.callchains import ChainTable, frames_of

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray

    from perfpy.analysis.samples.sample_view import SampleView
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.symbols.tasks.address_space import TaskTimeline

#: the columns of names, and the kernel's fields that they are made of
MADE_OF: Final[dict[str, tuple[str, ...]]] = {
    "comm": ("tid",),
    "dso": ("pid", "ip", "cpumode"),
    "symbol": ("pid", "ip", "cpumode"),
    "srcline": ("pid", "ip", "cpumode"),
    "stack": ("pid", "callchain"),
}
_AT_ADDRESS: Final = ("dso", "symbol", "srcline")
UNKNOWN: Final = "[unknown]"


class Naming(NamedTuple):
    """What gives names: the tasks of a recording, and a Symbolizer of it."""

    timeline: TaskTimeline
    symbolizer: Symbolizer


class NameMaker(Protocol):
    """Makes columns of names."""

    def see(self, view: SampleView) -> None:
        """Some more samples."""

    def columns(self) -> dict[str, Any]:
        """The columns of all samples seen."""


def name_makers(naming: Naming, names: Collection[str]) -> list[NameMaker]:
    """What makes these columns of names."""
    makers: list[NameMaker] = []
    if "comm" in names:
        makers.append(_Comms(naming))
    if at_address := [name for name in _AT_ADDRESS if name in names]:
        makers.append(_AtAddress(naming, at_address))
    if "stack" in names:
        makers.append(_Stacks(naming))
    return makers


class _Comms:
    """The command of each sample's thread."""

    def __init__(self, naming: Naming) -> None:
        self._timeline = naming.timeline
        self._ids: list[NDArray[np.int32]] = [np.zeros(0, np.int32)]

    def see(self, view: SampleView) -> None:
        self._ids.append(self._timeline.comm_ids(view.column("tid"), view.key))

    def columns(self) -> dict[str, Any]:
        return {"comm": _objects(self._timeline.comms)[np.concatenate(self._ids)]}


class _AtAddress:
    """What is known of each sample's address."""

    def __init__(self, naming: Naming, names: Collection[str]) -> None:
        self._symbolizer = naming.symbolizer
        self._names = names
        self._frames: list[NDArray[np.int32]] = [np.zeros(0, np.int32)]

    def see(self, view: SampleView) -> None:
        self._frames.append(view.frames_at("ip"))

    def columns(self) -> dict[str, Any]:
        frames = np.concatenate(self._frames)
        different, which = np.unique(frames, return_inverse=True)
        made = {"dso": self._dsos, "symbol": self._symbols, "srcline": self._lines}
        return {name: _objects(made[name](different))[which.ravel()] for name in self._names}

    def _dsos(self, frames: NDArray[np.int32]) -> list[str]:
        table, dsos = self._symbolizer.resolve(), self._symbolizer.dsos
        return [dsos[number].short_name if number >= 0 else UNKNOWN for number in table.dso[frames].tolist()]

    def _symbols(self, frames: NDArray[np.int32]) -> list[str]:
        return function_names(self._symbolizer, frames)

    def _lines(self, frames: NDArray[np.int32]) -> list[str]:
        from perfpy.analysis.samples.source_texts import SourceTexts  # debug information is read for lines alone

        self._symbolizer.resolve()
        return [text or UNKNOWN for text in SourceTexts(self._symbolizer).in_files(frames.astype(np.int64))]


class _Stacks:
    """The functions of each sample's callchain; of a sample without one, none."""

    def __init__(self, naming: Naming) -> None:
        self._symbolizer = naming.symbolizer
        self._chains = ChainTable()
        self._ids: list[NDArray[np.int32]] = [np.zeros(0, np.int32)]

    def see(self, view: SampleView) -> None:
        frames, counts = frames_of(view.chains().gathered(), view.column("pid"), view.key, self._symbolizer)
        self._ids.append(self._chains.add(frames, counts))

    def columns(self) -> dict[str, Any]:
        frames, offsets = self._chains.chains()
        frames, counts = self._symbolizer.expanded(frames, np.diff(offsets))
        different, which = np.unique(frames, return_inverse=True)
        names = function_names(self._symbolizer, different)
        named = [names[number] for number in which.ravel().tolist()]
        ends = np.cumsum(counts).tolist()
        stacks = [tuple(named[end - count : end]) for end, count in zip(ends, counts.tolist(), strict=True)]
        return {"stack": _objects(stacks)[np.concatenate(self._ids)]}


def function_names(symbolizer: Symbolizer, frames: NDArray[np.int32]) -> list[str]:
    """The function of each frame."""
    table, symbols = symbolizer.resolve(), symbolizer.symbols
    return [symbols.name(number) if number >= 0 else UNKNOWN for number in table.symbol[frames].tolist()]


def _objects(values: Collection[Any]) -> NDArray[np.object_]:
    """An array of Python's own objects, tuples among them."""
    found = np.empty(len(values), object)
    for number, value in enumerate(values):  # at once, tuples would become further dimensions
        found[number] = value
    return found
