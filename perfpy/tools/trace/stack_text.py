"""Callchains below the lines of calls, and page faults: a frame a line, SYMBOL (FILE), as perf trace prints them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import Columns
from perfpy.abi.flags import SampleType
from perfpy.symbols.dso import UNKNOWN_NAME
from perfpy.tools.trace.calls import int_column
from perfpy.untrusted.text import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfpy.perfdata.records.batches import Batch, FurtherColumns
    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.symbols.symbolizer import Symbolizer


_INDENT: Final = b" " * 39
_LOST: Final = np.uint64(0xFFFFFFFFFFFFFFFF)  # the address of an unknown caller
_FIELDS: Final = ("callchain", "cpumode", "ip")
_FAULT_FIELDS: Final = ("addr", "cpumode", "ip")


class StackLimits(NamedTuple):
    """Which callchains to print.

    Attributes:
        most: the most frames of a callchain.
        least: print only calls with this many frames.
        has_kernel: print the kernel's frames of system calls, too.
    """

    most: int = 127
    least: int = 0
    has_kernel: bool = True


class StackTexts:
    """The callchains and page faults of samples.

    Args:
        source: the samples.
        options: which callchains; None for none.
        has_faults: samples of page faults are printed.
    """

    def __init__(self, source: SampleSource, options: StackLimits | None, *, has_faults: bool = False) -> None:
        self._source = source
        self._options = options if source.has(SampleType.CALLCHAIN) else None
        self._has_faults = has_faults
        self._symbolizer: Symbolizer | None = None
        self._batch: Batch | None = None
        self._frames: list[bytes] = []  # the line of each frame

    @property
    def fields(self) -> tuple[str, ...]:
        """The columns that texts need."""
        return (*(_FIELDS if self._options else ()), *(_FAULT_FIELDS if self._has_faults else ()))

    @property
    def has_stacks(self) -> bool:
        """Whether callchains are printed."""
        return self._options is not None

    def begin(self, symbolizer: Symbolizer) -> FurtherColumns | None:
        """Use these symbols for the next batches; return what unwinds copied stacks, None without them."""
        from perfpy.analysis.callchains import user_callchains  # most recordings have no callchains
        from perfpy.debuginfo.inlined_frames import give_inlined

        self._symbolizer = symbolizer
        self._frames = []
        if symbolizer.inliner is None:
            give_inlined(symbolizer, unwound=self._source.has(SampleType.STACK_USER))
        return user_callchains(self._source, symbolizer, self._options.most) if self._options else None

    def begin_batch(self, batch: Batch) -> None:
        """Take the samples of the next batch."""
        self._batch = batch

    def stacks(self, samples: NDArray[np.int64], *, are_calls: bool) -> tuple[NDArray[np.object_], NDArray[np.bool_]]:
        """Return the lines of each sample's callchain, and whether it has enough frames."""
        from perfpy.analysis.callchains import whole_chains_of  # see begin()
        from perfpy.views.script.field_text import truncate_chains

        batch, symbolizer, options = self._batch, self._symbolizer, self._options
        assert batch is not None
        assert symbolizer is not None
        assert options is not None
        columns = batch.columns
        if not len(samples) or "callchain" not in columns:  # the batch may have samples of events without callchains alone
            return np.full(len(samples), b"", object), np.full(len(samples), options.least <= 0)
        chosen = Columns(len(samples), {name: columns[name].take(samples) for name in ("callchain", "user_frames") if name in columns})
        ids, counts = whole_chains_of(chosen.gather(), int_column(columns, "pid")[samples], batch.key[samples], symbolizer)
        if are_calls and not options.has_kernel:
            is_kernel = np.array([*(dso.kernel for dso in symbolizer.dsos), False], np.bool_)
            ids, counts = _kept(ids, counts, ~is_kernel[symbolizer.resolve().dso[ids]])
        if (lost := symbolizer.resolve().ip[ids] == _LOST).any():
            ids, counts = _kept(ids, counts, ~lost)
        if not self._source.has(SampleType.STACK_USER):  # the unwinder limits each part of a callchain itself
            ids, counts = truncate_chains(ids, counts, options.most)
        ids, counts = symbolizer.expand(ids, counts)
        lines = self._frame_lines(symbolizer)
        ends = np.cumsum(counts).tolist()
        own = [lines[frame] for frame in ids.tolist()]
        texts = np.empty(len(samples), object)
        texts[:] = [b"".join(own[begin:end]) for begin, end in zip([0, *ends], ends, strict=False)]
        return texts, counts >= options.least

    def _frame_lines(self, symbolizer: Symbolizer) -> list[bytes]:
        """Return the line of each frame so far."""
        frames = symbolizer.resolve()
        symbols = symbolizer.symbols
        first = len(self._frames)
        for symbol, dso, address in zip(
            frames.symbol[first:].tolist(), frames.dso[first:].tolist(), frames.address[first:].tolist(), strict=True
        ):
            name = symbols.name(symbol) if symbol >= 0 else f"[{_hex(address) if dso >= 0 else 0}]"
            file = "inlined" if symbol >= 0 and symbols.is_inlined(symbol) else self._file(dso)
            self._frames.append(_INDENT + one_line(f"{name} ({file})").encode("utf-8", "surrogateescape") + b"\n")
        return self._frames

    def _file(self, dso: int) -> str:
        assert self._symbolizer is not None
        return self._symbolizer.dsos[dso].name if dso >= 0 else UNKNOWN_NAME

    def faults(self, samples: NDArray[np.int64], name: str) -> list[str]:
        """Return NAME [CODE] => FILE@ADDRESS of page faults."""
        batch, symbolizer = self._batch, self._symbolizer
        assert batch is not None
        assert symbolizer is not None
        columns = batch.columns
        pid, key, mode = int_column(columns, "pid")[samples], batch.key[samples], columns["cpumode"][samples]
        addresses = columns["addr"][samples]
        codes = symbolizer.frame_ids(pid, columns["ip"][samples], key, mode)
        targets = symbolizer.frame_ids(pid, addresses, key, mode)
        frames, symbols = symbolizer.resolve(), symbolizer.symbols
        texts = []
        for code, target, address in zip(codes.tolist(), targets.tolist(), addresses.tolist(), strict=True):
            symbol = int(frames.symbol[code])
            where = f"{symbols.name(symbol)}+{int(frames.symbol_offset[code]):#x}" if symbol >= 0 else _hex(int(frames.address[code]))
            dso = int(frames.dso[target])
            text = f"{self._file(dso)}@{_hex(int(frames.address[target]))} (d.)" if dso >= 0 else f"{_hex(address)} (?k)"
            texts.append(one_line(f"{name} [{where}] => {text}"))
        return texts


def _kept(ids: NDArray[np.int32], counts: NDArray[np.int64], kept: NDArray[np.bool_]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return callchains with some of their frames."""
    rows = np.repeat(np.arange(len(counts)), counts)
    return ids[kept], np.bincount(rows[kept], minlength=len(counts)).astype(np.int64)


def _hex(number: int) -> str:
    """Return a number as C prints it by %#lx."""
    return f"{number:#x}" if number else "0"


class JoinedColumns:
    """Further columns by several sources, one after the other (perfdata.records.batches.FurtherColumns)."""

    def __init__(self, parts: Sequence[FurtherColumns]) -> None:
        self._parts = parts

    @property
    def fields(self) -> tuple[str, ...]:
        """The columns that the parts need."""
        return tuple(dict.fromkeys(name for part in self._parts for name in part.fields))

    def extend(self, columns: Columns, event: NDArray[np.int32], key: NDArray[np.uint64]) -> Columns:
        """Return the columns with those of all parts."""
        for part in self._parts:
            columns = part.extend(columns, event, key)
        return columns
