"""What the grammar leaves of an event text: plain values that name, and do not resolve.

What enters: nothing but what grammar.py reads. What leaves: EventSpec and
GroupSpec values for resolve.py. Columns are 0-based offsets into the text.
"""

from __future__ import annotations

from perfpy.abi.startup import NamedTuple


class Term(NamedTuple):
    """One `name=value` between the slashes; value None: the name stood alone; literal: a number as it was written."""

    name: str
    value: str | int | None
    column: int
    value_column: int
    literal: str = ""


class Modifiers(NamedTuple):
    """The letters after an event or a group, with their column; text "" = none were given."""

    text: str = ""
    column: int = 0

    def count(self, letter: str) -> int:
        """How often `letter` stands there."""
        return self.text.count(letter)

    def __contains__(self, letter: object) -> bool:
        return isinstance(letter, str) and letter in self.text


class Word(NamedTuple):
    """A bare name: a generic event, a raw code, an event of some PMU, or a PMU's name in front of its terms."""

    name: str


class TracepointName(NamedTuple):
    """system:event; either may hold the wildcards * ? [...]."""

    system: str
    event: str
    event_column: int


class Numeric(NamedTuple):
    """TYPE:CONFIG, both numbers of perf_event_attr."""

    type: int
    config: int


class Breakpoint(NamedTuple):
    """mem:ADDRESS[/LENGTH][:ACCESS]; length 0 and access "" = not given."""

    address: int
    length: int
    access: str


Target = Word | TracepointName | Numeric | Breakpoint


class EventSpec(NamedTuple):
    """One event of a list.

    text: the event as it was written, blanks around it taken off; name: what
    perf shows for it unless a term or the kind of the event says otherwise;
    terms: None when there were no slashes.
    """

    target: Target
    terms: tuple[Term, ...] | None
    modifiers: Modifiers
    text: str
    name: str
    column: int


class GroupSpec(NamedTuple):
    """NAME{event,...}:MODIFIERS; name "" = none."""

    events: tuple[EventSpec, ...]
    name: str
    modifiers: Modifiers
    column: int


class EventText(NamedTuple):
    """A whole -e: what was written, and its entries in order."""

    text: str
    entries: tuple[EventSpec | GroupSpec, ...]
