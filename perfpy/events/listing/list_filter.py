"""Select events by the words of `perfpy list`: hw, sw, cache, tracepoint, pmu, sdt, metric, metricgroup, system:event, or any text.

The result is in perf list's order. A forgiving search handles texts that perf's rule finds nothing for.
Raises KernelRefusedError if tracefs is unreadable.
"""

from __future__ import annotations

import os

from perfpy.errors import KernelRefusedError
from perfpy.events.listing import inventory

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from typing import Final

    from perfpy.events.listing.inventory import EventInfo
    from perfpy.events.machine import Machine
    from perfpy.events.vendor.event_files import MetricDefinition

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


class ListFilter:
    """The selection of one word. `show` is "all", or "metrics" or "groups" of the metrics."""

    __slots__ = ("infos", "metrics", "show")

    def __init__(self, infos: Iterable[EventInfo], metrics: list[MetricDefinition], show: str = "all") -> None:
        self.infos = infos
        self.metrics = metrics
        self.show = show


def is_section(word: str) -> bool:
    """Whether a word names a whole section."""
    return word in _SECTIONS


def section_names() -> Collection[str]:
    """Return all section names."""
    return _SECTIONS


class Selector:
    """Selects events of one machine.

    Args:
        cache_folder: perf's build-id cache
        unsupported: include generic events that cannot be opened here

    `refusals` has the reasons why tracepoints are missing, after the events were read.
    """

    def __init__(self, machine: Machine, cache_folder: str, *, unsupported: bool = False) -> None:
        self._machine = machine
        self._cache_folder = cache_folder
        self._unsupported = unsupported
        self.refusals: list[KernelRefusedError] = []

    def everything(self) -> ListFilter:
        """Select all sections."""
        return ListFilter(self._all_infos(), self._metrics())

    def select(self, word: str) -> ListFilter:
        """Select by one word."""
        section = _SECTIONS.get(word)
        if section == "metric":
            return ListFilter((), self._metrics(), "metrics")
        if section == "metricgroup":
            return ListFilter((), self._metrics(), "groups")
        if section:
            return ListFilter(self._section(section), [])
        if ":" in word:
            return self._matching(word, ("tracepoint", "sdt"))
        return self._matching(f"*{word}*", ("hw", "sw", "cache", "pmu", "tracepoint", "sdt"))

    def _all_infos(self) -> Iterator[EventInfo]:
        for section in ("hw", "sw", "cache", "pmu"):
            yield from self._section(section)
        yield from inventory.raw_descriptors(self._machine)
        yield from inventory.breakpoint_pattern()
        for section in ("tracepoint", "sdt"):
            yield from self._section(section)

    def _section(self, section: str) -> Iterator[EventInfo]:
        machine = self._machine
        if section == "hw":
            yield from inventory.hardware(machine, all_of_them=self._unsupported)
        elif section == "sw":
            yield from inventory.software()
            yield from inventory.tool()
            yield from inventory.sensors(machine)
        elif section == "cache":
            yield from inventory.cache(machine, all_of_them=self._unsupported)
        elif section == "pmu":
            yield from inventory.pmu_events(machine)
        elif section == "tracepoint":
            try:
                yield from inventory.tracepoints(machine.tracefs)
            except KernelRefusedError as error:
                self.refusals.append(error)
        else:
            yield from inventory.markers(self._cache_folder)

    def _matching(self, pattern: str, sections: tuple[str, ...]) -> ListFilter:
        """Search as perf does: a pattern over names and aliases, and over topics in any case."""
        matcher = _matcher(pattern)
        topical = _matcher(pattern.lower())

        def fits(info: EventInfo) -> object:
            return matcher(info.name) or (info.alias and matcher(info.alias)) or (info.topic and topical(info.topic.lower()))

        infos = [info for section in sections for info in self._section(section) if fits(info)]
        metrics = [metric for metric in self._metrics() if matcher(metric.name) or any(map(matcher, metric.groups))]
        return ListFilter(infos, metrics)

    def _metrics(self) -> list[MetricDefinition]:
        return self._machine.metrics


def _matcher(pattern: str) -> Callable[[str], bool]:
    import re  # only patterns need it
    from fnmatch import translate

    match = re.compile(translate(pattern)).match
    return lambda name: match(name) is not None


def default_cache_folder() -> str:
    """Return the default path of perf's build-id cache."""
    return os.path.expanduser("~/.debug")


def forgiving(text: str, infos: Iterable[EventInfo], most: int = 20) -> list[EventInfo]:
    """Return the events that a text may mean: each of its words begins, abbreviates or nearly spells a part of the name.

    `ctx sw` finds context-switches, `pagefault` page-faults. Best matches come first.
    """
    words = _parts(text)
    if not words:
        return []
    ranked = []
    for info in infos:
        parts = _parts(f"{info.name} {info.alias}")
        joined = "".join(parts)
        scores = [_rank(word, parts, joined) for word in words]
        if all(score < _NO_MATCH for score in scores):
            ranked.append((sum(scores) + len(parts) / 100, info.kind == "Tracepoint event", info.name, info))
    ranked.sort(key=lambda row: row[:3])
    return [row[3] for row in ranked[:most]]


def _parts(text: str) -> list[str]:
    """Split a name at -, _, :, / and blanks."""
    return "".join(character if character.isalnum() else " " for character in text.lower()).split()


_NO_MATCH: Final = 9


def _rank(word: str, parts: list[str], joined: str) -> int:
    """Return how well a word fits a name: 0 for a part of it, _NO_MATCH for no match."""
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
    """Whether one letter is wrong, missing or surplus, or two letters are swapped."""
    if abs(len(word) - len(part)) > 1:
        return False
    start = 0
    while start < min(len(word), len(part)) and word[start] == part[start]:
        start += 1
    remainder, other = word[start:], part[start:]
    return remainder[1:] in (other[1:], other) or remainder == other[1:] or (remainder[:2] == other[1::-1] and remainder[2:] == other[2:])
