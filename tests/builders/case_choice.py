"""Which cases run: the quick run has one case of each slow test, the rest the others and the thorough tests; some tests run alone."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    Choice = Literal["some", "rest", "alone", "all"]

Item = TypeVar("Item")

CHOICES: Final = ("some", "rest", "alone", "all")
#: markers of tests that take seconds a case
SLOW_MARKERS: Final = ("slow", "live", "system_wide", "versus_perf")
#: marks tests that take many seconds and repeat what quicker tests show in part
THOROUGH: Final = "thorough"
#: marks tests that measure the whole machine, and other tests with it
ALONE: Final = "alone"
#: choice -> finds the markers of its tests in the text of a file
_MARKERS: Final = {
    "rest": re.compile(rf"\bmark\.(?:{'|'.join((*SLOW_MARKERS, THOROUGH))})\b"),
    "alone": re.compile(rf"\bmark\.{ALONE}\b"),
}


def function_of(node_id: str) -> str:
    """Return the test without its case: tests/a.py::test_b[c] -> tests/a.py::test_b."""
    return node_id.partition("[")[0]


def may_have_cases(text: str, choice: Choice) -> bool:
    """Whether a file with this text may have a test to run: most have none that is slow, and importing all of them takes long."""
    return choice not in _MARKERS or _MARKERS[choice].search(text) is not None


def chosen(
    items: Iterable[Item], choice: Choice, name: Callable[[Item], str], markers: Callable[[Item], Collection[str]]
) -> tuple[list[Item], list[Item]]:
    """Return the items to run and the items to leave out; `some`, `rest` and `alone` together are `all`.

    Args:
        items: pytest's items.
        choice: the items to run.
        name: returns an item's node id.
        markers: returns the names of an item's markers.
    """
    everything = list(items)
    if choice == "all":
        return everything, []
    groups: dict[str, list[Item]] = {"some": [], "rest": [], "alone": []}
    functions: set[str] = set()
    for item in everything:
        function = function_of(name(item))
        is_slow = not {*SLOW_MARKERS}.isdisjoint(markers(item))
        is_later = THOROUGH in markers(item) or (is_slow and function in functions)
        groups["alone" if ALONE in markers(item) else "rest" if is_later else "some"].append(item)
        functions.add(function)
    return groups[choice], [item for group, others in groups.items() if group != choice for item in others]
