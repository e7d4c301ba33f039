"""`perfpy mem record`: record memory accesses, and the list of events that can."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perfpy.events.kinds.memory_events import choose_memory_events, memory_events
from perfpy.kernel.sysfs import Sysfs

if TYPE_CHECKING:
    from collections.abc import Sequence

    from perfpy.cli.mem.options import MemRecordOptions


def record_arguments(options: MemRecordOptions) -> list[str]:
    """Return the arguments of `perfpy record` for the options of `perfpy mem record`. Raises PerfError without events."""
    arguments = event_arguments(options.events, options.access_kinds, options.ldlat)
    arguments += ["-W", "-d"]
    arguments += ["--phys-data"] if options.phys_data else []
    arguments += ["--data-page-size"] if options.data_page_size else []
    arguments += ["--all-kernel"] if options.kernel_only else []
    arguments += ["--all-user"] if options.user_only else []
    arguments += [f"--cpu={options.cpu}"] if options.cpu else []
    return arguments + ["-v"] * options.verbose


def event_arguments(names: Sequence[str], kinds: Sequence[str], latency: int) -> list[str]:
    """Return -e options that sample accesses of these kinds. Raises PerfError if no PMU can."""
    texts = choose_memory_events(memory_events(Sysfs(), latency), [name for text in names for name in text.split(",")], kinds)
    return [word for text in texts for word in ("-e", text)]


def print_events(latency: int, *, verbose: bool) -> int:
    """Print the memory events of this machine. Raises PerfError if it has none."""
    events = memory_events(Sysfs(), latency)
    choose_memory_events(events, (), ())
    width = max(len(event.tag) for event in events)
    for event in events:
        print(f"{event.tag:{width}} : available" + (f" ({event.text})" if verbose else ""))
    return 0
