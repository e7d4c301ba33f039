"""The attr in the file for samples whose stack copy was unwound: with a callchain instead of registers and stack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from perfpy.abi.flags import SampleType

if TYPE_CHECKING:
    from perfpy.abi.attr import EventAttr

#: The fields of samples that unwinding consumes.
USED_UP: Final = SampleType.REGS_USER | SampleType.STACK_USER


def has_stacks(attr: EventAttr) -> bool:
    """Whether samples of the event have a stack copy."""
    return bool(attr.sample_type & SampleType.STACK_USER)


def plain_attr(attr: EventAttr) -> EventAttr:
    """Return the attr as if the kernel had walked the user's frames, too; attrs without stack copies are unchanged."""
    if not has_stacks(attr):
        return attr
    kind = attr.sample_type & ~USED_UP
    changes = {"sample_regs_user": 0, "sample_stack_user": 0, "exclude_callchain_user": 0}
    if attr.watermark:  # readers do not need the recorder's wakeup settings
        changes |= {"watermark": 0, "wakeup_events": 0}
    return attr.copy(sample_type=kind, **changes)
