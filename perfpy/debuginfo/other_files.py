"""The further files with parts of the debug information: what dwz took out, and what -gsplit-dwarf left beside.

What enters: the sections of a file that names another one; a skeleton unit. What leaves: the other's sections or split
unit, None where it is not there or is of another build. Names in files become paths below the folder that stands for /.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from perfpy.debuginfo.sections import DebugSections
from perfpy.symbols.files.debug_files import same_build_id
from perfpy.symbols.files.elf import DAMAGE, ElfFile, reason_of
from perfpy.untrusted import paths

if TYPE_CHECKING:
    from collections.abc import Iterator

_DEBUG_ROOT: Final = "/usr/lib/debug"
_LINK: Final = ".gnu_debugaltlink"
_LINK_MOST: Final = 1 << 12  # PATH_MAX


def alternate(sections: DebugSections) -> DebugSections | None:
    """The file that .gnu_debugaltlink names, by its name or its build-id."""
    section = sections.file.section(_LINK)
    if section is None:
        return None
    name, _, build_id = bytes(sections.file.data(section)[:_LINK_MOST]).partition(b"\0")
    for path in _alternate_paths(sections, os.fsdecode(name), build_id.hex()):
        file = opened(path)
        if file and (not build_id or same_build_id(file.build_id, build_id.hex())):
            return DebugSections(file, sections.root)
    sections.file.flaw(f"its debug information is partly in {os.fsdecode(name)!r}, which is not here")
    return None


def _alternate_paths(sections: DebugSections, name: str, build_id: str) -> Iterator[str]:
    yield from _below(sections.root, name) if name.startswith("/") else _beside(sections.file.path, name)
    yield from _below(sections.root, f"{_DEBUG_ROOT}/.dwz/{os.path.basename(name)}")
    try:
        yield paths.debug_file(sections.root + _DEBUG_ROOT, build_id)
    except paths.UnsafeName:
        return


def _beside(path: str, name: str) -> Iterator[str]:
    """A name relative to the folder of the file that has it; dwz writes ../../.dwz/NAME."""
    folder = os.path.dirname(path)
    while name.startswith("../"):
        folder, name = os.path.dirname(folder), name[3:]
    yield from _below(folder, name)


def _below(folder: str, name: str) -> list[str]:
    try:
        return [paths.below(folder, name)]
    except paths.UnsafeName:
        return []


def opened(path: str) -> ElfFile | None:
    """The ELF file at a path, None where there is none that can be read."""
    try:
        return ElfFile(path) if os.path.isfile(path) else None
    except (OSError, *DAMAGE):
        return None


def damage_of(error: Exception) -> str:
    """What is wrong with debug information, for ElfFile.flaw."""
    return f"debug information: {reason_of(error)}"
