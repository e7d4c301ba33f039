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


def find_debug_module(dso: Dso, root: str) -> tuple[ElfFile, int] | None:
    """Return the module's file with debug information and the offset of its frames, None if missing. `root` stands for /."""
    module = next((file for file in _files(dso, root) if file.section(".debug_info") is not None), None)
    text = module.section(".text") if module else None
    # A module's mapping begins with its code, and debuginfo.sections relocates debug information to file offsets.
    return (module, -text.offset) if module and text else None


def find_module_code(dso: Dso, root: str) -> tuple[ElfFile, int] | None:
    """Return the module itself and the distance of its frames from the addresses of .text, None if missing."""
    module = next((file for file in _files(dso, root) if has_code(file)), None)
    text = module.section(".text") if module else None
    return (module, -text.addr) if module and text else None


def has_code(file: ElfFile) -> bool:
    """Whether the file has code, not only debug information."""
    text = file.section(".text")
    return text is not None and text.type != SHT_NOBITS


def _files(dso: Dso, root: str) -> Iterator[ElfFile]:
    """Yield the files of this build that have a .text section, even an empty one."""
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
    """Yield paths by likelihood: the module itself, then the distributions' folders for debug files."""
    plain = _PACKED.sub("", dso.name)
    names = (dso.name, f"{_DEBUG_ROOT}{plain}", f"{_DEBUG_ROOT}{plain}.debug") if dso.name.startswith("/") else ()
    try:
        yield from (paths.below(root, name) for name in names)
        if dso.build_id:
            yield paths.debug_file(root + _DEBUG_ROOT, dso.build_id)
    except paths.UnsafeNameError:
        return
