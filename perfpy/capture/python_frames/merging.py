"""One callchain with its Python frames.

What enters: which frames of a native chain are evaluation loops, what each of them says of itself (evaluation), and the Python frames
that were read from memory a moment after the sample. What leaves: for each loop the Python frames that it ran, innermost first, and how
sure that is.

What a loop says is of the moment of the sample, and exact: it names the innermost Python frame of the loop and its instruction. Frames
that were read later are believed as callers only where they fit: the frame that the loop names is among them with the same code; or
one ends exactly where the loop's frame begins, and has called that function at other moments: then its own line may have changed
and is left open; or the loop's frame was seen with the same code at another moment, with always the same caller (seen_callers).
Where nothing fits, the loop keeps the one frame that it names. A loop that says nothing has the frames that were there both before
and after the sample.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from perfpy.capture.python_frames.seen_callers import NOBODY
from perfpy.interpreters.cpython.frames import MOST_FRAMES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfpy.capture.python_frames.answers import FoundCode, ReadFrame
    from perfpy.capture.python_frames.evaluation import Evaluated
    from perfpy.capture.python_frames.seen_callers import SeenCallers

#: how sure the frames of a sample are, best first: all as the sample says or fitting it; some callers or their lines as at other moments;
#: some callers' lines are open; by the number of calls from C alone; callers are missing; nothing is known
EXACT, SEEN, OPEN_LINES, UNPROVEN, PARTIAL, UNKNOWN = range(6)

#: (number of a code object, offset of the instruction or None)
Frame = tuple[int, int | None]


class MergedFrames(NamedTuple):
    """loops: the Python frames of each loop, innermost first. grade: of the worst."""

    loops: list[list[Frame]]
    grade: int


def merge(
    loops: Sequence[Evaluated | None],
    read: Sequence[ReadFrame],
    codes: dict[int, FoundCode],
    *,
    left: Sequence[ReadFrame] = (),
    seen: SeenCallers | None = None,
    before: Mapping[tuple[int, int], int] | None = None,
    is_cut: bool,
) -> MergedFrames:
    """Return the Python frames of each loop. loops: innermost first; is_cut: the native chain may lack outer frames.

    left: frames that were left before the reading (ThreadFrames.left), the last called first; seen: of the thread;
    before: the frames (address, code) that it had when it was read before, with their offsets; None where that is not known.
    """
    segments = _segments([*(_ReadOrLeft(*frame, is_left=True) for frame in left), *(_ReadOrLeft(*frame, is_left=False) for frame in read)])
    first = _alignment(loops, segments, is_cut=is_cut)
    fits = len(segments) - sum(segment[-1].is_left for segment in segments) == len(loops) or (is_cut and first >= 0)
    found: list[list[Frame]] = []
    grade = EXACT
    for number, loop in enumerate(loops):
        segment = segments[first + number] if 0 <= first + number < len(segments) else []
        frames, sure = _frames_of(loop, segment, codes) if loop else _lasting(segment, before, fits=fits)
        if sure == OPEN_LINES and seen and not all(seen.calls.has(caller, called) for (called, _), (caller, _) in pairwise(frames)):
            frames, sure = frames[:1], PARTIAL  # a frame of another call is where the caller's was
        if sure == PARTIAL and loop and seen:
            frames, sure = _by_seen_callers(loop, segment, seen)
        elif sure == OPEN_LINES and loop and seen:
            frames, sure = _with_seen_line(loop, frames, seen)
        found.append(frames)
        grade = max(grade, sure)
    if is_cut and loops and grade < PARTIAL:
        for segment in segments[first + len(loops) :]:
            found[-1] += [(frame.code, frame.offset) for frame in segment]
    return MergedFrames(found, grade)


def of_old_versions(loops: Sequence[Evaluated | None], read: Sequence[ReadFrame], *, is_cut: bool) -> MergedFrames:
    """Return the same of versions before 3.11, where each loop runs one frame, and names it."""
    fits = len(read) == len(loops) or (is_cut and len(read) > len(loops))
    found: list[list[Frame]] = []
    grade = EXACT
    for number, loop in enumerate(loops):
        if loop is not None:
            found.append([(loop.code, loop.offset)])
        elif fits:
            found.append([(read[number][1], read[number][2])])
            grade = max(grade, UNPROVEN)
        else:
            found.append([])
            grade = PARTIAL if any(loops) else UNKNOWN
    if is_cut and loops:
        beyond = _beyond(loops, read)
        found[-1] += [(code, offset) for _, code, offset, _ in beyond]
    return MergedFrames(found, grade)


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


def _beyond(loops: Sequence[Evaluated | None], read: Sequence[ReadFrame]) -> Sequence[ReadFrame]:
    """Return the frames outside of the outermost loop, where that one's frame was read."""
    last = loops[-1]
    rows = [row for row, frame in enumerate(read) if last and frame[0] in last.frames and frame[1] == last.code]
    return read[rows[-1] + 1 :] if rows else ()


class _ReadOrLeft(NamedTuple):
    """A frame that was read; is_left: the thread had left it by then."""

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
    """Return which segment belongs to the innermost loop: the one that holds its frame; else by the outer ends, which stay."""
    for number, loop in enumerate(loops):
        for row, segment in enumerate(segments) if loop else ():
            if loop and any(frame.address in loop.frames and frame.code == loop.code for frame in segment):
                return row - number
    return sum(segment[-1].is_left for segment in segments) if is_cut else len(segments) - len(loops)


def _lasting(segment: list[_ReadOrLeft], before: Mapping[tuple[int, int], int] | None, *, fits: bool) -> tuple[list[Frame], int]:
    """Return the frames of a loop that says nothing: those that were there before the sample, too."""
    if not fits:
        return [], UNKNOWN
    found: list[Frame] = []
    for frame in reversed([frame for frame in segment if not frame.is_left]):
        offset = frame.offset if before is None else before.get((frame.address, frame.code))
        if offset is None:
            break
        found.append((frame.code, offset if offset == frame.offset else None))
    return found[::-1], UNPROVEN if found else UNKNOWN


def _frames_of(loop: Evaluated, segment: list[_ReadOrLeft], codes: dict[int, FoundCode]) -> tuple[list[Frame], int]:
    own: Frame = (loop.code, loop.offset)
    live = sum(frame.is_left for frame in segment)  # the first one that is not left
    for row, frame in enumerate(segment):
        # the value stack of a frame can be full: then a pointer to its top looks like one to a frame that it calls
        is_end = row == live and frame.address + codes[frame.code].frame_size in loop.frames
        if frame.code == loop.code and (frame.address in loop.frames or not loop.frames or is_end):
            return [own, *_callers(segment, row + 1, is_open=frame.is_left)], OPEN_LINES if frame.is_left else EXACT
    for row, frame in enumerate(segment):
        size = codes[frame.code].frame_size
        if size and frame.address + size in loop.frames:
            return [own, *_callers(segment, row, is_open=True)], OPEN_LINES
    return [own], PARTIAL


def _callers(segment: list[_ReadOrLeft], first: int, *, is_open: bool) -> list[Frame]:
    """Return frames from one on. is_open: the first one has gone on since, so its line is not known, nor of those that were left."""
    found: list[Frame] = []
    for frame in segment[first:]:
        found.append((frame.code, None if is_open else frame.offset))
        is_open = frame.is_left
    return found


def _by_seen_callers(loop: Evaluated, segment: list[_ReadOrLeft], seen: SeenCallers) -> tuple[list[Frame], int]:
    """Return the frames of a loop by who called its frame at other moments, until one is met that was read."""
    found: list[Frame] = [(loop.code, loop.offset)]
    caller = next((caller for pointer in loop.pointers if (caller := seen.caller(pointer, loop.code))), None)
    rows = {(frame.address, frame.code): row for row, frame in enumerate(segment) if not frame.is_left}
    while caller is not None and len(found) < MOST_FRAMES:
        if caller.code == NOBODY:
            return found, _grade(found)
        found.append((caller.code, caller.offset))
        row = rows.get((caller.address, caller.code))
        if row is not None:
            found += _callers(segment, row + 1, is_open=False)
            return found, _grade(found)
        caller = seen.caller(caller.address, caller.code)
    return found, PARTIAL


def _with_seen_line(loop: Evaluated, frames: list[Frame], seen: SeenCallers) -> tuple[list[Frame], int]:
    """Return the frames with the line of the loop's caller, if it called always there."""
    caller = next((caller for pointer in loop.pointers if (caller := seen.caller(pointer, loop.code))), None)
    if caller and len(frames) > 1 and frames[1] == (caller.code, None):
        frames = [frames[0], (caller.code, caller.offset), *frames[2:]]
    return frames, _grade(frames)


def _grade(frames: list[Frame]) -> int:
    return OPEN_LINES if any(offset is None for _, offset in frames) else SEEN
