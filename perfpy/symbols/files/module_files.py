"""Find the ELF file of a kernel module, or its debug file of the same build, and the offset of its frames."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING, Final

from perfpy.symbols.files.compressed_files import read_module
from perfpy.symbols.files.debug_files import same_build_id
from perfpy.symbols.files.elf import DAMAGE, SHT_NOBITS, ElfFile
from perfpy.untrusted import paths

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.symbols.dso import Dso

_DEBUG_ROOT: Final = "/usr/lib/debug"
_PACKED: Final = re.compile(r"\.(?:gz|xz|zst)\Z")


def with_debug_info(dso: Dso, root: str) -> tuple[ElfFile, int] | None:
    """The file that has it, and the distance; None where none is here. root: the folder that stands for /."""
    found = next((file for file in _files(dso, root) if file.section(".debug_info") is not None), None)
    text = found.section(".text") if found else None
    # a module's mapping begins with its code; addresses in debug information are made offsets in the file (debuginfo.sections)
    return (found, -text.offset) if found and text else None


def with_code(dso: Dso, root: str) -> tuple[ElfFile, int] | None:
    """The module itself, and how far its frames lie above the addresses of its .text; None where it is not here."""
    found = next((file for file in _files(dso, root) if has_code(file)), None)
    text = found.section(".text") if found else None
    return (found, -text.addr) if found and text else None


def has_code(file: ElfFile) -> bool:
    """Whether it is more than debug information."""
    text = file.section(".text")
    return text is not None and text.type != SHT_NOBITS


def _files(dso: Dso, root: str) -> Iterator[ElfFile]:
    """The files of this build that have the section of code, empty or not."""
    for path in _candidates(dso, root):
        try:
            file = read_module(path) if os.path.isfile(path) else None
        except (OSError, *DAMAGE):
            continue
        if file is None or (dso.build_id and not same_build_id(file.build_id, dso.build_id)):
            continue
        if file.section(".text") is not None:
            yield file


def _candidates(dso: Dso, root: str) -> Iterator[str]:
    """Paths in the order of likelihood: the module itself, then where distributions put the rest of it."""
    plain = _PACKED.sub("", dso.name)
    names = (dso.name, f"{_DEBUG_ROOT}{plain}", f"{_DEBUG_ROOT}{plain}.debug") if dso.name.startswith("/") else ()
    try:
        yield from (paths.below(root, name) for name in names)
        if dso.build_id:
            yield paths.debug_file(root + _DEBUG_ROOT, dso.build_id)
    except paths.UnsafeNameError:
        return
