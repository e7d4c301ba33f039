"""The text of one argument of many system calls: numbers, names of values and bits, descriptors, processes."""

from __future__ import annotations

import struct
import sys
from functools import lru_cache

import numpy as np

from perfpy.abi.light_types import TYPE_CHECKING
from perfpy.abi.system_calls import constants_of, mode_offset, open_bits, structure_size
from perfpy.untrusted.text import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Final

    from numpy.typing import NDArray

    from perfpy.abi.system_calls import Constants
    from perfpy.tools.trace.calls import CallEvents, ThreadNames
    from perfpy.tools.trace.descriptors import DescriptorNames


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
        super().__init__(lambda number: self._written(number)[0], is_always_shown=constants.is_always_shown)
        self._zero = constants.zero
        self._names = dict(constants.bits)
        self._count = max(self._names).bit_length()
        self._known_before: dict[int, str] = {}

    def texts(self, values: NDArray[np.uint64], rows: ArgumentRows) -> list[str]:
        """Return the names, with the space before them."""
        numbers = self._numbers(values).tolist()
        return self.texts_of(numbers) if rows.is_last else texts_once(self._known_before, numbers, self._before_others)

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


_MOST_ELEMENTS: Final = 16
_UNIX, _INET, _INET6 = 1, 2, 10  # families of sockets
_NANOSECONDS: Final = {(1 << 30) - 1: "UTIME_NOW", (1 << 30) - 2: "UTIME_OMIT"}
_UNLIMITED: Final = (1 << 64) - 1
_FILE_TYPES: Final = {0o14: "IFSOCK", 0o12: "IFLNK", 0o10: "IFREG", 0o6: "IFBLK", 0o4: "IFDIR", 0o2: "IFCHR", 0o1: "IFIFO"}
_POLL_BITS: Final = (
    *((0x1, "IN"), (0x2, "PRI"), (0x4, "OUT"), (0x8, "ERR"), (0x10, "HUP"), (0x20, "NVAL"), (0x40, "RDNORM"), (0x80, "RDBAND")),
    *((0x100, "WRNORM"), (0x200, "WRBAND"), (0x400, "MSG"), (0x2000, "RDHUP")),
)
_EPOLL_BITS: Final = (*_POLL_BITS, (1 << 28, "EXCLUSIVE"), (1 << 29, "WAKEUP"), (1 << 30, "ONESHOT"), (1 << 31, "ET"))
_CLONE_FIELDS: Final = ("flags pidfd child_tid parent_tid exit_signal stack stack_size tls set_tid set_tid_size cgroup").split()
_CLONE_NUMBERS: Final = ("stack_size", "set_tid_size", "cgroup")
_OPEN_FIELDS: Final = ("flags", "mode", "resolve")
_ORDER: Final = sys.byteorder  # structures are read from this machine's tasks
_MESSAGE: Final = struct.Struct("=QI4xQQQQI")
_MESSAGE_SIZE: Final = 56
_MOST_DESCRIPTORS: Final = 64
_QUEUE, _TIMER = -1, -2  # si_code
_SIGNAL_CODES: Final = {0: "USER", 0x80: "KERNEL", _QUEUE: "QUEUE", _TIMER: "TIMER", -3: "MESGQ", -4: "ASYNCIO", -5: "SIGIO", -6: "TKILL"}
_CHILD_CODES: Final = {1: "EXITED", 2: "KILLED", 3: "DUMPED", 4: "TRAPPED", 5: "STOPPED", 6: "CONTINUED"}
_FAULT_SIGNALS: Final = ("SEGV", "BUS", "ILL", "FPE", "TRAP")
_SIGNALS, _REAL_TIME = 64, 32  # signals; the first real-time one
_HANDLERS: Final = {0: "DFL", 1: "IGN"}
_HAS_RESTORER: Final = 0x4000000
_ACTION_BITS: Final = (
    *((0x1, "NOCLDSTOP"), (0x2, "NOCLDWAIT"), (0x4, "SIGINFO"), (0x800, "EXPOSE_TAGBITS"), (_HAS_RESTORER, "RESTORER")),
    *((0x8000000, "ONSTACK"), (0x10000000, "RESTART"), (0x40000000, "NODEFER"), (0x80000000, "RESETHAND")),
)
_TIME, _WORDS = struct.Struct("=qq"), struct.Struct("=QQ")


def structure_text(structure: str, machine: str) -> Callable[[bytes], str]:
    """Return the function from the bytes of a structure to its text; it returns "" if the bytes are too few.

    The bytes are data of the traced programs, and may be cut.

    Args:
        structure: its name in perfpy.abi.system_calls.
        machine: as uname(2) has it.
    """
    size = structure_size(structure, machine)
    element = _ELEMENTS.get(structure)
    if element is not None:
        return lambda data: _array(data, size, element)
    if structure == "stat":
        offset = mode_offset(machine)
        return lambda data: _stat(data, offset, 48) if len(data) >= size else ""
    if structure == "open_how":
        flags = open_text(machine)
        return lambda data: _open_how(data, flags)
    whole = _WHOLE[structure]
    return lambda data: whole(data) if len(data) >= size else ""


def fields_text(fields: dict[str, str]) -> str:
    """Return { .NAME: TEXT, ... }."""
    return f"{{ {', '.join(f'.{name}: {text}' for name, text in fields.items())} }}"


def _array(data: bytes, size: int, element: Callable[[bytes], str]) -> str:
    """Return the elements between brackets, up to a limit."""
    count = min(len(data) // size, _MOST_ELEMENTS)
    texts = [element(data[size * index : size * (index + 1)]) for index in range(count)]
    return f"[{', '.join([*texts, *(['...'] if len(data) > size * count else [])])}]"


def _timespec(data: bytes) -> str:
    seconds, rest = _TIME.unpack_from(data)
    return fields_text({"tv_sec": str(seconds), "tv_nsec": _NANOSECONDS.get(rest, str(rest))})


def _timeval(data: bytes) -> str:
    seconds, rest = _TIME.unpack_from(data)
    return fields_text({"tv_sec": str(seconds), "tv_usec": str(rest)})


def _timer(time: Callable[[bytes], str]) -> Callable[[bytes], str]:
    return lambda data: fields_text({"it_interval": time(data[:16]), "it_value": time(data[16:32])})


def _socket_address(data: bytes) -> str:
    """Return the family, and the path or the address with its port; data: the bytes that the program gave or got."""
    import socket  # few calls have addresses

    if len(data) < 2:
        return ""
    family = int.from_bytes(data[:2], _ORDER)
    names = constants_of("socket_family")
    text = f".family: {(names.values if names else {}).get(family, family)}"
    if family == _UNIX and len(data) > 2:
        text += f", path: {_socket_path(data[2:])}"
    elif family == _INET and len(data) >= 8:
        text += f", port: {int.from_bytes(data[2:4], 'big')}, addr: {socket.inet_ntop(socket.AF_INET, data[4:8])}"
    elif family == _INET6 and len(data) >= 24:
        text += f", port: {int.from_bytes(data[2:4], 'big')}, addr: {socket.inet_ntop(socket.AF_INET6, data[8:24])}"
        scope = int.from_bytes(data[24:28], _ORDER)
        text += f", scope_id: {scope}" if scope else ""
    return f"{{ {text} }}"


def _socket_path(data: bytes) -> str:
    """Return the path of a socket, which ends with a NUL; an abstract name, which begins with one, is marked by @."""
    name = b"@" + data[1:].rstrip(b"\0") if data[:1] == b"\0" else data.split(b"\0", 1)[0]
    return one_line(name.replace(b"\0", b"@").decode("utf-8", "surrogateescape"))


def _poll(data: bytes) -> str:
    number, events, returned = struct.unpack_from("=ihh", data)
    fields = {"fd": str(number), "events": _bits(events & 0xFFFF, _POLL_BITS)}
    return fields_text({**fields, "revents": _bits(returned & 0xFFFF, _POLL_BITS)} if returned else fields)


def _epoll_event(data: bytes) -> str:
    events = int.from_bytes(data[:4], _ORDER)
    return fields_text({"events": _bits(events, _EPOLL_BITS), "data": f"{int.from_bytes(data[-8:], _ORDER):#x}"})


def _iovec(data: bytes) -> str:
    address, length = _WORDS.unpack_from(data)
    return fields_text({"iov_base": f"{address:#x}", "iov_len": str(length)})


def _resource_limit(data: bytes) -> str:
    numbers = ("INFINITY" if number == _UNLIMITED else str(number) for number in _WORDS.unpack_from(data))
    return fields_text(dict(zip(("rlim_cur", "rlim_max"), numbers, strict=True)))


def _clone(data: bytes) -> str:
    """Return the fields that are not 0."""
    values = _words(data, _CLONE_FIELDS)
    fields = {name: str(value) if name in _CLONE_NUMBERS else f"{value:#x}" for name, value in values.items() if value}
    flags, signals = constants_of("clone_flags"), constants_of("signal")
    if "flags" in fields and flags is not None:
        fields["flags"] = bits_text(values["flags"], flags.bits)
    if "exit_signal" in fields and signals is not None:
        fields["exit_signal"] = signals.values.get(values["exit_signal"], fields["exit_signal"])
    return fields_text(fields) if fields else ""


def _open_how(data: bytes, flags: Callable[[int], str]) -> str:
    values = _words(data, _OPEN_FIELDS)
    if "flags" not in values:
        return ""
    fields = {"flags": flags(values["flags"])}
    if values.get("mode"):
        fields["mode"] = f"{values['mode']:04o}"
    if values.get("resolve"):
        fields["resolve"] = f"{values['resolve']:#x}"
    return fields_text(fields)


def _stat(data: bytes, offset: int, size_at: int, mode_size: int = 4) -> str:
    mode = int.from_bytes(data[offset : offset + mode_size], _ORDER)
    kind = _FILE_TYPES.get(mode >> 12, f"{mode & 0o170000:07o}")
    return fields_text({"st_mode": f"{kind}|{mode & 0o7777:04o}", "st_size": str(int.from_bytes(data[size_at : size_at + 8], _ORDER))})


def _words(data: bytes, names: list[str] | tuple[str, ...]) -> dict[str, int]:
    """Return the 64-bit words of a structure, as far as the bytes go."""
    return {name: int.from_bytes(data[8 * index : 8 * index + 8], _ORDER) for index, name in enumerate(names) if len(data) >= 8 * index + 8}


def _bits(number: int, bits: tuple[tuple[int, str], ...]) -> str:
    return bits_text(number, bits, "0") if number else "0"


@lru_cache(maxsize=1024)  # all programs that start others use the same few sets, often
def _signal_set(data: bytes) -> str:
    """Return the names of the signals in a set. If most are in it, return ~ and the names of the others."""
    number = int.from_bytes(data[:8], _ORDER)
    is_complement = number.bit_count() > _SIGNALS // 2
    if is_complement:
        number = ~number
    return f"{'~' if is_complement else ''}[{' '.join(_signal(bit + 1) for bit in range(_SIGNALS) if number >> bit & 1)}]"


def _signal(number: int) -> str:
    """Return the name of a signal; real-time ones are RTMIN, RT_1, ..."""
    if number >= _REAL_TIME:
        return f"RT_{number - _REAL_TIME}" if number > _REAL_TIME else "RTMIN"
    names = constants_of("signal")
    return (names.values if names else {}).get(number, str(number))


def _signal_action(data: bytes) -> str:
    """Return the handler, the signals that it blocks, and its flags."""
    handler, flags, *rest = (int.from_bytes(data[offset : offset + 8], _ORDER) for offset in range(0, len(data) & ~7, 8))
    fields = {
        "sa_handler": _HANDLERS.get(handler, f"{handler:#x}"),
        "sa_mask": _signal_set(data[-8:]),
        "sa_flags": _bits(flags, _ACTION_BITS),
    }
    if len(rest) > 1 and flags & _HAS_RESTORER:
        fields["sa_restorer"] = f"{rest[0]:#x}"
    return fields_text(fields)


def _message(data: bytes) -> str:
    """Return the fields of a message that are not 0: addresses and sizes."""
    name, name_size, vectors, count, control, control_size, flags = _MESSAGE.unpack_from(data)
    names = constants_of("message_flags")
    fields = {
        **({"msg_name": f"{name:#x}", "msg_namelen": str(name_size)} if name else {}),
        "msg_iov": f"{vectors:#x}",
        "msg_iovlen": str(count),
        **({"msg_control": f"{control:#x}", "msg_controllen": str(control_size)} if control else {}),
        **({"msg_flags": bits_text(flags, names.bits) if names is not None else f"{flags:#x}"} if flags else {}),
    }
    return fields_text(fields)


def _counted_message(data: bytes) -> str:
    """Return a message, and the bytes that were sent or received."""
    size = int.from_bytes(data[_MESSAGE_SIZE : _MESSAGE_SIZE + 4], _ORDER)
    return fields_text({"msg_hdr": _message(data), **({"msg_len": str(size)} if size else {})})


def _descriptor_set(data: bytes) -> str:
    """Return the descriptors in a set, up to a limit."""
    words = struct.unpack(f"={len(data) // 8}Q", data[: len(data) & ~7])
    numbers = [64 * index + bit for index, word in enumerate(words) if word for bit in range(64) if word >> bit & 1]
    return f"[{' '.join(map(str, numbers[:_MOST_DESCRIPTORS]))}{' ...' if len(numbers) > _MOST_DESCRIPTORS else ''}]"


def _signal_information(data: bytes) -> str:
    """Return the signal, its reason, and what the kernel or another task says of it."""
    number, error, code = struct.unpack_from("=iii", data)
    if not number:
        return "{}"  # waitid() found no task
    name = _signal(number)
    of_child = name == "CHLD" and code > 0
    codes = _CHILD_CODES if of_child else _SIGNAL_CODES
    fields = {"si_signo": name, **({"si_errno": str(error)} if error else {}), "si_code": codes.get(code, str(code))}
    first, second, third = struct.unpack_from("=iIi", data, 16)
    if of_child:
        status = str(third) if codes.get(code) == "EXITED" else _signal(third)
        fields |= {"si_pid": str(first), "si_uid": str(second), "si_status": status}
    elif name in _FAULT_SIGNALS and code > 0:
        fields["si_addr"] = f"{int.from_bytes(data[16:24], _ORDER):#x}"
    elif code == _TIMER:
        fields |= {"si_timerid": str(first), "si_overrun": str(second)}
    elif code <= 0:
        fields |= {"si_pid": str(first), "si_uid": str(second), **({"si_int": str(third)} if code == _QUEUE else {})}
    return fields_text(fields)


_ELEMENTS: Final[dict[str, Callable[[bytes], str]]] = {
    "pollfd": _poll,
    "epoll_events": _epoll_event,
    "iovec": _iovec,
    "timespec_pair": _timespec,
    "timeval_pair": _timeval,
    "mmsghdr": _counted_message,
}
_WHOLE: Final[dict[str, Callable[[bytes], str]]] = {
    "timespec": _timespec,
    "timeval": _timeval,
    "itimerspec": _timer(_timespec),
    "itimerval": _timer(_timeval),
    "sockaddr": _socket_address,
    "epoll_event": _epoll_event,
    "clone_args": _clone,
    "statx": lambda data: _stat(data, 28, 40, 2).replace(".st_", ".stx_"),
    "rlimit": _resource_limit,
    "descriptor_pair": lambda data: f"[{', '.join(map(str, struct.unpack_from('=ii', data)))}]",
    "sigset": _signal_set,
    "sigaction": _signal_action,
    "msghdr": _message,
    "fd_set": _descriptor_set,
    "sigset_pointer": _signal_set,
    "siginfo": _signal_information,
}
