"""The text of each field of samples except addresses: a piece for all samples of a batch.

Fields are formatted as in `perf script`. A missing column has perf's value: -1 for pid, tid and cpu, the largest number for time.
"""

from __future__ import annotations

import itertools

import numpy as np

from perfpy.abi import flags
from perfpy.abi.flags import MISC_KERNEL, MISC_USER, NO_DATA_SOURCE
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple
from perfpy.abi.sample_decoding import BRANCH_FLAGS
from perfpy.abi.sample_layout import page_size_text
from perfpy.symbols.dso import UNKNOWN_NAME, Dso, DsoKind
from perfpy.untrusted.text import one_line, one_line_bytes
from perfpy.views.pieces import Coded, Piece, ValueTexts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any, Final

    from numpy.typing import NDArray

    from perfpy.abi.columns import Ragged
    from perfpy.analysis.locations import SourceTexts
    from perfpy.counts.aggregation import CountRow
    from perfpy.perfdata.events import FileEvent
    from perfpy.perfdata.records.batches import Batch
    from perfpy.symbols.interning import IdTable
    from perfpy.symbols.symbolizer import Symbolizer


_NEVER: Final = 0xFFFFFFFFFFFFFFFF
_MISC_LETTERS: Final = (
    (flags.MISC_KERNEL, "K"),
    (flags.MISC_USER, "U"),
    (flags.MISC_HYPERVISOR, "H"),
    (flags.MISC_GUEST_KERNEL, "G"),
    (flags.MISC_GUEST_USER, "g"),
)
_BRANCH_SPECS: Final = ("-", "SPEC_WRONG_PATH", "NON_SPEC_CORRECT_PATH", "SPEC_CORRECT_PATH")


def misc_text(misc: int, record: int = flags.RecordType.SAMPLE) -> bytes:
    """Return the misc field of a record: the mode, and flags of the record type."""
    text = "".join(letter for bits, letter in _MISC_LETTERS if misc & bits == bits)
    kind = flags.RecordType
    if record in (kind.MMAP, kind.MMAP2) and misc & flags.MISC_MMAP_DATA:
        text += "M"
    elif record == kind.COMM and misc & flags.MISC_COMM_EXEC:
        text += "E"
    elif record in (kind.SWITCH, kind.SWITCH_CPU_WIDE) and misc & flags.MISC_SWITCH_OUT:
        text += "Sp" if misc & flags.MISC_SWITCH_OUT_PREEMPT else "S"
    return (text + max(6 - len(text), 1) * " ").encode()


def comm_form(*, narrow: bool, latency: bool) -> bytes:
    """Return the format of the command; `narrow`: not padded (a callchain follows); `latency`: the short form of -L."""
    if latency:
        return b"%8.8s "
    return b"%s " if narrow else b"%16s "


def cpu_form(*, latency: bool) -> bytes:
    """Return the format of the CPU; `latency`: the short form of -L."""
    return b"%3d " if latency else b"[%03d] "


def task_text(comm: bytes, pid: int, tid: int, fields: set[str], form: bytes) -> bytes:
    """Return command, process and thread at the start of a line; `form`: comm_form()."""
    text = one_line_bytes(form % comm) if "comm" in fields else b""
    if "pid" in fields and "tid" in fields:
        return text + b"%7d/%-7d " % (pid, tid)
    if "pid" in fields:
        return text + b"%7d " % pid
    return text + b"%7d " % tid if "tid" in fields else text


class TaskTexts:
    """The start of lines, comm, pid and tid, as a coded piece."""

    def __init__(self, fields: set[str], comms: Sequence[str], form: bytes) -> None:
        from perfpy.symbols.interning import IdTable

        self._fields = fields & {"comm", "pid", "tid"}
        self._comms = comms
        self._form = form
        self._tasks: IdTable = IdTable()
        self._table: IdTable = IdTable()
        self._texts: list[bytes] = []

    def piece(self, comm: NDArray[np.int32], pid: NDArray[np.int32], tid: NDArray[np.int32]) -> Piece:
        """Return the piece; `comm`: indexes of comms."""
        if not self._fields:
            return b""
        both = pid.astype(np.uint32).astype(np.uint64) << np.uint64(32) | tid.astype(np.uint32).astype(np.uint64)
        task = self._tasks.ids(both).astype(np.uint64)
        codes, new = self._table.ids_and_new(comm.astype(np.uint64) << np.uint64(32) | task)
        for number, one_pid, one_tid in zip(comm[new].tolist(), pid[new].tolist(), tid[new].tolist(), strict=True):
            name = self._comms[number].encode("utf-8", "surrogateescape")
            self._texts.append(task_text(name, one_pid, one_tid, self._fields, self._form))
        return Coded(codes, self._texts)


def page_size_field(size: int) -> bytes:
    """Return a page size as a field of a line."""
    return f" {page_size_text(size)}".encode()


class DataSourceTexts:
    """The field data_src: each value is as wide as the widest before it, of all events, as in perf."""

    def __init__(self) -> None:
        self._texts: dict[int, bytes] = {}
        self._widest = 0

    def pieces(self, values: NDArray[np.uint64]) -> NDArray[np.object_]:
        """Return the texts of the next samples, in printing order."""
        texts: list[bytes] = []
        for value in values.tolist():
            text = self._texts.get(value)
            if text is None:
                text = self._texts[value] = f"{value:16x} {memory_text(value)}"[:99].encode()
            self._widest = max(self._widest, len(text))
            texts.append(text.ljust(self._widest))
        return np.fromiter(texts, object, len(texts))


#: fields that are a single number, and their formats, except cpu
NUMBERS: Final[dict[str, Callable[[int], bytes]]] = {
    "period": lambda value: b"%10d " % value,
    "weight": lambda value: b"%16d" % value,
    "ins_lat": lambda value: b"%16d" % (value & 0xFFFF),
    "retire_lat": lambda value: b"%16d" % (value & 0xFFFF),
    "phys_addr": lambda value: b"%16x" % value,
    "data_page_size": page_size_field,
    "code_page_size": page_size_field,
    "misc": misc_text,
}


def number_texts(fields: set[str], cpu: bytes) -> dict[str, ValueTexts]:
    """Return the texts of the fields that are a single number; `cpu`: cpu_form()."""
    texts = {name: ValueTexts(text) for name, text in NUMBERS.items() if name in fields}
    if "cpu" in fields:
        texts["cpu"] = ValueTexts(lambda value: cpu % value)
    return texts


#: the sample_type bits that provide a column
_NEEDED: Final = {
    "pid": flags.SampleType.TID, "tid": flags.SampleType.TID, "cpu": flags.SampleType.CPU, "time": flags.SampleType.TIME,
    "period": flags.SampleType.PERIOD | flags.SampleType.READ, "data_src": flags.SampleType.DATA_SRC,
}  # fmt: skip
_ABSENT: Final = {"pid": -1, "tid": -1, "cpu": -1, "time": _NEVER, "data_src": NO_DATA_SOURCE}


def has_column(event: FileEvent, name: str) -> bool:
    """Whether the event's samples have the column; it is zero for other events."""
    needed = _NEEDED.get(name)
    return needed is None or bool(event.attr.sample_type & needed)


def column(batch: Batch, event: FileEvent, name: str) -> NDArray[Any]:
    """Return a column of samples of one event, or perf's value for missing fields."""
    values = batch.columns.get(name)
    if values is not None and has_column(event, name):
        array: NDArray[Any] = values
        return array
    default = event.attr.sample_period if name == "period" else _ABSENT.get(name, 0)
    return np.full(len(batch), default, np.int32 if default == -1 else np.uint64)


def times(batch: Batch, events: Sequence[FileEvent]) -> NDArray[np.uint64]:
    """Return the time stamps of samples of any event; the largest number if they have none."""
    values: NDArray[np.uint64] | None = batch.columns.get("time")
    timed = [bool(event.attr.sample_type & flags.SampleType.TIME) for event in events]
    if values is None or not any(timed):
        return np.full(len(batch), _NEVER, np.uint64)
    return values if all(timed) else np.where(np.array(timed)[batch.event], values, np.uint64(_NEVER))


def register_texts(abis: NDArray[np.uint64], registers: Ragged, mask: int, arch: str) -> Piece:
    """Return iregs or uregs, " ABI:2    AX:0x1 ..."; empty for samples without registers."""
    from perfpy.abi.sample_layout import register_name

    names = [register_name(arch, bit).rjust(5).encode() for bit in range(64) if mask >> bit & 1]
    form = b"".join(name + b":0x%x " for name in names)
    values, offsets = registers.values.tolist(), registers.offsets.tolist()
    texts = []
    for abi, begin, end in zip(abis.tolist(), offsets, offsets[1:], strict=False):
        if end - begin == len(names) and end > begin:
            texts.append((b" ABI:%d " % abi) + form % tuple(values[begin:end]))
        else:
            texts.append(b"")
    return texts


_SIZE_DIGITS: Final = 3


def branch_counter_size(header: Mapping[str, Any], name: str) -> int:
    """Return the bits ("width") or the number ("nr") of the counters in branch records, from the features of a recording; 0 if unknown."""
    pairs = [*(header.get("cpu_pmu_caps") or ()), *(pair for pmu in header.get("pmu_caps") or () for pair in pmu.caps)]
    texts = (value for its_name, value in pairs if its_name == f"branch_counter_{name}")
    return next((int(value) for value in texts if value.isdecimal() and len(value) <= _SIZE_DIGITS), 0)


def branch_parts(word: int) -> tuple[dict[str, int], int]:
    """Return the parts of a branch's flags by name, and the reserved bits above them."""
    parts = {}
    for name, width in BRANCH_FLAGS:
        parts[name] = word & (1 << width) - 1
        word >>= width
    return parts, word


def branch_flags_text(word: int) -> bytes:
    """Return the text after a branch's addresses: "/P/-/-/0/COND/- "."""
    parts, _ = branch_parts(word)
    guess = "P" if parts["predicted"] else "M" if parts["mispred"] else "-"
    kind = branch_type_text(parts["type"], parts["new_type"])
    spec = _BRANCH_SPECS[parts["spec"]]
    return f"/{guess}/{'X' if parts['in_tx'] else '-'}/{'A' if parts['abort'] else '-'}/{parts['cycles']}/{kind}/{spec} ".encode()


def branch_type_text(kind: int, new: int) -> str:
    """Return the kind of a branch; "" if unknown."""
    if kind == flags.NEW_BRANCH_TYPE:
        return flags.NEW_BRANCH_TYPES[new] if new < len(flags.NEW_BRANCH_TYPES) else "unknown"
    return flags.BRANCH_TYPES[kind]


_SYNTHESIZED_WIDTH: Final = 34
_SIZES_OF_SYNTHESIZED: Final = {0: 12, 1: 12, 2: 12, 3: 4, 4: 12, 5: 12, 6: 12, 7: 4, 8: 12}  #: event of a trace -> bytes of its raw data


def synthesized_text(number: int, raw: bytes) -> bytes:
    """Return the synth field: what an event of a hardware trace says (struct perf_synth_intel_* in perf's event.h), "" if it is cut off.

    number: of the event, config of PERF_TYPE_SYNTH.
    """
    if len(raw) < _SIZES_OF_SYNTHESIZED.get(number, len(raw) + 1):
        return b""
    flags = int.from_bytes(raw[:4], "little")
    payload = int.from_bytes(raw[4:12], "little")
    if number == 0:
        text = f" IP: {flags & 1} payload: {_hexadecimal(payload)} {_printable(raw[4:12])} "
    elif number == 1:
        text = f" hints: {_hexadecimal(payload & 0xFF)} extensions: {_hexadecimal(payload >> 32 & 3)} "
    elif number == 2:
        text = f" hw: {payload >> 7 & 1} cstate: {payload >> 12 & 15} sub-cstate: {payload >> 8 & 15} "
    elif number == 3:
        text = f" IP: {flags & 1} "
    elif number == 4:
        text = f" deepest cstate: {payload & 15} last cstate: {payload >> 4 & 15} wake reason: {_hexadecimal(payload >> 8 & 15)} "
    elif number == 5:
        ratio, most = flags & 0xFF, flags >> 16 & 0xFF
        text = f" cbr: {ratio:2} freq: {((payload & 0xFFFFFFFF) + 500) // 1000:4} MHz "
        text += f"({(5 + 1000 * ratio // most) // 10:3}%) " if most else ""
    elif number == 7:
        kind, count = flags & 31, flags >> 16
        text = f" cfe: {(_INTERRUPTS[kind] if kind < len(_INTERRUPTS) else '') or kind} IP: {flags >> 7 & 1} vector: {flags >> 8 & 0xFF}"
        for offset in range(4, min(4 + 16 * count, len(raw) - 15), 16):
            kind = raw[offset] & 0x3F
            name = _INTERRUPT_DATA[kind] if kind < len(_INTERRUPT_DATA) else f"EVD_{kind}"
            text += f" {name}: {_hexadecimal(int.from_bytes(raw[offset + 8 : offset + 16], 'little'))}"
    elif number == 8:
        text = f" IFLAG: {1 - (flags & 1)}->{flags & 1} {'via' if flags & 2 else 'non'} branch"
    else:
        text = f" psb offs: {_hexadecimal(payload)}"
    return text.ljust(_SYNTHESIZED_WIDTH).encode()


#: kinds of CFE and EVD packets of Intel PT (SDM, volume 3, "Event Trace")
_INTERRUPTS: Final = (
    "",
    "INTR",
    "IRET",
    "SMI",
    "RSM",
    "SIPI",
    "INIT",
    "VMENTRY",
    "VMEXIT",
    "VMEXIT_INTR",
    "SHUTDOWN",
    "",
    "UINTR",
    "UIRET",
)
_INTERRUPT_DATA: Final = ("PFA", "VMXQ", "VMXR")


def _hexadecimal(number: int) -> str:
    """Return a number as C's %#x prints it."""
    return f"{number:#x}" if number else "0"


def _printable(raw: bytes) -> str:
    """Return the characters of a payload that has nothing else but zeros after them, "" for other payloads."""
    text = raw.rstrip(b"\0")
    return text.decode("ascii") if all(0x20 <= byte < 0x7F for byte in text) else ""


def bpf_output_text(raw: bytes) -> bytes:
    """Return the data of a bpf-output event, 8 bytes on each line, and as a string if it is one."""
    lines = [b"\n"]
    for offset in range(0, len(raw), 8):
        data = raw[offset : offset + 8]
        head = b"BPF output:" if not offset else b"           "
        printable = bytes(byte if 32 <= byte < 127 else 0x2E for byte in data)
        lines.append(
            b"%17s %04x:%s%s  %s%s\n"
            % (head, offset, b"".join(b" %02x" % byte for byte in data), b"   " * (8 - len(data)), printable, b" " * (8 - len(data)))
        )
    text, nul, rest = raw.partition(b"\0")
    if nul and all(32 <= byte < 127 for byte in text) and not rest.strip(b"\0"):
        lines.append(b'%17s "%s"\n' % (b"BPF string:", text))
    return b"".join(lines)


# Addresses with their symbols and dsos as `perf script` prints them, and callchains.
#
# Each distinct frame, and each distinct callchain of a batch, is formatted once.


_NO_NAME: Final = b"[unknown]"
_INLINED: Final = b" (inlined)"


class FrameStyle(NamedTuple):
    """The parts of a frame that are printed.

    Attributes:
        address_width: digits of the address; None for no address
        kernel_path: print the path of the kernel's symbols instead of [kernel.kallsyms]
        source: print the source line on its own line
    """

    address_width: int | None = 16
    symbol: bool = True
    offset: bool = True
    dso: bool = True
    dso_offset: bool = False
    kernel_path: bool = False
    source: bool = False

    @classmethod
    def of(cls, fields: Collection[str], *, kernel_path: bool = False, address_width: int | None = 16) -> FrameStyle:
        """Return the style of a set of -F fields."""
        return cls(address_width, "sym" in fields, "symoff" in fields, "dso" in fields, "dsoff" in fields, kernel_path, "srcline" in fields)


class FrameTexts:
    """The texts of all frames in one style, " ADDRESS SYMBOL+OFFSET (DSO)"; grows with the symbolizer's table."""

    def __init__(
        self, symbolizer: Symbolizer, style: FrameStyle, before: bytes = b"", after: bytes = b"", sources: SourceTexts | None = None
    ) -> None:
        self._symbolizer = symbolizer
        self._sources = sources if style.source else None
        self._style = style
        self._before = before
        self._after = after
        self._symbol_names: list[bytes] = []
        self.texts: list[bytes] = []

    def update(self) -> list[bytes]:
        """Return the text of every frame so far, by frame id."""
        frames = self._symbolizer.resolve()
        first_new = len(self.texts)
        if first_new < len(frames):
            self.texts.extend(self._format_new(first_new))
        return self.texts

    def _format_new(self, first_new: int) -> list[bytes]:
        frames, style = self._symbolizer.frames, self._style
        count = len(frames) - first_new
        parts: list[list[bytes]] = []
        if style.address_width is not None:
            form = self._before + b"%%%dx" % style.address_width
            parts.append([form % ip for ip in frames.ip[first_new:].tolist()])
        else:
            parts.append([self._before] * count)
        if style.symbol:
            parts.append(self._symbols(first_new))
        if style.dso:
            parts.append(self._dsos(first_new))
        if self._sources is not None:
            parts.append(self._lines(self._sources, np.arange(first_new, len(frames))))
        if self._symbolizer.inliner is not None:
            parts.append([_INLINED if inlined else b"" for inlined in self._are_inlined(first_new)])
        parts.append([self._after] * count)
        return list(map(b"".join, zip(*parts, strict=True)))

    def _symbols(self, first_new: int) -> list[bytes]:
        frames, symbols = self._symbolizer.frames, self._symbolizer.symbols
        for number in range(len(self._symbol_names), len(symbols)):
            self._symbol_names.append(_encode(symbols.name(number)))
        names = self._symbol_names
        pairs = zip(frames.symbol[first_new:].tolist(), frames.symbol_offset[first_new:].tolist(), strict=True)
        blank = b" " if self._style.address_width is not None else b""
        if not self._style.offset:
            return [blank + (names[symbol] if symbol >= 0 else _NO_NAME) for symbol, _ in pairs]
        return [blank + (b"%s+0x%x" % (names[symbol], offset) if symbol >= 0 else _NO_NAME) for symbol, offset in pairs]

    def _lines(self, sources: SourceTexts, frames: NDArray[np.int64]) -> list[bytes]:
        """Return the source line of each frame; empty without a mapping."""
        return [b"\n  " + _encode(text) if text else b"" for text in sources.in_files(frames)]

    def _dsos(self, first_new: int) -> list[bytes]:
        frames, dsos = self._symbolizer.frames, self._symbolizer.dsos
        names = [b" (" + _encode(dso.long_name if self._style.kernel_path else _plain_name(dso)) for dso in dsos]
        names.append(b" (" + UNKNOWN_NAME.encode())  # for dso -1
        if not self._style.dso_offset:
            ends = [name + b")" for name in names]
            inlined = self._are_inlined(first_new)
            return [b"" if hidden else ends[dso] for dso, hidden in zip(frames.dso[first_new:].tolist(), inlined, strict=True)]
        # the kernel's path is shown only while it has no symbols
        with_symbol = set(frames.dso[frames.symbol >= 0].tolist())
        plain = [dso.kernel and number in with_symbol for number, dso in enumerate(dsos)] + [True]
        pairs = zip(frames.dso[first_new:].tolist(), frames.address[first_new:].tolist(), strict=True)
        texts = [names[dso] + (b")" if plain[dso] else b"+0x%x)" % address) for dso, address in pairs]
        return [b"" if inlined else text for text, inlined in zip(texts, self._are_inlined(first_new), strict=True)]

    def _are_inlined(self, first_new: int) -> list[bool]:
        """Return which frames, from one on, are inlined calls; these have no dso."""
        symbols = self._symbolizer.symbols
        inlined = np.array([symbols.is_inlined(number) for number in range(len(symbols))] + [False], np.bool_)
        is_inlined: list[bool] = inlined[self._symbolizer.frames.symbol[first_new:]].tolist()
        return is_inlined


def _plain_name(dso: Dso) -> str:
    """Return the name of a dso as it was mapped; a kernel module's [name], unless the file lists it with a build-id."""
    return dso.short_name if dso.kind is DsoKind.MODULE and not dso.listed else dso.name


def _encode(name: str) -> bytes:
    return one_line(name).encode("utf-8", "surrogateescape")


def chain_texts(frames: NDArray[np.int32], counts: NDArray[np.int64], lines: list[bytes]) -> list[bytes]:
    """Return the lines of each callchain.

    Args:
        frames: frame ids, one callchain after the other
        counts: the length of each callchain
        lines: the line of each frame, by id
    """
    # imported here because only callchains need it
    from perfpy.analysis.callchains import ChainTable

    table = ChainTable()
    chains = table.add(frames, counts)
    ids, offsets = table.chains()
    each = list(map(lines.__getitem__, ids.tolist()))
    bounds = offsets.tolist()
    texts = [b"".join(each[begin:end]) for begin, end in itertools.pairwise(bounds)]
    return list(map(texts.__getitem__, chains.tolist()))


def outermost_first(frames: NDArray[np.int32], counts: NDArray[np.int64]) -> NDArray[np.int32]:
    """Reverse the frames of every callchain."""
    ends = np.cumsum(counts)
    return frames[np.repeat(2 * ends - counts - 1, counts) - np.arange(len(frames))]


def truncate_chains(frames: NDArray[np.int32], counts: NDArray[np.int64], most: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Truncate callchains to the first `most` frames."""
    if not len(counts) or int(counts.max()) <= most:
        return frames, counts
    starts = np.cumsum(counts) - counts
    position = np.arange(len(frames)) - np.repeat(starts, counts)
    return frames[position < most], np.minimum(counts, most)


# Frames of addresses other than a sample's ip: data and branch addresses. Their mode may differ from the sample's.


def frames_of(
    symbolizer: Symbolizer,
    pid: NDArray[Any],
    addresses: NDArray[np.uint64],
    key: NDArray[np.uint64],
    cpumode: NDArray[np.uint8],
    kernel_start: int | None,
) -> NDArray[np.int32]:
    """Return the frame of each address: in the sample's mode, or, if nothing is mapped there, in the address's own mode.

    Args:
        kernel_start: the start of kernel addresses; None if kernel and processes share addresses, so that only the sample's mode counts
    """
    ids = symbolizer.frame_ids(pid, addresses, key, cpumode)
    if kernel_start is None:
        return ids
    own = np.where(addresses >= np.uint64(kernel_start), MISC_KERNEL, MISC_USER).astype(np.uint8)
    other = np.flatnonzero((own != cpumode) & ((cpumode == MISC_KERNEL) | (cpumode == MISC_USER)))
    if not len(other):
        return ids
    lost = other[symbolizer.resolve().dso[ids[other]] < 0]
    if len(lost):
        ids = ids.copy()
        ids[lost] = symbolizer.frame_ids(pid[lost], addresses[lost], key[lost], own[lost])
    return ids


# Time stamps as text, a column at a time: fixed-width pieces such as b" 4314.819916: ", right-aligned as in perf.


_SECOND: Final = 1_000_000_000
_DIGITS: Final = np.array([b"%03d" % i for i in range(1000)], "S3")


def time_text(time: int, *, ns: bool) -> bytes:
    """Return a time stamp as `perf script` prints it, with colon and blank."""
    seconds, rest = divmod(time, _SECOND)
    if ns:
        return b"%5d.%09d: " % (seconds, rest)
    return b"%5d.%06d: " % (seconds, rest // 1000)


def time_piece(times: NDArray[np.uint64], *, ns: bool) -> Piece:
    """Return the time stamps of samples."""
    if not len(times):
        return []
    seconds = times // np.uint64(_SECOND)
    rest = (times - seconds * np.uint64(_SECOND)).astype(np.int64)
    distinct_seconds, which = _distinct(seconds)
    texts = [b"%5d." % second for second in distinct_seconds]
    if len({len(text) for text in texts}) != 1:
        return [time_text(time, ns=ns) for time in times.tolist()]
    fields: list[tuple[str, Any]] = [("seconds", np.array(texts)[which])]
    millis = rest // 1_000_000
    rest -= millis * 1_000_000
    micros = rest // 1000
    fields += [("millis", _DIGITS[millis]), ("micros", _DIGITS[micros])]
    if ns:
        fields.append(("nanos", _DIGITS[rest - micros * 1000]))
    fields.append(("end", np.bytes_(b": ")))
    rows = np.empty(len(times), np.dtype([(name, column.dtype) for name, column in fields]))
    for name, column in fields:
        rows[name] = column
    return rows.view(f"S{rows.dtype.itemsize}")


def _distinct(seconds: NDArray[np.uint64]) -> tuple[list[int], NDArray[np.int64]]:
    """Return the distinct seconds, and the index of each value among them."""
    low, high = int(seconds.min()), int(seconds.max())
    if high - low < 1 << 16:
        return list(range(low, high + 1)), (seconds - np.uint64(low)).astype(np.int64)
    distinct_seconds, which = np.unique(seconds, return_inverse=True)
    return distinct_seconds.tolist(), which.ravel()


class RelativeTimes:
    """Times of --reltime and --deltatime: since the first printed line, or since the previous one."""

    def __init__(self, *, delta: bool) -> None:
        self._delta = delta
        self._first = 0
        self._previous = 0

    def printed_times(self, times: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return the values to print for the next times, in printing order."""
        if not len(times):
            return times
        if not self._delta:
            if self._first:
                return times - np.uint64(self._first)
            nonzero = np.flatnonzero(times)
            if not len(nonzero):
                return times
            self._first = int(times[nonzero[0]])
            relative = times - np.uint64(self._first)
            relative[: nonzero[0]] = 0  # no previous time
            return relative
        before = np.concatenate([np.array([self._previous], np.uint64), times[:-1]])
        self._previous = int(times[-1])
        return np.where(before > 0, times - before, np.uint64(0))


# The metric field: metrics of the counts of each group sample, as in perf stat.
#
# A sample's metrics are printed below its last reading.


def with_metrics(batches: Iterable[Batch], events: Sequence[FileEvent]) -> Iterator[Batch]:
    """Yield the batches with a column "metric": a list of texts for each row."""
    from perfpy.abi.attr import CountedEvent
    from perfpy.counts.aggregation import EVERYWHERE, CountRow, count_members

    counted = [CountedEvent(event.name, event.attr, unit=event.unit, scale=event.scale or 1.0) for event in events]
    for event, owner in zip(events, counted, strict=True):
        owner.leader = counted[event.leader]
    count_members(counted)
    for batch in batches:
        columns = batch.columns
        column = np.empty(len(batch), object)
        column[:] = [[] for _ in range(len(batch))]
        for first, last in _samples(batch, events):
            rows = [
                CountRow(counted[batch.event[index]], EVERYWHERE, int(columns["period"][index]), 1, 1, 1) for index in range(first, last)
            ]
            column[last - 1] = list(_texts(rows))
        columns["metric"] = column
        yield batch


def _samples(batch: Batch, events: Sequence[FileEvent]) -> Iterator[tuple[int, int]]:
    """Yield the rows of each sample with several readings of a group."""
    leaders = np.array([event.leader for event in events])[batch.event]
    begins = np.flatnonzero((np.diff(batch.offset, prepend=-1) != 0) | (np.diff(leaders, prepend=-1) != 0))
    for first, last in zip(begins.tolist(), [*begins[1:].tolist(), len(batch)], strict=True):
        if last - first > 1:
            yield first, last


def _texts(rows: list[CountRow]) -> Iterator[bytes]:
    from perfpy.counts.aggregation import Neighbours, ratios

    near = Neighbours(rows, 0.0)
    for row in rows:
        for ratio in ratios(row, near):
            if ratio.value is not None:
                yield f"{ratio.format % ratio.value} {ratio.unit}".encode()


# Data sources of memory accesses (data_src) as perf prints them: "|OP LOAD|LVL L1 hit|SNP None|...".
#
# Layout: union perf_mem_data_src in include/uapi/linux/perf_event.h, from the lowest bit: op 5, lvl 14, snoop 5, lock 2, dtlb 7,
# lvl_num 4, remote 1, snoopx 2, blk 3, hops 3.


_OPS: Final = ("N/A", "LOAD", "STORE", "PFETCH", "EXEC")
_LEVELS: Final = (
    "N/A", "HIT", "MISS", "L1", "LFB/MAB", "L2", "L3", "Local RAM", "Remote RAM (1 hop)", "Remote RAM (2 hops)",
    "Remote Cache (1 hop)", "Remote Cache (2 hops)", "I/O", "Uncached",
)  # fmt: skip
_LEVEL_NUMBERS: Final = {
    0x1: "L1", 0x2: "L2", 0x3: "L3", 0x4: "L4", 0x5: "L2 MHB", 0x6: "Memory-side Cache", 0x8: "Uncached", 0x9: "CXL", 0xA: "I/O",
    0xB: "Any cache", 0xC: "LFB/MAB", 0xD: "RAM", 0xE: "PMEM", 0xF: "N/A",
}  # fmt: skip
_HOPS: Final = ("N/A", "core, same node", "node, same socket", "socket, same board", "board")
_SNOOPS: Final = ("N/A", "None", "Hit", "Miss", "HitM")
_TLBS: Final = ("N/A", "HIT", "MISS", "L1", "L2", "Walker", "Fault")
_HIT, _MISS = 0x2, 0x4
_LEVEL_NA: Final = 0x1
_NUMBER_NA: Final = 0xF


def memory_text(data_src: int) -> str:
    """Return all parts, as `perf script -F data_src` prints them after the number; perf truncates to 99 characters."""
    parts = (("OP", op_text), ("LVL", level_text), ("SNP", snoop_text), ("TLB", tlb_text), ("LCK", lock_text), ("BLK", block_text))
    return "".join(f"|{label} {text(data_src)}" for label, text in parts)[:99]


def op_text(data_src: int) -> str:
    """Return the lowest operation set; "N/A" has priority."""
    return next((name for bit, name in enumerate(_OPS) if data_src >> bit & 1), "No")


def level_text(data_src: int) -> str:
    """Return the level that served the access, and whether it hit or missed there."""
    level, number = data_src >> 5 & 0x3FFF, data_src >> 33 & 0xF
    outcome = " hit" if level & _HIT else " miss" if level & _MISS else " "
    if number and number != _NUMBER_NA:
        return _numbered_level(number, data_src >> 37 & 1, data_src >> 43 & 7) + outcome
    names = level & ~(_HIT | _MISS | _LEVEL_NA)
    return _join(names, _LEVELS) + outcome if names else "N/A"


def _numbered_level(number: int, remote: int, hops: int) -> str:
    text = "Remote " if remote else ""
    if hops:
        text += (_HOPS[hops] if hops < len(_HOPS) else "(null)") + " "
    return text + _LEVEL_NUMBERS.get(number, f"Unknown level {number}")


def snoop_text(data_src: int) -> str:
    """Return the state in other caches."""
    snoop, more = data_src >> 19 & 0x1F, data_src >> 38 & 0x3
    parts = [name for bit, name in enumerate(_SNOOPS) if snoop >> bit & 1]
    parts += [name for bit, name in enumerate(("Fwd", "Peer")) if more >> bit & 1]
    return " or ".join(parts) or "N/A"


def tlb_text(data_src: int) -> str:
    """Return where the address was translated."""
    tlb = data_src >> 26 & 0x7F
    names = tlb & ~(_HIT | _MISS)
    return (_join(names, _TLBS) if names else "N/A") + (" hit" if tlb & _HIT else "") + (" miss" if tlb & _MISS else "")


def lock_text(data_src: int) -> str:
    """Return whether the access was locked."""
    lock = data_src >> 24 & 0x3
    return "N/A" if lock & 1 else "Yes" if lock & 2 else "No"


def block_text(data_src: int) -> str:
    """Return what blocked a load."""
    blocked = data_src >> 40 & 0x7
    if not blocked or blocked & 1:
        return " N/A"
    return (" Data" if blocked & 0x2 else "") + (" Addr" if blocked & 0x4 else "")


def _join(bits: int, names: tuple[str, ...]) -> str:
    return " or ".join(name for bit, name in enumerate(names) if bits >> bit & 1) or "N/A"
