"""Convert names that others chose to paths.

Names from recordings, /proc, ELF files and servers, and build-ids, become paths below a given folder, or raise UnsafeNameError. Names
are never repaired: no file is called "a/../../b". perf's names without a file ([kernel.kallsyms], [vdso], //anon, "/memfd:x (deleted)") are
ordinary names here.
"""

from __future__ import annotations

import os

from perfpy.errors import PerfError

TYPE_CHECKING = False  # see perfpy.cli
if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST_PART = 255  # NAME_MAX
_LONGEST_NAME = 4000  # PATH_MAX, less a prefix and a suffix
_PID_DIGITS = 10
_HEX = frozenset("0123456789abcdef")
_BUILD_ID_DIGITS = range(4, 129, 2)  # with one byte, nothing would remain after the folder of its first two digits
INDEX = ".build-id"  # of a folder ordered by build-ids


class UnsafeNameError(PerfError, ValueError):
    """A name that must not become a path: the name and the reason."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason
        super().__init__(f"the name {name!a} cannot be a path: {reason}")


def component(name: str) -> str:
    """Return the name if it is a single path component."""
    if "/" in name:
        raise UnsafeNameError(name, "it leads into folders")
    return parts(name)[0]


def parts(name: str) -> list[str]:
    """Split a name, absolute or not, into components; // has no empty one."""
    names = [part for part in name.split("/") if part]
    if not names:
        raise UnsafeNameError(name, "it is empty")
    if "\0" in name:
        raise UnsafeNameError(name, "it holds a NUL")
    if "." in names or ".." in names:
        raise UnsafeNameError(name, "it leads out of its folder")
    if len(os.fsencode(name)) > _LONGEST_NAME or any(len(os.fsencode(part)) > _LONGEST_PART for part in names):
        raise UnsafeNameError(name[:40], "it is too long")
    return names


def below(folder: str, name: str) -> str:
    """Return the path of a name, absolute or not, inside a folder ("" = /)."""
    return "/".join((folder.rstrip("/"), *parts(name)))


def build_id_hex(text: str) -> str:
    """Return a build-id of 2 to 64 bytes as lower-case hexadecimal digits."""
    if len(text) not in _BUILD_ID_DIGITS or not _HEX.issuperset(text):
        raise UnsafeNameError(text[:40], "not a build-id")
    return text


def index_parts(build_id: str) -> tuple[str, str, str]:
    """Return the components of a build-id's path in a folder ordered by build-ids."""
    build_id_hex(build_id)
    return INDEX, build_id[:2], build_id[2:]


def home_parts(name: str, build_id: str) -> list[str]:
    """Return the components of the folder in which perf's build-id cache stores a build of a file."""
    names = parts(name)
    if names[0] == INDEX:
        raise UnsafeNameError(name, "the cache's index has that name")
    return [*names, build_id_hex(build_id)]


def build_id_cache() -> str:
    """Return the folder of perf's build-id cache."""
    return os.path.expanduser("~/.debug")


def build_id_path(folder: str, build_id: str, file: str = "") -> str:
    """Return a build's path in the index of a build-id cache, or that of one of its files (elf, debug, kallsyms, vdso)."""
    build = "/".join((folder, *index_parts(build_id)))
    return f"{build}/{file}" if file else build


def debug_file(root: str, build_id: str) -> str:
    """Return the path of a build's debug file in distributions: below root, .build-id/xx/yyyy.debug."""
    return f"{build_id_path(root, build_id)}.debug"


def debuglinks(root: str, debug_root: str, program: str, link: str) -> Iterator[str]:
    """Yield the possible paths of the file in a program's .gnu_debuglink. program: its recorded path."""
    name, folder = component(link), os.path.dirname(program)
    yield below(root, f"{folder}/{name}")
    yield below(root, f"{folder}/.debug/{name}")
    yield below(root, f"{debug_root}{folder}/{name}")


def in_process(pid: int, name: str) -> str:
    """Return a path as seen by a process."""
    return below(f"/proc/{pid}/root", name)


def split_process(path: str) -> tuple[int, str] | None:
    """Return the pid and the name in a path of in_process, or None for other paths."""
    if not path.startswith("/proc/"):
        return None
    pid, separator, name = path[6:].partition("/root/")
    return (int(pid), "/" + name) if separator and pid.isdecimal() and len(pid) <= _PID_DIGITS else None


def perf_map(pid: int) -> str:
    """Return the path of a process's perf map."""
    return f"/tmp/perf-{pid}.map"


def module_notes(name: str, root: str = "/sys/module") -> str:
    """Return the path of the file with a loaded module's build-id."""
    return f"{root}/{component(name)}/notes/.note.gnu.build-id"


#: The image of Python functions, which belong to no process.
PYTHON_IMAGE = "jitted-0-1.so"


def jit_image_name(pid: int, index: int) -> str:
    """Return the file name of a jitted function's image."""
    return f"jitted-{pid}-{index}.so"
