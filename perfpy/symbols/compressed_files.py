"""Kernel modules and debug information that are kept compressed.

What enters: the path of NAME.ko, NAME.ko.gz, .xz or .zst; or an ELF file with a
.gnu_debugdata section. What leaves: the ELF file inside.
"""

from __future__ import annotations

from perfpy.symbols.elf import BadElf, ElfFile, zstd_decompress
from perfpy.untrusted.files import open_regular


def read_module(path: str) -> ElfFile:
    """A module's file. Raises OSError where it cannot be read, BadElf where it is damaged."""
    if path.endswith(".ko"):
        return ElfFile(path)
    with open_regular(path) as file:
        return ElfFile(path, _decompress(path, file.read()))


def mini_debug_info(file: ElfFile) -> ElfFile | None:
    """The symbols that Fedora leaves in stripped programs: an ELF file, xz-compressed in .gnu_debugdata."""
    section = file.section(".gnu_debugdata")
    if section is None:
        return None
    try:
        return ElfFile(file.path, _decompress(".xz", bytes(file.data(section))))
    except BadElf:
        return None


def _decompress(path: str, data: bytes) -> bytes:
    try:
        if path.endswith(".gz"):
            import gzip  # rarely needed

            return gzip.decompress(data)
        if path.endswith(".xz"):
            import lzma  # rarely needed

            return lzma.decompress(data)
        if path.endswith(".zst"):
            return zstd_decompress(data)
    except Exception as damage:  # each library has errors of its own
        raise BadElf(path, f"cannot decompress: {damage}") from damage
    return data
