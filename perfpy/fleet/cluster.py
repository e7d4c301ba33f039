"""Many recordings, folded by a Dask cluster, where the files are.

What enters: the address of a scheduler, groups of paths, what is asked of each recording. What leaves: one
PortableProfile of all that could be read, and the names of the others.

Each group is folded where a worker is free; what it gives stays there, and neighbours are merged, a few at a time, until one is
left: only that comes here. The order of the recordings decides about the result, not which worker was first; so it is the same as
without a cluster, also where workers were lost and their parts done again. Workers need perfpy and the files.
"""

from __future__ import annotations

import os
from importlib import import_module
from threading import local
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from perfpy.errors import PerfError
from perfpy.fleet.folding import folded_group, merged_groups
from perfpy.symbols.files.shared_files import SharedFiles

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from perfpy.fleet.folding import FoldedGroup, FoldingRequest

#: parts that are merged at once
_FAN_IN: Final = 8
#: how often a part is tried again that failed for want of its worker or of memory
_RETRIES: Final = 3
#: names a scheduler where no option does
CLUSTER_VARIABLE: Final = "PERFPY_CLUSTER"


def cluster_address(asked: str) -> str:
    """The scheduler that was asked for, or that the environment names; "" for none."""
    return asked or os.environ.get(CLUSTER_VARIABLE, "")


def folded_by_cluster(
    address: str, groups: Sequence[list[str]], request: FoldingRequest, progress: Callable[[float], None] | None = None
) -> FoldedGroup:
    """All groups, folded and merged by a cluster. Raises PerfError where there is no cluster, and what its workers raise."""
    client = _client(address)
    with client:
        level = client.map(_folded, groups, request=request, asked=uuid4().hex, retries=_RETRIES, pure=False)
        _tell(level, client, progress)
        while len(level) > 1:
            level = [
                client.submit(merged_groups, level[begin : begin + _FAN_IN], retries=_RETRIES, pure=False)
                for begin in range(0, len(level), _FAN_IN)
            ]
        found: FoldedGroup = level[0].result()
        return found


_kept = local()  # each thread of a worker keeps the files that it found for what was asked last


def _folded(paths: list[str], request: FoldingRequest, asked: str) -> FoldedGroup:
    """On a worker: some recordings, folded and put together. asked: tells one report from the next: files may change between them."""
    if getattr(_kept, "asked", "") != asked:
        _kept.asked, _kept.shared = asked, SharedFiles()
    return folded_group(paths, request, _kept.shared)


def _client(address: str) -> Any:
    try:
        distributed: Any = import_module("distributed")
    except ModuleNotFoundError:
        raise PerfError("a cluster needs the package distributed: pip install 'perfpy[cluster]'") from None
    try:
        return distributed.Client(address, set_as_default=False)
    except (OSError, ValueError) as error:
        raise PerfError(f"no cluster at {address}: {error}") from None


def _tell(futures: Sequence[Any], client: Any, progress: Callable[[float], None] | None) -> None:
    """How many groups are done, as they are."""
    if progress is None:
        return
    distributed: Any = import_module("distributed")
    for done, _ in enumerate(distributed.as_completed(futures, loop=client.loop), 1):
        progress(done / len(futures))
