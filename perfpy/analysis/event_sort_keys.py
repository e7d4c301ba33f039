"""Sort keys of branch records: their ends and flags.

See perfpy.analysis.sort_key; the numbers are frame ids of the two ends of a
branch (perfpy.analysis.dimensions), or the flag word (perfpy.abi.sample_decoding).
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.flags import MISC_GUEST_KERNEL, MISC_GUEST_USER, MISC_HYPERVISOR, MISC_KERNEL, PerfType
from perfpy.abi.framing import as_number
from perfpy.analysis.dimensions import PHYSICAL_BITS
from perfpy.analysis.location_sort_keys import UNNAMED_WIDTH, VERBOSE_WIDTH, page_size, symbol_text, symbol_texts, verbose_prefix
from perfpy.analysis.locations import ranks, sample_locations
from perfpy.analysis.sort_key import ColumnCell, KeyColumn, Mode, SortKey, by_text
from perfpy.symbols.dso import file_ranks
from perfpy.untrusted.text import byte_width

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from perfpy.analysis.locations import Int64
    from perfpy.analysis.sort_key import KeyTexts, MemoryWords
    from perfpy.perfdata.event_format import EventFormat, TraceField
    from perfpy.perfdata.events import FileEvent


_MISPREDICTED, _PREDICTED, _IN_TRANSACTION, _ABORT = (1 << bit for bit in range(4))
_CYCLES_SHIFT = 4
_CYCLES_MASK = 0xFFFF
_LEVEL_WIDTH = len("[k] ")


def branch_dso(texts: KeyTexts, frames: Int64) -> KeyColumn:
    """Return the column of files. perf compares them in the reverse order of the samples' files: descending, files without a name first."""
    location_table = texts.locations
    rank = ranks(-location_table.dso_ranks(sample_locations(frames)))

    def wide(i: int) -> int:
        return (
            byte_width(location_table.dso_name(int(frames[i]))) if location_table.symbol[frames[i]] >= 0 else texts.style.unnamed_dso_width
        )

    return KeyColumn(rank, rank, lambda i: location_table.dso_name(int(frames[i])), wide)


def symbol(texts: KeyTexts, frames: Int64) -> KeyColumn:
    """Return the column of functions. perf compares them by their addresses within any files."""
    location_table = texts.locations
    symbols = location_table.symbol[frames]
    has_symbol = symbols >= 0
    start, end = location_table.symbol_bounds(symbols)
    rank = ranks(
        ~has_symbol, np.where(has_symbol, start.view(np.int64), location_table.ip[frames].view(np.int64)), np.where(has_symbol, end, 0)
    )
    locations = sample_locations(frames)

    def text(i: int) -> str:
        inner = int(location_table.address[frames[i]])
        return verbose_prefix(texts, int(frames[i]), inner) + symbol_text(location_table, int(locations[i]), inner)

    def wide(i: int) -> int:
        if not has_symbol[i]:
            return UNNAMED_WIDTH
        return byte_width(location_table.name(int(frames[i]))) + _LEVEL_WIDTH + (VERBOSE_WIDTH if texts.style.verbose else 0)

    return KeyColumn(rank, rank, text, wide, unnamed=~has_symbol)


def address(texts: KeyTexts, frames: Int64) -> KeyColumn:
    """Return the column of a branch's end: the function and the offset in it."""
    location_table = texts.locations
    locations = sample_locations(frames)
    rank = ranks(-location_table.dso_ranks(locations), location_table.ip[frames].view(np.int64))

    def text(i: int) -> str:
        inner = int(location_table.address[frames[i]])
        label, symbol = symbol_text(location_table, int(locations[i]), inner), int(location_table.symbol[frames[i]])
        offset = inner - location_table.symbol_start(symbol) if symbol >= 0 and not location_table.symbols.is_data(symbol) else 0
        return f"{label}+{offset:#x}" if offset else label

    return KeyColumn(rank, rank, text, lambda i: 0 if location_table.symbol[frames[i]] >= 0 else UNNAMED_WIDTH)


def source_line(texts: KeyTexts, frames: Int64) -> KeyColumn:
    """Return the column of source lines at a branch's end."""
    return by_text(texts.source_texts.lines(frames))


def _flags(values: Int64, bits: int, words: dict[int, str]) -> KeyColumn:
    rank = ranks(values & bits)
    return KeyColumn(rank, rank, lambda i: words[int(values[i]) & bits])


def mispredict(_texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of mispredicted branches."""
    both = _MISPREDICTED | _PREDICTED
    return _flags(values, both, {0: "N/A", _MISPREDICTED: "Y", _PREDICTED: "N", both: "N"})


def abort(_texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of aborted transactions."""
    return _flags(values, _ABORT, {0: ".", _ABORT: "A"})


def in_transaction(_texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of branches in transactions."""
    return _flags(values, _IN_TRANSACTION, {0: ".", _IN_TRANSACTION: "T"})


def cycles(_texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of cycles, compared as unsigned but printed by perf as signed 16-bit numbers."""
    counts = values >> _CYCLES_SHIFT & _CYCLES_MASK
    signed_counts = counts.astype(np.uint16).view(np.int16)
    rank = ranks(-counts)
    return KeyColumn(rank, rank, lambda i: str(int(signed_counts[i])) if counts[i] else "-")


def branch_ipc(texts: KeyTexts, frames: Int64) -> KeyColumn:
    """Return the column of the functions' instructions per cycle."""
    rank = symbol(texts, frames).same

    def text(i: int) -> str:
        function = int(texts.locations.symbol[frames[i]])
        if function < 0 or texts.ipc is None:
            return "-"
        ipc = texts.ipc(function)
        return f"{ipc.value:<5.2f} [{ipc.coverage:5.1f}%]"

    return KeyColumn(rank, rank, text)


#: the sort keys of branch records, in perf's order of search
BRANCH_KEYS: Final = (
    SortKey("dso_from", "Source Shared Object", "branch_from", branch_dso, mode=Mode.BRANCH),
    SortKey("dso_to", "Target Shared Object", "branch_to", branch_dso, mode=Mode.BRANCH),
    SortKey("symbol_from", "Source Symbol", "branch_from", symbol, ColumnCell.CUT, mode=Mode.BRANCH),
    SortKey("symbol_to", "Target Symbol", "branch_to", symbol, ColumnCell.CUT, mode=Mode.BRANCH),
    SortKey("mispredict", "Branch Mispredicted", "branch_flags", mispredict, mode=Mode.BRANCH),
    SortKey("abort", "Transaction abort", "branch_flags", abort, mode=Mode.BRANCH),
    SortKey("in_tx", "Branch in transaction", "branch_flags", in_transaction, mode=Mode.BRANCH),
    SortKey("cycles", "Basic Block Cycles", "branch_flags", cycles, mode=Mode.BRANCH),
    SortKey("srcline_from", "From Source:Line", "branch_from", source_line, mode=Mode.BRANCH),
    SortKey("srcline_to", "To Source:Line", "branch_to", source_line, mode=Mode.BRANCH),
    SortKey("ipc_lbr", "IPC   [IPC Coverage]", "branch_to", branch_ipc, mode=Mode.BRANCH),
    SortKey("addr_from", "Source Address", "branch_from", address, ColumnCell.LOOSE, mode=Mode.BRANCH),
    SortKey("addr_to", "Target Address", "branch_to", address, ColumnCell.LOOSE, mode=Mode.BRANCH),
)


# Sort keys of memory accesses: the data, and the memory that served them.
#
# See perfpy.analysis.sort_key; the numbers are frame ids of the data's address,
# or the data_src word (union perf_mem_data_src in perf_event.h).


_ADDRESS_WIDTH = 18
_LEVELS = {MISC_KERNEL: "k", MISC_HYPERVISOR: "H", MISC_GUEST_KERNEL: "g", MISC_GUEST_USER: "u"}
_LONGEST = 62  # characters of perf's texts of data_src
_LINE = 64  # bytes of a cache line


def data_symbol(texts: KeyTexts, frames: Int64) -> KeyColumn:
    """Return the column of accessed data."""
    return _by_address(texts, frames, texts.locations.ip[frames])


def code_symbol(texts: KeyTexts, frames: Int64) -> KeyColumn:
    """Return the column of accessing instructions."""
    return _by_address(texts, frames, texts.locations.ip[frames])


def cache_line(texts: KeyTexts, frames: Int64) -> KeyColumn:
    """Return the column of accessed cache lines; unmapped ones have level X."""
    location_table = texts.locations
    lines = location_table.address[frames] & ~np.uint64(_LINE - 1)
    column = _by_address(texts, frames, lines)

    def text(i: int) -> str:
        label = column.text(i)
        level = VERBOSE_WIDTH if texts.style.verbose else 0  # its position
        return label if location_table.dso[frames[i]] >= 0 else f"{label[:level]}[X]{label[level + 3 :]}"

    dso_of = location_table.dso[frames].astype(np.int64)  # files have lines at equal offsets
    is_anonymous = np.array([file.is_anonymous for file in location_table.dsos] + [False], bool)[dso_of]
    owner = np.where(is_anonymous, location_table.spaces_of(frames.astype(np.int32)), 0)
    is_user = location_table.level[frames] != ord("k")
    file_rank = np.array(file_ranks(location_table.dsos), np.int64)[dso_of]
    rank = ranks(is_user, dso_of < 0, file_rank, owner, lines)  # unsigned, unlike the addresses of other keys
    has_name = location_table.symbol[frames] >= 0
    return column._replace(same=rank, order=rank, text=text, wide=lambda i: column.wide(i) + int(has_name[i]), texts=None)


def _by_address(texts: KeyTexts, frames: Int64, addresses: NDArray[np.uint64]) -> KeyColumn:
    location_table = texts.locations
    locations = sample_locations(frames)
    rank = ranks(addresses.view(np.int64))

    def wide(i: int) -> int:
        if location_table.symbol[frames[i]] < 0:
            return UNNAMED_WIDTH
        return byte_width(location_table.name(int(frames[i]))) + _LEVEL_WIDTH + _ADDRESS_WIDTH

    def many(numbers: Int64) -> list[str]:
        labels = symbol_texts(location_table, locations[numbers], addresses[numbers])
        if not texts.style.verbose:
            return labels
        prefixes = map(partial(verbose_prefix, texts), frames[numbers].tolist(), addresses[numbers].tolist())
        return list(map("".join, zip(prefixes, labels, strict=True)))

    return KeyColumn(rank, rank, lambda i: many(np.array([i]))[0], wide, unnamed=location_table.symbol[frames] < 0, texts=many)


def data_dso(texts: KeyTexts, frames: Int64) -> KeyColumn:
    """Return the column of files with the data; names descend, as in perf."""
    location_table = texts.locations
    rank = ranks(-location_table.dso_ranks(sample_locations(frames)))

    def wide(i: int) -> int:
        return byte_width(location_table.dso_name(int(frames[i]))) if location_table.dso[frames[i]] >= 0 else texts.style.unnamed_dso_width

    return KeyColumn(rank, rank, lambda i: location_table.dso_name(int(frames[i])), wide)


def physical(_texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of physical addresses, with the level of the code that first used each."""
    numbers = values.view(np.uint64)
    addresses = numbers & np.uint64((1 << PHYSICAL_BITS) - 1)
    rank = ranks(addresses.view(np.int64))

    def text(i: int) -> str:
        address = int(addresses[i])
        level = _LEVELS.get(int(numbers[i]) >> PHYSICAL_BITS, ".")
        return f"[{level}] {'0x' if address else ''}{address:016x}"

    return KeyColumn(rank, rank, text)


def _part(shift: int, bits: int, word: Callable[[MemoryWords, int], str]) -> Callable[[KeyTexts, Int64], KeyColumn]:
    """Return a key over one part of data_src: compared as a number, formatted like perf."""

    def column(texts: KeyTexts, values: Int64) -> KeyColumn:
        rank = ranks(values >> shift & (1 << bits) - 1)

        def text(i: int) -> str:
            return word(texts.memory, int(values.view(np.uint64)[i]))[:_LONGEST] if texts.memory else "N/A"

        return KeyColumn(rank, rank, text)

    return column


level = _part(5, 14, lambda memory, data_src: memory.level_text(data_src))
snoop = _part(19, 5, lambda memory, data_src: memory.snoop_text(data_src))
locked = _part(24, 2, lambda memory, data_src: memory.lock_text(data_src))
tlb = _part(26, 7, lambda memory, data_src: memory.tlb_text(data_src))
blocked = _part(40, 3, lambda memory, data_src: memory.block_text(data_src))


#: the sort keys of memory accesses, in perf's order of search
MEMORY_KEYS: Final = (
    SortKey("symbol_daddr", "Data Symbol", "data", data_symbol, ColumnCell.CUT, mode=Mode.MEMORY),
    SortKey("dso_daddr", "Data Object", "data", data_dso, mode=Mode.MEMORY),
    SortKey("locked", "Locked", "data_src", locked, ColumnCell.CUT, 6, Mode.MEMORY),
    SortKey("tlb", "TLB access", "data_src", tlb, ColumnCell.PADDED, 22, Mode.MEMORY),
    SortKey("mem", "Memory access", "data_src", level, ColumnCell.PADDED, 39, Mode.MEMORY),
    SortKey("snoop", "Snoop", "data_src", snoop, ColumnCell.PADDED, 12, Mode.MEMORY),
    SortKey("dcacheline", "Data Cacheline", "data", cache_line, ColumnCell.CUT, 22, Mode.MEMORY),
    SortKey("symbol_iaddr", "Code Symbol", "frame", code_symbol, ColumnCell.CUT, mode=Mode.MEMORY),
    SortKey("phys_daddr", "Data Physical Address", "physical", physical, ColumnCell.LEFT, 22, Mode.MEMORY),
    SortKey("data_page_size", "Data Page Size", "data_page_size", page_size, ColumnCell.PADDED, 22, Mode.MEMORY),
    SortKey("blocked", "Blocked", "data_src", blocked, ColumnCell.CUT, 10, Mode.MEMORY),
)


# The fields of tracepoints as sort keys: perf's `-s prev_comm`, `-s sched_switch.next_pid`, `-s trace_fields`.
#
# A field belongs to one event, and to the members of its group with a field of
# this name; the rows of other events have no text, nor is the column shown with them.


_TYPE_BYTES = 2
_ALL = "trace_fields"


def field_keys(
    token: str,
    events: Sequence[FileEvent],
    formats: Mapping[int, EventFormat],
    *,
    raw: bool,
    endian: str,
    leaders: Sequence[int] | None = None,
) -> list[SortKey]:
    """Return the keys of a token; none if it names no field.

    Args:
        token: FIELD, EVENT.FIELD or EVENT.*, each with /raw after it for the unformatted number.
        events: of the recording.
        formats: of the tracepoints.
        raw: all fields are unformatted.
        endian: of the recording.
        leaders: the leader of each event's group; None: the events are no groups.
    """
    token, _, option = token.partition("/")
    event_name, dot, field_name = token.rpartition(".")
    keys = []
    traced = [event for event in events if event.attr.type == PerfType.TRACEPOINT and event.attr.config in formats]
    meant = [event for event in traced if not dot or _is_meant(event_name, event)]
    for event in meant:
        tracepoint = formats[event.attr.config]
        common = () if field_name in (_ALL, "*") else tracepoint.common_fields
        fields = [field for field in (*tracepoint.fields, *common) if field_name in (field.name, _ALL, "*")]
        # A group's table has the columns of its leader alone; those of other members do not tell its rows apart.
        group = [event] if leaders is None else [one for one in meant if leaders[one.index] == event.index]
        group_formats = {one.attr.config: formats[one.attr.config] for one in group}
        keys += [_key(event, field, group_formats, raw=raw or option == "raw", endian=endian) for field in fields]
    return keys


def _is_meant(name: str, event: FileEvent) -> bool:
    if name.startswith("%"):
        return name[1:] == str(event.index + 1)
    return event.name == name if ":" in name else name in event.name


def _key(event: FileEvent, field: TraceField, formats: Mapping[int, EventFormat], *, raw: bool, endian: str) -> SortKey:
    """Return the key of an event's field. formats: of the events in its group."""
    width = max(len(field.name), field.size if field.is_string else 2 * field.size + 2)
    fields = {number: one for number, tracepoint in formats.items() for one in _all_fields(tracepoint) if one.name == field.name}
    column = partial(_column, fields, raw, endian)
    name = f"{event.name}.{field.name}"
    return SortKey(name, field.name, "raw", column, ColumnCell.RIGHT_CUT, width, event=event.index, raw=raw)


def _all_fields(tracepoint: EventFormat) -> tuple[TraceField, ...]:
    return (*tracepoint.fields, *tracepoint.common_fields)


def _column(fields: Mapping[int, TraceField], raw: bool, endian: str, texts: KeyTexts, values: Int64) -> KeyColumn:
    """Return the column of a field, compared by its bytes, larger first, like perf; formatted as in the event's text.

    fields: number of a tracepoint -> its field. perf reads the samples of a group's other members through the fields of one of them, which
    is the same unless their fields have other places.
    """
    data, numbers = texts.trace, values.tolist()
    payloads = [data.payloads[value] for value in numbers]
    field_of = [fields.get(as_number(payload[:_TYPE_BYTES], endian)) for payload in payloads]
    content = [b"" if field is None else _content(payload, field, endian) for payload, field in zip(payloads, field_of, strict=True)]
    rank_of = {item: rank for rank, item in enumerate(sorted(set(content), reverse=True))}
    rank = np.array([rank_of[item] for item in content], np.int64)

    @cache
    def words() -> list[tuple[str | None, bool]]:
        """Return the field's word in each text, if it has one, and whether it is the rest of the text."""
        shown = [value for value, field in zip(numbers, field_of, strict=True) if field is not None]
        formatted = iter(data.texts(shown) if not raw else ())
        return [_word(next(formatted), field.name) if field is not None and not raw else (None, False) for field in field_of]

    def text(i: int) -> str:
        field = field_of[i]
        if field is None or data.words is None:
            return ""
        word, _ = words()[i]
        return data.words.field_text(payloads[i], field.name) if word is None else word

    # perf widens the column by the texts and dynamic data of all rows, also of hidden ones
    compared = max((len(item) for item, field in zip(content, field_of, strict=True) if field is not None and field.is_dynamic), default=0)

    def wide(i: int) -> int:
        # perf truncates fields missing in the event's text
        return max(byte_width(words()[i][0] or ""), compared)

    @cache
    def widest_of_all() -> int:
        # perf computes a width of -1 for a text after a blank, keeps it as the widest, and ignores it at last
        return -1 if any(is_rest for _, is_rest in words()) else max(map(wide, range(len(numbers))), default=0)

    return KeyColumn(rank, rank, text, wide, widest=lambda _rows: widest_of_all())


def _content(payload: bytes, field: TraceField, endian: str) -> bytes:
    """Return the bytes of a field; for a dynamic one, those that it refers to."""
    data = payload[field.offset : field.offset + field.size]
    if not field.is_dynamic:
        return data
    where = as_number(data, endian)
    start = (where & 0xFFFF) + (field.offset + field.size if field.is_relative else 0)
    return payload[start : start + (where >> 16)]


def _word(text: str, name: str) -> tuple[str | None, bool]:
    """Return the text after NAME= in an event's text, of the first word that begins with the name, as in perf; and False.

    After a word that is the name alone, perf takes the rest of the text: return that and True.
    """
    start = 0 if text.startswith(name) else text.find(f" {name}") + 1
    if not start and not text.startswith(name):
        return None, False
    word = text[start:].partition(" ")[0]
    return (text[start + len(name) + 1 :], True) if word == name else (word[len(name) + 1 :], False)
