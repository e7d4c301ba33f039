"""RecordOptions by the names of their fields, without the groups that the fields are in."""

from __future__ import annotations

from typing import Any

from perfpy.capture.record_options import RecordOptions

_GROUPS = "target", "sampling", "side_band", "buffers", "output", "off_cpu"


def record_options(**fields: Any) -> RecordOptions:
    """Return options with these fields; `off_cpu=True` and `output="FILE"` stand for off_cpu.enabled and output.path."""
    options = RecordOptions()
    for former, (group, name) in {"off_cpu": ("off_cpu", "enabled"), "output": ("output", "path")}.items():
        if former in fields:
            options = options._replace(**{group: getattr(options, group)._replace(**{name: fields.pop(former)})})
    for name, value in fields.items():
        group = next((group for group in _GROUPS if name in getattr(options, group)._fields), "")
        options = options._replace(**{group: getattr(options, group)._replace(**{name: value})} if group else {name: value})
    return options
