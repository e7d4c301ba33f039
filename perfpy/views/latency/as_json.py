"""Durations of a function's calls as JSON."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from perfpy.analysis.function_calls import duration_bins, nearest_rank
from perfpy.views.latency.text import PERCENTILES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.analysis.function_calls import FunctionCalls
    from perfpy.views.latency.text import SlowCall


def latency_json(function: str, path: str, calls: FunctionCalls, slowest: Sequence[SlowCall]) -> str:
    """Return one JSON object; durations are in nanoseconds."""
    durations = calls.duration
    summary: dict[str, Any] = {"function": function, "program": path, "calls": len(durations), "without-return": calls.open_count}
    if len(durations):
        summary |= {
            "min": int(durations.min()),
            "max": int(durations.max()),
            "mean": float(durations.mean()),
            "total": int(durations.sum()),
        }
        summary |= {name: nearest_rank(durations, share) for name, share in PERCENTILES}
        summary["off-cpu"] = int(calls.off_cpu.sum())
    summary["histogram"] = [{"from": low, "to": high, "calls": count} for low, high, count in duration_bins(durations)]
    summary["slowest"] = [call._asdict() | {"values": list(call.values), "callers": list(call.callers)} for call in slowest]
    return json.dumps(summary)
