"""`cached_property` for what is read from the machine when it is first asked for.

It is functools' own to readers and type checkers; at run time the few lines
below stand for it, because importing functools takes a tenth of `perfpy list`.
"""

from __future__ import annotations

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable
    from functools import cached_property
    from typing import Any
else:

    class cached_property:  # noqa: N801  # its name in functools
        """A method called once for each instance; the instance's dictionary then has the value in its place."""

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


__all__ = ["cached_property"]
