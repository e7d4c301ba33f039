"""Cache parsed symbols of the kernel (kernel_symbols) and of large ELF files (elf_cache) between runs.

A key identifies the contents. Names are one column of bytes, the last (see column_files).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.symbols.caches.column_files import ColumnFiles
from perfpy.symbols.symbol_table import Symbols

if TYPE_CHECKING:
    from numpy.typing import NDArray

_LIMIT: Final = 256 << 20
_KEPT: Final = ("start", "end", "binding", "type", "name")


class SymbolCache(ColumnFiles):
    """A folder of cached symbol tables. `limit`: bytes of all files together."""

    def __init__(self, path: str, limit: int = _LIMIT) -> None:
        super().__init__(path, ".symbols", limit)

    def load(self, key: str) -> tuple[Symbols, dict[str, NDArray[Any]]] | None:
        """Return the symbols and further columns stored under a key, None if there are none."""
        columns = self.columns(key)
        if columns is None or not columns.keys() >= {*_KEPT, "names"}:
            return None
        names = columns.pop("names").data
        own = {name: columns.pop(name) for name in _KEPT}
        return Symbols(**own, source=np.zeros(len(own["start"]), np.uint8), sources=(names,)), columns

    def store(self, key: str, symbols: Symbols, **further: NDArray[Any]) -> None:
        """Store symbols and further columns under a key."""
        joined = _one_source(symbols)
        columns = {name: getattr(joined, name) for name in _KEPT} | further | {"names": np.frombuffer(joined.sources[0], np.uint8)}
        self.keep(key, columns)


def _one_source(symbols: Symbols) -> Symbols:
    """Merge the names of all sources into one."""
    lengths = [len(source) for source in symbols.sources]
    base = np.cumsum([0, *lengths[:-1]])
    names = b"".join(bytes(source) for source in symbols.sources)
    return symbols.with_columns(name=symbols.name + base[symbols.source], source=np.zeros_like(symbols.source), sources=(names,))
