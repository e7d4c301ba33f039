"""The config that the events of a hardware tracer start with.

Facts: the default configs of perf 6.12; caps/ and format/ of the kernel's drivers (arch/x86/events/intel/pt.c).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.events.event import INTEL_PT

if TYPE_CHECKING:
    from perfpy.kernel.sysfs import Pmu


_USUAL_PERIOD: Final = 3  # of MTC and PSB packets: the exponent that perf prefers


def default_config(pmu: Pmu) -> int:
    """Return the config that the terms of an event change: of Intel PT branches, with the times that its hardware can write."""
    if pmu.name != INTEL_PT:
        return 0
    values = {"tsc": 1}
    mtc_periods = pmu.number("caps/mtc_periods", 16) or 0 if pmu.number("caps/mtc") != 0 else 0
    if mtc_periods:
        values |= {"mtc": 1, "mtc_period": _nearest_bit(mtc_periods)}
    psb_periods = pmu.number("caps/psb_periods", 16) or 0
    if mtc_periods and psb_periods and pmu.number("caps/psb_cyc") != 0:
        values["psb_period"] = _nearest_bit(psb_periods)
    if "pt" in pmu.formats and "branch" in pmu.formats:
        values |= {"pt": 1, "branch": 1}
    return sum(pmu.formats[name].spread(value) for name, value in values.items() if name in pmu.formats)


def _nearest_bit(choices: int) -> int:
    """Return the number of the highest bit up to the usual period, else of the lowest bit."""
    up_to = choices & (2 << _USUAL_PERIOD) - 1
    return up_to.bit_length() - 1 if up_to else (choices & -choices).bit_length() - 1
