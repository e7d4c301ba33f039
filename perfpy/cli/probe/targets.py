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
from perfpy.untrusted.paths import in_process
from perfpy.untrusted.process_root import ProcessRoot

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
    if options.target_ns:
        return _program_in_container(options)
    path = options.exec_path
    if not os.path.exists(path):
        fail(f"-x {path}: no such file")
    real = os.path.realpath(path)
    if not is_file(real):
        fail(f"-x {path}: not a regular file")
    return open_program(real, _symbol_options(options), client=_client(), demangles=options.demangle)


def _program_in_container(options: ProbeCommandOptions) -> Program:
    """Open a program as a process sees it. Its links stay in its root, and nothing is read that its user may not read."""
    path = options.exec_path
    try:
        with ProcessRoot(options.target_ns) as root:
            descriptor = root.open_regular(path)
            namespace_path = _path_of(descriptor, root, options.target_ns)
    except ProcessLookupError:
        raise PerfError(f"--target-ns {options.target_ns}: no such process") from None
    except OSError as error:
        fail(f"-x {path}: {error.strerror} in the root of process {options.target_ns}")
    if not namespace_path:
        fail(f"-x {path} has no path in the root of process {options.target_ns}")
    return open_program(
        f"/proc/self/fd/{descriptor}",
        _symbol_options(options),
        path_in_definitions=namespace_path,
        client=_client(),
        demangles=options.demangle,
    )


def _path_of(descriptor: int, root: ProcessRoot, pid: int) -> str:
    """Return a path of an opened file without links, in this process's view if that has it; "" if there is none."""
    inside, state = os.readlink(f"/proc/self/fd/{descriptor}"), os.fstat(descriptor)
    try:
        if os.path.samestat(os.lstat(inside), state):
            return inside
    except OSError:
        pass  # in another mount namespace
    return in_process(pid, inside) if os.path.samestat(root.status(inside), state) else ""


def path_in_root(pid: int, path: str) -> str:
    """Return the path by which this process reaches a file of another root, without links; "" if there is none."""
    try:
        with ProcessRoot(pid) as root:
            descriptor = root.open_regular(path)
            try:
                return _path_of(descriptor, root, pid)
            finally:
                os.close(descriptor)
    except OSError:
        return ""


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
