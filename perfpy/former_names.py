"""Former names of attributes in the public API. Each works for one release and warns (DeprecationWarning)."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping


def former_attribute(instance: object, former: str, names: Mapping[str, str]) -> Any:
    """Return the attribute that `names` maps a former name to, with a warning. Raises AttributeError for other names.

    A class calls this from its __getattr__, so that current names cost nothing.
    """
    owner = type(instance).__name__
    if former not in names:
        raise AttributeError(f"{owner!r} object has no attribute {former!r}", name=former, obj=instance)
    warnings.warn(f"{owner}.{former} is called {names[former]} now", DeprecationWarning, stacklevel=3)
    return getattr(instance, names[former])
