"""The text of structures that arguments point to, in the form of perf trace's: { .tv_sec: 1, .tv_nsec: 0 }.

Their bytes are data of the traced programs, and may be cut.
"""

from __future__ import annotations

import socket
import struct
import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from perfpy.abi.system_calls.constants import constants_of
from perfpy.abi.system_calls.structures import mode_offset, structure_size
from perfpy.untrusted.text import one_line
from perfpy.views.trace.arguments.texts import bits_text, open_text

if TYPE_CHECKING:
    from collections.abc import Callable

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

    Args:
        structure: its name in perfpy.abi.system_calls.structures.
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


def _descriptors(data: bytes) -> str:
    return f"[{', '.join(map(str, struct.unpack_from('=ii', data)))}]"


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


def _statx(data: bytes) -> str:
    return _stat(data, 28, 40, 2).replace(".st_", ".stx_")


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
    "statx": _statx,
    "rlimit": _resource_limit,
    "descriptor_pair": _descriptors,
    "sigset": _signal_set,
    "sigaction": _signal_action,
    "msghdr": _message,
    "fd_set": _descriptor_set,
    "sigset_pointer": _signal_set,
    "siginfo": _signal_information,
}
