"""Lines of a report, to compare ours with perf's."""

from __future__ import annotations

import re

USER_ENDS, KERNEL_BEGINS = 1 << 47, 0xFFFF << 48


def comparable(lines: list[str]) -> list[str]:
    """The lines as they are; sorted, and without the lines of drawings, where there are addresses that none can be.

    Callchains by frame pointers may hold such. perf compares addresses by the sign of their difference, which is no order
    where it overflows: which of two equal rows comes first is an accident of its tree then.
    """
    addresses = (int(address, 16) for line in lines for address in re.findall(r"\b0x([0-9a-f]+)", line))
    if not any(USER_ENDS <= address < KERNEL_BEGINS for address in addresses):
        return lines
    return sorted(re.sub(r"^[ |]+-*", "", line) for line in lines)
