"""How often samples are taken: what -F asks for, held below what the kernel allows.

What enters: the options of a recording, and the kernel's limit. What leaves: the options with
a frequency that the kernel takes; or a UsageError (--strict-freq).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.capture.record_options import DEFAULT_FREQ, MAX_FREQ
from perfpy.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from perfpy.capture.record_options import RecordOptions

#: the setting with the limit
MAX_RATE: Final = "kernel.perf_event_max_sample_rate"


def with_frequency(options: RecordOptions, most: int | None, tell: Callable[[str], None]) -> RecordOptions:
    """The options with a frequency of at most `most` Hz (None: the kernel does not say)."""
    wanted = options.freq
    if options.period or most is None:
        return options
    if wanted == MAX_FREQ:
        tell(f"info: -F max is {most} Hz here (sysctl {MAX_RATE})")
        return options._replace(freq=most)
    if wanted is None:
        return options._replace(freq=most) if most < DEFAULT_FREQ else options
    if wanted <= most:
        return options
    if options.strict_freq:
        raise UsageError(f"maximum frequency rate ({most} Hz) exceeded; use a lower -F, or raise sysctl {MAX_RATE}")
    tell(f"warning: {wanted} Hz is more than the kernel allows, going on with {most} Hz; to have more raise sysctl {MAX_RATE}")
    return options._replace(freq=most)
