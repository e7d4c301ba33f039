"""Names that every kernel has: generic hardware, software and cache events, and perf's tool events.

Numbers: include/uapi/linux/perf_event.h; names and aliases: perf-list(1).
"""

from __future__ import annotations

from perfpy.abi.flags import CacheId, CacheOp, CacheResult, HardwareId, PerfType, SoftwareId

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from typing import Final

#: (name, alias or "", config); perf prints `cycles`, so it is the alias of cpu-cycles
HARDWARE: Final[tuple[tuple[str, str, int], ...]] = (
    ("branch-instructions", "branches", HardwareId.BRANCH_INSTRUCTIONS),
    ("branch-misses", "", HardwareId.BRANCH_MISSES),
    ("bus-cycles", "", HardwareId.BUS_CYCLES),
    ("cache-misses", "", HardwareId.CACHE_MISSES),
    ("cache-references", "", HardwareId.CACHE_REFERENCES),
    ("cpu-cycles", "cycles", HardwareId.CPU_CYCLES),
    ("instructions", "", HardwareId.INSTRUCTIONS),
    ("ref-cycles", "", HardwareId.REF_CPU_CYCLES),
    ("stalled-cycles-backend", "idle-cycles-backend", HardwareId.STALLED_CYCLES_BACKEND),
    ("stalled-cycles-frontend", "idle-cycles-frontend", HardwareId.STALLED_CYCLES_FRONTEND),
)

SOFTWARE: Final[tuple[tuple[str, str, int], ...]] = (
    ("alignment-faults", "", SoftwareId.ALIGNMENT_FAULTS),
    ("bpf-output", "", SoftwareId.BPF_OUTPUT),
    ("cgroup-switches", "", SoftwareId.CGROUP_SWITCHES),
    ("context-switches", "cs", SoftwareId.CONTEXT_SWITCHES),
    ("cpu-clock", "", SoftwareId.CPU_CLOCK),
    ("cpu-migrations", "migrations", SoftwareId.CPU_MIGRATIONS),
    ("dummy", "", SoftwareId.DUMMY),
    ("emulation-faults", "", SoftwareId.EMULATION_FAULTS),
    ("major-faults", "", SoftwareId.PAGE_FAULTS_MAJ),
    ("minor-faults", "", SoftwareId.PAGE_FAULTS_MIN),
    ("page-faults", "faults", SoftwareId.PAGE_FAULTS),
    ("task-clock", "", SoftwareId.TASK_CLOCK),
)

#: measured by perfpy itself, never opened
TOOL: Final = ("duration_time", "user_time", "system_time")
#: facts about the machine, which perf 6.14 and later have as events (lists of 6.12 omit them)
MACHINE_VALUES: Final = (
    "num_cpus", "num_cpus_online", "num_cores", "num_dies", "num_packages", "smt_on", "core_wide", "has_pmem", "target_cpu",
)  # fmt: skip

# Names of each cache, operation and result. perf prints the first one. An operation's second name is
# its plural, used without a result: L1-dcache-loads.
_CACHES: Final[dict[int, tuple[str, ...]]] = {
    CacheId.L1D: ("L1-dcache", "l1-d", "l1d", "L1-data"),
    CacheId.L1I: ("L1-icache", "l1-i", "l1i", "L1-instruction"),
    CacheId.LL: ("LLC", "L2"),
    CacheId.DTLB: ("dTLB", "d-tlb", "Data-TLB"),
    CacheId.ITLB: ("iTLB", "i-tlb", "Instruction-TLB"),
    CacheId.BPU: ("branch", "branches", "bpu", "btb", "bpc"),
    CacheId.NODE: ("node",),
}
_OPS: Final[dict[int, tuple[str, ...]]] = {
    CacheOp.READ: ("load", "loads", "read"),
    CacheOp.WRITE: ("store", "stores", "write"),
    CacheOp.PREFETCH: ("prefetch", "prefetches", "speculative-read", "speculative-load"),
}
_RESULTS: Final[dict[int, tuple[str, ...]]] = {
    CacheResult.ACCESS: ("refs", "Reference", "ops", "access"),
    CacheResult.MISS: ("misses", "miss"),
}
_READ_ONLY: Final = (CacheId.ITLB, CacheId.BPU)


def _by_length(names: dict[int, tuple[str, ...]]) -> list[tuple[str, int]]:
    """Return (name, number), longest names first, so that `prefetches` is tried before `prefetch`."""
    return sorted(((name, number) for number, all_names in names.items() for name in all_names), key=lambda pair: -len(pair[0]))


def _names(table: tuple[tuple[str, str, int], ...]) -> dict[str, int]:
    return {name: config for primary, alias, config in table for name in (primary, alias) if name}


_HARDWARE_CONFIGS: Final = _names(HARDWARE)
_SOFTWARE_CONFIGS: Final = _names(SOFTWARE)


def generic_event(name: str) -> tuple[int, int] | None:
    """Return (type, config) of a hardware or software event by name or alias; None for other names."""
    if name in _SOFTWARE_CONFIGS:
        return PerfType.SOFTWARE, _SOFTWARE_CONFIGS[name]
    if name in _HARDWARE_CONFIGS:
        return PerfType.HARDWARE, _HARDWARE_CONFIGS[name]
    return None


def is_cache_operation_valid(cache: int, operation: int) -> bool:
    """Whether kernels count this combination; they do not count stores to an instruction cache or writes of a branch predictor."""
    if cache in _READ_ONLY:
        return operation == CacheOp.READ
    return cache != CacheId.L1I or operation != CacheOp.WRITE


def cache_event(name: str) -> int | None:
    """Return the config of a cache event `CACHE[-OP][-RESULT]` in any spelling; None for other names.

    OP and RESULT are optional (loads, accesses), and their order does not matter.
    """
    cache, remainder = _take(name, _by_length(_CACHES))
    if cache is None:
        return None
    operation: int | None = None
    result: int | None = None
    while remainder:
        if not remainder.startswith("-"):
            return None
        number, after = _take(remainder[1:], _by_length(_OPS))
        if number is not None:
            operation = number if operation is None else operation
        else:
            number, after = _take(remainder[1:], _by_length(_RESULTS))
            if number is None:
                return None
            result = number if result is None else result
        remainder = after
    operation = CacheOp.READ if operation is None else operation
    result = CacheResult.ACCESS if result is None else result
    if not is_cache_operation_valid(cache, operation):
        return None
    return cache | operation << 8 | result << 16


def _take(text: str, names: list[tuple[str, int]]) -> tuple[int | None, str]:
    """Return the number of the longest name at the start of `text`, followed by `-` or the end, and the remaining text."""
    for name, number in names:
        if text.startswith(name) and text[len(name) : len(name) + 1] in ("", "-"):
            return number, text[len(name) :]
    return None, text


def cache_event_name(config: int) -> str:
    """Return perf's name of a cache event's config; "" if it is invalid."""
    cache, operation, result = config & 0xFF, config >> 8 & 0xFF, config >> 16 & 0xFF
    if cache not in _CACHES or operation not in _OPS or result not in _RESULTS or config >> 24:
        return ""
    if not is_cache_operation_valid(cache, operation):
        return ""
    if result == CacheResult.MISS:
        return f"{_CACHES[cache][0]}-{_OPS[operation][0]}-{_RESULTS[result][0]}"
    return f"{_CACHES[cache][0]}-{_OPS[operation][1]}"


def cache_configs() -> list[int]:
    """Return every valid config of a cache event, in the order of the kernel's numbers."""
    return [
        cache | operation << 8 | result << 16
        for cache in _CACHES
        for operation in _OPS
        for result in _RESULTS
        if is_cache_operation_valid(cache, operation)
    ]


def generic_names() -> list[str]:
    """Return all names and aliases of this module for suggestions, without unusual spellings of cache events."""
    names = [*_SOFTWARE_CONFIGS, *_HARDWARE_CONFIGS, *TOOL]
    return names + [cache_event_name(config) for config in cache_configs()]


def generic_name(event_type: int, config: int) -> str:
    """Return perf's name of a generic event that has no text; "" for unknown numbers."""
    if event_type == PerfType.HW_CACHE:
        return cache_event_name(config)
    tables = {PerfType.HARDWARE: HARDWARE, PerfType.SOFTWARE: SOFTWARE}
    for name, alias, number in tables.get(event_type, ()):
        if number == config:
            return alias if alias in ("cycles", "branches") else name
    return ""
