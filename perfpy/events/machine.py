"""Machine: where events come from: sysfs, tracefs, JSON event files, the makers' tables.

What enters: roots of the file systems (tests bring their own). What leaves:
the PMUs with all their named events, and the tracepoints. Nothing is read
before it is asked for.
"""

from __future__ import annotations

import os
from functools import cached_property

from perfpy.abi.flags import PerfType
from perfpy.errors import UsageError
from perfpy.kernel.sysfs import Alias, Pmu, Sysfs, read_text, split_number
from perfpy.kernel.tracefs import Tracefs, mount_as_root

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

    from perfpy.events.event_files import EventFiles, MetricDefinition
    from perfpy.events.vendor_table import VendorTable
    from perfpy.kernel.hwmon import Sensor

#: names a folder of JSON event files for all commands and the API
EVENT_FILES_VARIABLE: Final = "PERFPY_EVENT_FILES"

_UNCORE: Final = "uncore_"


class Machine:
    """One machine's events.

    sysfs, tracefs: where to look; event_files: named events from JSON files,
    or None; identity: the CPU's, by which its maker's table of events is
    found (""; none is looked for); can_open: tells whether (type, config) can be opened here (None:
    taken for granted).
    """

    def __init__(
        self,
        sysfs: Sysfs | None = None,
        tracefs: Tracefs | None = None,
        event_files: EventFiles | None = None,
        can_open: Callable[[int, int], bool] | None = None,
        identity: Callable[[], str] = str,
        cores: str = "",
        only: str = "",
    ) -> None:
        """cores: the PMU of the one kind of core on which generic events are meant; "": of all kinds. only: of several PMUs that are

        meant, the one of this name. Raises UsageError.
        """
        self.sysfs = sysfs or Sysfs()
        self.tracefs = tracefs or Tracefs(mount=mount_as_root)
        self.event_files = event_files
        self._can_open = can_open
        self._identity = identity
        self._cores = cores
        self._only = only
        if only and not any(_is_meant(pmu.name, only) for pmu in self.pmus):
            raise UsageError(self._no_pmu(only))
        if cores and not self._chosen():
            raise UsageError(self._no_pmu(cores))

    @cached_property
    def core_pmus(self) -> list[Pmu]:
        """The CPUs' own PMUs; a stand-in named `cpu` for raw events where sysfs shows none."""
        return self.sysfs.core_pmus or [Pmu("cpu", "", PerfType.RAW)]

    @property
    def chosen_cores(self) -> list[Pmu]:
        """Of the core PMUs those on which generic events are meant."""
        chosen = {pmu.name for pmu in self._chosen()} if self._cores else ()
        return [pmu for pmu in self.core_pmus if pmu.name in chosen] or self.core_pmus

    def _chosen(self) -> list[Pmu]:
        """The PMUs that are called as was said, or so without `cpu_`."""
        return [pmu for pmu in self.pmus if self._cores in (pmu.name, pmu.name.removeprefix("cpu_"))]

    @cached_property
    def pmus(self) -> list[Pmu]:
        """Every PMU, the stand-in included."""
        return self.sysfs.pmus if self.sysfs.core_pmus else self.core_pmus + self.sysfs.pmus

    @cached_property
    def named_events(self) -> tuple[EventFiles | VendorTable, ...]:
        """Who names events besides the kernel: the user's files, then the maker's table, where the CPU has a PMU to count them."""
        table = None
        if self.sysfs.core_pmus and (identity := self._identity()):
            from perfpy.events.vendor_table import table_of  # only where events are asked for that the kernel does not name

            table = table_of(identity)
        return tuple(source for source in (self.event_files, table) if source is not None)

    @property
    def metrics(self) -> list[MetricDefinition]:
        """All metrics, by name: the user's before the maker's; a name may have one formula for each kind of core."""
        found: dict[str, list[MetricDefinition]] = {}
        for source in self.named_events:
            known = set(found)
            for metric in source.metrics:
                if metric.name.lower() not in known:
                    found.setdefault(metric.name.lower(), []).append(metric)
        return [metric for name in sorted(found) for metric in found[name]]

    @property
    def is_hybrid(self) -> bool:
        """True when the CPUs are of several kinds, each with a PMU of its own."""
        return len(self.core_pmus) > 1

    @cached_property
    def has_ebb(self) -> bool:
        """Whether bit 63 of a raw event makes its overflows branch into the program: on POWER8 and later."""
        names = [read_text(f"{pmu.path}/caps/pmu_name") or "" for pmu in self.core_pmus]
        if not any(names) and not os.uname().machine.startswith("ppc"):
            return False
        from perfpy.events.ebb import means_ebb

        return any(map(means_ebb, names))

    @cached_property
    def has_extended_types(self) -> bool:
        """True when the kernel takes a core PMU's type in the high half of a generic event's config."""
        if not self.is_hybrid:
            return False
        return all(self.can_open(PerfType.HARDWARE, (pmu.type or 0) << 32) for pmu in self.core_pmus)

    def can_open(self, event_type: int, config: int) -> bool:
        """Whether the kernel opens such an event; True where nobody can ask it."""
        return self._can_open is None or self._can_open(event_type, config)

    def matching_pmus(self, name: str) -> list[Pmu]:
        """The PMUs that a user means by `name`.

        Its very name; a pattern (* ? [...]); the name without its number
        (uncore_imc for uncore_imc_0, ...); each also without `uncore_`.
        """
        exact = [pmu for pmu in self.pmus if pmu.name == name]
        return exact or self._chosen_of([pmu for pmu in self.pmus if _is_meant(pmu.name, name)])

    def alias(self, pmu: Pmu, name: str) -> Alias | None:
        """The PMU's named event, whatever the case of its letters; sysfs goes before files and tables."""
        found = pmu.alias(name)
        if found is None:
            folded = name.casefold()
            for other in pmu.alias_names:
                if other.casefold() == folded:
                    return pmu.alias(other)
            found = next(filter(None, (source.alias(pmu, name) for source in self.named_events)), None)
        return found

    def alias_names(self, pmu: Pmu) -> list[str]:
        """The names of all of the PMU's events, sorted."""
        names = set(pmu.alias_names)
        for source in self.named_events:
            names.update(source.names(pmu))
        return sorted(names)

    def pmus_with_event(self, name: str) -> list[Pmu]:
        """The PMUs that have an event of that name."""
        return self._chosen_of([pmu for pmu in self.pmus if self.alias(pmu, name) is not None])

    def _chosen_of(self, pmus: list[Pmu]) -> list[Pmu]:
        """Of several PMUs that a name means those that were said."""
        return [pmu for pmu in pmus if _is_meant(pmu.name, self._only)] if self._only and len(pmus) > 1 else pmus

    def sensors(self, monitor: str, name: str) -> list[Sensor]:
        """The sensors of that name or label; of one monitor, or ("") of any."""
        return [one for one in self.all_sensors if name.lower() in (one.name, one.alias) and (not monitor or one.is_of(monitor))]

    @cached_property
    def all_sensors(self) -> list[Sensor]:
        """What hardware monitors tell, which no PMU counts."""
        from perfpy.kernel.hwmon import sensors  # only for names that no PMU has, and for lists

        return sensors(self.sysfs.root)

    def _no_pmu(self, name: str) -> str:
        return f"no PMU of this machine is called {name!r}; there are {', '.join(pmu.name for pmu in self.pmus)}"


def _is_meant(pmu_name: str, asked: str) -> bool:
    from fnmatch import fnmatchcase  # only where no PMU bears the very name

    names = [pmu_name]
    if pmu_name.startswith(_UNCORE):
        names.append(pmu_name[len(_UNCORE) :])
    asked = asked.removeprefix(_UNCORE)
    return any(fnmatchcase(name, asked) or split_number(name)[0] == asked for name in names)


def this_machine(event_files: str = "", *, cores: str = "", only: str = "") -> Machine:
    """The machine that perfpy runs on.

    cores: the kind of core that generic events are meant for. only: of several PMUs that are meant, the one of this name.
    event_files: a folder of JSON event files; default: the one that the
    environment variable PERFPY_EVENT_FILES names, if any.
    """
    files = None
    folder = event_files or os.environ.get(EVENT_FILES_VARIABLE, "")
    if folder:
        from perfpy.events.event_files import EventFiles  # json and its files only for those who have some

        files = EventFiles(folder)
    return Machine(event_files=files, can_open=_can_open, identity=this_identity, cores=cores, only=only)


def this_identity() -> str:
    """The CPU's; PERF_CPUID says another, as it does for perf."""
    from perfpy.kernel.cpu_identity import cpu_identity

    return os.environ.get("PERF_CPUID") or cpu_identity()


def _can_open(event_type: int, config: int) -> bool:
    """Try to open a disabled event on the calling task."""
    from perfpy.abi.attr import EventAttr
    from perfpy.errors import KernelRefused
    from perfpy.kernel import this_kernel as kernel

    attr = EventAttr(type=event_type, config=config, disabled=1)
    for attempt in (attr, attr.copy(exclude_kernel=1, exclude_hv=1)):
        try:
            kernel().close(kernel().perf_event_open(attempt, 0, -1))
            return True
        except KernelRefused:
            continue
    return False
