"""Sort keys of time off the CPU: why a thread waited, and who ended that (record --off-cpu).

As perfpy.analysis.sortkeys.key_columns; the numbers are those of perfpy.abi.waits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.abi.waits import WOKEN_BY_INTERRUPT, WOKEN_BY_THREAD
from perfpy.analysis.samples.wait_reasons import NOTE_SHIFT, state_name
from perfpy.analysis.sortkeys.key_columns import KeyColumn, by_text

if TYPE_CHECKING:
    from perfpy.analysis.samples.locations import Int64
    from perfpy.analysis.sortkeys.key_texts import KeyTexts


def state(_texts: KeyTexts, values: Int64) -> KeyColumn:
    """Why it was off the CPU, or that it was on it."""
    return by_text([state_name(number) for number in values.tolist()])


def waker(texts: KeyTexts, values: Int64) -> KeyColumn:
    """Who ended the wait."""
    return by_text([_waker(texts, number) for number in values.tolist()])


def _waker(texts: KeyTexts, number: int) -> str:
    note, thread = number >> NOTE_SHIFT, number & (1 << NOTE_SHIFT) - 1
    if note == WOKEN_BY_INTERRUPT:
        return "[interrupt]"
    return f"{texts.tasks.last_comm(thread)}:{thread}" if note == WOKEN_BY_THREAD else "-"
