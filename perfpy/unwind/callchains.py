"""Batches of samples with complete callchains: the recorded kernel part, then the unwound user part.

Samples have a copy of their stack (record --call-graph dwarf). In the result, a marker (PERF_CONTEXT_USER) and the addresses of the user's
frames follow the kernel part; each part has at most as many frames as perf shows. Callers that need frames instead of addresses get them in
a column beside the kernel part. The module also counts stack copies that were too short.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from perfpy.abi import flags
from perfpy.abi.columns import Columns, Ragged, Slices, distinct, rows_where, slices_index
from perfpy.symbols.files.debug_files import Inline
from perfpy.symbols.quality_notes import TruncatedStacks
from perfpy.unwind.rules import architecture
from perfpy.unwind.stepper import Stepper, UserStacks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray

    from perfpy.abi.attr import EventAttr
    from perfpy.symbols.symbolizer import Symbolizer
    from perfpy.unwind.code_rules import RuntimeCode
    from perfpy.unwind.rules import FrameRules

_NEEDED = flags.SampleType.CALLCHAIN | flags.SampleType.REGS_USER | flags.SampleType.STACK_USER
_FIRST_MARKER = np.uint64(flags.CONTEXT_MAX)


def has_user_stacks(attr: EventAttr) -> bool:
    """Whether samples of an event can be unwound: they have a callchain, registers and a copy of the stack."""
    return attr.sample_type & _NEEDED == _NEEDED


class UserCallchains:
    """Extends callchains by the frames on the copied stacks.

    Args:
        attrs: of the events.
        machine: the recording machine, as in uname.
        symbolizer: has the mappings.
        endian: of the recording.
        max_stack: the most frames of the user part, and of the kernel part.
        runtime_code: rules of code that a running process has generated.
        callers_first: chains are read from their outermost frame, so the kernel part keeps its outermost frames.
        apart: put the user part into its own column "user_frames": ids of the symbolizer's frames, LOST for unknown ones.
    """

    #: The sample columns that unwinding needs.
    fields = frozenset({"callchain", "user_regs", "user_regs_abi", "user_stack", "pid"})

    def __init__(
        self,
        attrs: Sequence[EventAttr],
        machine: str,
        symbolizer: Symbolizer,
        *,
        endian: str = "<",
        max_stack: int = 127,
        runtime_code: RuntimeCode | None = None,
        apart: bool = False,
        callers_first: bool = False,
    ) -> None:
        self._attrs = attrs
        self._has = np.array([has_user_stacks(attr) for attr in attrs], bool)
        self._machine = machine
        self._symbolizer = symbolizer
        self._endian = endian
        self._max_stack = max_stack
        self._runtime_code = runtime_code
        self._apart = apart
        self._callers_first = callers_first
        self._steppers: dict[int, Stepper | None] = {}
        self._counts: dict[int, list[int]] = {}
        self._left_out = 0

    def __bool__(self) -> bool:
        """Whether any samples can be unwound."""
        return bool(self._has.any())

    @property
    def truncated_stacks(self) -> list[TruncatedStacks]:
        """Return the truncated and unwound stacks so far by size of the copies, smallest first, and the stacks that were not unwound."""
        truncated = [TruncatedStacks(truncated, stacks, size) for size, (truncated, stacks) in sorted(self._counts.items()) if truncated]
        return [*truncated, TruncatedStacks(0, self._left_out, 0, self._machine)] if self._left_out else truncated

    def take_truncated_stacks(self) -> list[TruncatedStacks]:
        """Return the counts so far for another process to add, and reset them."""
        counted = [TruncatedStacks(truncated, stacks, size) for size, (truncated, stacks) in self._counts.items()]
        counted += [TruncatedStacks(0, self._left_out, 0, self._machine)] if self._left_out else []
        self._counts.clear()
        self._left_out = 0
        return counted

    def add(self, counted: Iterable[TruncatedStacks]) -> None:
        """Add the counts of another process."""
        for truncated, stacks, size, machine in counted:
            if machine:
                self._left_out += stacks
            else:
                counts = self._counts.setdefault(size, [0, 0])
                counts[0] += truncated
                counts[1] += stacks

    def extend(self, columns: Columns, event: NDArray[np.int32], key: NDArray[np.uint64]) -> Columns:
        """Return the samples with complete callchains. key: the delivery keys."""
        columns = self._with_recorded_apart(columns)
        if not all(name in columns for name in self.fields) or not columns.rows:
            return columns
        chains = limit_frames(columns["callchain"].gather(), self._max_stack, callers_first=self._callers_first)
        users = Ragged.empty(columns.rows, np.int32)
        for rows, attr, abi in self._groups(columns, event):
            stepper = self._stepper(abi)
            if stepper is None:
                self._left_out += len(rows)
            else:
                unwound = stepper.unwind(self._stacks(columns.take(rows), attr, key[rows]))
                counts = self._counts.setdefault(attr.sample_stack_user, [0, 0])
                # A copy that is shorter than requested ends where the stack ends.
                is_full = columns["user_stack"].lengths[rows] >= attr.sample_stack_user & ~7
                counts[0] += int(np.count_nonzero(unwound.is_truncated & is_full))
                counts[1] += len(unwound.is_truncated)
                if self._apart:
                    users = fill_chains(
                        users, rows, Ragged(stepper.convert_frames(unwound.frames, self._symbolizer), unwound.chains.offsets)
                    )
                else:
                    chains = append_user_frames(chains, rows, unwound.chains)
        added = {"callchain": chains, "user_frames": users} if self._apart else {"callchain": chains}
        return Columns(columns.rows, {**columns, **added}, columns.damaged)

    def _with_recorded_apart(self, columns: Columns) -> Columns:
        """Mark the user frames that the kernel recorded if only unwound ones get inlined calls."""
        if not self or self._symbolizer.inline is not Inline.UNWOUND_AS_PERF or "callchain" not in columns:
            return columns
        chains = columns["callchain"].gather()
        marks = rows_where(chains.values == np.uint64(flags.CONTEXT_USER))
        if not len(marks):  # as in recordings with copies of stacks alone
            return columns
        values = chains.values.copy()
        values[marks] = flags.CONTEXT_RECORDED_USER
        return Columns(columns.rows, {**columns, "callchain": Ragged(values, chains.offsets)}, columns.damaged)

    def frame_rules(
        self, abi: int, pid: NDArray[np.int32], key: NDArray[np.uint64], addresses: NDArray[np.uint64]
    ) -> tuple[list[FrameRules], NDArray[np.bool_]] | None:
        """Return the rules of frames, as Stepper.frame_rules does, or None for an unknown ABI."""
        stepper = self._stepper(abi)
        return None if stepper is None else stepper.frame_rules(pid, key, addresses)

    def frames_at(
        self, pid: NDArray[np.int32], key: NDArray[np.uint64], addresses: NDArray[np.uint64]
    ) -> tuple[Symbolizer, NDArray[np.int32]]:
        """Return the frames at addresses of processes, and the symbolizer that has them."""
        scenes = self._symbolizer.user_scenes(pid, key)
        return self._symbolizer, self._symbolizer.frames_in(scenes, addresses, np.arange(len(addresses)))

    def _groups(self, columns: Columns, event: NDArray[np.int32]) -> Iterator[tuple[NDArray[np.int64], EventAttr, int]]:
        """Yield the samples with a stack, in groups with the same registers."""
        is_copied = self._has[event] & (columns["user_stack"].lengths > 0) & (columns["user_regs"].lengths > 0)
        abis = columns["user_regs_abi"]
        for number in distinct(event[is_copied]).tolist():
            mine = is_copied & (event == number)
            for abi in distinct(abis[mine]).tolist():
                yield rows_where(mine & (abis == abi)), self._attrs[number], abi

    def _stepper(self, abi: int) -> Stepper | None:
        if abi not in self._steppers:
            architecture_of_machine = architecture(self._machine, abi)
            stepper = None
            if architecture_of_machine is not None:
                stepper = Stepper(
                    architecture_of_machine,
                    self._symbolizer.companion(),
                    endian=self._endian,
                    max_stack=self._max_stack,
                    runtime_code=self._runtime_code,
                )
            self._steppers[abi] = stepper
        return self._steppers[abi]

    def _stacks(self, columns: Columns, attr: EventAttr, key: NDArray[np.uint64]) -> UserStacks:
        registers = columns["user_regs"]
        table = registers.values.reshape(columns.rows, -1)
        recorded = [bit for bit in range(attr.sample_regs_user.bit_length()) if attr.sample_regs_user >> bit & 1]
        by_number = {bit: np.ascontiguousarray(table[:, number]) for number, bit in enumerate(recorded)}
        data, starts, sizes = _copies(columns["user_stack"])
        return UserStacks(by_number, data, starts, sizes, columns["pid"], key)


def _copies(stacks: Ragged | Slices) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """Return the bytes of the copies, and the start and length of each; starts are multiples of 8."""
    if isinstance(stacks, Slices) and not (stacks.starts & 7).any():
        return stacks.words, stacks.starts, stacks.lengths
    rows = stacks.gather()
    lengths = rows.lengths
    starts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths + 7 & ~7, out=starts[1:])
    data = np.zeros(int(starts[-1]), np.uint8)
    for start, row in zip(starts.tolist(), rows, strict=False):
        data[start : start + len(row)] = row
    return data, starts[:-1], lengths


def append_user_frames(chains: Ragged, rows: NDArray[np.int64], users: Ragged) -> Ragged:
    """Append the user's frames to the callchains of some rows."""
    lengths = chains.lengths
    more = np.zeros(len(chains), np.int64)
    more[rows] = users.lengths + 1
    offsets = np.zeros(len(chains) + 1, np.int64)
    np.cumsum(lengths + more, out=offsets[1:])
    values: NDArray[Any] = np.empty(int(offsets[-1]), np.uint64)
    values[slices_index(offsets[:-1], lengths)[0]] = chains.values[slices_index(chains.offsets[:-1], lengths)[0]]
    after = (offsets[:-1] + lengths)[rows]
    values[after] = np.uint64(flags.CONTEXT_USER)
    values[slices_index(after + 1, users.lengths)[0]] = users.values
    return Ragged(values, offsets)


def fill_chains(chains: Ragged, rows: NDArray[np.int64], others: Ragged) -> Ragged:
    """Fill empty rows of callchains with other callchains."""
    if len(rows) == len(chains):
        return others
    lengths = chains.lengths.copy()
    lengths[rows] = others.lengths
    offsets = np.zeros(len(chains) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    values = np.empty(int(offsets[-1]), others.values.dtype)
    for source, rows_of in ((chains, np.arange(len(chains))), (others, rows)):
        values[slices_index(offsets[:-1][rows_of], source.lengths)[0]] = source.values
    return Ragged(values, offsets)


def limit_frames(chains: Ragged, most: int, *, callers_first: bool = False) -> Ragged:
    """Truncate recorded callchains to `most` frames: the innermost ones, or with callers_first the outermost ones.

    Markers are not counted. The markers before a remaining frame stay, because they give its level.
    """
    lengths = chains.lengths
    if not len(lengths) or int(lengths.max()) <= most:
        return chains
    is_frame = chains.values < _FIRST_MARKER
    frames = np.concatenate([[0], np.cumsum(is_frame)])
    before = frames[:-1] - np.repeat(frames[chains.offsets[:-1]], lengths)
    if callers_first:
        total = np.diff(frames[chains.offsets])
        mask = ~is_frame | (np.repeat(total, lengths) - before <= most)
    else:
        mask = before < most
    offsets = np.concatenate([[0], np.cumsum(mask)])[chains.offsets]
    return Ragged(chains.values[mask], offsets)
