"""record --self-contained: store what a report needs from this machine in the recording.

Runs right after recording, on the recorded machine. It adds the names of functions in files that samples and callchains hit, or
whole binaries, as a section that perf ignores. perfpy's report uses the section for files that are missing where it runs.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from perfpy.abi.columns import Ragged, distinct
from perfpy.abi.flags import NATIVE_ENDIAN
from perfpy.analysis.samples.callchains import frames_of
from perfpy.capture.runtimes.rewriting import append_section
from perfpy.errors import PerfError
from perfpy.perfdata.container.kept_files import DEBUG_FILE, encode
from perfpy.recording import Recording
from perfpy.symbols.dso import DsoKind
from perfpy.symbols.files import build_id_notes, debug_files
from perfpy.symbols.files.elf_reduction import reduce_elf
from perfpy.symbols.mapped_names import KERNEL_NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from perfpy.symbols.dso import Dso
    from perfpy.symbols.files.elf import ElfFile

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
        if dso.kind is DsoKind.VDSO:
            yield dso.name, build_id_notes.vdso_image()
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
