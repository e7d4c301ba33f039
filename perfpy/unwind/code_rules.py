"""Frames -> the numbers of their rules.

What enters: ids of frames of a Symbolizer. What leaves: for each the number of its rules in a RuleTable; and words of
the files that are mapped at addresses, which stand for memory that was not copied. What perf's unwinder (libunwind)
does where code says nothing of itself is kept where it loses nothing: in a file with call frame information for other
code a near frame pointer is believed. In code that no file has, as compilers make it while a program runs, libunwind
gives up; here a frame pointer is believed if its return address is code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.columns import distinct
from perfpy.symbols.dso import DsoKind
from perfpy.unwind.call_frames import CallFrames
from perfpy.unwind.rules import END, RuleTable, by_frame_pointer, of_stub

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.unwind.architectures import Architecture

_WITH_FILES: Final = (DsoKind.FILE, DsoKind.VDSO)
_REACH: Final = 0x4000  # libunwind's
_UNLIMITED: Final = 0


class CodeRules:
    """The rules of all code that frames of a symbolizer lie in."""

    def __init__(self, architecture: Architecture, symbolizer: Symbolizer) -> None:
        self.table = RuleTable(architecture)
        self._symbolizer = symbolizer
        self._files: dict[int, CallFrames | None] = {}
        self._of_frame = np.zeros(0, np.int32)
        self._near = self._number(by_frame_pointer(architecture, _REACH))
        self._far = self._number(by_frame_pointer(architecture, _UNLIMITED))
        self._stub = self._number(of_stub(architecture))

    def _number(self, rules: Any) -> int:
        return END if rules is None else self.table.number(rules)

    def of_frames(self, ids: NDArray[np.int32]) -> NDArray[np.int32]:
        """The number of each frame's rules."""
        done, count = len(self._of_frame), len(self._symbolizer.frames)
        if done < count:
            self._of_frame = np.concatenate([self._of_frame, self._found(done)])
            self.table.update()
        return self._of_frame[ids]

    def is_code(self, ids: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Whether anything is mapped where the frames are."""
        mapped: NDArray[np.bool_] = self._symbolizer.frames.dso[ids] >= 0
        return mapped

    def _found(self, done: int) -> NDArray[np.int32]:
        """The numbers of the frames from one on."""
        dso, address = self._symbolizer.frames.dso[done:], self._symbolizer.frames.address[done:]
        numbers = np.full(len(dso), END, np.int32)
        for one in distinct(dso[dso >= 0]).tolist():
            rows = np.flatnonzero(dso == one)
            numbers[rows] = self._in_file(one, address[rows])
        return numbers

    def _in_file(self, dso: int, offsets: NDArray[np.uint64]) -> NDArray[np.int32]:
        frames = self._call_frames(dso)
        if frames is None:
            return np.full(len(offsets), self._without_file(self._symbolizer.dsos[dso].kind), np.int32)
        different, which = np.unique(offsets, return_inverse=True)  # many processes have the same code
        numbers = np.array([-1 if one is None else self.table.number(one) for one in frames.find(different)], np.int32)
        silent = np.where(frames.is_stub(different), self._stub, self._near)
        return np.where(numbers >= 0, numbers, silent)[which]

    def _without_file(self, kind: DsoKind) -> int:
        """The rules of code for which there is no file; of a file that is not here nothing is known."""
        if kind is DsoKind.VSYSCALL:
            return self._stub
        return END if kind in _WITH_FILES else self._far

    def _call_frames(self, dso: int) -> CallFrames | None:
        """The call frame information of a dso; None where it has no file."""
        if dso not in self._files:
            self._files[dso] = self._opened(dso)
        return self._files[dso]

    def _opened(self, dso: int) -> CallFrames | None:
        if self._symbolizer.dsos[dso].kind not in _WITH_FILES:
            return None
        found = self._symbolizer.files(dso)
        runtime = found.runtime or found.original
        return None if runtime is None else CallFrames(runtime, found.symbols)

    def words(self, ids: NDArray[np.int32], word: int) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """The words that files have where the frames are, and whether they have any."""
        dso, offset = self._symbolizer.frames.dso[ids], self._symbolizer.frames.address[ids]
        values, known = np.zeros(len(ids), np.uint64), np.zeros(len(ids), bool)
        for one in distinct(dso[dso >= 0]).tolist():
            frames = self._call_frames(one)
            if frames is not None:
                rows = np.flatnonzero(dso == one)
                values[rows], known[rows] = frames.words(offset[rows], word)
        return values, known
