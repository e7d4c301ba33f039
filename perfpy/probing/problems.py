"""Errors of probes, with perf's exit statuses (a negative errno as a byte)."""

from __future__ import annotations

import errno
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from perfpy.debuginfo.sections import damage_of
from perfpy.errors import PerfError
from perfpy.symbols.files.elf import DAMAGE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perfpy.symbols.files.elf import ElfFile


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

    def __init__(self, text: str, code: int = errno.ENODEV) -> None:
        super().__init__(text, code)


class NoVariableError(ProbeError):
    """A variable that is not available at a point."""

    def __init__(self, text: str) -> None:
        super().__init__(text, errno.ENOENT)


class UnsupportedLocationError(ProbeError):
    """A variable whose location the kernel cannot read."""

    def __init__(self, text: str) -> None:
        super().__init__(text, errno.EOPNOTSUPP)


class UnreadableRegisterError(UnsupportedLocationError):
    """A variable in a register that the kernel's probes cannot read, such as one of floating-point numbers."""


class WrongTypeError(ProbeError):
    """An expression that does not fit the variable's type."""

    def __init__(self, text: str) -> None:
        super().__init__(text, errno.EINVAL)


@contextmanager
def damage_refused(file: ElfFile) -> Iterator[None]:
    """Raise ProbeError for damage in a file that is read meanwhile."""
    try:
        yield
    except DAMAGE as damage:
        file.flaw(damage_of(damage))
        raise ProbeError(f"the debug information of {file.path} is damaged: {damage}", errno.EINVAL) from None


# Names that resemble a misspelt one.

_COMPARED_MOST: Final = 20_000  # difflib takes a second for 50,000 names


def nearest(name: str, candidates: Iterable[str], most: int = 3) -> list[str]:
    """Return at most `most` names that resemble `name`, the nearest first."""
    import difflib  # only after a mistake

    target = name.casefold()
    folded: dict[str, str] = {}
    for candidate in candidates:
        if abs(len(candidate) - len(target)) <= max(2, len(target) // 3) or target in candidate.casefold():
            folded.setdefault(candidate.casefold(), candidate)
        if len(folded) >= _COMPARED_MOST:
            break
    matches = difflib.get_close_matches(target, folded, n=most, cutoff=0.6 if len(target) < 5 else 0.72)
    matches += [candidate for candidate in folded if len(target) > 2 and target in candidate and candidate not in matches]
    return [folded[candidate] for candidate in matches[:most]]


def hint(name: str, candidates: Iterable[str], otherwise: str = "") -> str:
    """Return the names that resemble a misspelt one as a question, or other advice."""
    similar = nearest(name, candidates)
    return f"; did you mean {' or '.join(map(repr, similar))}?" if similar else otherwise and f"; {otherwise}"
