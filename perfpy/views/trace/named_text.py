"""The tables of calls by file or by peer."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from perfpy.abi.system_calls.errors import error_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.tracing.named_totals import NamedTotals

_MILLISECOND: Final = 1e6  # nanoseconds
_SECOND: Final = 1e9
_HEAD: Final = (
    "      calls  errors     total   wall       p50       p99       max        bytes  {}",
    "                       (msec)    (%)    (msec)    (msec)    (msec)",
    "   --------  ------ --------- ------ --------- --------- --------- ------------  ---------------",
)


def named_lines(named: NamedTotals, most: int = 0) -> Iterator[str]:
    """Yield the table of all names by their total time. most: rows; 0 for all."""
    calls = named.totals.of_all()
    wall = _wall(named)
    yield from ("", f" {sum(call.calls for call in calls)} calls with a {named.kind} in {wall / _SECOND:.3f} s:", "")
    yield from (line.format(named.kind) for line in _HEAD)
    for call in calls[: most or len(calls)]:
        times = "".join(f" {value / _MILLISECOND:9.3f}" for value in (call.percentile(0.5), call.percentile(0.99), call.most))
        yield (
            f"   {call.calls:8d}  {call.errors:6d} {call.total / _MILLISECOND:9.3f} {100 * call.total / wall:6.2f}{times}"
            f" {named.bytes[call.number]:12d}  {named.names[call.number]}"
        )


def named_json(named: NamedTotals) -> Iterator[str]:
    """Yield an object for each name; times in nanoseconds."""
    wall = _wall(named)
    for call in named.totals.of_all():
        value = {
            named.kind: named.names[call.number],
            "calls": call.calls,
            "errors": {error_name(number).name: count for number, count in sorted(call.errnos.items())},
            "total": call.total,
            "share": call.total / wall,
            "min": call.least,
            "mean": call.mean,
            "p50": call.percentile(0.5),
            "p99": call.percentile(0.99),
            "max": call.most,
            "bytes": named.bytes[call.number],
        }
        yield json.dumps(value)


def _wall(named: NamedTotals) -> int:
    return max(named.totals.last_time - named.totals.first_time, 1)
