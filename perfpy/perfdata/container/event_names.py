"""Derive the names of events from their attrs, for recordings without event names.

The names are perf's, with the modifiers of the counted modes ("cycles:u").
"""

from __future__ import annotations

from perfpy.abi.flags import BREAKPOINT_R, BREAKPOINT_W, BREAKPOINT_X, PerfType

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from typing import Final

    from perfpy.abi.attr import EventAttr

_HARDWARE: Final = (
    "cycles",
    "instructions",
    "cache-references",
    "cache-misses",
    "branches",
    "branch-misses",
    "bus-cycles",
    "stalled-cycles-frontend",
    "stalled-cycles-backend",
    "ref-cycles",
)
_SOFTWARE: Final = (
    "cpu-clock",
    "task-clock",
    "page-faults",
    "context-switches",
    "cpu-migrations",
    "minor-faults",
    "major-faults",
    "alignment-faults",
    "emulation-faults",
    "dummy",
    "bpf-output",
    "cgroup-switches",
)
_CACHES: Final = ("L1-dcache", "L1-icache", "LLC", "dTLB", "iTLB", "branch", "node")
_CACHE_ACCESSES: Final = ("loads", "stores", "prefetches")
_CACHE_MISSES: Final = ("load-misses", "store-misses", "prefetch-misses")


def default_name(attr: EventAttr) -> str:
    """Return perf's name of an event that has no recorded name.

    >>> from perfpy.abi.attr import EventAttr
    >>> default_name(EventAttr(type=0, config=0, exclude_kernel=1, exclude_hv=1))
    'cycles:u'
    """
    if attr.type == PerfType.HARDWARE:
        return _hardware_name(attr.config) + _modifiers(attr)
    if attr.type == PerfType.SOFTWARE:
        return _join_names(_SOFTWARE, attr.config, "unknown-software") + _modifiers(attr)
    if attr.type == PerfType.HW_CACHE:
        return _cache_name(attr.config) + _modifiers(attr)
    if attr.type == PerfType.RAW:
        return f"raw {attr.config:#x}" + _modifiers(attr)
    if attr.type == PerfType.TRACEPOINT:
        return "unknown tracepoint"
    if attr.type == PerfType.BREAKPOINT:
        return _breakpoint_name(attr) + _modifiers(attr)
    return f"unknown attr type: {attr.type}"


def _join_names(names: tuple[str, ...], number: int, otherwise: str) -> str:
    return names[number] if number < len(names) else otherwise


def _hardware_name(config: int) -> str:
    """Return the name of a generic event; if the config's upper half selects a PMU, in the form cpu/name/."""
    name = _join_names(_HARDWARE, config & 0xFFFFFFFF, "unknown-hardware")
    return f"cpu/{name}/" if config >> 32 else name


def _cache_name(config: int) -> str:
    cache, op, result = config & 0xFF, config >> 8 & 0xFF, config >> 16 & 0xFF
    if cache >= len(_CACHES):
        return "unknown-ext-hardware-cache-type"
    if op >= len(_CACHE_ACCESSES):
        return "unknown-ext-hardware-cache-op"
    if result > 1:
        return "unknown-ext-hardware-cache-result"
    return f"{_CACHES[cache]}-{(_CACHE_MISSES if result else _CACHE_ACCESSES)[op]}"


def _breakpoint_name(attr: EventAttr) -> str:
    access = "".join(letter for bit, letter in ((BREAKPOINT_R, "r"), (BREAKPOINT_W, "w"), (BREAKPOINT_X, "x")) if attr.bp_type & bit)
    return f"mem:{attr.bp_addr:#x}:{access}"


def _modifiers(attr: EventAttr) -> str:
    """Return the letters after the colon: modes that differ from the default, and the precision."""
    letters = ""
    # perf expects exclude_guest of every event that has another modifier
    guest_excluded = False
    if attr.exclude_kernel or attr.exclude_user or attr.exclude_hv:
        excluded = (("k", attr.exclude_kernel), ("u", attr.exclude_user), ("h", attr.exclude_hv))
        letters += "".join(letter for letter, out in excluded if not out)
        guest_excluded = True
    if attr.precise_ip:
        letters += "p" * attr.precise_ip
        guest_excluded = True
    if attr.exclude_host or bool(attr.exclude_guest) == guest_excluded:
        letters += ("" if attr.exclude_host else "H") + ("" if attr.exclude_guest else "G")
    return ":" + letters if letters else ""
