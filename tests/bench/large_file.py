"""A perf.data of any size, of the samples of a real one: python tests/bench/large_file.py SEED OUT --gigabytes 10

Input: a recording that perf or perfpy made (a file, not a pipe, not
compressed). Output: one with the same tasks, mappings, events and
features, whose samples are drawn at random from the seed's, at the seed's
rate, and are in order of time. --new-addresses: of how many samples in a
thousand the address is moved within its page, so that the distinct addresses
(and with -g the distinct stacks) grow with the file, as they do in life.
"""

from __future__ import annotations

import argparse
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from perfpy.abi.flags import SampleType
from perfpy.abi.sample_decoding import SampleLayout
from perfpy.perfdata.header import FileHeader, FileSection, decode_attr_table, decode_header
from perfpy.perfdata.records.stream import walk

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SAMPLE, _FINISHED_ROUND = 9, 68
_ROUND = struct.pack("<IHH", _FINISHED_ROUND, 0, 8)
_BLOCK = 1 << 17  # samples between two ends of rounds


class Seed(NamedTuple):
    """The records of a recording. side_band: all but the samples, as they are; starts, sizes: of the samples, in bytes."""

    data: NDArray[np.uint8]
    side_band: bytes
    starts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    layout: SampleLayout
    chains: int | None  # the word, counted from the record's start, of the number of frames

    def word(self, name: str) -> int:
        """The word of a field in every sample, counted from the record's start."""
        word = self.layout.word_of(name)
        if word is None:
            raise SystemExit(f"the seed's samples have no {name}")
        return word


def read_seed(content: bytes, header: FileHeader) -> Seed:
    """The samples of one event, and everything else. Raises SystemExit when the seed is not of a kind that can be drawn from."""
    table = content[header.attrs.offset : header.attrs.end]
    attr = decode_attr_table(table, header.attr_size, "<")[0].attr
    data = np.frombuffer(content[header.data.offset : header.data.end], dtype=np.uint8)
    offsets = walk(data, "<").starts
    types = data.view(np.uint32)[offsets // 4]
    lengths = data.view(np.uint16)[offsets // 2 + 3].astype(np.int64)
    samples = types == _SAMPLE
    starts, sizes = offsets[samples], lengths[samples]
    if attr.sample_type & (SampleType.STACK_USER | SampleType.RAW | SampleType.READ) or not len(starts):
        raise SystemExit("a seed has samples of plain fields and call chains")
    others = np.flatnonzero(~samples & (types != _FINISHED_ROUND))
    side_band = b"".join(data[offsets[i] : offsets[i] + lengths[i]].tobytes() for i in others)
    layout = SampleLayout(attr, "<")
    chains = layout.fixed_words if attr.sample_type & SampleType.CALLCHAIN else None
    return Seed(data, side_band, starts, sizes, layout, chains)


class Drawing:
    """Blocks of samples drawn from a seed. rng: where chance comes from; moved: the share of samples whose address is new."""

    def __init__(self, seed: Seed, rng: np.random.Generator, moved: float) -> None:
        self._seed = seed
        self._rng = rng
        self._moved = moved
        times = np.sort(self._words(seed.starts, seed.word("time")))
        self._step = max(int(times[-1] - times[0]) // len(times), 1)
        self._now = int(times[-1])

    def _words(self, starts: NDArray[np.int64], word: int) -> NDArray[np.uint64]:
        words: NDArray[np.uint64] = self._seed.data.view(np.uint64)[starts // 8 + word]
        return words

    def block(self, count: int) -> NDArray[np.uint64]:
        """So many samples as the words of a file."""
        seed = self._seed
        drawn = self._rng.integers(0, len(seed.starts), count)
        lengths = seed.sizes[drawn] // 8
        ends = np.cumsum(lengths)
        at = ends - lengths
        source = np.repeat(seed.starts[drawn] // 8 - at, lengths) + np.arange(ends[-1])
        words: NDArray[np.uint64] = seed.data.view(np.uint64)[source]
        gaps = self._rng.integers(1, 2 * self._step, count)
        words[at + seed.word("time")] = self._now + np.cumsum(gaps)
        self._now += int(gaps.sum())
        self._move(words, at[self._rng.random(count) < self._moved])
        return words

    def _move(self, words: NDArray[np.uint64], at: NDArray[np.int64]) -> None:
        """Other addresses within the same pages, in the sample and at the end of its chain that they stand for."""
        ip = at + self._seed.word("ip")
        old = words[ip]
        new = (old & ~np.uint64(0xFFF)) | self._rng.integers(0, 0x1000, len(at)).astype(np.uint64)
        words[ip] = new
        if self._seed.chains is None:
            return
        for frame in (1, 2):  # behind the number of frames, or the context in front of the first
            leaf = at + self._seed.chains + frame
            same = (leaf < len(words)) & (words[np.minimum(leaf, len(words) - 1)] == old)
            words[leaf[same]] = new[same]


def write(out: BinaryIO, content: bytes, drawing: Drawing, side_band: bytes, size: int = 0, block: int = _BLOCK, blocks: int = 0) -> None:
    """Header, side-band, samples, the features of the seed at their new place.

    Samples are written in blocks: as many blocks as requested, and until the file has its size without the features.
    """
    header = decode_header(content)
    assert isinstance(header, FileHeader)
    out.write(content[: header.data.offset])
    out.write(side_band)
    out.write(_ROUND)
    written = 0
    while written < blocks or out.tell() < size:
        written += 1
        drawing.block(block).tofile(out)
        out.write(_ROUND)
    end = out.tell()
    shift = end - header.data.end
    count = len(header.features)
    table = struct.unpack_from(f"<{2 * count}Q", content, header.data.end)
    out.write(struct.pack(f"<{2 * count}Q", *(word + shift * (i % 2 == 0) for i, word in enumerate(table))))
    out.write(content[header.data.end + 16 * count :])
    out.seek(0)
    out.write(header._replace(data=FileSection(header.data.offset, end - header.data.offset)).encode())


def main() -> int:
    """Make one file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seed", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--gigabytes", type=float, default=1.0)
    parser.add_argument("--new-addresses", type=float, default=10.0, metavar="PER_MILLE")
    parser.add_argument("--random", type=int, default=1, help="where chance starts")
    options = parser.parse_args()
    content = options.seed.read_bytes()
    header = decode_header(content)
    if not isinstance(header, FileHeader):
        raise SystemExit("a seed is a file, not what a pipe held")
    seed = read_seed(content, header)
    drawing = Drawing(seed, np.random.default_rng(options.random), options.new_addresses / 1000)
    with options.out.open("wb") as out:
        write(out, content, drawing, seed.side_band, int(options.gigabytes * 1e9))
    return 0


if __name__ == "__main__":
    sys.exit(main())
