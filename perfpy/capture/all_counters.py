"""All counters that the calling thread has opened, at once: perfpy.enable_all and perfpy.disable_all.

What enters: nothing. What leaves: nothing; the kernel knows whose counters they are (prctl(2)).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.kernel import this_kernel

if TYPE_CHECKING:
    from perfpy.kernel import Kernel


def enable_all(kernel: Kernel | None = None) -> None:
    """Let every counter that the calling thread has opened count, on whatever task it is. Raises KernelRefusedError.

    >>> import perfpy
    >>> with perfpy.Counter.open("page-faults:u", disabled=1) as counter:
    ...     perfpy.enable_all()
    ...     pages = bytearray(b"x") * (1 << 26)
    ...     counter.read().value > 0
    True
    """
    (kernel or this_kernel()).enable_all()


def disable_all(kernel: Kernel | None = None) -> None:
    """Stop every counter that the calling thread has opened; enable_all() lets them go on. Raises KernelRefusedError.

    >>> import perfpy
    >>> with perfpy.Counter.open("page-faults:u") as counter:
    ...     perfpy.disable_all()
    ...     before, pages = counter.read().value, bytearray(b"x") * (1 << 26)
    ...     counter.read().value == before
    True
    """
    (kernel or this_kernel()).disable_all()
