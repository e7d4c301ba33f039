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
_LONGEST_NAME = 4000  # PATH_MAX, less what stands before and after
_HEX = frozenset("0123456789abcdef")
_BUILD_ID_DIGITS = range(4, 129, 2)  # of one byte nothing would be left after the folder of its first two digits
INDEX = ".build-id"  # of a folder that is ordered by build-ids


class UnsafeNameError(PerfError, ValueError):
    """A name that must not become a path: the name, and why not."""

    def __init__(self, name: str, reason: str) -> None:
        self.name = name
        self.reason = reason
        super().__init__(f"the name {name!a} cannot be a path: {reason}")


def component(name: str) -> str:
    """The name, if it is one part of a path."""
    if "/" in name:
        raise UnsafeNameError(name, "it leads into folders")
    return parts(name)[0]


def parts(name: str) -> list[str]:
    """The parts of a name, absolute or not; the empty ones of // are none."""
    found = [part for part in name.split("/") if part]
    if not found:
        raise UnsafeNameError(name, "it is empty")
    if "\0" in name:
        raise UnsafeNameError(name, "it holds a NUL")
    if "." in found or ".." in found:
        raise UnsafeNameError(name, "it leads out of its folder")
    if len(os.fsencode(name)) > _LONGEST_NAME or any(len(os.fsencode(part)) > _LONGEST_PART for part in found):
        raise UnsafeNameError(name[:40], "it is too long")
    return found


def below(folder: str, name: str) -> str:
    """The path of a name, absolute or not, inside a folder ("" = /)."""
    return "/".join((folder.rstrip("/"), *parts(name)))


def build_id_hex(text: str) -> str:
    """A build-id in hexadecimal, lower case, of 2 to 64 bytes."""
    if len(text) not in _BUILD_ID_DIGITS or not _HEX.issuperset(text):
        raise UnsafeNameError(text[:40], "it is no build-id")
    return text


def index_parts(build_id: str) -> tuple[str, str, str]:
    """Where a build-id stands below a folder that is ordered by build-ids."""
    build_id_hex(build_id)
    return INDEX, build_id[:2], build_id[2:]


def home_parts(name: str, build_id: str) -> list[str]:
    """Where perf's build-id cache keeps the files of one build of what is called `name`."""
    found = parts(name)
    if found[0] == INDEX:
        raise UnsafeNameError(name, "the cache's index has that name")
    return [*found, build_id_hex(build_id)]


def build_id_cache() -> str:
    """Where perf keeps its build-id cache."""
    return os.path.expanduser("~/.debug")


def indexed(folder: str, build_id: str, file: str = "") -> str:
    """A build's path in the index of a build-id cache, or one of its files (elf, debug, kallsyms, vdso)."""
    build = "/".join((folder, *index_parts(build_id)))
    return f"{build}/{file}" if file else build


def debug_file(root: str, build_id: str) -> str:
    """Where distributions put the debug file of a build: below root, .build-id/xx/yyyy.debug."""
    return f"{indexed(root, build_id)}.debug"


def debuglinks(root: str, debug_root: str, program: str, link: str) -> Iterator[str]:
    """Where the file that a program's .gnu_debuglink names can be. program: its recorded path."""
    name, folder = component(link), os.path.dirname(program)
    yield below(root, f"{folder}/{name}")
    yield below(root, f"{folder}/.debug/{name}")
    yield below(root, f"{debug_root}{folder}/{name}")


def in_process(pid: int, name: str) -> str:
    """A path as a process sees it."""
    return below(f"/proc/{pid}/root", name)


def split_process(path: str) -> tuple[int, str] | None:
    """The pid and the name of a path of in_process; None of any other path."""
    if not path.startswith("/proc/"):
        return None
    pid, found, name = path[6:].partition("/root/")
    return (int(pid), "/" + name) if found and pid.isdecimal() else None


def perf_map(pid: int) -> str:
    """Where a process by that number writes the names of its code."""
    return f"/tmp/perf-{pid}.map"


def module_notes(name: str, root: str = "/sys/module") -> str:
    """The file with the build-id of a loaded module."""
    return f"{root}/{component(name)}/notes/.note.gnu.build-id"


#: the image of Python functions, which belong to no process
PYTHON_IMAGE = "jitted-0-1.so"


def jitted(pid: int, index: int) -> str:
    """What the image of a jitted function is called."""
    return f"jitted-{pid}-{index}.so"
