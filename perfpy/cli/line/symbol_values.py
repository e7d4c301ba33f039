"""Build SymbolOptions from a command's options and the configuration, the same way for every command."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from perfpy.errors import PerfError
from perfpy.untrusted.files import is_handed

if TYPE_CHECKING:
    from perfpy.cli.line.perfconfig import Config
    from perfpy.cli.line.shared import SymbolFileOptions
    from perfpy.recording import Recording
    from perfpy.symbols.files.debug_files import Inline, SymbolOptions


def symbol_options_of(
    options: SymbolFileOptions,
    config: Config,
    recording: Recording,
    *,
    force: bool = False,
    ignore_vmlinux: bool = False,
    inline: Inline | None = None,
) -> SymbolOptions:
    """Return where to look for symbols, and how to print them. inline selects the callchains that get inlined calls; None: all.

    Servers are queried if DEBUGINFOD_URLS is set, or perfconfig's buildid-cache.debuginfod or debuginfod.urls.
    Raises PerfError if a file given by an option is unreadable.
    """
    from perfpy.symbols.files.debug_files import Inline, SymbolOptions

    _require_readable("kallsyms", options.kallsyms)
    _require_readable("vmlinux", options.vmlinux)
    urls = config.get("debuginfod.urls") or config.get("buildid-cache.debuginfod") or ""
    if urls and "DEBUGINFOD_URLS" not in os.environ:
        os.environ["DEBUGINFOD_URLS"] = urls
    return SymbolOptions(
        symfs=options.symfs,
        kallsyms=options.kallsyms,
        vmlinux=options.vmlinux,
        ignore_vmlinux=ignore_vmlinux,
        demangle=options.demangle,
        demangle_kernel=options.demangle_kernel,
        fold_interpreters=bool(options.fold_interpreters),
        force=force,
        buildid_dir=config.build_id_folder if not options.symfs else "",
        debuginfod=bool(os.environ.get("DEBUGINFOD_URLS")),
        os_release=recording.data.features.get("osrelease", ""),
        inline=inline or Inline.ALL,
    )


def inline_of(inline: bool | None, recording: Recording, *, plain: bool) -> Inline:
    """Return which callchains get inlined calls, for --inline, --no-inline or neither (None).

    plain: the output is perf's text. perf 6.12 always inlines in unwound stacks; perf 7.3 in all.
    """
    from perfpy.abi.flags import SampleType
    from perfpy.symbols.files.debug_files import Inline

    unwound = any(event.attr.sample_type & SampleType.STACK_USER for event in recording.events)
    if inline is False:
        return Inline.NONE
    if not plain:
        return Inline.ALL
    return Inline.UNWOUND_AS_PERF if unwound or inline is None else Inline.ALL_AS_PERF


def _require_readable(option: str, path: str) -> None:
    """Raise PerfError if the option's file is unreadable."""
    if path and not os.access(path, os.R_OK):
        reason = "permission denied" if os.path.exists(path) else "no such file"
        raise PerfError(f"--{option} {path}: {reason}")
    if path and not os.path.isfile(path) and not is_handed(path):
        raise PerfError(f"--{option} {path}: not a regular file")
