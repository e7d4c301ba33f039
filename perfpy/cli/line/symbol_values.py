"""From a command's options and the configuration to SymbolOptions, the same for every command that names addresses.

What enters: a command's SymbolFileOptions, perfconfig's settings, the
recording. What leaves: SymbolOptions.
"""

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
    asked: SymbolFileOptions,
    config: Config,
    recording: Recording,
    *,
    force: bool = False,
    ignore_vmlinux: bool = False,
    inline: Inline | None = None,
) -> SymbolOptions:
    """Where to look for symbols, and how to print them. inline: which chains get inlined calls; None: all.

    Servers are asked when DEBUGINFOD_URLS is set, or perfconfig's buildid-cache.debuginfod (or debuginfod.urls) is.
    Raises PerfError where a file that was named cannot be read.
    """
    from perfpy.symbols.files.debug_files import Inline, SymbolOptions

    _require_readable("kallsyms", asked.kallsyms)
    _require_readable("vmlinux", asked.vmlinux)
    urls = config.get("debuginfod.urls") or config.get("buildid-cache.debuginfod") or ""
    if urls and "DEBUGINFOD_URLS" not in os.environ:
        os.environ["DEBUGINFOD_URLS"] = urls
    return SymbolOptions(
        symfs=asked.symfs,
        kallsyms=asked.kallsyms,
        vmlinux=asked.vmlinux,
        ignore_vmlinux=ignore_vmlinux,
        demangle=asked.demangle,
        demangle_kernel=asked.demangle_kernel,
        fold_interpreters=bool(asked.fold_interpreters),
        force=force,
        buildid_dir=config.build_id_folder if not asked.symfs else "",
        debuginfod=bool(os.environ.get("DEBUGINFOD_URLS")),
        os_release=recording.data.features.get("osrelease", ""),
        inline=inline or Inline.ALL,
    )


def inline_of(inline: bool | None, recording: Recording, *, plain: bool) -> Inline:
    """Which callchains get inlined calls: --inline, --no-inline or neither (None) of a command.

    plain: the output is perf's text. perf 6.12 has them in unwound stacks, whatever is asked for; perf 7.3 in all.
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
    """A file that the user named is not passed over in silence."""
    if path and not os.access(path, os.R_OK):
        reason = "permission denied" if os.path.exists(path) else "no such file"
        raise PerfError(f"--{option} {path}: {reason}")
    if path and not os.path.isfile(path) and not is_handed(path):
        raise PerfError(f"--{option} {path}: not a regular file")
