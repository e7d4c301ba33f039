"""The texts of system calls: name and arguments, and the result.

Calls with the same number and the same arguments shown are formatted together: each argument's values become texts, and one format
string joins them.
"""

from __future__ import annotations

from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from perfpy.abi.columns import distinct, rows_where
from perfpy.abi.system_calls.arguments import arguments_of
from perfpy.abi.system_calls.constants import Constants, constants_of
from perfpy.abi.system_calls.errors import error_name
from perfpy.abi.system_calls.numbers import names_by_number
from perfpy.abi.system_calls.results import result_kind
from perfpy.abi.system_calls.structures import structures_of
from perfpy.tracing.pairing import NO_ROW
from perfpy.tracing.totals import is_error
from perfpy.views.trace.arguments.special_texts import F_GETOWN, FCNTL_ARGUMENT, ControlResult, Dependent, special_text
from perfpy.views.trace.arguments.texts import (
    ArgumentRows,
    ArrayBits,
    Contents,
    Descriptor,
    Hidden,
    Named,
    Number,
    Process,
    Text,
    bits_text,
    open_text,
    result_processes,
)
from perfpy.views.trace.arguments.unused import unused_arguments

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from perfpy.tracing.descriptor_names import DescriptorNames
    from perfpy.tracing.events import CallEvents
    from perfpy.tracing.pairing import PairedEvents
    from perfpy.tracing.thread_comms import ThreadNames

_UNKNOWN_KIND: Final = "long"
_MOST_ARGUMENTS: Final = 6
_WORD: Final = 0xFFFFFFFF
_MOST_SHAPES: Final = 4096
_USUAL_NUMBERS: Final = 1024
_ALL, _LOW = np.uint64(0xFFFFFFFFFFFFFFFF), np.uint64(0xFFFFFFFF)
_PROCESS_RESULT, _CONTROL_RESULT = 1, 2
_NUMBERS: Final = {"int": ("i4", "%d"), "long": ("i8", "%d"), "hex": ("u8", "%#x")}


class CallShape(NamedTuple):
    """A call's name and how its arguments become text."""

    name: str
    arguments: tuple[tuple[str, Number], ...]


class CallTexts:
    """The texts of the calls of a machine.

    Args:
        machine: its name, as uname(2) has it.
        is_recorded: whether the calls are those of a recording, whose text is perf's also where it is wrong: 0 (swapper) for a
            result that is no process, CLOEXEC for a flag that is not set.

    Attributes:
        descriptors: the files of descriptors in the present batch; None prints only their numbers.
        strings: of the present batch: row of an entry -> index of the argument -> its string.
    """

    def __init__(self, machine: str, *, is_recorded: bool = False) -> None:
        self._machine = machine
        self._is_recorded = is_recorded
        self.descriptors: DescriptorNames | None = None
        self.strings: Mapping[int, Mapping[int, str]] = {}
        self._shapes: dict[int, CallShape] = {}
        self._has_masks, self._vary = np.zeros(_USUAL_NUMBERS, np.bool_), np.zeros(_USUAL_NUMBERS, np.bool_)
        self._has_string = np.zeros(_USUAL_NUMBERS, np.bool_)
        self._masks, self._result_kind = np.zeros((_USUAL_NUMBERS, _MOST_ARGUMENTS), np.uint64), np.zeros(_USUAL_NUMBERS, np.int8)
        self._is_hidden = np.zeros((_USUAL_NUMBERS, _MOST_ARGUMENTS), np.bool_)
        self._is_descriptor = np.zeros((_USUAL_NUMBERS, _MOST_ARGUMENTS), np.bool_)
        self._conditions: list[tuple[int, int, list[int]]] = []  # number, index of an argument, the values with which the text varies
        self._failures: dict[int, str] = {}

    @cached_property
    def _names(self) -> dict[int, str]:
        return names_by_number(self._machine)

    def name(self, number: int) -> str:
        """Return the name of a call; syscall_NUMBER for an unknown one."""
        return self._names.get(number) or f"syscall_{number}"

    def argument_names(self, number: int) -> list[str]:
        """Return the names of a call's arguments."""
        return [name for name, _ in self._shape(number).arguments]

    def names(self, numbers: NDArray[np.int64]) -> list[str]:
        """Return the names of calls."""
        return [self._shape(number).name for number in numbers.tolist()]

    def _shape(self, number: int) -> CallShape:
        shape = self._shapes.get(number)
        if shape is None:
            name = self.name(number)
            arguments = arguments_of(name)
            if arguments is None:
                texts = tuple((f"arg{index}", text_of_kind(_UNKNOWN_KIND, self._machine)) for index in range(_MOST_ARGUMENTS))
            else:
                pointers = {pointed.argument for pointed in structures_of(name, self._machine)}
                kinds = [text_of_kind(self._kind(argument.kind), self._machine) for argument in arguments]
                texts = tuple(
                    (argument.name, Contents(kind) if index in pointers else kind)
                    for index, (argument, kind) in enumerate(zip(arguments, kinds, strict=True))
                )
            shape = CallShape(name, texts)
            if len(self._shapes) < _MOST_SHAPES:
                self._shapes[number] = shape
        return shape

    def _kind(self, kind: str) -> str:
        return FCNTL_ARGUMENT if kind == "fcntl_argument" and not self._is_recorded else kind

    def key_numbers(self, events: CallEvents, rows: NDArray[np.int64]) -> tuple[list[NDArray[np.uint64] | int], NDArray[np.bool_]]:
        """Return the numbers that decide the texts of entries, and which texts depend on more: comms, strings.

        Args:
            events: the batch.
            rows: the rows of the entries.
        """
        numbers = events.number[rows]
        is_usual = (numbers >= 0) & (numbers < _USUAL_NUMBERS)
        index = np.where(is_usual, numbers, 0)
        present = self._known_numbers(index)
        used = rows_where(np.bitwise_or.reduce(self._masks[present], axis=0)).tolist()
        has_hidden = np.logical_or.reduce(self._is_hidden[present], axis=0).tolist()
        varies = self._vary[index]
        if self.strings:
            varies = varies | self._has_string[index]
        columns: list[NDArray[np.uint64] | int] = [numbers.view(np.uint64), *[0] * _MOST_ARGUMENTS]
        for argument in used:
            values = events.arguments[rows, argument] & self._masks[index, argument]
            if has_hidden[argument]:  # whether it is 0 decides the text
                values = np.where(self._is_hidden[index, argument], values != 0, values)
            columns[1 + argument] = values
        columns += self._file_numbers(events, rows, index, present)
        for number, other, values in self._conditions:
            varies = varies | ((numbers == number) & np.isin(columns[1 + other] & _LOW, values))
        return columns, varies | ~is_usual

    def _file_numbers(
        self, events: CallEvents, rows: NDArray[np.int64], index: NDArray[np.int64], present: NDArray[np.intp]
    ) -> list[NDArray[np.uint64] | int]:
        """Return for each argument the numbers of the names of its descriptors' files.

        Args:
            events: the batch.
            rows: the rows of the entries.
            index: the numbers of the calls.
            present: the distinct ones.
        """
        columns: list[NDArray[np.uint64] | int] = [0] * _MOST_ARGUMENTS
        if self.descriptors is None:
            return columns
        for argument in rows_where(np.logical_or.reduce(self._is_descriptor[present], axis=0)).tolist():
            chosen = rows_where(self._is_descriptor[index, argument])
            descriptors = events.arguments[rows[chosen], argument].astype(np.uint32).view(np.int32)
            column = np.zeros(len(rows), np.uint64)
            column[chosen] = self.descriptors.ids(rows[chosen], descriptors)
            columns[argument] = column
        return columns

    def vary_results(self, events: CallEvents, rows: NDArray[np.int64], entry: NDArray[np.int64] | None) -> NDArray[np.bool_]:
        """Return which texts of results depend on more than the numbers of the call and its result.

        Args:
            events: the batch.
            rows: the rows of the returns.
            entry: those of their entries, if their arguments are in the key, too.
        """
        numbers = events.number[rows]
        index = np.where((numbers >= 0) & (numbers < _USUAL_NUMBERS), numbers, 0)
        self._known_numbers(index)
        kind = self._result_kind[index]
        varies: NDArray[np.bool_] = (kind == _PROCESS_RESULT) & (events.result[rows] > 0)
        is_control = kind == _CONTROL_RESULT
        if is_control.any():
            varies |= is_control if entry is None else is_control & (events.arguments[entry, 1] & _LOW == F_GETOWN)
        return varies

    def _known_numbers(self, index: NDArray[np.int64]) -> NDArray[np.intp]:
        """Return the distinct numbers of calls, whose masks are set from then on."""
        present = rows_where(np.bincount(index))
        for number in present[~self._has_masks[present]].tolist():
            self._set_masks(number)
        return present

    def _set_masks(self, number: int) -> None:
        """Note which arguments of a call become text, and what else its text depends on."""
        self._has_masks[number] = True
        shape = self._shape(number)
        for index, (_, text) in enumerate(shape.arguments):
            self._masks[number, index] = _ALL
            self._is_hidden[number, index] = isinstance(text, Hidden)
            self._is_descriptor[number, index] = isinstance(text, Descriptor)
            self._has_string[number] |= isinstance(text, Text | Contents)
            self._vary[number] |= isinstance(text, Process)
            if isinstance(text, Dependent):
                self._conditions.append((number, text.on, text.choices_of(Process)))
        kind = result_kind(shape.name)
        self._result_kind[number] = {"pid": _PROCESS_RESULT, "fcntl_result": _CONTROL_RESULT}.get(kind, 0)

    def texts(self, events: CallEvents, rows: NDArray[np.int64], names: ThreadNames) -> list[str]:
        """Return NAME(ARGUMENTS) of each entry.

        Args:
            events: the batch.
            rows: the rows of the entries.
            names: the comms of threads.
        """
        texts = np.empty(len(rows), object)
        numbers = events.number[rows]
        for number in distinct(numbers).tolist():
            chosen = rows_where(numbers == number)
            self._fill(texts, chosen, self._shape(number), ArgumentRows(events, rows[chosen], names, self.descriptors, self.strings))
        lines: list[str] = texts.tolist()
        return lines

    def _fill(self, texts: NDArray[Any], indexes: NDArray[np.intp], shape: CallShape, rows: ArgumentRows) -> None:
        """Set the texts of the calls of one number."""
        values = [rows.values(index) for index in range(len(shape.arguments))]
        shown = [text.are_shown(column) for (_, text), column in zip(shape.arguments, values, strict=True)]
        for index, is_unused in unused_arguments(shape.name, values):
            shown[index] = shown[index] & ~is_unused
        masks = np.zeros(len(indexes), np.int64)
        for index, is_shown in enumerate(shown):
            masks |= is_shown.astype(np.int64) << index
        for mask in distinct(masks).tolist():
            chosen = rows_where(masks == mask)
            texts[indexes[chosen]] = list(_joined(shape, mask, values, rows.part(chosen), chosen))

    def results(self, paired: PairedEvents, rows: NDArray[np.int64], names: ThreadNames) -> list[str]:
        """Return the text of each result. rows: those of returns."""
        events = paired.events
        texts = np.empty(len(rows), object)
        numbers, results = events.number[rows], events.result[rows]
        failed = is_error(results)
        bad = rows_where(failed)
        texts[bad] = list(map(self._failure, results[bad].tolist()))
        good = rows_where(~failed)
        kinds = {number: result_kind(self._shape(number).name) for number in distinct(numbers[good]).tolist()}
        for kind in set(kinds.values()):
            of_kind = [number for number, one in kinds.items() if one == kind]
            chosen = good[np.isin(numbers[good], of_kind)]
            texts[chosen] = self._results_of(kind, paired, rows[chosen], names)
        lines: list[str] = texts.tolist()
        return lines

    def _results_of(self, kind: str, paired: PairedEvents, rows: NDArray[np.int64], names: ThreadNames) -> list[str]:
        """Return the texts of results of one kind."""
        events = paired.events
        values, part = events.result[rows], ArgumentRows(events, rows, names, None)
        if kind == "pid":
            return result_processes(values, part, names_idle=self._is_recorded)
        if kind == "timeout":
            return [str(value) if value else "0 (Timeout)" for value in values.tolist()]
        if kind == "hex":
            return [f"{value:#x}" if value else "0" for value in values.view(np.uint64).tolist()]
        if kind == "fcntl_result":
            entry = paired.entry[rows]
            commands = np.where(entry == NO_ROW, 0, events.arguments[np.maximum(entry, 0), 1])
            return self._control.texts_for(commands, values.view(np.uint64), part)
        return list(map(str, values.tolist()))

    @cached_property
    def _control(self) -> ControlResult:
        return ControlResult(self._machine, swaps_cloexec=self._is_recorded)

    def _failure(self, result: int) -> str:
        text = self._failures.get(result)
        if text is None:
            error = error_name(-result)
            text = self._failures[result] = f"-1 {error.name} ({error.text})"
        return text


def _joined(shape: CallShape, mask: int, values: list[NDArray[np.uint64]], rows: ArgumentRows, chosen: NDArray[np.intp]) -> Iterable[str]:
    """Return NAME(ARGUMENTS) of calls that show the same arguments: those of the bits of a mask."""
    parts, columns = [], []
    for index, (name, text) in enumerate(shape.arguments):
        if mask >> index & 1:
            parts.append(f"{name}:%s" if text.has_own_space else f"{name}: %s")
            rows.index, rows.is_last = index, not mask >> index + 1
            columns.append(text.texts(values[index][chosen], rows))
    whole = f"{shape.name}({', '.join(parts)})"
    return map(whole.__mod__, zip(*columns, strict=True)) if columns else [whole] * len(chosen)


@cache
def text_of_kind(kind: str, machine: str) -> Number:
    """Return how a kind becomes text; machine: as uname(2) has it."""
    if kind in ("fd", "dirfd"):
        return Descriptor(is_folder=kind == "dirfd")
    if kind == "long_fd":
        return Descriptor("i8")
    if kind == "pid":
        return Process()
    if kind == "text":
        return Text()
    if kind == "buffer":
        return Hidden()
    if kind in _NUMBERS:
        return Number(*_NUMBERS[kind])
    if kind == "open_flags":
        return Named(open_text(machine))
    constants = constants_of(kind)
    if constants is None:
        return special_text(kind, machine)
    return _of_constants(constants)


def _of_constants(constants: Constants) -> Number:
    if constants.is_array:
        return ArrayBits(constants)
    if constants.bits:
        return Named(lambda number: bits_text(number, constants.bits, constants.zero), is_always_shown=constants.is_always_shown)

    def text(number: int) -> str:
        name = constants.values.get(number)
        if name is not None:
            return name
        return f"{number & _WORD:#x}" if constants.is_hex else str(number)

    return Named(text, dtype="i4", is_always_shown=constants.is_always_shown)
