"""Merge Python frames into one callchain, and grade the result.

The state of an evaluation loop dates from the sample and is exact: it names the loop's innermost Python frame and its instruction. Frames
in memory were read a moment later, and are accepted as callers only if they match:

- the frame of the loop is among them with the same code; or
- one ends exactly where the loop's frame begins, and has called this function before. Its line may have changed and stays open; or
- the loop's frame had the same code at another reading, always with the same caller (seen_callers).

If nothing matches, the loop has one frame. A loop whose state is unknown has the frames that existed both before and after the sample.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from perfpy.capture.python_frames.merging.seen_callers import NOBODY
from perfpy.interpreters.cpython.frames import MOST_FRAMES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfpy.capture.python_frames.answers import FoundCode, ReadFrame
    from perfpy.capture.python_frames.merging.evaluation import Evaluated
    from perfpy.capture.python_frames.merging.seen_callers import SeenCallers

#: Grades of a sample, best first: everything dates from the sample or matches it; some callers or their lines are from other readings; the
#: lines of some callers are open; matched by the number of calls from C alone; callers are missing; no frame is known.
EXACT, SEEN, OPEN_LINES, UNPROVEN, PARTIAL, UNKNOWN = range(6)

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
) -> MergedFrames:
    """Return the Python frames of each loop.

    Args:
        loops: the states of the loops, innermost first.
        read: the frames in memory, innermost first.
        ended_frames: frames that ended before the reading (ThreadFrames.left), the last called first.
        seen_callers: the callers of the thread.
        before: the frames (address, code) of the previous reading -> offset; None if there was none.
        is_cut: the native chain may lack outer frames.
    """
    ended = [_ReadOrLeft(*frame, is_left=True) for frame in ended_frames]
    segments = _segments([*ended, *(_ReadOrLeft(*frame, is_left=False) for frame in read)])
    first = _alignment(loops, segments, is_cut=is_cut)
    fits = len(segments) - sum(segment[-1].is_left for segment in segments) == len(loops) or (is_cut and first >= 0)
    loop_frames, grade = list[list[Frame]](), EXACT
    for number, loop in enumerate(loops):
        segment = segments[first + number] if 0 <= first + number < len(segments) else []
        frames, sure = _frames_of(loop, segment, codes) if loop else _lasting_frames(segment, before, fits=fits)
        if sure == OPEN_LINES and seen_callers and not _are_seen_calls(frames, seen_callers):
            frames, sure = frames[:1], PARTIAL  # a frame of another call has taken the caller's place
        if sure == PARTIAL and loop and seen_callers:
            frames, sure = _by_seen_callers(loop, segment, seen_callers)
        elif sure == OPEN_LINES and loop and seen_callers:
            frames, sure = _with_seen_line(loop, frames, seen_callers)
        loop_frames.append(frames)
        grade = max(grade, sure)
    if is_cut and loops and grade < PARTIAL:
        for segment in segments[first + len(loops) :]:
            loop_frames[-1] += [(frame.code, frame.offset) for frame in segment]
    return MergedFrames(loop_frames, grade)


def of_old_versions(loops: Sequence[Evaluated | None], read: Sequence[ReadFrame], *, is_cut: bool) -> MergedFrames:
    """Return the frames of versions before 3.11, in which each loop runs the one frame that it names."""
    fits = len(read) == len(loops) or (is_cut and len(read) > len(loops))
    loop_frames: list[list[Frame]] = []
    grade = EXACT
    for number, loop in enumerate(loops):
        if loop is not None:
            loop_frames.append([(loop.code, loop.offset)])
        elif fits:
            loop_frames.append([(read[number][1], read[number][2])])
            grade = max(grade, UNPROVEN)
        else:
            loop_frames.append([])
            grade = PARTIAL if any(loops) else UNKNOWN
    if is_cut and loops:
        beyond = _frames_beyond(loops, read)
        loop_frames[-1] += [(code, offset) for _, code, offset, _ in beyond]
    return MergedFrames(loop_frames, grade)


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


def _frames_beyond(loops: Sequence[Evaluated | None], read: Sequence[ReadFrame]) -> Sequence[ReadFrame]:
    """Return the frames outside the outermost loop, if the frame of that loop was read."""
    last = loops[-1]
    rows = [row for row, frame in enumerate(read) if last and frame[0] in last.frames and frame[1] == last.code]
    return read[rows[-1] + 1 :] if rows else ()


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


def _are_seen_calls(frames: list[Frame], seen_callers: SeenCallers) -> bool:
    return all(seen_callers.calls.has(caller, callee) for (callee, _), (caller, _) in pairwise(frames))


def _by_seen_callers(loop: Evaluated, segment: list[_ReadOrLeft], seen_callers: SeenCallers) -> tuple[list[Frame], int]:
    """Return the frames of a loop by the callers at other readings, up to the first frame that was read."""
    frames: list[Frame] = [(loop.code, loop.offset)]
    caller = next((caller for pointer in loop.pointers if (caller := seen_callers.caller(pointer, loop.code))), None)
    rows = {(frame.address, frame.code): row for row, frame in enumerate(segment) if not frame.is_left}
    while caller is not None and len(frames) < MOST_FRAMES:
        if caller.code == NOBODY:
            return frames, _grade(frames)
        frames.append((caller.code, caller.offset))
        row = rows.get((caller.address, caller.code))
        if row is not None:
            frames += _callers(segment, row + 1, is_open=False)
            return frames, _grade(frames)
        caller = seen_callers.caller(caller.address, caller.code)
    return frames, PARTIAL


def _with_seen_line(loop: Evaluated, frames: list[Frame], seen_callers: SeenCallers) -> tuple[list[Frame], int]:
    """Return the frames with the line of the loop's caller, if it has always called from there."""
    caller = next((caller for pointer in loop.pointers if (caller := seen_callers.caller(pointer, loop.code))), None)
    if caller and len(frames) > 1 and frames[1] == (caller.code, None):
        frames = [frames[0], (caller.code, caller.offset), *frames[2:]]
    return frames, _grade(frames)


def _grade(frames: list[Frame]) -> int:
    return OPEN_LINES if any(offset is None for _, offset in frames) else SEEN
