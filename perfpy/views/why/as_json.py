"""The explanation of `perfpy why` as one JSON object. Times are nanoseconds."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from perfpy.analysis.verdict import waits as reasons
from perfpy.analysis.why.causes import ROOT
from perfpy.analysis.why.kinds import RUNNING, SPINNING
from perfpy.views.why.text import longest_waits
from perfpy.views.why.verdict import verdict
from perfpy.views.why.words import NAMES, running_function, waker_function

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.analysis.why.cause_groups import Cause, CauseGroups
    from perfpy.analysis.why.explanation import Explanation

_SMALLEST: Final = 0.001  # of the time
_DEEPEST: Final = 12
_WAITS: Final = 100


def why_json(explanation: Explanation) -> str:
    """Return the object as text."""
    main, pid = explanation.main, explanation.tasks.pid_of.get(explanation.main, explanation.main)
    return json.dumps(
        {
            "format": "perfpy-why",
            "version": 1,
            "verdict": verdict(explanation),
            "main": {"pid": pid, "tid": main, "comm": explanation.comm(main), "time": explanation.elapsed},
            "critical-path": _children(explanation, explanation.path, [ROOT], 0),
            "threads": [thread._asdict() for thread in explanation.threads],
            "waits": [_values(explanation, explanation.waits, cause, stacks=True) for cause in longest_waits(explanation)[:_WAITS]],
            "not-followed": explanation.path.tree.cut,
            "lost-events": explanation.lost,
        }
    )


def _children(explanation: Explanation, groups: CauseGroups, nodes: Sequence[int], depth: int) -> list[dict[str, Any]]:
    if depth >= _DEEPEST:
        return []
    return [
        {**_values(explanation, groups, cause, stacks=False), "during": _children(explanation, groups, cause.nodes, depth + 1)}
        for cause in groups.children(nodes)
        if cause.time >= _SMALLEST * explanation.elapsed
    ]


def _values(explanation: Explanation, groups: CauseGroups, cause: Cause, *, stacks: bool) -> dict[str, Any]:
    values: dict[str, Any] = {"kind": NAMES[cause.kind], "comm": cause.comm, "time": cause.time}
    function = running_function(groups, cause) if cause.kind in (RUNNING, SPINNING) else cause.function
    if function:
        values["function"] = function
    if cause.lock:
        values["lock"] = f"{cause.lock:#x}"
        values["lock-name"] = groups.lock_names.get(cause.lock)
    values["threads"] = sorted(groups.all_of("tids", cause.nodes))
    values["count"] = sum(groups.all_of("counts", cause.nodes).values())
    is_ready = cause.kind == reasons.CPU
    waker, time = explanation.runner(groups, cause.nodes) if is_ready else groups.largest("wakers", cause.nodes)
    if time:
        values["waker"] = {"tid": waker, "comm": explanation.comm(waker), "function": waker_function(groups, cause), "time": time}
    if interrupted := groups.interrupted(cause.nodes):
        values["ended-by-interrupts"] = interrupted
    if stacks:
        for name, detail in (("stack", "chains"), ("waker-stack", "waker_chains")):
            chain, _ = groups.largest(detail, cause.nodes)
            values[name] = groups.meanings.names_of(chain) if chain >= 0 else []
    return values
