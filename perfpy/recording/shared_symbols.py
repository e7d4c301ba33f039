"""Timelines and symbols that several passes over one recording share, for as long as a context lasts."""

from __future__ import annotations

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from perfpy.symbols.files.debug_files import SymbolOptions
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.symbols.tasks.address_space import TaskTimeline

    Naming = tuple[TaskTimeline, Symbolizer]
    Key = tuple[bool, SymbolOptions]


class SharedSymbols:
    """A context in which equal requests get one timeline and symbolizer. Outside of it each request gets new ones."""

    def __init__(self) -> None:
        self._depth = 0
        self._namings: list[tuple[Key, Naming]] = []

    def __enter__(self) -> Self:
        self._depth += 1
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._depth -= 1
        if not self._depth:
            self._namings = []

    def naming(self, key: Key, make: Callable[[], Naming]) -> Naming:
        """Return the timeline and the symbolizer of a key: whether exited threads keep their names, and where to look for symbols."""
        for other, naming in self._namings:
            if other == key:
                return naming
        naming = make()
        if self._depth:
            self._namings.append((key, naming))
        return naming
