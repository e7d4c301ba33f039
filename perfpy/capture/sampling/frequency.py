"""The frequency that a recording may have.

What enters: the options, what the kernel allows. What leaves: the options with a frequency that the kernel takes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.capture.sampling.options import DEFAULT_FREQ, MAX_FREQ
from perfpy.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfpy.capture.sampling.options import RecordOptions
    from perfpy.kernel.procfs import ProcFs

_MAX_RATE: Final = "kernel.perf_event_max_sample_rate"


def allowed(options: RecordOptions, procfs: ProcFs, tell: Callable[[str], None]) -> RecordOptions:
    """Hold the frequency below what the kernel allows; raises UsageError where it has to be the one asked for."""
    most = procfs.setting(_MAX_RATE)
    wanted = options.freq
    if options.period or most is None:
        return options
    if wanted == MAX_FREQ:
        tell(f"info: -F max is {most} Hz here (sysctl {_MAX_RATE})")
    elif wanted is not None and wanted > most:
        if options.strict_freq:
            raise UsageError(f"maximum frequency rate ({most} Hz) exceeded; use a lower -F, or raise sysctl {_MAX_RATE}")
        tell(f"warning: {wanted} Hz is more than the kernel allows, going on with {most} Hz; to have more raise sysctl {_MAX_RATE}")
    elif (wanted or DEFAULT_FREQ) <= most:
        return options
    return options._replace(freq=most)
