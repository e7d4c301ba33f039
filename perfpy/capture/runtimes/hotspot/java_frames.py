"""Java in samples that are unwound while recording: callchains with interpreted and inlined methods, and the data that readers need.

Frames of such methods become addresses of bytecodes. The memory of bytecodes gets mapping records, because the kernel does not
report memory without machine code, and the methods get lines of perf maps.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from perfpy.abi import records
from perfpy.abi.code_mapping import code_mapping
from perfpy.abi.columns import Ragged, Slices, distinct
from perfpy.abi.flags import CONTEXT_MAX, CONTEXT_USER, MISC_MMAP_DATA, NATIVE_ENDIAN, RecordType
from perfpy.abi.framing import HEADER
from perfpy.abi.sample_id import NO_ID, IdLayout
from perfpy.capture.runtimes.hotspot.java_process import JavaProcess, library_of
from perfpy.kernel.procfs import ProcFs
from perfpy.symbols.mapped_names import is_memory

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from perfpy.abi.attr import EventAttr
    from perfpy.abi.columns import Columns
    from perfpy.perfdata.container.events import FileEvent
    from perfpy.perfdata.records.chunk import Chunk
    from perfpy.unwind.rules import FrameRules

#: The columns of samples that are needed.
FIELDS: Final = frozenset({"pid", "user_regs", "user_regs_abi", "user_stack"})

_STACK_POINTER: Final = 7  # of x86-64's registers in samples (perf_regs.h)
_FIRST_PAUSE: Final = 0.05  # seconds until a process without a ready JVM is checked again; doubled each time
_LONGEST_PAUSE: Final = 60.0
_PAGE: Final = 4096
_ANONYMOUS: Final = "//anon"
_MAPS: Final = (RecordType.MMAP, RecordType.MMAP2)
_NEVER: Final = (1 << 64) - 1


class _Pause(NamedTuple):
    until: float
    pause: float


class JavaFrames:
    """The JVMs among the recorded processes. event is the recording's first one."""

    def __init__(self, event: FileEvent) -> None:
        self._layout = IdLayout.of(event.attr, NATIVE_ENDIAN)
        self._identity = event.ids[0] if event.ids else 0
        self._procfs = ProcFs()
        self._processes: dict[int, JavaProcess] = {}
        self._waiting: dict[int, _Pause] = {}
        self._refused: set[int] = set()
        self._mapped: dict[int, list[tuple[int, int]]] = {}
        self._first: dict[int, int] = {}  # time of the first sample with methods not yet reported, by pid

    # samples just recorded

    def look(self, columns: Columns, attr: EventAttr) -> None:
        """Find JVMs in new samples, and read what their stacks lead to."""
        pids = columns["pid"]
        for pid in distinct(pids).tolist():
            process = self._process(pid)
            if process is not None:
                process.refresh()
                rows = np.flatnonzero(pids == pid)
                pointers = _stack_pointers(columns, attr, rows)
                for row, pointer in zip(rows.tolist(), pointers, strict=True):
                    process.look(stack_words(columns, row), pointer)

    def _process(self, pid: int) -> JavaProcess | None:
        if pid in self._processes:
            return self._processes[pid]
        now, waiting = time.monotonic(), self._waiting.get(pid, _Pause(0.0, _FIRST_PAUSE / 2))
        if now < waiting.until:
            return None
        library = library_of(pid, self._procfs)
        if library is not None:
            try:
                return self._processes.setdefault(pid, JavaProcess.of(pid, library))
            except PermissionError:
                self._refused.add(pid)
            except (OSError, LookupError, ValueError):
                pass  # it is still starting, or inaccessible
        pause = min(2 * waiting.pause, _LONGEST_PAUSE if library is None else 1.0)
        self._waiting[pid] = _Pause(now + pause, pause)
        return None

    # samples being unwound

    def rules(self, pid: int, addresses: Sequence[int]) -> list[FrameRules | None]:
        """Return the unwind rules for addresses in a process's code; None for unknown ones."""
        process = self._processes.get(pid)
        return [None] * len(addresses) if process is None else process.rules(addresses)

    def name_methods(
        self, columns: Columns, chains: Ragged, ip: NDArray[np.uint64], keys: NDArray[np.uint64]
    ) -> tuple[Ragged, NDArray[np.uint64]]:
        """Return callchains, and sampled addresses, with a frame for each method. keys are delivery keys (times, if there are any)."""
        changed: dict[int, list[int]] = {}
        for pid in distinct(columns["pid"]).tolist():
            if (process := self._processes.get(pid)) is not None:
                inside = (chains.values >= process.low) & (chains.values < process.high)
                hits = np.add.reduceat(np.append(inside, False), chains.offsets[:-1]) if len(chains) else np.zeros(0)
                for row in np.flatnonzero((columns["pid"] == pid) & (hits > 0) & (chains.lengths > 0)).tolist():
                    values = self._chain(process, chains[row], stack_words(columns, row))
                    if values != chains[row].tolist():
                        changed[row] = values
                        self._first[pid] = min(self._first.get(pid, _NEVER), int(keys[row]))
        if not changed:
            return chains, ip
        return _replace_chains(chains, changed), _leaves(chains, changed, ip)

    def _chain(self, process: JavaProcess, chain: NDArray[np.uint64], stack: NDArray[np.uint64]) -> list[int]:
        values: list[int] = chain.tolist()
        begin = values.index(CONTEXT_USER) + 1 if CONTEXT_USER in values else 0
        return values[:begin] + process.name_methods(values[begin:], stack)

    # data for readers

    def take_new_methods(self) -> tuple[bytes, dict[int, str]]:
        """Return what was not returned yet: records that map the memory of methods, and lines of perf maps by pid."""
        mappings, names, first = b"", {}, self._first
        self._first = {}
        for pid, moment in first.items():
            methods = self._processes[pid].new_methods()
            for method in methods:
                if not any(begin <= method.begin < end for begin, end in self._mapped.setdefault(pid, [])):
                    begin, end = self._memory_around(pid, method.begin, method.end)
                    self._mapped[pid].append((begin, end))
                    mappings += self._record(pid, begin, end, moment)
            if methods:
                names[pid] = "".join(f"{one.begin:x} {one.end - one.begin:x} {one.name}\n" for one in methods)
        return mappings, names

    def notes(self) -> list[str]:
        """Return notes for the user, at the end."""
        refused = sorted(self._refused - self._processes.keys())
        if not refused:
            return []
        pids = ", ".join(map(str, refused[:3])) + (" ..." if len(refused) > 3 else "")
        problem = f"warning: --jit: cannot read the memory of Java process {pids} (check kernel.yama.ptrace_scope)"
        return [f"{problem}; interpreted and inlined methods have no names"]

    def hides(self, chunk: Chunk, rows: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Return which records would hide these mappings: those of JVMs' data, whose memory grows."""
        hides = np.zeros(len(rows), bool)
        for number in np.flatnonzero(np.isin(chunk.types[rows], _MAPS)).tolist() if self._processes else ():
            record = chunk.record(int(rows[number]))
            kind, misc, _ = HEADER[NATIVE_ENDIAN].unpack_from(record)
            if misc & MISC_MMAP_DATA:
                mapping = records.decode(kind, misc, record[8:], NO_ID, NATIVE_ENDIAN)
                assert isinstance(mapping, (records.Mmap, records.Mmap2))
                hides[number] = mapping.pid in self._processes and is_memory(mapping.filename)
        return hides

    def _memory_around(self, pid: int, first: int, last: int) -> tuple[int, int]:
        """Return the mapping that contains an address; its pages if the process has ended."""
        try:
            for mapping in self._procfs.maps(pid, data=True):
                if mapping.start <= first < mapping.end:
                    return mapping.start, max(mapping.end, last)
        except OSError:
            pass
        return first & -_PAGE, (last + _PAGE - 1) & -_PAGE

    def _record(self, pid: int, begin: int, end: int, moment: int) -> bytes:
        record = code_mapping((pid, pid), (begin, end - begin, begin), _ANONYMOUS, moment, self._identity)
        return records.encode(record, self._layout, NATIVE_ENDIAN)


def _stack_pointers(columns: Columns, attr: EventAttr, rows: NDArray[np.intp]) -> Iterable[int]:
    """Return the addresses of the stack copies; 0 for samples without registers."""
    registers = columns["user_regs"].gather()
    index = (attr.sample_regs_user & ((1 << _STACK_POINTER) - 1)).bit_count()
    values = registers.values
    starts, lengths = registers.offsets[:-1][rows], registers.lengths[rows]
    return (int(values[start + index]) if length > index else 0 for start, length in zip(starts.tolist(), lengths.tolist(), strict=True))


def stack_words(columns: Columns, row: int) -> NDArray[np.uint64]:
    """Return the copy of a sample's stack."""
    stacks = columns["user_stack"]
    if isinstance(stacks, Slices) and not int(stacks.starts[row]) & 7:
        start, length = int(stacks.starts[row]), int(stacks.lengths[row]) & ~7
        return stacks.words[start : start + length].view(np.uint64)
    data = stacks.take(np.array([row])).gather().values
    return np.frombuffer(data[: len(data) & ~7].tobytes(), np.uint64)


def _replace_chains(chains: Ragged, changed: dict[int, list[int]]) -> Ragged:
    rows = [np.array(changed[row], np.uint64) if row in changed else chains[row] for row in range(len(chains))]
    offsets = np.zeros(len(chains) + 1, np.int64)
    np.cumsum([len(row) for row in rows], out=offsets[1:])
    return Ragged(np.concatenate(rows), offsets)


def _leaves(chains: Ragged, changed: dict[int, list[int]], ip: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the sampled addresses; one that was first in its callchain is replaced like the callchain."""
    leaves = ip.copy()
    for row, values in changed.items():
        for before, after in zip(chains[row].tolist(), values, strict=False):
            if before < CONTEXT_MAX:
                if before == int(ip[row]):
                    leaves[row] = after
                break
    return leaves
