"""The parsed, unresolved values of an event text. Columns are 0-based offsets into the text."""

from __future__ import annotations

from perfpy.abi.startup import NamedTuple


class Term(NamedTuple):
    """One `name=value` between the slashes. `value` is None for a bare name; `literal` is the spelling of a number."""

    name: str
    value: str | int | None
    column: int
    value_column: int
    literal: str = ""


class Modifiers(NamedTuple):
    """The letters after an event or a group, with their column; "" for none."""

    text: str = ""
    column: int = 0

    def count(self, letter: str) -> int:
        """Return how often `letter` occurs."""
        return self.text.count(letter)

    def __contains__(self, letter: object) -> bool:
        return isinstance(letter, str) and letter in self.text


class Word(NamedTuple):
    """A bare name: a generic event, a raw code, an event of a PMU, or a PMU's name before its terms."""

    name: str


class TracepointName(NamedTuple):
    """system:event; either may contain the wildcards * ? [...]."""

    system: str
    event: str
    event_column: int


class Numeric(NamedTuple):
    """TYPE:CONFIG, both numbers of perf_event_attr."""

    type: int
    config: int


class Breakpoint(NamedTuple):
    """mem:ADDRESS[/LENGTH][:ACCESS]; length 0 and access "" if missing."""

    address: int
    length: int
    access: str


Target = Word | TracepointName | Numeric | Breakpoint


class EventSpec(NamedTuple):
    """One event of a list.

    Attributes:
        text: the event as written, without surrounding blanks
        name: perf's name, unless a term or the kind of event changes it
        terms: None without slashes
    """

    target: Target
    terms: tuple[Term, ...] | None
    modifiers: Modifiers
    text: str
    name: str
    column: int


class GroupSpec(NamedTuple):
    """NAME{event,...}:MODIFIERS; name "" if missing."""

    events: tuple[EventSpec, ...]
    name: str
    modifiers: Modifiers
    column: int


class EventText(NamedTuple):
    """A whole -e: its text, and its entries in order."""

    text: str
    entries: tuple[EventSpec | GroupSpec, ...]
