"""Samples as `report -D` prints them: all their fields, and their owner."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.columns import Ragged
from perfpy.abi.flags import CONTEXT_USER, NO_DATA_SOURCE, BranchSample, ReadFormat, SampleType
from perfpy.abi.sample_layout import register_name, words_before
from perfpy.symbols.address_spaces import guest_tasks
from perfpy.symbols.files.debug_files import GuestFiles, SymbolOptions
from perfpy.symbols.symbolizer import Symbolizer
from perfpy.untrusted.text import one_line
from perfpy.views.record_text import alternate, signed_number
from perfpy.views.script.field_text import branch_counter_size, branch_parts, branch_type_text, has_column, page_size_text

if TYPE_CHECKING:
    from perfpy.perfdata.events import FileEvent
    from perfpy.perfdata.records.batches import Batch
    from perfpy.views.recorded import Recorded
    from perfpy.views.script.lines import DumpLines

_NEVER: Final = 0xFFFFFFFFFFFFFFFF
_REGISTER_ABIS: Final = ("none", "32-bit", "64-bit")
_SPECS: Final = ("", "SPEC_WRONG_PATH", "NON_SPEC_CORRECT_PATH", "SPEC_CORRECT_PATH")

HOST_ONLY: Final = GuestFiles()
#: (cpu, time) -> the start of a line
Stamp = Callable[[int, int], str]


class SampleTexts:
    """The texts of samples, in the order in which perfpy.views.dump.recording requests them."""

    def __init__(self, recording: Recorded, lines: DumpLines | None = None, guests: GuestFiles = HOST_ONLY) -> None:
        """Set the recording; `lines`: script's line of each delivery; `guests`: which machines' tasks and files are named."""
        self._names_guests = guests.machines.guests
        self._lines = lines
        self._recording = recording
        self._arch = recording.header.get("arch") or os.uname().machine
        # exited threads keep their names in perf's report, but not in its script
        self._timeline = recording.timeline if lines is not None else recording.make_timeline(keep_exited=True)
        self._symbolizer = Symbolizer(self._timeline, SymbolOptions(guests=guests))
        self._samples = self._rows()
        self._next = next(self._samples, None)
        self._last_read: dict[int, int] = {}
        self.entries: Counter[int] = Counter()
        self._counter_sizes = tuple(branch_counter_size(recording.header, name) for name in ("width", "nr"))
        self._event_of = {ident: event.index for event in recording.events for ident in event.ids}

    def text(self, offset: int, event: int, misc: int, head: str, stamp: Stamp) -> str:
        """Return the text of the next sample; only `head` if it could not be read.

        Args:
            offset: of its record
            head: the text after the time stamp
        """
        if event < 0 or self._next is None or self._next[0] != offset:
            return stamp(0xFFFFFFFF, _NEVER) + head
        _, batch, row, positions = self._next
        self._next = next(self._samples, None)
        owner = self._recording.events[int(batch.event[row])]
        sample = _Sample(batch, row, owner)
        start = stamp(sample.number("cpu", 0xFFFFFFFF) & 0xFFFFFFFF, sample.number("time", _NEVER))
        deliveries = (self._delivery(positions) for _ in range(self._deliveries(sample)))
        return start + head + self._details(sample, misc) + "".join(deliveries)

    def _delivery(self, positions: str) -> str:
        """Return the sample's owner and script's line; nothing if script filters it early."""
        line = b"" if self._lines is None else self._lines.of_sample()
        return "" if line is None else positions + line.decode("utf-8", "surrogateescape")

    def _rows(self) -> Iterator[tuple[int, Batch, int, str]]:
        """Yield (offset, batch, row, owner) of every sample."""
        for batch in self._recording.batches():
            owners = self._owners(batch)
            for row, offset in enumerate(batch.offset.tolist()):
                yield offset, batch, row, owners[row]

    def _owners(self, batch: Batch) -> list[str]:
        """Return the lines with thread and dso of each sample."""
        rows = len(batch)
        columns = batch.columns
        pid, tid = (columns.get(name, np.full(rows, -1, np.int32)) for name in ("pid", "tid"))
        timeline = self._timeline
        tasks = guest_tasks(tid, columns["cpumode"]) if self._names_guests else tid
        comms = timeline.comm_ids(tasks, batch.key).tolist()
        ids = self._symbolizer.frame_ids(pid, columns.get("ip", np.zeros(rows, np.uint64)), batch.key, columns["cpumode"])
        frames, dsos = self._symbolizer.frames, self._symbolizer.dsos
        positions = zip(comms, tid.tolist(), frames.dso[ids].tolist(), frames.level[ids].tolist(), strict=True)
        return [
            f" ... thread: {one_line(timeline.comms[comm])}:{thread}\n ...... dso: {one_line(_location(dsos, dso, level))}\n"
            for comm, thread, dso, level in positions
        ]

    def _deliveries(self, sample: _Sample) -> int:
        """Return the number of deliveries of a sample: one, or one for each changed reading."""
        if not sample.event.attr.sample_type & SampleType.READ:
            branches = sample.event.attr.sample_type & SampleType.BRANCH_STACK and not sample.event.attr.sample_type & SampleType.CALLCHAIN
            self.entries[sample.event.index] += len(sample.ragged_field("branch_stack")) if branches else 1
            return 1
        times = 0
        for reading in sample.readings():
            ident, value = int(reading["id"]), int(reading["value"])
            if ident in self._event_of:
                moved = value != self._last_read.get(ident, 0)
                times += moved
                self.entries[self._event_of[ident]] += moved
                self._last_read[ident] = value
        return times

    def _details(self, sample: _Sample, misc: int) -> str:
        bits = sample.event.attr.sample_type & 0x1FFFFFF
        period = sample.number("period", sample.event.attr.sample_period)
        task = f"{signed_number(sample.number('pid', -1) & 0xFFFFFFFF)}/{signed_number(sample.number('tid', -1) & 0xFFFFFFFF)}"
        ip, addr = alternate(sample.number("ip", 0)), alternate(sample.number("addr", 0))
        parts = [f"(IP, {misc:#x}): {task}: {ip} period: {period} addr: {addr}\n"]
        parts += self._stacks(sample, bits)
        for bit, name, column in ((SampleType.REGS_USER, "user", "user_regs"), (SampleType.REGS_INTR, "intr", "intr_regs")):
            if bits & bit:
                parts.append(self._registers(sample, name, column))
        if bits & SampleType.STACK_USER:
            parts.append(f"... ustack: size {len(sample.ragged_field('user_stack'))}, offset {_stack_offset(sample):#x}\n")
        return "".join(parts) + _numbers(sample, bits) + _readings(sample, bits)

    def _stacks(self, sample: _Sample, bits: int) -> Iterator[str]:
        is_callstack = bool(sample.event.attr.branch_sample_type & BranchSample.CALL_STACK)
        if bits & SampleType.CALLCHAIN:
            chain = sample.ragged_field("callchain").tolist()
            if is_callstack:
                yield _lbr_chain(chain, sample.ragged_field("branch_stack"))
            yield f"... FP chain: nr:{len(chain)}\n" + _number_lines(chain)
        if bits & SampleType.BRANCH_STACK:
            yield _callstack(sample.ragged_field("branch_stack")) if is_callstack else _branches(sample.ragged_field("branch_stack"))
            if sample.event.attr.branch_sample_type & BranchSample.COUNTERS:
                counters = sample.ragged_field("branch_counters").tolist()
                width, number = self._counter_sizes
                yield f"... branch stack counters: nr:{len(counters)} (counter width: {width} max counter nr:{number})\n"
                yield _number_lines(counters)

    def _registers(self, sample: _Sample, name: str, column: str) -> str:
        values = sample.ragged_field(column).tolist()
        abi = sample.number(column + "_abi", 0)
        if not abi:
            return ""
        mask = sample.event.attr.sample_regs_user if name == "user" else sample.event.attr.sample_regs_intr
        kind = _REGISTER_ABIS[abi] if abi < len(_REGISTER_ABIS) else "unknown"
        bits = [bit for bit in range(64) if mask >> bit & 1]
        lines = [f".... {register_name(self._arch, bit):<5} 0x{value:016x}\n" for bit, value in zip(bits, values, strict=False)]
        return f"... {name} regs: mask 0x{mask:x} ABI {kind}\n" + "".join(lines)


class _Sample:
    """A row of a batch."""

    def __init__(self, batch: Batch, row: int, event: FileEvent) -> None:
        self.event = event
        self._columns = batch.columns
        self._row = row

    def number(self, name: str, default: int) -> int:
        """Return a field's value; `default` if the event's samples lack it."""
        column = self._columns.get(name)
        return int(column[self._row]) if column is not None and has_column(self.event, name) else default

    def ragged_field(self, name: str) -> Any:
        """Return a field of variable length; empty if samples lack it."""
        column = self._columns.get(name)
        if not isinstance(column, Ragged):
            return np.zeros(0, np.uint64)
        return column.values[column.offsets[self._row] : column.offsets[self._row + 1]]

    def readings(self) -> Any:
        """Return the counter readings."""
        return self.ragged_field("read")


def _location(dsos: Any, dso: int, level: int) -> str:
    if dso >= 0:
        name: str = dsos[dso].long_name
        return name
    return "[hypervisor]" if level == ord("H") else "<not found>"


def _number_lines(addresses: list[int], first: int = 0) -> str:
    return "".join(f"..... {first + i:2d}: {address:016x}\n" for i, address in enumerate(addresses))


def _lbr_chain(chain: list[int], branches: Any) -> str:
    """Return the callchain with its user part from the branch records."""
    if CONTEXT_USER not in chain or not len(branches):
        return ""
    kernel = chain[: chain.index(CONTEXT_USER) + 1]
    user = [int(branches["to"][0]), *branches["from"].tolist()]
    return f"... LBR call chain: nr:{len(kernel) + len(user)}\n" + _number_lines(kernel + user)


def _callstack(branches: Any) -> str:
    if not len(branches):
        return "... branch callstack: nr:1\n"
    addresses = [int(branches["to"][0]), *branches["from"].tolist()]
    return f"... branch callstack: nr:{len(addresses)}\n" + _number_lines(addresses)


def _branches(branches: Any) -> str:
    lines = [f"... branch stack: nr:{len(branches)}\n"]
    for i, (source, target, flags) in enumerate(branches.tolist()):
        parts, reserved = branch_parts(flags)
        marks = "".join(
            mark if parts[name] else " " for name, mark in (("mispred", "M"), ("predicted", "P"), ("abort", "A"), ("in_tx", "T"))
        )
        kind = branch_type_text(parts["type"], parts["new_type"])
        about = f"{parts['cycles']} cycles {marks} {reserved:x} {kind} {_SPECS[parts['spec']]}"
        lines.append(f"..... {i:2d}: {source:016x} -> {target:016x} {about}\n")
    return "".join(lines)


def _stack_offset(sample: _Sample) -> int:
    """Return the offset of the user stack's size in the record."""
    attr = sample.event.attr
    size = 8 * words_before(attr.sample_type)
    if attr.sample_type & SampleType.READ:
        size += _readings_size(attr.read_format, len(sample.readings()))
    if attr.sample_type & SampleType.CALLCHAIN:
        size += 8 + 8 * len(sample.ragged_field("callchain"))
    if attr.sample_type & SampleType.RAW:
        size += 4 + len(sample.ragged_field("raw"))
    if attr.sample_type & SampleType.BRANCH_STACK:
        size += 8 + 24 * len(sample.ragged_field("branch_stack")) + 8 * bool(attr.branch_sample_type & BranchSample.HW_INDEX)
        size += 8 * len(sample.ragged_field("branch_counters"))
    if attr.sample_type & SampleType.REGS_USER:
        size += 8 + 8 * len(sample.ragged_field("user_regs"))
    return size


def _readings_size(read_format: int, count: int) -> int:
    """Return the size of struct read_format in bytes."""
    each = 1 + sum(1 for bit in (ReadFormat.ID, ReadFormat.LOST) if read_format & bit)
    times = sum(1 for bit in (ReadFormat.TOTAL_TIME_ENABLED, ReadFormat.TOTAL_TIME_RUNNING) if read_format & bit)
    return 8 * (times + count * each + bool(read_format & ReadFormat.GROUP))


def _numbers(sample: _Sample, bits: int) -> str:
    parts = []
    if bits & (SampleType.WEIGHT | SampleType.WEIGHT_STRUCT):
        parts.append(f"... weight: {sample.number('weight', 0)}")
        if bits & SampleType.WEIGHT_STRUCT:
            parts.append(f",0x{sample.number('ins_lat', 0):x},0x{sample.number('retire_lat', 0):x}")
        parts.append("\n")
    if bits & SampleType.DATA_SRC:
        parts.append(f" . data_src: 0x{sample.number('data_src', NO_DATA_SOURCE):x}\n")
    if bits & SampleType.PHYS_ADDR:
        parts.append(f" .. phys_addr: 0x{sample.number('phys_addr', 0):x}\n")
    for bit, name, label in ((SampleType.DATA_PAGE_SIZE, "data_page_size", "data"), (SampleType.CODE_PAGE_SIZE, "code_page_size", "code")):
        if bits & bit:
            parts.append(f" .. {label} page size: {page_size_text(sample.number(name, 0)).decode()}\n")
    if bits & SampleType.TRANSACTION:
        parts.append(f"... transaction: {sample.number('transaction', 0):x}\n")
    return "".join(parts)


def _readings(sample: _Sample, bits: int) -> str:
    if not bits & SampleType.READ:
        return ""
    form = sample.event.attr.read_format
    readings = sample.readings()
    lines = ["... sample_read:\n"]
    for bit, name in ((ReadFormat.TOTAL_TIME_ENABLED, "enabled"), (ReadFormat.TOTAL_TIME_RUNNING, "running")):
        if form & bit:
            lines.append(f"...... time {name} {int(readings[name][0]) if len(readings) else 0:016x}\n")
    if form & ReadFormat.GROUP:
        lines.append(f".... group nr {len(readings)}\n")
    for reading in readings:
        lost = f", lost {int(reading['lost'])}" if form & ReadFormat.LOST else ""
        lines.append(f"..... id {int(reading['id']):016x}, value {int(reading['value']):016x}{lost}\n")
    return "".join(lines)
