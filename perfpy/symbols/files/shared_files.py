"""Share the files of several recordings: each is found, read and parsed once.

Hosts of one service run the same files, and reading these takes most of the time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from perfpy.symbols.files import debug_files

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfpy.symbols.dso import Dso, DsoKind
    from perfpy.symbols.files import debuginfod
    from perfpy.symbols.files.debug_files import DsoFiles, SymbolOptions
    from perfpy.symbols.files.elf import ElfFile
    from perfpy.untrusted.identified_file import FileId

    _Key: TypeAlias = tuple[str, DsoKind, str, FileId | None, SymbolOptions]

#: bytes of open files; data parsed from them may take as much again
_LIMIT: Final = 1 << 30


class SharedFiles:
    """The files of dsos found so far, for one report: files must not change meanwhile. `limit`: bytes of open files."""

    def __init__(self, limit: int = _LIMIT) -> None:
        self._limit, self._size = limit, 0
        self._files: dict[_Key, DsoFiles] = {}

    def find(
        self,
        dso: Dso,
        options: SymbolOptions,
        client: debuginfod.Client | None,
        crc_of: Callable[[ElfFile], int] = debug_files.crc_of_content,
    ) -> DsoFiles:
        """Return the files of a user-space dso; see debug_files.find."""
        key = dso.name, dso.kind, dso.build_id, dso.identity, options
        files = self._files.get(key)
        if files is None:
            files = debug_files.find(dso, options, client, crc_of=crc_of)
            self._keep(key, files)
        if files.runtime is None and any(debug_files.last_resorts(dso, options)):
            return debug_files.find(dso, options, client, crc_of=crc_of)  # only this dso's pids lead to the file of a running process
        return files

    def _keep(self, key: _Key, files: DsoFiles) -> None:
        size = sum(len(file.content) for file in {files.symbols, files.runtime, files.original} if file)
        if self._size + size > self._limit:  # drop all; later requests search again
            self._files.clear()
            self._size = 0
        self._size += size
        self._files[key] = files
