"""The last lines of a recording: its size, its quality, and remedies. perf's own line comes first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.capture.record_options import DEFAULT_FREQ
from perfpy.kernel.ring import PAGE_SIZE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.capture.output.data_file import DataFile
    from perfpy.capture.record_options import RecordOptions
    from perfpy.perfdata.container.compression import Packer

_MEGABYTE: Final = 1 << 20
_FEW: Final = 400  # samples: a share of 10 % has an error of 3 points
_SURE: Final = 1.96  # standard deviations: 19 times out of 20
_LARGER: Final = 4  # times the ring buffer that was too small
_MOST_RING: Final = 64 << 20


def captured(name: str, size: int, samples: int | None, packer: Packer | None) -> str:
    """Return perf's line."""
    counted = f" ({samples} samples)" if samples else ""
    packed = ""
    if packer and packer.given:
        packed = f", compressed (original {packer.taken / _MEGABYTE:.3f} MB, ratio is {packer.ratio:.3f})"
    return f"[ perf record: Captured and wrote {size / _MEGABYTE:.3f} MB {name}{counted}{packed} ]"


def judgement(file: DataFile, options: RecordOptions, ring: int) -> Iterator[str]:
    """Yield notes on the recording's quality, with remedies. ring is the size of a ring buffer in bytes."""
    samples = file.samples
    if file.hint:
        yield f"note: {file.hint}"
    if file.lost:
        yield _losses(file.lost, samples, options, ring)
    if not options.notes or samples is None or options.sampling.no_samples:
        return
    if not samples:
        yield "note: no samples: nothing ran while it was recorded, or not what was asked for (-a records all of the machine)"
    elif samples < _FEW:
        freq = options.sampling.freq or DEFAULT_FREQ
        yield f"note: {samples} samples are few: {_exactness(samples)}; record for longer, or raise -F ({freq} Hz)"
    elif not (file.lost or file.hint):
        yield f"note: a good recording: {samples} samples, none lost; {_exactness(samples)}"


def _losses(lost: int, samples: int | None, options: RecordOptions, ring: int) -> str:
    share = f" ({100 * lost / (lost + samples):.1f} %)" if samples else ""
    larger = min(max(ring, PAGE_SIZE) * _LARGER, _MOST_RING)
    size = f"{larger >> 20}M" if larger >= _MEGABYTE else f"{larger >> 10}K"
    remedies = [f"larger buffers (-m {size})"]
    if not options.sampling.period:
        remedies.append(f"a lower frequency (-F {max((options.sampling.freq or DEFAULT_FREQ) // 2, 1)})")
    return f"warning: {lost} samples were lost{share}: try {' or '.join(remedies)}"


def _exactness(samples: int) -> str:
    """Return the precision of a share: the spread of a binomial distribution."""
    return f"a share of 10 % is known to {100 * _SURE * (0.1 * 0.9 / samples) ** 0.5:.1f} points"
