"""The section in which the module _asyncio of a process describes its tasks, since CPython 3.14."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from perfpy.capture.python_frames.locating import loaded_files
from perfpy.symbols.files import elf

if TYPE_CHECKING:
    from perfpy.kernel.procfs import ProcFs

_SECTION: Final = ".AsyncioDebug"
_MODULE: Final = re.compile(r"_asyncio\..*|(?:lib)?python3.*")  # or the interpreter, if the module is built in
_LARGEST: Final = 1 << 12  # bytes of the section that are read


def asyncio_section(procfs: ProcFs, pid: int) -> bytes:
    """Return the section's bytes; b"" if no loaded file has it."""
    try:
        mappings = loaded_files(procfs.maps(pid, data=True))
    except OSError:
        return b""
    for mapping in mappings:
        if _MODULE.fullmatch(os.path.basename(mapping.path)):
            try:
                file = elf.open_mapped(mapping.path, (mapping.major, mapping.minor, mapping.inode, 0), (pid,))
                section = file.section(_SECTION)
                if section is not None:
                    return bytes(file.data(section)[:_LARGEST])
            except (elf.BadElfError, OSError):
                continue
    return b""
