"""The header's feature sections of one recording, the same as perf's."""

from __future__ import annotations

import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from perfpy.abi.flags import NATIVE_ENDIAN
from perfpy.capture.environment import Environment
from perfpy.perfdata.container.feature_values import BpfProgram, BpfTypes, ClockData, Compression, EventDesc, EventGroup, SampleTime
from perfpy.perfdata.container.features import Feature, encode_feature
from perfpy.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from perfpy.abi.attr import EventAttr
    from perfpy.abi.perf_records.build_id_record import HeaderBuildId
    from perfpy.capture.opening import OpenEvent
    from perfpy.capture.record_options import RecordOptions
    from perfpy.capture.rings.sample_counters import SampleCounters
    from perfpy.kernel.bpf.loaded_programs import BpfProgramInfo
    from perfpy.perfdata.container.compression import Packer

_ANONYMOUS_GROUP = "{anon_group}"
_COMPRESSION_VERSION = 1
_ZSTD = 1
FOLDER_VERSION = 1
_CLOCK_DATA_VERSION = 1


class RecordedFeatures:
    """Collects the sections. Create it when the recording starts, because it compares the clocks. attrs are the events'."""

    def __init__(self, counters: SampleCounters, options: RecordOptions, attrs: Sequence[EventAttr]) -> None:
        self._attrs = attrs
        self._counters = counters
        self._options = options
        self._fixed: dict[int, Any] = {}
        clock = options.sampling.clockid
        if clock is not None:
            self._fixed[Feature.CLOCKID] = int(time.clock_getres(clock) * 1e9)
            self._fixed[Feature.CLOCK_DATA] = ClockData(_CLOCK_DATA_VERSION, clock, time.time_ns(), time.clock_gettime_ns(clock))
        if options.buffers.threads:  # perf then looks for a file for each CPU
            self._fixed[Feature.DIR_FORMAT] = FOLDER_VERSION

    def collect(
        self,
        *,
        tracing: bytes = b"",
        times: tuple[int, int] = (0, 0),
        build_ids: Sequence[HeaderBuildId] = (),
        programs: Sequence[BpfProgramInfo] = (),
        program_types: Mapping[int, bytes] = MappingProxyType({}),
        packer: Packer | None = None,
        mmap_len: int = 0,
    ) -> dict[int, bytes]:
        """Return all sections. times are those of the first and last sample; mmap_len is the longest compressed piece."""
        events = self._counters.events
        values: dict[int, Any] = Environment().features() | self._fixed
        values |= {
            Feature.VERSION: f"perfpy {__version__}",
            Feature.CMDLINE: self._options.command_line,
            Feature.EVENT_DESC: tuple(
                EventDesc(attr, event.name, self._counters.ids(event)) for event, attr in zip(events, self._attrs, strict=True)
            ),
            Feature.SAMPLE_TIME: SampleTime(*times),
            Feature.BPF_PROG_INFO: tuple(BpfProgram(*program.with_arrays()) for program in programs),
            Feature.BPF_BTF: tuple(BpfTypes(ident, data) for ident, data in program_types.items()),
        }
        if any(event.attr.branch_sample_type for event in events):
            values[Feature.BRANCH_STACK] = True
        if self._counters.aux:
            values[Feature.AUXTRACE] = tuple(self._counters.aux.index)
        groups = event_groups(events)
        if groups:
            values[Feature.GROUP_DESC] = groups
        if build_ids:
            values[Feature.BUILD_ID] = tuple(build_ids)
        if packer:
            level = self._options.output.compression_level
            values[Feature.COMPRESSED] = Compression(_COMPRESSION_VERSION, _ZSTD, level, round(packer.ratio), mmap_len)
        sections = {number: encode_feature(number, value, NATIVE_ENDIAN) for number, value in values.items()}
        if tracing:
            sections[Feature.TRACING_DATA] = tracing
        return sections


def event_groups(events: Sequence[OpenEvent]) -> tuple[EventGroup, ...]:
    """Return the groups of more than one event."""
    groups = []
    for index, event in enumerate(events):
        members = sum(other.leader is event for other in events)
        if event.is_leader and members > 1:
            groups.append(EventGroup(event.event.group_name or _ANONYMOUS_GROUP, index, members))
    return tuple(groups)
