"""The type of recordings, and of groups of recordings, that perfpy.diff compares; for type checkers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.symbols.files.debug_files import SymbolOptions

#: the changes of one event
Changes = TypeVar("Changes")


class Comparable(Protocol[Changes]):
    """A Recording, or Recordings."""

    def changes(self, after: Any, by: str | Sequence[str] = ..., *, symbols: SymbolOptions | None = ...) -> list[Changes]:
        """Return the changes to `after`, for each event that both have."""
