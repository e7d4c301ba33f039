"""perfpy.enable_all and perfpy.disable_all: switch all counters that the calling thread has opened (prctl(2))."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.kernel import this_kernel

if TYPE_CHECKING:
    from perfpy.kernel import Kernel


def enable_all(kernel: Kernel | None = None) -> None:
    """Enable every counter that the calling thread has opened, whatever task it counts. Raises KernelRefusedError.

    >>> import perfpy
    >>> with perfpy.Counter.open("page-faults:u", disabled=1) as counter:
    ...     perfpy.enable_all()
    ...     pages = bytearray(b"x") * (1 << 26)
    ...     counter.read().value > 0
    True
    """
    (kernel or this_kernel()).enable_all()


def disable_all(kernel: Kernel | None = None) -> None:
    """Disable every counter that the calling thread has opened, until enable_all(). Raises KernelRefusedError.

    >>> import perfpy
    >>> with perfpy.Counter.open("page-faults:u") as counter:
    ...     perfpy.disable_all()
    ...     before, pages = counter.read().value, bytearray(b"x") * (1 << 26)
    ...     counter.read().value == before
    True
    """
    (kernel or this_kernel()).disable_all()
