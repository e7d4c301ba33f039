"""Data sources of memory accesses (data_src) as perf prints them: "|OP LOAD|LVL L1 hit|SNP None|...".

Layout: union perf_mem_data_src in include/uapi/linux/perf_event.h, from the lowest bit: op 5, lvl 14, snoop 5, lock 2, dtlb 7,
lvl_num 4, remote 1, snoopx 2, blk 3, hops 3.
"""

from __future__ import annotations

from typing import Final

_OPS: Final = ("N/A", "LOAD", "STORE", "PFETCH", "EXEC")
_LEVELS: Final = (
    "N/A", "HIT", "MISS", "L1", "LFB/MAB", "L2", "L3", "Local RAM", "Remote RAM (1 hop)", "Remote RAM (2 hops)",
    "Remote Cache (1 hop)", "Remote Cache (2 hops)", "I/O", "Uncached",
)  # fmt: skip
_LEVEL_NUMBERS: Final = {
    0x1: "L1", 0x2: "L2", 0x3: "L3", 0x4: "L4", 0x5: "L2 MHB", 0x6: "Memory-side Cache", 0x8: "Uncached", 0x9: "CXL", 0xA: "I/O",
    0xB: "Any cache", 0xC: "LFB/MAB", 0xD: "RAM", 0xE: "PMEM", 0xF: "N/A",
}  # fmt: skip
_HOPS: Final = ("N/A", "core, same node", "node, same socket", "socket, same board", "board")
_SNOOPS: Final = ("N/A", "None", "Hit", "Miss", "HitM")
_TLBS: Final = ("N/A", "HIT", "MISS", "L1", "L2", "Walker", "Fault")
_HIT, _MISS = 0x2, 0x4
_LEVEL_NA: Final = 0x1
_NUMBER_NA: Final = 0xF


def memory_text(data_src: int) -> str:
    """Return all parts, as `perf script -F data_src` prints them after the number; perf truncates to 99 characters."""
    parts = (("OP", op_text), ("LVL", level_text), ("SNP", snoop_text), ("TLB", tlb_text), ("LCK", lock_text), ("BLK", block_text))
    return "".join(f"|{label} {text(data_src)}" for label, text in parts)[:99]


def op_text(data_src: int) -> str:
    """Return the lowest operation set; "N/A" has priority."""
    return next((name for bit, name in enumerate(_OPS) if data_src >> bit & 1), "No")


def level_text(data_src: int) -> str:
    """Return the level that served the access, and whether it hit or missed there."""
    level, number = data_src >> 5 & 0x3FFF, data_src >> 33 & 0xF
    outcome = " hit" if level & _HIT else " miss" if level & _MISS else " "
    if number and number != _NUMBER_NA:
        return _numbered_level(number, data_src >> 37 & 1, data_src >> 43 & 7) + outcome
    names = level & ~(_HIT | _MISS | _LEVEL_NA)
    return _join(names, _LEVELS) + outcome if names else "N/A"


def _numbered_level(number: int, remote: int, hops: int) -> str:
    text = "Remote " if remote else ""
    if hops:
        text += (_HOPS[hops] if hops < len(_HOPS) else "(null)") + " "
    return text + _LEVEL_NUMBERS.get(number, f"Unknown level {number}")


def snoop_text(data_src: int) -> str:
    """Return the state in other caches."""
    snoop, more = data_src >> 19 & 0x1F, data_src >> 38 & 0x3
    parts = [name for bit, name in enumerate(_SNOOPS) if snoop >> bit & 1]
    parts += [name for bit, name in enumerate(("Fwd", "Peer")) if more >> bit & 1]
    return " or ".join(parts) or "N/A"


def tlb_text(data_src: int) -> str:
    """Return where the address was translated."""
    tlb = data_src >> 26 & 0x7F
    names = tlb & ~(_HIT | _MISS)
    return (_join(names, _TLBS) if names else "N/A") + (" hit" if tlb & _HIT else "") + (" miss" if tlb & _MISS else "")


def lock_text(data_src: int) -> str:
    """Return whether the access was locked."""
    lock = data_src >> 24 & 0x3
    return "N/A" if lock & 1 else "Yes" if lock & 2 else "No"


def block_text(data_src: int) -> str:
    """Return what blocked a load."""
    blocked = data_src >> 40 & 0x7
    if not blocked or blocked & 1:
        return " N/A"
    return (" Data" if blocked & 0x2 else "") + (" Addr" if blocked & 0x4 else "")


def _join(bits: int, names: tuple[str, ...]) -> str:
    return " or ".join(name for bit, name in enumerate(names) if bits >> bit & 1) or "N/A"
