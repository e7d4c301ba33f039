"""The module Core that perf's scripts import, for machines without perf: names of flags and numbers of tracepoints.

define_* record the names, flag_str() and symbol_str() look them up.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any


def autodict() -> defaultdict[Any, Any]:
    """Return a dictionary that makes a dictionary for each missing key."""
    return defaultdict(autodict)


flag_fields = autodict()
symbolic_fields = autodict()
trace_flags = {0x00: "NONE", 0x01: "IRQS_OFF", 0x02: "IRQS_NOSUPPORT", 0x04: "NEED_RESCHED", 0x08: "HARDIRQ", 0x10: "SOFTIRQ"}
_STATES = {0: "R", 1: "S", 2: "D", 64: "DEAD"}


def define_flag_field(event_name: str, field_name: str, delim: str) -> None:
    """Set the delimiter between the flags of a field."""
    flag_fields[event_name][field_name]["delim"] = delim


def define_flag_value(event_name: str, field_name: str, value: int, field_str: str) -> None:
    """Set the name of a flag."""
    flag_fields[event_name][field_name]["values"][value] = field_str


def define_symbolic_field(event_name: str, field_name: str) -> None:
    """Declare a field whose numbers have names."""


def define_symbolic_value(event_name: str, field_name: str, value: int, field_str: str) -> None:
    """Set the name of a number."""
    symbolic_fields[event_name][field_name]["values"][value] = field_str


def _words(words: dict[int, str], value: int) -> list[str]:
    """Return the names of the flags that are set; the name of 0 for none."""
    if not value:
        return [words[0]] if 0 in words else []
    set_names = []
    for flag in sorted(words):
        if flag and value & flag == flag:
            set_names.append(words[flag])
            value &= ~flag
    return set_names


def flag_str(event_name: str, field_name: str, value: int) -> str:
    """Return the flags of a field as text."""
    field = flag_fields[event_name][field_name]
    return f" {field['delim']} ".join(_words(field["values"], value)) if field else ""


def symbol_str(event_name: str, field_name: str, value: int) -> str:
    """Return the name of a number."""
    field = symbolic_fields[event_name][field_name]
    return str(field["values"].get(value, "")) if field else ""


def trace_flag_str(value: int) -> str:
    """Return the common flags of a tracepoint as text."""
    return " | ".join(_words(trace_flags, value))


def taskState(state: int) -> str:  # noqa: N802  # the name that scripts import
    """Return a task's state as a letter."""
    return _STATES.get(state, "Unknown")


class EventHeaders:
    """The common fields of every tracepoint."""

    def __init__(
        self, common_cpu: int, common_secs: int, common_nsecs: int, common_pid: int, common_comm: str, common_callchain: Any
    ) -> None:
        self.cpu = common_cpu
        self.secs = common_secs
        self.nsecs = common_nsecs
        self.pid = common_pid
        self.comm = common_comm
        self.callchain = common_callchain

    def ts(self) -> int:
        """Return the time in nanoseconds."""
        return self.secs * 10**9 + self.nsecs

    def ts_format(self) -> str:
        """Return the time as seconds and microseconds."""
        return f"{self.secs}.{self.nsecs // 1000}"
