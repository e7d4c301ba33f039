"""Errors of probes, with perf's exit statuses (a negative errno as a byte)."""

from __future__ import annotations

import errno

from perfpy.errors import PerfError


class ProbeError(PerfError):
    """A probe cannot be made.

    Attributes:
        errno: the errno whose negative value is perf's exit status.
    """

    def __init__(self, text: str, code: int) -> None:
        self.errno = code
        self.exit_code = -code & 0xFF
        super().__init__(text)


class NoSuchPointError(ProbeError):
    """A point that the program does not have."""

    def __init__(self, text: str) -> None:
        super().__init__(text, errno.ENODEV)


class NoVariableError(ProbeError):
    """A variable that is not available at a point."""

    def __init__(self, text: str) -> None:
        super().__init__(text, errno.ENOENT)


class UnsupportedLocationError(ProbeError):
    """A variable whose location the kernel cannot read."""

    def __init__(self, text: str) -> None:
        super().__init__(text, errno.EOPNOTSUPP)


class WrongTypeError(ProbeError):
    """An expression that does not fit the variable's type."""

    def __init__(self, text: str) -> None:
        super().__init__(text, errno.EINVAL)
