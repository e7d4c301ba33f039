"""A generated script (-g): a function for each tracepoint of a recording, and one for all other events."""

from __future__ import annotations

import keyword
from typing import TYPE_CHECKING, Final

from perfpy.perfdata.tracepoints.print_tree import Flags
from perfpy.views.scripting.words import worded_fields

if TYPE_CHECKING:
    from collections.abc import Iterator

    from perfpy.perfdata.tracepoints.event_format import EventFormat
    from perfpy.views.recorded import Recorded

_HEAD: Final = """\
# Made by perfpy script -g python; run by: perfpy script -s THIS_FILE
# A function SYSTEM__EVENT is called for each sample of that tracepoint, with its fields; trace_unhandled for
# tracepoints without one, process_event for all other events.

import os
import sys

sys.path.append(os.environ.get("PERF_EXEC_PATH", "") + "/scripts/python/Perf-Trace-Util/lib/Perf/Trace")

from perf_trace_context import *
from Core import *


def trace_begin():
    print("in trace_begin")


def trace_end():
    print("in trace_end")


def print_head(name, cpu, seconds, nanoseconds, pid, comm):
    print(f"{name:<20} {cpu:5} {seconds:5}.{nanoseconds:09} {pid:8} {comm:<20}", end=" ")


def print_callchain(callchain):
    for frame in callchain:
        where = f"{frame['sym']['name']}+{frame.get('sym_off', 0):#x}" if "sym" in frame else "[unknown]"
        print(f"\\t[{frame['ip']:x}] {where} ({frame.get('dso', '[unknown]')})")


def trace_unhandled(event_name, context, fields, sample):
    print(event_name, ", ".join(f"{name}={value}" for name, value in sorted(fields.items())))


def process_event(sample):
    print(f"{sample['ev_name']}: {sample['comm']} {sample['sample']['pid']} {sample.get('symbol', '[unknown]')}")
    print_callchain(sample["callchain"])
"""
_COMMON: Final = "event_name, context, common_cpu, common_secs, common_nsecs, common_pid, common_comm, common_callchain"


def starter(recording: Recorded) -> str:
    """Return the text of a script for this recording. It runs unchanged."""
    tracing = recording.data.tracing
    formats = tracing.formats if tracing else {}
    numbers = dict.fromkeys(event.attr.config for event in recording.events if event.tracepoint and event.attr.config in formats)
    return _HEAD + "".join(line + "\n" for number in numbers for line in _function(formats[number]))


def _function(form: EventFormat) -> Iterator[str]:
    """Yield the function for a tracepoint; nothing if its names are not valid in Python."""
    name, fields = f"{form.system}__{form.name}", [field.name for field in form.fields]
    if not name.isidentifier() or not all(map(str.isidentifier, fields)):
        return
    words = {field: "flag_str" if isinstance(tree, Flags) else "symbol_str" for tree, field in worded_fields(form)}
    parameters = [field + "_" * keyword.iskeyword(field) for field in fields]
    text = ", ".join(f"{field}={{{_value(name, field, parameter, words)}}}" for field, parameter in zip(fields, parameters, strict=True))
    yield from ("", "", f"def {name}({', '.join([_COMMON, *parameters, 'perf_sample_dict'])}):")
    yield "    print_head(event_name, common_cpu, common_secs, common_nsecs, common_pid, common_comm)"
    yield f"    print(f'{text}')"
    yield "    print_callchain(common_callchain)"


def _value(name: str, field: str, parameter: str, words: dict[str, str]) -> str:
    return f'{words[field]}("{name}", "{field}", {parameter})' if field in words else parameter
