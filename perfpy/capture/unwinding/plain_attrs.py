"""The attr of samples whose stack copy was unwound: what the file says of them.

What enters: the attr that the kernel was given. What leaves: the attr of the
same samples with a callchain instead of the registers and the stack.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import SampleType

if TYPE_CHECKING:
    from perfpy.abi.attr import EventAttr

#: the fields of samples that unwinding uses up
USED_UP: Final = SampleType.REGS_USER | SampleType.STACK_USER


def has_stacks(attr: EventAttr) -> bool:
    """Whether samples of the event carry what is to be unwound."""
    return bool(attr.sample_type & SampleType.STACK_USER)


def plain_attr(attr: EventAttr) -> EventAttr:
    """As if the kernel had walked the user's frames, too; attrs without stack copies stay."""
    if not has_stacks(attr):
        return attr
    kind = attr.sample_type & ~USED_UP
    changes = {"sample_regs_user": 0, "sample_stack_user": 0, "exclude_callchain_user": 0}
    if attr.watermark:  # how often the recorder was to look is of no interest to readers
        changes |= {"watermark": 0, "wakeup_events": 0}
    return attr.copy(sample_type=kind, **changes)
