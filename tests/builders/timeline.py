"""Side-band records for tests of address spaces and symbols."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from perfpy.abi import records
from perfpy.abi.flags import MISC_KERNEL, MISC_MMAP_BUILD_ID, MISC_USER
from perfpy.abi.framing import HEADER, pad_to_words
from perfpy.abi.records import NO_ID, IdLayout
from perfpy.abi.task_columns import RawColumns, TaskRecords, decode_tasks
from perfpy.symbols.address_spaces import TaskTimeline
from perfpy.symbols.dso import KERNEL_NAME
from perfpy.symbols.symbolizer import Symbolizer

if TYPE_CHECKING:
    from perfpy.symbols.files.debug_files import SymbolOptions


def mmap(pid: int, addr: int, length: int, name: str, *, pgoff: int = 0, prot: int = 5, build_id: str = "") -> records.Mmap2:
    misc = MISC_USER | MISC_MMAP_BUILD_ID if build_id else MISC_USER
    return records.Mmap2(misc, pid, pid, addr, length, pgoff, 0, 0, 0, 0, prot, 2, name, bytes.fromhex(build_id))


def kernel_mmap(addr: int, length: int, name: str = "[kernel.kallsyms]_text", pgoff: int = 0) -> records.Mmap:
    return records.Mmap(MISC_KERNEL, 0xFFFFFFFF, 0, addr, length, pgoff, name)


def fork(pid: int, ppid: int, tid: int = 0, ptid: int = 0, misc: int = 0) -> records.Fork:
    return records.Fork(misc, pid, ppid, tid or pid, ptid or ppid, 0)


def exited(pid: int, tid: int = 0) -> records.Exit:
    return records.Exit(0, pid, 1, tid or pid, 1, 0)


def comm(pid: int, name: str, tid: int = 0, misc: int = 0) -> records.Comm:
    return records.Comm(misc, pid, tid or pid, name)


def ksymbol(addr: int, length: int, name: str, flags: int = 0) -> records.Ksymbol:
    return records.Ksymbol(0, addr, length, 1, flags, name)


def task_records(*events: tuple[int, Any], endian: str = "<", trailer: IdLayout = NO_ID) -> TaskRecords:
    """(key, record) each, in order, by columns."""
    encoded = [records.encode(record, trailer, endian) for _, record in events]
    headers = [HEADER[endian].unpack_from(record) for record in encoded]
    bodies = [pad_to_words(record[HEADER[endian].size :]) for record in encoded]
    kind, misc, size = (np.array([header[at] for header in headers], np.int64) for at in range(3))
    length = np.array([len(body) for body in bodies], np.int64)
    raw = RawColumns(
        kind.astype(np.uint32), misc.astype(np.uint16), np.cumsum(length) - length, size - HEADER[endian].size,
        np.full(len(events), trailer.size), b"".join(bodies),
    )  # fmt: skip
    return decode_tasks(raw, np.array([key for key, _ in events], np.uint64), endian)


def timeline(
    *events: tuple[int, Any], build_ids: dict[str, str] | None = None, kernel_name: str = KERNEL_NAME, keep_exited: bool = False
) -> TaskTimeline:
    """(key, record) each, in order."""
    return TaskTimeline(task_records(*events), build_ids=build_ids, kernel_name=kernel_name, keep_exited=keep_exited)


class Frame(NamedTuple):
    """What a frame says: symbol and offset, name of the dso, address within it, level."""

    symbol: str
    offset: int
    dso: str
    address: int
    level: str


def frames(
    source: TaskTimeline | Symbolizer, *samples: tuple[int, int, int], mode: int = MISC_USER, options: SymbolOptions | None = None
) -> list[Frame]:
    """(pid, ip, key) each -> frames."""
    symbolizer = source if isinstance(source, Symbolizer) else Symbolizer(source, options)
    pid, ip, key = (np.array(column, np.uint64) for column in zip(*samples, strict=True))
    ids = symbolizer.frame_ids(pid.astype(np.uint32), ip, key, np.full(len(ip), mode, np.uint8))
    table = symbolizer.resolve()
    result = []
    for number in ids.tolist():
        symbol, dso = int(table.symbol[number]), int(table.dso[number])
        result.append(
            Frame(
                symbolizer.symbols.name(symbol) if symbol >= 0 else "-",
                int(table.symbol_offset[number]),
                symbolizer.dsos[dso].name if dso >= 0 else "-",
                int(table.address[number]),
                chr(table.level[number]),
            )
        )
    return result


def dsos(source: TaskTimeline, *samples: tuple[int, int, int], mode: int = MISC_USER) -> list[str]:
    """The names of the dsos only."""
    return [frame.dso for frame in frames(source, *samples, mode=mode)]
