"""What workers hand on, made small: profiles of many hosts are moved between machines.

What enters: a FoldedGroup. What leaves: bytes, a fifth of what its columns take in memory, and back.
"""

from __future__ import annotations

import pickle
import sys
from typing import TYPE_CHECKING, Final

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

if TYPE_CHECKING:
    from perfpy.fleet.folding import FoldedGroup

_LEVEL: Final = 1  # the next ones take twice the time to save a tenth more


def packed(group: FoldedGroup) -> bytes:
    """To be handed on."""
    return zstd.compress(pickle.dumps(group, protocol=5), _LEVEL)


def unpacked(data: bytes) -> FoldedGroup:
    """What packed() made of a group, of our own workers: pickle runs what it is told."""
    group: FoldedGroup = pickle.loads(zstd.decompress(data))
    return group
