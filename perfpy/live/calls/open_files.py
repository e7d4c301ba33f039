"""The descriptors and the current folder that a process has now, from /proc/PID/fd, fdinfo and cwd. Their texts are data, not paths."""

from __future__ import annotations

import os
from typing import Final

from perfpy.tracing.descriptor_tables import DescriptorTable, OpenFile

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
