"""The text of one argument of many system calls: numbers, names of values and bits, descriptors, processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.system_calls.open_flags import open_bits
from perfpy.untrusted.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from perfpy.abi.system_calls.constants import Constants
    from perfpy.tracing.descriptor_names import DescriptorNames
    from perfpy.tracing.events import CallEvents
    from perfpy.tracing.thread_comms import ThreadNames

_MOST_TEXTS: Final = 1 << 16  # of one kind that are kept
_INT_SIZE: Final = 4
_CURRENT_FOLDER: Final = -100  # AT_FDCWD
_UNNAMED: Final = ":"
_NO_STRINGS: Final[Mapping[int, Mapping[int, str]]] = {}
_LAST_PID: Final = (1 << 31) - 1


class ArgumentRows:
    """The calls that an argument belongs to.

    Args:
        events: the batch.
        rows: the rows of the calls.
        names: the comms of threads.
        descriptors: the files of descriptors, if they are known.
        strings: row of an entry -> index of the argument -> its string.

    Attributes:
        index: of the argument.
        is_last: whether no argument follows.
    """

    def __init__(
        self,
        events: CallEvents,
        rows: NDArray[np.int64],
        names: ThreadNames,
        descriptors: DescriptorNames | None,
        strings: Mapping[int, Mapping[int, str]] = _NO_STRINGS,
    ) -> None:
        self.events = events
        self.rows = rows
        self.names = names
        self.descriptors = descriptors
        self.strings = strings
        self.index, self.is_last = 0, True

    def part(self, chosen: NDArray[np.intp]) -> ArgumentRows:
        """Return some of the rows."""
        return ArgumentRows(self.events, self.rows[chosen], self.names, self.descriptors, self.strings)

    def values(self, index: int) -> NDArray[np.uint64]:
        """Return the values of one argument."""
        column: NDArray[np.uint64] = self.events.arguments[:, index][self.rows]
        return column


class Number:
    """A signed or unsigned number of some bits, printed by a format.

    Attributes:
        has_own_space: whether the texts begin with the space after the argument's colon.
    """

    has_own_space = False

    def __init__(self, dtype: str, form: str = "%d") -> None:
        self._dtype = np.dtype(dtype)
        self._form = form

    def are_shown(self, values: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Return which values are printed: all but 0."""
        shown: NDArray[np.bool_] = values != 0
        return shown

    def _numbers(self, values: NDArray[np.uint64]) -> NDArray[Any]:
        return values.astype(np.uint32).view(self._dtype) if self._dtype.itemsize == _INT_SIZE else values.view(self._dtype)

    def texts(self, values: NDArray[np.uint64], rows: ArgumentRows) -> list[str]:
        """Return the text of each value."""
        del rows
        return list(map(self._form.__mod__, self._numbers(values).tolist()))


class Named(Number):
    """A number whose values or bits have names, made to text by a function."""

    def __init__(self, text: Callable[[int], str], *, dtype: str = "u4", is_always_shown: bool = False) -> None:
        super().__init__(dtype)
        self._text = text
        self._is_always_shown = is_always_shown
        self._known: dict[int, str] = {}

    def are_shown(self, values: NDArray[np.uint64]) -> NDArray[np.bool_]:
        """Return which values are printed: all but 0, or all."""
        return np.ones(len(values), np.bool_) if self._is_always_shown else super().are_shown(values)

    def texts(self, values: NDArray[np.uint64], rows: ArgumentRows) -> list[str]:
        """Return the names."""
        del rows
        return self.texts_of(self._numbers(values).tolist())

    def texts_of(self, numbers: list[int]) -> list[str]:
        """Return the text of each number, once computed for each distinct one."""
        return texts_once(self._known, numbers, self._text)


def texts_once(known: dict[int, str], numbers: list[int], text: Callable[[int], str]) -> list[str]:
    """Return the text of each number; keep the texts of distinct numbers in `known`, up to a limit."""
    new = set(numbers).difference(known)
    if len(known) + len(new) > _MOST_TEXTS:
        known.clear()
        if len(new) > _MOST_TEXTS:
            return list(map(text, numbers))
        new = set(numbers)
    for number in new:
        known[number] = text(number)
    return [known[number] for number in numbers]


class ArrayBits(Named):
    """Bits as perf prints them from an array of names.

    perf prints a bit without a name as 0x, and the next text a place earlier: "SHARED|0x", but "clone_flags:|CHILD_SETTID" for two such
    bits in front, because the second one's | replaces the space.
    """

    has_own_space = True

    def __init__(self, constants: Constants) -> None:
        super().__init__(self._last, is_always_shown=constants.is_always_shown)
        self._zero = constants.zero
        self._names = dict(constants.bits)
        self._count = max(self._names).bit_length()
        self._known_before: dict[int, str] = {}

    def texts(self, values: NDArray[np.uint64], rows: ArgumentRows) -> list[str]:
        """Return the names, with the space before them."""
        numbers = self._numbers(values).tolist()
        return self.texts_of(numbers) if rows.is_last else texts_once(self._known_before, numbers, self._before_others)

    def _last(self, number: int) -> str:
        return self._written(number)[0]

    def _before_others(self, number: int) -> str:
        whole, end = self._written(number)
        return whole[:end]

    def _written(self, number: int) -> tuple[str, int]:
        """Return the text, and where the next text begins in it."""
        if not number:
            return f" {self._zero}", len(self._zero) + 1
        text, end = " ", 1
        for bit in range(self._count):
            if not number >> bit & 1:
                continue
            if end != 1:
                text, end = f"{text[:end]}|", end + 1
            name = self._names.get(1 << bit)
            text, end = f"{text[:end]}{name or '0x'}", end + (len(name) if name else -1)
        return text, end


def bits_text(number: int, bits: Sequence[tuple[int, str]], zero: str = "") -> str:
    """Return the names of the bits, then the other bits as a number."""
    if not number:
        return zero
    parts = []
    for mask, name in bits:
        if number & mask == mask:
            parts.append(name)
            number &= ~mask
    if number:
        parts.append(f"{number:#x}")
    return "|".join(parts)


def open_text(machine: str) -> Callable[[int], str]:
    """Return the function from the flags of open(2) to text, for a machine."""
    bits = open_bits(machine)

    def text(number: int) -> str:
        parts = [] if number & bits.access else ["RDONLY"]
        is_synchronous = number & bits.sync == bits.sync
        for mask, name in bits.names:
            if number & mask == mask and not (name == "DSYNC" and is_synchronous):
                parts.append(name)
                if mask != bits.sync:  # perf prints the bits of SYNC as a number, too
                    number &= ~mask
        if number:
            parts.append(f"{number:#x}")
        return "|".join(parts)

    return text


class Descriptor(Number):
    """A file descriptor, with the name of its file if that is known."""

    def __init__(self, dtype: str = "i4", *, is_folder: bool = False) -> None:
        super().__init__(dtype)
        self._is_folder = is_folder

    def texts(self, values: NDArray[np.uint64], rows: ArgumentRows) -> list[str]:
        """Return NUMBER or NUMBER<FILE>."""
        numbers = self._numbers(values)
        texts = list(map(str, numbers.tolist())) if rows.descriptors is None else rows.descriptors.texts(rows.rows, numbers)
        if self._is_folder:
            texts = ["CWD" if number == _CURRENT_FOLDER else text for number, text in zip(numbers.tolist(), texts, strict=True)]
        return texts


class Text(Number):
    """The address of a string; the string between quotes, if it is known."""

    def __init__(self) -> None:
        super().__init__("u4", "%#x")

    def texts(self, values: NDArray[np.uint64], rows: ArgumentRows) -> list[str]:
        """Return the strings, or the low half of their addresses as perf prints it."""
        texts = super().texts(values, rows)
        if rows.strings:
            for index, row in enumerate(rows.rows.tolist()):
                string = rows.strings.get(row, {}).get(rows.index)
                if string is not None:
                    texts[index] = f'"{one_line(string)}"'
        return texts


class Contents(Number):
    """The address of a structure; its contents, if they are known. address: the text of an address."""

    def __init__(self, address: Number) -> None:
        super().__init__("u8", "%#x")
        self._address = address

    def texts(self, values: NDArray[np.uint64], rows: ArgumentRows) -> list[str]:
        """Return the contents or the addresses."""
        texts = list(self._address.texts(values, rows))
        if rows.strings:
            for index, row in enumerate(rows.rows.tolist()):
                texts[index] = rows.strings.get(row, {}).get(rows.index) or texts[index]
        return texts


class Process(Number):
    """A process or thread, with its comm if that is known."""

    def __init__(self) -> None:
        super().__init__("i4")

    def texts(self, values: NDArray[np.uint64], rows: ArgumentRows) -> list[str]:
        """Return PID or PID (COMM)."""
        return self.texts_of(values.astype(np.uint32).view(np.int32), rows)

    def texts_of(self, tids: NDArray[np.int32], rows: ArgumentRows) -> list[str]:
        """Return the text of each process."""
        comms = rows.names.comm_ids(tids, rows.events.key[rows.rows])
        names = rows.names.comms
        named = {comm: names[comm] for comm in set(comms.tolist())}
        return [
            str(tid) if named[comm].startswith(_UNNAMED) else f"{tid} ({named[comm]})"
            for tid, comm in zip(tids.tolist(), comms.tolist(), strict=True)
        ]


def result_processes(values: NDArray[np.int64], rows: ArgumentRows, *, names_idle: bool) -> list[str]:
    """Return the texts of results that are processes; numbers beyond their range are only numbers.

    Args:
        values: the results.
        rows: the rows of the returns.
        names_idle: whether a result 0 has the name of the idle task.
    """
    is_pid = (values >= (0 if names_idle else 1)) & (values <= _LAST_PID)
    named = Process().texts_of(np.where(is_pid, values, -1).astype(np.int32), rows)
    return [text if fits else str(value) for text, fits, value in zip(named, is_pid.tolist(), values.tolist(), strict=True)]


class Hidden(Number):
    """The address of bytes, whose text is empty."""

    def __init__(self) -> None:
        super().__init__("u8")

    def texts(self, values: NDArray[np.uint64], rows: ArgumentRows) -> list[str]:
        """Return empty texts."""
        del rows
        return [""] * len(values)
