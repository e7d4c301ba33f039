"""Arm CoreSight (cs_etm): the config, the sink, and the registers of each CPU's tracer that decoding needs.

Facts: tools/perf/arch/arm/util/cs-etm.c of perf 6.12, include/linux/coresight-pmu.h, and the kernel's
Documentation/ABI/testing/sysfs-bus-coresight-devices-etm4x.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.errors import TraceOptionsError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from perfpy.events.event import Event
    from perfpy.kernel.sysfs import Pmu


_VERSION: Final = 2
_ETM3, _ETM4, _ETE = "ETMv3", "ETMv4", "ETE"
_MAGIC: Final = {_ETM3: 0x3030303030303030, _ETM4: 0x4040404040404040, _ETE: 0x5050505050505050}
_ETM3_FILES: Final = ("mgmt/etmccer", "mgmt/etmidr")
_ETM4_FILES: Final = ("trcidr/trcidr0", "trcidr/trcidr1", "trcidr/trcidr2", "trcidr/trcidr8", "mgmt/trcauthstatus")
_ARCHITECTURE: Final = "mgmt/trcdevarch"  # of ETE: version 5 of architecture 0xA13
_CLOCK: Final = "ts_source"
#: bit of config -> bits of the tracer's register TRCCONFIGR
_REGISTER_BITS: Final = {8: 1 << 3, 12: 1 << 4, 14: 1 << 6, 15: 1 << 7 | 1 << 15, 28: 1 << 11, 29: 1 << 12}
_FIRST_ID, _IDS = 0x10, 48  # trace ids of old kernels; newer ones announce them in records
_WORD: Final = (1 << 64) - 1


def sink_of(pmu: Pmu, event: Event) -> int:
    """Return the number of the sink that the event names (@tmc_etr0), 0 if it names none. Raises TraceOptionsError."""
    name = next(iter(event.terms.driver or ()), "")
    if not name:
        return 0
    number = pmu.number(f"sinks/{name}", 16)
    if number is None:
        raise TraceOptionsError(f"'{event.name}': no sink '{name}' in {pmu.path}/sinks; drop @{name}, and the kernel chooses one")
    return number


def check_config(pmu: Pmu, name: str, config: int, cpus: Sequence[int]) -> None:
    """Raise TraceOptionsError if the CPUs cannot write the requested context ids and times. name is the event's."""
    for cpu in cpus:
        version = _version(pmu, cpu)
        if not version:
            raise TraceOptionsError(f"CPU {cpu} has no tracer in {pmu.path}; load the CoreSight drivers, or choose other CPUs with -C")
        registers = _register(pmu, cpu, "trcidr/trcidr2") if version != _ETM3 else 0
        lacks = {
            "contextid": version == _ETM3,
            "contextid1": version == _ETM3 or registers >> 5 & 0x1F != 4,
            "contextid2": version == _ETM3 or not registers >> 29 & 3 or registers >> 10 & 0x1F < 4,
            "timestamp": version == _ETM3 or not _register(pmu, cpu, "trcidr/trcidr0") >> 24 & 0x1F,
        }
        for term, is_lacking in lacks.items():
            if is_lacking and config & pmu.bits(term):
                raise TraceOptionsError(f"'{name}': the tracer of CPU {cpu} has no {term}; write {pmu.name}/{term}=0/")


def info_words(pmu: Pmu, config: int, cpus: Sequence[int], *, snapshot: bool) -> Iterator[int]:
    """Yield the content of the AUXTRACE_INFO record: a header, then the registers of each CPU's tracer."""
    yield _VERSION
    yield (pmu.type or 0) << 32 | len(cpus)
    yield int(snapshot)
    for cpu in cpus:
        version = _version(pmu, cpu)
        trace_id = _FIRST_ID + 2 * (cpu % _IDS)
        if version == _ETM3:
            words = [config, trace_id, *(_register(pmu, cpu, file) for file in _ETM3_FILES)]
        else:
            register = sum(bits for bit, bits in _REGISTER_BITS.items() if config >> bit & 1)
            files = (*_ETM4_FILES, _ARCHITECTURE) if version == _ETE else _ETM4_FILES
            clock = pmu.number(f"cpu{cpu}/{_CLOCK}")
            words = [register, trace_id, *(_register(pmu, cpu, file) for file in files), (-1 if clock is None else clock) & _WORD]
        yield from (_MAGIC[version or _ETM4], cpu, len(words), *words)


def _version(pmu: Pmu, cpu: int) -> str:
    """Return the version of a CPU's tracer; "" if it has none."""
    architecture = pmu.number(f"cpu{cpu}/{_ARCHITECTURE}", 16) or 0
    if architecture >> 12 & 0xF == 5 and architecture & 0xFFF == 0xA13:
        return _ETE
    if pmu.number(f"cpu{cpu}/{_ETM4_FILES[0]}", 16) is not None:
        return _ETM4
    return _ETM3 if pmu.number(f"cpu{cpu}/{_ETM3_FILES[0]}", 16) is not None else ""


def _register(pmu: Pmu, cpu: int, file: str) -> int:
    return pmu.number(f"cpu{cpu}/{file}", 16) or 0
