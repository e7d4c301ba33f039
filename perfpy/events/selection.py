"""Which of a machine's events the words of `perfpy list` mean.

What enters: the words (hw, sw, cache, tracepoint, pmu, sdt, metric,
metricgroup, system:event, or any text), a Machine. What leaves: the offers
and metrics in perf list's order; for a text that perf's rule finds nothing
for, a forgiving search. Raises KernelRefused where tracefs cannot be read.
"""

from __future__ import annotations

import os
import re
from fnmatch import translate
from typing import TYPE_CHECKING, Final, NamedTuple

from perfpy.events import inventory

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from perfpy.events.eventfiles import Metric
    from perfpy.events.inventory import Offer
    from perfpy.events.machine import Machine

_SECTIONS: Final = {
    "hw": "hw",
    "hardware": "hw",
    "sw": "sw",
    "software": "sw",
    "cache": "cache",
    "hwcache": "cache",
    "tracepoint": "tracepoint",
    "pmu": "pmu",
    "sdt": "sdt",
    "metric": "metric",
    "metrics": "metric",
    "metricgroup": "metricgroup",
    "metricgroups": "metricgroup",
}
_PARTS: Final = re.compile(r"[^A-Za-z0-9]+")


class Selection(NamedTuple):
    """What one word of the command line asks for; show: "all", "metrics" or "groups" of the metrics."""

    offers: Iterable[Offer]
    metrics: list[Metric]
    show: str = "all"


def is_section(word: str) -> bool:
    """True for the words that name a whole section."""
    return word in _SECTIONS


def everything(machine: Machine, cache_folder: str, *, unsupported: bool = False) -> Selection:
    """All sections; unsupported: generic events too that cannot be opened here."""
    return Selection(_all_offers(machine, cache_folder, unsupported), _metrics(machine))


def _all_offers(machine: Machine, cache_folder: str, unsupported: bool) -> Iterator[Offer]:
    yield from inventory.hardware(machine, all_of_them=unsupported)
    yield from inventory.software()
    yield from inventory.tool()
    yield from inventory.cache(machine, all_of_them=unsupported)
    yield from inventory.pmu_events(machine)
    yield from inventory.raw_descriptors(machine)
    yield from inventory.breakpoint_pattern()
    yield from inventory.tracepoints(machine.tracefs)
    yield from sdt_offers(cache_folder)


def select(word: str, machine: Machine, cache_folder: str, *, unsupported: bool = False) -> Selection:
    """What one word asks for."""
    section = _SECTIONS.get(word)
    if section == "metric":
        return Selection((), _metrics(machine), "metrics")
    if section == "metricgroup":
        return Selection((), _metrics(machine), "groups")
    if section:
        return Selection(_section(section, machine, cache_folder, unsupported), [])
    if ":" in word:
        return _matching(word, machine, cache_folder, only_tracepoints=True)
    return _matching(f"*{word}*", machine, cache_folder, only_tracepoints=False)


def _section(section: str, machine: Machine, cache_folder: str, unsupported: bool) -> Iterator[Offer]:
    if section == "hw":
        yield from inventory.hardware(machine, all_of_them=unsupported)
    elif section == "sw":
        yield from inventory.software()
        yield from inventory.tool()
    elif section == "cache":
        yield from inventory.cache(machine, all_of_them=unsupported)
    elif section == "pmu":
        yield from inventory.pmu_events(machine)
    elif section == "tracepoint":
        yield from inventory.tracepoints(machine.tracefs)
    else:
        yield from sdt_offers(cache_folder)


def _matching(pattern: str, machine: Machine, cache_folder: str, *, only_tracepoints: bool) -> Selection:
    """perf's own search: a pattern over names and aliases, and over topics in any case."""
    named = _matcher(pattern)
    topical = _matcher(pattern.lower())

    def fits(offer: Offer) -> object:
        return named(offer.name) or (offer.alias and named(offer.alias)) or (offer.topic and topical(offer.topic.lower()))

    offers: list[Offer] = []
    if not only_tracepoints:
        for section in ("hw", "sw", "cache", "pmu"):
            offers += filter(fits, _section(section, machine, cache_folder, False))
    offers += inventory.tracepoints(machine.tracefs, named)
    offers += (offer for offer in sdt_offers(cache_folder) if named(offer.name))
    found = [metric for metric in _metrics(machine) if named(metric.name) or any(map(named, metric.groups))]
    return Selection(offers, found)


def _matcher(pattern: str) -> Callable[[str], bool]:
    match = re.compile(translate(pattern)).match
    return lambda name: match(name) is not None


def _metrics(machine: Machine) -> list[Metric]:
    return machine.event_files.metrics if machine.event_files is not None else []


def sdt_offers(cache_folder: str) -> Iterator[Offer]:
    """The markers of programs in perf's build-id cache."""
    from perfpy.events.sdt import marker_names

    for name in marker_names(cache_folder):
        yield inventory.Offer(name, "SDT event")


def default_cache_folder() -> str:
    """Where perf keeps its build-id cache."""
    return os.path.expanduser("~/.debug")


def forgiving(text: str, offers: Iterable[Offer], most: int = 20) -> list[Offer]:
    """The offers that a text may mean: every word of it begins, abbreviates or nearly spells a part of the name.

    `ctx sw` finds context-switches, `pagefault` page-faults. Best first.
    """
    asked = [part for part in _PARTS.split(text.lower()) if part]
    if not asked:
        return []
    ranked = []
    for offer in offers:
        names = f"{offer.name} {offer.alias}".lower()
        parts = [part for part in _PARTS.split(names) if part]
        joined = "".join(parts)
        scores = [_rank(word, parts, joined) for word in asked]
        if all(score < _NO_MATCH for score in scores):
            ranked.append((sum(scores) + len(parts) / 100, offer.kind == "Tracepoint event", offer.name, offer))
    ranked.sort(key=lambda row: row[:3])
    return [row[3] for row in ranked[:most]]


_NO_MATCH: Final = 9


def _rank(word: str, parts: list[str], joined: str) -> int:
    """How well one word fits a name: 0 is a part of it, _NO_MATCH not at all."""
    if word in parts:
        return 0
    if any(part.startswith(word) for part in parts):
        return 1
    if word in joined:
        return 2
    if any(part.startswith(word[0]) and _abbreviates(word, part) for part in parts):
        return 3
    if len(word) > 3 and any(_one_letter_off(word, part) for part in parts):
        return 4
    return _NO_MATCH


def _abbreviates(word: str, part: str) -> bool:
    letters = iter(part)
    return len(word) > 1 and all(letter in letters for letter in word)


def _one_letter_off(word: str, part: str) -> bool:
    """One letter wrong, missing or too many, or two swapped."""
    if abs(len(word) - len(part)) > 1:
        return False
    start = 0
    while start < min(len(word), len(part)) and word[start] == part[start]:
        start += 1
    rest, other = word[start:], part[start:]
    return rest[1:] in (other[1:], other) or rest == other[1:] or (rest[:2] == other[1::-1] and rest[2:] == other[2:])
