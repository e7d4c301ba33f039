"""The kinds of results of system calls."""

from __future__ import annotations

from typing import Final

#: name -> hex, pid, timeout (0 is one) or fcntl_result; other calls return a number
_KINDS: Final = {
    **dict.fromkeys(("brk", "mmap", "mmap2", "mremap"), "hex"),
    **dict.fromkeys(("clone", "getpgid", "getppid", "gettid", "set_tid_address", "wait4", "waitid"), "pid"),
    **dict.fromkeys(("poll", "ppoll", "select"), "timeout"),
    **dict.fromkeys(("fcntl", "fcntl64"), "fcntl_result"),
}
_USUAL: Final = "long"


def result_kind(name: str) -> str:
    """Return the kind of a call's result."""
    return _KINDS.get(name, _USUAL)
