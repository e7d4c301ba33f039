"""Match names that differ between two recordings of the same program: it was renamed, or built elsewhere.

Counterparts gives the command and the program's file one name in both: `old → new`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.abi.comms import cut_comm

if TYPE_CHECKING:
    from collections.abc import Mapping

#: the share that makes one command the only one; the program's starter has a few samples, too
_NEARLY_ALL: Final = 0.95
_ARROW: Final = " \N{RIGHTWARDS ARROW} "


def main_command(periods: Mapping[str, int]) -> str:
    """Return the only command of a recording; "" if there are several."""
    most = max(periods, key=lambda name: periods[name], default="")
    return most if most and periods[most] >= _NEARLY_ALL * sum(periods.values()) else ""


class Counterparts(NamedTuple):
    """The only command of each of two recordings.

    Attributes:
        mains: "" for several commands.
        together: the common name if the names of all commands are ignored.
    """

    mains: tuple[str, str] = ("", "")
    together: str = ""

    @classmethod
    def of(cls, before: Mapping[str, int], after: Mapping[str, int], *, ignore: bool | None) -> Counterparts:
        """Match the commands by their periods. ignore: ignore commands' names; None: unless each recording has one."""
        if ignore is False:
            return cls()
        mains = main_command(before), main_command(after)
        matched = mains if all(mains) else ("", "")
        return cls(matched, (_join_command(matched) or "all commands") if ignore else "")

    def command(self, index: int, name: str) -> str:
        """Return the common name of a command of one of the recordings."""
        return self.together or (_join_command(self.mains) if name and name == self.mains[index] else name)

    def file(self, index: int, name: str) -> str:
        """Return the common name of a file: a program's name begins with its command, which may be truncated."""
        main = self.mains[index]
        return _join_command(self.mains) if main and cut_comm(name) == main else name


def _join_command(names: tuple[str, str]) -> str:
    before, after = names
    return before if before == after else f"{before}{_ARROW}{after}"
