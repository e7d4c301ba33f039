"""Write the manual pages: options from the commands' declarations, prose from man/prose, topics from man/topics.

    python man/generate.py          writes man/*.1 and man/*.7
    python man/generate.py --check  exits 1 when a page is not up to date

Examples are those of help (perfpy/cli/line/examples.py). A prose file is plain text. "# SECTION" begins a section; a blank line ends a
paragraph; lines indented by four spaces are shown as they are. DESCRIPTION
and the examples come before the options, the other sections after them. The layout of the
pages is that of man(7).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from perfpy import __version__
from perfpy.cli.commands import COMMANDS, load_command
from perfpy.cli.forwarded_actions import OtherCommand
from perfpy.cli.line.examples import EXAMPLES
from perfpy.cli.line.subcommands import CommandWithActions
from perfpy.cli.top_level import TOPICS, USAGE, PerfpyOptions

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from topic_pages import escape as _escape  # noqa: E402  # it lies beside this script, wherever that is called from
from topic_pages import topic_page  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from perfpy.cli.line.option_parsing import Option
    from perfpy.cli.line.subcommands import Action


def pages() -> dict[Path, str]:
    """Every page: the file's path -> its text."""
    whole = _page("perfpy", "Linux perf in Python", USAGE, PerfpyOptions.declared_options(), _command_list())
    made = {HERE / "perfpy.1": whole}
    for name, entry in COMMANDS.items():
        command = load_command(name)
        is_family = isinstance(command, CommandWithActions)
        options, actions = (command.own_options, command.actions) if is_family else (command.options, None)
        made[HERE / f"perfpy-{name}.1"] = _page(f"perfpy-{name}", entry.help, command.usage, options, list(_examples(name)), actions)
    for name, summary in TOPICS.items():
        text = (HERE / "topics" / f"{name}.md").read_text()
        made[HERE / f"perfpy-{name}.7"] = topic_page(name, summary, text, __version__)
    return made


def _page(
    name: str, summary: str, usage: str, options: Iterable[Option], extra: list[str], actions: Mapping[str, Action] | None = None
) -> str:
    title = name.replace("-", " ", 1)
    before, after = _prose(HERE / "prose" / f"{name}.txt")
    lines = [
        f'.TH {name.upper()} 1 "" "perfpy {__version__}" "perfpy manual"',
        ".SH NAME",
        _escape(f"{name} - {summary}"),
        ".SH SYNOPSIS",
        f".B {_escape(title)}",
        _escape(usage),
        *before,
        *extra,
        ".SH OPTIONS",
        *_options(options),
        *(line for action, one in (actions or {}).items() for line in _action(f"{title} {action}", one)),
        *after,
        ".SH SEE ALSO",
        *_see_also(name),
    ]
    return "\n".join(lines) + "\n"


def _action(title: str, action: Action) -> Iterator[str]:
    """The section of one action."""
    yield f'.SH "{_escape(title.upper())}"'
    yield _escape(f"{title} {action.usage}: {action.summary}.")
    if isinstance(action, OtherCommand):
        yield _escape(f"It takes the options of perfpy-{action.name}(1).")
        return
    yield from _options(action.options)


def _command_list() -> list[str]:
    lines = [".SH COMMANDS"]
    for name, entry in COMMANDS.items():
        lines += [".TP", f"\\fBperfpy\\-{_escape(name)}\\fR(1)", _escape(entry.help)]
    return lines


def _examples(name: str) -> Iterator[str]:
    if name in EXAMPLES:
        yield '.SH "EXAMPLES"'
    for wish, lines in EXAMPLES.get(name, ()):
        yield from (".PP", _escape(f"{wish[0].upper()}{wish[1:]}:"), ".PP", ".EX")
        yield from (_escape(f"    {line}") for line in lines)
        yield ".EE"


def _options(options: Iterable[Option]) -> Iterator[str]:
    for option in options:
        if not option.hidden:
            yield ".TP"
            yield f"\\fB{_escape(option.help_names().strip())}\\fR"
            yield _escape(option.help)


def _prose(path: Path) -> tuple[list[str], list[str]]:
    """The lines for before and after the options."""
    before: list[str] = []
    after: list[str] = []
    into = before
    literal = False
    for line in path.read_text().splitlines():
        if literal and not line.startswith("    "):
            into.append(".EE")
            literal = False
        if line.startswith("# "):
            section = line[2:]
            into = before if section == "DESCRIPTION" else after
            into.append(f'.SH "{section}"')
        elif line.startswith("    "):
            if not literal:
                into += [".PP", ".EX"]
            literal = True
            into.append(_escape(line))
        elif line:
            into.append(_escape(line))
        else:
            into.append(".PP")
    return before, [*after, ".EE"] if literal else after


def _see_also(name: str) -> list[str]:
    others = [other for other in ("perfpy", *(f"perfpy-{command}" for command in COMMANDS)) if other != name]
    pages = [f"\\fB{_escape(other)}\\fR(1)" for other in others] + [f"\\fB{_escape(f'perfpy-{topic}')}\\fR(7)" for topic in TOPICS]
    return [",\n".join(pages) + ",", "\\fBperf_event_open\\fR(2)"]


def main(arguments: list[str]) -> int:
    """Write the pages, or check them."""
    made = pages()
    if arguments == ["--check"]:
        stale = [path.name for path, text in made.items() if not path.exists() or path.read_text() != text]
        stale += [path.name for path in HERE.glob("*.[17]") if path not in made]
        if stale:
            print("not up to date:", *stale, file=sys.stderr)
        return 1 if stale else 0
    for path, text in made.items():
        path.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
