"""The house keeps its plan: imports point one way, files stay short, the quick commands stay quick.

Each rule is one test; its message lists every file that breaks it.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from perfpy.cli.commands import COMMANDS
from perfpy.perfdata.header import Feature
from tests.builders.perfdata import simple_recording
from tests.builders.syntax import nodes_of, syntax_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

CHECKOUT = Path(__file__).resolve().parents[1]
PACKAGE = CHECKOUT / "perfpy"
LONGEST_FILE = 900  # of one long story; 150 to 600 is the habit
LONGEST_FUNCTION = 60
FEWEST_MODULES = 3  # of a folder, besides __init__.py
FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "base", "manager", "misc", "lib"}
#: words that mean several things, or something in one place only
PRIVATE_NOUNS = {
    *("at", "place", "places", "behind", "traits", "firsts", "sums", "keyed", "ties", "steps", "passes", "spans", "light"),
    *("fact", "facts", "listing"),
}
HEAVY = {"numpy", "rich", "elftools", "pycxxfilt", "backports", "compression", "pandas", "pyarrow", "dataclasses", "unittest", "asyncio"}

FOUNDATION = {"abi", "errors", "untrusted"}
MAY_IMPORT = {
    "errors": set(),
    "version": set(),
    "untrusted": {"errors"},
    "abi": {"errors"},
    "workers": {"abi", "errors"},
    "kernel": FOUNDATION,
    "perfdata": FOUNDATION,
    "counts": FOUNDATION,
    "scheduling": FOUNDATION | {"perfdata"},
    "interpreters": FOUNDATION,
    "symbols": FOUNDATION | {"perfdata"},
    "events": FOUNDATION | {"counts", "kernel"},
    "unwind": FOUNDATION | {"symbols", "perfdata"},
    "debuginfo": FOUNDATION | {"symbols"},
    "auxtrace": FOUNDATION | {"disassembly", "perfdata"},
    "disassembly": FOUNDATION | {"debuginfo", "symbols"},
    "probing": FOUNDATION | {"unwind", "debuginfo", "symbols"},
    "analysis": FOUNDATION | {"workers", "counts", "scheduling", "unwind", "disassembly", "debuginfo", "symbols", "perfdata"},
    "capture": FOUNDATION
    | {"version", "counts", "events", "kernel", "interpreters", "scheduling", "perfdata", "unwind", "symbols"}
    | {"probing", "debuginfo"},
    "views": FOUNDATION | {"workers", "counts", "auxtrace", "analysis", "unwind", "disassembly", "debuginfo", "symbols", "perfdata"},
    "recording": FOUNDATION | {"workers", "views", "auxtrace", "analysis", "unwind", "disassembly", "debuginfo", "symbols", "perfdata"},
    "fleet": FOUNDATION | {"version", "workers", "recording", "views", "analysis", "unwind", "debuginfo", "symbols", "perfdata"},
    "live": FOUNDATION
    | {
        "workers",
        "fleet",
        "views",
        "analysis",
        "scheduling",
        "capture",
        "events",
        "kernel",
        "disassembly",
        "debuginfo",
        "symbols",
        "perfdata",
    },
    "measuring": FOUNDATION | {"capture", "counts", "events", "kernel"},
    "profiling": FOUNDATION | {"analysis", "recording", "measuring", "views"},
    "perfpy": FOUNDATION | {"fleet", "profiling", "version", "recording", "measuring", "capture", "counts", "events", "kernel"},
    "cli": FOUNDATION
    | {
        "version",
        "workers",
        "live",
        "fleet",
        "recording",
        "views",
        "capture",
        "counts",
        "analysis",
        "events",
        "unwind",
        "disassembly",
        "probing",
        "debuginfo",
        "symbols",
        "perfdata",
        "kernel",
        "perfpy",
    },
    "pytest_plugin": FOUNDATION | {"profiling", "recording", "views", "analysis", "capture", "counts", "kernel"},
    "tools": FOUNDATION
    | {
        "version",
        "workers",
        "cli",
        "live",
        "fleet",
        "recording",
        "views",
        "capture",
        "counts",
        "analysis",
        "interpreters",
        "scheduling",
        "events",
        "unwind",
        "disassembly",
        "probing",
        "debuginfo",
        "symbols",
        "perfdata",
        "kernel",
        "perfpy",
    },
    "__main__": {"cli"},
}
READING_HALF = (
    *(
        "fleet",
        "recording",
        "views",
        "auxtrace",
        "analysis",
        "counts",
        "scheduling",
        "unwind",
        "disassembly",
        "probing",
        "debuginfo",
        "symbols",
        "interpreters",
        "perfdata",
        "abi",
        "workers",
        "untrusted",
    ),
)


class Import(NamedTuple):
    """One import of a perfpy module, or of another package: where it stands and whether at the top of the file."""

    target: str
    line: int
    at_top: bool


def module_name(path: Path) -> str:
    parts = path.relative_to(CHECKOUT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def syntax(module: str) -> ast.Module:
    return syntax_of(MODULES[module])


def assert_none(findings: Iterable[str], rule: str) -> None:
    """Fail with every finding on a line of its own."""
    lines = list(findings)
    assert not lines, "\n  ".join([rule, *lines])


@cache
def imports_of(module: str) -> list[Import]:
    """Every import of a module that may run; what only the type checker reads binds nothing to anything."""
    return list(_walk(syntax(module), at_top=True))


def _walk(node: ast.AST, *, at_top: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (Import(alias.name, child.lineno, at_top) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            yield from _from_import(child, at_top)
        elif isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
            continue
        else:
            lazy = isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
            yield from _walk(child, at_top=at_top and not lazy)


def _from_import(node: ast.ImportFrom, at_top: bool) -> Iterator[Import]:
    origin = node.module or ""
    for alias in node.names:
        inner = f"{origin}.{alias.name}"
        yield Import(inner if inner in MODULES else origin, node.lineno, at_top)


def room(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else "perfpy"


def test_imports_point_down():
    wrong = [
        f"{module}, line {item.line}: {item.target}"
        for module in MODULES
        for item in imports_of(module)
        if item.target.split(".")[0] == "perfpy" and room(item.target) not in MAY_IMPORT[room(module)] | {room(module)}
    ]
    assert_none(wrong, "imports that MAY_IMPORT does not allow:")


def test_analysis_stands_on_the_protocol_of_sources():
    """Samples come from anything that is a SampleSource; analysis names neither the file nor its reader, not even as a type."""
    naming = [name for name, path in MODULES.items() if room(name) == "analysis" and re.search(r"\bPerfData\b", path.read_text())]
    reading = [name for name in MODULES if room(name) == "analysis" and "perfpy.perfdata.reader" in named_by(name)]
    assert not naming + reading


#: room -> rooms beside or above it whose types it names; nothing of theirs runs in it
NAMES_TYPES_OF = {
    "perfpy": {"analysis", "perfdata", "symbols"},  # the signatures of the public functions
    "views": {"events"},  # the lists that `list` prints
}


def test_types_point_down_too():
    """What is imported for the type checker alone ties a room to another one as well."""
    wrong = []
    for name in MODULES:
        allowed = MAY_IMPORT[room(name)] | NAMES_TYPES_OF.get(room(name), set()) | {room(name)}
        wrong += [f"{name}: {target}" for target in named_by(name) if room(target) not in allowed]
    assert not wrong


def test_views_do_not_import_recording_not_even_its_type():
    """They take perfpy.views.recorded.Recorded: what is imported for the type checker alone counts here, too."""
    offenders = [
        name
        for name, path in MODULES.items()
        if room(name) == "views" and re.search(r"^\s*(from|import) perfpy\.recording\b", path.read_text(), re.MULTILINE)
    ]
    assert not offenders


def test_nothing_imports_a_tool():
    """cli/commands names each tool's module, and imports it when its command is called."""
    wrong = [
        f"{module}: {target}" for module in MODULES if room(module) != "tools" for target in named_by(module) if room(target) == "tools"
    ]
    assert_none(wrong, "imports of tools:")


def test_a_tool_imports_no_other_tool():
    wrong = [
        f"{module}: {target}"
        for module in MODULES
        if room(module) == "tools"
        for target in named_by(module)
        if room(target) == "tools" and target.split(".")[2:3] != module.split(".")[2:3]
    ]
    assert_none(wrong, "tools that import other tools; what two share belongs in a room below:")


def test_folders_have_enough_modules():
    """A folder of fewer modules is one module."""
    modules: dict[Path, int] = {}
    for path in MODULES.values():
        modules[path.parent] = modules.get(path.parent, 0) + (path.name != "__init__.py")
    few = [f"{folder.relative_to(CHECKOUT)}: {count}" for folder, count in modules.items() if count < FEWEST_MODULES]
    assert_none(few, f"folders of fewer than {FEWEST_MODULES} modules:")


def statements(node: ast.AST) -> Iterator[ast.stmt]:
    """Yield all statements below a node, without the expressions in them."""
    for part in ("body", "orelse", "finalbody", "handlers", "cases"):
        for child in getattr(node, part, ()):
            if isinstance(child, ast.stmt):
                yield child
            yield from statements(child)


def names_of(module: str) -> set[str]:
    """Return the names that a module binds at the top, and those of its submodules."""
    names = {name.rpartition(".")[2] for name in MODULES if name.rpartition(".")[0] == module}
    for node in statements(syntax(module)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Assign, ast.AnnAssign, ast.For, ast.With)):
            names.update(name.id for name in ast.walk(node) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store))
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update((alias.asname or alias.name).partition(".")[0] for alias in node.names)
    return names


def test_imported_names_exist():
    """A rename in one branch and a new import in another one merge without a conflict."""
    names = {module: names_of(module) for module in MODULES}
    missing = []
    for path in [*PACKAGE.rglob("*.py"), *(CHECKOUT / "tests").rglob("*.py")]:
        for node in statements(syntax_of(path)):
            if not isinstance(node, ast.ImportFrom) or (node.module or "").partition(".")[0] != "perfpy":
                continue
            defined = names.get(node.module or "", set())
            if "__getattr__" not in defined:
                place = f"{path.relative_to(CHECKOUT)}, line {node.lineno}: from {node.module} import"
                missing += [f"{place} {alias.name}" for alias in node.names if alias.name not in defined]
    assert_none(missing, "imports of names that do not exist:")


def test_the_rooms_have_no_circle():
    """Repeatedly take away the rooms that import nothing that is left."""
    rooms_above = {name: set(below) for name, below in MAY_IMPORT.items()}
    while rooms_above:
        bottom = {name for name, below in rooms_above.items() if not below & rooms_above.keys()}
        assert bottom, f"a circle among {sorted(rooms_above)}"
        rooms_above = {name: below for name, below in rooms_above.items() if name not in bottom}


def test_the_guide_lists_the_rooms_from_top_to_bottom():
    table = (PACKAGE / "README.md").read_text().partition("| room | contents |")[2].partition("\n\n")[0]
    cells = re.findall(r"^\| (`.+?`) \|", table, re.MULTILINE)
    line_of = {name.removesuffix(".py"): line for line, cell in enumerate(cells) for name in re.findall(r"`(.+?)`", cell)}
    line_of["perfpy"] = line_of.pop("__init__")
    assert line_of.keys() == MAY_IMPORT.keys()
    wrong = [f"{above}: {below}" for above in MAY_IMPORT for below in MAY_IMPORT[above] if line_of[above] > line_of[below]]
    assert_none(wrong, "rooms that the guide lists above one that imports them:")


def assigned_fields(module: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of every target of an assignment."""
    for node in nodes_of(MODULES[module]):
        if isinstance(node, (ast.Assign, ast.AugAssign)):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                for part in target.elts if isinstance(target, ast.Tuple) else [target]:
                    yield part.lineno, ast.unparse(part)


def test_an_events_attr_is_a_value():
    """Who wants another attr makes one (EventAttr.copy); only those who read attrs and build events set single fields."""
    wrong = [
        f"{module}, line {line}: {field}"
        for module in MODULES
        if room(module) not in ("abi", "events", "perfdata")
        for line, field in assigned_fields(module)
        if re.search(r"(^|\.)attr\.\w+$", field)
    ]
    assert_none(wrong, "these change an attr that others may hold:")


def sub_room(module: str) -> str:
    """A folder within a room; a module that stands beside such folders counts for itself."""
    parts = module.split(".")[1:]
    is_package = MODULES[module].name == "__init__.py"
    return ".".join(parts if is_package or len(parts) < 3 else parts[:2])


def without_circles(graph: dict[str, set[str]]) -> list[str]:
    """What is left when whoever imports nothing that is left is taken away, again and again."""
    names_above = dict(graph)
    while bottom := {name for name, below in names_above.items() if not below & names_above.keys()}:
        names_above = {name: below for name, below in names_above.items() if name not in bottom}
    return sorted(names_above)


@cache
def named_by(module: str) -> set[str]:
    """Every module of ours that this one imports, for the type checker alone or not."""
    nodes = [node for node in nodes_of(MODULES[module]) if isinstance(node, ast.ImportFrom)]
    return {part.target for node in nodes for part in _from_import(node, True) if part.target in MODULES} - {module}


def test_modules_have_no_circle_not_even_of_types():
    assert not without_circles({name: named_by(name) for name in MODULES})


def test_sub_rooms_have_no_circle_not_even_of_types():
    graph: dict[str, set[str]] = {}
    for name in MODULES:
        below = {sub_room(target) for target in named_by(name)}
        graph[sub_room(name)] = (graph.get(sub_room(name), set()) | below) - {sub_room(name)}
    assert not without_circles(graph)


def test_the_reading_half_never_reaches_the_machine():
    reached: set[str] = set()
    waiting = [*READING_HALF]
    while waiting:
        current = waiting.pop()
        reached.add(current)
        waiting += MAY_IMPORT[current] - reached
    assert not reached & {"kernel", "events", "capture"}


def test_files_are_short_enough_to_read():
    lengths = {module: len(path.read_text().splitlines()) for module, path in MODULES.items()}
    assert_none((f"{module}: {lines}" for module, lines in lengths.items() if lines > LONGEST_FILE), f"files of over {LONGEST_FILE} lines:")


def test_functions_fit_a_screen():
    functions = [
        (f"{module}.{node.name}", (node.end_lineno or 0) - node.lineno + 1)
        for module in MODULES
        for node in nodes_of(MODULES[module])
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    wrong = [f"{name}: {lines}" for name, lines in functions if lines > LONGEST_FUNCTION]
    assert_none(wrong, f"functions of over {LONGEST_FUNCTION} lines:")


def test_files_have_docstrings():
    assert_none((module for module in MODULES if not ast.get_docstring(syntax(module))), "modules without a docstring:")


def test_module_names_describe_their_contents():
    assert_none((module for module in MODULES if set(module.split(".")) & FORBIDDEN_NAMES), "names that say nothing:")


def test_tests_share_builders_alone():
    """What two test modules need is made in tests/builders; none imports another one (benchmark and fuzzer are programs of their own)."""
    wrong = []
    for path in sorted(CHECKOUT.glob("tests/**/*.py")):
        allowed = ("tests.builders", *(f"tests.{program}" for program in ("bench", "fuzz") if path.parent.name == program))
        ours = [item for item in _walk(syntax_of(path), at_top=True) if item.target.split(".")[0] == "tests"]
        wrong += [f"{path.relative_to(CHECKOUT)}, line {item.line}: {item.target}" for item in ours if not item.target.startswith(allowed)]
    assert_none(wrong, "tests that import other tests:")


def test_unit_tests_stand_where_their_module_does():
    """tests/unit/ROOM/test_NAME.py tests perfpy/ROOM/NAME, a module or a folder; so does test_NAME_TOPIC.py.

    tests/unit/ROOM/test_ROOM.py tests several modules of the room. Tests of several rooms are in tests/unit itself.
    """
    unit = CHECKOUT / "tests" / "unit"
    paths = [path.relative_to(unit) for path in sorted(unit.glob("*/**/test_*.py"))]
    wrong = []
    for path in paths:
        words = path.stem.removeprefix("test_").split("_")
        names = ["_".join(words[:count]) for count in range(1, len(words) + 1)]
        folder = PACKAGE / path.parent
        if folder.name not in names and not any((folder / name).is_dir() or (folder / f"{name}.py").is_file() for name in names):
            wrong.append(str(path))
    assert_none(wrong, "tests of a module that is not there:")


def test_no_module_hides_a_public_function():
    import perfpy

    beside = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert beside & set(perfpy.__all__) <= {"errors"}  # which is the module itself


def defined_names(path: Path) -> Iterator[tuple[str, int]]:
    """(name, line) of everything that a module names itself: classes, functions, parameters, variables, attributes."""
    for node in nodes_of(path):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg, node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id, node.lineno
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, node.lineno


def test_no_class_name_is_defined_twice():
    """One name, one meaning: private classes too, for whoever searches for a name finds them all."""
    defined: dict[str, list[str]] = {}
    for module, path in MODULES.items():
        for node in nodes_of(path):
            if isinstance(node, ast.ClassDef):
                defined.setdefault(node.name, []).append(module)
    assert not {name: modules for name, modules in defined.items() if len(modules) > 1}


def test_names_are_the_fields_words():
    """A place is an offset, an address, a location, a path or an index: the glossary of perfpy/README.md has the words."""
    wrong = [
        f"{module}, line {line}: {name}"
        for module in MODULES
        for name, line in defined_names(MODULES[module])
        if name.lower().strip("_") in PRIVATE_NOUNS
    ]
    assert_none(wrong, "names that the glossary has better words for:")


def test_defaults_are_read_from_named_tuples_not_from_their_classes():
    """`Options.width` is 7 of a dataclass and a descriptor of a named tuple, which neither mypy nor ruff tells."""
    classes = [node for path in MODULES.values() for node in nodes_of(path) if isinstance(node, ast.ClassDef)]
    fields = {
        (node.name, entry.target.id)
        for node in classes
        if "NamedTuple" in map(ast.unparse, node.bases)
        for entry in node.body
        if isinstance(entry, ast.AnnAssign) and isinstance(entry.target, ast.Name)
    }
    offenders = [
        f"{name}, line {node.lineno}: {ast.unparse(node)}"
        for name, path in MODULES.items()
        for node in nodes_of(path)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and (node.value.id, node.attr) in fields
    ]
    assert not offenders


def imported_at_start(module: str) -> set[str]:
    """The modules of perfpy that importing this one imports."""
    reached: set[str] = set()
    waiting = [module]
    while waiting:
        current = waiting.pop()
        if current in reached:
            continue
        reached.add(current)
        above = [current.rsplit(".", depth)[0] for depth in range(1, current.count(".") + 1)]
        waiting += [item.target for item in imports_of(current) if item.at_top and item.target in MODULES] + above
    return reached


@pytest.mark.parametrize("command", ["__init__", "stat", "record", "list", "version", "help"])
def test_the_quick_commands_import_nothing_heavy_at_the_top(command):
    start = "perfpy.cli" if command == "__init__" else COMMANDS[command].module
    heavy = [
        f"{module}, line {item.line}: {item.target}"
        for module in sorted(imported_at_start(start))
        for item in imports_of(module)
        if item.at_top and item.target.split(".")[0] in HEAVY
    ]
    assert not heavy


START = "import sys; from perfpy.cli import main; main()"  # as the installed script does; -m loads more

# What takes milliseconds to import, of which `list` and `stat` have few: see perfpy.cli for how they do without.
# signal loads enum, and that the two below it; a recording has named tuples, and is far below perf's time.
SLOW_TO_IMPORT = {"typing", "re", "contextlib", "json", "inspect", "ast", "locale", "tempfile", "subprocess", "shutil", "datetime", "click"}
ALSO_SLOW = {"enum", "ctypes", "struct", "signal"}
QUICK_COMMANDS = [
    pytest.param("list", SLOW_TO_IMPORT | ALSO_SLOW, id="list"),
    pytest.param("stat -- true", SLOW_TO_IMPORT, id="stat", marks=pytest.mark.live),
    pytest.param("stat -a -I 10 --interval-count 2", SLOW_TO_IMPORT, id="stat intervals", marks=pytest.mark.system_wide),
    pytest.param("record -o x -e cpu-clock -- true", SLOW_TO_IMPORT - {"typing", "re", "contextlib"}, id="record", marks=pytest.mark.live),
]


def loaded_by(*args: str, cwd: Path, start: str = START) -> tuple[set[str], subprocess.CompletedProcess[str]]:
    """The top-level packages that a perfpy process loads."""
    process = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", start, *args], capture_output=True, text=True, cwd=cwd, timeout=60, check=False
    )
    lines = re.findall(r"^import time:.*\| +([\w.]+)$", process.stderr, re.MULTILINE)
    return {name.split(".")[0] for name in lines}, process


@pytest.mark.parametrize("args", [["--help"], ["--version"], ["list", "sw"], ["stat", "--help"], ["record", "--help"]], ids=" ".join)
def test_the_quick_commands_load_nothing_heavy(args, tmp_path):
    loaded, process = loaded_by(*args, cwd=tmp_path)
    assert process.returncode == 0, process.stderr[-500:]
    assert "perfpy" in loaded
    by_shutil = {"compression"} if "shutil" in loaded and sys.version_info >= (3, 14) else set()  # click loads shutil for its screens
    assert not loaded & HEAVY - by_shutil


@pytest.mark.parametrize("command", COMMANDS)
def test_no_help_loads_numpy(command, tmp_path):
    loaded, process = loaded_by(command, "--help", cwd=tmp_path)
    assert process.returncode == 0, process.stderr[-500:]
    assert "perfpy" in loaded
    assert "numpy" not in loaded


@pytest.mark.live
@pytest.mark.parametrize("args", [["stat", "--", "true"], ["record", "-o", "x", "-e", "cpu-clock", "--", "true"]], ids=" ".join)
def test_measuring_loads_nothing_heavy(args, tmp_path):
    loaded, process = loaded_by(*args, cwd=tmp_path)
    assert process.returncode == 0, process.stderr[-500:]
    assert not loaded & (HEAVY | {"click"})


@pytest.mark.parametrize(("line", "slow"), QUICK_COMMANDS)
def test_the_quick_commands_load_nothing_slow(line, slow, tmp_path):
    before, _ = loaded_by(cwd=tmp_path, start="pass")
    loaded, process = loaded_by(*line.split(), cwd=tmp_path)
    assert process.returncode == 0, process.stderr[-500:]
    result = (loaded - before) & slow
    assert not result


@pytest.mark.parametrize("line", ["evlist", "report --header-only", "script --header-only", "report --tasks", "report --mmaps"])
def test_headers_are_shown_without_anything_heavy(line, tmp_path):
    (tmp_path / "perf.data").write_bytes(simple_recording(3).file())
    loaded, process = loaded_by(*line.split(), "-i", "perf.data", cwd=tmp_path)
    assert process.returncode == 0, process.stderr[-500:]
    assert "perfpy" in loaded
    assert not loaded & (HEAVY | {"click", "inspect"})


@pytest.mark.parametrize("line", ["report --header-only", "script --header-only", "report --header --mmaps"])
def test_headers_are_shown_without_anything_slow(line, tmp_path):
    """Python's own start takes as long as perf's whole run: what is added counts."""
    (tmp_path / "perf.data").write_bytes(simple_recording(3).feature(Feature.HOSTNAME, "here").file())
    before, _ = loaded_by(cwd=tmp_path, start="pass")
    loaded, process = loaded_by(*line.split(), "-i", "perf.data", cwd=tmp_path)
    assert process.returncode == 0, process.stderr[-500:]
    assert "# hostname : here" in process.stdout
    result = (loaded - before) & (SLOW_TO_IMPORT | ALSO_SLOW - {"struct"} | {"functools", "collections"})
    assert not result


NOT_FOR_ALL = {
    "report": {
        "analysis.report.call_trees",
        "analysis.report.hierarchy",
        "analysis.event_sort_keys",
        "views.report.callchain_text",
        "views.script.field_text",
    },
    "script": {"views.record_text", "analysis.report"},
}
NOT_FOR_MOST = {
    "abi.perf_records",
    "debuginfo.inlined_frames",
    "debuginfo.unit_index",
    "perfdata.event_format",
    "symbols.jitdump",
    "symbols.perf_map",
    "unwind",
    "views.readable",
}


@pytest.mark.parametrize("command", ["report", "script"])
def test_rare_features_are_loaded_on_request(command, tmp_path):
    """dataclasses: of the modules that every report needs; making one takes as long as reading a small recording's samples."""
    (tmp_path / "perf.data").write_bytes(simple_recording(3).file())
    script = "import sys; from perfpy.cli import run; run(sys.argv[1:]); print(*sys.modules)"
    line = [sys.executable, "-c", script, command, *(["--stdio"] if command == "report" else []), "-i", "perf.data"]
    run = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path, check=True)
    loaded = {name.removeprefix("perfpy.") for name in run.stdout.splitlines()[-1].split()}
    assert not loaded & (NOT_FOR_ALL[command] | NOT_FOR_MOST | {"elftools", "hashlib", "random"})
    assert command == "script" or "dataclasses" not in loaded
    assert {"abi.records", "numpy"} <= loaded


def test_modules_of_rare_features_exist():
    """So that the test above does not look for names that have changed."""
    missing = {name for name in set().union(*NOT_FOR_ALL.values(), NOT_FOR_MOST) if f"perfpy.{name}" not in MODULES}
    assert not missing


def test_importing_the_package_is_nearly_free(tmp_path):
    script = "import sys; before = set(sys.modules); import perfpy; print(*sorted(set(sys.modules) - before))"
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=CHECKOUT, timeout=60, check=True)
    loaded = set(process.stdout.split())
    assert {name for name in loaded if name.startswith("perfpy")} == {"perfpy", "perfpy.errors"}
    assert not {name.split(".")[0] for name in loaded} & (HEAVY | {"click", "subprocess", "inspect"})
