"""The header of a recording, for --header, --header-only and -I, in perf's format."""

from __future__ import annotations

import sys

from perfpy.abi.flags import PerfType
from perfpy.abi.light_types import cached_property
from perfpy.cli.output.terminal import print_lines
from perfpy.errors import KernelRefusedError
from perfpy.views.header_text import FRAME, FileNames, attr_fields, feature_printer, header_lines

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator, Sequence

    from perfpy.capture.counter import OpenEvent
    from perfpy.perfdata.reader import PerfData
    from perfpy.recording import Recording
    from perfpy.symbols.files.debug_files import GuestFiles
    from perfpy.views.script.lines import DumpLines


def lines_of_header(recording: Recording, *, full: bool) -> Iterator[str]:
    """Return the header's lines. full: include the topology."""
    return header_lines(recording, full=full, names=MachineNames(recording.data))


def features_of_pipe(recording: Recording) -> list[str]:
    """Return the text of -I for a pipe: its features in order, without a file's header."""
    lines = list(lines_of_header(recording, full=True))
    return lines[lines.index(FRAME, 1) + 2 :]


def print_header(recording: Recording, *, full: bool, warns: bool = False, dumps_features: bool = False) -> None:
    """Print the header on standard output.

    Args:
        warns: whether the warning of -D comes first
        dumps_features: whether the dump has the features of a recording in a pipe's format
    """
    if warns:
        from perfpy.views.dump.recording import order_warning

        print_lines(order_warning(recording).splitlines())
    print_lines(header_lines(recording, full=full, names=MachineNames(recording.data), of_pipes_features=not dumps_features))


def print_records(
    recording: Recording,
    hint: str = "",
    guests: GuestFiles | None = None,
    *,
    features: bool,
    full: bool,
    is_warned: bool,
    lines: DumpLines | None = None,
    round_text: str = "\n",
    counts_branches: bool = False,
) -> Counter[int]:
    """Print all records of the recording for -D, those of a pipe's features with their text; arguments and result are write_dump's.

    Args:
        features: whether to print the features of a recording in a pipe's format
        full: whether -I shows all of their text
    """
    from perfpy.views.dump.recording import HOST_ONLY, write_dump

    sys.stdout.flush()
    has_features = recording.data.is_pipe and features
    entries = write_dump(
        recording,
        sys.stdout.buffer,
        hint=hint,
        lines=lines,
        round_text=round_text,
        guests=guests or HOST_ONLY,
        features=feature_printer(recording, full=full, names=MachineNames(recording.data)) if has_features else None,
        is_warned=is_warned,
        counts_branches=counts_branches,
    )
    sys.stdout.buffer.flush()
    return entries


_CORE_PMU = "cpu"  # perf has a PMU of this name, for raw events, on every machine.


class MachineNames:
    """Event names of this machine, for the events of one recording.

    perf uses the machine that it runs on, not the recorded one, so texts that equal perf's do, too. If tracefs is unreadable, the names
    come from the recording.
    """

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
        from perfpy.kernel.sysfs import Tracefs

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


class _Names:
    """Names of this machine's PMUs, and of the tracepoints among these events."""

    def __init__(self, events: Sequence[OpenEvent]) -> None:
        from perfpy.kernel.sysfs import Sysfs

        self._pmus = {pmu.type: pmu.name for pmu in Sysfs().pmus}
        self._tracepoints = {event.attr.config: event.name for event in events}

    def pmu(self, type_number: int) -> str:
        return self._pmus.get(type_number, "")

    def tracepoint(self, number: int) -> str:
        return self._tracepoints.get(number, "")


def event_lines(events: Sequence[OpenEvent], option: str) -> str:
    """Return a line for each event (-g: each group). option is "", -v, -g or -F."""
    if option == "-g":
        return "\n".join(_group(event, events) for event in events if event.is_leader)
    names = _Names(events) if option == "-v" else None
    return "\n".join(event.name + _details(event, option, names) for event in events)


def _details(event: OpenEvent, option: str, names: _Names | None) -> str:
    attr = event.attr
    if option == "-F":
        return f": {'sample_freq' if attr.freq else 'sample_period'}={attr.sample_freq}"
    if names is None:
        return ""
    return ": " + ", ".join(f"{label}: {value}" for label, value in attr_fields(attr, names))


def _group(leader: OpenEvent, events: Sequence[OpenEvent]) -> str:
    members = ",".join(event.name for event in events if event.leader is leader)
    return f"{leader.event.group_name}{{{members}}}" if "," in members else members
