"""What two recordings call differently and is the same: the program, where it was renamed or built elsewhere.

What enters: how much each command of a recording has. What leaves:
Counterparts, which gives the command and the file of the program one name in
both: `old → new`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

#: of a recording, when one command is all that matters in it: what starts the program has a few samples, too
_NEARLY_ALL: Final = 0.95
_COMM_LENGTH: Final = 15  # TASK_COMM_LEN - 1: the rest of a program's name is cut off
_ARROW: Final = " \N{RIGHTWARDS ARROW} "


def main_command(periods: Mapping[str, int]) -> str:
    """The one command of a recording; "" where there are several."""
    most = max(periods, key=lambda name: periods[name], default="")
    return most if most and periods[most] >= _NEARLY_ALL * sum(periods.values()) else ""


class Counterparts(NamedTuple):
    """The one command of each of two recordings, "" for several; together: all commands are one, whatever they are called."""

    mains: tuple[str, str] = ("", "")
    together: str = ""

    @classmethod
    def of(cls, before: Mapping[str, int], after: Mapping[str, int], *, ignore: bool | None) -> Counterparts:
        """From what each command has. ignore: commands' names do not matter; None: not where each recording has one."""
        if ignore is False:
            return cls()
        mains = main_command(before), main_command(after)
        known = mains if all(mains) else ("", "")
        return cls(known, (_joined(known) or "all commands") if ignore else "")

    def command(self, index: int, name: str) -> str:
        """A command of one of the recordings, by its name for both."""
        return self.together or (_joined(self.mains) if name and name == self.mains[index] else name)

    def file(self, index: int, name: str) -> str:
        """A file, by its name for both: the program is called as the command, which may be shorter."""
        main = self.mains[index]
        return _joined(self.mains) if main and name[:_COMM_LENGTH] == main else name


def _joined(names: tuple[str, str]) -> str:
    before, after = names
    return before if before == after else f"{before}{_ARROW}{after}"
