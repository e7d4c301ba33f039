"""Lines of a report, to compare ours with perf's."""

from __future__ import annotations

import functools
import re
import subprocess

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


@functools.cache
def at_fixed_addresses() -> tuple[str, ...]:
    """What stands before a program whose recording perf is to report: every run of it has the same addresses then.

    perf compares two rows, or two frames of callchains, now by symbols, now by addresses or files (where one of them has no
    symbol). That is an order only where a symbol has one address: else perf may look for a row in the wrong half of its tree
    and show a second one. Where setarch or the personality is refused, nothing stands before it.
    """
    prefix = ("setarch", "-R")
    try:
        process = subprocess.run([*prefix, "true"], check=False, stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    except OSError:
        return ()
    return prefix if process.returncode == 0 else ()
