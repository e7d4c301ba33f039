r"""Events and metrics that CPU vendors publish: tables of names, codes, scales and formulas.

The user's own table of a CPU (made by `list --update-events`) precedes the package's. A table is read when an event is requested that the
kernel does not name.

    tables/MAKER/index.tsv      pattern of identities \t name of the table; the first match counts
    tables/MAKER/NAME.z         a table, compressed by zlib
    ~/.cache/perfpy/events/IDENTITY     a table

    E \t name \t PMU ("": the CPU's own) \t terms \t scale and unit \t topic \t "d" if deprecated
    M \t name \t expression \t scale and unit \t groups, separated by ; \t threshold

Rows are sorted; trailing empty fields are omitted.
"""

from __future__ import annotations

import os
import re
from functools import cached_property
from typing import TYPE_CHECKING, Final

from perfpy.events.vendor.event_files import MetricDefinition, belongs, scale_and_unit
from perfpy.kernel.sysfs import Alias
from perfpy.untrusted.expansion import expand
from perfpy.untrusted.files import read_regular, trusted_file_owners

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.kernel.sysfs import Pmu

_TABLES: Final = os.path.join(os.path.dirname(os.path.dirname(__file__)), "tables")
_MAKERS: Final = ("intel",)
_LARGEST: Final = 32 << 20  # bytes of a table's text
_FIELDS: Final = 7


class VendorTable:
    """The events and metrics of one CPU. `folder` is the origin of the table."""

    def __init__(self, text: str, folder: str) -> None:
        self.folder = folder
        self._text = "\n" + text

    def alias(self, pmu: Pmu, name: str) -> Alias | None:
        """Return the PMU's event of this name in any case; None if there is none."""
        for row in self._rows(f"\nE\t{name.lower()}\t"):
            if _has(pmu, row[2]):
                return _alias(row)
        return None

    def names(self, pmu: Pmu) -> list[str]:
        """Return the names of the PMU's events."""
        return [row[1] for row in self._rows("\nE\t") if _has(pmu, row[2])]

    @cached_property
    def metrics(self) -> list[MetricDefinition]:
        """All metrics, by name."""
        return [_metric(row) for row in self._rows("\nM\t")]

    def _rows(self, start: str) -> Iterator[list[str]]:
        """Yield the rows with this beginning, each with all its fields."""
        text = self._text
        position = text.find(start)
        while position >= 0:
            end = text.find("\n", position + 1)
            row = text[position + 1 : end if end >= 0 else None].split("\t")
            yield row + [""] * (_FIELDS - len(row))
            position = text.find(start, end) if end >= 0 else -1


def _has(pmu: Pmu, unit: str) -> bool:
    """Whether a unit's events belong to the PMU; none belong to the stand-in for a missing PMU."""
    return bool(pmu.path) and belongs(pmu, unit)


def _alias(row: list[str]) -> Alias:
    _, name, _, terms, scale, topic, flags = row
    return Alias(name, terms, *scale_and_unit(scale), topic=topic, deprecated="d" in flags)


def _metric(row: list[str]) -> MetricDefinition:
    _, name, expression, unit, groups, threshold, _ = row
    return MetricDefinition(name, expression, unit, groups=tuple(filter(None, groups.split(";"))), threshold=threshold)


def table_of(identity: str) -> VendorTable | None:
    """Return the table of a CPU, the user's own before the package's; None if there is none."""
    if not identity:
        return None
    return _own_table(identity) or _packaged_table(identity)


def own_folder() -> str:
    """Return the folder of the user's tables."""
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "perfpy", "events")


def file_name(identity: str) -> str:
    """Return the name of a CPU's table in that folder."""
    return re.sub(r"[^0-9A-Za-z]", "-", identity)


def _own_table(identity: str) -> VendorTable | None:
    path = os.path.join(own_folder(), file_name(identity))
    try:
        return VendorTable(read_regular(path, owners=trusted_file_owners(), limit=_LARGEST).decode(), path)
    except (OSError, ValueError):
        return None


def _packaged_table(identity: str) -> VendorTable | None:
    for maker in _MAKERS:
        folder = os.path.join(_TABLES, maker)
        with open(os.path.join(folder, "index.tsv"), encoding="ascii") as index:
            for line in index:
                pattern, _, name = line.rstrip("\n").partition("\t")
                if re.match(pattern, identity):
                    path = os.path.join(folder, f"{name}.z")
                    with open(path, "rb") as file:
                        return VendorTable(expand("zlib", file.read(), _LARGEST).decode("ascii"), path)
    return None
