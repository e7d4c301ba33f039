"""A hint for `record -g` of programs without frame pointers: whether the callchains are complete enough.

Some hundreds of samples from all parts of the file are read, without numpy, which takes a few milliseconds whatever the file's
size. A chain ends with its first frame if the next address lies in no code: without frame pointers the kernel takes any value
in that register for a frame.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import CONTEXT_MAX, CONTEXT_USER, RecordType, SampleType
from perfpy.abi.samples.fixed_fields import words_before
from perfpy.symbols.short_callchains import ChainEnds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfpy.abi.attr import EventAttr
    from perfpy.capture.dso_hits import DsoHits

_HEADER: Final = struct.Struct("=IHH")
_WORD: Final = struct.Struct("=Q")
_MOST: Final = 2000  # samples


def has_walked_chains(attrs: Sequence[EventAttr]) -> bool:
    """Whether the kernel walks user frames in all samples, and their callchains are at a known offset."""
    return all(
        attr.sample_type & SampleType.CALLCHAIN
        and not attr.sample_type & (SampleType.STACK_USER | SampleType.READ | SampleType.BRANCH_STACK)
        and not attr.exclude_callchain_user
        and not attr.exclude_user
        for attr in attrs
    )


def chain_ends(data: memoryview, starts: Sequence[int], attrs: Sequence[EventAttr], hits: DsoHits) -> ChainEnds:
    """Read samples from every part of the data. starts are offsets of rounds; hits has the mappings."""
    kind = attrs[0].sample_type
    chain_at = 8 * words_before(kind)
    pid_at = 8 * words_before(kind, SampleType.TID)
    chains, early = 0, dict[str, int]()
    each = max(_MOST // max(len(starts), 1), 1)
    for start in starts:
        for offset in _samples(data, start, each):
            pid = _HEADER.unpack_from(data, offset + pid_at)[0]
            frames = _user_frames(data, offset + chain_at)
            first = hits.file_of(pid, frames[0]) if frames else None
            if first is None:
                continue
            chains += 1
            if len(frames) < 2 or hits.file_of(pid, frames[1]) is None:
                early[first.name] = early.get(first.name, 0) + 1
    return ChainEnds(chains, early)


def _samples(data: memoryview, offset: int, most: int) -> Iterator[int]:
    """Yield the offsets of the next samples."""
    while offset + 8 <= len(data) and most > 0:
        kind, _, size = _HEADER.unpack_from(data, offset)
        if size < 8 or offset + size > len(data):
            return
        if kind == RecordType.SAMPLE:
            yield offset
            most -= 1
        offset += size


def _user_frames(data: memoryview, offset: int) -> list[int]:
    """Return the innermost two user addresses of a callchain."""
    (count,) = _WORD.unpack_from(data, offset)
    words = data[offset + 8 : offset + 8 + 8 * min(count, 512)].cast("Q").tolist()
    if CONTEXT_USER not in words:
        return []
    first = words.index(CONTEXT_USER) + 1
    return [word for word in words[first : first + 2] if word < CONTEXT_MAX]
