"""The text of each field of samples except addresses: a piece for all samples of a batch.

Fields are formatted as in `perf script`. A missing column has perf's value: -1 for pid, tid and cpu, the largest number for time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi import flags
from perfpy.abi.samples.branches import BRANCH_FLAGS
from perfpy.untrusted.text import one_line_bytes
from perfpy.views.script.pieces import Coded, Piece, ValueTexts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from perfpy.abi.columns import Ragged
    from perfpy.perfdata.container.events import FileEvent
    from perfpy.perfdata.records.batches import Batch
    from perfpy.symbols.interning import IdTable

_NEVER: Final = 0xFFFFFFFFFFFFFFFF
_MISC_LETTERS: Final = (
    (flags.MISC_KERNEL, "K"),
    (flags.MISC_USER, "U"),
    (flags.MISC_HYPERVISOR, "H"),
    (flags.MISC_GUEST_KERNEL, "G"),
    (flags.MISC_GUEST_USER, "g"),
)
_NO_DATA_SRC: Final = 0x5080021
_BRANCH_TYPES: Final = (
    "", "COND", "UNCOND", "IND", "CALL", "IND_CALL", "RET", "SYSCALL", "SYSRET", "COND_CALL", "COND_RET", "ERET", "IRQ", "SERROR", "NO_TX",
)  # fmt: skip
_NEW_BRANCH_TYPES: Final = ("FAULT_ALGN", "FAULT_DATA", "FAULT_INST", "ARCH_1", "ARCH_2", "ARCH_3", "ARCH_4", "ARCH_5")
_NEW_TYPE: Final = 15
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


def page_size_text(size: int) -> bytes:
    """Return 4K, 2M or 1G; N/A for 0."""
    if not size:
        return b"N/A"
    for unit in b"BKMG":
        if size < 1024 or unit == ord("G"):
            break
        size >>= 10
    return b"%d%c" % (size, unit)


def page_size_field(size: int) -> bytes:
    """Return a page size as a field of a line."""
    return b" " + page_size_text(size)


class DataSourceTexts:
    """The field data_src: each value is as wide as the widest before it, as in perf."""

    def __init__(self) -> None:
        self._texts: dict[int, bytes] = {}
        self._widest = 0

    def piece(self, values: NDArray[np.uint64]) -> Piece:
        """Return the pieces of the next samples, in printing order."""
        from perfpy.views.script.texts.memory_text import memory_text

        texts = []
        for value in values.tolist():
            text = self._texts.get(value)
            if text is None:
                text = self._texts[value] = f"{value:16x} {memory_text(value)}"[:99].encode()
            self._widest = max(self._widest, len(text))
            texts.append(text.ljust(self._widest))
        return texts


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
_ABSENT: Final = {"pid": -1, "tid": -1, "cpu": -1, "time": _NEVER, "data_src": _NO_DATA_SRC}


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
    from perfpy.abi.samples.registers import register_name

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
    if kind == _NEW_TYPE:
        return _NEW_BRANCH_TYPES[new] if new < len(_NEW_BRANCH_TYPES) else "unknown"
    return _BRANCH_TYPES[kind]


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
