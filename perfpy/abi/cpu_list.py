"""Parse and format CPU lists such as "0-3,8,10-11", as the kernel, perf.data headers and command lines have them.

Format: cpuset(7), "List format".
"""

from __future__ import annotations

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Final

#: a bound that exceeds every CPU number and count
MOST_CPUS: Final = 1 << 16
_DIGITS: Final = len(str(MOST_CPUS))
_SHOWN: Final = 20  # characters of an item that an error repeats


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """Return the numbers of a list in ascending order without duplicates; () for an empty text.

    Raises ValueError with the reason for an invalid item or an excessive list.

    >>> parse_cpu_list("5,0-2")
    (0, 1, 2, 5)
    """
    if not text.strip():
        return ()
    cpus: set[int] = set()
    count = 0
    for item in text.split(","):
        low, high = _bounds(item.strip())
        count += high - low + 1
        if count > MOST_CPUS:
            raise ValueError(f"it names more than {MOST_CPUS} CPUs")
        cpus.update(range(low, high + 1))
    return tuple(sorted(cpus))


def _bounds(item: str) -> tuple[int, int]:
    first, dash, last = item.partition("-")
    if not (_is_number(first) and (_is_number(last) or not dash)):
        raise ValueError(f"'{item[:_SHOWN]}' is neither a CPU nor a range of CPUs such as 0-3")
    low, high = _cpu(first), _cpu(last or first)
    if high < low:
        raise ValueError(f"the range '{item[:_SHOWN]}' runs backwards")
    return low, high


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def _cpu(text: str) -> int:
    digits = text.lstrip("0") or "0"
    if len(digits) > _DIGITS or int(digits) >= MOST_CPUS:
        raise ValueError(f"no machine has a CPU {digits[:_SHOWN]}")
    return int(digits)


def cpu_list_text(cpus: Sequence[int]) -> str:
    """Return the list of some CPUs. -1, which means any CPU, is written as it is.

    >>> cpu_list_text((0, 1, 2, 5))
    '0-2,5'
    """
    parts: list[str] = []
    index = 0
    while index < len(cpus):
        end = index
        while end + 1 < len(cpus) and cpus[end + 1] == cpus[end] + 1:
            end += 1
        parts.append(f"{cpus[index]}" if end == index else f"{cpus[index]}-{cpus[end]}")
        index = end + 1
    return ",".join(parts)
