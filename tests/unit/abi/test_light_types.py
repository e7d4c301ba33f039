"""The stand-ins for what is slow to import behave as what they stand for."""

from __future__ import annotations

import copy
import dataclasses
import enum
import functools
import pickle
import typing

import pytest

from perfpy.abi.light_types import Enum, Generic, NamedTuple, Protocol, TypeVar, cached_property, dataclass, field, overload, replace


class Light(NamedTuple):
    """A point."""

    x: int
    y: int = 2
    name: str = ""

    @property
    def sum(self) -> int:
        return self.x + self.y


class Original(typing.NamedTuple):
    """A point."""

    x: int
    y: int = 2
    name: str = ""

    @property
    def sum(self) -> int:
        return self.x + self.y


BOTH = pytest.mark.parametrize("kind", [Light, Original])


@BOTH
def test_values_are_given_in_order_or_by_name(kind: type[typing.Any]) -> None:
    assert kind(1) == (1, 2, "") == kind(x=1) == kind(1, name="", y=2) == kind._make((1, 2, ""))
    assert (kind(1, 5).y, kind(3).x, kind(1, name="n").name, kind(1).sum) == (5, 3, "n", 3)


@BOTH
def test_a_value_can_be_taken_apart_changed_copied_and_written(kind: type[typing.Any]) -> None:
    value = kind(1, 5, "n")
    x, *rest = value
    assert (x, rest, value[-1], len(value)) == (1, [5, "n"], "n", 3)
    assert value._asdict() == {"x": 1, "y": 5, "name": "n"}
    assert value._replace(y=7) == (1, 7, "n")
    assert type(value._replace(y=7)) is kind
    for copied in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert (copied, type(copied)) == (value, kind)
    assert repr(value) == f"{kind.__name__}(x=1, y=5, name='n')"
    match value:
        case (1, _, name):
            assert name == "n"
        case _:
            pytest.fail("no match")


@BOTH
def test_wrong_arguments_are_refused(kind: type[typing.Any]) -> None:
    for args, keywords in ((), {}), ((1, 2, "", 4), {}), ((1,), {"x": 1}), ((1, 2, ""), {"x": 1}), ((1,), {"z": 1}):
        with pytest.raises(TypeError):
            kind(*args, **keywords)
    with pytest.raises(TypeError):
        kind._make([])
    with pytest.raises(AttributeError):
        kind(1).x = 2
    with pytest.raises(AttributeError):
        kind(1).other = 2


@BOTH
def test_a_class_lists_its_fields(kind: type[typing.Any]) -> None:
    assert (kind._fields, kind._field_defaults, kind.__match_args__) == (("x", "y", "name"), {"y": 2, "name": ""}, ("x", "y", "name"))
    assert typing.get_type_hints(kind) == {"x": int, "y": int, "name": str}
    assert kind.__doc__ == "A point."


@pytest.mark.parametrize("cached", [cached_property, functools.cached_property])
def test_a_cached_property_is_computed_once(cached: typing.Callable[[typing.Any], object]) -> None:
    class Counted:
        calls = 0

        @cached
        def value(self) -> int:
            """What it is."""
            self.calls += 1
            return self.calls

    counted = Counted()
    assert (counted.value, counted.value, counted.calls) == (1, 1, 1)
    del counted.value
    assert counted.value == 2
    assert Counted.value.__doc__ == "What it is."


@dataclass(eq=False, repr=False)
class LightPoint:
    """A point."""

    x: int
    y: int = 2

    @functools.cached_property
    def sum(self) -> int:
        return self.x + self.y


@dataclasses.dataclass(eq=False, repr=False)
class OriginalPoint:
    """A point."""

    x: int
    y: int = 2

    @functools.cached_property
    def sum(self) -> int:
        return self.x + self.y


POINTS = pytest.mark.parametrize(("kind", "changed"), [(LightPoint, replace), (OriginalPoint, dataclasses.replace)])


@POINTS
def test_annotations_are_the_arguments_of_the_constructor(kind: typing.Any, changed: typing.Any) -> None:
    points = [kind(1), kind(1, 2), kind(1, y=2), kind(y=2, x=1)]
    assert [(point.x, point.y) for point in points] == [(1, 2)] * 4
    assert points[0] != points[1]
    assert kind.__match_args__ == ("x", "y")


@POINTS
def test_a_changed_copy_is_computed_anew(kind: typing.Any, changed: typing.Any) -> None:
    point = kind(1, 5)
    assert point.sum == 6
    other = changed(point, x=3)
    assert (other.x, other.y, other.sum, point.x, type(other)) == (3, 5, 8, 1, kind)


@POINTS
@pytest.mark.parametrize("arguments", [((), {}), ((1, 2, 3), {}), ((1,), {"z": 1}), ((1,), {"x": 1}), ((), {"y": 1})])
def test_other_arguments_are_refused(kind: typing.Any, changed: typing.Any, arguments: tuple[tuple[int, ...], dict[str, int]]) -> None:
    with pytest.raises(TypeError):
        kind(*arguments[0], **arguments[1])


@pytest.mark.parametrize(("made", "of"), [(dataclass, field), (dataclasses.dataclass, dataclasses.field)])
def test_created_defaults_are_not_shared(made: typing.Any, of: typing.Any) -> None:
    class Plain:
        name: str
        seen: list[int] = of(default_factory=list)

    kind: typing.Any = made(eq=False, repr=False)(Plain)
    one, other = kind("one"), kind("other")
    one.seen.append(1)
    assert (one.seen, other.seen, kind("third", seen=[2]).seen, kind("fourth", [3]).seen) == ([1], [], [2], [3])
    with pytest.raises(TypeError):
        kind()


class LightLevel(Enum):
    """A level."""

    LOW = 1
    HIGH = 2

    def doubled(self) -> int:
        return 2 * int(self.value)


class OriginalLevel(enum.Enum):
    """A level."""

    LOW = 1
    HIGH = 2

    def doubled(self) -> int:
        return 2 * int(self.value)


@pytest.mark.parametrize("kind", [LightLevel, OriginalLevel])
def test_members_of_an_enum_are_unique_values_with_a_name(kind: typing.Any) -> None:
    assert [(member.name, member.value) for member in kind] == [("LOW", 1), ("HIGH", 2)]
    assert (kind.HIGH.doubled(), kind.LOW is kind.LOW, kind.LOW == kind.HIGH, isinstance(kind.LOW, kind)) == (4, True, False, True)
    assert {kind.LOW: "low"}[kind.LOW] == "low"
    assert pickle.loads(pickle.dumps(kind.HIGH)) is kind.HIGH
    assert repr(kind.LOW) == f"<{kind.__name__}.LOW: 1>"
    assert kind(2) is kind.HIGH
    with pytest.raises(ValueError, match=f"3 is not a valid {kind.__name__}"):
        kind(3)


def test_classes_of_typing_are_plain_bases() -> None:
    """At run time: what they say is for type checkers."""
    held = TypeVar("held")

    class Sized(Protocol):
        def size(self) -> int: ...

    class Held(NamedTuple, Generic[held]):
        value: held

    class Box(Generic[held], Sized):
        def size(self) -> int:
            return 3

    @overload
    def twice(value: int) -> int: ...
    @overload
    def twice(value: str) -> str: ...
    def twice(value: int | str) -> int | str:
        return value * 2

    assert Box().size() == 3
    assert Held[int](4) == (4,)
    assert (twice(3), twice("a")) == (6, "aa")
