"""What others control passes through its doors: nothing else in the package does what the rooms of perfpy.untrusted are for.

Each section is about one door, and a table of who may do without it, with the reason.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.builders.syntax import nodes_of, syntax_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CHECKOUT = Path(__file__).resolve().parents[1]
PACKAGE = CHECKOUT / "perfpy"
MODULES = {str(path.relative_to(PACKAGE)): path for path in sorted(PACKAGE.rglob("*.py"))}


def tree(module: str) -> ast.Module:
    return syntax_of(MODULES[module])


def calls(module: str) -> tuple[tuple[str, ast.Call], ...]:
    """Return (name as it is written, call) of every call in a module."""
    return _calls_of(MODULES[module])


@cache
def _calls_of(path: Path) -> tuple[tuple[str, ast.Call], ...]:
    return tuple((ast.unparse(node.func), node) for node in nodes_of(path) if isinstance(node, ast.Call))


def text(node: ast.AST) -> str:
    """What a string or an f-string says, with {} where something is put in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(text(part) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return ""


def check(found: dict[str, list[str]], allowed: dict[str, str]) -> None:
    """Nobody does it who is not in the table, and nobody is in the table who does not."""
    assert {module: lines for module, lines in found.items() if module not in allowed} == {}
    assert set(allowed) - set(found) == set(), "no longer needed in the table"


def places(matches: Iterator[tuple[str, int, str]]) -> dict[str, list[str]]:
    results: dict[str, list[str]] = {}
    for module, line, reason in matches:
        results.setdefault(module, []).append(f"line {line}: {reason}")
    return results


# -- writing: through perfpy.untrusted.destinations and folders; nothing is opened by name ------------------------
#
# A name that was checked is never opened again: files are created, renamed and removed below the descriptor of a folder, and
# what options name is opened by a Destination. The table has those who use names; each says why nobody can exchange them.
# -----------------------------

CHANGES = {
    *(f"os.{name}" for name in "makedirs mkdir link symlink rename replace renames unlink remove rmdir truncate chmod chown".split()),
    *(f"shutil.{name}" for name in "rmtree move copy copyfile".split()),
    *(f"tempfile.{name}" for name in "mkstemp mkdtemp NamedTemporaryFile".split()),
}
METHODS = {"write_bytes", "write_text", "unlink", "mkdir", "symlink_to", "hardlink_to", "rename", "rmdir", "touch"}  # of pathlib
WRITERS = {
    "untrusted/destinations.py": "it is the door: new files in folders of ours alone, without following links",
    "kernel/probe_events.py": "the kernel's uprobe_events and kprobe_events",
    "tools/sched/stats.py": "the kernel's switch for its statistics, by a fixed name",
    "cli/view.py": "a new temporary file",
    "capture/runtimes/cpython_attach.py": "in a new folder of ours, by its descriptor",
    "capture/runtimes/cpython_startup/perfpy_trampolines.py": "runs in the profiled interpreter: a new perf map of its own number",
    "untrusted/pinned_files.py": "in a tmpfs that only its own thread sees",
    "profiling.py": "/proc of this process; in a new folder of ours alone",
    "symbols/files/debug_files.py": "old files, in a folder of ours alone",
    "symbols/jitdump.py": "a new folder, in one of ours alone",
    "kernel/function_tracer.py": "files of tracefs, by fixed names",
    "capture/runtimes/session.py": "logs of ours in the current folder, which is a descriptor: names without separators",
    "capture/unwinding/process.py": "the name of its own process; a random name, which is removed at once",
    "capture/aux_area.py": "a file of sysfs, which a PMU of the kernel has",
    "kernel/sysfs.py": "a file of sysfs, by a fixed name",
    "cli/stat/options.py": "/dev/null",
    "cli/__init__.py": "/dev/null",
}


#: what returns a descriptor, or a file with one
DESCRIPTORS = ("create_new", "open_named", "os.open", "os.dup", ".create", "estination.open", ".fileno")


def is_below_descriptor(call: ast.Call) -> bool:
    """Whether a call takes its names below the descriptor of a folder."""
    return any(word.arg in ("dir_fd", "src_dir_fd", "dst_dir_fd") for word in call.keywords)


def is_descriptor(call: ast.Call) -> bool:
    """Whether open() gets a descriptor, or the opener of the door, instead of a name that it opens itself."""
    first = call.args[0]
    if any(word.arg == "opener" and ast.unparse(word.value) == "opener" for word in call.keywords):
        return True
    if isinstance(first, ast.Call):
        return ast.unparse(first.func).endswith(DESCRIPTORS)
    return ast.unparse(first) in ("fd", "descriptor", "target", "new.fd", "answer_end")


def writes(module: str) -> Iterator[tuple[str, int, str]]:
    for name, call in calls(module):
        mode = next((text(word.value) for word in call.keywords if word.arg == "mode"), text(call.args[1]) if len(call.args) > 1 else "")
        flags = ast.unparse(call)
        if is_below_descriptor(call):
            continue
        opened = name == "open" and re.search("[wax+]", mode) and not is_descriptor(call)
        raw = name == "os.open" and re.search(r"O_(WRONLY|CREAT|TRUNC|APPEND)|_NEW", flags)
        method = name.rpartition(".")[2] in METHODS and "." in name and name.split(".")[0] not in ("os", "self")
        if name in CHANGES or opened or raw or method:
            yield module, call.lineno, flags


def test_files_are_written_only_to_paths_of_the_user_or_of_untrusted():
    check(places(match for module in MODULES for match in writes(module)), WRITERS)


def test_no_file_is_given_away():
    """What another user shall have is made with the rights of that user: perfpy.untrusted.process_root."""
    modules = {module for module in MODULES for name, _ in calls(module) if name.rpartition(".")[2] in ("chown", "fchown", "lchown")}
    assert modules == {"untrusted/destinations.py"}, "there: a file that an option names keeps the owner that it has"


# -- paths: names of recordings, processes, ELF files and servers become paths in perfpy.untrusted.files ----------

FOLDERS = re.compile(
    r"\.build-id|/root/?\{\}|/proc/\{\}/root|/tmp/perf-\{\}|/usr/lib/debug/?\{|/sys/module/\{|jitted-\{|\{\}/elf$|\{\}/kallsyms$|/var/tmp|\{\}/\.debug$"
)
PATH_MAKERS = {
    "capture/runtimes/cpython_startup/perfpy_trampolines.py": "runs in the profiled interpreter: its own number",
    "untrusted/files.py": "it is the door",
    "untrusted/process_files.py": "/proc/PID/root: the link is read",
    "kernel/procfs.py": "below /proc, which nobody can write into",
}
JOINS = {
    "tools/leaks/hook.py": "a new folder, or one of ours alone, and names of perfpy's",
    "tools/leaks/sums.py": "a new folder of ours alone, and names of digits",
    "untrusted/destinations.py": "names of the temporary folder with a fixed prefix, opened without following links",
    "perfdata/skeleton.py": "a new temporary folder, and fixed names",
    "views/parquet.py": "a folder that the user names; fixed names, component() of the host, a day, a number, names of files there",
    "cli/script_programs.py": "folders of an installed perf; a name of a script that the user types",
    "views/scripting/program.py": "folders of an installed perf, and the package's own",
    "events/vendor.py": "names that below() takes; own_folder() and a name of letters and digits",
    "events/descriptions.py": "the package's own table",
    "events/vendor_tables.py": "own_folder() and a name of letters and digits; the package's tables; the user's folder",
    "abi/system_calls.py": "the package's own tables",
    "interpreters/frames.py": "the package's own table",
    "interpreters/layouts.py": "the package's own table",
    "symbols/files/build_ids.py": "parts that listdir gave",
    "symbols/files/debug_files.py": "a key without separators",
    "symbols/files/debuginfod.py": "a folder of the user's environment",
    "capture/synthesis.py": "a folder of the user's environment",
    "capture/session/threaded_output.py": "the recording, and a file of a fixed name in it; the recording, and files with numbers in it",
    "capture/cgroups.py": "what -G names, below the hierarchy",
    "capture/runtimes/known_runtimes.py": "PATH",
    "capture/targets.py": "PATH",
    "cli/line/perfconfig.py": "HOME",
    "events/listing.py": "the cache's index, whose names listdir gave",
    "kernel/sysfs.py": "below /sys; names that listdir gave",
    "perfdata/reader.py": "a folder that is a recording; names that listdir gave",
    "fleet/recordings.py": "a folder that the user names, and a fixed name or pattern",
}


def makes_paths(module: str) -> Iterator[tuple[str, int, str]]:
    for node in nodes_of(MODULES[module]):
        if isinstance(node, ast.JoinedStr) and FOLDERS.search(text(node)):
            yield module, node.lineno, ast.unparse(node)


def test_names_become_paths_at_one_place():
    check(places(match for module in MODULES for match in makes_paths(module)), PATH_MAKERS)


def test_paths_are_joined_where_their_parts_are_known():
    results = ((module, call.lineno, ast.unparse(call)) for module in MODULES for name, call in calls(module) if name == "os.path.join")
    check(places(results), JOINS)


# -- reading: what stands where a file is expected may be a FIFO --------------------------------------------------

READERS = {
    "tools/leaks/hook.py": "a file of the package",
    "capture/python_frames/current_stacks.py": "/proc/PID/task",
    "kernel/probe_events.py": "files of tracefs",
    "tools/sched/stats.py": "/proc/schedstat and its switch",
    "kernel/function_tracer.py": "files of tracefs",
    "tools/ftrace.py": "trace_pipe of tracefs",
    "capture/process_memory.py": "the memory of a process, in /proc",
    "views/scripting/program.py": "a program that the user wants to run, perhaps from a pipe",
    "events/descriptions.py": "the package's own table",
    "events/vendor_tables.py": "the package's own tables",
    "kernel/cpus.py": "/proc/cpuinfo and /sys",
    "capture/runtimes/cpython_startup/perfpy_trampolines.py": "runs in the profiled interpreter: /proc, and a new file",
    "untrusted/files.py": "it is the door",
    "untrusted/destinations.py": "it is the door; folders; links of /proc/self/fd, and of /dev/fd",
    "untrusted/process_root.py": "it is the door",
    "symbols/files/build_ids.py": "/sys and /proc/self; a descriptor, and /proc/kallsyms",
    "symbols/kernel_symbols.py": "/proc",
    "untrusted/process_files.py": "it is the door; /proc/PID, and folders of mounts",
    "tools/trace/live_trace.py": "/proc/PID",
    "abi/system_calls.py": "the package's own tables",
    "interpreters/frames.py": "the package's own table",
    "interpreters/layouts.py": "the package's own table",
    "capture/cgroups.py": "/proc, and folders of the hierarchy",
    "capture/runtimes/attaching.py": "/proc/PID",
    "capture/runtimes/rewriting.py": "the folder of a dump of ours, to remove it",
    "capture/unwinding/process.py": "/dev/null; a nameless file of its own",
    "analysis/aggregate/overflow.py": "a nameless file of its own; /proc, and /sys",
    "capture/runtimes/cpython_attach.py": "in a new folder of ours, by its descriptor",
    "capture/synthesis.py": "/proc, /sys and tracefs",
    "capture/measurement.py": "/sys",
    "capture/unwinding/observed_states.py": "/dev/kmsg",
    "live/priority.py": "/proc/loadavg",
    "capture/targets.py": "/sys",
    "capture/sample_counters.py": "/sys",
    "cli/self_contained.py": "/proc/kallsyms",
    "cli/__init__.py": "/dev/null",
    "cli/build_ids.py": "/proc",
    "cli/top_level.py": "files of the package",
    "views/page/page.py": "files of the package",
    "profiling.py": "/proc",
    "kernel/procfs.py": "/proc",
    "kernel/syscalls.py": "/proc",
    "kernel/ring.py": "/proc",
    "kernel/sysfs.py": "/sys and tracefs",
}
OPENERS = (
    *("open", "os.open", "io.open", "io.FileIO", "gzip.open", "lzma.open", "bz2.open", "tokenize.open", "codecs.open"),
    *("np.fromfile", "np.memmap", "np.load", "np.loadtxt", "zipfile.ZipFile", "sqlite3.connect", "shutil.copyfile", "shutil.copy"),
)


def reads(module: str) -> Iterator[tuple[str, int, str]]:
    written = {line for _, line, _ in writes(module)}
    for name, call in calls(module):
        if is_below_descriptor(call) or (name == "open" and is_descriptor(call)):
            continue
        if (name in OPENERS or name.endswith((".read_bytes", ".read_text"))) and call.lineno not in written:
            yield module, call.lineno, ast.unparse(call)


def test_files_are_opened_by_the_door_or_where_the_kernel_made_them():
    check(places(match for module in MODULES for match in reads(module)), READERS)


# -- programs that are started: they open files themselves, so they get descriptors of files that others chose -----

STARTERS = {
    "tools/leaks/hook.py": "the compiler gets a file that was written in a new folder of ours alone; the command is the user's",
    "disassembly/disassembler.py": "a descriptor; no links to debug files that others chose, and no names of source files",
    "profiling.py": "perfpy itself; the recording is in a new folder of ours",
    "cli/line/pager.py": "PAGER, which reads standard input",
    "cli/script_programs.py": "perfpy itself, and a script that the user names",
    "capture/runtimes/cpython_attach.py": "an interpreter that trusted_program passed; a script in a folder of ours",
    "capture/runtimes/session.py": "a runtime that the user starts, with --version",
    "capture/targets.py": "the command that the user names",
    "capture/measurement.py": "stat --pre and --post",
}
START = re.compile(r"subprocess\.(run|Popen|call|check_call|check_output)|os\.(exec|spawn|posix_spawn|system|popen)\w*")


def starts(module: str) -> Iterator[tuple[str, int, str]]:
    for name, call in calls(module):
        if START.fullmatch(name):
            yield module, call.lineno, ast.unparse(call)


def test_programs_get_descriptors_of_files_that_others_chose():
    check(places(match for module in MODULES for match in starts(module)), STARTERS)


# -- files of other processes: opened by the door, as links on the way are theirs --------------------------------

BY_PATH = {
    "os.stat",
    "os.lstat",
    "os.access",
    "os.readlink",
    *(f"os.path.{name}" for name in "exists lexists isfile isdir islink getsize getmtime samefile realpath".split()),
}
ROOMS = ("symbols/", "debuginfo/", "unwind/", "disassembly/", "capture/runtimes/", "capture/unwinding/", "cli/archive.py")
BY_PATH_USERS = {
    "symbols/kernel_symbols.py": "files of the kernel",
    "symbols/files/debug_files.py": "files of the kernel; --symfs",
    "symbols/files/debuginfod.py": "the cache, by build-id",
    "symbols/files/build_ids.py": "the cache; names of files outside of containers, which regular_fd opens",
    "cli/archive.py": "the cache",
    "symbols/live_tasks.py": "/proc/TID",
    "capture/unwinding/observed_states.py": "/proc/PID",
    "symbols/dso.py": "links of /proc/PID that are read, or lead to what is mapped",
    "capture/runtimes/attaching.py": "/proc/PID/exe is read; relative to the /tmp of a process, which the door opened",
    "capture/runtimes/known_runtimes.py": "what is beside the program of a process: read by open_regular; PATH",
    "capture/runtimes/session.py": "the current folder; the recording; logs of ours in the current folder",
    "capture/runtimes/rewriting.py": "a dump of ours, in an open folder",
    "capture/runtimes/cpython_attach.py": "/proc/PID/exe; trusted_program looks at it; in a folder of ours, by its descriptor",
    "capture/runtimes/cpython_startup/perfpy_trampolines.py": "runs in the profiled interpreter",
}


def uses_paths(module: str) -> Iterator[tuple[str, int, str]]:
    for name, call in calls(module):
        if name in BY_PATH:
            yield module, call.lineno, ast.unparse(call)


def test_names_of_processes_pass_the_door():
    rooms = [module for module in MODULES if module.startswith(ROOMS)]
    check(places(match for module in rooms for match in uses_paths(module)), BY_PATH_USERS)


@pytest.mark.parametrize(
    ("code", "finder"),
    [
        ("os.unlink(path)", writes),
        ("open(path, 'wb')", writes),
        ("open(real_path(path), 'wb')", writes),
        ("open(path, 'wb', opener=my_opener)", writes),
        ("os.replace(path, other)", writes),
        ("os.open(path, _NEW, 0o600)", writes),
        ("os.open(path, os.O_WRONLY | os.O_CREAT)", writes),
        ("Path(name).write_bytes(b'')", writes),
        ("f'{cache}/.build-id/{a}/{b}'", makes_paths),
        ("f'/proc/{pid}/root{path}'", makes_paths),
        ("f'/tmp/perf-{pid}.map'", makes_paths),
        ("os.open(f'/proc/{pid}/root', 0)", makes_paths),
        ("os.path.exists(paths.in_process(pid, name))", uses_paths),
        ("open(path, 'rb')", reads),
        ("os.open(path, os.O_RDONLY)", reads),
        ("np.load(path)", reads),
        ("subprocess.run(['addr2line', path])", starts),
        ("os.execvp('objdump', [path])", starts),
    ],
)
def test_the_finders_find(code: str, finder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "module.py").write_text(code)
    monkeypatch.setitem(MODULES, code, tmp_path / "module.py")
    assert [*finder(code)]


# -- terminals: perfpy.untrusted.terminal stands before standard output and standard error

#: who may name descriptors 1 and 2 past the streams: to throw away what cannot be written, to write a recording to a pipe
PAST_THE_STREAMS: Final = {
    "capture/session/closing.py",
    "cli/__init__.py",
    "capture/count_file.py",
    "untrusted/terminal.py",
    "capture/session/output.py",
}
#: who makes a rich console
CONSOLES: Final = {"cli/output/screen_console.py"}


def attribute(node: ast.AST) -> str:
    return ast.unparse(node) if isinstance(node, ast.Attribute) else ""


def passed_streams(module: str) -> Iterator[tuple[str, int, str]]:
    for node in nodes_of(MODULES[module]):
        if attribute(node) in ("sys.__stdout__", "sys.__stderr__", "sys.stdout.fileno", "sys.stderr.fileno"):
            yield module, node.lineno, attribute(node)  # type: ignore[attr-defined]
        if (
            isinstance(node, ast.Call)
            and attribute(node.func) in ("os.write", "os.writev", "os.sendfile", "os.fdopen", "open")
            and node.args
        ):
            first = node.args[0]
            if isinstance(first, ast.Constant) and first.value in (1, 2):
                yield module, node.lineno, ast.unparse(node)


def control_sequences(module: str) -> Iterator[tuple[str, int, str]]:
    trusted = {
        id(part)
        for node in nodes_of(MODULES[module])
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "control"
        for part in ast.walk(node)
    }
    docs = {id(node.value) for node in nodes_of(MODULES[module]) if isinstance(node, ast.Expr)}
    for node in nodes_of(MODULES[module]):
        is_plain = id(node) not in trusted and id(node) not in docs
        if is_plain and isinstance(node, ast.Constant) and isinstance(node.value, str) and "\x1b" in node.value:
            yield module, node.lineno, repr(node.value)


def consoles(module: str) -> Iterator[tuple[str, int, str]]:
    for node in nodes_of(MODULES[module]):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Console"):
            yield module, node.lineno, ast.unparse(node)


def elsewhere(finder: Callable[[str], Iterator[tuple[str, int, str]]], allowed: set[str]) -> dict[str, list[str]]:
    """Return what a finder finds in modules that are not allowed it."""
    return places(match for module in MODULES if module not in allowed for match in finder(module))


def test_streams_are_never_bypassed() -> None:
    """sys.__stdout__, a duplicate of the descriptor, os.write to 1 or 2: none of them is cleaned."""
    assert elsewhere(passed_streams, PAST_THE_STREAMS) == {}


def test_control_sequences_are_written_by_the_door_alone() -> None:
    """A literal with ESC or a carriage return goes out through `control`, or it would be shown."""
    assert elsewhere(control_sequences, {"untrusted/terminal.py"}) == {}


def test_consoles_are_made_in_one_place() -> None:
    assert elsewhere(consoles, {"cli/output/screen_console.py", "cli/output/terminal.py"}) == {}


def test_the_screen_console_is_the_only_one_of_rich() -> None:
    users = {
        module
        for module in MODULES
        for node in nodes_of(MODULES[module])
        if isinstance(node, ast.ImportFrom) and node.module == "rich.console" and not _for_types(tree(module), node)
    }
    assert users == CONSOLES


def _for_types(whole: ast.Module, expected: ast.AST) -> bool:
    blocks = [node for node in ast.walk(whole) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    return any(expected is node for block in blocks for node in ast.walk(block))
