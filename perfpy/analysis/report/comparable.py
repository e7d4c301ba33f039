"""What can be compared with another one of its kind: a recording, or a group of them. For type checkers: nothing runs here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.symbols.files.debug_files import SymbolOptions

#: what changed in one event
Changes = TypeVar("Changes")


class Comparable(Protocol[Changes]):
    """A Recording, or Recordings."""

    def changes(self, after: Any, by: str | Sequence[str] = ..., *, symbols: SymbolOptions | None = ...) -> list[Changes]:
        """What changed from it to another one, of each event that both have."""
