"""`perfpy kmem record`: record what the kernel allocates and frees, on all CPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from perfpy.cli.kmem.options import KmemKindOptions

_SLAB: Final = ("kmalloc", "kfree", "kmem_cache_alloc", "kmem_cache_free")
_OLD_SLAB: Final = ("kmalloc_node", "kmem_cache_alloc_node")  # until Linux 6.1
_PAGES: Final = ("mm_page_alloc", "mm_page_free")


def record_arguments(options: KmemKindOptions) -> list[str]:
    """Return the arguments of `perfpy record` for the allocators."""
    from perfpy.kernel.tracefs import Tracefs, mount_as_root

    names: list[str] = []
    if options.has_slab:
        present = set(Tracefs(mount=mount_as_root).events("kmem"))
        names += [*_SLAB, *(name for name in _OLD_SLAB if name in present)]
    if options.page:
        names += _PAGES
    callchains = ["-g"] if options.page else []  # the tracepoints of pages have no call site
    return ["-a", "-R", "-c", "1", *callchains, *(word for name in names for word in ("-e", f"kmem:{name}"))]
