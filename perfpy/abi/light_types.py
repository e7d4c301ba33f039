"""Light versions of NamedTuple, Enum, cached_property, dataclass, signal and of typing's classes for modules that short commands load.

Type checkers see those of the standard library. At run time, importing these with re, enum, inspect and collections would take
longer than showing a header, and making one dataclass takes as long as reading the samples of a small recording. With TYPE_CHECKING from
here, a module imports the names of its annotations for type checkers alone.
"""

from __future__ import annotations

TYPE_CHECKING = False  # see perfpy.cli


if TYPE_CHECKING:
    import signal
    from collections.abc import Callable, Iterable, Iterator
    from dataclasses import dataclass, field, replace
    from enum import Enum
    from functools import cached_property
    from typing import Any, Generic, NamedTuple, Protocol, TypeVar, overload
else:
    import _signal as signal  # the functions of signal, whose numbers are plain integers

    try:
        from _collections import _tuplegetter as _item  # the descriptor of collections.namedtuple, as fast as an attribute
    except ImportError:

        def _item(index: int, doc: str) -> property:
            return property(lambda self: self[index], doc=doc)

    _ITEMS: list[Any] = []  # the descriptors of the first field, the second ..., which all classes share

    class _NamedTupleMaker(type):
        """The metaclass that turns a class's annotations into fields of a tuple."""

        def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
            fields = tuple(namespace.get("__annotations__", ()))
            while len(_ITEMS) < len(fields):
                _ITEMS.append(_item(len(_ITEMS), ""))
            made = {
                "__slots__": (),
                **namespace,
                "_fields": fields,
                "__match_args__": fields,
                "_field_defaults": (defaults := {field: namespace[field] for field in fields if field in namespace}),
                "_last_values": tuple(defaults.values()),  # those of the last fields
                **dict(zip(fields, _ITEMS)),  # noqa: B905  # there may be more items
            }
            return super().__new__(mcs, name, bases, made)

    class NamedTuple(tuple, metaclass=_NamedTupleMaker):
        """typing.NamedTuple, for modules with `from __future__ import annotations`."""

        def __new__(cls, *args: Any, **keywords: Any) -> NamedTuple:
            """Make a tuple of values in order, or by name."""
            missing = len(cls._fields) - len(args)
            if missing and not keywords and 0 < missing <= len(cls._last_values):
                args = args + cls._last_values[-missing:]
            elif missing:
                args = *args, *cls._rest(len(args), keywords)
            if keywords:
                raise TypeError(f"{cls.__name__} has no fields {', '.join(keywords)}, or has them twice")
            return tuple.__new__(cls, args)

        @classmethod
        def _rest(cls, count: int, keywords: dict[str, Any]) -> list[Any]:
            """Return the values after the first `count`, from `keywords` and the defaults."""
            if count > len(cls._fields):
                raise TypeError(f"{cls.__name__} has {len(cls._fields)} fields, {count} are given")
            rest = cls._fields[count:]
            if len(rest) <= len(cls._last_values):
                return [*map(keywords.pop, rest, cls._last_values[-len(rest) :])]
            try:
                return [keywords.pop(field) if field in keywords else cls._field_defaults[field] for field in rest]
            except KeyError as error:
                raise TypeError(f"{cls.__name__} lacks {error}") from None

        @classmethod
        def _make(cls, values: Iterable[Any]) -> NamedTuple:
            made = tuple.__new__(cls, values)  # much faster than a call
            if len(made) != len(cls._fields):
                raise TypeError(f"{cls.__name__} has {len(cls._fields)} values, not {len(made)}")
            return made

        def _asdict(self) -> dict[str, Any]:
            return dict(zip(self._fields, self, strict=True))

        def _replace(self, **changes: Any) -> NamedTuple:
            replaced = tuple.__new__(type(self), map(changes.pop, self._fields, self))
            if changes:
                raise TypeError(f"{type(self).__name__} has no fields {', '.join(changes)}")
            return replaced

        def __getnewargs__(self) -> tuple[Any, ...]:
            return tuple(self)

        def __repr__(self) -> str:
            return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._asdict().items())})"

    class _EnumMaker(type):
        """The metaclass that turns a class's names in capitals into its members."""

        def __new__(mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
            new_class = super().__new__(mcs, name, bases, namespace)
            members = [object.__new__(new_class) for member in namespace if member.isupper()]
            for member, member_name in zip(members, filter(str.isupper, namespace)):  # noqa: B905  # one member for each name
                member.name, member.value = member_name, namespace[member_name]
                setattr(new_class, member_name, member)
            new_class._members = tuple(members)
            return new_class

        def __iter__(cls) -> Iterator[Any]:
            return iter(cls._members)

        def __call__(cls, value: Any) -> Any:
            """Return the member with a value."""
            for member in cls._members:
                if member.value == value:
                    return member
            raise ValueError(f"{value!r} is not a valid {cls.__name__}")

    class Enum(metaclass=_EnumMaker):
        """enum.Enum, for members with names in capitals."""

        def __repr__(self) -> str:
            return f"<{type(self).__name__}.{self.name}: {self.value!r}>"

        def __reduce__(self) -> tuple[Any, ...]:
            return getattr, (type(self), self.name)

    class cached_property:  # noqa: N801  # its name in functools
        """functools.cached_property: a method called once for each instance, whose dictionary then holds the value."""

        def __init__(self, compute: Callable[[Any], Any]) -> None:
            self._compute = compute
            self.__doc__ = compute.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, instance: object, owner: type | None = None) -> Any:
            if instance is None:
                return self
            value = instance.__dict__[self._name] = self._compute(instance)
            return value

    class _Fresh:
        """A field's default, made anew for each instance."""

        def __init__(self, make: Callable[[], Any]) -> None:
            self.make = make

    def field(*, default_factory: Callable[[], Any]) -> _Fresh:  # the name in dataclasses
        """Return a default that instances do not share."""
        return _Fresh(default_factory)

    def dataclass(*, eq: bool, repr: bool) -> Callable[[type], type]:  # the name in dataclasses
        """Turn a class's annotations into arguments of its constructor. Instances compare and print as plain objects."""
        assert not eq
        assert not repr

        def completed(cls: type) -> type:
            names = tuple(cls.__annotations__)
            defaults = {name: vars(cls)[name] for name in names if name in vars(cls)}
            fresh = {name: default.make for name, default in defaults.items() if isinstance(default, _Fresh)}

            def fill(self: Any, *args: Any, **keywords: Any) -> None:
                values = {**defaults, **dict(zip(names, args)), **keywords}  # noqa: B905  # surplus values are found below
                if len(args) > len(names) or values.keys() != set(names) or keywords.keys() & names[: len(args)]:
                    raise TypeError(f"{cls.__name__} takes {', '.join(names)}")
                self.__dict__.update(values)
                for name, make in fresh.items():
                    if isinstance(values[name], _Fresh):
                        self.__dict__[name] = make()

            cls.__init__ = fill
            cls.__match_args__ = names
            return cls

        return completed

    def replace(instance: Any, **changes: Any) -> Any:
        """Return a copy with some fields changed."""
        values = {name: getattr(instance, name) for name in instance.__match_args__}
        return type(instance)(**{**values, **changes})

    class Generic:
        """typing.Generic, whose types of elements are for type checkers."""

        __slots__ = ()

        def __class_getitem__(cls, _types: object) -> type:
            return cls

    class Protocol:
        """typing.Protocol, which nothing looks at while it runs."""

        __slots__ = ()

        def __class_getitem__(cls, _types: object) -> type:
            return cls

    def TypeVar(name: str, *_limits: object, **_more: object) -> str:  # noqa: N802  # the name in typing
        """Return the name of a type variable."""
        return name

    def overload(function: Callable[..., Any]) -> Callable[..., Any]:  # the name in typing
        """Return a declaration as it is."""
        return function


__all__ = [
    "TYPE_CHECKING", "Enum", "Generic", "NamedTuple", "Protocol", "TypeVar", "cached_property", "dataclass", "field", "overload", "replace",
    "signal",
]  # fmt: skip
