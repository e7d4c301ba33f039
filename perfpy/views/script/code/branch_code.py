"""The instructions between the branches of a sample: brstackinsn, brstackinsnlen, brstackdisasm.

Lines begin with the oldest branch: from its target to the next branch, and finally to the sample. Each branch's line has its flags, and,
if cycles are recorded, the instructions per cycle.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.flags import MISC_KERNEL, MISC_USER, BranchSample
from perfpy.untrusted.text import one_line
from perfpy.views.script.code.branch_counters import is_counted
from perfpy.views.script.texts.field_text import branch_parts, column

if TYPE_CHECKING:
    from perfpy.perfdata.container.events import FileEvent
    from perfpy.perfdata.records.batches import Batch
    from perfpy.views.script.code.code_at import Code
    from perfpy.views.script.line_context import LineContext

_BLOCK_MOST: Final = 16384 - 15  # bytes between two branches
_BEYOND: Final = 15  # bytes after the start of a block's last instruction
_SEARCHED: Final = 128  # bytes after the last branch if the sample precedes it
_BLOCKS_KEPT: Final = 1 << 16
_NO_SYMBOL: Final = (-1, -1)
_GUESSES: Final = (("predicted", b" PRED"), ("mispred", b" MISPRED"), ("in_tx", b" INTX"), ("abort", b" ABORT"))


class _Branch(NamedTuple):
    """A branch.

    Attributes:
        source, target: frames
        origin, to: their addresses
    """

    source: int
    target: int
    origin: int
    to: int
    flags: int
    counters: int = 0


class _Block(NamedTuple):
    """Consecutive instructions.

    Attributes:
        lines: of all instructions except a branch at the end
        instructions: their number
        symbol: the function of the last one
    """

    lines: bytes
    instructions: int
    symbol: tuple[int, int]


class BranchCode:
    """The formatter of one event's samples."""

    def __init__(self, event: FileEvent, context: LineContext, fields: set[str]) -> None:
        self._event = event
        self._context = context
        self._symbolizer = context.symbolizer
        self._code_at = context.code_at
        self._sizes = "brstackinsnlen" in fields
        self._words = "brstackdisasm" in fields
        self._sources = context.sources if "srcline" in fields else None
        self._counters = context.counters if "brcntr" in fields and is_counted(event) else None
        self._blocks: dict[tuple[int, int, tuple[int, int]], _Block | None] = {}
        kind = event.attr.branch_sample_type
        self._all_kinds = not kind or bool(kind & BranchSample.ANY)

    def texts(self, batch: Batch) -> list[bytes]:
        """Return the text below each sample's fields."""
        stacks = batch.columns["branch_stack"]
        counts = np.diff(stacks.offsets)
        pid, ip = column(batch, self._event, "pid"), column(batch, self._event, "ip")
        many, keys = np.repeat(pid, counts), np.repeat(batch.key, counts)
        ends = [self._frames(many, stacks.values[name], keys) for name in ("from", "to")]
        last = self._frames(pid, ip, batch.key)
        columns = [*ends, *(stacks.values[name].tolist() for name in ("from", "to", "flags"))]
        if self._counters is not None:
            columns.append(batch.columns["branch_counters"].values.tolist())
        branches = [_Branch(*parts) for parts in zip(*columns, strict=True)]
        bounds = itertools.pairwise(stacks.offsets.tolist())
        return [
            self._text(branches[begin:end], frame, address) if end > begin else b""
            for (begin, end), frame, address in zip(bounds, last, ip.tolist(), strict=True)
        ]

    def _frames(self, pid: np.ndarray, addresses: np.ndarray, keys: np.ndarray) -> list[int]:
        start = self._context.kernel_start
        modes = np.full(len(addresses), MISC_USER, np.uint8)
        if start is not None:
            modes[addresses >= np.uint64(start)] = MISC_KERNEL
        ids: list[int] = self._symbolizer.frame_ids(pid, addresses, keys, modes).tolist()
        self._symbolizer.resolve()
        return ids

    def _text(self, branches: list[_Branch], frame: int, ip: int) -> bytes:
        most = self._context.max_blocks
        if most:
            branches = branches[: most + 1]
        parts = [b"\n"]
        oldest = branches[-1]
        first = self._block(oldest.source, 0, _NO_SYMBOL)
        total, symbol = 0, _NO_SYMBOL
        if first is not None:
            total = branch_parts(oldest.flags)[0]["cycles"]
            parts += [first.lines, self._jump(oldest, 0, total)]
            symbol = first.symbol
        number = len(branches) - 2
        while number >= 0:
            before, branch = branches[number + 1], branches[number]
            if (
                number and before.to and branch.origin and not self._is_one_run(before, branch)
            ):  # an interrupt occurred between the branches
                number -= 1
                branch = branches[number]
            number -= 1
            block = None
            if self._is_one_run(before, branch):
                block = self._block(before.target, branch.origin - before.to, symbol)
            if block is None:
                continue
            symbol = block.symbol
            parts.append(block.lines)
            if block.instructions:
                total += branch_parts(branch.flags)[0]["cycles"]
                parts.append(self._jump(branch, block.instructions, total))
        parts.append(self._last(branches[0], frame, ip, symbol))
        return b"".join(parts)

    def _is_one_run(self, before: _Branch, branch: _Branch) -> bool:
        return self._is_kernel(before.to) == self._is_kernel(branch.origin)

    def _is_kernel(self, address: int) -> bool:
        return self._context.kernel_start is not None and address >= self._context.kernel_start

    def _block(self, start: int, size: int, symbol: tuple[int, int]) -> _Block | None:
        """Return the instructions from a frame to the one that begins `size` bytes later; None without code."""
        key = (start, size, symbol)
        if key not in self._blocks:
            if len(self._blocks) >= _BLOCKS_KEPT:
                self._blocks.clear()
            self._blocks[key] = self._format_block(start, size, symbol)
        return self._blocks[key]

    def _format_block(self, start: int, size: int, symbol: tuple[int, int]) -> _Block | None:
        code = self._read(start, size)
        if code is None:
            return None
        ip = int(self._symbolizer.frames.ip[start])
        parts: list[bytes] = []
        offset = instructions = 0
        while offset < len(code.content):
            label, symbol = self._label(start, offset, symbol)
            parts.append(label)
            if offset == size:
                parts.append(b"\t%016x\t%-30s\t" % (ip + offset, self._instruction(code, start, offset)))
                if self._sizes:
                    parts.append(b"ilen: %d\t" % code.size_at(offset))
                return _Block(b"".join(parts), instructions + 1, symbol)
            parts.append(self._line(code, start, offset))
            step = code.size_at(offset)
            if not step:
                break
            instructions += 1
            offset += step
        return _Block(b"".join([*parts, b"\tmismatch of LBR data and executable\n"]), 0, symbol)

    def _read(self, start: int, size: int) -> Code | None:
        frames = self._symbolizer.frames
        if not 0 <= size <= _BLOCK_MOST or not int(frames.ip[start]):
            return None
        code = self._code_at.read(int(frames.dso[start]), int(frames.address[start]), size + _BEYOND)
        return code if code.content and code.bits else None

    def _line(self, code: Code, start: int, offset: int) -> bytes:
        text = b"\t%016x\t%s" % (int(self._symbolizer.frames.ip[start]) + offset, self._instruction(code, start, offset))
        return text + (b"\tilen: %d\n" % code.size_at(offset) if self._sizes else b"\n")

    def _instruction(self, code: Code, start: int, offset: int) -> bytes:
        if not self._words:
            return code.bytes_at(offset)
        frames = self._symbolizer.frames
        return self._code_at.words(int(frames.symbol[start]), int(frames.symbol_offset[start]) + offset) or code.bytes_at(offset)

    def _symbol(self, start: int, offset: int) -> tuple[int, int]:
        """Return the symbol `offset` bytes after a frame: its dso and its row there."""
        frames = self._symbolizer.frames
        dso = int(frames.dso[start])
        _, rows = self._symbolizer.symbols_of(dso, frames.address[start : start + 1] + np.uint64(offset))
        return dso, int(rows[0])

    def _label(self, start: int, offset: int, last: tuple[int, int]) -> tuple[bytes, tuple[int, int]]:
        """Return a line if another function begins, and the function."""
        symbol = self._symbol(start, offset)
        if symbol == last or symbol[1] < 0:
            return b"", last
        frames = self._symbolizer.frames
        table, _ = self._symbolizer.symbols_of(symbol[0], frames.address[start : start + 1])
        within = int(frames.address[start]) + offset - int(table.symbols.start[symbol[1]])
        name = one_line(table.name(symbol[1])).encode("utf-8", "surrogateescape")
        source = b"\t" + self._source(start) if self._sources is not None and not offset else b""
        return b"\t%s%s:%s\n" % (name, b"+%d" % within if within else b"", source), symbol

    def _source(self, frame: int) -> bytes:
        """Return FILE:LINE of a frame."""
        assert self._sources is not None
        return one_line(self._sources.lines(np.array([frame]))[0]).encode("utf-8", "surrogateescape")

    def _jump(self, branch: _Branch, instructions: int, total: int) -> bytes:
        """Return the rest of a branch's line."""
        parts, _ = branch_parts(branch.flags)
        text = b""
        if self._sources is not None:
            text += b" srcline: %s\t" % self._source(branch.source)
        if self._counters is not None:
            text += self._counters.text(branch.counters)
        text += b"".join([b"#", *(words for name, words in _GUESSES if parts[name])])
        cycles = parts["cycles"]
        if cycles:
            text += b" %d cycles [%d]" % (cycles, total)
            text += b" %.2f IPC" % (instructions / cycles) if instructions else b""
        return text + b"\n"

    def _last(self, branch: _Branch, frame: int, ip: int, symbol: tuple[int, int]) -> bytes:
        """Return the lines from the newest branch to the sample."""
        if branch.origin == ip or branch_parts(branch.flags)[0]["abort"]:
            return b""
        size = ip - branch.to if ip >= branch.to else _SEARCHED
        code = self._read(branch.target, size) if self._is_kernel(branch.to) == self._is_kernel(branch.to + size) else None
        label = self._label(branch.target, 0, symbol)[0] if branch.target >= 0 else b""
        if code is None:
            code = self._read(frame, 0)
            return label + (self._line(code, frame, 0) if code is not None else b"")
        parts, offset = [label], 0
        while offset <= size:
            parts.append(self._line(code, branch.target, offset))
            step = code.size_at(offset)
            if not step:
                break
            if self._all_kinds and branch.to + offset != ip and code.leaves_at(offset):
                parts.append(b"\t... not reaching sample ...\n")
                break
            offset += step
        return b"".join(parts)
