"""How each sort key groups, orders and words the numbers of its source.

What enters: the distinct numbers of one source (see perfpy.analysis.samples.sample_view)
and what is known of the recording (`KeyContext`). What leaves: a `KeyColumn`: for
every number a rank that is equal for numbers of one row, a rank that orders
rows, and the text. Ranks ascend in the order in which perf shows rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from perfpy.abi.columns import distinct, first_of_each
from perfpy.analysis.samples.locations import ROLE_BITS, Int64, Locations, name_ranks, ranks
from perfpy.errors import UsageError

Text = Callable[[int], str]


def no_width(_number: int) -> int:
    """The width of a text that does not widen its column."""
    return 0


class KeyColumn(NamedTuple):
    """One sort key over the distinct numbers of its source.

    same: equal ranks are one row; their order is that of perf's tree of
    entries, which decides between rows that are equal in everything shown.
    order: the order of rows. text(i): what is printed for number i; wide(i):
    the width that it asks for its column. per_sample: numbers that are printed
    times the samples of the row, instead of a text. compare(i, j): perf's own
    comparison, below 0 if i comes first, where it is no order and ranks are
    but the next best; unnamed: which numbers make it so. texts, widest: what
    text says of each of many numbers, and the most that wide says of them,
    where there is a faster way than one by one.
    """

    same: Int64
    order: Int64
    text: Text
    wide: Callable[[int], int] = no_width
    per_sample: Int64 | None = None
    compare: Callable[[int, int], int] | None = None
    unnamed: NDArray[np.bool_] | None = None
    texts: Callable[[Int64], list[str]] | None = None
    widest: Callable[[Int64], int] | None = None

    def texts_of(self, numbers: Int64) -> list[str]:
        """What is printed for each of some numbers."""
        if self.texts is not None:
            return self.texts(numbers)
        listed = numbers.tolist()
        made = {number: self.text(number) for number in set(listed)}
        return [made[number] for number in listed]

    def width_of(self, numbers: Int64) -> int:
        """The width that some different numbers ask for their column."""
        return self.widest(numbers) if self.widest is not None else max(map(self.wide, numbers.tolist()), default=0)


class LineNumbers(Protocol):
    """Where source lines of locations come from."""

    def line(self, frame: int) -> str:
        """FILE:LINE of a frame."""

    def file(self, frame: int) -> str:
        """Its source file."""


class Payloads(Protocol):
    """Where the text of a tracepoint's payload comes from."""

    def text(self, payload: bytes) -> str:
        """The payload as perf script prints it."""

    def raw_text(self, payload: bytes) -> str:
        """Its fields by name, not formatted."""

    def field_text(self, payload: bytes, name: str) -> str:
        """One field of it, as a number or a string."""


class MemoryWords(Protocol):
    """What words the parts of data_src."""

    def level_text(self, data_src: int) -> str:
        """What served the access."""

    def snoop_text(self, data_src: int) -> str:
        """What snooping found."""

    def lock_text(self, data_src: int) -> str:
        """Whether it was locked."""

    def tlb_text(self, data_src: int) -> str:
        """What the TLB had."""

    def block_text(self, data_src: int) -> str:
        """What blocked it."""


@dataclass(eq=False, repr=False)
class KeyContext:
    """What sort keys know of the recording beside the numbers.

    last_comm: the comm that a thread had at the end. verbose: perf's -v.
    nanoseconds, quantum: how times are written, and their grain in ns.
    unnamed_dso_width: the least width of a DSO column with locations without symbols.
    payloads, raw: the texts of tracepoints' data, and the distinct data; raw_trace: whether these are shown unformatted.
    socket_of: CPU -> socket. cgroup_name: id -> path, or None. cgroup_namespaces:
    (device, inode) by number. payload_texts: what payload_text() has worded so far.
    """

    locations: Locations
    comms: Sequence[str]
    last_comm: Callable[[int], str]
    lines: LineNumbers | None = None
    payloads: Payloads | None = None
    raw: Sequence[bytes] = ()
    raw_trace: bool = False
    memory: MemoryWords | None = None
    verbose: bool = False
    nanoseconds: bool = False
    quantum: int = 100_000_000
    unnamed_dso_width: int = 16
    socket_of: Callable[[int], int] = lambda _cpu: -1
    cgroup_name: Callable[[int], str | None] = lambda _number: None
    cgroup_namespaces: Sequence[tuple[int, int]] = ()
    parents: list[str] = field(default_factory=list)
    payload_texts: dict[bytes, str] = field(default_factory=dict)

    def payload_text(self, payload: bytes) -> str:
        """The text of a tracepoint's payload, made once; "" where nothing can word it."""
        text = self.payload_texts.get(payload)
        if text is None:
            text = self.payload_texts[payload] = self.payloads.text(payload) if self.payloads is not None else ""
        return text


def byte_width(text: str) -> int:
    """The length of a text as C's strlen has it."""
    return len(text) if text.isascii() else len(text.encode(errors="surrogateescape"))


def _numbers(values: Int64, text: Text, *, falling: bool = False) -> KeyColumn:
    """A key that compares the numbers themselves; falling: the larger first."""
    rank = ranks(-values if falling else values)
    return KeyColumn(rank, rank, text)


def _strings(texts: list[str], *, wide: bool = True) -> KeyColumn:
    rank = name_ranks(texts)
    return KeyColumn(rank, rank, lambda i: texts[i], (lambda i: byte_width(texts[i])) if wide else no_width)


def comm(context: KeyContext, values: Int64) -> KeyColumn:
    """The command at the time of the sample."""
    return _strings([context.comms[number] for number in values.tolist()], wide=False)


_DIGITS = re.compile("[0-9]+")


def comm_without_digits(context: KeyContext, values: Int64) -> KeyColumn:
    """The command with <N> for each of its numbers: kworker/0:1 and kworker/1:2 are one row."""
    return _strings([_DIGITS.sub("<N>", context.comms[number]) for number in values.tolist()])


def thread(context: KeyContext, values: Int64) -> KeyColumn:
    """The thread, and the command that it had last."""
    tids = values.tolist()
    return _numbers(values, lambda i: f"{tids[i]:7d}:{context.last_comm(tids[i])}")


def dso(context: KeyContext, locations: Int64) -> KeyColumn:
    """The file that holds the location."""
    known, frames = context.locations, locations >> ROLE_BITS
    rank = known.dso_ranks(locations)

    def widest(numbers: Int64) -> int:
        at = frames[numbers]
        kinds = first_of_each(known.dso[at].astype(np.int64) << 1 | (known.symbol[at] >= 0))
        return max((dso_width(context, int(frame)) for frame in at[kinds]), default=0)

    return KeyColumn(
        rank,
        rank,
        lambda i: known.dso_name(int(frames[i])),
        lambda i: dso_width(context, int(frames[i])),
        texts=lambda numbers: known.dso_names_of(frames[numbers]),
        widest=widest,
    )


def dso_width(context: KeyContext, frame: int) -> int:
    """What a DSO column needs for a frame: its name, and space for an address where there is no symbol."""
    known = context.locations
    name = byte_width(known.dso_name(frame)) if known.dso[frame] >= 0 else 0
    return name if known.symbol[frame] >= 0 else max(name, context.unnamed_dso_width)


_ADDRESS_DIGITS = 16
_LEVEL_WIDTH = len("[k] ")
UNNAMED_WIDTH = _LEVEL_WIDTH + len("0x") + _ADDRESS_DIGITS
_VERBOSE_WIDTH = _ADDRESS_DIGITS + len("0x") + len(" y ")


def symbol(context: KeyContext, locations: Int64) -> KeyColumn:
    """The function, or the address where there is none."""
    known = context.locations
    frames, addresses = locations >> ROLE_BITS, known.shown_address(locations)

    def text(i: int) -> str:
        return _verbose(context, int(frames[i]), int(addresses[i])) + symbol_text(known, int(locations[i]), int(addresses[i]))

    def texts(numbers: Int64) -> list[str]:
        return list(map(text, numbers.tolist())) if context.verbose else symbol_texts(known, locations[numbers], addresses[numbers])

    def wide(i: int) -> int:
        if known.symbol[frames[i]] < 0:
            return UNNAMED_WIDTH
        return byte_width(known.name(int(frames[i]))) + _LEVEL_WIDTH + (_VERBOSE_WIDTH if context.verbose else 0)

    def widest(numbers: Int64) -> int:
        kinds = first_of_each(known.symbol[frames[numbers]])
        return max(map(wide, numbers[kinds].tolist()), default=0)

    same = known.symbol_ranks(locations)
    unnamed = known.symbol[frames] < 0
    compare = _comparison(same, known.dso_ranks(locations), unnamed, addresses)
    return KeyColumn(same, known.symbol_name_ranks(locations), text, wide, compare=compare, unnamed=unnamed, texts=texts, widest=widest)


def _comparison(same: Int64, dso_rank: Int64, unnamed: NDArray[np.bool_], addresses: NDArray[np.uint64]) -> Callable[[int, int], int]:
    """perf's comparison of locations: without symbols by their addresses, whose difference is taken as a signed number."""

    def compare(i: int, j: int) -> int:
        if unnamed[i] and unnamed[j]:
            distance = (int(addresses[j]) - int(addresses[i])) % (1 << 64)
            return 0 if not distance else -1 if distance < 1 << 63 else 1
        if dso_rank[i] != dso_rank[j]:
            return -1 if dso_rank[i] < dso_rank[j] else 1
        return int(same[i] > same[j]) - int(same[i] < same[j])

    return compare


def _verbose(context: KeyContext, frame: int, address: int) -> str:
    if not context.verbose:
        return ""
    number = int(context.locations.dso[frame])
    origin = context.locations.origin(number) if number >= 0 else "!"
    return f"{hex(address) if address else '0':<{_ADDRESS_DIGITS + 2}} {origin} "


def symbol_text(known: Locations, location: int, address: int) -> str:
    """A location with its level: the name of the function or of the data, or the address."""
    frame = location >> ROLE_BITS
    name = known.name_in_memory(frame) if known.symbol[frame] >= 0 else f"{'0x' if address else ''}{address:016x}"
    return f"[{known.level_of(location)}] {name}"


def symbol_texts(known: Locations, locations: Int64, addresses: NDArray[np.uint64]) -> list[str]:
    """As symbol_text, of many locations; most of many have no symbol."""
    symbols, levels = known.symbol[locations >> ROLE_BITS], known.levels_of(locations)
    unnamed = {level: f"[{chr(level)}] 0x%016x" for level in distinct(levels).tolist()}
    found = [unnamed[level] % address for level, address in zip(levels.tolist(), addresses.tolist(), strict=True)]
    for at in np.flatnonzero((symbols >= 0) | (addresses == 0)).tolist():
        found[at] = symbol_text(known, int(locations[at]), int(addresses[at]))
    return found


def symbol_offset(context: KeyContext, locations: Int64) -> KeyColumn:
    """The function and the offset in it."""
    known = context.locations
    shown = known.shown_address(locations)
    frames, addresses = (locations >> ROLE_BITS).tolist(), shown.tolist()
    # perf takes the difference for a signed number: the kernel's addresses come behind all others
    larger_first = -shown.view(np.int64)
    symbol_ranks = known.symbol_ranks(locations)
    same, order = ranks(symbol_ranks, larger_first), ranks(known.symbol_name_ranks(locations), larger_first)

    def text(i: int) -> str:
        symbol = int(known.symbol[frames[i]])
        if symbol >= 0:
            return f"[{known.level_of(int(locations[i]))}] {known.name(frames[i])}+{hex(addresses[i] - known.symbol_start(symbol))}"
        # perf gives the address the digits that the header's width leaves
        return f"[{known.level_of(int(locations[i]))}] {'0x' if addresses[i] else ''}{addresses[i]:0{_OFFSET_DIGITS}x}"

    unnamed = known.symbol[locations >> ROLE_BITS] < 0
    by_symbol = _comparison(symbol_ranks, known.dso_ranks(locations), unnamed, shown)

    def compare(i: int, j: int) -> int:
        return by_symbol(i, j) or (addresses[i] < addresses[j]) - (addresses[i] > addresses[j])

    return KeyColumn(same, order, text, compare=compare, unnamed=unnamed)


_OFFSET_DIGITS = len("Symbol Offset") - _LEVEL_WIDTH


def address(context: KeyContext, locations: Int64) -> KeyColumn:
    """The address in memory."""
    addresses = [context.locations.memory_address(location) for location in locations.tolist()]
    return _numbers(np.array(addresses, np.uint64).view(np.int64), lambda i: hex(addresses[i]) if addresses[i] else "0")


def symbol_size(context: KeyContext, locations: Int64) -> KeyColumn:
    """The function's length in bytes."""
    known = context.locations
    symbols = known.symbol[locations >> ROLE_BITS].tolist()
    sizes = [known.size(number) if number >= 0 else 0 for number in symbols]
    return _numbers(np.array(sizes, np.int64), lambda i: str(sizes[i]) if symbols[i] >= 0 else "unknown", falling=False)


def dso_size(context: KeyContext, locations: Int64) -> KeyColumn:
    """The length of the mapping."""
    known = context.locations
    frames = locations >> ROLE_BITS
    sizes = (known.map_end[frames] - known.map_start[frames]).astype(np.int64)
    mapped = (known.dso[frames] >= 0).tolist()
    return _numbers(sizes, lambda i: str(int(sizes[i])) if mapped[i] else "unknown")


def source_line(context: KeyContext, locations: Int64) -> KeyColumn:
    """File and line."""
    lines = _required(context.lines)
    return _strings([lines.line(frame) for frame in (locations >> ROLE_BITS).tolist()])


def source_file(context: KeyContext, locations: Int64) -> KeyColumn:
    """The source file."""
    lines = _required(context.lines)
    return _strings([lines.file(frame) for frame in (locations >> ROLE_BITS).tolist()])


def _required(lines: LineNumbers | None) -> LineNumbers:
    if lines is None:
        raise UsageError("srcline and srcfile need source lines, which perfpy does not read; --sort symoff shows places within functions")
    return lines


def parent(context: KeyContext, values: Int64) -> KeyColumn:
    """-1: no parent; else a number into context.parents."""
    names = [context.parents[number] if number >= 0 else "[other]" for number in values.tolist()]
    known = values >= 0
    rank = ranks(~known, name_ranks(names))
    return KeyColumn(rank, rank, lambda i: names[i], lambda i: byte_width(names[i]) if known[i] else 0)


def cpu(_context: KeyContext, values: Int64) -> KeyColumn:
    """The CPU."""
    cpus = values.tolist()
    return _numbers(values, lambda i: _padded(cpus[i], 3))


def _padded(number: int, digits: int) -> str:
    return f"-{-number:0{digits}d}" if number < 0 else f"{number:0{digits}d}"


def socket(context: KeyContext, values: Int64) -> KeyColumn:
    """The CPU's socket."""
    sockets = np.array([context.socket_of(number) for number in values.tolist()], np.int64)
    return _numbers(sockets, lambda i: _padded(int(sockets[i]), 3))


def time(context: KeyContext, values: Int64) -> KeyColumn:
    """The time, rounded down to the quantum."""
    raw = values.view(np.uint64)
    grain = np.uint64(context.quantum or 1)
    rounded = raw // grain * grain

    def text(i: int) -> str:
        seconds, rest = divmod(int(rounded[i]), 1_000_000_000)
        return f"{seconds}.{rest:09d}" if context.nanoseconds else f"{seconds}.{rest // 1000:06d}"

    column = _numbers(rounded.view(np.int64), text)
    return column._replace(wide=lambda _i: _NANOSECOND_WIDTH) if context.nanoseconds else column


_NANOSECOND_WIDTH = 16


def number(_context: KeyContext, values: Int64) -> KeyColumn:
    """A number; larger ones first."""
    return _numbers(values, lambda i: str(int(values[i])), falling=True)


def summed_number(_context: KeyContext, values: Int64) -> KeyColumn:
    """A number, times the samples of the row."""
    return number(_context, values)._replace(per_sample=values)


def cgroup(context: KeyContext, values: Int64) -> KeyColumn:
    """The cgroup, by its path."""
    names = ["N/A" if not number else context.cgroup_name(number) or "unknown" for number in values.tolist()]
    rank = ranks(values)
    return KeyColumn(rank, rank, lambda i: names[i], lambda i: byte_width(names[i]) if values[i] else 0)


def cgroup_id(context: KeyContext, values: Int64) -> KeyColumn:
    """The cgroup namespace, by its device and inode."""
    known = [context.cgroup_namespaces[number] for number in values.tolist()]
    rank = ranks(*np.array(known, np.int64).reshape(-1, 2).T)
    return KeyColumn(rank, rank, lambda i: f"{known[i][0]}/{known[i][1]:#x}")


def parallelism(_context: KeyContext, values: Int64) -> KeyColumn:
    """How many threads ran."""
    return _numbers(values, lambda i: str(int(values[i])))


def trace(context: KeyContext, values: Int64) -> KeyColumn:
    """The texts of tracepoints' payloads; other events have empty ones."""
    raw = [context.raw[number] for number in values.tolist()]
    wording = (context.payloads.raw_text if context.raw_trace else context.payloads.text) if context.payloads else None
    texts = [wording(data) if wording and data else "N/A" for data in raw]
    rank = name_ranks(texts)
    return KeyColumn(rank, rank, lambda i: texts[i], lambda i: byte_width(texts[i]) if raw[i] else 0)


def no_ipc(context: KeyContext, locations: Int64) -> KeyColumn:
    """perf's column of instructions per cycle, for recordings that cannot have any: a row for each function all the same."""
    functions = symbol(context, locations)
    return KeyColumn(
        functions.same, functions.same, lambda _i: f"{'-':<5s} {'-':>2s}", compare=functions.compare, unnamed=functions.unnamed
    )


_PAGE_UNITS = ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K"))


def page_size(_context: KeyContext, values: Int64) -> KeyColumn:
    """The size of a page."""

    def text(i: int) -> str:
        size = int(values[i])
        if not size:
            return "N/A"
        return next((f"{size // unit}{letter}" for unit, letter in _PAGE_UNITS if size >= unit), str(size))

    return _numbers(values, text)


_TRANSACTION_BITS = (
    (1 << 0, "EL "),
    (1 << 1, "TX "),
    (1 << 2, "SYNC "),
    (1 << 3, "ASYNC "),
    (1 << 4, "RETRY "),
    (1 << 5, "CON "),
    (1 << 6, "CAP-WRITE "),
    (1 << 7, "CAP-READ "),
)
_TRANSACTION_EITHER = 1 << 2 | 1 << 3
_ABORT_SHIFT = 32


def transaction(_context: KeyContext, values: Int64) -> KeyColumn:
    """The flags of a transaction."""

    def text(i: int) -> str:
        bits = int(values.view(np.uint64)[i])
        said = "".join(name for bit, name in _TRANSACTION_BITS if bits & bit)
        if bits and not bits & _TRANSACTION_EITHER:
            said += "NEITHER "
        return said + (f":{bits >> _ABORT_SHIFT:x}" if bits >> _ABORT_SHIFT else "")

    return _numbers(values, text, falling=True)


def simd(_context: KeyContext, values: Int64) -> KeyColumn:
    """Vector instructions: recorded by no machine that perfpy knows."""
    rank = np.zeros(len(values), np.int64)
    return KeyColumn(rank, rank, lambda _i: "")


Column = Callable[[KeyContext, NDArray[np.int64]], KeyColumn]
