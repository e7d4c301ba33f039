"""Share the files of several recordings: each is found, read and parsed once.

Hosts of one service run the same files, and reading these takes most of the time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.symbols.files import debug_files

if TYPE_CHECKING:
    from perfpy.symbols.dso import Dso, DsoKind
    from perfpy.symbols.files import debuginfod
    from perfpy.symbols.files.debug_files import Found, SymbolOptions

#: bytes of files that are kept open: what is made of them may be as large again
_LIMIT: Final = 1 << 30


class SharedFiles:
    """Files that were found, for as long as nobody may change them: for one report. limit: of bytes that are kept open."""

    def __init__(self, limit: int = _LIMIT) -> None:
        self._limit, self._size = limit, 0
        self._found: dict[tuple[str, DsoKind, str, SymbolOptions], Found] = {}

    def find(self, dso: Dso, options: SymbolOptions, client: debuginfod.Client | None) -> Found:
        """The files of a Dso of user space, as debug_files.find() has them."""
        key = dso.name, dso.kind, dso.build_id, options
        found = self._found.get(key)
        if found is None:
            found = debug_files.find(dso, options, client)
            self._keep(key, found)
        if found.runtime is None and any(debug_files.last_resorts(dso, options)):
            return debug_files.find(dso, options, client)  # of a process that still runs, which others are not
        return found

    def _keep(self, key: tuple[str, DsoKind, str, SymbolOptions], found: Found) -> None:
        size = sum(len(file.content) for file in {found.symbols, found.runtime, found.original} if file)
        if self._size + size > self._limit:  # whatever comes is found again
            self._found.clear()
            self._size = 0
        self._size += size
        self._found[key] = found
