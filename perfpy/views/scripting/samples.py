"""Samples for scripts: the dictionary of process_event, and the last argument of tracepoint handlers.

Keys and their order are perf's.
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.columns import Ragged
from perfpy.abi.flags import NO_DATA_SOURCE, ReadFormat, SampleType
from perfpy.analysis.callchains import ChainTable
from perfpy.perfdata.records.batches import carries_readings
from perfpy.symbols.dso import DsoKind
from perfpy.views.script import field_text
from perfpy.views.script.event_lines import names_data_address
from perfpy.views.script.field_text import branch_parts, frames_of, memory_text, truncate_chains
from perfpy.views.script.field_text import frames_of as address_frames
from perfpy.views.script.fields import has_callchain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from perfpy.perfdata.events import FileEvent
    from perfpy.perfdata.records.batches import Batch
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.views.script.code import LineContext

    Values = list[Any]
    Branches = list[list[dict[str, Any]]]


#: numbers of a sample: key -> (column, bits)
_NUMBERS: Final = {
    "id": ("id", 64), "stream_id": ("stream_id", 64), "pid": ("pid", 32), "tid": ("tid", 32), "cpu": ("cpu", 32), "ip": ("ip", 64),
    "time": ("time", 64), "period": ("period", 64), "phys_addr": ("phys_addr", 64), "addr": ("addr", 64),
    "time_enabled": ("enabled", 64), "time_running": ("running", 64), "values": ("", 0),
    "weight": ("weight", 64), "ins_lat": ("ins_lat", 16), "transaction": ("transaction", 64), "datasrc": ("data_src", 64),
}  # fmt: skip
#: column -> the bits of sample_type that provide it, and the value without them (data_src: nothing available)
_ABSENT: Final = {
    "id": (SampleType.ID, -1),
    "stream_id": (SampleType.STREAM_ID, -1),
    "data_src": (SampleType.DATA_SRC, NO_DATA_SOURCE),
}
_NO_READING: Final = (0, 0, 0)
#: key -> the bit of read_format that provides it
_READING_TIMES: Final = {"time_enabled": ReadFormat.TOTAL_TIME_ENABLED, "time_running": ReadFormat.TOTAL_TIME_RUNNING}
#: the columns that are read
COLUMNS: Final = frozenset(
    ("id", "stream_id", "identifier", "pid", "tid", "cpu", "ip", "time", "period", "phys_addr", "addr", "read", "weight", "ins_lat")
) | {"transaction", "data_src", "cpumode", "callchain", "raw", "branch_stack", "intr_regs", "intr_regs_abi", "user_regs", "user_regs_abi"}


class SampleValues:
    """The dictionaries of one event's samples."""

    def __init__(self, event: FileEvent, attr: bytes, context: LineContext, frames: FrameValues, comms: Callable[[Batch], Values]) -> None:
        """Set the event; `attr`: its bytes in the file; `comms`: returns the command of each sample."""
        self._event = event
        self._attr = attr
        self._context = context
        self._frames = frames
        self._comms = comms
        self._name = frames.visible_text(event.name)
        self._most_frames = context.max_stack * (2 if event.attr.sample_type & SampleType.STACK_USER else 1)
        self._data_sources: dict[int, str] = {}

    def dictionaries(self, batch: Batch) -> list[dict[str, Any]]:
        """Return the argument of process_event for each row."""
        samples, chains = self.samples(batch), self.callchains(batch)
        columns: tuple[Iterable[Any], ...] = (
            samples, raw_bytes(batch), self._comms(batch), self._locate(batch), chains, *self._branches(batch),
            self._registers(batch, "intr_regs", self._event.attr.sample_regs_intr),
            self._registers(batch, "user_regs", self._event.attr.sample_regs_user),
        )  # fmt: skip
        name, attr = self._name, self._attr
        return [
            {"ev_name": name, "attr": attr, "sample": sample, "raw_buf": raw, "comm": comm, **located, "callchain": chain,
             "brstack": branches, "brstacksym": branch_symbols, "iregs": iregs, "uregs": uregs}
            for sample, raw, comm, located, chain, branches, branch_symbols, iregs, uregs in zip(*columns, strict=True)
        ]  # fmt: skip

    def samples(self, batch: Batch) -> list[dict[str, Any]]:
        """Return the numbers of each sample."""
        makers: dict[str, Callable[[Batch], Values]] = {"values": self._readings, "id": self._ids}
        makers |= {key: partial(self._reading_times, name=_NUMBERS[key][0]) for key in _READING_TIMES}
        read_format = self._event.attr.read_format
        names = [key for key in _NUMBERS if key not in _READING_TIMES or read_format & _READING_TIMES[key]]
        columns = [makers[key](batch) if key in makers else self._numbers(batch, *_NUMBERS[key]) for key in names]
        columns += [self._served_from(columns[-1]), batch.columns["cpumode"].tolist()]
        keys = (*names, "datasrc_decode", "cpumode")
        samples_of_batch = [dict(zip(keys, values, strict=True)) for values in zip(*columns, strict=True)]
        if self._has_data_address:
            for sample, located in zip(samples_of_batch, self._data_locations(batch), strict=True):
                sample["addr_correlates_sym"] = True
                sample.update(located)
        return samples_of_batch

    def callchains(self, batch: Batch) -> list[list[dict[str, Any]]]:
        """Return the callchain of each sample, innermost frame first."""
        frames = self.chain_frames(batch)
        return [[] for _ in range(len(batch))] if frames is None else chain_lists(self._frames, *frames)

    def chain_frames(self, batch: Batch) -> tuple[NDArray[np.int32], NDArray[np.int64]] | None:
        """Return the frames of all callchains, and the length of each; None if samples have none."""
        context, columns = self._context, batch.columns
        if not (context.use_callchain and has_callchain(self._event) and "callchain" in columns):
            return None
        from perfpy.analysis.callchains import frames_of

        pid = field_text.column(batch, self._event, "pid")
        frames, counts = frames_of(columns["callchain"], pid, batch.key, context.symbolizer, context.max_stack)
        return context.symbolizer.expand(*truncate_chains(frames, counts, self._most_frames))

    def _column(self, batch: Batch, name: str) -> NDArray[Any]:
        bits, absent = _ABSENT.get(name, (0, 0))
        if bits and not self._event.attr.sample_type & bits:
            return np.full(len(batch), absent, np.int64)
        return field_text.column(batch, self._event, name)

    def _numbers(self, batch: Batch, name: str, bits: int) -> Values:
        values = self._column(batch, name)
        numbers: Values = (values.astype(np.int64) & 0xFFFFFFFF).tolist() if bits == 32 else values.astype(np.uint64).tolist()
        return numbers

    def _ids(self, batch: Batch) -> Values:
        """Return the id of each sample's counter; for group readings, that of the row's reading."""
        reads, own = batch.columns.get("read"), frozenset(self._event.ids)
        kind = self._event.attr.sample_type
        ids = self._numbers(batch, "id" if kind & SampleType.ID else "identifier" if kind & SampleType.IDENTIFIER else "id", 64)
        if not carries_readings(self._event) or not isinstance(reads, Ragged):
            return ids
        read = reads.values["id"].tolist()
        bounds = itertools.pairwise(reads.offsets.tolist())
        return [next((one for one in read[begin:end] if one in own), ident) for ident, (begin, end) in zip(ids, bounds, strict=True)]

    def _readings(self, batch: Batch) -> Values:
        """Return (id, value, lost) of each counter of a sample."""
        reads = batch.columns.get("read")
        if not isinstance(reads, Ragged) or not self._event.attr.sample_type & SampleType.READ:
            return [[_NO_READING]] * len(batch)
        rows = list(zip(*(reads.values[name].tolist() for name in ("id", "value", "lost")), strict=True))
        return [rows[begin:end] for begin, end in itertools.pairwise(reads.offsets.tolist())]

    def _reading_times(self, batch: Batch, name: str) -> Values:
        """Return a time of each sample's readings; as in perf 0 if its event has a read_format, but samples no readings."""
        reads = batch.columns.get("read")
        if not isinstance(reads, Ragged) or not self._event.attr.sample_type & SampleType.READ:
            return [0] * len(batch)
        times = reads.values[name].tolist()
        return [times[begin] if begin < end else 0 for begin, end in itertools.pairwise(reads.offsets.tolist())]

    def _served_from(self, words: Values) -> Values:
        texts = self._data_sources
        for word in {*words} - texts.keys():
            texts[word] = memory_text(word)
        return [texts[word] for word in words]

    def frame_ids(self, batch: Batch) -> NDArray[np.int32]:
        """Return the frame of each sample's address."""
        pid, ip = (field_text.column(batch, self._event, name) for name in ("pid", "ip"))
        return self._context.symbolizer.frame_ids(pid, ip, batch.key, batch.columns["cpumode"])

    def _locate(self, batch: Batch) -> Values:
        ids = self.frame_ids(batch)
        return list(map(self._frames.locations().__getitem__, ids.tolist()))

    @property
    def _has_data_address(self) -> bool:
        return bool(self._event.attr.sample_type & SampleType.ADDR) and names_data_address(self._event)

    def data_frame_ids(self, batch: Batch) -> NDArray[np.int32] | None:
        """Return the frame of each sample's data address or jump target; None if the event has none."""
        if not self._has_data_address:
            return None
        pid, addresses = (field_text.column(batch, self._event, name) for name in ("pid", "addr"))
        context = self._context
        return address_frames(context.symbolizer, pid, addresses, batch.key, batch.columns["cpumode"], context.kernel_start)

    def _data_locations(self, batch: Batch) -> Iterable[dict[str, Any]]:
        ids = self.data_frame_ids(batch)
        locations = self._frames.locations()
        return ({f"addr_{name}": value for name, value in locations[frame].items()} for frame in ([] if ids is None else ids.tolist()))

    def _branches(self, batch: Batch) -> tuple[Values, Values]:
        if "branch_stack" not in batch.columns or not field_text.has_column(self._event, "branch_stack"):
            return [[] for _ in range(len(batch))], [[] for _ in range(len(batch))]

        return branch_lists(batch, field_text.column(batch, self._event, "pid"), self._context, self._frames)

    def _registers(self, batch: Batch, name: str, mask: int) -> Values:
        if name not in batch.columns or not field_text.has_column(self._event, name):
            return [""] * len(batch)
        texts: Any = field_text.register_texts(batch.columns[name + "_abi"], batch.columns[name], mask, self._context.arch)
        return [text.decode().lstrip().partition(" ")[2] for text in texts]


def raw_bytes(batch: Batch) -> list[bytes]:
    """Return the raw data of each sample."""
    raw = batch.columns.get("raw")
    if raw is None:
        return [b""] * len(batch)
    data, bounds = raw.values.tobytes(), raw.offsets.tolist()
    return [data[begin:end] for begin, end in itertools.pairwise(bounds)]


def branch_lists(batch: Batch, pid: NDArray[Any], context: LineContext, frames: FrameValues) -> tuple[Branches, Branches]:
    """Return brstack and brstacksym of each sample."""
    stacks = batch.columns["branch_stack"]
    counts = np.diff(stacks.offsets)
    sample = np.repeat(np.arange(len(batch)), counts)
    of_each = pid[sample], batch.key[sample], batch.columns["cpumode"][sample]
    ends = []
    for name in ("from", "to"):
        ids = frames_of(context.symbolizer, of_each[0], stacks.values[name], of_each[1], of_each[2], context.kernel_start)
        ends.append(list(map(frames.locations().__getitem__, ids.tolist())))
    numbers = [stacks.values[name].tolist() for name in ("from", "to", "flags")]
    plain = [_plain(*values) for values in zip(*numbers, *ends, strict=True)]
    symbols = [_symbol_fields(*values) for values in zip(numbers[2], *ends, strict=True)]
    bounds = list(itertools.pairwise(stacks.offsets.tolist()))
    return [plain[begin:end] for begin, end in bounds], [symbols[begin:end] for begin, end in bounds]


def _plain(source: int, target: int, word: int, removed: dict[str, Any], entered: dict[str, Any]) -> dict[str, Any]:
    parts, _ = branch_parts(word)
    flags = {name: bool(parts[name]) for name in ("mispred", "predicted", "in_tx", "abort")}
    files = {"from_dsoname": removed.get("dso", ""), "to_dsoname": entered.get("dso", "")}
    return {"from": source, "to": target, **flags, "cycles": parts["cycles"], **files}


def _symbol_fields(word: int, removed: dict[str, Any], entered: dict[str, Any]) -> dict[str, Any]:
    parts, _ = branch_parts(word)
    guess = "P" if parts["predicted"] else "M" if parts["mispred"] else "-"
    flags = {"pred": guess, "in_tx": "X" if parts["in_tx"] else "-", "abort": "A" if parts["abort"] else "-"}
    return {"from": _function(removed), "to": _function(entered), **flags}


def _function(located: dict[str, Any]) -> str:
    return f"{located['symbol']}+0x{located['symoff']:x}" if "symbol" in located else "[unknown]"


# Frames and callchains for scripts, as dictionaries and lists.
#
# Each distinct frame or callchain is converted once. Every sample has its own list, but shares the dictionaries.


class FrameValues:
    """The dictionaries of frames, by frame id; grows with the symbolizer's table.

    Args:
        visible_text: converts a name to the text for scripts
    """

    def __init__(self, symbolizer: Symbolizer, visible_text: Callable[[str], str]) -> None:
        self.symbolizer = symbolizer
        self.visible_text = visible_text
        self._locations: list[dict[str, Any]] = []
        self._calls: list[dict[str, Any]] = []
        self._names: dict[int, str] = {}

    def locations(self) -> list[dict[str, Any]]:
        """Return dso, dso_bid, dso_map_start, dso_map_end, symbol and symoff of every frame, without unknown values."""
        return self._grow(self._locations, self._location)

    def calls(self) -> list[dict[str, Any]]:
        """Return ip, sym, sym_off and dso of every frame, as in a callchain."""
        return self._grow(self._calls, self._call)

    def _grow(self, values: list[dict[str, Any]], make: Callable[[int, int, int, int], dict[str, Any]]) -> list[dict[str, Any]]:
        frames = self.symbolizer.resolve()
        first_new = len(values)
        if first_new < len(frames):
            columns = (frames.dso[first_new:], frames.symbol[first_new:], frames.symbol_offset[first_new:])
            values.extend(map(make, range(first_new, len(frames)), *(column.tolist() for column in columns)))
        return values

    def _location(self, frame: int, dso: int, symbol: int, offset: int) -> dict[str, Any]:
        location: dict[str, Any] = {}
        if dso >= 0:
            frames = self.symbolizer.frames
            location = {"dso": self.file(dso), "dso_bid": self.symbolizer.dsos[dso].build_id}
            location |= {"dso_map_start": int(frames.map_start[frame]), "dso_map_end": int(frames.map_end[frame])}
        return location | {"symbol": self.name(symbol), "symoff": offset} if symbol >= 0 else location

    def _call(self, frame: int, dso: int, symbol: int, offset: int) -> dict[str, Any]:
        call: dict[str, Any] = {"ip": int(self.symbolizer.frames.ip[frame])}
        if symbol >= 0:
            symbols = self.symbolizer.symbols
            bounds = {"start": symbols.start(symbol), "end": symbols.end(symbol), "binding": symbols.binding(symbol)}
            call["sym"] = {**bounds, "name": self.name(symbol)}
            if not symbols.is_inlined(symbol):
                call["sym_off"] = offset
        if dso >= 0:
            call["dso"] = self.file(dso)
        return call

    def file(self, dso: int) -> str:
        """Return the name of a dso for scripts."""
        one = self.symbolizer.dsos[dso]
        return self.visible_text(one.short_name if one.kind is DsoKind.MODULE and not one.listed else one.name)

    def name(self, symbol: int) -> str:
        """Return the name of a symbol for scripts."""
        if symbol not in self._names:
            self._names[symbol] = self.visible_text(self.symbolizer.symbols.name(symbol))
        return self._names[symbol]


def chain_lists(values: FrameValues, frames: NDArray[np.int32], counts: NDArray[np.int64]) -> list[list[dict[str, Any]]]:
    """Return the callchain of each sample.

    Args:
        frames: frame ids, one callchain after the other
        counts: the length of each callchain
    """
    table = ChainTable()
    chains = table.add(frames, counts)
    ids, offsets = table.chains()
    each = list(map(values.calls().__getitem__, ids.tolist()))
    lists = [each[begin:end] for begin, end in itertools.pairwise(offsets.tolist())]
    return [lists[chain][:] for chain in chains.tolist()]
