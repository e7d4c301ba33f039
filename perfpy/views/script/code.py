"""The instructions between the branches of a sample: brstackinsn, brstackinsnlen, brstackdisasm.

Lines begin with the oldest branch: from its target to the next branch, and finally to the sample. Each branch's line has its flags, and,
if cycles are recorded, the instructions per cycle.
"""

from __future__ import annotations

import itertools
import string

import numpy as np

from perfpy.abi.flags import MISC_KERNEL, MISC_USER, BranchSample
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple, dataclass, field
from perfpy.untrusted.files import read_regular
from perfpy.untrusted.text import one_line, one_line_bytes
from perfpy.views.script.field_text import FrameStyle, FrameTexts, branch_counter_size, branch_flags_text, branch_parts, column, frames_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Final

    from numpy.typing import NDArray

    from perfpy.analysis.locations import SourceTexts
    from perfpy.perfdata.events import FileEvent
    from perfpy.perfdata.records.batches import Batch
    from perfpy.symbols.address_spaces import TaskTimeline
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.views.pieces import Piece


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
        source = b"\t" + self._source(start, offset) if self._sources is not None else b""
        return b"\t%s%s:%s\n" % (name, b"+%d" % within if within else b"", source), symbol

    def _source(self, frame: int, offset: int = 0) -> bytes:
        """Return FILE:LINE of the code `offset` bytes after a frame."""
        assert self._sources is not None
        return one_line(self._sources.in_files(np.array([frame]), offset)[0]).encode("utf-8", "surrogateescape")

    def _jump(self, branch: _Branch, instructions: int, total: int) -> bytes:
        """Return the rest of a branch's line."""
        parts, _ = branch_parts(branch.flags)
        text = b""
        if self._sources is not None:
            text += b" srcline: %s\t" % self._source(branch.source)
        text += b"#" if self._counters is None else self._counters.text(branch.counters)
        text += b"".join(words for name, words in _GUESSES if parts[name])
        cycles = parts["cycles"]
        if cycles:
            text += b" %d cycles [%d]" % (cycles, total)
            text += ipc_text(instructions, cycles) if instructions else b""
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


# The counts of events between two branches: brcntr.
#
# Each event has a letter, which is repeated for each count, with a + if there may have been more. The text is that of perf 7.3:
# 6.12 prints neither + nor -, and has the counts before the #.


_MOST_LETTERS: Final = 255  # a damaged file may have counters of 32 bits
_SIGNS: Final = "# '-' No event occurs\n# '+' Event occurrences may be lost due to branch counter saturated\n"


def ipc_text(instructions: int, cycles: int) -> bytes:
    """Return instructions per cycle, divided in C's float and rounded as in perf."""
    return b" %.2f IPC" % (np.float32(instructions) / np.float32(cycles))


class BranchCounters:
    """The formatter of branch counters.

    Args:
        width: bits of each number
        names: of the events, from the lowest bits
        by_name: print names and numbers (-v), which need no legend
    """

    def __init__(self, width: int, names: Sequence[str], *, by_name: bool = False) -> None:
        self._by_name = by_name
        self._width = width
        self._names = names[: len(string.ascii_uppercase)]
        self._letters = string.ascii_uppercase[: len(self._names)]

    @property
    def sizes(self) -> tuple[int, int]:
        """The number of counters, and the bits of each."""
        return len(self._letters), self._width

    def column(self, counts: Sequence[int], most: Sequence[int], *, numbers: bool = False) -> str:
        """Return the cells of a report: the letter of each counter for each count, with a + if it was as large as it can be once.

        numbers: each letter once, with the count (perf's -v, and its -q)
        """
        full, cells = (1 << self._width) - 1, []
        counters = list(zip(self._letters, counts, most, strict=True))
        if numbers:
            return ",".join(f"{letter}={count or '-'}{'+' if full and largest == full else ' '}" for letter, count, largest in counters)
        for letter, count, largest in counters:
            text = letter * min(count, _MOST_LETTERS) + ("+" if full and largest == full else "") if count else "-"
            cells.append(f"{text:<{min(full, _MOST_LETTERS) + 1}}")
        return "".join(f"|{cell}" for cell in cells) + "|"

    @property
    def legend(self) -> bytes:
        """Return the legend of the letters; b"" if there are none."""
        if self._by_name:
            return b""
        events = "".join(f"# {one_line(name)} = {letter}\n" for name, letter in zip(self._names, self._letters, strict=True))
        return f"# Branch counter abbr list:\n{events}{_SIGNS}".encode("utf-8", "surrogateescape")

    @classmethod
    def of(cls, header: Mapping[str, Any], events: Sequence[FileEvent], *, by_name: bool = False) -> BranchCounters:
        """Return the formatter for a recording."""
        return cls(min(branch_counter_size(header, "width"), 32), [event.name for event in events if is_counted(event)], by_name=by_name)

    def text(self, word: int) -> bytes:
        """Return the counts of a branch."""
        most = (1 << self._width) - 1
        numbers = [word >> index * self._width & most for index in range(len(self._letters))]
        signs = ["+" if most and number == most else "" for number in numbers]
        if self._by_name:
            words = [f"{one_line(name)} {number}{sign} " for name, number, sign in zip(self._names, numbers, signs, strict=True)]
        else:
            words = [letter * min(number, _MOST_LETTERS) + sign for letter, number, sign in zip(self._letters, numbers, signs, strict=True)]
        return f"\t# br_cntr: {''.join(words) or '-'} ".encode("utf-8", "surrogateescape")


def is_counted(event: FileEvent) -> bool:
    """Whether the CPU counts the event between branches."""
    return bool(event.attr.branch_sample_type & BranchSample.COUNTERS)


# Branch stacks of samples as text: brstack, brstacksym, brstackoff. Each branch is " FROM/TO/flags ".


class BranchTexts:
    """The formatter of one event's branch stacks; b"" if the fields do not include them."""

    def __init__(self, event: FileEvent, context: LineContext, fields: set[str]) -> None:
        self._event = event
        self._symbolizer = context.symbolizer
        self._kernel_start = context.kernel_start
        self._kind = next((name for name in ("brstack", "brstacksym", "brstackoff") if name in fields), "")
        self._with_dso = "dso" in fields
        by_symbol = self._kind == "brstacksym"
        style = FrameStyle(None, symbol=by_symbol, dso=self._with_dso, dso_offset="dsoff" in fields, kernel_path=context.kernel_path)
        self._frames = context.frame_texts(style)
        self._flags: dict[int, bytes] = {}

    def piece(self, batch: Batch) -> Piece:
        """Return the text of each sample's branches."""
        stacks = batch.columns.get("branch_stack") if self._kind else None
        if stacks is None:
            return b""
        counts = np.diff(stacks.offsets)
        ends = [self._end(batch, stacks.values[name], counts) for name in ("from", "to")]
        flags = map(self._flags_text, stacks.values["flags"].tolist())
        form = b"%s/%s%s" if self._kind == "brstacksym" else b" %s/%s%s"
        branches = [form % parts for parts in zip(*ends, flags, strict=True)]
        bounds = stacks.offsets.tolist()
        return [b"".join(branches[begin:end]) for begin, end in itertools.pairwise(bounds)]

    def _flags_text(self, word: int) -> bytes:
        text = self._flags.get(word)
        if text is None:
            text = self._flags[word] = branch_flags_text(word)
        return text

    def _end(self, batch: Batch, addresses: NDArray[np.uint64], counts: NDArray[np.int64]) -> list[bytes]:
        """Return one end of every branch."""
        is_from = self._kind != "brstacksym"
        if not is_from or self._with_dso or self._kind == "brstackoff":
            pid = np.repeat(column(batch, self._event, "pid"), counts)
            modes = np.repeat(batch.columns["cpumode"], counts)
            ids = frames_of(self._symbolizer, pid, addresses, np.repeat(batch.key, counts), modes, self._kernel_start)
            texts = self._frames.update()
            names = list(map(texts.__getitem__, ids.tolist()))
            if self._kind == "brstacksym":
                return names
            if self._kind == "brstackoff":
                addresses = self._offsets(addresses, ids)
        else:
            names = [b""] * len(addresses)
        return [b"0x%x%s" % pair for pair in zip(addresses.tolist(), names, strict=True)]

    def _offsets(self, addresses: NDArray[np.uint64], ids: NDArray[np.int32]) -> NDArray[np.uint64]:
        """Return addresses within their dsos; perf leaves addresses in dsos with loaded symbols unchanged."""
        frames = self._symbolizer.frames
        dso = frames.dso[ids]
        read = np.zeros(len(self._symbolizer.dsos) + 1, bool)
        read[frames.dso[frames.symbol >= 0]] = True
        read[-1] = True  # no dso
        kernel = np.array([*(one.kernel for one in self._symbolizer.dsos), False])
        read[kernel] = False
        within = np.where(kernel[dso], addresses - frames.map_start[ids], frames.address[ids])
        return np.where(read[dso], addresses, within)


# The code at frames: instructions as bytes, and disassembled. Empty if the file is not available.


_I386: Final = 3
_X86: Final = (_I386, 62)  # e_machine
_BAD: Final = b"<bad>"


class Code(NamedTuple):
    """A range of code.

    Attributes:
        bits: 32 or 64; 0 if perfpy cannot separate the machine's instructions
    """

    content: bytes
    bits: int

    def size_at(self, offset: int) -> int:
        """Return the length of the instruction; 0 if unknown."""
        from perfpy.disassembly.x86_lengths import LONGEST, length

        return length(self.content[offset : offset + LONGEST], bits=self.bits) if self.bits else 0

    def bytes_at(self, offset: int) -> bytes:
        """Return the instruction's bytes in perf's format."""
        size = self.size_at(offset)
        return b"insn: %s " % self.content[offset : offset + size].hex(" ").encode() if size else _BAD

    def leaves_at(self, offset: int) -> bool:
        """Whether the instruction never continues with the next one."""
        from perfpy.disassembly.x86_lengths import LONGEST, always_elsewhere

        return bool(self.bits) and always_elsewhere(self.content[offset : offset + LONGEST], bits=self.bits)


NOTHING: Final = Code(b"", 0)


class CodeAt:
    """A reader of code in one recording's dsos."""

    def __init__(self, symbolizer: Symbolizer) -> None:
        self._symbolizer = symbolizer
        self._unreadable: set[int] = set()
        self._words: dict[int, dict[int, bytes]] = {}

    def read(self, dso: int, address: int, size: int) -> Code:
        """Return the available bytes at an address, at most `size`."""
        from perfpy.disassembly.function_code import NoCodeError, bytes_at

        if dso < 0 or dso in self._unreadable:
            return NOTHING
        try:
            file, content = bytes_at(self._symbolizer, dso, address, size)
        except NoCodeError:
            if not self._symbolizer.dsos[dso].kernel:  # other parts of the kernel's memory may be readable
                self._unreadable.add(dso)
            return NOTHING
        return Code(content, (32 if file.machine == _I386 else 64) if file.machine in _X86 else 0)

    def words(self, symbol: int, offset: int) -> bytes:
        """Return a disassembled instruction of a function; b"" without a disassembler."""
        words = self._words.get(symbol)
        if words is None:
            words = self._words[symbol] = self._disassemble(symbol) if symbol >= 0 else {}
        return words.get(offset, b"")

    def _disassemble(self, symbol: int) -> dict[int, bytes]:
        from perfpy.disassembly.disassembler import (
            CodeStyle,
            Disassembler,  # few listings need it
        )
        from perfpy.disassembly.function_code import NoCodeError

        for function in Disassembler(self._symbolizer, CodeStyle(source=False)).functions([symbol]):
            if not isinstance(function, NoCodeError):
                return {
                    line.offset: one_line(line.text.strip()).encode("utf-8", "surrogateescape") for line in function.lines if line.is_code
                }
        return {}


# The instructions of samples as text: insn, insnlen and disasm, and with brstackinsn those between branches.


#: fields of the sampled instruction
OF_SAMPLE: Final = frozenset(("insn", "insnlen", "disasm"))
OF_BRANCHES: Final = frozenset(("brstackinsn", "brstackinsnlen", "brstackdisasm"))
_OF_X86: Final = ("x86_64", "i386", "i686")
_MOST: Final = 16  # the longest instruction, in bytes


class InstructionTexts:
    """The formatter of one event's instructions."""

    def __init__(self, event: FileEvent, context: LineContext, fields: set[str]) -> None:
        self._event = event
        self._context = context
        self._fields = fields & OF_SAMPLE
        self._texts: dict[int, bytes] = {}
        self._branches = None
        if fields & OF_BRANCHES:
            self._branches = BranchCode(event, context, fields)

    def piece(self, batch: Batch) -> Piece:
        """Return the text of each sample."""
        texts = self._sampled_bytes(batch) if self._fields else [b""] * len(batch)
        if self._branches is None or "branch_stack" not in batch.columns:
            return texts
        return [text + after for text, after in zip(texts, self._branches.texts(batch), strict=True)]

    def _sampled_bytes(self, batch: Batch) -> list[bytes]:
        symbolizer = self._context.symbolizer
        pid, ip = column(batch, self._event, "pid"), column(batch, self._event, "ip")
        ids = symbolizer.frame_ids(pid, ip, batch.key, batch.columns["cpumode"]).tolist()
        symbolizer.resolve()
        for frame in dict.fromkeys(ids):
            if frame not in self._texts:
                self._texts[frame] = self._text(frame)
        return [self._texts[frame] for frame in ids]

    def _text(self, frame: int) -> bytes:
        frames, code_at = self._context.symbolizer.frames, self._context.code_at
        code = code_at.read(int(frames.dso[frame]), int(frames.address[frame]), _MOST)
        size = code.size_at(0) if self._context.arch in _OF_X86 else 0  # perf knows no lengths of other machines' instructions
        text = b" ilen: %d" % size if "insnlen" in self._fields else b""
        if size and "insn" in self._fields:
            text += b" " + code.bytes_at(0).rstrip()
        if "disasm" in self._fields:
            words = code_at.words(int(frames.symbol[frame]), int(frames.symbol_offset[frame]))
            text += b"\t\t" + words if words else b""
        return text


# Branches of hardware traces: what kind they are, and the functions that they call, indented by the depth of calls.

_CALL, _RETURN, _BEGIN, _END = 1 << 1, 1 << 2, 1 << 8, 1 << 9
_DEPTH_SHIFT: Final = 32
_STATE_LETTERS: Final = ((1 << 10, ord("x")), (1 << 13, ord("D")), (1 << 14, ord("t")))  # in a transaction, interrupts off or toggled
_STATES: Final = sum(bit for bit, _ in _STATE_LETTERS)
_FLAG_LETTERS: Final = b"bcrosyiABExghDt"  # PERF_IP_FLAG_CHARS in perf's event.h
_FLAG_NAMES: Final = dict(
    zip(
        (0x3, 0x5, 0x9, 0x1, 0x43, 0x45, 0x13, 0x15, 0x21, 0x63, 0x81, 0x101, 0x201, 0x803, 0x1003),
        b"call,return,jcc,jmp,int,iret,syscall,sysret,async,hw int,tx abrt,tr strt,tr end,vmentry,vmexit".split(b","),
        strict=True,
    )
)
_DSO_WIDTH: Final = 50


def trace_flags_text(flags: int) -> bytes:
    """Return the kind of a branch, as perf prints it (perf_sample__sprintf_flags)."""
    states = bytes(letter for bit, letter in _STATE_LETTERS if flags & bit)
    state = b"(%s)" % states if states else b""
    all_flags, flags = flags, flags & ~_STATES
    for bit, form in ((0, b"%-15s%6s"), (_BEGIN, b"tr strt %-7s%6s"), (_END, b"tr end  %-7s%6s")):
        if not bit or flags & bit:
            name = _FLAG_NAMES.get(flags & ~bit)
            if name:
                return b"  %-21s " % (form % (name, state))
    letters = bytes(letter for bit, letter in enumerate(_FLAG_LETTERS) if all_flags >> bit & 1)
    return b"  %-21s " % letters


class CallIndents:
    """The formatter of functions that branches call or return from, indented by the depth of calls. Lines depend on those before."""

    def __init__(self, context: LineContext, *, has_dso: bool) -> None:
        self._symbolizer, self._has_dso, self._width = context.symbolizer, has_dso, _DSO_WIDTH if context.pads_dso else 0
        self._names = context.frame_texts(FrameStyle(None, offset=False, dso=False))
        self._dsos = context.frame_texts(FrameStyle(None, symbol=False, offset=False))
        self._spacing = 0

    def texts(self, sources: list[int], targets: list[int], weights: list[int]) -> list[bytes]:
        """Return the texts of branches. sources, targets: frames; weights: flags and depths."""
        names, dsos, frames = self._names.update(), self._dsos.update(), self._symbolizer.frames
        texts = []
        for source, target, weight in zip(sources, targets, weights, strict=True):
            depth = (weight >> _DEPTH_SHIFT) + (1 if weight & _RETURN else 0)
            frame = target if weight & (_CALL | _BEGIN) else source if weight & (_RETURN | _END) else -1
            text = b""
            if frame >= 0 and frames.symbol[frame] >= 0:
                text = b"    " * depth + names[frame]
            elif frame >= 0 and (address := int(frames.ip[frame])):
                text = b"    " * depth + b"%16x" % address
            if len(text) > self._spacing or 0 < len(text) < self._spacing - _SPARE:
                self._spacing = -(-(len(text) + 4) // _STEP) * _STEP
            dso = dsos[source].strip()[1:-1]
            if self._width:
                dso = dso[: self._width - 1].ljust(self._width)
            before = b"(%s)\t" % dso if self._has_dso else b""
            texts.append(before + text.ljust(self._spacing))
        return texts


_SPARE, _STEP = 52, 32  # columns by which the width of these texts may be too large, and by which it grows


# Source code below samples: perf script -F srccode.
#
# A sample is followed by "|LINE TEXT" unless its thread was at that line before. Paths come from debug information: only regular files
# are opened, and their number and size are bounded.


_FILE_BYTES: Final = 16 << 20
_FILES_MOST: Final = 1 << 10  # files cached


class SourceCode:
    """A reader of source lines."""

    def __init__(self, sources: SourceTexts) -> None:
        self._sources = sources
        self._files: dict[str, list[bytes]] = {}
        self._last: dict[int, tuple[str, int]] = {}
        self._lines: dict[int, tuple[str, int] | None] = {}

    def pieces(self, frames: NDArray[np.int32], tids: NDArray[np.int64]) -> list[bytes]:
        """Return the text below each sample; empty if the thread's last line was the same, or the file is missing."""
        new = [frame for frame in dict.fromkeys(frames.tolist()) if frame not in self._lines]
        self._lines.update(zip(new, self._sources.code(new), strict=True))
        return [self._piece(self._lines[frame], tid) for frame, tid in zip(frames.tolist(), tids.tolist(), strict=True)]

    def _piece(self, source: tuple[str, int] | None, tid: int) -> bytes:
        if source is None or self._last.get(tid) == source:
            return b""
        text = self._line(*source)
        if text is None:
            return b""
        self._last[tid] = source
        return b"|%-8d %s\n" % (source[1], one_line_bytes(text))

    def _line(self, path: str, line: int) -> bytes | None:
        lines = self._files.get(path)
        if lines is None:
            if len(self._files) >= _FILES_MOST:
                self._files.clear()
            lines = self._files[path] = _lines_of(path)
        return lines[line - 1] if 0 < line <= len(lines) else None


def _lines_of(path: str) -> list[bytes]:
    try:
        return read_regular(path, limit=_FILE_BYTES).split(b"\n")
    except (OSError, ValueError):
        return []


# The state that the lines of all events of a recording share: symbols, styles, texts of frames.


def no_clock(_stamp: int) -> bytes:
    """Return the tod field of a recording without a clock reference."""
    return b"disabled "


@dataclass(eq=False, repr=False)
class LineContext:
    """The state that the lines of all events share."""

    timeline: TaskTimeline
    symbolizer: Symbolizer
    arch: str = ""
    kernel_start: int | None = 1 << 63  # None: the mode alone tells kernel addresses apart
    name_width: int = 0
    ns: bool = False
    latency: bool = False
    use_callchain: bool = True
    max_stack: int = 127
    callers_first: bool = False
    kernel_path: bool = False
    flags: bool = False
    has_branch_flags: bool = False  # whether weights are flags of branches and depths of calls
    has_ipc: bool = False  # whether transactions and stream ids are instructions and cycles
    pads_dso: bool = False
    cgroups: dict[int, str] = field(default_factory=dict)
    clock: Callable[[int], bytes] = no_clock  # the time of day of a time stamp
    stop_at: frozenset[str] = frozenset()  # symbols that end a callchain
    sources: SourceTexts | None = None
    source_code: SourceCode | None = None
    counters: BranchCounters | None = None  # counts between branches
    max_blocks: int = 0  # limit of blocks between branches of one sample; 0: none
    _code_at: CodeAt | None = None
    _frame_texts: dict[tuple[FrameStyle, bytes, bytes], FrameTexts] = field(default_factory=dict)

    @property
    def code_at(self) -> CodeAt:
        """The code of the recording's dsos."""
        if self._code_at is None:
            self._code_at = CodeAt(self.symbolizer)
        return self._code_at

    def frame_texts(self, style: FrameStyle, before: bytes = b"", after: bytes = b"") -> FrameTexts:
        """Return the texts of all frames in a style; shared by all events, of which there may be thousands."""
        texts = self._frame_texts.get((style, before, after))
        if texts is None:
            texts = self._frame_texts[style, before, after] = FrameTexts(self.symbolizer, style, before, after, self.sources)
        return texts
