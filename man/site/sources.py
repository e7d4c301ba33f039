"""The pages of the manual's site as Markdown: commands from their declarations, the other pages from the repository's files."""

from __future__ import annotations

import os.path
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

import perfpy
from perfpy.cli.commands import COMMANDS, load_command
from perfpy.cli.line.examples import EXAMPLES
from perfpy.cli.top_level import TOPICS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from perfpy.cli.line.option_parsing import Option

CHECKOUT: Final = Path(__file__).resolve().parents[2]
#: a file of the repository -> its page
PAGES: Final = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "perfpy/README.md": "architecture.md",
    "perfpy/events/tables/README.md": "event-tables.md",
    ".github/CONTRIBUTING.md": "contributing.md",
    ".github/SECURITY.md": "security.md",
    ".github/notebook.md": "notebook.md",
    "man/packaging.md": "packaging.md",
    **{f"man/topics/{name}.md": f"topics/{name}.md" for name in TOPICS},
}
#: files that pages show or link to, as they are
FILES: Final = {
    **{f".github/{name}": f"files/{name}" for name in ("report.svg", "top.svg", "colours.svg", "page.png", "notebook.png")},
    **{f"perfpy/events/tables/{maker}/LICENSE": f"files/{maker}-license.txt" for maker in ("arm", "intel", "power")},
}
_SECTIONS: Final = {
    "Topics": [f"topics/{name}" for name in TOPICS],
    "Commands": ["commands/perfpy", *(f"commands/{name}" for name in COMMANDS)],
    "Python": ["api", "notebook"],
    "Project": ["changelog", "security", "packaging", "contributing", "architecture", "event-tables"],
}
_LINK: Final = re.compile(r"\]\(([^)#\s]+)(#[^)]*)?\)")
_MANUAL: Final = re.compile(r"\bperfpy(?:-([a-z-]+))?\(([17])\)")
_MARKUP: Final = re.compile(r"([\\`*_{}\[\]<>#|~$])")


def sources() -> Iterator[tuple[str, str]]:
    """Yield the path and the text of each page."""
    for path, page in PAGES.items():
        text = _relinked((CHECKOUT / path).read_text(), path, page)
        yield page, text + _contents() if page == "index.md" else text
    yield "commands/perfpy.md", "\n".join(["# perfpy", "", *_prose("perfpy", *_titles("perfpy"))])
    for name in COMMANDS:
        yield f"commands/{name}.md", "\n".join(_command_page(name)) + "\n"
    yield "api.rst", "\n".join(_api_page()) + "\n"


def _relinked(text: str, path: str, page: str) -> str:
    """Return a file's text with links to other files of the repository as links to their pages.

    Raises KeyError for a file that has no page.
    """
    homes = PAGES | FILES

    def link(match: re.Match[str]) -> str:
        if "://" in match[1]:
            return match[0]
        linked = os.path.normpath(os.path.join(os.path.dirname(path), match[1]))
        return f"]({os.path.relpath(homes[linked], os.path.dirname(page))}{match[2] or ''})"

    return _LINK.sub(link, text)


def _contents() -> str:
    lines = []
    for title, pages in _SECTIONS.items():
        lines += ["", "```{toctree}", ":hidden:", f":caption: {title}", "", *pages, "```"]
    return "\n".join(lines) + "\n"


def _command_page(name: str) -> Iterator[str]:
    command = load_command(name)
    before, after = _titles(f"perfpy-{name}")
    yield from (f"# perfpy {name}", "", f"{_plain(_sentence(COMMANDS[name].help))}.", "")
    yield from ("```text", f"perfpy {name} {command.usage}", "```", "")
    yield from _prose(f"perfpy-{name}", before)
    if name in EXAMPLES:
        yield from ("## Examples", "")
    for example in EXAMPLES.get(name, ()):
        yield from (_plain(f"{_sentence(example.wish)}:"), "", "```console", *(f"$ {line}" for line in example.lines), "```", "")
    yield from ("## Options", "", *_options(command.options))
    yield from _prose(f"perfpy-{name}", after)


def _sentence(phrase: str) -> str:
    return phrase[0].upper() + phrase[1:]


def _options(options: Iterable[Option]) -> Iterator[str]:
    for option in options:
        if not option.hidden:
            yield from (f"`{option.help_names().strip()}`", f": {_plain(option.help) or '(none)'}", "")


def _titles(page: str) -> tuple[list[str], list[str]]:
    """Return the sections of a prose file that stand before the options, and those after them."""
    titles = [line[2:] for line in _prose_lines(page) if line.startswith("# ")]
    before = [title for title in titles if title == "DESCRIPTION"]
    return before, [title for title in titles if title not in before]


def _prose_lines(page: str) -> list[str]:
    return (CHECKOUT / "man" / "prose" / f"{page}.txt").read_text().splitlines()


def _prose(page: str, *groups: list[str]) -> Iterator[str]:
    """Yield sections of a prose file, whose layout man/generate.py describes, as Markdown."""
    titles = [title for group in groups for title in group]
    is_wanted = is_literal = False
    for line in _prose_lines(page):
        if is_literal and not line.startswith("    "):
            yield from ("```", "")
            is_literal = False
        if line.startswith("# "):
            is_wanted = line[2:] in titles
            if is_wanted:
                yield from ("", f"## {_plain(line[2:].capitalize())}", "")
        elif is_wanted and line.startswith("    "):
            if not is_literal:
                yield from ("", "```text")
            is_literal = True
            yield line[4:]
        elif is_wanted:
            yield _linked(line)
    if is_literal:
        yield "```"


def _linked(line: str) -> str:
    """Return a line of prose, in which names of manual pages are links."""

    def link(match: re.Match[str]) -> str:
        name = match[1] or "perfpy"
        home = f"{name}.md" if match[2] == "1" else f"../topics/{name}.md"
        return f"[{_plain(match[0])}]({home})"

    pieces, end = [], 0
    for match in _MANUAL.finditer(line):
        pieces += [_plain(line[end : match.start()]), link(match)]
        end = match.end()
    return "".join([*pieces, _plain(line[end:])])


def _plain(text: str) -> str:
    """Return text in which Markdown sees no markup. Option names keep their two hyphens."""
    return _MARKUP.sub(r"\\\1", text)


def _api_page() -> Iterator[str]:
    """Yield the lines of the page of public names: functions, then classes, then exceptions."""
    functions = [name for name in perfpy.__all__ if name[0].islower() and name != "errors"]
    classes = [name for name in perfpy.__all__ if name[0].isupper()]
    errors = [name for name, value in vars(perfpy.errors).items() if isinstance(value, type) and issubclass(value, perfpy.errors.PerfError)]
    yield from ("Public names", "============", "", "The :doc:`page on Python <topics/python>` shows how to use them.", "")
    for title, names, directive, module in (
        ("Functions", functions, "autofunction", "perfpy"),
        ("Classes", classes, "autoclass", "perfpy"),
        ("Exceptions", errors, "autoexception", "perfpy.errors"),
    ):
        yield from (title, "-" * len(title), "")
        for name in names:
            yield f".. {directive}:: {module}.{name}"
            if directive == "autoclass":
                yield "   :members:"
            yield ""
