"""Near matches for a name that nothing here bears.

What enters: the name and the known ones. What leaves: up to three of them,
the nearest first. Only errors and searches load it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfpy.events.machine import Machine


def nearest(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """The known names that look like `name`: a letter wrong, missing, doubled or swapped, or its words in them."""
    import difflib  # 3 ms that only a mistake has to pay

    folded: dict[str, str] = {}
    for candidate in known:
        folded.setdefault(candidate.casefold(), candidate)
    asked = name.casefold()
    cutoff = 0.6 if len(asked) < 5 else 0.72  # one wrong letter of three is a third of the word
    found = difflib.get_close_matches(asked, folded, n=most, cutoff=cutoff)
    found += [candidate for candidate in folded if asked in candidate and candidate not in found and len(asked) > 2]
    return [folded[candidate] for candidate in found[:most]]


def nearest_events(name: str, machine: Machine, *, as_pmu: bool = False) -> list[str]:
    """Known events (as_pmu: PMUs, written `pmu/`) that look like `name`."""
    if as_pmu:
        pmus = [pmu.name for pmu in machine.pmus]
        pmus += [pmu.removeprefix("uncore_") for pmu in pmus]
        return [f"{pmu}/" for pmu in nearest(name, pmus)]
    from perfpy.events.catalog import generic_names

    known = generic_names()
    for pmu in machine.pmus:
        known += machine.alias_names(pmu)
    return nearest(name, known)
