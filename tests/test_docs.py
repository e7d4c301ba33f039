"""What is written about perfpy agrees with perfpy."""

from __future__ import annotations

import ast
import ctypes
import doctest
import importlib.util
import inspect
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import perfpy
from perfpy.cli.commands import COMMANDS, load_command
from perfpy.cli.line.examples import EXAMPLES
from perfpy.cli.top_level import ALTERNATIVES, TOPICS
from perfpy.perfdata.header import Feature
from tests.builders.perfdata import simple_recording

if TYPE_CHECKING:
    from types import ModuleType

CHECKOUT = Path(__file__).resolve().parents[1]
README = (CHECKOUT / "README.md").read_text()
TOPIC_TEXTS = {path.stem: path.read_text() for path in sorted((CHECKOUT / "man" / "topics").glob("*.md"))}
COMPATIBILITY = TOPIC_TEXTS["compatibility"]
#: the most lines of the front page
FRONT_PAGE_LINES = 180
#: the most characters of an option's help text
HELP_WIDTH = 62


def generator(folder: str) -> ModuleType:
    """The script that writes the files of a folder."""
    specification = importlib.util.spec_from_file_location(f"generate_{folder}", CHECKOUT / folder / "generate.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


# -- manual pages and completions ---------------------------------------------


def test_the_manual_pages_are_up_to_date():
    manual_pages = generator("man").pages()
    assert set(manual_pages) == set((CHECKOUT / "man").glob("*.[17]")), "run: python man/generate.py"
    assert [path.name for path, text in manual_pages.items() if path.read_text() != text] == [], "run: python man/generate.py"


def test_the_completions_are_up_to_date():
    completion_scripts = generator("completions").scripts()
    assert [path.name for path, text in completion_scripts.items() if path.read_text() != text] == [], "run: python completions/generate.py"


def test_pip_installs_every_page_and_completion():
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    shared = set(project["tool"]["hatch"]["build"]["targets"]["wheel"]["shared-data"])
    pages = {f"man/{path.name}" for path in (CHECKOUT / "man").glob("*.[17]")}
    completions = {f"completions/perfpy.{shell}" for shell in ("bash", "zsh", "fish")}
    assert shared == pages | completions


@pytest.mark.parametrize("path", sorted((CHECKOUT / "man").glob("*.[17]")), ids=lambda path: path.name)
@pytest.mark.skipif(shutil.which("groff") is None, reason="there is no groff to check the pages with")
def test_a_page_is_good_roff(path):
    process = subprocess.run(["groff", "-man", "-Tutf8", "-ww", path], capture_output=True, text=True, check=True)
    assert process.stderr == ""
    assert path.stem.upper() in process.stdout


@pytest.mark.parametrize(("shell", "check"), [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")])
def test_a_completion_is_a_good_script(shell, check):
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    subprocess.run([shell, check, CHECKOUT / "completions" / f"perfpy.{shell}"], check=True)


# -- help ----------------------------------------------------------------------


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_explained(name):
    command = load_command(name)
    assert command.help
    assert [option.spellings for option in command.options if not option.hidden and not option.help] == []


def test_help_texts_are_short():
    """A help text is one phrase; the manual page has the details."""
    texts = {option.help for name in COMMANDS for option in load_command(name).options if not option.hidden and not option.kind.lacking}
    assert [text for text in texts if len(text) > HELP_WIDTH or text.endswith(".")] == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_help_and_manual_page_show_examples_before_the_options(name):
    help_text = load_command(name).help_text(name)
    page = generator("man").pages()[CHECKOUT / "man" / f"perfpy-{name}.1"].replace("\\-", "-").replace("\\e", "\\")
    for text, options in ((help_text, "\nOptions:"), (page, ".SH OPTIONS")):
        before = text.partition(options)[0]
        assert [line for example in EXAMPLES[name] for line in example.lines if line not in before] == []


def test_common_commands_have_examples():
    assert {"stat", "record", "report", "script", "list", "diff"} <= set(EXAMPLES) <= set(COMMANDS)


def test_examples_fit_a_terminal():
    lines = [line for examples in EXAMPLES.values() for example in examples for line in (*example.lines, f"# {example.wish}")]
    assert [line for line in lines if len(line) > 78] == []


@pytest.mark.parametrize("path", sorted((CHECKOUT / "man").glob("perfpy-*.1")), ids=lambda path: path.name)
def test_a_manual_page_has_all_sections(path):
    expected = (
        ["SEE ALSO"] if path.stem in ("perfpy-check", "perfpy-help", "perfpy-version") else ["EXAMPLES", "ENVIRONMENT", "FILES", "SEE ALSO"]
    )
    sections = re.findall(r'^\.SH "?([A-Z ]+?)"?$', path.read_text(), re.MULTILINE)
    assert [section for section in expected if section not in sections] == []
    assert sorted(sections) == sorted(set(sections))


@pytest.mark.parametrize("name", COMMANDS)
def test_no_spelling_is_taken_twice(name):
    spellings = [spelling for option in load_command(name).options for spelling in option.spellings]
    assert sorted(spellings) == sorted(set(spellings))


# -- README --------------------------------------------------------------------


def test_the_front_page_is_short():
    assert len(README.splitlines()) <= FRONT_PAGE_LINES


def test_the_front_page_leads_to_every_topic():
    assert list(TOPICS) == [name for name in TOPICS if f"(man/topics/{name}.md)" in README]
    assert set(TOPICS) == set(TOPIC_TEXTS)


def test_the_front_page_names_every_command_that_is_there_and_none_that_is_not():
    limits = README.partition("\n## Compatibility and limits\n")[2].partition("\n## ")[0]
    has, _, lacks = limits.partition("It does not have ")
    assert [name for name in COMMANDS if f"`{name}`" not in has] == []
    lacking = re.findall(r"`([\w-]+)`", lacks.partition(".")[0])
    assert lacking
    assert [name for name in lacking if name not in ALTERNATIVES] == []


def test_the_compatibility_page_names_every_command():
    missing = [name for name in COMMANDS if f"`perfpy {name}`" not in COMPATIBILITY]
    assert missing == []


def documented_commands() -> list[list[str]]:
    """Return the perfpy lines of README's and the topics' examples, as words."""
    texts = "\n".join((README, *TOPIC_TEXTS.values()))
    lines = re.findall(r"^(?:    |\$ |    \$ )(?:\.venv/bin/)?perfpy (.*)$", texts, re.MULTILINE)
    return [shlex.split(line.split(" | ")[0].split(" > ")[0], comments=True) for line in lines]


@pytest.mark.parametrize("words", documented_commands(), ids=" ".join)
def test_the_options_of_documented_commands_exist(words):
    from perfpy.cli.line.option_parsing import Parser

    if words[0] in ("./program", "python3", "PID"):  # these lines have no options of their own
        return
    command = load_command(words[0])
    Parser(command.options, stops_at_word=command.runs_workload).parse(words[1:])


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_compatibility_page_explains_missing_options(name):
    """Several options with the same reason need one mention; options that perf has dropped need none."""
    reasons: dict[str, bool] = {}
    for one in load_command(name).options:
        if one.kind.lacking and "perf dropped it" not in one.kind.lacking:
            is_named = any(re.search(re.escape(spelling) + r"(?![\w-])", COMPATIBILITY) for spelling in one.spellings)
            reasons[one.kind.lacking] = reasons.get(one.kind.lacking, False) or is_named
    assert [reason for reason, is_named in reasons.items() if not is_named] == []


@pytest.mark.parametrize("page", ["README.md", "man/topics/python.md"])
def test_the_python_examples_are_python(page):
    blocks = re.findall(r"```python\n(.*?)```", (CHECKOUT / page).read_text(), re.DOTALL)
    assert blocks
    for block in blocks:
        compile(block, page, "exec")
        for name in re.findall(r"perfpy\.(\w+)\(", block):
            assert name in perfpy.__all__


@pytest.mark.parametrize("page", ["README.md", *(f"man/topics/{name}.md" for name in TOPIC_TEXTS)])
def test_the_links_of_a_page_lead_somewhere(page):
    path = CHECKOUT / page
    targets = re.findall(r"\]\(([^)#:]+)\)", path.read_text())
    assert [target for target in targets if not (path.parent / target).exists()] == []


@pytest.mark.parametrize("name", TOPICS)
def test_help_prints_a_topic(name, capsys):
    assert load_command("help").run("help", [name]) == 0
    assert capsys.readouterr().out == TOPIC_TEXTS[name]


# -- docstrings ----------------------------------------------------------------


MEASURING = {
    *"stat record count Region watch compare counted profile Comparison Count Counts ProgramCounts".split(),
    *"Counter CounterGroup RecordSummary Ring RingSample UserReading LiveSample EventStream Profiler enable_all disable_all".split(),
}  # fmt: skip
M_MMAP_THRESHOLD = -3  # mallopt(3)
DOCUMENTED = [name for name in perfpy.__all__ if inspect.getdoc(getattr(perfpy, name))]


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.live] if name in MEASURING else []) for name in DOCUMENTED])
def test_the_examples_in_public_docstrings_hold(name, tmp_path, monkeypatch):
    """In a folder that has a perf.data, and with new pages for new memory, which commands in this process may have switched off."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallopt"):
        libc.mallopt(M_MMAP_THRESHOLD, 128 << 10)
        libc.malloc_trim(0)  # memory that was kept until now serves large requests, too
    monkeypatch.chdir(tmp_path)
    (tmp_path / "perf.data").write_bytes(simple_recording().feature(Feature.HOSTNAME, "here").file())
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL)
    for example in doctest.DocTestFinder(recurse=True).find(getattr(perfpy, name), name, module=False):
        assert runner.run(example).failed == 0


def test_everything_public_has_an_example():
    """But for AUX areas, which hardware writes that few machines have."""
    lacking = [
        name for name in DOCUMENTED if callable(getattr(perfpy, name)) and ">>>" not in (inspect.getdoc(getattr(perfpy, name)) or "")
    ]
    assert lacking == ["AuxArea"]


# -- the guide to the code ------------------------------------------------------

GUIDE = (CHECKOUT / "perfpy" / "README.md").read_text()
CONTRIBUTING = (CHECKOUT / ".github" / "CONTRIBUTING.md").read_text()
SECURITY = (CHECKOUT / ".github" / "SECURITY.md").read_text()
GUESTS = (CHECKOUT / "tests" / "guests" / "README.md").read_text()


def named_paths(text: str) -> list[str]:
    """Every file or folder that a page names in back quotes."""
    return re.findall(r"`((?:[\w.]+/)+(?:[\w.]+)?|[\w]+\.py)`", text)


@pytest.mark.parametrize(
    ("page", "least"), [(GUIDE, 20), (CONTRIBUTING, 20), (SECURITY, 5), (GUESTS, 5)], ids=["guide", "contributing", "security", "guests"]
)
def test_modules_named_by_pages_exist(page: str, least: int) -> None:
    paths = sorted(set(named_paths(page)))
    assert len(paths) >= least
    places = [CHECKOUT / folder for folder in ("perfpy", ".", "tests", "tests/guests")]
    assert [path for path in paths if not any((place / path).exists() or (place / f"{path}.py").exists() for place in places)] == []


def changes() -> list[tuple[str, list[str], list[str]]]:
    """Return the rows of the table "To change X, open Y": X, the paths, and the names that they define."""
    table = GUIDE.partition("\n## To change X, open Y\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| (.+) \|$", table, re.MULTILINE)[1:]
    return [(wish, named_paths(cell), re.findall(r"`(\w+)`", cell)) for wish, cell in rows if set(wish) != {"-"}]


@pytest.mark.parametrize(("paths", "names"), [pytest.param(paths, names, id=wish) for wish, paths, names in changes()])
def test_the_modules_to_change_define_the_names_beside_them(paths: list[str], names: list[str]) -> None:
    assert paths
    text = "\n".join((CHECKOUT / "perfpy" / path).read_text() for path in paths if path.endswith(".py"))
    defined = {name for name in names if re.search(rf"^\s*(?:(?:def|class) {name}\b|{name}\b[^=(]*=)", text, re.MULTILINE)}
    assert defined == set(names)


@pytest.mark.parametrize("room", sorted(path.name for path in (CHECKOUT / "perfpy").iterdir() if (path / "__init__.py").exists()))
def test_the_guide_has_every_room(room: str) -> None:
    assert f"| `{room}` |" in GUIDE


def missing_part(name: str) -> str:
    """Return the first part of a dotted name below perfpy that does not exist, or ""."""
    parts, place = name.split(".")[1:], CHECKOUT / "perfpy"
    while parts and (place / parts[0]).is_dir():
        place /= parts.pop(0)
    if parts and (place / f"{parts[0]}.py").is_file():
        place /= f"{parts.pop(0)}.py"
    elif place == CHECKOUT / "perfpy":
        return "" if not parts or hasattr(perfpy, parts[0]) else parts[0]
    else:
        place /= "__init__.py"
    return "" if not parts or parts[0].startswith("__") or re.search(rf"\b{parts[0]}\b", place.read_text()) else parts[0]


def test_dotted_names_in_docstrings_and_pages_exist() -> None:
    patterns = "perfpy/**/*.py", "perfpy/*.md", "man/topics/*.md", "*.md", ".github/*.md"
    pages = [path for pattern in patterns for path in CHECKOUT.glob(pattern)]
    assert len(pages) > 400
    wrong = [
        f"{path.relative_to(CHECKOUT)}: {name}"
        for path in pages
        for name in re.findall(r"\bperfpy(?:\.[a-z_]\w*)+", path.read_text())
        if name != "perfpy.json" and missing_part(name)  # a file in a folder of tables
    ]
    assert not wrong


@pytest.mark.parametrize("name", ["perfpy.nowhere", "perfpy.symbols.nowhere", "perfpy.symbols.elf.nowhere", "perfpy.errors.NoSuchError"])
def test_a_dotted_name_that_does_not_exist_is_noticed(name: str) -> None:
    assert missing_part(name)


ROOMS = sorted(path.parent for path in (CHECKOUT / "perfpy").rglob("__init__.py") if path.parent != CHECKOUT / "perfpy")


@pytest.mark.parametrize("room", ROOMS, ids=[str(room.relative_to(CHECKOUT)) for room in ROOMS])
def test_a_room_says_what_it_is_for(room: Path) -> None:
    """In a few lines: a table of contents would repeat the docstrings of its modules."""
    tree = ast.parse((room / "__init__.py").read_text())
    docstring = ast.get_docstring(tree) or ""
    assert docstring
    assert len(tree.body) > 1 or len(docstring.splitlines()) <= 12


def test_each_row_of_the_tables_of_ratios_can_be_measured():
    figures = CHECKOUT / "tests/bench/figures.py"
    assert "unmeasured()" in figures.read_text()
    subprocess.run([sys.executable, "-m", "doctest", figures], check=True)
