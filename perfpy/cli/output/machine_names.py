"""Names for the numbers in events' attrs, from sysfs and tracefs of this machine.

perf uses the machine that it runs on, not the recorded one, so texts that equal perf's do, too. If tracefs is unreadable, the
names come from the recording.
"""

from __future__ import annotations

from perfpy.abi.flags import PerfType
from perfpy.abi.startup import cached_property
from perfpy.errors import KernelRefusedError
from perfpy.views.metadata.attr import FileNames

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from perfpy.perfdata.reader import PerfData

_CORE_PMU = "cpu"  # perf has a PMU of this name, for raw events, on every machine.


class MachineNames:
    """Event names of this machine, for the events of one recording."""

    def __init__(self, data: PerfData) -> None:
        self._data = data
        self._file = FileNames(data)

    @cached_property
    def _pmus(self) -> dict[int, str]:
        from perfpy.kernel.sysfs import Sysfs

        names: dict[int, str] = {PerfType.RAW: _CORE_PMU}
        for pmu in Sysfs().pmus:
            if pmu.type is not None:
                names[pmu.type] = pmu.name
        return names

    @cached_property
    def _tracepoints(self) -> dict[int, str] | None:
        """Names by id, for the ids in the recording; None if tracefs is unreadable."""
        from perfpy.kernel.tracefs import Tracefs

        ids = {event.attr.config for event in self._data.events if event.attr.type == PerfType.TRACEPOINT}
        names: dict[int, str] = {}
        tracefs = Tracefs()
        try:
            # Tracepoints with the recorded names come first: on the recorded machine these are all.
            recorded_names = [point for point in (self._file.tracepoint(number) for number in ids) if point]
            for name in recorded_names:
                names[tracefs.event_id(*name.split(":", 1)) or -1] = name
            for system in tracefs.systems if not ids <= names.keys() else ():
                for event in tracefs.events(system):
                    names[tracefs.event_id(system, event) or -1] = f"{system}:{event}"
        except KernelRefusedError:
            return None
        return names

    def pmu(self, type_number: int) -> str:
        """Return the PMU of this machine with this type; "" if there is none."""
        return self._pmus.get(type_number, "")

    def tracepoint(self, number: int) -> str:
        """Return SYSTEM:NAME of this machine's tracepoint with this id; "" if there is none."""
        if self._tracepoints is None:
            return self._file.tracepoint(number)
        return self._tracepoints.get(number, "")
