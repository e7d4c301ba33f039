"""Calls of the API that read a recording: what a script or a notebook would do.

Input: the arguments of a case. Output: nothing; perfpy.errors.PerfError is
an answer, every other exception is a fault.
"""

from __future__ import annotations

import itertools
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfpy.interpreters.frames import CodeObject, ThreadFrames
    from perfpy.interpreters.process import PythonProcess


def _samples() -> None:
    import perfpy

    with perfpy.open("perf.data") as recording:
        recording.samples.to_dict()
        _ = recording.title, recording.environment, recording.warnings, [event.name for event in recording.events], dict(recording.header)


def _records() -> None:
    import perfpy

    with perfpy.open("perf.data") as recording:
        for record in recording.records():
            repr(record)


def _report(keys: str) -> None:
    import perfpy
    from perfpy.symbols.files.debug_files import SymbolOptions

    with perfpy.open("perf.data") as recording:
        report = recording.report(by=keys, callers="," not in keys, symbols=SymbolOptions(kallsyms="kallsyms"))
        for row in report.top(10):
            repr(row.texts)
        recording.flamegraph("out.html", symbols=SymbolOptions(kallsyms="kallsyms"))


def _tracepoints() -> None:
    import perfpy

    with perfpy.open("perf.data") as recording:
        for event in recording.events:
            if event.tracepoint:
                recording.tracepoint(event.name)


def _python_frames() -> None:
    import contextlib

    from perfpy.interpreters.frames import decode_lines
    from perfpy.interpreters.objects import UnreadableMemoryError
    from perfpy.interpreters.process import PythonProcess
    from tests.fuzz.memory_images import HEAD, THREADS, ImageMemory

    with open("python.image", "rb") as file:
        data = file.read()
    if len(data) < HEAD.size:
        return
    runtime, *version = HEAD.unpack_from(data)
    # what the recorder expects: memory that is gone, and a runtime that it does not know
    with contextlib.suppress(UnreadableMemoryError, ValueError):
        process = PythonProcess(ImageMemory(data[HEAD.size :]), runtime, (version[0], version[1]), iter(range(1 << 20)).__next__)
        for number, thread in enumerate(THREADS):
            frames = _frames_of(process, thread, 0x7000_0000_0000 + number * 0x80_0000 - 4096)
            copied = _copied_frames(process, data, thread, [frame.code for frame in frames.frames] if frames else [])
            for frame in (*(frames.frames if frames else ()), *copied.frames):
                repr(frame.code.name)
                decode_lines(frame.code.lines, frame.code.first_line, process.layout.version)


def _frames_of(process: PythonProcess, thread: int, stack_pointer: int) -> ThreadFrames | None:
    from perfpy.interpreters.objects import UnreadableMemoryError

    try:
        return process.frames(thread, stack_pointer)
    except UnreadableMemoryError:
        return None


def _copied_frames(process: PythonProcess, data: bytes, thread: int, codes: list[CodeObject]) -> ThreadFrames:
    """What the kernel's program would do with a thread: an entry of its map, and frames of known code with words from memory."""
    from perfpy.capture.python_frames.kernel_frames import entry_of

    if (entry := entry_of(process, thread)) is not None:
        entry.pack()
        process.thread_of_state(entry.gil_holder)
    words = itertools.islice(struct.iter_unpack("<3Q", data[len(data) % 24 :]), 1024)
    code_cycle = itertools.cycle(codes or [None])
    frames = (
        (address, code.address, code.begin + instruction % 64, owner) if code else (address, instruction, instruction, owner)
        for (address, instruction, owner), code in zip(words, code_cycle, strict=False)
    )
    return process.frames_of_words(frames, is_whole=bool(thread & 1))


CALLS: dict[str, Callable[..., None]] = {
    "api-samples": _samples,
    "api-records": _records,
    "api-report": _report,
    "api-tracepoints": _tracepoints,
    "api-python-frames": _python_frames,
}
