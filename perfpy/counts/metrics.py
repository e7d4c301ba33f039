"""Metrics: formulas over the counts of one CPU, task or aggregate, printed as ratios beside their first event."""

from __future__ import annotations

import math
import re
from copy import copy
from typing import TYPE_CHECKING, Any, Final, TypeVar

from perfpy.counts.aggregation import Ratio
from perfpy.errors import EventSyntaxError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from perfpy.counts.aggregation import Neighbours

    _Values = Mapping[str, float]
    _Node = Callable[[_Values], float]


_Key = TypeVar("_Key", bound="Hashable")


class Metric:
    """One measured metric.

    Args:
        events: name in the formula -> the event counted for it
        literals: #name -> value
        scale, unit: the result times `scale` is in `unit`
    """

    def __init__(
        self,
        name: str,
        formula: Formula,
        events: Mapping[str, object],
        *,
        literals: Mapping[str, float] | None = None,
        scale: float = 1.0,
        unit: str = "",
    ) -> None:
        self.name = f"{unit}  {name}" if unit else name
        self._formula = formula
        self._events = events
        self._literals = literals or {}
        self._scale = scale
        self._format = "%8.1f" if unit else "%8.2f"

    def of(self, counterparts: Mapping[Any, object]) -> Metric:
        """Return this metric over the counterparts of its events."""
        other = copy(self)
        other._events = {name: counterparts[event] for name, event in self._events.items()}  # noqa: SLF001  # an instance of this class
        return other

    def ratio(self, near: Neighbours) -> Ratio:
        """Return the metric for one CPU, task or aggregate; without a value if an event has no count."""
        values = dict(self._literals)
        for name, event in self._events.items():
            values[name] = near.count(event)
        result = self._formula.evaluate(values) * self._scale
        return Ratio(None if math.isnan(result) else result, self.name, self._format)


def of_counterparts(metrics: Mapping[Any, Sequence[Metric]], counterparts: Mapping[Any, _Key]) -> dict[_Key, list[Metric]]:
    """Return the metrics of the events' counterparts, without events that have none."""
    return {counterparts[event]: [metric.of(counterparts) for metric in its] for event, its in metrics.items() if event in counterparts}


# Formulas of metrics: parse an expression of a metric file, and compute its value from counts. The language is that of "MetricExpr" in
# perf's pmu-events, weakest binding first:
#
#     a if c else b     a | b    a ^ b    a & b    a < b, a > b    a + b, a - b
#     a * b, a / b, a % b    -a, !a    (a)    1.5e9
#     min(a, b)  max(a, b)  d_ratio(a, b)  source_count(x)  has_event(x)
#     #name             a fact about the machine, such as #num_cpus
#     name              an event; @ stands for /, and \\ protects - , = and blanks

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<number>\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?)(?![\w.:@])"
    r"|(?P<literal>#[A-Za-z_][\w]*)"
    r"|(?P<name>(?:\\.|[A-Za-z0-9_.:@?])+)"
    r"|(?P<sign>[-+*/%|^&<>!(),]))"
)
_ESCAPED: Final = re.compile(r"\\(.)")


def _whole(combine: Callable[[int, int], int]) -> Callable[[float, float], float]:
    """Apply a bit operation to the integer parts; NaN if an operand is NaN."""
    return lambda a, b: math.nan if math.isnan(a + b) else float(combine(int(a), int(b)))


_BINARY: Final[tuple[dict[str, Callable[[float, float], float]], ...]] = (
    {"|": _whole(lambda a, b: a | b)},
    {"^": _whole(lambda a, b: a ^ b)},
    {"&": _whole(lambda a, b: a & b)},
    {"<": lambda a, b: float(a < b), ">": lambda a, b: float(a > b)},
    {"+": lambda a, b: a + b, "-": lambda a, b: a - b},
    {
        "*": lambda a, b: a * b,
        "/": lambda a, b: a / b if b else math.nan,
        "%": lambda a, b: math.fmod(a, b) if b else math.nan,
    },
)
_FUNCTIONS: Final[dict[str, Callable[[float, float], float]]] = {
    "min": min,
    "max": max,
    "d_ratio": lambda a, b: a / b if b else 0.0,
}
_ABOUT_EVENTS: Final = ("source_count", "has_event")


class Formula:
    """A parsed expression. Raises EventSyntaxError with the column.

    Attributes:
        events: texts of the events, in order of first appearance
        literals: the #names, in lower case

    `definitions` maps names in lower case to the expressions that they abbreviate.
    """

    def __init__(self, text: str, definitions: Mapping[str, str] | None = None) -> None:
        parser = _FormulaParser(text, definitions or {})
        self.text = text
        self._value = parser.parse()
        self.events = tuple(parser.events)
        self.literals = tuple(parser.literals)

    def evaluate(self, values: Mapping[str, float]) -> float:
        """Return the value for the given events and literals (NaN for a missing one); NaN if the value is undefined."""
        return self._value(values)


class _FormulaParser:
    """A recursive-descent parser whose rules return functions of the values."""

    def __init__(self, text: str, definitions: Mapping[str, str], within: tuple[str, ...] = ()) -> None:
        """Set up a parser. `within` names the definitions being expanded, this parser's own last."""
        self._text = text
        self._definitions = definitions
        self._within = within
        self._tokens = self._scan(text)
        self._index = 0
        self.events: dict[str, None] = {}
        self.literals: dict[str, None] = {}

    def _scan(self, text: str) -> list[tuple[str, str, int]]:
        tokens = []
        position = 0
        end = len(text.rstrip())
        while position < end:
            token = _TOKEN.match(text, position)
            if token is None:
                raise EventSyntaxError(text, position, f"'{text[position]}' is unexpected in a formula")
            kind = token.lastgroup or ""
            tokens.append((kind, token[kind], token.start(kind)))
            position = token.end()
        return [*tokens, ("end", "", len(text))]

    def parse(self) -> _Node:
        value = self._choice()
        if self._tokens[self._index][0] != "end":
            self._fail("the formula ends here")
        return value

    def _take(self, sign: str) -> bool:
        if self._tokens[self._index][1] != sign:
            return False
        self._index += 1
        return True

    def _expect(self, sign: str) -> None:
        if not self._take(sign):
            self._fail(f"'{sign}' is missing")

    def _fail(self, reason: str) -> None:
        raise EventSyntaxError(self._text, self._tokens[self._index][2], reason)

    def _choice(self) -> _Node:
        value = self._binary(0)
        if not self._take("if"):
            return value
        condition = self._binary(0)
        self._expect("else")
        otherwise = self._choice()
        return lambda values: value(values) if condition(values) else otherwise(values)

    def _binary(self, level: int) -> _Node:
        if level == len(_BINARY):
            return self._unary()
        left = self._binary(level + 1)
        while self._tokens[self._index][1] in _BINARY[level]:
            combine = _BINARY[level][self._tokens[self._index][1]]
            self._index += 1
            left = _combine(combine, left, self._binary(level + 1))
        return left

    def _unary(self) -> _Node:
        if self._take("-"):
            negated = self._unary()
            return lambda values: -negated(values)
        if self._take("!"):
            inverted = self._unary()
            return lambda values: float(not inverted(values))
        return self._operand()

    def _operand(self) -> _Node:
        kind, text, _ = self._tokens[self._index]
        if self._take("("):
            value = self._choice()
            self._expect(")")
            return value
        if kind not in ("number", "literal", "name") or text in ("if", "else"):
            self._fail("a number or an event is missing")
        self._index += 1
        if kind == "number":
            number = float(text)
            return lambda _values: number
        if kind == "literal":
            literal = text.lower()
            self.literals[literal] = None
            return lambda values: values.get(literal, math.nan)
        if self._tokens[self._index][1] == "(":
            return self._call(text)
        return self._event(text)

    def _call(self, name: str) -> _Node:
        if name not in _FUNCTIONS and name not in _ABOUT_EVENTS:
            self._index -= 1
            self._fail(f"unknown function '{name}'")
        self._expect("(")
        first = self._choice()
        if name in _ABOUT_EVENTS:
            self._expect(")")
            return lambda values: float(not math.isnan(first(values)))
        self._expect(",")
        second = self._choice()
        self._expect(")")
        return _combine(_FUNCTIONS[name], first, second)

    def _event(self, text: str) -> _Node:
        name = _ESCAPED.sub(r"\1", text.replace("@", "/"))
        lower = name.lower()
        if lower not in self._definitions:
            self.events[name] = None
            return lambda values: values.get(name, math.nan)
        if lower in self._within:
            self._index -= 1
            self._fail(f"'{lower}' is part of its own formula")
        inner = _FormulaParser(self._definitions[lower], self._definitions, (*self._within, lower))
        value = inner.parse()
        self.events.update(inner.events)
        self.literals.update(inner.literals)
        return value


def _combine(combine: Callable[[float, float], float], left: _Node, right: _Node) -> _Node:
    return lambda values: combine(left(values), right(values))
