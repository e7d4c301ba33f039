"""What perf's scripts import as Core, where no perf is installed: words for flags and numbers of tracepoints.

What enters: the words that define_* are told. What leaves: text for a value.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any


def autodict() -> defaultdict[Any, Any]:
    """A dictionary in which every key leads to another one."""
    return defaultdict(autodict)


flag_fields = autodict()
symbolic_fields = autodict()
trace_flags = {0x00: "NONE", 0x01: "IRQS_OFF", 0x02: "IRQS_NOSUPPORT", 0x04: "NEED_RESCHED", 0x08: "HARDIRQ", 0x10: "SOFTIRQ"}
_STATES = {0: "R", 1: "S", 2: "D", 64: "DEAD"}


def define_flag_field(event_name: str, field_name: str, delim: str) -> None:
    """What stands between the flags of a field."""
    flag_fields[event_name][field_name]["delim"] = delim


def define_flag_value(event_name: str, field_name: str, value: int, field_str: str) -> None:
    """A flag's word."""
    flag_fields[event_name][field_name]["values"][value] = field_str


def define_symbolic_field(event_name: str, field_name: str) -> None:
    """A field whose numbers have words."""


def define_symbolic_value(event_name: str, field_name: str, value: int, field_str: str) -> None:
    """A number's word."""
    symbolic_fields[event_name][field_name]["values"][value] = field_str


def _words(words: dict[int, str], value: int) -> list[str]:
    """The words of the flags that are set; that of 0 for none."""
    if not value:
        return [words[0]] if 0 in words else []
    found = []
    for flag in sorted(words):
        if flag and value & flag == flag:
            found.append(words[flag])
            value &= ~flag
    return found


def flag_str(event_name: str, field_name: str, value: int) -> str:
    """The flags of a field as text."""
    field = flag_fields[event_name][field_name]
    return f" {field['delim']} ".join(_words(field["values"], value)) if field else ""


def symbol_str(event_name: str, field_name: str, value: int) -> str:
    """The word of a number."""
    field = symbolic_fields[event_name][field_name]
    return str(field["values"].get(value, "")) if field else ""


def trace_flag_str(value: int) -> str:
    """The common flags of a tracepoint as text."""
    return " | ".join(_words(trace_flags, value))


def taskState(state: int) -> str:  # noqa: N802  # the name that scripts import
    """A task's state as a letter."""
    return _STATES.get(state, "Unknown")


class EventHeaders:
    """What every tracepoint has."""

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
        """When it was, in nanoseconds."""
        return self.secs * 10**9 + self.nsecs

    def ts_format(self) -> str:
        """When it was, as seconds and microseconds."""
        return f"{self.secs}.{self.nsecs // 1000}"
