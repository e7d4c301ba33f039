"""Recordings of very many samples, written block by block, to measure pages with.

Input: a shape, the number of samples. Output: a folder with perf.data and, below it, the program with its symbols.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi.flags import SampleType
from perfpy.abi.records import Comm, Mmap2, SampleId
from tests.builders.elf import Elf
from tests.builders.perfdata import USUAL, PerfDataBuilder, usual_attr

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Int64 = NDArray[np.int64]

PROGRAM: Final = "/opt/program"
FUNCTIONS: Final = 5000
_START, _SIZE, _PAGE = 0x400000, 256, 0x1000
_CONTEXT = (1 << 64) - 512
_BLOCK = 1 << 17
_EVERY = 250_000  # ns between two samples of a CPU
_FIELDS = USUAL | SampleType.CPU | SampleType.CALLCHAIN | SampleType.IDENTIFIER


class Shape(NamedTuple):
    """The stacks and tasks of a recording.

    Attributes:
        stacks: distinct callchains, drawn with few that are frequent; 0: every sample has another one.
        depth: the least and the largest number of frames.
        functions: how many of FUNCTIONS are called.
        processes, threads: their numbers; thread i is of process i % processes.
        cpus: how many run them.
    """

    stacks: int = 20_000
    depth: tuple[int, int] = (8, 30)
    functions: int = FUNCTIONS
    processes: int = 1
    threads: int = 8
    cpus: int = 4


SHAPES: Final = {
    "usual": Shape(),
    "recursion": Shape(0, (10, 60), 3),
    "growing": Shape(0, (20, 20)),
    "threads": Shape(threads=5000, processes=3000, cpus=16),
    "deep": Shape(200, (500, 2000), 40),
}


def program() -> bytes:
    """Return an ELF file with FUNCTIONS functions."""
    begin = _START + _PAGE
    elf = Elf().segment(begin, _PAGE, _SIZE * FUNCTIONS).text(begin, offset=_PAGE, size=_SIZE * FUNCTIONS)
    for number in range(FUNCTIONS):
        elf.symbol(f"module_{number % 50}_function_{number}", begin + _SIZE * number, _SIZE)
    return elf.build()


class _Samples:
    """Draws blocks of samples in order of time."""

    def __init__(self, shape: Shape, seed: int = 7) -> None:
        self._shape, self._rng = shape, np.random.default_rng(seed)
        if shape.stacks:
            self._frames, self._offsets = self._chains(shape.stacks)
            ranks = 1 / np.arange(1, shape.stacks + 1)
            self._share = np.cumsum(ranks / ranks.sum())

    def _chains(self, count: int) -> tuple[NDArray[np.uint64], Int64]:
        """Return callchains, innermost first: functions of neighbouring levels are alike, as those of programs are."""
        rng, shape = self._rng, self._shape
        lengths = rng.integers(shape.depth[0], shape.depth[1] + 1, count)
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        level = np.repeat(offsets[1:], lengths) - 1 - np.arange(offsets[-1])  # 0: the outermost
        wide = np.minimum(shape.functions, 1 + level * level) if shape.stacks else np.full(len(level), shape.functions)
        function = (rng.random(len(level)) ** 2 * wide).astype(np.int64)
        function = np.where(level == 0, 0, (function + level * 37) % shape.functions if shape.stacks else function)
        call_site = 16 * rng.integers(1, 4, len(level))
        return (_START + _PAGE + _SIZE * function + call_site).astype(np.uint64), offsets

    def block(self, first: int, count: int) -> bytes:
        """Return the records of some samples."""
        rng, shape = self._rng, self._shape
        if shape.stacks:
            chain = np.minimum(np.searchsorted(self._share, rng.random(count)), shape.stacks - 1)
            frames, starts, lengths = self._frames, self._offsets[chain], np.diff(self._offsets)[chain]
        else:
            frames, offsets = self._chains(count)
            starts, lengths = offsets[:-1], np.diff(offsets)
        number = first + np.arange(count)
        thread = rng.integers(0, shape.threads, count)
        words = 9 + lengths
        ends = np.cumsum(words)
        at = ends - words
        out = np.zeros(int(ends[-1]), np.uint64)
        out[at] = (9 | 2 << 32 | words.astype(np.int64) * 8 << 48).astype(np.uint64)
        out[at + 1] = 1
        out[at + 2] = frames[starts]
        pid = 1000 + thread % shape.processes * 10_000
        tid = np.where(thread < shape.processes, pid, pid + 1 + thread // shape.processes)
        out[at + 3] = (pid | tid << 32).astype(np.uint64)
        jitter = rng.integers(0, _EVERY // 10, count)
        out[at + 4] = (
            10**9 + (number // shape.cpus) * _EVERY + number % shape.cpus * (_EVERY // shape.cpus) + jitter // shape.cpus
        ).astype(np.uint64)
        out[at + 5] = (number % shape.cpus).astype(np.uint64)
        out[at + 6] = _EVERY
        out[at + 7] = (lengths + 1).astype(np.uint64)
        out[at + 8] = _CONTEXT
        inner = np.repeat(starts - np.cumsum(lengths) + lengths, lengths) + np.arange(int(lengths.sum()))
        out[np.repeat(at + 9 - np.cumsum(lengths) + lengths, lengths) + np.arange(int(lengths.sum()))] = frames[inner]
        return out.tobytes()


def write_recording(folder: Path, shape: Shape, samples: int) -> Path:
    """Write the recording; return its path. Its symbols are found with --symfs FOLDER."""
    file = folder / PROGRAM[1:]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(program())
    built = PerfDataBuilder([usual_attr(_FIELDS, sample_period=4000, mmap=1, mmap2=1, comm=1, task=1)], [(1,)])
    for number in range(shape.threads):
        pid = 1000 + number % shape.processes * 10_000
        tid = pid if number < shape.processes else pid + 1 + number // shape.processes
        trailer = SampleId(pid=pid, tid=tid, time=1, cpu=0, identifier=1)
        name = f"server-{number % 7}" if pid == tid else f"worker-{number}"
        built.record(Comm(0, pid, tid, name, trailer))
        if pid == tid:
            built.record(Mmap2(2, pid, pid, _START, 0x1000_0000, 0, 8, 1, 77, 0, 5, 2, PROGRAM, b"", trailer))
    head = bytearray(built.file())
    drawn, path, size = _Samples(shape), folder / "perf.data", len(built.body)
    with path.open("wb") as out:
        out.write(head)
        for first in range(0, samples, _BLOCK):
            block = drawn.block(first, min(_BLOCK, samples - first))
            out.write(block)
            size += len(block)
        out.seek(8 + 8 + 8 + 16 + 8)  # the size of the data section in the header
        out.write(struct.pack("<Q", size))
    return path
