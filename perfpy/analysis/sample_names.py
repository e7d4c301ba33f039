"""Names of samples as columns: comm, dso, symbol, source line, stack.

Addresses are resolved together after all samples were seen, each distinct one once.
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

#: the columns of names, and the kernel's fields that they need
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
    """The source of names: the tasks of a recording, and its Symbolizer."""

    timeline: TaskTimeline
    symbolizer: Symbolizer


class NameMaker(Protocol):
    """A builder of columns of names."""

    def see(self, view: SampleView) -> None:
        """Add samples."""

    def columns(self) -> dict[str, Any]:
        """Return the columns of all samples added."""


def name_makers(naming: Naming, names: Collection[str]) -> list[NameMaker]:
    """Return the builders of these columns of names."""
    makers: list[NameMaker] = []
    if "comm" in names:
        makers.append(_Comms(naming))
    if at_address := [name for name in _AT_ADDRESS if name in names]:
        makers.append(_AtAddress(naming, at_address))
    if "stack" in names:
        makers.append(_Stacks(naming))
    return makers


class _Comms:
    """The comm of each sample's thread."""

    def __init__(self, naming: Naming) -> None:
        self._timeline = naming.timeline
        self._ids: list[NDArray[np.int32]] = [np.zeros(0, np.int32)]

    def see(self, view: SampleView) -> None:
        self._ids.append(self._timeline.comm_ids(view.column("tid"), view.key))

    def columns(self) -> dict[str, Any]:
        return {"comm": _objects(self._timeline.comms)[np.concatenate(self._ids)]}


class _AtAddress:
    """The dso, symbol and source line of each sample's address."""

    def __init__(self, naming: Naming, names: Collection[str]) -> None:
        self._symbolizer = naming.symbolizer
        self._names = names
        self._frames: list[NDArray[np.int32]] = [np.zeros(0, np.int32)]

    def see(self, view: SampleView) -> None:
        self._frames.append(view.frames_at("ip"))

    def columns(self) -> dict[str, Any]:
        frames = np.concatenate(self._frames)
        different, inverse = np.unique(frames, return_inverse=True)
        methods = {"dso": self._dsos, "symbol": self._symbols, "srcline": self._lines}
        return {name: _objects(methods[name](different))[inverse.ravel()] for name in self._names}

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
    """The functions of each sample's callchain; empty without one."""

    def __init__(self, naming: Naming) -> None:
        self._symbolizer = naming.symbolizer
        self._chains = ChainTable()
        self._ids: list[NDArray[np.int32]] = [np.zeros(0, np.int32)]

    def see(self, view: SampleView) -> None:
        frames, counts = frames_of(view.chains().gather(), view.column("pid"), view.key, self._symbolizer)
        self._ids.append(self._chains.add(frames, counts))

    def columns(self) -> dict[str, Any]:
        frames, offsets = self._chains.chains()
        frames, counts = self._symbolizer.expand(frames, np.diff(offsets))
        different, inverse = np.unique(frames, return_inverse=True)
        names = function_names(self._symbolizer, different)
        chain_names = [names[number] for number in inverse.ravel().tolist()]
        ends = np.cumsum(counts).tolist()
        stacks = [tuple(chain_names[end - count : end]) for end, count in zip(ends, counts.tolist(), strict=True)]
        return {"stack": _objects(stacks)[np.concatenate(self._ids)]}


def function_names(symbolizer: Symbolizer, frames: NDArray[np.int32]) -> list[str]:
    """Return the function of each frame."""
    table, symbols = symbolizer.resolve(), symbolizer.symbols
    return [symbols.name(number) if number >= 0 else UNKNOWN for number in table.symbol[frames].tolist()]


def _objects(values: Collection[Any]) -> NDArray[np.object_]:
    """Return an array of Python objects, including tuples."""
    array = np.empty(len(values), object)
    for number, value in enumerate(values):  # one by one: numpy would turn tuples into further dimensions
        array[number] = value
    return array
