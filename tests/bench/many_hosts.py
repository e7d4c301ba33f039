"""Recordings of many hosts out of one: python tests/bench/many_hosts.py SEED FOLDER --hosts 100

Input: a recording that perf or perfpy made (a file, not a pipe, not
compressed). Output: FOLDER/host0001.data and so on, each with the seed's
tasks and mappings, a name of its own, and so many samples as a host with
--cpus busy CPUs gives in --seconds at --frequency. Hosts differ as hosts of
one service do: the seed's time is cut to slices, of which each host has other
shares; and some addresses are its own (--new-addresses, of a thousand samples).
"""

from __future__ import annotations

import argparse
import struct
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from perfpy.perfdata.header import FileHeader, decode_header
from tests.bench.large_file import Drawing, Seed, read_seed, write

if TYPE_CHECKING:
    from collections.abc import Iterator

_SLICES = 64
_SPREAD = 0.5  # of the shares of slices between hosts: the smaller, the more hosts differ
_BLOCKS = 4  # of a host's samples
_HOSTNAME = 3  # the bit of the feature (perf.data-file-format.txt)


class Hosts:
    """Draws hosts from a seed. per_mille: of how many samples in a thousand the address is a host's own."""

    def __init__(self, content: bytes, per_mille: float) -> None:
        header = decode_header(content)
        if not isinstance(header, FileHeader):
            raise SystemExit("a seed is a file, not what a pipe held")
        self._content, self._header = content, header
        self._seed = read_seed(content, header)
        self._moved = per_mille / 1000

    def write(self, folder: Path, number: int, samples: int) -> Path:
        """One host's recording: of that many samples, rounded up to a multiple of _BLOCKS."""
        rng = np.random.default_rng(number)
        seed = self._of_one_host(rng)
        path = folder / f"host{number:04}.data"
        with path.open("wb") as out:
            drawing = Drawing(seed, rng, self._moved)
            write(out, self._named(f"host{number:04}"), drawing, seed.side_band, block=-(-samples // _BLOCKS), blocks=_BLOCKS)
        return path

    def _of_one_host(self, rng: np.random.Generator) -> Seed:
        """The seed with its slices of time as often as one host has them."""
        parts = np.array_split(np.arange(len(self._seed.starts)), _SLICES)
        shares = rng.gamma(_SPREAD, size=_SLICES)
        counts = rng.multinomial(len(self._seed.starts), shares / shares.sum())
        drawn = np.sort(np.concatenate([rng.choice(part, count) for part, count in zip(parts, counts, strict=True)]))
        return self._seed._replace(starts=self._seed.starts[drawn], sizes=self._seed.sizes[drawn])

    def _named(self, name: str) -> bytes:
        """The seed with another host's name, which may not be longer than its place."""
        content = bytearray(self._content)
        place = self._header.data.end + 16 * sorted(self._header.features).index(_HOSTNAME)
        offset, size = struct.unpack_from("<2Q", content, place)
        content[offset + 4 : offset + size] = name.encode().ljust(size - 4, b"\0")
        return bytes(content)


def hosts(seed: Path, folder: Path, numbers: range, samples: int, per_mille: float) -> Iterator[Path]:
    """The recordings of some hosts, one after the other."""
    drawing = Hosts(seed.read_bytes(), per_mille)
    for number in numbers:
        yield drawing.write(folder, number, samples)


def main() -> int:
    """Make the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seed", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--frequency", type=float, default=99)
    parser.add_argument("--cpus", type=float, default=4)
    parser.add_argument("--new-addresses", type=float, default=10.0, metavar="PER_MILLE")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    samples = int(options.seconds * options.frequency * options.cpus)
    for _ in hosts(options.seed, options.folder, range(1, options.hosts + 1), samples, options.new_addresses):
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
