"""Values that a Recording returns: single samples, and the samples of a tracepoint."""

from __future__ import annotations

from perfpy.abi.startup import NamedTuple

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from perfpy.perfdata.container.events import FileEvent


class Sample(NamedTuple):
    """One sample: its event, and field name -> number (or array, for callchain, raw and the like)."""

    event: FileEvent
    fields: Mapping[str, Any]


class TracepointSamples(NamedTuple):
    """All samples of one tracepoint.

    Attributes:
        samples: the usual columns ("time", "tid", "cpu" ...).
        fields: a column for each field of the tracepoint, common fields included.
    """

    samples: Mapping[str, Any]
    fields: Mapping[str, Any]
