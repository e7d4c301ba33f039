"""Which cases run: every test has one in the quick run, the others of slow tests are in the rest.

What enters: pytest's items. What leaves: the items of `some`, of `rest`, or of `all`. `some` and `rest` together are `all`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    Choice = Literal["some", "rest", "all"]

Item = TypeVar("Item")

CHOICES: Final = ("some", "rest", "all")
#: markers of tests that take seconds a case
SLOW_MARKERS: Final = ("slow", "live", "system_wide", "versus_perf")


def function_of(node_id: str) -> str:
    """Return the test without its case: tests/a.py::test_b[c] -> tests/a.py::test_b."""
    return node_id.partition("[")[0]


def chosen(
    items: Iterable[Item], choice: Choice, name: Callable[[Item], str], is_slow: Callable[[Item], bool]
) -> tuple[list[Item], list[Item]]:
    """Return the items to run and those to leave out. name: an item's node id."""
    everything = list(items)
    if choice == "all":
        return everything, []
    groups: dict[str, list[Item]] = {"some": [], "rest": []}
    functions: set[str] = set()
    for item in everything:
        function = function_of(name(item))
        groups["rest" if function in functions and is_slow(item) else "some"].append(item)
        functions.add(function)
    return groups[choice], groups["rest" if choice == "some" else "some"]
