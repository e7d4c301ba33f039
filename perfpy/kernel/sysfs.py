"""PMUs in sysfs: type numbers, format fields, named events, the CPUs to open them on; and the tracepoints of tracefs.

Each file is read on first use. Layout: Documentation/ABI/testing/sysfs-bus-event_source-devices*.
"""

from __future__ import annotations

import os
from errno import EACCES, ENOENT

from perfpy.abi.cpu_list import parse_cpu_list
from perfpy.abi.light_types import NamedTuple, cached_property
from perfpy.errors import KernelRefusedError, UnsupportedError

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Final


_DEVICES: Final = "bus/event_source/devices"
_CHUNK: Final = 1 << 16
_CORE_NAMES: Final = ("cpu", "cpum_cf")
_ALIAS_FILES: Final = (".scale", ".unit", ".per-pkg", ".snapshot")


class Format(NamedTuple):
    """The place of a format term's value: bits `ranges` (low, high; lowest first) of the attr field `field`."""

    field: str
    ranges: tuple[tuple[int, int], ...]

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


class Alias(NamedTuple):
    """A named event of a PMU: its terms as text, and the unit of its count. `is_described`: perf's list describes it."""

    name: str
    terms: str
    scale: float = 1.0
    unit: str = ""
    per_pkg: bool = False
    snapshot: bool = False
    description: str = ""
    long_description: str = ""
    topic: str = ""
    deprecated: bool = False
    is_described: bool = False


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
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # half the time of open(), for hundreds of files
    except OSError:
        return None
    try:
        text = b""
        while chunk := os.read(fd, _CHUNK):
            text += chunk
    except OSError:
        return None
    finally:
        os.close(fd)
    return text.decode("utf-8", "replace").rstrip("\n")


def has_nmi_watchdog() -> bool:
    """Whether the kernel's watchdog for hung CPUs uses a counter of each CPU."""
    return read_text("/proc/sys/kernel/nmi_watchdog") == "1"


def module_text(name: str, root: str = "/sys") -> int:
    """Return the load address of a kernel module's .text; 0 if the kernel hides it."""
    try:
        return int(read_text(f"{root}/module/{name}/sections/.text") or "", 16)
    except ValueError:
        return 0


def names_in(folder: str) -> list[str]:
    """Return the sorted names in a folder; none if it is missing or unreadable."""
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
        self._read_formats: dict[str, Format | None] = {}
        self._first_alias = ""

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
        """The format terms in the folder's order, in which perf lists them, without malformed files."""
        try:
            names = os.listdir(f"{self.path}/format")
        except OSError:
            names = []
        return {name: layout for name in names if (layout := self._format(name))}

    def format(self, name: str) -> Format | None:
        """Return one format term without reading the others; None if the PMU does not have it."""
        return self.formats.get(name) if "formats" in self.__dict__ else self._format(name)

    def covers(self, field: str, value: int) -> bool:
        """Whether format terms have all bits of a field's value. The terms that were read so far usually do."""
        for is_complete in (False, True) if value else ():
            for layout in (self.formats if is_complete else self._read_formats).values():
                value &= ~layout.spread(-1) if layout and layout.field == field else -1
            if not value:
                return True
        return not value

    def _format(self, name: str) -> Format | None:
        if name not in self._read_formats:
            try:
                is_file = name.isprintable() and "/" not in name
                self._read_formats[name] = parse_format((is_file and read_text(f"{self.path}/format/{name}")) or "")
            except ValueError:
                self._read_formats[name] = None
        return self._read_formats[name]

    @cached_property
    def alias_names(self) -> list[str]:
        """The names of its events, sorted."""
        return [name for name in names_in(f"{self.path}/events") if not name.endswith(_ALIAS_FILES)]

    def has_alias(self, name: str) -> bool:
        """Whether sysfs has an event of exactly this name. The others are listed when a second name is looked up."""
        if "alias_names" in self.__dict__ or self._first_alias not in ("", name):
            return name in self.alias_names
        self._first_alias = name
        is_file = name.isprintable() and "/" not in name and not name.endswith(_ALIAS_FILES)
        return is_file and os.path.isfile(f"{self.path}/events/{name}")

    def alias(self, name: str) -> Alias | None:
        """Return the named event; None if sysfs does not have it."""
        if not self.has_alias(name):
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
        return self.number("nr_addr_filters") or 0

    def number(self, file: str, base: int = 10) -> int | None:
        """Return the number in a file below the PMU's folder, such as caps/mtc; None without a number."""
        try:
            return int(read_text(f"{self.path}/{file}") or "", base)
        except ValueError:
            return None

    def bits(self, term: str) -> int:
        """Return all bits of a format term in its field; 0 if the PMU does not have it."""
        layout = self.format(term)
        return layout.spread((1 << layout.width) - 1) if layout else 0

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
        pmus = [Pmu(name, os.path.join(folder, name)) for name in names_in(folder)]
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


class FrozenOnSmi:
    """Stops the core PMU's counters during system management interrupts while the context is active (Intel's freeze_on_smi).

    Raises UnsupportedError if the core PMU cannot, KernelRefusedError without permission.
    """

    def __init__(self, root: str = "/sys") -> None:
        self._path = os.path.join(root, _DEVICES, "cpu/freeze_on_smi")
        self._was_on = False

    def __enter__(self) -> FrozenOnSmi:
        setting = read_text(self._path)
        if setting is None:
            raise UnsupportedError(f"--smi-cost: this machine's core PMU has no {self._path}; it needs an Intel CPU with one kind of core")
        self._was_on = setting != "0"
        if not self._was_on:
            self._write("1")
        return self

    def __exit__(self, *exc: object) -> None:
        if not self._was_on:
            self._write("0")

    def _write(self, setting: str) -> None:
        try:
            with open(self._path, "w", encoding="ascii") as file:
                file.write(setting)
        except OSError as error:
            raise KernelRefusedError(f"--smi-cost: write to {self._path}", error.errno or 0, remedy="run it as root") from None


def split_number(name: str) -> tuple[str, int]:
    """Split a PMU's name into base and instance number: uncore_imc_3 -> (uncore_imc, 3); -1 without a number."""
    base, underscore, suffix = name.rpartition("_")
    if underscore and suffix.isdigit():
        return base, int(suffix)
    if underscore and len(suffix) > 2 and all(c in "0123456789abcdef" for c in suffix):
        return base, int(suffix, 16)
    return name, -1


# Sensors of hardware monitors: temperatures, fans, voltages and others in /sys/class/hwmon. Units:
# Documentation/hwmon/sysfs-interface.rst (millidegrees, millivolts, milliamperes, microwatts, microjoules, thousandths of a percent).

_MONITORS: Final = "class/hwmon"
_MILLI: Final = 1e-3
_MICRO: Final = 1e-6
#: prefix of a file name -> the quantity, its unit, and the factor from a reading to that unit
_KINDS: Final = {
    "curr": ("Current", "A", _MILLI),
    "energy": ("Cumulative energy use", "J", _MICRO),
    "fan": ("Fan", "rpm", 1.0),
    "humidity": ("Humidity", "%", _MILLI),
    "in": ("Voltage", "V", _MILLI),
    "power": ("Power use", "W", _MICRO),
    "temp": ("Temperature", "'C", _MILLI),
}
_BOUNDS: Final = ("average", "crit", "emergency", "lcrit", "max", "min", "rated_max", "rated_min")
_INPUT: Final = "_input"


class Sensor(NamedTuple):
    """One sensor.

    Attributes:
        folder, name: such as hwmon2, temp1
        chip: the monitor's name
        alias: the sensor's label as an event name, or ""
    """

    folder: str
    name: str
    chip: str
    alias: str
    description: str
    unit: str
    scale: float

    @property
    def pmu(self) -> str:
        """The monitor's name in perf."""
        return f"hwmon_{self.chip}"

    @property
    def location(self) -> str:
        """The sensor's path below /sys/class/hwmon."""
        return f"{self.folder}/{self.name}/"

    def is_of(self, monitor: str) -> bool:
        """Whether `monitor` is a name of this sensor's monitor."""
        return monitor in (self.pmu, self.folder)


def sensors(root: str = "/sys") -> list[Sensor]:
    """Return all sensors, by monitor and name."""
    monitors = os.path.join(root, _MONITORS)
    try:
        folders = os.listdir(monitors)
    except OSError:
        return []
    unsorted = [sensor for folder in folders for sensor in _of_monitor(monitors, folder)]
    return sorted(unsorted, key=lambda sensor: (sensor.pmu, sensor.alias or sensor.name, sensor.folder))


def reading(location: str, root: str = "/sys") -> int:
    """Return a sensor's reading; 0 if it has none."""
    return _number(os.path.join(root, _MONITORS, location.rstrip("/") + _INPUT)) or 0


def _of_monitor(monitors: str, folder: str) -> Iterator[Sensor]:
    path = os.path.join(monitors, folder)
    chip = _as_name(read_text(os.path.join(path, "name")) or "")
    try:
        files = os.listdir(path)
    except OSError:
        return
    for file in files if chip else ():
        name = file.removesuffix(_INPUT)
        kind = _KINDS.get(name.rstrip("0123456789"))
        if kind and name != file and name[-1].isdigit():
            quantity, unit, scale = kind
            label = read_text(os.path.join(path, f"{name}_label")) or ""
            alias = f"{name.rstrip('0123456789')}_{_as_name(label)}" if label else ""
            bounds = [
                f"{bound}={value * scale:g}{unit}"
                for bound in _BOUNDS
                if (value := _number(os.path.join(path, f"{name}_{bound}"))) is not None
            ]
            from perfpy.untrusted.text import one_line  # only sensors need it

            text = f"{quantity} in unit {chip} named {one_line(label or name)}."
            yield Sensor(os.path.basename(path), name, chip, alias, " ".join([text, *bounds]), unit, scale)


def _as_name(text: str) -> str:
    """Return a label in the characters of event names."""
    return "".join(char.lower() if char.isascii() and char.isalnum() else "_" for char in text)


def _number(path: str) -> int | None:
    try:
        return int(read_text(path) or "")
    except ValueError:
        return None


# Tracepoints in tracefs: systems, events, ids and formats.
#
# An existing but unreadable folder raises KernelRefusedError; a missing tracepoint does not. Layout: Documentation/trace/events.rst.


#: the mount points of tracefs, the preferred one first
MOUNT_POINTS: Final = ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")


#: the mount points that this process mounted
mounted_here: Final[list[str]] = []


def mount_as_root(path: str) -> None:
    """Mount tracefs if this process is root's, as perf does. Raises OSError."""
    if os.geteuid():
        return
    import ctypes  # few machines need it

    if ctypes.CDLL(None, use_errno=True).mount(b"nodev", os.fsencode(path), b"tracefs", 0, None):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    mounted_here.append(path)


class Tracefs:
    """The tracepoints of one machine.

    Args:
        mount_points: paths to try; the first with events/ is used
        mount: called with the first path if tracefs is not mounted, as on a machine that has just started
    """

    def __init__(self, mount_points: Sequence[str] = MOUNT_POINTS, mount: Callable[[str], None] | None = None) -> None:
        self.mount_points = tuple(mount_points)
        self._mount = mount

    @cached_property
    def root(self) -> str:
        """The mount point of tracefs. Raises KernelRefusedError if it is not mounted or may not be entered."""
        refused = None
        for path in self.mount_points:
            try:
                os.stat(f"{path}/events")
                return path
            except PermissionError:
                refused = refused or path
            except OSError:
                continue
        if refused:
            raise _no_permission(refused)
        if self._mounts():
            return self.mount_points[0]
        raise KernelRefusedError(
            "tracefs",
            ENOENT,
            cause="tracefs is not mounted, so no tracepoint can be found",
            remedy=f"mount -t tracefs nodev {self.mount_points[0]}",
        )

    def _mounts(self) -> bool:
        """Mount tracefs if possible, and return whether it is mounted now."""
        if self._mount is None or not os.path.isdir(self.mount_points[0]):
            return False
        try:
            self._mount(self.mount_points[0])
        except OSError:  # a container lacks the permission
            return False
        return os.path.isdir(f"{self.mount_points[0]}/events")

    @cached_property
    def systems(self) -> list[str]:
        """The systems (sched, block, syscalls ...) in the kernel's order. Raises KernelRefusedError."""
        return self._folders(f"{self.root}/events")

    def events(self, system: str) -> list[str]:
        """Return a system's tracepoints in the kernel's order; [] for an unknown system. Raises KernelRefusedError."""
        try:
            return self._folders(f"{self.root}/events/{system}")
        except FileNotFoundError:
            return []

    def event_id(self, system: str, event: str) -> int | None:
        """Return the tracepoint's id (attr.config); None for an unknown tracepoint. Raises KernelRefusedError."""
        text = self._read(f"{self.root}/events/{system}/{event}/id")
        try:
            return None if text is None else int(text)
        except ValueError:
            return None

    def format(self, system: str, event: str) -> str | None:
        """Return the text of the tracepoint's format file; None for an unknown tracepoint. Raises KernelRefusedError."""
        return self._read(f"{self.root}/events/{system}/{event}/format")

    def _read(self, path: str) -> str | None:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # perfpy list reads thousands, and open() would take 3 times as long
        except PermissionError:
            raise _no_permission(path) from None
        except OSError:
            return None
        try:
            text = b""
            while piece := os.read(descriptor, 1 << 16):
                text += piece
        except OSError:
            return None
        finally:
            os.close(descriptor)
        return text.decode("utf-8", "replace")

    def _folders(self, path: str) -> list[str]:
        try:
            with os.scandir(path) as entries:
                return [entry.name for entry in entries if entry.is_dir()]
        except PermissionError:
            raise _no_permission(path) from None


def _no_permission(path: str) -> KernelRefusedError:
    return KernelRefusedError(
        "tracefs",
        EACCES,
        cause=f"no permission to read {path}",
        remedy="run as root, or let your group read tracefs: mount -o remount,mode=755,gid=GROUP " + MOUNT_POINTS[0],
    )
