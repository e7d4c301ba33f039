"""The texts of system calls: name and arguments, and the result.

Calls with the same number and the same arguments shown are formatted together: each argument's values become texts, and one format
string joins them.
"""

from __future__ import annotations

from functools import cache, cached_property

import numpy as np

from perfpy.abi.columns import distinct, rows_where
from perfpy.abi.light_types import TYPE_CHECKING, NamedTuple
from perfpy.abi.system_calls import (
    CREAT,
    Constants,
    arguments_of,
    constants_of,
    error_name,
    ioctl_name,
    names_by_number,
    result_kind,
    structures_of,
)
from perfpy.tools.trace.argument_text import (
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
from perfpy.tools.trace.call_sums import is_error
from perfpy.tools.trace.calls import NO_ROW

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any, Final

    from numpy.typing import NDArray

    from perfpy.tools.trace.calls import CallEvents, PairedEvents, ThreadNames
    from perfpy.tools.trace.descriptors import DescriptorNames

    Values = Sequence[NDArray[np.uint64]]
    Rule = Callable[[Values], list[tuple[int, NDArray[np.bool_]]]]


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


_ANONYMOUS: Final = 0x20  # a flag of mmap
_PARENT_SETTID, _CHILD_CLEARTID, _CHILD_SETTID, _SETTLS = 0x100000, 0x200000, 0x1000000, 0x80000
_UTIME, _SECOND, _BITS = 3, 4, 5  # arguments of futex
_FUTEX: Final = {
    0: (_SECOND, _BITS),
    1: (_UTIME, _SECOND, _BITS),
    2: (_UTIME, _SECOND, _BITS),
    3: (_UTIME, _BITS),
    4: (_UTIME,),
    6: (_UTIME, _SECOND, _BITS),
    7: (_UTIME, _SECOND, _BITS),
    8: (_SECOND, _BITS),
    9: (_SECOND,),
    10: (_SECOND,),
    12: (_UTIME,),
}
_FUTEX_COMMAND: Final = ~np.uint64(0x180)
_PRCTL: Final = {1: (2, 3, 4), 2: (1, 2, 3, 4), 3: (1, 2, 3, 4), 4: (2, 3, 4), 15: (2, 3, 4), 27: (1, 2, 3, 4), 28: (2, 3, 4)} | {
    35: (3, 4),
    36: (2, 3, 4),
    37: (2, 3, 4),
}
_FCNTL: Final = (1, 3, 9, 11, 1025, 1034)  # commands without an argument


def _by_command(
    command: NDArray[np.uint64], table: dict[int, tuple[int, ...]], chosen: NDArray[np.bool_]
) -> list[tuple[int, NDArray[np.bool_]]]:
    unused: dict[int, NDArray[np.bool_]] = {}
    for value, arguments in table.items():
        mask = chosen & (command == value)
        for argument in arguments:
            unused[argument] = unused[argument] | mask if argument in unused else mask
    return list(unused.items())


def _open(flags: int, mode: int) -> Rule:
    def rule(values: Values) -> list[tuple[int, NDArray[np.bool_]]]:
        return [(mode, (values[flags] != 0) & (values[flags] & np.uint64(CREAT) == 0))]

    return rule


def _mmap(values: Values) -> list[tuple[int, NDArray[np.bool_]]]:
    is_anonymous = values[3] & np.uint64(_ANONYMOUS) != 0
    return [(4, is_anonymous), (5, is_anonymous)]


def _clone(values: Values) -> list[tuple[int, NDArray[np.bool_]]]:
    flags = values[0]
    is_given = flags != 0
    return [
        (2, is_given & (flags & np.uint64(_PARENT_SETTID) == 0)),
        (3, is_given & (flags & np.uint64(_CHILD_CLEARTID | _CHILD_SETTID) == 0)),
        (4, is_given & (flags & np.uint64(_SETTLS) == 0)),
    ]


def _fcntl(values: Values) -> list[tuple[int, NDArray[np.bool_]]]:
    return [(2, np.isin(values[1] & np.uint64(0xFFFFFFFF), _FCNTL))]


_RULES: Final[dict[str, Rule]] = {
    "open": _open(1, 2),
    "openat": _open(2, 3),
    "mmap": _mmap,
    "mmap2": _mmap,
    "clone": _clone,
    "futex": lambda values: _by_command(values[1] & _FUTEX_COMMAND, _FUTEX, values[1] != 0),
    "prctl": lambda values: _by_command(values[0] & _LOW, _PRCTL, values[0] != 0),
    "fcntl": _fcntl,
    "fcntl64": _fcntl,
}


def unused_arguments(name: str, values: Values) -> list[tuple[int, NDArray[np.bool_]]]:
    """Return (index of an argument, the calls that do not use it).

    Args:
        name: of the call.
        values: of all its arguments.
    """
    rule = _RULES.get(name)
    return rule(values) if rule is not None and values and len(values[0]) else []


_MODE_BITS: Final = (
    *((0o7777, "IALLUGO"), (0o777, "IRWXUGO"), (0o444, "IRUGO"), (0o222, "IWUGO"), (0o111, "IXUGO"), (0o170000, "IFMT")),
    *((0o140000, "IFSOCK"), (0o120000, "IFLNK"), (0o100000, "IFREG"), (0o60000, "IFBLK"), (0o40000, "IFDIR"), (0o20000, "IFCHR")),
    *((0o10000, "IFIFO"), (0o4000, "ISUID"), (0o2000, "ISGID"), (0o1000, "ISVTX"), (0o700, "IRWXU"), (0o400, "IRUSR"), (0o200, "IWUSR")),
    *((0o100, "IXUSR"), (0o70, "IRWXG"), (0o40, "IRGRP"), (0o20, "IWGRP"), (0o10, "IXGRP"), (0o7, "IRWXO"), (0o4, "IROTH")),
    *((0o2, "IWOTH"), (0o1, "IXOTH")),
)
_SOCKET_TYPES: Final = {1: "STREAM", 2: "DGRAM", 3: "RAW", 4: "RDM", 5: "SEQPACKET", 6: "DCCP", 10: "PACKET"}
_SOCKET_BITS: Final = ((0x80000, "CLOEXEC"), (0x800, "NONBLOCK"))
_FUTEX_COMMANDS: Final = (
    "WAIT WAKE FD REQUEUE CMP_REQUEUE WAKE_OP LOCK_PI UNLOCK_PI TRYLOCK_PI WAIT_BITSET WAKE_BITSET WAIT_REQUEUE_PI CMP_REQUEUE_PI"
).split()
_FUTEX_FLAGS: Final = 0x180
_FUTEX_BITS: Final = ((0x80, "PRIVATE_FLAG"), (0x100, "CLOCK_REALTIME"))
_POLICIES: Final = ("NORMAL", "FIFO", "RR", "BATCH", "ISO", "IDLE", "DEADLINE")
_POLICY_BITS: Final = ((0x40000000, "RESET_ON_FORK"),)
_LOCK_BITS: Final = (*((1, "SH"), (2, "EX"), (4, "NB"), (8, "UN"), (0x20, "MAND"), (0xC0, "RW"), (0x40, "READ"), (0x80, "WRITE")),)
_MOUNT_ATTRIBUTES: Final = (
    *((1, "RDONLY"), (2, "NOSUID"), (4, "NODEV"), (8, "NOEXEC"), (0x10, "NOATIME"), (0x20, "STRICTATIME"), (0x80, "NODIRATIME")),
    *((0x100000, "IDMAP"), (0x200000, "NOSYMFOLLOW")),
)
_ACCESS_TIMES: Final = 0x70
_MEMORY_MAP: Final = (
    "START_CODE END_CODE START_DATA END_DATA START_STACK START_BRK BRK ARG_START ARG_END ENV_START ENV_END AUXV EXE_FILE MAP MAP_SIZE"
).split()
_F_GETFD, _F_SETFD, _F_GETFL, _F_SETFL, _F_SETOWN, _F_SETLEASE, _F_GETLEASE = 1, 2, 3, 4, 8, 1024, 1025
F_GETOWN: Final = 9
FCNTL_ARGUMENT: Final = "live_fcntl_argument"  #: the kind of fcntl's argument in a live trace, with the right text of SETFD
_POINTERS_OF_FCNTL: Final = (5, 6, 7, 15, 16, 36, 37, 38, 1035, 1036, 1037, 1038)
_LEASES: Final = {0: "RDLCK", 1: "WRLCK", 2: "UNLCK"}
_SET_NAME, _SET_MM = 15, 35  # options of prctl
_INET, _INET6 = 2, 10  # families of sockets
_MATCH_ANY: Final = 0xFFFFFFFF


def mode_text(number: int) -> str:
    """Return the bits of a file mode."""
    return bits_text(number, _MODE_BITS)


def access_text(number: int) -> str:
    """Return the letters of access(2)."""
    letters = "".join(letter for mask, letter in ((4, "R"), (2, "W"), (1, "X")) if number & mask)
    others = number & ~7
    return f"{letters}|{others:#x}" if others else letters


def _with_bits(first: str, others: int, bits: tuple[tuple[int, str], ...]) -> str:
    return f"{first}|{bits_text(others, bits)}" if others else first


def socket_type_text(number: int) -> str:
    """Return the type and the flags of socket(2)."""
    kind = number & 0xF
    return _with_bits(_SOCKET_TYPES.get(kind, f"{kind:#x}" if kind else "0"), number & ~0xF, _SOCKET_BITS)


def futex_operation_text(number: int) -> str:
    """Return the operation and the flags of futex(2)."""
    command = number & ~_FUTEX_FLAGS
    name = _FUTEX_COMMANDS[command] if command < len(_FUTEX_COMMANDS) else f"{command:#x}"
    return _with_bits(name, number & _FUTEX_FLAGS, _FUTEX_BITS)


def futex_bits_text(number: int) -> str:
    """Return the bit mask of futex(2)."""
    return "MATCH_ANY" if number == _MATCH_ANY else f"{number:#x}"


def policy_text(number: int) -> str:
    """Return the policy and the flags of sched_setscheduler(2)."""
    policy = number & 0xFF
    return _with_bits(_POLICIES[policy] if policy < len(_POLICIES) else f"{policy:#x}", number & ~0xFF, _POLICY_BITS)


def lock_text(number: int) -> str:
    """Return the operation of flock(2)."""
    return bits_text(number, _LOCK_BITS, "NONE")


def mount_attributes_text(number: int) -> str:
    """Return the attributes of fsmount(2)."""
    names = [name for mask, name in _MOUNT_ATTRIBUTES if number & mask]
    return "|".join([*names, *([] if number & _ACCESS_TIMES else ["RELATIME"])])


_TEXTS: Final[dict[str, Callable[[int], str]]] = {
    "mode": mode_text,
    "access_mode": access_text,
    "socket_type": socket_type_text,
    "futex_op": futex_operation_text,
    "futex_val3": futex_bits_text,
    "scheduling_policy": policy_text,
    "flock_operation": lock_text,
    "fsmount_attr_flags": mount_attributes_text,
    "ioctl_command": ioctl_name,
}


class Dependent(Number):
    """An argument whose kind depends on the value of another one.

    Args:
        on: index of the other argument.
        kinds: value of the other argument -> kind.
        usual: the kind for other values.
    """

    def __init__(self, on: int, kinds: dict[int, Number], usual: Number) -> None:
        super().__init__("i8")
        self.on = on
        self._kinds = kinds
        self._usual = usual

    def choices_of(self, kind: type[Number]) -> list[int]:
        """Return the values of the other argument that choose a kind."""
        return [value for value, one in self._kinds.items() if isinstance(one, kind)]

    def texts(self, values: NDArray[np.uint64], rows: ArgumentRows) -> list[str]:
        """Return the texts, each by the kind of its call."""
        return texts_by_kind(rows.values(self.on).astype("u4"), self._kinds, self._usual, values, rows)


def texts_by_kind(
    chooser: NDArray[Any], kinds: dict[int, Number], usual: Number, values: NDArray[np.uint64], rows: ArgumentRows
) -> list[str]:
    """Return the text of each value by the kind that another value chooses."""
    texts = [""] * len(values)
    for choice in set(chooser.tolist()):
        chosen = rows_where(chooser == choice)
        of_kind = kinds.get(choice, usual).texts(values[chosen], rows.part(chosen))
        for index, text in zip(chosen.tolist(), of_kind, strict=True):
            texts[index] = text
    return texts


class ControlResult:
    """The result of fcntl(2), whose kind depends on the command.

    Args:
        machine: as uname(2) has it.
        swaps_cloexec: print CLOEXEC if the flag is not set, as perf does.
    """

    def __init__(self, machine: str, *, swaps_cloexec: bool) -> None:
        self._kinds: dict[int, Number] = {
            _F_GETFD: Named(lambda number: "CLOEXEC" if bool(number) != swaps_cloexec else "0"),
            _F_GETFL: Named(open_text(machine)),
            F_GETOWN: Process(),
            _F_GETLEASE: Named(lambda number: _LEASES.get(number, f"{number:x}")),
        }

    def texts_for(self, commands: NDArray[np.uint64], values: NDArray[np.uint64], rows: ArgumentRows) -> list[str]:
        """Return the text of each result of a command."""
        return texts_by_kind(commands.astype("u4"), self._kinds, Number("i4"), values, rows)


def special_text(kind: str, machine: str) -> Number:
    """Return how a kind without a table becomes text; a number for an unknown kind."""
    long, address = Number("i8"), Number("u8", "%#x")
    if kind in _TEXTS:
        return Named(_TEXTS[kind], is_always_shown=kind == "ioctl_command")
    if kind in ("fcntl_argument", FCNTL_ARGUMENT):
        pointers = dict.fromkeys(_POINTERS_OF_FCNTL, address)
        is_right = kind == FCNTL_ARGUMENT  # perf prints FD_CLOEXEC as 0
        close_on_exec = Named(lambda number: ("CLOEXEC" if number == 1 else str(number)) if is_right else "0")
        lease = Named(lambda number: _LEASES.get(number, str(number)))
        return Dependent(
            1, {**pointers, _F_SETLEASE: lease, _F_SETFD: close_on_exec, _F_SETFL: Named(open_text(machine)), _F_SETOWN: Process()}, long
        )
    if kind == "prctl_arg2":
        memory = Named(lambda number: _MEMORY_MAP[number - 1] if 0 < number <= len(_MEMORY_MAP) else str(number))
        return Dependent(0, {_SET_NAME: address, _SET_MM: memory}, long)
    if kind == "socket_protocol":
        constants = constants_of("ip_protocol")
        names = constants.values if constants is not None else {}
        protocol = Named(lambda number: names.get(number, str(number)))
        return Dependent(0, dict.fromkeys((_INET, _INET6), protocol), Number("i4"))
    if kind == "prctl_arg3":
        return Dependent(0, {_SET_MM: address}, long)
    return long
