"""Machine: the sources of events: sysfs, tracefs, JSON event files, vendor tables. Each is read on first use."""

from __future__ import annotations

import os

from perfpy.abi.flags import PerfType
from perfpy.abi.light_types import cached_property
from perfpy.errors import UsageError
from perfpy.kernel.sysfs import Alias, Pmu, Sysfs, Tracefs, mount_as_root, read_text, split_number

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, Final

    from perfpy.events.vendor import EventFiles
    from perfpy.events.vendor_tables import MetricDefinition, VendorTable
    from perfpy.kernel.sysfs import Sensor


#: environment variable with a folder of JSON event files, for all commands and the API
EVENT_FILES_VARIABLE: Final = "PERFPY_EVENT_FILES"

_UNCORE: Final = "uncore_"
_PATTERN_CHARACTERS: Final = frozenset("*?[")


class Machine:
    """The events of one machine.

    Args:
        event_files: named events from JSON files, or None
        can_open: tests whether (type, config) can be opened here; None assumes that it can
        identity: returns the CPU's identity for its vendor's table; "" for no table
        core_identity: returns the identity of the first online CPU of some, where kinds of cores have their own; None if all have one
        cores: the PMU of the kind of core that generic events mean; "" for all kinds
        only: the PMU to use if an event matches several

    Raises UsageError for unknown PMUs.
    """

    def __init__(
        self,
        sysfs: Sysfs | None = None,
        tracefs: Tracefs | None = None,
        event_files: EventFiles | None = None,
        can_open: Callable[[int, int], bool] | None = None,
        identity: Callable[[], str] = str,
        core_identity: Callable[[Iterable[int]], str] | None = None,
        cores: str = "",
        only: str = "",
    ) -> None:
        """Set up the machine."""
        self.sysfs = sysfs or Sysfs()
        self.tracefs = tracefs or Tracefs(mount=mount_as_root)
        self.event_files = event_files
        self._can_open = can_open
        self._identity = identity
        self._core_identity = core_identity
        self._cores = cores
        self._only = only
        if only and not any(_is_meant(pmu.name, only) for pmu in self.pmus):
            raise UsageError(self._no_pmu(only))
        if cores and not self._chosen():
            raise UsageError(self._no_pmu(cores))

    @cached_property
    def identity(self) -> str:
        """The CPU's identity for its vendor's table; "" for none."""
        return self._identity()

    @cached_property
    def core_pmus(self) -> list[Pmu]:
        """The CPUs' own PMUs; a stand-in named `cpu` for raw events if sysfs has none."""
        return self.sysfs.core_pmus or [Pmu("cpu", "", PerfType.RAW)]

    @property
    def chosen_cores(self) -> list[Pmu]:
        """The core PMUs that generic events mean."""
        chosen = {pmu.name for pmu in self._chosen()} if self._cores else ()
        return [pmu for pmu in self.core_pmus if pmu.name in chosen] or self.core_pmus

    def _chosen(self) -> list[Pmu]:
        """Return the PMUs with the requested name, with or without `cpu_`."""
        return [pmu for pmu in self.pmus if self._cores in (pmu.name, pmu.name.removeprefix("cpu_"))]

    @cached_property
    def pmus(self) -> list[Pmu]:
        """Every PMU, the stand-in included."""
        return self.sysfs.pmus if self.sysfs.core_pmus else self.core_pmus + self.sysfs.pmus

    @cached_property
    def named_events(self) -> tuple[EventFiles | VendorTable, ...]:
        """The sources of events besides the kernel: the user's files, then the vendor's table if the CPU has a PMU."""
        tables = self._tables() if self.sysfs.core_pmus and self.identity else ()
        return tuple(source for source in (self.event_files, *tables) if source is not None)

    def _tables(self) -> list[VendorTable | None]:
        """Return the vendor's table, or one for each kind of core if they have identities of their own, as Arm's."""
        from perfpy.events.vendor_tables import table_of  # only for events that the kernel does not name

        identities: dict[str, str] = {}
        if self.is_hybrid and self._core_identity:
            identities = {pmu.name: self._core_identity(pmu.cpus or (0,)) for pmu in self.core_pmus}
        if len(set(identities.values())) < 2:
            return [table_of(self.identity)]
        return [table_of(identity, pmu) for pmu, identity in identities.items()]

    @property
    def metric_table(self) -> VendorTable | None:
        """The table in which each metric of the machine can be looked up by name; None if they are in several sources."""
        if len(self.named_events) != 1 or self.event_files:
            return None
        table: Any = self.named_events[0]  # no file of events, as there are none
        return table if table.is_searchable else None

    @cached_property
    def metrics(self) -> list[MetricDefinition]:
        """All metrics by name, the user's before the vendor's. A name may have one formula for each kind of core."""
        if len(self.named_events) == 1 and not self.event_files:
            return self.named_events[0].metrics  # a vendor's table is sorted
        by_name: dict[str, list[MetricDefinition]] = {}
        for source in self.named_events:
            known = {(name, metric.pmu) for name, metrics in by_name.items() for metric in metrics}
            for metric in source.metrics:
                name = metric.name.lower()
                if known.isdisjoint(((name, ""), (name, metric.pmu))):
                    by_name.setdefault(name, []).append(metric)
        return [metric for name in sorted(by_name) for metric in by_name[name]]

    @property
    def is_hybrid(self) -> bool:
        """Whether the CPUs are of several kinds, each with its own PMU."""
        return len(self.core_pmus) > 1

    @cached_property
    def has_ebb(self) -> bool:
        """Whether bit 63 of a raw event means an event-based branch: on POWER8 and later."""
        names = [read_text(f"{pmu.path}/caps/pmu_name") or "" for pmu in self.core_pmus]
        if not any(names) and not os.uname().machine.startswith("ppc"):
            return False
        from perfpy.events.ebb import means_ebb

        return any(map(means_ebb, names))

    @cached_property
    def has_extended_types(self) -> bool:
        """Whether the kernel accepts a core PMU's type in the high half of a generic event's config."""
        if not self.is_hybrid:
            return False
        return all(self.can_open(PerfType.HARDWARE, (pmu.type or 0) << 32) for pmu in self.core_pmus)

    def can_open(self, event_type: int, config: int) -> bool:
        """Whether the kernel opens such an event; True if it cannot be tested."""
        return self._can_open is None or self._can_open(event_type, config)

    def matching_pmus(self, name: str) -> list[Pmu]:
        """Return the PMUs that `name` means: the exact name, a pattern (* ? [...]), or the name without its number (uncore_imc for
        uncore_imc_0, ...); each also without `uncore_`.
        """
        if name.removeprefix(_UNCORE) not in self._pmu_names and _PATTERN_CHARACTERS.isdisjoint(name):
            return []  # most events of metrics, which are looked up as PMUs first
        exact = [pmu for pmu in self.pmus if pmu.name == name]
        return exact or self._chosen_of([pmu for pmu in self.pmus if _is_meant(pmu.name, name)])

    @cached_property
    def _pmu_names(self) -> frozenset[str]:
        """The names that mean a PMU or several boxes, without `uncore_`."""
        names = [name for pmu in self.pmus for name in (pmu.name, pmu.name.removeprefix(_UNCORE))]
        return frozenset(names).union(split_number(name)[0] for name in names)

    def alias(self, pmu: Pmu, name: str) -> Alias | None:
        """Return the PMU's named event; sysfs precedes files and tables, and a name in sysfs may be in another case."""
        return self._alias(pmu, name) or _alias_in_any_case(pmu, name)

    def _alias(self, pmu: Pmu, name: str) -> Alias | None:
        return pmu.alias(name) or next(filter(None, (source.alias(pmu, name) for source in self.named_events)), None)

    def aliases(self, pmu: Pmu) -> list[Alias]:
        """Return all of the PMU's named events by name; sysfs precedes files and tables."""
        if not pmu.alias_names and len(self.named_events) == 1:
            return self.named_events[0].aliases(pmu)  # one list for all boxes of an uncore PMU
        aliases = {name.lower(): alias for name in pmu.alias_names if (alias := pmu.alias(name))}
        for source in self.named_events:
            for alias in source.aliases(pmu):
                aliases.setdefault(alias.name, alias)
        return sorted(aliases.values(), key=lambda alias: alias.name)

    def alias_names(self, pmu: Pmu) -> list[str]:
        """Return the names of all of the PMU's events, sorted."""
        names = set(pmu.alias_names)
        for source in self.named_events:
            names.update(source.names(pmu))
        return sorted(names)

    def pmus_with_event(self, name: str) -> list[Pmu]:
        """Return the PMUs that have an event of this name."""
        elsewhere = not all(source.is_of_cores(name) for source in self.named_events)
        pmus = [pmu for pmu in self.pmus if (self._alias(pmu, name) if elsewhere or pmu.is_core else pmu.alias(name))]
        return self._chosen_of(pmus or [pmu for pmu in self.pmus if _alias_in_any_case(pmu, name)])  # listing all events takes longer

    def _chosen_of(self, pmus: list[Pmu]) -> list[Pmu]:
        """Return the requested PMU if a name means several."""
        return [pmu for pmu in pmus if _is_meant(pmu.name, self._only)] if self._only and len(pmus) > 1 else pmus

    def sensors(self, monitor: str, name: str) -> list[Sensor]:
        """Return the sensors of this name or label, of one monitor or ("") of any."""
        return [one for one in self.all_sensors if name.lower() in (one.name, one.alias) and (not monitor or one.is_of(monitor))]

    @cached_property
    def all_sensors(self) -> list[Sensor]:
        """The sensors of hardware monitors, which no PMU counts."""
        from perfpy.kernel.sysfs import sensors  # only for names without a PMU, and for lists

        return sensors(self.sysfs.root)

    def _no_pmu(self, name: str) -> str:
        return f"this machine has no PMU {name!r}; available: {', '.join(pmu.name for pmu in self.pmus)}"


def _alias_in_any_case(pmu: Pmu, name: str) -> Alias | None:
    folded = name.casefold()
    return next((pmu.alias(other) for other in pmu.alias_names if other.casefold() == folded), None)


def _is_meant(pmu_name: str, requested: str) -> bool:
    names = [pmu_name]
    if pmu_name.startswith(_UNCORE):
        names.append(pmu_name[len(_UNCORE) :])
    requested = requested.removeprefix(_UNCORE)
    if requested in names or any(split_number(name)[0] == requested for name in names):
        return True
    if _PATTERN_CHARACTERS.isdisjoint(requested):
        return False
    from fnmatch import fnmatchcase  # loads re, which takes longer than all the rest

    return any(fnmatchcase(name, requested) for name in names)


def this_machine(event_files: str = "", *, cores: str = "", only: str = "") -> Machine:
    """Return the machine that perfpy runs on; see Machine. `event_files` is a folder (default: PERFPY_EVENT_FILES)."""
    files = None
    folder = event_files or os.environ.get(EVENT_FILES_VARIABLE, "")
    if folder:
        from perfpy.events.vendor import EventFiles  # only for users with event files

        files = EventFiles(folder)
    of_core = this_identity if os.uname().machine == "aarch64" else None
    return Machine(event_files=files, can_open=_can_open, identity=this_identity, core_identity=of_core, cores=cores, only=only)


def this_identity(cpus: Iterable[int] = (0,)) -> str:
    """Return the identity of the CPU whose event tables are used: of the first of these that is online."""
    from perfpy.kernel.cpus import event_tables_identity  # only for named events

    return event_tables_identity(cpus)


def _can_open(event_type: int, config: int) -> bool:
    """Try to open a disabled event on the calling task."""
    from errno import EACCES, EPERM

    from perfpy.abi.attr import EventAttr
    from perfpy.errors import KernelRefusedError
    from perfpy.kernel import this_kernel as kernel

    attr, opener = EventAttr(type=event_type, config=config, disabled=1), kernel()
    while True:
        try:
            opener.close(opener.perf_event_open(attr, 0, -1))
            return True
        except KernelRefusedError as refusal:
            if refusal.errno not in (EACCES, EPERM) or attr.exclude_kernel:  # leaving the kernel out helps users without access to it only
                return False
            attr = attr.copy(exclude_kernel=1, exclude_hv=1)


# Find near matches of an unknown name, at most three, nearest first. Only errors and searches load this module.


def nearest(name: str, names: Iterable[str], most: int = 3) -> list[str]:
    """Return the candidates that resemble `name`: a letter wrong, missing, doubled or swapped, or its words contained in them."""
    import difflib  # 3 ms, only after a mistake

    folded: dict[str, str] = {}
    for candidate in names:
        folded.setdefault(candidate.casefold(), candidate)
    target = name.casefold()
    cutoff = 0.6 if len(target) < 5 else 0.72  # one wrong letter of three is a third of the word
    matches = difflib.get_close_matches(target, folded, n=most, cutoff=cutoff)
    matches += [candidate for candidate in folded if target in candidate and candidate not in matches and len(target) > 2]
    return [folded[candidate] for candidate in matches[:most]]


def nearest_events(name: str, machine: Machine, *, as_pmu: bool = False) -> list[str]:
    """Return known events that resemble `name`; with `as_pmu`, PMUs, written `pmu/`."""
    if as_pmu:
        pmus = [pmu.name for pmu in machine.pmus]
        pmus += [pmu.removeprefix("uncore_") for pmu in pmus]
        return [f"{pmu}/" for pmu in nearest(name, pmus)]
    from perfpy.events.event import generic_names

    names = generic_names()
    for pmu in machine.pmus:
        names += machine.alias_names(pmu)
    return nearest(name, names)
