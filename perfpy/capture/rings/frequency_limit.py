"""Apply the kernel's limit of sampling frequencies to -F, whose value "max" is that limit."""

from __future__ import annotations

from perfpy.capture.record_options import DEFAULT_FREQ, MAX_FREQ
from perfpy.errors import UsageError

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Final

    from perfpy.capture.record_options import RecordOptions

#: the setting with the limit
MAX_RATE: Final = "kernel.perf_event_max_sample_rate"


def with_frequency(options: RecordOptions, most: int | None, tell: Callable[[str], None]) -> RecordOptions:
    """Return the options with a frequency of at most `most` Hz (None: unknown)."""
    requested = options.sampling.freq
    if options.sampling.period or most is None:
        return options
    if requested == MAX_FREQ:
        tell(f"info: -F max is {most} Hz here (sysctl {MAX_RATE})")
        return options._replace(sampling=options.sampling._replace(freq=most))
    if requested is None:
        return options._replace(sampling=options.sampling._replace(freq=most)) if most < DEFAULT_FREQ else options
    if requested <= most:
        return options
    if options.sampling.strict_freq:
        raise UsageError(f"maximum frequency rate ({most} Hz) exceeded; use a lower -F, or raise sysctl {MAX_RATE}")
    tell(f"warning: {requested} Hz exceeds the kernel's limit; sampling at {most} Hz instead; for more raise sysctl {MAX_RATE}")
    return options._replace(sampling=options.sampling._replace(freq=most))
