"""Metrics: formulas over the counts of one CPU, task or aggregate, printed as ratios beside one of their events.

A formula is a tree of tuples (see perfpy.counts.formulas). It is read twice. `needed_names` returns the events that it takes
on this machine: a branch that a fact about the machine excludes needs none. `value_of` computes it from counts.
"""

from __future__ import annotations

import math

from perfpy.counts.aggregation import Ratio

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
    from typing import Any, Final, TypeVar

    from perfpy.counts.aggregation import Neighbours
    from perfpy.counts.formulas import Node

    _Key = TypeVar("_Key", bound=Hashable)


_OF_A_NAME: Final = ("source_count", "has_event", "strcmp_cpuid_str")
_COMPUTED: Final[dict[str, Callable[[float, float], float]]] = {
    "<": lambda a, b: float(a < b),
    ">": lambda a, b: float(a > b),
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
}


# The names that a formula needs. perf keeps them in a hash table, and the order in which that table yields them decides which event leads
# a group and which event a metric is printed beside. NameTable yields the same order (facts: tools/perf/util/hashmap.c, expr.c).

_MIX: Final = 11400714819323198485
_64_BITS: Final = (1 << 64) - 1
_FEWEST_BITS: Final = 2
_mixed_hashes: Final[dict[str, int]] = {}


def _mixed_hash(name: str) -> int:
    mixed = _mixed_hashes.get(name)
    if mixed is None:
        number = 0
        for byte in name.encode():
            number = number * 31 + (byte - 256 if byte > 127 else byte)
        mixed = _mixed_hashes[name] = (number & _64_BITS) * _MIX & _64_BITS
    return mixed


class NameTable:
    """A set of names that yields them in the order of perf's hash table.

    The table has a power of two of buckets and grows when it is filled to more than three quarters. A new name precedes the others of its
    bucket.
    """

    __slots__ = ("_bits", "_buckets", "_names")

    def __init__(self) -> None:
        self._bits = 0
        self._buckets: list[list[str]] = []
        self._names: set[str] = set()

    def copy(self) -> NameTable:
        """Return a table with the same names in the same order."""
        other = NameTable()
        other._bits, other._buckets, other._names = self._bits, [list(bucket) for bucket in self._buckets], set(self._names)
        return other

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def __iter__(self) -> Iterator[str]:
        for bucket in self._buckets:
            yield from bucket

    def add(self, name: str) -> None:
        """Add a name; one that is there keeps its place."""
        if name in self._names:
            return
        if not self._buckets or (len(self._names) + 1) * 4 // 3 > len(self._buckets):
            names = list(self)
            self._bits = max(self._bits + 1, _FEWEST_BITS)
            self._buckets = [[] for _ in range(1 << self._bits)]
            for other in names:
                self._buckets[_mixed_hash(other) >> 64 - self._bits].insert(0, other)
        self._names.add(name)
        self._buckets[_mixed_hash(name) >> 64 - self._bits].insert(0, name)

    def remove(self, name: str) -> None:
        """Remove a name that is there."""
        self._names.remove(name)
        self._buckets[_mixed_hash(name) >> 64 - self._bits].remove(name)

    def contains_all(self, names: NameTable) -> bool:
        """Whether every one of these names is in this table."""
        return names._names <= self._names


def _joined(first: NameTable | None, second: NameTable | None) -> NameTable | None:
    """Return the names of both: the smaller table is added to the larger one."""
    if first is None or second is None:
        return second if first is None else first
    if len(first) < len(second):
        first, second = second, first
    for name in second:
        first.add(name)
    return first


class Literals:
    """The questions of formulas about the machine; override it."""

    def literal(self, name: str) -> float:
        """Return the value of a #name; NaN for an unknown one."""
        raise NotImplementedError

    def has_event(self, name: str) -> bool:
        """Whether the machine has this event."""
        raise NotImplementedError

    def is_cpu(self, pattern: str) -> bool:
        """Whether the CPU's identity matches."""
        raise NotImplementedError


def needed_names(node: Node, literals: Literals) -> NameTable | None:
    """Return the events and metrics that the formula takes on this machine; None if it is a constant. Raises UnknownLiteralError."""
    return _needs(node, literals)[1]


class UnknownLiteralError(ValueError):
    """A #name has no value here."""


def _needs(node: Node, literals: Literals) -> tuple[float, NameTable | None]:
    """Return the value of a constant and no names, or NaN and the names. perf computes no branch that the machine excludes."""
    if isinstance(node, float):
        return node, None
    if isinstance(node, str):
        return _needs_of_name(node, literals)
    sign = node[0]
    if sign in _OF_A_NAME:
        return _needs(node[1], literals) if sign == "source_count" else (_answer(sign, node[1], literals), None)
    if sign in ("neg", "not"):
        value, names = _needs(node[1], literals)
        return (-value if sign == "neg" else float(not value) if math.isfinite(value) else math.nan), names
    if sign == "if":
        return _needs_of_choice(node, literals)
    return _needs_of_two(sign, _needs(node[1], literals), _needs(node[2], literals))


def _needs_of_name(name: str, literals: Literals) -> tuple[float, NameTable | None]:
    if name.startswith("#"):
        value = literals.literal(name)
        if math.isnan(value):
            raise UnknownLiteralError(name)
        return value, None
    table = NameTable()
    table.add(name)
    return math.nan, table


def _answer(question: str, name: str, literals: Literals) -> float:
    return float(literals.has_event(name) if question == "has_event" else literals.is_cpu(name))


def _needs_of_two(sign: str, a: tuple[float, NameTable | None], b: tuple[float, NameTable | None]) -> tuple[float, NameTable | None]:
    is_constant = math.isfinite(a[0]), math.isfinite(b[0])
    if sign in "|&" and any(is_constant):
        return _needs_of_logic(sign, a, b)
    if sign in ("/", "%", "d_ratio") and b[0] == 0.0:
        return (0.0 if sign == "d_ratio" else math.nan), None
    if all(is_constant) and sign not in ("min", "max"):
        return _apply(sign, a[0], b[0]), None
    return math.nan, _joined(a[1], b[1])


def _needs_of_choice(node: tuple[Any, ...], literals: Literals) -> tuple[float, NameTable | None]:
    value, condition, otherwise = (_needs(part, literals) for part in node[1:])
    if condition[0] == 0.0:
        return otherwise
    if math.isfinite(condition[0]):
        return value
    if value[0] == otherwise[0]:
        return value[0], None
    return math.nan, _joined(value[1], _joined(condition[1], otherwise[1]))


def _needs_of_logic(sign: str, a: tuple[float, NameTable | None], b: tuple[float, NameTable | None]) -> tuple[float, NameTable | None]:
    """Return the needs of `|` or `&` with a constant, which may decide it."""
    if math.isfinite(a[0]) and math.isfinite(b[0]):
        return _apply(sign, a[0], b[0]), None
    constant, other = (a[0], b) if math.isfinite(a[0]) else (b[0], a)
    if sign == "|":
        return other if not constant else (1.0, None)
    return other if constant else (0.0, None)


def value_of(node: Node, value: Callable[[str], float], sources: Callable[[str], float] = lambda _name: 1.0) -> float:
    """Return the value of a formula; NaN if it is undefined. Raises ZeroDivisionError for a remainder by 0.

    Args:
        value: returns the value of a #name, an event, a metric, or a question ("#has_event NAME"); NaN if it has none
        sources: returns the number of PMUs that an event was counted on; 0 if it was not counted
    """
    if isinstance(node, float):
        return node
    if isinstance(node, str):
        return value(node)
    sign = node[0]
    if sign == "if":
        return value_of(node[3] if value_of(node[2], value, sources) == 0.0 else node[1], value, sources)
    if sign in _OF_A_NAME:
        return sources(node[1]) if sign == "source_count" else value(f"#{sign} {node[1]}")
    first = value_of(node[1], value, sources)
    if sign in ("neg", "not"):
        return -first if sign == "neg" else float(not first)
    return _apply(sign, first, value_of(node[2], value, sources))


def _apply(sign: str, a: float, b: float) -> float:
    if sign in _COMPUTED:
        return math.nan if math.isnan(a) or math.isnan(b) else _COMPUTED[sign](a, b)
    if sign in ("/", "d_ratio"):
        return a / b if b else (0.0 if sign == "d_ratio" else math.nan)
    if sign == "min":
        return min(b, a)  # b if a is undefined
    if sign == "max":
        return max(b, a)
    if sign == "%":
        return float(abs(int(a)) % abs(int(b))) * math.copysign(1.0, a) if math.isfinite(a + b) else math.nan
    if sign == "^":
        return float(bool(a) != bool(b)) if math.isfinite(a) and math.isfinite(b) else math.nan
    return _logic(sign, a, b)


def _logic(sign: str, a: float, b: float) -> float:
    """Return a | b or a & b: one operand may decide, even if the other one is undefined."""
    decisive = sign == "|"
    if math.isfinite(a) and math.isfinite(b):
        return float(bool(a) or bool(b)) if decisive else float(bool(a) and bool(b))
    if math.isfinite(a):
        return float(decisive) if bool(a) == decisive else b
    if math.isfinite(b):
        return float(decisive) if bool(b) == decisive else a
    return math.nan


class Metric:
    """One measured metric.

    Args:
        formula: its tree
        events: name in the formula -> the event counted for it
        parts: lower-case name of another metric that the formula uses -> its tree
        literals: returns the value of a #name
        sources: name of an event -> the number of PMUs that it was counted on
        scale, unit: the result times `scale` is in `unit`
        threshold: a formula that is 0 for a harmless value, or None
        group: the metric group whose name is printed for the default metrics, or ""
    """

    def __init__(
        self,
        name: str,
        formula: Node,
        events: Mapping[str, object],
        *,
        parts: Mapping[str, Node] | None = None,
        literals: Callable[[str], float] = lambda _name: math.nan,
        sources: Mapping[str, int] | None = None,
        scale: float = 1.0,
        unit: str = "",
        threshold: Node | None = None,
        group: str = "",
    ) -> None:
        self.name = f"{unit}  {name}" if unit else name
        self.plain_name = name
        self.group = group
        self._formula = formula
        self._events = events
        self._parts = parts or {}
        self._literals = literals
        self._sources = sources or {}
        self._scale = scale
        self._threshold = threshold
        self._format = "%8.1f" if unit else "%8.2f"

    @property
    def events(self) -> Collection[object]:
        """The events that it is computed from."""
        return self._events.values()

    def of(self, counterparts: Mapping[Any, object]) -> Metric:
        """Return this metric over the counterparts of its events."""
        other = Metric.__new__(Metric)
        other.__dict__.update(self.__dict__)
        other._events = {name: counterparts.get(event) for name, event in self._events.items()}  # noqa: SLF001  # an instance of this class
        return other

    def ratio(self, near: Neighbours) -> Ratio:
        """Return the metric for one CPU, task or aggregate, and whether it exceeds its threshold."""
        known: dict[str, float] = {}
        parts = self._parts

        def sources(name: str) -> float:
            event = self._events.get(name)
            return float(self._sources.get(name, 1)) if event is not None and not math.isnan(near.count(event)) else 0.0

        def value(name: str) -> float:
            number = known.get(name)
            if number is None:
                if name in self._events:
                    number = near.count(self._events[name])
                elif name.lower() in parts:
                    known[name] = math.nan  # a formula within itself has no value
                    number = value_of(parts[name.lower()], value, sources)
                else:
                    number = self._literals(name) if name.startswith("#") else math.nan
                known[name] = number
            return number

        try:
            result = value_of(self._formula, value, sources) * self._scale
            limit = math.nan if self._threshold is None else value_of(self._threshold, value, sources)
        except (ZeroDivisionError, OverflowError):
            return Ratio(None, "", self._format, None, self.group)
        return Ratio(result, self.name, self._format, None if math.isnan(limit) else limit != 0.0, self.group)


def of_counterparts(metrics: Mapping[Any, Sequence[Metric]], counterparts: Mapping[Any, _Key]) -> dict[_Key, list[Metric]]:
    """Return the metrics of the events' counterparts, without events that have none."""
    return {counterparts[event]: [metric.of(counterparts) for metric in its] for event, its in metrics.items() if event in counterparts}
