"""Convert pieces of the ring buffers to the same records with callchains.

Samples of this process itself are dropped: in recordings of whole CPUs its work would be visible.
"""

from __future__ import annotations

import os
import struct
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi import records
from perfpy.abi.columns import Columns, Ragged, distinct, slices_index
from perfpy.abi.flags import CONTEXT_MAX, CONTEXT_USER, CONTEXTS, MISC_COMM_EXEC, MISC_USER, NATIVE_ENDIAN, PerfType, RecordType, SampleType
from perfpy.abi.light_types import NamedTuple
from perfpy.abi.sample_decoding import Cursor, SampleLayout, variable_decoders
from perfpy.abi.task_columns import TASK_TYPES
from perfpy.capture.dso_hits import DsoHits, build_ids_in_mappings
from perfpy.capture.unwinding.process import has_stacks, plain_attr
from perfpy.perfdata.kept_files import PROCESSES, STATES
from perfpy.perfdata.records.delivery import EventTable, OrderedChunk
from perfpy.perfdata.records.stream import Chunk
from perfpy.symbols.dso import DsoKind, DsoTable, user_kind
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.symbols.files.debug_files import find as find_files
from perfpy.symbols.live_tasks import LiveTasks
from perfpy.symbols.quality_notes import TruncatedStacks, truncation_note
from perfpy.symbols.symbolizer import Symbolizer
from perfpy.symbols.tasks import is_memory, is_user_map
from perfpy.unwind.callchains import UserCallchains

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from numpy.typing import NDArray

    from perfpy.abi.attr import EventAttr
    from perfpy.capture.off_cpu_events import RawField, WaitPlan
    from perfpy.capture.python_frames.recorded_frames import PythonFrames
    from perfpy.capture.runtimes.hotspot import JavaFrames
    from perfpy.capture.unwinding.chosen_tasks import ConcernedProcesses, RepeatedHits
    from perfpy.capture.unwinding.observed_states import ObservedCommands, ObservedStates
    from perfpy.capture.unwinding.process import SharedProcesses
    from perfpy.capture.unwinding.switches_to_waits import PieceWaits
    from perfpy.perfdata.events import FileEvent
    from perfpy.symbols.dso import Dso
    from perfpy.symbols.files.debug_files import DsoFiles
    from perfpy.untrusted.process_files import FileId

    _FileKey = tuple[str, str, FileId | None]

_MOST_FRAMES: Final = 127  # native ones of a callchain
_MOST_FRAMES_OF_PYTHON: Final = 1024  # the same: a call by way of C takes some ten of them
_MOST_JOINED: Final = 8 << 20  # bytes
_LONGEST_JOINING: Final = 8.0  # seconds
_COMM: Final = struct.Struct("=IHHII")  # the header of a COMM record, and its pid and tid
_FORK: Final = struct.Struct("=IHHIIII")  # the header of a FORK record, and its pid, ppid, tid and ptid
_MOST_AT_ONCE: Final = 1 << 10  # stacks
_PART: Final = 1 << 16  # bytes that the recorder writes at once


class _Held(NamedTuple):
    """A piece that waits for the next one.

    Attributes:
        rows: indexes of its samples.
        events, keys: of the samples.
        times: of all its records.
        other_events: of the side-band.
        is_dropped: bool[n], of the samples: whether another one is of the same hit, or none of the concerned processes is; None for none.
    """

    chunk: Chunk
    rows: NDArray[np.intp]
    samples: Chunk
    events: NDArray[np.int32]
    keys: NDArray[np.uint64]
    times: NDArray[np.uint64]
    other_events: NDArray[np.int32]
    is_dropped: NDArray[np.bool_] | None = None


class UnwoundPiece(NamedTuple):
    """A piece with callchains, or several ones that were joined.

    Attributes:
        parts: its records, in parts of whole ones.
        side_band: a copy of the side-band.
        names: lines of perf maps.
        pieces: how many pieces were joined.
    """

    parts: list[bytes]
    side_band: bytes
    names: dict[int, str]
    pieces: int = 1


class PieceUnwinder:
    """Unwinds the pieces of one recording in order.

    Args:
        own: the pid whose samples are dropped.
        machine: as in uname.
        plan: how switches become samples of waits (record --off-cpu), which replace them.
        only: the events whose stacks are unwound, None for all.
        jit: find the names of interpreted and inlined methods in runtimes' memory.
        python: the descriptor of Python frames and the image's folder, as in PythonFrames.
        is_live: no file is written, so that neither its files nor their build-ids are of interest; and files are opened only when samples
            hit them (opens_files of Replay).
        joins: unwind several small pieces at once: a step costs nearly the same for one stack as for hundreds.
        only_python: unwind the stacks of Python processes only; those of others cost far more than they tell.
        around: unwind the stacks only of these processes, of new ones that they or the recorder start, and of those that wake them.
        concerned: tells the reader of Python frames which processes these are.

    Attributes:
        left: the number of stacks that were not unwound because it was late.
    """

    def __init__(
        self,
        events: Sequence[FileEvent],
        own: int | None = None,
        machine: str = "",
        *,
        plan: WaitPlan | None = None,
        only: Collection[int] | None = None,
        jit: bool = False,
        python: tuple[int, str | None] | None = None,
        is_live: bool = False,
        joins: bool = False,
        only_python: bool = False,
        around: Collection[int] | None = None,
        concerned: SharedProcesses | None = None,
    ) -> None:
        self._table = EventTable(events, NATIVE_ENDIAN)
        self._attrs = [event.attr for event in events]
        self._are_tracepoints = np.array([attr.type == PerfType.TRACEPOINT for attr in self._attrs], np.bool_)
        self._unwound_events = [event.index for event in events if has_stacks(event.attr) and (only is None or event.index in only)]
        self._is_live = is_live
        self._only_python = only_python
        self._own = os.getpid() if own is None else own
        self._plan = plan
        self._waits: PieceWaits | None = None
        if plan is not None:
            from perfpy.capture.unwinding.switches_to_waits import PieceWaits  # rarely needed

            self._waits = PieceWaits(plan, events, self._table.layouts, self._own)
        self._machine = machine or os.uname().machine
        self._java: JavaFrames | None = None
        if jit and self._machine == "x86_64":
            from perfpy.capture.runtimes.hotspot import JavaFrames  # rarely needed

            self._java = JavaFrames(events[0])
        self._python: PythonFrames | None = None
        if python:
            from perfpy.capture.python_frames.recorded_frames import PythonFrames  # rarely needed

            self._python = PythonFrames(events[0], *python)
        self._states: ObservedStates | None = None
        self._commands: ObservedCommands | None = None
        self._executed: list[int] = []  # processes that have executed a program, until they are looked at
        self._created: list[int] = []  # processes that were created, until they are looked at
        self._concerned: ConcernedProcesses | None = None
        self._wakings: dict[int, RawField] = {}  # the thread that is woken, by event
        self._repeated: RepeatedHits | None = None
        if around is not None:
            from perfpy.capture.unwinding.chosen_tasks import ConcernedProcesses, RepeatedHits, wakings_of  # rarely needed

            self._repeated = RepeatedHits(self._attrs)
            self._concerned = ConcernedProcesses(around, os.getppid(), concerned)
            self._wakings = wakings_of(self._attrs)
        self._replay = Replay(self._table, opens_files=not is_live, concerned=self._concerned)
        self._held: list[_Held] = []  # pieces that wait for the next one, which are unwound together
        self._held_since, self.left = 0.0, 0
        self._joins = joins and self._java is None
        self._current: tuple[Symbolizer, UserCallchains] | None = None
        self._truncated: dict[int, TruncatedStacks] = {}
        self._hits = DsoHits([plain_attr(attr) if number in self._unwound_events else attr for number, attr in enumerate(self._attrs)])

    def _get_ready(self) -> None:
        """Open new files at once: they may be deleted before their samples are unwound."""
        if self._unwound_events and not self._is_live:
            self._replay.open_new_files()

    def learn(self, chunk: Chunk) -> None:
        """Learn from records that are in the file already: synthesized ones."""
        self._see(chunk)
        self._scan(chunk.data.data)
        self._get_ready()

    @property
    def reads_runtimes(self) -> bool:
        """Whether read_runtimes() reads anything."""
        return self._java is not None

    def read_runtimes(self, chunk: Chunk) -> None:
        """Read what runtimes' memory tells about a piece's samples: the processes may end before the samples are unwound."""
        if self._java is None:
            return
        samples = chunk.rows(np.flatnonzero(chunk.types == RecordType.SAMPLE))
        events = self._table.of_samples(samples)
        for number in self._unwound_events:
            indexes = np.flatnonzero(events == number)
            if len(indexes):
                columns = self._table.layouts[number].decode(chunk.data, samples.starts[indexes], self._java.fields, late=True)
                self._java.look(columns, self._attrs[number])

    def take(self, chunk: Chunk) -> UnwoundPiece | None:
        """Take the next piece; return the records of the previous one, None for the first."""
        newest = self._see(chunk)
        if self._python:
            self._python.receive()
        held = self._held
        self._get_ready()
        now = time.monotonic()
        is_small = sum(len(one.chunk.data) for one in (*held, newest)) <= _MOST_JOINED
        if held and self._joins and is_small and now - self._held_since < _LONGEST_JOINING:
            held.append(newest)
            return None
        self._held, self._held_since = [newest], now
        if not held:
            return None
        joined = _joined(held)
        piece = self._unwound(joined)._replace(pieces=len(held))
        if self._python:
            self._python.finish(int(joined.times[joined.rows].max(initial=0)), [*_ends(joined), *_ends(newest)])
        return piece

    def rest(self) -> UnwoundPiece | None:
        """Return the records of the last piece."""
        held, self._held = self._held, []
        piece = self._unwound(_joined(held))._replace(pieces=len(held)) if held else None
        if self._waits is None or not (waits := self._waits.rest()):
            return piece
        self._scan(memoryview(waits))
        return UnwoundPiece([*(piece.parts if piece else ()), waits], *(piece[1:] if piece else (b"", {})))

    def look(self) -> float | None:
        """Look at processes, shells and Go programs; return the seconds until the next time, None without any."""
        if self._states is None or self._commands is None:
            return None
        executed, self._executed = self._executed, []
        created, self._created = self._created, []
        self._states.note(executed)
        self._commands.note([*created, *executed])
        return min(filter(None, (self._states.look(), self._commands.look())), default=None)

    def _note_new(self, executed: list[int], created: list[int]) -> None:
        """Note processes to look at. Their CPU limits are looked at now, unlike their states."""
        if not executed and not created:
            return
        if self._states is None or self._commands is None:
            from perfpy.capture.unwinding.observed_states import ObservedCommands, ObservedStates  # not before a program runs

            self._states = ObservedStates(has_stacks=self._plan is None or self._plan.switches >= 0)
            self._commands = ObservedCommands()
        self._states.note_limits(executed)
        self._states.note_created(created)
        self._executed += executed
        self._created += created

    def _see(self, chunk: Chunk) -> _Held:
        """Learn from the side-band of a piece."""
        table = self._table
        rows, others = np.flatnonzero(chunk.types == RecordType.SAMPLE), chunk.others
        samples, side_band = chunk.rows(rows), chunk.rows(others)
        events, other_events = table.of_samples(samples), np.zeros(len(others), np.int32)
        times = np.zeros(len(chunk), np.uint64)
        times[rows] = table.sample_times(samples, events)
        of_kernel = side_band.types < RecordType.HEADER_ATTR
        kernel_records = side_band.rows(np.flatnonzero(of_kernel))
        other_events[of_kernel] = table.of_side_band(kernel_records)
        times[others[of_kernel]] = table.side_band_times(kernel_records, other_events[of_kernel])
        keys = self._replay.keys(times)
        held = _Held(chunk, rows, samples, events, keys[rows], times, other_events)
        if self._concerned and self._repeated:
            is_dropped = self._repeated.are_repeated(samples, events, times[rows], table.layouts)
            is_dropped |= self._note_concerned(self._concerned, held)
            held = held._replace(is_dropped=is_dropped)
        if not self._is_live and self._machine == "x86_64":
            concern = self._concerned.choose if self._concerned else list
            self._note_new(concern(executing_processes(chunk)), concern(created_processes(chunk)))
        self._replay.add(chunk, keys, times, other_events)
        return held

    def _unwound(self, held: _Held) -> UnwoundPiece:
        rewriting = Rewriting(held.chunk)
        is_wanted = np.ones(len(held.rows), np.bool_) if held.is_dropped is None else ~held.is_dropped
        rewriting.kept_records[held.rows[~is_wanted]] = False
        switches: Ragged | None = None
        for number in self._unwound_events:
            indexes = np.flatnonzero((held.events == number) & is_wanted)
            if len(indexes):
                samples = held.samples.rows(indexes)
                chains, leaves = self._chains(number, samples, held.keys[indexes])
                if self._plan and number == self._plan.switches:
                    switches = chains
                else:
                    rewriting.replace(held.rows[indexes], parts_of(self._attrs[number], samples), chains)
                    if leaves is not None and (word := self._table.layouts[number].word_of("ip")) is not None:
                        rewriting.put(held.rows[indexes], word, leaves)
        layout = self._table.layouts[0]
        pids = layout.decode(held.samples.data, held.samples.starts, ["pid"]).get("pid") if len(held.rows) else None
        if pids is not None:  # a switch of this process tells which other thread began to run
            rewriting.kept_records[held.rows[(pids == self._own) & ~self._are_tracepoints[held.events]]] = False
        rewriting.kept_records[held.rows[held.events < 0]] = False
        waits = self._with_waits(held, rewriting, switches)
        mappings, names = self._java.take_new_methods() if self._java else (b"", {})
        mappings += self._python.take_side_band() if self._python else b""
        others = held.chunk.others
        if self._java:
            rewriting.kept_records[others[self._java.hides(held.chunk, others)]] = False
        parts = [*([mappings] if mappings else []), *rewriting.written(_PART), *([waits] if waits else [])]
        for part in parts:
            self._scan(memoryview(part))
        if not self._is_live and (build_ids := self._replay.elsewhere()):
            parts = [with_build_ids(part, build_ids) for part in parts]
        words = held.chunk.data[: len(held.chunk.data) & ~7].view(np.uint64)
        chosen = held.chunk.rows(others[rewriting.kept_records[others]])
        side_band = words[slices_index(chosen.starts >> 3, chosen.sizes.astype(np.int64) >> 3)[0]].tobytes()
        return UnwoundPiece(parts, mappings + side_band, names)

    def _scan(self, records: memoryview) -> None:
        """Note the files of mappings and samples for the end of the recording."""
        if not self._is_live:
            self._hits.scan(records)

    def _with_waits(self, held: _Held, rewriting: Rewriting, switches: Ragged | None) -> bytes:
        """Return the samples of waits for a piece, and drop the records that they replace."""
        if self._waits is None:
            return b""
        others = held.chunk.others
        side_band = held.chunk.rows(others)
        rewriting.kept_records[held.rows[self._waits.are_hidden(held.events)]] = False
        rewriting.kept_records[others[self._waits.switches_of(side_band, held.other_events)]] = False
        rewriting.kept_records[others[self._waits.losses_of(side_band, held.other_events)]] = False
        timed = held.times[held.times > 0]
        newest, oldest = (int(timed.max()), int(timed.min())) if len(timed) else (0, 0)
        side_times = held.times[others]
        return self._waits.of_piece(held.samples, held.events, side_band, held.other_events, side_times, switches, newest, oldest)

    def _note_concerned(self, concerned: ConcernedProcesses, held: _Held) -> NDArray[np.bool_]:
        """Note the processes that a piece's forks and wakeups make worth unwinding; return which samples concern none of them: wakeups."""
        words = held.chunk.data[: len(held.chunk.data) & ~3].view(np.uint32)
        forks = held.chunk.others[held.chunk.types[held.chunk.others] == RecordType.FORK]
        pid, parent, tid = (words.take((held.chunk.starts[forks] >> 2) + 2 + number, mode="clip").tolist() for number in range(3))
        concerned.note_forks(zip(pid, parent, tid, strict=True))
        is_foreign = np.zeros(len(held.rows), np.bool_)
        wakeups = []
        for number in distinct(held.events[held.events >= 0]).tolist():
            samples = held.samples.rows(np.flatnonzero(held.events == number))
            field = self._wakings.get(number)
            columns = self._table.layouts[number].decode(samples.data, samples.starts, {"pid", "tid", *(("raw",) if field else ())})
            if "pid" in columns:
                concerned.note_threads(columns["pid"], columns["tid"])
            if field is not None and "raw" in columns:
                concerned.note_wakeups(columns["pid"], columns["raw"], field)
                if not self._attrs[number].sample_type & SampleType.CALLCHAIN:  # the machine is too busy for others' wakeups
                    wakeups.append((number, columns["pid"], columns["raw"], field))
        for number, *wakeup in wakeups:
            is_foreign[held.events == number] = concerned.concern_none(*wakeup)
        return is_foreign

    def _chains(self, number: int, samples: Chunk, keys: NDArray[np.uint64]) -> tuple[Ragged, NDArray[np.uint64] | None]:
        """Return complete callchains of one event's samples; and the sampled addresses if they change."""
        if self._concerned and self._java is None and len(samples) > _MOST_AT_ONCE:  # it may become late meanwhile
            half = len(samples) // 2
            parts = [self._chains(number, samples.rows(rows), keys[rows]) for rows in np.split(np.arange(len(samples)), [half])]
            return Ragged.concat([chains for chains, _ in parts]), None
        pids = self._pids(number, samples)
        if self._concerned:
            is_concerned = np.isin(pids, self._concerned.pids)
            if self._concerned.is_late:
                self.left += int(is_concerned.sum())
                is_concerned[:] = False
            if not is_concerned.all():
                return self._chains_of(number, samples, keys, is_concerned)
        if self._only_python and self._python:
            self._python.wait(int(self._table.layouts[number].decode(samples.data, samples.starts, ["time"])["time"].max()))
            is_python = np.isin(pids, self._python.pids())
            if not is_python.all():
                return self._chains_of(number, samples, keys, is_python)
        return self._unwound_chains(number, samples, keys, pids)

    def _pids(self, number: int, samples: Chunk) -> NDArray[np.uint32]:
        pids: NDArray[np.uint32] = self._table.layouts[number].decode(samples.data, samples.starts, ["pid"])["pid"].astype(np.uint32)
        return pids

    def _chains_of(
        self, number: int, samples: Chunk, keys: NDArray[np.uint64], is_chosen: NDArray[np.bool_]
    ) -> tuple[Ragged, NDArray[np.uint64] | None]:
        """Return complete callchains of chosen samples, and the kernel's of others; and the sampled addresses if they change."""
        chosen, others = np.flatnonzero(is_chosen), np.flatnonzero(~is_chosen)
        rows = samples.rows(others)
        columns = self._table.layouts[number].decode(rows.data, rows.starts, ["callchain", "ip", "cpumode"])
        chains = recordable(columns["callchain"].gather(), columns["ip"], columns["cpumode"] == MISC_USER)
        if not len(chosen):
            return chains, None
        of_chosen = samples.rows(chosen)
        unwound, leaves = self._unwound_chains(number, of_chosen, keys[chosen], self._pids(number, of_chosen))
        order = np.argsort(np.concatenate([chosen, others]))
        return Ragged.concat([unwound, chains]).take(order), None if leaves is None else np.concatenate([leaves, columns["ip"]])[order]

    def _unwound_chains(
        self, number: int, samples: Chunk, keys: NDArray[np.uint64], pids: NDArray[np.uint32]
    ) -> tuple[Ragged, NDArray[np.uint64] | None]:
        only = self._concerned.sorted_pids if self._concerned else distinct(pids) if self._is_live else None
        callchains = self._callchains(int(keys.min()), only)
        fields = {*callchains.fields, "ip", "cpumode", *(("tid", "time") if self._python else ())}
        columns = self._table.layouts[number].decode(samples.data, samples.starts, fields, late=True)
        extended: Ragged = callchains.extend(columns, np.full(len(samples), number, np.int32), keys)["callchain"].gather()
        chains = recordable(extended, columns["ip"], columns["cpumode"] == MISC_USER)
        leaves: NDArray[np.uint64] | None = None
        if self._java:
            chains, leaves = self._java.name_methods(columns, chains, columns["ip"], keys)
        if self._python:
            chains = self._python.add_frames(columns, self._attrs[number], chains, keys, callchains)
        return chains, leaves

    @property
    def function_count(self) -> int:
        """The number of Python functions so far."""
        return self._python.function_count if self._python else 0

    def images(self) -> Iterator[tuple[str, bytes]]:
        """Yield the images of functions so far, and the states of shells and Go programs."""
        if self._python:
            yield from self._python.write_images()
        if self._states and (states := self._states.encoded()):
            yield STATES, states
        if self._commands and (commands := self._commands.encoded()):
            yield PROCESSES, commands

    def _callchains(self, before: int, pids: NDArray[np.uint32] | None) -> UserCallchains:
        """Return the unwinder for the current mappings of processes. No later sample has a key below `before`."""
        symbolizer = self._replay.symbolizer(before, pids)
        if self._current is None or symbolizer is not self._current[0]:
            self._note_truncated()
            most = _MOST_FRAMES_OF_PYTHON if self._python else _MOST_FRAMES
            java = self._java
            callchains = UserCallchains(self._attrs, self._machine, symbolizer, endian=NATIVE_ENDIAN, max_stack=most, runtime_code=java)
            self._current = (symbolizer, callchains)
        return self._current[1]

    def hits(self) -> bytes:
        """Return the files that samples hit, in the format of DsoHits.to_bytes()."""
        return self._hits.to_bytes()

    def _note_truncated(self) -> None:
        for new in self._current[1].truncated_stacks if self._current else ():
            old = self._truncated.get(new.size, new._replace(truncated=0, stacks=0))
            self._truncated[new.size] = TruncatedStacks(old.truncated + new.truncated, old.stacks + new.stacks, new.size)

    def notes(self) -> list[str]:
        """Return notes for the user, at the end."""
        self._note_truncated()
        self._current = None
        whole = self._python.completed if self._python else {}
        truncated = [one._replace(truncated=max(one.truncated - whole.get(one.size, 0), 0)) for one in self._truncated.values()]
        return (
            [f"note: {line}" for line in truncation_note(truncated)]
            + (self._waits.notes() if self._waits else [])
            + (self._java.notes() if self._java else [])
            + (self._python.notes() if self._python else [])
        )


def with_build_ids(part: bytes, build_ids: Mapping[tuple[bytes, tuple[int, ...]], bytes]) -> bytes:
    """Write the build-ids of files into the records of their mappings: a report could take files of the host with the same path."""
    changed = bytearray(part)
    for offset, piece in build_ids_in_mappings(memoryview(part), build_ids):
        changed[offset : offset + len(piece)] = piece
    return bytes(changed)


def recordable(chains: Ragged, ip: NDArray[np.uint64], is_user: NDArray[np.bool_]) -> Ragged:
    """Return callchains in the format of a file; ip and is_user are the samples' addresses."""
    return _with_leaves(_without_false_markers(chains), ip, is_user)


def _without_false_markers(chains: Ragged) -> Ragged:
    """Remove addresses that a reader would take for unknown context markers: callers at -1, and the mark of lost ones."""
    false = (chains.values >= np.uint64(CONTEXT_MAX)) & ~np.isin(chains.values, np.array(CONTEXTS, np.uint64))
    if not false.any():
        return chains
    before = np.concatenate([[0], np.cumsum(false)])
    return Ragged(chains.values[~false], chains.offsets - before[chains.offsets])


def _with_leaves(chains: Ragged, ip: NDArray[np.uint64], is_user: NDArray[np.bool_]) -> Ragged:
    """Add the sampled address to callchains without frames, as the kernel does."""
    lengths = chains.lengths
    last = chains.values[np.maximum(chains.offsets[1:] - 1, 0)] if len(chains.values) else np.zeros(len(chains), np.uint64)
    rows = np.flatnonzero(is_user & ((lengths == 0) | (last == np.uint64(CONTEXT_USER))))
    if not len(rows):
        return chains
    added = np.zeros(len(chains), np.int64)
    added[rows] = 1 + (lengths[rows] == 0)
    offsets = np.concatenate([[0], np.cumsum(lengths + added)]).astype(np.int64)
    values = np.full(int(offsets[-1]), CONTEXT_USER, np.uint64)
    values[slices_index(offsets[:-1], lengths)[0]] = chains.values
    values[offsets[1:][rows] - 1] = ip[rows]
    return Ragged(values, offsets)


def _joined(pieces: list[_Held]) -> _Held:
    """Return consecutive pieces as one."""
    if len(pieces) == 1:
        return pieces[0]
    chunks = [piece.chunk for piece in pieces]
    begins = np.cumsum([0, *(len(chunk.data) for chunk in chunks[:-1])]).tolist()
    counts = np.cumsum([0, *(len(chunk) for chunk in chunks[:-1])]).tolist()
    chunk = Chunk(
        _concatenated([one.data for one in chunks]),
        np.concatenate([one.starts + begin for one, begin in zip(chunks, begins, strict=True)]),
        NATIVE_ENDIAN,
        0,
    )
    rows = np.concatenate([piece.rows + count for piece, count in zip(pieces, counts, strict=True)])
    events, keys, times, other_events = (
        np.concatenate([getattr(piece, name) for piece in pieces]) for name in ("events", "keys", "times", "other_events")
    )
    dropped = [piece.is_dropped for piece in pieces if piece.is_dropped is not None]
    return _Held(chunk, rows, chunk.rows(rows), events, keys, times, other_events, np.concatenate(dropped) if dropped else None)


def _concatenated(parts: list[NDArray[np.uint8]]) -> NDArray[np.uint8]:
    """Concatenate arrays, without a copy if they lie one after another in the spool's memory."""
    base = parts[0].base
    if not isinstance(base, np.ndarray) or any(part.base is not base for part in parts):
        return np.concatenate(parts)
    begins = [part.ctypes.data for part in parts]
    if any(begin + len(part) != after for begin, part, after in zip(begins, parts, begins[1:], strict=False)):
        return np.concatenate(parts)
    first = begins[0] - base.ctypes.data
    joined: NDArray[np.uint8] = base[first : first + sum(map(len, parts))]
    return joined


def _ends(held: _Held) -> list[tuple[int, int]]:
    """Return process and time of each process that ended in a piece."""
    others = held.chunk.others
    rows = others[held.chunk.types[others] == RecordType.EXIT]
    words = held.chunk.data[: len(held.chunk.data) & ~3].view(np.uint32)
    pid, _, tid = (words.take((held.chunk.starts[rows] >> 2) + 2 + number, mode="clip").tolist() for number in range(3))
    return [(one, moment) for one, thread, moment in zip(pid, tid, held.times[rows].tolist(), strict=True) if one == thread]


# Replace stack copies by callchains in all records of a piece. Registers and stacks are removed; all other fields and records stay as the
# kernel wrote them. Layout: perfpy.abi.sample_decoding.

_MOST: Final = 0xFFF8 >> 3  # words of a record
_SIZE: Final = 3  # index of the size among the four u16 of a header


class SampleParts(NamedTuple):
    """Positions in samples: before the callchain; between it and the registers; after the stack. Starts and ends are in words."""

    start: NDArray[np.int64]
    chain: NDArray[np.int64]
    after_chain: NDArray[np.int64]
    registers: NDArray[np.int64]
    after_stack: NDArray[np.int64]
    end: NDArray[np.int64]
    whole: NDArray[np.bool_]


def parts_of(attr: EventAttr, chunk: Chunk) -> SampleParts:
    """Return the parts of samples with a callchain, registers and a stack."""
    start = chunk.starts >> 3
    end = start + (chunk.sizes >> 3).astype(np.int64)
    cursor = Cursor(chunk.data[: len(chunk.data) & ~7], NATIVE_ENDIAN, start, end)
    cursor.skip(SampleLayout(attr, NATIVE_ENDIAN).fixed_words)
    ranges_of: dict[str, tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
    nothing = Columns(len(start))
    for names, step in variable_decoders(attr, NATIVE_ENDIAN):
        before = cursor.position
        step(cursor, nothing, False)
        ranges_of[names[0]] = before, cursor.position
    (chain, after_chain), (registers, _), (_, after_stack) = (ranges_of[name] for name in ("callchain", "user_regs", "user_stack"))
    is_whole = np.ones(len(start), bool) if cursor.damaged is None else ~cursor.damaged
    return SampleParts(start, chain, after_chain, registers, after_stack, end, is_whole)


class Rewriting:
    """Collects the changes to one chunk's records; written() returns their bytes.

    `kept` has which records are written.
    """

    def __init__(self, chunk: Chunk) -> None:
        self._words = chunk.data[: len(chunk.data) & ~7].view(np.uint64)
        start = chunk.starts >> 3
        nowhere = start + (chunk.sizes >> 3).astype(np.int64)
        self.kept_records = np.ones(len(chunk), bool)
        # Each record has three spans of words; for most the first is all.
        self._begins = [start, nowhere.copy(), nowhere.copy()]
        self._ends = [nowhere.copy(), nowhere.copy(), nowhere.copy()]
        self._rows: list[NDArray[np.int64]] = []
        self._chains: list[Ragged] = []
        self._words_put: list[tuple[NDArray[np.int64], int, NDArray[np.uint64]]] = []

    def put(self, rows: NDArray[np.int64], word: int, values: NDArray[np.uint64]) -> None:
        """Set a word of some records, before the callchain."""
        self._words_put.append((rows, word, values))

    def replace(self, rows: NDArray[np.int64], parts: SampleParts, chains: Ragged) -> None:
        """Replace the stacks of these samples by callchains."""
        ranges = ((parts.start, parts.chain), (parts.after_chain, parts.registers), (parts.after_stack, parts.end))
        for begins, ends, (begin, end) in zip(self._begins, self._ends, ranges, strict=True):
            begins[rows], ends[rows] = begin, end
        self.kept_records[rows[~parts.whole]] = False
        fixed = sum((end - begin for begin, end in ranges), np.ones(len(rows), np.int64))
        self._rows.append(rows)
        self._chains.append(_truncate_to_room(chains, _MOST - fixed))

    def written(self, most: int = 1 << 62) -> list[bytes]:
        """Return the records, in parts of whole ones, each of about `most` bytes."""
        rows_kept = self.kept_records
        lengths = [np.where(rows_kept, end - begin, 0) for begin, end in zip(self._begins, self._ends, strict=True)]
        counted = np.zeros(len(rows_kept), np.int64)  # words of the callchain, including its length
        rows = np.concatenate(self._rows) if self._rows else np.zeros(0, np.int64)
        chains = Ragged.concat(self._chains) if self._chains else Ragged.empty(0, np.uint64)
        counted[rows] = chains.lengths + 1
        counted[~rows_kept] = 0
        sizes = lengths[0] + counted + lengths[1] + lengths[2]
        ends = np.cumsum(sizes)
        records = ends - sizes
        out = np.empty(int(ends[-1]) if len(ends) else 0, np.uint64)
        chain_end = records + lengths[0] + counted
        for target, begin, length in zip((records, chain_end, chain_end + lengths[1]), self._begins, lengths, strict=True):
            out[slices_index(target, length)[0]] = self._words[slices_index(begin, length)[0]]
        is_kept = rows_kept[rows]
        chains, counts = chains.take(np.flatnonzero(is_kept)), (records + lengths[0])[rows[is_kept]]
        out[counts] = chains.lengths.astype(np.uint64)
        out[slices_index(counts + 1, chains.lengths)[0]] = chains.values
        out.view(np.uint16)[(records[rows_kept] << 2) + _SIZE] = (sizes[rows_kept] << 3).astype(np.uint16)
        for changed, word, values in self._words_put:
            out[records[changed[rows_kept[changed]]] + word] = values[rows_kept[changed]]
        # A part ends with the first record beyond each multiple.
        borders = ends[np.searchsorted(ends << 3, np.arange(most, len(out) << 3, most))].tolist() if len(out) << 3 > most else []
        edges = [0, *dict.fromkeys(borders), len(out)]
        return [out[first:end].tobytes() for first, end in pairwise(edges) if end > first]


def _truncate_to_room(chains: Ragged, most: NDArray[np.int64]) -> Ragged:
    """Truncate the chains to the room in their records."""
    lengths = np.minimum(chains.lengths, np.maximum(most, 0))
    if (lengths == chains.lengths).all():
        return chains
    index, offsets = slices_index(chains.offsets[:-1], lengths)
    return Ragged(chains.values[index], offsets)


# Tasks and mappings while they are recorded: a Symbolizer over all mappings so far, with their files. The replay is built anew after
# changes. Mappings of ended processes are dropped after a while, so that a recording of days does not grow. Files are opened as soon as
# they are mapped, because they may be deleted before their samples are unwound.

_WANTED: Final = list(TASK_TYPES - {RecordType.KSYMBOL})
_MOST_FILES: Final = 1 << 16  # files that are known to be mapped; each further one counts as new
_HEADER: Final = struct.Struct("=IHH")
_MMAP_PID: Final = struct.Struct("=8xI")
_MMAP_NAME, _MMAP2_NAME, _MMAP2_FILE = 40, 72, slice(40, 64)  # bytes of the records: the names, and device, inode and generation
_WITH_FILES: Final = (DsoKind.FILE, DsoKind.VDSO)
_MOST_UNUSED: Final = 64  # files of a live view that stay open although the last samples did not hit their processes


def executing_processes(chunk: Chunk) -> list[int]:
    """Return the processes that have executed a program, by their COMM records; of synthesized records, all processes."""
    pids = []
    for row in chunk.others[chunk.types[chunk.others] == RecordType.COMM].tolist():
        begin = int(chunk.starts[row])
        _, misc, size, pid, tid = _COMM.unpack_from(chunk.data.data, begin)
        if size >= _COMM.size and pid == tid and (misc & MISC_COMM_EXEC or not misc):
            pids.append(pid)
    return pids


def created_processes(chunk: Chunk) -> list[int]:
    """Return the processes that were created, by their FORK records."""
    pids = []
    for row in chunk.others[chunk.types[chunk.others] == RecordType.FORK].tolist():
        *_, size, pid, _, tid, _ = _FORK.unpack_from(chunk.data.data, int(chunk.starts[row]))
        if size >= _FORK.size and pid == tid:
            pids.append(pid)
    return pids


class Replay:
    """The state of tasks.

    Args:
        table: the events of the records.
        opens_files: whether to open files as soon as they are mapped. A live view of all processes opens those that samples hit.
        concerned: the processes whose files are opened then; None for all.
    """

    def __init__(self, table: EventTable, *, opens_files: bool = True, concerned: ConcernedProcesses | None = None) -> None:
        self._table = table
        self._opens_files = opens_files
        self._concerned = concerned
        self._tasks = LiveTasks(table, types=_WANTED)
        self._ordinal = 0
        self._files: dict[_FileKey, DsoFiles] = {}
        self._symbolizer: Symbolizer | None = None
        self._symbolizer_of: bytes | None = None  # its processes; None after further records
        self._mapped: set[bytes] = set()  # identity and name of each file in a mapping
        self._mappings: list[bytes] = []  # records of mappings whose files no process had mapped before, until these are opened

    def keys(self, times: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Return the delivery keys of the next records: their times, or without times their numbers."""
        if self._table.has_times:
            return times
        first = self._ordinal + 1
        self._ordinal += len(times)
        return np.arange(first, first + len(times), dtype=np.uint64)

    def add(self, chunk: Chunk, keys: NDArray[np.uint64], times: NDArray[np.uint64], events: NDArray[np.int32]) -> None:
        """Add the side-band records. keys and times are of all records; events of the side-band only."""
        nothing = np.zeros(0, np.intp)
        ordered = OrderedChunk(chunk, keys, times, nothing, chunk.rows(nothing), nothing.astype(np.int32), events)
        if self._tasks.add(ordered):
            self._symbolizer_of = None
            self._note_files(chunk)

    def _note_files(self, chunk: Chunk) -> None:
        """Note the files of new mappings. Most children of a program map what others have mapped, and need no new symbolizer."""
        for kind, begin in ((RecordType.MMAP, _MMAP_NAME), (RecordType.MMAP2, _MMAP2_NAME)):
            for row in chunk.others[chunk.types[chunk.others] == kind].tolist():
                record = chunk.record(row)
                if self._concerned and not self._concerned.choose(_MMAP_PID.unpack_from(record)):
                    continue
                file = record[_MMAP2_FILE] * (kind == RecordType.MMAP2) + record[begin:].partition(b"\0")[0]
                if file not in self._mapped:
                    self._mappings += [record] if self._opens_files else []
                    if len(self._mapped) < _MOST_FILES:
                        self._mapped.add(file)

    def symbolizer(self, before: int, pids: NDArray[np.uint32] | None = None) -> Symbolizer:
        """Return a symbolizer over every mapping so far, the last one if nothing changed. No later sample has a key below `before`.

        pids: the processes of its samples; None for all.
        """
        processes = b"" if pids is None else pids.tobytes()
        if self._symbolizer is None or self._symbolizer_of != processes:
            self._tasks.forget(before)
            if self._symbolizer is not None and not self._opens_files:
                dsos = self._symbolizer.dsos
                used = {_key_of(dsos[number]): files for number, files in self._symbolizer.found_files().items()}
                unused = [(key, files) for key, files in self._files.items() if key not in used]
                self._files = {**dict(unused[-_MOST_UNUSED:]), **used}
            timeline = self._tasks.timeline(pids, DsoTable(by_identity=True), keep_exited=False)
            self._symbolizer = Symbolizer(timeline, SymbolOptions(live=True))
            self._open_files(self._symbolizer)
            self._symbolizer_of = processes
            self._mappings.clear()
        return self._symbolizer

    @property
    def has_new_files(self) -> bool:
        """Whether files were mapped since they were opened last that no process had mapped before."""
        return bool(self._mappings)

    def open_new_files(self) -> None:
        """Open files that were mapped since the last call. A symbolizer for them would build all address spaces."""
        table = DsoTable(by_identity=True)
        for record in self._mappings:
            dso = _dso_of(record, table)
            if dso is None or _key_of(dso) in self._files:
                continue
            files = find_files(dso, SymbolOptions(live=True))
            if files.runtime is not None:  # else another process may lead to it
                self._files[_key_of(dso)] = files
        self._mappings.clear()

    def elsewhere(self) -> dict[tuple[bytes, tuple[int, ...]], bytes]:
        """Return the build-ids of files that are not at their recorded path, by name and identity: files of containers, replaced files."""
        build_ids: dict[tuple[bytes, tuple[int, ...]], bytes] = {}
        first_identities: dict[tuple[str, tuple[int, ...]], FileId] = {}
        for (name, _, identity), files in self._files.items():
            if identity is None:
                continue
            first = first_identities.setdefault((name, identity[:3]), identity)
            file = files.original
            if file is not None and file.path != name and file.build_id:
                build_id = bytes.fromhex(file.build_id)
                build_ids[os.fsencode(name), identity] = build_id
                if first == identity:  # synthesized mappings have no generation
                    build_ids[os.fsencode(name), (*identity[:3], 0)] = build_id
        return build_ids

    def _open_files(self, symbolizer: Symbolizer) -> None:
        """Find the files of all mappings, each once; a recording closes those of dropped processes."""
        present: dict[_FileKey, DsoFiles] = {}
        for number, dso in enumerate(symbolizer.dsos):
            if dso.kind in _WITH_FILES:
                key = _key_of(dso)
                files = self._files.get(key)
                if files is not None:
                    symbolizer.set_files(number, files)
                if self._opens_files:
                    present[key] = files or symbolizer.files(number)
        if self._opens_files:
            if not self._files.keys() <= present.keys():  # the next process that maps a closed file opens it again
                self._mapped.clear()
            self._files = present


def _dso_of(record: bytes, table: DsoTable) -> Dso | None:
    """Return what a MMAP or MMAP2 record maps if it is a file of a program, None otherwise."""
    kind, misc, _ = _HEADER.unpack_from(record)
    if not is_user_map(misc):
        return None
    mapping = records.decode(kind, misc, record[_HEADER.size :], endian=NATIVE_ENDIAN)
    assert isinstance(mapping, (records.Mmap, records.Mmap2))
    flags, build_id, identity = 0, b"", None
    if isinstance(mapping, records.Mmap2):
        flags, build_id = mapping.flags, mapping.build_id
        identity = mapping.maj, mapping.min, mapping.ino, mapping.ino_generation
    if is_memory(mapping.filename, flags) or user_kind(mapping.filename) not in _WITH_FILES:
        return None
    dso = table.dsos[table.id_of(mapping.filename, user_kind(mapping.filename), build_id.hex(), identity)]
    dso.pids.add(mapping.pid)
    return dso


def _key_of(dso: Dso) -> _FileKey:
    return dso.name, dso.build_id, dso.identity
