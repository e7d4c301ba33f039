"""Callchains below the lines of `perfpy trace`."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from perfpy.abi.columns import Columns
from perfpy.tools.trace.stack_text import StackLimits, StackTexts


@pytest.mark.parametrize(("least", "is_deep"), [(0, True), (1, False)])
def test_a_batch_of_events_without_callchains_has_none(least: int, is_deep: bool) -> None:
    """Another event of the recording has them."""
    source = SimpleNamespace(has=lambda bit: True)
    texts = StackTexts(source, StackLimits(most=127, least=least, has_kernel=True))
    texts._symbolizer = SimpleNamespace()  # type: ignore[assignment]
    texts.begin_batch(SimpleNamespace(columns=Columns(3, {"pid": np.zeros(3, np.int32)})))  # type: ignore[arg-type]
    stacks, deep = texts.stacks(np.array([0, 2]), are_calls=True)
    assert (stacks.tolist(), deep.tolist()) == ([b"", b""], [is_deep] * 2)
