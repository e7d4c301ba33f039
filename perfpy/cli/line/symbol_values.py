"""From a command's values and the configuration to SymbolOptions, the same for every command that names addresses.

What enters: the values of `symbol_options` (cli/options.py), perfconfig's
settings, the recording. What leaves: SymbolOptions.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Final

from perfpy.errors import PerfError
from perfpy.untrusted.files import is_handed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from perfpy.cli.line.perfconfig import Config
    from perfpy.recording import Recording
    from perfpy.symbols.files.debug_files import SymbolOptions

_FROM_OPTIONS: Final = ("symfs", "kallsyms", "vmlinux", "ignore_vmlinux", "demangle", "demangle_kernel", "fold_interpreters", "force")


def symbol_options_of(values: Mapping[str, Any], config: Config, recording: Recording) -> SymbolOptions:
    """Where to look for symbols, and how to print them.

    Servers are asked when DEBUGINFOD_URLS is set, or perfconfig's buildid-cache.debuginfod (or debuginfod.urls) is.
    Raises PerfError where a file that was named cannot be read.
    """
    from perfpy.symbols.files.debug_files import SymbolOptions

    for name in ("kallsyms", "vmlinux"):
        _require_readable(name, values.get(name, ""))
    urls = config.get("debuginfod.urls") or config.get("buildid-cache.debuginfod") or ""
    if urls and "DEBUGINFOD_URLS" not in os.environ:
        os.environ["DEBUGINFOD_URLS"] = urls
    return SymbolOptions(
        **{name: values[name] for name in _FROM_OPTIONS if name in values},
        buildid_dir=os.path.expanduser(config.get("buildid.dir", "")) if not values.get("symfs") else "",
        debuginfod=bool(os.environ.get("DEBUGINFOD_URLS")),
        os_release=recording.data.features.get("osrelease", ""),
    )


def _require_readable(option: str, path: str) -> None:
    """A file that the user named is not passed over in silence."""
    if path and not os.access(path, os.R_OK):
        reason = "permission denied" if os.path.exists(path) else "no such file"
        raise PerfError(f"--{option} {path}: {reason}")
    if path and not os.path.isfile(path) and not is_handed(path):
        raise PerfError(f"--{option} {path}: not a regular file")
