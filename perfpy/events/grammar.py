"""Parse event texts into EventSpec and GroupSpec values, without looking at the machine.

The input is the argument of one -e. An EventSyntaxError names the column and what was expected there.

    list      = entry {"," entry}
    entry     = event | [NAME] "{" event {"," event} "}" [":" modifiers]
    event     = target ["/" terms "/" [modifiers]] [":" modifiers]
    target    = word | system ":" tracepoint | TYPE ":" CONFIG | "mem:" ADDRESS ["/" LENGTH] [":" rwx]
    terms     = term {"," term}
    term      = name ["=" (number | word | quoted string)]

Blanks and newlines may surround every list separator. The syntax is that of perf-list(1) and perf-record(1), and perf's behaviour where
they leave it open.
"""

from __future__ import annotations

from perfpy.abi.attr import EventAttr
from perfpy.abi.light_types import NamedTuple
from perfpy.errors import EventSyntaxError
from perfpy.events.event import NO_TERMS, Event, cache_event, combine_filters, generic_event, natural_unit

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Final, NoReturn

    from perfpy.events.event import EventTerms


MODIFIER_LETTERS: Final = "ukhGHpPSDIeWbR"

_BLANK: Final = " \t\r\n"
# Characters of each kind of word, without regular expressions: importing re takes longer than parsing (4 ms).
_DIGITS: Final = frozenset("0123456789")
_HEX_DIGITS: Final = _DIGITS | frozenset("abcdefABCDEF")
_HEX_PREFIXES: Final = ("0x", "0X")
_LETTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_NAME_STARTS: Final = _LETTERS | _DIGITS | frozenset("_*?")
_WORD: Final = (_NAME_STARTS | frozenset("[]"), _NAME_STARTS | frozenset(".[]!-"))  # the first character, the others
_TERM_NAME: Final = (_NAME_STARTS, _NAME_STARTS | frozenset(".:-"))
_ACCESS: Final = frozenset("rwx")
_VALUE_ENDS: Final = frozenset(",/'\"{}")
_RAW_DIGITS: Final = 16
RAW_LIMIT: Final = ("a raw code of more than 64 bits", "at most 16 hexadecimal digits")  # the error, and the expectation
_ENTRY_ENDS: Final = "',' or the end"
_UNSUPPORTED_MODIFIERS: Final = {
    "X": "modifier 'X' (no regrouping) is not supported",
}


def parse(text: str) -> EventText:
    """Parse one -e argument. Raises EventSyntaxError."""
    return _EventParser(text).event_list()


def parse_terms(text: str) -> tuple[Term, ...]:
    """Parse `name=value,...` without slashes, as in a PMU's events/ in sysfs. Raises EventSyntaxError."""
    parser = _EventParser(text)
    terms = parser.terms("")
    parser.blanks()
    if parser.position < len(text):
        parser.fail("unexpected character", "',' or the end")
    return terms


def raw_config(word: str) -> int | None:
    """Return the config of a raw event `rNNN` (hexadecimal); None for another word."""
    digits = _raw_digits(word)
    return int(digits, 16) if 0 < len(digits) <= _RAW_DIGITS else None


def is_too_long_raw(word: str) -> bool:
    """Whether a word is a raw event with more digits than config holds."""
    return len(_raw_digits(word)) > _RAW_DIGITS


def _raw_digits(word: str) -> str:
    """Return the digits of `rNNN` or `r0xNNN`; "" for another word."""
    digits = word[3:] if word[1:3] in _HEX_PREFIXES else word[1:]
    return digits if word[:1] == "r" and _HEX_DIGITS.issuperset(digits) else ""


def _is_number(word: str) -> bool:
    if word[:2] in _HEX_PREFIXES:
        return len(word) > 2 and _HEX_DIGITS.issuperset(word[2:])
    return bool(word) and _DIGITS.issuperset(word)


def names_probe(text: str) -> bool:
    """Whether an -e text is a probe to add for the measurement: uprobe:./app:parse or ./app:parse%return."""
    prefix, colon, rest = text.partition(":")
    if colon and prefix in ("uprobe", "probe"):
        path, colon, point = rest.partition(":")
        return bool(path and point) and (prefix == "uprobe" or "/" in path)
    return bool(rest) and prefix.startswith(("./", "../", "/")) and not rest.startswith("/")


class _EventParser:
    """A position in a text. Every method reads on from it, and fails with its column."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.warnings: list[str] = []

    def fail(self, reason: str, expected: str = "", column: int | None = None) -> NoReturn:
        column = self.position if column is None else column
        if column >= len(self.text) and reason == "unexpected character":
            reason = "unexpected end of the text"
        raise EventSyntaxError(self.text, column, reason, expected=expected)

    def peek(self, ahead: int = 0) -> str:
        """Return the character there; "" at the end."""
        return self.text[self.position + ahead : self.position + ahead + 1]

    def take(self, character: str) -> bool:
        if self.peek() != character:
            return False
        self.position += 1
        return True

    def blanks(self) -> None:
        while self.peek() and self.peek() in _BLANK:
            self.position += 1

    def span(self, characters: frozenset[str]) -> str:
        """Read on as long as the characters are among these."""
        text, start = self.text, self.position
        end, size = start, len(text)
        while end < size and text[end] in characters:
            end += 1
        self.position = end
        return text[start:end]

    def word(self, pattern: tuple[frozenset[str], frozenset[str]]) -> str:
        """Read a word with such a first character and such others; "" for none."""
        first, others = pattern
        return self.span(others) if self.peek() in first else ""

    def digits(self) -> str:
        """Read a hexadecimal or decimal number; "" for none."""
        start = self.position
        if self.text[start : start + 2] in _HEX_PREFIXES and self.peek(2) in _HEX_DIGITS:
            self.position += 2
            return self.text[start : start + 2] + self.span(_HEX_DIGITS)
        return self.span(_DIGITS)

    # lists and groups

    def event_list(self) -> EventText:
        entries: list[EventSpec | GroupSpec] = []
        while True:
            entries.append(self.entry())
            self.blanks()
            if not self.peek():
                return EventText(self.text, tuple(entries), tuple(self.warnings))
            if not self.take(","):
                self.fail("unexpected character", _ENTRY_ENDS)

    def entry(self) -> EventSpec | GroupSpec:
        self.blanks()
        start = self.position
        name = self.word(_WORD)
        if self.peek() == "{":
            if name or "}" in self.text[self.position :]:
                return self.group(name, start)
            self.warnings.append(
                f"WARNING: the group opened at column {start + 1} of '{self.text}' is not closed: its events are in no group"
            )
            start += 1
        self.position = start
        return self.event()

    def group(self, name: str, start: int) -> GroupSpec:
        opened = self.position
        self.take("{")
        events = []
        while True:
            self.blanks()
            if self.peek() == "{":
                self.fail("a group inside a group", "an event")
            events.append(self.event())
            self.blanks()
            if self.take("}"):
                break
            if not self.peek():
                self.fail(f"the group opened at column {opened + 1} is not closed", "',' or '}'")
            if not self.take(","):
                self.fail("unexpected character", "',' or '}'")
        modifiers = Modifiers()
        if self.take(":"):
            modifiers = self.modifiers(after_colon=True)
            if not modifiers.text:
                self.fail("unexpected character", f"modifiers ({' '.join(MODIFIER_LETTERS)})")
        return GroupSpec(tuple(events), name, modifiers, start)

    # one event

    def event(self) -> EventSpec:
        self.blanks()
        start = self.position
        target, name_end = self.target()
        terms: tuple[Term, ...] | None = None
        modifiers = Modifiers()
        if self.take("/"):
            name_end = None
            opened = self.position - 1
            terms = self.terms("/")
            self.blanks()
            if not self.take("/"):
                if self.peek():
                    self.fail("unexpected character", "',' or '/'")
                self.fail(f"the terms opened at column {opened + 1} are not closed", "'/'")
            if self.peek().isalpha():
                modifiers = self.modifiers(after_colon=False)
        if not modifiers.text and self.take(":"):
            modifiers = self.modifiers(after_colon=True)
        if "W" in modifiers:
            self.fail("modifier 'W' (weak) is for groups", "{event,...}:W", modifiers.column + modifiers.text.index("W"))
        if self.peek() and self.peek() not in _BLANK + ",}":
            self.fail("unexpected character", "'/', ':', ',' or the end" if terms is None else _ENTRY_ENDS)
        text = self.text[start : self.position]
        return EventSpec(target, terms, modifiers, text, text if name_end is None else self.text[start:name_end], start)

    def target(self) -> tuple[Target, int | None]:
        """Return the target, and where its printed name ends (None: at the end of the event)."""
        if self.text.startswith("mem:", self.position):
            return self.breakpoint()
        start = self.position
        word = self.word(_WORD)
        if not word:
            self.fail("unexpected character", "an event name")
        if _is_number(word):
            return self.numeric(word, start), None
        if self.peek() == ":":
            tracepoint = self.tracepoint(word)
            if tracepoint:
                return tracepoint, None
        return Word(word), None

    def numeric(self, word: str, start: int) -> Numeric:
        event_type = self.number(word, start, bits=32)
        if not self.take(":"):
            self.fail("unexpected character", "':' and the event's config after the number of a PMU type")
        column = self.position
        config = self.digits()
        if not config:
            self.fail("unexpected character", "a number, the event's config")
        return Numeric(event_type, self.number(config, column))

    def tracepoint(self, system: str) -> TracepointName | None:
        """Return system:event if the text has it; None if the colon begins modifiers."""
        colon = self.position
        self.position += 1
        column = self.position
        event = self.word(_WORD)
        self.position = colon
        if not event or not event.strip(MODIFIER_LETTERS + "".join(_UNSUPPORTED_MODIFIERS)):
            return None
        if generic_event(system) or raw_config(system) is not None or cache_event(system) is not None:
            return None  # the text means modifiers, so that a wrong letter is reported as one
        self.position = column + len(event)
        return TracepointName(system, event, column)

    def breakpoint(self) -> tuple[Breakpoint, int | None]:
        self.position += len("mem:")
        column = self.position
        digits = self.digits()
        if not digits:
            self.fail("unexpected character", "an address")
        address, length, name_end = self.number(digits, column), 0, None
        if self.peek() == "/" and self.peek(1) in _DIGITS:
            name_end = self.position  # the end of perf's name
            self.take("/")
            column = self.position
            length = self.number(self.digits(), column)
        access = ""
        if self.peek() == ":" and self.peek(1) and self.peek(1) in "rwx":
            self.take(":")
            column = self.position
            access = self.span(_ACCESS)
            if len(set(access)) < len(access):
                self.fail("duplicate access", "any of r, w and x, once each", column)
        return Breakpoint(address, length, access), name_end

    # parts of an event

    def number(self, digits: str, column: int, bits: int = 64) -> int:
        value = int(digits, 16) if digits[:2] in ("0x", "0X") else int(digits) if len(digits) < 25 else 1 << bits
        if value >> bits:
            self.fail(f"number does not fit in {bits} bits", f"at most {(1 << bits) - 1:#x}", column)
        return value

    def terms(self, end: str) -> tuple[Term, ...]:
        """Parse terms up to the character `end`, exclusive."""
        terms: list[Term] = []
        self.blanks()
        while self.peek() and self.peek() != end:
            terms.append(self.term())
            self.blanks()
            if not self.take(","):
                break
            self.blanks()
            if not self.peek() or self.peek() == end:
                self.fail("unexpected character", "a term")
        return tuple(terms)

    def term(self) -> Term:
        column = self.position
        name = ("@" if self.take("@") else "") + self.word(_TERM_NAME)
        if name == "@":
            self.position, name = column, ""
        if not name:
            self.fail("unexpected character", "a term (name or name=value)")
        if not self.take("="):
            return Term(name, None, column, self.position)
        value_column = self.position
        if self.peek() and self.peek() in "'\"":
            return Term(name, self.quoted(), column, value_column)
        value = self.value()
        if not value:
            self.fail("unexpected character", f"a value for '{name}'")
        if _is_number(value):
            return Term(name, self.number(value, value_column), column, value_column, literal=value)
        return Term(name, value, column, value_column)

    def value(self) -> str:
        start = self.position
        while (character := self.peek()) and character not in _VALUE_ENDS and not character.isspace():
            self.position += 1
        return self.text[start : self.position]

    def quoted(self) -> str:
        quote = self.peek()
        end = self.text.find(quote, self.position + 1)
        if end < 0:
            self.fail("the quoted string is not closed", f"a closing {quote}")
        value = self.text[self.position + 1 : end]
        self.position = end + 1
        return value

    def modifiers(self, *, after_colon: bool) -> Modifiers:
        column = self.position
        letters = self.span(_LETTERS)
        for offset, letter in enumerate(letters):
            if letter in _UNSUPPORTED_MODIFIERS:
                self.fail(_UNSUPPORTED_MODIFIERS[letter], f"one of {' '.join(MODIFIER_LETTERS)}", column + offset)
            if letter not in MODIFIER_LETTERS:
                self.fail(f"unknown modifier '{letter}'", f"one of {' '.join(MODIFIER_LETTERS)}", column + offset)
            if letter == "p" and letters.count("p", 0, offset + 1) > 3:
                self.fail("more than three p modifiers", "p, pp or ppp", column + offset)
            if letter != "p" and letter in letters[:offset]:
                self.fail(f"duplicate modifier '{letter}'", "each letter but p once", column + offset)
        if not letters and after_colon and self.peek() and self.peek() not in _BLANK + ",}":
            self.fail("unexpected character", f"modifiers ({' '.join(MODIFIER_LETTERS)})")
        return Modifiers(letters, column)


# The parsed, unresolved values of an event text. Columns are 0-based offsets into the text.


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
    warnings: tuple[str, ...]


# EventDraft: an event under construction, filled by grammar, terms, modifiers and groups. It does not leave this package.


class EventDraft:
    """A mutable event; its fields are those of Event.

    Attributes:
        leader: the draft itself if it is alone
        host_or_guest: whether the event has its own G or H, which the `u` of its group does not change
        first_of_text: the first of the events that one name means, one for each PMU; the draft itself if it is the only one
        must_be_grouped: see Event
    """

    def __init__(self, name: str, event_type: int, config: int) -> None:
        # perf's default excludes guests
        self.attr = EventAttr(type=int(event_type), config=int(config), exclude_guest=1)
        self.name = name
        self.leader = self
        self.pmu = self.unit = self.tool = self.group_name = self.filter = self.text_name = ""
        self.scale = 1.0
        self.per_pkg = self.snapshot = self.requires_cpu = False
        self.weak = self.sample_read = self.precise_max = self.host_or_guest = False
        self.cpus: tuple[int, ...] | None = None
        self.tracepoint: tuple[str, str] | None = None
        self.terms: EventTerms = NO_TERMS
        self.option = 0
        self.keepalive: object = None
        self.generic: int | None = None
        self.is_named = False
        self.first_of_text = self
        self.ebb = self.must_be_grouped = False

    @property
    def is_leader(self) -> bool:
        """Whether it leads a group, or is alone."""
        return self.leader is self

    def narrow(self, expression: str) -> None:
        """Add a condition to the tracepoint's filter."""
        self.filter = combine_filters(self.filter, expression)

    def event(self, leader: Event | None, added_to: Event | None) -> Event:
        """Return the event, with its natural unit if it is no PMU's: `software/config=1/` counts as it is."""
        unit, scale = (self.unit, self.scale) if self.unit or self.scale != 1.0 or self.pmu else natural_unit(self.attr, self.tool)
        return Event(
            self.name,
            self.attr,
            leader,
            pmu=self.pmu,
            unit=unit,
            scale=scale,
            tool=self.tool,
            per_pkg=self.per_pkg,
            snapshot=self.snapshot,
            cpus=self.cpus,
            requires_cpu=self.requires_cpu,
            group_name=self.group_name,
            weak=self.weak,
            sample_read=self.sample_read,
            precise_max=self.precise_max,
            host_or_guest=self.host_or_guest,
            filter=self.filter,
            tracepoint=self.tracepoint,
            terms=self.terms,
            option=self.option,
            keepalive=self.keepalive,
            ebb=self.ebb,
            generic=self.generic,
            text_name=self.text_name,
            is_named=self.is_named,
            added_to=added_to,
            must_be_grouped=self.must_be_grouped,
        )


def finish_drafts(drafts: Iterable[EventDraft]) -> list[Event]:
    """Return the events in the same order. A leader precedes its members."""
    events: dict[EventDraft, Event] = {}
    first_events: dict[EventDraft, Event] = {}  # regrouping may change which event of a text is the first
    for draft in drafts:
        event = draft.event(None if draft.is_leader else events[draft.leader], first_events.get(draft.first_of_text))
        events[draft] = event
        first_events.setdefault(draft.first_of_text, event)
    return list(events.values())
