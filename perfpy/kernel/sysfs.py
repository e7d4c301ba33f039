"""PMUs in sysfs: type numbers, format fields, named events, the CPUs to open them on.

Each file is read on first use. Layout: Documentation/ABI/testing/sysfs-bus-event_source-devices*.
"""

from __future__ import annotations

import os

from perfpy.abi.cpu_list import parse_cpu_list
from perfpy.abi.startup import cached_property

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from typing import Final

_DEVICES: Final = "bus/event_source/devices"
_CORE_NAMES: Final = ("cpu", "cpum_cf")
_ALIAS_FILES: Final = (".scale", ".unit", ".per-pkg", ".snapshot")


class Format:
    """The place of a format term's value: bits `ranges` (low, high; lowest first) of the attr field `field`."""

    __slots__ = ("field", "ranges")

    def __init__(self, field: str, ranges: tuple[tuple[int, int], ...]) -> None:
        self.field = field
        self.ranges = ranges

    @property
    def width(self) -> int:
        """The number of bits of the value."""
        return sum(high - low + 1 for low, high in self.ranges)

    def spread(self, value: int) -> int:
        """Return the value's bits at their places in the field. A value wider than `width` loses its high bits."""
        word = 0
        for low, high in self.ranges:
            bits = high - low + 1
            word |= (value & ((1 << bits) - 1)) << low
            value >>= bits
        return word


class Alias:
    """A named event of a PMU: its terms as text, and the unit of its count."""

    __slots__ = ("deprecated", "description", "long_description", "name", "per_pkg", "scale", "snapshot", "terms", "topic", "unit")

    def __init__(
        self,
        name: str,
        terms: str,
        scale: float = 1.0,
        unit: str = "",
        per_pkg: bool = False,
        snapshot: bool = False,
        description: str = "",
        long_description: str = "",
        topic: str = "",
        deprecated: bool = False,
    ) -> None:
        self.name = name
        self.terms = terms
        self.scale = scale
        self.unit = unit
        self.per_pkg = per_pkg
        self.snapshot = snapshot
        self.description = description
        self.long_description = long_description
        self.topic = topic
        self.deprecated = deprecated


def parse_format(text: str) -> Format:
    """Parse one file of format/, such as "config1:0-7,32-35". Raises ValueError."""
    field, _, bits = text.strip().partition(":")
    if field not in ("config", "config1", "config2", "config3", "config4"):
        raise ValueError(f"format in the unknown field '{field}'")
    ranges = []
    for part in bits.split(",") if bits else ["0-63"]:
        low, dash, high = part.partition("-")
        ranges.append((int(low), int(high) if dash else int(low)))
    return Format(field, tuple(ranges))


def read_text(path: str) -> str | None:
    """Return a small file's text without its final newline; None if it is missing or unreadable."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().rstrip("\n")
    except OSError:
        return None


def module_text(name: str, root: str = "/sys") -> int:
    """Return the load address of a kernel module's .text; 0 if the kernel hides it."""
    try:
        return int(read_text(f"{root}/module/{name}/sections/.text") or "", 16)
    except ValueError:
        return 0


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


class Pmu:
    """One folder of /sys/bus/event_source/devices. `type` is perf_event_attr.type; None if sysfs lacks it."""

    def __init__(self, name: str, path: str, type_number: int | None = None) -> None:
        self.name = name
        self.path = path
        self._type = type_number

    @cached_property
    def type(self) -> int | None:
        """perf_event_attr.type of its events."""
        if self._type is not None:
            return self._type
        try:
            return int(read_text(f"{self.path}/type") or "")
        except ValueError:
            return None

    @cached_property
    def formats(self) -> dict[str, Format]:
        """The format terms by name, without malformed files."""
        formats = {}
        for name in _names(f"{self.path}/format"):
            try:
                formats[name] = parse_format(read_text(f"{self.path}/format/{name}") or "")
            except ValueError:
                continue
        return formats

    @cached_property
    def alias_names(self) -> list[str]:
        """The names of its events, sorted."""
        return [name for name in _names(f"{self.path}/events") if not name.endswith(_ALIAS_FILES)]

    def alias(self, name: str) -> Alias | None:
        """Return the named event; None if sysfs does not have it."""
        if name not in self.alias_names:
            return None
        base = f"{self.path}/events/{name}"
        terms = read_text(base)
        if terms is None:
            return None
        try:
            scale = float(read_text(base + ".scale") or "1")
        except ValueError:
            scale = 1.0
        return Alias(
            name,
            terms,
            scale,
            read_text(base + ".unit") or "",
            os.path.exists(base + ".per-pkg"),
            os.path.exists(base + ".snapshot"),
        )

    @cached_property
    def cpus(self) -> tuple[int, ...] | None:
        """The CPUs to open its events on: `cpumask` of an uncore PMU, `cpus` of a core PMU; None means any."""
        for name in ("cpumask", "cpus"):
            text = read_text(f"{self.path}/{name}")
            if text:
                try:
                    return parse_cpu_list(text)
                except ValueError:
                    return None
        return None

    @cached_property
    def is_core(self) -> bool:
        """Whether this is a CPU's own PMU, which counts cycles; hybrid machines have several."""
        return self.name in _CORE_NAMES or os.path.exists(f"{self.path}/cpus")

    @property
    def address_filters(self) -> int:
        """The number of address filters (hardware tracers); 0 for none."""
        text = read_text(f"{self.path}/nr_addr_filters") or "0"
        return int(text) if text.isdigit() else 0

    def __repr__(self) -> str:
        return f"<Pmu {self.name}>"


class Sysfs:
    """The PMUs of one machine."""

    def __init__(self, root: str = "/sys") -> None:
        self.root = root

    @cached_property
    def pmus(self) -> list[Pmu]:
        """All PMUs: core PMUs first, then by name; numbered ones by number."""
        folder = os.path.join(self.root, _DEVICES)
        pmus = [Pmu(name, os.path.join(folder, name)) for name in _names(folder)]
        return sorted(pmus, key=lambda pmu: (not pmu.is_core, *split_number(pmu.name)))

    @cached_property
    def core_pmus(self) -> list[Pmu]:
        """The CPUs' own PMUs: none in most virtual machines, two on hybrid CPUs."""
        return [pmu for pmu in self.pmus if pmu.is_core]

    def pmu(self, name: str) -> Pmu | None:
        """Return the PMU of exactly this name."""
        for pmu in self.pmus:
            if pmu.name == name:
                return pmu
        return None


def split_number(name: str) -> tuple[str, int]:
    """Split a PMU's name into base and instance number: uncore_imc_3 -> (uncore_imc, 3); -1 without a number."""
    base, underscore, suffix = name.rpartition("_")
    if underscore and suffix.isdigit():
        return base, int(suffix)
    if underscore and len(suffix) > 2 and all(c in "0123456789abcdef" for c in suffix):
        return base, int(suffix, 16)
    return name, -1
