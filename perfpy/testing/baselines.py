"""The costs of tests at an earlier time, in a JSON file beside the tests.

The file: {machine: {test: {event: [amount of each run, ...]}}}. Only entries of similar machines count.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Final, TypeAlias

from perfpy.errors import UsageError
from perfpy.kernel.hardware.cpu_identity import cpu_identity
from perfpy.untrusted.files import read_named

if TYPE_CHECKING:
    from collections.abc import Sequence

_LARGEST: Final = 64 << 20
Amounts: TypeAlias = "dict[str, dict[str, list[float]]]"


def this_machine() -> str:
    """Return the name of the environment that counts depend on: the CPU and the Python version."""
    python = f"{sys.implementation.name}-{sys.version_info[0]}.{sys.version_info[1]}"
    return " ".join(filter(None, (os.uname().machine, cpu_identity(), python)))


class Baselines:
    """The baselines of this machine. New ones are stored by write()."""

    def __init__(self, path: str, machine: str = "") -> None:
        self._path = path
        self._machine = machine or this_machine()
        self._all = _read(path)
        self._new: Amounts = {}

    def of(self, test: str, event: str) -> list[float]:
        """Return the amounts of a test's baseline runs, empty without a baseline."""
        return self._all.get(self._machine, {}).get(test, {}).get(event, [])

    def take(self, test: str, event: str, amounts: Sequence[float]) -> None:
        """Make these runs the baseline."""
        self._new.setdefault(test, {})[event] = list(amounts)

    def write(self) -> int:
        """Write new baselines to the file; return the number of tests. Other tests and machines keep theirs."""
        if self._new:
            self._all.setdefault(self._machine, {}).update(self._new)
            unfinished = f"{self._path}.{os.getpid()}"
            with open(unfinished, "w") as file:
                json.dump(self._all, file, indent=1, sort_keys=True)
                file.write("\n")
            os.replace(unfinished, self._path)
        return len(self._new)


def _read(path: str) -> dict[str, Amounts]:
    try:
        content = json.loads(read_named(path, limit=_LARGEST))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: cannot read the baselines of tests: {error}") from None
    if not _is_well_formed(content):
        raise UsageError(f"{path}: no baselines; expected machine, test and event with a list of numbers")
    machines: dict[str, Amounts] = content
    return machines


def _is_well_formed(content: object) -> bool:
    layer = [content]
    for _ in range(3):
        if not all(isinstance(value, dict) for value in layer):
            return False
        layer = [inner for value in layer if isinstance(value, dict) for inner in value.values()]
    return all(isinstance(value, list) and all(isinstance(number, int | float) for number in value) for value in layer)
