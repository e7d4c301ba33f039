"""`perfpy lock record`: record the waits for locks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_EVENTS: Final = ("lock:contention_begin", "lock:contention_end")
_DEPTH: Final = 8  # functions of a callchain


def record_arguments(arguments: Sequence[str]) -> list[str]:
    """Return the arguments of `perfpy record` for `perfpy lock record ARGUMENTS`."""
    events = [word for name in _EVENTS for word in ("-e", f"{name}/call-graph=fp,max-stack={_DEPTH}/")]
    return ["-R", "-m", "1024", "-c", "1", "--synth", "task", "--kernel-callchains", *events, *arguments]
