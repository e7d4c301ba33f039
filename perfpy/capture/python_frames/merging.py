"""Merge Python frames into one callchain, and grade the result.

The state of an evaluation loop dates from the sample and is exact: it names the loop's innermost Python frame and its instruction. Frames
in memory were read a moment later, and are accepted as callers only if they match:

- the frame of the loop is among them with the same code; or
- one ends exactly where the loop's frame begins, and has called this function before. Its line may have changed and stays open; or
- the loop's frame had the same code at another reading, always with the same caller (seen_callers).

If nothing matches, the loop has one frame. A loop whose state is unknown has the frames that existed both before and after the sample.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from perfpy.abi.light_types import NamedTuple
from perfpy.interpreters.frames import MOST_FRAMES
from perfpy.unwind.rules import OFFSET, REGISTER

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from perfpy.capture.python_frames.answers import FoundCode, ReadFrame
    from perfpy.unwind.rules import FrameRules


#: Grades of a sample, best first: everything dates from the sample or matches it; some callers or their lines are from other readings; the
#: lines of some callers are open; matched by the number of calls from C alone; callers are missing; no frame is known.
EXACT, SEEN, OPEN_LINES, UNPROVEN, PARTIAL, UNKNOWN = range(6)

_READ: Final = 0  # the end of frames by seen callers: a frame that was read

#: (number of the code object, offset of the instruction or None)
Frame = tuple[int, int | None]


class MergedFrames(NamedTuple):
    """The Python frames of each loop, innermost first, and the worst grade among them."""

    loops: list[list[Frame]]
    grade: int


def merge(
    loops: Sequence[Evaluated | None],
    read: Sequence[ReadFrame],
    codes: dict[int, FoundCode],
    *,
    ended_frames: Sequence[ReadFrame] = (),
    seen_callers: SeenCallers | None = None,
    before: Mapping[tuple[int, int], int] | None = None,
    is_cut: bool,
    is_whole: bool = False,
) -> MergedFrames:
    """Return the Python frames of each loop.

    Args:
        loops: the states of the loops, innermost first.
        read: the frames in memory, innermost first.
        ended_frames: frames that ended before the reading (ThreadFrames.left), the last called first.
        seen_callers: the callers of the thread.
        before: the frames (address, code) of the previous reading -> offset; None if there was none.
        is_cut: the native chain may lack outer frames.
        is_whole: `read` ends with the thread's first frame.
    """
    ended = [_ReadOrLeft(*frame, is_left=True) for frame in ended_frames]
    segments = _segments([*ended, *(_ReadOrLeft(*frame, is_left=False) for frame in read)])
    first = _alignment(loops, segments, is_cut=is_cut)
    fits = len(segments) - sum(segment[-1].is_left for segment in segments) == len(loops) or (is_cut and first >= 0)
    loop_frames, grade, sure_of_outermost = list[list[Frame]](), EXACT, EXACT
    has_read_frame = True  # whether a frame of the outermost loop was read
    has_other_frames = False  # whether frames that were read do not belong to a loop
    addresses = {(frame.address, frame.code) for segment in segments for frame in segment}
    others = _first_other(loops, segments, first, codes)
    for number, loop in enumerate(loops):
        segment = segments[first + number] if 0 <= first + number < len(segments) else []
        end = NOBODY
        frames, sure = _frames_of(loop, segment, codes) if loop else _lasting_frames(segment, before, fits=fits)
        if loop and is_whole and 0 <= len(segments) - first <= number and not any((one, loop.code) in addresses for one in loop.frames):
            loop_frames.append([])  # the stack of another greenlet, on which this one was started
            continue
        if number < others and loop and sure < PARTIAL:
            frames, sure = [(loop.code, loop.offset)], PARTIAL  # a later call of the same function has its frame
        has_read_frame = sure < PARTIAL
        has_other_frames |= loop is not None and bool(segment) and not has_read_frame
        if loop and seen_callers and OPEN_LINES <= sure <= PARTIAL:
            frames, sure, end = _with_seen_callers(loop, segment, frames, sure, seen_callers)
            has_read_frame = end == _READ
        loop_frames.append(frames)
        grade, sure_of_outermost = max(grade, sure), PARTIAL if loop is None else sure
        if end == OUTERMOST:  # outer loops are those of another greenlet, on whose stack this one was started
            return MergedFrames([*loop_frames, *([] for _ in loops[number + 1 :])], grade)
    if has_other_frames and not all(loops):  # the thread may run another greenlet by now
        loop_frames = [frames if loop else [] for loop, frames in zip(loops, loop_frames, strict=True)]
        grade = max(grade, PARTIAL)
    if is_cut and loops and not has_read_frame:
        return MergedFrames(loop_frames, max(grade, PARTIAL))  # as above: it has other callers
    if is_cut and loops and min(grade, sure_of_outermost) < PARTIAL:
        for segment in segments[first + len(loops) :]:
            loop_frames[-1] += [(frame.code, frame.offset) for frame in segment]
    return MergedFrames(loop_frames, grade)


def _first_other(loops: Sequence[Evaluated | None], segments: list[list[_ReadOrLeft]], first: int, codes: dict[int, FoundCode]) -> int:
    """Return the outermost loop that had another frame when memory was read: all calls within it have ended; 0 for none."""
    for number in range(len(loops) - 1, 0, -1):
        loop, segment = loops[number], segments[first + number] if 0 <= first + number < len(segments) else []
        if loop and segment and _frames_of(loop, segment, codes)[1] == PARTIAL:
            return number
    return 0


def of_old_versions(loops: Sequence[Evaluated | None], read: Sequence[ReadFrame], *, is_cut: bool) -> MergedFrames:
    """Return the frames of versions before 3.11, in which each loop runs the one frame that it names."""
    shift = 0 if len(read) == len(loops) else _shift(loops, read) if is_cut else None
    loop_frames: list[list[Frame]] = []
    grade = EXACT
    for number, loop in enumerate(loops):
        row = -1 if shift is None else number + shift
        if loop is not None:
            loop_frames.append([(loop.code, loop.offset)])
        elif 0 <= row < len(read):
            loop_frames.append([(read[row][1], read[row][2])])
            grade = max(grade, UNPROVEN)
        else:
            loop_frames.append([])
            grade = PARTIAL if any(loops) else UNKNOWN
    if is_cut and loops and shift is not None:
        loop_frames[-1] += [(code, offset) for _, code, offset, _ in read[len(loops) + shift :]]
    elif is_cut and any(loops):
        grade = max(grade, PARTIAL)
    return MergedFrames(loop_frames, grade)


def _shift(loops: Sequence[Evaluated | None], read: Sequence[ReadFrame]) -> int | None:
    """Return which of the frames that were read is that of the innermost loop of a truncated chain; None if that is uncertain.

    Functions that are not recursive tell it, if those around them are the same. Those of recursion take frames of earlier calls, each
    another one: the outermost loop must not be among them, unless it still has its frame.
    """
    counts = Counter(code for _, code, *_ in read)
    rows = {code: row for row, (_, code, *_) in enumerate(read) if counts[code] == 1}
    shifts = {rows[loop.code] - number: number for number, loop in reversed([*enumerate(loops)]) if loop and loop.code in rows}
    last = loops[-1] if loops else None
    for shift, first in sorted(shifts.items(), key=lambda one: one[1]):
        outer = [(number + shift, loop.code) for number, loop in enumerate(loops) if loop and number >= first]
        if last and all(0 <= row < len(read) and read[row][1] == code for row, code in outer):
            return shift if last.code in rows or read[len(loops) - 1 + shift][0] in last.frames else None
    return None


def of_copied_frames(loops: int, read: Sequence[ReadFrame]) -> MergedFrames:
    """Return the frames of each loop, from frames that were copied at the moment of the sample.

    Args:
        loops: the number of evaluation loops in the native chain.
        read: the frames, innermost first.
    """
    segments: list[list[Frame]] = [[]]
    for frame in read:
        segments[-1].append((frame[1], frame[2]))
        if frame[3]:
            segments.append([])
    if not segments[-1]:
        segments.pop()
    missing = loops - len(segments)
    if missing < 0:  # the native chain is truncated: the last loop in it gets the callers that it lacks
        outer = [frame for segment in segments[loops - 1 :] for frame in segment]
        return MergedFrames([*segments[: loops - 1], outer], EXACT)
    # a loop that begins or ends has no frame
    return MergedFrames([*([[]] * missing), *segments], EXACT if segments else UNKNOWN)


class _ReadOrLeft(NamedTuple):
    """A frame that was read. is_left: it had ended by then."""

    address: int
    code: int
    offset: int
    is_entry: bool
    is_left: bool


def _segments(read: Sequence[_ReadOrLeft]) -> list[list[_ReadOrLeft]]:
    """Return the frames of each call of the evaluation loop."""
    segments: list[list[_ReadOrLeft]] = []
    current: list[_ReadOrLeft] = []
    for frame in read:
        current.append(frame)
        if frame.is_entry:
            segments.append(current)
            current = []
    return [*segments, current] if current else segments


def _alignment(loops: Sequence[Evaluated | None], segments: list[list[_ReadOrLeft]], *, is_cut: bool) -> int:
    """Return the segment of the innermost loop: by a loop's own frame, else by the outer ends of both chains, which change least."""
    for number, loop in enumerate(loops):
        for row, segment in enumerate(segments) if loop else ():
            if loop and any(frame.address in loop.frames and frame.code == loop.code for frame in segment):
                return row - number
    return sum(segment[-1].is_left for segment in segments) if is_cut else len(segments) - len(loops)


def _lasting_frames(segment: list[_ReadOrLeft], before: Mapping[tuple[int, int], int] | None, *, fits: bool) -> tuple[list[Frame], int]:
    """Return the frames of a loop without a state: those that existed before the sample, too."""
    if not fits:
        return [], UNKNOWN
    frames: list[Frame] = []
    for frame in reversed([frame for frame in segment if not frame.is_left]):
        offset = frame.offset if before is None else before.get((frame.address, frame.code))
        if offset is None:
            break
        frames.append((frame.code, offset if offset == frame.offset else None))
    return frames[::-1], UNPROVEN if frames else UNKNOWN


def _frames_of(loop: Evaluated, segment: list[_ReadOrLeft], codes: dict[int, FoundCode]) -> tuple[list[Frame], int]:
    own: Frame = (loop.code, loop.offset)
    live = sum(frame.is_left for frame in segment)  # the first frame that has not ended
    for row, frame in enumerate(segment):
        # With a full value stack, the pointer to its top equals the address of a called frame.
        is_end = row == live and frame.address + codes[frame.code].frame_size in loop.frames
        if frame.code == loop.code and (frame.address in loop.frames or not loop.frames or is_end):
            return [own, *_callers(segment, row + 1, is_open=frame.is_left)], OPEN_LINES if frame.is_left else EXACT
    for row, frame in enumerate(segment):
        size = codes[frame.code].frame_size
        if size and frame.address + size in loop.frames:
            return [own, *_callers(segment, row, is_open=True)], OPEN_LINES
    return [own], PARTIAL


def _callers(segment: list[_ReadOrLeft], first: int, *, is_open: bool) -> list[Frame]:
    """Return the frames from a row on. is_open: the first has executed further, so its line is unknown, like that of frames that ended."""
    frames: list[Frame] = []
    for frame in segment[first:]:
        frames.append((frame.code, None if is_open else frame.offset))
        is_open = frame.is_left
    return frames


def _with_seen_callers(
    loop: Evaluated, segment: list[_ReadOrLeft], frames: list[Frame], sure: int, seen_callers: SeenCallers
) -> tuple[list[Frame], int, int]:
    """Return the frames of a loop, completed by the callers at other readings, their grade, and their end as in _by_seen_callers()."""
    if sure == OPEN_LINES:
        if all(seen_callers.calls.has(caller, callee) for (callee, _), (caller, _) in pairwise(frames)):
            return *_with_seen_line(loop, frames, seen_callers), _READ
        frames, sure = frames[:1], PARTIAL  # a frame of another call has taken the caller's place
    return _by_seen_callers(loop, segment, seen_callers) if sure == PARTIAL else (frames, sure, _READ)


def _by_seen_callers(loop: Evaluated, segment: list[_ReadOrLeft], seen_callers: SeenCallers) -> tuple[list[Frame], int, int]:
    """Return the frames of a loop by the callers at other readings, up to the first frame that was read, their grade, and their end:
    a frame that was read (_READ), the first one of a stack (OUTERMOST), or NOBODY.
    """
    frames: list[Frame] = [(loop.code, loop.offset)]
    caller = next((caller for pointer in loop.pointers if (caller := seen_callers.caller(pointer, loop.code))), None)
    rows = {(frame.address, frame.code): row for row, frame in enumerate(segment) if not frame.is_left}
    while caller is not None and len(frames) < MOST_FRAMES:
        if caller.code in (NOBODY, OUTERMOST):
            return frames, _grade(frames), caller.code
        frames.append((caller.code, caller.offset))
        row = rows.get((caller.address, caller.code))
        if row is not None:
            frames += _callers(segment, row + 1, is_open=False)
            return frames, _grade(frames), _READ
        caller = seen_callers.caller(caller.address, caller.code)
    return frames, PARTIAL, NOBODY


def _with_seen_line(loop: Evaluated, frames: list[Frame], seen_callers: SeenCallers) -> tuple[list[Frame], int]:
    """Return the frames with the line of the loop's caller, if it has always called from there."""
    caller = next((caller for pointer in loop.pointers if (caller := seen_callers.caller(pointer, loop.code))), None)
    if caller and len(frames) > 1 and frames[1] == (caller.code, None):
        frames = [frames[0], (caller.code, caller.offset), *frames[2:]]
    return frames, _grade(frames)


def _grade(frames: list[Frame]) -> int:
    return OPEN_LINES if any(offset is None for _, offset in frames) else SEEN


# The Python frame and instruction that an evaluation loop's native frame refers to. The registers and stack words of the native frame
# date from the sample; code objects and Python frames were read from memory a moment later. The register or slot of each variable depends
# on the build and on the instruction. Values are therefore identified by their target: the instructions of a code object, or a frame. The
# instruction pointer points past the current instruction.

_STACK_POINTER: Final = 7
_UNIT: Final = 2
_MOST_EQUAL: Final = 16  # code objects that share instructions
NO_FRAME: Final = -1  #: instead of a code object's number: the end of a frame, where a called frame would begin


class Evaluated(NamedTuple):
    """The state of an evaluation loop.

    Attributes:
        code: the number of the code object.
        offset: of the instruction, in bytes.
        frames: the possible addresses of the Python frame.
        pointers: all values of the registers, then of the stack words.
    """

    code: int
    offset: int
    frames: frozenset[int]
    pointers: Sequence[int] = ()


class CodeRanges:
    """The code objects of one process by the addresses of their instructions.

    Several code objects can share instructions: CPython 3.10 stores those of equal functions of a module once. Of other overlapping code
    objects the newest wins.
    """

    def __init__(self) -> None:
        self.codes: dict[int, FoundCode] = {}
        self.memory = 0  # bytes of the code objects
        self._begins: list[int] = []
        self._by_begin: dict[int, list[FoundCode]] = {}
        self.low, self.high = 1 << 64, 0

    def add(self, code: FoundCode) -> None:
        """Add a code object."""
        self.codes[code.number] = code
        self.memory += code.memory
        before = self._by_begin.get(code.begin)
        if before is None:
            insort(self._begins, code.begin)
        others = [one for one in before or () if one.address != code.address and one.end == code.end]
        self._by_begin[code.begin] = [*others[1 - _MOST_EQUAL :], code]
        self.low, self.high = min(self.low, code.begin), max(self.high, code.end)

    def find(self, value: int) -> Sequence[FoundCode]:
        """Return the code objects whose instructions a pointer can have just passed."""
        if not self.low < value <= self.high:
            return ()
        row = bisect_right(self._begins, value - 1) - 1
        if row < 0:
            return ()
        codes = self._by_begin[self._begins[row]]
        return codes if codes[0].begin < value <= codes[0].end else ()


def evaluate(state: FrameState, ranges: CodeRanges, frames: dict[int, int], slots: HomeSlots) -> Evaluated | None:
    """Return the state of an evaluation loop; None if it is unknown or ambiguous.

    Args:
        state: the loop's native frame.
        ranges: the code objects of the process.
        frames: possible addresses of frames -> number of the code object at the reading, or NO_FRAME.
        slots: the stack words that held the instruction pointer before (note_slots).
    """
    registers = [value for number, value in state.registers.items() if number != _STACK_POINTER]
    home = slots.home()  # of the instruction pointer; while it is unknown, any word may be that
    words = state.words if home is None else state.words[home : home + 1]
    for values, candidates in ((registers, registers), (state.words, words)):
        if offsets := _furthest_offsets(candidates, ranges):
            pointed = _frames_in(registers, frames) or _frames_in(values, frames)
            pointers = (*registers, *state.words)
            code = _select_code(offsets, {frames[one] for one in pointed}, pointers, ranges)
            return None if code is None else Evaluated(code, offsets[code], pointed, pointers)
    return None


def note_slots(state: FrameState, ranges: CodeRanges, frames: dict[int, int], slots: HomeSlots) -> None:
    """Count which stack words of a loop's frame point to instructions."""
    words = ((number, value, ranges.find(value)) for number, value in enumerate(state.words))
    pointers = [(number, value, [code.number for code in codes]) for number, value, codes in words if codes]
    if pointers:
        registers = [value for number, value in state.registers.items() if number != _STACK_POINTER]
        slots.note(pointers, {frames[one] for one in _frames_in(registers, frames) or _frames_in(state.words, frames)})


def _frames_in(values: Iterable[int], frames: dict[int, int]) -> frozenset[int]:
    """Return the frames that values point to. The ends of frames count only if no value points to a frame."""
    pointed = frozenset(value for value in values if value in frames)
    return frozenset(value for value in pointed if frames[value] != NO_FRAME) or pointed


def _furthest_offsets(values: Iterable[int], ranges: CodeRanges) -> dict[int, int]:
    """Return the furthest offset in each code object that values point into."""
    offsets: dict[int, int] = {}
    for value in values:
        for code in ranges.find(value):
            if not (value - code.begin) & 1:
                offset = value - code.begin - _UNIT
                offsets[code.number] = max(offsets.get(code.number, 0), offset)
    return offsets


def _select_code(offsets: dict[int, int], read: set[int], values: Sequence[int], ranges: CodeRanges) -> int | None:
    """Return the code object of the loop: the only candidate, or the only one with a frame in memory or a pointer to it."""
    if len(offsets) == 1:
        return next(iter(offsets))
    candidates = [code for code in offsets if code in read] or [code for code in offsets if ranges.codes[code].address in values]
    return candidates[0] if len(candidates) == 1 else None


# The stack slot in which a build's evaluation loop saves its instruction pointer during calls. Compilers give a variable one home on the
# stack; other words hold stale values. The home is learnt from samples: it has more distinct values than any other word, and agrees more
# often with the frames in memory.

_MOST_VALUES: Final = 1 << 12  # counted for each word
_MARGIN: Final = 2  # a home's score is at least this multiple of any other word's
_ENOUGH: Final = 8  # the least score of a home


class HomeSlots:
    """The stack words of one build's loop that have pointed to instructions."""

    def __init__(self) -> None:
        self._values: dict[int, set[int]] = {}
        self._agreed: dict[int, int] = {}
        self._home: int | None = None
        self._is_new = False

    def note(self, pointers: Iterable[tuple[int, int, Collection[int]]], read: Collection[int]) -> None:
        """Add the pointers of one frame.

        Args:
            pointers: word number, value, and the code objects that the value can mean.
            read: the code objects of the loop's frames in memory.
        """
        for word, value, codes in pointers:
            values = self._values.setdefault(word, set())
            if len(values) < _MOST_VALUES:
                values.add(value)
            if any(code in read for code in codes):
                self._agreed[word] = self._agreed.get(word, 0) + 1
        self._is_new = True

    def home(self) -> int | None:
        """Return the number of the home word; None if no word stands out."""
        if self._is_new:
            self._is_new = False
            scores = sorted((len(values) * self._agreed.get(word, 0), word) for word, values in self._values.items())
            best, others = scores[-1:], scores[-2:-1]
            self._home = best[0][1] if best and best[0][0] >= max(_ENOUGH, *(_MARGIN * score for score, _ in others), 0) else None
        return self._home


# The registers of each frame of a callchain, as far as call frame information tells where callees saved them. The stepper of
# perfpy.unwind follows only the registers that locate frames, for all samples together. The evaluation loop keeps its frame and its
# instruction pointer in other registers; this module follows them up to the loop's frames.

STACK_POINTER: Final = 7  #: by DWARF's numbers of x86-64: rax rdx rcx rbx rsi rdi rbp rsp r8 ... r15
#: perf's register numbers (perf_regs.h: ax bx cx dx si di bp sp ip flags cs ss ds es fs gs r8 ... r15) -> DWARF's
FROM_PERF: Final = {0: 0, 1: 3, 2: 2, 3: 1, 4: 4, 5: 5, 6: 6, 7: 7, **{16 + number: 8 + number for number in range(8)}}
_PRESERVED: Final = (3, 6, 12, 13, 14, 15)  # callee-saved: rbx, rbp, r12 to r15


class FrameState(NamedTuple):
    """One native frame: its registers by DWARF's numbers, and the words of its stack range, lowest address first."""

    registers: dict[int, int]
    words: Sequence[int]


class StackCopy:
    """The copied stack of a sample."""

    def __init__(self, words: NDArray[np.uint64], begin: int) -> None:
        self._words = words
        self._begin = begin

    def word(self, address: int) -> int | None:
        """Return the word at an address; None if it was not copied."""
        row = (address - self._begin) >> 3
        return int(self._words[row]) if 0 <= row < len(self._words) and not (address - self._begin) & 7 else None

    def words(self, begin: int, end: int) -> list[int]:
        """Return the copied words of a range."""
        first = max((begin - self._begin) >> 3, 0)
        words: list[int] = self._words[first : max((end - self._begin) >> 3, first)].tolist()
        return words


def frame_states(registers: dict[int, int], stack: StackCopy, rules: Sequence[FrameRules | None]) -> Iterator[FrameState | None]:
    """Yield the state of each frame of a chain, innermost first, as far as the frames can be followed."""
    for rule in rules:
        pointer = registers.get(STACK_POINTER)
        if rule is None or pointer is None or isinstance(rule.cfa, bytes) or rule.is_signal:
            return
        base = registers.get(rule.cfa[0])
        if base is None:
            return
        cfa = base + rule.cfa[1]
        if cfa <= pointer or cfa - pointer > 1 << 20:
            return
        yield FrameState(registers, stack.words(pointer, cfa - 8))
        callers: dict[int, int] = {number: registers[number] for number in _PRESERVED if number in registers}
        for number, (kind, value) in rule.registers:
            if number > 15:
                continue
            callers.pop(number, None)
            caller_value = stack.word(cfa + value) if kind == OFFSET and isinstance(value, int) else None
            if kind == REGISTER and isinstance(value, int):
                caller_value = registers.get(value)
            if caller_value is not None:
                callers[number] = caller_value
        callers[STACK_POINTER] = cfa
        registers = callers


# Callers of a frame from earlier and later readings of the same thread. A frame's address on the data stack is the sum of the sizes of
# its callers' frames, so a function at an address nearly always has one caller. With two callers, neither is accepted, unless one is rare
# enough to be an error of the reading. Frames are kept for two batches of samples, because programs move on to other work.

_MOST_FRAMES: Final = 1 << 14  # of a thread and batch
_MOST_CALLS: Final = 256  # callers of a function
_ERRORS: Final = 0.02  # share of a function's calls that may be wrong
_MOST_CALLERS: Final = 16  # of a frame
_SURE: Final = 0.95  # the least share of an accepted caller


class Caller(NamedTuple):
    """The caller of a frame. code: NOBODY if C called the evaluation loop for the frame, OUTERMOST if it is the first of its stack;
    offset: None if it varied.
    """

    address: int
    code: int
    offset: int | None


NOBODY: Final = -1
OUTERMOST: Final = -2
_OF_ENTRIES: Final = Caller(0, NOBODY, None)
_OF_FIRST_FRAMES: Final = Caller(0, OUTERMOST, None)


class KnownCalls:
    """The functions of a process and their callers, with the number of observed calls."""

    def __init__(self) -> None:
        self._callers: dict[int, Counter[int]] = {}

    def add(self, caller: int, callee: int) -> None:
        """Count a call between two code objects."""
        callers = self._callers.get(callee)
        if callers is None:
            if len(self._callers) >= _MOST_FRAMES:
                return
            callers = self._callers[callee] = Counter()
        if caller in callers or len(callers) < _MOST_CALLS:
            callers[caller] += 1

    def has(self, caller: int, callee: int) -> bool:
        """Whether a function has called another one. Rare calls count as errors of the reading."""
        callers = self._callers.get(callee)
        return callers is not None and callers[caller] > _ERRORS * callers.total()


class SeenCallers:
    """The callers of one thread's frames.

    Attributes:
        before: the frames (address, code) of the chain before the last one -> offset.
        calls: those of all threads of the process.
    """

    def __init__(self, calls: KnownCalls | None = None) -> None:
        self.calls = KnownCalls() if calls is None else calls
        self._new: dict[tuple[int, int], Counter[Caller]] = {}
        self._old: dict[tuple[int, int], Counter[Caller]] = {}
        self._batch = 0
        self._last: dict[tuple[int, int], int] = {}
        self.before: dict[tuple[int, int], int] = {}

    def add(self, batch: int, chain: Sequence[ReadFrame], *, is_whole: bool = False) -> None:
        """Add a chain. batch: the number of the batch of samples; is_whole: it ends with the first frame of its stack."""
        if batch != self._batch:
            self._batch, self._old, self._new = batch, self._new, {}
        self.before, self._last = self._last, {(address, code): offset for address, code, offset, _ in chain}
        for row, (address, code, _, is_entry) in enumerate(chain):
            if is_whole and row + 1 == len(chain):
                self._note((address, code), _OF_FIRST_FRAMES)
            elif is_entry:
                self._note((address, code), _OF_ENTRIES)
            elif row + 1 < len(chain):
                self.calls.add(chain[row + 1][1], code)
                self._note((address, code), Caller(*chain[row + 1][:3]))

    def _note(self, key: tuple[int, int], caller: Caller) -> None:
        callers = self._new.get(key)
        if callers is None and len(self._new) < _MOST_FRAMES:
            callers = self._new[key] = Counter()
        if callers is not None and (caller in callers or len(callers) < _MOST_CALLERS):
            callers[caller] += 1

    def caller(self, address: int, code: int) -> Caller | None:
        """Return the caller of a frame; None if it is unknown or ambiguous."""
        key = (address, code)
        new, old = self._new.get(key), self._old.get(key)
        if new is None and old is None:
            return None
        counts = (new or Counter()) + (old or Counter())
        caller, count = counts.most_common(1)[0]
        same = sum(other for one, other in counts.items() if one[:2] == caller[:2])
        if same < _SURE * counts.total():
            return None
        return caller if count >= _SURE * same else caller._replace(offset=None)
