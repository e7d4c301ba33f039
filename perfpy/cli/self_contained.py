"""record --self-contained: store what a report needs from this machine in the recording.

Runs right after recording, on the recorded machine. It adds the names of functions in files that samples and callchains hit, or
whole binaries, as a section that perf ignores. perfpy's report uses the section for files that are missing where it runs.
"""

from __future__ import annotations

import struct
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.abi.columns import Ragged, distinct
from perfpy.abi.flags import NATIVE_ENDIAN
from perfpy.analysis.callchains import frames_of
from perfpy.capture.runtimes.rewriting import append_section
from perfpy.errors import PerfError
from perfpy.perfdata.kept_files import DEBUG_FILE, encode
from perfpy.recording import Recording
from perfpy.symbols.dso import KERNEL_NAME, VDSO, DsoKind
from perfpy.symbols.files import build_ids, debug_files, elf, elf_symbols

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perfpy.symbols.dso import Dso
    from perfpy.symbols.files.elf import ElfFile, ElfSection


#: Values of the option.
NAMES: Final = "names"
BINARIES: Final = "binaries"

_FIELDS: Final = frozenset({"ip", "pid", "cpumode", "callchain"})
_MOST: Final = 1 << 30  # bytes, uncompressed
_SHOWN: Final = 3
_KALLSYMS: Final = "/proc/kallsyms"
_OF_CODE: Final = b"tTwW"  # types of code symbols
_TYPE_AT: Final = 17


def keep_files(path: str, content: str, tell: Callable[[str], None]) -> None:
    """Add the files to the recording, and report it. On failure the recording is unchanged, and a warning is printed."""
    try:
        with Recording(path, check_owner=True) as recording:
            before = recording.data.kept_files
            stored = {name: data for name in before if (data := before.get(name))} if before else {}
            free, files = _MOST, dict[str, bytes]()
            dsos = _hit(recording)
            ambiguous = _ambiguous_names(dsos)
            storable = [dso for dso in dsos if dso.name not in ambiguous]
            for name, data in _files(storable, recording.data.ended_here, whole=content == BINARIES):
                free -= len(data)
                if free >= 0:
                    files[name] = data
            section = encode(stored | files, NATIVE_ENDIAN)
            append_section(recording.data.path, recording.data, section)
    except (PerfError, OSError) as error:
        tell(f"warning: --self-contained: {error}; the recording is unchanged")
        return
    size = len(section) / (1 << 20)
    tell(f"[ perf record: --self-contained stored the {content} of {len(files)} files ({size:.3f} MB) ]")
    if ambiguous:
        tell(f"warning: --self-contained: several files are named {', '.join(ambiguous[:_SHOWN])}; they are not stored")
    if free < 0:
        tell("warning: --self-contained: only the first 1 GB of files is stored")


def _hit(recording: Recording) -> list[Dso]:
    """Return the dsos of samples and of their callchains."""
    symbolizer = recording.symbolizer()
    for batch in recording.data.batches(_FIELDS, recording.unwinding()):
        columns = batch.columns
        if "ip" not in columns or "pid" not in columns:
            continue
        symbolizer.frame_ids(columns["pid"], columns["ip"], batch.key, columns["cpumode"])
        if isinstance(chains := columns.get("callchain"), Ragged):
            frames_of(chains, columns["pid"], batch.key, symbolizer)
    return [symbolizer.dsos[number] for number in distinct(symbolizer.frames.dso).tolist() if number >= 0]


def _ambiguous_names(dsos: list[Dso]) -> list[str]:
    """Return the names of several files, at least one of which has no build-id. Files are stored by name."""
    names = Counter(dso.name for dso in dsos if dso.kind is DsoKind.FILE)
    return sorted({dso.name for dso in dsos if not dso.build_id and names[dso.name] > 1})


def _files(dsos: list[Dso], ended: float, *, whole: bool) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents; for programs with separate debug files, those as well."""
    if any(dso.kind in (DsoKind.KERNEL, DsoKind.MODULE) for dso in dsos) and (names := _kernel_names()):
        yield KERNEL_NAME, names
    options = debug_files.SymbolOptions(ended=ended)
    for dso in dsos:
        if dso.name == VDSO:
            yield dso.name, build_ids.vdso_image()
        elif dso.kind is DsoKind.FILE:
            sources = debug_files.find(dso, options)
            if sources.runtime:
                yield dso.name, _contents(sources.runtime, whole=whole)
            if sources.symbols and sources.symbols is not sources.runtime:
                yield f"{DEBUG_FILE}{dso.name}", _contents(sources.symbols, whole=whole)


def _contents(file: ElfFile, *, whole: bool) -> bytes:
    return bytes(memoryview(file.content)) if whole else reduce_elf(file) or bytes(memoryview(file.content))


def _kernel_names() -> bytes:
    """Return the kernel's functions with their addresses; b"" if the kernel hides them."""
    try:
        with open(_KALLSYMS, "rb") as file:
            lines = [line for line in file if line[_TYPE_AT : _TYPE_AT + 1] in _OF_CODE]
    except OSError:
        return b""
    return b"".join(lines) if lines and int(lines[-1].split()[0], 16) else b""


_SHT_NOBITS: Final = 8
_DYNAMIC: Final = (".rela.dyn", ".rel.dyn")  # only what names stubs: the whole takes megabytes
_SLOTS: Final = (".got", ".got.plt")  # of machines whose relocations have their addends in slots
_KEPT_TYPES: Final = (2, 3, 7, 11)  # SHT_SYMTAB, SHT_STRTAB, SHT_NOTE, SHT_DYNSYM
_KEPT_NAMES: Final = (
    *(".rela.plt", ".rel.plt", ".plt", ".plt.sec", ".plt.bnd", ".plt.got", ".iplt"),
    *(".gnu_debugdata", ".gnu_debuglink", ".gnu_debugaltlink", ".eh_frame", ".eh_frame_hdr", ".debug_frame"),
    *(".ARM.exidx", ".ARM.extab", ".gnu.version", ".gnu.version_d", ".gnu.version_r"),
)


class _HeaderLayout(NamedTuple):
    """The offsets of table offsets in the ELF header, and of type, offset and size in section headers; `code`: an offset's format."""

    header_size: int
    segments_at: int
    segment_count_at: int
    segment_size: int
    sections_at: int
    section_size: int
    offset_at: int
    code: str
    alignment: int = 16


_LAYOUTS: Final = {32: _HeaderLayout(52, 28, 44, 32, 32, 40, 16, "I"), 64: _HeaderLayout(64, 32, 56, 56, 40, 64, 24, "Q")}
_ELF_TYPE_AT: Final = 4  # offset in a section header


def reduce_elf(file: ElfFile) -> bytes:
    """Return the reduced file, b"" without section headers.

    Segments and section headers remain; contents are omitted except symbols, notes, procedure linkage tables and call frame information.
    The kept contents have other offsets than in the mapped file (see ElfFile.mapped_offset). Layout: elf(5).
    """
    layout = _LAYOUTS[file.bits]
    content = memoryview(file.content)
    if len(file.sections) < 2:
        return b""
    segments_at, sections_at = (_offset(content, layout, file.endian, field) for field in (layout.segments_at, layout.sections_at))
    (segments,) = struct.unpack_from(file.endian + "H", content, layout.segment_count_at)
    segments_size = segments * layout.segment_size
    headers = bytearray(content[sections_at : sections_at + len(file.sections) * layout.section_size])
    reduced = bytearray(content[: layout.header_size])
    struct.pack_into(file.endian + layout.code, reduced, layout.segments_at, layout.header_size)
    reduced += content[segments_at : segments_at + segments_size]
    for section, kept in _choose(file):
        header = section.index * layout.section_size
        if kept is None:
            struct.pack_into(file.endian + "I", headers, header + _ELF_TYPE_AT, _SHT_NOBITS)
            continue
        reduced += bytes(-len(reduced) % layout.alignment)
        struct.pack_into(file.endian + layout.code * 2, headers, header + layout.offset_at, len(reduced), len(kept))
        reduced += kept
    reduced += bytes(-len(reduced) % layout.alignment)
    struct.pack_into(file.endian + layout.code, reduced, layout.sections_at, len(reduced))
    return bytes(reduced + headers)


def _offset(content: memoryview, layout: _HeaderLayout, endian: str, field: int) -> int:
    offset: int = struct.unpack_from(endian + layout.code, content, field)[0]
    return offset


def _choose(file: ElfFile) -> Iterator[tuple[ElfSection, bytes | memoryview | None]]:
    """Yield each section that has contents, and those to keep; None for none."""
    content = memoryview(file.content)
    slots = _SLOTS if file.machine in (elf.EM_386, elf.EM_ARM) else ()
    for section in file.sections[1:]:
        if section.type == _SHT_NOBITS:
            continue
        if section.name in _DYNAMIC:
            yield section, elf_symbols.needed_relocations(file, section)
        elif section.type in _KEPT_TYPES or section.name in _KEPT_NAMES or section.name in slots:
            yield section, content[section.offset : section.offset + section.size]
        else:
            yield section, None
