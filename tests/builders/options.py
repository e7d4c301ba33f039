"""RecordOptions and ReportOptions by the names of their fields, without the groups that the fields are in."""

from __future__ import annotations

from typing import Any, TypeVar

from perfpy.analysis.report.options import ReportOptions
from perfpy.capture.record_options import RecordOptions

_GROUPS = "target", "sampling", "side_band", "buffers", "output", "off_cpu", "trace", "chains", "rows", "names", "times"
Options = TypeVar("Options", RecordOptions, ReportOptions)


def record_options(**fields: Any) -> RecordOptions:
    """Return options with these fields; `off_cpu=True` and `output="FILE"` stand for off_cpu.enabled and output.path."""
    names = {"off_cpu": "enabled", "output": "path"}
    return with_fields(RecordOptions(), **{names.get(name, name): value for name, value in fields.items()})


def report_options(**fields: Any) -> ReportOptions:
    """Return options with these fields."""
    return with_fields(ReportOptions(), **fields)


def with_fields(options: Options, **fields: Any) -> Options:
    """Return options with other values for these fields, each in its group."""
    for name, value in fields.items():
        groups = (group for group in _GROUPS if name in getattr(getattr(options, group, None), "_fields", ()))
        group = next(groups, "")
        options = options._replace(**{group: getattr(options, group)._replace(**{name: value})} if group else {name: value})
    return options
