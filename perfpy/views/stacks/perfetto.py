"""Samples as a Perfetto trace: packets of perf samples with interned callstacks, and the names of processes and threads.

Field numbers are those of protos/perfetto/trace/perfetto_trace.proto (TracePacket, PerfSample, InternedData, ProcessTree). Each event is a
sequence of packets of its own: its first packet has all its callstacks. Times are those of the recording.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.views.readable import readable, source_file
from perfpy.views.stacks.protobuf import message, number, text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfpy.analysis.stacks.code_sites import FileMapping
    from perfpy.analysis.stacks.stacks import Stacks, TimedSamples

_UNNAMED: Final = "[unknown]"
_CLEARED, _NEEDS_STATE = 1, 2  # TracePacket.SequenceFlags: the first packet of a sequence, and the later packets that refer to it
_KERNEL, _USER = 1, 2  # Profiling.CpuMode
_UINT32: Final = (1 << 32) - 1
#: fields of InternedData
_BUILD_IDS, _PATHS, _SOURCE_PATHS, _FUNCTION_NAMES, _MAPPINGS, _FRAMES, _CALLSTACKS = 16, 17, 18, 5, 19, 6, 7


def perfetto(parts: Sequence[Stacks]) -> bytes:
    """Return the trace. Raises ValueError if samples have no times."""
    packets = [_process_tree(parts)]
    for sequence, part in enumerate(parts, 1):
        if part.timed is None:
            raise ValueError("a Perfetto trace needs the samples' times")
        callstacks = _Callstacks(part, np.unique(part.timed.chain).tolist())
        timebase = message(1, text(10, part.event))
        first = number(13, _CLEARED) + number(87, 1) + message(59, message(12, timebase)) + message(12, callstacks.interned())
        packets.append(number(10, sequence) + first)
        packets += (number(10, sequence) + number(13, _NEEDS_STATE) + sample for sample in _samples(part, part.timed))
    return b"".join(message(1, packet) for packet in packets)


def _process_tree(parts: Sequence[Stacks]) -> bytes:
    """Return a packet with the processes and threads, each with its last name."""
    names: dict[tuple[int, int], str] = {}
    for part in parts:
        if part.timed is not None:
            columns = (part.timed.pid.tolist(), part.timed.tid.tolist(), part.timed.comm.tolist())
            tasks = dict.fromkeys(zip(*columns, strict=True))
            names.update({(pid, tid): part.comms[comm] for pid, tid, comm in tasks if pid >= 0 and tid >= 0})
    processes = {pid: names.get((pid, pid), name) for (pid, _), name in names.items()}
    tree = [message(1, number(1, pid) + text(3, name) + number(9, 1)) for pid, name in processes.items()]
    tree += [message(2, number(1, tid) + number(3, pid) + text(2, name)) for (pid, tid), name in names.items()]
    return message(2, b"".join(tree))


def _samples(part: Stacks, timed: TimedSamples) -> Iterator[bytes]:
    """Yield the fields of the packet of each sample. The counter of an event grows on each CPU by the weights of its samples."""
    lengths, innermost = np.diff(part.offsets), part.frames[np.minimum(part.offsets[:-1], max(len(part.frames) - 1, 0))]
    in_kernel = np.array([function.kernel for function in part.functions] or [False], np.bool_)
    modes = np.where((lengths > 0) & in_kernel[innermost], _KERNEL, _USER)[timed.chain] if len(lengths) else timed.chain
    columns = (timed.time, timed.cpu, timed.pid, timed.tid, timed.chain, timed.weight, modes)
    counts: dict[int, int] = {}
    for time, cpu, pid, tid, chain, weight, mode in zip(*(column.tolist() for column in columns), strict=True):
        counts[cpu] = count = counts.get(cpu, 0) + weight
        where = (number(1, cpu) if cpu >= 0 else b"") + number(2, pid & _UINT32) + number(3, tid & _UINT32)
        yield number(8, time) + message(66, where + number(4, chain + 1) + number(5, mode) + number(6, count & (1 << 63) - 1))


class _InternedTexts:
    """Texts with ids from 1 on."""

    def __init__(self, field: int) -> None:
        self._field = field
        self._ids: dict[str, int] = {}

    def id_of(self, value: str) -> int:
        return self._ids.setdefault(value, len(self._ids) + 1)

    def content(self) -> list[bytes]:
        return [message(self._field, number(1, ident) + text(2, value)) for value, ident in self._ids.items()]


class _Callstacks:
    """The callstacks of one event with their frames and mappings; the id of a callstack is the number of its chain plus 1."""

    def __init__(self, part: Stacks, chains: Sequence[int]) -> None:
        self._part, self._chains = part, chains
        self._names, self._paths = _InternedTexts(_FUNCTION_NAMES), _InternedTexts(_PATHS)
        self._sources, self._build_ids = _InternedTexts(_SOURCE_PATHS), _InternedTexts(_BUILD_IDS)
        self._frames: dict[tuple[int, int], int] = {}
        self._mappings: dict[FileMapping | str, int] = {}

    def interned(self) -> bytes:
        """Return the message InternedData."""
        callstacks = [message(_CALLSTACKS, number(1, chain + 1) + _repeated(2, self._frames_of(chain))) for chain in self._chains]
        frames = [message(_FRAMES, number(1, ident) + self._frame(*frame)) for frame, ident in self._frames.items()]
        mappings = [message(_MAPPINGS, number(1, ident) + self._mapping(mapping)) for mapping, ident in self._mappings.items()]
        texts = (one.content() for one in (self._names, self._paths, self._sources, self._build_ids))
        return b"".join([*(entry for content in texts for entry in content), *mappings, *frames, *callstacks])

    def _frames_of(self, chain: int) -> list[int]:
        """Return the ids of a chain's frames, outermost first."""
        functions = self._part.chain_of(chain).tolist()
        sites = [-1] * len(functions) if self._part.sites is None else self._part.sites_of(chain).tolist()
        return [self._frames.setdefault(frame, len(self._frames) + 1) for frame in zip(functions[::-1], sites[::-1], strict=True)]

    def _frame(self, number_of_function: int, site: int) -> bytes:
        function, sites = self._part.functions[number_of_function], self._part.sites
        source = sites.source_of(site) if sites is not None and site >= 0 else None
        mapping: FileMapping | str = function.dso or _UNNAMED
        address = 0
        if sites is not None and site >= 0 and sites.mapping[site] >= 0:
            mapping = sites.mappings[int(sites.mapping[site])]
            address = max(int(sites.address[site]) - mapping.start + mapping.offset, 0)
        path = source.path if source else source_file(function.name)
        where = (number(5, self._sources.id_of(path)) if path else b"") + number(6, source.line if source else 0)
        of_mapping = self._mappings.setdefault(mapping, len(self._mappings) + 1)
        return number(2, self._names.id_of(readable(function.name) or _UNNAMED)) + number(3, of_mapping) + number(4, address) + where

    def _mapping(self, mapping: FileMapping | str) -> bytes:
        path = mapping if isinstance(mapping, str) else mapping.path
        folders = [self._paths.id_of(folder) for folder in path.strip("/").split("/")]
        names = _repeated(7, folders)
        if isinstance(mapping, str):
            return names
        build_id = number(2, self._build_ids.id_of(mapping.build_id)) if mapping.build_id else b""
        return build_id + number(8, mapping.offset) + number(4, mapping.start) + number(5, mapping.end) + names


def _repeated(field: int, ids: Sequence[int]) -> bytes:
    """Return a repeated field of ids: not packed, as in proto2."""
    return b"".join(number(field, one) for one in ids)
