"""Arguments that a system call does not use, by the values of others: perf does not print them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.system_calls.open_flags import CREAT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    Values = Sequence[NDArray[np.uint64]]
    Rule = Callable[[Values], list[tuple[int, NDArray[np.bool_]]]]

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


def _futex(values: Values) -> list[tuple[int, NDArray[np.bool_]]]:
    return _by_command(values[1] & _FUTEX_COMMAND, _FUTEX, values[1] != 0)


def _prctl(values: Values) -> list[tuple[int, NDArray[np.bool_]]]:
    return _by_command(values[0] & np.uint64(0xFFFFFFFF), _PRCTL, values[0] != 0)


def _fcntl(values: Values) -> list[tuple[int, NDArray[np.bool_]]]:
    return [(2, np.isin(values[1] & np.uint64(0xFFFFFFFF), _FCNTL))]


_RULES: Final[dict[str, Rule]] = {
    "open": _open(1, 2),
    "openat": _open(2, 3),
    "mmap": _mmap,
    "mmap2": _mmap,
    "clone": _clone,
    "futex": _futex,
    "prctl": _prctl,
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
