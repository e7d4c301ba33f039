"""The defaults of `record --python`: clock, callchains and sampling frequency.

Python frames require callchains that are unwound during the recording, and sample times that other processes can compare with their own.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final

from perfpy.capture.option_values import Callchain
from perfpy.errors import UsageError

if TYPE_CHECKING:
    from perfpy.capture.record_options import RecordOptions

_STACK_SIZE: Final = 16384
_FREQUENCY: Final = 199  # Hz: after five seconds, a share of 10 % is accurate to 2 points
_MACHINE: Final = "x86_64"


def complete_options(options: RecordOptions) -> RecordOptions:
    """Return the options with the defaults of Python frames. Raises UsageError for options that exclude Python frames."""
    machine = os.uname().machine
    if machine != _MACHINE:
        raise UsageError(f"--python reads frames on {_MACHINE} only, and this is {machine}; try --jit")
    if options.sampling.callchain is not None and options.sampling.callchain.mode != "dwarf":
        raise UsageError(f"--python needs copies of stacks; leave out --call-graph {options.sampling.callchain.mode}")
    if options.sampling.callchain is None:
        options = options._replace(sampling=options.sampling._replace(callchain=Callchain("dwarf", _STACK_SIZE)))
    if options.sampling.freq is None and options.sampling.period is None:
        options = options._replace(sampling=options.sampling._replace(freq=_FREQUENCY))
    clock = time.CLOCK_MONOTONIC if options.sampling.clockid is None else options.sampling.clockid
    chosen_options = options._replace(sampling=options.sampling._replace(unwind=True, time=True, clockid=clock))
    chosen_options.check()
    return chosen_options
