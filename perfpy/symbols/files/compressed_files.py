"""Decompress kernel modules (NAME.ko.gz, .xz, .zst) and .gnu_debugdata sections."""

from __future__ import annotations

import os
from typing import Final

from perfpy.symbols.files.elf import DAMAGE, BadElfError, ElfFile, reason_of
from perfpy.untrusted.files import open_regular

_KINDS: Final = {".gz": "gzip", ".xz": "xz", ".zst": "zstd"}


def read_module(path: str) -> ElfFile:
    """Return the ELF file of a module. Raises OSError if it cannot be read, BadElfError if it is damaged."""
    kind = _KINDS.get(os.path.splitext(path)[1])
    if kind is None:
        return ElfFile(path)
    from perfpy.untrusted.expansion import ExpansionError, expand  # most modules are named by kallsyms

    with open_regular(path) as file:
        data = file.read()
    try:
        return ElfFile(path, expand(kind, data))
    except ExpansionError as damage:
        raise BadElfError(path, f"cannot decompress: {damage}") from damage


def read_mini_debug_info(file: ElfFile) -> ElfFile | None:
    """Return the symbols that Fedora adds to stripped programs: an ELF file, xz-compressed in .gnu_debugdata."""
    section = file.section(".gnu_debugdata")
    if section is None:
        return None
    from perfpy.untrusted.expansion import expand  # only Fedora's files have it

    try:
        return ElfFile(file.path, expand("xz", file.data(section)))
    except DAMAGE as damage:
        file.flaw(f"section {section.name!r}: {reason_of(damage)}")
        return None
