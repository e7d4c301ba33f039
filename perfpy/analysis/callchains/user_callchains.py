"""The unwinder for a recording's batches."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from perfpy.perfdata.container.features import Feature, key_of
from perfpy.unwind.callchains import UserCallchains, has_user_stacks

if TYPE_CHECKING:
    from perfpy.perfdata.sample_source import SampleSource
    from perfpy.symbols.symbolizer import Symbolizer


def user_callchains(
    data: SampleSource, symbolizer: Symbolizer, max_stack: int = 127, *, apart: bool = False, callers_first: bool = False
) -> UserCallchains | None:
    """Return the unwinder; None if no samples have stack copies.

    max_stack: the limit of each part of a callchain; apart, callers_first: see UserCallchains.
    """
    attrs = [event.attr for event in data.events]
    if not any(map(has_user_stacks, attrs)):
        return None
    machine = data.features.get(key_of(Feature.ARCH)) or os.uname().machine
    return UserCallchains(attrs, machine, symbolizer, endian=data.endian, max_stack=max_stack, apart=apart, callers_first=callers_first)
