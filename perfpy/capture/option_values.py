"""Parse texts of record's options: sizes, times, callchains, clocks, registers, branch filters. The forms are perf-record(1)'s.

Raises UsageError that names the option.
"""

from __future__ import annotations

import os
import re
import time
from typing import Final

from perfpy.abi.flags import BranchSample
from perfpy.abi.samples.registers import sampled_registers
from perfpy.abi.startup import NamedTuple
from perfpy.errors import UsageError
from perfpy.kernel.ring import PAGE_SIZE

DEFAULT_STACK_SIZE: Final = 8192
LONGEST_DELAY: Final = (1 << 31) - 1  # the limit of poll(2)
MOST_PAGES: Final = 1 << 31  # the limit of the kernel's page numbers
AFFINITIES: Final = ("sys", "node", "cpu")  # of --affinity
MOST_FRAMES: Final = 127  # the kernel's default of kernel.perf_event_max_stack
MAX_STACK_SIZE: Final = 65528  # the size of a record is a u16, and a multiple of 8

_SIZE_UNITS: Final = {"B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_TIME_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}

_CLOCKS: Final = {
    "monotonic": time.CLOCK_MONOTONIC,
    "monotonic_raw": time.CLOCK_MONOTONIC_RAW,
    "realtime": time.CLOCK_REALTIME,
    "boottime": time.CLOCK_BOOTTIME,
    "tai": time.CLOCK_TAI,
    "mono": time.CLOCK_MONOTONIC,
    "raw": time.CLOCK_MONOTONIC_RAW,
    "real": time.CLOCK_REALTIME,
    "boot": time.CLOCK_BOOTTIME,
}

_BRANCH_FILTERS: Final = {
    "u": BranchSample.USER,
    "k": BranchSample.KERNEL,
    "hv": BranchSample.HV,
    "any": BranchSample.ANY,
    "any_call": BranchSample.ANY_CALL,
    "any_ret": BranchSample.ANY_RETURN,
    "ind_call": BranchSample.IND_CALL,
    "abort_tx": BranchSample.ABORT_TX,
    "in_tx": BranchSample.IN_TX,
    "no_tx": BranchSample.NO_TX,
    "cond": BranchSample.COND,
    "ind_jmp": BranchSample.IND_JUMP,
    "call": BranchSample.CALL,
    "no_flags": BranchSample.NO_FLAGS,
    "no_cycles": BranchSample.NO_CYCLES,
    "save_type": BranchSample.TYPE_SAVE,
    "stack": BranchSample.CALL_STACK,
    "hw_index": BranchSample.HW_INDEX,
    "priv": BranchSample.PRIV_SAVE,
    "counter": BranchSample.COUNTERS,
}
_PRIVILEGES: Final = BranchSample.USER | BranchSample.KERNEL | BranchSample.HV


class Callchain(NamedTuple):
    """The options for recording callchains.

    Attributes:
        mode: "fp" (the kernel walks frame pointers) or "dwarf" (a copy of the user stack).
        stack_size: bytes of the copy.
        max_stack: the most frames; 0 for the kernel's limit.
        defer: walk user frames once, on return to user space, if the kernel supports it (6.18 does not).
        addresses: with DWARF stacks, sample data addresses, too.
    """

    mode: str
    stack_size: int = DEFAULT_STACK_SIZE
    max_stack: int = 0
    defer: bool = False
    addresses: bool = True


def parse_callchain(text: str) -> Callchain:
    """Parse `fp[,FRAMES][,defer]` or `dwarf[,BYTES]`.

    >>> parse_callchain("dwarf,4096")
    Callchain(mode='dwarf', stack_size=4096, max_stack=0, defer=False, addresses=True)
    """
    mode, *parameters = text.split(",")
    if mode == "lbr":
        raise UsageError("--call-graph lbr needs a hardware PMU with branch records, which perfpy does not support; use fp or dwarf")
    if mode not in ("fp", "dwarf"):
        raise UsageError(f"--call-graph {text}: unknown mode '{mode}'; expected fp or dwarf")
    defer = mode == "fp" and "defer" in parameters
    number = ",".join(word for word in parameters if not (defer and word == "defer"))
    if not number:
        return Callchain(mode, defer=defer)
    if not re.fullmatch(r"0[xX][0-9a-fA-F]+|\d+", number):
        raise UsageError(f"--call-graph {text}: '{number}' is not a number")
    value = int(number, 0) if number[:2].lower() == "0x" else int(number)
    if mode == "dwarf":
        return Callchain(mode, stack_size=stack_size(value, text))
    return Callchain(mode, max_stack=value if value < MOST_FRAMES else 0, defer=defer)


def stack_size(value: int, text: str = "") -> int:
    """Return a stack copy's size, rounded up to the kernel's unit. Raises UsageError if no record can hold it."""
    size = (value + 7) & ~7
    if not 0 < size <= MAX_STACK_SIZE:
        raise UsageError(f"--call-graph {text or value}: a stack copy has 1 to {MAX_STACK_SIZE} bytes")
    return size


def clocks() -> list[str]:
    """Return the names of clocks."""
    return list(_CLOCKS)


def branch_filters() -> list[str]:
    """Return the words of -j."""
    return list(_BRANCH_FILTERS)


def parse_clock(text: str) -> int:
    """Parse a clock of clock_gettime(2): its number, or its name with or without CLOCK_."""
    if re.fullmatch(r"-?\d{1,9}", text):
        return int(text)
    name = text.lower().removeprefix("clock_")
    if name not in _CLOCKS:
        raise UsageError(f"--clockid {text}: unknown clock; expected one of {', '.join(_CLOCKS)}")
    return _CLOCKS[name]


def parse_registers(text: str, option: str) -> int:
    """Parse a list of register names as a mask; "" means all."""
    registers = sampled_registers(os.uname().machine)
    mask = 0
    for name in text.split(",") if text else registers:
        bit = next((bit for known_name, bit in registers.items() if known_name.lower() == name.lower()), None)
        if bit is None:
            raise UsageError(f"{option}={text}: unknown register '{name}'; expected some of {' '.join(registers)}")
        mask |= 1 << bit
    return mask


def parse_branch_filter(text: str) -> int:
    """Parse a list of branch filters as a mask; without a type of branch, any."""
    mask = 0
    for name in text.split(","):
        if name not in _BRANCH_FILTERS:
            raise UsageError(f"--branch-filter {text}: unknown filter '{name}'; expected some of {', '.join(_BRANCH_FILTERS)}")
        mask |= _BRANCH_FILTERS[name]
    return mask if mask & ~_PRIVILEGES else mask | BranchSample.ANY


def parse_size(text: str, option: str) -> int:
    """Parse a size with a unit, B, K, M or G, for example `64M`."""
    match = re.fullmatch(r"(\d+)([BKMG])", text, re.IGNORECASE)
    if not match:
        raise UsageError(f"{option} {text}: not a size; expected a number with B, K, M or G")
    return int(match[1]) * _SIZE_UNITS[match[2].upper()]


def parse_pages(text: str) -> int:
    """Parse a ring buffer's size, in pages or with a unit; return pages, rounded up to a power of two."""
    pages = max(int(text) if text.isdecimal() else -(-parse_size(text, "--mmap-pages") // PAGE_SIZE), 1)
    if pages > MOST_PAGES:
        raise UsageError(f"--mmap-pages {text}: a ring buffer has at most {MOST_PAGES} pages")
    return 1 << (pages - 1).bit_length()


def size_text(size: int) -> str:
    """Format bytes in the largest unit that divides them: 64K."""
    return next(f"{size // factor}{unit}" for unit, factor in reversed(_SIZE_UNITS.items()) if size % factor == 0)


def parse_flush(text: str) -> int:
    """Parse --mmap-flush: bytes, with or without a unit."""
    return int(text) if text.isdecimal() else parse_size(text, "--mmap-flush")


def parse_delay(text: str) -> int | tuple[tuple[int, int], ...]:
    """Parse -D: milliseconds (-1: start disabled), or ranges such as `10-20,30-40`."""
    if re.fullmatch(r"-?\d+", text):
        value = int(text)
        if not -1 <= value <= LONGEST_DELAY:
            raise UsageError(f"--delay {text}: expected 0 to {LONGEST_DELAY} milliseconds, or -1 to start with the events disabled")
        return value
    ranges = []
    end = -1
    for item in text.split(","):
        match = re.fullmatch(r"(\d+)-(\d+)", item)
        if not match or int(match[1]) >= int(match[2]) or int(match[1]) <= end:
            raise UsageError(
                f"--delay {text}: '{item}' is not a range of milliseconds after the previous one; expected for example 10-20,30-40"
            )
        end = int(match[2])
        ranges.append((int(match[1]), end))
    return tuple(ranges)


class SwitchOutput(NamedTuple):
    """When to start a new output file: at a signal only, or also after `size` bytes or `seconds`."""

    size: int = 0
    seconds: int = 0


def parse_switch_output(text: str) -> SwitchOutput:
    """Parse `signal`, a size such as `100M`, or a time such as `30s`."""
    if text == "signal":
        return SwitchOutput()
    match = re.fullmatch(r"(\d+)([smhd])", text)
    if match:  # a lower-case m means minutes, as in perf
        return SwitchOutput(seconds=int(match[1]) * _TIME_UNITS[match[2]])
    return SwitchOutput(size=parse_size(text, "--switch-output"))
