"""The probed program or kernel, from -x, -m, -k, --symfs and --target-ns."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Final

from perfpy.cli.line.options import fail
from perfpy.errors import PerfError
from perfpy.probing.problems import ProbeError
from perfpy.probing.sites.kernel_points import KALLSYMS
from perfpy.probing.sites.program import open_program
from perfpy.symbols.files.debug_files import SymbolOptions
from perfpy.untrusted.files import is_file, read_regular
from perfpy.untrusted.pinned_files import pin

if TYPE_CHECKING:
    from perfpy.cli.probe.options import ProbeCommandOptions
    from perfpy.probing.sites.program import Program
    from perfpy.symbols.files import debuginfod

_KALLSYMS_MOST: Final = 256 << 20


def target_program(options: ProbeCommandOptions) -> Program | None:
    """Return the program, module file or kernel image to probe; None for the running kernel without debug information."""
    if options.exec_path:
        return _user_program(options)
    path = options.module if options.module.endswith((".ko", ".debug")) or "/" in options.module else options.vmlinux
    if not path:
        return None
    if not is_file(path):
        raise ProbeError(f"no file {path}", errno.ENOENT)
    return open_program(path, _symbol_options(options), client=_client(), demangles=options.demangle_kernel)


def is_kernel(options: ProbeCommandOptions) -> bool:
    """Whether the target is the kernel or a module."""
    return not options.exec_path


def _user_program(options: ProbeCommandOptions) -> Program:
    """Open a program. With --target-ns, its links stay in that process's root, and nothing is read that its user may not read."""
    path = options.exec_path
    where = f" in the root of process {options.target_ns}" if options.target_ns else ""
    try:
        file = pin(path, options.target_ns)
    except ProcessLookupError:
        raise PerfError(f"--target-ns {options.target_ns}: no such process") from None
    except FileNotFoundError:
        if options.target_ns and not os.path.exists(f"/proc/{options.target_ns}"):
            raise PerfError(f"--target-ns {options.target_ns}: no such process") from None
        fail(f"-x {path}: no such file{where}")
    except OSError as error:
        fail(f"-x {path}: {error.strerror}{where}")
    return open_program(file, _symbol_options(options), client=_client(), demangles=options.demangle)


def _symbol_options(options: ProbeCommandOptions) -> SymbolOptions:
    from perfpy.cli.line.perfconfig import load

    folder = "" if options.symfs else load().build_id_folder
    return SymbolOptions(symfs=options.symfs, buildid_dir=folder)


def _client() -> debuginfod.Client | None:
    if not os.environ.get("DEBUGINFOD_URLS"):
        return None
    from perfpy.symbols.files import debuginfod  # few users have servers

    return debuginfod.Client()


def read_kallsyms() -> str:
    """Return the running kernel's symbols. Raises ProbeError."""
    try:
        return read_regular(KALLSYMS, limit=_KALLSYMS_MOST, of_kernel=True).decode("utf-8", "surrogateescape")
    except OSError as error:
        raise ProbeError(f"cannot read {KALLSYMS}: {error.strerror}; -k names a vmlinux", errno.ENOENT) from None
