"""Find the bounds of the running kernel's text in /proc/kallsyms.

The kernel formats all its symbols for each reader, and the end comes almost last, which takes longer than all the rest of a
short recording. The end is therefore cached below XDG_CACHE_HOME/perfpy until the next boot, where only the user can read or
write it. The start is always read.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Final

from perfpy.abi.startup import NamedTuple
from perfpy.untrusted.files import read_regular, trusted_file_owners
from perfpy.untrusted.folders import own

if TYPE_CHECKING:
    from perfpy.kernel.procfs import ProcFs

_LARGEST: Final = 1 << 10
_START_SYMBOLS: Final = ("_text", "_stext")
_END_SYMBOLS: Final = ("_edata", "_etext")


class KernelExtent(NamedTuple):
    """The kernel's text: the symbol at its start, the start, and the first address after it."""

    symbol: str
    start: int
    end: int


def kernel_extent(procfs: ProcFs, cache: str | None = None) -> KernelExtent | None:
    """Return the kernel's extent, None if addresses are hidden. cache is the file with its end ("": none; None: the user's)."""
    starts = procfs.kernel_symbols(_START_SYMBOLS)
    symbol = next((name for name in _START_SYMBOLS if name in starts), "")
    if not symbol:
        return None
    start = starts[symbol]
    path = _cache_file() if cache is None else cache
    key = f"{procfs.boot_id()} {start:x}"
    end = _read_cache(path, key)
    if end is None:
        ends = procfs.kernel_symbols(_END_SYMBOLS)
        end = next((ends[name] for name in _END_SYMBOLS if name in ends), start)
        _write_cache(path, key, end)
    return KernelExtent(symbol, start, end)


def _cache_file() -> str:
    folder = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(folder, "perfpy", "kernel-end")


def _read_cache(path: str, key: str) -> int | None:
    try:
        data = read_regular(path, owners=trusted_file_owners(), limit=_LARGEST)
        cached_key, _, end = data.decode().rpartition(" ")
        return int(end, 16) if cached_key == key else None
    except (OSError, ValueError):
        return None


def _write_cache(path: str, key: str, end: int) -> None:
    """Write the cache; errors are ignored, because the end can be read again."""
    if not path:
        return
    folder, name = os.path.split(path)
    temporary = f"{name}.{os.getpid()}"
    with contextlib.suppress(OSError), own(folder) as ours:
        with open(ours.create(temporary), "w") as file:
            file.write(f"{key} {end:x}")
        os.rename(temporary, name, src_dir_fd=ours.fd, dst_dir_fd=ours.fd)
