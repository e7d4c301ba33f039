"""The lines of one event's samples: the fields in perf's order, as pieces."""

from __future__ import annotations

import itertools
from functools import cached_property

import numpy as np

from perfpy.abi.columns import Columns, Ragged, distinct, rows_where
from perfpy.abi.flags import BranchSample, HardwareId, PerfType, SampleType, SoftwareId
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple
from perfpy.abi.perfpy_encodings import OFF_CPU_EVENT
from perfpy.analysis.sample_view import TaskStates, combine_columns, row_fingerprints
from perfpy.symbols.address_spaces import guest_tasks
from perfpy.symbols.interning import IdTable
from perfpy.untrusted.text import one_line, one_line_bytes
from perfpy.views.pieces import Coded, Flat, Joiner, Piece, TextBlock, ValueTexts, repeat
from perfpy.views.script import field_text
from perfpy.views.script.code import OF_BRANCHES, OF_SAMPLE, InstructionTexts, is_counted
from perfpy.views.script.field_text import FrameStyle, chain_texts, frames_of, outermost_first, time_piece, truncate_chains
from perfpy.views.script.fields import DEPENDENT_FIELDS, SYNTH_TYPE, has_callchain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Final

    from numpy.typing import NDArray

    from perfpy.perfdata.events import FileEvent
    from perfpy.perfdata.records.batches import Batch
    from perfpy.symbols.address_spaces import TaskTimeline
    from perfpy.views.script.code import BranchTexts, CallIndents, LineContext, SourceCode
    from perfpy.views.tracepoints.event_text import TraceSource


_FAULTS: Final = (SoftwareId.PAGE_FAULTS, SoftwareId.PAGE_FAULTS_MIN, SoftwareId.PAGE_FAULTS_MAJ)
#: columns that a field needs in addition to those with its name
_COLUMNS: Final = {
    "comm": ("tid",), "trace": ("raw",), "sym": (), "event": (), "ip": ("ip", "pid", "cpumode", "callchain"),
    "addr": ("addr", "pid", "cpumode"), "iregs": ("intr_regs", "intr_regs_abi"), "uregs": ("user_regs", "user_regs_abi"),
    "brstack": ("branch_stack", "pid", "cpumode"), "brstacksym": ("branch_stack", "pid", "cpumode"),
    "brstackoff": ("branch_stack", "pid", "cpumode"), "bpf-output": ("raw",), "synth": ("raw",), "tod": ("time",), "metric": ("period",),
    "callindent": ("ip", "addr", "pid", "cpumode"), "srcline": (), "srccode": ("ip", "pid", "tid", "cpumode"),
    **dict.fromkeys(OF_SAMPLE, ("ip", "pid", "cpumode")), **dict.fromkeys(OF_BRANCHES, ("branch_stack", "ip", "pid", "cpumode")),
    "brcntr": ("branch_counters",), "ipc": ("transaction", "stream_id"),
}  # fmt: skip


#: types and fields of events whose config decides about their lines
_NUMBERED: Final = (PerfType.SOFTWARE, PerfType.TRACEPOINT, SYNTH_TYPE)
_NUMBERED_FIELDS: Final = SampleType.RAW | SampleType.BRANCH_STACK
_FLAG_BITS: Final = (1 << 32) - 1  # of weights of hardware traces
#: the column of texts of data_src that `perfpy.views.script.lines` adds to batches
DATA_SOURCE_TEXT: Final = "data_src_text"


def columns_of(event: FileEvent, fields: set[str]) -> set[str]:
    """Return the sample columns that a set of -F fields needs."""
    needed = {"misc"} & fields
    if "ip" in fields and event.attr.branch_sample_type & BranchSample.CALL_STACK:
        needed.add("branch_stack")
    for name in fields:
        needed.update(_COLUMNS.get(name, (name,)))
    if event.attr.type == PerfType.HARDWARE and event.attr.sample_type & SampleType.WEIGHT:
        needed.add("weight")
    if is_branch_trace(event) and event.attr.sample_type & SampleType.ADDR:
        needed.update(_COLUMNS["addr"])
    return needed


def names_data_address(event: FileEvent) -> bool:
    """Whether the addr field of the event's samples is an address that can be resolved."""
    return (event.attr.type == PerfType.SOFTWARE and event.attr.config in _FAULTS) or is_branch_trace(event)


def is_branch_trace(event: FileEvent) -> bool:
    """Whether the event is a branch trace, in which each branch is a sample."""
    attr = event.attr
    return attr.type == PerfType.HARDWARE and bool(attr.config & HardwareId.BRANCH_INSTRUCTIONS) and attr.sample_period == 1


def line_shape(event: FileEvent) -> bytes | None:
    """Return what the lines of an event depend on besides its name, equal for events whose lines are formatted together.

    None for events whose numbers matter to their lines.
    """
    attr = event.attr
    has_own_period = bool(attr.sample_type & SampleType.PERIOD)
    if attr.type in _NUMBERED or attr.sample_type & _NUMBERED_FIELDS or not has_own_period or is_branch_trace(event):
        return None
    return attr.copy(config=0, sample_period=0).pack()


class _Runs(NamedTuple):
    """Runs of samples: the first row of each, and the run of each row."""

    first: NDArray[np.intp]
    of_rows: NDArray[np.intp]


class EventLines:
    """The formatter of the lines of one event, or of several with equal line_shape()."""

    def __init__(
        self, events: Sequence[FileEvent], fields: set[str], chosen: bool, context: LineContext, trace: TraceSource | None
    ) -> None:
        """Set the events.

        Args:
            chosen: whether the user chose the fields
            trace: the tracepoints' print formats
        """
        event = events[0]
        self._event = event
        self._fields = fields
        self._chosen = chosen
        self._context = context
        self._trace = trace
        self._joiner = Joiner()
        self._with_chain = has_callchain(event) and context.use_callchain
        # unwound callchains have this limit for the kernel and for user space each
        self._most_frames = context.max_stack * (2 if event.attr.sample_type & SampleType.STACK_USER else 1)
        comm_form = field_text.comm_form(narrow="ip" in fields and self._with_chain, latency=context.latency)
        self._tasks = field_text.TaskTexts(fields, context.timeline.comms, comm_form)
        self._numbers = field_text.number_texts(fields, field_text.cpu_form(latency=context.latency))
        self._names = [one_line_bytes(one.name.encode("utf-8", "surrogateescape").rjust(context.name_width)) + b": " for one in events]
        numbers = [one.index for one in events]
        self._position_of_name = np.zeros(max(numbers) + 1, np.intp)
        self._position_of_name[numbers] = np.arange(len(numbers))
        style = FrameStyle.of(fields, kernel_path=context.kernel_path)
        self._flat_frames = context.frame_texts(style, b" ")
        self._chain_frames = context.frame_texts(style, b"\t", b"\n")
        plain_address = FrameStyle(16, symbol=False, offset=False, dso=False)
        # perf prints no source line for them
        self._data_frames = context.frame_texts(style._replace(source=False) if names_data_address(event) else plain_address)
        self.has_data_source = "data_src" in fields

    @cached_property
    def _branches(self) -> BranchTexts:
        from perfpy.views.script.code import BranchTexts

        return BranchTexts(self._event, self._context, self._fields)

    @cached_property
    def _known_chains(self) -> KnownChains:

        return KnownChains(self._context.timeline)

    @cached_property
    def _legend(self) -> bytes:
        counters = self._context.counters
        return counters.legend if "brcntr" in self._fields and counters and is_counted(self._event) else b""

    @cached_property
    def _instructions(self) -> InstructionTexts | None:
        fields = self._fields & (OF_SAMPLE | OF_BRANCHES)
        return InstructionTexts(self._event, self._context, fields | self._fields & {"srcline", "brcntr"}) if fields else None

    @property
    def is_silent(self) -> bool:
        """Whether nothing is printed for the event."""
        return not self._fields

    def flat(self, batch: Batch, shown_times: NDArray[np.uint64]) -> Flat | TextBlock:
        """Return the text of the rows of a batch, all of these events; `shown_times`: the values of the time field."""
        rows, name = len(batch), self._name(batch)
        runs = self._runs(batch, shown_times)
        if runs is not None:
            batch, shown_times = batch.take(runs.first), shown_times[runs.first]
        start = [self._legend, *self._start(batch, shown_times), self._number("period", batch)]
        rest = self._after_name(batch, shown_times)
        if runs is None:
            return self._joiner.join([*start, name, *rest], rows)
        start, rest = (repeat(some, runs.of_rows, len(batch)) for some in (start, rest))
        return self._joiner.join([*start, name, *rest], rows)

    def _name(self, batch: Batch) -> Piece:
        """Return the event's name."""
        if "event" not in self._fields:
            return b""
        # always coded if there are several names, because the joiner keeps the texts of neighbors
        return Coded(self._position_of_name[batch.event], self._names) if len(self._names) > 1 else self._names[0]

    def _runs(self, batch: Batch, shown_times: NDArray[np.uint64]) -> _Runs | None:
        """Return the runs of samples whose lines differ by the event's name only; None if they are short.

        A record of a hardware trace becomes such a run.
        """
        if len(self._names) == 1 or self._fields & DEPENDENT_FIELDS or is_branch_trace(self._event):
            return None
        ranks = self._context.timeline.ranks(batch.key)  # other mappings and names may come between samples
        is_first = np.ones(len(batch), bool)
        is_first[1:] = shown_times[1:] != shown_times[:-1]
        for column in (ranks, *batch.columns.values()):
            if not isinstance(column, np.ndarray) or 2 * np.count_nonzero(is_first) > len(batch):
                return None
            is_first[1:] |= column[1:] != column[:-1]
        return _Runs(rows_where(is_first), np.cumsum(is_first) - 1)

    def _after_name(self, batch: Batch, shown_times: NDArray[np.uint64]) -> list[Piece]:
        """Return the rest of the line, and of what is printed below it."""
        pieces: list[Piece] = []
        if self._context.flags:
            pieces.append(self._trace_flags(batch))
        if is_branch_trace(self._event):
            pieces += self._branch_trace(batch)
        else:
            pieces += self._rest(batch)
        if "metric" in self._fields and "metric" in batch.columns:
            pieces.append(self._metrics(batch, shown_times))
        pieces.append(b"\n")
        if "srccode" in self._fields and self._context.source_code is not None:
            pieces.append(self._code(batch, self._context.source_code))
        return pieces

    def _metrics(self, batch: Batch, shown_times: NDArray[np.uint64]) -> Piece:
        """Return lines below a sample, which begin as the sample's own line."""
        starts = Joiner().join([b"\n", *self._start(batch, shown_times), b"\tmetric: "], len(batch)).lines()
        return [b"".join(start + text for text in texts) for start, texts in zip(starts, batch.columns["metric"].tolist(), strict=True)]

    def _code(self, batch: Batch, source_code: SourceCode) -> Piece:
        """Return the source code below a sample."""
        columns = batch.columns
        ids = self._context.symbolizer.frame_ids(self._column(batch, "pid"), self._column(batch, "ip"), batch.key, columns["cpumode"])
        self._context.symbolizer.resolve()
        return source_code.pieces(ids, self._column(batch, "tid"))

    def _start(self, batch: Batch, shown_times: NDArray[np.uint64]) -> list[Piece]:
        """Return task, cpu, misc and time, with which side-band lines begin, too."""
        fields = self._fields
        pid, tid = self._column(batch, "pid"), self._column(batch, "tid")
        task = guest_tasks(tid, batch.columns["cpumode"])
        comm = self._context.timeline.comm_ids(task, batch.key) if "comm" in fields else np.zeros(len(batch), np.int32)
        pieces = [self._tasks.piece(comm, pid, tid), self._number("cpu", batch), self._number("misc", batch)]
        if "tod" in fields:
            pieces.append(list(map(self._context.clock, self._column(batch, "time").tolist())))
        if "time" in fields:
            pieces.append(time_piece(shown_times, ns=self._context.ns))
        return pieces

    def _column(self, batch: Batch, name: str) -> NDArray[Any]:
        return field_text.column(batch, self._event, name)

    def _number(self, name: str, batch: Batch) -> Piece:
        texts = self._numbers.get(name)
        if texts is None:
            return b""
        is_flags = name == "weight" and self._context.has_branch_flags
        return texts.piece(np.zeros(len(batch), np.uint64) if is_flags else self._column(batch, name))

    def _rest(self, batch: Batch) -> list[Piece]:
        """Return everything after the event's name."""
        columns, fields = batch.columns, self._fields
        pieces: list[Piece] = []
        if "trace" in fields and self._trace is not None:
            pieces.append(self._trace_piece(columns, self._trace))
        if "synth" in fields and self._event.attr.type == SYNTH_TYPE:
            pieces.append([field_text.synthesized_text(self._event.attr.config, raw) for raw in _raw_bytes(columns)])
        if "addr" in fields:
            pieces.append(self._address(batch))
        if "data_src" in fields:
            pieces.append(columns[DATA_SOURCE_TEXT].tolist())
        pieces += [self._number(name, batch) for name in ("weight", "ins_lat", "retire_lat")]
        if "cgroup" in fields:
            pieces.append([b" " + self._cgroup(ident) for ident in self._column(batch, "cgroup").tolist()])
        if "ip" in fields:
            pieces += self._address_of_code(batch)
        pieces += self._registers(batch)
        if "branch_stack" in batch.columns:
            pieces.append(self._branches.piece(batch))
        if "bpf-output" in fields and self._is_bpf_output:
            pieces.append([field_text.bpf_output_text(raw) for raw in _raw_bytes(columns)])
        if self._instructions is not None:
            pieces.append(self._instructions.piece(batch))
        pieces += [self._number(name, batch) for name in ("phys_addr", "data_page_size", "code_page_size")]
        return [*pieces, *self._rates(batch)]

    def _rates(self, batch: Batch) -> list[Piece]:
        """Return instructions per cycle; perf prints them by two decimals, cut."""
        if "ipc" not in self._fields or not self._context.has_ipc:
            return []
        counts = zip(*(self._column(batch, name).tolist() for name in ("transaction", "stream_id")), strict=True)
        hundredths = ((count, cycles, count * 100 // (cycles or 1) & 0xFFFFFFFF) for count, cycles in counts)
        form = b" \t IPC: %d.%02d (%d/%d) "
        return [[form % (*divmod(rate, 100), count, cycles) if count and cycles else b"" for count, cycles, rate in hundredths]]

    def _trace_flags(self, batch: Batch) -> Piece:
        if not self._context.has_branch_flags:
            return b" " * 24
        return self._flag_texts.piece(self._column(batch, "weight").astype(np.uint64) & np.uint64(_FLAG_BITS))

    @cached_property
    def _flag_texts(self) -> ValueTexts:
        from perfpy.views.script.code import trace_flags_text

        return ValueTexts(trace_flags_text)

    @cached_property
    def _call_indents(self) -> CallIndents:
        from perfpy.views.script.code import CallIndents

        return CallIndents(self._context, has_dso="dso" in self._fields and not {"ip", "addr"} & self._fields)

    def _indented_calls(self, batch: Batch) -> Piece:
        pid, columns, context = self._column(batch, "pid"), batch.columns, self._context
        sources, targets = (
            frames_of(context.symbolizer, pid, self._column(batch, name), batch.key, columns["cpumode"], context.kernel_start).tolist()
            for name in ("ip", "addr")
        )
        return self._call_indents.texts(sources, targets, self._column(batch, "weight").tolist())

    def _branch_trace(self, batch: Batch) -> list[Piece]:
        before: list[Piece] = [self._indented_calls(batch)] if "callindent" in self._fields and self._context.has_branch_flags else []
        return before + self._branch_ends(batch)

    def _branch_ends(self, batch: Batch) -> list[Piece]:
        pieces: list[Piece] = self._address_of_code(batch) if "ip" in self._fields else []
        if "addr" in self._fields or (self._event.attr.sample_type & SampleType.ADDR and not self._chosen):
            pieces += [b" => ", self._address(batch)]
        pieces += self._rates(batch)
        if self._instructions is not None:
            pieces.append(self._instructions.piece(batch))
        return pieces

    @property
    def _is_bpf_output(self) -> bool:
        attr = self._event.attr
        is_read_already = self._event.name == OFF_CPU_EVENT and attr.sample_type & SampleType.RAW  # as in perf 7
        return attr.type == PerfType.SOFTWARE and attr.config == SoftwareId.BPF_OUTPUT and not is_read_already

    def _cgroup(self, ident: int) -> bytes:
        return one_line(self._context.cgroups.get(ident, "unknown")).encode("utf-8", "surrogateescape")

    def _address(self, batch: Batch) -> Piece:
        addresses = self._column(batch, "addr")
        pid, context = self._column(batch, "pid"), self._context
        ids = frames_of(context.symbolizer, pid, addresses, batch.key, batch.columns["cpumode"], context.kernel_start)
        return Coded(ids, self._data_frames.update())

    def _address_of_code(self, batch: Batch) -> list[Piece]:
        """Return the ip on the same line, or the callchain below it."""
        columns = batch.columns
        pid = self._column(batch, "pid")
        symbolizer = self._context.symbolizer
        if not (self._with_chain and "callchain" in columns):
            ids = symbolizer.frame_ids(pid, self._column(batch, "ip"), batch.key, columns["cpumode"])
            return [Coded(ids, self._flat_frames.update())]
        from perfpy.analysis.callchains import callchains_of_event, has_callstacks

        chains: Ragged = columns["callchain"]
        if has_callstacks(self._event.attr) and "branch_stack" in columns:
            chains = callchains_of_event(self._event.attr, chains, columns["branch_stack"])
        elif "user_frames" in columns or symbolizer.inliner is not None:
            return [b"\n", self._chain_lines(columns, pid, batch.key)]

        def make(rows: NDArray[Any]) -> list[bytes]:
            return self._chain_lines(Columns(len(rows), {"callchain": chains.take(rows)}), pid[rows], batch.key[rows])

        return [b"\n", self._known_chains.lines(chains, pid, batch.key, make)]

    def _chain_lines(self, columns: Columns, pid: NDArray[np.int32], key: NDArray[np.uint64]) -> list[bytes]:
        """Return the lines of each callchain."""
        from perfpy.analysis.callchains import whole_chains_of

        symbolizer = self._context.symbolizer
        frames, counts = whole_chains_of(columns, pid, key, symbolizer, self._context.max_stack)
        if self._context.callers_first:
            frames = outermost_first(frames, counts)
        frames, counts = truncate_chains(frames, counts, self._most_frames)
        frames, counts = symbolizer.expand(frames, counts, callers_first=self._context.callers_first)
        lines = self._chain_frames.update()
        if self._context.stop_at:
            frames, counts = self._truncate_at_symbol(frames, counts)
        return chain_texts(frames, counts, lines)

    def _truncate_at_symbol(self, frames: NDArray[np.int32], counts: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Truncate callchains at the first frame with one of the symbols (--stop-bt)."""
        symbolizer = self._context.symbolizer
        stops = np.array([symbolizer.symbols.name(i) in self._context.stop_at for i in range(len(symbolizer.symbols))] + [False])
        is_stop = stops[symbolizer.frames.symbol[frames]]
        starts = np.cumsum(counts) - counts
        before = np.concatenate([[0], np.cumsum(is_stop)])
        mask = before[:-1] - np.repeat(before[starts], counts) == 0
        totals = np.concatenate([[0], np.cumsum(mask)])
        return frames[mask], totals[starts + counts] - totals[starts]

    def _registers(self, batch: Batch) -> list[Piece]:
        pieces: list[Piece] = []
        for name, column, mask in (
            ("iregs", "intr_regs", self._event.attr.sample_regs_intr),
            ("uregs", "user_regs", self._event.attr.sample_regs_user),
        ):
            if name in self._fields and column in batch.columns:
                abis = self._column(batch, column + "_abi")
                pieces.append(field_text.register_texts(abis, batch.columns[column], mask, self._context.arch))
        return pieces

    def _trace_piece(self, columns: Columns, trace: TraceSource) -> Piece:
        """Return the trace field, by the type at the start of the raw data, which is usually the event's own."""
        raw = _raw_of(columns)
        starts, sizes = raw.offsets[:-1], np.diff(raw.offsets)
        texts: list[bytes] = [b"[UNKNOWN EVENT]"] * len(starts)
        types = _leading_types(raw, sizes, trace.endian, self._event.attr.config & 0xFFFF)
        for kind in distinct(types).tolist():
            printer = trace.printer(kind)
            if printer is None:
                continue
            rows = np.flatnonzero(types == kind)
            plain = printer.texts(raw.values, starts[rows], sizes[rows])
            pieces = [text.encode("latin-1") for text in (plain if printer.breaks_lines else _single_lines(plain))]
            if len(rows) == len(texts):
                texts = pieces
            else:
                for row, text in zip(rows.tolist(), pieces, strict=True):
                    texts[row] = text
        return [text if size else b"" for text, size in zip(texts, sizes.tolist(), strict=True)] if not sizes.all() else texts


def _single_lines(texts: list[str]) -> list[str]:
    """Return texts without line breaks, except a final one, which some formats have."""
    joined = "".join(texts)
    if "\n" not in joined and "\r" not in joined:
        return texts
    return [one_line(text.removesuffix("\n")) + "\n" * text.endswith("\n") for text in texts]


def _leading_types(raw: Ragged, sizes: NDArray[np.int64], endian: str, own: int) -> NDArray[np.int64]:
    """Return common_type of each raw datum; `own` if it is too short."""
    values, starts = raw.values, raw.offsets[:-1]
    if len(values) < 2:
        return np.full(len(sizes), own, np.int64)
    whole = sizes >= 2
    offset = np.where(whole, starts, 0)
    low, high = (offset, offset + 1) if endian == "<" else (offset + 1, offset)
    return np.where(whole, values[low].astype(np.int64) | values[high].astype(np.int64) << 8, own)


def _raw_of(columns: Columns) -> Ragged:
    """Return the raw data; none of time off the CPU, which belongs to an event with such, and of damaged samples."""
    return columns["raw"] if "raw" in columns else Ragged.empty(columns.rows, np.uint8)


def _raw_bytes(columns: Columns) -> list[bytes]:
    raw = _raw_of(columns)
    data = raw.values.tobytes()
    bounds = raw.offsets.tolist()
    return [data[begin:end] for begin, end in itertools.pairwise(bounds)]


# A cache of the lines of callchains, by callchain and address space.
#
# The cache lasts over batches, up to a size limit, because callchains repeat in long recordings.


_MOST_BYTES: Final = 1 << 25


class KnownChains:
    """The cache."""

    def __init__(self, timeline: TaskTimeline) -> None:
        self._timeline = timeline
        self._forget()

    def _forget(self) -> None:
        self._table, self._lines, self._size = IdTable(), list[bytes](), 0

    def lines(
        self, chains: Ragged, pid: NDArray[np.int32], key: NDArray[np.uint64], make: Callable[[NDArray[Any]], list[bytes]]
    ) -> list[bytes]:
        """Return the lines of each sample's callchain; `make` formats those of the samples with the given rows."""
        space = TaskStates(self._timeline, pid, pid, key).space()
        ids, new = self._table.ids_and_new(combine_columns([space, row_fingerprints(chains)]))
        if len(new):
            new_lines = make(new)
            self._lines += new_lines
            self._size += sum(map(len, new_lines))
        lines = list(map(self._lines.__getitem__, ids.tolist()))
        if self._size > _MOST_BYTES:
            self._forget()
        return lines
