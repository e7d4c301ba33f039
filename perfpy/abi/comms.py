"""Names of threads (comm) as the kernel keeps them."""

from __future__ import annotations

from typing import Final

LONGEST_COMM: Final = 15  #: bytes: TASK_COMM_LEN without the NUL


def cut_comm(name: str) -> str:
    """Return the first bytes of a name that the kernel keeps, possibly within a character.

    >>> cut_comm("gnome-terminal-server"), cut_comm("sh")
    ('gnome-terminal-', 'sh')
    """
    return name.encode(errors="surrogateescape")[:LONGEST_COMM].decode(errors="surrogateescape")
