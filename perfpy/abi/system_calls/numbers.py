"""Numbers and names of system calls, by machine.

numbers.tsv has a row for each call and a column for each machine; "-" where the machine does not have the call.
"""

from __future__ import annotations

from functools import cache

from perfpy.abi.system_calls.tables import read_rows

_ABSENT = "-"
#: the machine as uname(2) and perf's header spell it -> the column of numbers.tsv
_MACHINES = {
    "x86_64": "x86_64",
    "i386": "i386",
    "i486": "i386",
    "i586": "i386",
    "i686": "i386",
    "aarch64": "arm64",
    "arm64": "arm64",
    "ppc64": "ppc64",
    "ppc64le": "ppc64",
    "s390x": "s390x",
    "riscv64": "riscv64",
}


def has_table(machine: str) -> bool:
    """Whether the calls of a machine are known."""
    return machine in _MACHINES


@cache
def names_by_number(machine: str) -> dict[int, str]:
    """Return number -> name of a machine's calls; empty for an unknown machine."""
    rows = read_rows("numbers.tsv")
    machines = next(rows)
    if machine not in _MACHINES:
        return {}
    column = machines.index(_MACHINES[machine])
    return {int(row[column]): row[0] for row in rows if row[column] != _ABSENT}


@cache
def numbers_by_name(machine: str) -> dict[str, int]:
    """Return name -> number of a machine's calls; empty for an unknown machine."""
    return {name: number for number, name in names_by_number(machine).items()}
