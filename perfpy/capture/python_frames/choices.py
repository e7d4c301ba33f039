"""What `record --python` chooses where the user left it open: the clock, how stacks are walked, how often.

What enters: RecordOptions. What leaves: the same options with what Python frames need: stacks that are unwound while they are recorded,
and times that another process can compare with its own.
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
_FREQUENCY: Final = 199  # Hz: a share of 10 % is known to 2 points after five seconds
_MACHINE: Final = "x86_64"


def chosen(options: RecordOptions) -> RecordOptions:
    """Return the options, complete. Raises UsageError for what Python frames cannot be had with."""
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
