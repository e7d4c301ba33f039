"""EventAttr: encode and decode perf_event_attr from one field table, for the system call and the file.

Any ABI size and both byte orders are supported. Layout: struct perf_event_attr in include/uapi/linux/perf_event.h.
"""

from __future__ import annotations

import struct
from _operator import and_, attrgetter, lshift

from perfpy.abi.flags import ATTR_SIZE_VER0, ATTR_SIZE_VER8

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, Final

#: name, offset and struct code of every field except the bit field at offset 40
FIELDS: Final[tuple[tuple[str, int, str], ...]] = (
    ("type", 0, "I"),
    ("size", 4, "I"),
    ("config", 8, "Q"),
    ("sample_period", 16, "Q"),  # or sample_freq, when freq is set
    ("sample_type", 24, "Q"),
    ("read_format", 32, "Q"),
    ("wakeup_events", 48, "I"),  # or wakeup_watermark, when watermark is set
    ("bp_type", 52, "I"),
    ("config1", 56, "Q"),  # or bp_addr, kprobe_func, uprobe_path
    ("config2", 64, "Q"),  # or bp_len, kprobe_addr, probe_offset
    ("branch_sample_type", 72, "Q"),
    ("sample_regs_user", 80, "Q"),
    ("sample_stack_user", 88, "I"),
    ("clockid", 92, "i"),
    ("sample_regs_intr", 96, "Q"),
    ("aux_watermark", 104, "I"),
    ("sample_max_stack", 108, "H"),
    ("reserved_2", 110, "H"),
    ("aux_sample_size", 112, "I"),
    ("aux_action", 116, "I"),  # aux_start_paused, aux_pause, aux_resume in bits 0-2
    ("sig_data", 120, "Q"),
    ("config3", 128, "Q"),
    ("config4", 136, "Q"),
)

#: name and width of each part of the bit field at offset 40, from the lowest bit
FLAG_BITS: Final[tuple[tuple[str, int], ...]] = (
    ("disabled", 1),
    ("inherit", 1),
    ("pinned", 1),
    ("exclusive", 1),
    ("exclude_user", 1),
    ("exclude_kernel", 1),
    ("exclude_hv", 1),
    ("exclude_idle", 1),
    ("mmap", 1),
    ("comm", 1),
    ("freq", 1),
    ("inherit_stat", 1),
    ("enable_on_exec", 1),
    ("task", 1),
    ("watermark", 1),
    ("precise_ip", 2),
    ("mmap_data", 1),
    ("sample_id_all", 1),
    ("exclude_host", 1),
    ("exclude_guest", 1),
    ("exclude_callchain_kernel", 1),
    ("exclude_callchain_user", 1),
    ("mmap2", 1),
    ("comm_exec", 1),
    ("use_clockid", 1),
    ("context_switch", 1),
    ("write_backward", 1),
    ("namespaces", 1),
    ("ksymbol", 1),
    ("bpf_event", 1),
    ("aux_output", 1),
    ("cgroup", 1),
    ("text_poke", 1),
    ("build_id", 1),
    ("inherit_thread", 1),
    ("remove_on_exec", 1),
    ("sigtrap", 1),
    ("defer_callchain", 1),
    ("defer_output", 1),
)


def _shifts() -> Iterator[tuple[str, int, int]]:
    """Yield each bit field's name, its lowest bit, and its mask shifted down."""
    shift = 0
    for name, width in FLAG_BITS:
        yield name, shift, (1 << width) - 1
        shift += width


_SHIFTS: Final = tuple(_shifts())
_flag_bits: Final = attrgetter(*(name for name, _, _ in _SHIFTS))
_POSITIONS: Final = tuple(shift for _, shift, _ in _SHIFTS)
_MASKS: Final = tuple(mask for _, _, mask in _SHIFTS)
_KNOWN_SIZE: Final = 144
_NAMES: Final = tuple(name for name, _, _ in FIELDS if name != "size") + tuple(name for name, _ in FLAG_BITS) + ("reserved_flags",)
_RESERVED_SHIFT: Final = _SHIFTS[-1][1] + FLAG_BITS[-1][1]


def _bits_reversed(data: bytes) -> bytes:
    """Return the bytes with the bits of each byte reversed."""
    return bytes(int(f"{byte:08b}"[::-1], 2) for byte in data)


_LAYOUTS: Final[dict[tuple[str, int], tuple[struct.Struct, tuple[str, ...]]]] = {}


def _layout(endian: str, size: int) -> tuple[struct.Struct, tuple[str, ...]]:
    """Return the struct of all complete fields below `size`, with the bit field as 8 raw bytes; cached by size."""
    layout = _LAYOUTS.get((endian, size))
    if layout is None:
        layout = _codes(endian, size)
        if size <= _KNOWN_SIZE:
            _LAYOUTS[endian, size] = layout
    return layout


def _codes(endian: str, size: int) -> tuple[struct.Struct, tuple[str, ...]]:
    code, names = endian, []
    for name, offset, kind in FIELDS:
        if offset == 48:
            code += "8s"
            names.append("flags")
        if offset + struct.calcsize("=" + kind) > size:
            break
        code += kind
        names.append(name)
    return struct.Struct(code), tuple(names)


class EventAttr:
    """One perf_event_attr, with every field and bit as an int under the kernel's name.

    `size` is what pack() writes by default: 136 (VER8), or the size that unpack() read. `unknown` keeps the trailing bytes of a newer,
    longer struct. Unions have properties for their other names: sample_freq, wakeup_watermark, bp_addr, bp_len.

    >>> import perfpy
    >>> attr = perfpy.EventAttr(type=1, config=2, disabled=1)
    >>> len(attr.pack()), attr.copy(disabled=0).disabled
    (136, 0)
    """

    __slots__ = (*_NAMES, "size", "unknown")

    type: int
    size: int
    config: int
    sample_period: int
    sample_type: int
    read_format: int
    wakeup_events: int
    bp_type: int
    config1: int
    config2: int
    branch_sample_type: int
    sample_regs_user: int
    sample_stack_user: int
    clockid: int
    sample_regs_intr: int
    aux_watermark: int
    sample_max_stack: int
    reserved_2: int
    aux_sample_size: int
    aux_action: int
    sig_data: int
    config3: int
    config4: int
    disabled: int
    inherit: int
    pinned: int
    exclusive: int
    exclude_user: int
    exclude_kernel: int
    exclude_hv: int
    exclude_idle: int
    mmap: int
    comm: int
    freq: int
    inherit_stat: int
    enable_on_exec: int
    task: int
    watermark: int
    precise_ip: int
    mmap_data: int
    sample_id_all: int
    exclude_host: int
    exclude_guest: int
    exclude_callchain_kernel: int
    exclude_callchain_user: int
    mmap2: int
    comm_exec: int
    use_clockid: int
    context_switch: int
    write_backward: int
    namespaces: int
    ksymbol: int
    bpf_event: int
    aux_output: int
    cgroup: int
    text_poke: int
    build_id: int
    inherit_thread: int
    remove_on_exec: int
    sigtrap: int
    defer_callchain: int
    defer_output: int
    reserved_flags: int
    unknown: bytes

    def __init__(self, **values: int) -> None:
        for name in _NAMES:
            setattr(self, name, 0)
        self.size = ATTR_SIZE_VER8
        self.unknown = b""
        for name, value in values.items():
            setattr(self, name, value)

    @property
    def sample_freq(self) -> int:
        """The sampling frequency in Hz: the name of sample_period if `freq` is set."""
        return self.sample_period

    @sample_freq.setter
    def sample_freq(self, value: int) -> None:
        self.sample_period = value

    @property
    def wakeup_watermark(self) -> int:
        """Bytes before a wake-up: the name of wakeup_events if `watermark` is set."""
        return self.wakeup_events

    @wakeup_watermark.setter
    def wakeup_watermark(self, value: int) -> None:
        self.wakeup_events = value

    @property
    def bp_addr(self) -> int:
        """A breakpoint's address: another name of config1."""
        return self.config1

    @bp_addr.setter
    def bp_addr(self, value: int) -> None:
        self.config1 = value

    @property
    def bp_len(self) -> int:
        """A breakpoint's length in bytes: another name of config2."""
        return self.config2

    @bp_len.setter
    def bp_len(self, value: int) -> None:
        self.config2 = value

    @property
    def flags(self) -> int:
        """The bit field at offset 40 as a number; the lowest bit is `disabled`."""
        bits: Iterable[int] = map(lshift, map(and_, _flag_bits(self), _MASKS), _POSITIONS)
        return sum(bits, self.reserved_flags << _RESERVED_SHIFT)

    @flags.setter
    def flags(self, value: int) -> None:
        for name, shift, mask in _SHIFTS:
            setattr(self, name, value >> shift & mask)
        self.reserved_flags = value >> _RESERVED_SHIFT

    def copy(self, **changes: int) -> EventAttr:
        """Return a copy with some fields changed."""
        other = EventAttr.__new__(EventAttr)
        for name in self.__slots__:
            setattr(other, name, getattr(self, name))
        for name, value in changes.items():
            setattr(other, name, value)
        return other

    def pack(self, endian: str = "<", size: int | None = None) -> bytes:
        """Return the struct's bytes.

        Args:
            endian: "<" or ">"
            size: the struct's size in bytes, also written to its `size` field; fields beyond it are dropped (default: .size)
        """
        size = self.size if size is None else size
        layout, names = _layout(endian, size)
        flags = self.flags.to_bytes(8, "little")
        if endian == ">":  # compilers of big-endian machines fill bit fields from the highest bit
            flags = _bits_reversed(flags)
        values: list[Any] = [flags if name == "flags" else size if name == "size" else getattr(self, name) for name in names]
        return (layout.pack(*values) + self.unknown).ljust(size, b"\0")[:size]

    @classmethod
    def unpack(cls, data: bytes, endian: str = "<") -> EventAttr:
        """Return the attr in `data`, which has as many bytes as its writer's ABI (64 or more).

        Fields unknown to the writer are 0. Raises ValueError for fewer than 64 bytes.
        """
        if len(data) < ATTR_SIZE_VER0:
            raise ValueError(f"perf_event_attr of {len(data)} bytes; expected at least {ATTR_SIZE_VER0}")
        layout, names = _layout(endian, min(len(data), _KNOWN_SIZE))
        attr = cls()
        for name, value in zip(names, layout.unpack_from(data), strict=True):
            if name == "flags":
                raw = _bits_reversed(value) if endian == ">" else value
                attr.flags = int.from_bytes(raw, "little")
            else:
                setattr(attr, name, value)
        attr.size = len(data)
        attr.unknown = bytes(data[_KNOWN_SIZE:])
        return attr

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, EventAttr):
            return NotImplemented
        return all(getattr(self, n) == getattr(other, n) for n in _NAMES) and self.unknown.strip(b"\0") == other.unknown.strip(b"\0")

    __hash__ = None  # type: ignore[assignment]  # mutable

    def __repr__(self) -> str:
        used = ", ".join(f"{n}={getattr(self, n):#x}" for n in _NAMES if getattr(self, n))
        return f"EventAttr({used})"
