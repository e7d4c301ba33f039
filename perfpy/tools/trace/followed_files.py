"""The files of descriptors and the strings of calls, also by calls that are not printed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

import numpy as np

from perfpy.abi.columns import rows_where
from perfpy.tools.trace.calls import ENTER, Pairing
from perfpy.tools.trace.descriptors import Descriptors, DescriptorTable, OpenFile

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from perfpy.tools.trace.call_strings import CallStrings
    from perfpy.tools.trace.calls import CallEvents, PairedEvents
    from perfpy.tools.trace.descriptors import DescriptorNames
    from perfpy.tools.trace.replay import CallFilter

    Texts = dict[int, dict[int, str]]


class FollowedFiles:
    """Follows the calls that change descriptors.

    Args:
        machine: as uname(2) has it.
        strings: the source of strings; None for none.
        call_filter: which calls are printed.
        ending: numbers of calls that do not return.
        is_partial: whether calls are left out for other reasons than the filter.
    """

    def __init__(
        self, machine: str, strings: CallStrings | None, call_filter: CallFilter, ending: NDArray[np.int64], *, is_partial: bool = False
    ) -> None:
        self._strings = strings
        self.descriptors = Descriptors(machine, open_files, descriptor_name)
        self._filter = call_filter
        self._pairing: Pairing | None = None
        if call_filter.numbers is not None:
            self._filter = call_filter._replace(numbers=call_filter.numbers | self.descriptors.numbers)
        if call_filter.numbers is not None or is_partial:
            self._pairing = Pairing(ending, wants_interruptions=False)
        self._open_texts: dict[tuple[int, int], dict[int, str]] = {}
        self._forks: list[tuple[int, int, int]] = []

    def fork(self, key: int, parent: int, child: int) -> None:
        """Note a new process; key: the delivery key of its record."""
        self._forks.append((key, parent, child))

    def forget(self, tids: Iterable[int]) -> None:
        """Drop what belongs to tasks that ended."""
        self.descriptors.forget(tids)
        if self._pairing is not None:
            self._pairing.forget(tids)

    def follow(self, events: CallEvents, printed: PairedEvents) -> tuple[Texts, DescriptorNames]:
        """Return row of a printed entry -> index of the argument -> its text, and the names of descriptors at printed rows.

        Args:
            events: all events of the batch.
            printed: the pairs of those that are printed.
        """
        paired = printed if self._pairing is None else self._pairing.pair(self._filter.apply(events))
        texts = self._texts(paired)
        forks, self._forks = self._forks, []
        self.descriptors.follow(paired, texts, forks)
        if paired is not printed:
            texts = _texts_by_key(texts, paired.events.key, printed.events)
        return texts, self.descriptors.names_at(printed.events)

    def _texts(self, paired: PairedEvents) -> Texts:
        """Return the texts of a batch; keep those of calls that have not returned."""
        if self._strings is None:
            return {}
        events = paired.events
        texts = self._strings.texts_of(events)
        for row in range(paired.carried):
            kept = self._open_texts.get((int(events.tid[row]), int(events.time[row])))
            if kept is not None:
                texts[row] = {**kept, **texts.get(row, {})}
        self._open_texts = {
            (int(events.tid[row]), int(events.time[row])): of_row for row, of_row in texts.items() if row in paired.open_rows
        }
        return texts


def _texts_by_key(texts: Texts, keys: NDArray[np.uint64], events: CallEvents) -> Texts:
    """Return the texts by the rows of other events; keys: the delivery keys of the present rows."""
    if not texts:
        return {}
    of_key = dict(zip(keys[list(texts)].tolist(), texts.values(), strict=True))
    rows = rows_where((events.kind == ENTER) & np.isin(events.key, np.array(list(of_key), np.uint64)))
    return {row: of_key[key] for row, key in zip(rows.tolist(), events.key[rows].tolist(), strict=True)}


# The descriptors and the current folder that a process has now, from /proc/PID/fd, fdinfo and cwd. Their texts are data, not paths.
_MOST_FILES: Final = 4096  # of one process
_CLOSE_ON_EXEC: Final = 0o2000000  # O_CLOEXEC in fdinfo


def open_files(pid: int) -> DescriptorTable | None:
    """Return the table of a process; None if it has ended or belongs to another user."""
    folder = f"/proc/{pid}/fd"
    try:
        numbers = sorted(int(name) for name in os.listdir(folder))[:_MOST_FILES]
    except (OSError, ValueError):
        return None
    files = {}
    for number in numbers:
        try:
            name = os.readlink(f"{folder}/{number}")
        except OSError:  # closed in the meantime
            continue
        files[number] = OpenFile(name, _closes_on_exec(pid, number))
    try:
        return DescriptorTable(files, os.readlink(f"/proc/{pid}/cwd"))
    except OSError:
        return DescriptorTable(files)


def descriptor_name(pid: int, number: int) -> str:
    """Return the name of a descriptor that a process has now, "" if it is closed."""
    try:
        return os.readlink(f"/proc/{pid}/fd/{number}")
    except OSError:
        return ""


def _closes_on_exec(pid: int, number: int) -> bool:
    try:
        with open(f"/proc/{pid}/fdinfo/{number}", "rb", buffering=0) as file:
            head = file.read(128)
    except OSError:
        return False
    _, _, rest = head.partition(b"flags:\t")
    digits = rest.partition(b"\n")[0]
    return digits.isdigit() and bool(int(digits, 8) & _CLOSE_ON_EXEC)
