"""The machine: the only package of perfpy that makes system calls about perf events.

`Kernel` is the protocol that the measuring half uses. The module perfpy.kernel.syscalls implements it; tests bring an implementation in
memory.
"""

from __future__ import annotations

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    import mmap
    from typing import Protocol

    from perfpy.abi.attr import EventAttr

    class Kernel(Protocol):
        """perf_event_open(2) and the operations on its file descriptors; perfpy.kernel.syscalls documents each."""

        def perf_event_open(
            self, attr: EventAttr, pid: int, cpu: int, group_fd: int = ..., flags: int = ..., *, event: str = ...
        ) -> int: ...

        def enable(self, fd: int, *, group: bool = ...) -> None: ...

        def disable(self, fd: int, *, group: bool = ...) -> None: ...

        def reset(self, fd: int, *, group: bool = ...) -> None: ...

        def refresh(self, fd: int, overflows: int) -> None: ...

        def set_period(self, fd: int, period: int) -> None: ...

        def set_output(self, fd: int, target_fd: int) -> None: ...

        def set_filter(self, fd: int, text: str) -> None: ...

        def event_id(self, fd: int) -> int: ...

        def set_bpf(self, fd: int, program_fd: int) -> None: ...

        def pause_output(self, fd: int, paused: bool) -> None: ...

        def modify_attributes(self, fd: int, attr: EventAttr) -> None: ...

        def read(self, fd: int, size: int) -> bytes: ...

        def map_page(self, fd: int) -> mmap.mmap | bytearray: ...

        def enable_all(self) -> None: ...

        def disable_all(self) -> None: ...

        def close(self, fd: int) -> None: ...


def this_kernel() -> Kernel:
    """Return the real kernel."""
    from perfpy.kernel import syscalls  # reading a file never needs it

    return syscalls
