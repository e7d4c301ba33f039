"""Internet addresses in a tracepoint's raw data, as %pI4, %pI6c and %pISpc print them.

The standard library's ipaddress is not used, because the kernel's compressed form differs from RFC 5952.
"""

from __future__ import annotations

_AF_INET = 2
_AF_INET6 = 10


def internet_address(data: bytes, suffix: str, endian: str) -> str:
    """Return the text of an address.

    Args:
        data: the field
        suffix: I or i, then 4, 6 or S, then further letters
        endian: the byte order of the recorded machine
    """
    kind, version, letters = suffix[0], suffix[1:2], suffix[2:]
    if version == "4":
        return _v4(data, kind, _is_reversed(letters, endian)) if len(data) == 4 else "INVALIDIPv4"
    if version == "6":
        return _v6(data, kind, letters == "c") if len(data) == 16 else "INVALIDIPv6"
    return _socket_address(data, kind, letters, endian) if version == "S" else ""


def _is_reversed(letters: str, endian: str) -> bool:
    """Whether the bytes are reversed. h: the recorded host's order; l: little-endian; n, b or none: network order."""
    return letters[:1] == "l" or (letters[:1] == "h" and endian == "<")


def _v4(data: bytes, kind: str, is_reversed: bool) -> str:
    parts = data[::-1] if is_reversed else data
    return ".".join(f"{part:03d}" if kind == "i" else str(part) for part in parts)


def _v6(data: bytes, kind: str, is_short: bool) -> str:
    if is_short and kind == "I":
        return _short_v6(data)
    return data.hex(":", 2) if kind == "I" else data.hex()


def _short_v6(data: bytes) -> str:
    """Omit the longest run of at least two zero words; the first one if several are equally long."""
    words = [int.from_bytes(data[i : i + 2], "big") for i in range(0, 16, 2)]
    is_mapped = data[:10] == bytes(10) and words[5] == 0xFFFF
    is_isatap = data[8] | 2 == 2 and data[9:12] == b"\x00\x5e\xfe"
    tail = ""
    if is_mapped or is_isatap:
        tail = _v4(data[12:], "I", False)
        words = words[:6]
    run, start = _longest_run(words)
    if run < 2:
        return ":".join([f"{word:x}" for word in words] + ([tail] if tail else []))
    head = ":".join(f"{word:x}" for word in words[:start])
    rest = ":".join([f"{word:x}" for word in words[start + run :]] + ([tail] if tail else []))
    return f"{head}::{rest}"


def _longest_run(words: list[int]) -> tuple[int, int]:
    """Return the length and start of the first of the longest runs of zeros."""
    best = (0, 0)
    for start in range(len(words)):
        length = 0
        while start + length < len(words) and not words[start + length]:
            length += 1
        if length > best[0]:
            best = (length, start)
    return best


def _socket_address(data: bytes, kind: str, letters: str, endian: str) -> str:
    """Return the text of a struct sockaddr_in or sockaddr_in6, with its port if the letters contain `p`."""
    with_port = kind == "I" and letters[:1] == "p"
    rest = letters[1:] if with_port else letters
    is_short = kind == "I" and rest[:1] == "c"
    # perf reads the family in the byte order of the reading host
    family = int.from_bytes(data[:2], "little")
    port = int.from_bytes(data[2:4], "big")
    if family == _AF_INET:
        if len(data) < 16:
            return "INVALIDIPv4"
        return _v4(data[4:8], kind, _is_reversed(rest[1:] if is_short else rest, endian)) + (f":{port}" if with_port else "")
    if family == _AF_INET6:
        if len(data) < 28:
            return "INVALIDIPv6"
        text = _v6(data[8:24], kind, is_short)
        return f"[{text}]:{port}" if with_port else text
    return ""
