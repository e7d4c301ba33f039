"""Arguments of system calls whose text needs more than a table of names.

They are modes, types of sockets, operations of futexes, and arguments whose meaning depends on another one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from perfpy.abi.columns import rows_where
from perfpy.abi.system_calls.constants import constants_of
from perfpy.abi.system_calls.ioctls import ioctl_name
from perfpy.views.trace.arguments.texts import ArgumentRows, Named, Number, Process, bits_text, open_text

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy as np
    from numpy.typing import NDArray

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
