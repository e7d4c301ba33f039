"""The reasons of waits in off-CPU samples (perfpy.abi.waits), as numbers for the sort keys state and waker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from perfpy.abi.waits import IS_WAIT, STATE_NAMES, WOKEN_BY_THREAD

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from perfpy.analysis.samples.sample_view import SampleView

NOTE_SHIFT: Final = 32
_ON_CPU: Final = 0


def state_of(samples: SampleView) -> NDArray[Any]:
    """Return the letter of each sample's state, 0 on the CPU."""
    return np.where(_is_wait(samples), samples.column("ins_lat").astype(np.int64), _ON_CPU)


def waker_of(samples: SampleView) -> NDArray[Any]:
    """Return the waker of each sample: the thread, and above it the note; 0 on the CPU and for unknown wakers."""
    note = samples.column("retire_lat").astype(np.int64) & ~IS_WAIT
    thread = np.where(note == WOKEN_BY_THREAD, samples.column("weight").astype(np.int64), 0)
    return np.where(_is_wait(samples), note << NOTE_SHIFT | thread, 0)


def _is_wait(samples: SampleView) -> NDArray[np.bool_]:
    marked: NDArray[np.bool_] = (samples.column("retire_lat").astype(np.int64) & IS_WAIT) != 0
    return marked


def state_name(number: int) -> str:
    """Return a state as a readable word."""
    return STATE_NAMES.get(number) or (chr(number) if 32 < number < 127 else "?")
