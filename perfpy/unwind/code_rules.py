"""Map frames to the numbers of their rules, and read mapped files as a substitute for memory that was not copied.

Code without call frame information is handled as by perf's unwinder (libunwind), if that loses nothing: in a file that has such information
for other code, a near frame pointer is accepted. For code without a file, which compilers generate at run time, libunwind gives up; here a
frame pointer is accepted if its return address is code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from perfpy.abi.columns import distinct, rows_where
from perfpy.abi.perfpy_encodings import PYTHON_MARK
from perfpy.symbols.dso import DsoKind, perf_map_pid
from perfpy.symbols.files.debug_files import KEPT
from perfpy.unwind.call_frames import CallFrames
from perfpy.unwind.rules import END, OFFSET, SIGNAL, FrameRules, RuleTable, by_frame_pointer, by_record, of_leaf, of_signal, of_stub

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from perfpy.symbols.files.debug_files import DsoFiles
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.unwind.rules import Architecture


_WITH_FILES: Final = (DsoKind.FILE, DsoKind.VDSO)
_REACH: Final = 0x4000  # libunwind's
_UNLIMITED: Final = 0
_UNNUMBERED: Final = -1
_CALL, _INDIRECT, _OPERATION, _IS_CALL = 0xE8, 0xFF, 0x38, 0x10
_SIZES_OF_CALLS: Final = (2, 3, 4, 6, 7)


class RuntimeCode(Protocol):
    """Rules of code that processes generated (perfpy.capture.runtimes.hotspot)."""

    def rules(self, pid: int, addresses: Sequence[int]) -> list[FrameRules | None]:
        """Return the rules at addresses of a process's code, or None for unknown code."""


class CodeRules:
    """The rules of all code that a symbolizer's frames are in. runtime_code: has rules of code without a file."""

    def __init__(self, architecture: Architecture, symbolizer: Symbolizer, runtime_code: RuntimeCode | None = None) -> None:
        self._runtime_code = runtime_code
        self._architecture = architecture
        self.table = RuleTable(architecture)
        self._symbolizer = symbolizer
        self._files: dict[int, CallFrames | None] = {}
        self._numbers: dict[int, NDArray[np.int32]] = {}  # dso -> the numbers of its rules, by their rows in the file
        self._of_frame = np.zeros(0, np.int32)
        self._far = self._number(by_frame_pointer(architecture, _UNLIMITED))
        is_near = architecture.frame is not None and architecture.frame.is_near
        self._near = self._number(by_frame_pointer(architecture, _REACH)) if is_near else self._far
        self._leaf = self._number(of_leaf(architecture))
        self._signal = self._number(of_signal(architecture))
        self._by_record: dict[int, int] = {}
        self._stub = self._number(of_stub(architecture))
        self._trampoline = self._number(of_trampoline(architecture))

    def _number(self, rules: Any) -> int:
        return END if rules is None else self.table.number(rules)

    def of_frames(self, ids: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the number of each frame's rules."""
        first_new, count = len(self._of_frame), len(self._symbolizer.frames)
        if first_new < count:
            dso, address = self._symbolizer.frames.dso[first_new:], self._symbolizer.frames.address[first_new:]
            numbers = np.full(len(dso), END, np.int32)
            for one in distinct(dso[dso >= 0]).tolist():
                rows = rows_where(dso == one)
                numbers[rows] = self._in_file(one, address[rows])
            self._of_frame = np.concatenate([self._of_frame, numbers])
            self.table.update()
        return self._of_frame[ids]

    def of_callers(self, ids: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the numbers for frames that are not innermost: a caller in the vdso is a signal handler's return."""
        rules = self.of_frames(ids)
        if self._signal != END:
            dso = self._symbolizer.frames.dso[ids]
            for one in distinct(dso[dso >= 0]).tolist():
                if self._symbolizer.dsos[one].kind is DsoKind.VDSO:
                    rules = np.where(dso == one, self._signal, rules).astype(np.int32)
        return rules

    def are_trampolines(self, ids: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return which frames that are not innermost are in signal trampolines."""
        rules = self.of_callers(ids)
        if not self.table.has_signals:
            return np.zeros(len(ids), np.bool_)
        self.table.update()
        trampolines: NDArray[np.bool_] = self.table.flags[rules] & SIGNAL != 0
        return trampolines

    def of_leaves(self, ids: NDArray[np.int32], rules: NDArray[np.int32], callers: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the rules of innermost frames. In code without information, a link register that leads into another function is accepted.

        After a call by the function itself, the link register leads back into the function.
        """
        self._symbolizer.resolve()
        dso, symbol = self._symbolizer.frames.dso, self._symbolizer.frames.symbol
        has_symbols = (dso[callers] >= 0) & (symbol[ids] >= 0) & (symbol[callers] >= 0)
        elsewhere = has_symbols & (symbol[ids] != symbol[callers])
        leaf_rules: NDArray[np.int32] = np.where(elsewhere, self._leaf, rules).astype(np.int32)
        return leaf_rules

    def of_records(self, rules: NDArray[np.int32]) -> NDArray[np.int32]:
        """Return the rules to use if the frame pointer is known but the stack pointer is not."""
        for one in distinct(rules).tolist():
            if one not in self._by_record:
                recorded = by_record(self.table.rules[one], self._architecture) if one != END else None
                self._by_record[one] = self._far if recorded is None else self.table.number(recorded)
        self.table.update()
        return np.array([self._by_record[one] for one in rules.tolist()], np.int32)

    def is_code(self, ids: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return which frames are in mapped ranges."""
        mapped: NDArray[np.bool_] = self._symbolizer.frames.dso[ids] >= 0
        return mapped

    def _in_file(self, dso: int, offsets: NDArray[np.uint64]) -> NDArray[np.int32]:
        frames = self._call_frames(dso)
        if frames is None:
            kind = self._symbolizer.dsos[dso].kind
            silent = self._stub if kind is DsoKind.VSYSCALL else END if kind in (DsoKind.FILE, DsoKind.VDSO) else self._far
            numbers = np.full(len(offsets), silent, np.int32)
            trampolines, evaluator = in_trampolines(self._symbolizer, dso, offsets)
            numbers[evaluator] = self._stub
            if self._trampoline != END:
                numbers[trampolines] = self._trampoline
            pid = perf_map_pid(self._symbolizer.dsos[dso].name)
            if self._runtime_code is not None and pid is not None:
                for row, rules in enumerate(self._runtime_code.rules(pid, offsets.tolist())):
                    if rules is not None:
                        numbers[row] = self.table.number(rules)
            return numbers
        rows = frames.find(offsets)
        numbers, has_rule = self._numbers[dso], rows >= 0
        if len(numbers) < len(frames.rules):
            numbers = self._numbers[dso] = np.concatenate([numbers, np.full(len(frames.rules) - len(numbers), _UNNUMBERED, np.int32)])
        fresh = distinct(rows[has_rule & (numbers[rows] == _UNNUMBERED)])
        numbers[fresh] = [self.table.number(frames.rules[row]) for row in fresh.tolist()]
        if has_rule.all():
            return numbers[rows]
        return np.where(has_rule, numbers[rows], np.where(frames.is_stub(offsets), self._stub, self._near)).astype(np.int32)

    def _call_frames(self, dso: int) -> CallFrames | None:
        """Return the call frame information of a dso, or None without a file."""
        if dso not in self._files:
            self._files[dso] = self._open(dso)
            self._numbers[dso] = np.full(1, _UNNUMBERED, np.int32)
        return self._files[dso]

    def _open(self, dso: int) -> CallFrames | None:
        if self._symbolizer.dsos[dso].kind not in _WITH_FILES:
            return None
        files = self._symbolizer.files(dso)
        frames = files.once(_call_frames)
        if frames is not None and self._symbolizer.caches and files.origin != KEPT:
            frames.keep()
        return frames

    def words(self, ids: NDArray[np.int32], word: int) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """Read the words at the frames' addresses in their files; also return which exist."""
        dso, offset = self._symbolizer.frames.dso[ids], self._symbolizer.frames.address[ids]
        values, is_readable = np.zeros(len(ids), np.uint64), np.zeros(len(ids), bool)
        for one in distinct(dso[dso >= 0]).tolist():
            frames = self._call_frames(one)
            if frames is not None:
                rows = rows_where(dso == one)
                values[rows], is_readable[rows] = frames.words(offset[rows], word)
        return values, is_readable

    def end_with_calls(self, ids: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Return which frames have a call of x86-64 in their last bytes: the 8 from their address on, in a file."""
        words, is_known = self.words(ids, 8)
        ends: NDArray[np.bool_] = np.array([_ends_with_call(word.to_bytes(8, "little")) for word in words.tolist()], bool) & is_known
        return ends


def _ends_with_call(code: bytes) -> bool:
    """Whether code ends with a direct call, or with one by a register or a pointer (opcode ff /2) of any length without segments."""
    return code[3] == _CALL or any(code[-size] == _INDIRECT and code[1 - size] & _OPERATION == _IS_CALL for size in _SIZES_OF_CALLS)


def _call_frames(files: DsoFiles) -> CallFrames | None:
    runtime = files.runtime or files.original
    return CallFrames(runtime, files.symbols) if runtime is not None else None


_EVALUATOR: Final = "perfpy::evaluate"  # capture/runtimes/evaluator.c: it jumps to the trampolines
_SIZES: Final = (11, 15)
_X86_64_STACK: Final = (7, 16)  # DWARF number of the stack pointer; the trampoline's 8 bytes and its return address


def of_trampoline(architecture: Architecture) -> FrameRules | None:
    """Return the rules of these trampolines during calls, or None for architectures whose trampolines have a frame pointer."""
    if architecture.word != 8 or architecture.stack_pointer != _X86_64_STACK[0] or architecture.return_column != 16:
        return None
    return FrameRules(_X86_64_STACK, ((architecture.return_column, (OFFSET, -8)),), architecture.return_column)


def in_trampolines(symbolizer: Symbolizer, dso: int, addresses: NDArray[np.uint64]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which addresses of a dso are in such trampolines, and which in perfpy's evaluator, which pushes nothing."""
    if symbolizer.dsos[dso].kind is not DsoKind.JIT:
        return np.zeros(len(addresses), bool), np.zeros(len(addresses), bool)
    table, row = symbolizer.symbols_of(dso, addresses)
    if bool((row < 0).any()) and symbolizer.has_grown(dso):
        table, row = symbolizer.symbols_of(dso, addresses)
    mask = row >= 0
    size = table.symbols.end[row[mask]] - table.symbols.start[row[mask]]
    small = mask.copy()
    small[mask] = np.isin(size, _SIZES)
    python = [one for one in distinct(row[small]).tolist() if table.name(one).startswith(PYTHON_MARK)]
    ours = [one for one in distinct(row[mask & ~small]).tolist() if table.name(one) == _EVALUATOR]
    return small & np.isin(row, python), mask & np.isin(row, ours)
