"""Sensors of hardware monitors: temperatures, fans, voltages and others in /sys/class/hwmon.

Units: Documentation/hwmon/sysfs-interface.rst (millidegrees, millivolts, milliamperes, microwatts, microjoules, thousandths of a percent).
"""

from __future__ import annotations

import os

from perfpy.kernel.sysfs import read_text
from perfpy.untrusted.text import one_line

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Final

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


class Sensor:
    """One sensor.

    Attributes:
        folder, name: such as hwmon2, temp1
        chip: the monitor's name
        alias: the sensor's label as an event name, or ""
    """

    __slots__ = ("alias", "chip", "description", "folder", "name", "scale", "unit")

    def __init__(self, folder: str, name: str, chip: str, alias: str, description: str, unit: str, scale: float) -> None:
        self.folder = folder
        self.name = name
        self.chip = chip
        self.alias = alias
        self.description = description
        self.unit = unit
        self.scale = scale

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
            yield _sensor(path, name, chip, kind)


def _sensor(path: str, name: str, chip: str, kind: tuple[str, str, float]) -> Sensor:
    quantity, unit, scale = kind
    label = read_text(os.path.join(path, f"{name}_label")) or ""
    alias = f"{name.rstrip('0123456789')}_{_as_name(label)}" if label else ""
    bounds = [
        f"{bound}={value * scale:g}{unit}" for bound in _BOUNDS if (value := _number(os.path.join(path, f"{name}_{bound}"))) is not None
    ]
    text = f"{quantity} in unit {chip} named {one_line(label or name)}."
    return Sensor(os.path.basename(path), name, chip, alias, " ".join([text, *bounds]), unit, scale)


def _as_name(text: str) -> str:
    """Return a label in the characters of event names."""
    return "".join(char.lower() if char.isascii() and char.isalnum() else "_" for char in text)


def _number(path: str) -> int | None:
    try:
        return int(read_text(path) or "")
    except ValueError:
        return None
