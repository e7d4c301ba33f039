"""Find near matches of an unknown name, at most three, nearest first. Only errors and searches load this module."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from perfpy.events.machine import Machine


def nearest(name: str, names: Iterable[str], most: int = 3) -> list[str]:
    """Return the candidates that resemble `name`: a letter wrong, missing, doubled or swapped, or its words contained in them."""
    import difflib  # 3 ms, only after a mistake

    folded: dict[str, str] = {}
    for candidate in names:
        folded.setdefault(candidate.casefold(), candidate)
    target = name.casefold()
    cutoff = 0.6 if len(target) < 5 else 0.72  # one wrong letter of three is a third of the word
    matches = difflib.get_close_matches(target, folded, n=most, cutoff=cutoff)
    matches += [candidate for candidate in folded if target in candidate and candidate not in matches and len(target) > 2]
    return [folded[candidate] for candidate in matches[:most]]


def nearest_events(name: str, machine: Machine, *, as_pmu: bool = False) -> list[str]:
    """Return known events that resemble `name`; with `as_pmu`, PMUs, written `pmu/`."""
    if as_pmu:
        pmus = [pmu.name for pmu in machine.pmus]
        pmus += [pmu.removeprefix("uncore_") for pmu in pmus]
        return [f"{pmu}/" for pmu in nearest(name, pmus)]
    from perfpy.events.catalog import generic_names

    names = generic_names()
    for pmu in machine.pmus:
        names += machine.alias_names(pmu)
    return nearest(name, names)
