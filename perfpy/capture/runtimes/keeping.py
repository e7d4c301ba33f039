"""Store the names from the recorded runtimes in a finished recording, on the recorded machine.

The recording gets the perf maps of its processes, and the code of their jitdumps as images with the records that map them.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.abi import records
from perfpy.abi.flags import NATIVE_ENDIAN
from perfpy.capture.runtimes.attaching import ask
from perfpy.capture.runtimes.jitted_code import JittedCode
from perfpy.capture.runtimes.perf_maps import PerfMaps
from perfpy.capture.runtimes.rewriting import append_section, rewrite
from perfpy.errors import OutputFailedError
from perfpy.perfdata.container.kept_files import encode
from perfpy.perfdata.reader import PerfData

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_MOST: Final = 1 << 30  # bytes of perf maps and images together, uncompressed


class Kept(NamedTuple):
    """The names that were stored.

    Attributes:
        maps: the number of perf maps.
        functions: the number of functions of jitdumps.
        failures: a line for each one.
        pids: processes that generated code.
    """

    maps: int = 0
    functions: int = 0
    failures: tuple[str, ...] = ()
    pids: frozenset[int] = frozenset()


def store_names(
    path: str,
    began: float,
    cache: str | None = "",
    *,
    known_lines: Mapping[int, bytes] = MappingProxyType({}),
    images: Mapping[str, bytes] = MappingProxyType({}),
    remove_dumps: bool = False,
) -> Kept:
    """Add the names to a recording. Raises PerfError if the file cannot be read again.

    Args:
        began: the recording's start, in seconds since the epoch.
        cache: as in JittedCode.
        known_lines: further lines of some processes' perf maps.
        images: further files by name.
        remove_dumps: remove dumps that are in the recording.
    """
    with PerfData(path) as data:
        maps, code = PerfMaps(began, known_lines), JittedCode(data, cache)
        for side in data.side_band():
            if isinstance(side.record, (records.Mmap, records.Mmap2)):
                maps.see(side.record)
                code.see(side.record)
        code.sort()
        failed_requests = [*ask(sorted(maps.pids))]
        maps_kept = _limited(maps.files())
        texts = {**maps_kept, **images}
        failures = [*failed_requests, *code.failures, *maps.failures]
        functions = _put_code(path, data, code, texts, failures) if code.records else 0
        if texts and not functions:
            texts = _put_texts(path, data, texts, failures)
    if functions and remove_dumps:
        code.remove_dumps()
    return Kept(len(texts.keys() & maps_kept.keys()), functions, tuple(failures), frozenset(maps.pids | code.dumps.keys()))


def _limited(files: Iterable[tuple[str, bytes]]) -> dict[str, bytes]:
    """Return files by name, up to the size limit."""
    limited, room = {}, _MOST
    for name, data in files:
        room -= len(data)
        if room >= 0:
            limited[name] = data
    return limited


def _put_code(path: str, data: PerfData, code: JittedCode, texts: dict[str, bytes], failures: list[str]) -> int:
    """Add everything to the recording; return the number of its functions from dumps."""
    try:
        rewrite(path, data, code, encode(texts | code.images, NATIVE_ENDIAN))
    except OutputFailedError as failure:
        failures.append(f"{failure}; the recording is unchanged, without the code of its jitdumps")
        return 0
    return code.functions


def _put_texts(path: str, data: PerfData, texts: dict[str, bytes], failures: list[str]) -> dict[str, bytes]:
    """Add the perf maps to the recording; return those it has now."""
    try:
        append_section(path, data, encode(texts, NATIVE_ENDIAN))
    except OutputFailedError as failure:
        failures.append(f"{failure}; the recording is unchanged, without its perf maps")
        return {}
    return texts
